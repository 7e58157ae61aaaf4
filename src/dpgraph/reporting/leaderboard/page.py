"""results/<suite>/index.html: one file with its script and chart library in it, links to everything else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dpgraph.experiments.paths import Paths
from dpgraph.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting import formats
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.claims.held import elsewhere, held
from dpgraph.reporting.claims.verdicts import VERDICTS
from dpgraph.reporting.leaderboard.chart import chart
from dpgraph.reporting.leaderboard.finding import Overview, finding, headline, overview
from dpgraph.reporting.leaderboard.guide import FALLS_BACK
from dpgraph.reporting.leaderboard.standings import standings
from dpgraph.reporting.protection import BETWEEN
from dpgraph.reporting.ranking import CLAIMED, OUTSIDE, PUBLIC
from dpgraph.reporting.views.registry import views_with

PACKAGE = "dpgraph.reporting.leaderboard"
OTHERS = 2  # budgets without a column that a line of the overview shows; the leaderboard has all
NUMBERS = ("budget", "epsilon", "delta", "mean", "std", "low", "high")


@dataclass(frozen=True)
class Links:
    """Where the page's links go, relative to it; an empty folder of cells: their records are not next to it."""

    tables: str = "html"  # suffix of the tables that are linked
    figures: str = "html"
    cells: bool = True
    typeset: bool = True  # LaTeX and PDF are there, too
    held_back: tuple[str, ...] = ()  # views whose figures are not there
    shared: str = ""  # folder of `shared_files`, which several pages read; empty: they are in the page
    moved: Mapping[str, str] = field(default_factory=dict)  # where files are that are not at their own place
    shown: Mapping[str, str] = field(default_factory=dict)  # tables that are in the page: HTML by artefact
    files: tuple[tuple[str, str], ...] = (
        ("claims.html", "claims"),
        ("claims.csv", "claims.csv"),
        ("runtimes.html", "runtimes"),
        ("audits.html", "audits"),
        ("report.html", "report with logs and provenance of every file"),
        ("results.parquet", "results.parquet"),
        ("results.columns.csv", "its columns"),
    )

    def at(self, place: str) -> str:
        return self.moved.get(place, place)


def write_index(
    plan: Plan, results: pd.DataFrame, claims: pd.DataFrame, path: Path, links: Links | None = None
) -> None:
    """`claims` is claims.csv as it was written. The page reads nothing from outside itself but what its links name."""
    links = Links() if links is None else links
    write_text(path, page(plan, standings(plan, results), claims, links, commits_of(results)))


def commits_of(results: pd.DataFrame) -> list[str]:
    """Commits of all cells that ran, of those that no ranking shows, too."""
    return sorted({str(text) for text in results["commit"].dropna() if text})


def page(plan: Plan, table: pd.DataFrame, claims: pd.DataFrame, links: Links, commits: Sequence[str] = ()) -> str:
    """commits: of all cells, of those that no row shows, too."""
    loader = PackageLoader(PACKAGE, "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"significant": formats.significant, "power": formats.power_of_ten}
    rows = [_plain(row) for row in table.to_dict("records")]
    own = table[table["kind"] == OUTSIDE]
    return environment.get_template("index.html.j2").render(
        suite=plan.suite,
        finding=finding(plan, table, claims),
        overview=overview(table),
        measure=_measure(plan, table),
        picture=_picture(plan, links),
        OTHERS=OTHERS,
        rows=rows,
        claims=_claims(plan, held(plan, claims)),
        counts=_counts(held(plan, claims)),
        elsewhere=elsewhere(plan, claims),
        artefacts=_artefacts(plan, links),
        files=_files(plan, links),
        cells=links.cells,
        relations={name: Relation(name).meaning for name in _names(table, "relation", set(Relation))},
        scopes={name: Scope(name).meaning for name in _names(table, "scope", set(Scope))},
        protects=_protects(overview(table)),
        meant=lambda about: "; ".join(text for _, text in _terms(about)),
        uncovered=_labels(table, "uncovered"),
        fallbacks=_labels(table, "fallback"),
        FALLS_BACK=FALLS_BACK,
        checks=dict(zip(own["label"], own["checks"])),
        commits=commits,
        command=f"dpgraph run --suite {plan.suite.name}",
        inf=math.inf,
        CLAIMED=CLAIMED,
        OUTSIDE=OUTSIDE,
        PUBLIC=PUBLIC,
        data=_script({"rows": _columns(rows), "chart": chart(), "headline": headline(plan, table)}),
        shared=links.shared,
        names={"style": STYLE, "library": LIBRARY, "script": SCRIPT},
        texts={} if links.shared else shared_files(),
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """For JSON: no nan and no infinity, and as many digits as CSV files have."""
    kept = dict(row)
    for name in NUMBERS:
        value = float(row[name])
        kept[name] = float(f"{value:.8g}") if math.isfinite(value) else None
    half = (row["high"] - row["low"]) / 2
    mark = f" {FALLS_BACK}" if row["fallback"] else ""
    kept["shown"] = f"{row['mean']:.1f}" + ("" if math.isnan(half) else f" ± {half:.1f}") + mark
    kept["eps"] = formats.epsilon(row["epsilon"])
    kept["promise"] = "; ".join(part for part in (row["relation"], row["scope"]) if part)
    return kept


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """The rows by column, each text once: {texts, at} where texts repeat, else {values}. script.js makes rows of it.

    >>> _columns([{"n": 1, "data": "A"}, {"n": 2, "data": "A"}])
    {'n': {'values': [1, 2]}, 'data': {'texts': ['A'], 'at': [0, 0]}}
    """
    found: dict[str, dict[str, list[Any]]] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        texts = list(dict.fromkeys(values))
        if all(isinstance(text, str) for text in texts) and len(texts) < len(values):
            places = {text: place for place, text in enumerate(texts)}
            found[name] = {"texts": texts, "at": [places[value] for value in values]}
        else:
            found[name] = {"values": values}
    return found


def _script(value: Any) -> str:
    """JSON that can stand in a script element: no text of it closes the element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _names(table: pd.DataFrame, column: str, known: set) -> list[str]:
    found = dict.fromkeys(name for text in table[column] for name in str(text).split(" / "))
    return [name for name in found if name in known and name != "none"]


def _terms(about: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, what it means in a few words) of a line's relations and scopes."""
    found: list[tuple[str, str]] = []
    for kind, column in ((Relation, "relation"), (Scope, "scope")):
        names = [name for name in str(about[column]).split(" / ") if name in set(kind)]
        found += [(name, kind(name).short) for name in names]
    return found


def _protects(lines: Overview) -> dict[str, str]:
    return dict(sorted({term for about, _ in lines.lines for term in _terms(about)}))


def _labels(table: pd.DataFrame, column: str) -> dict[str, list[str]]:
    """Labels by text of a column; several texts of one row are joined by `BETWEEN`."""
    found: dict[str, dict[str, None]] = {}
    for row in table.to_dict("records"):
        for text in filter(None, str(row[column]).split(BETWEEN)):
            found.setdefault(text, {})[row["label"]] = None
    return {text: list(labels) for text, labels in found.items()}


def _claims(plan: Plan, claims: pd.DataFrame) -> list[tuple[str, list[dict[str, Any]]]]:
    """(paper's title, its claims); missing texts are empty."""
    texts = claims.fillna({name: "" for name in claims.columns if claims[name].dtype.kind not in "iuf"})
    return [
        (plan.experiments[str(paper)].title, [{**row, "kind": row["verdict"].replace(" ", "-")} for row in records])
        for paper, part in texts.groupby("paper", sort=False)
        for records in [part.to_dict("records")]
    ]


def _counts(claims: pd.DataFrame) -> list[tuple[str, int]]:
    found = claims["verdict"].value_counts()
    return [(name, int(found[name])) for name in VERDICTS if name in found]


def _artefacts(plan: Plan, links: Links) -> list[tuple[str, list[tuple[str, list[tuple[str, str]], str]]]]:
    """(paper's title, (heading, its files as (link, text), HTML of its table if the page has it))."""
    able = views_with("wide")
    found: dict[str, list[tuple[str, list[tuple[str, str]], str]]] = {}
    for name, artefact in plan.artefacts.items():
        if artefact.kind == "table":
            shown = [(f"tables/{name}.{links.tables}", "table")]
            shown += [(f"tables/{name}.wide.{links.tables}", "as in the paper")] * (artefact.view in able)
            shown += [(links.at(f"tables/{name}.csv"), "CSV"), *[(f"tables/{name}.tex", "LaTeX")] * links.typeset]
        elif artefact.view in links.held_back:
            continue
        else:
            shown = [
                (links.at(f"figures/{name}.{links.figures}"), "figure"),
                *[(f"figures/{name}.pdf", "PDF")] * links.typeset,
            ]
            shown += [(links.at(f"figures/{name}.csv"), "CSV")]
        found.setdefault(plan.experiments[name.split("/")[0]].title, []).append(
            (heading(plan, name), shown, links.shown.get(name, ""))
        )
    return list(found.items())


def _measure(plan: Plan, table: pd.DataFrame) -> str:
    """What the chart shows when the page opens, as its heading; script.js changes it with the data."""
    first = table[table["data"] == headline(plan, table)]
    metric = str(first["metric"].iloc[0]).removesuffix(" (%)") if len(first) else ""
    return metric[:1].upper() + metric[1:]


def _picture(plan: Plan, links: Links) -> dict[str, str] | None:
    """The suite's first figure, for a page that has no chart."""
    for name, artefact in plan.artefacts.items():
        if artefact.kind == "figure" and artefact.view not in links.held_back:
            return {"title": artefact.title, "link": links.at(f"figures/{name}.png")}
    return None


def _files(plan: Plan, links: Links) -> list[tuple[str, str]]:
    """Of the suite as a whole; baselines.csv where the suite is compared with the literature."""
    baselines = (
        [("baselines.csv", "baselines against the literature")] if Paths(plan.config).baselines.is_file() else []
    )
    return list(dict.fromkeys([*links.files, *baselines]))


def _own(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


STYLE, LIBRARY, SCRIPT = "page.css", "charts.js", "page.js"


def shared_files() -> dict[str, str]:
    """Style, the chart's library and script of a page, by the names that pages link to."""
    return {STYLE: _own("style.css"), LIBRARY: chart_library(), SCRIPT: _own("script.js")}


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets window.vegaEmbed; about 900 kB."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # which its stub takes for required
    return bundle.replace("</script", "<\\/script")
