"""The choice of inference: what one record changes in its count, and what the method does with it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.config.cell import Cell, Model
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TRAIN, VALIDATION
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import EdgeLists, empty_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.residual.inference_choice import over_lists
from dpgraph.families.trees import prepared as prepared_trees
from dpgraph.families.trees.mechanism import ResidualTrees
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.choice import Choice
from dpgraph.problems.classification import predictions
from tests.contract.conftest import toy_graph

SIZE = 10


def random_graph(seed: int) -> Graph:
    """Ten nodes with features in 3 dimensions; node 0 is in every list (a hub), lists have up to 9 entries."""
    random = numpy_generator("choice", seed)
    present = random.random((SIZE, SIZE)) < random.choice([0.1, 0.3, 0.8])
    present[:, 0] |= random.random() < 0.5
    np.fill_diagonal(present, False)
    return graph_of(present, random, random.random(SIZE) < random.choice([0.3, 1.0]))


def displacing_graph(seed: int) -> Graph:
    """0 and 2 list node 1, which accepts one of them; 3 lists 0. All are validation nodes."""
    random = numpy_generator("choice", "displacing", seed)
    present = np.zeros((SIZE, SIZE), dtype=bool)
    present[[0, 2, 3], [1, 1, 0]] = True
    return graph_of(present, random, np.ones(SIZE, dtype=bool))


def graph_of(present: np.ndarray, random: np.random.Generator, validation: np.ndarray) -> Graph:
    _, members = np.nonzero(present)
    return Graph(
        name="ten",
        out_ptr=np.concatenate([[0], np.cumsum(present.sum(1))]),
        out_idx=members.astype(np.int32),
        in_ptr=np.zeros(SIZE + 1, dtype=np.int64),
        in_idx=np.zeros(0, dtype=np.int32),
        features=random.normal(size=(SIZE, 3)).astype(np.float32) * 3,
        labels=random.integers(0, 3, SIZE),
        split=np.where(validation, VALIDATION, TRAIN).astype(np.uint8),
        num_classes=3,
    )


def kept(lists: EdgeLists, mask: np.ndarray) -> EdgeLists:
    owners = np.repeat(np.arange(SIZE), np.diff(lists.ptr))[mask]
    return EdgeLists(np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=SIZE))]), lists.idx[mask])


def without_record(graph: Graph, node: int, degree: int, cap: int, key: int) -> tuple[Graph, EdgeLists]:
    """The node's record is null: no label, no list, and anyone who points to it receives nothing."""
    whole = EdgeLists(graph.out_ptr, graph.out_idx)
    owners = np.repeat(np.arange(SIZE), np.diff(graph.out_ptr))
    own = kept(whole, owners != node)
    labels, features = graph.labels.copy(), graph.features.copy()
    labels[node], features[node] = -1, 0
    null = replace(graph, out_ptr=own.ptr, out_idx=own.idx, labels=labels, features=features)
    lists = stable_edge_lists(null, graph.nodes_of("val"), degree, cap, key)
    return null, kept(lists, lists.idx != node)


def network_of(seed: int, hops: int) -> Network:
    model = Model(architecture="gcn", hops=hops, width=4, activation="relu")
    network = Network(model, 3, 3, torch_generator("choice", seed))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2).add_(torch.randn(parameter.shape, generator=torch_generator("more", seed)))
    return network


def predicted(graph: Graph, lists: EdgeLists, network: Network) -> np.ndarray:
    return predictions(over_lists(graph, lists).logits(network, torch.from_numpy(graph.features)).numpy())


def largest_change(graph: Graph, seed: int, hops: int, degree: int, cap: int) -> int:
    """Over all nodes, with labels that make the change as large as the predictions allow."""
    network, key, nodes = network_of(seed, hops), seed, graph.nodes_of("val")
    before = predicted(graph, stable_edge_lists(graph, nodes, degree, cap, key), network)
    own = predicted(graph, empty_edge_lists(graph), network)
    worst = 0
    for node in range(SIZE):
        null, lists = without_record(graph, node, degree, cap, key)
        after = predicted(null, lists, network)
        others = np.setdiff1d(nodes, [node])
        for labels in (np.where(before != after, before, own), np.where(before != after, after, own)):
            labels[node] = before[node] if labels[node] == before[node] else own[node]
            with_record = (before == labels).astype(int) - (own == labels)
            without = (after == labels).astype(int) - (own == labels)
            worst = max(worst, abs(with_record[nodes].sum() - without[others].sum()))
    return int(worst)


def bound(hops: int, degree: int, cap: int) -> int:
    return ResidualTrees(
        num_roots=100, steps=1, delta=1e-6, noise_multiplier=1.0, hops=hops, max_degree=degree, list_cap=cap,
        sampling_rate=0.5, neighbour_rate=0.5, neighbour_clip=0.1,
    ).changed_trees  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    hops=st.integers(1, 2),
    degree=st.integers(1, 2),
    cap=st.integers(1, 3),
)
def test_one_record_changes_the_count_by_at_most_the_changed_trees(seed, hops, degree, cap):
    graph = random_graph(seed)
    assert largest_change(graph, seed, hops, degree, cap) <= min(bound(hops, degree, cap), len(graph.nodes_of("val")))


def test_fewer_than_the_changed_trees_would_not_do():
    """K = D = 1: the paper's N(K, 1) = 2 is exceeded, R = 3 is reached and never exceeded."""
    worst = max(largest_change(displacing_graph(seed), seed, 1, 1, 1) for seed in range(30))
    assert worst == bound(1, 1, 1) == 3


def test_the_count_is_that_of_the_trees():
    """Layer by layer over the sampler's lists or tree by tree: the same predictions. A null label counts 0."""
    graph = toy_graph()
    nodes = graph.nodes_of("val")
    graph.labels[nodes[::3]] = -1
    asked = cell(choice_epsilon=1e9)  # no noise worth the name: the sign of the count itself
    for hops in (1, 2):
        network = Network(Model(hops=hops, width=8), 5, 3, torch_generator("choice", "trees", hops))
        (job,) = make_jobs(graph, asked, [0], calibrated(asked, len(graph.train_nodes)), torch.device("cpu"))
        choice = job.prepared.choice
        features = torch.from_numpy(graph.features)
        assert np.array_equal(choice.lists.idx, choice.lists.checked().idx)
        assert choice.lists.occurrences().max() <= 3
        right = []
        for chosen in (choice.lists, empty_edge_lists(graph)):
            trees = pack_ego_trees(chosen, nodes, hops, "cpu")
            found = np.full(len(nodes), -1)
            for batch in trees.chunks(np.arange(len(nodes))):
                found[batch.places] = network(batch, features).argmax(1).numpy()
            right.append(int((found == graph.labels[nodes]).sum()))

        def predict(lists, network=network, features=features):
            chosen = empty_edge_lists(graph) if lists is None else lists
            return predictions(over_lists(graph, chosen).logits(network, features).numpy())

        assert count_of(choice, predict) == right[0] - right[1]


def answering(reads, seen):
    """A choice that is drawn, and known beforehand."""

    def answer(*, generator, epsilon, **given):
        generator.laplace()
        seen({**given, "epsilon": epsilon})
        return Choice(int(reads), epsilon)

    return answer


def count_of(choice, predict) -> int:
    """What the noise is added to."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared_trees, "noisily_positive", answering(True, lambda asked: seen.append(asked["count"])))
        choice.reads_neighbours(predict)
    return seen[0]


def cell(**privacy) -> Cell:
    return resolve(
        {
            "task": {"dataset": "toy"},
            "method": "dp-residual",
            "model": {"architecture": "gcn", "hops": 1, "width": 8},
            "training": {"learning_rate": 0.05, "sampling_rate": 0.3, "steps": 4, "evaluations": 2},
            "privacy": {"noise_multiplier": 2.0, "max_degree": 3, "list_cap": 3, **privacy},
            "seeds": [0],
        }
    )


@cache
def calibrated(asked: Cell, num_train: int) -> Calibration:
    return calibrate(asked, num_train)


def run(graph: Graph, asked: Cell):
    seen = []
    (job,) = make_jobs(graph, asked, [0], calibrated(asked, len(graph.train_nodes)), torch.device("cpu"))
    outcome = method("dp-residual").run(job, lambda step, logits: seen.append(logits) or {"step": step})
    job.prepared.check()
    return outcome, seen


@pytest.mark.parametrize("reads", [True, False])
def test_the_last_point_uses_the_choice_and_earlier_ones_read_neighbours(reads, monkeypatch):
    asked = []

    monkeypatch.setattr(prepared_trees, "noisily_positive", answering(reads, asked.append))
    graph = toy_graph()
    outcome, (early, late) = run(graph, cell(choice_epsilon=0.5))
    assert [(one["sensitivity"], one["epsilon"]) for one in asked] == [(7, 0.5)]  # 1 + 3 + 3, once
    assert abs(asked[0]["count"]) <= len(graph.nodes_of("val"))
    assert outcome.notes["inference"] == ("with neighbours" if reads else "each node alone")
    assert outcome.notes["edge_lists"] == "stable"
    assert np.array_equal(outcome.logits, late)
    assert not np.array_equal(early, late)
    assert set(outcome.notes) == {*run(graph, cell())[0].notes, "inference"}  # the decision, never the count


def test_sensitivity_is_at_most_the_number_of_validation_nodes(monkeypatch):
    asked = []
    seen = answering(True, lambda given: asked.append(given["sensitivity"]))
    monkeypatch.setattr(prepared_trees, "noisily_positive", seen)
    graph = toy_graph()
    split = graph.split.copy()
    split[graph.nodes_of("val")[3:]] = NO_SPLIT
    run(replace(graph, split=split), cell(choice_epsilon=0.5))
    assert asked == [3]


def test_without_a_choice_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(prepared_trees, "noisily_positive", lambda **given: pytest.fail("no choice was asked for"))
    outcome, _ = run(toy_graph(), cell())
    assert "inference" not in outcome.notes
    assert run(toy_graph(), cell(neighbour_clip_ratio=0.0))[0].notes["edge_lists"] == "own record"


def test_a_choice_needs_validation_nodes():
    graph = toy_graph()
    split = np.where(graph.split == VALIDATION, NO_SPLIT, graph.split)
    with pytest.raises(UserError, match=r"^choice_epsilon=0\.5: expected null where there are no validation nodes$"):
        run(replace(graph, split=split), cell(choice_epsilon=0.5))
