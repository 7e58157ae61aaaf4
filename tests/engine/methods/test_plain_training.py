"""Weight decay, dropout and early stopping of GNN and MLP without privacy."""

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.engine.methods import assembly
from dpgraph.engine.models.inference import FullGraph, PartOfGraph
from dpgraph.engine.models.segments import Segments
from dpgraph.engine.sampling.edge_lists import EdgeLists
from dpgraph.engine.sampling.ego import closed_hop
from dpgraph.engine.training.iterates import StoppingStep, WatchedNetwork, validation_scores
from dpgraph.engine.training.steps import BatchStep
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.trees import plain
from dpgraph.planning.resolve import calibrate
from dpgraph.privacy.cache import default_cache
from tests.contract.cells import changed
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
KINDS = ["gnn-1-stopping", "gnn-2-stopping", "mlp-0-stopping", "gnn-1-none", "mlp-0-none"]


class Killed(Exception):
    pass


def job_of(name, checkpoint=None, graph=None, model=None, **training):
    cell = changed(name, training=training, model=model or {})
    graph = toy_graph() if graph is None else graph
    (job,) = make_jobs(graph, cell, [0], calibrate(cell, len(graph.train_nodes), default_cache()), CPU, checkpoint)
    return job


def run(name, observe=lambda step, logits: {"step": step}, **given):
    job = job_of(name, **given)
    return method(job.cell.method).run(job, observe)


def looked_at(monkeypatch, name, **training):
    """The run, and the current parameters' logits of all nodes at each look."""
    looks, whole = [], FullGraph(toy_graph())
    real = PartOfGraph.logits

    def logits(self, network, features):
        looks.append(whole.logits(network, features).clone())
        return real(self, network, features)

    monkeypatch.setattr(PartOfGraph, "logits", logits)
    return run(name, evaluations=1, **training), looks


@pytest.mark.parametrize("by", ["loss", "accuracy"])
@pytest.mark.parametrize("name", ["gnn-1-stopping", "mlp-0-stopping"])
@pytest.mark.parametrize("rate", [1.0, 0.34])
def test_the_best_look_is_kept_and_patience_ends_the_run(monkeypatch, name, by, rate):
    """By hand, from all looks of the same run."""
    graph, patience, steps = toy_graph(), 3, 60
    every = -(-40 // round(40 * rate))  # steps of an epoch
    outcome, looks = looked_at(
        monkeypatch, name, stop_on=by, patience=patience, sampling_rate=rate, steps=steps, learning_rate=0.3
    )
    nodes = np.flatnonzero(graph.split == VALIDATION)
    scores = [validation_scores(one[nodes], torch.from_numpy(graph.labels[nodes]), by) for one in looks]
    best, waited = 0, 0
    for index in range(1, len(scores)):
        best, waited = (index, 0) if scores[index] > scores[best] else (best, waited + 1)
        if waited == patience:
            break
    assert index == len(scores) - 1 < steps // every - 1  # no look after the last one that was needed
    assert outcome.notes["best_at"] == every * (best + 1)
    assert outcome.notes["stopped_at"] == every * len(scores)
    assert np.array_equal(outcome.logits, looks[best].numpy())
    assert len({one.numpy().tobytes() for one in looks}) == len(looks)


def test_steps_that_an_early_stop_spares_are_no_speed():
    """As many steps per second as without the spared ones, up to the clock: not ten times as many."""
    job = job_of("mlp-0-stopping", steps=50, evaluations=1)
    bench = assembly.set_up(job)
    watched = WatchedNetwork(bench.network, assembly.initial_network(job, bench.features.shape[1]))
    stopped = assembly.SeedRun(job, bench, lambda: 0, {}, watched=watched)
    watched.done.fill_(20)
    assert [stopped.share_of_steps(resumed) for resumed in (0, 10, 30, 50)] == pytest.approx([0.4, 0.25, 0, 1])
    assert assembly.SeedRun(job, bench, lambda: 0, {}).share_of_steps(0) == 1


def test_scores_prefer_less_loss_among_equal_accuracies():
    labels = torch.tensor([0, 1])
    sure, unsure = torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    wrong = torch.tensor([[9.0, 0.0], [9.0, 0.0]])
    assert validation_scores(sure, labels, "accuracy") > validation_scores(unsure, labels, "accuracy")
    assert validation_scores(unsure, labels, "accuracy")[0] == 1 > validation_scores(wrong, labels, "accuracy")[0]
    expected = float(torch.nn.functional.cross_entropy(unsure, labels))
    assert -validation_scores(unsure, labels, "loss")[0] == pytest.approx(expected)
    assert not validation_scores(torch.full((2, 2), torch.nan), labels, "loss") > (-np.inf, -np.inf)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kill_at", [2, "after the best", "after the end"])
def test_a_killed_run_goes_on_bit_by_bit(tmp_path, monkeypatch, name, kill_at):
    """A checkpoint after each step; the best look, how long none was better, and the end have to be in it."""
    monkeypatch.setenv("DPGRAPH_CHECKPOINT_SECONDS", "0")
    stopping = {"patience": 4} if name.endswith("stopping") else {}
    training = {"steps": 60, "learning_rate": 0.3, "evaluations": 3, **stopping}
    whole, path = run(name, **training), tmp_path / "seed0.pt"
    best, end = whole.notes.get("best_at", 7), whole.notes.get("stopped_at", 20)
    assert 0 < best < end < 50
    if stopping:
        assert end - best == 4
    kill_at = {"after the best": best + 3, "after the end": end + 3}.get(kill_at, kill_at)
    real, calls = (StoppingStep if name.endswith("stopping") else plain.PlainStep), []
    if name == "gnn-1-none":
        real = BatchStep
    call = real.__call__

    def killed(self):
        calls.append(1)
        if len(calls) == kill_at:
            raise Killed
        return call(self)

    with monkeypatch.context() as patch:
        patch.setattr(real, "__call__", killed)
        with pytest.raises(Killed):
            run(name, checkpoint=path, **training)
    resumed = run(name, checkpoint=path, **training)
    assert resumed.resumed_at == kill_at - 1
    assert np.array_equal(whole.logits, resumed.logits)
    assert resumed.observations == whole.observations
    assert {**resumed.notes, "resumed_at": 0} == whole.notes


def test_weight_decay_is_an_l2_penalty_of_all_parameters(monkeypatch):
    """One SGD step from the initial parameters p: p - rate (gradient + decay p)."""
    decay, rate = 0.2, 0.5
    trained = {}
    for value in (0.0, decay):
        training = {"sampling_rate": 1.0, "optimizer": "sgd", "learning_rate": rate, "weight_decay": value}
        job = job_of("mlp-0-none", steps=1, evaluations=1, **training)
        bench = assembly.set_up(job)
        initial = torch.nn.utils.parameters_to_vector(bench.network.parameters()).detach().clone()
        monkeypatch.setattr(assembly, "set_up", lambda _, bench=bench: bench)
        method("mlp").run(job, lambda step, logits: {})
        monkeypatch.undo()
        trained[value] = torch.nn.utils.parameters_to_vector(bench.network.parameters()).detach()
    torch.testing.assert_close(trained[decay], trained[0.0] - rate * decay * initial)


@pytest.mark.parametrize("name", ["gnn-1-none", "gnn-2-none", "mlp-0-none"])
def test_dropout_trains_otherwise_and_predicts_whole(name):
    dropped = run(name, model={"dropout": 0.5}, evaluations=1)
    again = run(name, model={"dropout": 0.5}, evaluations=1)
    assert np.array_equal(dropped.logits, again.logits)
    assert not np.allclose(dropped.logits, run(name, evaluations=1).logits, atol=1e-3)


def test_dropout_follows_each_hidden_layer():
    """Half of what each message-passing layer and the decoder read is zero, in a network whose states are not."""
    job = job_of("gnn-2-none", model={"dropout": 0.5, "width": 100})
    network, seen = assembly.set_up(job).network, []
    for layer in [*network.aggregation, network.decoder]:
        layer.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0] == 0).double().mean().item()))
    hop = closed_hop(EdgeLists(np.asarray(job.graph.out_ptr), np.asarray(job.graph.out_idx)), CPU)
    features, segments = torch.from_numpy(job.graph.features), Segments.of_graph(hop)
    network.decoder(network.on_graph(features, segments))
    assert seen == pytest.approx([0.5, 0.5, 0.5], abs=0.05)
    seen.clear()
    network.eval()
    network.decoder(network.on_graph(features, segments))
    assert seen == [0, 0, 0]


def test_an_mlp_with_dropout_reads_all_records_in_one_product():
    """The whole-graph step without hops: without dropout its gradient is that of the closed form."""
    job = job_of("mlp-0-none", sampling_rate=1.0)
    logits = []
    for dropped in (0.0, 1e-9):
        other = job_of("mlp-0-none", sampling_rate=1.0, model={"dropout": dropped}, steps=3, evaluations=1)
        logits.append(method("mlp").run(other, lambda step, logits: {}).logits)
    np.testing.assert_allclose(*logits, atol=1e-5)
    assert job.cell.model.dropout == 0


def test_early_stopping_needs_validation_nodes():
    graph = toy_graph()
    graph.split.flags.writeable = True
    graph.split[graph.split == VALIDATION] = TRAIN
    with pytest.raises(UserError, match=r"^patience=1: expected null: the split has no validation nodes$"):
        run("mlp-0-stopping", graph=graph)


def test_what_to_stop_on_is_read_with_patience_only():
    with pytest.raises(UserError, match="patience=null, stop_on=accuracy: expected stop_on only with patience"):
        changed("mlp-0-none", training={"stop_on": "accuracy"})
