"""The readers of `fit` and `predict` on files as other tools write them: the equal graph, or one line that refuses.

Whoever reads another graph than was written, or ends in a traceback, fails. What is ordinary is never refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from dpgraph.cli.graph_options import GraphOptions
from dpgraph.own_graph.graph import OwnGraph, what_was_read
from dpgraph.own_graph.model import Header
from dpgraph.own_graph.new_nodes import NewNodes, read_new_nodes
from dpgraph.own_graph.objects import own_graph
from tests.fuzz.file_shapes import COUNTED, OPTIONS, ORDINARY_EDGES, ORDINARY_NODES, OTHER_EDGES, OTHER_NODES, USUAL
from tests.fuzz.harness import SEED, SHARE, told
from tests.fuzz.made import CLASSES, QUARTERS, WHOLE_CLASSES, Made, difference, known_as, make
from tests.fuzz.object_shapes import ORDINARY_OBJECTS, OTHER_OBJECTS, matrix

EDGES, NODES = {**ORDINARY_EDGES, **OTHER_EDGES}, {**ORDINARY_NODES, **OTHER_NODES}
OBJECTS = {**ORDINARY_OBJECTS, **OTHER_OBJECTS}
NEW = (USUAL, "pandas to_csv()", "tabs", "Parquet", "R write.csv")  # shapes of tables of new nodes
ENOUGH = 2_000
CASES = 16  # of each shape; one of these with `make test`
MORE = 4  # times as many of those that draw a shape
ANY_OTHER = "any other shape"
IDS = (
    "shuffled",
    "ints",
    "count",
    "names",
    "long",
    "zeros",
    "spaced",
    "quoted",
    "hashes",
    "punctuated",
    "columns",
    "confusable",
    "missing",
)
ALWAYS_READ = {  # though nobody calls them ordinary
    *(name for name in OTHER_NODES if name.startswith("labels missing")),
    *("KONECT, weights and times", "KONECT, weights, tabs", "unknown names, weights behind", "pipes", "several spaces"),
    *(
        "spaces behind separators",
        "separators at ends of lines",
        "blank lines",
        "sep= of a spreadsheet",
        "ids as floats",
    ),
    *("a comment with commas, no header", "a comment and a header", "a comment in the middle", "Gephi, semicolons"),
    *("Neo4j", "Cytoscape SIF", "one edge", "one edge, no header", "ends of lines of old", "Parquet with an index"),
    *("gzip under the name of a CSV file", "Parquet under the name of a CSV file", "0 and 0.0", "spaces around labels"),
    *("truth values as features", "an index, Unnamed: 0", "an empty column", "parts in capitals", "a comment"),
    *("Parquet of short floats", *(name for name in OTHER_OBJECTS if "mask" in name or "x as" in name)),
    *("PyTorch Geometric, adj_t", "NetworkX, an attribute of each feature", "NetworkX, GraphML", "SciPy of NetworkX"),
}
NEVER_READ = {  # for whoever reads them leaves something out
    *("an id that no node has", "an id that is missing", "a header in the middle", "a name twice", "a workbook"),
    *("a row twice", "a number that is missing", "a short row"),
}


def alike(kind: dict[str, Any], *names: str) -> dict[str, dict[str, Any]]:
    return {name: kind for name in names}


TWO: dict[str, Any] = {"columns": 2, "split": False}
KINDS: dict[str, dict[str, Any]] = {  # of graphs that have what the shape is about
    **alike({"ids": ["count", "ints", "names"]}, *(name for name in OTHER_EDGES if "no header" in name)),
    "ids that begin like comments, no header": {"ids": ["hashes"]},
    **alike({"ids": ["count", "ints"]}, "ids as floats", "numbers as names, with an index"),
    "numbers as names": {"ids": ["ints"]},  # where nodes 0 and 1 exist, the names are an edge for all that is known
    "ids of 17 digits as floats": {"ids": ["long"]},
    "ids without their zeros": {"ids": ["zeros"]},
    "Parquet of floats": {"ids": ["count", "ints", "long"]},
    "a comment, numbers of edges first, no header": {"ids": ["shuffled"], "few": True},
    "numbers of edges first, no header": {"ids": ["shuffled"], "few": True},
    "no edges, hashtags and nothing else": {"ids": ["hashes"], "columns": 0, "split": False, "missing": 0.5},
    "two columns of ids": {"ids": ["shuffled"]},
    "SciPy of NetworkX": {"ids": ["count"]},
    "classes by option": {"classes": [("EU", "NA")]},
    "Latin-1": {"classes": CLASSES[:6]},
    "Parquet of truth values": {"classes": [("False", "True")]},
    **alike({"classes": WHOLE_CLASSES}, "0 and 0.0", "labels missing as -1", "labels missing as -1.0"),
    **alike({"split": True}, *(name for name in NODES if name.startswith(("masks", "part", "a part")))),
    "decimal commas": {**TWO, "numbers": ["decimals", "whole"]},
    "truth values as features": {"columns": 2, "numbers": ["yes and no"]},
    **alike({"size": 12}, *(f"an index, {name}" for name in COUNTED)),  # among fewer rows 1, 2, 3 may be chance
    **alike({"columns": 3, "split": False}, "Parquet with a column of lists", "a list in each cell"),
    **alike(
        TWO,
        "a number that is missing",
        "LINQS: no header, tabs, the label last",
        "NetworkX, an attribute of each feature",
    ),
    **alike({**TWO, "numbers": [QUARTERS]}, "Parquet of short floats", *(name for name in OBJECTS if "x as" in name)),
}


def made_for(name: str, random: Random) -> Made:
    """Return a graph that has what the shape is about."""
    kind: dict[str, Any] = {"missing": 0.3} if name.startswith("labels missing") else {}
    if name in OBJECTS:
        kind = {"split": "mask" in name or (name.endswith(("SciPy", "arrays", "split")) and random.random() < 0.5)}
        if not name.startswith("NetworkX"):
            kind |= {"ids": ["count"], "classes": WHOLE_CLASSES}
    made = make(random, **{**kind, **KINDS.get(name, {})})
    if name.startswith(("no edges", "one edge")):
        made = replace(made, edges=made.edges[: name.startswith("one")])
    if name.endswith("igraph"):
        made = replace(made, ids=tuple(f"n{place}" for place in range(len(made.ids))))
    if name.endswith(("one mask", "two masks")):  # who is outside the training mask is held out
        made = replace(made, split=tuple("train" if one == "train" else "test" for one in made.split or ()))
    return made


def outcome(reading: Callable[[], Any], different: Callable[[Any], str]) -> str:
    """Return "equal", the line that refuses, or what is different."""
    found: list[Any] = []
    line = told(lambda: found.append(reading()))
    return f"refused: {line}" if line is not None else different(found[0]) or "equal"


def wrong(own: OwnGraph, made: Made, classes: list[str] | None = None) -> str:
    """Return what differs, in the graph or in what is said of it."""
    said = what_was_read(own)
    if (
        len(said) > 5
        or not all(line.isprintable() for line in said)
        or f"{len(made.ids)} nodes; " not in " ".join(said)
    ):
        return f"said: {said}"
    return difference(own, made, classes)


def read(made: Made, random: Random, folder: Path, edges: str = USUAL, nodes: str = USUAL) -> str:
    """Write both files in shapes of these names, and read them."""
    tables = (EDGES[edges], made.ends(), folder / "edges.csv"), (NODES[nodes], made.rows(), folder / "nodes.csv")
    paths = [write(table, path, random) or path for write, table, path in tables]
    options = OPTIONS.get(nodes, {})
    given = GraphOptions(edges=paths[0], nodes=paths[1], directed=made.directed, **options)
    classes = options["classes"].split(",") if "classes" in options else None
    if not options and random.random() < 0.3:  # in Python
        return outcome(lambda: own_graph(tuple(paths), directed=made.directed), lambda own: wrong(own, made))
    return outcome(given.read, lambda own: wrong(own, made, classes))


def of_edges(name: str, random: Random, folder: Path) -> str:
    return read(made_for(name, random), random, folder, edges=name)


def of_nodes(name: str, random: Random, folder: Path) -> str:
    return read(made_for(name, random), random, folder, nodes=name)


def of_objects(name: str, random: Random, folder: Path) -> str:
    made = made_for(name, random)
    data, given = OBJECTS[name](made, random)
    return outcome(lambda: own_graph(data, **given), lambda own: wrong(own, made))


def of_archives(name: str, random: Random, folder: Path) -> str:
    made = make(random, ["count"], WHOLE_CLASSES, [QUARTERS])
    path = folder / "graph.npz"
    ARCHIVES[name](path, made, random)
    return outcome(GraphOptions(graph=path).read, lambda own: wrong(own, made))


def of_new_nodes(name: str, random: Random, folder: Path) -> str:
    """Read new nodes and lists; each edge joins a new node and an old one, which the header of a model has."""
    name = random.choice([one for one in OTHER_EDGES if one not in NEVER_READ]) if name == ANY_OTHER else name
    made = made_for(name, random)
    size = len(made.ids)
    old = set(random.sample(range(size), random.randint(2, size - 2)))
    joined = [(u, v) for u, v in (*made.edges, *[(n, random.choice(sorted(old))) for n in range(size)])
              if (v in old and u not in old) or (not made.directed and u in old and v not in old)]  # fmt: skip
    made = replace(made, edges=tuple(joined))
    new = [place for place in range(size) if place not in old]
    known = [made.ids[place] for place in sorted(old)]
    again = random.random() < 0.1  # an id that an old node has
    header = Header(
        format=2, kind="own", ids=(*known, *made.ids[new[0] : new[0] + again]), classes=("k", "l"),
        columns=made.columns, num_features=len(made.columns) or 16, degree_features=not made.columns,
        directed=made.directed, mass=1, std=0, secret=True, sha256="", shrinkage=0, strength=0,
    )  # fmt: skip
    table = made.rows().iloc[new].reset_index(drop=True).drop(columns="split", errors="ignore")
    nodes = ORDINARY_NODES[random.choice(NEW)](table, folder / "nodes.csv", random) or folder / "nodes.csv"
    edges = EDGES[name](made.ends(), folder / "edges.csv", random) or folder / "edges.csv"

    def different(found: NewNodes) -> str:
        order = known_as(found.ids, [made.ids[place] for place in new])
        if again or order is None:
            return f"ids: {found.ids}" + " of an old node" * again
        there = [new[place] for place in order]
        lists = [{made.ids[u + v - here] for u, v in made.edges if here in (u, v)} for here in there]
        if [set(one) for one in found.lists or []] != lists:
            return f"lists: {found.lists}, not {lists}"
        rows = made.features[there]
        same = np.array_equal(found.features, rows) if made.columns else found.features is None
        return "" if same else f"features: {found.features}"

    result = outcome(lambda: read_new_nodes(header, nodes, edges), different)
    return "equal" if again and result.startswith("refused") else result


def mixed(name: str, random: Random, folder: Path) -> str:
    """Any shape of edges with any shape of nodes, and ids that are hard to tell from numbers or missing values."""
    edges, nodes = [
        random.choice([one for one in random.choice(shapes) if one not in KINDS])
        for shapes in ((ORDINARY_EDGES, OTHER_EDGES), (ORDINARY_NODES, OTHER_NODES))
    ]
    return read(make(random, [name]), random, folder, edges, nodes)


def _archive(
    path: Path,
    made: Made,
    random: Random,
    save: Any = np.savez,
    masks: bool = False,
    parts: bool = False,
    **changed: Any,
) -> None:
    arrays = dict(zip(("edge_index", "y", "x"), made.numbered()), directed=np.array(made.directed))
    if made.split and masks:
        arrays |= {f"{part}_mask": np.array([one == part for one in made.split]) for part in ("train", "val", "test")}
    elif made.split:
        arrays["split"] = np.array(made.split)
    if not made.columns:
        del arrays["x"]
    if parts:
        held = matrix(made, "csr_matrix")
        arrays |= {f"adj_{part}": np.asarray(getattr(held, part)) for part in ("data", "indices", "indptr", "shape")}
        del arrays["edge_index"]
    save(path, **arrays | {name: change(arrays[name]) for name, change in changed.items() if name in arrays})


ARCHIVES: dict[str, Callable[[Path, Made, Random], None]] = {
    "np.savez": _archive,
    "np.savez_compressed": lambda path, made, random: _archive(path, made, random, np.savez_compressed),
    "half precision, short integers": lambda path, made, random: _archive(
        path,
        made,
        random,
        x=lambda x: x.astype(np.float16),
        y=lambda y: y.astype(np.int8),
        edge_index=lambda e: e.astype(np.int32),
    ),
    "labels as texts": lambda path, made, random: _archive(
        path, made, random, y=lambda y: np.array(["" if one < 0 else str(one) for one in y])
    ),
    "masks": lambda path, made, random: _archive(path, made, random, masks=True),
    "the adjacency matrix in parts": lambda path, made, random: _archive(path, made, random, parts=True),
    "labels as floats": lambda path, made, random: _archive(path, made, random, y=lambda y: np.where(y < 0, np.nan, y)),
}
USES = (
    (of_edges, ORDINARY_EDGES, OTHER_EDGES),
    (of_nodes, ORDINARY_NODES, OTHER_NODES),
    (of_objects, ORDINARY_OBJECTS, OTHER_OBJECTS),
    (of_archives, ARCHIVES, {}),
    (of_new_nodes, ORDINARY_EDGES, {ANY_OTHER: None}),
    (mixed, {}, dict.fromkeys(IDS)),
)
SHAPES = [(use, name, name in ordinary) for use, ordinary, other in USES for name in (*ordinary, *other)]


def cases_of(use: Any, name: str) -> int:
    return CASES * (MORE if use is mixed or name == ANY_OTHER else 1)


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch calls its sparse tensors new
@pytest.mark.parametrize(("use", "name", "ordinary"), SHAPES, ids=[f"{use.__name__} {name}" for use, name, _ in SHAPES])
def test_a_shape_is_read_as_it_was_written_or_refused_in_one_line(use, name, ordinary, tmp_path):
    cases = cases_of(use, name) if SHARE == 1 else 1
    outcomes = [use(name, Random(f"{SEED} {use.__name__} {name} {case}"), tmp_path) for case in range(cases)]
    other = [one for one in outcomes if one != "equal" and not one.startswith("refused: ")]
    assert not other, f"{len(other)} of {cases}: {other[0]}"
    refused = [one for one in outcomes if one != "equal"]
    if name in NEVER_READ:
        assert len(refused) == cases, f"{cases - len(refused)} of {cases} are read"
    elif ordinary or name in ALWAYS_READ:
        assert not refused, f"{len(refused)} of {cases} {refused[0]}"


def test_there_are_two_thousand_cases_and_most_shapes_are_read():
    assert sum(cases_of(use, name) for use, name, _ in SHAPES) >= ENOUGH
    assert {name for _, name, _ in SHAPES} >= {*KINDS, *OPTIONS, *ALWAYS_READ, *NEVER_READ}
    assert sum(ordinary or name in ALWAYS_READ for _, name, ordinary in SHAPES) > len(SHAPES) / 2
