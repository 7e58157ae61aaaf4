"""The papers' tables and figures: which of their cells have kept rows, and what the others would take."""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.config.config import Config
from dpgraph.planning.cost import hours_in_words
from dpgraph.planning.inventory import read_inventory
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.reporting.claims.parts import FEWEST
from dpgraph.reporting.formats import template
from dpgraph.reporting.render import ROWS
from dpgraph.reporting.views.registry import SuiteFiles, inputs_of

TRAINED = {SuiteFiles.RESULTS, SuiteFiles.CELLS}
COLUMNS = ("paper", "item", "title", "cells", "with_results", "seeds", "panels", "complete", "unused_data", "suites",
           "also", "missing", "run")  # fmt: skip
STATES = COMPLETE, PART, ELSEWHERE, NONE = "complete", "in part", "other cells", "not run"
UNTRAINED = "needs no training"


def coverage(out: Path, workflow: Path) -> tuple[pd.DataFrame, str]:
    """Return a row for each table and figure of the papers, and the page of them.

    `cells` are those of the suite with the papers' own grids, `with_results` those of them of which any kept suite has
    the metrics that the item shows, with `FEWEST` seeds or more, `seeds` the fewest of these. `panels` are the
    artefacts that show the item, `complete` those with results of all cells. `unused_data` are missing cells whose data
    set is in no kept suite. `suites` have the results; `also` have other cells that show the item. Suites that the
    workflow no longer has are left out.
    """
    whole, items = read_inventory(workflow)
    paths = [path for path in sorted(out.glob(f"*/{ROWS}")) if (workflow / f"suites/{path.parent.name}.yaml").is_file()]
    kept = {path.parent.name: _seeds_by_cell(path) for path in paths}
    shows = {suite: _shown(load_plan(Config(suite=suite), workflow), rows) for suite, rows in kept.items()}
    made = [_row(one, whole, kept, shows) for one in items if one["item"].startswith(("table", "fig"))]
    table = pd.DataFrame(made, columns=list(COLUMNS))
    titles = {name: experiment.title for name, experiment in whole.experiments.items()}
    papers = [(titles[str(name)], rows.to_dict("records")) for name, rows in table.groupby("paper", sort=False)]
    return table, template("artefacts.md").render(
        papers=papers, state=state, counts=counted(table), suites=list(kept), fewest=FEWEST, untrained=UNTRAINED
    )


def state(row: Mapping[str, Any]) -> str:
    """Return the word for how many of an item's cells have results."""
    if not row["cells"]:
        return UNTRAINED if row["panels"] else "–"
    if row["with_results"] == row["cells"]:
        return COMPLETE
    return PART if row["with_results"] else ELSEWHERE if row["also"] else NONE


def counted(table: pd.DataFrame) -> str:
    """Return e.g. `25 tables: 2 complete, 3 in part, ... (11 more need none); ...`, of items that need training."""
    states = table.apply(state, axis=1)
    texts = []
    for name, start in (("tables", "table"), ("figures", "fig")):
        one = states[table["item"].str.startswith(start)].value_counts()
        known = [f"{one.get(word, 0)} {word}" for word in STATES]
        total = sum(one.get(word, 0) for word in STATES)
        texts.append(f"{total} {name}: {', '.join(known)} ({one.get(UNTRAINED, 0)} more need none)")
    return "; ".join(texts)


def _seeds_by_cell(path: Path) -> pd.DataFrame:
    """Return the data set of each cell with results, and for each metric the number of its seeds."""
    rows = pd.read_parquet(path, columns=["cell", "dataset", "seed", "final", "status", "metric", "value"])
    good = rows[rows["final"] & (rows["status"] == "ok")]
    valued = good[good["value"].notna()]
    seeds = valued.groupby(["cell", "metric"])["seed"].nunique().unstack(fill_value=0)
    return good.groupby("cell").agg(dataset=("dataset", "first")).join(seeds)


def _fewest(rows: pd.DataFrame, panels: Mapping[str, set[str]], metrics: Mapping[str, str]) -> pd.Series:
    """Return by cell the fewest seeds that a panel has of its metric, of cells with `FEWEST` or more."""
    none = pd.Series(0, index=rows.index)
    parts = [rows.get(metrics[name], none).reindex(sorted(cells), fill_value=0) for name, cells in panels.items()]
    seeds = pd.concat([*parts, pd.Series(dtype=int)]).fillna(0).groupby(level=0).min()
    return seeds[seeds >= FEWEST]


def _shown(plan: Plan, rows: pd.DataFrame) -> dict[str, set[str]]:
    """Return the cells with results by artefact of a suite."""
    found: dict[str, set[str]] = {}
    for entry in plan.entries:
        if entry.cell.slug in rows.index:
            found.setdefault(entry.artefact, set()).add(entry.cell.slug)
    return found


def _row(
    item: Mapping[str, str], whole: Plan, kept: Mapping[str, pd.DataFrame], shows: Mapping[str, dict[str, set[str]]]
) -> dict[str, Any]:
    names = [f"{item['paper']}/{name}" for name in item["shown_by"].split(", ") if name]
    panels = {name: {entry.cell.slug for entry in whole.entries_of(name)} & set(whole.runs) for name in names
              if TRAINED.intersection(inputs_of(whole.artefacts[name].view).reads)}  # fmt: skip
    cells = set().union(*panels.values())
    metrics = {name: whole.artefacts[name].metric for name in panels}
    found = {suite: _fewest(rows, panels, metrics) for suite, rows in kept.items()}
    seeds = pd.concat([*found.values(), pd.Series(dtype=int)]).groupby(level=0).max()  # a cell may be in several suites
    missing, data = sorted(cells - set(seeds.index)), {name for rows in kept.values() for name in rows["dataset"]}
    other = {suite: set().union(*(known.get(name, ()) for name in panels)) - cells for suite, known in shows.items()}
    return {
        "paper": item["paper"],
        "item": item["item"],
        "title": _title([whole.artefacts[name].title for name in names]) if names else item["reason"],
        "cells": len(cells),
        "with_results": len(seeds),
        "seeds": int(seeds.min()) if len(seeds) else 0,
        "panels": len(names),
        "complete": sum(panel <= set(seeds.index) for panel in panels.values()),
        "unused_data": sum(whole.runs[slug].cell.task.dataset not in data for slug in missing),
        "suites": ", ".join(suite for suite, some in found.items() if len(some)),
        "also": ", ".join(suite for suite, some in other.items() if some),
        "missing": hours_in_words(whole, missing) if missing else "",
        "run": f"dpgraph run {_pattern(item, names, whole)} --suite {whole.suite.name}" if missing else "",
    }


def _title(titles: Sequence[str]) -> str:
    """Return the title of a single panel; of several what theirs are up to the first comma, each once."""
    return titles[0] if len(titles) == 1 else " / ".join(dict.fromkeys(title.split(", ")[0] for title in titles))


def _pattern(item: Mapping[str, str], names: Sequence[str], whole: Plan) -> str:
    """Return the artefacts as words of a command, one with a * where it matches these alone."""
    for pattern in (f"{item['paper']}/{item['item']}{end}" for end in ("*", "-k*")):
        if len(names) > 1 and fnmatch.filter(whole.artefacts, pattern) == list(names):
            return f"'{pattern}'"
    return " ".join(names)
