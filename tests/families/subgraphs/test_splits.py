"""Graph splits through the train stage: what resumes, what a node may change."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TRAIN
from dpgraph.data.store import save_graph
from dpgraph.engine.methods.assembly import used_nodes
from dpgraph.engine.training.checkpoint import Checkpoint
from dpgraph.engine.training.iterates import WatchedNetwork
from dpgraph.engine.training.loop import Diverged
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.pipeline.stages import train_cell
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import cell as any_cell
from tests.contract.cells import split_cell as calibrated_cell
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
METHODS = [("kipf-gcn", None), ("dp-subgraph", "rigorous"), ("dp-subgraph", "cut"), ("dp-subgraph", "published")]
every_variant = pytest.mark.parametrize(("name", "variant"), METHODS)


def split_cell(name, variant, parts, **training):
    """The contract's cell with its noise given, so that nothing is to be solved."""
    cell = calibrated_cell(name, variant, parts, **training)
    if cell.privacy is None:
        return cell
    privacy = cell.privacy.model_copy(update={"epsilon": None, "noise_multiplier": 3.0})
    return cell.model_copy(update={"privacy": privacy})


@pytest.fixture
def folder(tmp_path):
    save_graph(toy_graph(), tmp_path / "graph")
    return tmp_path / "graph"


def seeded(cell, *seeds):
    return resolve({**cell.model_dump(), "seeds": seeds})


def metrics(record):
    return {seed.seed: seed.metrics for seed in record.seeds}


def trained(cell, graph, seed=0, checkpoint=None, observe=lambda step, logits: {"step": step}):
    (job,) = make_jobs(graph, cell, [seed], calibrate(cell, len(graph.train_nodes), default_cache()), CPU, checkpoint)
    return method(cell.method).run(job, observe)


def test_only_new_seeds_are_trained(folder, tmp_path):
    cell = split_cell("dp-subgraph", "cut", 3)
    first = train_cell(seeded(cell, 0, 1), tmp_path / "out", folder, device="cpu")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("seed=?.json")}
    more = train_cell(seeded(cell, 0, 1, 2, 3), tmp_path / "out", folder, device="cpu")
    assert all((tmp_path / "out" / name).stat().st_mtime_ns == at for name, at in before.items())
    assert {seed: metrics(more)[seed] for seed in (0, 1)} == metrics(first)
    assert not list((tmp_path / "out").glob("*.checkpoint"))


class Killed(Exception):
    pass


@every_variant
def test_a_killed_run_goes_on_bit_by_bit(tmp_path, monkeypatch, name, variant):
    """Killed after its second observation, in the middle of an epoch; a checkpoint after each step."""
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    cell = split_cell(name, variant, 4, steps=19, evaluations=4, optimizer="adam")
    graph = toy_graph()
    whole, seen = trained(cell, graph), []

    def observe(step, logits):
        seen.append(step)
        if len(seen) == 2:
            raise Killed
        return {"step": step}

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        trained(cell, graph, 0, path, observe)
    assert path.exists()
    resumed = trained(cell, graph, 0, path)
    assert resumed.notes["resumed_at"] == 9
    assert np.array_equal(whole.logits, resumed.logits)
    assert whole.observations == resumed.observations
    assert path.exists()  # the stage removes it, once its results are written
    with pytest.raises(UserError, match="checkpoint of run"):
        trained(cell, graph, 2, path)


def test_early_stopping_through_the_stage(folder, tmp_path):
    cell = split_cell("kipf-gcn", None, 1, steps=600, patience=4, learning_rate=0.5, optimizer="sgd", evaluations=1)
    record = train_cell(seeded(cell, 0, 1), tmp_path / "out", folder, device="cpu")
    stops = [seed.notes["stopped_at"] for seed in record.seeds]
    assert all(0 < at < 600 for at in stops)
    assert stops[0] != stops[1]
    longer = split_cell("kipf-gcn", None, 1, steps=900, patience=4, learning_rate=0.5, optimizer="sgd", evaluations=1)
    other = train_cell(seeded(longer, 0, 1), tmp_path / "longer", folder, device="cpu")
    final = [
        [m.value for m in seed.metrics if m.metric == "accuracy/test"] for r in (record, other) for seed in r.seeds
    ]
    assert final[:2] == final[2:]
    unsplit = replace(toy_graph(), split=np.zeros(60, dtype=np.uint8))
    with pytest.raises(UserError, match="patience=4: expected null"):
        trained(cell, unsplit)


def test_a_run_in_which_all_diverge(folder, tmp_path):
    wild = split_cell("kipf-gcn", None, 1, learning_rate=1e38, optimizer="sgd")
    record = train_cell(seeded(wild, 0, 1), tmp_path / "out", folder, device="cpu")
    assert record.status == "failed"
    assert all(seed.reason.startswith("diverged: parameters are not finite after step") for seed in record.seeds)
    (job,) = make_jobs(toy_graph(), wild, [0], calibrate(wild, 40), CPU)
    with pytest.raises(Diverged):
        method("kipf-gcn").run(job, lambda step, logits: {})


def without(graph: Graph, node: int) -> Graph:
    """The node's record becomes null; its place, in the split, stays."""
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    kept = (owners != node) & (graph.out_idx != node)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owners[kept], minlength=graph.num_nodes))])
    features = graph.features.copy()
    features[node] = 1000
    return replace(
        graph, out_ptr=ptr, out_idx=graph.out_idx[kept], in_ptr=ptr, in_idx=graph.out_idx[kept], features=features
    )


@pytest.mark.parametrize("variant", ["rigorous", "cut"])
def test_nodes_without_a_loss_are_not_read(variant):
    """Validation, test and unused training nodes may hold anything: the parameters stay, as logits elsewhere show."""
    graph = toy_graph()
    cell = split_cell("dp-subgraph", variant, 3)
    first = trained(cell, graph).logits
    outside = 59
    assert graph.split[outside] != TRAIN
    second = trained(cell, without(graph, outside)).logits
    far = ~reached(graph, outside)
    assert far.any()
    assert np.array_equal(first[far], second[far])
    masked = split_cell("dp-subgraph", "published", 3)
    first, second = (trained(masked, one).logits for one in (graph, without(graph, outside)))
    assert not np.array_equal(first[far], second[far])


def reached(graph, node):
    """Nodes within two hops, whose predictions read the node."""
    found = np.arange(graph.num_nodes) == node
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    for _ in range(3):
        found = found | (np.bincount(owners, weights=found[graph.out_idx], minlength=graph.num_nodes) > 0)
    return found


def test_the_share_of_training_nodes_is_used_and_nested():
    graph = toy_graph()
    labels = graph.labels.copy()
    found = []
    for share in (0.25, 0.5):
        cell = split_cell("kipf-gcn", None, 1, train_share=share)
        changed = []
        first = trained(cell, graph).logits
        for node in graph.train_nodes:
            other = labels.copy()
            other[node] = (other[node] + 1) % 3
            changed.append(not np.array_equal(first, trained(cell, replace(graph, labels=other)).logits))
        found.append(set(graph.train_nodes[np.array(changed)]))
    assert [len(used) for used in found] == [10, 20]
    assert found[0] < found[1]


@pytest.mark.parametrize("variant", [None, "released", "published", "per-node", "rigorous", "cut"])
def test_training_nodes_outside_the_share_send_no_messages(variant):
    """Their sample 'forms a single training graph' (section 5.2): predictions are those of a graph without the rest."""
    graph = toy_graph()
    cell = split_cell("kipf-gcn" if variant is None else "dp-subgraph", variant, 1, train_share=0.25)
    (job,) = make_jobs(graph, cell, [0], calibrate(cell, len(graph.train_nodes), default_cache()), CPU)
    used = used_nodes(job) if job.prepared is None else job.prepared.nodes
    left_out = np.setdiff1d(graph.train_nodes, used)
    assert len(used) == 10
    features = graph.features.copy()
    features[left_out] += 1
    first, second = (trained(cell, replace(graph, features=one)).logits for one in (graph.features, features))
    others = np.setdiff1d(np.arange(graph.num_nodes), left_out)
    assert np.array_equal(first[others], second[others])
    assert not np.array_equal(first[left_out], second[left_out])


def test_impossible_settings():
    graph = toy_graph()
    with pytest.raises(UserError, match="num_splits=30: expected an integer from 1 to"):
        trained(split_cell("kipf-gcn", None, 30), graph)
    few = replace(graph, split=np.where(graph.split == TRAIN, NO_SPLIT, graph.split))
    few.split[:2] = TRAIN
    with pytest.raises(UserError, match="num_splits=3"):
        trained(split_cell("dp-subgraph", "cut", 3), few)


def test_pure_noise_reads_no_training_record():
    """Other labels, other features of training nodes far from what is compared: nothing moves."""
    graph = toy_graph()
    cell = split_cell("dp-pure-noise", "published", 3)
    first = trained(cell, graph)
    second = trained(cell, replace(graph, labels=(graph.labels + 1) % 3))
    assert np.array_equal(first.logits, second.logits)
    assert calibrate(cell, 40).statement.rigorous.epsilon == 0
    learnt = trained(split_cell("dp-subgraph", "published", 3, model={"dropout": 0.0}), graph)
    assert not np.array_equal(learnt.logits, first.logits)


def test_baselines():
    graph = toy_graph()
    results = {}
    for name in ("random", "majority"):
        cell = any_cell(name, 0, None)
        (job,) = make_jobs(graph, cell, [0], calibrate(cell, 40, default_cache()), CPU)
        results[name] = method(name).run(job, lambda step, logits: {}).logits.argmax(1)
    assert (results["majority"] == np.bincount(graph.labels[graph.train_nodes]).argmax()).all()
    assert (np.bincount(results["random"], minlength=3) > 5).all()
    labels = np.where(np.arange(60) < 20, 2, np.arange(60) % 2)
    few = any_cell("majority", 0, None, train_share=0.1)
    (job,) = make_jobs(replace(graph, labels=labels), few, [0], calibrate(few, 40), CPU)
    assert method("majority").run(job, lambda step, logits: {}).logits[0].sum() == 4


@pytest.mark.parametrize("variant", ["rigorous", "cut"])
def test_patience_is_refused_where_something_is_proved(variant):
    with pytest.raises(UserError, match=f"patience=2: expected null for variant {variant}: validation labels"):
        split_cell("dp-subgraph", variant, 2, patience=2)


def prepared_job(cell, graph):
    (job,) = make_jobs(graph, cell, [0], calibrate(cell, len(graph.train_nodes), default_cache()), CPU)
    return job


@pytest.mark.parametrize("variant", ["published", "per-node", "released"])
def test_a_private_run_stops_and_is_accounted_for(variant):
    """After so many epochs without a better validation loss; its steps are compared up to there, and prove nothing."""
    graph = toy_graph()
    cell = split_cell("dp-subgraph", variant, 2, patience=2, steps=80, learning_rate=0.3)
    job = prepared_job(cell, graph)
    assert job.calibration.statement.rigorous.epsilon is None
    outcome = method(cell.method).run(job, lambda step, logits: {"step": step})
    stopped = outcome.notes["stopped_at"]
    assert 4 <= stopped < 80
    ran = job.prepared.check()
    assert (ran.steps, ran.noise_draws, ran.terms[0].draws) == (stopped, stopped, stopped)
    with pytest.raises(NotAsAccounted, match="ran 0, accounted"):
        prepared_job(cell, graph).prepared.check()


def test_no_run_stops_whose_mechanism_does_not_say_so():
    job = prepared_job(split_cell("dp-subgraph", "published", 2), toy_graph())
    with pytest.raises(NotAsAccounted, match="stops on validation labels, which the mechanism does not state"):
        job.prepared.stops(WatchedNetwork(torch.nn.Linear(1, 1), None))
