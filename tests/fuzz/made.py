"""Made-up graphs that other tools write, and what differs in a graph that was read. No rule of a reader is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import networkx
import numpy as np
import pandas

from dpgraph.own_graph.graph import OwnGraph

MISSING = ("NA", "NaN", "nan", "N/A", "n/a", "<NA>", "None", "none", "NULL", "null", "#N/A", "?", "-1", "-1.0")
CLASSES = (
    *(("k", "l"), ("chess", "hiking", "music"), ("data base", "machine learning"), ("10-20", "20-30")),
    *(("0", "1"), ("1", "2", "3"), ("False", "True"), ("Ä", "ß", "中")),
    ("arts; law", "maths, physics"),
)
WHOLE_CLASSES = CLASSES[4:6]
COLUMNS = ("source", "target", "from", "to", "src", "dst", "u", "v", "id", "node", "label", "weight", "split", "index")
QUARTERS = "quarters"  # numbers that float16 and bfloat16 hold exactly
ROLES = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Made:
    """A graph as it was made: rows are nodes, and edges are places of rows."""

    ids: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]  # with repetitions, reversed ones and loops
    labels: tuple[str | None, ...]
    columns: tuple[str, ...]
    features: np.ndarray  # (N, F) float64
    split: tuple[str, ...] | None
    directed: bool

    @property
    def arcs(self) -> set[tuple[int, int]]:
        there = {(u, v) for u, v in self.edges if u != v}
        return there if self.directed else there | {(v, u) for u, v in there}

    def ends(self) -> pandas.DataFrame:
        """Return the table of edges: ids as pandas would have them."""
        ids = self.typed_ids()
        return pandas.DataFrame({"source": [ids[u] for u, _ in self.edges], "target": [ids[v] for _, v in self.edges]})

    def typed_ids(self) -> list[Any]:
        """Return integers where every id is one as written."""
        return [int(one) for one in self.ids] if all(one == _whole(one) for one in self.ids) else list(self.ids)

    def rows(self) -> pandas.DataFrame:
        """Return the table of nodes; classes that are numbers become floats where one is missing, as in pandas."""
        labels = pandas.Series(self.labels, dtype=object)
        if all(one is None or one == _whole(one) for one in self.labels):
            labels = labels.astype(float) if None in self.labels else labels.astype(int)
        table = {"id": self.typed_ids(), "label": labels}
        table |= {name: _narrow(self.features[:, place]) for place, name in enumerate(self.columns)}
        return pandas.DataFrame(table | ({"split": self.split} if self.split else {}))

    def numbered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return edges (2, E), labels (N,) with -1 for none, and features (N, F), as arrays."""
        labels = np.array([-1 if one is None else int(one) for one in self.labels])
        return np.array(self.edges, dtype=np.int64).reshape(-1, 2).T, labels, self.features.astype(np.float32)

    def graph(self, typed: bool = True) -> networkx.Graph:
        """Return a graph of NetworkX without attributes."""
        ids = self.typed_ids() if typed else self.ids
        graph = networkx.DiGraph() if self.directed else networkx.Graph()
        graph.add_nodes_from(ids)
        graph.add_edges_from((ids[u], ids[v]) for u, v in self.edges)
        return graph


def _whole(text: str | None) -> str:
    return str(int(text)) if text and text.isascii() and text.isdigit() else ""


def _narrow(column: np.ndarray) -> np.ndarray:
    return column.astype(int) if (column % 1 == 0).all() else column


def make(
    random: Random,
    ids: Sequence[str] = ("ints", "names", "long", "zeros"),
    classes: Sequence[tuple[str, ...]] = CLASSES,
    numbers: Sequence[str] = (QUARTERS, "decimals", "whole", "yes and no", "tiny"),
    missing: float | None = None,
    columns: int | None = None,
    split: bool | None = None,
    directed: bool | None = None,
    size: int = 6,
    few: bool = False,
) -> Made:
    """Draw a graph of `size` to 24 nodes; each class has two labels at least. `few`: less edges than nodes."""
    size = random.randint(size, 24)
    named = random.choice(list(classes))
    share = random.choice((0, 0, 0.3)) if missing is None else missing
    labels = [None if random.random() < share else random.choice(named) for _ in range(size)]
    labels[: 2 * len(named)] = [*named, *named]
    random.shuffle(labels)
    if missing and None not in labels:
        labels[next(place for place, one in enumerate(labels) if labels.count(one) > 1)] = None
    edges = [(random.randrange(size), random.randrange(size)) for _ in range(random.randint(size, 3 * size))]
    edges = edges[: size - 5] if few else edges
    edges += random.choices([(v, u) for u, v in edges], k=2) + random.choices(edges, k=2) + [(0, 0)]
    random.shuffle(edges)
    width = random.randint(0, 4) if columns is None else columns
    parts = [random.choice(ROLES) for _ in range(size)]
    return Made(
        tuple(_ids(random.choice(list(ids)), size, random)),
        tuple(edges),
        tuple(labels),
        tuple(random.sample(("age", "f0", "f1", "income", "x 1", "Größe", "weight", "2020"), width)),
        np.stack([_numbers(random.choice(list(numbers)), size, random) for _ in range(width)] or [np.zeros(size)], 1)[
            :, :width
        ],
        tuple(parts) if (random.random() < 0.3 if split is None else split) else None,
        random.random() < 0.3 if directed is None else directed,
    )


def _ids(kind: str, size: int, random: Random) -> list[str]:
    if kind == "count":
        return [str(place) for place in range(size)]
    if kind == "shuffled":
        return [str(place) for place in random.sample(range(size), size)]
    if kind == "ints":
        return [str(one) for one in random.sample(range(1, 9999), size)]
    if kind == "names":
        return [f"v{one}" for one in random.sample(range(100), size)]
    if kind == "zeros":  # pandas writes them from texts
        return [f"{one:05d}" for one in random.sample(range(9999), size)]
    if kind == "long":  # more digits than a float holds
        first = random.randint(10**16, 9 * 10**16)
        return [str(first + one) for one in random.sample(range(size * 2), size)]
    if kind == "spaced":
        return [f"{first} O'{last}" for first, last in zip(_names(size, random), _names(size, random))]
    if kind == "quoted":
        return [f'{one}, "{one}"' for one in _names(size, random)]
    if kind == "punctuated":
        return [random.choice(";|:\t/ '").join(random.choices("abcdefg", k=2)) + str(place) for place in range(size)]
    if kind == "columns":  # names that columns have
        return random.sample((*COLUMNS, *(name.capitalize() for name in COLUMNS)), size)
    if kind == "hashes":
        return [random.choice("#%@") + one for one in _names(size, random)]
    if kind == "confusable":  # texts that are one number to who reads numbers
        pool = [
            "1e5",
            "100000",
            "1E5",
            "1e05",
            "007",
            "7",
            "07",
            "7.0",
            "7.00",
            "0x7",
            "1_0",
            "10",
            "10.0",
            "+10",
            "-0",
        ]
        pool += ["0", "inf", "1e400", "Infinity", "True", "1", "TRUE", "1.0", "1.5", "1,5"]
        return random.sample(pool, size)
    pool = [*MISSING, "", "NAN", "N.A.", "nil", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10"]
    return random.sample([one for one in pool if one], size)


def _names(size: int, random: Random) -> list[str]:
    letters = "abcdefgäéßñ中"
    return ["".join(random.choices(letters, k=4)) + str(place) for place in range(size)]


def _numbers(kind: str, size: int, random: Random) -> np.ndarray:
    if kind == QUARTERS:
        return np.array([random.randint(-63, 63) / 4 for _ in range(size)])
    if kind == "decimals":
        return np.array([round(random.gauss(0, 30), 3) for _ in range(size)])
    if kind == "whole":
        return np.array([float(random.randint(0, 90_000)) for _ in range(size)])
    if kind == "tiny":
        return np.array([random.random() * 1e-7 for _ in range(size)])
    return np.array([float(random.random() < 0.5) for _ in range(size)])


def spelled(name: str) -> set[str]:
    """Return the texts that may stand for an id or a class: as it was made, as a float, without leading zeros."""
    plain = {name, name.lstrip("0") or "0"} if name.isascii() and name.isdigit() else {name}
    return plain | {f"{one}.0" for one in plain if one.isdigit()}


def known_as(found: Sequence[str], made: Sequence[str]) -> list[int] | None:
    """Return the place in `made` of each text; None where they are not one to one."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(made):
        for text in spelled(name):
            places.setdefault(text, []).append(place)
    matched = []
    for text in found:
        there = places.get(text, [])
        exact = [place for place in there if made[place] == text]
        if len(exact or there) != 1:
            return None
        matched.append((exact or there)[0])
    return matched if sorted(matched) == list(range(len(made))) else None


def difference(own: OwnGraph, made: Made, classes: Sequence[str] | None = None) -> str:
    """Return in a few words what another graph was read; "" for the same one."""
    order = known_as(own.ids, made.ids)
    if order is None:
        return f"ids: {sorted(own.ids)[:4]} of {len(own.ids)}, not {sorted(made.ids)[:4]} of {len(made.ids)}"
    if own.directed != made.directed:
        return f"directed: {own.directed}"
    graph = own.graph()
    rows = np.repeat(np.arange(len(order)), np.diff(graph.out_ptr)).tolist()
    arcs = {(order[u], order[v]) for u, v in zip(rows, graph.out_idx.tolist())}
    if arcs != made.arcs:
        return f"edges: {len(arcs - made.arcs)} more, {len(made.arcs - arcs)} less of {len(made.arcs)}"
    named = sorted({one for one in made.labels if one is not None}) if classes is None else list(classes)
    places = known_as(own.classes, named)
    if places is None:
        return f"classes: {own.classes}, not {named}"
    labels = [None if one < 0 else named[places[one]] for one in own.labels.tolist()]
    expected = [made.labels[place] for place in order]
    if labels != expected:
        return f"labels: {labels[:6]}, not {expected[:6]}"
    if (own.features is None) != (not made.columns):
        return f"features: {own.names if own.features is not None else None}, not {made.columns or None}"
    if own.features is not None:
        if own.columns and sorted(own.columns) != sorted(made.columns):
            return f"columns: {own.columns}, not {made.columns}"
        taken = [made.columns.index(name) for name in own.columns] if own.columns else slice(None)
        if not np.array_equal(own.features.astype(np.float32), made.features[order][:, taken].astype(np.float32)):
            return f"features: {own.features[:2].tolist()}, not {made.features[order][:2, taken].tolist()}"
    roles = None if own.split is None else [ROLES[one] for one in own.split.tolist()]
    given = None if made.split is None else [made.split[place] for place in order]
    return "" if roles == given else f"split: {roles and roles[:6]}, not {given and given[:6]}"
