"""Public facts under each relation: they are equal on both of two neighbouring data sets, by definition.

A number that a plan, a prepared step, a card or an audit calls public comes from such facts alone. A mechanism states
from which (`numbers_from`), and an epsilon under a relation in which one of them may differ is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from dpgraph.privacy.relation import Relation


class DataFact(StrEnum):
    """A fact that may be known of a data set. The value says it in words."""

    STATED = "what is stated before the data are read: settings, schemas, class lists, numbers of the registry"
    COLUMNS = "the columns of features, and how they are made of one record"
    IDS = "the ids, and their number N: the place of an absent or null one stays"
    SPLIT = "the part of each id: who trains, is held out, or is protected as a record"
    VALIDATION = "records of validation nodes, and which of them have a label"
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
        Relation.EDGE: _PLACES | {DataFact.LABELS},
        Relation.RECORD_REMOVE: _PLACES,
        Relation.RECORD_REPLACE: _PLACES,
        Relation.ENTITY: _PLACES,
        Relation.CLASS: frozenset({DataFact.STATED, DataFact.COLUMNS}),  # any number of images may join or leave
        Relation.SUBCLASS: frozenset({DataFact.STATED, DataFact.COLUMNS}),
        Relation.VOTE: _PLACES,
        Relation.NONE: frozenset(DataFact),  # protects nothing
    }
)


def private_numbers(numbers: Mapping[str, DataFact], relation: Relation) -> tuple[str, ...]:
    """Return the names of `numbers` that two neighbours under `relation` may differ in."""
    return tuple(name for name, fact in numbers.items() if fact not in PUBLIC[relation])
