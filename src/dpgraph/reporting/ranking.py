"""Which of several results is the best, and which of the others cannot be told apart from it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtr

from dpgraph.config.cell import Cell
from dpgraph.privacy.relation import Relation
from dpgraph.reporting.protection import parted
from dpgraph.reporting.results import EntryResult

LEVEL = 0.05  # of the paired test that tells the best from the others
BEST, TIED = "best", "tied"
PROVED, CLAIMED, PUBLIC = "proved", "claimed only", "no privacy"
OUTSIDE = "claimed, from outside"  # by a method that is no part of the package (reporting/claimed.py)
# whose epsilon of a result is its own
MODES = {PROVED: "rigorous", CLAIMED: "published", OUTSIDE: "claimed", PUBLIC: "rigorous"}
Key = tuple[Hashable, ...]
REMARK = (
    "Bold: the best of the lines with one relation, scope, δ and budget on a data set, and what a paired t test at 5 % "
    "does not tell from it. Lines with unlike guarantees do not compete, nor does an ε that is only claimed."
)


# floor of relation edge: what reads no edge has epsilon 0 there, whatever is published
READS_NO_EDGE = frozenset({"mlp", "cnn", "random", "majority"})
BELOW_FLOOR = ", below an MLP that reads no edge (ε = 0)"


def below_floor(rows: pd.DataFrame) -> pd.Series:
    """Return which proved rows at edge level have a smaller mean than the best method that reads no edge.

    rows: as `standings` makes them. The floor is on the same data, split and metric. Under *joint*, where both ends of
    the edge are left out, one exact sum over neighbours has epsilon 0 as well, so that the true floor is higher.
    """
    about = ["dataset", "setting", "split", "metric"]
    free = rows[(rows["kind"] == PUBLIC) & rows["method"].isin(READS_NO_EDGE)]
    floors = free.assign(mean=free["mean"].astype(float)).groupby(about)["mean"].max()
    own = pd.Series([floors.get(key, math.nan) for key in zip(*(rows[name] for name in about))], index=rows.index)
    edge = (rows["kind"] == PROVED) & rows["relation"].str.split(" / ").apply(lambda names: Relation.EDGE in names)
    return edge & (rows["mean"].astype(float) < own)


def with_floors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose labels say where they are below the floor of their relation."""
    marked = below_floor(rows) & ~rows["label"].str.endswith(BELOW_FLOOR)
    return rows.assign(label=rows["label"].where(~marked, rows["label"] + BELOW_FLOOR))


def label_of(cell: Cell, label: str) -> str:
    """Return the name of a method in rankings: one mechanism, made of method and settings, has one name in all files.

    Residual clipping with ratio 0 is training on own records, whatever an experiment file calls it.
    """
    if getattr(cell.privacy, "neighbour_clip_ratio", None) != 0:
        return label
    architecture, hops = cell.network
    return f"Own records in training, raw graph in predictions ({hops}-layer {architecture.upper()})"


def kind(outcome: EntryResult) -> str:
    """Whether its epsilon is proved, printed by the method's paper only, its author's from outside, or infinite."""
    if outcome.eps_rigorous == math.inf:
        return PUBLIC
    if not math.isnan(outcome.eps_claimed):
        return OUTSIDE
    return CLAIMED if math.isnan(outcome.eps_rigorous) else PROVED


def promise(outcome: EntryResult) -> Key:
    """What must agree for two results to compete at one budget: kind, relation, scope and delta."""
    what = kind(outcome)
    if what == PUBLIC:
        return (what,)
    mode = MODES[what]
    texts = [" / ".join(parted(getattr(outcome, f"{name}_{mode}"))) for name in ("relation", "scope")]
    return (what, *texts, outcome.delta)


def budget(epsilon: float, targets: Iterable[float]) -> float:
    """The smallest target that epsilon does not exceed; epsilon itself where it exceeds all.

    A solved epsilon may exceed its target by the solver's tolerance.

    >>> budget(3.99, (1, 4, 12)), budget(4.0000001, (1, 4, 12)), budget(13, (1, 4, 12))
    (4, 4, 13)
    """
    return min((target for target in targets if epsilon <= target * (1 + 1e-6)), default=epsilon)


def ranked(keys: Sequence[Key], cells: Sequence[str], values: Sequence[pd.Series]) -> list[str]:
    """Of each result `BEST`, `TIED` or nothing; results compete where their keys are equal.

    values: by seed. The best has the largest mean; a cell does not compete with itself, so it is
    the best in all of its rows. Tied: not told apart from it by a paired two-sided t test over common seeds at 5 %.
    """
    marks = [""] * len(keys)
    rankings: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        rankings.setdefault(key, []).append(place)
    for places in rankings.values():
        best = max(places, key=lambda place: values[place].mean())
        for place in places:
            if cells[place] == cells[best]:
                marks[place] = BEST
            elif alike(values[best], values[place]):
                marks[place] = TIED
    return marks


def alike(best: pd.Series, other: pd.Series) -> bool:
    """Whether a paired t test over common seeds leaves them equal, or there are fewer than two seeds to tell."""
    common = best.index.intersection(other.index)
    if len(common) < 2:
        return True
    differences = best[common].to_numpy(float) - other[common].to_numpy(float)
    if np.ptp(differences) == 0:
        return bool(differences[0] == 0)
    count = len(differences)
    statistic = differences.mean() / (differences.std(ddof=1) / np.sqrt(count))
    return bool(2 * stdtr(count - 1, -abs(statistic)) >= LEVEL)
