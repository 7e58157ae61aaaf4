"""Shares of hard cases, from predictions of 9 tested nodes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.config.paths import Paths
from dpgraph.config.record import CellRecord, Metric, SeedRecord
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_json
from dpgraph.data.records import TEST
from dpgraph.data.store import load_graph, save_graph
from dpgraph.reporting.aggregate import aggregate
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.results import Results, read_results
from dpgraph.reporting.stored import Predictions
from dpgraph.reporting.views.derived import hard_case_metrics, hard_case_share

LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, -1])


def predict(plan, entry, wrong_by_seed):
    """Writes predictions that are wrong at the given nodes, seed by seed."""
    for seed, wrong in zip(entry.cell.seeds, wrong_by_seed, strict=True):
        predicted = np.maximum(LABELS, 0)
        predicted[list(wrong)] = (predicted[list(wrong)] + 1) % 3
        path = Paths(plan.config).predictions(entry.cell, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, predicted.astype(np.int16))


def places(plan, artefact):
    return {
        (entry.method_id, entry.task_id, entry.value, entry.target_epsilon): entry
        for entry in plan.entries_of(f"igamberdiev/{artefact}")
    }


HARD = [(0, 3, 6, 7), (0, 1), (3, 4, 5), (8,)]  # errors of the reference, by seed


@pytest.fixture
def fig6(splits_run):
    entries = places(splits_run, "fig6")
    predict(splits_run, entries["sgd", "cora", None, None], HARD)
    predict(splits_run, entries["dp-sgd", "cora", None, 2.0], [(0, 3, 8), (2, 4), (3, 4, 5), ()])
    return entries


def test_shares_by_hand(splits_run, fig6):
    shares = shares_of(splits_run)
    slug = fig6["dp-sgd", "cora", None, 2.0].cell.slug
    own = [shares["igamberdiev", slug, seed]["hard_cases/fig6"] for seed in range(4)]
    assert own == [2 / 4, 0.0, 1.0, 0.0]
    assert [shares["igamberdiev", slug, seed]["hard_cases/hard"] for seed in range(4)] == own
    # seed i of the reference against the errors of seed i + 1
    slug = fig6["sgd", "cora", None, None].cell.slug
    assert [shares["igamberdiev", slug, seed]["hard_cases/fig6"] for seed in range(4)] == [1 / 2, 0.0, 0.0, 0.0]
    assert not any(cell == fig6["dp-sgd", "cora", None, 4.91].cell.slug for _, cell, _ in shares)  # not run
    assert not any("pubmed" in cell for _, cell, _ in shares)


def test_a_reference_of_one_seed_has_no_share_of_its_own(splits_run, fig6):
    entry = fig6["sgd", "cora", None, None]
    for seed in (1, 2, 3):
        Paths(splits_run.config).predictions(entry.cell, seed).unlink()
    shares = shares_of(splits_run)
    assert not any(cell == entry.cell.slug for _, cell, _ in shares)
    slug = fig6["dp-sgd", "cora", None, 2.0].cell.slug
    assert [seed for _, cell, seed in shares if cell == slug] == [0]


def test_no_hard_cases_is_no_share(splits_run, fig6):
    predict(splits_run, fig6["sgd", "cora", None, None], [(), (0,), (0,), (0,)])
    shares = shares_of(splits_run)
    slug = fig6["dp-sgd", "cora", None, 2.0].cell.slug
    assert [seed for _, cell, seed in shares if cell == slug] == [1, 2, 3]


def test_nodes_without_class_are_errors_and_those_without_label_do_not_count(splits_run, fig6):
    entry = fig6["dp-sgd", "cora", None, 2.0]
    predict(splits_run, entry, [()] * 4)
    path = Paths(splits_run.config).predictions(entry.cell, 0)
    predicted = np.load(path)
    predicted[0], predicted[11] = -1, 2
    np.save(path, predicted)
    predictions = Predictions(splits_run)
    assert predictions.tested(entry, 0)[0].tolist() == list(range(9))
    assert predictions.wrong(entry, 0).tolist() == [True] + [False] * 8
    assert shares_of(splits_run)["igamberdiev", entry.cell.slug, 0]["hard_cases/fig6"] == 1 / 4


def shares_of(plan):
    """Return the shares by metric, for each paper, cell and seed."""
    found = hard_case_metrics(plan)
    return {place: {one.metric: one.value for one in metrics} for place, metrics in found.items()}


@pytest.mark.parametrize("content", [b"rubbish", None])
def test_damaged_predictions_are_named(splits_run, fig6, content):
    path = Paths(splits_run.config).predictions(fig6["sgd", "cora", None, None].cell, 0)
    if content is None:
        np.save(path, np.zeros(5, dtype=np.int16))
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"predictions\.npy: .*train the cell again") as caught:
        shares_of(splits_run)
    assert "\n" not in str(caught.value)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=10))
def test_share_is_what_the_paper_says(pairs):
    """Intersection of the errors with the hard cases, normalised by the number of hard cases (App. E)."""
    wrong, hard = (np.array(column) for column in zip(*pairs, strict=True))
    errors, cases = ({index for index, one in enumerate(column) if one} for column in (wrong, hard))
    share = hard_case_share(wrong, hard)
    if cases:
        assert share == len(errors & cases) / len(cases)
    else:
        assert np.isnan(share)


@pytest.fixture
def finished(splits_run, fig6):
    """Every cell has a record of four good seeds; Cora's have predictions, too."""
    for place, entry in fig6.items():
        if place[1] == "cora" and place[0] != "sgd":
            predict(splits_run, entry, [(0, 3, 8), (2, 4, 0), (3, 4, 5), (8, 1)])
    for cell in splits_run.cells.values():
        metrics = (
            Metric(step=1, final=False, metric="accuracy/test", value=0.1),
            Metric(step=7, final=True, metric="accuracy/test", value=0.5),
        )
        seeds = tuple(SeedRecord(seed=seed, status="ok", seconds=1.0, metrics=metrics) for seed in cell.seeds)
        guarantee = {"epsilon": 2.0, "reason": None, "delta": 1e-5, "relation": "graph", "scope": "parameters"}
        statement = {"published": guarantee, "rigorous": guarantee, "steps": 7, "noise_std_over_clip": 3.0}
        record = CellRecord(cell=cell, status="ok", seeds=seeds, statement=statement)
        write_json(Paths(splits_run.config).result(cell), record.model_dump(mode="json"))
    return splits_run


def test_aggregate_adds_shares_at_the_last_step(finished, fig6, tmp_path):
    aggregate(finished, tmp_path / "results.parquet")
    frame = read_results(tmp_path / "results.parquet")
    added = frame[frame["metric"].str.startswith("hard_cases/")]
    assert set(added["step"]) == {7}
    assert added["final"].all()
    # the reference of fig6 is that of fig5, too: the same cell
    assert set(added["metric"]) == {"hard_cases/fig5", "hard_cases/fig6", "hard_cases/hard"}
    outcome = Results(frame).outcome(fig6["dp-sgd", "cora", None, 2.0], "hard_cases/fig6")
    assert outcome.values.tolist() == [2 / 4, 1 / 2, 1.0, 1.0]
    assert (outcome.guarantee.published.epsilon, outcome.guarantee.rigorous.epsilon) == (2.0, 2.0)
    missing = Results(frame).outcome(fig6["dp-sgd", "pubmed", None, 2.0], "hard_cases/fig6")
    assert missing.why_not == "not run: no value of hard_cases/fig6"
    assert not frame[frame["cell"] != ""].duplicated(["paper", "cell", "seed", "step", "metric", "class_id"]).any()


def test_figure_and_claim_of_hard_cases(finished, tmp_path):
    aggregate(finished, tmp_path / "results.parquet")
    frame = read_results(tmp_path / "results.parquet")
    paths = write_figure(finished, "igamberdiev/fig6", frame, tmp_path / "fig6")
    assert all(path.stat().st_size > 0 for path in paths)
    svg_points = (tmp_path / "fig6.csv").read_text()
    assert "paper's App. E" in svg_points  # just over 70 % at every epsilon
    assert svg_points.count("printed") == 3
    assert "Hard cases: test nodes that GCN, SGD misclassifies" in (tmp_path / "fig6.txt").read_text()
    claim = {"statement": "s", "source": "t",
             "test": {"kind": "constant", "artefact": "fig6", "methods": ["dp-sgd"], "over": "epsilon", "within": 1,
                      "tasks": ["cora"]}}  # fmt: skip
    experiment = finished.experiments["igamberdiev"]
    only = type(experiment).model_validate(experiment.model_dump() | {"claims": {"C": claim}})
    row = claims_table(dataclasses.replace(finished, experiments={"igamberdiev": only}), frame).iloc[0]
    assert row["comparisons"] == 1


def test_runs_are_read_with_the_split_of_their_seed(splits_run, fig6):
    """Seeds of a random split are tested on nodes of their own; two seeds are compared on those that both tested."""
    first = fig6["sgd", "cora", None, None]
    task = first.cell.task.model_copy(update={"split": "random-34-33-33"})
    entry = dataclasses.replace(first, cell=first.cell.model_copy(update={"task": task}))
    predict(splits_run, entry, HARD)
    folder = Paths(splits_run.config).graph(splits_run.task("cora"))
    graph = load_graph(folder)
    save_graph(dataclasses.replace(graph, meta={"task": task.model_dump(mode="json")}), folder)
    predictions = Predictions(splits_run)
    tested = {}
    for seed, wrong in enumerate(HARD):
        nodes = np.flatnonzero(load_graph(folder, split=seed).split == TEST)
        tested[seed] = nodes[LABELS[nodes] >= 0]
        assert predictions.tested(entry, seed)[0].tolist() == tested[seed].tolist()
        assert predictions.wrong(entry, seed).tolist() == [node in wrong for node in tested[seed]]
    assert len({tuple(nodes) for nodes in tested.values()}) > 1
    both = sorted(set(tested[0]) & set(tested[1]))
    errors = predictions.wrong_both(entry, 0, entry, 1)
    assert errors[0].tolist() == [node in HARD[0] for node in both]
    assert errors[1].tolist() == [node in HARD[1] for node in both]
