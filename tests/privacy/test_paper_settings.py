"""The table in docs/privacy.md is the one that the code computes."""

from __future__ import annotations

from pathlib import Path

from dpgraph.privacy.paper_settings import HEADER, NOISE_HEADER, NOISE_ROWS, settings

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


def noise_table() -> list[tuple[str, ...]]:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| r | K = D |"))
    kept = [lines[start], *lines[start + 2 : start + 2 + len(NOISE_ROWS)]]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in kept]


def test_the_document_shows_the_noise_of_every_mechanism() -> None:
    """One row is computed again."""
    header, *rows = noise_table()
    assert header == NOISE_HEADER
    assert [row[0:4:3] for row in rows] == [(f"{row.hops}", f"{row.epsilon:g}") for row in NOISE_ROWS]
    assert rows[2] == NOISE_ROWS[2].cells()


def test_residual_clipping_lies_between_dp_mlp_and_dp_gnn() -> None:
    for row in noise_table()[1:]:
        mlp, small, large, one_batch, gnn, fixed = (float(value) for value in row[4:])
        assert mlp < small < large < one_batch < gnn < fixed
