"""Edge votes: networks of records alone, one noisy sum of their votes over neighbours, and a reader of both.

Only edges are protected: records and labels are read freely, and edges by one noisy sum (docs/privacy/aggregates.md).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.records import VALIDATION
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.dense import ACTIVATIONS, Dropout, Mlp
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.sparse import reading
from dpgraph.engine.sampling.batches import FixedSizeSampler
from dpgraph.engine.training.iterates import Scores, StoppingStep, WatchedNetwork, validation_scores
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import BatchStep, Step
from dpgraph.families.aggregates.prepared import PreparedEdgeAggregates
from dpgraph.families.aggregates.train import Stages, equal_parts, run_stages

LEAST_SCORE = 1e-4  # of a class, so that its logarithm is finite


class VoteReader(nn.Module):
    """Class scores from the logarithm l of own scores and from received votes s: a l + b s + B s + c + MLP(l, s).

    At first a = 1 and all else is 0, so that training starts from a node's own scores and noisy votes can only add.
    """

    def __init__(self, model: Any, classes: int, generator: torch.Generator, masks: torch.Generator | None) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.ones(()))
        self.same = nn.Parameter(torch.zeros(()))
        self.across = nn.Parameter(torch.zeros(classes, classes))
        self.bias = nn.Parameter(torch.zeros(classes))
        sizes, drop = [2 * classes, model.width, classes], Dropout(model.dropout, masks)
        self.mlp = Mlp(sizes, ACTIVATIONS[model.activation], False, generator, torch.float32, drop)
        last: Any = self.mlp.layers[-1]
        nn.init.zeros_(last.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Return (n, classes) logits of rows (n, 2 classes)."""
        own, received = rows.chunk(2, dim=1)
        return self.own * own + self.same * received + received @ self.across + self.bias + self.mlp(rows, 0)


class EdgeVoteStages(Stages):
    """Networks of records, each trained without one fold of the training nodes, then a reader.

    Before the reader, a training node votes for its label and another node for its own scores: those of the network
    that was trained without it, or the mean of all networks.
    """

    prepared: PreparedEdgeAggregates

    def __init__(self, job: Job, prepared: Any, features: Tensor, lengths: list[int]) -> None:
        super().__init__(job, prepared, features, lengths)
        model, graph, device = job.cell.model, prepared.data.graph, job.device
        self.folds, self.classes = model.folds, graph.num_classes
        generator = torch_generator(*job.names("parameters"))
        masks = job.masks() if model.dropout else None
        networks: list[nn.Module] = [
            Network(model, features.shape[1], self.classes, generator, masks=masks) for _ in range(self.folds)
        ]
        self.networks = nn.ModuleList([*networks, VoteReader(model, self.classes, generator, masks)]).to(device)
        self.best: list[nn.Module] = list(self.networks)  # by the validation nodes, where a cell has a patience
        labels = np.asarray(graph.labels)
        train_nodes = graph.train_nodes[labels[graph.train_nodes] >= 0]
        shuffled = numpy_generator(*job.names("folds")).permutation(train_nodes)
        self.train_nodes = torch.from_numpy(shuffled).to(device)
        self.fold = torch.arange(len(shuffled), device=device) % self.folds  # of each training node
        looked_at = np.flatnonzero((np.asarray(graph.split) == VALIDATION) & (labels >= 0))
        self.looked_at = torch.from_numpy(looked_at).to(device)
        self.labels = prepared.data.labels

    def rows_of(self, stage: int) -> Tensor:
        """Return records, or for the reader own scores and the sum of votes, which is released here."""
        if stage < self.folds:
            return self.records
        scores = self.own_scores()
        votes = scores.clone()
        votes[self.train_nodes] = nn.functional.one_hot(self.labels[self.train_nodes], self.classes).to(votes.dtype)
        summed = self.prepared.sums.release(votes.double().cpu().numpy())
        received = torch.from_numpy(summed.astype(np.float32)).to(scores.device)
        return torch.cat([scores.clamp_min(LEAST_SCORE).log(), received / received.square().mean().sqrt()], dim=1)

    def own_scores(self) -> Tensor:
        """Return (N, classes) probabilities by records alone."""
        read = LogitsOfRows(self.records)
        each = torch.stack([torch.softmax(read.undropped(one), dim=1) for one in self.best[: self.folds]])
        result = each.mean(dim=0)
        result[self.train_nodes] = each[self.fold, self.train_nodes]
        return result

    def step_of(self, stage: int, network: Any, optimizer: torch.optim.Optimizer) -> Step:
        """Return the step on the training nodes outside the fold of a stage, or on all of them for the reader."""
        training, chosen = self.job.cell.training, self.train_nodes[self.fold != stage]
        if stage < self.folds:
            optimizer = make_optimizer(network.parameters(), training, weight_decay=training.weight_decay)
        rate = self.prepared.sampler.rate
        sampler = FixedSizeSampler(len(chosen), max(round(rate * len(chosen)), 1))
        read, labels = LogitsOfRows(self.rows[chosen]), self.labels[chosen]

        def loss(positions: Tensor) -> Tensor:
            return nn.functional.cross_entropy(read(network)[positions], labels[positions])

        step = BatchStep(optimizer, sampler, self.prepared.batches, loss, self.job.device)
        if training.patience is None:
            return step
        # validation labels are no more protected than training labels
        watched = self.best[stage] = WatchedNetwork(network, deepcopy(network))
        looked_at, judged = LogitsOfRows(self.rows[self.looked_at]), self.labels[self.looked_at]

        def scores() -> Scores:
            return validation_scores(looked_at.undropped(network), judged, training.stop_on)

        return StoppingStep(step, watched, scores, training.patience, max(round(1 / rate), 1))

    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        """Return (N, classes) logits of the current stage."""
        return LogitsOfRows(self.rows).undropped(self.best[max(self.stage, 0)])


class LogitsOfRows:
    """The logits (n, classes) of fixed rows (n, columns) by any network of the stages."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.dense = rows, reading(rows)

    def __call__(self, network: Any) -> Tensor:
        if isinstance(network, Network):
            return network.decoder(network.on_graph(self.rows, None, self.dense))  # type: ignore[no-any-return]
        return network(self.rows)  # type: ignore[no-any-return]

    @torch.no_grad()
    def undropped(self, network: nn.Module) -> Tensor:
        """Return the logits by the best network that was seen, without dropout."""
        current: nn.Module = network.released if isinstance(network, WatchedNetwork) else network
        mode = current.training
        current.eval()
        logits = self(current)
        current.train(mode)
        return logits


class EdgeVotes:
    """Networks of records alone, one noisy sum of votes over neighbours, and a reader of both."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed, with as many steps for each network of records and for the reader."""
        lengths = equal_parts(job.mechanism.steps or 0, job.cell.model.folds + 1)
        return run_stages(job, observe, EdgeVoteStages, lengths)
