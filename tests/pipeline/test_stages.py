"""The train stage: records, seeds, resuming, forced reruns, failures."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Cell
from dpgraph.config.record import CellRecord
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_json
from dpgraph.data.adjacency import apply_setting
from dpgraph.data.records import DATA_DEPENDENT
from dpgraph.data.splits import random_split
from dpgraph.data.store import load_graph, save_graph
from dpgraph.engine.training.loop import Diverged
from dpgraph.families.registry import method
from dpgraph.pipeline import execute, stages
from dpgraph.pipeline.stages import calibrate_cell, train_cell
from dpgraph.planning.resolve import resolve
from dpgraph.privacy.public_numbers import tree_size
from dpgraph.problems.node_classification.work import NodeClassification
from dpgraph.reporting.aggregate import blocks
from dpgraph.reporting.records import read_record
from tests.contract.cells import CELLS, changed
from tests.contract.cells import cell as toy_cell
from tests.contract.conftest import toy_graph


@pytest.fixture
def folder(tmp_path):
    save_graph(toy_graph(), tmp_path / "graph")
    return tmp_path / "graph"


def with_seeds(cell: Cell, *seeds: int) -> Cell:
    return resolve({**cell.model_dump(), "seeds": seeds})


CELL = toy_cell("dp-gnn", 1, "rigorous")


def stamps(out):
    return {path.name: path.stat().st_mtime_ns for path in out.glob("seed=?.json")}


def test_record_has_everything(folder, tmp_path):
    record = train_cell(with_seeds(CELL, 0, 1), tmp_path / "out", folder, device="cpu")
    value = json.loads((tmp_path / "out/result.json").read_text())
    assert value["status"] == record.status == "ok"
    assert [seed["seed"] for seed in value["seeds"]] == [0, 1]
    assert value["statement"]["rigorous"]["epsilon"] <= 6
    assert {"versions", "machine", "commit", "time"} <= set(value["provenance"])
    for seed in record.seeds:
        names = {metric.metric for metric in seed.metrics}
        assert {"accuracy/train", "accuracy/val", "accuracy/test", "macro_f1/test", "class_accuracy/test"} <= names
        assert seed.seconds > 0
        assert seed.cpu_seconds > 0
        assert seed.peak_memory_bytes > 2**20
        assert seed.steps_per_second > 0
    predicted = np.load(tmp_path / "out/seed=0.predictions.npy")
    assert predicted.shape == (60,)
    assert not list((tmp_path / "out").glob("*.checkpoint"))


def test_a_record_lists_what_no_epsilon_covers_and_which_streams_were_drawn(tmp_path):
    graph = toy_graph()
    save_graph(replace(graph, meta={**graph.meta, DATA_DEPENDENT: ["features standardised"]}), tmp_path / "graph")
    record = train_cell(with_seeds(CELL, 0), tmp_path / "out", tmp_path / "graph", device="cpu")
    assert record.statement["uncovered"] == ["features standardised"]
    streams = {one["stream"]: one for one in record.statement["procedure"]["streams"]}
    assert streams["batches"] == {"stream": "batches", "secret": True, "draws": 6, "numbers": 6 * 40}
    assert streams["edge lists"]["secret"] is False


def test_one_more_seed_trains_one_seed(folder, tmp_path):
    out = tmp_path / "out"
    train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu")
    before = stamps(out)
    record = train_cell(with_seeds(CELL, 0, 1, 2), out, folder, device="cpu")
    after = stamps(out)
    assert {name: after[name] for name in before} == before
    assert len(record.seeds) == 3


def test_a_seed_keeps_the_provenance_of_its_own_training(folder, tmp_path, monkeypatch):
    out = tmp_path / "out"
    for commit, seeds in (("a", (0, 1)), ("b", (0, 1, 2))):
        made = {"commit": commit, "processor": f"processor {commit}", "versions": {"torch": commit}}
        for module in (execute, stages):
            monkeypatch.setattr(module, "provenance", lambda made=made: made)
        record = train_cell(with_seeds(CELL, *seeds), out, folder, device="cpu")
    assert [seed.provenance["versions"]["torch"] for seed in record.seeds] == ["a", "a", "b"]
    rows = {tuple(block.columns[name] for name in ("seed", "commit", "processor", "device"))
            for block in blocks(read_record(out / "result.json"))}  # fmt: skip
    assert rows == {(seed, commit, f"processor {commit}", "cpu") for seed, commit in enumerate("aab")}


def test_a_seed_is_the_same_alone_and_in_company_and_on_two_workers(folder, tmp_path):
    alone = train_cell(with_seeds(CELL, 1), tmp_path / "alone", folder, device="cpu")
    both = train_cell(with_seeds(CELL, 0, 1), tmp_path / "both", folder, device="cpu", workers=2)
    assert alone.seeds[0].metrics == both.seeds[1].metrics


def test_a_rerun_trains_what_is_not_there_and_everything_on_demand(folder, tmp_path):
    out = tmp_path / "out"
    first = train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu")
    before, result = stamps(out), (out / "result.json").read_bytes()
    train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu")
    assert stamps(out) == before
    assert (out / "result.json").read_bytes() == result
    again = train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu", again=True)
    after = stamps(out)
    assert all(after[name] > before[name] for name in before)
    assert [seed.metrics for seed in again.seeds] == [seed.metrics for seed in first.seeds]
    (out / "result.json").unlink()
    (out / "seed=1.json").unlink()
    train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu")
    assert stamps(out)["seed=0.json"] == after["seed=0.json"]


@pytest.mark.parametrize("harm", ["gone", "cut off"])
def test_a_seed_without_its_predictions_is_trained_again(folder, tmp_path, harm):
    out = tmp_path / "out"
    train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu")
    before, predicted = stamps(out), out / "seed=1.predictions.npy"
    whole = predicted.read_bytes()
    predicted.unlink()
    if harm == "cut off":
        predicted.write_bytes(whole[:-2])
    train_cell(with_seeds(CELL, 0, 1), out, folder, device="cpu")
    assert predicted.read_bytes() == whole
    assert stamps(out)["seed=0.json"] == before["seed=0.json"]
    assert stamps(out)["seed=1.json"] > before["seed=1.json"]


def test_results_of_other_source_code_are_not_trusted(folder, tmp_path, monkeypatch):
    out = tmp_path / "out"
    train_cell(with_seeds(CELL, 0), out, folder, device="cpu")
    before = stamps(out)
    monkeypatch.setattr("dpgraph.pipeline.stages.training_digest", lambda cell: "another")
    train_cell(with_seeds(CELL, 0), out, folder, device="cpu")
    assert stamps(out)["seed=0.json"] > before["seed=0.json"]


def test_a_seed_whose_noise_the_code_would_make_otherwise_is_trained_again(folder, tmp_path, monkeypatch):
    """The hash of the sources is the same here: the noise itself decides."""
    out, cell = tmp_path / "out", changed("dp-gnn-1-published", privacy={"epsilon": None, "noise_multiplier": 2.0})
    first = train_cell(cell, out, folder, device="cpu")
    before = stamps(out)
    monkeypatch.setattr("dpgraph.families.trees.published.tree_size", lambda **sizes: 2 * tree_size(**sizes))
    second = train_cell(cell, out, folder, device="cpu")
    assert stamps(out)["seed=0.json"] > before["seed=0.json"]
    ran, ran_before = (one.statement["procedure"]["noise_std"] for one in (second, first))
    assert ran == pytest.approx([2 * noise for noise in ran_before])


def test_half_written_or_foreign_seed_records_are_not_trusted(folder, tmp_path):
    out = tmp_path / "out"
    good = train_cell(with_seeds(CELL, 0), out, folder, device="cpu")
    (out / "seed=0.json").write_text('{"fingerprint": "x", "rec')
    assert train_cell(with_seeds(CELL, 0), out, folder, device="cpu").seeds[0].metrics == good.seeds[0].metrics
    other = toy_cell("dp-gnn", 1, "rigorous", learning_rate=0.5)
    assert train_cell(with_seeds(other, 0), out, folder, device="cpu").seeds[0].metrics != good.seeds[0].metrics


def test_divergence_is_a_result(folder, tmp_path):
    wild = toy_cell("gnn", 1, None, learning_rate=1e38, optimizer="sgd")
    record = train_cell(wild, tmp_path / "out", folder, device="cpu")
    assert record.status == "failed"
    assert record.reason.startswith("diverged: parameters are not finite after step")
    assert record.seeds[0].metrics == ()


def test_out_of_memory_is_a_result(folder, tmp_path, monkeypatch):
    class Hungry:
        def run(self, job, observe):
            raise MemoryError("no room")

    monkeypatch.setattr(execute, "trainer_of", lambda known: Hungry())
    record = train_cell(toy_cell("gnn", 1, None), tmp_path / "out", folder, device="cpu")
    assert (record.status, record.reason) == ("failed", "out of memory: no room")


def test_a_seed_that_ran_out_of_memory_is_trained_again_by_the_next_run(folder, tmp_path, monkeypatch):
    cell, out, real = with_seeds(toy_cell("gnn", 1, None), 0, 1, 2), tmp_path / "out", method("gnn")
    ends = {0: lambda job, observe: real.run(job, observe), 1: failing(MemoryError("no room")), 2: failing(Diverged(3))}

    class Mixed:
        def run(self, job, observe):
            return ends[job.seed](job, observe)

    monkeypatch.setattr(execute, "trainer_of", lambda known: Mixed())
    record = train_cell(cell, out, folder, device="cpu")
    assert [seed.reason.partition(":")[0] for seed in record.seeds] == ["", "out of memory", "diverged"]
    assert CellRecord.model_validate_json((out / "result.json").read_text()) == record
    before = stamps(out)
    ends[1] = ends[0]
    record = train_cell(cell, out, folder, device="cpu")
    assert [seed.status for seed in record.seeds] == ["ok", "ok", "failed"]
    assert {name for name, stamp in stamps(out).items() if stamp != before[name]} == {"seed=1.json"}


def failing(error):
    def run(job, observe):
        raise error

    return run


def test_one_failed_seed_does_not_hide_the_others(folder, tmp_path, monkeypatch):
    real = method("gnn")

    class Half:
        def run(self, job, observe):
            if job.seed == 1:
                raise Diverged(3)
            return real.run(job, observe)

    monkeypatch.setattr(execute, "trainer_of", lambda known: Half())
    record = train_cell(with_seeds(toy_cell("gnn", 1, None), 0, 1), tmp_path / "out", folder, device="cpu")
    assert record.status == "ok"
    assert [seed.status for seed in record.seeds] == ["ok", "failed"]


def test_missing_data_is_a_result(tmp_path):
    write_json(
        tmp_path / "graph/graph.json", {"name": "toy", "status": "unavailable", "reason": "data not available: x"}
    )
    calibrate_cell(CELL, tmp_path / "graph", tmp_path / "privacy.json")
    assert json.loads((tmp_path / "privacy.json").read_text())["status"] == "unavailable"
    record = train_cell(CELL, tmp_path / "out", tmp_path / "graph", tmp_path / "privacy.json")
    assert (record.status, record.reason) == ("not run", "toy: data not available: x")


def test_calibration_of_another_mechanism_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    calibrate_cell(CELL, folder, tmp_path / "privacy.json")
    train_cell(CELL, tmp_path / "out", folder, tmp_path / "privacy.json", device="cpu")
    longer = toy_cell("dp-gnn", 1, "rigorous", steps=7)
    with pytest.raises(UserError, match=r"steps=6: the cell requests 7"):
        train_cell(longer, tmp_path / "other", folder, tmp_path / "privacy.json", device="cpu")
    calibrate_cell(toy_cell("dp-residual", 1, "rigorous"), folder, tmp_path / "residual.json")
    with pytest.raises(UserError, match=r"residual\.json: .*kind=residual-trees: expected 'poisson-trees'.*run again$"):
        train_cell(CELL, tmp_path / "other", folder, tmp_path / "residual.json", device="cpu")
    assert not (tmp_path / "other/result.json").exists()
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(UserError, match="workers=0"):
        train_cell(CELL, tmp_path / "out", folder, workers=0)
    with pytest.raises(UserError, match="device=cuda"):
        train_cell(CELL, tmp_path / "out", folder, device="cuda")
    assert load_graph(folder).num_nodes == 60


def test_training_leaves_denormal_numbers_to_others(tmp_path):
    with execute.denormals_flushed():
        assert float(torch.tensor(1e-40) * 1) == 0
    assert float(torch.tensor(1e-40) * 1) > 0


def seeded(folder, setting):
    """A toy data set whose seeds have splits of their own."""
    task = {"dataset": "toy", "setting": setting, "split": "random-60-20-20"}
    whole = toy_graph()
    named = replace(whole, meta={"task": task})
    graph = apply_setting(replace(named, split=random_split(whole.labels, (60, 20, 20), "toy", task["split"])), setting)
    save_graph(graph, folder, (whole.out_ptr, whole.out_idx))
    return task


@pytest.mark.parametrize("setting", ["transductive", "disjoint"])
def test_every_seed_has_its_own_split(tmp_path, setting):
    """Alone and in company."""
    task = seeded(tmp_path / "graph", setting)
    for name in ("kipf-gcn-3-none", "gnn-1-none"):
        cell = resolve({**CELLS[name].model_dump(), "task": task, "seeds": (0, 1, 2)})
        out = tmp_path / name
        train_cell(cell, out, tmp_path / "graph", device="cpu")
        tested = [load_graph(tmp_path / "graph", split=seed).nodes_of("test") for seed in (0, 1, 2)]
        assert len({tuple(nodes) for nodes in tested}) == 3
        for seed, nodes in enumerate(tested):
            one = cell.model_copy(update={"seeds": (seed,)})
            alone = train_cell(one, tmp_path / f"{name}-{seed}", tmp_path / "graph", device="cpu")
            predicted = np.load(out / f"seed={seed}.predictions.npy")
            assert np.array_equal(predicted, np.load(tmp_path / f"{name}-{seed}/seed={seed}.predictions.npy"))
            (accuracy,) = [one.value for one in alone.seeds[0].metrics if one.metric == "accuracy/test" and one.final]
            assert accuracy == (predicted == toy_graph().labels)[nodes].mean()


def test_a_split_with_other_counts_than_the_calibrated_ones_is_refused(tmp_path, monkeypatch):
    task = seeded(tmp_path / "graph", "transductive")
    cell = resolve({**CELL.model_dump(), "task": task, "seeds": (1,)})
    moved = replace(load_graph(tmp_path / "graph"), split=np.zeros(60, dtype=np.uint8))
    genuine = NodeClassification.load
    monkeypatch.setattr(
        NodeClassification, "load", lambda *args, split, **more: moved if split else genuine(*args, split=split, **more)
    )
    with pytest.raises(TypeError, match=r"split 1: Counts\(num_train=60, .*: expected Counts\(num_train=36, "):
        train_cell(cell, tmp_path / "out", tmp_path / "graph", device="cpu")
