"""Audit of the scale of noise: all that whole runs of methods add, on record, next to what was accounted for.

A noised sum minus the sum before it is the noise of a step, whatever drew it; so is a release minus what it released.
Divided by the standard deviation that the mechanism states, the sum of squares of n numbers has a chi-square law of n
degrees. Both tails are tested, exactly, and whether numbers of consecutive draws are related.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import chi2
from torch import Tensor

from dpgraph.audits.cases import jobs_of, prepared_by
from dpgraph.audits.graphs import directed_graph, random_edges, with_edges
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.config.cell import Cell
from dpgraph.config.expansion import merged
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import FIRST_PROBLEM, TEST, TRAIN, VALIDATION
from dpgraph.engine.methods.base import Job
from dpgraph.engine.preparation.base import Order, PreparedStep, prepare
from dpgraph.engine.training.noise import GaussianNoise, ReleaseNoise
from dpgraph.families.jobs import Preparing
from dpgraph.families.lots.mechanism import COMPONENTS
from dpgraph.families.registry import method, specs
from dpgraph.families.votes.learnt import CLIP
from dpgraph.families.votes.mechanism import BUCKETS, DEGREES, HUBS, LEARNT, MEAN
from dpgraph.families.votes.sensitivity import vote_norm
from dpgraph.planning.resolve import mechanism_for, resolve
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.procedure import Release

ALARM = 1e-6  # probability that an audit fails for a run that is right
NODES, CLASSES, FEATURES = 168, 3, 160
SEEDS = 400  # at most, of a cell
COMMON: dict[str, Any] = {
    "task": {"dataset": "toy"},
    "training": {"learning_rate": 0.05, "steps": 6, "evaluations": 3},
    "seeds": [0],
}


@dataclass
class NoiseRecord:
    """Noise on record: per noise of steps its draws, each an array for every tensor; per role its releases."""

    steps: list[tuple[GaussianNoise, list[list[np.ndarray]]]] = field(default_factory=list)
    releases: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def noise(self, noise: GaussianNoise) -> GaussianNoise:
        """Put what `noise` adds from now on on record."""
        if any(noise is one for one, _ in self.steps):
            return noise
        draws: list[list[np.ndarray]] = []
        add, fill = noise.add, noise.fill

        def added(sums: Sequence[Tensor]) -> None:
            before = [tensor.clone() for tensor in sums]
            add(sums)
            draws.append([_array(after) - _array(tensor) for after, tensor in zip(sums, before, strict=True)])

        def filled(buffers: Sequence[Tensor]) -> float:
            std = fill(buffers)
            draws.append([std * _array(buffer) for buffer in buffers])
            return std

        noise.add, noise.fill = added, filled  # type: ignore[method-assign]
        self.steps.append((noise, draws))
        return noise

    def release(self, role: str, noise: ReleaseNoise) -> ReleaseNoise:
        """Put what `noise` adds to releases of this role on record."""
        on = noise.on

        def released(values: np.ndarray, *given: Any) -> np.ndarray:
            before = np.array(values, dtype=np.float64)
            found = on(values, *given)
            self.releases.setdefault(role, []).append(np.asarray(found, dtype=np.float64) - before)
            return found

        noise.on = released  # type: ignore[assignment,method-assign]
        return noise


def _array(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().double().cpu().numpy()).copy()


@dataclass(frozen=True)
class RecordedOrder(Order):
    """An order whose noise is put on record; the noise itself is unchanged."""

    record: NoiseRecord = field(default_factory=NoiseRecord)

    def noise(self, std: float | tuple[float, ...], role: str = "noise") -> GaussianNoise:
        return self.record.noise(super().noise(std, role))

    def release_noise(self, role: str) -> ReleaseNoise:
        return self.record.release(role, super().release_noise(role))


def on_record(
    record: NoiseRecord, order: type[RecordedOrder] = RecordedOrder, prepared: Callable[[Any], PreparedStep] = prepare
) -> Preparing:
    """Return what prepares runs whose noise is put on `record`."""
    return lambda cell, mechanism, seed, data, device: prepared(
        order(cell, mechanism, seed, data, device, record=record)
    )


def draws_of(prepared: PreparedStep, record: NoiseRecord) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield every kind of noise of a run, as numbers that should be independent and of variance 1.

    What they are divided by is what the mechanism states, and not what ran.
    """
    accounted = prepared.accounted()
    stds = list(accounted.noise_std)
    # a noise that the order did not draw is of steps before those of the classifier
    noises = [draws for _, draws in record.steps[1:] + record.steps[:1] if draws]
    if len(noises) == len(stds):
        for place, (draws, std) in enumerate(zip(noises, stds, strict=True)):
            yield f"steps {place + 1}" if place else "steps", [part / std for draw in draws for part in draw]
    else:  # percentiles: a std for each group of parameters
        step: Any = prepared._step  # type: ignore[attr-defined]
        groups = [sum(1 for one in layers for _ in one.parameters()) for layers in step.network.groups.values()]
        each = np.repeat(stds, groups)
        yield "steps", [part / std for draw in noises[0] for part, std in zip(draw, each, strict=True)]
    for kind, found in by_kind(record, accounted.releases).items():
        of_kind = [one for one in accounted.releases if one.kind == kind]
        yield kind, [part / std_of(of_kind[0], part) for part in found]


def by_kind(record: NoiseRecord, releases: Sequence[Release]) -> dict[str, list[np.ndarray]]:
    """Return releases on record by the kind of the mechanism's; noisy degrees come after the hubs, if both do."""
    found = {COMPONENTS if role == "components" else role: noise for role, noise in record.releases.items()}
    degrees = found.pop(DEGREES, [])
    if any(one.kind == HUBS for one in releases):
        found |= {HUBS: degrees[:1], DEGREES: degrees[1:]}
    elif degrees:
        found[DEGREES] = degrees
    return found


def std_of(release: Release, values: np.ndarray) -> float:
    """Return the noise std of a release, from its noise in the unit of its kind."""
    if release.kind == BUCKETS:
        return release.noise * vote_norm(num_classes=values.shape[1] - 1, mass=release.mass or 0.0)
    if release.kind == LEARNT:
        return release.noise * CLIP
    return release.noise * (1.0 if release.kind in (MEAN, HUBS, DEGREES) else release.sensitivity)


@dataclass(frozen=True)
class Scale:
    """n numbers of one kind: their sum of squares, and (sum, number) of products of those that have to be unrelated."""

    count: int
    squares: float
    products: tuple[tuple[float, int], ...]

    @property
    def std(self) -> float:
        """Over what was accounted for."""
        return math.sqrt(self.squares / self.count)

    def broken(self, alarm: float) -> str:
        """Return what does not hold, "" if all does; by chance with a probability of at most `alarm`."""
        tail = min(chi2.sf(self.squares, self.count), chi2.cdf(self.squares, self.count))
        found = [] if 4 * tail >= alarm else [f"std {self.std:.4g} of what was accounted for"]
        related = min((chance_of(*one) for one in self.products), default=math.inf)
        return ", ".join(found + ([] if 2 * max(1, len(self.products)) * related >= alarm else ["draws are related"]))


def chance_of(total: float, count: int) -> float:
    """Return a bound of the probability that so many products of neighbours in a chain of normal numbers sum so high.

    The quadratic form of a chain has eigenvalues in (-1, 1), spread like a cosine, so that
    ln E exp(s X) <= -n / 2 ln((1 + sqrt(1 - 4 s^2)) / 2); disjoint pairs have less. Chernoff, both signs.
    """
    s = np.linspace(0.0, 0.4999, 500)
    return float(min(1.0, 2 * np.exp((-count / 2 * np.log((1 + np.sqrt(1 - 4 * s**2)) / 2) - s * abs(total)).min())))


Runs = list[list[np.ndarray]]  # of each run the draws of one kind, in their order


def scale_of(runs: Runs) -> Scale:
    """Return the scale of numbers that should be standard normal and unrelated.

    Compared are neighbouring draws, those next but one (the same parameter, of two), and the same draw of two runs.
    """
    flat = [[np.ravel(part) for part in run] for run in runs]
    pairs = [(lag, one, other) for run in flat for lag in (1, 2) for one, other in zip(run, run[lag:])]
    pairs += [(0, one, other) for run, later in pairwise(flat) for one, other in zip(run, later)]
    groups: dict[tuple[int, int, int], tuple[float, int]] = {}
    for lag, one, other in pairs:
        least, key = min(len(one), len(other)), (lag, len(one), len(other))
        total, count = groups.get(key, (0.0, 0))
        groups[key] = total + float(one[:least] @ other[:least]), count + least
    every = [part for run in flat for part in run]
    return Scale(sum(map(len, every)), sum(float(part @ part) for part in every), tuple(groups.values()))


def power(count: int, factor: float, alarm: float) -> float:
    """Return the probability that n draws whose std is `factor` times what was accounted for are noticed."""
    low, high = chi2.ppf(alarm / 4, count), chi2.isf(alarm / 4, count)
    return float(chi2.cdf(low / factor**2, count) + chi2.sf(high / factor**2, count))


def toy_graph(nodes: int = NODES, features: int = FEATURES, *names: str) -> Graph:
    """Return a graph of three communities, two thirds of which train; many features let a step draw many numbers."""
    random = numpy_generator("audits", *(names or ("scale",)))
    place, labels = np.arange(nodes), np.arange(nodes) % CLASSES
    among = random_edges(random, nodes, np.where(labels[:, None] == labels, 0.2, 0.02))
    split = np.where(place < 2 * nodes // 3, TRAIN, np.where(place % 2, VALIDATION, TEST)).astype(np.uint8)
    records = random.normal(size=(nodes, features)) + 0.5 * np.eye(features)[labels]
    return with_edges(directed_graph([], [], records, labels, split, CLASSES), *np.nonzero(among))


def closed_mechanism(cell: Cell, graph: Graph) -> NoisySteps:
    """Return a cell's mechanism with noise multiplier 1 where the cell leaves it to its epsilon."""
    mechanism = mechanism_for(cell, len(graph.train_nodes), graph.num_nodes)
    if not isinstance(mechanism, NoisySteps):
        raise TypeError(f"{cell.method}: expected a private mechanism")
    return mechanism.with_noise(1.0) if mechanism.noise_multiplier is None else mechanism


def run_on_record(job_of: Callable[[int, NoiseRecord], Job], draws: int) -> dict[str, Runs]:
    """Run a method for seed after seed, until each kind of its noise has given enough numbers."""
    found: dict[str, Runs] = {}
    for seed in range(SEEDS):
        record = NoiseRecord()
        job = job_of(seed, record)
        if job.prepared is None:
            raise TypeError("expected a private method")
        with redirect_stderr(io.StringIO()):  # no bar
            method(job.cell.method).run(job, lambda done, logits: {})
        for kind, parts in draws_of(job.prepared, record):
            found.setdefault(kind, []).append(parts)
        if all(sum(part.size for parts in runs for part in parts) >= draws for runs in found.values()):
            break
    return found


def recorded_job(cell: Cell, graph: Graph, seed: int, record: NoiseRecord) -> Job:
    """Return a job of a method whose noise is put on record."""
    mechanism = closed_mechanism(cell, graph)
    with prepared_by(on_record(record)):
        (job,) = jobs_of(graph, cell, mechanism, [seed])
    if getattr(cell.training, "engine", "own") == "own":
        return job
    # another library confirms the stated epsilon of its own run
    return replace(job, calibration=job.calibration.model_copy(update={"statement": mechanism.statement()}))


def cells() -> dict[str, Cell]:
    """Return the cells of the contract suite of all private methods on graphs."""
    return {
        f"{spec.name} {short}": resolve(merged(COMMON, {"method": spec.name}, part), spec.name)
        for spec in specs().values()
        if spec.private and FIRST_PROBLEM in spec.problems
        for short, part in spec.contract.items()
    }


def scale(trials: int) -> AuditResult:
    """Test every noise of every method on at least `trials` numbers."""
    graph, scales = toy_graph(), dict[str, Scale]()
    for name, cell in cells().items():
        found = run_on_record(lambda seed, record, cell=cell: recorded_job(cell, graph, seed, record), trials)  # type: ignore[misc]
        scales |= {f"{name}, {kind}": scale_of(runs) for kind, runs in found.items()}
    return judged("scale", "the scale of all noise that runs add", scales)


def judged(audit: str, title: str, scales: dict[str, Scale]) -> AuditResult:
    """Return the result for all kinds of noise together, which fails by chance with probability ALARM."""
    alarm = ALARM / len(scales)
    broken = {name: why for name, one in scales.items() if (why := one.broken(alarm))}
    least = min(one.count for one in scales.values())
    worst = max(scales, key=lambda name: abs(math.log(scales[name].std)))
    seen = "; ".join(f"{name}: {why}" for name, why in list(broken.items())[:4])
    return AuditResult(
        audit=audit, title=title, passed=not broken, trials=least,
        claim=f"std as accounted for, {len(scales)} kinds of noise; {least} draws notice 0.9 of it with probability "
        f"{power(least, 0.9, alarm):.4g}, at false alarms of {ALARM:g}",
        finding=f"{seen + '; ' if seen else ''}most: {scales[worst].std:.4g} of it ({worst})",
    )  # fmt: skip


AUDITS = {"scale": Audit(scale, 20_000, quick=4000)}
