"""Membership inference: attacks on the roots of training, and bounds on an attacker from the proved epsilon.

Members of a seed are its roots; the other candidates are non-members. Each seed chooses its roots by public ids. The
attacks ask whether a node's label had a loss in training; the guarantee also covers its features and edges.
"""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pandas as pd
from scipy.special import expit

from dpgraph.config.cell import Cell
from dpgraph.families.registry import spec
from dpgraph.planning.plan import Entry, Plan
from dpgraph.privacy.relation import Relation
from dpgraph.problems.node_classification.exposure import Exposure
from dpgraph.reporting.artefacts import EntryRun, described, prepend_columns
from dpgraph.reporting.results import EntryResult, Results, over_seeds
from dpgraph.reporting.stored import NO_EXPOSURE

GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 121)])  # false positive rates
RATES = (0.01, 0.05)  # false positive rates of tables
ATTACK = "membership_attack"  # metrics of derived.py start with it
SCORES = {"loss": "loss threshold", "calibrated": "calibrated loss"}


@dataclass(frozen=True)
class Bound:
    """The bounds of (epsilon, delta) on any test of one world against another, whatever the attacker knows."""

    epsilon: float
    delta: float

    def tpr(self, fpr: np.ndarray) -> np.ndarray:
        """Return the largest TPR at each FPR.

        It satisfies TPR <= e^eps FPR + delta and 1 - FPR <= e^eps (1 - TPR) + delta.
        """
        fpr = np.asarray(fpr, dtype=float)
        with np.errstate(divide="ignore"):
            steep = np.exp(np.minimum(self.epsilon + np.log(fpr), 700.0)) + self.delta
        flat = 1 - math.exp(-self.epsilon) * (1 - fpr - self.delta)
        return np.minimum(np.minimum(steep, flat), 1.0)

    @property
    def advantage(self) -> float:
        """Return the bound of max TPR - FPR: (e^eps - 1 + 2 delta) / (e^eps + 1)."""
        return float(1 - 2 * (1 - self.delta) * expit(-self.epsilon))

    @property
    def auc(self) -> float:
        """Return the area below `tpr`, which has corners at the largest advantage and where it reaches 1."""
        corner = (1 - self.delta) * float(expit(-self.epsilon))
        fpr = np.array([0.0, corner, 1 - self.delta, 1.0])
        return float(np.trapezoid([self.delta, 1 - corner, 1.0, 1.0], fpr))


def budget_steps(cell: Cell) -> int | None:
    """Return the steps of node-null between "this node is a root" and "another node is a root in its place".

    The method states the number; None where roots are not known to be exchangeable.
    """
    return spec(cell.method).root_exchanges(cell)


def bound_of(entry: Entry, outcome: EntryResult) -> Bound | None:
    """Return the bound for exchanging a root; None without a proof for one node's record."""
    steps = budget_steps(entry.cell)
    epsilon, delta = outcome.guarantee.rigorous.epsilon, outcome.guarantee.delta
    proved = outcome.guarantee.rigorous.relation == Relation.NODE_NULL
    if steps is None or not proved or not math.isfinite(epsilon) or math.isnan(delta):
        return None
    if steps == 2:  # group privacy of two
        delta = min(1.0, delta * (1 + math.exp(min(epsilon, 700.0))))
    return Bound(steps * epsilon, delta)


def roc(scores: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (FPR, TPR) of the tests "score >= t", from (0, 0) to (1, 1); equal scores share a threshold."""
    from sklearn.metrics import roc_curve

    return roc_curve(members, scores, drop_intermediate=False)[:2]  # type: ignore[no-any-return]


def tpr_at(curve: tuple[np.ndarray, np.ndarray], rates: np.ndarray) -> np.ndarray:
    """Return the highest TPR at each FPR; between two points of the curve a coin chooses one of their tests."""
    fpr, tpr = curve
    left = np.searchsorted(fpr, rates, side="right") - 1
    right = np.minimum(left + 1, len(fpr) - 1)
    gap = fpr[right] - fpr[left]
    share = np.divide(rates - fpr[left], gap, out=np.zeros(len(rates)), where=gap > 0)
    return tpr[left] + share * (tpr[right] - tpr[left])


@dataclass(frozen=True)
class Measured:
    """One attack on one seed."""

    auc: float
    advantage: float  # max TPR - FPR, the threshold chosen in hindsight
    tpr: np.ndarray  # at GRID
    at_rates: np.ndarray  # TPR at RATES
    members: int
    others: int


def measure(scores: np.ndarray, members: np.ndarray) -> Measured:
    """Measure an attack by its scores (n,) of members and others."""
    curve = roc(scores, members)
    fpr, tpr = curve
    count = int(members.sum())
    auc, advantage, at_rates = float(np.trapezoid(tpr, fpr)), float((tpr - fpr).max()), tpr_at(curve, np.array(RATES))
    return Measured(auc, advantage, tpr_at(curve, GRID), at_rates, count, len(members) - count)


@dataclass(frozen=True)
class Attack(EntryRun):
    """One score against one entry; `seeds` is empty where `reason` states why."""

    score: str  # key of SCORES
    reason: str
    seeds: tuple[Measured, ...]
    bound: Bound | None

    @property
    def mean_tpr(self) -> np.ndarray:
        """Return the mean TPR over seeds at the FPR of `GRID`."""
        return np.mean([seed.tpr for seed in self.seeds], axis=0)

    @property
    def chance(self) -> float:
        """Return the chance advantage of a threshold chosen in hindsight: the mean of Smirnov's one-sided statistic."""
        sizes = [1 / seed.members + 1 / seed.others for seed in self.seeds]
        return float(math.sqrt(math.pi / 8) * np.mean(np.sqrt(sizes)))


def attacks(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Attack]:
    """Return the attacks of `SCORES` on each entry of the artefact, in its order."""
    known, made = Results.of(results), []
    for entry, outcome in known.outcomes(plan, artefact_id):
        for score in SCORES:
            reason, measured = known.reason_of(entry, f"{ATTACK}/{score}"), _measured(entry, known, score)
            seeds = tuple(measured[seed] for seed in outcome.values.index if seed in measured)
            told = outcome
            if outcome.ok and not reason and len(seeds) < len(outcome.values):
                told, seeds = EntryResult.not_run(NO_EXPOSURE), ()
            made.append(Attack(entry, told, score, reason or told.why_not, seeds, bound_of(entry, told)))
    return made


def _measured(entry: Entry, known: Results, score: str) -> dict[int, Measured]:
    """Return the measures of each seed from the metrics of derived.py."""
    by_seed: dict[int, dict[str, np.ndarray]] = {}
    for name, rows in known.parts(entry, f"{ATTACK}/{score}").items():
        for seed, own in rows.sort_values("class_id").groupby("seed"):
            by_seed.setdefault(int(str(seed)), {})[name] = own["value"].to_numpy(float)
    return {
        seed: Measured(
            float(own["auc"][0]), float(own["advantage"][0]), own["tpr"], own["at_rates"], *map(int, own["sizes"])
        )
        for seed, own in by_seed.items()
    }


def measures_of(one: Measured) -> dict[str, np.ndarray]:
    """Return the values of a seed that become metrics, by name."""
    values = {name: getattr(one, name) for name in ("auc", "advantage", "tpr", "at_rates")}
    return {name: np.atleast_1d(value) for name, value in (values | {"sizes": (one.members, one.others)}).items()}


def aligned(exposures: list[Exposure]) -> tuple[np.ndarray, np.ndarray]:
    """Return (seeds, n) losses and membership of the candidates that all seeds have.

    A loss that is not finite counts as the largest one: to an attacker the model does not depend on the node.
    """
    nodes = reduce(np.intersect1d, [exposure.candidates for exposure in exposures])
    losses = np.empty((len(exposures), len(nodes)))
    for row, exposure in zip(losses, exposures):
        order = np.argsort(exposure.candidates)
        row[:] = exposure.losses[order[np.searchsorted(exposure.candidates, nodes, sorter=order)]]
    members = np.stack([np.isin(nodes, exposure.roots) for exposure in exposures])
    finite = np.isfinite(losses)
    return np.where(finite, losses, losses[finite].max(initial=0.0)), members


def attack(score: str, losses: np.ndarray, members: np.ndarray) -> tuple[str, tuple[Measured, ...]]:
    """Return (reason for no measurement, one measurement per seed) of (seeds, n) losses.

    With the score `loss`, a low loss indicates a member (Yeom et al. 2018). With `calibrated`, the score is how far the
    loss lies below its mean over other seeds without the node as a member (Watson et al. 2022); nodes without such a
    seed are left out.
    """
    if score == "calibrated" and len(losses) < 2:
        return "not available: calibration needs two seeds", ()
    if members.all(axis=1).any():
        return "not available: all candidates are members", ()
    measured = []
    for seed, own in enumerate(losses):
        scores, chosen = -own, members[seed]
        if score == "calibrated":
            out = ~members
            out[seed] = False
            count = out.sum(axis=0)
            reference = (losses * out).sum(axis=0)[count > 0] / count[count > 0]
            scores, chosen = reference - own[count > 0], chosen[count > 0]
        if chosen.all() or not chosen.any():
            return "not available: no seed leaves out the members of another", ()
        measured.append(measure(scores, chosen))
    return "", tuple(measured)


def membership_points(made: list[Attack]) -> pd.DataFrame:
    """Return the points of the figure: a row per attack and rate of `GRID`; an attack without a result has one."""
    parts = []
    for one in made:
        rows = pd.DataFrame({"fpr": [math.nan], "tpr": math.nan, "tpr_std": math.nan, "tpr_bound": math.nan})
        if one.seeds:
            tpr = np.array([seed.tpr for seed in one.seeds])
            std = tpr.std(axis=0, ddof=1) if len(tpr) > 1 else np.full(len(GRID), math.nan)
            bound = math.nan if one.bound is None else one.bound.tpr(GRID)
            rows = pd.DataFrame({"fpr": GRID, "tpr": one.mean_tpr, "tpr_std": std, "tpr_bound": bound})
        parts.append(prepend_columns(_head(one), rows))
    return pd.concat(parts, ignore_index=True)


def membership_table(made: list[Attack]) -> pd.DataFrame:
    """Return one row per attack: mean and sample std over seeds of each measure, and its bound (nan: none)."""
    rows = []
    for one in made:
        sizes = {name: getattr(one.seeds[0], name) if one.seeds else 0 for name in ("members", "others")}
        row = _head(one) | sizes
        for name, values in measures(one).items():
            row |= over_seeds(name, values)
        row["advantage_by_chance"] = one.chance if one.seeds else math.nan
        limits = bounds(one.bound)
        row |= {f"{name}_bound": limits.get(name, math.nan) for name in measures(one)}
        row |= {f"bound_{name}": getattr(one.bound, name, math.nan) for name in ("epsilon", "delta")}
        rows.append(row)
    return pd.DataFrame(rows)


def _head(one: Attack) -> dict[str, object]:
    text = one.reason if one.outcome.ok else one.outcome.reason
    return described(one.entry, one.outcome) | {"score": one.score, "reason": text}


def measures(one: Attack) -> dict[str, np.ndarray]:
    """Return the measures by name, one value per seed."""
    by_name = {name: np.array([getattr(seed, name) for seed in one.seeds]) for name in ("auc", "advantage")}
    for place, rate in enumerate(RATES):
        by_name[f"tpr_at_{rate:g}"] = np.array([seed.at_rates[place] for seed in one.seeds])
    return by_name


def bounds(bound: Bound | None) -> dict[str, float]:
    """Return the bounds of the measures by name; empty without a bound."""
    if bound is None:
        return {}
    at_rates = {f"tpr_at_{rate:g}": float(value) for rate, value in zip(RATES, bound.tpr(np.array(RATES)))}
    return {"auc": bound.auc, "advantage": bound.advantage} | at_rates
