"""OGB's node-property data sets as gzipped CSV without header (Hu et al., 2020): ogbn-arxiv, -products, -mag.

The package ogb is the oracle of this reader (tests/data/test_against_ogb.py), not its means: it imports torch, asks
the network for a newer version of itself at every import, asks on the terminal where a folder is of another release,
and its cache cannot be loaded by a current torch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dpgraph.data.classes import frequent_classes
from dpgraph.data.raw_graph import RawGraph, split_array
from dpgraph.data.readers import malformed, reading


def read(
    raw_dir: Path,
    split: str,
    directed: bool,
    relation: str | None = None,
    node_type: str | None = None,
    with_features: bool = True,
    least_in_class: int | None = None,
) -> RawGraph:
    """Graph, labels and split; `relation` and `node_type` choose a part of a heterogeneous data set, `least_in_class`
    the classes with as many nodes (GAP's task).

    `with_features=False` reads everything else, for statistics of the graph where the features are not at hand.
    """
    raw = raw_dir / "raw"
    relation_dir = raw / "relations" / relation if relation else raw
    kind = node_type or ""
    edges = _csv(relation_dir / "edge.csv.gz", pa.int32())
    if edges.shape[1] != 2:
        raise malformed(relation_dir / "edge.csv.gz", ValueError(f"{edges.shape[1]} columns instead of 2"))
    labels = _column(raw / ("node-label" if kind else "") / kind / "node-label.csv.gz", pa.float64())
    features = None
    if with_features:
        features = _csv(raw / ("node-feat" if kind else "") / kind / "node-feat.csv.gz", pa.float32())
    parts = [
        _column(raw_dir / "split" / split / kind / f"{part}.csv.gz", pa.int64()) for part in ("train", "valid", "test")
    ]
    try:
        official = split_array(len(labels), *parts)
    except ValueError as error:
        raise malformed(raw_dir / "split" / split, error) from None
    classes = np.where(np.isnan(labels), -1, labels)
    graph = RawGraph(edges[:, 0], edges[:, 1], features, classes, official, directed)
    return graph if least_in_class is None else frequent_classes(graph, least_in_class)


def _column(path: Path, kind: pa.DataType) -> np.ndarray:
    """(rows,) of a file of one column."""
    table = _csv(path, kind)
    if table.shape[1] != 1:
        raise malformed(path, ValueError(f"{table.shape[1]} columns instead of 1"))
    return table[:, 0]


def _csv(path: Path, kind: pa.DataType) -> np.ndarray:
    """(rows, columns) of type `kind`; the number of columns comes from the first line."""
    with reading(path):
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(autogenerate_column_names=True),
        ) as reader:
            columns = reader.schema.names
        table = pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(autogenerate_column_names=True, block_size=1 << 24),
            convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, kind)),
        )
        array = np.empty((table.num_rows, len(columns)), dtype=kind.to_pandas_dtype())
        for index, column in enumerate(table.columns):
            if pa.types.is_integer(kind) and column.null_count:
                raise ValueError(f"no number in {column.null_count} rows of column {index + 1}")
            array[:, index] = column.to_numpy()
        return array
