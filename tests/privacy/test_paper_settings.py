"""The table in docs/privacy.md is the one that the code computes."""

from __future__ import annotations

from pathlib import Path

from dpgraph.privacy.paper_settings import HEADER, settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "privacy.md"


def table() -> list[tuple[str, ...]]:
    lines = [
        line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith(("| table", "| exp"))
    ]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_the_document_shows_every_setting() -> None:
    header, *rows = table()
    assert header == HEADER
    assert [row[:3] for row in rows] == [(s.experiment, s.dataset, s.model) for s in settings()]


def test_the_document_shows_what_the_code_computes() -> None:
    """Every fourth setting: all kinds of rows, a fourth of the time."""
    for row, setting in list(zip(table()[1:], settings()))[::4]:
        assert row == setting.cells()


def test_no_setting_is_covered_by_a_proof_for_the_papers_own_mechanism() -> None:
    assert {row[HEADER.index("rigorous ε")] for row in table()[1:]} == {"none"}
