"""Methods whose step is captured, as on a GPU, here call by call on the CPU: accounted for, resumed, seed by seed."""

import numpy as np
import pytest
import torch

from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.engine.training.captured import step as captured_steps
from dpgraph.engine.training.captured.step import CapturedStep
from dpgraph.engine.training.checkpoint import Checkpoint
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph

NAMES = ("dp-mlp-0-rigorous", "dp-gnn-1-rigorous", "dp-gnn-1-rigorous-gin", "dp-residual-1-rigorous", "dp-votes-mlp")
CAPTURED = pytest.mark.parametrize("name", NAMES)
EAGER = ("dp-gnn-1-rigorous-gat", "dp-gnn-1-published", "dp-gnn-2-rigorous", "dp-gnn-1-rigorous-fixed-size")


@pytest.fixture
def capturing():
    """As if the CPU were a GPU."""
    captured_steps.DEVICES.add("cpu")
    yield
    captured_steps.DEVICES.discard("cpu")


def jobs_of(name, seeds=(0,), checkpoint=None, **training):
    cell = CELLS[name]
    privacy = cell.privacy.model_copy(update={"epsilon": None, "noise_multiplier": 3.0, "choice_epsilon": None})
    shared = {"model": cell.model.model_dump(), "training": {**cell.training.model_dump(), **training}}
    cell = resolve({**cell.model_dump(), **shared, "privacy": privacy.model_dump(), "seeds": seeds}, name)
    graph = toy_graph()
    return make_jobs(graph, cell, seeds, calibrate(cell, len(graph.train_nodes)), torch.device("cpu"), checkpoint)


def look(step, logits):
    return {"step": step}


def run(job, observe=look):
    return method(job.cell.method).run(job, observe)


@CAPTURED
def test_what_ran_is_what_was_accounted_for(capturing, name, monkeypatch):
    (job,) = jobs_of(name)
    outcome = run(job)
    assert outcome.notes["step"] == "captured"
    ran = job.prepared.check(outcome.resumed_at)
    assert ran.model_copy(update={"streams": ()}) == job.prepared.accounted()
    for field, value in (("rate", 0.9), ("num_roots", 3)):
        (other,) = jobs_of(name)
        step = CapturedStep.__post_init__

        def changed(self, field=field, value=value, step=step):
            draws = self.step.terms[-1].draws
            numbers = {"num_roots": draws.sampler.num_roots, "rate": draws.sampler.rate, field: value}
            if field == "rate":
                draws.sampler = PoissonSampler(**numbers)
                step(self)
            else:
                step(self)
                draws.sampler = PoissonSampler(**numbers)

        with monkeypatch.context() as patched:
            patched.setattr(CapturedStep, "__post_init__", changed)
            if field == "rate":
                run(other)
                with pytest.raises(NotAsAccounted, match="rate"):
                    other.prepared.check()
            else:  # what the program holds is no longer what the accounting would read
                with pytest.raises(TypeError, match="changed"):
                    run(other)


@pytest.mark.parametrize("name", [*NAMES[:4], *EAGER])
def test_only_on_a_gpu_and_where_it_can_be(capturing, name):
    assert ("step" in run(jobs_of(name)[0]).notes) == (name in NAMES)
    captured_steps.DEVICES.discard("cpu")
    assert "step" not in run(jobs_of(name)[0]).notes


class Killed(Exception):
    pass


@CAPTURED
def test_a_killed_run_goes_on_bit_by_bit(capturing, tmp_path, monkeypatch, name):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    settings = {"steps": 9, "evaluations": 3, "optimizer": "adam"}
    whole, path, seen = run(jobs_of(name, **settings)[0]), tmp_path / "run.checkpoint", []

    def observe(step, logits):
        seen.append(step)
        if len(seen) == 2:
            raise Killed
        return {"step": step}

    with pytest.raises(Killed):
        run(jobs_of(name, checkpoint=path, **settings)[0], observe)
    (job,) = jobs_of(name, checkpoint=path, **settings)
    resumed = run(job)
    assert resumed.resumed_at == 5
    assert np.array_equal(whole.logits, resumed.logits)
    ran = job.prepared.check(resumed.resumed_at)
    assert ran.model_copy(update={"streams": ()}) == job.prepared.accounted()
    (batches,) = (use for use in ran.streams if use.stream == "batches")
    assert (batches.draws, batches.numbers) == (9 * len(ran.terms), 9 * len(ran.terms) * 40)  # of both processes
