"""Audit of whole short runs: prepared steps of methods with a proved epsilon, against that epsilon at several deltas.

The attacker knows everything but one record, chooses the worst graph, data and losses, and scores all steps by the
likelihood ratio. What is claimed is what the mechanism of the run says: `rigorous` at each delta, for as few roots as
change (N does not enter it but through them, and a delta above 1 / N is refused).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from dpgraph.audits import theory
from dpgraph.audits.cases import CLIP_NORM, KINDS, Kind, Settings, mechanism_of, prepared_steps
from dpgraph.audits.gadgets import Gadgets, Worst
from dpgraph.audits.graphs import directed_graph, null_records
from dpgraph.audits.probes import HUGE, flat, public_divisor
from dpgraph.audits.reach import DEGREES
from dpgraph.audits.result import Audit, AuditResult, statistical_result
from dpgraph.config.cell import Model
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.methods.spec import RunAttack
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.weighted_rows import RowNetwork
from dpgraph.engine.preparation.base import expected
from dpgraph.families.lots.prepared import PreparedLots
from dpgraph.families.pagerank.prepared import PreparedRows
from dpgraph.families.subgraphs.audit import Positions, crowd
from dpgraph.families.subgraphs.prepared import PreparedParts
from dpgraph.privacy.auditing import CONFIDENCE, Errors, ProfileTest, measured_errors, profile_test
from dpgraph.privacy.procedure import Batches

DELTAS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
STEPS, RATE = 4, 0.5
Scores = tuple[np.ndarray, np.ndarray]  # with, without


@dataclass(frozen=True)
class Found:
    errors: Errors
    test: ProfileTest

    @property
    def excess(self) -> float:
        """By how much a measured delta exceeds the claimed one, at worst."""
        return float((self.test.measured - self.test.claimed).max())


def curve(kind: Kind, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """(epsilons, deltas) as the mechanism states them."""
    few = _few_roots(kind)
    opened = mechanism_of(kind, replace(settings, num_rows=None, batch_size=few if kind.fixed_size else None), few)
    fields = dict(opened) | {"num_roots": few, "num_protected": None}
    deltas = [delta for delta in DELTAS if delta < 1 / few]
    epsilons = [type(opened)(**{**fields, "delta": delta}).rigorous().epsilon for delta in deltas]
    if any(epsilon is None for epsilon in epsilons):
        raise TypeError(f"{kind.name}: expected a rigorous epsilon")
    return np.array(epsilons, dtype=float), np.array(deltas)


def _few_roots(kind: Kind) -> int:
    """As few as the mechanism admits without a smaller R: at most one more, and in full batches all of them drawn."""
    if kind.parts:
        return 1 if kind.batches is Batches.MASKED_PARTS else round(1 / RATE)
    hops = kind.hops if kind.neighbours else 0
    roots = theory.affected_roots(*DEGREES[hops], hops, 10**6)
    return roots if kind.fixed_size else max(1, roots - 1)


def _halves(names: tuple[str | int, ...], count: int) -> np.ndarray:
    """(count,) which trials have the record: half of them."""
    order = numpy_generator("audits", "halves", *names).permutation(count)
    return order < count // 2


@cache
def _worst(name: str, trials: int) -> Worst:
    """About `trials` copies a side in which R roots change."""
    kind = KINDS[name]
    hops = kind.hops if kind.neighbours else 0
    degree, cap = DEGREES[kind.hops]
    gadgets = Gadgets.of(trials * (3 if kind.hops == 1 else 4 if hops else 2), degree, cap, kind.hops)
    settings = Settings(max_degree=degree, list_cap=cap)
    roots = theory.affected_roots(degree, cap, hops, 10**6)
    return Worst.of(gadgets, gadgets.changed(kind, settings), roots)


def trees(kind: Kind, trials: int) -> tuple[Settings, Scores]:
    degree, cap = DEGREES[kind.hops]
    hops = kind.hops if kind.neighbours else 0
    roots = theory.affected_roots(degree, cap, hops, 10**6)
    worst = _worst(kind.name, trials)
    rate = 1.0 if kind.fixed_size else RATE
    noise = 3.0 if kind.residual and hops else (2.0 * roots if hops else 1.0) * math.sqrt(STEPS)
    noise *= 1.0 if kind.fixed_size or (kind.residual and hops) else 0.6
    size = len(worst.gadgets.graph.train_nodes)
    settings = Settings(noise=noise, rate=rate, batch_size=size if kind.fixed_size else None, steps=STEPS)
    settings = replace(settings, max_degree=degree, list_cap=cap)
    present = _halves((kind.name,), worst.count)
    run = worst.run(kind, settings, present)
    claim = theory.poisson(roots, rate, noise, 1)
    if kind.two_terms:
        claim = theory.residual(roots, rate, rate, settings.ratio, noise, 1)
    scores = np.sum([claim.log_ratio(run.step()) for _ in range(STEPS)], axis=0)
    return settings, (scores[present], scores[~present])


def lots(kind: Kind, trials: int) -> tuple[Settings, Scores]:
    """A lot of all four records, one of which turns the mean gradient around; a trial is an epoch. Steps are slow."""
    settings = Settings(noise=2.0, batch_size=4, steps=1, learning_rate=1.0)
    features = np.full((4, 1), HUGE, dtype=np.float32)
    features[0] *= 1e6
    graph = directed_graph([], [], features, [1, 0, 0, 0])
    scores = []
    for index, side in enumerate((graph, null_records(graph, [0]))):
        (step_of_side,) = prepared_steps(kind, settings, side, (index,))
        network = Network(Model(architecture="mlp", hops=0, width=1), 1, 2, torch_generator("audits", "lot"))
        step = expected(step_of_side, PreparedLots).step(network, torch.optim.SGD(network.parameters(), lr=1.0))
        weights, moved = next(network.parameters()), np.zeros(max(500, trials // 6))
        for trial in range(len(moved)):
            flat(list(network.parameters()))
            step()
            moved[trial] = float(weights.detach())
        scores.append(-moved)
    return settings, (scores[0], scores[1])


def subgraphs(kind: Kind, trials: int) -> tuple[Settings, Scores]:
    """Node 0 turns gradients around in the steps that draw it, which fixed parts make public."""
    rate = 1.0 if kind.batches is Batches.MASKED_PARTS else RATE
    settings = Settings(noise=2.0, rate=rate, steps=STEPS, learning_rate=1.0)
    claim = theory.poisson(1, rate, settings.noise / 2, 1)
    scores, seeds = [], 100
    for index, present in enumerate((True, False)):
        steps = prepared_steps(kind, settings, crowd(present), range(index * seeds, (index + 1) * seeds))
        run = Positions([expected(one, PreparedParts) for one in steps], crowd(present))
        rounds = math.ceil(trials / seeds)
        total = np.zeros((rounds, seeds))
        for step in range(rounds * STEPS):
            moved, drawn = run.step(step)
            total[step // STEPS] += claim.log_ratio(moved) if kind.poisson else np.where(drawn, moved, 0.0)
        scores.append(total.ravel()[:trials])
    return settings, (scores[0], scores[1])


def rows(kind: Kind, trials: int) -> tuple[Settings, Scores]:
    """Nodes v named by one row each, and those rows' roots w: two roots change; of own records only, one."""
    own_only = kind.release == "identity"
    noise = (0.6 if own_only else 2.4) * math.sqrt(STEPS)
    settings = Settings(noise=noise, rate=RATE, steps=STEPS, own_weight=0.3, top_k=1, column_cap=1)
    parts = [_row_scores(kind, settings, seed) for seed in range(max(2, trials // (400 if own_only else 1000)))]
    with_, without = (np.concatenate(side) for side in zip(*parts))
    return settings, (with_, without)


def _row_scores(kind: Kind, settings: Settings, seed: int) -> Scores:
    own_only = kind.release == "identity"
    size = 800 if own_only else 2000
    blank = directed_graph([], [], np.zeros((size, 1)), np.full(size, -1))
    (first,) = prepared_steps(kind, settings, blank, (seed,))
    v, w = _disjoint(expected(first, PreparedRows), own_only)
    place, count = np.arange(len(v)), len(v)
    features, labels = np.zeros((size, count), dtype=np.float32), np.full(size, -1)
    features[w, place[: len(w)]], labels[w] = HUGE, 0
    features[v, place], labels[v] = -1000 * HUGE, 0
    present = _halves((kind.name, seed), count)
    graph = null_records(directed_graph([], [], features, labels), v[~present])
    (one,) = prepared_steps(kind, settings, graph, (seed,))
    initial = Network(Model(architecture="mlp", hops=0, width=1), count, 2, torch_generator("audits", "rows"))
    network = RowNetwork(initial, "tanh")
    step = expected(one, PreparedRows).closed(network, torch.optim.SGD([network.theta], lr=settings.learning_rate))
    undo = public_divisor(kind, settings, size) / settings.learning_rate / CLIP_NORM
    claim = theory.poisson(1 if own_only else 2, RATE, settings.noise, 1)
    scores = np.zeros(count)
    for _ in range(STEPS):
        flat(network.parts(network.theta.data))
        step()
        scores += claim.log_ratio(-network.parts(network.theta.data)[0][0].double().numpy() * undo)
    return scores[present], scores[~present]


def _disjoint(prepared: PreparedRows, own_only: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes v and the root w whose row names each; no chosen node reads, or is read by, another pair."""
    roots = prepared.rows.roots
    if own_only:
        return roots, np.zeros(0, dtype=np.int64)
    entries = prepared.rows.weights.tocoo()
    other = entries.col != roots[entries.row]
    names = dict(zip(roots[entries.row[other]].tolist(), entries.col[other].tolist()))
    taken: set[int] = set()
    pairs = []
    for reader, named in names.items():
        # v's own row may name no node that has a feature
        if {reader, named, names.get(named, -1)} & taken or names.get(named) == reader:
            continue
        taken |= {reader, named}
        pairs.append((named, reader))
    featured = {node for pair in pairs for node in pair}
    kept = [(v, w) for v, w in pairs if names.get(v, -1) not in featured]
    return np.array([v for v, _ in kept]), np.array([w for _, w in kept])


Attack = Callable[[Kind, int], tuple[Settings, Scores]]
ON_RUNS: dict[RunAttack, Attack] = {"trees": trees, "lots": lots, "subgraphs": subgraphs, "rows": rows}
ATTACKS = {name: ON_RUNS[kind.run_attack] for name, kind in KINDS.items() if kind.run_attack is not None}


def attack(name: str, trials: int) -> Found:
    kind = KINDS[name]
    settings, (present, absent) = ATTACKS[name](kind, trials)
    epsilons, deltas = curve(kind, settings)
    errors = measured_errors(present, absent, 1 - (1 - CONFIDENCE) / len(ATTACKS))
    return Found(errors, profile_test(errors, lambda _: deltas, epsilons))


def prepared(trials: int) -> AuditResult:
    """Run all attacks. The curve is that of `SHOWN`."""
    attacked = {name: attack(name, max(100, trials)) for name in ATTACKS if name in KINDS}
    broken = [name for name, one in attacked.items() if one.test.refuted]
    name = max(attacked, key=lambda one: attacked[one].excess)
    seen = f"refuted for {', '.join(broken)}; " if broken else ""
    drawn = SHOWN if SHOWN in attacked else name
    one, worst = attacked[drawn], attacked[name]
    claim = ", ".join(f"({epsilon:.3g}, {delta:g})" for epsilon, delta in zip(one.test.epsilons, one.test.claimed))
    result = statistical_result("prepared", PREPARED, f"{drawn}: {claim}", trials, one.errors, one.test, 0.1)
    return result.model_copy(
        update={
            "passed": not broken,
            "finding": f"{seen}nearest: {name}, {worst.excess:+.2g} from its claim; {drawn}: {result.finding}",
        }
    )


PREPARED = "runs of prepared steps (dp-gnn, r = 1)"
SHOWN = "dp-gnn r=1"


AUDITS = {
    "prepared": Audit(prepared, 2500, nightly=True),
}
