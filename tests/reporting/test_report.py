from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from jinja2 import Environment, StrictUndefined

from dpgraph.reporting.inputs import front_page
from dpgraph.reporting.runtimes import duration, runtimes, write_runtimes

CAPTIONS = Path(__file__).parents[2] / "workflow" / "report"


def test_every_cell_of_the_plan_is_listed(plan, results):
    table = runtimes(plan, results)
    assert list(table["cell"]) == list(plan.cells)
    assert table["status"].value_counts().to_dict() == {"ok": len(plan.cells) - 2, "failed": 1, "not run": 1}
    good = table[table["status"] == "ok"]
    assert (good["cpu_seconds"] - 3 * 2.5).abs().max() < 1e-9
    assert (good["seconds"] - 3 * 3.25).abs().max() < 1e-9  # three seeds, whatever the number of metrics
    assert set(table["reason"]) == {"", "diverged: non-finite loss at step 41", "data not available"}


def test_cells_without_rows_were_not_run(plan, results):
    slug = next(iter(plan.cells))
    row = runtimes(plan, results[results["cell"] != slug]).iloc[0]
    assert (row["cell"], row["status"], row["reason"]) == (slug, "not run", "")
    assert set(runtimes(plan, None)["status"]) == {"not run"}


def test_a_cell_of_two_papers_counts_once(plan, results):
    twice = pd.concat([results, results.assign(paper="huang")])
    pd.testing.assert_frame_equal(runtimes(plan, twice), runtimes(plan, results))


def test_page(plan, results, tmp_path):
    paths = write_runtimes(plan, results, tmp_path / "runtimes.html")
    text = paths[0].read_text()
    cells = len(plan.cells)
    assert re.search(rf"{cells} cells: {cells - 2} ok, 1 failed, 1 not run; \d+ min of training in all", text)
    assert all(slug in text for slug in plan.cells)
    assert "<script" not in text


def test_durations():
    assert [duration(value) for value in (3.4, 119, 600, 3 * 3600 + 125)] == ["3 s", "119 s", "10 min", "3 h 2 min"]


def test_front_page_is_light():
    """The Snakefile imports it on every start."""
    code = "import sys, dpgraph.reporting.inputs; print({'pandas', 'matplotlib', 'scipy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("given", [True, False])
def test_front_page_says_what_the_suite_is(plan, paper_plan, given):
    template = Environment(undefined=StrictUndefined).from_string((CAPTIONS / "workflow.rst").read_text())
    demo = {"suite": "demo"} | ({"about": front_page(plan)} if given else {})
    text = template.render(snakemake=SimpleNamespace(config=demo))
    assert "This is a demonstration." in text
    assert "rigorous" in text
    other = {"suite": "small"} | ({"about": front_page(paper_plan)} if given else {})
    text = template.render(snakemake=SimpleNamespace(config=other))
    assert "demonstration" not in text
    assert "Suite **small**" in text


def test_front_page_is_valid_restructured_text(plan):
    from docutils.core import publish_parts

    template = Environment(undefined=StrictUndefined).from_string((CAPTIONS / "workflow.rst").read_text())
    text = template.render(snakemake=SimpleNamespace(config={"about": front_page(plan)}))
    parts = publish_parts(text, writer="html", settings_overrides={"report_level": 1, "halt_level": 2})
    assert "Node-Level Differentially Private Graph Neural Networks" in parts["html_body"]


@pytest.mark.parametrize("name", ["table", "figure", "claims", "runtimes"])
def test_captions_need_only_the_artefacts_wildcards(name):
    template = Environment(undefined=StrictUndefined).from_string((CAPTIONS / f"{name}.rst").read_text())
    wildcards = SimpleNamespace(paper="daigavane", artefact="table1")
    text = template.render(snakemake=SimpleNamespace(wildcards=wildcards))
    assert len(text) > 80
    assert "{{" not in text
