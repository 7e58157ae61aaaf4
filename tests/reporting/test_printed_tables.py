"""The page of printed tables without a row of ours: each number is that of published/*.csv."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/notes/2026-11-28-printed-tables.md"
PUBLISHED = ROOT / "src/dpgraph/config/published"
DAIGAVANE, TEXTS, THESIS = (
    PUBLISHED / f"results_{stem}.csv"
    for stem in (
        "daigavane2022-node-level-dp-gnn",
        "igamberdiev2021-gcn-graph-splits",
        "zhang2021-dp-deep-learning-thesis",
    )
)
TABLES = {  # by heading: the file, the table, what heads a row, what heads a column
    **{f"Daigavane et al., Table {n}": (DAIGAVANE, f"table{n}", "method", "dataset") for n in (1, 2, 3, 4)},
    "Daigavane et al., Table 5": (DAIGAVANE, "table5", "batch_size", "model"),
    "Daigavane et al., Table 6": (DAIGAVANE, "table6", "K", "model"),
    "Igamberdiev and Habernal, Table 4": (TEXTS, "table4", "features", "budget"),
    "Zhang's thesis, Table 3.4": (THESIS, "table3.4", "model", "budget"),
}
HEADS = {"method": "Method", "batch_size": "Batch size", "K": "In-degree, at most", "features": "Features",
         "model": "Method"}  # fmt: skip


def printed(path: Path, table: str) -> list[dict[str, str]]:
    """Return the rows of a printed table with the parts of its column other_params as columns."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["table"] == table]
    return [row | dict(one.split("=", 1) for one in row["other_params"].split(";") if "=" in one) for row in rows]


def head(row: dict[str, str], kind: str) -> str:
    """Return what heads the row or column of a number."""
    if kind == "method":
        layers = f", {row['layers']} layer{'s' * (row['layers'] != '1')}" if "layers" in row else ""
        return row["model"] + layers + (f", {row['optimizer']}" if row["optimizer"] else "")
    if kind == "budget":
        budget = "no privacy" if row["epsilon"] == "inf" else f"ε = {row['epsilon']}"
        return budget if row["metric"] != "f1" else f"{row['optimizer']}, {budget}"
    return row[kind]


def markdown(path: Path, table: str, of_rows: str, of_columns: str) -> str:
    """Return a printed table as the page has it."""
    cells: dict[str, dict[str, str]] = {}
    for row in printed(path, table):
        text = row["value"] + (f" ± {row['std']}" if row["std"] else "")
        assert cells.setdefault(head(row, of_rows), {}).setdefault(head(row, of_columns), text) == text
    columns = list(dict.fromkeys(name for own in cells.values() for name in own))
    lines = [[HEADS[of_rows], *columns], [":--", *["--:"] * len(columns)]]
    lines += [[name, *(own.get(column, "–") for column in columns)] for name, own in cells.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_printed_numbers(name: str) -> None:
    """To write a table anew, print `markdown(*TABLES[name])`."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {name}\n")[1].split("\n## ")[0]
    assert markdown(*TABLES[name]) in section
    assert "dpgraph run " in section
