"""OGB's node-property data sets (Hu et al., 2020), read by the package ogb: ogbn-arxiv, -products, -mag.

`ogb.io.read_graph_raw` reads the graph; labels and splits are read as ogb's data set classes do. These are not used: a
current torch refuses the cache that they write, and they ask on the terminal about folders of another release.
Reading CSV files of the size of ogbn-products peaks at 6.5 GiB.
"""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.core.loading import ogb_module
from dpgraph.data.raw_graph import RawGraph, frequent_classes, split_array
from dpgraph.data.readers import DAMAGE, existing, malformed, reading

EDGES, EDGE_COUNT, NODE_COUNT, FEATURES = (
    f"{name}.csv.gz" for name in ("edge", "num-edge-list", "num-node-list", "node-feat")
)


def read(
    raw_dir: Path,
    split: str,
    directed: bool,
    relation: str | None = None,
    node_type: str | None = None,
    with_features: bool = True,
    least_in_class: int | None = None,
) -> RawGraph:
    """Return graph, labels and split of a folder as OGB's archives unpack: of CSV files, or of raw/data.npz.

    `relation` and `node_type` choose a part of a heterogeneous data set, `least_in_class` the classes with as many
    nodes (GAP's task). `with_features=False` reads everything else, where the features are not at hand.
    """
    raw, kind = raw_dir / "raw", node_type or ""
    if (raw / "data.npz").is_file():
        graph = _one_graph("read_binary_graph_raw", {"data.npz": raw / "data.npz"})
        with reading(path := raw / "node-label.npz"), np.load(path, allow_pickle=False) as arrays:
            labels = arrays["node_label"].reshape(-1)
    else:
        graph = _csv_graph(raw, relation, kind, with_features)
        labels = _column(path := raw / ("node-label" if kind else "") / kind / "node-label.csv.gz", "float64")
    if graph["num_nodes"] != len(labels):
        raise malformed(path, ValueError(f"{len(labels)} labels for {graph['num_nodes']} nodes"))
    folder = raw_dir / "split" / split / kind
    parts = [_column(folder / f"{part}.csv.gz", "int64") for part in ("train", "valid", "test")]
    try:
        official = split_array(len(labels), *parts)
    except ValueError as error:
        raise malformed(folder, error) from None
    source, target = graph["edge_index"]
    features = graph["node_feat"] if with_features else None
    if features is not None:
        features = features.astype(np.float32, copy=False)
    found = RawGraph(source, target, features, np.where(np.isnan(labels), -1, labels), official, directed)
    return found if least_in_class is None else frequent_classes(found, least_in_class)


def _csv_graph(raw: Path, relation: str | None, kind: str, with_features: bool) -> dict[str, Any]:
    """Return what ogb reads of one relation and one type of nodes."""
    edges = raw / "relations" / relation if relation else raw
    files = {name: edges / name for name in (EDGES, EDGE_COUNT)}
    if with_features:
        files[FEATURES] = raw / ("node-feat" if kind else "") / kind / FEATURES
    nodes = None
    if kind:
        nodes = _column(raw / "num-node-dict.csv.gz", "int64", kind)
    else:
        files[NODE_COUNT] = raw / NODE_COUNT
    graph = _one_graph("read_csv_graph_raw", files, nodes)
    (columns, count), expected = graph["edge_index"].shape, _column(files[EDGE_COUNT], "int64").sum()
    if columns != 2:
        raise malformed(files[EDGES], ValueError(f"{columns} columns instead of 2"))
    if count != expected:
        raise malformed(files[EDGES], ValueError(f"{count} edges instead of {expected}"))
    return graph


def _one_graph(reader: str, files: Mapping[str, Path], nodes: np.ndarray | None = None) -> dict[str, Any]:
    """Return what a reader of ogb makes of these files, which it sees in a folder of their own.

    `nodes` takes the place of the file that states their number. Raises UserError for the file that ogb cannot read.
    """
    with TemporaryDirectory() as place:
        for name, path in files.items():
            Path(place, name).symlink_to(existing(path).absolute())
        if nodes is not None:
            Path(place, NODE_COUNT).write_bytes(gzip.compress(f"{nodes[0]}\n".encode()))
        talk = io.StringIO()  # of ogb, and its bar
        try:
            with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk), np.errstate(invalid="raise"):
                graphs = getattr(ogb_module("io/read_graph_raw.py"), reader)(place)
        except DAMAGE as error:
            for path in files.values():
                _check_numbers(path)
            raise malformed(next(iter(files.values())), error) from None
    if len(graphs) != 1:
        raise malformed([*files.values()][-1], ValueError(f"{len(graphs)} graphs instead of 1"))
    return graphs[0]  # type: ignore[no-any-return]


def _check_numbers(path: Path) -> None:
    """Raise UserError for a file that holds no numbers; which file it was, ogb does not say."""
    with reading(path):
        if path.suffix == ".gz":
            pd.read_csv(path, header=None).to_numpy(np.float64)


def _column(path: Path, kind: str, name: str | None = None) -> np.ndarray:
    """Return (rows,) of a file of one column without a header, or of the column `name`."""
    with reading(path):
        table = pd.read_csv(path, header=None if name is None else 0, dtype=kind)
        if name is None and table.shape[1] != 1:
            raise ValueError(f"{table.shape[1]} columns instead of 1")
        return table[0 if name is None else name].to_numpy()
