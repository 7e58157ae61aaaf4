"""The pages of a suite in docs/results, written again from what is kept there: no result is needed, no number changes.

Words, links and layout are the code's and the suite's of today; numbers, marks and commits are those of the kept rows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from dpgraph.errors import UserError
from dpgraph.files import read_json, write_json
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.table import read_claims
from dpgraph.reporting.leaderboard.guide import STANDINGS, SUMMARY
from dpgraph.reporting.leaderboard.standings import COLUMNS
from dpgraph.reporting.shipping import COMMON, FOLDER, SHARED, Kept, summary, write_common, write_pages

NUMBERS = ("budget", "epsilon", "delta", "mean", "std", "low", "high")
PICTURE = re.compile(
    r"^!\[(?P<name>[^]]+)\]\((?P<link>[^)]+)\)\n(?P<caption>.*?)^\[numbers\]", re.DOTALL | re.MULTILINE
)


def reship(plan: Plan, out: Path = FOLDER) -> list[Path]:
    """Writes index.html, README.md and summary.json of out/<suite> anew, and what all suites have in common.

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
    write_pages(plan, table, claims, before["commit"], kept, captions)
    write_json(folder / SUMMARY, before | summary(plan, table, claims, before["commit"]))
    write_common(out)
    return [folder / name for name in ("README.md", "index.html", SUMMARY)]


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
