import hashlib

import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import statistics
from dpgraph.data.readers import read, sbm
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.registry import entry
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.problems.node_classification.prepare import build, verify


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    raw = read(entry("demo-sbm"), tmp_path_factory.mktemp("raw"))
    verify("demo-sbm", entry("demo-sbm"), raw)
    return build(Task(dataset="demo-sbm"), entry("demo-sbm"), raw)


def test_statistics_follow_ogbn_arxiv(demo):
    found = statistics(demo)
    assert found["mean_degree"] == pytest.approx(13.7, abs=0.05)
    assert found["homophily"] == pytest.approx(0.65, abs=0.03)
    assert found["split_fractions"] == {"train": 0.54, "val": 0.18, "test": 0.28}
    degrees = np.diff(demo.out_ptr)
    assert np.median(degrees) < 0.75 * degrees.mean()  # skewed, as a power law is
    assert degrees.max() > 10 * degrees.mean()
    shares = np.bincount(demo.labels) / demo.num_nodes
    assert shares[0] > 3 * shares[-1]


def test_neighbours_help_a_linear_classifier_a_lot(demo):
    from sklearn.linear_model import LogisticRegression

    ones = np.ones(demo.num_edges, dtype=np.float32)
    adjacency = sp.csr_matrix((ones, demo.out_idx, demo.out_ptr), shape=(demo.num_nodes,) * 2)
    mean = sp.diags(1 / np.maximum(np.diff(demo.out_ptr), 1)) @ (adjacency @ demo.features)
    train, test = demo.split == TRAIN, demo.split == TEST

    def accuracy(inputs):
        model = LogisticRegression(C=0.1, max_iter=300).fit(inputs[train], demo.labels[train])
        return model.score(inputs[test], demo.labels[test])

    alone, joined = accuracy(demo.features), accuracy(np.hstack([demo.features, mean]))
    assert 0.45 < alone < 0.6
    assert 0.68 < joined < 0.82
    assert joined > alone + 0.12


def test_the_same_names_give_the_same_graph_and_others_another():
    model = BlockModel(name="toy", nodes=300, classes=4, features=5)
    first, again = generate(model), generate(model)
    other = generate(model.model_copy(update={"name": "toy2"}))
    for name in ("source", "target", "features", "labels", "split"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))


def test_latent_homophily_without_noise_is_the_share_of_edges_within_classes():
    options = {"name": "toy", "nodes": 4000, "classes": 4, "features": 1, "label_noise": 0.0, "class_skew": 0.0}
    raw = generate(BlockModel(**options, latent_homophily=0.6))
    assert (raw.labels[raw.source] == raw.labels[raw.target]).mean() == pytest.approx(0.6 + 0.4 / 4, abs=0.02)


def test_edges_are_distinct_and_exactly_as_many_as_asked():
    raw = generate(BlockModel(name="toy", nodes=1000, classes=3, features=1, mean_degree=8.0))
    assert (raw.source < raw.target).all()
    assert len(set(zip(raw.source.tolist(), raw.target.tolist()))) == 4000


def test_the_demonstration_has_the_edges_that_it_always_had(demo):
    edges = hashlib.sha256(demo.out_ptr.tobytes() + demo.out_idx.tobytes()).hexdigest()
    assert edges[:16] == "85cecdfda0eb6923"


def test_wrong_parameters_are_named(tmp_path):
    with pytest.raises(
        UserError, match=r"^options of reader sbm, classes: Input should be greater than or equal to 2$"
    ):
        sbm.read(tmp_path, name="toy", nodes=100, classes=1, features=3)


def test_bags_of_words_have_so_many_words_and_differ_by_class():
    model = BlockModel(name="words", nodes=3000, classes=3, features=400, words=20, word_signal=1.0, label_noise=0)
    raw = generate(model)
    assert set(np.unique(raw.features)) == {0, 1}
    drawn = -np.log1p(-raw.features[raw.labels == 0].mean(axis=0)).sum()  # of Poisson many, before twice counts once
    assert drawn == pytest.approx(20, rel=0.05)
    means = np.stack([raw.features[raw.labels == label].mean(axis=0) for label in range(3)])
    assert np.corrcoef(means)[0, 1] < 0.7
    assert means[:, :100].sum() > means[:, 300:].sum()  # frequent words first
