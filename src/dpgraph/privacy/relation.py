"""The relation of neighbouring data sets and the scope of a guarantee: every epsilon states both."""

from __future__ import annotations

from enum import StrEnum


class Relation(StrEnum):
    """A relation of neighbouring data sets; `meaning` states it in words.

    Epsilons of unlike relations do not compare.
    """

    GRAPH = "graph"
    SUBGRAPH = "subgraph"
    NODE_NULL = "node-null"
    NODE_REMOVE = "node-remove"
    NODE_REPLACE = "node-replace"
    TRAINING_NODE = "training-node"
    TRAINING_RECORD = "training-record"
    EDGE = "edge"
    RECORD_REMOVE = "record-remove"
    RECORD_REPLACE = "record-replace"
    ENTITY = "entity"
    CLASS = "class"
    SUBCLASS = "subclass"
    VOTE = "vote"
    NONE = "none"

    @property
    def meaning(self) -> str:
        return MEANINGS[self]

    @property
    def short(self) -> str:
        """`meaning` in a few words, for a note below a table of a paper."""
        return SHORT[self]


MEANINGS = {
    Relation.GRAPH: "any other graph, whatever its edges, features and labels",
    Relation.SUBGRAPH: "any other subgraph in the place of one of the parts",
    Relation.NODE_NULL: "the ids are public; one node's record (features, label and its own out-list) is replaced by "
    "null, its loss term vanishes; pointers to it in other nodes' lists stay and bring no message",
    Relation.NODE_REMOVE: "one node of any degree leaves or joins, with its record and all incident edges; ids are "
    "public and the place of an absent node stays empty",
    Relation.NODE_REPLACE: "one node's record and all incident edges are replaced by any others; ids are public",
    Relation.TRAINING_NODE: "one training node of any degree is replaced, with its record and all incident edges, by "
    "any other or by null; ids and split are public, and so are the validation nodes: features, and edges between them",
    Relation.TRAINING_RECORD: "one training record is replaced by any other or by null; ids and split are public, and "
    "so are the records of validation",
    Relation.EDGE: "one edge appears or disappears",
    Relation.RECORD_REMOVE: "one record is replaced by null, its loss term vanishes; their number is public",
    Relation.RECORD_REPLACE: "one record is replaced by any other or by null; their number is public",
    Relation.ENTITY: "the ids are public; one entity's record becomes null: its text, its own list of tuples, and the "
    "loss of tuples in others' lists that name it, whose places stay; negatives are drawn from the other entities then",
    Relation.CLASS: "all records of one class are replaced or leave",
    Relation.SUBCLASS: "all records of one subclass are replaced or leave; the partition is public",
    Relation.VOTE: "one teacher's vote in every histogram moves to another class",
    Relation.NONE: "nothing is protected",
}

SHORT = {
    Relation.GRAPH: "any other graph",
    Relation.SUBGRAPH: "any other subgraph in the place of one part",
    Relation.NODE_NULL: "one node's record, with its own out-list, becomes null, and messages from it vanish",
    Relation.NODE_REMOVE: "one node leaves or joins with all its edges",
    Relation.NODE_REPLACE: "one node's record and all its edges are replaced",
    Relation.TRAINING_NODE: "one training node's record and all its edges are replaced; validation nodes are public",
    Relation.TRAINING_RECORD: "one training record is replaced; validation records are public",
    Relation.EDGE: "one edge appears or disappears",
    Relation.RECORD_REMOVE: "one record becomes null",
    Relation.RECORD_REPLACE: "one record is replaced",
    Relation.ENTITY: "one entity's record, with its own tuples and the loss of those that name it, becomes null",
    Relation.CLASS: "all records of one class are replaced or leave",
    Relation.SUBCLASS: "all records of one subclass of a public partition are replaced or leave",
    Relation.VOTE: "one teacher's votes change",
    Relation.NONE: "nothing is protected",
}


class Scope(StrEnum):
    """The outputs that may be seen without leaving the guarantee; `meaning` states it in words."""

    PARAMETERS = "parameters"
    JOINT = "joint"
    STRANGERS = "strangers"
    ALL_OUTPUTS = "all outputs"
    NONE = "none"

    @property
    def meaning(self) -> str:
        return COVERED[self]

    @property
    def short(self) -> str:
        """`meaning` in a few words, for a note below a table of a paper."""
        return COVERED[self].partition(";")[0]


COVERED = {
    Scope.PARAMETERS: "the released parameters; not predictions, which read the raw graph at test time",
    Scope.JOINT: "parameters and predictions, in the view of all but the protected one (of an edge: both ends)",
    Scope.STRANGERS: "parameters and predictions, in the view of all but the protected node and its neighbours",
    Scope.ALL_OUTPUTS: "everything may be published",
    Scope.NONE: "nothing",
}


class PredictionInput(StrEnum):
    """The input of a node's prediction in addition to the released parameters."""

    NOTHING = "nothing"
    OWN_RECORD = "its own record"
    RAW_GRAPH = "the raw graph"

    @property
    def scope(self) -> Scope:
        """The scope of a guarantee of the parameters if predictions read this."""
        return {
            PredictionInput.NOTHING: Scope.ALL_OUTPUTS,
            PredictionInput.OWN_RECORD: Scope.JOINT,
            PredictionInput.RAW_GRAPH: Scope.PARAMETERS,
        }[self]
