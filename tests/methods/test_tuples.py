"""Training on tuples: learns where there is something to learn, and resumes bit by bit."""

import numpy as np
import pytest
import torch

from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.registry import method
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.problems.registry import problem_of
from dpgraph.training.tuples import PlainRelationStep, RelationStep
from tests.contract.values import prepared

CPU = torch.device("cpu")
TASK = {"dataset": "demo-relations", "split": "random-60-15-25"}


def job_of(name, model, steps, checkpoint=None, **others):
    training = {
        "learning_rate": 0.01,
        "steps": steps,
        "sampling_rate": 0.02,
        "negatives": 4,
        **others.pop("training", {}),
    }
    cell = resolve({"task": TASK, "method": name, "model": model, "training": training, "seeds": [0], **others})
    value, working = prepared(cell.task), problem_of(cell.task).working()
    counts = working.counts(value)
    calibration = calibrate(cell, counts.num_train, num_protected=counts.num_protected)
    (job,) = make_jobs(value, cell, [0], calibration, CPU, checkpoint)
    return job, value, working


def run(job):
    return method(job.cell.method).run(job, lambda step, states: {"step": step})


def mrr(job, value, working):
    metrics = working.evaluate(value, run(job).logits, 1, final=True)
    return {one.metric: one.value for one in metrics}["mrr/test"]


def test_training_beats_what_it_starts_from():
    """Without privacy, and at an epsilon at which noise is small."""
    start = mrr(*job_of("relation-head", {"head": "linear", "width": 16}, 1))
    head = mrr(*job_of("relation-head", {"head": "linear", "width": 16}, 150))
    tower = mrr(*job_of("relation-encoder", {"encoder": "mlp", "width": 16}, 150))
    assert head > start + 0.01
    assert tower > start + 0.01


def test_the_base_encoder_is_where_fine_tuning_starts(monkeypatch):
    """Its states are those of the tower before a step, whatever the training settings."""
    model = {"encoder": "mlp", "width": 4}
    monkeypatch.setattr(PlainRelationStep, "__call__", lambda self: 1)
    start = run(job_of("relation-encoder", model, 1)[0]).logits
    cell = {"task": TASK, "method": "base-encoder", "model": model, "seeds": [0]}
    cell = resolve(cell | {"training": {"learning_rate": 0.5, "steps": 7, "sampling_rate": 0.3}})
    value, counts = prepared(cell.task), problem_of(cell.task).working().counts(prepared(cell.task))
    calibration = calibrate(cell, counts.num_train, num_protected=counts.num_protected)
    (job,) = make_jobs(value, cell, [0], calibration, CPU, None)
    assert np.array_equal(run(job).logits, start)


@pytest.mark.parametrize(
    ("name", "model", "kind", "privacy"),
    [
        ("dp-relation-encoder", {"encoder": "mlp", "width": 4}, RelationStep, {"noise_multiplier": 2.0}),
        ("dp-relation-head", {}, RelationStep, {"noise_multiplier": 2.0, "variant": "published"}),
        ("relation-encoder", {"encoder": "mlp", "width": 4}, PlainRelationStep, None),
    ],
)
def test_a_killed_run_goes_on_bit_by_bit(tmp_path, monkeypatch, name, model, kind, privacy):
    """Same batches, negatives and noise after the checkpoint, and what ran is what was accounted for."""
    others = {"privacy": privacy} if privacy is not None else {}
    unbroken = run(job_of(name, model, 6, **others)[0]).logits
    monkeypatch.setenv("DPGRAPH_CHECKPOINT_SECONDS", "0")
    original, calls = kind.__call__, []

    def killed(self):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            run(job_of(name, model, 6, tmp_path / "state", **others)[0])
    job, _, _ = job_of(name, model, 6, tmp_path / "state", **others)
    outcome = run(job)
    assert outcome.resumed_at == 4
    assert np.array_equal(outcome.logits, unbroken)
    if job.prepared is not None:
        assert job.prepared.check(outcome.resumed_at).steps == 6


def test_capped_tuples_without_privacy_are_fewer(monkeypatch):
    seen = []
    original = PlainRelationStep.__call__
    monkeypatch.setattr(
        PlainRelationStep, "__call__", lambda self: (seen.append(len(self.batches.tuples)), original(self))[1]
    )
    for cap in (None, 2):
        run(job_of("relation-head", {}, 1, training={"max_degree": cap})[0])
    assert seen[1] < seen[0] / 2
