"""`dpgraph run`: names of targets, and what it plans for an artefact alone."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpgraph.cli import main
from dpgraph.cli.snakemake import NAMED
from dpgraph.core.errors import UserError
from dpgraph.core.files import locked
from dpgraph.pipeline import interruptible
from tests.workflow.forked import python

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"}


def dpgraph(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python(), "-m", "dpgraph", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())


def until(condition, process) -> None:
    """Wait for a condition; fail where the process ends before, or after five minutes."""
    end = time.monotonic() + 300
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


def waits(log: Path) -> bool:
    return log.is_file() and "waiting for process" in log.read_text()


@pytest.mark.slow
def test_an_artefact_alone_makes_nothing_that_it_does_not_need(workflow):
    """Ctrl-C first: status 130, as a shell expects of a program that it ended; then the run resumes."""
    results, raw = workflow.folder / "results/tiny", workflow.folder / "data/raw/demo-sbm/manifest.json"
    command = [sys.executable, "-m", "dpgraph", "run", "daigavane/table1", "--suite", "tiny", "--cores", "1"]
    with locked(workflow.folder / "data/graphs/demo-sbm/transductive.public"):  # a job of the run waits for it
        run = subprocess.Popen(
            command, cwd=workflow.folder, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            until(lambda: waits(workflow.folder / "logs/preprocess/demo-sbm.transductive.public.log"), run)
            os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to Snakemake and its jobs
            said = run.communicate(timeout=300)[1]
        finally:
            run.kill()
    fetched = raw.stat().st_mtime_ns
    assert run.returncode == 130, said
    assert "ended by Ctrl-C: finished work is kept, run again to resume" in said
    assert "failed" not in said

    run = dpgraph(workflow.folder, *command[3:])
    assert run.returncode == 0, run.stdout + run.stderr
    assert raw.stat().st_mtime_ns == fetched
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


OUTSIDE = ("run daigavane/table7", "status", "explain daigavane/table1", "cost", "cost --learn", "list artefacts")
OUTSIDE += ("list inventory", "list methods --paper daigavane", "ship", "render cpu", "verify", "settings")


@pytest.mark.parametrize("arguments", OUTSIDE)
def test_outside_of_a_project_s_folder_each_command_says_so(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path}: no project here (Snakefile, workflow/suites): run in the folder of one, or make one: "
        "dpgraph new-project FOLDER\n"
    )


@pytest.mark.parametrize("what", ["methods", "datasets", "mechanisms", "audits"])
def test_outside_of_a_project_s_folder_the_package_s_own_are_listed(what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["list", what]) == 0
    assert capsys.readouterr().out


def test_another_workflow_folder_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["status", "--workflow", "other/work"]) == 2
    assert f"error: {tmp_path}/other: no project here (Snakefile, work/suites)" in capsys.readouterr().err


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the project's files in which nothing has run."""
    for name in ("Snakefile", "config.yaml", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *command: pytest.fail("the run began"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options"), [("results", ""), ("logs", ""), ("other", "--set results=other/a/b"), ("results/demo", "")]
)
def test_a_file_in_the_place_of_a_folder_is_named_before_anything_runs(name, options, project, capsys):
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).touch()
    assert main(["run", *options.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {project / name}: a file where a run makes a folder")
    assert said.count("\n") == 1


def test_a_folder_that_may_not_be_written_and_a_full_disk_are_named(project, capsys, monkeypatch):
    (project / "results").mkdir()
    with monkeypatch.context() as other:
        other.setattr(os, "access", lambda place, mode: place.name != "results")
        assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {project / 'results'}: a run writes there, and you may not")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=4096))
    assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {project}: 4,096 bytes free on the disk: expected at least")


def test_named_targets_are_the_snakefile_s():
    text = "\n".join(path.read_text() for path in (ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")))
    rules = set(re.findall(r"^(?:use rule \w+ as|rule) (\w+)\b", text, re.M))
    assert set(NAMED) <= rules


def test_a_second_run_is_one_line_and_the_lock_of_a_killed_one_goes(workflow):
    """The job of the killed run goes on; that of the next run waits for it. Nothing is made twice."""
    folder = workflow.folder
    command = ("run", "data/raw/demo-sbm/manifest.json", "--suite", "tiny", "--cores", "1")
    raw, log = folder / "data/raw/demo-sbm", folder / "logs/fetch/demo-sbm.log"
    with locked(raw):
        first = subprocess.Popen(
            [sys.executable, "-m", "dpgraph", *command], cwd=folder, env=environment(), stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        until(lambda: waits(log), first)
        second = dpgraph(folder, *command)
        assert second.returncode == 1
        said = f"error: another run uses these files: process {first.pid} on [^ ]+, since .*: kill -INT {first.pid}\n"
        assert re.fullmatch(said, second.stderr)
        assert first.poll() is None
        assert [path.name for path in (folder / ".snakemake/locks").glob("*.json")] == [
            f"{first.pid}@{platform.node()}.owner.json"
        ]
        first.kill()
        first.wait(60)
    third = dpgraph(folder, *command)
    assert third.returncode == 0, third.stderr
    assert third.stderr.startswith(f"removed the lock of process {first.pid} on ")
    assert (raw / "manifest.json").is_file()
    assert not (folder / ".snakemake/locks").exists()


def test_snakemake_itself_names_a_cluster_that_is_not_there_and_leaves_no_lock(workflow, tmp_path):
    path = f"{programs(tmp_path / 'bin', sinfo='echo no cluster >&2; exit 1')}{os.pathsep}{os.environ['PATH']}"
    target = ("data/raw/demo-sbm/manifest.json",)
    run = workflow.snakemake("--profile", "slurm", targets=target, PATH=path)
    assert run.returncode == 2, run.stderr
    assert run.stderr.splitlines()[-1].startswith("error: executor slurm: no cluster: this machine reaches no cluster")
    assert not (workflow.folder / ".snakemake/locks").exists()
    assert not (workflow.folder / "logs/fetch").exists()


OPTIONS = "error: options of Snakemake: "
NO_CLUSTER = "error: executor slurm: no sinfo, sbatch, squeue, scancel on the PATH: this machine reaches no cluster: "


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--snakemake=--no-such-option", f"{OPTIONS}unrecognized arguments: --no-such-option"),
        ("--snakemake=--executor=slrum", f"{OPTIONS}argument --executor/-e: invalid choice: 'slrum' (choose from"),
        ("--profile=slrum", f"{OPTIONS}profile directory given (slrum), but no profile.yaml (or config.yaml) found."),
        ("--profile=slurm", NO_CLUSTER),
        ("--profile=elsewhere/mine", NO_CLUSTER),
        ("--snakemake=--executor slurm --jobs 2", NO_CLUSTER),
    ],
)
def test_what_snakemake_refuses_or_lacks_is_one_line_before_anything_runs(
    options, message, project, monkeypatch, capfd
):
    """A failure, and no Ctrl-C. The Snakefile is not read."""
    (project / "slurm").symlink_to(ROOT / "slurm")
    (project / "elsewhere/mine").mkdir(parents=True)
    (project / "elsewhere/mine/config.yaml").write_text("executor: slurm\njobs: 3\n")
    (project / "bin").mkdir()
    (project / "bin/which").symlink_to(shutil.which("which"))  # by which the executor looks for its programs
    monkeypatch.setenv("PATH", str(project / "bin"))
    monkeypatch.setattr(sys, "argv", ["snakemake", *shlex.split(options.replace("--snakemake=", ""))])
    assert interruptible.main() == 2
    said = capfd.readouterr().err
    assert said.startswith(message)
    assert said.count("\n") == 1


def programs(folder, **scripts):
    """Write shell scripts that stand for a cluster's programs, and return their folder."""
    folder.mkdir()
    for name in interruptible.PROGRAMS["slurm"]:
        (folder / name).write_text(f"#!/bin/sh\n{scripts.get(name, 'exit 0')}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_programs_without_a_cluster_are_named_with_what_they_say(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", sinfo="echo a >&2; echo sinfo: no cluster >&2; exit 1"))
    with pytest.raises(UserError, match=r"^executor slurm: sinfo: no cluster: this machine reaches no cluster"):
        interruptible.check_cluster("slurm")
    interruptible.check_cluster("local")
    monkeypatch.setenv("PATH", programs(tmp_path / "good"))
    interruptible.check_cluster("slurm")


def test_a_failure_is_no_ctrl_c(workflow):
    run = dpgraph(workflow.folder, "run", "results/no-such-file", "--suite", "tiny", "-n")
    assert run.returncode == 1
