"""Snakemake as `dpgraph run` starts it: `python -m dpgraph.pipeline.interruptible OPTIONS`.

What the machine lacks is said before Snakemake plans anything. Its exit status is that of a program that Ctrl-C or
SIGTERM ended: Snakemake itself ends with 1 then, as after a failure, so that `dpgraph run a && dpgraph run b` and
scripts cannot tell the two apart.
"""

import io
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from types import FrameType
from typing import Any

from dpgraph.core.errors import UserError

# by executor, the programs that a run calls; the first only lists partitions
PROGRAMS = {"slurm": ("sinfo", "sbatch", "squeue", "scancel")}
# with one of these, Snakemake runs no job
RUNS_NOTHING = ("dryrun", "touch", "unlock", "lint", "report", "summary", "detailed_summary", "list_rules")


def main() -> int:
    """Return Snakemake's status, 130 or 143 after Ctrl-C or SIGTERM, 2 where the machine lacks what options need."""
    from snakemake.cli import main as snakemake
    from snakemake.scheduling.job_scheduler import JobScheduler

    ended_by = 0
    finish = JobScheduler.exit_gracefully  # its handler of SIGTERM: no further job starts

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal ended_by
        ended_by = number
        signal.default_int_handler(number, frame)

    def terminate(scheduler: Any, number: int, frame: FrameType | None) -> None:
        nonlocal ended_by
        ended_by = number
        finish(scheduler, number, frame)

    signal.signal(signal.SIGINT, interrupt)
    JobScheduler.exit_gracefully = terminate
    try:
        options = snakemake_options(sys.argv[1:])
        if not any(getattr(options, name, None) for name in RUNS_NOTHING):
            check_cluster(options.executor or "")
        snakemake(sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except SystemExit as ended:
        if ended.code in (0, None):
            return 0
        return 128 + ended_by if ended_by else 1
    except KeyboardInterrupt:  # before or after its jobs, where Snakemake does not expect it
        return 128 + signal.SIGINT
    return 0


def snakemake_options(arguments: Sequence[str]) -> Any:
    """Return Snakemake's options, those of profiles among them. Raises UserError for what Snakemake does not take."""
    from snakemake.cli import parse_args

    said = io.StringIO()
    try:
        with redirect_stderr(said):  # Snakemake reads them once more, and says what it reads then
            return parse_args(list(arguments))[1]
    except SystemExit as ended:
        if ended.code in (0, None):
            raise
        line = (said.getvalue().strip().splitlines() or ["an error that it does not name"])[-1]
        raise UserError(f"options of Snakemake: {re.sub('^([^ ]+: )?error: ', '', line, flags=re.I)}") from None
    except Exception as error:  # of any kind: a profile may hold anything
        raise UserError(f"options of Snakemake: {error}") from None


def check_cluster(executor: str) -> None:
    """Raise UserError where this machine lacks a program by which the executor submits jobs, or reaches no cluster."""
    programs, found = PROGRAMS.get(executor, ()), ""
    if missing := [program for program in programs if not shutil.which(program)]:
        found = f"no {', '.join(missing)} on the PATH"
    elif programs:
        with suppress(subprocess.TimeoutExpired):  # slow is not certain
            answer = subprocess.run(
                [programs[0], "--noheader"], capture_output=True, text=True, timeout=30, check=False
            )
            if answer.returncode:
                found = (answer.stderr.strip().splitlines() or ["no answer"])[-1]
    if found:
        raise UserError(
            f"executor {executor}: {found}: this machine reaches no cluster: expected a login node of the cluster, "
            "or a run on this machine alone, without --profile and --executor"
        )


if __name__ == "__main__":
    sys.exit(main())
