"""The looks of a figure's series: those that methods propose, made distinct; colours by value and class."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TypeVar

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

from dpgraph.engine.methods.looks import ANY, CLASS_COLOURS, COLOURS, MARKERS, Dashes, Look
from dpgraph.families.registry import spec
from dpgraph.planning.plan import Entry

LINES: tuple[Dashes, ...] = ("-", (0, (4, 1)), (0, (1.5, 1)), (0, (9, 1, 2, 1)))
# of lines without marks, which only their dashes tell apart in grey
DASHES: tuple[Dashes, ...] = (
    (0, (6, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1)), (0, (8, 1.5, 1, 1.5, 1, 1.5)), "-",
    (0, (1, 3)), (0, (12, 3)), (0, (4, 3)), (0, (2, 1, 6, 1)),
)  # fmt: skip
MORE_COLOURS = ("#24318F", "#D6208B", "#9BD34A", "#7B3FBF", "#F2A0B5", "#C00020")  # where a figure has more series
MARKERS_OF_VALUES = ("o", "s", "^", "D", "v", "P", "X", "<", "h", ">")
COLOURS_OF_CLASSES = (*CLASS_COLOURS, *MORE_COLOURS)
SHAPES = {"round": "o8hHp", "diamond": "Dd"}
APART = 0.08  # distance in Oklab from which two colours are told apart side by side
DARK, LIGHT = 0.45, 0.45  # shares of black and white in a colour's relatives
K = TypeVar("K", bound=Hashable)


def looks_of_methods(entries: Iterable[Entry]) -> dict[str, Look]:
    """Return the look of each method: the most frequent one that it proposes over its values."""
    proposed: dict[str, list[Look]] = {}
    published = set()
    for entry in entries:
        proposed.setdefault(entry.method_id, []).append(spec(entry.cell.method).look(entry.cell))
        if entry.cell.privacy is not None and entry.cell.privacy.variant.startswith("published"):
            published.add(entry.method_id)
    first = sorted(proposed, key=lambda method: method in published)  # a published mechanism gives way to a proved one
    looks = allocate({method: Counter(proposed[method]).most_common(1)[0][0] for method in first})
    return {method: looks[method] for method in proposed}


def allocate(proposed: Mapping[K, Look]) -> dict[K, Look]:
    """Return distinct looks in the order of the proposals.

    Series differ in colour, and without colour in marker or line. A taken colour gives way to a darker or lighter one
    of its kind, else to a free one; a taken marker to the next one whose shape is free, else to another line.

    >>> [style.marker for style in allocate({"a": ANY, "b": ANY}).values()]
    ['d', 'o']
    """
    taken: list[Look] = []
    own = [look.colour for look in proposed.values() if look != ANY]
    for look in proposed.values():
        colour = _free_colour(look, [one.colour for one in taken], own)
        taken.append(_free_shape(replace(look, colour=colour), taken))
    return dict(zip(proposed, taken, strict=True))


def _free_colour(look: Look, taken: Sequence[str], proposed: Sequence[str]) -> str:
    """Return the first free colour of: the look's own, its relatives, colours that no look proposes, all others."""
    every = (*COLOURS, *MORE_COLOURS)
    unused = [colour for colour in every if all(distance(colour, other) >= APART for other in proposed)]
    own = () if look == ANY else (look.colour, *relatives(look.colour))
    for colour in (*own, *unused, *every, *(kind for one in every for kind in relatives(one))):
        if all(distance(colour, other) >= APART for other in taken):
            return colour
    return look.colour


def _free_shape(look: Look, taken: Sequence[Look]) -> Look:
    """Return the look with a marker of a free shape, else with a free pair of marker and line; as it is without any.

    A look without a marker changes its line.
    """
    shapes = {_shape(one.marker) for one in taken if one.marker}
    seen = {(one.marker, one.line) for one in taken}
    if not look.marker:
        for line in (look.line, *DASHES):
            if ("", line) not in seen:
                return replace(look, line=line)
    for marker in filter(None, (look.marker, *MARKERS)):
        if _shape(marker) not in shapes:
            return replace(look, marker=marker)
    for line, marker in product((look.line, *LINES), (look.marker, *MARKERS)):
        if (marker, line) not in seen:
            return replace(look, marker=marker, line=line)
    return look


def _shape(marker: str) -> str:
    """Return the shape that a reader sees at the size of a figure: hexagons are circles."""
    return next((shape for shape, markers in SHAPES.items() if marker in markers), marker)


def dashed(looks: Mapping[K, Look]) -> dict[K, Look]:
    """Return the same colours as lines without marks, each with dashes of its own."""
    seen: list[Dashes] = []
    for look in looks.values():
        seen.append(next((line for line in (look.line, *DASHES) if line not in seen), look.line))
    return {name: replace(look, marker="", line=line) for (name, look), line in zip(looks.items(), seen, strict=True)}


def relatives(colour: str) -> tuple[str, str]:
    """Return a darker and a lighter colour of the same kind."""
    own = np.array(to_rgb(colour))
    return to_hex(tuple(own * (1 - DARK))), to_hex(tuple(own + LIGHT * (1 - own)))


def distance(first: str, second: str) -> float:
    """Return the Euclidean distance of two colours in Oklab; white and black are 1 apart."""
    return float(np.linalg.norm(np.subtract(_oklab(first), _oklab(second))))


@cache
def _oklab(colour: str) -> tuple[float, ...]:
    """Return a colour's coordinates in Oklab (Ottosson, 2020, "A perceptual color space for image processing")."""
    share = np.array(to_rgb(colour))
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return tuple(TO_LAB @ np.cbrt(TO_CONES @ linear))


TO_CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                     [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                   [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


def looks_of_values(values: Sequence[str]) -> dict[str, Look]:
    """Return looks for a sweep: dark to light in the order of the values, in steps that colour-blind readers see."""
    scale = colormaps["viridis"]
    last = max(len(values) - 1, 1)
    return {
        value: Look(to_hex(scale(0.88 * index / last)), MARKERS_OF_VALUES[index % len(MARKERS_OF_VALUES)], "-")
        for index, value in enumerate(values)
    }


def looks_of_classes(classes: Sequence[int]) -> dict[int, Look]:
    """Return looks for classes: a colour for each while there are any, and another marker where a colour repeats."""
    size, shapes = len(COLOURS_OF_CLASSES), len(MARKERS_OF_VALUES)
    return {
        name: Look(COLOURS_OF_CLASSES[place % size], MARKERS_OF_VALUES[(place + 4 * (place // size)) % shapes], "")
        for place, name in enumerate(classes)
    }
