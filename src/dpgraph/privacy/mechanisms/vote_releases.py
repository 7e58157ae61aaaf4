"""Releases of private votes besides the steps on own records: as a procedure lists them, and in words."""

from __future__ import annotations

from typing import Any, Protocol

from dpgraph.privacy.procedure import Release

MEAN, BUCKETS, READER = "mean of the rows", "votes", "choice of the reader"
LEARNT = "steps of the reader"
HUBS, DEGREES = "who is a hub", "degrees"


class Released(Protocol):
    """What is read of a mechanism of votes; noise in units of its `noise_multiplier`."""

    @property
    def mean_ratio(self) -> float | None: ...
    @property
    def votes_ratio(self) -> float | None: ...
    @property
    def rounds(self) -> int: ...
    @property
    def choice_epsilon(self) -> float: ...
    @property
    def readers(self) -> int: ...
    @property
    def reader_ratio(self) -> float | None: ...
    @property
    def reader_steps(self) -> int: ...
    @property
    def weighted(self) -> dict[str, Any]: ...
    def closed(self) -> tuple[int, float]: ...


def releases_of(mechanism: Released) -> tuple[Release, ...]:
    """In the order in which they are made; the mean comes before the steps."""
    noise, found = mechanism.closed()[1], []
    if mechanism.mean_ratio is not None:
        found.append(Release(kind=MEAN, noise=mechanism.mean_ratio * noise, sensitivity=1.0, count=1))
    if mechanism.votes_ratio is not None:
        over = mechanism.votes_ratio * noise
        votes = Release(kind=BUCKETS, noise=over, sensitivity=1.0, count=1, **mechanism.weighted)
        found += mechanism.rounds * [votes]
    if mechanism.choice_epsilon:
        found.append(Release(kind=READER, noise=mechanism.choice_epsilon, sensitivity=1.0, count=1))
    if mechanism.reader_ratio is not None:
        over = mechanism.reader_ratio * noise
        found.append(Release(kind=LEARNT, noise=over, sensitivity=1.0, count=mechanism.reader_steps))
    return tuple(found)


def texts(mechanism: Released) -> list[str]:
    """Of those that are made."""
    noise = mechanism.closed()[1]
    ratios = (mechanism.mean_ratio, mechanism.votes_ratio, mechanism.reader_ratio)
    mean, voted, learnt = (ratio and ratio * noise for ratio in ratios)
    often = f" of {mechanism.rounds} rounds, each" if mechanism.rounds > 1 else ""
    how = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in mechanism.weighted.items())
    made: tuple[tuple[float | None, str], ...] = (
        (mean, f"mean of all rows of norm 1, noise std {mean or 0:.6g}"),
        (voted, f"buckets of votes{often}, noise std {voted or 0:.6g} B, {how}"),
        (
            mechanism.choice_epsilon,
            f"one of {mechanism.readers} readers chosen at epsilon {mechanism.choice_epsilon:.6g}",
        ),
        (
            learnt,
            f"{mechanism.reader_steps} steps of a reader on what training nodes read, each one clipped gradient of "
            f"norm 1, noise std {learnt or 0:.6g}",
        ),
    )
    return [text for ratio, text in made if ratio]
