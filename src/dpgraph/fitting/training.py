"""From an own graph and a budget to a private model, by the training, the mechanism and the checks of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from dpgraph.data.records import TEST, TRAIN
from dpgraph.errors import UserError
from dpgraph.fitting.budget import Budgeted
from dpgraph.fitting.own_graph import OwnGraph
from dpgraph.fitting.secret import (
    RAISED,
    SecretGenerator,
    as_secret,
    check_slack,
    check_vote_slack,
    grid_of,
    noised,
)
from dpgraph.methods.base import Job
from dpgraph.methods.registry import check_runs, method
from dpgraph.methods.votes.ballots import GRID, Ballots, CappedBallots
from dpgraph.methods.votes.prepared import PreparedVotes
from dpgraph.preparation.base import Order, PrivateData, expected, prepare
from dpgraph.preparation.trees import Losses
from dpgraph.privacy.mechanisms.votes import CappedVotes
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.vote_sensitivity import vote_norm
from dpgraph.problems.registry import problem_of
from dpgraph.training.loop import Diverged
from dpgraph.training.steps import PrivateStep


@dataclass(frozen=True)
class Trained:
    budgeted: Budgeted
    weight: np.ndarray  # (C, F)
    bias: np.ndarray  # (C,)
    buckets: np.ndarray | None  # (N, C + 1); None: nobody votes
    scores: np.ndarray  # (N, C), of each node from the release and its own record
    secret: bool


def sides(own: OwnGraph, relation: Relation) -> np.ndarray:
    """(N,) bool, public: the nodes that train. Under node-remove it is who votes, too; all others receive.

    Elsewhere every node is on this side, so that the sizes that a mechanism reads tell nothing of labels; a node that
    is held out has no label to train on. Under node-remove the sides are the column `split`, or else who has a label.
    """
    if relation is not Relation.NODE_REMOVE:
        return np.ones(len(own.ids), dtype=bool)
    train = own.roles == TRAIN
    return train if own.split is not None else train & (own.labels >= 0)


def train(own: OwnGraph, what: Budgeted, seed: int | None) -> Trained:
    """`seed` None: a release, with noise from the operating system. Any number: reproducible, and private to nobody
    who knows it. Raises UserError where training diverges."""
    graph = own.graph()
    labels = np.where(graph.split == TRAIN, graph.labels, -1)
    split = np.where(sides(own, what.relation), TRAIN, TEST).astype(np.uint8)
    shaped = replace(graph, labels=labels, split=split)
    cell, mechanism, device = what.cell, what.mechanism, torch.device("cpu")
    check_runs(cell.method, mechanism)
    order = Order(cell, mechanism, seed or 0, PrivateData.of(shaped, device), device)
    if seed is None:
        prepared: PreparedVotes = SecretVotes(order)
    else:
        prepared = expected(prepare(order), PreparedVotes)
    shown = problem_of(cell.task).working().unlabelled(shaped)
    job = Job(shown, cell, seed or 0, what.calibration, device, prepared)
    try:
        outcome = method(cell.method).run(job, lambda step, logits: {})
    except Diverged as error:
        raise UserError(f"training: {error}") from None
    prepared.check()
    step = prepared._step
    if step is None:
        raise TypeError("nothing was trained")
    weight, bias = (parameter.detach().numpy() for parameter in step.network.decoder.parameters())
    return Trained(what, weight, bias, prepared.released, outcome.logits, seed is None)


class SecretVotes(PreparedVotes):
    """The prepared run of votes with noise for a release, in float64."""

    def __init__(self, order: Order) -> None:
        if order.cell.training.sampling_rate != 1.0 or order.cell.privacy.mean_share:
            raise TypeError("a release: expected full batches and no mean of the rows")
        super().__init__(order)
        self.data = replace(self.data, features=self.data.features.double())
        self.batches = SecretGenerator()  # type: ignore[assignment]
        for term in self.terms:
            term.draws.generator = self.batches
        self.noise = as_secret(self.noise)
        classes, features = self.graph.num_classes, self.graph.num_features
        parameters, over = classes * (features + 1), order.noise_over_clip
        check_slack(roots=self.graph.num_nodes, parameters=parameters, noise_over_clip=over)
        votes, first = self.votes_of, 0  # releases before the buckets
        if isinstance(votes, CappedVotes) and votes.votes_ratio is not None:
            first = 1 if votes.hubs_noise is None else 2
        self._degrees, self._votes = _Silent(first), _Silent(1)  # type: ignore[assignment]

    def step(self, network: Any, optimizer: torch.optim.Optimizer, losses: Losses | None = None) -> PrivateStep:
        return super().step(network.double(), optimizer, losses)

    def ballots(self) -> Ballots:
        plain = super().ballots()
        if type(plain) is Ballots:
            return NoisedBallots(plain.lists, plain.votes, plain.degree_floor, self._std)
        if not isinstance(plain, NoisedCapped):
            raise TypeError(f"{type(plain).__name__}: no noise of the operating system is known for these votes")
        return plain

    def _capped(self, ballots: CappedBallots, mechanism: CappedVotes) -> CappedBallots:
        # what a receiver moves is a difference of two rounded votes, which the raised noise pays for
        longest = int(ballots.lists.shape[0])
        check_vote_slack(classes=self.graph.num_classes, mass=mechanism.mass, floor=mechanism.degree_floor, ids=longest)
        raised = NoisedCapped.of_votes(ballots, self._std * (1 + RAISED), mechanism.hubs_noise)
        return super()._capped(raised, mechanism)

    @property
    def _std(self) -> float:
        """Of the noise in a bucket."""
        over = (self.votes_of.votes_ratio or 0.0) * self.votes_of.closed()[1]
        return over * vote_norm(num_classes=self.graph.num_classes, mass=self.votes_of.mass)


@dataclass(frozen=True)
class NoisedBallots(Ballots):
    """Buckets with their noise, on the grid of the votes."""

    std: float = 0.0

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        return _with_noise(super().buckets(ballots), self.std, 1 / GRID)


@dataclass(frozen=True)
class NoisedCapped(CappedBallots):
    """The same under node-remove, with that of the numbers of voters and of the degrees, which are whole numbers."""

    std: float = 0.0
    hubs_std: float | None = None

    @classmethod
    def of_votes(cls, plain: CappedBallots, std: float, hubs_std: float | None) -> NoisedCapped:
        own = {field.name: getattr(plain, field.name) for field in fields(CappedBallots)}
        return cls(**own, std=std, hubs_std=hubs_std)

    def without_hubs(self, noisy: np.ndarray, limit: float) -> CappedBallots:
        std = self.hubs_std or 0.0
        return super().without_hubs(_with_noise(noisy, std, grid_of(std)), limit)

    def capped(self, noisy: np.ndarray, margin: float, std: float) -> CappedBallots:
        return super().capped(_with_noise(noisy, std, grid_of(std)), margin, std)

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        return _with_noise(super().buckets(ballots), self.std, 1 / GRID)


def _with_noise(values: np.ndarray, std: float, grid: float) -> np.ndarray:
    if not std > 0:
        raise TypeError("a release without noise")
    return noised(values.astype(np.float64), std, grid)


class _Silent:
    """In the place of the generator of a release's noise, which the ballots above add; `expected` ones, no more."""

    def __init__(self, expected: int) -> None:
        self.left = expected

    def standard_normal(self, shape: Any) -> np.ndarray:
        if not self.left:
            raise TypeError("a release that no noise of the operating system was meant for")
        self.left -= 1
        return np.zeros(shape)
