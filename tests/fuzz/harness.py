"""Every case ends in a result or in one line for the user: in time, without a traceback, within its memory."""

from __future__ import annotations

import functools
import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dpgraph.config.config import first_line
from dpgraph.core.errors import UserError

SECONDS = 2.0  # of processor time per case
LONGEST_LINE = 4000
MEMORY = 2 << 30  # bytes that a case may reserve beyond what the process has: what a wrong header requests is more
SEED = os.environ.get("DPGRAPH_FUZZ_SEED")  # none: the same cases each time
SHARE = 1 if os.environ.get("DPGRAPH_FUZZ_ALL") else 4  # one case of so many, or with `make test-fuzz` all
SEEDS = st.integers(0, 2**48)


class Hang(BaseException):
    """Not an Exception: no handler of the code under test may take it for damage."""


def fuzzed(
    cases: int, light: int | None = None, **strategies: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test with `cases` / `SHARE` draws of its arguments at least, counted as they run; `light`: by default."""
    cases = light if light is not None and SHARE > 1 else cases // SHARE

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        ran = 0

        @functools.wraps(test)
        def counted(*arguments: Any, **drawn: Any) -> None:
            nonlocal ran
            ran += 1
            test(*arguments, **drawn)

        drawing = settings(
            max_examples=cases,
            deadline=None,
            database=None,
            derandomize=SEED is None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),  # what a random seed makes does not shrink
        )(given(**strategies)(counted))
        if SEED is not None:
            drawing = seed(int(SEED))(drawing)

        @functools.wraps(drawing)
        def whole(*arguments: Any, **fixtures: Any) -> None:
            nonlocal ran
            ran = 0
            drawing(*arguments, **fixtures)
            assert ran >= cases, f"{ran} cases ran, {cases} were asked for"

        return whole

    return decorate


def told(function: Callable[[], Any], *, most_seconds: float = SECONDS) -> str | None:
    """The line that a user reads where `function` refuses its input; None where it takes it. Fails for all else."""
    with warnings.catch_warnings(), _limited(most_seconds):
        warnings.simplefilter("ignore")  # NumPy warns of the numbers that are then refused
        try:
            function()
        except UserError as error:
            line = str(error)
        except ValidationError as error:
            line = f"{error.title}: {first_line(error)}"
        else:
            return None
    assert line.strip(), "an empty message"
    assert line.isprintable(), f"not one line that can be printed: {line!r}"
    assert len(line) <= LONGEST_LINE, f"a message of {len(line)} characters"
    for word in ("Traceback", "MemoryError", "Unable to allocate"):
        assert word not in line, line
    return line


@contextmanager
def _limited(most_seconds: float) -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise Hang(f"more than {most_seconds} s of processor time")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    memory = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, ring)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, memory[1]))
    signal.setitimer(signal.ITIMER_PROF, most_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, memory)
        signal.signal(signal.SIGPROF, before)


def files_in(folder: Path) -> set[str]:
    """Everything below a folder, to see that a refusal leaves nothing behind."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
