"""Parts of the variance of crossed splits and initialisations, their table and their figure."""

import math
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from dpgraph.config.config import Config
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.figures import draw_figure, write_figure
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.variance import components as module
from dpgraph.reporting.views.variance.components import (
    TOO_FEW,
    components,
    crossed,
    one_split_error,
    pairs_error,
    stated_error,
    variance_table,
)
from tests.plans import plan_of
from tests.reporting.conftest import WORKFLOW

TABLE, FIGURE = "variance/components", "variance/spread"


def drawn(generator, a, b, split, initialisation, rest):
    """(a, b) values with these standard deviations of their parts."""
    rows, columns = generator.normal(0, split, (a, 1)), generator.normal(0, initialisation, (1, b))
    return 50 + rows + columns + generator.normal(0, rest, (a, b))


def by_loops(values):
    """Mean squares of a two-way table as a textbook writes them: total sum of squares less those of the margins."""
    a, b = len(values), len(values[0])
    total = sum(sum(row) for row in values)
    correction = total**2 / (a * b)
    every = sum(value**2 for row in values for value in row) - correction
    rows = sum(sum(row) ** 2 for row in values) / b - correction
    columns = sum(sum(row[j] for row in values) ** 2 for j in range(b)) / a - correction
    return rows / (a - 1), columns / (b - 1), (every - rows - columns) / ((a - 1) * (b - 1))


@pytest.mark.parametrize("shape", [(5, 5), (2, 3), (7, 4)])
def test_mean_squares_and_parts_are_those_of_nested_loops(shape):
    a, b = shape
    for seed in range(20):
        values = drawn(np.random.default_rng(seed), a, b, 2.0, 0.5, 1.0)
        found, (rows, columns, rest) = components(values), by_loops(values.tolist())
        squares = [one / of for one, of in zip(found.sums, found.degrees, strict=True)]
        assert squares == pytest.approx([rows, columns, rest])
        raw = found.raw.split, found.raw.initialisation, found.raw.rest
        assert raw == pytest.approx(((rows - rest) / b, (columns - rest) / a, rest))
        assert found.parts.split == max(found.raw.split, 0)
        assert found.mean == pytest.approx(values.mean())


def test_estimates_are_unbiased_and_intervals_cover(monkeypatch):
    """At 5 x 5 with known parts: means within four standard errors, 95 % intervals in 93 to 100 % of 600 tables."""
    monkeypatch.setattr(module, "DRAWS", 2000)
    generator = np.random.default_rng(1)
    truth = {"split": 4.0, "initialisation": 0.25, "rest": 1.0}
    found = [components(drawn(generator, 5, 5, 2.0, 0.5, 1.0)) for _ in range(600)]
    for name, true in truth.items():
        raw = np.array([getattr(one.raw, name) for one in found])
        assert abs(raw.mean() - true) < 4 * raw.std() / math.sqrt(len(raw))
        ends = [one.estimate(lambda parts, name=name: getattr(parts, name)) for one in found]
        assert np.mean([one.low <= true <= one.high for one in ends]) > 0.93
        shares = [one.estimate(lambda parts, name=name: parts.share(getattr(parts, name))) for one in found]
        assert np.mean([one.low <= 100 * true / 5.25 <= one.high for one in shares]) > 0.93
    totals = [one.estimate(lambda parts: pairs_error(parts, 5)) for one in found]
    assert np.mean([one.low <= math.sqrt(5.25 / 5) <= one.high for one in totals]) > 0.93


def test_the_interval_of_the_rest_is_the_exact_one():
    """SS / chi-square, which is known without draws."""
    found = components(drawn(np.random.default_rng(2), 5, 5, 1.0, 1.0, 1.0))
    interval = found.estimate(lambda parts: parts.rest)
    exact = found.sums[2] / chi2(16).ppf([0.975, 0.025])
    assert (interval.low, interval.high) == pytest.approx(tuple(exact), rel=0.01)


def test_errors_of_means():
    """Of drawn runs: pairs, runs on one split, and what these state."""
    parts = module.Parts(np.array(4.0), np.array(0.25), np.array(1.0))
    generator, n, times = np.random.default_rng(3), 5, 40_000
    split = generator.normal(0, 2, (times, 1))
    within = generator.normal(0, math.sqrt(1.25), (times, n))
    one = split + within
    assert one.mean(axis=1).std() == pytest.approx(one_split_error(parts, n), rel=0.02)
    assert math.sqrt((one.var(axis=1, ddof=1) / n).mean()) == pytest.approx(stated_error(parts, n), rel=0.02)
    pairs = generator.normal(0, 2, (times, n)) + within
    assert pairs.mean(axis=1).std() == pytest.approx(pairs_error(parts, n), rel=0.02)


def test_tables_without_spread_and_with_holes():
    flat = components(np.full((3, 3), 7.0))
    assert math.isnan(flat.estimate(lambda parts: parts.share(parts.split)).value)
    rows_only = components(np.arange(4.0)[:, None] + np.zeros((4, 3)))
    assert rows_only.estimate(lambda parts: parts.share(parts.split)).value == 100
    for wrong in (np.full((1, 5), 1.0), np.array([[1.0, 2.0], [3.0, math.nan]])):
        with pytest.raises(UserError, match="expected two or more whole rows and columns of numbers"):
            components(wrong)


# ---- table and figure ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crossed_plan():
    return plan_of("variance")


def frame_of(plan, rows_of, as_frame, without=()):
    """Test accuracies with a split's part of 4 points, an initialisation's of 2, and little else; some seeds failed."""
    rows = []
    generator = np.random.default_rng(4)
    for entry in {entry.cell.slug: entry for entry in plan.entries}.values():
        values = drawn(generator, 5, 5, 4.0, 2.0, 0.1).ravel() / 100
        for row in rows_of(entry):
            failed = row["seed"] in without
            changed = {"value": math.nan, "status": "failed", "reason": "diverged"} if failed else {}
            rows.append(row | {"value": values[row["seed"]]} | changed)
    return as_frame(rows)


def test_the_seeds_are_put_in_their_places(crossed_plan, rows_of, as_frame):
    frame = frame_of(crossed_plan, rows_of, as_frame)
    (one, *_) = crossed(crossed_plan, TABLE, frame)
    final = frame[(frame["cell"] == one.entry.cell.slug) & frame["final"] & (frame["metric"] == "accuracy/test")]
    by_seed = final.set_index("seed")["value"]
    assert one.values.shape == (5, 5)
    assert one.values.loc[2, 3] == pytest.approx(100 * by_seed[2 * 5 + 3])
    table = variance_table(crossed_plan, TABLE, frame)
    assert (table["share_split"] + table["share_initialisation"] + table["share_rest"]).tolist() == pytest.approx(
        [100] * len(table)
    )
    assert (table["share_rest"] < 1).all()
    assert (table["se_one_split_5"] > table["se_pairs_5"]).all()


def test_a_split_with_a_failed_run_is_left_out(crossed_plan, rows_of, as_frame, tmp_path):
    frame = frame_of(crossed_plan, rows_of, as_frame, without=(7,))
    (one, *_) = crossed(crossed_plan, TABLE, frame)
    assert one.values.index.tolist() == [0, 2, 3, 4]
    write_table(crossed_plan, TABLE, frame, tmp_path / "t")
    text = (tmp_path / "t.md").read_text()
    assert "4 × 5" in text
    assert "diverged" in text
    frame = frame_of(crossed_plan, rows_of, as_frame, without=(0, 5, 10, 15))
    (one, *_) = crossed(crossed_plan, TABLE, frame)
    assert (one.outcome.status, one.outcome.reason, one.components) == ("not run", TOO_FEW, None)


def test_table_and_figure_are_written(crossed_plan, rows_of, as_frame, tmp_path):
    frame = frame_of(crossed_plan, rows_of, as_frame)
    write_table(crossed_plan, TABLE, frame, tmp_path / "t")
    text = (tmp_path / "t.md").read_text()
    assert "Share of splits (%)" in text
    assert "5 × 5" in text
    assert "noise, which each run draws anew" in text
    write_figure(crossed_plan, FIGURE, frame, tmp_path / "f")
    points = pd.read_csv(tmp_path / "f.csv")
    assert len(points) == 25 * len(crossed_plan.entries_of(FIGURE))
    assert points.groupby(["task", "method"])["deviation"].mean().abs().max() < 1e-6
    first = (tmp_path / "f.svg").read_bytes()
    draw_figure(crossed_plan, FIGURE, frame, tmp_path / "f", "svg")
    assert (tmp_path / "f.svg").read_bytes() == first


def test_without_results_everything_says_not_run(crossed_plan, tmp_path):
    write_table(crossed_plan, TABLE, None, tmp_path / "t")
    assert "not run" in (tmp_path / "t.md").read_text()
    write_figure(crossed_plan, FIGURE, None, tmp_path / "f")
    assert (tmp_path / "f.png").stat().st_size > 1000


# ---- what the plan refuses -------------------------------------------------------------------------------------------


def changed_plan(folder, *changes, suite="variance", **config):
    """The plan with texts of the suite or of the experiment replaced."""
    shutil.copytree(WORKFLOW, folder, dirs_exist_ok=True)
    for name, old, new in changes:
        path = folder / name / "variance.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
    return load_plan(Config(suite=suite, **config), folder)


@pytest.mark.parametrize(
    ("changes", "config", "message"),
    [
        ([], {"seeds": 3}, "seeds=3: expected a multiple of seeds_per_split=5, at least twice as many"),
        ([], {"seeds": 5}, "seeds=5: expected a multiple"),
        ([("experiments", "view: variance", "view: accuracy")], {}, "seeds_per_split=5: expected a number with the"),
        ([("experiments", "  seeds_per_split: 5\n", "")], {}, "seeds_per_split=None: expected a number with the view"),
        ([("experiments", "_split: 5", "_split: 1")], {"seeds": 2}, "seeds_per_split=1: expected .*2"),
        ([("suites", "random-70-10-20", "train-rest")], {}, "split=train-rest: expected random-A-B-C"),
        (
            [
                (
                    "experiments",
                    "\nartefacts:",
                    "\nclaims:\n  X: {statement: s, source: t, test: {kind: greater, artefact: components, "
                    "better: [gcn-1], worse: [mlp]}}\nartefacts:",
                )
            ],
            {},
            "its seeds share splits",
        ),
    ],
)
def test_designs_that_make_no_sense_are_refused(tmp_path, changes, config, message):
    with pytest.raises(UserError, match=message):
        changed_plan(tmp_path, *changes, **config)


def test_two_splits_are_enough(tmp_path):
    plan = changed_plan(tmp_path, seeds=10)
    assert {len(entry.cell.seeds) for entry in plan.entries} == {10}


def test_cells_of_the_suite_are_those_of_suite_cpu():
    """What the note says: data, features and settings alike, so that its variances are those of cpu's intervals."""
    of_cpu = {
        (entry.method_id, entry.cell.task, entry.target_epsilon): entry.cell
        for entry in plan_of("cpu").entries
        if entry.paper == "daigavane" and entry.value is None
    }
    crossed_entries = plan_of("variance").entries
    assert crossed_entries
    for entry in crossed_entries:
        other = of_cpu[entry.method_id, entry.cell.task, entry.target_epsilon]
        same = {"seeds": other.seeds, "seeds_per_split": other.seeds_per_split}
        assert entry.cell.model_copy(update=same) == other
