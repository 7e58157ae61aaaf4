"""Whole runs of dp-votes with correlated noise: resumed bit by bit, and refused where what ran is something else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.audits.graphs import null_records
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.registry import method
from dpgraph.privacy.procedure import NotAsAccounted
from dpgraph.sampling.batches import Draws, PoissonSampler
from dpgraph.training.noise import GaussianNoise
from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph
from tests.contract.test_methods import calibrated

GRAPH, CPU = toy_graph(), torch.device("cpu")


class Killed(Exception):
    """Stands for a killed process."""


def job_of(name, graph=GRAPH, checkpoint=None):
    return make_jobs(graph, CELLS[name], [0], calibrated(CELLS[name], GRAPH), CPU, checkpoint)[0]


@pytest.mark.parametrize("name", ["dp-votes-bands", "dp-votes-scaled"])
def test_a_broken_run_ends_with_the_same_bits(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DPGRAPH_CHECKPOINT_SECONDS", "0")
    whole = method("dp-votes").run(job_of(name), lambda step, logits: {})

    def die(step, logits):
        if step == 6 - 2:
            raise Killed
        return {}

    with pytest.raises(Killed):
        method("dp-votes").run(job_of(name, checkpoint=tmp_path / "run"), die)
    job = job_of(name, checkpoint=tmp_path / "run")
    again = method("dp-votes").run(job, lambda step, logits: {})
    assert again.resumed_at == 3
    assert np.array_equal(again.logits, whole.logits)
    assert job.prepared.check(again.resumed_at).bands == (3 if name == "dp-votes-bands" else 1)


@pytest.mark.parametrize("planted", ["independent batches", "independent noise", "longer columns"])
def test_what_is_not_accounted_for_is_refused(planted):
    job = job_of("dp-votes-bands")
    prepared = job.prepared
    if planted == "independent batches":
        draws = Draws(PoissonSampler(len(GRAPH.train_nodes), 0.6), prepared.batches)
        prepared.terms = [replace(prepared.terms[0], draws=draws)]
    elif planted == "independent noise":
        prepared.noise = GaussianNoise(prepared.noise.std, prepared.noise.generator)
    else:
        matrix = prepared.noise.matrix
        other = replace(matrix, columns=1.1 * matrix.columns)
        prepared.noise = type(prepared.noise).over(prepared.noise.source, other)
    method("dp-votes").run(job, lambda step, logits: {})
    with pytest.raises(NotAsAccounted, match=r"noise_std|bands|batches"):
        prepared.check()


def test_groups_are_the_same_when_a_record_becomes_null():
    node = int(GRAPH.train_nodes[3])
    groups = [
        job_of("dp-votes-bands", graph).prepared.terms[0].draws.sampler.groups
        for graph in (GRAPH, null_records(GRAPH, [node]))
    ]
    assert np.array_equal(*groups)
