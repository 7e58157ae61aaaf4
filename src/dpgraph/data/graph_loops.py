"""Edges drawn by weight (synthetic.py) as compiled loops: the same edges, for large graphs."""

from __future__ import annotations

import numba
import numpy as np

from dpgraph.compiled import compiled

AHEAD = 256  # numbers whose places in memory are read before the first is used, so that a core waits for many at once
_njit = numba.njit


@_njit(inline="always")
def _part(value, scale, parts):  # type: ignore[no-untyped-def]
    return min(np.int32(value * scale), np.int32(parts - 1))


@compiled("f8[!] i4[]")
def fill_guide(total, guide):  # type: ignore[no-untyped-def]
    """Writes for each of as many equal parts of 0..total[-1] as there are totals how many of these lie before it."""
    scale = len(total) / total[-1]
    part = 0
    for i in range(len(total)):
        own = _part(total[i], scale, len(total))
        while part <= own:
            guide[part] = i
            part += 1
    while part < len(guide):
        guide[part] = len(total)
        part += 1


@_njit
def _find(total, guide, values, places):  # type: ignore[no-untyped-def]
    """np.searchsorted(total, value, side="right"), at most the last: what lies in earlier parts is not larger."""
    scale = len(total) / total[-1]
    last = len(total) - 1
    for i in range(len(values)):
        places[i] = min(guide[_part(values[i], scale, len(total))], last)
    for i in range(len(values)):
        if total[places[i]] <= values[i]:
            places[i] += 1
    for i in range(len(values)):
        while places[i] <= last and total[places[i]] <= values[i]:
            places[i] += 1
        places[i] = min(places[i], last)


@compiled("f8[!] f8[!] f8[!] f8 f8[!] i4[!] i4[!] u2[!] f8[!] f8[!] i8[]")
def draw_edges(  # type: ignore[no-untyped-def]
    ends, sides, others, homophily, total, guide, order, classes, low, high, keys
):
    """Writes a key for each three uniform numbers, smaller end * N + larger end; -1 where both ends are one node.

    `order` and `classes` (N,) are the nodes, by class, and their classes in that order.
    """
    values = np.empty(AHEAD, dtype=np.float64)
    sources, targets = np.empty(AHEAD, dtype=np.int64), np.empty(AHEAD, dtype=np.int64)
    for begin in range(0, len(ends), AHEAD):
        size = min(AHEAD, len(ends) - begin)
        for i in range(size):
            values[i] = ends[begin + i] * total[-1]
        _find(total, guide, values[:size], sources)
        for i in range(size):
            bottom, top = 0.0, total[-1]
            if sides[begin + i] < homophily:
                own = classes[sources[i]]
                bottom, top = low[own], high[own]
            values[i] = bottom + others[begin + i] * (top - bottom)
        _find(total, guide, values[:size], targets)
        for i in range(size):
            source, target = np.int64(order[sources[i]]), np.int64(order[targets[i]])
            keys[begin + i] = min(source, target) * len(total) + max(source, target) if source != target else -1


@compiled("i8[!] i8[] i8[] i8")
def add_distinct(drawn, table, keys, count):  # type: ignore[no-untyped-def]
    """Appends those of `drawn` that are not below 0 nor among `keys[:count]`, until `keys` is full; returns how many.

    `table` is a hash table of `keys[:count]`, at most half full at the end; its size is a power of two, and free places
    hold -1.
    """
    mask = len(table) - 1
    places = np.empty(AHEAD, dtype=np.int64)
    read = 0
    for begin in range(0, len(drawn), AHEAD):
        part = drawn[begin : begin + AHEAD]
        for i in range(len(part)):
            mixed = np.uint64(part[i]) * np.uint64(0x9E3779B97F4A7C15)
            places[i] = np.int64((mixed >> np.uint64(32)) & np.uint64(mask))
            read += table[places[i]]
        for i in range(len(part)):
            if part[i] < 0 or count == len(keys):
                continue
            place = places[i]
            while table[place] != -1 and table[place] != part[i]:
                place = (place + 1) & mask
            if table[place] == -1:
                table[place] = part[i]
                keys[count] = part[i]
                count += 1
    return count, read  # what was read is returned so that the compiler leaves it there
