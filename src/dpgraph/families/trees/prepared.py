"""Prepared steps over ego trees: DP-GNN, DP-MLP, residual clipping, Poisson lots, and DP-GNN as published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dpgraph.config.cell import LEAST_CLIP_NORM
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import Order, PreparedStep, procedure
from dpgraph.engine.sampling.batches import Draws, FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.engine.sampling.edge_lists import empty_edge_lists, sample_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.engine.training.clipping import ClipNorms, RootLosses, gradient_norms, neighbour_losses, root_losses
from dpgraph.engine.training.loop import Diverged
from dpgraph.engine.training.opacus_engine import opacus_gradients
from dpgraph.engine.training.steps import ClippedTerm, PrivateStep
from dpgraph.families.trees.mechanism import FixedSizeStableTrees, PoissonTrees, ResidualTrees
from dpgraph.families.trees.published import FixedBatchTrees
from dpgraph.families.trees.records import PoissonLots
from dpgraph.privacy.procedure import Clipped, ClippedSum, Lists, Loss, Procedure
from dpgraph.privacy.public_numbers import expected_batch, noise_std


@dataclass(frozen=True)
class Losses:
    """Losses of a method: those of roots, and what neighbours add to them."""

    root: RootLosses = root_losses
    neighbours: RootLosses = neighbour_losses


@dataclass(frozen=True)
class PreparedTerm:
    """One term of a step, before its network is known.

    Without a clip norm, percentiles of the network's initial gradient norms are taken.
    """

    loss: Loss
    trees: EgoTrees
    draws: Draws
    clip_norm: float | None


class PreparedTrees(PreparedStep):
    """Terms, noise and divisor of the mechanism; `step` adds the network and the losses."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(
            mechanism, PoissonTrees | FixedSizeStableTrees | FixedBatchTrees | PoissonLots | ResidualTrees
        ):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over ego trees")
        self._percentile = order.privacy.clip_percentile if isinstance(mechanism, FixedBatchTrees) else 0.0
        self._noise_over_clip = order.noise_over_clip
        self.batches = order.generator("batches")
        self.device_key = lambda: order.secret_key("batches of the device")  # a stream that a captured step opens
        self.noise = order.noise(order.noise_std)
        self._step: PrivateStep | None = None
        self._losses = Losses()
        self._engine = opacus_gradients if getattr(order.cell.training, "engine", "own") == "opacus" else None
        clip_norm = order.privacy.clip_norm
        if isinstance(mechanism, ResidualTrees):
            own = self._term(
                _alone(order, mechanism.hops), self._poisson(mechanism.sampling_rate), clip_norm, Loss.SELF
            )
            self.terms = [own]
            if mechanism.neighbour_clip > 0:
                second = self._poisson(mechanism.neighbour_rate)
                trees = stable_trees(order, mechanism)
                self.terms.append(self._term(trees, second, mechanism.neighbour_clip * clip_norm, Loss.NEIGHBOURS))
            self.divisor = expected_batch(rate=mechanism.sampling_rate, num_roots=mechanism.num_roots)
        elif isinstance(mechanism, FixedBatchTrees):
            trees = _algorithm_1(order, mechanism)
            self.terms = [self._term(trees, self._fixed_size(mechanism.batch_size), None)]
            self.divisor = float(mechanism.batch_size)
        elif isinstance(mechanism, FixedSizeStableTrees):
            sampler = self._fixed_size(mechanism.batch_size)
            self.terms = [self._term(stable_trees(order, mechanism), sampler, clip_norm)]
            self.divisor = float(mechanism.batch_size)
        else:
            trees = _alone(order, 0) if isinstance(mechanism, PoissonLots) else stable_trees(order, mechanism)
            self.terms = [self._term(trees, self._poisson(mechanism.sampling_rate), clip_norm)]
            self.divisor = expected_batch(rate=mechanism.sampling_rate, num_roots=mechanism.num_roots)  # public N

    @property
    def generators(self) -> dict[str, Generator]:
        """Generators that a step draws from; a checkpoint keeps their states."""
        return {"batches": self.batches, "noise": self.noise.generator}

    def _poisson(self, rate: float) -> Sampler:
        return PoissonSampler(len(self.data.graph.train_nodes), rate)

    def _fixed_size(self, size: int) -> Sampler:
        return FixedSizeSampler(len(self.data.graph.train_nodes), size)

    def _term(self, trees: EgoTrees, sampler: Sampler, clip_norm: float | None, loss: Loss = Loss.FULL) -> PreparedTerm:
        """Return a term. Batches of all terms come from one generator, one after the other: they are independent."""
        return PreparedTerm(loss, trees, Draws(sampler, self.batches), clip_norm)

    def step(self, network: Network, optimizer: torch.optim.Optimizer, losses: Losses | None = None) -> PrivateStep:
        """Return the step that a method runs.

        Args:
            network: The network to train.
            optimizer: Its optimiser.
            losses: Losses of the method; None: cross entropy of roots.
        """
        self.trains(network, self.noise.draws)
        self._losses = losses or Losses()
        clip_norms: list[ClipNorms] = []
        for term in self.terms:
            clip_norms.append(self._percentiles(network, term.trees) if term.clip_norm is None else term.clip_norm)
        if not isinstance(clip_norms[0], float | int):
            self.noise.std = _stds(network, self._noise_over_clip, clip_norms[0])
        terms = [
            ClippedTerm(
                term.trees,
                term.draws,
                clip_norm,
                self._losses.neighbours if term.loss is Loss.NEIGHBOURS else self._losses.root,
            )
            for term, clip_norm in zip(self.terms, clip_norms, strict=True)
        ]
        data = self.data
        self._step = PrivateStep(
            network, optimizer, data.features, data.labels, terms, self.noise, self.divisor, self._engine
        )
        return self._step

    def _percentiles(self, network: Network, trees: EgoTrees) -> ClipNorms:
        """Return the clip norm of each parameter group: a percentile of the initial gradient norms.

        Section 6 of Daigavane et al., over all training roots. It reads private data and is not charged to the budget:
        one reason why the published variant has no proved epsilon.
        """
        positions = np.arange(trees.num_roots)
        norms = gradient_norms(network, trees, positions, self.data.features, self.data.labels)
        finite = norms[torch.isfinite(norms).all(1)].double()
        if len(finite) == 0:
            raise Diverged(0)
        values = torch.quantile(finite, self._percentile / 100, dim=0)
        # a group whose gradients all vanish would be clipped at 0 and never move
        return {name: max(float(value), LEAST_CLIP_NORM) for name, value in zip(network.groups, values, strict=True)}

    @property
    def accounted_clip_norms(self) -> tuple[float, ...]:
        """Clip norms of the cell; percentiles as they were found."""
        if self._step is None or isinstance(self._step.terms[0].clip_norms, float | int):
            return self.public_clip_norms
        return tuple(self._step.terms[0].clip_norms.values())

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, from the step itself."""
        step = self._step
        if step is None:
            return procedure(self.mechanism, (), None, 0.0, 0)
        terms = [_read(term, self._losses, resumed_at) for term in step.terms]
        noise = step.noise
        if isinstance(noise.std, tuple):  # one for each parameter, of which a group has several
            groups = list(step.network.groups.values())
            counts = [sum(1 for layer in layers for _ in layer.parameters()) for layers in groups]
            starts = np.cumsum([0, *counts[:-1]])
            spread = [set(noise.std[start : start + count]) for start, count in zip(starts, counts, strict=True)]
            of_groups = tuple(value for values in spread for value in sorted(values))
            as_ran = procedure(self.mechanism, terms, noise, step.divisor, resumed_at)
            return as_ran.model_copy(update={"noise_std": of_groups})
        return procedure(self.mechanism, terms, noise, step.divisor, resumed_at)


def stable_trees(order: Order, mechanism: PoissonTrees | FixedSizeStableTrees | ResidualTrees) -> EgoTrees:
    """Return trees of the training nodes over lists of the stable sampler; each node alone without hops."""
    graph, roots = order.data.graph, order.data.graph.train_nodes
    if mechanism.max_degree is None or mechanism.list_cap is None:
        return _alone(order, mechanism.hops)
    lists = stable_edge_lists(graph, roots, mechanism.max_degree, mechanism.list_cap, order.key("edge lists"))
    return pack_ego_trees(lists, roots, mechanism.hops, order.device)


def _alone(order: Order, hops: int) -> EgoTrees:
    """Return trees of single nodes."""
    graph = order.data.graph
    return pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, hops, order.device)


def _algorithm_1(order: Order, mechanism: FixedBatchTrees) -> EgoTrees:
    """Return trees over lists that Algorithm 1 of the paper samples."""
    graph, roots = order.data.graph, order.data.graph.train_nodes
    if mechanism.max_degree is None:
        return _alone(order, mechanism.hops)
    lists = sample_edge_lists(graph, roots, mechanism.max_degree, order.generator("edge lists"))
    return pack_ego_trees(lists, roots, mechanism.hops, order.device)


def _stds(network: Network, noise_over_clip: float, clip_norms: ClipNorms) -> tuple[float, ...]:
    """Return one noise std for each parameter; groups differ."""
    if isinstance(clip_norms, float | int):
        raise TypeError("expected a clip norm for each group")
    return tuple(
        noise_std(noise_over_clip=noise_over_clip, clip_norm=clip_norms[name])
        for name, layers in network.groups.items()
        for layer in layers
        for _ in layer.parameters()
    )


def _read(term: ClippedTerm, losses: Losses, resumed_at: int) -> ClippedSum:
    """Return a term of the step that ran: its trees, sampler, draws, clip norms and loss."""
    lists, sampler = term.trees.lists, term.draws.sampler
    norms = term.clip_norms
    loss = Loss.FULL
    if term.losses is losses.neighbours:
        loss = Loss.NEIGHBOURS
    elif lists.kind is Lists.NONE and term.trees.hops:
        loss = Loss.SELF
    return ClippedSum(
        loss=loss,
        lists=lists.kind,
        hops=term.trees.hops,
        max_degree=lists.max_degree,
        list_cap=lists.list_cap,
        batches=sampler.name,
        num_roots=sampler.num_roots,
        rate=getattr(sampler, "rate", None),
        batch_size=getattr(sampler, "size", None),
        clipped=Clipped.ROOT if isinstance(norms, float | int) else Clipped.ROOT_GROUPS,
        clip_norms=(float(norms),) if isinstance(norms, float | int) else tuple(norms.values()),
        draws=term.draws.count + resumed_at,
    )
