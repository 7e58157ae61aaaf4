"""What a suite shows, made from its rows alone: tables, figures, claims, runtimes and the first page.

The workflow makes each of them with the same functions; no record of a cell, no graph and no training is needed here.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from dpgraph.core.errors import UserError
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.table import read_claims, write_claims
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.leaderboard.page import Links, write_index
from dpgraph.reporting.results import MECHANISM, read_results, rows_for
from dpgraph.reporting.runtimes import write_runtimes
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.registry import RESULTS_ALONE, inputs_of, views_with

ROWS = "rows.parquet"
PAGES = (
    ("claims.html", "claims"),
    ("claims.csv", "claims.csv"),
    ("runtimes.html", "runtimes"),
    ("results.parquet", "results.parquet"),
)


def write_artefacts(plan: Plan, names: Iterable[str]) -> None:
    """Write all files of tables and figures; those that read results.parquet alone share what was read of it."""
    shared: pd.DataFrame | None = None
    for name in names:
        alone = inputs_of(plan.artefacts[name].view).reads == RESULTS_ALONE.reads
        if alone and shared is None:
            shared = rows_for(plan, name)
        write_artefact(plan, name, shared if alone else rows_for(plan, name))


def write_artefact(plan: Plan, name: str, rows: pd.DataFrame | None) -> None:
    """Write a table in each of its forms, or a figure."""
    artefact, paths = plan.artefacts[name], plan.paths
    if artefact.kind == "figure":
        write_figure(plan, name, rows, paths.figure(name, "png").with_suffix(""))
        return
    stem = paths.table(name, "csv").with_suffix("")
    write_table(plan, name, rows, stem)
    if artefact.view in views_with("wide"):
        write_table(plan, name, rows, stem, wide=True)


def read_rows(path: Path, suite: str) -> pd.DataFrame:
    """Read the rows of a suite with all that any view needs. Raises UserError where there are none."""
    if not path.is_file():
        raise UserError(f"{path}: no rows: run `dpgraph run --suite {suite}`, then `dpgraph ship --suite {suite}`")
    return read_results(path, MECHANISM)


def render(plan: Plan, rows: Path) -> Path:
    """Make everything below the plan's folder of results; return the first page.

    Figures that show records themselves, such as faces, are left out.
    """
    frame, paths = read_rows(rows, plan.suite.name), plan.paths
    paths.suite.mkdir(parents=True, exist_ok=True)
    if not paths.results.exists() or not paths.results.samefile(rows):
        shutil.copyfile(rows, paths.results)
    for name in drawn(plan):
        write_artefact(plan, name, frame if inputs_of(plan.artefacts[name].view).reads else None)
    write_claims(plan, frame, paths.claims, paths.claims.with_suffix(".html"))
    write_runtimes(plan, frame, paths.suite / "runtimes.html")
    links = Links(cells=False, held_back=held_back(plan), files=PAGES)
    write_index(plan, frame, read_claims(paths.claims), paths.index, links)
    return paths.index


def drawn(plan: Plan) -> list[str]:
    """Return the artefacts that rows are enough for."""
    return [name for name, artefact in plan.artefacts.items() if artefact.view not in held_back(plan)]


def held_back(plan: Plan) -> tuple[str, ...]:
    """Return the views of the plan that show records themselves."""
    views = dict.fromkeys(artefact.view for artefact in plan.artefacts.values())
    return tuple(view for view in views if inputs_of(view).pictures)
