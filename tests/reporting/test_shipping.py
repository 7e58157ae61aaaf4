"""What `ship` keeps of a suite: made-up results of the demonstration, with stand-ins for its tables and figures."""

import dataclasses
import gzip
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dpgraph.errors import UserError
from dpgraph.experiments.config import Config
from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import load_plan
from dpgraph.reporting import shipping
from dpgraph.reporting.leaderboard import shown_tables
from dpgraph.reporting.leaderboard.finding import overview
from dpgraph.reporting.leaderboard.guide import STANDINGS, answers, guide
from dpgraph.reporting.leaderboard.page import LIBRARY, shared_files
from dpgraph.reporting.leaderboard.standings import COLUMNS, standings
from dpgraph.reporting.ranking import PROVED, PUBLIC
from dpgraph.reporting.reshipping import reship
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.shipping import GUIDE, SHARED, ship
from tests.browser import CHROMIUM, visit
from tests.reporting.conftest import WORKFLOW
from tests.reporting.leaderboard.test_page import PROBE


@pytest.fixture(scope="module")
def made(plan, results, claims, tmp_path_factory):
    """The demonstration's plan with results in a folder of its own."""
    folder = tmp_path_factory.mktemp("results")
    own = load_plan(Config(seeds=3, results=str(folder)), WORKFLOW)
    paths = Paths(own.config)
    paths.suite.mkdir(parents=True)
    results.to_parquet(paths.results)
    paths.results.with_suffix(".columns.csv").write_text("column,kind,description\n")
    write_csv(claims, paths.claims)
    for name, artefact in own.artefacts.items():
        figure = artefact.kind == "figure"
        for suffix in ("png", "csv") if figure else ("md", "csv", "wide.md"):
            path = (paths.figure if figure else paths.table)(name, suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text")
            path.with_suffix(".txt").write_text("Shaded: *this*.\n")
            if suffix == "png":
                noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
                Image.fromarray(noise).save(path)
    return own


@pytest.fixture(scope="module")
def shipped(made, tmp_path_factory):
    """The folder over all suites."""
    out = tmp_path_factory.mktemp("shipped") / "results"
    written = ship(made, out)
    assert all(out / made.suite.name in path.parents for path in written)
    return out


def test_the_folder_can_be_read_on_its_own(made, results, shipped):
    folder = shipped / made.suite.name
    assert {path.name for path in folder.iterdir()} >= {"README.md", "index.html", "summary.json", "claims.csv"}
    text = (folder / "README.md").read_text()
    for page in (text, (folder / "index.html").read_text()):
        links = [*re.findall(r"\]\(([^)#]+)\)", page), *re.findall(r'(?:href|src)="([^"#:]+)"', page)]
        assert len(links) > 20
        assert [link for link in links if not (folder / link).exists()] == []
    assert (shipped / LIBRARY).stat().st_size > 100_000
    assert (folder / "index.html").stat().st_size < 600_000  # without the library
    assert "- Shaded: \\*this\\*." in text  # captions stand beside the figures
    assert not list(folder.rglob("*.txt"))
    for about, best in overview(standings(made, results)).lines:
        assert f"| {about['data']} | {about['relation']}; {about['scope']} |" in text
        for row in best.values():
            assert f"{row['mean']:.1f}" in text
    assert "4 are tested with a power of 0.5 or more, which is two thirds of them.\n" in text
    contents = (shipped / "README.md").read_text()
    assert f"[{made.suite.name}]({made.suite.name}/README.md)" in contents
    assert "0123456789ab" in contents


def test_pages_are_written_again_from_what_is_kept(made, shipped, tmp_path):
    """To the byte where no word has changed; with today's words where one has; and no number is read from results/."""
    out = tmp_path / "kept"
    shutil.copytree(shipped, out)
    pages = ("README.md", "index.html", "summary.json")
    before = {name: (out / made.suite.name / name).read_bytes() for name in pages}
    elsewhere = load_plan(Config(seeds=3, results=str(tmp_path / "none")), WORKFLOW)
    assert reship(elsewhere, out).files == [out / made.suite.name / name for name in pages]
    for name in pages:
        assert (out / made.suite.name / name).read_bytes() == before[name], name
    renamed = dataclasses.replace(elsewhere, suite=elsewhere.suite.model_copy(update={"title": "Another title"}))
    reship(renamed, out)
    for name in pages:
        text = (out / made.suite.name / name).read_text()
        assert "Another title" in text
        assert text.replace("Another title", made.suite.title) == before[name].decode()
    assert not (tmp_path / "none").exists()


def test_a_caution_and_the_measure_are_in_sight(made, shipped, tmp_path):
    """Outside of what a click opens; no line where nothing is to be said."""
    folder = shipped / made.suite.name
    assert '<p class="caution">' not in (folder / "index.html").read_text()
    assert '<span id="measure">Test accuracy</span> against ε' in (folder / "index.html").read_text()
    suite = made.suite.model_copy(update={"caution": "Chosen on the same data.", "demonstration": False})
    ship(dataclasses.replace(made, suite=suite), tmp_path)
    page = (tmp_path / made.suite.name / "index.html").read_text()
    assert '<p class="caution">Chosen on the same data.</p>' in page.partition("<details")[0]
    assert "**Chosen on the same data.**" in (tmp_path / made.suite.name / "README.md").read_text()


def test_few_tables_are_in_the_page(made, tmp_path, monkeypatch):
    paths = Paths(made.config)
    name = next(name for name, artefact in made.artefacts.items() if artefact.kind == "table")
    before = paths.table(name, "md").read_text()
    paths.table(name, "md").write_text("**t**\n\n| a |\n| --: |\n| **x\\_y**<sup>1</sup> |\n\n<sup>1</sup> 2 < 3\n")
    shown = '<td class="number"><strong>x_y</strong><sup>1</sup></td>'
    note = '<p class="note"><sup>1</sup> 2 &lt; 3</p>'
    try:
        ship(made, tmp_path)
        page = (tmp_path / made.suite.name / "index.html").read_text()
        assert shown in page
        assert note in page
        monkeypatch.setattr(shown_tables, "SHOWN", 10)
        ship(made, tmp_path)
        assert shown not in (tmp_path / made.suite.name / "index.html").read_text()
    finally:
        paths.table(name, "md").write_text(before)


def test_pages_of_what_is_not_kept_are_not_written(made, shipped, tmp_path):
    with pytest.raises(UserError, match="is not kept there"):
        reship(made, tmp_path)
    out = tmp_path / "kept"
    shutil.copytree(shipped, out)
    name = next(name for name, artefact in made.artefacts.items() if artefact.kind == "table")
    (out / made.suite.name / f"tables/{name}.md").unlink()
    with pytest.raises(UserError, match="is not kept, but the suite's plan has it"):
        reship(made, out)


def test_long_tables_of_numbers_are_packed_and_links_find_them(made, shipped, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "LONG", 1)
    ship(made, tmp_path)
    kept, packed = shipped / made.suite.name, tmp_path / made.suite.name
    names = [str(path.relative_to(packed)) for path in packed.rglob("*.csv.gz")]
    assert names
    for name in names:
        plain = kept / name.removesuffix(".gz")  # or long enough to be packed by itself
        content = plain.read_bytes() if plain.is_file() else gzip.decompress((kept / name).read_bytes())
        assert gzip.decompress((packed / name).read_bytes()) == content
        assert f"({name})" in (packed / "README.md").read_text()
        assert f'"{name}"' in (packed / "index.html").read_text()
        assert name.removesuffix(".gz") + '"' not in (packed / "index.html").read_text()


def test_small_results_and_what_their_columns_are_stay(made, shipped, tmp_path, monkeypatch):
    kept = shipped / made.suite.name
    columns = [path for path in (shipped / SHARED).iterdir() if path.name.startswith("results.columns-")]
    assert [path.read_text() for path in columns] == ["column,kind,description\n"]
    assert f'"../{SHARED}/{columns[0].name}"' in (kept / "index.html").read_text()
    paths = (kept / "results.parquet", Paths(made.config).results)
    pd.testing.assert_frame_equal(*(pq.read_table(path).to_pandas(ignore_metadata=True) for path in paths))
    monkeypatch.setattr(shipping, "SMALL", 100)
    ship(made, tmp_path)
    assert not (tmp_path / made.suite.name / "results.parquet").exists()


def test_galleries_are_left_out(made, shipped):
    """Their images may be faces: no file of them, and no page that asks for one."""
    galleries = [name for name, artefact in made.artefacts.items() if artefact.view == "gallery"]
    assert galleries
    folder = shipped / made.suite.name
    assert all(Paths(made.config).figure(name, "png").is_file() for name in galleries)
    for name in galleries:
        assert not list(folder.glob(f"*/{name}.*"))
        assert all(f"figures/{name}" not in (folder / page).read_text() for page in ("README.md", "index.html"))


def test_pictures_lose_colours_and_nothing_else(made, shipped):
    pictures = list((shipped / made.suite.name / "figures").rglob("*.png"))
    assert len(pictures) == 1  # all stand-ins are the same picture
    with Image.open(pictures[0]) as image:
        assert image.size == (30, 20)
        assert image.mode == "P"


def test_what_suites_have_in_common_is_there_once(made, tmp_path):
    """Three suites with two pictures of the audits; one goes when the suite that has it is shipped with the other."""
    paths, out = Paths(made.config), tmp_path / "out"
    picture = paths.figure("audits", "png")

    def shipped_as(colour, name):
        Image.new("RGB", (4, 4), colour).save(picture)
        ship(made, out)
        target = out / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(out / made.suite.name, target)

    try:
        shipped_as("red", "one")
        shipped_as("blue", "two")
        audits = [path.name for path in (out / SHARED).glob("audits-*.png")]
        assert len(audits) == 2
        assert not list(out.glob("*/figures/audits.png"))
        for name in ("one", "two", made.suite.name):
            links = re.findall(r'href="(\.\./shared/[^"]+)"', (out / name / "index.html").read_text())
            assert [link for link in links if not (out / name / link).is_file()] == []
            assert sum("audits-" in link for link in links) == 1
        shipped_as("red", "two")
        ship(made, out)
        assert len(list((out / SHARED).glob("audits-*.png"))) == 1
    finally:
        picture.unlink()


def test_the_limit_counts_scripts_and_other_suites(made, tmp_path, monkeypatch):
    out = tmp_path / "out"
    ship(made, out)
    everything = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    contents = (out / "README.md").stat().st_size
    monkeypatch.setattr(shipping, "LIMIT", everything)
    ship(made, out)  # again, in the place of itself
    assert not list(out.glob(".unfinished*"))
    (out / "other").mkdir()
    (out / "other/file").write_bytes(bytes(contents + 1))
    with pytest.raises(UserError, match="MB with suite"):
        ship(made, out)


def test_results_of_several_commits_or_of_changed_files_are_refused(made, results, tmp_path):
    paths = Paths(made.config)
    kept = shutil.copy(paths.results, tmp_path / "kept.parquet")
    try:
        for commit in ("0123456789ab+", "", "unknown"):
            results.assign(commit=commit).to_parquet(paths.results)
            with pytest.raises(UserError, match="expected one commit, without changed files"):
                ship(made, tmp_path / "out")
        mixed = results.copy()
        mixed.loc[mixed["cell"] == mixed["cell"].iloc[0], "commit"] = "ba9876543210"
        mixed.to_parquet(paths.results)
        with pytest.raises(UserError, match="0123456789ab, ba9876543210"):
            ship(made, tmp_path / "out")
    finally:
        shutil.copy(kept, paths.results)
    assert not (tmp_path / "out" / made.suite.name).exists()


def test_too_much_is_refused_and_what_was_there_is_kept(made, tmp_path, monkeypatch):
    out = tmp_path / "out"
    ship(made, out)
    before = (out / made.suite.name / "README.md").read_text()
    monkeypatch.setattr(shipping, "LIMIT", 1000)
    with pytest.raises(UserError, match="expected at most"):
        ship(made, out)
    assert (out / made.suite.name / "README.md").read_text() == before
    assert not list(out.glob(".unfinished*"))


def test_other_suites_stay_in_the_contents(made, tmp_path):
    other = {
        "suite": "other",
        "title": "Other",
        "commit": "c",
        "finding": "f",
        "cells": 1,
        "cpu_hours": 0.1,
        "verdicts": {},
    }
    out = tmp_path / "out"
    (out / "other").mkdir(parents=True)
    (out / "other/summary.json").write_text(json.dumps(other))
    ship(made, out)
    contents = (out / "README.md").read_text()
    assert "[other](other/README.md)" in contents
    assert f"[{made.suite.name}]" in contents


def test_a_missing_table_is_named(made, tmp_path):
    paths = Paths(made.config)
    name = next(name for name, artefact in made.artefacts.items() if artefact.kind == "table")
    path = paths.table(name, "md")
    path.rename(path.with_suffix(".away"))
    try:
        with pytest.raises(UserError, match=f"{path.name}: no such file"):
            ship(made, tmp_path / "out")
    finally:
        path.with_suffix(".away").rename(path)


# ---- files that pages share, and the page over all suites ------------------------------------------------------------


def test_pages_share_style_and_scripts(made, shipped):
    page = (shipped / made.suite.name / "index.html").read_text()
    for name, text in shared_files().items():
        assert (shipped / name).read_text() == text
        assert f'"../{name}"' in page
        assert text not in page


@pytest.mark.browser
def test_a_kept_page_works_in_a_browser(made, shipped, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the page was not opened")
    shutil.copytree(shipped, tmp_path / "kept")
    inside = PROBE.replace('src="index.html"', f'src="{made.suite.name}/index.html"')
    found, console = visit(tmp_path / "kept", inside, tmp_path / "profile")
    assert console == []
    assert found["errors"] == []
    assert all(found["marks"])
    assert found["counts"]["all"] > 5


KEPT = Path(__file__).parents[2] / "docs/results"


def test_which_method_is_what_the_kept_results_say():
    assert (KEPT.parent / GUIDE).read_text(encoding="utf-8") == guide(KEPT)


def test_kept_pages_read_the_files_beside_them():
    for name, text in shared_files().items():
        assert (KEPT / name).read_text(encoding="utf-8") == text
    for page in KEPT.glob("*/index.html"):
        links = re.findall(r'<(?:script|link)[^>]+(?:href|src)="(\.\./[^"]+)"', page.read_text(encoding="utf-8"))
        assert sorted(links) == sorted(f"../{name}" for name in shared_files())


def kept(folder, suite, rows, demonstration=False):
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
    write_csv(frame.reindex(columns=list(COLUMNS)), folder / suite / STANDINGS)
    (folder / suite / "summary.json").write_text(json.dumps({"demonstration": demonstration}))


def test_which_method_by_size_epsilon_and_promise(tmp_path):
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
    text = guide(tmp_path)
    assert "[99.0]" not in text
    lines = text.splitlines()
    assert "| cora | 2,708 | 10⁻⁵ | 80.0 | ε ≤ 1: [60.0](results/two/README.md) E |" in lines  # the best of all suites
    assert "| pubmed | 19,717 | 10⁻⁵ | – | ε ≤ 1: [80.0](results/one/README.md) B |" in lines
    assert "- Below 5,000 records (cora):" in lines
    assert "  - ε ≤ 1: E is best. Against the best row without privacy: 20.0 points lower." in lines
    assert "  - ε ≤ 1: B is best. What privacy costs is not known: no row without privacy." in lines
    assert "  - 1 < ε ≤ 4: A is best. Against the best row without privacy: 1.0 points higher." in lines
    assert any(line.startswith("- edge; joint: no row for below 5,000 records: ε ≤ 1, 4 < ε ≤ 15") for line in lines)
    assert "node-remove (one node leaves or joins with all its edges)" in text
    assert "- 1 of 6 proved rows have fewer than three seeds, and tell nothing apart." in lines
    (tmp_path / "two" / STANDINGS).unlink()
    assert "| cora | 2,708 | 10⁻⁵ | 80.0 | ε ≤ 1: [50.0](results/one/README.md) A +1 |" in guide(tmp_path).splitlines()


def test_the_guide_begins_with_the_best_at_epsilon_1(tmp_path):
    rows = [
        ("cora", name, "node-null", 1.0, mean, 5, name == "A", name == "B") for name, mean in (("A", 50.0), ("B", 49.0))
    ]
    rows += [("cora", "E", "edge", 1.0, 81.0, 5, True, False), ("pubmed", "A", "node-null", 1.0, 80.0, 5, True, False)]
    rows += [("cora", "GCN", "", math.inf, 88.0, 5, True, False)]
    kept(tmp_path, "one", rows)
    path = tmp_path / "one" / STANDINGS
    plain = {"setting": "transductive", "split": "public", "low": 1.0, "high": 2.0, "commit": "0123456789ab"}
    table = pd.read_csv(path).assign(**plain)
    table["uncovered"] = ["degrees", "", "", "", ""]
    table["fallback"] = ["", "", "", "nobody votes", ""]
    write_csv(table, path)
    short = guide(tmp_path).split("## First: what must ε protect?")[0].splitlines()
    assert "| data | node-null; joint | no privacy |" in short  # edges are protected on one data set only
    assert "| cora | [50.0](results/one/README.md) A† +1 | 88.0 |" in short
    assert "| pubmed | [80.0](results/one/README.md) A ‡ | – |" in short
    lines = answers(tmp_path, "cora", "public")
    assert len(lines) == 5
    assert lines[2].startswith("| an edge in the model")
    assert "| A† (+1 not told apart) | 50.0\u00a0±\u00a00.5 | [one](docs/results/one/README.md): `" in lines[3]
    assert lines[3].endswith("`, 0123456 |")
    assert lines[4].startswith("| nothing: no privacy | GCN | 88.0")


def test_budgets_of_one_range_share_a_column(tmp_path):
    rows = [("cora", "A", "node-null", at, 50.0 + at, 5, True, False) for at in (1.0, 2.0, 4.0, 12.0, 32.0, 100.0)]
    kept(tmp_path, "one", rows)
    lines = guide(tmp_path).splitlines()
    head = "| data | records (nodes, images) | δ | no privacy | ε ≤ 1 | 1 < ε ≤ 4 | 4 < ε ≤ 15 | ε > 15 |"
    line = lines[lines.index(head) + 2]
    assert line.count("|") == head.count("|")
    assert " | ε ≤ 2: [52.0](results/one/README.md) A<br>ε ≤ 4: [54.0](results/one/README.md) A | " in line
    assert line.endswith("| ε ≤ 32: [82.0](results/one/README.md) A<br>ε ≤ 100: [150.0](results/one/README.md) A |")


def test_graphs_that_were_made_are_apart_from_those_that_were_found(tmp_path):
    """By what the registry says of the data set, and by the word constructed in any suite's label."""
    names = ("cora", "demo-words-degree-4", "ogbn-arxiv-text-half")
    rows = [(name, "A", "node-null", 1.0, 50.0, 5, True, False) for name in names]
    kept(tmp_path, "one", rows)
    table = pd.read_csv(tmp_path / "one" / STANDINGS)
    kept(tmp_path, "two", rows[2:])
    write_csv(table[2:].assign(data="half (constructed)"), tmp_path / "two" / STANDINGS)
    found, made = guide(tmp_path).split("## Generated and constructed graphs")
    assert "| cora |" in found
    assert "| cora |" not in made
    for name in names[1:]:
        assert f"| {name} |" not in found
        assert f"| {name} |" in made
    assert "Below 5,000 records (cora):" in found
    assert "no row for" in made.split("## What is not known")[1]


def test_which_method_without_any_row(tmp_path):
    assert "No proved row at all" in guide(tmp_path)
