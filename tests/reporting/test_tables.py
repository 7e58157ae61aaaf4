from __future__ import annotations

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from dpgraph.core.errors import UserError
from dpgraph.reporting.splits import NOT_KEPT, how_to_run, left_out
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.accuracy import table as accuracy
from dpgraph.reporting.views.accuracy.table import accuracy_table
from dpgraph.reporting.views.statistics import statistics_table
from tests.reporting.conftest import graph_rows

STATISTICS = {
    "nodes": 3000,
    "entries": 24000,
    "mean_degree": 8.0,
    "features": 64,
    "classes": 8,
    "split_fractions": {"train": 0.5, "val": 0.2, "test": 0.3},
}


@pytest.fixture(scope="module")
def paper_results(paper_plan, rows_of, as_frame):
    """Accuracy exactly 60 % everywhere, so that differences are known by hand."""
    cells = {entry.cell.slug: entry for entry in paper_plan.entries}
    return as_frame([row for entry in cells.values() for row in rows_of(entry, mean=0.6, std=0.0)])


def of(table: pd.DataFrame, **columns: object) -> pd.Series:
    for name, value in columns.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_beside_the_printed_values(paper_plan, paper_results):
    table = accuracy_table(paper_plan, "daigavane/table1", paper_results)
    # Table 1 of the paper: DP-GCN (Adam) 61.750 ± 0.282 on ogbn-arxiv at epsilon <= 12, GCN 94.074 ± 0.074 on reddit
    ours = of(table, method="dp-gcn-1", task="arxiv", epsilon_target=12.0)
    assert (ours["published_text"], ours["published_epsilon"]) == ("61.750 ± 0.282", "≤ 12")
    assert ours["published_epsilon_rigorous"] == "none"
    assert ours["mean"] == pytest.approx(60)
    assert ours["difference"] == pytest.approx(-1.75)
    public = of(table, method="gcn-1", task="reddit")
    assert public["difference"] == pytest.approx(60 - 94.074)
    assert math.isinf(public["eps_published"])
    assert math.isinf(public["eps_rigorous"])


def test_no_comparison_at_another_budget(paper_plan, paper_results):
    row = of(accuracy_table(paper_plan, "daigavane/table1", paper_results), method="dp-mlp", task="arxiv",
             epsilon_target=6.0)  # fmt: skip
    assert row["published_text"] == ""
    assert math.isnan(row["difference"])


def test_adam_and_sgd_are_different_rows_of_the_paper(paper_plan, paper_results):
    table = accuracy_table(paper_plan, "daigavane/table1", paper_results)
    sgd = of(table, method="dp-gcn-1-sgd-published", task="arxiv", epsilon_target=12.0)
    assert sgd["published_value"] == 62.862


def test_an_experiment_that_is_no_paper_s_has_no_columns_for_one(plan, results):
    artefact = "daigavane/table1"
    own = plan.experiments["daigavane"].model_copy(update={"published": "none"})
    with_paper, without = (
        accuracy.make(replace(plan, experiments={**plan.experiments, "daigavane": one}), artefact, results).table
        for one in (plan.experiments["daigavane"], own)
    )
    left_out = ["Paper (%)", "Paper’s ε (proved)", "Difference"]
    assert [head for head in with_paper.columns if head not in left_out] == without.columns
    assert set(left_out) <= set(with_paper.columns)
    assert {len(row) for block in without.blocks for row in block.rows} == {len(without.columns)}
    assert not [text for text in (*without.remarks, *without.brief) if "Paper’s ε" in text or "Difference" in text]


def test_demo_has_no_printed_values(plan, results):
    table = accuracy_table(plan, "daigavane/table1", results)
    assert len(table) == len(plan.entries_of("daigavane/table1"))
    assert (table["published_text"] == "").all()
    assert table["difference"].isna().all()


def test_published_epsilon_never_without_its_twin(plan, results, tmp_path):
    """In every written form, each row with a finite claimed epsilon has a rigorous one or the word none."""
    _, markdown, latex, page = write_table(plan, "daigavane/table1", results, tmp_path / "table1")
    rows = [line.split("|") for line in markdown.read_text().splitlines() if line.startswith("| DP-")]
    private = [entry for entry in plan.entries_of("daigavane/table1") if entry.cell.privacy is not None]
    assert len(rows) == len(private) >= 8
    for row in rows:
        assert re.fullmatch(r" \d[\d.]* ", row[5])
        assert re.fullmatch(r" (\d[\d.]*|none<sup>1</sup>) ", row[6])
    assert markdown.read_text().count("<sup>1</sup>") == 1 + sum("(paper" in row[1] for row in rows)
    assert "<sup>1</sup> Lemma 2 is false" in markdown.read_text()
    papers_own = sum(entry.cell.privacy.variant.startswith("published") for entry in private)
    assert latex.read_text().count(r"none\textsuperscript{1}") == papers_own > 0
    assert page.read_text().count("none<sup>1</sup>") == papers_own


def test_without_results_every_row_says_not_run(plan, tmp_path):
    paths = write_table(plan, "daigavane/table2", None, tmp_path / "table2")
    table = pd.read_csv(paths[0])
    assert set(table["status"]) == {"not run"}
    assert "| not run |" in paths[1].read_text()


def test_failed_cells_are_shown_with_their_reason(plan, results, tmp_path):
    paths = write_table(plan, "daigavane/table2", results, tmp_path / "table2")
    for path in paths:
        assert "diverged: non-finite loss at step 41" in path.read_text()
        assert "data not available" in path.read_text()
    assert re.search(r"<td class=\"number\">failed<sup>\d</sup></td>", paths[3].read_text())


def test_seeds_that_are_missing_are_counted(plan, rows_of, as_frame, tmp_path):
    rows = [row for row in rows_of(plan.entries[0]) if row["seed"] != 1]
    paths = write_table(plan, "daigavane/table1", as_frame(rows), tmp_path / "table1")
    assert "| 2 of 3 |" in paths[1].read_text()


def test_pages_are_self_contained(plan, results, tmp_path):
    page = write_table(plan, "daigavane/table1", results, tmp_path / "table1")[3].read_text()
    assert "<strong>Demonstration.</strong>" in page
    assert not re.search(r"<script|<link|<img|https?://|@import", page)
    assert page.count("<tr") == page.count("</tr>")


def test_no_demonstration_banner_elsewhere(paper_plan, paper_results, tmp_path):
    paths = write_table(paper_plan, "daigavane/table1", paper_results, tmp_path / "table1")
    assert all("emonstration" not in path.read_text() for path in paths)
    assert "| ≤ 12 (none) |" in paths[1].read_text()


def test_statistics_beside_the_papers(paper_plan, tmp_path):
    given = graph_rows(
        paper_plan,
        "daigavane/table7",
        {"arxiv": {"status": "ok", "statistics": STATISTICS}, "reddit": {"status": "unavailable", "reason": "404"}},
    )
    table = statistics_table(paper_plan, "daigavane/table7", given)
    arxiv, reddit = of(table, task="arxiv"), of(table, task="reddit")
    # Table 7 of the paper
    assert (arxiv["nodes"], arxiv["published_nodes"], arxiv["published_mean_degree"]) == (3000, "169343", "13.7")
    assert (reddit["status"], reddit["reason"]) == ("not run", "data not available: 404")
    assert reddit["published_split_ratio"] == "0.66/0.10/0.24"
    text = write_table(paper_plan, "daigavane/table7", given, tmp_path / "table7")[1].read_text()
    assert "| ogbn-arxiv | ours | 3,000 | 12,000 | 8.0 | 64 | 8 | 0.50 / 0.20 / 0.30 |" in text
    assert "|  | paper | 169,343 | – | 13.7 | 128 | 40 | 0.54 / 0.18 / 0.28 |" in text
    assert "| reddit | ours | not run<sup>1</sup> |" in text
    assert "cannot be had here: reddit." in text  # and how to run it


def test_a_table_without_a_result_is_one_line(plan, results, tmp_path):
    """Nothing is printed for the suite's data either: no rows, remarks or captions, but how to run it."""
    others = results[results["cell"] == "nowhere"]
    for wide in (False, True):
        *_, md, tex, page = write_table(plan, "daigavane/table2", others, tmp_path / "table2", wide)
        text = md.read_text()
        assert "Not run: demo SBM, disjoint; demo SBM, clustered. dpgraph run daigavane/table2 --suite" in text
        assert "|" not in text
        assert "Target ε" not in text
        assert "Each seed" not in text
        assert "<table" not in page.read_text()
        assert "dpgraph run daigavane/table2" in page.read_text()
        assert r"dpgraph run daigavane/table2" in tex.read_text()
    table = pd.read_csv(write_table(plan, "daigavane/table2", others, tmp_path / "table2")[0])
    assert set(table["status"]) == {"not run"}  # the long form has all rows


def test_reasons_of_what_a_suite_leaves_out_stay(plan):
    frame = pd.DataFrame({"status": "not run", "reason": ["compute: too long", "", "x: data not available: 404"]})
    assert left_out(frame) == ["Not run: compute: too long."]


def test_printed_numbers_stand_where_nothing_was_run(paper_plan, paper_results, tmp_path):
    others = paper_results[paper_results["cell"] == "nowhere"]
    text = write_table(paper_plan, "daigavane/table1", others, tmp_path / "table1", wide=True)[0].read_text()
    assert "| paper |" in text
    assert "| not run |" in text
    assert "Not run: ogbn-arxiv; reddit. dpgraph run" in text


def test_statistics_that_no_row_keeps_are_not_called_missing_data(paper_plan, tmp_path):
    """The graph may have been trained on, in a run that kept no statistics."""
    given = graph_rows(paper_plan, "daigavane/table7", {"arxiv": {"status": "ok", "statistics": STATISTICS}})
    table = statistics_table(paper_plan, "daigavane/table7", given)
    assert of(table, task="reddit")["reason"] == NOT_KEPT
    text = write_table(paper_plan, "daigavane/table7", given, tmp_path / "table7")[1].read_text()
    assert "| reddit | ours | not kept |" in text
    assert "data not available" not in text
    command = f"dpgraph run daigavane/table7 --suite {paper_plan.suite.name}"
    assert f"Not kept in these rows: reddit. {command}\n" in text


def test_what_was_not_run_has_its_command_and_hours(paper_plan, paper_results):
    """A record's reason begins with the data set's name; a cell may have no record at all."""
    artefact = "daigavane/table1"
    tasks = {one.cell.slug: one.task_id for one in paper_plan.entries_of(artefact)}
    task = paper_results["cell"].map(tasks)
    rows = paper_results[task != "arxiv"].copy()
    rows.loc[rows["cell"].map(tasks) == "reddit", "reason"] = "reddit: data not available: 404"
    absent, unknown = how_to_run(paper_plan, artefact, rows)
    command = f"dpgraph run {artefact} --suite {paper_plan.suite.name}"
    hours = r"\(\d+ cells?, estimated: [\d.,]+ core hours \([\d.,]+ to [\d.,]+\)( or .* GPU hours \(.*\))?\)"
    files = "With their files in FOLDER (docs/reference/datasets.md): "
    start = f"Not run because the data cannot be had here: reddit. {files}{command} --set 'mirrors=[FOLDER]' "
    assert re.fullmatch(re.escape(start) + hours, absent)
    assert re.fullmatch(re.escape(f"Not run: ogbn-arxiv. {command} ") + hours, unknown)
    assert how_to_run(paper_plan, artefact, None) == []


def test_statistics_of_a_relation(paper_plan, tmp_path):
    """It has tuples in place of edges, no classes, and parts of its tuples."""
    relation = {"nodes": 200, "tuples": 300, "features": 384, "split_sizes": {"train": 190, "val": 0, "test": 110}}
    given = graph_rows(paper_plan, "daigavane/table7", {"arxiv": {"status": "ok", "statistics": relation}})
    text = write_table(paper_plan, "daigavane/table7", given, tmp_path / "table7")[1].read_text()
    assert "| ogbn-arxiv | ours | 200 | 300 | 3.0 | 384 | – | 190 / 0 / 110 |" in text


def test_what_was_left_out_of_graphs_of_texts_is_below_their_statistics(paper_plan, tmp_path):
    """Graph by graph, nothing lost: listed ones are those left out and those that stay."""
    one = {"entities": 1200, "listed_relations": 5, "unknown_id": 1, "self_relation": 1, "duplicate": 1, "relations": 2,
           "empty_texts": 3, "without_relation": 1197}  # fmt: skip
    meta = {"counted": {"usa": one, "chn": one | {"empty_texts": 0}}}
    relation = {"nodes": 200, "tuples": 300, "features": 384, "split_sizes": {"train": 190, "val": 0, "test": 110}}
    given = graph_rows(paper_plan, "daigavane/table7", {"arxiv": {"statistics": relation, "meta": meta}})
    assert list(statistics_table(paper_plan, "daigavane/table7", given)["counted"] != "") == [True, False]
    text = write_table(paper_plan, "daigavane/table7", given, tmp_path / "table7")[1].read_text()
    assert "| ogbn-arxiv<sup>1</sup> | ours |" in text
    assert (
        "usa: of 5 listed relations 1 name an unknown id, 1 join an entity to itself and 1 repeat another, which "
        "leaves 2; of 1,200 entities 3 have no text and 1,197 no relation; chn: of 5 listed" in text
    )


def test_without_missing_data_there_is_no_command(paper_plan, paper_results, tmp_path):
    text = write_table(paper_plan, "daigavane/table1", paper_results, tmp_path / "table1")[1].read_text()
    assert "mirrors=" not in text


def test_statistics_of_one_task_are_enough(paper_plan):
    given = graph_rows(paper_plan, "daigavane/table7", {"arxiv": {"statistics": STATISTICS}})
    plain = statistics_table(paper_plan, "daigavane/table7", given)
    assert list(plain["status"]) == ["ok", "not run"]


@pytest.mark.parametrize("artefact", ["daigavane/fig2", "daigavane/table99"])
def test_only_tables_of_the_plan(plan, results, tmp_path, artefact):
    with pytest.raises(UserError, match=f"table={artefact}: expected one of daigavane/table1"):
        write_table(plan, artefact, results, tmp_path / "x")


def test_what_a_label_leaves_out_is_a_footnote_of_its_rows(paper_plan, paper_results, tmp_path):
    write_table(paper_plan, "daigavane/table1", paper_results, tmp_path / "table1")
    text = (tmp_path / "table1.md").read_text(encoding="utf-8")
    about = paper_plan.experiments["daigavane"].methods["dp-gcn-1"].about
    (number,) = re.findall(rf"<sup>(\d+)</sup> {re.escape(about)}", text)
    rows = [line for line in text.splitlines() if line.startswith("| DP-GCN-1 (proved)")]
    assert rows
    assert all(re.match(rf"\| DP-GCN-1 \(proved\)<sup>(\d+,)*{number}</sup> ", row) for row in rows)
    assert paper_plan.experiments["daigavane"].methods["dp-gcn-1-fixed-size"].about not in text
    write_table(paper_plan, "daigavane/table1", paper_results, tmp_path / "table1", wide=True)
    wide = (tmp_path / "table1.wide.md").read_text(encoding="utf-8")
    assert f"DP-GCN-1 (proved), DP-GCN-1 SGD (proved), DP-MLP (proved): {about}" in wide
