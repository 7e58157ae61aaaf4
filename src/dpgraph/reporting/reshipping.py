"""The pages of a suite in docs/results, written again from what is kept there: no result is needed, no number changes.

Words, links and layout are the code's and the suite's of today; numbers, marks and commits are those of the kept rows.
Figures are drawn again from their kept points (`redrawing`); those that cannot be stay as they are.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd

from dpgraph.errors import UserError
from dpgraph.files import read_json, write_json
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.table import read_claims
from dpgraph.reporting.leaderboard.guide import STANDINGS, SUMMARY
from dpgraph.reporting.leaderboard.standings import COLUMNS
from dpgraph.reporting.redrawing import Redrawn, redraw
from dpgraph.reporting.shipping import COMMON, FOLDER, SHARED, Kept, caption_lines, summary, write_common, write_pages

NUMBERS = ("budget", "epsilon", "delta", "mean", "std", "low", "high")
PICTURE = re.compile(
    r"^!\[(?P<name>[^]]+)\]\((?P<link>[^)]+)\)\n(?P<caption>.*?)^\[numbers\]", re.DOTALL | re.MULTILINE
)


class Reshipped(NamedTuple):
    """Files that were written, but for those that suites share; and why a figure was not drawn again, by figure."""

    files: list[Path]
    left: dict[str, str]


def reship(plan: Plan, out: Path = FOLDER) -> Reshipped:
    """Writes index.html, README.md, summary.json and figures of out/<suite> anew, and what all suites have in common.

    Raises UserError where the suite is not kept or has files no longer that its plan asks for.
    """
    folder = out / plan.suite.name
    if not (folder / SUMMARY).is_file():
        raise UserError(f"{folder}: suite {plan.suite.name} is not kept there; `dpgraph ship` keeps it after a run")
    before, table, claims = read_json(folder / SUMMARY), kept_rows(folder), read_claims(folder / "claims.csv")
    pictures = [match.groupdict() for match in PICTURE.finditer((folder / "README.md").read_text(encoding="utf-8"))]
    kept = Kept(folder, out / SHARED, _moved(folder, before.get("shared", []), pictures))
    missing = [
        place
        for name, artefact in plan.artefacts.items()
        for place in ([f"tables/{name}.md"] if artefact.kind == "table" else [])
        if not kept.has(place)
    ]
    if missing:
        raise UserError(
            f"{folder}: {missing[0]} is not kept, but the suite's plan has it: run and ship the suite again"
        )
    captions = {
        one["name"]: [*one["caption"].strip("\n").split("\n"), ""] for one in pictures if one["caption"].strip()
    }
    with TemporaryDirectory(dir=out, prefix=".unfinished.") as temporary:
        made = redraw(plan, _points(plan, kept), Path(temporary))
        _replace_pictures(plan, kept, made, Path(temporary))
    captions |= {name: caption_lines(caption) for name, caption in made.captions.items()}
    write_pages(plan, table, claims, before["commit"], kept, captions)
    write_json(folder / SUMMARY, before | summary(plan, table, claims, before["commit"]))
    write_common(out)
    drawn = sorted({folder / kept.at(f"figures/{name}.png") for name in made.pictures})
    return Reshipped([*(folder / name for name in ("README.md", "index.html", SUMMARY)), *drawn], made.left)


def _figures(plan: Plan, kept: Kept) -> list[str]:
    """Those whose pictures are kept."""
    names = (name for name, artefact in plan.artefacts.items() if artefact.kind == "figure")
    return [name for name in names if kept.has(f"figures/{name}.png")]


def _points(plan: Plan, kept: Kept) -> dict[str, Path]:
    return {
        name: kept.folder / kept.at(place) for name in _figures(plan, kept) if kept.has(place := f"figures/{name}.csv")
    }


def _replace_pictures(plan: Plan, kept: Kept, made: Redrawn, spare: Path) -> None:
    """By those that were drawn again; two that are the same are one file, as `ship` keeps them."""
    names, sources = _figures(plan, kept), {}
    for number, name in enumerate(names):
        before = shutil.copyfile(kept.folder / kept.at(f"figures/{name}.png"), spare / f"{number}.png")
        sources[f"figures/{name}.png"] = made.pictures.get(name, before)
    for place in sources:
        (kept.folder / kept.at(place)).unlink(missing_ok=True)
    for place, source in sources.items():
        kept.moved.pop(place, None)
        kept.add(source, place)


def kept_rows(folder: Path) -> pd.DataFrame:
    """standings.csv of a kept suite, packed or not, as `standings` made it: a text that is missing is empty."""
    (path,) = folder.glob(f"{STANDINGS}*")
    table = pd.read_csv(path, keep_default_na=False, na_values={name: [""] for name in NUMBERS})
    return table.assign(**{name: "" for name in COLUMNS if name not in table})[list(COLUMNS)]


def _moved(folder: Path, shared: list[str], pictures: list[dict[str, str]]) -> dict[str, str]:
    """Where files are that are not at their own place: packed, shared by suites, or the same picture as another."""
    moved = {
        str(path.relative_to(folder))[: -len(".gz")]: str(path.relative_to(folder)) for path in folder.rglob("*.csv.gz")
    }
    for place in COMMON:
        for name in shared:
            if name.startswith(f"{Path(place).stem}-"):
                moved[place] = f"../{SHARED}/{name}"
    return moved | {f"figures/{one['name']}.png": one["link"] for one in pictures}
