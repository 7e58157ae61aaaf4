"""Training of GAP, ProGAP and DPDGC in stages, each on own records and on all that was released before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import torch_generator
from dpgraph.engine.methods.assembly import Bench, SeedRun, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.dense import ACTIVATIONS, Mlp
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import Step
from dpgraph.families.aggregates.embedding import ListEmbedding, PreparedEmbedding
from dpgraph.families.aggregates.embedding_mechanism import first_half
from dpgraph.families.aggregates.networks import HopsNetwork, SkipNetwork
from dpgraph.families.aggregates.prepared import PreparedAggregates, PreparedEdgeAggregates, PreparedSums

CHUNK_ROWS = 16_384


class Stages(ABC):
    """The networks of all stages, and the step that goes through them; it also predicts.

    A stage is entered at its first step, when its rows are computed. Predictions are those of the stage of the last
    step. The sums of a stage that no step enters are never released.
    """

    networks: nn.ModuleList  # one per stage

    def __init__(self, job: Job, prepared: PreparedSums, features: Tensor, lengths: Sequence[int]) -> None:
        """`features` (N, F) of own records; `lengths`: steps of each stage."""
        self.job, self.prepared, self.records = job, prepared, features
        self.first_steps = np.cumsum([0, *lengths[:-1]])
        self.done, self.stage = 0, -1
        self.rows = features  # (N, columns) that the stage reads
        self._step: Step | None = None

    @abstractmethod
    def rows_of(self, stage: int) -> Tensor:
        """Return (N, columns) that a stage reads; releases sums. Called once for each stage, in their order."""

    def __call__(self) -> int:
        stage = int(np.searchsorted(self.first_steps, self.done, side="right")) - 1
        while self.stage < stage or self._step is None:
            self.stage += 1
            self.rows = self.rows_of(self.stage)
            network: Any = self.networks[self.stage]
            optimizer = make_optimizer(network.parameters(), self.job.cell.training)
            self._step = self.step_of(self.stage, network, optimizer)
        self.done += 1
        return self._step()

    def step_of(self, stage: int, network: Any, optimizer: torch.optim.Optimizer) -> Step:
        """Return the step that trains the network of a stage on `rows`."""
        return self.prepared.step_on(self.rows, network, optimizer)

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        """Return (N, classes) logits of the current stage; the arguments of a predictor are not used."""
        current = self.networks[max(self.stage, 0)]
        return torch.cat([self.classify(current, part) for part in self.rows.split(CHUNK_ROWS)])

    @staticmethod
    def classify(network: Any, rows: Tensor) -> Tensor:
        """Return (n, classes) logits of rows (n, columns)."""
        return network.classify(rows)  # type: ignore[no-any-return]

    def received(self, states: Tensor) -> Tensor:
        """Return (N, d) the noisy sum of the senders' states (N, d), scaled to norm 1 again."""
        summed = self.prepared.sums.release(states.double().cpu().numpy())
        return torch.from_numpy(unit_rows(summed).astype(np.float32)).to(self.records.device)


def equal_parts(steps: int, parts: int) -> list[int]:
    """Return the number of steps of each part, the first ones longer.

    >>> equal_parts(8, 3)
    [3, 3, 2]
    """
    return [steps // parts + (part < steps % parts) for part in range(parts)]


class GapStages(Stages):
    """The encoder, then the classification module on its states and K noisy sums (GAP, section 4)."""

    def __init__(self, job: Job, prepared: Any, features: Tensor, lengths: list[int]) -> None:
        super().__init__(job, prepared, features, lengths)
        model, generator = job.cell.model, torch_generator(*job.names("parameters"))
        classes = job.graph.num_classes
        self.encoder = Network(model, features.shape[1], classes, generator)
        width = model.width
        bases = [_base(model, width, generator) for _ in range(model.aggregations + 1)]
        head = _head(model, width * len(bases), classes, generator)
        self.networks = nn.ModuleList([self.encoder, HopsNetwork(bases, head, False)]).to(job.device)

    def rows_of(self, stage: int) -> Tensor:
        """Return own records, then the states and their K sums, which are released here."""
        if stage == 0:
            return self.records
        with torch.no_grad():
            states = self.encoder.encoder(self.records)
        own = unit_rows(states.double().cpu().numpy()).astype(np.float32)
        blocks = [torch.from_numpy(own).to(states.device)]
        for _ in range(self.job.cell.model.aggregations):
            blocks.append(self.received(blocks[-1]))
        return torch.cat(blocks, dim=1)

    @staticmethod
    def classify(network: Any, rows: Tensor) -> Tensor:
        """Return (n, classes) logits by the encoder with its head, or by the classification module."""
        if isinstance(network, Network):
            return network.decoder(network.encoder(rows))  # type: ignore[no-any-return]
        return network.classify(rows)  # type: ignore[no-any-return]


class ProGapStages(Stages):
    """Stages that train one more base MLP and a head of their own on one more noisy sum (Algorithm 1 of ProGAP).

    Before stage s, the states of the last base MLP of stage s - 1 are summed. Sums are kept, while later stages train
    base MLPs on.
    """

    def __init__(self, job: Job, prepared: Any, features: Tensor, lengths: list[int]) -> None:
        super().__init__(job, prepared, features, lengths)
        model, generator = job.cell.model, torch_generator(*job.names("parameters"))
        width, classes = model.width, job.graph.num_classes
        sizes = [features.shape[1], *[width] * model.aggregations]
        bases = [_base(model, size, generator) for size in sizes]
        heads = [_head(model, width * (stage + 1), classes, generator) for stage in range(len(bases))]
        networks = [HopsNetwork(bases[: stage + 1], head, True) for stage, head in enumerate(heads)]
        self.networks = nn.ModuleList(networks).to(job.device)

    def rows_of(self, stage: int) -> Tensor:
        """Return own records and all sums so far, the last one released here."""
        if stage == 0:
            return self.records
        before: Any = self.networks[stage - 1]
        with torch.no_grad():
            states = before.bases[-1](self.rows[:, -before.blocks[-1] :])
        return torch.cat([self.rows, self.received(states)], dim=1)


class DgcStages(Stages):
    """Vectors of nodes, then a classifier of own records and one noisy sum of these vectors (Chien et al. 2023).

    While vectors are learnt, predictions are those of the initial classifier on own records. A row of ids tells of
    others and is released only within the noisy sum.
    """

    prepared: PreparedEmbedding

    def __init__(self, job: Job, prepared: Any, features: Tensor, lengths: list[int]) -> None:
        super().__init__(job, prepared, features, lengths)
        model, generator = job.cell.model, torch_generator(*job.names("parameters"))
        width, classes, activation = model.width, job.graph.num_classes, ACTIVATIONS[job.cell.model.activation]
        embedding = ListEmbedding(len(features), width, classes, activation, generator)
        own = _plain(model, [features.shape[1]] + [width] * model.encoder_layers, generator)
        mixing = _plain(model, [2 * width, width], generator)
        classifier = SkipNetwork(own, mixing, _head(model, width, classes, generator))
        self.networks = nn.ModuleList([embedding, classifier]).to(job.device)
        self.rows = torch.cat([features, features.new_zeros(len(features), width)], dim=1)

    def rows_of(self, stage: int) -> Tensor:
        """Return own records, then own records and the sum of the vectors, which is released here."""
        if stage == 0:
            return self.rows
        embedding: Any = self.networks[0]
        return torch.cat([self.records, self.received(embedding.weight.detach())], dim=1)

    def step_of(self, stage: int, network: Any, optimizer: torch.optim.Optimizer) -> Step:
        """Return the step of the vectors, then that of the classifier."""
        if stage == 0:
            return self.prepared.embedding_step(network, optimizer)
        return super().step_of(stage, network, optimizer)

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        """Return (N, classes) logits of the classifier."""
        classifier: Any = self.networks[1]
        return torch.cat([classifier.classify(part) for part in self.rows.split(CHUNK_ROWS)])


class Gap:
    """An encoder of own records, K noisy sums of its states over neighbours, and a classifier of all of these.

    Node level: encoder and classifier by DP-SGD. Edge level: without noise, as features and labels are not protected.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed: half of the steps for the encoder, half for the classifier."""
        steps = job.mechanism.steps or 0
        first = first_half(steps)
        return run_stages(job, observe, GapStages, [first, steps - first])


class Dgc:
    """DPDGC: vectors of nodes by DP-SGD, one noisy sum of them over neighbours, and a classifier by DP-SGD."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        mechanism = expected(job.prepared, PreparedEmbedding).embedded
        return run_stages(job, observe, DgcStages, list(mechanism.parts))


class ProGap:
    """Stages of equal length, each on one more noisy sum over neighbours of the states of the stage before it."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        return run_stages(
            job, observe, ProGapStages, equal_parts(job.mechanism.steps or 0, job.cell.model.aggregations + 1)
        )


def run_stages(job: Job, observe: Observe, kind: type[Stages], lengths: list[int]) -> Outcome:
    """Train one seed in stages of these lengths.

    A killed run starts again with the same noise on the same sums, so no sum is released twice.
    """
    if not isinstance(job.prepared, PreparedAggregates | PreparedEdgeAggregates):
        raise TypeError(f"prepared step: found {type(job.prepared).__name__}: expected one of noisy sums")
    if min(lengths) < 1:
        raise invalid("steps", sum(lengths), f"at least {len(lengths)}, one for each stage")
    prepared = job.prepared
    stages: Any = kind(job, prepared, prepared.data.features, lengths)
    optimizer = make_optimizer(stages.networks.parameters(), job.cell.training)  # unused: stages have their own
    bench = Bench(stages.networks, optimizer, prepared.data.features, None)
    notes = {"stages": lengths}
    return run_loop(SeedRun(replace(job, checkpoint=None), bench, stages, {}, notes, inference=stages), observe)


def _base(model: Any, size: int, generator: torch.Generator) -> Mlp:
    return Mlp([size, model.width], ACTIVATIONS[model.activation], True, generator, torch.float32)


def _plain(model: Any, widths: list[int], generator: torch.Generator) -> Mlp:
    return Mlp(widths, ACTIVATIONS[model.activation], False, generator, torch.float32)


def _head(model: Any, size: int, classes: int, generator: torch.Generator) -> Mlp:
    return _plain(model, [size] + [model.width] * (model.decoder_layers - 1) + [classes], generator)
