"""Train a private model of an own graph at a budget, by the training, mechanism and checks of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN
from dpgraph.engine.methods.base import Job
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import Order, PrivateData, expected, prepare
from dpgraph.engine.training.loop import Diverged
from dpgraph.engine.training.steps import PrivateStep
from dpgraph.families.registry import spec, trainer_of
from dpgraph.families.trees.prepared import Losses
from dpgraph.families.votes.learnt import LearntReader
from dpgraph.families.votes.mechanism import BucketReader
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.families.votes.removed_mechanism import CappedVotes
from dpgraph.families.votes.rows import RowMean
from dpgraph.own_graph.budget import BudgetedRun
from dpgraph.own_graph.graph import OwnGraph
from dpgraph.own_graph.secret import SecretOrder, check_slack, check_vote_slack
from dpgraph.privacy.relation import Relation
from dpgraph.problems.registry import problem_of


@dataclass(frozen=True)
class TrainedModel:
    budgeted: BudgetedRun
    weight: np.ndarray  # (C, F')
    bias: np.ndarray  # (C,)
    mean: RowMean | None  # the F' of F features that are kept, and the mean that rows lose; None: rows are only scaled
    buckets: np.ndarray | None  # (N, C + 1); None: without votes
    reader: BucketReader | None  # of the buckets
    scores: np.ndarray  # (N, C), of each node from the release and its own record
    secret: bool
    learnt: LearntReader | None = None  # from that reader on


def sides(own: OwnGraph, relation: Relation) -> np.ndarray:
    """Return the training nodes, (N,) bool and public. Under node-remove they also vote; all others receive.

    Elsewhere every node is on this side; a node that is held out has no label to train on. Who has a label says
    no part of it, since that is protected.
    """
    return own.roles == TRAIN if relation is Relation.NODE_REMOVE else np.ones(len(own.ids), dtype=bool)


def train(own: OwnGraph, what: BudgetedRun, seed: int | None) -> TrainedModel:
    """Train a model. `seed` None: a release with the operating system's noise. A number: reproducible, not private
    who knows it. Raises UserError where training diverges."""
    graph = own.graph()
    labels = np.where(graph.split == TRAIN, graph.labels, -1)
    split = np.where(sides(own, what.relation), TRAIN, TEST).astype(np.uint8)
    shaped = replace(graph, labels=labels, split=split)
    cell, mechanism, device = what.cell, what.mechanism, torch.device("cpu")
    known = spec(cell.method)
    known.check_runs(mechanism)
    data = PrivateData.from_graph(shaped, device)
    if seed is None:
        prepared: PreparedVotes = SecretVotes(SecretOrder(cell, mechanism, 0, data, device))
    else:
        prepared = expected(prepare(Order(cell, mechanism, seed, data, device)), PreparedVotes)
    shown = problem_of(cell.task).working().unlabelled(shaped)
    doing = f"training on {own.where}, epsilon {what.target:g}"
    job = Job(shown, cell, seed or 0, what.calibration, device, prepared, doing=doing)
    try:
        outcome = trainer_of(known).run(job, lambda step, logits: {})
    except Diverged as error:
        raise UserError(f"training: {error}") from None
    prepared.check()
    if not isinstance(prepared.final, Network):
        raise TypeError("no training ran")
    weight, bias = (parameter.detach().numpy() for parameter in prepared.final.decoder.parameters())
    reader, secret = prepared.reader, seed is None
    return TrainedModel(
        what, weight, bias, prepared.mean, prepared.released, reader, outcome.logits, secret, prepared.learnt
    )


def check_exact(mechanism: Any, *, nodes: int, classes: int, features: int) -> None:
    """Raise UserError, by public numbers alone, where rounding in a release is not paid for."""
    over = mechanism.noise_std_over_clip
    check_slack(roots=nodes, parameters=classes * (features + 1), noise_over_clip=over)
    if isinstance(mechanism, CappedVotes) and mechanism.votes_ratio is not None:
        # what a receiver moves is a difference of two rounded votes, which the raised noise pays for
        check_vote_slack(classes=classes, mass=mechanism.mass, floor=mechanism.degree_floor, ids=nodes)


class SecretVotes(PreparedVotes):
    """The prepared run of votes in float64, refused where rounding is not paid for; noise is the order's."""

    def __init__(self, order: SecretOrder) -> None:
        graph = order.data.graph
        if order.cell.training.sampling_rate != 1.0:
            raise TypeError("a release: expected full batches")
        check_exact(order.mechanism, nodes=graph.num_nodes, classes=graph.num_classes, features=graph.num_features)
        super().__init__(order)
        self.data = replace(self.data, features=self.data.features.double())

    def step(self, network: Any, optimizer: torch.optim.Optimizer, losses: Losses | None = None) -> PrivateStep:
        return super().step(network.double(), optimizer, losses)
