"""Steps over tuples as programs of fixed shapes, here call by call on the CPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.core.randomness import Key
from dpgraph.engine.training.captured.replay import Replay
from dpgraph.engine.training.checkpoint import Checkpoint
from dpgraph.families.registry import spec
from dpgraph.families.tuples.captured import CapturedTuples, DeviceTuples
from dpgraph.families.tuples.sampling import NO_ENTITY
from dpgraph.privacy.procedure import NotAsAccounted
from tests.engine.methods.test_captured import Killed, capturing  # noqa: F401
from tests.engine.training.test_captured import MOVES, OnDevice, _moved
from tests.families.tuples.test_tuples import job_of, run

MLP = {"encoder": "mlp", "width": 4}
PRIVATE = {
    "head": ("dp-relation-head", {}, "rigorous"),
    "symmetric": ("dp-relation-head", {"head": "symmetric"}, "rigorous"),
    "adaptive": ("dp-relation-head", {}, "published"),
    "released": ("dp-relation-encoder", MLP, "released"),
    "encoder": ("dp-relation-encoder", MLP, "rigorous"),
}
PLAIN = {
    "head": ("relation-head", {}),
    "encoder": ("relation-encoder", MLP),
    "linear": ("linear-relation", {"width": 4}),
}
CASES = pytest.mark.parametrize("case", PRIVATE)


@pytest.fixture(autouse=True)
def few_ahead(monkeypatch):
    """Draw few batches ahead, which takes a CPU long."""
    monkeypatch.setattr("dpgraph.families.tuples.captured.MOST_DRAWN", 1 << 13)


def private(case, steps=12, checkpoint=None):
    name, model, variant = PRIVATE[case]
    return job_of(name, model, steps, checkpoint, privacy={"noise_multiplier": 2.0, "variant": variant})[0]


def plain(case, steps=12, checkpoint=None):
    others = {"training": {"negatives": None}} if case == "linear" else {}
    return job_of(*PLAIN[case], steps, checkpoint, **others)[0]


def all_jobs(steps=12):
    return [*(private(case, steps) for case in PRIVATE), *(plain(case, steps) for case in PLAIN)]


def program_of(monkeypatch, case, ahead=64):
    """The program of a job that was prepared, after three steps."""
    made = []
    begin = CapturedTuples.__init__

    def kept(self, *arguments):
        begin(self, *arguments, ahead)
        made.append(self)

    monkeypatch.setattr(CapturedTuples, "__init__", kept)
    run(private(case, 3))
    return made[0]


def test_batches_are_those_of_the_mechanism(capturing, monkeypatch):  # noqa: F811
    """Tuples of the sampler, each with negatives of its own; the same at their own size; every order equally likely."""
    source = program_of(monkeypatch, "head").source
    own, steps = source.own, 600
    drawn = source.ahead(5, steps)
    assert not drawn.overflow.any()
    known = {tuple(pair) for pair in own.tuples.pairs.tolist()}
    first, firsts = own.negatives.entities[0], np.zeros(own.negatives.per_tuple)
    for step in range(steps):
        rows = drawn.ranks[step]
        batch = rows[rows[:, 0] != NO_ENTITY]
        assert len(batch) == drawn.sizes[step]
        negatives = batch[:, 2:].flatten().tolist()
        assert len(set(negatives)) == len(negatives)
        assert set(negatives) <= set(own.negatives.entities.tolist())
        assert {tuple(pair) for pair in batch[:, :2].tolist()} <= known
        firsts += (batch[:, 2:] == first).sum(0).numpy()
        if step < 20:
            assert torch.equal(batch, source.batch(5 + step))
            assert (rows[len(batch) :] == NO_ENTITY).all()
    total, rate = int(drawn.sizes.sum()), own.draws.sampler.rate
    mean = steps * len(own.tuples) * rate
    assert abs(total - mean) < 5 * (mean * (1 - rate)) ** 0.5
    each = total / len(own.negatives.entities)
    assert (abs(firsts - each) < 5 * each**0.5).all()
    assert source.key.value != source.batches.key.value
    other = DeviceTuples(own, Key(1), Key(2), source.row.device).ahead(5, 1)
    assert not torch.equal(other.ranks[0], drawn.ranks[0])


@CASES
def test_sums_are_those_of_the_usual_step(capturing, monkeypatch, case):  # noqa: F811
    """In slots and without them, of which the usual step is the oracle; an empty batch gives noise alone."""
    program = program_of(monkeypatch, case)
    step, source = program.step, program.source
    step.noise.std, step.divisor, moved = 0.0, 1.0, []
    monkeypatch.setattr(program, "update", lambda: moved.append(program.flat.clone()))
    drawn = source.ahead(9, 1)
    batch = source.batch(9)
    assert 0 < len(batch) < len(source.row)
    expected = torch.cat([part.flatten() for part in step.model.clipped(batch, step.limits(batch)).sums])
    source.row.copy_(drawn.ranks[0])
    program.program()
    program.run_without_slots(9)
    for found in moved:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert expected.norm() > 0
    source.row.fill_(NO_ENTITY)
    program.program()
    assert not moved[-1].any()


def test_the_noise_is_that_of_the_usual_step(capturing, monkeypatch):  # noqa: F811
    """Of batches without a tuple nothing else is left."""
    program, moved = program_of(monkeypatch, "encoder"), []
    monkeypatch.setattr(program, "update", lambda: moved.append(program.flat * program.step.divisor))
    for _ in range(200):
        program.source.row.fill_(NO_ENTITY)
        program.program()
    noise = torch.stack(moved) / program.step.noise.std
    assert abs(float(noise.square().mean()) - 1) < 5 * (2 / noise.numel()) ** 0.5
    assert abs(float((noise[1:] * noise[:-1]).mean())) < 5 * noise.numel() ** -0.5


@CASES
def test_what_ran_is_what_was_accounted_for(capturing, monkeypatch, case):  # noqa: F811
    """With enough slots and with one, where the steps run at their own size."""
    results = []
    for few in (False, True) if case in ("adaptive", "encoder") else (False,):
        if few:
            monkeypatch.setattr("dpgraph.families.tuples.captured.most_drawn", lambda *_: 1)
        job = private(case)
        outcome = run(job)
        assert outcome.notes["step"] == "captured"
        ran = job.prepared.check(outcome.resumed_at)
        assert ran.model_copy(update={"streams": ()}) == job.prepared.accounted()
        results.append(outcome.logits)
    np.testing.assert_allclose(results[0], results[-1], rtol=1e-4, atol=1e-5)


def test_another_mechanism_is_refused(capturing, monkeypatch):  # noqa: F811
    """Before the program is made, the accounting finds it; after, the program refuses to go on."""
    begin = CapturedTuples.__init__

    def changed(before, **of_step):
        def init(self, step, *keys):
            if not before:
                begin(self, step, *keys)
            draws = step.batches.draws
            draws.sampler = replace(draws.sampler, rate=0.9) if not of_step else draws.sampler
            for name, value in of_step.items():
                setattr(step, name, value)
            if before:
                begin(self, step, *keys)

        return init

    for of_step in ({}, {"clip_norm": 9.0}, {"divisor": 9.0}):
        job = private("head")
        monkeypatch.setattr(CapturedTuples, "__init__", changed(True, **of_step))
        monkeypatch.setattr("dpgraph.families.tuples.captured.most_drawn", lambda *_: 1) if not of_step else None
        monkeypatch.setattr(CapturedTuples, "run_without_slots", lambda self, step: None)
        run(job)
        with pytest.raises(NotAsAccounted):
            job.prepared.check()
        monkeypatch.setattr(CapturedTuples, "__init__", changed(False, **of_step))
        with pytest.raises(TypeError, match="changed"):
            run(private("head"))


def test_the_host_reads_nothing(capturing, monkeypatch):  # noqa: F811
    ran = []

    def on_device(self, program, key=None):
        if ran:
            with OnDevice(), monkeypatch.context() as patched:
                for place, moving in MOVES:
                    patched.setattr(place, moving, _moved)
                program()
        else:
            program()
        ran.append(key)
        return True

    monkeypatch.setattr(Replay, "run", on_device)
    for job in all_jobs(steps=3):
        ran.clear()
        assert run(job).notes["step"] == "captured"
        assert len(ran) == 3


@pytest.mark.parametrize(("make", "case"), [*((private, case) for case in PRIVATE), *((plain, case) for case in PLAIN)])
def test_a_killed_run_goes_on_bit_by_bit(capturing, tmp_path, monkeypatch, make, case):  # noqa: F811
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    expected, original, calls = run(make(case)).logits, Replay.run, []

    def killed(self, program, key=None):
        calls.append(key)
        if len(calls) == 5:
            raise Killed
        return original(self, program, key)

    with monkeypatch.context() as patched:
        patched.setattr(Replay, "run", killed)
        with pytest.raises(Killed):
            run(make(case, checkpoint=tmp_path / "state"))
    job = make(case, checkpoint=tmp_path / "state")
    resumed = run(job)
    assert resumed.resumed_at == 4
    assert np.array_equal(resumed.logits, expected)
    if job.prepared is not None:
        assert job.prepared.check(resumed.resumed_at).steps == 12


@pytest.mark.parametrize("case", PLAIN)
def test_a_captured_run_without_privacy_is_the_usual_one(capturing, case):  # noqa: F811
    from dpgraph.engine.training.captured.dispatch import DEVICES

    captured = run(plain(case))
    DEVICES.discard("cpu")
    usual = run(plain(case))
    assert captured.notes["step"] == "captured"
    assert "step" not in usual.notes
    np.testing.assert_allclose(captured.logits, usual.logits, rtol=1e-4, atol=1e-5)


def test_what_is_not_captured_says_why(capturing):  # noqa: F811
    """What `explain` says of a cell is what a run notes."""
    job = job_of("relation-head", {}, 3, training={"warm_up": 0.4})[0]
    assert "learning rate" in run(job).notes["step"]
    assert "learning rate" in spec(job.cell.method).why_not_captured(job.cell)
    assert not any(spec(job.cell.method).why_not_captured(job.cell) for job in all_jobs())
    job = plain("encoder")
    texts = job.cell.model_copy(update={"model": job.cell.model.model_copy(update={"encoder": "bert-base"})})
    assert "texts" in spec("relation-encoder").why_not_captured(texts)
