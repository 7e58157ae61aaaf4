"""The first page in a headless Chromium: filters, sorting, copies, claims and the chart, at four sizes."""

import json
import re
from html import unescape

import pandas as pd
import pytest

from dpgraph.core.errors import UserError
from dpgraph.reporting.artefacts import abouts_of_papers
from dpgraph.reporting.claims.page import held
from dpgraph.reporting.claims.table import read_claims
from dpgraph.reporting.leaderboard.finding import finding
from dpgraph.reporting.leaderboard.page import Links, page, write_index
from dpgraph.reporting.leaderboard.standings import standings
from dpgraph.reporting.ranking import PROVED, PUBLIC
from dpgraph.reporting.results import write_csv
from tests.browser import CHROMIUM, SIZES, visit

PROBE = """<!doctype html><title>probe</title><iframe id=f width=1300 height=900 src="index.html"></iframe>
<pre id=found></pre><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
document.getElementById("f").addEventListener("load", async () => {
  const box = document.getElementById("f"), frame = box.contentWindow, page = frame.document;
  const found = {errors: [], counts: {}, sizes: [], legends: [], marks: [], overview: []};
  frame.addEventListener("error", (e) => found.errors.push(String(e.message)));
  frame.addEventListener("unhandledrejection", (e) => found.errors.push(String(e.reason)));
  for (let asked = 0; asked < 1000 && !page.querySelector("#plot svg"); asked++) await fetch("pause");
  const count = () => page.querySelectorAll("#rows tbody tr").length;
  const change = (id, value) => {
    page.getElementById(id).value = value;
    page.getElementById(id).dispatchEvent(new frame.Event(id === "of-text" ? "input" : "change"));
  };
  found.finding = page.getElementById("finding").textContent;
  found.counts.all = count();
  for (const id of ["of-data", "of-budget", "of-promise"]) {
    const options = [...page.getElementById(id).options].map((option) => option.value);
    found.counts[id] = options.slice(1).map((value) => { change(id, value); return count(); });
    change(id, "all");
  }
  change("of-text", "no such method"); found.counts.none = count(); change("of-text", "");
  found.records = [...page.querySelectorAll("#rows a")].map((link) => link.getAttribute("href"));
  const column = (place) => [...page.querySelectorAll("#rows tbody tr")].map((line) => line.cells[place].textContent);
  const heads = [...page.querySelectorAll("#rows th")].map((head) => head.textContent);
  const value = heads.indexOf("Value (%)");
  page.querySelectorAll("#rows th")[value].click();
  found.descending = column(value).map(parseFloat);
  page.querySelectorAll("#rows th")[value].click();
  found.ascending = column(value).map(parseFloat);
  found.bold = page.querySelectorAll("#rows strong").length;
  const rows = frame.eval("sorted(chosen())");
  found.csv = frame.eval("csv")(rows); found.latex = frame.eval("latex")(rows);
  for (const tile of page.querySelectorAll(".tile")) {
    const told = tile.nextElementSibling;
    if (!told.hidden) found.errors.push("open before a click: " + tile.textContent);
    tile.click();
    if (told.hidden || !told.textContent.includes(tile.textContent)) found.errors.push("not told: " + tile.textContent);
    tile.click();
  }
  found.tiles = page.querySelectorAll(".tile").length;
  for (const option of page.getElementById("data").options) {
    change("data", option.value); await wait(400);
    found.marks.push(page.querySelectorAll("#plot svg .mark-symbol path").length);
  }
  for (const [width, height] of SIZES) {
    box.width = width; box.height = height; await wait(300);
    found.sizes.push([width, page.documentElement.scrollWidth]);
    const right = () => Math.max(
      ...[...page.querySelectorAll("#plot svg .role-legend")].map((one) => one.getBoundingClientRect().right));
    for (let asked = 0; asked < 500 && right() > width; asked++) await fetch("pause");  // the chart is drawn again
    found.legends.push([width, right()]);
    const cells = [...page.querySelectorAll("#best td.number:not(.none)")];
    const boxes = cells.map((cell) => cell.getBoundingClientRect());
    const last = Math.max(...boxes.map((one) => one.right)), narrow = Math.min(...boxes.map((one) => one.width));
    const empty = [...page.querySelectorAll("#best td.none")].filter((cell) => cell.getClientRects().length);
    found.overview.push([width, last, narrow, empty.length]);
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>""".replace("SIZES", json.dumps(SIZES))


@pytest.mark.browser
def test_the_page_in_a_browser(plan, results, claims, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the first page was not opened")
    (tmp_path / "page").mkdir()
    write_index(plan, results, claims, tmp_path / "page/index.html")
    found, console = visit(tmp_path / "page", PROBE, tmp_path / "profile")
    table = standings(plan, results)
    assert console == []
    assert found["errors"] == []
    assert found["counts"]["all"] == len(table)
    assert found["counts"]["none"] == 0
    assert sum(found["counts"]["of-data"]) == len(table)
    assert all(found["counts"]["of-data"] + found["counts"]["of-budget"] + found["counts"]["of-promise"])
    assert found["bold"] == ((table["best"] | table["tied"]) & (table["below"] == "")).sum() < len(table)
    assert found["records"] == [f"cells/{cell}/result.json" for cell in table["cell"]]  # of a run, next to its page
    assert found["descending"] == sorted(found["descending"], reverse=True)
    assert found["ascending"] == sorted(found["ascending"])
    assert found["csv"].count("\n") == len(table)
    assert found["latex"].count("\\textbf") == found["bold"]
    assert found["tiles"] == len(held(plan, claims))
    assert found["marks"]
    assert all(found["marks"]), found["marks"]
    for width, needed in found["sizes"]:  # tables scroll in their own frames, the page never does
        assert needed <= width, found["sizes"]
    for width, right in found["legends"]:
        assert 0 < right <= width, found["legends"]
    for width, right, narrowest, empty in found["overview"]:  # all values are seen without scrolling, on a phone, too
        assert right <= width, found["overview"]
        assert narrowest > 60, found["overview"]
        assert (empty == 0) == (width < 640), found["overview"]  # which has no place for values that are not there


def test_the_page_needs_nothing_from_outside(plan, results, claims, tmp_path):
    write_index(plan, results, claims, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text()
    for outside in ('src="http', 'src="//', "@import", '<link rel="stylesheet"'):
        assert outside not in text
    for row in held(plan, claims).to_dict("records"):
        assert f">{row['claim']}</button>" in text


def test_the_terms_say_what_labels_leave_out(plan, results, claims, tmp_path):
    write_index(plan, results, claims, tmp_path / "index.html")
    terms = (tmp_path / "index.html").read_text(encoding="utf-8").partition('<section id="terms">')[2]
    shown = abouts_of_papers(plan.experiments, standings(plan, results))
    assert shown
    assert all(about in unescape(terms) for about in shown.values())


def test_texts_of_results_cannot_end_the_script(plan, results, claims, tmp_path):
    sly = results.copy()
    sly["uncovered"] = "</script><b>x<!--<script>"
    write_index(plan, sly, claims, tmp_path / "index.html", Links(cells=False))
    text = (tmp_path / "index.html").read_text()
    assert "</script><b>x" not in text
    assert "<!--<script>" not in text
    assert '"records":false' in text


def test_claims_say_nothing_where_nothing_is_known(plan, results, claims, tmp_path):
    """A column of texts that is empty in all rows is one of texts."""
    silent = ["substitutes", "mechanism", "own_numbers", "evidence", "effect"]
    write_csv(claims.assign(**dict.fromkeys(silent, "")), tmp_path / "claims.csv")
    known = read_claims(tmp_path / "claims.csv")
    assert (known[silent] == "").all(axis=None)
    write_index(plan, results, known, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8").partition('id="claims"')[2].partition("<script")[0]
    assert not re.findall(r"\bnan\b", text)
    assert "On substitutes" not in text
    assert "Seeds " in text  # numbers stay numbers


def test_the_page_says_what_its_marks_mean(plan, results, claims):
    """What is not shown to be above chance is marked, is not bold, and its floor is named, in the headline, too."""
    first = standings(plan, results)
    first = first[first["kind"] == PROVED].iloc[0]
    own = results[(results["cell"] == first["cell"]) & (results["metric"] == "accuracy/test")]
    chance = own.assign(metric="majority/test", value=own["value"] + 0.001)
    table = standings(plan, pd.concat([results, chance], ignore_index=True))
    low = table[table["below"] != ""]
    assert set(low["cell"]) == {first["cell"]}
    assert set(low["below"]) == {"the share of the largest class of the test nodes"}
    only = table[table["cell"].isin(low["cell"]) | (table["kind"] != PROVED)]
    assert "not shown to be above the share of the largest class" in finding(plan, only, claims)
    text = page(plan, only, claims, Links())
    assert f"{first['mean']:.1f} ± " in text
    told = " ".join(unescape(text).split())
    assert "§ Not shown to be above the share of the largest class of the test nodes, which reads nothing" in told
    assert "± is half of the 95 % interval over seeds (in tables: the standard deviation)" in told
    above = standings(plan, pd.concat([results, chance.assign(value=0.001)], ignore_index=True))
    assert (above["below"] == "").all()


def test_a_suite_without_a_result_has_a_page(plan, results, claims, tmp_path):
    write_index(plan, results.iloc[:0], claims, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text()
    assert "without a ranking of methods" in text
    assert all(f'id="{name}"' not in text for name in ("leaderboard", "chart", "data"))
    assert '<img src="figures/' in text  # the first figure stands where others have the chart


def test_a_page_without_proved_rows_has_no_empty_chart_and_names_its_commits(plan, results, claims, tmp_path):
    table = standings(plan, results)
    text = page(plan, table[table["kind"] == PUBLIC], claims, Links(), ["0123456789ab"])
    assert all(f'id="{name}"' not in text for name in ("chart", "plot", "best"))
    assert 'id="leaderboard"' in text
    assert "at commit 0123456789ab" in text
    write_index(plan, results, claims, tmp_path / "index.html")
    assert f"at commit {', '.join(sorted(set(results['commit'].dropna())))}" in (tmp_path / "index.html").read_text()


MEASURES = """<!doctype html><title>probe</title><iframe id=f width=1300 height=900 src="index.html"></iframe>
<pre id=found></pre><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
document.getElementById("f").addEventListener("load", async () => {
  const frame = document.getElementById("f").contentWindow, page = frame.document, found = {charts: [], ticks: []};
  for (let asked = 0; asked < 1000 && !page.querySelector("#plot svg"); asked++) await fetch("pause");
  for (const option of page.getElementById("data").options) {
    page.getElementById("data").value = option.value;
    page.getElementById("data").dispatchEvent(new frame.Event("change")); await wait(400);
    found.charts.push([option.value, page.querySelectorAll("#plot svg .mark-symbol.role-mark path").length]);
  }
  found.topics = [...new Set([...page.querySelectorAll("#rows td.topic")].map((cell) => cell.textContent))];
  found.latex = frame.eval("latex(ROWS)");
  for (const asked of [[[1, 0.99], [8, 7.4], [8, 7.99]], [[4.05, 3.3], [5.04, 4.16]]]) {
    const rows = asked.map(([budget, epsilon]) => ({budget, epsilon}));
    found.ticks.push(frame.eval("ticksOf")(rows, frame.eval("domainOf")(rows)));
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>"""


@pytest.mark.browser
def test_values_of_unlike_measures_share_no_chart_and_are_told_apart(plan, results, claims, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the first page was not opened")
    table = standings(plan, results)
    data = table.loc[table["kind"] == PROVED, "data"].iloc[0]
    other = table[table["data"] == data].assign(metric="test macro F1 (%)")
    (tmp_path / "page").mkdir()
    text = page(plan, pd.concat([table, other], ignore_index=True), claims, Links())
    (tmp_path / "page/index.html").write_text(text)
    found, console = visit(tmp_path / "page", MEASURES, tmp_path / "profile")
    assert console == []
    names = [f"{data}, {name}" for name in ("test accuracy", "test macro F1")]
    proved = int(((table["data"] == data) & (table["kind"] == PROVED)).sum())
    assert [one for one in found["charts"] if one[0] in names] == [[name, proved] for name in names]
    assert set(names) < set(found["topics"])
    assert data not in found["topics"]
    assert all(name in found["latex"] for name in names)
    assert found["ticks"] == [[1, 8], [3.3, 4.16]]  # budgets, and epsilons that are far from each of them


def test_claims_that_are_not_there_or_damaged_are_named(claims, tmp_path):
    with pytest.raises(UserError, match=r"claims\.csv: no such file"):
        read_claims(tmp_path / "claims.csv")
    claims.drop(columns="verdict").to_csv(tmp_path / "claims.csv", index=False)
    with pytest.raises(UserError, match="column verdict is missing"):
        read_claims(tmp_path / "claims.csv")
    claims.to_csv(tmp_path / "claims.csv", index=False)
    assert isinstance(read_claims(tmp_path / "claims.csv"), pd.DataFrame)
