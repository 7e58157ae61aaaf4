"""Objects that planted bugs put in the place of the package's own; each is made from the one that it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.preparation.base import Order, PrivateData
from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.engine.sampling.edge_lists import EdgeLists, full_edge_lists, sample_edge_lists
from dpgraph.engine.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.families.aggregates.prepared import Senders
from dpgraph.families.subgraphs.audit import _network
from dpgraph.families.subgraphs.steps import Privatizer
from dpgraph.families.units.sampling import Units, cluster_units
from dpgraph.families.votes.ballots import Ballots, CappedBallots, mutual_lists
from dpgraph.families.votes.mechanism import READERS
from dpgraph.families.votes.removed_mechanism import BoundedStrangerVotes
from dpgraph.privacy.procedure import Lists


def smaller(factor: float) -> Callable[[property], property]:
    """Make a property's number smaller, where there is one."""

    def make(plain: property) -> property:
        def value(self: Any) -> Any:
            found = plain.fget(self)  # type: ignore[misc]
            return None if found is None else found / factor

        return property(value)

    return make


def one_less(plain: property) -> property:
    """Make a count one smaller, down to 1."""
    return property(lambda self: max(1, plain.fget(self) - 1))  # type: ignore[misc]


def at_half_the_rate(plain: property) -> property:
    """Make the pair of a mechanism that draws half as many."""

    def pair(self: Any) -> Any:
        if hasattr(self, "num_splits"):
            return plain.fget(self.model_copy(update={"num_splits": 2 * self.num_splits}))  # type: ignore[misc]
        return plain.fget(self.with_rate(self.sampling_rate / 2))  # type: ignore[misc]

    return property(pair)


def in_turn(plain: Any) -> Any:
    """Make Poisson batches the groups of a fixed partition in turn, as Igamberdiev & Habernal draw them."""
    steps: dict[int, int] = {}

    def draw(self: PoissonSampler, generator: np.random.Generator) -> np.ndarray:
        count = max(1, round(1 / self.rate))
        step = steps[id(self)] = steps.get(id(self), -1) + 1
        group = numpy_generator("tests", "groups").permutation(self.num_roots) % count
        return np.flatnonzero(group == step % count)

    return draw


def over_whole_lists(plain: Any) -> Any:
    """Make trees over whole lists, which say that they are capped."""

    def trees(order: Order, mechanism: Any) -> EgoTrees:
        kept, graph = plain(order, mechanism), order.data.graph
        whole = full_edge_lists(graph, graph.train_nodes)
        packed = pack_ego_trees(whole, graph.train_nodes, kept.hops, order.device)
        named = replace(whole, kind=kept.lists.kind, max_degree=kept.lists.max_degree, list_cap=kept.lists.list_cap)
        return replace(packed, lists=named)

    return trees


def algorithm_1(plain: Any) -> Any:
    """Make the stable sampler that of Daigavane et al."""

    def lists(graph: Graph, roots: np.ndarray, max_degree: int, list_cap: int, key: int) -> EdgeLists:
        return sample_edge_lists(graph, roots, max_degree, numpy_generator("tests", "algorithm 1", key))

    return lists


def with_the_next_node(plain: Any) -> Any:
    """Make trees read one edge more of each node, which no list has."""

    def pack(lists: EdgeLists, roots: np.ndarray, hops: int, *device: Any) -> EgoTrees:
        size = lists.num_nodes
        owners = np.repeat(np.arange(size), np.diff(lists.ptr))
        edges = {*zip(owners.tolist(), lists.idx.tolist()), *((node, (node + 1) % size) for node in range(size))}
        owner, member = np.array(sorted(edges)).T
        ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
        return plain(EdgeLists(ptr, member.astype(lists.idx.dtype)), roots, hops, *device)

    return pack


def adaptive_clipping(plain: Any) -> Any:
    """Make each root clipped at C over the most occurrences of one of its tree's nodes (Huang et al., Algorithm 1)."""

    def clipped(network: Any, trees: Any, positions: np.ndarray, x: Any, y: Any, clip_norm: Any, *rest: Any) -> Any:
        lists = trees.lists
        nodes = [np.append(lists.members(root), root) for root in trees.roots.numpy()[trees.rank[positions]]]
        occurrences = np.bincount(np.concatenate(nodes))
        limits = clip_norm / np.array([occurrences[one].max() for one in nodes])
        parts = [
            plain(network, trees, positions[limits == limit], x, y, float(limit), *rest) for limit in np.unique(limits)
        ]
        return replace(parts[0], sums=[sum(group) for group in zip(*(part.sums for part in parts), strict=True)])

    return clipped


def each_group_alone(plain: Any) -> Any:
    """Make the groups of a network's parameters clipped one by one, each at C."""

    def clipped(network: Any, trees: Any, positions: np.ndarray, x: Any, y: Any, clip_norm: Any, *rest: Any) -> Any:
        return plain(network, trees, positions, x, y, dict.fromkeys(network.groups, clip_norm), *rest)

    return clipped


def each_tensor_alone(plain: Any) -> Any:
    """Make a subgraph's tensors clipped one by one, each at C."""

    sizes = _network().sizes

    def clip(self: Privatizer, gradient: torch.Tensor) -> None:
        for part in gradient[: self.size].split(sizes):
            part.mul_((self.clip_norm / part.norm()).clamp(max=1.0))

    return clip


def noise_before_clipping(plain: Any) -> Any:
    """Make noise come first: whatever it is, the vector that is released is no longer than C."""

    def apply(self: Privatizer, gradient: torch.Tensor) -> None:
        gradient += self.noise.fill([self.buffer[: self.size]]) * self.buffer
        gradient *= (self.clip_norm / gradient.norm()).clamp(max=1.0)

    return apply


def capped_by_norm(plain: Any) -> Any:
    """Make columns of rows short, and not few-valued (Theorem 8 of the thesis)."""

    def capped(matrix: sp.csr_matrix, cap: int, generator: np.random.Generator) -> sp.csr_matrix:
        norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
        return sp.csr_matrix(matrix.multiply(np.minimum(1.0, 0.01 / norms)))

    return capped


def read_as(change: Callable[[Graph], np.ndarray]) -> Callable[[Any], Any]:
    """Make features something that other records have touched."""

    def make(plain: Any) -> Any:
        def from_graph(graph: Graph, device: torch.device) -> PrivateData:
            features = np.asarray(change(graph), dtype=np.float32)
            changed = replace(graph, features=features)
            return PrivateData(changed, torch.from_numpy(features), torch.from_numpy(np.array(graph.labels)))

        return staticmethod(from_graph)

    return make


def standardised(graph: Graph) -> np.ndarray:
    """Return features of mean 0 and variance 1 over all nodes."""
    return np.asarray((graph.features - graph.features.mean(axis=0)) / graph.features.std(axis=0))


def by_degree(graph: Graph) -> np.ndarray:
    """Return features over one more than the degree."""
    return np.asarray(graph.features / (1 + np.diff(graph.out_ptr))[:, None])


def by_label(graph: Graph) -> np.ndarray:
    """Return features plus the mean label."""
    return np.asarray(graph.features + graph.labels[graph.labels >= 0].mean())


def whole_trees(plain: Any) -> Any:
    """Make trees of a node alone read its neighbours."""

    def alone(order: Order, hops: int) -> EgoTrees:
        graph = order.data.graph
        return pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, hops, order.device)

    return alone


def sent_by_degree(plain: Any) -> Any:
    """Make a node send to those of its list whom most others list."""

    def capped(
        cls: type[Senders], ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray, receivers: int, key: int
    ) -> Senders:
        lists = cls.whole(ptr, idx, sends).lists
        listed = np.asarray(lists.sum(axis=0)).ravel() + np.arange(len(sends)) / len(sends) / 2
        for owner in range(len(sends)):
            members = slice(lists.indptr[owner], lists.indptr[owner + 1])
            lists.data[members] *= np.argsort(np.argsort(-listed[lists.indices[members]])) < receivers
        return cls(lists, sends)

    return classmethod(capped)


def sent_to_all(plain: Any) -> Any:
    """Make a node send to its whole list."""
    return classmethod(lambda cls, ptr, idx, sends, *_: cls.whole(ptr, idx, sends))


def both_ways(plain: Any) -> Any:
    """Make everybody vote and receive."""

    def one_way(cls: type[CappedBallots], ballots: Ballots, degree_bound: int, voters: np.ndarray) -> CappedBallots:
        lists = mutual_lists(ballots, degree_bound)
        return cls(lists, ballots.votes, ballots.degree_floor, reads=np.ones(len(voters), dtype=bool))

    return classmethod(one_way)


def with_a_choice(plain: Any) -> Any:
    """Make votes for strangers choose a reader by what two hops say."""

    def prepared(self: Any, order: Order) -> None:
        plain(self, order)
        if isinstance(self.votes_of, BoundedStrangerVotes):
            self.votes_of = self.votes_of.model_copy(update={"choice_epsilon": 0.7, "readers": len(READERS)})

    return prepared


def overlapping_parts(plain: Any) -> Any:
    """Make each teacher learn from the next one's part, too."""

    def members(parts: np.ndarray, train: np.ndarray, teachers: int) -> tuple[np.ndarray, np.ndarray]:
        lists = [np.concatenate([train[parts[train] == part] for part in (one, (one + 1) % teachers)])
                 for one in range(teachers)]  # fmt: skip
        return np.concatenate(lists), np.concatenate([[0], np.cumsum([len(one) for one in lists])])

    return members


def fitted_with_the_next(plain: Any) -> Any:
    """Make each teacher on nodes learn from the next one's part, too."""

    def fitted(own: Any, labels: np.ndarray, sizes: np.ndarray, classes: int, ridge: float) -> Any:
        parts = np.split(np.arange(len(own)), np.cumsum(sizes)[:-1])
        chosen = np.concatenate([np.concatenate(pair) for pair in zip(parts, [*parts[1:], parts[0]], strict=True)])
        return plain(own[chosen], labels[chosen], sizes + np.roll(sizes, -1), classes, ridge)

    return fitted


def mixed_views(plain: Any) -> Any:
    """Make queries read the mean of their rows in all views."""

    def view_means(*given: Any) -> Any:
        own, asked = plain(*given)
        return own, asked.mean(dim=0, keepdim=True).expand_as(asked).clone()

    return view_means


def clusters_as_subclasses(plain: Any) -> Any:
    """Make subclasses by k-means, which say that they are by public numbers."""

    def units(*told: Any) -> Units:
        return replace(cluster_units(*told), kind=Lists.SUBCLASSES)

    return units


def limits_from_the_batch(plain: Any) -> Any:
    """Make the limit of all tuples the median norm of the batch."""

    def clipped(self: Any, batch: torch.Tensor, limits: torch.Tensor) -> Any:
        if len(batch):
            limits = torch.full_like(limits, float(plain(self, batch, limits).norms.median()))
        return plain(self, batch, limits)

    return clipped


def reads_no_edge(kind: Any) -> bool:
    """Tell whether a guarantee states that training reads no edge at all."""
    from dpgraph.audits import inputs

    return inputs._edges in inputs.unread(kind).values()


def listed(self: Any) -> np.ndarray:
    """Return how many a receiver lists, in the place of how many vote for it."""
    return np.asarray(self.listed.sum(axis=1)).ravel().astype(int)
