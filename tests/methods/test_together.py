"""Seeds on ego trees side by side, as on a GPU, here on the CPU: the same runs, one record each."""

import numpy as np
import pytest
import torch

from dpgraph.data.store import save_graph
from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import StackedMethod
from dpgraph.methods.ego_trees.train import DpGnn
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.registry import method
from dpgraph.methods.residual.train import DpResidual
from dpgraph.methods.together import stacking_pays
from dpgraph.pipeline.stages import train_cell
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.training.checkpoint import Checkpoint
from dpgraph.training.loop import Diverged
from dpgraph.training.seed_stack import StackedPrivateStep
from tests.contract.cells import cell as calibrated_cell
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))
RUNS = [
    ("dp-mlp", 0, "rigorous", "gcn"),
    ("dp-gnn", 1, "rigorous", "gcn"),
    ("dp-gnn", 2, "rigorous", "gin"),
    ("dp-gnn", 1, "rigorous-fixed-size", "gat"),
    ("dp-gnn", 1, "published", "gcn"),
    ("dp-residual", 1, "rigorous", "gcn"),
    ("dp-residual", 2, "rigorous", "gat"),
]
every_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(map(str, run)))


def cell_of(run, seeds=(0, 1, 2), **training) -> Cell:
    """The contract's cell with its noise given, so that nothing is to be solved."""
    name, hops, variant, architecture = run
    cell = calibrated_cell(name, hops, variant, architecture, **training)
    privacy = cell.privacy.model_copy(update={"epsilon": None, "noise_multiplier": 3.0})
    return resolve({**cell.model_dump(), "privacy": privacy.model_dump(), "seeds": seeds})


def jobs_of(cell, checkpoint=None, device=CPU):
    graph = toy_graph()
    calibration = calibrate(cell, len(graph.train_nodes))
    return make_jobs(graph, cell, cell.seeds, calibration, device, checkpoint)


def together(cell, checkpoint=None, observe=lambda step, logits: {"step": step}, device=CPU):
    jobs = jobs_of(cell, checkpoint, device)
    return method(cell.method).run_all(jobs, [observe] * len(jobs))


@every_run
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_seed_ends_as_if_alone(run, device):
    cell, device = cell_of(run), torch.device(device)
    outcomes = together(cell, device=device)
    for job, outcome in zip(jobs_of(cell, device=device), outcomes, strict=True):
        alone = method(cell.method).run(job, lambda step, logits: {"step": step})
        np.testing.assert_allclose(outcome.logits, alone.logits, rtol=1e-4, atol=1e-4)
        assert outcome.observations == alone.observations
        in_turn = alone.notes.get("step") == "captured"  # a program of its own for each seed
        assert outcome.notes == alone.notes | ({} if in_turn else {"stacked_seeds": 3})
    first, second, _ = outcomes
    assert not np.allclose(first.logits, second.logits, atol=1e-2)


def test_seeds_share_the_data_on_the_device(monkeypatch):
    prepared = []
    real = StackedPrivateStep.__call__

    def call(self):
        prepared.append(self.steps)
        return real(self)

    monkeypatch.setattr(StackedPrivateStep, "__call__", call)
    together(cell_of(RUNS[1]))
    assert len({id(step.features) for step in prepared[0]} | {id(step.labels) for step in prepared[0]}) == 2
    assert len({id(step.network) for step in prepared[0]}) == 3


def test_on_a_gpu_or_in_small_batches_and_without_dropout():
    cell = cell_of(RUNS[1])
    assert cell.training.batch_size is None
    assert not stacking_pays(cell, CPU)
    for size, pays in ((128, True), (129, False)):
        training = cell.training.model_copy(update={"batch_size": size, "sampling_rate": None})
        sized = cell.model_copy(update={"training": training})
        assert stacking_pays(sized, CPU) == pays
        wide = cell.model.model_copy(update={"width": 129})
        assert not stacking_pays(sized.model_copy(update={"model": wide}), CPU)
    assert stacking_pays(cell, torch.device("cuda"))
    dropped = cell.model_copy(update={"model": cell.model.model_copy(update={"dropout": 0.5})})
    assert not stacking_pays(dropped, torch.device("cuda"))
    for name in ("dp-gnn", "dp-mlp", "dp-residual"):
        assert isinstance(method(name), StackedMethod)


@pytest.fixture
def stacking(monkeypatch):
    """As if the CPU were a GPU."""
    for kind in (DpGnn, DpResidual):
        monkeypatch.setattr(kind, "stacks", lambda self, cell, device: True)


def test_through_the_stage(tmp_path, stacking, monkeypatch):
    save_graph(toy_graph(), tmp_path / "graph")
    record = train_cell(cell_of(RUNS[5]), tmp_path / "out", tmp_path / "graph", device="cpu", workers=2)
    assert [seed.notes["stacked_seeds"] for seed in record.seeds] == [3, 3, 3]
    assert all((tmp_path / "out" / f"seed={seed}.predictions.npy").exists() for seed in range(3))
    more = train_cell(cell_of(RUNS[5], (0, 1, 2, 3)), tmp_path / "out", tmp_path / "graph", device="cpu")
    assert [seed.notes.get("stacked_seeds") for seed in more.seeds] == [3, 3, 3, None]
    assert more.seeds[:3] == record.seeds
    assert not list((tmp_path / "out").glob("*.checkpoint*"))


class Killed(Exception):
    pass


@every_run
def test_a_killed_run_goes_on_bit_by_bit(tmp_path, monkeypatch, run):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    cell = cell_of(run, (0, 1), steps=9, evaluations=3, optimizer="adam")
    whole = together(cell)
    seen = []

    def observe(step, logits):
        seen.append(step)
        if len(seen) == 3:
            raise Killed
        return {"step": step}

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        together(cell, path, observe)
    resumed = together(cell, path)
    assert resumed[0].notes["resumed_at"] == 5
    for a, b in zip(whole, resumed, strict=True):
        assert np.array_equal(a.logits, b.logits)
        assert a.observations == b.observations


def test_seeds_that_diverge_are_failures_with_their_step():
    cell = cell_of(RUNS[1], learning_rate=1e38, optimizer="sgd")
    wide = cell.privacy.model_copy(update={"clip_norm": 1e6})
    outcomes = together(cell.model_copy(update={"privacy": wide}))
    assert [str(outcome) for outcome in outcomes if isinstance(outcome, Diverged)] == [
        "parameters are not finite after step 2"
    ] * 3


def test_inference_may_differ_between_seeds():
    """Each seed is charged for its own choice, and states what it chose."""
    cell = cell_of(RUNS[5])
    paid = cell.privacy.model_copy(update={"choice_epsilon": 0.2})
    outcomes = together(resolve({**cell.model_dump(), "privacy": paid.model_dump()}))
    assert {outcome.notes["inference"] for outcome in outcomes} <= {"with neighbours", "each node alone"}
