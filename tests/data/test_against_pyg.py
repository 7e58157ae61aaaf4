"""Our readers of Planetoid's, Amazon's and Coauthor's files against those of PyTorch Geometric, node by node.

Ours stay: they read mirrors whose hashes are compared, and run nothing that a pickle asks for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.datasets import Amazon, Coauthor, Planetoid

from dpgraph.data.adjacency import owners
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import npz, planetoid, read
from dpgraph.data.records import SPLIT_NAMES
from dpgraph.data.registry import entry
from tests.data.test_readers import legacy_pickle, planetoid_files


def check_same(ours: RawGraph, kind: type, root: Path, name: str) -> None:
    """Compare with what PyTorch Geometric makes of root/name/raw; it may fetch nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "download", lambda self: pytest.fail(f"{name}: {self.raw_paths} are not all there"))
        data = kind(str(root), name)[0]
    features = ours.features
    if kind is not Planetoid:  # it cuts counts to 0 and 1
        features = sp.csr_matrix(features > 0, dtype=np.float32)
    assert features.shape == tuple(data.x.shape)
    assert (features != sp.csr_matrix(data.x.numpy())).nnz == 0
    assert np.array_equal(ours.labels, data.y.numpy())
    ptr, idx = ours.symmetric
    edges = data.edge_index.numpy()
    assert np.array_equal(np.stack([owners(ptr), idx]), edges[:, np.lexsort(edges[::-1])])
    if kind is Planetoid:
        for part, code in SPLIT_NAMES.items():
            assert np.array_equal(ours.split == code, data[f"{part}_mask"].numpy()), part


def test_generated_files_of_planetoid(tmp_path):
    raw = tmp_path / "citeseer/raw"
    raw.mkdir(parents=True)
    planetoid_files(raw)
    for path in raw.iterdir():
        path.rename(raw / path.name.replace("toy", "citeseer"))
    lists = {0: [1, 503, 0], 1: [0], 503: [0], 505: [501, 501], 501: [505]}  # it adds no direction that is not there
    (raw / "ind.citeseer.graph").write_bytes(legacy_pickle(defaultdict(list, lists)))
    ours = planetoid.read(raw, "citeseer")
    assert ours.meta["isolated_test_nodes"] == 2
    check_same(ours, Planetoid, tmp_path, "citeseer")


def test_generated_files_of_amazon(tmp_path):
    raw = tmp_path / "Photo/raw"
    raw.mkdir(parents=True)
    arrays = {"labels": np.array([2, 0, 1, 1])}
    for prefix, dense in (
        ("adj", [[1, 1, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0], [0] * 4]),
        ("attr", np.arange(12).reshape(4, 3)),
    ):
        matrix = sp.csr_matrix(np.asarray(dense, dtype=np.float32))
        arrays |= {
            f"{prefix}_{part}": np.asarray(getattr(matrix, part)) for part in ("data", "indices", "indptr", "shape")
        }
    np.savez(raw / "amazon_electronics_photo.npz", **arrays)
    ours = npz.read(raw, "amazon_electronics_photo.npz", directed=True)
    check_same(ours, Amazon, tmp_path, "Photo")


@pytest.mark.real_data
@pytest.mark.parametrize(("dataset", "kind", "name"), [
    ("cora", Planetoid, "Cora"), ("citeseer", Planetoid, "CiteSeer"), ("pubmed", Planetoid, "PubMed"),
    ("amazon-photo", Amazon, "Photo"), ("amazon-computers", Amazon, "Computers"),
    pytest.param("coauthor-cs", Coauthor, "CS", marks=pytest.mark.slow),
])  # fmt: skip
def test_the_mirror_s_files(dataset, kind, name, tmp_path):
    places = [mirror / kind.__name__.lower() / name / "raw" for mirror in mirrors_from([], os.environ)]
    raw = next((place for place in places if place.is_dir()), None)
    if raw is None:
        pytest.skip(f"no mirror in DPGRAPH_MIRROR holds {name}")
    (tmp_path / name).mkdir()
    (tmp_path / name / "raw").symlink_to(raw)
    check_same(read(entry(dataset), raw), kind, tmp_path, name)
