"""Methods whose step is captured, as on a GPU, here call by call on the CPU: accounted for, resumed, seed by seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.engine.training import clipping, closed_rows
from dpgraph.engine.training.captured import dispatch as captured_steps
from dpgraph.engine.training.captured import program as programs
from dpgraph.engine.training.captured.replay import Replay
from dpgraph.engine.training.captured.step import CapturedStep
from dpgraph.engine.training.checkpoint import Checkpoint
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method, spec
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph
from tests.engine.training.test_captured import MOVES, RECORDED, OnDevice, _moved

PRIVATE = (
    "dp-mlp-0-rigorous", "dp-mlp-0-published", "dp-gnn-1-rigorous", "dp-gnn-1-rigorous-gin", "dp-gnn-1-rigorous-gat",
    "dp-gnn-1-published", "dp-gnn-1-rigorous-fixed-size", "dp-gnn-2-rigorous", "dp-gnn-2-rigorous-gat",
    "dp-gnn-2-published", "dp-residual-1-rigorous", "dp-votes-mlp",
)  # fmt: skip
OTHERS = (
    "dp-subgraph-3-published", "dp-subgraph-3-per-node", "dp-subgraph-3-cut", "dp-pure-noise-1-published",
    "dp-appr-identity-rigorous", "dp-appr-identity-published",
)  # fmt: skip
PLAIN = ("mlp-0-none", "mlp-0-stopping", "gnn-1-none", "gnn-1-stopping", "gnn-2-none-gat", "sgc-none", "appnp-none",
         "pmlp-none", "velickovic-gat-none", "appr-exact-none", "kipf-gcn-1-none", "kipf-gcn-3-none")  # fmt: skip
CAPTURED = pytest.mark.parametrize("name", PRIVATE)
EAGER = {
    "dp-mlp-0-opacus": "library", "dp-lots-0-published": None,
    "dp-gap-edge": None, "dp-subgraph-3-rigorous": "part of its own",
}  # fmt: skip


@pytest.fixture
def capturing():
    """As if the CPU were a GPU."""
    captured_steps.DEVICES.add("cpu")
    yield
    captured_steps.DEVICES.discard("cpu")


def jobs_of(name, seeds=(0,), checkpoint=None, **training):
    cell = CELLS[name]
    shared = {"model": cell.model.model_dump(), "training": {**cell.training.model_dump(), **training}}
    if cell.privacy is not None:
        set_by_hand = {"epsilon": None, "noise_multiplier": 3.0, "choice_epsilon": None}
        known = type(cell.privacy).model_fields
        privacy = cell.privacy.model_copy(update={key: value for key, value in set_by_hand.items() if key in known})
        shared["privacy"] = privacy.model_dump()
    cell = resolve({**cell.model_dump(), **shared, "seeds": seeds}, name)
    graph = toy_graph()
    return make_jobs(
        graph, cell, seeds, calibrate(cell, len(graph.train_nodes), default_cache()), torch.device("cpu"), checkpoint
    )


def look(step, logits):
    return {"step": step}


def run(job, observe=look):
    return method(job.cell.method).run(job, observe)


@pytest.mark.parametrize("name", ["dp-gnn-1-rigorous", "dp-gnn-2-published", "dp-mlp-0-node-remove"])
def test_a_cpu_compiles_on_request(name, monkeypatch):
    """The batches and the noise are those of the usual step, so that no noise is seen twice on other sums."""
    (job,) = jobs_of(name)
    usual = run(job)
    ran = job.prepared.check(usual.resumed_at)
    monkeypatch.setenv("DPGRAPH_COMPILED_STEPS", "1")
    monkeypatch.setattr(programs, "compiled", RECORDED)
    (job,) = jobs_of(name)
    outcome = run(job)
    assert outcome.notes["step"] == "compiled"
    assert job.prepared.check(outcome.resumed_at) == ran
    np.testing.assert_allclose(outcome.logits, usual.logits, rtol=1e-3, atol=1e-4)


def test_a_cpu_compiles_no_step_whose_draws_would_be_others(monkeypatch):
    """Terms that draw by turns, and masks."""
    monkeypatch.setenv("DPGRAPH_COMPILED_STEPS", "1")
    for name in ("dp-residual-1-rigorous", "mlp-0-stopping"):
        assert "step" not in run(jobs_of(name)[0]).notes


@pytest.mark.parametrize("name", [*PRIVATE, *OTHERS])
def test_what_ran_is_what_was_accounted_for(capturing, name):
    (job,) = jobs_of(name)
    outcome = run(job)
    assert outcome.notes["step"] == "captured"
    ran = job.prepared.check(outcome.resumed_at)
    assert ran.model_copy(update={"streams": ()}) == job.prepared.accounted()


@CAPTURED
def test_another_sampler_is_not_what_was_accounted_for(capturing, name, monkeypatch):
    """Before the program is made, the accounting finds it; after, the program refuses to go on."""
    begin = CapturedStep.__init__

    def changed(before):
        def init(self, step, *options):
            draws = step.terms[-1].draws
            if not before:
                begin(self, step, *options)
            sampler = draws.sampler
            other = {"rate": 0.9} if isinstance(sampler, PoissonSampler) else {"size": sampler.size + 1}
            draws.sampler = replace(sampler, **other)
            if before:
                begin(self, step, *options)

        return init

    (job,) = jobs_of(name)
    monkeypatch.setattr(CapturedStep, "__init__", changed(before=True))
    run(job)
    with pytest.raises(NotAsAccounted, match=r"rate|batch_size"):
        job.prepared.check()
    monkeypatch.setattr(CapturedStep, "__init__", changed(before=False))
    with pytest.raises(TypeError, match="changed"):
        run(jobs_of(name)[0])


@pytest.mark.parametrize("name", [PRIVATE[0], *OTHERS])
def test_noise_of_replayed_steps_is_counted(capturing, name, monkeypatch):
    """A replay runs no Python: what a program counts where it runs call by call, the step counts."""
    (job,) = jobs_of(name)
    noise, ran = job.prepared.noise, []

    def replay(self, program, key=None):
        before = noise.draws, noise.numbers
        program()
        ran.append(key)
        if ran.count(key) < 3:  # warm-up and capture
            return True
        noise.draws, noise.numbers = before
        return False

    monkeypatch.setattr(Replay, "run", replay)
    run(job)
    job.prepared.check()


@pytest.mark.parametrize("name", [*PRIVATE, *OTHERS, *PLAIN])
def test_the_host_reads_nothing(capturing, name, monkeypatch):
    """From the second step on, in every program that a method runs; `may_lose` as on a GPU."""
    for module in (clipping, closed_rows):
        monkeypatch.setattr(module, "may_lose", lambda finite: True)
    ran = []

    def run_on_device(self, program, key=None):
        if key in ran:
            with OnDevice(), monkeypatch.context() as patched:
                for place, moving in MOVES:
                    patched.setattr(place, moving, _moved)
                program()
        else:
            program()
        ran.append(key)
        return True

    monkeypatch.setattr(Replay, "run", run_on_device)
    outcome = run(jobs_of(name, steps=12)[0])
    assert len(ran) > 2 * len(set(ran))
    assert outcome.notes["step"] == "captured"


def test_explain_says_whether_a_step_is_captured():
    """What it says of a cell is what a run notes; every reason is one line."""
    stated = {name: spec(cell.method).why_not_captured(cell) for name, cell in CELLS.items()}
    assert not [name for name in (*PRIVATE, *OTHERS, *PLAIN) if stated[name]]
    assert all(stated[name] for name in EAGER)
    assert all(len(reason.splitlines()) < 2 for reason in stated.values())
    assert "steps" in stated["majority-0-none"]


@pytest.mark.parametrize("name", [*PRIVATE, *OTHERS, *PLAIN, *EAGER])
def test_only_on_a_gpu_and_where_it_can_be(capturing, name):
    noted = run(jobs_of(name)[0]).notes.get("step")
    if name in EAGER:
        assert noted is None if EAGER[name] is None else EAGER[name] in noted
    else:
        assert noted == "captured"
    captured_steps.DEVICES.discard("cpu")
    assert "step" not in run(jobs_of(name)[0]).notes


@pytest.mark.parametrize("name", PLAIN)
def test_a_captured_run_without_privacy_is_the_usual_one(capturing, name):
    """The same batches and, on one device, the same masks, but for those of trees in slots, which pad rows."""
    captured = run(jobs_of(name)[0])
    captured_steps.DEVICES.discard("cpu")
    usual = run(jobs_of(name)[0])
    assert np.allclose(captured.logits, usual.logits, atol=1e-4)


class Killed(Exception):
    pass


@pytest.mark.parametrize("name", [*PRIVATE, *OTHERS, *PLAIN])
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
    if name in PLAIN or name.startswith(("dp-subgraph", "dp-pure-noise")):
        return  # without privacy, or with parts that follow from the step alone
    ran = job.prepared.check(resumed.resumed_at)
    assert ran.model_copy(update={"streams": ()}) == job.prepared.accounted()
    (batches,) = (use for use in ran.streams if use.stream == "batches")
    numbers = sum(term.batch_size or term.num_roots for term in ran.terms)
    assert (batches.draws, batches.numbers) == (9 * len(ran.terms), 9 * numbers)  # of both processes
