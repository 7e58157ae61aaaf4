import re
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph import data
from dpgraph.config.cell import Task
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.adjacency import owners
from dpgraph.data.fetch import fetch
from dpgraph.data.manifest import FetchedFile, Manifest, write_manifest
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import read
from dpgraph.data.records import DATA_DEPENDENT, data_dependent
from dpgraph.data.registry import Expected, Licence, entry, registry
from dpgraph.data.store import GraphHeader, load_graph
from dpgraph.data.stored import read_header
from dpgraph.problems import preprocess as preprocess_module
from dpgraph.problems.node_classification.prepare import build, verify
from dpgraph.problems.preprocess import packages_parameter, preprocess
from tests.data.offline import fetch_offline


@pytest.fixture(scope="module")
def demo_raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    assert fetch("demo-sbm", folder).status == "ok"
    return folder


@pytest.mark.parametrize(
    ("task", "features"),
    [
        (Task(dataset="demo-sbm"), 32),
        (Task(dataset="demo-sbm", setting="disjoint", features="l2"), 32),
        (Task(dataset="demo-sbm", split="random-60-10-30", features="project-8"), 8),
        (Task(dataset="demo-sbm", setting="clustered", split="ratio-67-18-15"), 32),
    ],
)
def test_demo_end_to_end(demo_raw, tmp_path, task, features):
    out = tmp_path / task.folder
    preprocess(task, demo_raw, out)
    graph = load_graph(out)
    assert graph.num_features == features
    assert graph.meta["task"] == task.model_dump(mode="json")
    assert graph.meta["undirected"] is True
    assert ("split_variant" in graph.meta) == (task.setting == "clustered")
    clusters = ("the split: clusters of the features and edges of all nodes",)
    assert data_dependent(graph) == (clusters if task.setting == "clustered" else ())
    assert graph.meta["upstream"] == []
    if task.setting != "transductive":
        assert (graph.split[owners(graph.out_ptr)] == graph.split[graph.out_idx]).all()
    else:
        assert graph.num_edges == 54800
    first = (out / "out_idx.npy").read_bytes() + (out / "features.npy").read_bytes() + (out / "split.npy").read_bytes()
    preprocess(task, demo_raw, out)
    assert first == b"".join((out / f"{name}.npy").read_bytes() for name in ("out_idx", "features", "split"))


def test_unavailable_data_give_an_unavailable_graph(tmp_path):
    (tmp_path / "mirror").mkdir()
    fetch_offline("cora", tmp_path / "raw", [tmp_path / "mirror"])
    preprocess(Task(dataset="cora"), tmp_path / "raw", tmp_path / "out")
    assert read_header(tmp_path / "out", GraphHeader).status == "unavailable"
    assert "ind.cora.x" in read_header(tmp_path / "out", GraphHeader).reason
    with pytest.raises(DataUnavailable, match=r"cora: data not available: ind\.cora\.x"):
        load_graph(tmp_path / "out")


def test_a_model_that_cannot_be_used_gives_an_unavailable_graph(demo_raw, tmp_path, monkeypatch):
    def read(known, raw_dir):
        raise DataUnavailable("bert: 3 weights of the model are missing")

    monkeypatch.setattr(preprocess_module, "read", read)
    preprocess(Task(dataset="demo-sbm"), demo_raw, tmp_path)
    with pytest.raises(DataUnavailable, match="demo-sbm: bert: 3 weights of the model are missing"):
        load_graph(tmp_path)


def test_without_a_download(tmp_path):
    with pytest.raises(UserError, match=r"manifest\.json: no such file; expected the manifest of a download"):
        preprocess(Task(dataset="cora"), tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"1234567"), "sha256=[0-9a-f]{64}: expected sha256 [0-9a-f]{64}"),
        (lambda path: path.write_bytes(b"123"), "truncated, 3 bytes: expected 7 bytes"),
        (lambda path: path.unlink(), "no such file; expected 7 bytes that were downloaded"),
    ],
)
def test_raw_files_that_changed_after_the_download(tmp_path, damage, message):
    manifest = Manifest(
        dataset="cora",
        status="ok",
        files=(FetchedFile(path="ind.cora.x", bytes=7, sha256=sha256(b"7654321").hexdigest(), source="mirror:x"),),
        licence=Licence(name="none"),
        citation="",
        time="",
    )
    write_manifest(manifest, tmp_path)
    (tmp_path / "ind.cora.x").write_bytes(b"7654321")
    damage(tmp_path / "ind.cora.x")
    with pytest.raises(UserError, match=rf"ind\.cora\.x: {message} \(delete .*manifest\.json and run again\)$"):
        preprocess(Task(dataset="cora"), tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_of_another_data_set(demo_raw, tmp_path):
    with pytest.raises(UserError, match="files of data set demo-sbm: expected cora"):
        preprocess(Task(dataset="cora"), demo_raw, tmp_path)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"nodes": 4}, "nodes=3: expected 4"),
        ({"entries": 6}, "entries=4: expected 6"),
        ({"mean_degree": 1.2}, r"mean_degree=1\.3: expected 1\.2"),
        ({"features": 3}, "features=2: expected 3"),
        ({"signed": True}, "signed=False: expected True"),
        ({"classes": 3}, "classes=2: expected 3"),
        ({"split": (1, 1, 0)}, r"split=\(1, 1, 1\): expected \(1, 1, 0\)"),
    ],
)
def test_statistics_that_differ_name_both_numbers(expected, message):
    raw = RawGraph(
        np.array([0, 1]),
        np.array([1, 2]),
        sp.csr_matrix((3, 2), dtype=np.float32),
        np.array([0, 1, -1]),
        np.array([0, 1, 2], dtype=np.uint8),
        directed=True,
    )
    known = entry("cora").model_copy(update={"expected": Expected(**expected)})
    with pytest.raises(UserError, match=f"^toy: {message} as in the registry"):
        verify("toy", known, raw)
    verify("toy", known.model_copy(update={"expected": Expected(nodes=3, mean_degree=1.3, classes=2)}), raw)


def test_texts_are_stored_beside_the_graph(demo_raw, tmp_path, monkeypatch):
    import pandas as pd

    genuine = preprocess_module.read

    def with_texts(known, folder):
        raw = genuine(known, folder)
        return RawGraph(**{**raw.__dict__, "texts": {"a": ["x"] * raw.num_nodes}})

    monkeypatch.setattr(preprocess_module, "read", with_texts)
    preprocess(Task(dataset="demo-sbm"), demo_raw, tmp_path)
    assert pd.read_parquet(tmp_path / "texts.parquet")["a"].tolist() == ["x"] * 4000


def test_what_reader_and_split_made_of_all_records_is_listed():
    """Together, in this order, and whatever else they say about the graph."""
    raw = RawGraph(
        np.array([0, 1, 2]), np.array([1, 2, 3]), np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1]),
        np.array([0, 0, 1, 2], dtype=np.uint8), False, meta={"words": 2}, data_dependent=("the vocabulary: counts",),
    )  # fmt: skip
    known = entry("pubmed")
    graph = build(Task(dataset="pubmed"), known, raw)
    assert data_dependent(graph) == ("the vocabulary: counts",)
    assert graph.meta["upstream"] == ["the features: TF-IDF weights over all papers, of words kept by their counts"]
    clustered = Task(dataset="pubmed", setting="clustered", split="ratio-50-25-25")
    both = data_dependent(build(clustered, known, raw))
    assert both == ("the vocabulary: counts", "the split: clusters of the features and edges of all nodes")


def test_what_no_epsilon_covers_is_short_and_says_of_what():
    """`name of the part: how it was made`, as reports print it."""
    folder = Path(data.__file__).parent
    found = [
        text
        for path in folder.rglob("*.py")
        for text in re.findall(r'"(the (?:nodes|split|vocabulary|edges|features): [^"]+)"', path.read_text())
    ]
    assert len(found) == 8
    upstream = [text for known in registry().values() for text in known.upstream]
    assert all(re.fullmatch(r"the (nodes|split|vocabulary|edges|features): [^\n]{10,100}", one) for one in upstream)
    assert DATA_DEPENDENT not in registry()


def test_whoever_learns_from_all_records_has_been_looked_at():
    """Of these only clusters, digits and pokec learn anything; a hasher, counts of one row, and images do not."""
    folder = Path(data.__file__).parent
    learns = re.compile(r"sklearn|StandardScaler|percentile|quantile|\.mean\(axis=0|\.std\(|svd|pca", re.IGNORECASE)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if learns.search(path.read_text())}
    assert found == {
        "clusters.py", "readers/digits.py", "readers/digit_images.py", "readers/pokec.py",
        "readers/pokec_extract.py", "readers/text_relations.py", "text/fasttext.py",
    }  # fmt: skip


def test_unavailable_data_are_tried_again_once_a_package_is_installed(demo_raw, tmp_path, monkeypatch):
    """What the rule of Snakemake is given changes only where it may help."""
    task, installed = Task(dataset="demo-sbm"), {"gensim": SimpleNamespace(origin="x")}
    monkeypatch.setattr(preprocess_module, "OPTIONAL", ("gensim", "transformers"))
    monkeypatch.setattr(preprocess_module.importlib.util, "find_spec", installed.get)
    before = packages_parameter(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr(preprocess_module, "read", lambda *_: (_ for _ in ()).throw(DataUnavailable("no encoder")))
        preprocess(task, demo_raw, tmp_path)
    assert packages_parameter(tmp_path) == before == "gensim"
    installed["transformers"] = SimpleNamespace(origin="x")
    assert packages_parameter(tmp_path) == "gensim, transformers"
    preprocess(task, demo_raw, tmp_path)
    installed.clear()
    assert packages_parameter(tmp_path) == "gensim, transformers"  # prepared data stay
    preprocess(task, demo_raw, tmp_path, "as the workflow found")  # on a node with other packages
    assert packages_parameter(tmp_path) == "as the workflow found"
    installed["gensim"] = SimpleNamespace(origin=None)  # an empty folder
    for text in ("{", "[]"):
        (tmp_path / "graph.json").write_text(text)
        assert packages_parameter(tmp_path) == ""


def test_classes_that_are_counted_over_all_labels_are_said_to_be(demo_raw):
    """The only node of the last class changes their number, and with it the shape of what is released."""
    raw, known, task = read(entry("demo-sbm"), demo_raw), entry("demo-sbm"), Task(dataset="demo-sbm")
    assert data_dependent(build(task, known, raw)) == ()
    unstated = known.model_copy(update={"expected": known.expected.model_copy(update={"classes": None})})
    found = build(task, unstated, raw)
    assert found.num_classes == known.expected.classes
    assert data_dependent(found) == ("the number of classes: counted over all labels",)
