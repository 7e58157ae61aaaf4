"""Public facts under each relation, and the numbers that are derived from public ones, each written once.

A fact is public under a relation if it is equal on both of two neighbouring data sets, by definition. A number that a
plan, a prepared step, a card or an audit calls public comes from such facts alone. A mechanism states from which
(`numbers_from`), and an epsilon under a relation in which one of them may differ is refused. Audits derive the numbers
again on purpose (audits/theory.py, audits/probes.py): a mistake here would agree with itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from dpgraph.privacy.relation import Relation


class Counted(StrEnum):
    """The people whose number N gives a mechanism's default delta, 1 / (10 N). The value says it in words."""

    ROOTS = "the nodes with a loss term, as in the papers"
    TRAINING = "the training nodes, of which the rows are chosen"
    EVERYBODY = "all protected, since all of them take part"

    def delta(self, *, roots: int, training: int, protected: int | None) -> float:
        """Return 1 / (10 N).

        Where that is 1 / (all protected) or more, and so allows to publish a record, N is all protected.

        >>> Counted.ROOTS.delta(roots=40, training=40, protected=60)
        0.0025
        """
        usual = usual_delta({self.ROOTS: roots, self.TRAINING: training}.get(self, protected or training))
        return (
            usual
            if protected is None or meaningful_delta(delta=usual, people=protected) is None
            else usual_delta(protected)
        )


def usual_delta(people: int) -> float:
    """Return 1 / (10 N), as in the papers.

    >>> usual_delta(90941)
    1.0996140354735488e-06
    """
    return 1 / (10 * people)


def meaningful_delta(*, delta: float, people: int, name: str = "N") -> str | None:
    """Return the allowed deltas where delta is 1 / N or more, which would allow to publish a whole record."""
    return None if delta < 1 / people else f"a number < 1 / {name} = {1 / people:.3g}"


def expected_batch(*, rate: float, num_roots: int) -> float:
    """Return q N: mean size of a Poisson batch and public divisor of its noisy sum (a batch's size is private)."""
    return rate * num_roots


def whole_batch(*, rate: float, num_roots: int) -> int:
    """Return q N rounded, at least one root: m of batches of fixed size."""
    return max(1, round(expected_batch(rate=rate, num_roots=num_roots)))


def noise_std(*, noise_over_clip: float, clip_norm: float) -> float:
    """Return noise std per coordinate in the gradients' (or rows') unit: noise std / clip norm times the clip norm."""
    return noise_over_clip * clip_norm


def nodes_with_loss(*, num_train: int, train_share: float) -> int:
    """Return N: the share of the training nodes that have a loss, at least one."""
    return max(1, round(train_share * num_train))


def tree_size(*, max_degree: int, hops: int) -> int:
    """Return N(K, r), the sum of K^i over i = 0..r: nodes of a tree of depth r, and the roots that one node can reach.

    Args:
        max_degree: K.
        hops: r.
    """
    return sum(max_degree**depth for depth in range(hops + 1))


@lru_cache(maxsize=4096)  # a plan has hundreds of cells and few budgets
def gaussian_mu(*, epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian DP has this epsilon at delta (Balle & Wang 2018), to a relative error of 1e-9.

    It only chooses settings: the epsilon of a run comes from its own accountant, so that no error here is one of
    epsilon.
    """
    import dp_accounting

    return 1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta))


class DataFact(StrEnum):
    """A fact that may be known of a data set. The value says it in words."""

    STATED = "what is stated before the data are read: settings, schemas, class lists, numbers of the registry"
    COLUMNS = "the columns of features, and how they are made of one record"
    IDS = "the ids, and their number N: the place of an absent or null one stays"
    SPLIT = "the part of each id: who trains, is held out, or is protected as a record"
    VALIDATION = "records of validation, and which of them have a label"
    LABELS = "who has a label, how many have one, and which classes occur"
    TUPLES = "lengths of lists, the number of edges, and the number m of tuples"
    STATISTICS = "anything else that is counted over records, such as a mean degree"


_PLACES = frozenset({DataFact.STATED, DataFact.COLUMNS, DataFact.IDS, DataFact.SPLIT})
PUBLIC: Mapping[Relation, frozenset[DataFact]] = MappingProxyType(
    {
        Relation.GRAPH: _PLACES,
        Relation.SUBGRAPH: _PLACES,
        Relation.NODE_NULL: _PLACES,
        Relation.NODE_REMOVE: _PLACES,
        Relation.NODE_REPLACE: _PLACES,
        Relation.TRAINING_NODE: _PLACES | {DataFact.VALIDATION},
        Relation.TRAINING_RECORD: _PLACES | {DataFact.VALIDATION},
        Relation.EDGE: _PLACES | {DataFact.LABELS},
        Relation.RECORD_REMOVE: _PLACES,
        Relation.RECORD_REPLACE: _PLACES,
        Relation.ENTITY: _PLACES,
        Relation.CLASS: frozenset({DataFact.STATED, DataFact.COLUMNS}),  # any number of images may join or leave
        Relation.SUBCLASS: frozenset({DataFact.STATED, DataFact.COLUMNS}),
        Relation.VOTE: _PLACES,
        Relation.NONE: frozenset(DataFact),  # protects no record
    }
)


def private_numbers(numbers: Mapping[str, DataFact], relation: Relation) -> tuple[str, ...]:
    """Return the names of `numbers` that two neighbours under `relation` may differ in."""
    return tuple(name for name, fact in numbers.items() if fact not in PUBLIC[relation])
