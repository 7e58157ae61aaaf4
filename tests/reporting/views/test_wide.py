"""Tables in the papers' own layout."""

from __future__ import annotations

import math
import re

import pytest
from pydantic import ValidationError

from dpgraph.config.experiment import Artefact
from dpgraph.core.errors import UserError
from dpgraph.reporting.inputs import artefact_outputs
from dpgraph.reporting.tables import as_html, write_table
from dpgraph.reporting.views.accuracy.table import accuracy_table
from dpgraph.reporting.views.accuracy.wide import make
from tests.plans import plan_of
from tests.reporting.conftest import first_entries, frame_of, missing_row, result_rows

CHARACTERS = 190  # of a line that is still readable when it is made to fit a page of 17 cm


TABLES = ("daigavane/table1", "daigavane/table2", "daigavane/table3", "daigavane/table4", "igamberdiev/table2",
          "igamberdiev/table4", "igamberdiev-v1/table2")  # fmt: skip


@pytest.fixture(scope="module")
def paper():
    return plan_of("paper", artefacts=TABLES, seeds=2)


@pytest.fixture(scope="module")
def found(paper):
    """Random values of every entry but those on reddit, whose data are not there."""
    entries = {(one.paper, one.cell.slug): one for name in TABLES for one in paper.entries_of(name)}
    rows = []
    for entry in entries.values():
        without = entry.task_id.startswith("reddit")
        rows += [missing_row(entry, "not run", "reddit: data not available: 404")] if without else result_rows(entry)
    return frame_of(rows)


@pytest.fixture(scope="module")
def longs(paper, found):
    return {name: accuracy_table(paper, name, found) for name in TABLES}


@pytest.fixture(scope="module")
def wides(paper, longs):
    return {name: make(paper, name, long) for name, long in longs.items()}


def lines_of(table):
    """(block, texts of a line), without footnotes."""
    return [(block.title, [cell.value for cell in row]) for block in table.blocks for row in block.rows]


def test_methods_by_data_sets_as_in_daigavanes_table_1(wides):
    table = wides["daigavane/table1"]
    lines = lines_of(table)
    assert table.columns[3:] == ["ogbn-arxiv", "ogbn-products", "ogbn-mag", "reddit"]
    blocks = list(dict.fromkeys(title for title, _ in lines))
    assert blocks == ["GCN-1", "DP-GCN-1", "DP-GCN-1 SGD", "MLP", "DP-MLP"]
    printed = {title: texts[1:] for title, texts in lines if texts[0] == "paper"}
    # the paper's text, Table 1
    assert printed["GCN-1"] == [
        "–",
        "∞",
        "67.758 ± 0.418",
        "75.965 ± 0.374",
        "34.074 ± 0.445",
        "94.074 ± 0.074",
    ]
    assert printed["DP-MLP"][:2] == ["≤ 12", "≤ 12 / none"]
    assert printed["DP-MLP"][2:] == ["52.178 ± 0.158", "56.449 ± 0.105", "25.133 ± 0.149", "69.499 ± 0.104"]
    ours = [texts[0] for title, texts in lines if title == "DP-GCN-1 SGD"]
    assert ours == ["paper", "ours (paper)", "difference", "ours (proved)", "difference"]


def test_each_printed_budget_has_a_line_of_its_own():
    plan = plan_of("images-cpu", artefacts=("zhang-ch3/table3.1",), seeds=2)
    table = make(plan, "zhang-ch3/table3.1", accuracy_table(plan, "zhang-ch3/table3.1", None))
    lines = [texts for title, texts in lines_of(table) if title == "PATE"][:4]
    assert [texts[1:2] + texts[3:] for texts in lines if texts[0] == "paper"] == [["4.05", "74.8"], ["5.04", "82.1"]]
    assert [texts[0] for texts in lines] == ["paper", "ours", "paper", "ours"]


def test_data_sets_and_epsilons_by_optimiser_as_in_igamberdievs_table_2(wides):
    """Columns of the paper: without privacy, with it, with graph splits; without privacy once for each data set."""
    table = wides["igamberdiev/table2"]
    assert table.columns[3:] == ["SGD", "Adam"] * 3
    assert table.spans == ("", "", "", "Non-DP", "Non-DP", "DP", "DP", "DP split", "DP split")
    lines = [(title.partition(" (")[0], texts) for title, texts in lines_of(table)]
    cora = [texts[1:] for title, texts in lines if title == "Cora" and texts[0] == "paper"]
    # Cora in the paper's text, in percent: .77 .88 | 1 | - - | .55 .56 and 2 | .39 .52 | .55 .57
    assert cora == [
        ["1", "1 / none", "77", "88", "–", "–", "55", "56"],
        ["2", "2 / none", "–", "–", "39", "52", "55", "57"],
    ]
    bare = [texts for title, texts in lines if title == "Cora" and texts[0] == "ours, without privacy"]
    assert len(bare) == 1
    assert bare[0][1:3] == ["–", "∞"]
    assert bare[0][5:] == ["–"] * 4


def test_baselines_and_targets_as_in_the_first_versions_table_2(wides):
    """A constant class has no budget: the line's epsilon is that of its private columns."""
    table = wides["igamberdiev-v1/table2"]
    assert table.columns[3:] == ["Rnd.", "Maj.", "SGD", "Adam", "SGD", "Adam"]
    lines = lines_of(table)
    first = [texts[1:] for title, texts in lines if title.startswith("PubMed") and texts[0] == "paper"]
    # PubMed in the paper's text, in percent: .31 .40 .49 .79 | 2 | .38 .36, then 5, 10 and 137
    assert first[0] == ["2", "2 / none", "31", "40", "49", "79", "38", "36"]
    assert [texts[0] for texts in first] == ["2", "5", "10", "137"]
    assert all(texts[2:6] == ["–"] * 4 for texts in first[1:])


def test_pairs_of_an_architecture_as_in_daigavanes_table_3(wides):
    lines = lines_of(wides["daigavane/table3"])
    printed = {title.partition(": ")[2]: texts[3:] for title, texts in lines if texts[0] == "paper"}
    assert printed == {
        "GCN": ["67.758 ± 0.418", "61.750 ± 0.282"],
        "GIN": ["66.934 ± 0.529", "60.859 ± 0.080"],
        "GAT": ["65.490 ± 0.454", "57.132 ± 0.116"],
        "MLP": ["55.236 ± 0.317", "52.178 ± 0.158"],
    }


def test_every_row_of_the_long_form_stands_in_the_wide_one_once(paper, longs, wides):
    """But for methods that the layout does not name, which a remark lists."""
    for artefact, long in longs.items():
        table, layout = wides[artefact], paper.artefacts[artefact].layout
        named = long if layout is None else long[long["method"].isin(layout.methods)]
        ours = [text for _, texts in lines_of(table) if texts[0] != "paper" for text in texts[3:]]
        good = named[named["status"] == "ok"].to_dict("records")
        expected = [f"{row['mean']:.2f} [{row['ci_low']:.2f},\u00a0{row['ci_high']:.2f}]" for row in good]
        assert sorted(text for text in ours if text[0].isdigit()) == sorted(expected), artefact
        printed = {text for _, texts in lines_of(table) if texts[0] == "paper" for text in texts[3:]} - {"–"}
        assert printed == set(named["published_text"]) - {""}, artefact
        told = " ".join(table.remarks)
        for label in long[~long["method"].isin(named["method"])]["label"]:
            assert label in told


def test_each_value_is_that_of_its_method_data_set_and_target(longs, wides):
    """Line by line against a look-up in the long form."""
    long, table = longs["daigavane/table2"], wides["daigavane/table2"]
    line = next(texts for title, texts in lines_of(table) if title == "DP-GCN-2" and texts[0] == "ours (paper)")
    rows = long[(long["method"] == "dp-gcn-2-published") & (long["epsilon_target"] == float(line[1]))]
    assert len(rows) == 3
    for row in rows.to_dict("records"):
        if row["status"] == "ok":
            assert line[table.columns.index(row["task_label"])].startswith(f"{row['mean']:.2f} [")


def test_differences_from_the_paper_stand_below_each_line(longs, wides):
    long, table = longs["daigavane/table1"], wides["daigavane/table1"]
    lines = [texts for title, texts in lines_of(table) if title == "DP-GCN-1"]
    below = lines[[texts[0] for texts in lines].index("ours (paper)") + 1]
    rows = long[long["method"] == "dp-gcn-1-published"].set_index("task_label")
    expected = [f"{rows.loc[name, 'difference']:+.2f}".replace("-", "−") for name in table.columns[3:6]]
    assert below == ["difference", "", "", *expected, "–"]  # reddit was not run
    assert "Difference: ours minus the paper’s, in points." in table.remarks[0]


def test_both_epsilons_relation_and_scope_of_each_line(wides):
    table = wides["daigavane/table1"]
    lines = [texts for title, texts in lines_of(table) if title.startswith("DP")]
    private = [texts for texts in lines if texts[0].startswith("ours")]
    assert len(private) > 5
    for texts in private:
        assert texts[2] == ("12.0 / none" if texts[0].startswith("ours (paper") else "37.2 / 12.0")
    assert any(note.startswith("Relation node-remove / node-null; scope parameters") for note in table.footnotes)
    assert any("are no common scale" in remark for remark in table.remarks)


def test_bold_are_the_best_of_equal_promises_only(wides, longs):
    """Where a cell is bold, no line of the same relation, scope, delta and budget has a larger mean, or it is a tie."""
    table, long = wides["igamberdiev/table2"], longs["igamberdiev/table2"]
    assert {row["rank"] for row in long.to_dict("records")} == {"", "best", "tied"}
    assert any("unlike guarantees do not compete" in remark for remark in table.remarks)
    claimed = long[long["eps_rigorous"].isna()]
    assert len(claimed)
    assert (claimed["rank"] == "").all()
    proved = long[long["eps_rigorous"].gt(0) & ~long["eps_rigorous"].isna()]
    for _, rows in proved.groupby(
        ["task", "relation_rigorous", "scope_rigorous", "delta", "epsilon_target"], dropna=False
    ):
        if rows["cell"].nunique() > 1:
            assert (rows.loc[rows["rank"] == "best", "mean"] == rows["mean"].max()).all()
            assert (rows["rank"] == "best").any()
    bold = {cell.value.split(" [")[0] for block in table.blocks for row in block.rows for cell in row if cell.bold}
    assert bold <= {f"{mean:.2f}" for mean in long.loc[long["rank"] != "", "mean"]}
    assert bold
    assert all(f"<strong>{value}" in as_html(table) for value in bold)


def test_long_lines_are_few(wides):
    for artefact, table in wides.items():
        cells = [[len(cell.value) for cell in row] for block in table.blocks for row in block.rows]
        assert sum(map(max, zip(*cells, strict=True))) < CHARACTERS, artefact


def test_heads_of_the_page_span_their_columns(wides):
    page = as_html(wides["igamberdiev/table2"])
    heads = page.split("<thead>")[1].split("</thead>")[0]
    over, below = heads.split("</tr><tr>")
    assert sum(map(int, re.findall(r'colspan="(\d+)"', over))) == below.count("<th ") == 9
    assert re.findall(r'colspan="2" class=over>([^<]+)<', over) == ["Non-DP", "DP", "DP split"]
    assert not re.search(r"<script|<link|<img|https?://|@import", page)


def test_a_seed_that_is_missing_is_counted(paper_plan, rows_of, as_frame):
    rows = []
    for entry in first_entries(paper_plan):
        for row in rows_of(entry):
            if row["seed"] == 1 and entry.method_id == "gcn-1":
                row |= {"status": "failed", "reason": "out of memory", "metric": "", "value": math.nan}
            rows.append(row)
    table = make(paper_plan, "daigavane/table1", accuracy_table(paper_plan, "daigavane/table1", as_frame(rows)))
    assert "3 of 4 seeds: out of memory" in table.footnotes


def test_without_results_and_in_a_demonstration(plan, paper_plan, results, tmp_path):
    paths = write_table(paper_plan, "daigavane/table1", None, tmp_path / "t", wide=True)
    written = {path.suffix: path.read_text() for path in paths}
    page = written[".html"]
    assert "not run" in page
    assert "61.750 ± 0.282" in page
    shown = {
        path.suffix: path.read_text()
        for path in write_table(plan, "daigavane/table1", results, tmp_path / "demo", wide=True)
    }
    assert "<strong>Demonstration.</strong>" in shown[".html"]
    assert "emonstration" in shown[".tex"]


def test_the_long_form_is_as_before(plan, results, tmp_path):
    paths = write_table(plan, "daigavane/table1", results, tmp_path / "t")
    assert [path.name for path in paths] == ["t.csv", "t.md", "t.tex", "t.html"]


def test_which_tables_have_a_wide_form(plan, tmp_path):
    names = {path.name for path in artefact_outputs(plan, plan.artefacts)}
    assert {f"table1.wide.{suffix}" for suffix in ("md", "tex", "html")} <= names
    assert "table7.wide.md" not in names
    with pytest.raises(UserError, match=r"view=statistics: expected one of accuracy for a wide table"):
        write_table(plan, "daigavane/table7", None, tmp_path / "t", wide=True)


LAYOUT = {"columns": [["", "A"], ["DP", "B"]], "rows": {"": {"ours": ["a", None]}}}
TABLE = {"kind": "table", "view": "accuracy", "title": "t", "methods": ["a"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": LAYOUT | {"rows": {"": {"ours": ["a"]}}}}, "a line of 1 methods: expected 2, as columns"),
        ({"layout": LAYOUT | {"rows": {"": {"ours": ["b", None]}}}}, "layout.rows: b: expected one of methods"),
        ({"layout": LAYOUT | {"rows": {}}}, "at least 1 item"),
        ({"layout": LAYOUT, "view": "statistics"}, "view=statistics: expected layout only with accuracy"),
    ],
)
def test_layouts_that_are_refused(change, message):
    assert Artefact.model_validate(TABLE | {"layout": LAYOUT}).layout is not None
    with pytest.raises(ValidationError, match=re.escape(message)):
        Artefact.model_validate(TABLE | change)
