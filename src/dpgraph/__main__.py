"""`python -m dpgraph`, and the installed `dpgraph`."""

import signal
import sys
from types import FrameType
from typing import NoReturn


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A cluster's time limit and `kill` end a job as Ctrl-C does: unfinished files are removed, a line states why."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def console() -> int:
    signal.signal(signal.SIGTERM, interrupt)

    from dpgraph.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(console())
