"""The loop: T steps, observations where asked, and resumption that repeats the broken run bit by bit."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Training
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler
from dpgraph.engine.sampling.edge_lists import full_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training.checkpoint import Checkpoint, seconds_between
from dpgraph.engine.training.clipping import clipped_gradient_sum
from dpgraph.engine.training.loop import Diverged, train
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import PlainStep
from tests.engine.training.steps import private_step, term_of

ADAM = Training(optimizer="adam", learning_rate=0.01, steps=10)
STEPS = 12


class Killed(Exception):
    """Stands for a killed process."""


def private_run(graph, network, checkpoint=None, kill_at=None, steps=STEPS):
    """A run of 12 private Adam steps, observed at 4, 8 and 12; the parameters' sum is the metric."""
    trees = pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, 1)
    features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    batches, noise = numpy_generator("batches"), torch_generator("noise")
    optimizer = make_optimizer(network.parameters(), ADAM)
    term = term_of(trees, PoissonSampler(trees.num_roots, 0.3), 1.0)
    step = private_step(network, optimizer, features, labels, [term], 0.5, 13.5, batches, noise)
    calls = 0

    def counted() -> int:
        nonlocal calls
        calls += 1
        if calls == kill_at:
            raise Killed
        return step()

    def observe(done, net):
        assert not torch.is_grad_enabled()
        return {"step": done, "value": sum(p.sum().item() for p in net.parameters())}

    generators = {"batches": batches, "noise": noise}
    record = train("run", network, optimizer, counted, steps, observe, {4, 8, 12}, generators, checkpoint)
    return record, calls


def test_takes_exactly_t_steps_and_observes_where_asked(graph, make_network):
    record, calls = private_run(graph, make_network())
    assert calls == STEPS
    assert [row["step"] for row in record.rows] == [4, 8, 12]
    assert record.device == "cpu"
    assert record.peak_memory_bytes > 2**20
    assert record.steps_per_second > 0


@pytest.mark.parametrize("kill_at", [1, 3, 9, 12])
def test_resumed_run_is_bit_identical(graph, make_network, tmp_path, kill_at):
    whole = make_network()
    expected, _ = private_run(graph, whole)
    path = tmp_path / "seed0.pt"
    with pytest.raises(Killed):
        private_run(graph, make_network(), Checkpoint(path, "cell-0", every_seconds=0), kill_at)
    assert path.exists() == (kill_at > 1)
    resumed = make_network()
    record, calls = private_run(graph, resumed, Checkpoint(path, "cell-0", every_seconds=0))
    assert (record.resumed_at, calls) == (kill_at - 1, STEPS - kill_at + 1)
    assert record.rows == expected.rows
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    # until the results are written the last checkpoint stays
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_checkpoints_come_at_most_every_n_seconds(graph, make_network, tmp_path):
    path = tmp_path / "seed0.pt"
    with pytest.raises(Killed):
        private_run(graph, make_network(), Checkpoint(path, "cell-0", every_seconds=3600), 10)
    assert not path.exists()


def killed_at_5(graph, make_network, path):
    with pytest.raises(Killed):
        private_run(graph, make_network(), Checkpoint(path, "cell-0", every_seconds=0), 5)


def test_checkpoint_of_another_run_is_refused(graph, make_network, tmp_path):
    path = tmp_path / "seed0.pt"
    killed_at_5(graph, make_network, path)
    with pytest.raises(UserError, match="checkpoint of run cell-0: expected cell-1"):
        private_run(graph, make_network(), Checkpoint(path, "cell-1"))
    assert path.exists()


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    """One bit of a parameter: torch.load would take it."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda content: b"", lambda content: b"\0" * len(content)])
def test_a_damaged_checkpoint_is_put_aside_and_the_run_is_the_same(graph, make_network, tmp_path, caplog, damage):
    whole, anew = make_network(), make_network()
    expected, _ = private_run(graph, whole)
    path = tmp_path / "seed0.pt"
    killed_at_5(graph, make_network, path)
    path.write_bytes(damage(path.read_bytes()))
    checkpoint = Checkpoint(path, "cell-0", every_seconds=3600)
    record, calls = private_run(graph, anew, checkpoint)
    assert (record.resumed_at, calls) == (0, STEPS)
    assert record.rows == expected.rows
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), anew.parameters(), strict=True))
    assert "seed0.pt: not usable (damaged): moved aside, training starts from the beginning" in caplog.text
    checkpoint.remove()
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_fits_in_part_leaves_no_trace(graph, make_network, tmp_path, caplog):
    """The states of a generator come last; another device's have another size."""
    whole, anew = make_network(), make_network()
    private_run(graph, whole)
    path = tmp_path / "seed0.pt"
    killed_at_5(graph, make_network, path)
    content = torch.load(io.BytesIO(path.read_bytes()[32:]), weights_only=True)
    content["generators"]["noise"] = content["generators"]["noise"][:16]
    buffer = io.BytesIO()
    torch.save(content, buffer)
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    record, _ = private_run(graph, anew, Checkpoint(path, "cell-0"))
    assert record.resumed_at == 0
    assert "not usable" in caplog.text
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), anew.parameters(), strict=True))


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_the_interval_of_checkpoints_is_checked(text):
    with pytest.raises(UserError, match=f"DPGRAPH_CHECKPOINT_SECONDS={text}: expected a number of seconds >= 0"):
        seconds_between({"DPGRAPH_CHECKPOINT_SECONDS": text})


def test_the_interval_of_checkpoints():
    assert [seconds_between({"DPGRAPH_CHECKPOINT_SECONDS": text}) for text in ("", "0", "2.5")] == [60, 0, 2.5]
    assert seconds_between({}) == 60


def test_divergence_is_an_error_with_its_step_and_leaves_no_false_checkpoint(graph, make_network, tmp_path):
    network = make_network()
    calls = 0

    def step() -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            with torch.no_grad():
                network.decoder.layers[0].bias[0] = float("nan")
        return 1

    optimizer = make_optimizer(network.parameters(), ADAM)
    checkpoint = Checkpoint(tmp_path / "c.pt", "cell-0", every_seconds=0)
    with pytest.raises(Diverged, match="after step 3") as error:
        train("run", network, optimizer, step, 5, lambda done, net: {}, {4}, {}, checkpoint)
    assert error.value.step == 3
    assert Checkpoint(tmp_path / "c.pt", "cell-0").restore(network, optimizer, {})[0] == 2


def test_divergence_in_the_last_step_is_seen_without_observations(make_network):
    network = make_network()

    def step() -> int:
        with torch.no_grad():
            network.decoder.layers[0].bias[0] = float("inf")
        return 1

    optimizer = make_optimizer(network.parameters(), ADAM)
    with pytest.raises(Diverged, match="after step 2"):
        train("run", network, optimizer, step, 2, lambda done, net: {}, (), {})


def test_training_learns_labels_that_only_neighbours_tell(graph, make_network):
    """Labels are a function of the mean of the neighbours' features: the GCN fits them, with and without privacy."""
    trees = pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, 1)
    features = torch.from_numpy(graph.features)
    teacher = FullGraph(graph).logits(make_network(1, dtype=torch.float32), 3 * features)
    labels = teacher.argmax(1)
    training = Training(optimizer="adam", learning_rate=0.03, steps=150)
    majority = labels[graph.train_nodes].bincount().max().item() / len(graph.train_nodes)
    for private in (False, True):
        network = make_network(1, dtype=torch.float32)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=torch_generator(private)))
        optimizer = make_optimizer(network.parameters(), training)
        batches, noise = numpy_generator("batches"), torch_generator("noise")
        sampler = FixedSizeSampler(trees.num_roots, 20)
        if private:
            term = term_of(trees, sampler, 1.0)
            step = private_step(network, optimizer, features, labels, [term], 0.5, 20.0, batches, noise)
        else:
            step = PlainStep(network, optimizer, trees, features, labels, sampler, batches)
        train("run", network, optimizer, step, 150, lambda done, net: {}, (), {"batches": batches, "noise": noise})
        right = network(trees.batch(np.arange(trees.num_roots)), features).argmax(1) == labels[graph.train_nodes]
        assert right.float().mean() > (1 + majority) / 2
        assert clipped_gradient_sum(network, trees, np.arange(5), features, labels, 1.0).dropped == 0
