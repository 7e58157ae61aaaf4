"""PATE on a graph: public rules, and a student that reads public nodes and released labels only."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.data.records import TRAIN
from dpgraph.engine.preparation.rows import principal_axes
from dpgraph.families.jobs import make_jobs
from dpgraph.families.pate.mechanism import ConfidentGnmax, NodeGnmax
from dpgraph.families.pate.nodes.prepared import PreparedNodeTeachers
from dpgraph.families.pate.nodes.spec import by_noise
from dpgraph.families.registry import method, spec
from dpgraph.privacy.mechanisms.base import mechanism_from
from dpgraph.problems.base import Size
from tests.contract.cells import CELLS, changed
from tests.contract.conftest import toy_graph
from tests.contract.test_methods import calibrated

CORA = Size(2995, 16316, 2879, 7, 2096)


def trained(graph, labels):
    """Logits of the student, given what is released."""
    cell = CELLS["dp-node-pate-own"]
    with patch.object(PreparedNodeTeachers, "labels", lambda self: labels):
        (job,) = make_jobs(graph, cell, [0], calibrated(cell, graph), torch.device("cpu"))
        return method(cell.method).run(job, lambda step, logits: {}).logits


def test_the_student_reads_released_labels_and_public_nodes_only():
    graph = toy_graph()
    labels = np.arange(10) % 3
    labels[4] = -1
    before = trained(graph, labels)
    train = graph.split == TRAIN
    features = np.where(train[:, None], 3.0, graph.features).astype(np.float32)
    other = replace(graph, features=features, labels=np.where(train, 0, graph.labels))
    assert np.array_equal(trained(other, labels)[~train], before[~train])
    assert not np.array_equal(trained(graph, (labels + 1) % 3), before)


def test_without_any_label_nothing_moves():
    graph = toy_graph()
    assert np.isfinite(trained(graph, np.full(10, -1))).all()


def test_what_it_states():
    cell = CELLS["dp-node-pate-means"]
    mechanism = calibrated(cell, toy_graph()).mechanism
    guarantee = mechanism.rigorous()
    assert (guarantee.relation, guarantee.scope) == ("training-node", "joint")
    assert any("validation nodes are public" in text for text in guarantee.assumptions)
    assert not any("image" in text for text in guarantee.assumptions)
    assert mechanism_from(NodeGnmax, mechanism.model_dump(mode="json")) == mechanism
    same = ConfidentGnmax(**{**dict(mechanism), "kind": "confident-gnmax"})
    assert same.rigorous().epsilon == guarantee.epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0, 100.0])
def test_settings_by_the_rule_are_those_of_the_numbers_alone(epsilon):
    found = by_noise(CORA, epsilon)
    assert 2 <= found["training"]["teachers"] <= CORA.train_nodes
    assert found["privacy"]["max_answers"] <= found["privacy"]["max_checks"] == 300
    assert changed("dp-node-pate-own", **{name: dict(part) for name, part in found.items()})
    assert found == by_noise(CORA, epsilon)


def test_less_noise_allows_larger_parts_and_more_answers():
    few, many = by_noise(CORA, 1.0), by_noise(CORA, 12.0)
    assert few["training"]["teachers"] > many["training"]["teachers"]
    assert few["privacy"]["max_answers"] < many["privacy"]["max_answers"] == 300
    with pytest.raises(UserError, match=r"^privacy.epsilon=None: expected a target"):
        by_noise(CORA, None)
    assert spec("node-pate").by_rule("parts-of-20", CORA, None) == {"training": {"teachers": 105}}


def test_more_answers_than_checks_are_one_line():
    with pytest.raises(UserError, match=r"max_answers=30: expected at most max_checks=20"):
        changed("dp-node-pate-own", privacy={"max_checks": 20, "max_answers": 30})


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_axes_of_few_rows_are_those_of_their_products(shape):
    """By singular values, up to sign; of fewer rows than columns no more than the rows span."""
    rows = torch.from_numpy(np.random.default_rng(1).normal(size=shape)).float()
    mean, axes = principal_axes(rows, 30)
    _, values, vectors = torch.linalg.svd((rows - rows.mean(dim=0)).double(), full_matrices=False)
    wanted = vectors[: axes.shape[1]].T / (values[0] / len(rows) ** 0.5)
    assert axes.shape[1] == (8 if shape[0] > shape[1] else 7)
    assert torch.allclose(mean, rows.mean(dim=0))
    assert torch.allclose((axes.double() * wanted).sum(dim=0).abs(), wanted.square().sum(dim=0), rtol=1e-4, atol=0)
