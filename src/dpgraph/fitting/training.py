"""From an own graph and a budget to a private model, by the training, the mechanism and the checks of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dpgraph.data.records import TRAIN
from dpgraph.errors import UserError, invalid
from dpgraph.fitting.own_graph import OwnGraph
from dpgraph.fitting.secret import SecretGenerator, as_secret, check_slack, noised
from dpgraph.methods.base import Job
from dpgraph.methods.registry import check_runs, method
from dpgraph.methods.votes.ballots import GRID, Ballots
from dpgraph.methods.votes.own_graph import KINDS, own_graph_cell
from dpgraph.methods.votes.prepared import PreparedVotes
from dpgraph.methods.votes.readers import READERS
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.preparation.base import Order, PrivateData, expected, prepare
from dpgraph.preparation.trees import Losses
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.votes import PoissonVotes
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.privacy.vote_sensitivity import vote_norm
from dpgraph.problems.registry import problem_of
from dpgraph.training.loop import Diverged
from dpgraph.training.steps import PrivateStep


@dataclass(frozen=True)
class Budgeted:
    """A cell with its calibration: functions of public numbers."""

    cell: Any
    calibration: Calibration

    @property
    def mechanism(self) -> PoissonVotes:
        mechanism = self.calibration.mechanism
        if not isinstance(mechanism, PoissonVotes):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of votes")
        return mechanism

    @property
    def training_mu(self) -> float:
        steps, noise = self.mechanism.closed()
        return float(np.sqrt(steps) / noise)

    @property
    def mu(self) -> float:
        """Of training and votes together, as one Gaussian mechanism: batches are full, and nothing is chosen."""
        return float(np.hypot(self.training_mu, self.mechanism.release_mu))


@dataclass(frozen=True)
class Trained:
    budgeted: Budgeted
    weight: np.ndarray  # (C, F)
    bias: np.ndarray  # (C,)
    buckets: np.ndarray | None  # (N, C + 1); None: nobody votes
    scores: np.ndarray  # (N, C), of each node from the release and its own record
    secret: bool


def budgeted(kind: str, *, num_nodes: int, num_labelled: int, epsilon: float, delta: float | None) -> Budgeted:
    if kind not in KINDS:
        raise invalid("--method", kind, f"one of auto, {', '.join(KINDS)}")
    chosen = usual_delta(num_nodes) if delta is None else delta
    if not 0 < chosen < 1 / num_nodes:
        raise invalid("--delta", chosen, f"a number > 0 and < 1 / nodes = {1 / num_nodes:.3g}")
    numbers = {"num_nodes": num_nodes, "num_labelled": num_labelled}
    cell = resolve(own_graph_cell(kind, **numbers, epsilon=epsilon, delta=chosen), "fit")  # type: ignore[arg-type]
    return Budgeted(cell, calibrate(cell, num_nodes, num_protected=num_nodes))


def train(own: OwnGraph, what: Budgeted, seed: int | None) -> Trained:
    """`seed` None: a release, with noise from the operating system. Any number: reproducible, and private to nobody
    who knows it. Raises UserError where training diverges."""
    graph = own.graph()
    train_nodes = graph.split == TRAIN
    # every node is a root, so that the sizes that a mechanism reads tell nothing of labels; a node that is held out has
    # none to train on
    everybody = replace(
        graph, labels=np.where(train_nodes, graph.labels, -1), split=np.full(graph.num_nodes, TRAIN, dtype=np.uint8)
    )
    cell, mechanism, device = what.cell, what.mechanism, torch.device("cpu")
    check_runs(cell.method, mechanism)
    order = Order(cell, mechanism, seed or 0, PrivateData.of(everybody, device), device)
    if seed is None:
        prepared: PreparedVotes = SecretVotes(order)
    else:
        prepared = expected(prepare(order), PreparedVotes)
    shown = problem_of(cell.task).working().unlabelled(everybody)
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
        self._votes = _Silent()  # type: ignore[assignment]

    def step(self, network: Any, optimizer: torch.optim.Optimizer, losses: Losses | None = None) -> PrivateStep:
        return super().step(network.double(), optimizer, losses)

    def ballots(self) -> Ballots:
        plain, mechanism = super().ballots(), self.votes_of
        over = (mechanism.votes_ratio or 0.0) * mechanism.closed()[1]
        std = over * vote_norm(num_classes=self.graph.num_classes, mass=mechanism.mass)
        return NoisedBallots(plain.lists, plain.votes, plain.degree_floor, std)


@dataclass(frozen=True)
class NoisedBallots(Ballots):
    """Buckets with their noise, on the grid of the votes."""

    std: float = 0.0

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        if not self.std > 0:
            raise TypeError("buckets without noise")
        return noised(super().buckets(ballots), self.std, 1 / GRID)


class _Silent:
    """In the place of the generator of the buckets' noise, which `NoisedBallots` has added."""

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


READER = READERS[0]
