"""The best of several results, and the others that are not significantly different from it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from dpgraph.config.cell import Cell
from dpgraph.families.registry import floors
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.chance import LABEL, holm
from dpgraph.reporting.claims.contrasts import contrast
from dpgraph.reporting.guarantee import Promise
from dpgraph.reporting.protection import parted
from dpgraph.reporting.results import EntryResult

LEVEL = 0.05  # of the paired tests that tell the best from the others, after Holm's correction
BEST, TIED = "best", "tied"
PROVED, CLAIMED, PUBLIC = "proved", "claimed only", "no privacy"
OUTSIDE = "claimed, from outside"  # by a method that is no part of the package
FREE = "no record"  # depends on no record: epsilon 0 in every sense
# whose epsilon of a result is its own
MODES = {PROVED: "rigorous", CLAIMED: "published", OUTSIDE: "claimed", PUBLIC: "rigorous"}
RANKS = (PROVED, PUBLIC)  # whose rows compete: an epsilon that is only claimed does not
Key = tuple[Any, ...]  # what two results must share to compete, then the promise: relation, scope and delta
PROMISE = ("relation", "scope", "delta")
# the relations that imply one, and scopes each of which covers what those before it do (docs/privacy/index.md)
STRONGER: dict[str, tuple[str, ...]] = {
    Relation.RECORD_REMOVE: (Relation.RECORD_REPLACE,),
    **dict.fromkeys((Relation.NODE_NULL, Relation.NODE_REMOVE, Relation.EDGE), (Relation.GRAPH,)),
}
SCOPES = [Scope.PARAMETERS, Scope.STRANGERS, Scope.JOINT, Scope.ALL_OUTPUTS]
REMARK = (
    "Bold: the best of the lines with one relation, scope, δ and budget on a data set, by means over common seeds, and "
    "those that are not significantly different from it (paired t tests against it, 5 % after Holm's correction over "
    "the methods that compete). A line whose guarantee implies that of others competes with them, too; lines with "
    "other unlike guarantees do not compete, nor does an ε that is only claimed."
)


def not_above_chance(outcome: EntryResult, chance: EntryResult) -> str:
    """Return the name of chance where the outcome is not shown to be above it, else an empty text."""
    return f"the {LABEL}" if chance.ok and not _shown_above(outcome.values, chance.values) else ""


def _shown_above(own: pd.Series, floor: pd.Series) -> bool:
    """Return the answer of a one-sided t test of each common seed's difference, 5 %; of one seed that of its value."""
    common = floor.index.intersection(own.index)
    told = contrast([(1.0, "own", own[common]), (-1.0, "floor", floor[common])])
    untested = told.n < 2 or told.error == 0
    return bool(told.estimate > 0 and (untested or told.p_above(0.0) < LEVEL))


def below_floor(rows: pd.DataFrame, values: Sequence[pd.Series]) -> pd.Series:
    """Return, by row, the floor of its relation that a proved row is not shown to be above, else an empty text.

    rows: as `standings` makes them; values: of each, by seed. The floor is the best method that touches no protected
    data under the relation, on the same data, split and metric; its epsilon is 0. Tests are one-sided, over common
    seeds, as those of other seeds differ by their splits, too. Under *joint*, where both ends of an edge are left out,
    one exact sum over neighbours has epsilon 0 as well, so that the true floor of edges is higher.
    """
    by_seed = dict(zip(rows.index, values, strict=True))
    told = pd.Series("", index=rows.index)
    for _, same in rows.groupby(["dataset", "setting", "split", "metric"], sort=False):
        reference = same[same["kind"].isin([PUBLIC, FREE])]
        for place, names in same.loc[same["kind"] == PROVED, "relation"].str.split(" / ").items():
            for relation in sorted(set(names) & set(Relation)):
                words = floors(Relation(relation))
                found = reference.loc[reference["method"].isin(words), "method"]
                ahead = {at: _ahead(by_seed[at], by_seed[place]) for at in found.index}
                best = max(ahead, key=ahead.__getitem__, default=None)
                if best is not None and ahead[best] > -math.inf and not _shown_above(by_seed[place], by_seed[best]):
                    told[place] = words[found[best]]
    return told


def _ahead(floor: pd.Series, own: pd.Series) -> float:
    """Return by how much the first is above the second on average over common seeds; minus infinity without any."""
    common = floor.index.intersection(own.index)
    return float((floor[common] - own[common]).mean()) if len(common) else -math.inf


def with_floors(rows: pd.DataFrame, values: Sequence[pd.Series]) -> pd.DataFrame:
    """Return the rows with the column `below`, the floor of their relation where they are not shown to be above it.

    values: of each row, by seed. Methods that depend on no record are in no ranking: they are floors alone. A floor
    that is known stays.
    """
    known = rows["below"].fillna("") if "below" in rows else pd.Series("", index=rows.index)
    below = known.where(known != "", below_floor(rows, values))
    return rows.assign(below=below)[rows["kind"] != FREE].reset_index(drop=True)


def label_of(cell: Cell, label: str) -> str:
    """Return the name of a method in rankings: one mechanism, made of method and settings, has one name in all files.

    Residual clipping with ratio 0 trains without neighbours, whatever an experiment file calls it.
    """
    if getattr(cell.privacy, "neighbour_clip_ratio", None) != 0:
        return label
    architecture, hops = cell.network
    return f"DP-{architecture.upper()}-{hops} (MLP-trained)"


def kind(outcome: EntryResult) -> str:
    """Return the kind of its epsilon: proved, claimed by the paper, claimed from outside, or infinite."""
    if outcome.guarantee.rigorous.epsilon == math.inf:
        return PUBLIC
    if not math.isnan(outcome.guarantee.claimed.epsilon):
        return OUTSIDE
    return CLAIMED if math.isnan(outcome.guarantee.rigorous.epsilon) else PROVED


def reads_nothing(outcome: EntryResult) -> bool:
    """Return whether its outputs depend on no record: it is a floor of every relation."""
    return outcome.guarantee.rigorous.epsilon == 0 and outcome.guarantee.rigorous.scope == Scope.ALL_OUTPUTS


def promise(outcome: EntryResult) -> Key:
    """Return (relation, scope, delta) of the epsilon that is its own; without privacy, what all such results share."""
    what = kind(outcome)
    if what == PUBLIC:
        return ("", "", 0.0)
    own: Promise = getattr(outcome.guarantee, MODES[what])
    return (*(" / ".join(parted(text)) for text in (own.relation, own.scope)), outcome.guarantee.delta)


def implies(strong: Key, weak: Key) -> bool:
    """Return whether a guarantee with the first promise has the second one, at the same epsilon.

    >>> implies(("graph", "joint", 1e-6), ("node-null", "parameters", 1e-5))
    True
    >>> implies(("node-remove", "joint", 1e-6), ("node-null", "joint", 1e-6))
    False
    """
    relation = strong[0] == weak[0] or strong[0] in STRONGER.get(weak[0], ())
    known = strong[1] in SCOPES and weak[1] in SCOPES
    scope = strong[1] == weak[1] or (known and SCOPES.index(strong[1]) > SCOPES.index(weak[1]))
    return relation and scope and strong[2] <= weak[2]


def budget(epsilon: float, targets: Iterable[float]) -> float:
    """Return the smallest target that epsilon does not exceed; epsilon itself where it exceeds all.

    A solved epsilon may exceed its target by the solver's tolerance.

    >>> budget(3.99, (1, 4, 12)), budget(4.0000001, (1, 4, 12)), budget(13, (1, 4, 12))
    (4, 4, 13)
    """
    return min((target for target in targets if epsilon <= target * (1 + 1e-6)), default=epsilon)


def competing(keys: Sequence[Key]) -> dict[Key, list[int]]:
    """Return, by key, the places that compete there: those that share all but the promise, which theirs implies."""
    own: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        own.setdefault(key, []).append(place)
    return {
        key: [place for other, places in own.items() if other[:-3] == key[:-3] and implies(other[-3:], key[-3:])
              for place in places]
        for key in own
    }  # fmt: skip


def contenders(rows: pd.DataFrame, *about: str) -> Iterator[tuple[Key, pd.DataFrame]]:
    """Yield (values of `about` and of the promise, the rows that compete there), in the order of the rows."""
    keys = list(rows[[*about, *PROMISE]].itertuples(index=False, name=None))
    yield from ((key, rows.iloc[sorted(places)]) for key, places in competing(keys).items())


def ranked(keys: Sequence[Key], cells: Sequence[str], values: Sequence[pd.Series], alone: str = BEST) -> list[str]:
    """Return `BEST` or `TIED` for each result that is so in a ranking where it competes, else an empty text.

    values: by seed. A cell beats another one whose mean over their common seeds is smaller: those of other seeds differ
    by their splits, too. The best is beaten by no other cell; where cells beat one another in a circle, or several are
    unbeaten, it is beaten by the fewest and of these has the largest mean over its own seeds. A cell does not compete
    with itself, so it is the best in all of its rows. Where no other cell competes it is marked `alone`. Tied: not
    significantly different from the best (paired two-sided t test over common seeds, 5 % after Holm's correction over
    the other cells of the ranking), or above it on them. Since the best is picked by the same values, at least one of
    11 equal methods is still called worse with probability .11 at 5 seeds and .15 at 12 (simulated; .6 without the
    correction).
    """
    marks = [""] * len(keys)
    for places in competing(keys).values():
        beaten = {
            place: sum(_ahead(values[one], values[place]) > 0 for one in places if cells[one] != cells[place])
            for place in places
        }
        best = min(places, key=lambda place: (beaten[place], -values[place].mean()))
        others = {cells[place]: place for place in places if cells[place] != cells[best]}
        top = BEST if others else alone
        adjusted = holm(np.array([p_equal(values[best], values[place]) for place in others.values()]))
        worse = {
            cell
            for (cell, place), p in zip(others.items(), adjusted, strict=True)
            if p < LEVEL and _ahead(values[best], values[place]) > 0  # p is nan, which is not less, without a test
        }
        for place in places:
            if cells[place] == cells[best]:
                marks[place] = top or marks[place]
            elif not marks[place] and cells[place] not in worse:
                marks[place] = TIED
    return marks


def p_equal(best: pd.Series, other: pd.Series) -> float:
    """Return the p-value of a paired two-sided t test over common seeds; nan with fewer than two."""
    common = best.index.intersection(other.index)
    if len(common) < 2:
        return math.nan
    differences = best[common].to_numpy(float) - other[common].to_numpy(float)
    if np.ptp(differences) == 0:
        return float(differences[0] == 0)
    return float(ttest_1samp(differences, 0.0).pvalue)
