"""The jobs of one run of Snakemake, counted from its events, and how long the rest may take.

Snakemake's events say how many jobs of a rule there are and, of those that begin, which. What each will cost is known
to the Snakefile, which runs in the same process and says so by `expect`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dpgraph.progress import duration

JobId = int | str

ENOUGH = 0.05  # share of the whole time that has to have passed before any is told
STEADY_SECONDS = 120.0  # in which most of the way to a new estimate is gone
EXPECTED: dict[str, dict[str, float]] = {}  # planned seconds by rule and by what its wildcards say


def expect(rule: str, seconds: Mapping[str, float]) -> None:
    """Planned seconds of the jobs of `rule` that have to run, by their wildcards' values, joined by `/`.

    Only their proportions are used, and the sum over all: what one of them takes here is measured.
    """
    EXPECTED[rule] = dict(seconds)


@dataclass
class Described:
    """What a job's own event states about it."""

    rule: str
    wildcards: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> str:
        return "/".join(map(str, self.wildcards.values()))

    @property
    def name(self) -> str:
        """E.g. `table daigavane/table1`."""
        return f"{self.rule} {self.values}".strip()


@dataclass
class Jobs:
    """Times are seconds of one clock, whichever the caller reads."""

    planned: Counter[str] = field(default_factory=Counter)  # by rule
    described: dict[JobId, Described] = field(default_factory=dict)
    running: dict[JobId, float] = field(default_factory=dict)  # since when
    finished: dict[JobId, float] = field(default_factory=dict)  # seconds it took
    failed: dict[JobId, float] = field(default_factory=dict)  # seconds until it failed
    remote: bool = False
    since: float | None = None
    expected: dict[str, dict[str, float]] = field(default_factory=lambda: EXPECTED)
    end: float | None = None  # as it was told last, and when
    told_at: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.planned.values())

    def plan(self, stats: Mapping[str, int]) -> None:
        """Jobs per rule, as Snakemake's event gives them: their sum is under `total`."""
        self.planned = Counter({rule: count for rule, count in stats.items() if rule != "total"})

    def start(self, ids: Iterable[JobId], now: float) -> None:
        self.since = now if self.since is None else self.since
        for job in ids:
            self.failed.pop(job, None)  # it is tried again
            self.running[job] = now

    def describe(self, job: JobId, rule: str, wildcards: Mapping[str, str]) -> None:
        self.described[job] = Described(rule, dict(wildcards))

    def finish(self, job: JobId, now: float) -> None:
        self.finished[job] = now - self.running.pop(job, now)

    def fail(self, job: JobId, now: float) -> None:
        self.failed[job] = now - self.running.pop(job, now)

    def stop(self, job: JobId) -> None:
        """It was ended with the whole run: neither finished nor failed."""
        self.running.pop(job, None)

    def name(self, job: JobId) -> str:
        return self.described[job].name if job in self.described else f"job {job}"

    def _rule(self, job: JobId) -> str:
        return self.described[job].rule if job in self.described else ""

    def _planned(self, job: JobId) -> float:
        """Seconds, or 1 where all jobs of a rule are taken to be alike."""
        known = self.expected.get(self._rule(job), {})
        values = self.described[job].values if job in self.described else ""
        return known.get(values) or _mean(known.values())

    def seconds_left(self, now: float) -> tuple[float, bool] | None:
        """(seconds, whether that is all), as it looks at this moment: None before most of what is left is known.

        Jobs that are left take as long, in proportion to their planned seconds, as those of their rule that have
        ended, and go on as many at a time as so far. Rules of which no job has ended are not counted: then the time is
        a lower bound. None where they are more than half of what is left.
        """
        if self.since is None or not self.finished or now <= self.since:
            return None
        taken, planned, ended = Counter[str](), Counter[str](), Counter[str]()
        for job, seconds in self.finished.items():
            rule = self._rule(job)
            taken[rule] += seconds  # type: ignore[assignment]
            planned[rule] += self._planned(job)  # type: ignore[assignment]
            ended[rule] += 1
        given_up = Counter[str]()
        for job in self.failed:
            ended[self._rule(job)] += 1
            given_up[self._rule(job)] += self._planned(job)  # type: ignore[assignment]
        left, complete, unknown, open_jobs = 0.0, True, 0, 0
        for rule, count in self.planned.items():
            rest = count - ended[rule]
            open_jobs += max(rest, 0)
            if rest > 0 and rule not in taken:
                complete, unknown = False, unknown + rest
            elif rest > 0:
                per_planned = taken[rule] / planned[rule]
                whole = count * _mean(self.expected.get(rule, {}).values())
                of_rule = {job: self._planned(job) for job in self.running if self._rule(job) == rule}
                # what is planned may not add up: jobs that nobody expected, or fewer than were
                open_seconds = max(whole - planned[rule] - given_up[rule], sum(of_rule.values())) * per_planned
                begun = (min(now - self.running[job], one * per_planned) for job, one in of_rule.items())
                left += max(open_seconds - sum(begun), 0.0)
        if unknown > open_jobs / 2:
            return None
        spent = sum(self.finished.values()) + sum(self.failed.values())
        spent += sum(now - start for start in self.running.values())
        at_a_time = spent / (now - self.since)
        return (left / at_a_time if at_a_time > 0 else 0.0), complete

    def told(self, now: float) -> tuple[float, bool] | None:
        """`seconds_left` for people: nothing before a share `ENOUGH` of the whole time has passed, then damped.

        The end that was told moves towards the one that it looks like now, most of the way in two minutes or in a tenth
        of the time passed, whichever is longer.
        """
        left = self.seconds_left(now)
        if left is None or self.since is None:
            return None
        passed = now - self.since
        if self.end is None:
            if passed < ENOUGH * (passed + left[0]):
                return None
            self.end = now + left[0]
        else:
            weight = -math.expm1(-(now - self.told_at) / max(STEADY_SECONDS, passed / 10))
            self.end += weight * (now + left[0] - self.end)
        self.told_at = now
        return max(self.end - now, 0.0), left[1]

    def first_line(self) -> str:
        """E.g. `8 jobs: 6 train, 1 aggregate, 1 all`."""
        return f"{self.total} jobs: {', '.join(f'{count} {rule}' for rule, count in self.planned.items())}"

    def line(self, now: float) -> str:
        """E.g. `12 of 844 jobs (1 %), 2 running (train), 1 failed, about 3 h 12 min left`."""
        done, total = len(self.finished), self.total
        parts = [f"{done} of {total} jobs ({100 * done // max(total, 1)} %)"]
        if self.running:
            rules = ", ".join(dict.fromkeys(filter(None, map(self._rule, self.running))))
            doing = "submitted" if self.remote else "running"
            parts.append(f"{len(self.running)} {doing}" + (f" ({rules})" if rules else ""))
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        left = self.told(now)  # it lags behind: where no job is left, there may be some
        if left is not None and left[0] >= 1 and done + len(self.failed) < total:
            parts.append(f"{'about' if left[1] else 'at least'} {duration(left[0])} left")
        return ", ".join(parts)

    def last_line(self, now: float) -> str:
        done, total = len(self.finished), self.total
        ended = "finished" if done >= total and not self.failed else "stopped"
        spent = duration(now - self.since) if self.since is not None else "0 s"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{ended}: {done} of {total} jobs in {spent}{failed}"


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values) if values else 1.0
