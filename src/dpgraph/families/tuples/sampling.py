"""Which tuples of a relation are trained on, and their batches with negatives (Huang et al., Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.graph import Graph
from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.sampling.edge_lists import CAP, smallest_in_group, stable_edge_lists
from dpgraph.privacy.procedure import Lists

NO_ENTITY = -1


@dataclass(frozen=True)
class Tuples:
    """Positives (M, 2), each an owner and a partner, and how they were bounded."""

    pairs: np.ndarray  # int64
    kind: Lists
    max_degree: int  # K
    list_cap: int | None = None  # D

    def __len__(self) -> int:
        return len(self.pairs)


def stable_tuples(graph: Graph, max_degree: int, list_cap: int, key: int) -> Tuples:
    """Return the tuples that the stable sampler S(D, K) keeps of lists of owned tuples (`stable_edge_lists`).

    When an entity becomes null, with its own list and the loss of every tuple that names it, at most K + D tuples leave
    and at most D enter. A tuple whose partner is null keeps its place in the list and has no loss.
    """
    lists = stable_edge_lists(graph, graph.train_nodes, max_degree, list_cap, key).checked()
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(lists.ptr))
    pairs = np.stack([owners, lists.idx.astype(np.int64)], axis=1)
    return Tuples(pairs[present(graph)[lists.idx]], Lists.STABLE_TUPLES, max_degree, list_cap)


def capped_tuples(graph: Graph, max_degree: int, key: int) -> Tuples:
    """Return the tuples that the paper's cap keeps.

    Each entity keeps K random tuples, and a tuple stays if both ends keep it. So no entity is in more than K tuples.
    One entity changes any number of tuples that do not name it.
    """
    if max_degree < 1:
        raise invalid("max_degree", max_degree, "an integer >= 1")
    pairs = owned_pairs(graph)
    pairs = pairs[present(graph)[pairs].all(axis=1)]
    ends, others = pairs.T.reshape(-1), pairs.T[::-1].reshape(-1)
    kept = smallest_in_group(ends, others, max_degree, graph.num_nodes, key, CAP).reshape(2, -1).all(axis=0)
    return Tuples(pairs[kept], Lists.CAPPED_TUPLES, max_degree)


def owned_pairs(graph: Graph) -> np.ndarray:
    """Return the owner and the partner of every tuple, (M, 2) int64."""
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    return np.stack([owners, np.asarray(graph.out_idx).astype(np.int64)], axis=1)


def present(graph: Graph) -> np.ndarray:
    """Return (N,) bool: entities whose record is there."""
    there = np.zeros(graph.num_nodes, dtype=bool)
    there[graph.train_nodes] = True
    return there


@dataclass
class Negatives:
    """k entities for each tuple of a batch, no entity twice in one batch; every ordered choice is equally likely.

    They are drawn from the entities that are there. A null one in the pool would move the sums of both neighbours, and
    Theorem 28 (docs/privacy/tuples.md) has it move one.
    """

    entities: np.ndarray  # int64 ids: n, or n - 1 where one is null
    per_tuple: int  # k
    generator: np.random.Generator
    without_replacement: bool = field(default=True, init=False)

    def draw(self, count: int) -> np.ndarray:
        """Draw (count, k) ids. Raise UserError for a batch that needs more entities than there are."""
        wanted = self.wanted(count)
        chosen = self.generator.choice(len(self.entities), size=wanted, replace=False, shuffle=True)
        return self.entities[chosen].reshape(count, self.per_tuple)

    def wanted(self, count: int) -> int:
        """Return how many ids a batch of `count` tuples needs. Raise UserError for more than there are."""
        wanted = count * self.per_tuple
        if wanted > len(self.entities):
            raise UserError(f"negatives: a batch of {count} tuples needs {wanted}: expected <= {len(self.entities)}")
        return wanted


@dataclass
class TupleBatches:
    """Batches (b, 2 + k): head, tail and negatives. Of `draws`, places beyond the last tuple are empty."""

    tuples: Tuples
    draws: Draws
    negatives: Negatives

    def next(self) -> np.ndarray:
        """Draw the next batch: (b, 2 + k) ids of head, tail and negatives."""
        places = self.draws.next()
        pairs = self.tuples.pairs[places[places < len(self.tuples)]]
        return np.concatenate([pairs, self.negatives.draw(len(pairs))], axis=1)


def largest_counts(batch: Tensor) -> Tensor:
    """Return for each tuple of a batch (b, 2 + k) the largest number of its tuples that hold one of its entities, (b,).

    This is |B+(u)| + |B-(u)| of the paper's section 4.1. A tuple counts once for an entity, wherever it holds it. No
    shape depends on a value.
    """
    batch = batch.contiguous()
    ordered = batch.sort(dim=1).values
    again = nn.functional.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))
    holders = ordered.masked_fill(again, NO_ENTITY).flatten().sort().values
    counts = torch.searchsorted(holders, batch, right=True) - torch.searchsorted(holders, batch)
    return counts.amax(dim=1)


def worst_batch(own: int = 5, negatives: int = 4) -> np.ndarray:
    """Return `own` tuples of entity 0; each of its partners and negatives is in one more tuple of other entities."""
    partners = 1 + np.arange(own * (1 + negatives)).reshape(own, 1 + negatives)
    with_it = np.concatenate([np.zeros((own, 1), dtype=np.int64), partners], axis=1)
    fresh = 1 + partners.size + np.arange(partners.size * (1 + negatives)).reshape(-1, 1 + negatives)
    return np.concatenate([with_it, np.concatenate([partners.reshape(-1, 1), fresh], axis=1)])
