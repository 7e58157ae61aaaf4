"""The examples of the help texts, run as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from dpgraph.cli import STAGES, main
from dpgraph.cli_run import command_of
from tests.fitting.test_fit import write_csv

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # a word that is broken at its hyphen is another word


def example(stage, capsys):
    with pytest.raises(SystemExit):
        main([stage, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    found = re.search(r"Example: dpgraph (.*?)\. ?(?=[A-Z]|$)|Example: dpgraph (.*)$", text)
    return shlex.split(found[1] or found[2]) if found else None


def test_examples_of_help_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path)
    (tmp_path / "new.csv").write_text("id,a,b,c\nx,1,0,0\n")
    (tmp_path / "new-edges.csv").write_text("new,old\nx,n1\n")
    ran = []
    for stage in ("fit", "predict", "export", "compare", "afford"):
        arguments = example(stage, capsys)
        if stage == "compare":
            arguments += ["--seeds", "1", "--methods", "own"]  # sooner
        assert main(arguments) == 0, arguments
        ran.append(stage)
    told = {stage for stage in STAGES if example(stage, capsys) is not None}
    assert told == {*ran, "run"}
    assert (tmp_path / "new-predictions.csv").read_text().startswith("id,prediction,")


def test_the_example_of_run_names_what_there_is(monkeypatch, capsys):
    import argparse

    from dpgraph.cli_run import add_run

    monkeypatch.chdir(ROOT)
    parser = argparse.ArgumentParser()
    add_run(parser)
    arguments = example("run", capsys)
    command = command_of(parser.parse_args(arguments[1:]))
    assert "results/demo/tables/daigavane/table7.md" in command
    assert "--logger" in command


def test_readme_s_commands_on_an_own_graph_work(tmp_path, monkeypatch, capsys):
    """From README alone: the lines of its section, in a folder with a stranger's files."""
    section = (ROOT / "README.md").read_text().split("## Your own graph")[1].split("\n## ")[0]
    lines = [line for block in re.findall(r"```\n(.*?)```", section, re.S) for line in block.splitlines()]
    assert len(lines) >= 4
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path)
    (tmp_path / "new.csv").write_text("id,a,b,c\nx,1,0,0\n")
    (tmp_path / "new-edges.csv").write_text("new,old\nx,n1\n")
    for line in lines:
        arguments = shlex.split(line, comments=True)
        assert arguments[0] == "dpgraph"
        assert main([*arguments[1:], *(["--seeds", "1"] if arguments[1] == "compare" else [])]) == 0, line
    shutil.rmtree(tmp_path / "mine")


def test_an_unknown_stage_is_one_line(capsys):
    assert main(["tabel"]) == 2
    assert capsys.readouterr().err == "error: STAGE=tabel: expected one of dpgraph --help; did you mean table?\n"
