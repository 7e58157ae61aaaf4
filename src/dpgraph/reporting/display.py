"""Tables as people read them: groups of rows with numbered footnotes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from dpgraph.reporting import formats, protection
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import Quantity

NOT_IN_PAPER = "not in the paper"


@dataclass(frozen=True)
class Text:
    """A cell, with the numbers of its footnotes."""

    value: str
    notes: tuple[int, ...] = ()
    bold: bool = False
    tex: str = ""  # the value in LaTeX, where that is another one


@dataclass(frozen=True)
class RowGroup:
    """Rows below one title."""

    title: str
    rows: list[list[Text]]


@dataclass
class Footnotes:
    """Equal texts share a number."""

    texts: list[str] = field(default_factory=list)

    def number(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    blocks: list[RowGroup]
    footnotes: list[str]
    remarks: list[str]  # below the footnotes, without a number
    text_columns: int = 1  # the first ones are left-aligned, the others hold numbers
    spans: tuple[str, ...] = ()  # a head above each column, equal neighbours share one; empty: none
    brief: list[str] | None = None  # remarks for a paper; None: as elsewhere


class MadeTable(NamedTuple):
    """The long form, table and further files that a view makes."""

    frame: pd.DataFrame  # long form
    table: Table


EPSILON_REMARK = (
    "ε claimed: by the paper’s formula, even where it is wrong. ε proved: by a theorem for what ran. ∞: no privacy. "
    "none: nothing is guaranteed. Relation (which data sets are neighbours) and scope (what is covered): claimed / "
    "proved where they differ."
)
PROTECTION_HEADS: tuple[str, ...] = ("Relation", "Scope")
EPSILON_HEADS: tuple[str, ...] = ("ε claimed", "ε proved", *PROTECTION_HEADS)


def reference_remarks(table: pd.DataFrame, shown: Quantity) -> list[str]:
    """Return a remark with the chance baseline by task (column reference of `accuracy_table`)."""
    if "reference" not in table or table["reference"].isna().all():
        return []
    levels = table.groupby("task_label", sort=False)["reference"].mean().dropna()
    by_task = "; ".join(f"{label} {level:.2f} {shown.unit}" for label, level in levels.items())
    attack = "" if shown.more_is_better else " A lower value is a better attack."
    return [f"To be read against {shown.reference_label}: {by_task}.{attack}"]


def measure_cell(row: Mapping[str, Any], name: str, decimals: int = 2) -> Text:
    """Return mean and standard deviation of a measure, from the columns `<name>_mean` and `<name>_std`."""
    mean = row[f"{name}_mean"]
    return Text(DASH if math.isnan(mean) else formats.mean_std(mean, row[f"{name}_std"], decimals).replace("-", "−"))


def target_cell(row: dict) -> Text:
    target = row["epsilon_target"]
    return Text(DASH if math.isnan(target) else formats.significant(target))


def seeds_cell(row: dict, notes: Footnotes) -> Text:
    """Return how many of the planned seeds ended well; a footnote says why the others did not."""
    if row["status"] != "ok":
        return Text(DASH)
    seeds = str(row["n"]) if row["n"] == row["n_planned"] else f"{row['n']} of {row['n_planned']}"
    return Text(seeds, (notes.number(row["reason"]),) if row["reason"] else ())


def failure(row: dict, notes: Footnotes) -> Text:
    return Text(row["status"], (notes.number(row["reason"]),) if row["reason"] else ())


def epsilon_cell(row: dict, mode: str, notes: Footnotes) -> Text:
    """Return one epsilon; "none" with its reason where there is no guarantee; a dash without a result.

    The rigorous one is marked where private data are read that it does not cover.
    """
    value, reason = row[f"eps_{mode}"], row[f"eps_{mode}_reason"]
    mark = protection.mark(row) if mode == "rigorous" else ""
    if not math.isnan(value):
        return Text(formats.epsilon(value) + mark)
    if not reason and row["status"] != "ok":
        return Text(DASH)
    claimed = row.get("eps_claimed", math.nan) if mode == "rigorous" else math.nan
    if not math.isnan(claimed):  # of a method from outside the package
        return Text(f"none (its author claims {formats.epsilon(claimed)}){mark}", (notes.number(reason),))
    return Text("none" + mark, (notes.number(reason or "no reason was recorded"),))


def epsilon_cells(row: dict, notes: Footnotes) -> list[Text]:
    """Return both epsilons with relation and scope, as `EPSILON_HEADS` names them."""
    return [*(epsilon_cell(row, mode, notes) for mode in protection.MODES), *protection_cells(row)]


def head_cells(row: dict, notes: Footnotes, *more: Text) -> list[Text]:
    """Return the first cells of a row: method, `more`, target epsilon, both epsilons with relation and scope."""
    return [Text(row["label"]), *more, target_cell(row), *epsilon_cells(row, notes)]


def protection_cells(row: dict) -> list[Text]:
    return [Text(protection.both(row, name)) for name in ("relation", "scope")]


def by_task(
    table: pd.DataFrame, cells: Callable[[dict], list[Text]], title: Callable[[pd.DataFrame], str] | None = None
) -> list[RowGroup]:
    """Return a group for each task, headed by its label and delta, or by `title` of its rows."""
    parts = [part for _, part in table.groupby("task", sort=False)]
    heads = [title(part) if title else with_delta(str(part["task_label"].iloc[0]), part) for part in parts]
    return [RowGroup(head, [cells(row) for row in part.to_dict("records")]) for head, part in zip(heads, parts)]


def with_delta(label: str, part: pd.DataFrame) -> str:
    deltas = formats.deltas(part["delta"])
    return f"{label} (δ = {', '.join(deltas)})" if deltas else label
