"""Pages for readers: their links lead somewhere, the papers are cited, the container's files exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from dpgraph.reporting.leaderboard.guide import answers

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = [match[1] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


SETTINGS = sorted((ROOT / "workflow/settings").glob("*.yaml"))  # whose headers say how they were made


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs/tutorial.ipynb", *SETTINGS], ids=lambda page: page.name)
def test_pages_call_the_console_script(page: Path) -> None:
    """`python -m dpgraph NAME` is what rules call, with the interpreter of the workflow."""
    assert re.findall(r"python -m dpgraph [a-z][a-z-]*", page.read_text(encoding="utf-8")) == []


def test_every_experiment_s_first_author_is_cited() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    names = {author["family-names"] for reference in cited["references"] for author in reference["authors"]}
    experiments = sorted((ROOT / "workflow" / "experiments").glob("*.yaml"))
    citations = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["citation"] for path in experiments}
    assert experiments
    assert {
        stem: text
        for stem, text in citations.items()
        if not text.startswith("This project") and not any(name in text for name in names)
    } == {}


def test_container_copies_files_that_exist() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_readme_answers_with_a_kept_row_for_each_promise() -> None:
    """What is best on PubMed at epsilon 1 and what it protects, with the cell and the commit of each number."""
    if not (ROOT / "docs/results/votes").is_dir():
        pytest.skip("suite votes is not among the kept results: README names the commits of its numbers")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(answers(ROOT / "docs/results", "pubmed", "random-70-10-20")) in text.split("\n## ")[0]


def test_no_command_of_readme_is_explained_twice() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").split("```\n")[1].splitlines()
    commands = [line.split("#")[0].strip() for line in lines]
    assert "make test" in commands
    assert len(commands) == len(set(commands))


README_ROWS = {  # method of daigavane/headline -> what README calls it, and what its epsilon protects
    "gcn-1": ("GCN, one layer", "no privacy"),
    "mlp": ("MLP", "no privacy"),
    "dp-gcn-1": ("DP-GCN, trees clipped", "proved: node-null; parameters"),
    "dp-residual-gcn-1": ("DP-GCN, residual clipping", "proved: node-null; parameters"),
    "dp-own-gcn-1": ("DP-GCN trained on own records", "proved: node-null; parameters"),
    "dp-mlp": ("DP-MLP", "proved: node-null; parameters and all predictions but the node's own"),
    "dp-gcn-1-published": ("DP-GCN, Daigavane et al.", "claimed: node-remove; parameters. Nothing is proved"),
    "dp-mlp-published": ("DP-MLP, Daigavane et al.", "claimed: record-remove; parameters. Nothing is proved"),
}
SCOPES = {"parameters": "parameters", "joint": "parameters and all predictions but the node's own"}


def readme_table(table: pd.DataFrame) -> list[str]:
    """Lines of README's second table, from headline.csv of suite cpu: mean ± half of the 95 % interval."""
    graphs = list(dict.fromkeys(table["task"]))
    names = [table.loc[table["task"] == graph, "task_label"].iloc[0] for graph in graphs]
    lines = [
        f"| method | what ε protects: relation; scope | ε | {' | '.join(names)} |",
        "| :-- | :-- | --: |" + " --: |" * len(graphs),
    ]
    for method, (name, promise) in README_ROWS.items():
        rows = table[table["method"] == method]
        for count, epsilon in enumerate(rows["epsilon_target"].drop_duplicates()):
            same = rows["epsilon_target"].isna() if pd.isna(epsilon) else rows["epsilon_target"] == epsilon
            cells = rows[same].set_index("task").loc[graphs]
            numbers = [
                f"{mean:.1f}\u00a0±\u00a0{(high - low) / 2:.1f}"  # which no column breaks
                for mean, low, high in zip(cells["mean"], cells["ci_low"], cells["ci_high"])
            ]
            first = f"| {name} | {promise}" if count == 0 else "|  | "
            lines.append(f"{first} | {'∞' if pd.isna(epsilon) else f'{epsilon:g}'} | {' | '.join(numbers)} |")
    return lines


def test_readme_has_the_numbers_of_the_shipped_suite() -> None:
    folder = ROOT / "docs" / "results" / "cpu"
    if not folder.is_dir():
        pytest.skip("suite cpu is not among the kept results: README names the commit of its numbers")
    (path,) = (folder / "tables" / "daigavane").glob("headline.csv*")  # packed where it is long
    table = pd.read_csv(path)
    assert set(table["method"]) == set(README_ROWS)
    for method, (_, promise) in README_ROWS.items():
        said = table[table["method"] == method].iloc[0]
        if promise.startswith("proved"):
            assert promise == f"proved: {said['relation_rigorous']}; {SCOPES[said['scope_rigorous']]}"
        elif promise.startswith("claimed"):
            assert promise == f"claimed: {said['relation_published']}; parameters. Nothing is proved"
            assert said["relation_rigorous"] == "none"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(readme_table(table)) in text
    commit = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["commit"]
    assert f"suite `cpu`, commit {commit[:7]};" in text
