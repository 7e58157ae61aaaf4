"""Edge lists of the training nodes: the nodes that send messages to each root in the training subgraphs.

Two samplers bound how many lists a node occurs in by K. `sample_edge_lists` is Algorithm 1 of Daigavane et al. (2022)
as published. It is not stable: one node's edges set the keep-probabilities in the lists of others, so the number of
training subgraphs that change with one node has no bound (docs/privacy/trees.md). `stable_edge_lists` has a proved
bound.

Both are written with array operations; where the roots have at least `WORTH` entries, compiled loops (list_loops.py)
choose the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpgraph.core.compiled import WORTH
from dpgraph.core.errors import invalid
from dpgraph.data.graph import Graph
from dpgraph.privacy.procedure import Lists, NotAsAccounted

PROPOSE, ACCEPT, CAP = 1, 2, 3


@dataclass(frozen=True)
class EdgeLists:
    """Lists of all N nodes in CSR form; only roots have a non-empty list. Ids within a list ascend, without repeats.

    A sampler states its kind and the bounds that it keeps; `checked` verifies them.
    """

    ptr: np.ndarray  # (N + 1,) int64
    idx: np.ndarray  # (nnz,) int32
    kind: Lists = Lists.UNBOUNDED
    max_degree: int | None = None  # K: most lists in which a node occurs
    list_cap: int | None = None  # D: longest list

    @property
    def num_nodes(self) -> int:
        return len(self.ptr) - 1

    def members(self, node: int) -> np.ndarray:
        """Return E_v, the nodes whose messages v receives."""
        return self.idx[self.ptr[node] : self.ptr[node + 1]]

    def occurrences(self) -> np.ndarray:
        """Return the number (N,) of lists in which each node occurs."""
        return np.bincount(self.idx, minlength=self.num_nodes)

    def checked(self) -> EdgeLists:
        """Return the lists. Raise NotAsAccounted where they break the bounds that they state."""
        if self.kind is Lists.NONE and len(self.idx):
            raise NotAsAccounted(f"edge lists: found {len(self.idx)} entries: expected none")
        most = int(self.occurrences().max(initial=0))
        if self.max_degree is not None and most > self.max_degree:
            raise NotAsAccounted(f"edge lists: a node is in {most} lists: expected at most K = {self.max_degree}")
        longest = int(np.diff(self.ptr).max(initial=0))
        if self.list_cap is not None and longest > self.list_cap:
            raise NotAsAccounted(f"edge lists: one has {longest} entries: expected at most D = {self.list_cap}")
        return self


def empty_edge_lists(graph: Graph) -> EdgeLists:
    """Return lists without messages, on which an MLP is trained."""
    return EdgeLists(np.zeros(graph.num_nodes + 1, dtype=np.int64), np.zeros(0, dtype=np.int32), Lists.NONE)


def full_edge_lists(graph: Graph, roots: np.ndarray) -> EdgeLists:
    """Return the whole list of every root, without any bound: for training without privacy."""
    owners, members = _entries(graph, _checked(graph, roots))
    return pack_lists(graph.num_nodes, owners, members)


def sample_edge_lists(graph: Graph, roots: np.ndarray, max_degree: int, generator: np.random.Generator) -> EdgeLists:
    """Sample lists by Algorithm 1 (SAMPLE-EDGELISTS) of Daigavane et al. (2022), as published.

    Let RE_v be the roots whose lists hold v. Each of these entries is kept independently with probability min(1, K / (2
    |RE_v|)); a node that is then still in more than K lists is dropped from all of them, and its own list stays. By
    Lemma 1 of the paper each node occurs in at most K lists, so in at most N(K, r) trees. The number of lists that one
    node's record changes has no bound.

    Args:
        graph: The graph whose out-lists are sampled.
        roots: (R,) ids, ascending.
        max_degree: K.
        generator: Draws one number for each entry.

    Returns:
        Lists of kind ALGORITHM_1.

    Raises:
        UserError: K < 1, or ids that do not ascend or are not in the graph.
    """
    _check_at_least_one("max_degree", max_degree)
    roots = _checked(graph, roots)
    if _entry_count(graph, roots) >= WORTH:
        lists = _sampled_by_loops(graph, roots, max_degree, generator)
    else:
        lists = _sampled(graph, roots, max_degree, generator)
    return replace(lists, kind=Lists.ALGORITHM_1, max_degree=max_degree)


def _sampled(graph: Graph, roots: np.ndarray, max_degree: int, generator: np.random.Generator) -> EdgeLists:
    owners, members = _entries(graph, roots)
    occurrences = np.bincount(members, minlength=graph.num_nodes)
    rate = np.minimum(1.0, max_degree / (2.0 * np.maximum(occurrences, 1)))
    kept = generator.random(len(members)) < rate[members]
    owners, members = owners[kept], members[kept]
    over = np.bincount(members, minlength=graph.num_nodes) > max_degree
    kept = ~over[members]
    return pack_lists(graph.num_nodes, owners[kept], members[kept])


def _sampled_by_loops(graph: Graph, roots: np.ndarray, max_degree: int, generator: np.random.Generator) -> EdgeLists:
    from dpgraph.engine.sampling.list_loops import count, keep_by_rate

    lists = contiguous(graph.out_ptr, graph.out_idx)
    occurrences = np.zeros(graph.num_nodes, dtype=np.int32)
    count(*lists, roots, occurrences)
    rate = np.minimum(1.0, max_degree / (2.0 * np.maximum(occurrences, 1)))
    draws = generator.random(_entry_count(graph, roots))
    occurrences[:] = 0
    stays = np.empty(int(np.diff(lists[0]).max(initial=0)), dtype=np.int32)
    ptr, idx = np.zeros(graph.num_nodes + 1, dtype=np.int64), np.empty(len(draws), dtype=np.int32)
    return _filled(ptr, idx, keep_by_rate(*lists, roots, rate, draws, max_degree, stays, occurrences, ptr, idx))


def stable_edge_lists(graph: Graph, roots: np.ndarray, max_degree: int, list_cap: int, key: int) -> EdgeLists:
    """Sample lists by the stable sampler S(D, K): one record changes a bounded number of training subgraphs.

    1. *Propose*: P_v is the `list_cap` = D members of root v's own list with the smallest priorities. 2. *Accept*: u
    accepts the `max_degree` = K roots v with the smallest priorities among those with u in P_v.

    A priority is a pseudorandom function of (key, owner, member), never of edges or degrees. Theorem 3 of
    docs/privacy/trees.md: a node occurs in at most K lists, a list has at most D entries, and at most R = N(K, r) + D
    N(K, r
    - 1) roots' trees of depth r change when one record becomes null. A null record has no list, features or label;
    pointers to it stay, and it sends no message. The same holds when a node is removed and no list was longer than D.

    Args:
        graph: The graph whose out-lists are sampled.
        roots: (R,) ids, ascending.
        max_degree: K.
        list_cap: D.
        key: The key of the priorities.

    Returns:
        Lists of kind STABLE.

    Raises:
        UserError: K < 1, D < 1, or ids that do not ascend or are not in the graph.
    """
    _check_at_least_one("max_degree", max_degree)
    _check_at_least_one("list_cap", list_cap)
    roots = _checked(graph, roots)
    stable = _stable_by_loops if _entry_count(graph, roots) >= WORTH else _stable
    lists = stable(graph, roots, max_degree, list_cap, key)
    return replace(lists, kind=Lists.STABLE, max_degree=max_degree, list_cap=list_cap)


def _stable(graph: Graph, roots: np.ndarray, max_degree: int, list_cap: int, key: int) -> EdgeLists:
    owners, members = _entries(graph, roots)
    proposed = smallest_in_group(owners, members, list_cap, graph.num_nodes, key, PROPOSE)
    owners, members = owners[proposed], members[proposed]
    accepted = smallest_in_group(members, owners, max_degree, graph.num_nodes, key, ACCEPT)
    return pack_lists(graph.num_nodes, owners[accepted], members[accepted])


def _stable_by_loops(graph: Graph, roots: np.ndarray, max_degree: int, list_cap: int, key: int) -> EdgeLists:
    from dpgraph.engine.sampling.list_loops import accept, propose

    ptr, idx = contiguous(graph.out_ptr, graph.out_idx)
    lengths = ptr[roots + 1] - ptr[roots]
    ends = offsets(np.minimum(lengths, list_cap))
    members, priorities = np.empty(ends[-1] + 1, dtype=np.int32), np.empty(ends[-1], dtype=np.uint32)
    longest = int(lengths.max(initial=0))
    listed, heap = (np.empty(size, dtype=np.uint32) for size in (longest, min(list_cap, longest)))
    propose(ptr, idx, roots, list_cap, np.uint64(_seed(key, PROPOSE)), listed, heap, members)
    members = members[:-1]

    proposals = np.bincount(members, minlength=graph.num_nodes)
    crowded = proposals > max_degree
    sizes = np.where(crowded, proposals, 0)
    place = np.where(crowded, np.cumsum(sizes) - sizes, -1)
    grouped, last, heap = (np.empty(size, dtype=np.uint32) for size in (sizes.sum(), graph.num_nodes, max_degree))
    seed = np.uint64(_seed(key, ACCEPT))
    out_ptr, out_idx = np.zeros(graph.num_nodes + 1, dtype=np.int64), np.empty(len(members), dtype=np.int32)
    accepted = accept(ends, roots, members, max_degree, seed, place, priorities, grouped, last, heap, out_ptr, out_idx)
    return _filled(out_ptr, out_idx, accepted)


def contiguous(ptr: np.ndarray, idx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return CSR lists for compiled loops. Raise ValueError for ids that would be read outside of an array."""
    ptr, idx = np.ascontiguousarray(ptr, dtype=np.int64), np.ascontiguousarray(idx, dtype=np.int32)
    if len(idx) and not 0 <= idx.min() <= idx.max() < len(ptr) - 1:
        raise ValueError(f"ids {idx.min()}..{idx.max()} in lists of {len(ptr) - 1} nodes")
    return ptr, idx


def _filled(ptr: np.ndarray, idx: np.ndarray, entries: int) -> EdgeLists:
    """Return lists of the first `entries` of `idx`, in memory of that size."""
    return EdgeLists(ptr, idx[:entries].copy())


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise invalid(name, value, "an integer >= 1")


def _checked(graph: Graph, roots: np.ndarray) -> np.ndarray:
    """Return the roots (R,) as int64. Raise UserError unless they are ascending ids of the graph without repeats."""
    roots = np.ascontiguousarray(roots, dtype=np.int64)
    if len(roots) > 1 and np.any(np.diff(roots) <= 0):
        raise invalid("roots", f"{roots[:3].tolist()}...", "ascending ids without repeats")
    if len(roots) and (roots[0] < 0 or roots[-1] >= graph.num_nodes):
        raise invalid("roots", f"{roots[0]}..{roots[-1]}", f"ids in 0..{graph.num_nodes - 1}")
    return roots


def _entry_count(graph: Graph, roots: np.ndarray) -> int:
    """Return the number of entries of the roots' lists."""
    return int((graph.out_ptr[roots + 1] - graph.out_ptr[roots]).sum())


def _entries(graph: Graph, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the owners and members of the roots' lists, owners ascending."""
    lengths = graph.out_ptr[roots + 1] - graph.out_ptr[roots]
    members = np.asarray(graph.out_idx)[ranges(graph.out_ptr[roots], lengths)]
    return np.repeat(roots.astype(np.int32), lengths), members


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the positions of the ranges [start, start + length), one after the other."""
    ends = offsets(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Return 0 and the cumulative sums of the lengths, int64."""
    ptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


def pack_lists(num_nodes: int, owners: np.ndarray, members: np.ndarray) -> EdgeLists:
    ptr = offsets(np.bincount(owners, minlength=num_nodes))
    return EdgeLists(ptr, members.astype(np.int32, copy=False))


def smallest_in_group(
    groups: np.ndarray, elements: np.ndarray, limit: int, num_nodes: int, key: int, purpose: int
) -> np.ndarray:
    """Return a mask of the entries with the `limit` smallest priorities of their group.

    All entries of a group that has at most `limit` stay.
    """
    sizes = np.bincount(groups, minlength=num_nodes)
    kept = np.ones(len(groups), dtype=bool)
    crowded = sizes > limit
    entries = np.flatnonzero(crowded[groups])
    if not len(entries):
        return kept
    group = groups[entries].astype(np.uint64)
    ranked = (group << np.uint64(32)) | _priorities(group, elements[entries], key, purpose)
    # Distinct values, so the limit-th value of a group is an exact threshold and plain values can be sorted.
    ordered = np.sort(ranked)
    first = np.cumsum(np.where(crowded, sizes, 0)) - sizes
    threshold = np.zeros(num_nodes, dtype=np.uint64)
    threshold[crowded] = ordered[first[crowded] + limit - 1]
    kept[entries] = ranked <= threshold[groups[entries]]
    return kept


def _priorities(groups: np.ndarray, elements: np.ndarray, key: int, purpose: int) -> np.ndarray:
    """Return (n,) uint64 below 2^32: for each group a pseudorandom permutation of the elements, without ties."""
    seed = _seed(key, purpose)
    pad = _mix64(_mix64(groups.astype(np.uint64) + np.uint64(seed)) ^ np.uint64(seed >> 1))
    value = elements.astype(np.uint32) ^ (pad >> np.uint64(32)).astype(np.uint32)
    value = _mix32(_mix32(value) ^ pad.astype(np.uint32))
    return value.astype(np.uint64)


def _seed(key: int, purpose: int) -> int:
    """Return 64 bits, different ones for each purpose."""
    return (key ^ (purpose * 0x9E3779B97F4A7C15)) & (2**64 - 1)


def _mix64(x: np.ndarray) -> np.ndarray:
    """Mix 64-bit words by the finalizer of splitmix64 (Steele, Lea and Flood, 2014), a bijection."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _mix32(x: np.ndarray) -> np.ndarray:
    """Mix 32-bit words by the finalizer of MurmurHash3 (Appleby, 2011), a bijection."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))
