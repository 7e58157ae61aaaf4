"""The pages of privacy: theorems 1 to n, each with code that exists, and each proof of the code with a theorem."""

from __future__ import annotations

import importlib
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

import dpgraph
from dpgraph.audits.registry import AUDITS
from dpgraph.privacy.accountants.evaluate import accountants
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.relation import Relation, Scope

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/privacy").glob("*.md"))
INDEX = ROOT / "docs/privacy/index.md"
PACKAGE = Path(dpgraph.__file__).parent
COLUMNS = "| theorem | page | relation | scope | mechanism | accountant | audit | test |"
WIDTH = 120
LINK = re.compile(r"\]\(([^)\s:]*)\)")  # those that lead into this repository
DEFINITION = re.compile(r"^\[[^]]+\]: (\S+)$", re.MULTILINE)


class Row(NamedTuple):
    """One row of the index; a row without a number continues the theorem above it."""

    theorem: int
    page: str
    relation: str
    scope: str
    mechanism: str
    accountant: str
    audit: str
    test: str


def rows_of(text: str) -> list[Row]:
    """Return the rows of the table of theorems. Raises ValueError for a cell that cannot be read."""
    lines = text.partition(COLUMNS)[2].strip("\n").partition("\n\n")[0].splitlines()[1:]
    rows: list[Row] = []
    for line in lines:
        number, page, *others = (cell.strip() for cell in line.strip().strip("|").split("|"))
        theorem = int(number.strip("[]")) if number else rows[-1].theorem
        rows.append(Row(theorem, page or rows[-1].page, *others))
    return rows


def numbers_of(text: str) -> list[int]:
    """Return the theorems that rows of the index begin with."""
    return [int(number) for number in re.findall(r"^\| \[(\d+)\] \|", text, re.MULTILINE)]


def names(cell: str) -> list[str]:
    """Return the identifiers of a cell: one, or none for a dash."""
    return [] if cell == "–" else [re.sub(r"`| \(.*\)$", "", cell)]


def path_of(test: str) -> Path:
    """Return the file of a test as the index names it."""
    folder, _, name = f"{'families/' * (not test.startswith('/'))}{test.lstrip('/')}".rpartition("/")
    return ROOT / "tests" / folder / f"test_{name}.py"


@cache
def mechanisms_with_a_proof() -> dict[str, Relation]:
    """Return the classes of mechanisms that state an epsilon with a proof, each with its relation."""
    for path in sorted((PACKAGE / "families").rglob("*.py")):
        if '    kind: Literal["' in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(("dpgraph", *path.relative_to(PACKAGE).with_suffix("").parts)))
    found, pending = {}, [NoisySteps]
    while pending:
        one = pending.pop()
        pending += one.__subclasses__()
        relation = getattr(one, "relation", Relation.NONE)
        concrete = isinstance(one.model_fields["kind"].default, str) and not one.__name__.startswith("_")
        if concrete and one.proves and relation is not Relation.NONE and one.__module__.startswith("dpgraph."):
            found[one.__name__] = relation
    return found


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and mkdocs make it."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return {slug(one) for one in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)}


def test_theorems_are_numbered_once_across_all_pages() -> None:
    index = INDEX.read_text(encoding="utf-8")
    headings = re.compile(r"^### Theorem (\d+)$", re.MULTILINE)
    stated = {page.stem: [int(one) for one in headings.findall(page.read_text(encoding="utf-8"))] for page in PAGES}
    listed = numbers_of(index)
    assert listed == list(range(1, len(listed) + 1))
    assert sorted(chain(*stated.values())) == listed
    assert {row.theorem: row.page for row in rows_of(index)} == {n: page for page in stated for n in stated[page]}


def test_every_theorem_names_code_that_exists() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    classes = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    with_a_proof = {name for name, mode, _ in accountants() if mode == "rigorous"}
    for row in rows_of(INDEX.read_text(encoding="utf-8")):
        assert set(names(row.mechanism)) <= classes, row
        assert set(names(row.accountant)) <= with_a_proof, row
        assert set(names(row.audit)) <= set(AUDITS), row
        assert path_of(row.test).exists(), row


def test_every_theorem_names_a_relation_and_a_scope() -> None:
    for row in rows_of(INDEX.read_text(encoding="utf-8")):
        assert names(row.relation)[0] in {*Relation, "any", "as 11, 15", "(3)"}, row
        assert set(names(row.scope)) <= {*Scope, "(3)"}, row


def test_every_accountant_and_mechanism_with_a_proof_names_a_theorem() -> None:
    rows = rows_of(INDEX.read_text(encoding="utf-8"))
    assert {name for name, mode, _ in accountants() if mode == "rigorous"} == set(
        chain.from_iterable(names(row.accountant) for row in rows)
    )
    with_a_proof = mechanisms_with_a_proof()
    assert len(with_a_proof) > 20
    assert set(with_a_proof) - set(chain.from_iterable(names(row.mechanism) for row in rows)) == set()


def test_mechanisms_have_the_relation_of_a_row() -> None:
    rows = rows_of(INDEX.read_text(encoding="utf-8"))
    for name, relation in mechanisms_with_a_proof().items():
        assert relation in {names(row.relation)[0] for row in rows if name in names(row.mechanism)}, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_and_anchors(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in {*LINK.findall(text), *DEFINITION.findall(text)}:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short(page: Path) -> None:
    """Only a table that a program prints may have longer rows."""
    printed = re.compile(r"^\| table\d ")
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > WIDTH and not printed.match(line)] == []
