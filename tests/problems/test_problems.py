"""What every problem must keep, on prepared demo data."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Task
from dpgraph.config.streams import initialisation_number, split_number, trial_seeds
from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.data.registry import entry, registry
from dpgraph.engine.methods.assembly import set_up
from dpgraph.families.jobs import make_jobs
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.problems.registry import problem, problem_of, problems, size_of
from dpgraph.problems.relations.evaluate import evaluate, full_ranks, ranks, rare_tails
from tests.contract.values import prepared

SPLIT = "random-60-15-25"
TASKS = [
    Task(dataset="demo-digits", split=SPLIT),
    Task(dataset="demo-digits", setting="disjoint", split=SPLIT),
    Task(dataset="demo-images", split=SPLIT),
    Task(dataset="demo-relations", split=SPLIT),
]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.folder)


def test_every_data_set_has_a_problem_that_is_there():
    assert {known.problem for known in registry().values()} == set(problems())
    assert problem_of(Task(dataset="nobody-knows")).name == "node-classification"
    with pytest.raises(UserError, match="problem=magic: expected one of images, node-classification, relations"):
        problem("magic")


@every_task
def test_splits_of_seeds_differ_in_nothing_but_who_is_where(task):
    """Official counts: a calibration is for all splits of a cell."""
    working = problem_of(task).working()
    values = [prepared(task, split) for split in (0, 1, 2)]
    assert len({working.counts(value) for value in values}) == 1
    assert not np.array_equal(values[0].split, values[1].split)
    assert not np.array_equal(values[1].split, values[2].split)
    assert np.array_equal(np.bincount(values[0].split), np.bincount(values[1].split))
    assert np.array_equal(values[0].features, values[1].features)
    assert np.array_equal(values[1].split, prepared(task, 1).split)
    assert size_of(task).train_nodes == pytest.approx(working.counts(values[0]).num_train, rel=0.5)


def test_a_disjoint_split_has_the_edges_of_its_own_parts():
    whole = prepared(TASKS[0])
    for number in (0, 3):
        graph = prepared(TASKS[1], number)
        owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
        everywhere = np.repeat(np.arange(whole.num_nodes), np.diff(whole.out_ptr))
        within = graph.split[everywhere] == graph.split[whole.out_idx]
        assert np.array_equal(owner, everywhere[within])
        assert np.array_equal(graph.out_idx, whole.out_idx[within])


def test_official_splits_are_the_same_for_all_seeds():
    task = Task(dataset="demo-digits")
    assert np.array_equal(prepared(task, 0).split, prepared(task, 4).split)
    fixed, drawn = cell_on(task), cell_on(TASKS[0])
    assert [split_number(fixed, seed) for seed in (0, 1, 7)] == [0, 0, 0]
    assert [split_number(drawn, seed) for seed in (0, 1, 7)] == [0, 1, 7]
    # trials of a selection with a theorem are independent runs on the same data
    assert [split_number(drawn, seed) for seed in trial_seeds(3, 2)] == [0, 1]
    assert not set(trial_seeds(3, 5)) & set(trial_seeds(4, 5))


def cell_on(task, **others):
    training = {"learning_rate": 0.1, "steps": 1, "sampling_rate": 1.0}
    base = {"method": "mlp", "task": task.model_dump(), "training": training, "seeds": [0]}
    return resolve({**base, "model": {"architecture": "mlp", "hops": 0}, **others})


def test_seeds_of_a_crossed_design():
    """Seed s has split s // n and initialisation s % n, in a trial of its own, too; a fixed split cannot be crossed."""
    cell = cell_on(TASKS[0], seeds_per_split=3)
    assert [split_number(cell, seed) for seed in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [initialisation_number(cell, seed) for seed in range(6)] == [0, 1, 2, 0, 1, 2]
    later = trial_seeds(2, 6)
    assert [split_number(cell, seed) for seed in later] == [0, 0, 0, 1, 1, 1]
    assert [initialisation_number(cell, seed) - 20_000 for seed in later] == [0, 1, 2, 0, 1, 2]
    plain = cell_on(TASKS[0])
    assert [initialisation_number(plain, seed) for seed in (0, 5, 20_003)] == [0, 5, 20_003]
    assert plain.identity != cell.identity
    assert plain.for_calibration == cell.for_calibration
    with pytest.raises(UserError, match="seeds_per_split=3, split=public: expected random-A-B-C"):
        cell_on(Task(dataset="demo-digits"), seeds_per_split=3)


def test_crossed_seeds_share_the_nodes_of_their_split_and_the_parameters_of_their_initialisation():
    cell = cell_on(TASKS[0], seeds_per_split=2, seeds=[0, 1, 2, 3])
    nodes = [prepared(cell.task, split_number(cell, seed)).train_nodes.tolist() for seed in cell.seeds]
    assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
    first = [initial(cell, seed) for seed in cell.seeds]
    assert torch.equal(first[0], first[2])
    assert torch.equal(first[1], first[3])
    assert not torch.equal(first[0], first[1])
    # pairs of the usual kind start where the first split does
    assert torch.equal(initial(cell_on(TASKS[0]), 1), first[1])


def initial(cell, seed):
    """All parameters of a seed before its first step, in one row."""
    value = prepared(cell.task, split_number(cell, seed))
    calibration = calibrate(cell, len(value.train_nodes), default_cache())
    (job,) = make_jobs(value, cell, [seed], calibration, torch.device("cpu"))
    return torch.cat([one.detach().flatten() for one in set_up(job).network.parameters()])


@every_task
def test_what_is_shown_is_checked(task):
    working, value = problem_of(task).working(), prepared(task)
    blind, none = working.blind(value), working.counts_only(working.blind(value))
    working.check_shown(blind, labels=True, records=True)
    working.check_shown(working.unlabelled(blind), labels=False, records=True)
    working.check_shown(none, labels=False, records=False)
    for shown, labels, records in (
        (value, True, True),
        (blind, False, True),
        (working.unlabelled(blind), False, False),
    ):
        with pytest.raises(ValueError, match="expected no"):
            working.check_shown(shown, labels=labels, records=records)
    assert len(none.meta) == 0
    assert none.features.shape[1] == 0


@every_task
def test_scores_without_a_number_are_the_worst(task):
    working, value = problem_of(task).working(), prepared(task)
    width = getattr(value, "num_classes", 3)
    scores = np.full((len(value.features), width), np.nan, dtype=np.float32)
    metrics = {metric.metric: metric.value for metric in working.evaluate(value, scores, 1, final=False)}
    assert max(metrics.values()) < 0.01
    assert len(working.predictions(value, scores)) > 0


def test_ranks_are_those_of_a_loop():
    relations = prepared(TASKS[3])
    few = replace(relations, tuples=relations.tuples[:40], split=np.full(40, TEST, dtype=np.uint8))
    states = (
        np.random.Generator(np.random.PCG64(0)).integers(-2, 3, size=(len(relations.features), 3)).astype(np.float32)
    )
    found = ranks(few, states, "test")
    for (head, tail), rank in zip(few.tuples, found, strict=True):  # one batch holds all 40
        own = states[head] @ states[tail]
        others = [states[head] @ states[other] for other in few.tuples[:, 1] if other != tail]
        assert rank == 1 + sum(score >= own for score in others)
    metrics = {metric.metric: metric.value for metric in evaluate(few, states, 1, final=False)}
    assert metrics == {"prec_at_1/test": np.mean(found == 1), "mrr/test": pytest.approx(np.mean(1 / found))}


def test_full_ranks_are_those_of_a_loop_within_the_graph_that_is_tested():
    """Of a transfer only the second graph's entities compete, and a head never competes with its tail."""
    relations, random = prepared(TASKS[3]), np.random.Generator(np.random.PCG64(1))
    domain = np.repeat(np.array([TRAIN, TEST], dtype=np.uint8), [60, 20])
    pairs = np.array([[60, 61], [62, 79], [65, 70], [66, 71]], dtype=np.int32)
    few = replace(relations, features=relations.features[:80], tuples=pairs, domain=domain,
                  split=np.full(4, TEST, dtype=np.uint8), text_ends=np.zeros(80, dtype=np.int64))  # fmt: skip
    assert few.num_private == 60
    for shape in ((80, 3), (80, 2, 3)):
        states = random.integers(-2, 3, size=shape).astype(np.float32)
        heads, tails = (states, states) if len(shape) == 2 else (states[:, 0], states[:, 1])
        found = full_ranks(few, states, "test")
        for (head, tail), rank in zip(pairs, found, strict=True):
            own = heads[head] @ tails[tail]
            others = [heads[head] @ tails[other] for other in range(60, 80) if other not in (head, tail)]
            assert rank == 1 + sum(score >= own for score in others)
    names = {metric.metric for metric in evaluate(few, states, 1, final=True)}
    assert names == {
        "prec_at_1/test",
        "mrr/test",
        "prec_at_1_full/test",
        "mrr_full/test",
        "prec_at_1_rare/test",
        "mrr_rare/test",
    }


def test_rare_tails_are_those_of_at_most_the_median_degree():
    relations = prepared(TASKS[3])
    few = relations.tuples_of("test")
    degree = Counter(few.ravel().tolist())
    by_tuple = [degree[tail] for tail in few[:, 1].tolist()]
    median = sorted(by_tuple)[len(by_tuple) // 2 - 1 : len(by_tuple) // 2 + 1]
    expected = [one <= sum(median) / 2 if len(by_tuple) % 2 == 0 else one <= median[1] for one in by_tuple]
    found = rare_tails(relations, "test")
    assert found.tolist() == expected
    assert found.any()
    assert not found.all()
    states = np.random.Generator(np.random.PCG64(2)).normal(size=(relations.num_entities, 3)).astype(np.float32)
    metrics = {one.metric: one.value for one in evaluate(relations, states, 1, final=True)}
    assert metrics["mrr_rare/test"] == pytest.approx(np.mean(1 / ranks(relations, states, "test")[expected]))


def test_relations_hide_the_tested_tuples_and_keep_every_edge_once():
    relations = prepared(TASKS[3])
    assert (relations.tuples[:, 0] < relations.tuples[:, 1]).all()
    assert len(np.unique(relations.tuples, axis=0)) == len(relations.tuples)
    blind = problem_of(TASKS[3]).working().blind(relations)
    assert set(np.unique(blind.split)) == {TRAIN, VALIDATION}
    assert len(blind.tuples) + len(relations.tuples_of("test")) == len(relations.tuples)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"method": "gnn"},
            "dataset=demo-images: a data set of images: expected one of node-classification for .*",
        ),
        (
            {"task": {"dataset": "demo-sbm"}},
            "dataset=demo-sbm: a data set of node-classification: expected .* images",
        ),
        ({"task": {"dataset": "demo-images", "split": SPLIT, "features": "l2"}}, "task.features=l2: expected raw for"),
        (
            {"task": {"dataset": "demo-images", "split": SPLIT, "setting": "disjoint"}},
            "task.setting=disjoint: expected",
        ),
    ],
)
def test_a_method_takes_data_of_its_problems_only(part, message):
    cell = {
        "task": {"dataset": "demo-images", "split": SPLIT},
        "method": "cnn",
        "training": {"learning_rate": 0.1, "steps": 1, "sampling_rate": 0.1},
        "seeds": [0],
    }
    assert resolve(cell).network == ("cnn", 0)
    with pytest.raises(UserError, match=f"^here: {message}"):
        resolve({**cell, **({"model": {"hops": 1}} if "method" in part else {}), **part}, "here")


def test_entries_of_one_source_have_the_same_files():
    for name, known in registry().items():
        if known.problem != "node-classification" and known.variant_of is not None:
            assert known.files == entry(known.variant_of).files, name
            assert re.fullmatch(rf"{known.variant_of}-(images|relations|words)", name)
