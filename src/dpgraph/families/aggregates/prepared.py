"""The private part of a run of GAP or ProGAP: noisy sums, and steps on own records and released sums (Theorem 19).

A node's list is part of its record: it says to which nodes the node sends. Every row of the arrays here belongs to one
record; only `Senders.received` mixes records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN
from dpgraph.engine.preparation.base import Order, PreparedStep
from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.engine.sampling.edge_lists import PROPOSE, empty_edge_lists, smallest_in_group
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training.noise import ReleaseNoise
from dpgraph.engine.training.steps import PlainStep, Step
from dpgraph.families.aggregates import mechanism as mechanisms
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.families.votes.ballots import GRID, Ballots, mutual_lists
from dpgraph.privacy.procedure import Lists, Procedure, Release


@dataclass(frozen=True)
class Senders:
    """Lists as sets of other nodes' ids, and the nodes that send."""

    lists: sp.csr_matrix  # (N, N) 1 where the owner sends to the node
    sends: np.ndarray  # (N,) bool: nodes with a record

    @classmethod
    def whole(cls, ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray) -> Senders:
        """Return senders that send to their whole lists, cleaned as by `Ballots.from_lists`.

        Args:
            ptr: (N + 1,) start of each owner's list in `idx`.
            idx: ids, in any order.
            sends: (N,) bool: nodes with a record.
        """
        return cls(Ballots.from_lists(ptr, idx, sends, 1).lists, sends)

    @classmethod
    def capped(cls, ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray, receivers: int, key: int) -> Senders:
        """Return senders that send to the D = `receivers` nodes of their lists with the smallest priorities.

        Priorities are pseudorandom functions of the public (key, owner, member): a uniform choice without replacement,
        by each owner alone.
        """
        lists = cls.whole(ptr, idx, sends).lists
        owners = np.repeat(np.arange(len(sends), dtype=np.int32), np.diff(lists.indptr))
        kept = smallest_in_group(owners, lists.indices, receivers, len(sends), key, PROPOSE)
        ends = np.concatenate([[0], np.cumsum(np.bincount(owners[kept], minlength=len(sends)))])
        return cls(sp.csr_matrix((lists.data[kept], lists.indices[kept], ends), shape=lists.shape), sends)

    @classmethod
    def bounded(cls, ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray, receivers: int) -> Senders:
        """Return senders over edges that are in both ends' lists.

        Raises:
            UserError: A list breaks the schema of the guarantee.
        """
        return cls(mutual_lists(Ballots.from_lists(ptr, idx, sends, 1), receivers), sends)

    def received(self, rows: np.ndarray) -> np.ndarray:
        """Return the sum that each node receives: the rows of all nodes that send to it, each scaled to norm 1.

        A row that is zero or not finite, and that of a node without a record, counts 0. Rounding is towards zero, so
        that no norm exceeds 1.

        Args:
            rows: (N, d)

        Returns:
            (N, d) float64
        """
        unit = unit_rows(rows)
        unit[~self.sends] = 0
        return np.asarray(self.lists.T @ (np.trunc(unit * GRID) / GRID))


class PreparedSums(Protocol):
    """Noisy sums and steps, which node level and edge level prepare."""

    sums: Sums

    def step_on(self, features: Tensor, network: Any, optimizer: torch.optim.Optimizer) -> Step: ...


def with_record(graph: Graph) -> np.ndarray:
    """Return (N,) bool: nodes that send. The null record has no training label and no feature, and must not send.

    Lists do not decide it, so the loss of an edge silences no node.
    """
    labelled = (np.asarray(graph.split) == TRAIN) & (np.asarray(graph.labels) >= 0)
    return np.asarray((np.asarray(graph.features) != 0).any(axis=1)) | labelled


class Sums:
    """At most `most` noisy sums; each draws its own noise."""

    def __init__(self, senders: Callable[[], Senders], std: float, most: int, noise: ReleaseNoise) -> None:
        self._senders, self._std, self.most, self._noise = senders, std, most, noise
        self._found: Senders | None = None
        self.numbers = 0  # released so far

    @property
    def count(self) -> int:
        """Number of released sums."""
        return len(self._noise.stds)

    @property
    def std(self) -> float:
        """Least noise std of a released sum."""
        return min(self._noise.stds, default=self._std)

    @property
    def senders(self) -> Senders:
        """Senders, computed at the first sum."""
        if self._found is None:
            self._found = self._senders()
        return self._found

    def release(self, rows: np.ndarray) -> np.ndarray:
        """Return (N, d) float64: for each node, the sum of its senders' rows, with N(0, std^2) on every number."""
        summed = self.senders.received(rows)
        self.numbers += summed.size
        return self._noise.on(summed, self._std, 1 / GRID)


class PreparedAggregates(PreparedTrees):
    """Node level: noisy sums, and steps over own records and further public or released columns."""

    def __init__(self, order: Order) -> None:
        mechanism = order.mechanism
        if not isinstance(mechanism, mechanisms.NodeAggregates):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of noisy sums")
        super().__init__(order)
        graph, self.node_level = order.data.graph, mechanism
        key = None if isinstance(mechanism, mechanisms.BoundedAggregates) else order.key("edge lists")
        self.graph: Graph = graph

        def senders() -> Senders:
            lists = graph.out_ptr, graph.out_idx, with_record(graph)
            if key is None:
                return Senders.bounded(*lists, mechanism.receivers)
            return Senders.capped(*lists, mechanism.receivers, key)

        self.sensitivity = math.sqrt(mechanism.receivers)
        std = mechanism.sums_noise * self.sensitivity
        self.sums = Sums(senders, std, mechanism.aggregations, order.release_noise("sums over neighbours"))

    def due(self, stream: str, draws: int) -> int | None:
        """Return how many numbers a stream has drawn after so many draws."""
        return self.sums.numbers if stream == mechanisms.SUMS else super().due(stream, draws)

    def step_on(self, features: Tensor, network: Any, optimizer: torch.optim.Optimizer) -> Step:
        """Return the private step of a network that reads `features` (N, F).

        Each row must hold a node's own record and releases alone.
        """
        self.data = replace(self.data, features=features)
        return self.step(network, optimizer)

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran: the steps and the released sums."""
        made: tuple[Release, ...] = ()
        if self.sums.count:
            longest = int(np.diff(self.sums.senders.lists.indptr).max(initial=0))  # private: stated if it is too long
            cap, kind = max(longest, self.node_level.receivers), self.node_level.lists_kind
            noise = self.sums.std / self.sensitivity
            made = (
                mechanisms.sums_release(
                    noise=noise, sensitivity=self.sensitivity, count=self.sums.count, cap=cap, lists=kind
                ),
            )
        return super().ran(resumed_at).model_copy(update={"releases": made})


class PreparedEdgeAggregates(PreparedStep):
    """Edge level: noisy sums over whole lists, and steps without noise, which read no list."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism, graph = order.mechanism, order.data.graph
        if not isinstance(mechanism, mechanisms.EdgeAggregates):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of noisy sums under edge privacy")
        roots = graph.train_nodes
        self.trees = pack_ego_trees(empty_edge_lists(graph), roots, 0, order.device)
        rate = order.cell.training.sampling_rate or order.cell.training.batch_size / len(roots)
        self.sampler, self.batches = PoissonSampler(len(roots), rate), order.generator("batches")
        std = mechanism.closed()[1]
        everybody = np.ones(graph.num_nodes, dtype=bool)  # records are not protected
        self.sums = Sums(
            lambda: Senders.whole(graph.out_ptr, graph.out_idx, everybody),
            std,
            mechanism.aggregations,
            order.release_noise("sums over neighbours"),
        )

    def due(self, stream: str, draws: int) -> int | None:
        """Return how many numbers a stream has drawn after so many draws."""
        return self.sums.numbers if stream == mechanisms.SUMS else super().due(stream, draws)

    def step_on(self, features: Tensor, network: Any, optimizer: torch.optim.Optimizer) -> Step:
        """Return the step of a network that reads `features` (N, F), without noise."""
        return PlainStep(network, optimizer, self.trees, features, self.data.labels, self.sampler, self.batches)

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran: steps are free once the sums are released, and none counts before."""
        noise, count = self.sums.std / mechanisms.BOTH_ENDS, self.sums.count
        made = mechanisms.sums_release(
            noise=noise, sensitivity=mechanisms.BOTH_ENDS, count=count, cap=None, lists=Lists.UNBOUNDED
        )
        return Procedure.of_releases(self.mechanism.relation, (made,) if count else (), self.steps)

    def notes(self) -> dict[str, Any]:
        """Return the notes of a record."""
        return {"batches": "none", "edge_lists": "own record"}
