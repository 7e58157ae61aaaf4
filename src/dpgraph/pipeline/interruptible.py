"""Snakemake with the exit status of a program that Ctrl-C ended: `python -m dpgraph.pipeline.interruptible OPTIONS`.

Snakemake itself ends with 1 then, as after a failure, so that `dpgraph run a && dpgraph run b` and scripts cannot tell
the two apart.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


def main() -> int:
    """Snakemake's own status, or 130 where Ctrl-C ended it."""
    from snakemake.cli import main as snakemake

    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        snakemake(sys.argv[1:])
    except SystemExit as ended:
        if ended.code in (0, None):
            return 0
        return 128 + signal.SIGINT if interrupted else 1
    except KeyboardInterrupt:  # before or after its jobs, where Snakemake does not expect it
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
