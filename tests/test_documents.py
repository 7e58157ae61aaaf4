"""Pages for readers: their links lead somewhere, the papers are cited, the container's files exist."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pandas as pd
import pytest
import yaml

from dpgraph import PUBLIC, __version__
from dpgraph.cli import main
from dpgraph.cli.app import COMMANDS
from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import OtherTest, SimpleTest
from dpgraph.data.registry import registry
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.verify import unlike_pages, unlike_statements

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial/private-model.ipynb"
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in DOCS.rglob("*.md") if DOCS / "results" not in page.parents)])
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        if "://" not in target and not (path.exists() and (not anchor or anchor[1:] in anchors(path))):
            broken.append(target + anchor)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def site() -> ModuleType:
    """Return the hooks of mkdocs.yml."""
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / "envs/site.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages_in(nav: Any) -> Iterator[str]:
    """Yield the pages of a navigation: a page, sections by title, or a list of both."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from pages_in(entry)


def test_the_site_has_each_page_once() -> None:
    hooks = site()
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = list(pages_in(hooks.expanded(nav)))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - hooks.MOVED.keys()
    assert len(listed) == len(set(listed))
    assert set(listed) == written | hooks.generated().keys()


def test_the_site_lists_every_command_and_function() -> None:
    made = site().generated()
    assert [name for name in COMMANDS if f"### dpgraph {name}\n" not in made["reference/cli.md"]] == []
    assert [name for name in PUBLIC if f"## dpgraph.{name}\n" not in made["reference/api.md"]] == []
    assert "| `eps_rigorous` |" in made["reference/results-columns.md"]


def test_the_glossary_has_every_relation_and_scope() -> None:
    terms = re.findall(r"`([^`]+)`", (DOCS / "reference/glossary.md").read_text(encoding="utf-8"))
    assert {*map(str, Relation), *map(str, Scope)} - {*terms} == set()


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
        if text != "none" and not text.startswith("This project") and not any(name in text for name in names)
    } == {}


def test_container_copies_files_that_exist() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_readme_and_docs_print_what_the_kept_rows_say() -> None:
    assert list(unlike_statements(ROOT)) == []


def test_counts_of_claims_in_readme_are_recomputed(tmp_path: Path) -> None:
    numbers = yaml.safe_load((DOCS / "numbers.yaml").read_text(encoding="utf-8"))
    counted = [one for one in numbers["statements"] if "suite" not in one]
    assert {"README.md", "docs/reference/claims.md"} == {one["file"] for one in counted}
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "docs/numbers.yaml").write_text(yaml.safe_dump({"data": {}, "statements": counted}), encoding="utf-8")
    claims = pd.read_csv(DOCS / "results/claims.csv").drop(index=0)  # one claim fewer than the pages print
    claims.to_csv(tmp_path / "docs/results/claims.csv")
    (tmp_path / "docs/reference").mkdir()
    for one in counted:
        shutil.copyfile(ROOT / one["file"], tmp_path / one["file"])
    lines = list(unlike_statements(tmp_path))
    assert len(lines) == len(counted)
    assert f"Of their {len(claims)} claims" in lines[0]


def test_the_architecture_page_names_the_suites() -> None:
    """Suites with kept results are the project's; a user may have others in his checkout."""
    page = (DOCS / "reference/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z-]+)`", page.partition("The suites are")[2].partition("\n\nEverything")[0]))
    suites = {path.stem for path in (ROOT / "workflow/suites").glob("*.yaml")}
    assert named - suites == set()
    assert {path.parent.name for path in DOCS.glob("results/*/claims.csv")} - named == set()


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (DOCS / "reference/architecture.md").read_text(encoding="utf-8").partition("## Top level")[0]
    package = ROOT / "src/dpgraph"
    named = re.findall(r"`((?:engine|privacy|own_graph)/[\w/]+\.py)`", page)
    assert len(named) > 5
    assert [name for name in named if not (package / name).exists()] == []


def test_the_page_of_claims_explains_every_key_and_kind_of_test() -> None:
    words = set(re.findall(r"`([a-z_-]+)`", (DOCS / "reference/claims.md").read_text(encoding="utf-8")))
    kinds = {model.model_fields["kind"].default for model in get_args(SimpleTest | OtherTest)}
    assert {*Claim.model_fields, *kinds} - words == set()


def test_the_page_of_data_sets_names_each_of_them() -> None:
    page = (DOCS / "reference/datasets.md").read_text(encoding="utf-8")
    variant = re.compile("-words$|-220$|^demo-words-.*")  # which the page names by their pattern
    assert {name for name in registry() if not variant.search(name) and f"`{name}`" not in page} == set()


def test_the_example_of_render_is_a_suite_with_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "--help"]) == 0
    found = re.search(r"dpgraph render ([a-z-]+)", capsys.readouterr().out)
    assert found
    assert (DOCS / f"results/{found[1]}/rows.parquet").exists()


def test_readme_is_for_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


SMALLEST = 7_650  # nodes of README's smallest graph, Amazon Photo, whose default delta is the largest


def test_readme_says_what_its_epsilons_risk(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for epsilon, said in ((8, "advantage of up to {}"), (1, "at ε = 1 of {}")):
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


def test_a_release_has_one_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    archived = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))["version"]
    assert cited == archived == __version__
    assert f"## {__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_catalogue_of_workflows_finds_every_key_of_the_config() -> None:
    page = (ROOT / "config/README.md").read_text(encoding="utf-8")
    keys = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    assert [key for key in keys if f"`{key}`" not in page] == []
