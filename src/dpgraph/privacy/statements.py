"""What a theorem presumes and what its epsilon is for, in words: once for its named accountant and its mechanism.

An accountant of the command line (accountants/catalogue.py) shows a statement in symbols, a mechanism (mechanisms/)
with the numbers of its run: "{R}" stands for the symbol R, in whose place `filled` puts a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpgraph.privacy.guarantee import Guarantee, Mode
from dpgraph.privacy.relation import Relation, Scope


class _Symbols(dict[str, object]):
    """A symbol without a number stands for itself."""

    def __missing__(self, symbol: str) -> str:
        return symbol


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Relation, scope, sampling and assumptions of an epsilon, and what it does not cover."""

    method: str  # of accounting
    relation: Relation
    sampling: str
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    scope: Scope = Scope.PARAMETERS

    def filled(self, numbers: Mapping[str, object] | None = None) -> Statement:
        """With numbers for symbols; all other symbols by their names.

        >>> DOUBLE_MIXTURE.filled({"q": 0.1}).sampling, DOUBLE_MIXTURE.filled().sampling
        ('Poisson, rate 0.1', 'Poisson, rate q')
        """
        symbols = _Symbols(numbers or {})
        return replace(
            self,
            method=self.method.format_map(symbols),
            sampling=self.sampling.format_map(symbols),
            assumptions=tuple(text.format_map(symbols) for text in self.assumptions),
        )

    def also(self, *assumptions: str) -> Statement:
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    def guarantee(
        self,
        mode: Mode,
        *,
        epsilon: float,
        delta: float,
        accountant: str | None = None,
        remarks: tuple[str, ...] = (),
        unmet: tuple[str, ...] = (),
    ) -> Guarantee:
        """Of a filled statement; an infinite epsilon has neither relation nor scope."""
        finite = math.isfinite(epsilon)
        return Guarantee(
            mode=mode,
            accountant=accountant or self.method,
            relation=self.relation if finite else Relation.NONE,
            scope=self.scope if finite else Scope.NONE,
            sampling=self.sampling,
            assumptions=(*self.assumptions, *self.not_covered, *remarks),
            unmet=unmet,
            epsilon=epsilon,
            delta=delta,
        )


def _public(what: str) -> str:
    return f"{what} are public: neither made from the private data nor tuned on them"


PUBLIC = _public("the split, the number of roots, the clip norm and all hyper-parameters")
ONE_VECTOR = "one clipped vector a step, which one node moves by up to 2 C"
LEMMA_1 = "at most {N(K, r)} roots change (Lemma 1)"
ONE_MULTIPLIER = "one noise multiplier for all groups"
UNSTABLE_LISTS = (
    "Algorithm 1 keeps edges at a rate that depends on the data, so one node changes an unbounded number of roots "
    "(Lemma 2 is false)"
)
UNPAID_PERCENTILES = "the clip norms are percentiles of private gradient norms that are not charged to the budget"

MOST_MOMENTS = 32  # lambda, as Abadi et al. and the papers after them have it
MOMENTS = Statement(
    method="moments accountant, lambda 1 to {lambda_max}",
    relation=Relation.SUBGRAPH,
    sampling="Poisson, rate {q}",
    assumptions=("one subgraph is one record, whose removal moves the gradient by C",),
)
HYPERGEOMETRIC = Statement(
    method="Theorem 1",
    relation=Relation.NODE_REMOVE,
    sampling="batches of {m} without replacement",
    assumptions=(LEMMA_1,),
)
GAUSSIAN = Statement(
    method="Gaussian DP",
    relation=Relation.GRAPH,
    sampling="none",
    assumptions=("T releases that move by at most `sensitivity` (L2) between any two data sets",),
)
POISSON_GAUSSIAN = Statement(
    method="Poisson-subsampled Gaussian, privacy loss distribution",
    relation=Relation.RECORD_REMOVE,
    sampling="Poisson, rate {q}",
    assumptions=("the gradient of a record depends on that record only",),
    not_covered=(PUBLIC,),
)
DOUBLE_MIXTURE = Statement(
    method="double mixture, privacy loss distribution",
    relation=Relation.NODE_NULL,
    sampling="Poisson, rate {q}",
    assumptions=(
        "stable sampler: at most {R} roots change",
        "messages and normalisers depend on accepted nodes only",
    ),
    not_covered=(PUBLIC,),
)
VOTES = Statement(
    method="Poisson-subsampled Gaussian steps, Gaussian releases and a choice, privacy loss distribution",
    relation=Relation.NODE_NULL,
    sampling="Poisson, rate {q}",
    assumptions=(
        "a gradient, a row of the mean and a vote read one record each",
        "the votes of a record move the buckets by at most B, whatever its degree",
        "noise, batches and the choice are drawn in secret",
        "a node's own prediction reads its own record: nothing is said of publishing it",
    ),
    not_covered=(PUBLIC,),
    scope=Scope.JOINT,
)
BOUNDED_VOTES = replace(
    VOTES,
    relation=Relation.NODE_REMOVE,
    assumptions=(
        "a public schema bounds every list by {D} ids; edges count that are in both ends' lists",
        "a gradient, a row of the mean and a vote read one record each; a node reads its own bucket, and no list",
        *VOTES.assumptions[2:],
    ),
)
CAPPED_SUMS = Statement(
    method="Poisson-subsampled Gaussian steps and Gaussian sums, privacy loss distribution",
    relation=Relation.NODE_NULL,
    sampling="Poisson, rate {q}",
    assumptions=(
        "a gradient reads one record and what was released",
        "a node's row of norm 1 is added to at most {D} nodes of its own list, chosen by public priorities",
        "a null record sends nothing",
        "noise and batches are drawn in secret",
        "a node's own prediction reads its own record: nothing is said of publishing it",
    ),
    not_covered=(PUBLIC,),
    scope=Scope.JOINT,
)
BOUNDED_SUMS = replace(
    CAPPED_SUMS,
    relation=Relation.NODE_REMOVE,
    assumptions=(
        CAPPED_SUMS.assumptions[0],
        "a public schema bounds every list by {D} ids; edges count that are in both ends' lists",
        *CAPPED_SUMS.assumptions[2:],
    ),
)
EDGE_SUMS = Statement(
    method="Gaussian DP of the sums",
    relation=Relation.EDGE,
    sampling="none",
    assumptions=(
        "an edge is in both ends' lists and moves two rows of each sum by 1",
        "features and labels are not protected: training and predictions read them, and no edge",
    ),
    not_covered=(PUBLIC,),
    scope=Scope.JOINT,
)
PRINTED_SUMS = replace(
    CAPPED_SUMS,
    method="Renyi DP of all parts, orders 1.01 to 256",
    relation=Relation.NODE_REMOVE,
    assumptions=("every node sends to at most {D} others, so that one node moves a sum by sqrt(D)",),
    not_covered=(),
)
UNSTABLE_RECEIVERS = (
    "removing a node makes each neighbour that sent to it send to another one instead: no function of D bounds how "
    "many rows move"
)
EMBEDDED_SUMS = replace(
    CAPPED_SUMS,
    assumptions=(
        "a gradient of the classifier reads one record and what was released; one of the embedding reads a label and "
        "the ids of those who send to its root, so that {R} of them change with a record",
        "a node's learnt vector of norm 1 is added to at most {D} nodes of its own list, chosen by public priorities",
        *CAPPED_SUMS.assumptions[2:],
    ),
)
PRINTED_EMBEDDING = replace(
    PRINTED_SUMS,
    relation=Relation.NODE_REPLACE,
    assumptions=(
        "every node is in at most {D} rows of the adjacency matrix; replacing it moves a step of the embedding by "
        "2 sqrt({D} + 1) clip norms and the released rows by sqrt(2 * {D})",
        "as the released code counts, with Poisson batches in the place of batches of fixed size",
    ),
)
CAPPED_VOTES = replace(
    VOTES,
    relation=Relation.NODE_REMOVE,
    assumptions=(
        "edges count that are in both ends' lists; a node has at most {T0} of them: {why}",
        "a gradient, a row of the mean and a vote read one record each; a node reads its own bucket, and no list",
        "training nodes vote and others receive, by a public split; epsilon is the larger one of both sides'",
        "noisy degrees of voters are released; given them, a receiver that leaves moves votes by at most {S} B, but "
        "for {failure} of delta",
        *VOTES.assumptions[2:],
    ),
)
TWO_HOPS = (
    "a node reads its own bucket and those of its own list, so that what neighbours of the protected node predict is "
    "not covered under this relation; no reader is chosen by data"
)
STRANGER_VOTES = replace(
    VOTES,
    relation=Relation.NODE_REMOVE,
    assumptions=(
        "a public schema bounds every list, and the lists that name one node, by {D}; an edge is in both ends' lists, "
        "but where an end has no list, or where all votes weigh the same",
        "a gradient, a row of the mean and a vote read one record each",
        TWO_HOPS,
        *VOTES.assumptions[2:],
    ),
    scope=Scope.STRANGERS,
)
CAPPED_STRANGER_VOTES = replace(
    CAPPED_VOTES,
    assumptions=(
        "a node lists at most {T0} others, and is in as many lists: {why}",
        "a gradient, a row of the mean and a vote read one record each",
        TWO_HOPS,
        *CAPPED_VOTES.assumptions[2:],
    ),
    scope=Scope.STRANGERS,
)
RESIDUAL_CLIPPING = replace(
    DOUBLE_MIXTURE,
    method="double mixture of residual clipping, privacy loss distribution",
    sampling="two independent Poisson batches, rates {q1} (self terms) and {q2} (neighbour terms)",
    assumptions=(
        "a self gradient reads its root's own record only",
        "{C_n / C_s} is public",
        *DOUBLE_MIXTURE.assumptions,
    ),
)
RESIDUAL_ONE_BATCH = replace(
    RESIDUAL_CLIPPING,
    sampling="one Poisson batch for both terms; the number of drawn affected roots counts as revealed",
)
PRIVATE_QUANTILE = replace(
    DOUBLE_MIXTURE,
    assumptions=(
        "clip norm from the exponential mechanism on a public grid, sensitivity R, eps_quantile-DP",
        *DOUBLE_MIXTURE.assumptions,
    ),
    not_covered=(_public("the split, the number of roots and all hyper-parameters"),),
)
GNMAX = Statement(
    method="Gaussian DP of capped checks and answers",
    relation=Relation.RECORD_REPLACE,
    sampling="none; every record trains one teacher, by a public hash of its id",
    assumptions=(
        "teachers' parts are disjoint: a record moves one vote of each histogram",
        "at most {M} checks and {M_l} answers, whatever the data: how many were made is private",
        "the images that are labelled are public, and so are their order and their number",
        "noise of the votes is drawn in secret",
    ),
    not_covered=(_public("teachers' settings, the threshold and the student's"),),
)
GNMAX_NODES = replace(
    GNMAX,
    relation=Relation.TRAINING_NODE,
    sampling="none; every training node teaches one teacher, by a public shuffle of the ids",
    assumptions=(
        "the validation nodes are public: their features and the edges between them, not their classes",
        "a teacher reads the subgraph of its own part and of the validation nodes: a training node moves one vote of "
        "each histogram, whatever its degree",
        *GNMAX.assumptions[1:2],
        "which validation nodes are labelled, in which order and how many is public",
        *GNMAX.assumptions[3:],
    ),
)
CLASSES = Statement(
    method="Poisson-subsampled Gaussian, a unit replaced, privacy loss distribution",
    relation=Relation.CLASS,
    sampling="Poisson, rate {q}, of {K} classes",
    assumptions=(
        "a class is one vector of norm at most S, whatever its images and however many they are",
        "which classes there are, and their number, is public",
    ),
    not_covered=(PUBLIC,),
)
SUBCLASSES = replace(
    CLASSES,
    relation=Relation.SUBCLASS,
    sampling="Poisson, rate {q}, of {K} subclasses",
    assumptions=(
        "a subclass is one vector of norm at most S, whatever its images and however many they are",
        "an image's subclass is a public function of the image and its class alone; the other images of the class are "
        "not protected with it",
    ),
)
THEOREM_5 = replace(
    SUBCLASSES,
    method="Theorem 5 and Corollary 2, 4 q sqrt(T ln(1/delta)) / sigma",
    relation=Relation.CLASS,
    sampling="Poisson, rate {q}, of {K} classes or subclasses",
    assumptions=(
        "a class or subclass is replaced by another one", "the bound e^x - 1 <= x of Eq. 4.5, false for every x > 0"
    ),
    not_covered=(),
)  # fmt: skip
BOUNDED_RANGE = "{M K} draws of bounded range"
GAUSSIAN_ROWS = "all rows are one Gaussian mechanism of sensitivity sqrt(2 M) C1, {mu}"
PAGERANK_READERS = "at most {R} roots read a node's record"
PAGERANK_TRAINING = Statement(
    method=DOUBLE_MIXTURE.method,
    relation=Relation.NODE_NULL,
    sampling="Poisson, rate {q}, of {M} roots",
    assumptions=(GAUSSIAN_ROWS, PAGERANK_READERS, "roots are chosen by public ids"),
    not_covered=(PUBLIC,),
)
PAGERANK_DRAWS = Statement(
    method="zCDP of the draws", relation=Relation.NODE_NULL, sampling="none", assumptions=(BOUNDED_RANGE,)
)
THEOREMS_6_TO_8 = Statement(
    method="Theorems 6 to 8, moments accountant with lambda 1 to {lambda_max}",
    relation=Relation.NODE_REMOVE,
    sampling="rate {B / N}",
    assumptions=("constants of Theorem 8 are not given: moments accountant at sigma / tau",),
)
COUPLED = Statement(
    method="Theorem 3, RDP of coupled sampling",
    relation=Relation.ENTITY,
    sampling="Poisson, rate {q}, over tuples; {k} negatives each, without replacement",
    assumptions=("every entity is in at most {K} tuples", "one entity moves a batch's sum by at most {C} (Prop. 4.1)"),
)
COUPLED_STANDARD = replace(
    COUPLED,
    method="Theorem C.1, RDP of coupled sampling",
    assumptions=("every entity is in at most {K} tuples", "one tuple moves a batch's sum by at most C"),
)
STATIC_TUPLES = replace(
    COUPLED,
    method="double mixture over tuples, batch sizes revealed, privacy loss distribution",
    assumptions=(
        "stable tuples: at most {K + D} leave with an entity, and at most {D} take their places",
        "the negatives of a batch are one uniformly random ordered sample without replacement",
    ),
    not_covered=(PUBLIC,),
)
UNSTABLE_TUPLES = (
    "capping each degree by a random choice of neighbours is not stable: one entity changes an unbounded number of "
    "tuples that do not name it"
)
