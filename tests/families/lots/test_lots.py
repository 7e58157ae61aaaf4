"""Lots of records: what a step computes, what one record moves, and runs that are broken off."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN
from dpgraph.engine.methods.assembly import set_up
from dpgraph.families.jobs import make_jobs
from dpgraph.families.lots.mechanism import ShuffledLots
from dpgraph.families.lots.prepared import LotSchedule, clipped
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
NOISE, CLIP = 4.0, 0.5


def cell(variant="published", method_name="dp-lots", dropout=0.5, batch_size=7, steps=9, clip_norm=CLIP):
    private = variant is not None
    value = {
        "task": {"dataset": "toy"},
        "method": method_name,
        "model": {"architecture": "mlp", "hops": 0, "width": 8, "activation": "relu", "dropout": dropout},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": batch_size, "steps": steps},
        "seeds": [0],
    }
    if private:
        value["privacy"] = {"variant": variant, "noise_multiplier": NOISE, "clip_norm": clip_norm, "delta": 1e-5}
    return resolve(value)


def job(asked, graph, checkpoint=None):
    return make_jobs(graph, asked, [0], calibrate(asked, len(graph.train_nodes), default_cache()), CPU, checkpoint)[0]


def lot_step(graph, asked, std=0.0):
    found = job(asked, graph)
    bench = set_up(found)
    found.prepared.noise.std = std
    return found.prepared.step(bench.network, bench.optimizer)


def moved(step):
    before = [p.detach().clone() for p in step.network.parameters()]
    count = step()
    after = list(step.network.parameters())
    return count, torch.cat([(new.detach() - old).flatten() for new, old in zip(after, before)])


@given(records=st.integers(1, 40), size=st.integers(1, 45), epoch=st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_every_record_is_in_one_lot_of_each_epoch(records, size, epoch):
    lots = LotSchedule(records, size, ("lots",))
    steps = range(epoch * lots.per_epoch, (epoch + 1) * lots.per_epoch)
    drawn = [lots.lot(step) for step in steps]
    assert sorted(np.concatenate(drawn).tolist()) == list(range(records))
    assert all(len(lot) == min(size, records) for lot in drawn[:-1])
    if size < records:
        mechanism = ShuffledLots(num_roots=records, batch_size=size, steps=1, delta=1e-5, noise_multiplier=1.0)
        assert mechanism.lots_per_epoch == lots.per_epoch


def test_epochs_differ_and_a_lot_is_a_function_of_its_step():
    lots = LotSchedule(100, 30, ("lots", 1))
    first = [lots.lot(step).tolist() for step in range(12)]
    assert [LotSchedule(100, 30, ("lots", 1)).lot(step).tolist() for step in (7, 2, 11)] == [
        first[i] for i in (7, 2, 11)
    ]
    assert first[0] != first[4]
    assert LotSchedule(100, 30, ("lots", 2)).lot(0).tolist() != first[0]


@pytest.mark.parametrize("clip_norm", [1e-3, 1e3])
def test_a_step_moves_by_the_clipped_mean_gradient(clip_norm):
    graph = toy_graph()
    asked = cell(dropout=0.0, clip_norm=clip_norm)
    step = lot_step(graph, asked)
    network, lot = step.network, graph.train_nodes[step.lots.lot(0)]
    features, labels = torch.from_numpy(graph.features[lot]), torch.from_numpy(graph.labels[lot])
    logits = network.decoder(network.encoder(features))
    gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels), list(network.parameters()))
    gradient = torch.cat([part.flatten() for part in gradients])
    expected = -0.1 * gradient * min(1, clip_norm / gradient.norm())
    count, change = moved(step)
    assert count == 7
    torch.testing.assert_close(change, expected, rtol=1e-4, atol=1e-7)
    assert change.norm() <= 0.1 * clip_norm * (1 + 1e-5)


def test_noise_has_the_stated_std_and_is_not_divided_by_the_lot():
    graph = toy_graph()
    wide = cell(clip_norm=2.0)
    step = lot_step(graph, wide.model_copy(update={"model": wide.model.model_copy(update={"width": 4096})}), std=8.0)
    _, change = moved(step)
    assert (change / 0.1).std() == pytest.approx(8.0, rel=5 / math.sqrt(2 * len(change)))


def test_one_record_turns_a_lot_around_but_no_other_step():
    """Up to 2 C, whatever else the lot holds, and only in the one lot of the epoch that has the record."""
    graph = toy_graph()
    asked = cell(dropout=0.0, batch_size=10, steps=4, clip_norm=1e-2)
    victim = graph.train_nodes[3]
    # the others' inputs are about nothing, so the record decides where the lot's gradient points
    features = np.where(np.arange(graph.num_nodes)[:, None] == victim, 50.0, 1e-4).astype(np.float32) * np.ones(5)
    labels = graph.labels.copy()
    labels[victim] = (labels[victim] + 1) % 3
    left = replace(graph, features=features.astype(np.float32))
    right = replace(left, labels=labels)
    distances = []
    for number in range(4):
        changes = []
        for side in (left, right):
            step = lot_step(side, asked)
            step.start_at(number)
            holds = victim in side.train_nodes[step.lots.lot(number)]
            changes.append(moved(step)[1])
        distance = float((changes[0] - changes[1]).norm()) / (0.1 * 1e-2)
        distances.append(distance)
        assert (distance > 0) == holds
    assert len([d for d in distances if d > 0]) == 1
    assert 1 < max(distances) <= 2 + 1e-4  # more than C: removing a record's own term is not what clipping bounds


def test_a_gradient_that_is_not_finite_contributes_nothing():
    for bad in (float("nan"), float("inf")):
        parts = clipped([torch.tensor([1.0, bad]), torch.tensor([[3.0]])], 1.0)
        assert [part.tolist() for part in parts] == [[0.0, 0.0], [[0.0]]]
    assert clipped([torch.tensor([3.0]), torch.tensor([4.0])], 1.0)[1].item() == pytest.approx(0.8)
    assert clipped([torch.zeros(2)], 1.0)[0].tolist() == [0.0, 0.0]
    assert clipped([torch.tensor([3e5]), torch.tensor([-4.0])], math.inf)[0].item() == 3e5
    assert clipped([torch.zeros(2)], math.inf)[0].tolist() == [0.0, 0.0]
    far = torch.full((10**6,), 1.4e38)  # times a subnormal number, of few digits, it was 1.96 C long
    assert not clipped([far], 1e-4)[0].any()
    assert clipped([1e-8 * far], 1e-4)[0].double().norm() == pytest.approx(1e-4)


def test_released_lots_are_not_clipped():
    """With the same seeds, noise and lots as the clipped ones, a small clip norm makes the difference."""
    graph = toy_graph()
    jobs = [job(cell(v, clip_norm=1e-3), graph) for v in ("published", "released")]
    one, other = (method("dp-lots").run(each, lambda step, logits: {}) for each in jobs)
    assert not np.array_equal(one.logits, other.logits)
    statements = [each.calibration.statement for each in jobs]
    assert statements[1].rigorous.epsilon is None
    assert statements[1].published.epsilon == statements[0].published.epsilon


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("variant", "name"), [("published", "dp-lots"), ("rigorous", "dp-lots"), ("rigorous", "dp-mlp"), (None, "mlp")]
)
def test_a_killed_run_goes_on_in_the_middle_of_its_epoch(tmp_path, monkeypatch, variant, name):
    """Batches, masks and noise of the steps after the checkpoint are those of an unbroken run."""
    graph, asked = toy_graph(), cell(variant, name)
    whole = method(name).run(job(asked, graph), lambda step, logits: {})
    monkeypatch.setattr("dpgraph.engine.training.checkpoint.Checkpoint.due", lambda self: True)
    saves = []

    def killed(self, step, *rest):
        saves.append(step)
        original(self, step, *rest)
        if step == 4:
            raise Killed

    from dpgraph.engine.training.checkpoint import Checkpoint

    original = Checkpoint.save
    path = tmp_path / "checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", killed)
        with pytest.raises(Killed):
            method(name).run(job(asked, graph, path), lambda step, logits: {})
    resumed = method(name).run(job(asked, graph, path), lambda step, logits: {})
    assert saves == [1, 2, 3, 4]
    assert resumed.notes["resumed_at"] == 4
    assert np.array_equal(whole.logits, resumed.logits)


def test_images_without_edges(tmp_path):
    """A miniature of MNIST: no edge, no validation node."""
    random = np.random.default_rng(0)
    nothing = np.zeros(201, dtype=np.int64), np.zeros(0, dtype=np.int32)
    labels = np.arange(200) % 2
    features = (random.random((200, 6)) * 0.1 + np.eye(6)[labels]).astype(np.float32)
    split = np.where(np.arange(200) < 160, TRAIN, 2).astype(np.uint8)
    graph = Graph(
        name="images",
        out_ptr=nothing[0],
        out_idx=nothing[1],
        in_ptr=nothing[0],
        in_idx=nothing[1],
        features=features,
        labels=labels,
        split=split,
        num_classes=2,
    )
    asked = cell("rigorous", dropout=0.2, batch_size=40, steps=60, clip_norm=1.0)
    outcome = method("dp-lots").run(job(asked, graph), lambda step, logits: {})
    assert (outcome.logits.argmax(1) == labels)[split == 2].mean() > 0.9
