"""Packing and slicing of ego trees (ego.py) as compiled loops: the same arrays, number by number, for many rows.

Lists are in CSR form, `ptr` (N + 1,) and `idx`; `entries` of a tree are the closed lists of the nodes of level 1, one
after the other.
"""

from __future__ import annotations

import numba
import numpy as np

from dpgraph.core.compiled import compiled

COUNTED = 192  # distinct nodes whose ranks are counted: in vectors that is faster than to sort so few
_njit = numba.njit


@compiled("i8[!] i4[!] i8[!] i8[]")
def count_entries(ptr, idx, roots, counts):  # type: ignore[no-untyped-def]
    """Write the number of entries of each root's tree."""
    for i in range(len(roots)):
        listed = idx[ptr[roots[i]] : ptr[roots[i] + 1]]
        counts[i] = 2 * len(listed) + 1
        for node in listed:
            counts[i] += ptr[node + 1] - ptr[node]


@compiled("i8[!] i4[!] i8[!] i4[] i4[] i4[] i4[] i8[]")
def collect(ptr, idx, roots, place, lengths, entries, distinct, sizes):  # type: ignore[no-untyped-def]
    """Write the `entries` of each root's tree and the `lengths` of its closed lists.

    Also write its `distinct` nodes in the order in which they occur, and how many there are, `sizes`. `place` (N,)
    holds no number below 0; `distinct` has one place more.
    """
    row = entry = found = 0
    for i in range(len(roots)):
        mark = np.int32(-1 - i)
        listed = idx[ptr[roots[i]] : ptr[roots[i] + 1]]
        begin, before = entry, found
        entries[entry] = roots[i]
        entry += 1
        for node in listed:
            entries[entry] = node
            entry += 1
        lengths[row] = len(listed) + 1
        row += 1
        for node in listed:
            others = idx[ptr[node] : ptr[node + 1]]
            entries[entry] = node
            entry += 1
            for other in others:
                entries[entry] = other
                entry += 1
            lengths[row] = len(others) + 1
            row += 1
        for node in entries[begin:entry]:
            distinct[found] = node
            found += place[node] != mark
            place[node] = mark
        sizes[i] = found - before


@_njit
def _ranks(values, ranks):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        ranks[i] = 0
    for value in values:
        for i in range(len(values)):
            ranks[i] = np.int32(ranks[i] + np.int32(value < values[i]))


@compiled("i8[!] i8[!] i8[!] i8[!] i4[!] i4[!] i4[] i4[] i4[] i8[] i8[] i8[] i8[]")
def arrange(  # type: ignore[no-untyped-def]
    rank, row_ptr, deep_ptr, entry_ptr, lengths, entries, distinct, place, ranks, nodes, segment_ptr, within, own
):
    """Write the rows of level 2, ascending in each tree, and `within` these the row of each entry.

    Tree i, of what `collect` wrote, is stored at place `rank[i]`, its rows of levels 1 and 2 and its entries from
    `row_ptr`, `deep_ptr` and `entry_ptr` there. To write far apart costs less than to read far apart. `ranks` is as
    long as the largest tree; `segment_ptr` begins with 0. Sorts `distinct`.
    """
    row = entry = begin = 0
    for tree in range(len(rank)):
        stored = rank[tree]
        rows = nodes[deep_ptr[stored] : deep_ptr[stored + 1]]
        found = distinct[begin : begin + len(rows)]
        begin += len(rows)
        if len(found) > COUNTED:
            found.sort()
            for i in range(len(found)):
                ranks[i] = i
        else:
            _ranks(found, ranks)
        for i in range(len(found)):
            rows[ranks[i]] = found[i]
            place[found[i]] = ranks[i]
        own[stored] = place[entries[entry]]
        segment = entry_ptr[stored]
        columns = within[segment : entry_ptr[stored + 1]]
        for i in range(len(columns)):
            columns[i] = place[entries[entry + i]]
        entry += len(columns)
        for i in range(row_ptr[stored], row_ptr[stored + 1]):
            segment += lengths[row]
            segment_ptr[i + 1] = segment
            row += 1


@compiled("i8[!] i4[!] i8[!] i8[]")
def fill_lists(ptr, idx, roots, nodes):  # type: ignore[no-untyped-def]
    """Write each root and its list, one after the other."""
    written = 0
    for root in roots:
        nodes[written] = root
        written += 1
        for node in idx[ptr[root] : ptr[root + 1]]:
            nodes[written] = node
            written += 1


@compiled("i8[!] i8[] i8[]")
def order_by(keys, counts, order):  # type: ignore[no-untyped-def]
    """Reorder `order`, places in `keys`, by ascending key, equal ones as before; `counts`, all 0, has one per key."""
    before = order.copy()
    for key in keys:
        counts[key] += 1
    total = 0
    for key in range(len(counts)):
        total, counts[key] = total + counts[key], total
    for place in before:
        order[counts[keys[place]]] = place
        counts[keys[place]] += 1
