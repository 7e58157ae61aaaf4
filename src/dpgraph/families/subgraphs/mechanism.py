"""DP-SGD of a GCN on (sub)graphs (Igamberdiev and Habernal): both readings of the text, and the proved mechanisms.

x_i of their Eq. 5 is a whole subgraph, or a node. In the first reading every step clips one vector, the gradient of the
mean loss of a whole subgraph, to C and adds N(0, (noise_multiplier C)^2). One node may turn that vector around, so it
moves by up to 2 C, not C. In the second (`NodeClippedSubgraphs`) it clips the gradient of each node's loss, and one
node may turn all of them around. Proofs: docs/privacy/subgraphs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from dpgraph.core.errors import UserError, invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.privacy.accountants.steps import MOMENTS, MOST_MOMENTS, ONE_VECTOR, gaussian, moments, poisson_gaussian
from dpgraph.privacy.guarantee import Guarantee, remark_on_zero
from dpgraph.privacy.mechanisms.base import NoisySteps, Shape
from dpgraph.privacy.mechanisms.batches import PairSteps
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Loss
from dpgraph.privacy.public_numbers import nodes_with_loss
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.double_mixture import MixturePair
    from dpgraph.privacy.accountants.renyi import Orders

UNPAID_STOPPING = "validation labels are read after each epoch, to decide when to stop, without a charge to the budget"
TRAINING_ONLY = "training reads training nodes with a loss and the edges between them, no others"


class GraphSplits(NoisySteps):
    """T steps over s parts of the training nodes; `noise_multiplier` is noise std / clip norm."""

    prepared: ClassVar[str] = "dpgraph.families.subgraphs.prepared:PreparedParts"
    may_stop: ClassVar[bool] = False  # a paper's own mechanism may stop on validation labels, without a proof
    num_splits: int = Field(description="s, parts; 1: all training nodes in every step")
    stops_early: bool = Field(default=False, exclude_if=lambda stops: not stops)
    """A run may end before T steps, by validation labels"""

    def _check(self) -> None:
        super()._check()
        if self.stops_early and not self.may_stop:
            raise invalid("stops_early", True, f"False: {UNPAID_STOPPING}")
        if not 1 <= self.num_splits <= self.num_roots:
            raise invalid("num_splits", self.num_splits, f"an integer from 1 to num_roots = {self.num_roots}")

    @property
    def rate(self) -> float:
        """1 / s"""
        return 1 / self.num_splits

    def published(self) -> Guarantee:
        """Return the guarantee by the moments accountant of the paper's App. A, with q = 1 / s and sensitivity C."""
        relation = Relation.GRAPH if self.num_splits == 1 else MOMENTS.relation
        return self._moments(replace(MOMENTS, relation=relation), PRESUMED)

    def _moments(self, statement: Statement, presumed: Shape) -> Guarantee:
        steps, noise = self.closed()
        epsilon = moments(q=self.rate, noise_multiplier=noise, steps=steps, delta=self.delta)
        stated = statement.filled({"lambda_max": MOST_MOMENTS, "q": f"1/{self.num_splits}"}).also(
            "q = 1/s, T = epochs times s: not stated for splits, but Table 3 (q = 1) comes out digit by digit"
        )
        unmet = (*self._unmet(presumed), *([UNPAID_STOPPING] if self.stops_early else []))
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=unmet)

    @property
    def epochs(self) -> int:
        """E = ceil(T / s), a last one that has only begun included."""
        steps, _ = self.closed()
        return math.ceil(steps / self.num_splits)

    def _rigorous(
        self, epsilon: float, method: str, sampling: str, *assumptions: str, vector: str = ONE_VECTOR
    ) -> Guarantee:
        if self.stops_early:
            return self._none("rigorous", UNPAID_STOPPING, sampling)
        stated = Statement(method=method, relation=self.relation, sampling=sampling, assumptions=(vector, *assumptions))
        return self._proved(stated, epsilon, *remark_on_zero(epsilon))

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the one clipped vector that noise is added to; the mean's divisor is inside of it."""
        if self.shape.batches is Batches.NONE:
            return (self._term(clip_norms, loss=Loss.NOTHING, draws=0),)
        fresh = self.shape.batches is Batches.POISSON
        drawn = {"rate": self.rate} if fresh else {"num_parts": self.num_splits}
        return (self._term(clip_norms, **drawn),)

    def _gaussian(self, steps: int, vectors: int = 1) -> float:
        """Return the epsilon of Gaussian steps of sensitivity 2 C a vector: mu = 2 vectors sqrt(steps) / multiplier."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        _, noise = self.closed()
        return gaussian_epsilon(mu=2 * vectors * math.sqrt(steps) / noise, delta=self.delta)

    def _gaussian_rdp(self, steps: int, orders: Orders, vectors: int = 1) -> np.ndarray:
        _, noise = self.closed()
        if self.stops_early:
            raise UserError(f"mechanism={self.kind}: nothing is guaranteed: {UNPAID_STOPPING}")
        return steps * np.asarray(orders) * (2 * vectors / noise) ** 2 / 2


PRESUMED = Shape(lists=Lists.INDUCED, batches=Batches.POISSON, clipped=Clipped.ROOT)
PRESUMED_OF_NODES = Shape(lists=Lists.NONE, batches=Batches.POISSON, clipped=Clipped.ROOT)
MOMENTS_OF_NODES = replace(
    MOMENTS,
    relation=Relation.NODE_REMOVE,
    assumptions=("one node's loss is one record, whose removal moves the sum by C and no other node's gradient",),
)


class MaskedSubgraphs(GraphSplits):
    """The published mechanism: fixed parts mask the loss only, messages cross the whole graph.

    One part is the full graph. Any node may change the gradient of every part, and parts follow a known schedule, so
    sampling does not amplify: T Gaussian steps of sensitivity 2 C. In return the guarantee is for any other graph.
    """

    relation: ClassVar[Relation] = gaussian.statement.relation
    refuses_delta: ClassVar[bool] = False
    may_stop: ClassVar[bool] = True
    public_masks: ClassVar[bool] = True

    kind: Literal["masked-subgraphs"] = "masked-subgraphs"

    def rigorous(self) -> Guarantee:
        """Return the guarantee of T Gaussian steps of sensitivity 2 C, without amplification by sampling."""
        steps, _ = self.closed()
        return self._rigorous(
            self._gaussian(steps),
            f"{gaussian.statement.method}, mu = 2 sqrt(T) / noise multiplier",
            "none: every step may read every node",
        )

    def rdp(self, orders: Orders) -> np.ndarray:
        return self._gaussian_rdp(self.closed()[0], orders)

    shape: ClassVar[Shape] = Shape(lists=Lists.WHOLE_GRAPH, batches=Batches.MASKED_PARTS, clipped=Clipped.STEP)


class UnclippedSubgraphs(GraphSplits):
    """The authors' released code: its clipping acts on a detached copy of the gradient and has no effect.

    Noise has the std that the paper's accountant assumes, but gradients have any norm, so no epsilon holds. Since both
    layers of weights grow with the noise, and gradients with the weights, training hardly depends on the noise.
    """

    relation: ClassVar[Relation] = Relation.NONE
    refuses_delta: ClassVar[bool] = False
    may_stop: ClassVar[bool] = True
    public_masks: ClassVar[bool] = True

    kind: Literal["unclipped-subgraphs"] = "unclipped-subgraphs"

    def rigorous(self) -> Guarantee:
        """Return a guarantee without epsilon."""
        reason = "nothing is clipped, so one node may move a gradient without bound"
        reason = f"{reason}; {UNPAID_STOPPING}" if self.stops_early else reason
        return self._none("rigorous", reason, "none: every step may read every node")

    def rdp(self, orders: Orders) -> np.ndarray:
        return np.full(len(orders), np.inf)

    shape: ClassVar[Shape] = Shape(lists=Lists.WHOLE_GRAPH, batches=Batches.MASKED_PARTS, clipped=Clipped.NOTHING)


class NodeClippedSubgraphs(GraphSplits):
    """Eq. 5 with a node for x_i: each node's gradient is clipped to C, a part's sum is noised and divided by L = N / s.

    Parts mask the loss only, as published, so a node's gradient depends on all that lies within two hops. Where degrees
    have no bound, one node may turn around the gradient of every node with a loss: a step moves by up to 2 C for each
    of its nodes, and no less is proved for one node than for any other graph. T Gaussian steps of sensitivity
    2 C ceil(N / s). A label that is replaced by another moves one term of one step an epoch by up to 2 C: E Gaussian
    steps, stated as a remark.
    """

    relation: ClassVar[Relation] = gaussian.statement.relation
    refuses_delta: ClassVar[bool] = False
    may_stop: ClassVar[bool] = True
    public_masks: ClassVar[bool] = True

    kind: Literal["node-clipped-subgraphs"] = "node-clipped-subgraphs"

    @property
    def most_nodes(self) -> int:
        """ceil(N / s): nodes of the largest part, all of whose gradients one node may turn around."""
        return math.ceil(self.num_roots / self.num_splits)

    @property
    def divisor(self) -> float:
        """L, the mean size of a part."""
        return self.num_roots / self.num_splits

    def published(self) -> Guarantee:
        """Return the guarantee by the same formula with a node for the record: q = L / N = 1 / s, sensitivity C."""
        return self._moments(MOMENTS_OF_NODES, PRESUMED_OF_NODES)

    def rigorous(self) -> Guarantee:
        """Return the guarantee of T Gaussian steps of sensitivity 2 C ceil(N / s), and that of labels as a remark."""
        steps, _ = self.closed()
        return self._rigorous(
            self._gaussian(steps, self.most_nodes),
            f"{gaussian.statement.method}, mu = 2 n sqrt(T) / noise multiplier, n = {self.most_nodes} nodes of a part",
            "none: every step may read every node",
            f"if labels alone change, one of them replaced by another, epsilon is {self._gaussian(self.epochs):.4g}",
            vector="the sum of each node's clipped gradient: one node may turn all of them around, by 2 C each",
        )

    def rdp(self, orders: Orders) -> np.ndarray:
        return self._gaussian_rdp(self.closed()[0], orders, self.most_nodes)

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        return (self._term(clip_norms, num_parts=self.num_splits, batch_size=self.most_nodes),)

    shape: ClassVar[Shape] = Shape(lists=Lists.WHOLE_GRAPH, batches=Batches.MASKED_PARTS, clipped=Clipped.ROOT)


class CutSubgraphs(GraphSplits):
    """Fixed parts without the edges between them: a node touches one step of each of the E = ceil(T / s) epochs.

    The part of a node is a public function of its id, so no other node changes parts when one leaves. Parallel
    composition over the parts: E Gaussian steps of sensitivity 2 C.
    """

    relation: ClassVar[Relation] = Relation.NODE_REMOVE

    kind: Literal["cut-subgraphs"] = "cut-subgraphs"

    def rigorous(self) -> Guarantee:
        """Return the guarantee by parallel composition: E Gaussian steps of sensitivity 2 C."""
        return self._rigorous(
            self._gaussian(self.epochs),
            f"{gaussian.statement.method}, mu = 2 sqrt(E) / noise multiplier, E = {self.epochs} epochs",
            f"{self.num_splits} fixed parts by id, in turn",
            TRAINING_ONLY,
            "no edge leads from one part to another",
        )

    def rdp(self, orders: Orders) -> np.ndarray:
        return self._gaussian_rdp(self.epochs, orders)

    shape: ClassVar[Shape] = Shape(lists=Lists.CUT, batches=Batches.PARTS_BY_ID, clipped=Clipped.STEP)


class PoissonSubgraphs(PairSteps, GraphSplits):
    """A fresh subgraph in each step: every training node with probability q = 1 / s, and the edges among them.

    Given the other nodes of a step, the clipped gradient is g without the node and, with probability q, some g' with
    |g' - g| <= 2 C: the Poisson-subsampled Gaussian at half the noise multiplier. True removal of a node of any degree.
    """

    relation: ClassVar[Relation] = Relation.NODE_REMOVE

    kind: Literal["poisson-subgraphs"] = "poisson-subgraphs"

    @property
    def dominating_pair(self) -> MixturePair:
        """Return the pair of one step, in units of 2 C."""
        from dpgraph.privacy.accountants.double_mixture import affected_roots_pair

        _, noise = self.closed()
        return affected_roots_pair(affected_roots=1, rate=self.rate, noise_std=noise / 2)

    def rigorous(self) -> Guarantee:
        """Return the guarantee of T Poisson-subsampled Gaussian steps at half the noise multiplier."""
        return self._rigorous(
            self._gaussian(self.closed()[0]) if self.num_splits == 1 else self._composed(),
            "Poisson-subsampled Gaussian at noise multiplier / 2, privacy loss distribution",
            f"{poisson_gaussian.statement.filled({'q': f'1/{self.num_splits}'}).sampling}, of nodes",
            TRAINING_ONLY,
            "the mean's divisor is a function of the drawn nodes alone and inside of the clipped vector",
        )

    shape: ClassVar[Shape] = Shape(lists=Lists.INDUCED, batches=Batches.POISSON, clipped=Clipped.STEP)


class PureNoise(GraphSplits):
    """SGD-DP whose gradient is zero: a control that reads no record, so that its epsilon is 0 at any noise."""

    relation: ClassVar[Relation] = Relation.GRAPH
    refuses_delta: ClassVar[bool] = False
    public_masks: ClassVar[bool] = True

    kind: Literal["pure-noise"] = "pure-noise"

    def rigorous(self) -> Guarantee:
        """Return the guarantee of a run that reads no record: epsilon 0."""
        self.closed()
        return Guarantee(
            mode="rigorous",
            accountant="none needed",
            relation=self.relation,
            scope=self.inference.scope,
            sampling="none",
            assumptions=("no record is read",),
            epsilon=0.0,
            delta=0.0,
        )

    def rdp(self, orders: Orders) -> np.ndarray:
        return np.zeros(len(orders))

    shape: ClassVar[Shape] = Shape(lists=Lists.NONE, batches=Batches.NONE, clipped=Clipped.STEP)


class NodeNoise(PureNoise):
    """The control of `NodeClippedSubgraphs`: the same noise, divided by the same L, on no gradient."""

    kind: Literal["node-noise"] = "node-noise"  # type: ignore[assignment]

    @property
    def divisor(self) -> float:
        return self.num_roots / self.num_splits

    def published(self) -> Guarantee:
        """Return the guarantee that the paper's formula gives the control."""
        return self._moments(MOMENTS_OF_NODES, PRESUMED_OF_NODES)


S = TypeVar("S", bound=GraphSplits)


def parts(kind: type[S]) -> Callable[[MechanismRequest], S]:
    """Return the builder of mechanisms of one class."""

    def build(asked: MechanismRequest) -> S:
        training = asked.cell.training
        used = nodes_with_loss(num_train=asked.num_train, train_share=training.train_share)
        stops = getattr(training, "patience", None) is not None
        return kind(**asked.common(used), num_splits=training.num_splits, stops_early=stops)

    return build
