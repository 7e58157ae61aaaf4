"""docs/results: the kept results of suites, readable there without a run.

A suite has a folder with its rows (rows.parquet), from which `dpgraph render` makes every table, figure and claim
again; README.md with the best proved results and verdicts; claims.csv, baselines.csv, its first figures, and what the
page over all suites loads of it (values.js). That page is index.html; which-method.md is next to the folder. Records,
predictions and graphs stay in results/: no row of a data set is kept.
"""

import logging
import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpgraph.config.experiment import ACCURACY
from dpgraph.config.literature import read_baselines
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_text
from dpgraph.data.registry import entry
from dpgraph.planning.inventory import INVENTORY
from dpgraph.planning.plan import WORKFLOW, Plan
from dpgraph.reporting.artefacts import EntryRun, abouts, described_labels, described_rows, heading
from dpgraph.reporting.baselines import shipped_baselines
from dpgraph.reporting.claims.page import COLUMNS as CLAIM_COLUMNS
from dpgraph.reporting.claims.page import counts, elsewhere, held, papers_claims, strong_enough
from dpgraph.reporting.claims.page import overview as overview_of_claims
from dpgraph.reporting.claims.page import overview_page as page_of_claims
from dpgraph.reporting.claims.parts import CONTRADICTED, NOT_RUN
from dpgraph.reporting.claims.table import read_claims, write_claims
from dpgraph.reporting.coverage import coverage
from dpgraph.reporting.drawing import words
from dpgraph.reporting.figures import draw_figure, figure_html, plain
from dpgraph.reporting.formats import DASH, markdown, power_of_ten, significant
from dpgraph.reporting.guarantee import packed
from dpgraph.reporting.inputs import compared
from dpgraph.reporting.leaderboard.finding import Overview, described, finding, overview
from dpgraph.reporting.leaderboard.guide import VALUES, guide, guide_data
from dpgraph.reporting.leaderboard.page import Links, page_values, template, write_page_of_all
from dpgraph.reporting.leaderboard.standings import read_values, standings, value_shown, write_values
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.render import ROWS, drawn, held_back, read_rows
from dpgraph.reporting.results import Results, write_csv
from dpgraph.reporting.tables import as_html, displayed
from dpgraph.reporting.views import subclasses
from dpgraph.reporting.views.registry import inputs_of, views_with

log = logging.getLogger("dpgraph")

FOLDER = Path("docs/results")
BASELINES = "baselines.csv"
GUIDE, GUIDE_DATA = "which-method.md", "which-method.csv"
CLAIMS, ARTEFACTS = Path("claims.md"), Path("artefacts.md")
LIMIT = 10_000_000  # bytes of all that is in the folder
PICTURES = 3  # figures of a suite that are kept, the first ones
TIMES = ("seconds", "cpu_seconds", "steps_per_second")  # kept with three digits


def ship(plan: Plan, rows: Path | None = None, out: Path = FOLDER, workflow: Path = WORKFLOW) -> list[Path]:
    """Write out/<suite> anew, the page over all suites and the guide next to `out`; return the suite's files.

    rows: those of the suite's run, if none are given. Raises UserError where there are none, where they are of no
    commit or of changed files, or where the folder would exceed `LIMIT`; what was there before is kept then.
    """
    paths, name = plan.paths, plan.suite.name
    rows = paths.results if rows is None else rows
    results = read_rows(rows, name)
    commits = _checked_commits(results, name)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix=".unfinished.") as temporary:
        folder = Path(temporary) / name
        folder.mkdir()
        write_rows(rows, folder / ROWS)
        results = read_rows(folder / ROWS, name)  # as whoever renders them again
        _write_baselines(plan, results, out / name, folder, workflow)
        write_claims(plan, results, folder / "claims.csv", Path(temporary) / "claims.html")
        captions = _draw(plan, results, folder) | keep_galleries(plan, results, out / name, folder)
        _write_pages(plan, results, commits, folder, captions)
        _check_size(out, folder)
        shutil.rmtree(out / name, ignore_errors=True)
        folder.rename(out / name)
    write_common(out, workflow)
    return sorted(path for path in (out / name).rglob("*") if path.is_file())


def _write_baselines(plan: Plan, results: pd.DataFrame, before: Path, folder: Path, workflow: Path) -> None:
    """Write baselines.csv where the run or the folder `before` has one, with the references that are of these rows."""
    tables = [path for path in (before / BASELINES, plan.paths.baselines) if path.is_file()]
    if tables and compared(plan):
        table, lost = shipped_baselines(plan, read_baselines(workflow), results, tables)
        if lost:
            log.warning("%s: %d rows left out: no reference on the splits of these results", before / BASELINES, lost)
        if len(table):
            write_csv(table, folder / BASELINES)


def write_rows(source: Path, target: Path) -> None:
    """Write rows small: times have three digits, as the others are noise and a quarter of the file.

    Most of 200 columns hold one value, so statistics and a second schema would be half of it. Values hardly repeat:
    with a dictionary their column, which is most of the rest, would be a tenth larger.
    """
    table = packed(pq.read_table(source)).replace_schema_metadata(None)
    for name in set(TIMES) & set(table.column_names):
        short = np.char.mod("%.3g", table[name].to_numpy()).astype(float)
        table = table.set_column(table.column_names.index(name), name, pa.array(short, from_pandas=True))
    leaves = table.schema.empty_table()
    while any(map(pa.types.is_struct, leaves.schema.types)):
        leaves = leaves.flatten()
    repeated = [leaf for leaf in leaves.column_names if leaf != "value"]
    pq.write_table(
        table, target, compression="zstd", compression_level=19, use_dictionary=repeated, write_statistics=False,
        store_schema=False, write_page_checksum=True,
    )  # fmt: skip


def write_common(out: Path, workflow: Path = WORKFLOW) -> None:
    """Write the pages over all suites: results, claims, the papers' tables and figures, contents and the guide."""
    known = [read_values(path) for path in sorted(out.glob(f"*/{VALUES}"))]
    write_page_of_all(known, out / "index.html")
    write_text(out / "README.md", _contents(out, known))
    write_text(out.parent / GUIDE, guide(out, workflow))
    write_text(out.parent / GUIDE_DATA, guide_data(out))
    for path, (table, text) in pages_of_all(out, workflow).items():
        write_csv(table, path.with_suffix(".csv"))
        write_text(path, text)


def pages_of_all(out: Path, workflow: Path) -> dict[Path, tuple[pd.DataFrame, str]]:
    """Return the papers' claims, and their tables and figures, over all suites whose rows are kept."""
    pages = {out / CLAIMS: claims_of_all(out, workflow)}
    listed = (workflow / INVENTORY).is_file()  # a project of one's own need not list what papers have
    return pages | ({out / ARTEFACTS: coverage(out, workflow)} if listed else {})


def claims_of_all(out: Path, workflow: Path = WORKFLOW) -> tuple[pd.DataFrame, str]:
    """Return the papers' claims over all suites whose rows are kept, as a table and as a page."""
    kept = [path.parent for path in sorted(out.glob(f"*/{ROWS}")) if (path.parent / "claims.csv").is_file()]
    tables = {folder.name: read_claims(folder / "claims.csv").set_index("claim", drop=False) for folder in kept}
    claims = papers_claims(workflow)
    titles = {experiment.paper: experiment.title for experiment, _ in claims.values()}
    table = overview_of_claims(claims, tables)
    return table[list(CLAIM_COLUMNS)], page_of_claims(table, titles, tables, strong_enough(tables.values()))


def _draw(plan: Plan, results: pd.DataFrame, folder: Path) -> dict[str, list[str]]:
    """Draw the first figures that have a value, or need none; return their captions."""
    known, captions = Results.of(results), dict[str, list[str]]()
    for name in drawn(plan):
        artefact, entries = plan.artefacts[name], list(plan.entries_of(name))
        valued = not entries or any(len(known.good(one, artefact.metric)) for one in entries)
        if artefact.kind == "figure" and valued and len(captions) < PICTURES:
            captions[name] = plain(draw_figure(plan, name, results, folder / f"figures/{name}", "png").caption)
    return captions


def _write_pages(
    plan: Plan, results: pd.DataFrame, commits: list[str], folder: Path, captions: dict[str, list[str]]
) -> None:
    table, claims = standings(plan, results), read_claims(folder / "claims.csv")
    shown = {name: figure_html(f"{plan.suite.name}/figures/{name}.png", lines) for name, lines in captions.items()}
    for name in drawn(plan):
        if plan.artefacts[name].kind == "table":
            wide = plan.artefacts[name].view in views_with("wide")
            shown[name] = as_html(displayed(plan, name, results, wide).table)
    files = tuple((f"{plan.suite.name}/{path.name}", path.name) for path in sorted(folder.iterdir()) if path.is_file())
    links = Links(cells=False, held_back=held_back(plan), shown=shown, files=files)
    write_values(page_values(plan, table, claims, links, commits) | _counted(results), folder / VALUES)
    write_text(folder / "README.md", _readme(plan, results, table, claims, captions))


def readme_before_figures(plan: Plan, results: pd.DataFrame, claims: pd.DataFrame) -> str:
    """Return how the suite's README.md begins: its finding, the best proved results and its claims."""
    return _readme(plan, results, standings(plan, results), claims, {})


def _check_size(out: Path, folder: Path) -> None:
    """Raise UserError where the folder would be too large with its new files."""
    before = sum(
        path.stat().st_size
        for path in out.rglob("*")
        if path.is_file() and not {out / folder.name, folder.parent}.intersection(path.parents)
    )
    size = before + sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LIMIT:
        told = f"{size / 1e6:.2f} MB with suite {folder.name}: expected at most {LIMIT / 1e6:.0f} MB"
        raise UserError(f"{out}: {told}")


def _checked_commits(results: pd.DataFrame, suite: str) -> list[str]:
    """Return the commits of all results. Raises UserError for results of no commit or of changed files."""
    ran = results[(results["status"] == "ok") & (results["seed"] >= 0)]
    commits = sorted({str(text) for text in ran["commit"].dropna()})
    unclean = [text or "unknown" for text in commits if text in ("", "unknown") or text.endswith("+")]
    if unclean or not commits:
        found = ", ".join(unclean) or "no result"
        raise UserError(f"suite {suite}: results of {found}: expected commits without changed files")
    return commits


def _counted(results: pd.DataFrame) -> dict[str, float]:
    """Return the number of cells that ran, and the hours of all trainings, each seed once."""
    seeds = results[(results["status"] == "ok") & (results["seed"] >= 0)].drop_duplicates(["cell", "seed"])
    hours = seeds["cpu_seconds"].fillna(seeds["seconds"]).sum() / 3600
    return {"cells": int(seeds["cell"].nunique()), "cpu_hours": round(float(hours), 2)}


def _readme(
    plan: Plan, results: pd.DataFrame, table: pd.DataFrame, claims: pd.DataFrame, captions: dict[str, list[str]]
) -> str:
    tested, best = held(plan, claims), overview(table)
    refuted = tested.loc[tested["verdict"] == CONTRADICTED, ["claim", "statement"]]
    return template("suite.md").render(
        suite=plan.suite, note=" ".join(plan.suite.note.split()), finding=finding(plan, table, claims),
        processors=sorted({str(text) for text in results["processor"].dropna() if text}),
        commits=_checked_commits(results, plan.suite.name), best=best,
        lines=[_best_line(best, *line) for line in best.lines], claims=counts(tested),
        told=(f"{power}." if (power := strong_enough([tested])) else "", elsewhere(plan, claims)),
        refuted=refuted.to_dict("records"), captions=captions, heading=lambda name: heading(plan, name),
    )  # fmt: skip


def _best_line(seen: Overview, about: dict, best: dict[float, dict]) -> list[str]:
    shown = seen.shown(best)
    numbers = [_value(shown.get(at), at) for at in (math.inf, *seen.budgets)]
    others = ["; ".join(f"{significant(at)}: {_value(row)}" for at, row in seen.others(best)) or DASH] * seen.more
    return [_about(about), f"{about['relation']}; {about['scope']}", power_of_ten(about["delta"]), *numbers, *others]


def _about(about: dict) -> str:
    """Return the data, and the metric where it is another one than accuracy."""
    return str(about["data"]) + ("" if about["metric"] == quantity(ACCURACY).label else f", {about['metric']}")


def _value(row: dict | None, column: float | None = None) -> str:
    return DASH if row is None else f"{value_shown(row)} ({markdown(described(row, column))})"


def _contents(out: Path, known: list[dict[str, Any]]) -> str:
    """Return README.md over all suites that are there."""
    names = [one["suite"] for one in known]
    without = [name for name in names if not (out / name / ROWS).is_file()]
    tables = {name: read_claims(path) for name in names if (path := out / name / "claims.csv").is_file()}
    told = {}
    for name, table in tables.items():
        ran = table[(table["verdict"] != NOT_RUN) & (table["n"] > 0)]  # what is computed is the same in every suite
        own = table["sentence"].fillna("") == ""
        told[name] = [counts(ran[one[ran.index]]) or DASH for one in (~own, own)]
    power = strong_enough(table for name, table in tables.items() if name not in without)
    return template("suites.md").render(known=known, without=without, told=told, power=power)


KEPT = (
    "Kept from an earlier run, whose files are not here: its numbers need not be those of the rows, and in it "
    "“ε published” means claimed by the paper, “ε rigorous” proved."
)


def keep_galleries(plan: Plan, results: pd.DataFrame | None, before: Path, folder: Path) -> dict[str, list[str]]:
    """Copy pictures of this run, or of the folder `before`, to `folder`; return their captions by artefact."""
    captions = {}
    for name in galleries(plan):
        place = f"figures/{name}.png"
        sources = {plan.paths.figure(name, "png"): [], before / place: [KEPT]}
        for source in [one for one in sources if one.is_file()][:1]:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / place)
            captions[name] = plain([*sources[source], *_caption_of_gallery(plan, name, results)])
    return captions


def _caption_of_gallery(plan: Plan, name: str, results: pd.DataFrame | None) -> list[str]:
    """Return what a gallery shows, and what protects the records that it is about."""
    if plan.artefacts[name].view != "gallery":
        return [subclasses.ABOUT]
    rows = described_rows(EntryRun(*one) for one in Results.of(results).outcomes(plan, name))
    shown = quantity(plan.artefacts[name].metric)
    better = "higher" if shown.more_is_better else "lower"
    return [
        "First row: a training image of each class. Other rows: what an attack finds in a network that was trained for "
        "this row, that of the first seed; other seeds are not shown.",
        f"Below an image: {shown.label} of its class; {better} is a better attack.",
        *filter(None, [plan.artefacts[name].caption]),
        *words.guarantees(rows.assign(source="ours"), budgets=False),
        *described_labels(abouts(plan, name, rows[rows["status"] == "ok"])),
    ]


def galleries(plan: Plan) -> list[str]:
    """Return the artefacts that show records, each of a data set of which the registry says that it shows no person."""
    return [
        name
        for name, artefact in plan.artefacts.items()
        if inputs_of(artefact.view).pictures
        and all(entry(plan.task(task_id).dataset).shows_no_person for task_id in plan.tasks_of(name))
    ]
