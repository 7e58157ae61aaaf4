"""What `ship` keeps of a suite: made-up results of the demonstration, with stand-ins for its tables and figures."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from dpgraph.errors import UserError
from dpgraph.experiments.config import Config
from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import load_plan
from dpgraph.reporting import shipping
from dpgraph.reporting.leaderboard.finding import overview
from dpgraph.reporting.leaderboard.standings import standings
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.shipping import LIBRARY, ship
from tests.reporting.conftest import WORKFLOW


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
            if suffix == "png":
                noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
                Image.fromarray(noise).save(path)
    return own


@pytest.fixture(scope="module")
def shipped(made, tmp_path_factory):
    """The folder over all suites."""
    out = tmp_path_factory.mktemp("shipped")
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
    for about, best in overview(standings(made, results)).lines:
        assert f"| {about['data']} | {about['relation']}; {about['scope']} |" in text
        for row in best.values():
            assert f"{row['mean']:.1f}" in text
    assert "4 are tested with a power of 0.5 or more, which is two thirds of them.\n" in text
    contents = (shipped / "README.md").read_text()
    assert f"[{made.suite.name}]({made.suite.name}/README.md)" in contents
    assert "0123456789ab" in contents


def test_small_results_and_what_their_columns_are_stay(made, shipped, tmp_path, monkeypatch):
    kept = shipped / made.suite.name
    assert (kept / "results.columns.csv").read_text() == "column,kind,description\n"
    assert len(pd.read_parquet(kept / "results.parquet"))
    monkeypatch.setattr(shipping, "SMALL", 100)
    ship(made, tmp_path)
    assert (tmp_path / made.suite.name / "results.columns.csv").is_file()
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
    assert pictures
    with Image.open(pictures[0]) as image:
        assert image.size == (30, 20)
        assert image.mode == "P"


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
    ship(made, tmp_path)
    before = (tmp_path / made.suite.name / "README.md").read_text()
    monkeypatch.setattr(shipping, "LIMIT", 1000)
    with pytest.raises(UserError, match="expected at most"):
        ship(made, tmp_path)
    assert (tmp_path / made.suite.name / "README.md").read_text() == before
    assert not list(tmp_path.glob(".unfinished*"))


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
    (tmp_path / "other").mkdir()
    (tmp_path / "other/summary.json").write_text(json.dumps(other))
    ship(made, tmp_path)
    contents = (tmp_path / "README.md").read_text()
    assert "[other](other/README.md)" in contents
    assert f"[{made.suite.name}]" in contents


def test_a_missing_table_is_named(made, tmp_path):
    paths = Paths(made.config)
    name = next(name for name, artefact in made.artefacts.items() if artefact.kind == "table")
    path = paths.table(name, "md")
    path.rename(path.with_suffix(".away"))
    try:
        with pytest.raises(UserError, match=f"{path.name}: no such file"):
            ship(made, tmp_path)
    finally:
        path.with_suffix(".away").rename(path)
