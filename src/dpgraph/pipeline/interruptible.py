"""Snakemake as `dpgraph run` starts it: `python -m dpgraph.pipeline.interruptible OPTIONS`.

What the machine lacks is said before Snakemake plans anything. Its exit status is that of a program that Ctrl-C ended:
Snakemake itself ends with 1 then, as after a failure, so that `dpgraph run a && dpgraph run b` and scripts cannot tell
the two apart.
"""

from __future__ import annotations

import shutil
import signal
import sys
from types import FrameType

from dpgraph.errors import UserError

PROGRAMS = {"slurm": ("sbatch", "squeue", "scancel")}  # by executor, those that a run calls
# with one of these, Snakemake runs no job
RUNS_NOTHING = ("dryrun", "touch", "unlock", "lint", "report", "summary", "detailed_summary", "list_rules")


def main() -> int:
    """Snakemake's own status, 130 where Ctrl-C ended it, 2 where the machine lacks what the options need."""
    from snakemake.cli import main as snakemake
    from snakemake.cli import parse_args

    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        _, options = parse_args(sys.argv[1:])
        if not any(getattr(options, name, None) for name in RUNS_NOTHING):
            check_programs(options.executor or "")
        snakemake(sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except SystemExit as ended:
        if ended.code in (0, None):
            return 0
        return 128 + signal.SIGINT if interrupted else 1
    except KeyboardInterrupt:  # before or after its jobs, where Snakemake does not expect it
        return 128 + signal.SIGINT
    return 0


def check_programs(executor: str) -> None:
    """Raise UserError where this machine lacks a program by which the executor submits jobs."""
    missing = [program for program in PROGRAMS.get(executor, ()) if shutil.which(program) is None]
    if missing:
        raise UserError(
            f"executor {executor}: {', '.join(missing)}: no such program on the PATH of this machine: "
            "run on a login node of the cluster, or here without --profile and --executor"
        )


if __name__ == "__main__":
    sys.exit(main())
