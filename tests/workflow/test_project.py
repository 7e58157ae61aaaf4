"""`dpgraph new-project` writes a folder that runs, also with an installed wheel and no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from dpgraph.cli import main
from tests.workflow.conftest import ROOT

WRITTEN = {
    "Snakefile", "config.yaml", "own/datasets.yaml", "own/edges.csv", "own/nodes.csv", "own/reader.py",
    "slurm/profile.yaml", "workflow/experiments/mine.yaml", "workflow/suites/mine.yaml",
}  # fmt: skip


def dpgraph(folder, *arguments, package=ROOT / "src"):
    """Return what a command says that finds the package in `package` alone."""
    run = subprocess.run(
        [sys.executable, "-m", "dpgraph", *map(str, arguments)], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(package), "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout + run.stderr


def files_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_new_project_has_few_files_and_plans_its_suite(tmp_path):
    said = dpgraph(tmp_path, "new-project", "club")
    club = tmp_path / "club"
    assert "with a made-up graph in own/" in said
    assert files_in(club) == WRITTEN
    assert sum(len((club / name).read_text().splitlines()) for name in WRITTEN if not name.endswith(".csv")) < 120
    planned = dpgraph(club, "run", "-n")
    for rule in ("fetch", "preprocess", "calibrate", "train", "artefacts_mine", "index"):
        assert f"\n{rule} " in planned
    assert "baselines" not in planned
    own = (club / "workflow/suites/mine.yaml").read_text().replace("demonstration: true", "demonstration: false")
    (club / "workflow/suites/mine.yaml").write_text(own)
    assert "baselines" not in dpgraph(club, "run", "-n")  # no file of the literature's numbers


@pytest.mark.parametrize("there", ["club", "club/notes.txt"])
def test_a_new_project_takes_no_folder_with_files(tmp_path, monkeypatch, capsys, there):
    monkeypatch.chdir(tmp_path)
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    assert main(["new-project", "club"]) == 2
    assert capsys.readouterr().err == "error: club: there already: expected a folder that is new or empty\n"
    assert files_in(tmp_path) == {there}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """A wheel that is built from a copy of the sources, in a folder of its own, as an installation has it."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "Snakefile"):
        shutil.copy(ROOT / name, sources / name)
    for name in ("src", "rules", "envs", "slurm", "workflow"):
        ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=ignored)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(sources)]
    run = subprocess.run(build, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    shutil.rmtree(sources)
    return folder / "installed"


@pytest.mark.slow
def test_a_wheel_has_all_files_of_the_package_and_its_workflow(unpacked):
    package = ROOT / "src/dpgraph"
    kept = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    kept = {name for name in kept if "__pycache__" not in name and not name.endswith(".md")}
    kept |= {f"project/rules/{path.name}" for path in (ROOT / "rules").iterdir()}
    kept |= {f"project/workflow/report/{path.name}" for path in (ROOT / "workflow/report").iterdir()}
    kept |= {"project/slurm/profile.yaml"}
    assert files_in(unpacked / "dpgraph") == kept
    assert not any(path.is_symlink() for path in unpacked.rglob("*"))


@pytest.mark.slow
def test_a_wheel_fits_predicts_and_runs_a_project_without_a_checkout(unpacked, tmp_path):
    dpgraph(tmp_path, "new-project", "club", package=unpacked)
    club = tmp_path / "club"
    code = "import dpgraph; print(dpgraph.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", code], cwd=club, env={**os.environ, "PYTHONPATH": str(unpacked)}, capture_output=True
    )
    assert Path(where.stdout.decode().strip()).is_relative_to(unpacked)

    dpgraph(club, "run", "--cores", "1", "tables", package=unpacked)
    table = pd.read_csv(club / "results/mine/tables/mine/table1.csv")
    assert (table["status"] == "ok").all()
    assert set(table["method"]) == {"gnn", "mlp", "dp-mlp", "votes"}

    nodes = pd.read_csv(club / "own/nodes.csv")
    nodes.drop(columns="label").head(3).assign(id=["x0", "x1", "x2"]).to_csv(club / "new.csv", index=False)
    files = ("--edges", "own/edges.csv", "--nodes", "own/nodes.csv", "--classes", "a,b")
    dpgraph(club, "fit", *files, "--epsilon", 4, "--no-audit", "--out", "made", package=unpacked)
    dpgraph(club, "predict", "made", "--nodes", "new.csv", "--out", "predicted.csv", package=unpacked)
    assert set(pd.read_csv(club / "predicted.csv")["prediction"]) <= {"a", "b"}
