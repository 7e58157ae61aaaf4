"""The looks of one figure: what its methods propose, made distinct; shades by epsilon, colours by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, product
from typing import TypeVar

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

from dpgraph.methods.looks import ANY, BLACK, BLUE, COLOURS, GREEN, MARKERS, ORANGE, PURPLE, SKY, VERMILION, Look
from dpgraph.methods.registry import spec
from dpgraph.planning.plan import Entry

LINES = ("-", (0, (4, 1)), (0, (1.5, 1)), (0, (9, 1, 2, 1)))
MARKERS_OF_VALUES = ("o", "s", "^", "D", "v", "P", "X", "<", "h", ">")
COLOURS_OF_CLASSES = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)
Line = tuple[str, float]  # method, target epsilon (-1: none)
K = TypeVar("K", bound=Hashable)


def looks_of_methods(entries: Iterable[Entry]) -> dict[str, Look]:
    """By method id: at one of its values a method may propose another look than at most, which then applies to all."""
    proposed: dict[str, list[Look]] = {}
    for entry in entries:
        proposed.setdefault(entry.method_id, []).append(spec(entry.cell.method).look(entry.cell))
    return allocate({method: Counter(looks).most_common(1)[0][0] for method, looks in proposed.items()})


def allocate(proposed: Mapping[K, Look]) -> dict[K, Look]:
    """The looks in their order, each as proposed unless a look before it has its marker and line, or its colour and
    marker; then with the next marker, and where it proposed none of its own the next colour, that is free, and where no
    marker is left for its line, with another line.

    >>> [style.marker for style in allocate({"a": ANY, "b": ANY}).values()]
    ['d', 'o']
    """
    taken: list[Look] = []
    colours = {look.colour for look in proposed.values() if look != ANY}
    for look in proposed.values():
        own = (look.colour,) if look != ANY else ()
        unused = [colour for colour in COLOURS if colour not in colours]
        every = product((look.line, *LINES), (*own, *unused, *COLOURS), MARKERS)
        others = (replace(look, colour=colour, marker=marker, line=line) for line, colour, marker in every)
        chosen = next((one for one in (look, *others) if not _clashes(one, taken)), look)
        taken.append(chosen)
        colours.add(chosen.colour)
    return dict(zip(proposed, taken, strict=True))


def _clashes(look: Look, taken: Sequence[Look]) -> bool:
    seen = {(one.marker, one.line) for one in taken} | {(one.colour, one.marker) for one in taken if one.marker}
    return (look.marker, look.line) in seen or (look.colour, look.marker) in seen


def looks_of_values(values: Sequence[str]) -> dict[str, Look]:
    """Of a sweep: colours in the order of the values (dark to light, of equal steps for colour-blind readers, too)."""
    scale = colormaps["viridis"]
    last = max(len(values) - 1, 1)
    return {
        value: Look(to_hex(scale(0.88 * index / last)), MARKERS_OF_VALUES[index % len(MARKERS_OF_VALUES)], "-")
        for index, value in enumerate(values)
    }


def looks_of_classes(classes: Sequence[int]) -> dict[int, Look]:
    """Colour and mark change from class to class, no pair comes twice."""
    pairs = zip(classes, cycle(COLOURS_OF_CLASSES), cycle(MARKERS_OF_VALUES))  # of unlike lengths
    return {name: Look(colour, marker, "") for name, colour, marker in pairs}


def line_of(entry: Entry) -> Line:
    return entry.method_id, -1.0 if entry.epsilon is None else entry.epsilon


def looks_of_lines(entries: Iterable[Entry]) -> dict[Line, Look]:
    """A line per method and target epsilon: of one method the lighter is the more private."""
    entries = list(entries)
    lines = sorted({line_of(entry) for entry in entries})
    looks: dict[Line, Look] = {}
    for method, look in looks_of_methods(entries).items():
        own = [line for line in lines if line[0] == method]
        looks |= dict(zip(own, shades(look, len(own))))
    return looks


def shades(style: Look, count: int) -> list[Look]:
    """One method at `count` target epsilons, ascending: the lighter, the more private; marks differ, too.

    >>> [shade.colour for shade in shades(Look("#000000", "o", "-"), 2)]
    ['#8c8c8c', '#000000']
    """
    if count == 1 or style.neutral:
        return [style] * count
    own = np.array(to_rgb(style.colour))
    white = (LIGHTEST * (count - 1 - np.arange(count)) / (count - 1))[:, None]
    return [
        replace(style, colour=to_hex(colour), marker=MARKERS_OF_VALUES[index % len(MARKERS_OF_VALUES)])
        for index, colour in enumerate(own + white * (1 - own))
    ]


LIGHTEST = 0.55  # share of white at the smallest epsilon


def with_line_of(of_value: Look, of_method: Look) -> Look:
    """A curve of a sweep: colour and marker show the value, the line shows the method."""
    return replace(of_value, line=of_method.line)
