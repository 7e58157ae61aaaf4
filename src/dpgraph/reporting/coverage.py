"""The papers' tables and figures: which of their cells have kept rows, and what the others would take."""

import fnmatch
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.config.config import Config
from dpgraph.planning.cost import hours_in_words
from dpgraph.planning.inventory import read_inventory
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.reporting.formats import template
from dpgraph.reporting.render import ROWS
from dpgraph.reporting.views.registry import SuiteFiles, inputs_of

TRAINED = {SuiteFiles.RESULTS, SuiteFiles.CELLS}
COLUMNS = ("paper", "item", "title", "cells", "with_rows", "seeds", "panels", "complete", "no_data", "suites", "also",
           "missing", "run")  # fmt: skip
STATES = COMPLETE, PART, ELSEWHERE, NONE = "complete", "in part", "other cells", "not run"
UNTRAINED = "no training"


def coverage(out: Path, workflow: Path) -> tuple[pd.DataFrame, str]:
    """Return a row for each table and figure of the papers, and the page of them.

    `cells` are those of the suite with the papers' own grids, `with_rows` those of them with rows in any kept suite,
    `seeds` the fewest of these. `panels` are the artefacts that show the item, `complete` those with rows of all cells.
    `no_data` are missing cells whose data set is in no kept suite. `suites` have the rows; `also` show the item by
    other cells.
    """
    whole, items = read_inventory(workflow)
    kept = {path.parent.name: _seeds_by_cell(path) for path in sorted(out.glob(f"*/{ROWS}"))}
    shows = {suite: _shown(load_plan(Config(suite=suite), workflow), rows) for suite, rows in kept.items()}
    made = [_row(one, whole, kept, shows) for one in items if one["item"].startswith(("table", "fig"))]
    table = pd.DataFrame(made, columns=list(COLUMNS))
    titles = {name: experiment.title for name, experiment in whole.experiments.items()}
    papers = [(titles[str(name)], rows.to_dict("records")) for name, rows in table.groupby("paper", sort=False)]
    return table, template("artefacts.md").render(papers=papers, state=state, counts=counted(table), suites=list(kept))


def state(row: Mapping[str, Any]) -> str:
    """Return whether all, some or none of an item's cells have rows, or only other cells that show it."""
    if not row["cells"]:
        return UNTRAINED if row["panels"] else "–"
    if row["with_rows"] == row["cells"]:
        return COMPLETE
    return PART if row["with_rows"] else ELSEWHERE if row["also"] else NONE


def counted(table: pd.DataFrame) -> str:
    """Return e.g. `25 tables: 2 complete, 3 in part, ...; 41 figures: ...`, of items whose numbers need training."""
    trained = table[table["cells"] > 0]
    states = trained.apply(state, axis=1)
    texts = []
    for name, start in (("tables", "table"), ("figures", "fig")):
        one = states[trained["item"].str.startswith(start)]
        texts.append(f"{len(one)} {name}: " + ", ".join(f"{(one == word).sum()} {word}" for word in STATES))
    return "; ".join(texts)


def _seeds_by_cell(path: Path) -> pd.DataFrame:
    """Return the data set and the number of seeds of each cell with a result."""
    rows = pd.read_parquet(path, columns=["cell", "dataset", "seed", "final", "status"])
    good = rows[rows["final"] & (rows["status"] == "ok")]
    return good.groupby("cell").agg(dataset=("dataset", "first"), seeds=("seed", "nunique"))


def _shown(plan: Plan, rows: pd.DataFrame) -> set[str]:
    """Return the artefacts of a suite of which a cell has rows."""
    return {entry.artefact for entry in plan.entries if entry.cell.slug in rows.index}


def _row(
    item: Mapping[str, str], whole: Plan, kept: Mapping[str, pd.DataFrame], shows: Mapping[str, set[str]]
) -> dict[str, Any]:
    names = [f"{item['paper']}/{name}" for name in item["shown_by"].split(", ") if name]
    panels = {name: {entry.cell.slug for entry in whole.entries_of(name)} & set(whole.runs) for name in names
              if TRAINED.intersection(inputs_of(whole.artefacts[name].view).reads)}  # fmt: skip
    cells = set().union(*panels.values())
    found = {suite: rows["seeds"].reindex(sorted(cells & set(rows.index))) for suite, rows in kept.items()}
    seeds = pd.concat([*found.values(), pd.Series(dtype=int)]).groupby(level=0).max()  # a cell may be in several suites
    missing, data = sorted(cells - set(seeds.index)), {name for rows in kept.values() for name in rows["dataset"]}
    return {
        "paper": item["paper"],
        "item": item["item"],
        "title": _title([whole.artefacts[name].title for name in names]) if names else item["reason"],
        "cells": len(cells),
        "with_rows": len(seeds),
        "seeds": int(seeds.min()) if len(seeds) else 0,
        "panels": len(names),
        "complete": sum(panel <= set(seeds.index) for panel in panels.values()),
        "no_data": sum(whole.runs[slug].cell.task.dataset not in data for slug in missing),
        "suites": ", ".join(suite for suite, some in found.items() if len(some)),
        "also": ", ".join(suite for suite, known in shows.items() if not len(found[suite]) and known & set(names)),
        "missing": hours_in_words(whole, missing) if missing else "",
        "run": f"dpgraph run {_pattern(item, names, whole)} --suite {whole.suite.name}" if missing else "",
    }


def _title(titles: Sequence[str]) -> str:
    """Return the parts, between commas, with which the titles of all panels begin; the first title if there is none."""
    columns = zip(*(title.split(", ") for title in titles), strict=False)
    return ", ".join(part for part, *_ in takewhile(lambda one: len(set(one)) == 1, columns)) or titles[0]


def _pattern(item: Mapping[str, str], names: Sequence[str], whole: Plan) -> str:
    """Return the artefacts as words of a command, one with a * where it matches these alone."""
    for pattern in (f"{item['paper']}/{item['item']}{end}" for end in ("*", "-*")):
        if len(names) > 1 and fnmatch.filter(whole.artefacts, pattern) == list(names):
            return f"'{pattern}'"
    return " ".join(names)
