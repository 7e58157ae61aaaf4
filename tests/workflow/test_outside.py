"""The guide docs/how-to/extend-from-outside.md, followed: an own method and data set, up to the first page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpgraph.reporting.results import read_results
from tests.workflow.conftest import ROOT

PAGE = (ROOT / "docs/how-to/extend-from-outside.md").read_text()


def dpgraph(folder, *arguments):
    run = subprocess.run(
        [sys.executable, "-m", "dpgraph", *arguments], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout + run.stderr


def unpacked(columns):
    """Rows of the page's columns, each {values}, or {texts, at} where texts repeat."""
    whole = {
        name: [of["texts"][at] for at in of["at"]] if "texts" in of else of["values"] for name, of in columns.items()
    }
    return [dict(zip(whole, row, strict=True)) for row in zip(*whole.values(), strict=True)]


@pytest.mark.slow
def test_a_method_and_a_data_set_from_outside_reach_the_first_page(workflow):
    folder = workflow.folder
    commands = re.findall(r"^(dpgraph new \S+ \S+)", PAGE, re.M)
    assert commands == ["dpgraph new method smooth", "dpgraph new dataset mine"]
    for command in commands:
        dpgraph(folder, *command.split()[1:])
    config = folder / "config.yaml"
    config.write_text(re.sub(r"^registry: \[\]", "registry: [own]", config.read_text(), count=1, flags=re.M))
    experiment, suite = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "title:" in text]
    (folder / "workflow/experiments/mine.yaml").write_text(experiment)
    (folder / "workflow/suites/mine.yaml").write_text(suite)

    said = dpgraph(folder, "run", "--suite", "mine", "--cores", "1", "results/mine/index.html", "tables")
    assert re.search(r"finished: (\d+) of \1 jobs", said)
    table = (folder / "results/mine/tables/mine/table1.md").read_text()
    (line,) = [line for line in table.splitlines() if line.startswith("| My method ")]
    assert "| none (its author claims 4.00)<sup>1</sup> |" in line
    assert "checks: what ran is what its mechanism states (every run), none (dpgraph check method has not run)" in table

    frame = read_results(Path(folder) / "results/mine/results.parquet")
    own, rival = frame[frame["method"] == "dp-smooth"], frame[frame["method"] == "dp-mlp"]
    assert own["eps_rigorous"].isna().all()
    assert own["eps_claimed"].between(3.9, 4).all()
    assert rival["eps_claimed"].isna().all()
    assert rival["eps_rigorous"].gt(0).all()
    assert set(own["seed"]) == {0, 1, 2}

    page = (folder / "results/mine/index.html").read_text()
    values = json.loads(re.search(r'<script id="values" type="application/json">(.*?)</script>', page, re.S)[1])
    (row,) = [row for row in unpacked(values["rows"]) if row["method"] == "dp-smooth"]
    assert (row["kind"], row["eps"], row["promise"]) == ("claimed, from outside", "4.00", "node-null; joint")
    assert row["budget"] == 4
    assert "<dt>My method, from outside</dt>" in page
    best = page[page.index('id="best"') : page.index('id="leaderboard"')]
    assert "DP-MLP" in best
    assert "My method" not in best

    # after `check method` the results list what it found, and nothing is trained again
    cells = {path: path.stat().st_mtime_ns for path in (folder / "results/mine/cells").glob("*/seed=?.json")}
    dpgraph(folder, "check", "method", "dp-smooth")
    dpgraph(folder, "run", "--suite", "mine", "--cores", "1", "mine/table1")
    table = (folder / "results/mine/tables/mine/table1.md").read_text()
    assert "blinding (passed)" in table
    assert "audit facts (passed)" in table
    assert {path: path.stat().st_mtime_ns for path in cells} == cells
