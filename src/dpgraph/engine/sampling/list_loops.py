"""The samplers of edge_lists.py as compiled loops: the same lists, entry by entry, for large graphs.

Loops that read places far apart write to one place only: a core then waits for many of them at once, which it does not
where a number that is written might be the next that is read. Every function reads the graph's CSR lists (`ptr`
(N + 1,), `idx` (E,)) of the `roots` (R,), ascending.
"""

from __future__ import annotations

import numba
import numpy as np

from dpgraph.core.compiled import compiled

FEW = 96  # of the processors tried
AHEAD = 64  # roots
LARGEST = np.uint32(0xFFFFFFFF)
_njit = numba.njit


@_njit(inline="always")
def _mix64(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_njit(inline="always")
def _mix32(x):  # type: ignore[no-untyped-def]
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(x ^ (x >> np.uint32(16)))


@_njit(inline="always")
def _pad(group, seed):  # type: ignore[no-untyped-def]
    return _mix64(_mix64(np.uint64(group) + seed) ^ (seed >> np.uint64(1)))


@_njit(inline="always")
def _priority(pad, element):  # type: ignore[no-untyped-def]
    """Return `edge_lists._priorities` of one element: for each group, whose `pad` is given, a permutation."""
    value = np.uint32(element) ^ np.uint32(pad >> np.uint64(32))
    return _mix32(_mix32(value) ^ np.uint32(pad & np.uint64(0xFFFFFFFF)))


@_njit
def _add_up(numbers):  # type: ignore[no-untyped-def]
    for i in range(len(numbers) - 1):
        numbers[i + 1] += numbers[i]


@_njit
def _sink(heap, place, size):  # type: ignore[no-untyped-def]
    """Move the number at `place` down to its place in the heap `heap[:size]`, which is in order but for this number."""
    value = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@_njit
def _smallest(values, rank, heap):  # type: ignore[no-untyped-def]
    """Return the `rank`-th smallest of distinct `values`, in memory for `rank` numbers."""
    if len(values) <= FEW:  # counted without a branch that depends on the numbers
        for value in values:
            smaller = np.uint32(0)
            for other in values:
                smaller = np.uint32(smaller + np.uint32(other < value))
            if smaller == rank - 1:
                return value
    for i in range(rank):
        heap[i] = values[i]
    for i in range(rank // 2 - 1, -1, -1):
        _sink(heap, i, rank)
    for value in values[rank:]:
        if value < heap[0]:
            heap[0] = value
            _sink(heap, 0, rank)
    return heap[0]


@compiled("i8[!] i4[!] i8[!] i8 u8 u4[] u4[] i4[]")
def propose(ptr, idx, roots, cap, seed, priorities, heap, members):  # type: ignore[no-untyped-def]
    """Write the `cap` members of each root's list with the smallest priorities to `members`, in the list's order.

    `priorities` is as long as the longest list, `heap` as `cap` where a list is longer; `members` has one place more
    than is kept.
    """
    written = 0
    for root in roots:
        listed = idx[ptr[root] : ptr[root + 1]]
        if len(listed) <= cap:
            for member in listed:
                members[written] = member
                written += 1
            continue
        pad = _pad(root, seed)
        values = priorities[: len(listed)]
        for i in range(len(listed)):
            values[i] = _priority(pad, listed[i])
        last = _smallest(values, cap, heap)
        for i in range(len(listed)):  # priorities within a group are distinct: `cap` are written to stay
            members[written] = listed[i]
            written += values[i] <= last


@compiled("i8[!] i8[!] i4[!] i8 u8 i8[] u4[] u4[] u4[] u4[] i8[] i4[]")
def accept(  # type: ignore[no-untyped-def]
    ends, roots, members, most, seed, place, priorities, grouped, last, heap, out_ptr, out_idx
):
    """Keep, of the lists that a node is in, the `most` whose roots have the smallest priorities; return the count.

    `members[ends[i] : ends[i + 1]]` is the list of `roots[i]`. `place` (N,) is -1 for a node in at most `most` lists,
    of others where its part of `grouped` begins, which is as long as their entries. Memory for priorities of all
    entries, for one of each node (`last`) and for `most` of them (`heap`) need not be set. Writes the lists to
    `out_idx` and `out_ptr` (N + 1,), all 0 before.
    """
    for first in range(0, len(roots), AHEAD):
        end = min(first + AHEAD, len(roots))
        for entry in range(ends[first], ends[end]):
            priorities[entry] = place[members[entry]] >= 0
        for i in range(first, end):
            for entry in range(ends[i], ends[i + 1]):
                if priorities[entry]:
                    member = members[entry]
                    value = _priority(_pad(member, seed), roots[i])
                    priorities[entry] = value
                    grouped[place[member]] = value
                    place[member] += 1
    begin = 0
    for node in range(len(place)):
        last[node] = LARGEST
        if place[node] >= 0:
            last[node] = _smallest(grouped[begin : place[node]], most, heap)
            begin = place[node]
    for entry in range(len(members)):
        priorities[entry] = priorities[entry] <= last[members[entry]]
    written = 0
    for i in range(len(roots)):
        before = written
        for entry in range(ends[i], ends[i + 1]):
            out_idx[written] = members[entry]
            written += priorities[entry]
        out_ptr[roots[i] + 1] = written - before
    _add_up(out_ptr)
    return written


@compiled("i8[!] i4[!] i8[!] i4[]")
def count(ptr, idx, roots, occurrences):  # type: ignore[no-untyped-def]
    """Add to `occurrences` (N,) the number of the roots' lists that each node is in."""
    for root in roots:
        for entry in range(ptr[root], ptr[root + 1]):
            occurrences[idx[entry]] += 1


@compiled("i8[!] i4[!] i8[!] f8[!] f8[!] i8 i4[] i4[] i8[] i4[]")
def keep_by_rate(  # type: ignore[no-untyped-def]
    ptr, idx, roots, rate, draws, most, stays, occurrences, out_ptr, out_idx
):
    """Keep each entry with the probability `rate` (N,) of its member, then drop crowded members (Algorithm 1).

    `draws` has a uniform number for each entry. `occurrences` (N,) and `out_ptr` (N + 1,) start at 0. `stays` is as
    long as the longest list. Returns how many entries were written to `out_idx`, which is as long as all.
    """
    drawn = 0
    kept = 0
    for root in roots:
        before = kept
        listed = idx[ptr[root] : ptr[root + 1]]
        for i in range(len(listed)):
            stays[i] = draws[drawn + i] < rate[listed[i]]
        for i in range(len(listed)):
            out_idx[kept] = listed[i]
            kept += stays[i]
        drawn += len(listed)
        out_ptr[root + 1] = kept - before
    for entry in range(kept):
        occurrences[out_idx[entry]] += 1
    written = 0
    kept = 0
    for root in roots:
        before = written
        listed = out_idx[kept : kept + out_ptr[root + 1]]
        for i in range(len(listed)):
            stays[i] = occurrences[listed[i]] <= most
        for i in range(len(listed)):
            out_idx[written] = listed[i]
            written += stays[i]
        kept += out_ptr[root + 1]
        out_ptr[root + 1] = written - before
    _add_up(out_ptr)
    return written
