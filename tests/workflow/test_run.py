"""`dpgraph run`: names of targets, and what it plans for an artefact alone."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.cli.snakemake import NAMED

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"}


def dpgraph(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpgraph", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())


def test_an_artefact_alone_makes_nothing_that_it_does_not_need(workflow):
    """Ctrl-C first: status 130, as a shell expects of a program that it ended; then the run resumes."""
    results = workflow.folder / "results/tiny"
    command = [sys.executable, "-m", "dpgraph", "run", "daigavane/table1", "--suite", "tiny", "--cores", "2"]
    run = subprocess.Popen(
        command, cwd=workflow.folder, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        while not list((workflow.folder / "data").glob("graphs/**/graph.json")) and run.poll() is None:
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to Snakemake and its jobs
        said = run.communicate(timeout=60)[1]
    finally:
        run.kill()
    assert run.returncode == 130, said
    assert "ended by Ctrl-C: finished work is kept, run again to resume" in said
    assert "failed" not in said

    run = dpgraph(workflow.folder, *command[3:])
    assert run.returncode == 0, run.stdout + run.stderr
    assert "makes:\n  results/tiny/tables/daigavane/table1.md\n" in run.stderr
    assert re.search(r"finished: \d+ of \d+ jobs in ", run.stderr)  # the live line's last
    assert "rule " not in run.stderr  # and nothing of Snakemake's own
    assert {path.name for path in (results / "tables/daigavane").iterdir()} >= {"table1.md", "table1.wide.md"}
    assert not (results / "tables/daigavane/table7.md").exists()
    assert not (results / "results.parquet").exists()  # of the whole suite
    cells = {path.parent: path.stat().st_mtime_ns for path in results.glob("cells/*/seed=0.json")}
    assert len(cells) == 5  # on the graph that is there; none of figure 2's target epsilon of 4
    assert not [path for path in cells if "eps4" in path.name]

    run = dpgraph(workflow.folder, "run", "daigavane/fig*", "--suite", "tiny", "--cores", "2")
    assert run.returncode == 0, run.stdout + run.stderr
    assert (results / "figures/daigavane/fig2.png").stat().st_size > 100
    after = {path.parent: path.stat().st_mtime_ns for path in results.glob("cells/*/seed=0.json")}
    assert cells.items() <= after.items()  # used, not trained again
    assert [path.name.rsplit("-", 1)[0] for path in after.keys() - cells.keys()] == [
        "demo-sbm-transductive.dp-gnn-1hop.rigorous.eps4"
    ]


def test_a_named_target_plans_the_whole_suite(finished):
    run = dpgraph(finished.folder, "run", "tables", "--suite", "tiny", "-n", "--snakemake=--forcerun aggregate")
    assert run.returncode == 0, run.stderr
    assert re.search(r"^aggregate +1$", run.stdout + run.stderr, re.M)
    assert not re.search(r"^train ", run.stdout + run.stderr, re.M)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("daigavane/tabel7", "target=daigavane/tabel7: expected an artefact (dpgraph list artefacts --suite demo)"),
        ("daigavane/tabel7", "; did you mean daigavane/table7?"),
        ("tabels", "; did you mean tables?"),
        ("--suite dmeo", "error: --suite=dmeo: expected one of"),
        ("--suite dmeo", "; did you mean demo?"),
        ("--set sedes=3", "error: --set: sedes=3: unknown key; did you mean seeds?"),
        ("--cores 0", "error: --cores=0: expected an integer >= 1"),
        ('--snakemake="\'"', "error: --snakemake='"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["run", *shlex.split(arguments)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_outside_of_the_project_s_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "daigavane/table7"]) == 2
    assert "no Snakefile; run in the folder of the project" in capsys.readouterr().err


def test_named_targets_are_the_snakefile_s():
    text = "\n".join(path.read_text() for path in (ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")))
    rules = set(re.findall(r"^rule (\w+):", text, re.M))
    assert set(NAMED) <= rules


def test_a_failure_is_no_ctrl_c(workflow):
    run = dpgraph(workflow.folder, "run", "daigavane/table1", "--suite", "tiny", "--snakemake=--no-such-option")
    assert run.returncode == 1
