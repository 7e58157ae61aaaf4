"""Files in OGB's own layout (Hu et al., 2020) at a data set's full size, generated: no number in them is OGB's.

As many nodes, edges, features, classes and split parts as the registry states, so that preprocessing takes the files as
if they were downloaded. Edges are those of a block model, features its class means and noise with two decimals.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.registry import entry
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.errors import invalid
from dpgraph.files import atomic_path
from dpgraph.randomness import numpy_generator

# undirected edges, citations: https://ogb.stanford.edu/docs/nodeprop/
EDGES = {"ogbn-products": 61_859_140, "ogbn-mag": 5_416_271}
PIECE = 1 << 16  # rows at a time
COMPRESSION = 1  # of gzip: a third of the time of its default, files a tenth larger


def write_files(dataset: str, folder: Path, nodes: int | None = None) -> list[Path]:
    """The files of `dataset` where a mirror at `folder` has them; those that are there are kept.

    `nodes`: fewer than the data set has, with as many edges for a node and parts in proportion. Linear in time, and in
    memory the graph once. Raises UserError for data sets without a size here.
    """
    if dataset not in EDGES:
        raise invalid("dataset", dataset, f"one of {', '.join(EDGES)}")
    known = entry(dataset)
    paths = [folder / str(file.sources[0].mirror) for file in known.files]
    if all(path.is_file() for path in paths):
        return paths
    expected = known.expected
    whole = expected.nodes or 0
    nodes = whole if nodes is None else nodes
    if not 1000 <= nodes <= whole:
        raise invalid("nodes", nodes, f"1000 to {whole}")
    graph = generate(
        BlockModel(
            name=f"files of {dataset}",
            nodes=nodes,
            classes=expected.classes or 0,
            features=expected.features or 0,
            mean_degree=2 * EDGES[dataset] / whole,
        )
    )
    for path, columns in zip(
        paths, _contents([path.name for path in paths], graph, _parts(dataset, nodes)), strict=True
    ):
        _write(path, columns)
    return paths


def _parts(dataset: str, nodes: int) -> dict[str, np.ndarray]:
    """Ids of each part, sizes in proportion to OGB's, drawn without regard to the graph."""
    expected = entry(dataset).expected
    sizes = np.asarray(expected.split, dtype=float)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * nodes).astype(np.int64)
    order = numpy_generator(f"files of {dataset}", "split").permutation(nodes)
    names = ("train", "valid", "test")
    return {f"{name}.csv.gz": np.sort(part) for name, part in zip(names, np.split(order, ends[:-1]), strict=True)}


def _contents(names: list[str], graph: RawGraph, parts: dict[str, np.ndarray]) -> Iterator[np.ndarray]:
    """(rows, columns) of each file."""
    for name in names:
        if name == "edge.csv.gz":
            yield np.column_stack([graph.source, graph.target]).astype(np.int32)
        elif name == "node-feat.csv.gz":
            yield np.asarray(graph.features)
        elif name == "node-label.csv.gz":
            yield graph.labels[:, None].astype(np.int32)
        else:
            yield parts[name][:, None].astype(np.int32)


def _write(path: Path, rows: np.ndarray) -> None:
    """CSV without header, written piece by piece."""
    names = [str(column) for column in range(rows.shape[1])]
    options = pa.csv.WriteOptions(include_header=False)
    with atomic_path(path) as temporary, gzip.GzipFile(temporary, "wb", COMPRESSION, mtime=0) as file:
        for start in range(0, len(rows), PIECE):
            piece = rows[start : start + PIECE]
            if np.issubdtype(piece.dtype, np.floating):
                piece = piece.round(2)
            pa.csv.write_csv(pa.table(list(piece.T.copy()), names=names), file, options)
