"""The private part of DPDGC: a learnt vector for each node, and the noisy sums of these vectors (Theorem 20).

A row of the adjacency matrix holds the ids of a node's senders, which are parts of others' records. So each of D + 1
rows may change with one record, and all of them are accounted for (docs/privacy/aggregates.md#theorem-20).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Activation
from dpgraph.engine.preparation.base import PROVED, Order, size_of
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import apply_gradient
from dpgraph.engine.training.steps import Step
from dpgraph.families.aggregates.embedding_mechanism import EmbeddedAggregates
from dpgraph.families.aggregates.prepared import PreparedAggregates, Senders
from dpgraph.privacy.procedure import Clipped, ClippedSum, Procedure
from dpgraph.privacy.public_numbers import noise_std
from dpgraph.privacy.relation import Relation

SLACK = 1 - 1e-6  # factor on a limit, against the rounding of its product with a gradient


class ListEmbedding(nn.Module):
    """A classifier of senders: logits = H act(sum of the senders' vectors + b).

    The vectors (N, h) of norm 1 and b (h,) are learnt; H (classes, h) is fixed. It has orthonormal rows, or columns
    where there are more classes than h, times sqrt(6 / h).
    """

    head: Tensor

    def __init__(
        self, nodes: int, width: int, classes: int, activation: Activation, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(nodes, width, generator=generator))
        self.bias = nn.Parameter(torch.zeros(width))
        tall = torch.randn(max(classes, width), min(classes, width), generator=generator, dtype=torch.float64)
        axes = torch.linalg.qr(tall)[0]
        self.register_buffer("head", (axes if classes > width else axes.T) * (6 / width) ** 0.5)
        self.activation = activation
        self.scale()

    @torch.no_grad()
    def scale(self) -> None:
        """Scale all vectors to norm 1, which is a function of what was released."""
        self.weight.copy_(nn.functional.normalize(self.weight, dim=1))

    def classify(self, states: Tensor) -> Tensor:
        """Return (n, classes) logits of states (n, h) float64."""
        return self.activation(states) @ self.head.T


def clipped_sums(network: ListEmbedding, rows: sp.csr_matrix, labels: Tensor, clip_norm: float) -> list[Tensor]:
    """Return the sums of the roots' gradients, each scaled to norm at most `clip_norm`.

    A root's gradient is one vector d (h,), once for each of its senders and once for b: its norm is |d| sqrt(senders +
    1). A gradient that is not finite, and that of a root without a label, is 0.

    Args:
        network: Vectors and b.
        rows: (n, N) 1 for each sender of a root.
        labels: (n,) classes; -1: no label.
        clip_norm: C.

    Returns:
        [(N, h), (h,)] sums for the vectors and for b.
    """
    weight, device = network.weight.detach(), network.weight.device
    summed = torch.from_numpy(rows @ weight.double().cpu().numpy()).to(device)
    states = (summed + network.bias.detach().double()).requires_grad_()
    with torch.enable_grad():
        losses = nn.functional.cross_entropy(network.classify(states), labels, reduction="sum", ignore_index=-1)
        (slopes,) = torch.autograd.grad(losses, states)
    copies = torch.from_numpy(np.diff(rows.indptr) + 1.0).to(device)
    norms = slopes.norm(dim=1) * copies.sqrt()
    finite = torch.isfinite(norms)
    factors = (SLACK * clip_norm / norms).clamp(max=1)
    scaled = torch.where(finite[:, None], slopes * factors[:, None], torch.zeros_like(slopes)).nan_to_num()
    received = torch.from_numpy(rows.T @ scaled.cpu().numpy()).to(device)
    return [received.to(weight.dtype), scaled.sum(dim=0).to(weight.dtype)]


@dataclass(frozen=True)
class EmbeddingStep:
    """Noisy sum of clipped gradients of a Poisson batch of roots; then vectors are scaled to norm 1 again."""

    network: ListEmbedding
    optimizer: torch.optim.Optimizer
    rows: sp.csr_matrix  # (roots, N)
    labels: Tensor  # (roots,)
    draws: Draws
    clip_norm: float
    noise: GaussianNoise
    divisor: float

    def __call__(self) -> int:
        drawn = self.draws.next()
        labels = self.labels[torch.from_numpy(drawn).to(self.labels.device)]
        sums = clipped_sums(self.network, self.rows[drawn], labels, self.clip_norm)
        self.noise.add(sums)
        apply_gradient(self.optimizer, sums, self.divisor)
        self.network.scale()
        return len(drawn)


def rows_of(senders: Senders, roots: np.ndarray) -> sp.csr_matrix:
    """Return (roots, N) 1 for each node that sends to the root."""
    kept = sp.diags(senders.sends.astype(np.float64)) @ senders.lists
    rows = kept.T.tocsr()[roots]
    rows.eliminate_zeros()
    return rows


class PreparedEmbedding(PreparedAggregates):
    """Steps of the embedding and of the classifier, each with its own batches and noise, and one noisy sum."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, EmbeddedAggregates):
            raise TypeError(f"mechanism={mechanism.kind}: expected one with an embedding")
        self.embedded, roots = mechanism, order.data.graph.train_nodes
        self.roots, self.clip_norm = roots, order.privacy.clip_norm
        sampler = PoissonSampler(len(roots), mechanism.sampling_rate)
        self._draws = Draws(sampler, order.generator("batches of the embedding"))
        std = noise_std(noise_over_clip=mechanism.embedding_noise, clip_norm=self.clip_norm)
        self.embedding_noise = order.noise(std, "noise of the embedding")
        self._embedding: EmbeddingStep | None = None

    def due(self, stream: str, draws: int) -> int | None:
        """Return how many numbers a stream has drawn after so many draws."""
        if stream == "noise of the embedding":
            return None if self._embedding is None else draws * size_of(self._embedding.network)
        if stream == "batches of the embedding":
            return draws * len(self.roots)
        return super().due(stream, draws)

    def embedding_step(self, network: ListEmbedding, optimizer: torch.optim.Optimizer) -> Step:
        """Return the step that learns the vectors."""
        rows = rows_of(self.sums.senders, self.roots)
        labels = self.data.labels[torch.from_numpy(self.roots).to(self.data.labels.device)]
        self._embedding = EmbeddingStep(
            network, optimizer, rows, labels, self._draws, self.clip_norm, self.embedding_noise, self.divisor
        )
        return self._embedding

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran: both kinds of steps, and the sum."""
        classifier, step = super().ran(resumed_at), self._embedding
        if step is None:
            return classifier
        sampler = step.draws.sampler
        most = int(np.bincount(step.rows.indices, minlength=1).max(initial=0))  # private: stated if it is too large
        term = ClippedSum(
            lists=self.node_level.lists_kind,
            hops=1,
            max_degree=max(most, self.node_level.receivers),
            batches=sampler.name,
            num_roots=sampler.num_roots,
            rate=getattr(sampler, "rate", None),
            clipped=Clipped.ROOT,
            clip_norms=(step.clip_norm,),
            draws=step.draws.count,
        )
        held: Any = PROVED.get((term.lists, term.batches, term.clipped), frozenset())
        relation = classifier.relation if self.mechanism.relation in held else Relation.NONE
        std, draws = step.noise.std, step.noise.draws + classifier.noise_draws
        return classifier.model_copy(
            update={
                "relation": relation,
                "terms": (term, *classifier.terms),
                "noise_std": (std, *classifier.noise_std),
                "noise_draws": draws,
                "steps": draws,
            }
        )
