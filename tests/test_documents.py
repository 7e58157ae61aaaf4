"""Pages for readers: their links lead somewhere, the papers are cited, the container's files exist."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import yaml

from dpgraph.cli import main
from dpgraph.reporting.verify import unlike_pages, unlike_statements

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial/private-model.ipynb"
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in DOCS.rglob("*.md") if DOCS / "results" not in page.parents)])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = [match[1] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


SETTINGS = sorted((ROOT / "workflow/settings").glob("*.yaml"))  # whose headers say how they were made


@pytest.mark.parametrize("page", [*PAGES, TUTORIAL, *SETTINGS], ids=lambda page: page.name)
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


def test_readme_and_docs_print_what_the_kept_rows_say() -> None:
    assert list(unlike_statements(ROOT)) == []


def test_readme_is_for_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


SMALLEST = 7_650  # nodes of README's smallest graph, Amazon Photo, whose default delta is the largest


def test_readme_says_what_its_epsilons_risk(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for epsilon, said in ((8, "advantage of up to {}"), (1, "the advantage is at most {}")):
        afford = f"afford --nodes {SMALLEST} --classes 8 --labelled 5355 --epsilon {epsilon}"
        assert main(afford.split()) == 0
        found = re.search(r"advantage of at most ([0-9.]+)", capsys.readouterr().out)
        assert found
        assert said.format(math.ceil(100 * float(found[1])) / 100) in text


@pytest.mark.slow
def test_pages_of_results_print_what_the_kept_rows_say() -> None:
    assert list(unlike_pages(ROOT, claims=False)) == []


def test_no_command_of_readme_is_explained_twice() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").split("```\n")[1].splitlines()
    commands = [line.split("#")[0].strip() for line in lines]
    assert "make test" in commands
    assert len(commands) == len(set(commands))
