"""The jobs of one run of Snakemake, counted from its events, and how long the rest may take.

Snakemake's events say how many jobs of a rule there are and which of them begin. What each will cost is known to the
Snakefile, which runs in the same process and states it by `expect`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

JobId = int | str

ENOUGH = 0.05  # share of the work that has to be done before a time is told
OTHERS_SECONDS = 3.0  # planned for a job without a statement in the Snakefile: most make a table or a figure
EXPECTED: dict[str, dict[str, float]] = {}  # planned seconds by rule and by what its wildcards say


def expect(rule: str, seconds: Mapping[str, float]) -> None:
    """State the planned seconds of the jobs of `rule` that have to run, by their wildcards' values, joined by `/`."""
    EXPECTED[rule] = dict(seconds)


@dataclass
class Jobs:
    """Counts of jobs. Times are seconds of one clock, whichever the caller reads."""

    planned: Counter[str] = field(default_factory=Counter)  # by rule
    described: dict[JobId, tuple[str, str]] = field(default_factory=dict)  # rule, values of its wildcards
    running: dict[JobId, float] = field(default_factory=dict)  # since when
    finished: dict[JobId, float] = field(default_factory=dict)  # seconds it took
    failed: dict[JobId, float] = field(default_factory=dict)  # seconds until it failed
    remote: bool = False
    since: float | None = None
    expected: dict[str, dict[str, float]] = field(default_factory=lambda: EXPECTED)

    @property
    def total(self) -> int:
        """Return the number of all jobs."""
        return sum(self.planned.values())

    def plan(self, stats: Mapping[str, int]) -> None:
        """Note the jobs of each rule, as Snakemake's event gives them: their sum is under `total`."""
        self.planned = Counter({rule: count for rule, count in stats.items() if rule != "total"})

    def start(self, ids: Iterable[JobId], now: float) -> None:
        """Note that jobs begin."""
        self.since = now if self.since is None else self.since
        for job in ids:
            self.failed.pop(job, None)  # it is tried again
            self.running[job] = now

    def describe(self, job: JobId, rule: str, wildcards: Mapping[str, str]) -> None:
        """Note a job's rule and wildcards."""
        self.described[job] = (rule, "/".join(map(str, wildcards.values())))

    def finish(self, job: JobId, now: float) -> None:
        """Note that a job has ended."""
        self.finished[job] = now - self.running.pop(job, now)

    def fail(self, job: JobId, now: float) -> None:
        """Note that a job has failed."""
        self.failed[job] = now - self.running.pop(job, now)

    def name(self, job: JobId) -> str:
        """Return a job's name, e.g. `table daigavane/table1`."""
        return " ".join(self.described.get(job, ("job", str(job)))).strip()

    def _seconds(self, job: JobId) -> float:
        """Return the planned seconds of a job."""
        rule, values = self.described.get(job, ("", ""))
        return self.expected.get(rule, {}).get(values) or self._mean(rule)

    def _mean(self, rule: str) -> float:
        known = self.expected.get(rule, {}).values()
        return sum(known) / len(known) if known else OTHERS_SECONDS

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds left, or None while too little is done to say.

        Work is counted in planned seconds. It goes on at the speed that it had so far, all jobs together.
        """
        ended = {**self.finished, **self.failed}
        done = sum(map(self._seconds, ended))
        if self.since is None or not self.finished or not done:
            return None
        slowness = sum(ended.values()) / done
        begun = sum(min((now - start) / max(slowness, 1e-9), self._seconds(job)) for job, start in self.running.items())
        whole = sum(count * self._mean(rule) for rule, count in self.planned.items())
        if done < ENOUGH * whole:
            return None
        return (now - self.since) * max(whole - done - begun, 0.0) / (done + begun)

    def first_line(self) -> str:
        """Return e.g. `8 jobs: 6 train, 1 aggregate, 1 all`."""
        return f"{self.total} jobs: {', '.join(f'{count} {rule}' for rule, count in self.planned.items())}"

    def counts(self) -> str:
        """Return e.g. `12 of 844 jobs (1 %), 2 running (train), 1 failed`."""
        done, total = len(self.finished), self.total
        parts = [f"{done} of {total} jobs ({100 * done // max(total, 1)} %)"]
        if self.running:
            rules = ", ".join(dict.fromkeys(self.described[job][0] for job in self.running if job in self.described))
            parts.append(
                f"{len(self.running)} {'submitted' if self.remote else 'running'}" + f" ({rules})" * bool(rules)
            )
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        return ", ".join(parts)

    def line(self, now: float) -> str:
        """Return the counts and the time left, e.g. `…, about 3 h 12 min left`."""
        left = self.seconds_left(now)
        open_jobs = len(self.finished) + len(self.failed) < self.total
        from dpgraph.core.progress import duration  # not before the Snakefile says where the package is

        return self.counts() + (f", about {duration(left)} left" if left and left >= 1 and open_jobs else "")

    def last_line(self, now: float) -> str:
        """Return how the run ended."""
        done, total = len(self.finished), self.total
        ended = "finished" if done >= total and not self.failed else "stopped"
        from dpgraph.core.progress import duration

        spent = duration(now - self.since) if self.since is not None else "0 s"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{ended}: {done} of {total} jobs in {spent}{failed}"
