"""Tables as LaTeX: in form, and compiled in one and in two columns where the machine has LaTeX."""

from __future__ import annotations

import re

import pytest

from dpgraph.config.config import Config
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.artefacts import caption
from dpgraph.reporting.display import NOT_IN_PAPER, RowGroup, Table, Text
from dpgraph.reporting.latex import LINES, PREAMBLE, as_latex
from dpgraph.reporting.tables import write_table
from tests.plans import plan_of
from tests.reporting.compiled import LAYOUTS, compile_tables, is_there
from tests.reporting.conftest import WORKFLOW, frame_of, graph_rows, missing_row, result_rows
from tests.reporting.test_tables import STATISTICS

ARTEFACTS = ("daigavane/table1", "daigavane/table2", "igamberdiev/table2", "igamberdiev-v1/table2")
SMALLEST = 0.75  # of 8 points: six points, below which print is not read


@pytest.fixture(scope="module")
def texts(plan, results, tmp_path_factory):
    """By name: long and wide forms of suite cpu with random values and one failure, and of other views of the demo."""
    folder = tmp_path_factory.mktemp("tables")
    cpu = plan_of("cpu", artefacts=ARTEFACTS, seeds=3)
    entries = {(one.paper, one.cell.slug): one for name in ARTEFACTS for one in cpu.entries_of(name)}
    rows = [row for entry in list(entries.values())[1:] for row in result_rows(entry)]
    first = next(iter(entries.values()))
    found = frame_of([*rows, missing_row(first, "failed", "diverged at step 41: 100 % of a_b & c#")])
    written = {}
    for name in ARTEFACTS:
        stem = folder / name.replace("/", "-")
        written[stem.name] = write_table(cpu, name, found, stem)[2].read_text()
        written[f"{stem.name}-wide"] = write_table(cpu, name, found, stem, wide=True)[1].read_text()
    record = {"statistics": STATISTICS}
    statistics = graph_rows(plan, "daigavane/table7", {"sbm": record, "pubmed": record})
    written["demo-table1"] = write_table(plan, "daigavane/table1", results, folder / "table1")[2].read_text()
    written["demo-table7"] = write_table(plan, "daigavane/table7", statistics, folder / "table7")[2].read_text()
    return written


def test_well_formed(texts):
    for text in texts.values():
        assert text.isascii()
        assert text.startswith(f"% {PREAMBLE[0]}")
        opened = re.findall(r"\\begin\{(\w+\*?)\}", text)
        assert opened.count("table*") == opened.count("tabular") == opened.count("adjustbox") >= 1
        assert sorted(opened) == sorted(re.findall(r"\\end\{(\w+\*?)\}", text))
        without = re.sub(r"\\[%&#_{}$]", "", text)
        assert without.count("{") == without.count("}")
        assert without.count("$") % 2 == 0
        body = without.split("\n", len(PREAMBLE))[-1]
        assert "%" not in body  # but in the first lines, which are comments
        for inside in re.findall(r"\\toprule(.*?)\\bottomrule", without, re.S):
            counts = {
                line.count("&") + sum(int(width) - 1 for width in re.findall(r"\\multicolumn\{(\d+)\}", line))
                for line in inside.splitlines()
                if line.endswith("\\\\")
            }
            assert len(counts) == 1


@pytest.mark.skipif(not is_there(), reason="no pdflatex with siunitx, booktabs and adjustbox on this machine")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiles_and_fits(texts, layout, tmp_path):
    """No line is wider than the page, no float higher, and nothing is set in less than six points."""
    compiled = compile_tables(texts, layout, tmp_path)
    assert compiled.pdf.stat().st_size > 20_000
    assert not compiled.overfull
    assert not compiled.too_high
    assert set(compiled.scales) == set(texts)
    assert min(compiled.scales.values()) >= SMALLEST, compiled.scales
    assert all(
        scale == 1 for name, scale in compiled.scales.items() if layout == "two columns" and "table1-wide" in name
    )


@pytest.mark.skipif(not is_there(), reason="no pdflatex with siunitx, booktabs and adjustbox on this machine")
def test_an_overflow_is_noticed(texts, tmp_path):
    """The check itself: a tabular that nothing makes smaller, and text in a column of numbers."""
    wide = re.sub(r"\\(begin|end)\{adjustbox\}(\{[^}]*\})?", "", texts["igamberdiev-table2"])
    assert compile_tables({"wide": wide}, "one column", tmp_path).overfull
    broken = texts["demo-table7"].replace("\\toprule", "\\toprule \\nosuchcommand")
    with pytest.raises(RuntimeError, match="Undefined control sequence"):
        compile_tables({"broken": broken}, "one column", tmp_path)


def table_of(rows, columns=("Method", "Accuracy", "Seeds", "Paper"), brief=None):
    return Table("T", list(columns), [RowGroup("", rows)], ["first; second " + "x" * 200], ["all of it"], brief=brief)


def test_numbers_are_aligned_by_siunitx_and_the_best_is_bold():
    rows = [
        [Text("a"), Text("7.5 ± 0.2"), Text("3"), Text(NOT_IN_PAPER)],
        [Text("b"), Text("12.25 ± 1.30", bold=True, notes=(1,)), Text("3"), Text(NOT_IN_PAPER)],
        [Text("c"), Text("failed", notes=(1,)), Text("3"), Text(NOT_IN_PAPER)],
        [Text("d"), Text("−1,234.5"), Text("3"), Text(NOT_IN_PAPER)],
    ]
    text = as_latex(table_of(rows), "Caption.", "x")
    assert "S[table-format=+4.2(3)]" in text
    assert "a & 7.5 +- 0.2 \\\\" in text
    assert r"b & \bfseries 12.25 +- 1.30 {\textsuperscript{1}} \\" in text
    assert r"c & {failed\textsuperscript{1}} \\" in text
    assert r"d & -1234.5 \\" in text


def test_a_column_of_pairs_of_numbers_is_text_though_one_is_a_number():
    """siunitx sets a lone 0 with a note wider than its column."""
    rows = [
        [Text("a"), Text("2.71 / 2.00", notes=(1,)), Text("10.6 / 8.00")],
        [Text("b"), Text("0", notes=(1,)), Text("—")],
    ]
    text = as_latex(table_of(rows, ("Method", "epsilons", "others")), "Caption.", "x")
    assert "{@{}lrr@{}}" in text
    assert r"b & 0\textsuperscript{1} &" in text
    assert "S[table-format=1.0]" in as_latex(
        table_of([[Text("a"), Text("0")], [Text("b"), Text("none")]], ("M", "e")), "C.", "x"
    )


def test_what_says_nothing_is_left_out_and_what_is_common_is_said_once():
    rows = [[Text("a"), Text("1.0"), Text("3"), Text(NOT_IN_PAPER)], [Text("b"), Text("2.0"), Text("3"), Text("–")]]
    text = as_latex(table_of(rows), "Caption.", "x")
    assert "Paper" not in text
    assert "In all rows: Seeds 3." in text
    assert "all of it" in text
    brief = as_latex(table_of(rows, brief=["short"]), "Caption.", "x")
    assert "short" in brief
    assert "all of it" not in brief


def test_short_notes_keep_whole_clauses():
    rows = [[Text("a"), Text("1.0", (1,)), Text("3"), Text("–")], [Text("b"), Text("2.0"), Text("4"), Text("5")]]
    text = as_latex(table_of(rows), "Caption.", "x")
    assert r"\textsuperscript{1}~first; ..." in text
    assert "second" not in text


@pytest.mark.parametrize("count", [1, LINES, 3 * LINES])
def test_every_row_is_in_one_part(count):
    rows = [[Text(f"row{i}"), Text(f"{i}.0"), Text(str(i)), Text("1")] for i in range(count)]
    text = as_latex(table_of(rows), "Caption.", "x")
    assert re.findall(r"^(row\d+) &", text, re.M) == [f"row{i}" for i in range(count)]
    parts = text.count(r"\begin{table*}")
    assert parts == 1 if count == 1 else parts > count // LINES
    assert len(set(re.findall(r"\\label\{(.*?)\}", text))) == parts


def test_captions_are_sentences(paper_plan, plan):
    assert caption(paper_plan, "daigavane/table1") == (
        "Test accuracy in the transductive setting, as in Table 1 of Daigavane et al. (2022)."
    )
    assert caption(plan, "daigavane/table1").endswith("(demonstration).")
    cpu = load_plan(Config(suite="cpu", artefacts=["daigavane/headline"]), WORKFLOW)
    assert caption(cpu, "daigavane/headline") == "Test accuracy at three budgets."
