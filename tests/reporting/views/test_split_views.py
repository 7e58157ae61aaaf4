"""Graph splits: several epsilons per method, a control in grey, printed numbers of tables and of prose."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from dpgraph.config.experiment import Sweep
from dpgraph.core.errors import UserError
from dpgraph.families.registry import spec
from dpgraph.reporting.drawing.facets import facets
from dpgraph.reporting.drawing.marks import method_handles
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.drawing.words import methods_budgets
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.paper_values import paper_value, paper_values, published_rows
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.statistics import statistics_table
from dpgraph.reporting.views.sweep.figure import positions
from dpgraph.reporting.views.sweep.table import sweep_points
from tests.contract.cells import CELLS
from tests.reporting.conftest import graph_rows

ACCURACY = "accuracy/test"


def entry_of(plan, artefact, method, task="cora", value=None, epsilon=None):
    wanted = (method, task, value, epsilon)
    matches = [one for one in plan.entries_of(f"igamberdiev/{artefact}")
             if (one.method_id, one.task_id, one.value, one.target_epsilon) == wanted]  # fmt: skip
    assert len(matches) == 1
    return matches[0]


def printed(plan, *place, **more):
    return paper_value(plan.experiments["igamberdiev"], entry_of(plan, *place, **more), ACCURACY)


def test_f1_is_shown_in_percent_beside_accuracy(splits_plan):
    """Micro-F1 of a single-label task is accuracy (inventory, G4); digits stay as printed."""
    value = printed(splits_plan, "table2", "sgd")
    assert (value.value, value.text, value.table) == (77.0, "77", "table2")
    assert printed(splits_plan, "table5", "lots", task="mnist", value="600, 4").text == "90 ± 2"
    assert printed(splits_plan, "table5", "lots", task="mnist", value="60000, 100").value == 10.0


def test_numbers_in_prose_on_a_figure(splits_plan):
    assert printed(splits_plan, "fig1", "sgd", "pubmed", value="10").text == "57"
    assert printed(splits_plan, "fig1", "sgd", value="50").table == "fig1"
    assert printed(splits_plan, "fig1", "sgd", value="10") is None  # the paper has no number for Cora at 10 %
    assert any(row["table"] == "fig3" for row in published_rows("igamberdiev2021-gcn-graph-splits"))


def test_rows_without_the_key_stand_at_the_default(splits_plan):
    assert printed(splits_plan, "fig1", "adam", value="100").text == "88"  # Table 2, all training data
    assert printed(splits_plan, "fig1", "adam", value="90") is None
    assert printed(splits_plan, "fig2", "dp-adam", value="100", epsilon=2.0).text == "52"


def test_several_tables_print_a_number(splits_plan):
    """Cora without splits at epsilon 2: .36 in prose on Figure 4, .39 in Table 2 (inventory, G7)."""
    entry = entry_of(splits_plan, "fig4", "dp-sgd", value="1", epsilon=2.0)
    values = paper_values(splits_plan.experiments["igamberdiev"], entry, ACCURACY)
    assert [(value.table, value.text) for value in values] == [("fig4", "36"), ("table2", "39")]
    assert printed(splits_plan, "fig4", "dp-sgd", value="1", epsilon=2.0).text == "36"


@pytest.mark.parametrize(("epsilon", "text"), [(2.0, "62"), (9.75, "62")])
def test_targets_printed_with_fewer_digits(splits_plan, epsilon, text):
    """Table 4 prints 10 for 9.75."""
    value = printed(splits_plan, "table4", "dp-sgd", "bow", epsilon=epsilon)
    assert value.text == text
    assert value.epsilon == f"{epsilon:.0f}"


def test_another_target_is_not_the_printed_one(splits_plan):
    entry = entry_of(splits_plan, "table4", "dp-sgd", "bow", epsilon=9.75)
    for epsilon in (1.6, 2.4, 9.4, 10.6):  # 1.6 and 2.4 round to 2 and are another budget
        other = dataclasses.replace(entry, target_epsilon=epsilon)
        assert paper_value(splits_plan.experiments["igamberdiev"], other, ACCURACY) is None


def test_parameters_tell_tasks_of_one_name_apart(splits_plan):
    assert printed(splits_plan, "table4", "sgd", "bow").text == "88"
    assert printed(splits_plan, "table4", "sgd", "bert").text == "84"


def test_a_number_for_all_epsilons(splits_plan):
    entry = entry_of(splits_plan, "fig6", "dp-sgd", epsilon=4.91)
    [value] = paper_values(splits_plan.experiments["igamberdiev"], entry, "hard_cases/fig6")
    assert (value.text, value.epsilon) == ("70", "all")


def test_labels_have_as_many_parts_as_keys(splits_plan):
    entry = entry_of(splits_plan, "table5", "lots", task="mnist", value="600, 4")
    with pytest.raises(UserError, match=r"table5\.values=600: expected a label of 2 parts, as published_key"):
        paper_value(splits_plan.experiments["igamberdiev"], dataclasses.replace(entry, value="600"), ACCURACY)


def test_random_has_its_printed_row(splits_plan):
    """v1 prints random with epsilon 0: it reads no record."""
    v1 = splits_plan.experiments["igamberdiev"].model_copy(update={"published": "igamberdiev2021-gcn-v1"})
    assert paper_value(v1, entry_of(splits_plan, "table2", "random"), ACCURACY).text == "15"


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_every_epsilon_is_a_panel_and_the_caption_has_both_budgets(splits_plan, splits_results):
    points = sweep_points(splits_plan, "igamberdiev/fig2", splits_results)
    chosen, empty = facets(splits_plan, "igamberdiev/fig2", points)
    assert len(chosen) == 4 * points["task"].nunique()
    assert empty == []
    assert chosen[1].title.endswith(", ε\xa0=\xa02")
    assert set(chosen[1].rows["epsilon_target"].dropna()) == {2.0}
    looks = looks_of_methods(splits_plan.entries_of("igamberdiev/fig2"))
    ours = points[points["source"] == "ours"]
    assert len(method_handles(ours, looks)) == ours["method"].nunique()
    (budgets,) = methods_budgets(ours)
    words = " ".join(budgets.replace("\xa0", " ").split())
    assert "GCN, SGD-DP, paper's mechanism: claimed ε 1.00, proved ε 1.70 | claimed ε 2.00, proved ε 3.40" in words
    assert "Pure noise: claimed ε 1.00, proved ε 0" in words


def test_a_target_without_results_has_no_panel(splits_plan, splits_results):
    points = sweep_points(splits_plan, "igamberdiev/fig2", splits_results)
    points.loc[points["epsilon_target"] == 2.0, "mean"] = math.nan
    chosen, empty = facets(splits_plan, "igamberdiev/fig2", points)
    assert [title[-5:] for title in empty] == ["ε\xa0=\xa02"] * points["task"].nunique()
    assert not any(one.title.endswith("ε\xa0=\xa02") for one in chosen)


def test_printed_points_of_each_epsilon(splits_plan, splits_results):
    points = sweep_points(splits_plan, "igamberdiev/fig4", splits_results)
    beside = points[(points["source"] != "ours") & (points["task"] == "cora")]
    points = beside[["method", "value", "epsilon_target", "mean", "source"]].to_numpy().tolist()
    assert ["dp-sgd", "1", 2.0, 36.0, "paper's figure 4"] in points
    assert ["dp-sgd", "1", 2.0, 39.0, "paper's table 2"] in points
    assert ["dp-sgd", "10", 2.0, 55.0, "paper's figure 4"] in points
    assert beside["eps_rigorous"].isna().all()
    assert len(points) == len({tuple(row) for row in points})


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig4"])
def test_figures_are_drawn(splits_plan, splits_results, tmp_path, name):
    paths = write_figure(splits_plan, f"igamberdiev/{name}", splits_results, tmp_path / name)
    assert {path.suffix for path in paths} == {".pdf", ".svg", ".png", ".csv", ".txt", ".html"}
    assert all(path.stat().st_size > (1000 if path.suffix != ".txt" else 100) for path in paths)


def test_controls_are_grey():
    looks = {cell.method: spec(cell.method).look(cell) for cell in CELLS.values()}
    neutral = {method: style for method, style in looks.items() if style.neutral}
    assert set(neutral) == {"dp-pure-noise", "random", "majority", "cosine", "base-encoder"}
    assert all(len(set(re.findall("..", style.colour[1:]))) == 1 for style in neutral.values())


def test_methods_of_one_figure_look_different(splits_plan):
    names = ("sgd", "adam", "dp-sgd", "dp-adam", "fresh", "noise", "random")
    entries = [entry for entry in splits_plan.entries if entry.method_id in names]
    looks = looks_of_methods(entries)
    assert len({looks[name].colour for name in names}) == len(names)


def test_axes_are_logarithmic_where_values_are():
    assert positions(["1", "4", "10", "100"]).logarithmic
    assert not positions([str(share) for share in range(10, 101, 10)]).logarithmic
    assert not positions(["25", "50", "75", "100"]).logarithmic
    assert positions(["0.01", "0.1", "1", "10", "100"]).logarithmic
    assert not positions(["7"]).logarithmic


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_table_of_lots_says_the_printed_epsilon(splits_plan, splits_results, tmp_path):
    write_table(splits_plan, "igamberdiev/table5", splits_results, tmp_path / "table5")
    text = (tmp_path / "table5.md").read_text()
    assert "90 ± 2 at ε 1.26" in text
    assert "10 ± 1 at ε 0.50" in text
    assert "Gap:" not in text


def test_epsilons_of_table2(splits_plan, splits_results, tmp_path):
    write_table(splits_plan, "igamberdiev/table2", splits_results, tmp_path / "table2")
    lines = (tmp_path / "table2.md").read_text().splitlines()
    noise = next(line for line in lines if line.startswith("| Pure noise"))
    assert "| 2.00 | 0 | graph | parameters | not in the paper |" in noise


def test_sizes_of_splits_beside_the_papers(splits_plan, tmp_path):
    """Table 1 of the paper has sizes and no shares."""
    statistics = {"cora": {"nodes": 2708, "mean_degree": 3.9, "features": 1433, "classes": 7, "entries": 10556,
                           "split_sizes": {"train": 1208, "val": 500, "test": 1000},
                           "split_fractions": {"train": 0.45, "val": 0.18, "test": 0.37}}}  # fmt: skip
    plan = with_artefact(
        splits_plan, "table1", {"kind": "table", "view": "statistics", "title": "Sizes"}, ["cora", "bow"]
    )
    records = {task: {"statistics": own} for task, own in statistics.items()}
    given = graph_rows(plan, "igamberdiev/table1", records)
    table = statistics_table(plan, "igamberdiev/table1", given)
    assert table["published_train_nodes"].tolist() == ["1208", "16000"]
    write_table(plan, "igamberdiev/table1", given, tmp_path / "table1")
    text = (tmp_path / "table1.md").read_text()
    assert "| Cora | ours | 2,708 | 5,278 | 3.9 | 1,433 | 7 | 1,208 / 500 / 1,000 |" in text
    assert "|  | paper | – | – | – | – | 7 | 1,208 / – / 1,000 |" in text


def with_artefact(plan, name, spec, tasks):
    experiment, paper = plan.experiments["igamberdiev"], plan.suite.papers["igamberdiev"]
    artefacts = experiment.model_dump()["artefacts"] | {name: spec}
    changed = type(experiment).model_validate(experiment.model_dump() | {"artefacts": artefacts})
    grids = type(paper).model_validate({"artefacts": {name: [{"tasks": tasks}]}})
    suite = plan.suite.model_copy(update={"papers": {"igamberdiev": grids}})
    return dataclasses.replace(plan, suite=suite, experiments={"igamberdiev": changed}, entries=())


def test_names_of_metrics():
    assert quantity("hard_cases/fig5").label == "hard cases misclassified (%)"
    assert Sweep(label="s", published_key=["a", "b"]).published_key == ("a", "b")
