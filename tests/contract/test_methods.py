"""What every method must keep, on a toy graph. A new method is tested by being in families/."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.audits.graphs import null_records, without_node
from dpgraph.config.cell import Cell
from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import transpose
from dpgraph.data.records import FIRST_PROBLEM, TEST, TRAIN
from dpgraph.engine.methods import assembly
from dpgraph.families.jobs import make_jobs
from dpgraph.families.lots.mechanism import UnclippedLots
from dpgraph.families.registry import method, spec
from dpgraph.families.subgraphs.mechanism import PureNoise, UnclippedSubgraphs
from dpgraph.families.trees.published import FixedBatchTrees
from dpgraph.planning.resolve import calibrate, inference_of, mechanism_for, target_of
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.mechanisms.base import mechanism_from
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.privacy.procedure import NotAsAccounted, differences
from dpgraph.problems.node_classification.work import NodeClassification
from dpgraph.problems.registry import problem_of
from tests.contract.cells import CELLS, PRIVATE, changed
from tests.contract.values import value_of

CPU = torch.device("cpu")


every_cell = pytest.mark.parametrize("name", CELLS)
every_cell_on_nodes = pytest.mark.parametrize(
    "name", [name for name, cell in CELLS.items() if problem_of(cell.task).name == FIRST_PROBLEM]
)
private_on_nodes = pytest.mark.parametrize(
    "name", [name for name in PRIVATE if problem_of(CELLS[name].task).name == FIRST_PROBLEM]
)
private_on_relations = pytest.mark.parametrize(
    "name", [name for name in PRIVATE if problem_of(CELLS[name].task).name == "relations"]
)


KNOWN = {}  # methods share mechanisms


def calibrated_for(found: Cell, num_train: int, num_protected: int | None):
    key = repr((mechanism_for(found, num_train, num_protected), target_of(found)))
    if key not in KNOWN:
        KNOWN[key] = calibrate(found, num_train, default_cache(), num_protected=num_protected)
    return KNOWN[key]


def calibrated(found: Cell, graph):
    """For the public counts of `graph`; of another problem for those of its own data."""
    counts = problem_of(found.task).working().counts(value_of(found, graph))
    return calibrated_for(found, counts.num_train, counts.num_protected)


def run(graph, name, seed=0, device=CPU, observe=lambda step, logits: {"step": step}, factor=1.0):
    """On `graph`, with `factor` times the noise that the cell's epsilon needs; of another problem on its own data."""
    asked = CELLS[name]
    value = value_of(asked, graph)
    calibration = calibrated(asked, graph)
    if factor != 1:
        mechanism = calibration.mechanism.with_noise(factor * calibration.mechanism.noise_multiplier)
        # another epsilon of relations takes a second, and no run of theirs reads it
        known = problem_of(asked.task).name == "relations"
        statement = calibration.statement if known else mechanism.statement()
        calibration = calibration.model_copy(update={"mechanism": mechanism, "statement": statement})
    (job,) = make_jobs(value, asked, [seed], calibration, device)
    outcome = method(asked.method).run(job, observe)
    if job.prepared is not None:
        job.prepared.check(outcome.resumed_at)
    return outcome, calibration


class Counted:
    """A step that notes how many records it read."""

    def __init__(self, step, read):
        self._step, self._read = step, read

    def __call__(self):
        self._read.append(self._step())
        return self._read[-1]

    def __getattr__(self, name):
        return getattr(self._step, name)


FIRST = {}


def first_run(toy, name, seed=0):
    """The outcome of the cell as it is, the steps and outputs that were observed, and how many records each step read.

    Run once for all tests. No global generator is used. Only steps of private methods are counted.
    """
    if (name, seed) not in FIRST:
        seen, read, train = [], [], assembly.train

        def observe(step, logits):
            seen.append((step, logits.copy()))
            return {"step": step}

        def counted(title, network, optimizer, step, *others):
            return train(title, network, optimizer, Counted(step, read), *others)

        torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        with pytest.MonkeyPatch.context() as patched:
            if spec(CELLS[name].method).private:
                patched.setattr(assembly, "train", counted)
            outcome = run(toy, name, seed=seed, observe=observe)[0]
        assert torch.equal(torch_state, torch.get_rng_state())
        assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
        FIRST[name, seed] = outcome, seen, read
    return FIRST[name, seed]


@every_cell
def test_same_seed_same_result_and_other_seed_another(toy, name):
    """Of a private cell `test_what_ran_is_what_was_accounted_for` runs the same seed again."""
    first, other = (first_run(toy, name, seed)[0] for seed in (0, 1))
    if not spec(CELLS[name].method).private:
        assert np.array_equal(first.logits, run(toy, name)[0].logits)
    assert np.array_equal(first.logits, other.logits) == spec(CELLS[name].method).deterministic
    problem, value = problem_of(CELLS[name].task).working(), value_of(CELLS[name], toy)
    metrics = problem.evaluate(value, first.logits, 6, final=True)
    assert metrics
    assert all(0 <= metric.value <= 1 for metric in metrics)
    assert problem.predictions(value, first.logits).dtype == np.int16


@every_cell_on_nodes
def test_test_labels_are_never_read(toy, name):
    labels = toy.labels.copy()
    labels[toy.split == TEST] = (labels[toy.split == TEST] + 1) % 3
    assert np.array_equal(first_run(toy, name)[0].logits, run(replace(toy, labels=labels), name)[0].logits)


def test_blind_hides_test_labels_only(toy):
    hidden = NodeClassification().blind(toy)
    assert (hidden.labels[toy.split == TEST] == -1).all()
    assert np.array_equal(hidden.labels[toy.split != TEST], toy.labels[toy.split != TEST])


@every_cell
def test_what_ran_is_what_was_accounted_for(toy, name):
    """Read off the objects that ran, and equal to what the mechanism states, whose epsilon is reported.

    The same seed gives the same result, whether it is observed or not.
    """
    found = CELLS[name]
    (job,) = make_jobs(value_of(found, toy), found, [0], calibrated(found, toy), CPU)
    if not spec(found.method).private:
        assert job.prepared is None
        return
    with pytest.raises(NotAsAccounted, match=r"so no epsilon holds: .*steps: ran 0, accounted 6"):
        job.prepared.check()
    outcome = method(found.method).run(job, lambda step, logits: {})
    checked = job.prepared.check(outcome.resumed_at)
    assert {use.stream for use in checked.streams} >= {name for name, draws in job.mechanism.streams.items() if draws}
    ran = checked.model_copy(update={"streams": ()})
    assert np.array_equal(outcome.logits, first_run(toy, name)[0].logits)
    assert ran.steps == 6
    assert not list(differences(job.mechanism.procedure(job.prepared.accounted_clip_norms), ran))
    if not job.mechanism.steps_cost:
        assert ran.releases
        assert (ran.terms, ran.noise_draws) == ((), 0)
        return
    assert ran.noise_draws == 6
    assert outcome.notes["edge_lists"] in (
        ran.terms[-1].lists,
        getattr(getattr(found, "pagerank", None), "release", None),
    )
    assert outcome.notes["batches"] == ran.terms[-1].batches
    if not isinstance(job.mechanism, FixedBatchTrees):
        assert job.prepared.accounted_clip_norms == (found.privacy.clip_norm,)


@every_cell
def test_statement_has_both_epsilons(toy, name):
    calibration = calibrated(CELLS[name], toy)
    statement = calibration.statement
    assert mechanism_from(type(calibration.mechanism), statement.mechanism) == calibration.mechanism
    assert calibration.mechanism.statement() == statement
    if not spec(CELLS[name].method).private:
        expected = 0 if CELLS[name].method == "random" else float("inf")
        assert statement.published.epsilon == statement.rigorous.epsilon == expected
        return
    target = spec(CELLS[name].method).variant(CELLS[name]).target
    guarantee = statement.published if target == "published" else statement.rigorous
    assert guarantee.epsilon is not None
    assert 5.5 < guarantee.epsilon <= 6.0
    if not calibration.mechanism.proves or isinstance(calibration.mechanism, UnclippedSubgraphs | UnclippedLots):
        assert statement.rigorous.epsilon is None
        assert statement.rigorous.reason
        assert statement.rigorous.relation == statement.rigorous.scope == "none"
    else:
        reads_edges = inference_of(CELLS[name]) == "the raw graph"
        strangers = str(CELLS[name].privacy.variant).endswith("-strangers")
        own = "strangers" if strangers else "all outputs" if statement.rigorous.relation == "edge" else "joint"
        assert statement.rigorous.scope == ("parameters" if reads_edges else own)
        assert statement.rigorous.relation == calibration.mechanism.relation != "none"
    if isinstance(calibration.mechanism, PureNoise):
        assert statement.rigorous.epsilon == 0


@private_on_nodes
def test_a_private_method_sees_no_label(toy, name):
    """What it trains on is in the prepared step: it cannot copy labels into its predictions."""
    (job,) = make_jobs(toy, CELLS[name], [0], calibrated(CELLS[name], toy), CPU)
    assert (job.graph.labels == -1).all()
    with pytest.raises(ValueError, match="expected no labels"):
        replace(job, shown=toy)


@pytest.mark.parametrize("name", [one for one, cell in CELLS.items() if spec(cell.method).without_noise is NoRecord])
def test_a_method_whose_epsilon_is_0_sees_no_record(toy, name):
    """Any method may say so of itself: then it gets nothing that an epsilon would have to cover."""
    (job,) = make_jobs(toy, CELLS[name], [0], calibrated(CELLS[name], toy), CPU)
    assert job.calibration.statement.rigorous.epsilon == 0
    assert (job.graph.labels == -1).all()
    assert job.graph.num_edges == job.graph.num_features == len(job.graph.meta) == 0
    assert (job.graph.num_nodes, job.graph.num_classes) == (toy.num_nodes, toy.num_classes)
    for shown in (
        toy,
        NodeClassification().blind(toy),
        replace(job.graph, features=toy.features),
        replace(job.graph, labels=toy.labels),
    ):
        with pytest.raises(ValueError, match="expected no"):
            replace(job, shown=shown)


@private_on_nodes
def test_a_null_record_can_be_fed(toy, name):
    """A training node without label, list and features, whose place stays: the same public numbers, other results."""
    whole, nulled = (
        make_jobs(graph, CELLS[name], [0], calibrated(CELLS[name], toy), CPU)[0] for graph in (toy, null_record(toy, 3))
    )
    outcome = method(CELLS[name].method).run(nulled, lambda step, logits: {})
    ran = nulled.prepared.check()
    if not isinstance(nulled.mechanism, FixedBatchTrees):  # whose clip norms move
        assert not list(differences(whole.prepared.accounted(), ran.model_copy(update={"streams": ()})))
    assert np.isfinite(outcome.logits).all()


@private_on_relations
def test_a_private_method_sees_no_tuple(toy, name):
    found, value = CELLS[name], value_of(CELLS[name], toy)
    (job,) = make_jobs(value, found, [0], calibrated(found, toy), CPU)
    assert len(job.shown.tuples) == 0
    for shown in (value, problem_of(found.task).working().blind(value)):
        with pytest.raises(ValueError, match="expected no tuples but those"):
            replace(job, shown=shown)


@private_on_relations
def test_an_entity_that_is_in_no_tuple_changes_no_public_number(toy, name):
    """Fewer tuples, the same batches, noise and divisor as accounted."""
    found, value = CELLS[name], value_of(CELLS[name], toy)
    kept = (np.asarray(value.tuples) != 3).all(axis=1)
    fewer = replace(value, tuples=np.asarray(value.tuples)[kept], split=np.asarray(value.split)[kept])
    procedures = []
    for one in (value, fewer):
        (job,) = make_jobs(one, found, [0], calibrated(found, toy), CPU)
        outcome = method(found.method).run(job, lambda step, states: {})
        procedures.append(job.prepared.check())
        assert np.isfinite(outcome.logits).all()
    assert procedures[0] == procedures[1]


def null_record(graph, node):
    kept = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr)) != node
    lengths = np.where(np.arange(graph.num_nodes) == node, 0, np.diff(graph.out_ptr))
    features, labels = graph.features.copy(), graph.labels.copy()
    features[node], labels[node] = 0, -1
    ptr, idx = np.concatenate([[0], np.cumsum(lengths)]), graph.out_idx[kept]
    back = transpose(ptr, idx)
    return replace(graph, out_ptr=ptr, out_idx=idx, in_ptr=back[0], in_idx=back[1], features=features, labels=labels)


def test_a_null_record_has_no_gradient(toy):
    """All training records null: nothing but noise moves the parameters, in every engine."""
    for name in ("dp-gnn-1-rigorous", "dp-mlp-0-rigorous", "dp-residual-1-rigorous", "dp-lots-0-published",
                 "dp-subgraph-3-rigorous", "dp-appr-identity-rigorous"):  # fmt: skip
        results = []
        for scale in (1.0, 5.0):
            features = (scale * toy.features).astype(np.float32)
            labels = np.where(toy.split == TRAIN, -1, toy.labels)
            (job,) = make_jobs(replace(toy, features=features, labels=labels), CELLS[name], [0],
                               calibrated(CELLS[name], toy), CPU)  # fmt: skip
            step = run_steps(job)
            results.append(step)
        assert all(np.array_equal(a, b) for a, b in zip(*results)), name


def run_steps(job):
    """Parameters after the run, seen through the optimiser's last call."""
    seen = []
    original = torch.optim.Optimizer.__init__

    def remember(self, params, defaults):
        original(self, params, defaults)
        seen.append([parameter for group in self.param_groups for parameter in group["params"]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Optimizer, "__init__", remember)
        method(job.cell.method).run(job, lambda step, logits: {})
    return [parameter.detach().numpy().copy() for parameter in seen[0]]


@every_cell
def test_observations_come_at_the_asked_points(toy, name):
    outcome, seen, _ = first_run(toy, name)
    assert [step for step, _ in seen] == [2, 4, 6]
    assert np.array_equal(seen[-1][1], outcome.logits)
    assert [row["step"] for row in outcome.observations] == [2, 4, 6]


@every_cell
def test_more_steps_cost_more_or_nothing(toy, name):
    """At the same noise; the one epsilon that is 0 is that of noise alone."""
    calibration = calibrated(CELLS[name], toy)
    if not spec(CELLS[name].method).private:
        assert calibration.statement.noise_std_over_clip is None
        return
    few, many = (calibration.mechanism.with_steps(steps) for steps in (6, 60))
    target = spec(CELLS[name].method).variant(CELLS[name]).target
    costs = [getattr(one, target)().epsilon for one in (few, many)]
    assert costs[1] > costs[0] if calibration.mechanism.steps_cost else costs[1] == costs[0]


@pytest.mark.parametrize("name", [name for name in CELLS if name.startswith("dp-")])
def test_noise_reaches_the_parameters(toy, name):
    """Two scales of the noise, same seed: the same direction, so the results must differ."""
    assert not np.array_equal(first_run(toy, name)[0].logits, run(toy, name, factor=0.1)[0].logits)


@private_on_nodes
def test_the_divisor_is_public(toy, name):
    """A record that becomes null must not change what the noisy sum is divided by, nor any other public number."""
    found, nulled = (
        make_jobs(graph, CELLS[name], [0], calibrated(CELLS[name], toy), CPU)[0].prepared for graph in
        (toy, null_record(toy, int(toy.train_nodes[0])))
    )  # fmt: skip
    assert getattr(found, "divisor", 1.0) == getattr(nulled, "divisor", 1.0)
    assert found.accounted() == nulled.accounted()


def test_own_records_lose_no_more_by_edges_that_leave(toy):
    """What DP-MLP's variant node-remove rests on; one that reads neighbours moves further when edges leave, too."""
    hub = int(toy.train_nodes[np.diff(toy.in_ptr)[toy.train_nodes].argmax()])
    sides = null_records(toy, [hub]), without_node(toy, hub)
    assert len(sides[0].out_idx) > len(sides[1].out_idx)
    nulled, removed = (run(side, "dp-mlp-0-node-remove")[0].logits for side in sides)
    assert np.array_equal(nulled, removed)
    assert not np.array_equal(nulled, first_run(toy, "dp-mlp-0-node-remove")[0].logits)
    reads = [run(side, "dp-gnn-1-rigorous")[0].logits for side in sides]
    assert not np.array_equal(*reads)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_cell
def test_cpu_and_gpu_agree(toy, name, monkeypatch):
    """Same parameters and batches.

    Private runs, whose noise the device draws, and students, whose made images it draws, are compared in shape only;
    networks with dropout, whose masks it draws, without dropout.
    """
    if getattr(getattr(CELLS[name], "model", None), "dropout", 0):
        monkeypatch.setitem(CELLS, name, changed(name, model={"dropout": 0.0}))
    cpu, gpu = run(toy, name)[0], run(toy, name, device=torch.device("cuda"))[0]
    assert gpu.logits.shape == cpu.logits.shape
    if not spec(CELLS[name].method).private and CELLS[name].method != "pate":
        assert np.allclose(cpu.logits, gpu.logits, atol=1e-3)


def test_unknown_method_is_one_line():
    with pytest.raises(
        UserError,
        match=r"method=magic: expected one of appnp, appr, .*, dp-appr, .*, dp-gnn, .*, majority, mlp, .*, random",
    ):
        method("magic")
    with pytest.raises(UserError, match="privacy=None"):
        calibrate(CELLS["dp-gnn-1-rigorous"].model_copy(update={"privacy": None}), 40)
    with pytest.raises(UserError, match="batch_size=50: expected"):
        calibrate(changed("gnn-1-none", training={"sampling_rate": None, "batch_size": 50}), 40)
