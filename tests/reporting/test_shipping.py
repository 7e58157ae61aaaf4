"""What `ship` keeps of a suite, from made-up rows of the demonstration, and what `render` makes of it."""

import math
import re
import shutil
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dpgraph.config.config import Config, load
from dpgraph.config.experiment import Experiment
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import load_plan
from dpgraph.privacy.relation import Relation
from dpgraph.reporting import shipping
from dpgraph.reporting.formats import markdown
from dpgraph.reporting.guarantee import unpacked
from dpgraph.reporting.inputs import artefact_outputs
from dpgraph.reporting.leaderboard.finding import overview
from dpgraph.reporting.leaderboard.guide import VALUES, guide, guide_data
from dpgraph.reporting.leaderboard.page import shared_files
from dpgraph.reporting.leaderboard.standings import (
    COLUMNS,
    NUMBERS,
    columns_of,
    plain,
    read_values,
    standings,
    standings_of,
    value_shown,
    write_values,
)
from dpgraph.reporting.ranking import PROVED, PUBLIC
from dpgraph.reporting.render import ROWS, drawn, held_back, render
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.shipping import GUIDE, GUIDE_DATA, TIMES, keep_galleries, ship
from tests.browser import CHROMIUM, visit
from tests.reporting.conftest import WORKFLOW, frame_of, result_rows
from tests.reporting.leaderboard.test_page import PROBE


@pytest.fixture(scope="module")
def made(results, claims, tmp_path_factory):
    """The demonstration's plan with rows in a folder of its own; verdicts that take long are made up."""
    own = load_plan(Config(seeds=3, results=str(tmp_path_factory.mktemp("results"))), WORKFLOW)
    paths = Paths(own.config)
    paths.suite.mkdir(parents=True)
    results.to_parquet(paths.results)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("shipping", "render"):
            patch.setattr(f"dpgraph.reporting.{module}.write_claims", lambda *given: write_csv(claims, given[2]))
        yield own


@pytest.fixture(scope="module")
def shipped(made, tmp_path_factory):
    """The folder over all suites."""
    out = tmp_path_factory.mktemp("shipped") / "results"
    written = ship(made, out=out)
    assert all(out / made.suite.name in path.parents for path in written)
    return out


def test_the_folder_can_be_read_on_its_own(made, results, shipped):
    folder = shipped / made.suite.name
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    figures = {name for name in names if name.startswith("figures/")}
    assert names - figures == {"README.md", "claims.csv", ROWS, VALUES}
    assert len(figures) == shipping.PICTURES
    text, values = (folder / "README.md").read_text(), read_values(folder / VALUES)
    links = [folder / link for link in re.findall(r"\]\(([^)#]+)\)", text)]
    links += [shipped / link for link in re.findall(r'(?:href|src)="([^"#:]+)"', values["html"])]
    links += [shipped / link for link in re.findall(r'(?:href|src)="([^"#:]+)"', (shipped / "index.html").read_text())]
    assert len(links) > 10
    assert [link for link in links if not link.exists()] == []
    assert (shipped / "index.html").stat().st_size < 100_000
    for about, best in overview(standings(made, results)).lines:
        assert f"| {about['data']} | {about['relation']}; {about['scope']} |" in text
        for row in best.values():
            assert f"{value_shown(row)} ({markdown(str(row['label']))}" in text
            assert f"n = {row['n']}" in text
    assert re.search(
        r"All data are here of \d+ of the papers' claims. 6 of these have power 0.5 and 5 seeds in each part", text
    )
    contents = (shipped / "README.md").read_text()
    assert "| papers' claims | our claims |" in contents
    assert f"[{made.suite.name}]({made.suite.name}/README.md)" in contents
    assert "0123456789ab" in contents


def test_figures_of_which_nothing_ran_are_left_out(made, results, shipped, tmp_path, monkeypatch):
    kept = {f"{path.parent.name}/{path.stem}" for path in shipped.glob("*/figures/*/*.png")}
    monkeypatch.setattr(shipping, "draw_figure", lambda *given: SimpleNamespace(caption=[]))  # the choice alone
    assert set(shipping._draw(made, results, tmp_path)) == kept
    first = min(kept)
    lost = {one.cell.slug for one in made.entries_of(first)}
    now = set(shipping._draw(made, results[~results["cell"].isin(lost)], tmp_path))
    assert now
    assert first not in now


def test_a_figure_whose_cells_ran_without_its_value_is_left_out(made, results, shipped, tmp_path):
    first = next(name for name in drawn(made) if (shipped / made.suite.name / f"figures/{name}.png").is_file())
    lost = {one.cell.slug for one in made.entries_of(first)}
    metric = results["metric"].where(~results["cell"].isin(lost), "seconds/test")
    assert lost & set(results.loc[results["status"] == "ok", "cell"])
    assert first not in shipping._draw(made, results.assign(metric=metric), tmp_path)


def test_every_table_is_in_the_page_and_no_record_of_a_person(made, shipped):
    values = read_values(shipped / made.suite.name / VALUES)
    tables = [name for name in drawn(made) if made.artefacts[name].kind == "table"]
    assert values["html"].count('<details class="shown"') == len(tables) + shipping.PICTURES
    galleries = [name for name, artefact in made.artefacts.items() if artefact.view in held_back(made)]
    assert galleries
    assert not any(made.artefacts[name].title in values["html"] for name in galleries)


def test_rows_are_kept_whole_and_pages_are_the_same_from_them(made, shipped, tmp_path):
    kept_rows = shipped / made.suite.name / ROWS
    before, after = (unpacked(pq.read_table(path)).to_pandas(ignore_metadata=True) for path in
                     (Paths(made.config).results, kept_rows))  # fmt: skip
    pd.testing.assert_frame_equal(before.drop(columns=list(TIMES)), after.drop(columns=list(TIMES)))
    pd.testing.assert_frame_equal(before[list(TIMES)], after[list(TIMES)], rtol=0.005)
    out = tmp_path / "again"
    shutil.copytree(shipped, out)
    elsewhere = load_plan(Config(seeds=3, results=str(tmp_path / "none")), WORKFLOW)
    ship(elsewhere, out / made.suite.name / ROWS, out)
    for path in shipped.rglob("*"):
        if path.is_file():
            assert (out / path.relative_to(shipped)).read_bytes() == path.read_bytes(), path.name
    assert not (tmp_path / "none").exists()


def test_standings_come_back_from_the_page(made, results, shipped):
    table = standings(made, results)
    pd.testing.assert_frame_equal(standings_of(read_values(shipped / made.suite.name / VALUES)), table, rtol=1e-7)


@pytest.mark.slow
def test_rows_alone_make_what_the_workflow_makes(made, shipped, tmp_path):
    own = load_plan(Config(seeds=3, results=str(tmp_path)), WORKFLOW)
    index = render(own, shipped / made.suite.name / ROWS)
    files = [*artefact_outputs(own, drawn(own)), index, Paths(own.config).claims]
    assert [path for path in files if not path.is_file()] == []


def test_a_suite_without_rows_is_refused_in_one_line(made, tmp_path):
    message = r"rows\.parquet: no rows: run `dpgraph run --suite demo`, then `dpgraph ship --suite demo`$"
    with pytest.raises(UserError, match=message):
        render(made, tmp_path / ROWS)


def test_results_of_no_commit_or_of_changed_files_are_refused(made, results, tmp_path):
    for commit in ("0123456789ab+", "", "unknown"):
        results.assign(commit=commit).to_parquet(tmp_path / ROWS)
        with pytest.raises(UserError, match="expected commits without changed files"):
            ship(made, tmp_path / ROWS, tmp_path / "out")
    assert not (tmp_path / "out" / made.suite.name).exists()


def test_too_much_is_refused_and_what_was_there_is_kept(made, shipped, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(shipped, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    monkeypatch.setattr(shipping, "LIMIT", 1000)
    monkeypatch.setattr(shipping, "_draw", lambda *given: {})
    with pytest.raises(UserError, match="MB with suite demo: expected at most"):
        ship(made, out=out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


# ---- the page over all suites, and which method when -----------------------------------------------------------------


@pytest.mark.browser
def test_the_page_over_all_suites_works_in_a_browser(made, shipped, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the page was not opened")
    shutil.copytree(shipped, tmp_path / "kept")
    inside = PROBE.replace('src="index.html"', f'src="index.html#{made.suite.name}"')
    found, console = visit(tmp_path / "kept", inside, tmp_path / "profile")
    assert console == []
    assert found["errors"] == []
    assert all(found["marks"])
    assert found["counts"]["all"] > 5
    assert found["records"] == []  # no link to a record that is not shipped


def test_no_record_is_linked_where_none_is_shipped(made, shipped):
    values = read_values(shipped / made.suite.name / VALUES)
    assert values["records"] is False
    assert values["cells"] > 5  # that were trained


KEPT = Path(__file__).parents[2] / "docs/results"


def test_which_method_is_what_the_kept_results_say():
    assert (KEPT.parent / GUIDE).read_text(encoding="utf-8") == guide(KEPT)
    assert (KEPT.parent / GUIDE_DATA).read_text(encoding="utf-8") == guide_data(KEPT)


def test_the_kept_page_reads_the_files_beside_it():
    for name, text in shared_files().items():
        assert (KEPT / name).read_text(encoding="utf-8") == text
    page = (KEPT / "index.html").read_text(encoding="utf-8")
    for path in KEPT.glob(f"*/{VALUES}"):
        assert f'href="#{path.parent.name}"' in page
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < shipping.LIMIT


def kept(folder, suite, rows, demonstration=False, **given):
    """A suite's folder with rows of the leaderboard: data set, label, relation, epsilon, mean, seeds, best, tied."""
    names = ("dataset", "label", "relation", "budget", "mean", "n", "best", "tied")
    frame = pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])
    public = frame["relation"] == ""
    frame = frame.assign(
        data=frame["dataset"],
        metric="test accuracy (%)",
        kind=PROVED,
        scope="joint",
        delta=1e-5,
        epsilon=frame["budget"],
    )
    frame.loc[public, ["kind", "scope"]] = [PUBLIC, ""]
    (folder / suite).mkdir(parents=True)
    keep(folder / suite, frame.assign(**given), demonstration)


def keep(folder, frame, demonstration=False):
    frame = frame.reindex(columns=list(COLUMNS))
    texts = [name for name in COLUMNS if name not in (*NUMBERS, "n", "best", "tied")]
    frame = frame.fillna(dict.fromkeys(texts, ""))
    rows = columns_of([plain(row) for row in frame.to_dict("records")])
    write_values({"suite": folder.name, "demonstration": demonstration, "rows": rows}, folder / VALUES)


def test_which_method_by_promise(tmp_path):
    rows = [
        ("cora", "A", "node-null", 1.0, 50.0, 5, True, False),
        ("cora", "B", "node-null", 1.0, 49.5, 5, False, True),
        ("cora", "C", "node-null", 1.0, 30.0, 5, False, False),
        ("pubmed", "B", "node-null", 1.0, 80.0, 2, True, False),
        ("cora", "A", "edge", 4.0, 81.0, 5, True, False),
        ("cora", "GCN", "", math.inf, 80.0, 5, True, False),
    ]
    kept(tmp_path, "one", rows)
    kept(tmp_path, "demo", [("cora", "D", "node-null", 1.0, 99.0, 5, True, False)], demonstration=True)
    kept(tmp_path, "two", [("cora", "E", "node-null", 1.0, 60.0, 5, True, False)])
    assert guide(tmp_path).splitlines().count("- `node-null`: " + Relation.NODE_NULL.short + ".") == 0  # two data sets
    data = pd.read_csv(StringIO(guide_data(tmp_path))).set_index(["relation", "data", "budget"])
    assert list(data["label"]) == ["A", "E", "B"]  # the best of all suites but demonstrations
    assert data.loc[("node-null", "cora", 1.0), ["mean", "no_privacy", "not_told_apart"]].tolist() == [60, 80, 0]
    assert data.loc[("edge", "cora", 4.0), "suite"] == "one"
    assert pd.isna(data.loc[("node-null", "pubmed", 1.0), "no_privacy"])
    (tmp_path / "two" / VALUES).unlink()
    data = pd.read_csv(StringIO(guide_data(tmp_path))).set_index(["relation", "data", "budget"])
    assert data.loc[("node-null", "cora", 1.0), ["mean", "not_told_apart"]].tolist() == [50, 1]


def test_a_stronger_promise_of_any_suite_competes_in_the_guide(tmp_path):
    kept(tmp_path, "one", [("cora", "A", "node-null", 1.0, 50.0, 5, True, False)])
    kept(tmp_path, "two", [("cora", "B", "graph", 1.0, 60.0, 5, True, False)])
    kept(tmp_path, "three", [("cora", "C", "training-node", 1.0, 70.0, 5, True, False)])
    data = pd.read_csv(StringIO(guide_data(tmp_path))).set_index("relation")
    assert data["label"].to_dict() == {"node-null": "B", "graph": "B", "training-node": "C"}


def test_the_guide_counts_on_how_many_data_sets_a_method_is_best(tmp_path):
    rows = [(name, label, "node-null", 1.0, 50.0, 5, True, False) for name, label in
            (("cora", "A"), ("pubmed", "A"), ("cora-ml", "B"), ("demo-words-degree-4", "C"))]  # fmt: skip
    rows += [("cora", "A", "node-null", at, 60.0 + at, 5, True, False) for at in (2.0, 4.0, 32.0)]
    rows += [("cora", "GCN", "", math.inf, 88.0, 5, True, False)]
    rows += [("cora", "A", "node-null", 0.5, 30.0, 5, True, False)]  # a smaller budget is not the price at 1
    kept(tmp_path, "one", rows, setting="transductive")
    text = guide(tmp_path)
    line = "| `node-null`; joint | 3 | A (2 of 3) | A (1 of 1) | – | 38.0 to 38.0 points |"
    assert line in text.splitlines()  # without graphs that were made
    assert f"- `node-null`: {Relation.NODE_NULL.short}." in text.splitlines()
    assert "C" in set(pd.read_csv(StringIO(guide_data(tmp_path)))["label"])


def test_the_guide_says_what_labels_leave_out(tmp_path):
    rows = [(name, "Votes", "node-null", 1.0, 50.0, 5, True, False) for name in ("cora", "pubmed", "cora-ml")]
    kept(tmp_path, "one", rows, setting="transductive", paper="votes")
    about = load(Experiment, WORKFLOW / "experiments/votes.yaml").methods["votes"].about
    assert f"- Votes: {about}" in guide(tmp_path).splitlines()


def test_which_method_without_any_row(tmp_path):
    assert "| data sets |" in guide(tmp_path)
    assert len(guide_data(tmp_path).splitlines()) == 1


def test_galleries_of_digits_are_kept_and_those_of_persons_are_not(tmp_path):
    """Pictures of this run go before kept ones; a registry entry that says nothing keeps its pictures in results/."""
    plan = load_plan(Config(suite="images-cpu", results=str(tmp_path / "results")), WORKFLOW)
    pictures = [name for name, one in plan.artefacts.items() if one.view in held_back(plan)]
    before, folder = tmp_path / "before", tmp_path / "now"
    for name in pictures:
        kept, own = before / f"figures/{name}.png", Paths(plan.config).figure(name, "png")
        for path, text in ((kept, "kept"), (own, "of this run")):
            if path is kept or name != "zhang-ch4/fig4.4":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    rows = []
    for entry in plan.entries_of("zhang-ch4/fig4.4"):
        private = entry.cell.privacy is not None
        promise = {"relation_rigorous": "record-remove", "scope_rigorous": "joint"} if private else {}
        rows += result_rows(entry, metric="inversion_l2/train", **promise)
    captions = keep_galleries(plan, frame_of(rows), before, folder)
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.png")}
    of_digits = {"fig4.1", "fig4.3", "fig4.4", "fig4.5", "controls", "printed-noise-gallery", "attacks-gallery"}
    assert found == {
        f"figures/zhang-ch4/{name}.png": "kept" if name == "fig4.4" else "of this run" for name in of_digits
    }
    assert set(captions) == {f"zhang-ch4/{name}" for name in of_digits}
    assert [name for name, lines in captions.items() if shipping.KEPT in lines] == ["zhang-ch4/fig4.4"]
    told = " ".join(captions["zhang-ch4/fig4.4"])
    for text in (
        "L2 from reconstruction to nearest training image of its class; lower is a better attack",
        "the first seed",
        "record-remove",
        "an attack that is farther away recovered nothing",  # the artefact's own caption
    ):
        assert text in told
    assert "joint" in told
    assert "k-means" in " ".join(captions["zhang-ch4/fig4.3"])  # which shows no attack
    assert {name.split("/")[1] for name in pictures} - of_digits == {"fig4.2", "fig4.10", "attacks-gallery-faces"}
