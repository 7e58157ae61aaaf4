"""The jobs of one run of Snakemake, counted from its events, and how long the rest may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dpgraph.progress import duration

JobId = int | str


@dataclass
class Described:
    """What a job's own event states about it."""

    rule: str
    wildcards: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """E.g. `table daigavane/table1`."""
        return " ".join([self.rule, "/".join(map(str, self.wildcards.values()))]).strip()


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

    def seconds_left(self, now: float) -> tuple[float, bool] | None:
        """(seconds, whether that is all): None before most of what is left is known.

        Jobs that are left cost what those of their rule cost on average, and go on as many at a time as so far. Rules
        of which no job has ended are not counted: then the time is a lower bound. None where they are more than half of
        what is left: a time of a few short jobs would jump as soon as the first long one ends.
        """
        if self.since is None or not self.finished or now <= self.since:
            return None
        times: dict[str, list[float]] = {}
        for job, seconds in self.finished.items():
            times.setdefault(self._rule(job), []).append(seconds)
        left, complete, unknown, open_jobs = 0.0, True, 0, 0
        failed = Counter(map(self._rule, self.failed))
        for rule, count in self.planned.items():
            rest = count - len(times.get(rule, ())) - failed[rule]
            open_jobs += max(rest, 0)
            if rest > 0 and rule not in times:
                complete, unknown = False, unknown + rest
            elif rest > 0:
                mean = sum(times[rule]) / len(times[rule])
                begun = (min(now - start, mean) for job, start in self.running.items() if self._rule(job) == rule)
                left += max(rest * mean - sum(begun), 0.0)
        if unknown > open_jobs / 2:
            return None
        spent = sum(self.finished.values()) + sum(self.failed.values())
        spent += sum(now - start for start in self.running.values())
        at_a_time = spent / (now - self.since)
        return (left / at_a_time if at_a_time > 0 else 0.0), complete

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
        left = self.seconds_left(now)
        if left is not None and left[0] >= 1:
            parts.append(f"{'about' if left[1] else 'at least'} {duration(left[0])} left")
        return ", ".join(parts)

    def last_line(self, now: float) -> str:
        done, total = len(self.finished), self.total
        ended = "finished" if done >= total and not self.failed else "stopped"
        spent = duration(now - self.since) if self.since is not None else "0 s"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{ended}: {done} of {total} jobs in {spent}{failed}"
