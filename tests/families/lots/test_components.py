"""Noisy principal components: what one record does to the matrix, its noise, and what is read of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.engine.training.noise import ReleaseNoise
from dpgraph.families.jobs import make_jobs
from dpgraph.families.lots.prepared import leading, noisy_moments
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
CELL = CELLS["dp-lots-0-components"]


def prepared_of(graph, cell=CELL, calibration=None):
    return make_jobs(graph, cell, [0], calibration or calibrate(cell, 40, default_cache()), CPU)[0].prepared


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 9),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
    gone=st.integers(0, 8),
    strange=st.sampled_from([None, np.nan, np.inf]),
)
def test_a_record_that_becomes_null_moves_the_matrix_by_at_most_1(seed, rows, scale, gone, strange):
    random = np.random.default_rng(seed)
    records = (random.standard_normal((rows, 4)) * scale).astype(np.float32)
    if strange is not None:
        records[0, 1] = strange
    without = records.copy()
    without[gone % rows] = 0
    with_, after = (noisy_moments(one, 0.0, ReleaseNoise(np.random.default_rng(0))) for one in (records, without))
    assert np.isfinite(with_).all()
    assert np.linalg.norm(with_ - after) <= 1 + 1e-12
    lengths = np.linalg.norm(records.astype(np.float64), axis=1)
    expected = sum((np.outer(x, x) / n**2 for x, n in zip(records.astype(np.float64), lengths) if 0 < n < np.inf), 0)
    assert np.allclose(with_, expected, atol=1e-6)


def test_noise_is_on_every_entry_before_the_matrix_is_made_symmetric():
    noise = noisy_moments(np.zeros((1, 300), dtype=np.float32), 5.0, ReleaseNoise(np.random.default_rng(1)))
    assert np.array_equal(noise, noise.T)
    assert np.diag(noise).std() == pytest.approx(5.0, rel=0.15)
    assert noise[np.triu_indices(300, 1)].std() == pytest.approx(5.0 / np.sqrt(2), rel=0.02)


def test_components_are_the_leading_eigenvectors():
    random = np.random.default_rng(2)
    basis = np.linalg.qr(random.standard_normal((6, 6)))[0]
    matrix = basis @ np.diag([1.0, 9.0, -20.0, 4.0, 0.5, 7.0]) @ basis.T
    found = leading(matrix, 3)
    assert np.allclose(np.abs(found.T @ basis[:, [1, 5, 3]]), np.eye(3), atol=1e-9)


def test_only_training_records_make_components_and_steps_read_projected_ones():
    graph = toy_graph()
    prepared = prepared_of(graph)
    assert prepared.data.features.shape == (graph.num_nodes, 3)
    projected = graph.features.astype(np.float32) @ leading(prepared.matrix, 3).astype(np.float32)
    assert np.allclose(prepared.data.features.numpy(), projected, atol=1e-5)
    others = graph.features.copy()
    others[np.setdiff1d(np.arange(graph.num_nodes), graph.train_nodes)] *= -7
    assert np.array_equal(prepared_of(replace(graph, features=others)).matrix, prepared.matrix)
    others[graph.train_nodes[0]] *= -7  # whose length does not count
    assert np.allclose(prepared_of(replace(graph, features=others)).matrix, prepared.matrix, atol=1e-6)
    others[graph.train_nodes[0]] = others[graph.train_nodes[0]][::-1]
    assert not np.allclose(prepared_of(replace(graph, features=others)).matrix, prepared.matrix, atol=1e-6)


def test_a_release_other_than_the_accounted_one_is_seen():
    (job,) = make_jobs(toy_graph(), CELL, [0], calibrate(CELL, 40, default_cache()), CPU)
    method(CELL.method).run(job, lambda step, logits: {})
    job.prepared.check()
    job.prepared.components = job.prepared.components.model_copy(update={"noise": 3.0})
    with pytest.raises(NotAsAccounted, match="noise"):
        job.prepared.check()


def test_more_components_than_features_are_refused():
    cell = CELL.model_copy(update={"privacy": CELL.privacy.model_copy(update={"components": 6})})
    with pytest.raises(UserError, match="components=6: expected an integer from 1 to the 5 features"):
        prepared_of(toy_graph(), cell)
