"""The releases file: every release of the same data, and what all of them cost together.

A line is written before the noise of its release is drawn, so a run that is killed is charged. A run with a known seed
is not recorded: it protects no one, is never called a release, and no sum that holds it would have an epsilon.
The file is the curator's. No card reads it: which runs there were before is not a public fact.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import Field, ValidationError, model_validator

from dpgraph.config.config import first_line
from dpgraph.config.frozen import Finite
from dpgraph.core.errors import UserError
from dpgraph.core.files import cause
from dpgraph.families.votes.epsilon import released_epsilon
from dpgraph.own_graph.budget import BudgetedRun
from dpgraph.own_graph.graph import OwnGraph
from dpgraph.privacy.guarantee import Guarantee, at_most
from dpgraph.privacy.relation import Relation

SUFFIX = ".releases.jsonl"  # after the name of an input file
BESIDE_OUT = f"dpgraph{SUFFIX}"  # for data that are no file of the user's
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
Cost = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class StatedCost(Finite):
    """A guarantee of a release under one relation."""

    relation: Relation
    epsilon: Cost
    delta: Share


class RecordedRelease(StatedCost):
    """A line of a releases file. `mu`, `choice` and `failure` are those of `BudgetedRun`, under `relation`.

    `mu` None: it depends on classes that were chosen by noisy counts, so only epsilon and delta are known beforehand.
    `others`: what the release states under other relations.
    """

    id: Annotated[str, Field(min_length=8)]
    at: str
    folder: str | None
    method: str
    scope: str
    mu: Cost | None = None
    choice: Cost = 0.0
    failure: Annotated[float, Field(ge=0, lt=1)] = 0.0
    others: tuple[StatedCost, ...] = ()

    @model_validator(mode="after")
    def _failure_is_in_delta(self) -> RecordedRelease:
        if self.failure >= self.delta:
            raise ValueError(f"failure={self.failure}: expected a number < delta = {self.delta}")
        return self


def cost_of(what: BudgetedRun, guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    """Return the fields of a recorded release that a planned budget determines; `guarantees` are the others' it
    states."""
    others = [
        {"relation": one.relation, "epsilon": one.epsilon, "delta": one.delta}
        for one in guarantees if one.epsilon is not None and one.delta
    ]  # fmt: skip
    spent = {"mu": what.mu, "choice": what.choice, "failure": what.failure, "others": others}
    return {"relation": what.relation, "epsilon": what.epsilon, "delta": what.delta, "method": what.kind, **spent}


def charge(
    own: OwnGraph, cost: Mapping[str, Any], scope: str, folder: Path | None, releases: str | Path | None = None
) -> list[str]:
    """Record a release before its noise is drawn, and return what all releases of these data cost, in lines.

    `cost`: as of `cost_of`; before classes are chosen the requested relation, epsilon, delta and method.

    Raises UserError where it cannot be recorded: then no noise may be drawn.
    """
    paths = releases_files(own, folder, releases)
    if not paths:
        return [
            "this release is recorded in no releases file: the data are no file and --out is not given (--releases)"
        ]
    release = RecordedRelease(
        id=secrets.token_hex(8), at=datetime.now(UTC).isoformat(timespec="seconds"),
        folder=None if folder is None else str(folder.resolve()), scope=scope, **cost,
    )  # fmt: skip
    shown = ", ".join(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path) for path in paths)
    if releases is None and not own.files:
        shown += ": all releases in it count as of the same data (--releases names another file)"
    return [f"recorded in {shown}", *in_words(record(paths, release), release.relation, len(own.ids))]


def releases_files(own: OwnGraph, folder: Path | None, named: str | Path | None = None) -> list[Path]:
    """Return `named`, or a file next to each input file, or one next to the folder that is made; else none.

    An edge table and a node table have one each: a release counts for all who share either.
    """
    if named is not None:
        return [Path(named)]
    if own.files:
        resolved = [path.resolve() for path in own.files]
        return sorted({path.with_name(path.name + SUFFIX) for path in resolved})
    return [] if folder is None else [folder.resolve().parent / BESIDE_OUT]


def record(paths: Sequence[Path], release: RecordedRelease) -> list[RecordedRelease]:
    """Append a line to each file and return all releases in them, each once.

    Raises UserError for a file that is damaged or cannot be written. It writes to all files or none.
    """
    known: dict[str, RecordedRelease] = {}
    with ExitStack() as stack:
        files = [(path, stack.enter_context(_opened(path))) for path in paths]
        for path, file in files:
            known |= {one.id: one for one in _read(path, file)}
        line = f"{release.model_dump_json()}\n".encode()
        for path, file in files:
            with _named(path):
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
    return [*known.values(), release]


def together(releases: Sequence[RecordedRelease], relation: Relation) -> tuple[float, float] | None:
    """Return (epsilon, delta) of all releases under a relation; None where one of them makes no statement under it.

    Those made for the relation compose as one Gaussian mechanism, one pure mechanism and unlikely events, at the
    largest delta of one; those that only state it besides, or chose their classes, add their epsilon and delta.
    """
    parts: list[StatedCost | None] = [
        next((one for one in (release, *release.others) if one.relation is relation), None) for release in releases
    ]
    made = [one for one in parts if isinstance(one, RecordedRelease) and one.mu is not None]
    added = [one for one in parts if one is not None and (len(made) == 1 or one not in made)]
    if None in parts:
        return None
    epsilon, delta = math.fsum(one.epsilon for one in added), math.fsum(one.delta for one in added)
    if len(made) > 1:
        left = max(one.delta - one.failure for one in made)
        mu, choice = math.hypot(*(one.mu or 0.0 for one in made)), math.fsum(one.choice for one in made)
        epsilon += released_epsilon(mu=mu, choice=choice, delta=left)
        delta += left + math.fsum(one.failure for one in made)
    return epsilon, delta


def in_words(releases: Sequence[RecordedRelease], relation: Relation, nodes: int) -> list[str]:
    """Return lines for the curator's screen, about data of so many nodes."""
    count = len(releases)
    found = {one: together(releases, one) for one in (relation, *(one for one in Relation if one is not relation))}
    sums = [
        f"{at_most(cost[0], digits=4)} at delta = {at_most(cost[1], digits=3)} ({one})" for one, cost in found.items()
        if cost is not None
    ]  # fmt: skip
    said = f"together epsilon = {'; '.join(sums)}" if sums else "together no epsilon: no relation is stated by each"
    if sums and found[relation] is None:
        said += f"; none under {relation}, which one of them does not state"
    lines = [f"with this one, {count} release{'s' * (count > 1)} of these data: {said}"]
    large = [str(one) for one, cost in found.items() if cost is not None and cost[1] * nodes >= 1]
    if large:
        lines.append(
            f"warning: together delta is at least 1 / N = {1 / nodes:.3g} under {', '.join(large)}: what is "
            "protected may be published whole, so that these releases together promise nothing"
        )
    if count > 1:
        lines.append(
            "warning: no epsilon covers a choice of the best of several fits by their accuracy on held-out labels, "
            "which is not private: publish what was to be published before they were compared"
        )
    return lines


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a releases file that this process alone reads and writes; a new one is readable by its owner alone."""
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+b", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    with file:
        with _named(path):
            try:
                fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file; no second file is left with the data
            except OSError as error:
                if error.errno not in WITHOUT_LOCKS:
                    raise
        yield file


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = cause(OSError(error.errno, os.strerror(error.errno or 0)))
        raise UserError(f"{path}: {reason}: a release is recorded before its noise is drawn: expected a file that can "
                        "be written (--releases FILE)") from None  # fmt: skip


def _read(path: Path, file: IO[bytes]) -> list[RecordedRelease]:
    file.seek(0)
    text = file.read()
    found = []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        try:
            found.append(RecordedRelease.model_validate_json(line))
        except ValidationError as error:
            raise _damaged(path, number, first_line(error, RecordedRelease)) from None
    if text and not text.endswith(b"\n"):
        raise _damaged(path, len(found) + 1, "it does not end")
    if len({one.id for one in found}) < len(found):
        raise _damaged(path, len(found), "a release twice")
    return found


def _damaged(path: Path, line: int, reason: str) -> UserError:
    return UserError(f"{path}, line {line}: {reason}: expected a release in each line; restore the file, or count its "
                     "releases by hand and start another one (--releases FILE)")  # fmt: skip
