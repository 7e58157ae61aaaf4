"""Estimated hours: planned parts, the law that measurements correct them by, and what a suite costs in all."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.cli import main
from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.families.pate.spec import teachers_seconds
from dpgraph.families.registry import spec
from dpgraph.planning.cost import (
    ALL,
    FARTHEST,
    FittedLaws,
    costs,
    fitted,
    hours_of,
    known_of,
    learnt,
    left_out_reasons,
    measured,
    wall_hours,
)
from dpgraph.planning.run import Run
from dpgraph.planning.throughputs import (
    CAPTURED,
    START,
    UNCAPTURED,
    DeviceRates,
    PlannedParts,
    Throughput,
    parts_of,
    read_throughputs,
    train_seconds,
    write_throughputs,
)
from dpgraph.problems.registry import size_of
from tests.contract.cells import changed
from tests.plans import plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"
SMALL = [PlannedParts(0.4 * runs, 1e-3 * runs * steps, 1e-5 * runs * steps * nodes)
         for runs, steps, nodes in [(1, 100, 30), (3, 100, 200), (2, 300, 90), (5, 40, 600), (1, 900, 10)]]  # fmt: skip
LAW = (2.0, 3.0, 0.4)  # a start and a step cost more than planned, the rest less


def row(parts, seconds, method="gnn", dataset="cora", suite="cpu", low=0.5, high=2.0, device="cpu"):
    return Throughput(method, dataset, device, 4, 8, *parts, seconds, low, high, suite, "abc", "a core")


def weighted(factors, part):
    return float(np.dot(factors, part))


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
    assert sum(row.cells for row in known.rows) == 12


def test_measurements_of_another_kind_of_device_count_nothing():
    rows = [row(SMALL[0], 2.0), row(SMALL[0], 0.2, device="cuda")]
    assert [learnt(rows, device).law("gnn").seconds(SMALL[0], "cora") for device in ("cpu", "cuda")] == pytest.approx(
        [2.0, 0.2]
    )
    assert learnt(rows[:1], "cuda") == FittedLaws()
    assert FittedLaws().law("gnn").seconds(SMALL[0], "cora") == pytest.approx(SMALL[0].total)


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
        (None, "no such file: expected the table that `dpgraph cost --learn` writes"),
        ("method,cells\nmlp,3\n", "expected the columns method, dataset, device, cells"),
        ("{head}\nmlp,d,cpu,a,1,1,1,1,1,1,1,s,c,p\n", "numbers where they are"),
        ("{head}\nmlp,d,cpu,1,1,0,0,0,1,1,1,s,c,p\n", "mlp: expected seconds above 0"),
        ("{head}\nmlp,d,cpu,1,1,1,1,1,1,2,1,s,c,p\n", "low up to high"),
    ],
)
def test_what_is_no_table_of_throughputs_is_one_line(tmp_path, text, message):
    path = tmp_path / "throughputs.csv"
    head = "method,dataset,device,cells,runs,starts_s,steps_s,work_s,measured_s,low,high,suite,commit,processor"
    if text is not None:
        path.write_text(text.replace("{head}", head))
    with pytest.raises(UserError, match=message):
        read_throughputs(path)


def test_parts_of_a_cell_are_its_planned_seconds():
    plan = plan_of("demo")
    for run, parts in zip(plan.runs.values(), parts_of(plan.runs.values()), strict=True):
        assert min(parts) >= 0
        assert parts.total <= train_seconds(run) * (1 + 1e-9)
        if run.cell.method not in ("pate", "dp-pate"):
            assert parts.total == pytest.approx(train_seconds(run))


def test_teachers_that_cells_share_are_counted_once():
    """By split and by their own settings; students of the same teachers, and seeds of one split, find their votes."""
    many = {"teacher_steps": 30_000}
    first = changed("dp-pate-co-teaching", training=many)
    assert first.seeds == (0,)
    student = changed("dp-pate-co-teaching", training={**many, "learning_rate": 0.01})
    longer = changed("dp-pate-co-teaching", training={"teacher_steps": 30_001})
    others = [longer, first.model_copy(update={"seeds": (1,)})]
    runs = [Run.resolve(cell) for cell in (first, student, *others)]
    alone = [train_seconds(run) for run in runs]
    parts = [part.total for part in parts_of(runs)]
    assert parts[0] == pytest.approx(alone[0])
    assert parts[1] == pytest.approx(alone[1] - teachers_seconds(first.training, size_of(first.task)))
    assert parts[1] < 0.5 * alone[1]
    assert parts[2:] == pytest.approx(alone[2:])  # other teachers; another random split
    again = [part.total for part in parts_of([runs[0], runs[0]])]
    assert again == pytest.approx([parts[0], parts[1]])
    public = first.model_copy(update={"task": first.task.model_copy(update={"split": "public"}), "seeds": (0, 1, 2)})
    one = public.model_copy(update={"seeds": (0,)})
    three, alone_run = Run.resolve(public), Run.resolve(one)
    (whole,), (single,) = parts_of([three]), parts_of([alone_run])
    assert train_seconds(three) == pytest.approx(3 * train_seconds(alone_run))
    assert whole.total < train_seconds(three)
    known = learnt([row(PlannedParts(1.0, 1.0, 1.0), 3.0)])
    hours = hours_of({"public": three, "one": alone_run}, known)
    assert 3600 * hours["public"].mid == pytest.approx(whole.total)
    assert 3600 * hours["one"].mid == pytest.approx(single.total - (3 * single.total - whole.total) / 2)
    assert not hours["one"].measured


@pytest.fixture(scope="module")
def plan():
    return plan_of("demo", papers=("daigavane",))


def results_of(plan, seconds):
    """Rows of a run in which a cell took `seconds(cell)` for each seed."""
    about = {"status": "ok", "device": "cpu", "commit": "abc", "processor": "A CPU"}
    return pd.DataFrame(
        [
            {**about, "cell": slug, "seed": seed, "cpu_seconds": seconds(cell), "seconds": seconds(cell)}
            for slug, cell in plan.cells.items()
            for seed in cell.seeds
            for _ in range(2)  # one row for each metric
        ]
    )


def test_texts_are_as_long_as_their_layouts_say():
    """Of two graphs the first is trained on, and the entities of both are looked at."""

    def size(dataset):
        return size_of(Task(dataset=dataset, split="public" if "-text" not in dataset else "random-60-15-25"))

    assert size("m10-text").tokens == (15, 15)
    assert size("m10-cora").tokens == (15, pytest.approx((10310 * 15 + 2277 * 110) / 12587))
    assert size("cora-m10").tokens == (110, pytest.approx((10310 * 15 + 2277 * 110) / 12587))
    assert size("demo-relations").tokens is None
    assert size("pubmed").tokens is None
    encoder = {"encoder": "all-MiniLM-L6-v2", "max_tokens": 256}
    cell = changed("relation-encoder-none", model=encoder, training={"steps": 1000})
    short, long, unknown = (
        spec(cell.method).seconds(cell, replace(size("m10-text"), tokens=tokens))
        for tokens in ((15.0, 15.0), (110.0, 110.0), None)
    )
    assert unknown == pytest.approx(64 / 15 * short, rel=0.05)
    assert long == pytest.approx(110 / 15 * short, rel=0.05)


@pytest.mark.parametrize(("variant", "share"), [("published", 1.0), ("rigorous", 0.1)])
def test_messages_cross_the_whole_graph_whatever_the_parts_unless_edges_are_cut(variant, share):
    """On PubMed ten parts are 1,972 nodes, whose two hops of mean degree 4.5 reach all 19,717."""

    def products(splits):
        training = {"num_splits": splits, "steps": 1000, "train_share": 1.0}
        cell = changed(f"dp-subgraph-1-{variant}", training=training)
        size = size_of(Task(dataset="pubmed", split="train-rest"))
        whole = spec(cell.method).seconds(cell, size)
        return whole - spec(cell.method).seconds(cell, replace(size, train_nodes=0))

    assert products(10) == pytest.approx(share * products(1), rel=0.01)


def test_a_cell_s_hours_are_the_plan_s_times_the_method_s_factor(plan):
    slug, run = next(iter(plan.runs.items()))
    planned, part = train_seconds(run) / 3600, PlannedParts(1.0, 2.0, 7.0)
    rows = [row(part, 20.0, run.cell.method, "somewhere", high=3.0), row(part, 70.0, "other")]
    own = hours_of({slug: run}, learnt(rows))[slug]
    assert (own.mid, own.low, own.high) == pytest.approx((2 * planned, planned / 2, 3 * planned))
    assert own.measured
    other = hours_of({slug: run}, learnt(rows[1:]))[slug]
    assert other.mid == pytest.approx(7 * planned)
    assert not other.measured


def test_rows_share_cells_and_the_last_has_each_once(plan, monkeypatch):
    monkeypatch.setattr("dpgraph.planning.cost.read_throughputs", lambda path: [])
    *rows, whole = costs(plan, jobs=2)
    assert whole.artefact == ALL
    assert whole.cells == whole.core.unmeasured == len(plan.cells)
    assert whole.gpu is None
    assert whole.runs == sum(len(cell.seeds) for cell in plan.cells.values())
    assert whole.core.hours == pytest.approx(sum(map(train_seconds, plan.runs.values())) / 3600)
    assert whole.wall_hours == pytest.approx((whole.core.hours + whole.longest_hours) / 2)
    for one in rows:
        slugs = {entry.cell.slug for entry in plan.entries_of(one.artefact) if entry.cell.slug in plan.cells}
        assert one.cells == len(slugs)
        assert one.core.hours == pytest.approx(sum(train_seconds(plan.runs[slug]) for slug in slugs) / 3600)


def rate(kind, parts, seconds, low, high):
    return Throughput(kind, "", "cuda", 1, 1, *parts, seconds, low, high, "bench", "abc", "a GPU")


RATES = [rate(START, (0.5, 0, 0), 1.0, 1.0, 4.0), rate(CAPTURED, (0, 2, 0), 1.0, 0.25, 1.0),
         rate(UNCAPTURED, (0, 1, 0), 30.0, 10.0, 60.0), rate("network", (0, 0, 5), 0.01, 0.001, 0.004),
         rate("transformer", (0, 0, 1), 0.001, 0.0005, 0.001)]  # fmt: skip


def test_a_device_has_a_rate_for_each_kind_of_work(plan):
    """Captured and uncaptured steps, and a transformer, whose products hide its steps; of convolutions none."""
    rates, part = DeviceRates.of(RATES, "cuda"), PlannedParts(1.0, 10.0, 100.0)
    cells = {
        "dp-gnn-1-rigorous": (2.0, 5.0, 0.2),
        "dp-gap-rigorous": (2.0, 300.0, 0.2),
        "dp-units-record": (2.0, 300.0, 0.2),
    }
    for name, expected in cells.items():
        found = rates.estimate(Run.resolve(changed(name)), part)
        assert found.parts == pytest.approx(expected)
        assert found.rated == (name != "dp-units-record")
    assert rates.estimate(Run.resolve(changed("dp-gnn-1-rigorous")), part)[1:3] == pytest.approx(
        ((1 + 2.5 + 0.1) / 7.2, (4 + 10 + 0.4) / 7.2)
    )
    text = Run.resolve(changed("relation-encoder-none", model={"encoder": "bert-base-uncased"}))
    assert rates.estimate(text, part).parts == pytest.approx((2.0, 0.0, 0.1))
    assert DeviceRates.of(RATES, "cpu").estimate(text, part).parts == part
    with pytest.raises(UserError, match="device=cuda: no rate of uncaptured step, network: expected a row of each"):
        DeviceRates.of(RATES[:2], "cuda")


def test_a_method_that_was_measured_on_a_gpu_has_its_own_law_there(plan):
    slug, run = next(iter(plan.runs.items()))
    (parts,) = parts_of([run])
    there = DeviceRates.of(RATES, "cuda").estimate(run, parts).parts
    rated, own = (hours_of({slug: run}, learnt([*RATES, *more], "cuda"))[slug].mid
                  for more in ([], [row(there, 3 * there.total, run.cell.method, device="cuda")]))  # fmt: skip
    assert 3600 * rated == pytest.approx(there.total)
    assert own == pytest.approx(3 * rated)
    other = learnt([*RATES, row(there, 3.0, "another", device="cuda")], "cuda")
    assert hours_of({slug: run}, other)[slug].mid == pytest.approx(rated)


def test_hours_of_transformers_are_what_a_count_of_operations_gives():
    """All cells, one seed, on an H200: counted by hand, about 340 to 1,000 hours for Llama and 16 for BERT base."""
    plan = plan_of("paper", papers=("huang",))
    hours = hours_of(plan.runs, known_of(plan, "cuda"))
    for name, least, most in (("meta-llama/Llama-2-7b-hf", 300, 1200), ("bert-base-uncased", 7, 25)):
        of_it = [(hours[slug], len(run.cell.seeds)) for slug, run in plan.runs.items()
                 if getattr(getattr(run.cell, "model", None), "encoder", "") == name]  # fmt: skip
        for end in ("low", "mid", "high"):
            assert least < sum(getattr(one, end) / seeds for one, seeds in of_it) < most


@pytest.mark.parametrize("places", [1, 2, 3])
def test_no_order_of_jobs_takes_longer_than_the_wall_time(places):
    """Graham's bound against all orders of six jobs, each started as soon as a place is free."""
    jobs = [5.0, 3.0, 3.0, 2.0, 2.0, 1.0]

    def ends(order):
        free = [0.0] * places
        for length in order:
            free[free.index(min(free))] += length
        return max(free)

    worst = max(ends(order) for order in set(itertools.permutations(jobs)))
    bound = wall_hours(sum(jobs), max(jobs), places)
    assert worst <= bound + 1e-9
    assert bound <= worst + max(jobs)


def test_what_is_learnt_from_a_run_gives_its_hours(plan):
    results = results_of(plan, lambda cell: 1.0 if cell.method == "mlp" else 3.0)
    rows = {(one.method, one.dataset): one for one in measured(plan, results)}
    assert set(rows) == {(cell.method, cell.task.dataset) for cell in plan.cells.values()}
    for (method, dataset), one in rows.items():
        runs = [run for run in plan.runs.values() if (run.cell.method, run.cell.task.dataset) == (method, dataset)]
        cells = [run.cell for run in runs]
        spent = sum(len(cell.seeds) * (1.0 if method == "mlp" else 3.0) for cell in cells)
        assert (one.cells, one.runs) == (len(cells), sum(len(cell.seeds) for cell in cells))
        assert one.measured_s == pytest.approx(spent)
        assert one.parts == pytest.approx(PlannedParts(*(sum(part) for part in zip(*parts_of(runs), strict=True))))
        assert one.low <= one.measured_s / one.parts.total <= one.high
    estimated = sum(one.mid for one in hours_of(plan.runs, learnt(rows.values())).values())
    assert 3600 * estimated == pytest.approx(sum(one.measured_s for one in rows.values()))


def test_cells_that_did_not_end_teach_nothing(plan):
    results = results_of(plan, lambda cell: 1.0)
    slug = next(slug for slug, cell in plan.cells.items() if len(cell.seeds) > 1)
    results.loc[(results["cell"] == slug) & (results["seed"] == plan.cells[slug].seeds[0]), "status"] = "failed"
    assert sum(one.cells for one in measured(plan, results)) == len(plan.cells) - 1
    results["device"] = "cuda"
    assert {one.device for one in measured(plan, results)} == {"cuda"}
    results["status"] = "failed"
    with pytest.raises(UserError, match="suite demo: no cell has a result"):
        measured(plan, results)


def test_a_run_replaces_the_rows_of_its_own_suite(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    results = results_of(plan, lambda cell: 4 * train_seconds(plan.run_of(cell)) / len(cell.seeds))
    monkeypatch.setattr("dpgraph.reporting.results.read_results", lambda path: results)
    out = tmp_path / "throughputs.csv"
    other = row(SMALL[0], 3.0, "other", suite="search")
    write_throughputs([other, replace(other, suite="demo")], out)
    given = ["--suite", "demo", "--workflow", str(WORKFLOW), "--config", '{"papers": ["daigavane"]}']
    assert main(["cost", *given, "--learn", "--out", str(out)]) == 0
    rows = read_throughputs(out)
    assert rows[0] == other
    assert {one.suite for one in rows[1:]} == {"demo"}
    assert all(one.measured_s / one.parts.total == pytest.approx(4, rel=2e-3) for one in rows[1:])


def test_the_subcommand_says_what_it_rests_on(capsys, monkeypatch):
    given = ["cost", "--suite", "demo", "--workflow", str(WORKFLOW), "--config"]
    assert main([*given, '{"papers": ["daigavane"]}', "--jobs", "3"]) == 0
    text = capsys.readouterr().out
    assert "core h" in text
    assert "GPU h" in text
    assert "Measured on NVIDIA H200: rates by kind of work." in text
    assert re.search(r"of \d+ training jobs,\n3 side by side, each with a core of its own", text)
    on_gpu = [*given, '{"papers": ["daigavane"], "device": "cuda"}']
    assert main(on_gpu) == 0
    assert "each with a GPU of its own" in capsys.readouterr().out
    assert main([*on_gpu, "--jobs", "0"]) == 2
    assert "--jobs=0: expected an integer from 1 to 10000" in capsys.readouterr().err
    monkeypatch.setattr("dpgraph.planning.cost.read_throughputs", lambda path: [row(SMALL[0], 3.0, "mlp")])
    assert main(on_gpu) == 2
    assert "device=cuda: no throughput was measured" in capsys.readouterr().err


def test_what_is_left_out_for_want_of_compute_has_its_hours():
    plan = plan_of("text-cpu", papers=("huang",), artefacts=("huang/table1",))
    reasons = left_out_reasons(plan)
    assert set(reasons) == set(plan.left_out)
    told = {plan.left_out[slug].not_run: text for slug, text in reasons.items()}
    assert told.pop("compute").startswith("compute: about ")
    assert all(text == why for why, text in told.items())
