"""The examples of the help texts, run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from dpgraph.audits.registry import AUDITS
from dpgraph.cli import main
from dpgraph.cli.app import COMMANDS, command
from tests.own_graph.test_fit import write_csv

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # a word that is broken at its hyphen is another word
    # audits of a card take seconds: tests/own_graph/test_audited.py
    for name in ("STEPS", "VOTES", "MEAN", "READERS", "REMOVED", "CANARIES"):
        monkeypatch.setattr(f"dpgraph.own_graph.audited.{name}", (("lists", 4),))
    monkeypatch.setattr("dpgraph.own_graph.audited.DRAWS", 4)


def example(name):
    found = re.search(r"Example: dpgraph (.*)$", command(name).__doc__, re.M)
    return shlex.split(found[1].partition(". ")[0]) if found else None


def test_examples_of_help_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path)
    (tmp_path / "new.csv").write_text("id,a,b,c\nx,1,0,0\n")
    (tmp_path / "new-edges.csv").write_text("new,old\nx,n1\n")
    ran = []
    for stage in ("fit", "predict", "export", "compare", "afford"):
        arguments = example(stage)
        if stage == "compare":
            arguments += ["--seeds", "1", "--methods", "own"]  # sooner
        assert main(arguments) == 0, arguments
        ran.append(stage)
    for name in ("RATES", "STEPS"):
        monkeypatch.setattr(f"dpgraph.families.trees.planner.{name}", 1)  # sooner
    for stage in ("new", "new-project", "plan", "epsilon", "noise", "audit", "schemas"):
        assert main(example(stage)) == 0
        ran.append(stage)
    monkeypatch.chdir(ROOT)
    for stage in ("list", "explain", "cost", "status"):
        assert main(example(stage)) == 0
        ran.append(stage)
    monkeypatch.chdir(tmp_path)
    told = {stage for stage in COMMANDS if example(stage) is not None}
    assert told == {*ran, "run", "render"}  # render: tests/reporting
    assert (tmp_path / "new-predictions.csv").read_text().startswith("id,prediction,")


def test_the_example_of_run_names_what_there_is(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("os.execv", lambda _, words: ran.extend(words))
    ran = []
    assert main(example("run")) == 0
    assert "results/demo/tables/daigavane/table7.md" in ran
    assert "--logger" in ran


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


def test_an_unknown_command_is_one_line(capsys):
    for name, meant in (("fitt", "; did you mean fit?"), ("agregate", "; did you mean aggregate?"), ("qqq", "")):
        assert main([name]) == 2
        assert capsys.readouterr().err == f"error: {name}: no such command; dpgraph --help lists them{meant}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["fit", "--datset", "x"], "error: --datset: no such option; did you mean --dataset? (dpgraph fit --help)"),
        (["fit", "--dataset", "x", "--epsilon", "four", "--out", "y"],
         "error: --epsilon=four: expected a number (dpgraph fit --help)"),
        (["fit", "--dataset", "x"], "error: --out: missing (dpgraph fit --help)"),
        (["fit", "--dataset", "x", "--out", "y"], "error: --epsilon, --advantage: expected one of the two"),
        (["fit", "--dataset", "x", "--epsilon"], "error: --epsilon: expected a value (dpgraph fit --help)"),
        (["preprocess"], "error: TASK: missing (dpgraph preprocess --help)"),
        (["explain", "a", "b"], "error: b: expected no more words (dpgraph explain --help)"),
        (["train", "--workers", "1.5"], "error: --workers=1.5: expected an integer (dpgraph train --help)"),
        (["list", "cels"],
         "error: what=cels: expected one of papers, artefacts, claims, methods, rows, datasets, cells, inventory, "
         "mechanisms, audits; did you mean cells? (dpgraph list --help)"),
        (["train", "--cell", "{}", "--device", "gpu"],
         "error: --device=gpu: expected one of auto, cpu, cuda; did you mean cpu? (dpgraph train --help)"),
        (["noise", "gaussian", "--delta", "1", "--epsilon", "1", "--mode", "x"],
         "error: --mode=x: expected one of published, rigorous (dpgraph noise --help)"),
        (["noise", "gaussian", "--detla", "1"],
         "error: --detla: no such option; did you mean --delta? (dpgraph noise --help)"),
        (["fit", "--graph", "a", "--dataset", "b", "--epsilon", "1", "--out", "c"],
         "error: --graph, --dataset: expected only one of --edges, --graph, --dataset"),
        (["epsilon", "gaussian", "--delta", "2"], "error: --delta=2.0: expected a number in (0, 1)"),
        (["noise", "gaussian", "--delta", "2", "--epsilon", "1"],
         "error: --delta=2.0: expected a number in (0, 1)"),
        (["noise", "gaussian", "--delta=1e-5", "--epsilon", "-1"],
         "error: --epsilon=-1.0: expected a finite number >= 1e-09"),
        (["plan", "--num-train", "9", "--hops", "1", "--epsilon", "1", "--max-steps", "9", "--delta", "2"],
         "error: --delta=2.0: expected a number in (0, 1)"),
        (["epsilon", "poisson_gaussian", "--q", "2", "--delta", "1e-5"],
         "error: --q=2: expected a finite number >= 1e-09 and <= 1"),
        (["epsilon", "poisson-gaussian", "--q", ".1", "--delta", "1e-5"],
         "error: poisson-gaussian: expected the parameter --noise-multiplier"),
        (["epsilon", "poisson-gaussian", "--q", ".1", "--noise-multiplier", "-1", "--delta", "1e-5"],
         "error: --noise-multiplier=-1: expected a finite number >= 1e-06 and <= 1e+12"),
        (["train", "--epsilon", "1"], "error: Unknown option: --epsilon (dpgraph train --help)"),
        (["status", "--suite", "a", "--suite", "b"],
         "error: Parameter --suite specified multiple times (dpgraph status --help)"),
        (["preprocess", "--", "--cora"],
         "error: task=--cora: expected DATASET/SETTING.SPLIT or DATASET/SETTING.SPLIT.FEATURES"),
    ],
)  # fmt: skip
def test_what_is_refused_is_one_line_with_the_user_s_own_word(arguments, line, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"{line}\n"


def test_mechanisms_have_one_spelling_on_the_command_line(capsys):
    assert main(["epsilon", "poisson-gausian", "--delta", "1e-5"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("did you mean poisson-gaussian?\n")
    assert "_" not in said


def test_the_help_of_audit_says_where_audits_are_listed(capsys):
    with suppress(SystemExit):
        main(["audit", "--help"])
    assert "dpgraph list audits" in capsys.readouterr().out
    assert main(["list", "audits", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["audit"] for row in rows] == list(AUDITS)
    assert all(row["about"] for row in rows)


def test_a_paper_that_is_not_there_is_named_by_its_option(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["list", "claims", "--paper", "daigavan"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --paper=daigavan: expected one of daigavane, ")
    assert said.endswith("did you mean daigavane?\n")


def test_documents_and_rules_call_commands_that_there_are():
    paths = [ROOT / "README.md", ROOT / "Snakefile"]
    paths += [path for folder in ("docs", "docs/[!n]*", "rules", "workflow") for path in ROOT.glob(f"{folder}/*.*")]
    paths += (ROOT / "workflow/suites").glob("*.yaml")
    for path in paths:
        if path.suffix in (".md", ".smk", ".yaml", ".ipynb", ""):
            command = r"(?:^|`|\$ |-m |run\(\\\")dpgraph (?!is )([a-z-]+)"
            called = set(re.findall(command, path.read_text(), re.M))
            assert called <= {*COMMANDS}, path
