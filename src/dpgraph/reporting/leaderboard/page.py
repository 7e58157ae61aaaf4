"""Pages of results: of a run, results/<suite>/index.html, and of all suites that are kept, docs/results/index.html.

The first is one file with its script and chart library in it and links to everything else; the second loads a file of
each suite that a reader chooses.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dpgraph.config.paths import Paths
from dpgraph.core.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting import formats
from dpgraph.reporting.artefacts import abouts_of_papers, described_labels, heading
from dpgraph.reporting.claims.page import by_verdict, elsewhere, held
from dpgraph.reporting.leaderboard.finding import described, finding, headline, overview
from dpgraph.reporting.leaderboard.standings import BELOW, FALLS_BACK, columns_of, plain, script, standings, value_shown
from dpgraph.reporting.protection import by_text
from dpgraph.reporting.ranking import CLAIMED, OUTSIDE
from dpgraph.reporting.views.registry import views_with

PACKAGE = "dpgraph.reporting.leaderboard"
OTHERS = 2  # budgets without a column that a line of the overview shows; the leaderboard has all


@dataclass(frozen=True)
class Links:
    """Targets of the page's links, relative to it; no cells: their records are not next to it."""

    cells: bool = True
    held_back: tuple[str, ...] = ()  # views whose figures are not there
    shown: Mapping[str, str] | None = None  # HTML of tables and figures that are in the page, where none is linked
    files: tuple[tuple[str, str], ...] = (
        ("claims.html", "claims"), ("claims.csv", "claims.csv"), ("runtimes.html", "runtimes"),
        ("audits.html", "audits"), ("report.html", "report with logs and provenance of every file"),
        ("results.parquet", "results.parquet"), ("results.columns.csv", "its columns"),
    )  # fmt: skip


def write_index(
    plan: Plan, results: pd.DataFrame, claims: pd.DataFrame, path: Path, links: Links | None = None
) -> None:
    """Write the first page of a run. `claims` is claims.csv. Without its links it is complete."""
    links = Links() if links is None else links
    commits = sorted({str(text) for text in results["commit"].dropna() if text})  # of cells in no ranking, too
    write_text(path, page(plan, standings(plan, results), claims, links, commits))


def page(plan: Plan, table: pd.DataFrame, claims: pd.DataFrame, links: Links, commits: Sequence[str] = ()) -> str:
    values = page_values(plan, table, claims, links, commits)
    body = values.pop("html")
    return template("index.html").render(
        title=plan.suite.title, suites=(), body=body, data=script(values), names=NAMES, texts=shared_files()
    )


def write_page_of_all(suites: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the page over all suites; it loads `<suite>/values.js` of the one that is chosen."""
    for name, text in shared_files().items():
        write_text(path.with_name(name), text)
    write_text(path, template("index.html").render(title="Results", suites=suites, names=NAMES))


def page_values(
    plan: Plan, table: pd.DataFrame, claims: pd.DataFrame, links: Links, commits: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what a page shows of a suite: `html`, and the values of its chart and leaderboard.

    commits: of all cells, of those that no row shows, too.
    """
    rows = [plain(row) for row in table.to_dict("records")]
    own = table[table["kind"] == OUTSIDE]
    told, best = held(plan, claims), overview(table)
    html = template("suite.html").render(
        suite=plan.suite, finding=finding(plan, table, claims), overview=best, measure=_measure(plan, table),
        picture=_picture(plan, links), rows=rows, claims=_claims(plan, told), counts=by_verdict(told).items(),
        elsewhere=elsewhere(plan, claims), artefacts=_artefacts(plan, links), files=_files(plan, links),
        relations={name: Relation(name).meaning for name in _names(table, "relation", set(Relation))},
        scopes={name: Scope(name).meaning for name in _names(table, "scope", set(Scope))},
        protects=dict(sorted({term for about, _ in best.lines for term in _terms(about)})),
        meant=lambda about: "; ".join(text for _, text in _terms(about)),
        abouts=described_labels(abouts_of_papers(plan.experiments, table)),
        **{column: by_text(table, column) for column in ("uncovered", "fallback", "below")},
        checks=dict(zip(own["label"], own["checks"])), commits=commits,
        command=f"dpgraph run --suite {plan.suite.name}",
    )  # fmt: skip
    return {
        "suite": plan.suite.name, "title": plan.suite.title, "demonstration": plan.suite.demonstration,
        "finding": finding(plan, table, claims), "caution": plan.suite.caution,
        "commits": list(commits), "verdicts": by_verdict(told),
        "rows": columns_of(rows), "chart": json.loads(_own("chart.json")), "headline": headline(plan, table),
        "records": links.cells, "html": html,
    }  # fmt: skip


def template(name: str) -> Template:
    """Return a template of this folder; what it is given is escaped in HTML alone."""
    environment = Environment(
        loader=PackageLoader(PACKAGE, ""), autoescape=name.endswith(".html"), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=not name.endswith(".html"),
    )  # fmt: skip
    environment.filters |= {
        "significant": formats.significant, "power": formats.power_of_ten, "markdown": formats.markdown,
    }  # fmt: skip
    environment.globals |= {
        "FALLS_BACK": FALLS_BACK, "BELOW": BELOW, "CLAIMED": CLAIMED, "OUTSIDE": OUTSIDE, "OTHERS": OTHERS,
        "inf": math.inf, "described": described, "value_shown": value_shown,
    }  # fmt: skip
    return environment.get_template(f"{name}.j2")


def _names(table: pd.DataFrame, column: str, known: set) -> list[str]:
    found = dict.fromkeys(name for text in table[column] for name in str(text).split(" / "))
    return [name for name in found if name in known and name != "none"]


def _terms(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, meaning in a few words) of a line's relations and scopes."""
    found: list[tuple[str, str]] = []
    for kind, column in ((Relation, "relation"), (Scope, "scope")):
        names = [name for name in str(about[column]).split(" / ") if name in set(kind)]
        found += [(name, kind(name).short) for name in names]
    return found


def _claims(plan: Plan, claims: pd.DataFrame) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return (paper's title, its claims)."""
    return [
        (plan.experiments[str(paper)].title, [{**row, "kind": row["verdict"].replace(" ", "-")} for row in records])
        for paper, part in claims.groupby("paper", sort=False)
        for records in [part.to_dict("records")]
    ]


def _artefacts(plan: Plan, links: Links) -> list[tuple[str, list[tuple[str, list[tuple[str, str]], str]]]]:
    """Return (paper's title, (heading, its files as (link, text), its HTML in the page))."""
    able = views_with("wide")
    found: dict[str, list[tuple[str, list[tuple[str, str]], str]]] = {}
    for name, artefact in plan.artefacts.items():
        if artefact.view in links.held_back:
            continue
        files: list[tuple[str, str]] = []
        if links.shown is None and artefact.kind == "table":
            files = [(f"tables/{name}.html", "table")]
            files += [(f"tables/{name}.wide.html", "as in the paper")] * (artefact.view in able)
            files += [(f"tables/{name}.csv", "CSV"), (f"tables/{name}.tex", "LaTeX")]
        elif links.shown is None:
            files = [(f"figures/{name}.html", "figure"), (f"figures/{name}.pdf", "PDF"), (f"figures/{name}.csv", "CSV")]
        found.setdefault(plan.experiments[name.split("/")[0]].title, []).append(
            (heading(plan, name), files, (links.shown or {}).get(name, ""))
        )
    return list(found.items())


def _measure(plan: Plan, table: pd.DataFrame) -> str:
    """Return the heading of the chart when the page opens; script.js changes it with the data."""
    first = table[table["data"] == headline(plan, table)]
    metric = str(first["metric"].iloc[0]).removesuffix(" (%)") if len(first) else ""
    return metric[:1].upper() + metric[1:]


def _picture(plan: Plan, links: Links) -> dict[str, str] | None:
    """Return the suite's first figure, for a page that has no chart."""
    prefix = "" if links.shown is None else f"{plan.suite.name}/"
    for name, artefact in plan.artefacts.items():
        if artefact.kind == "figure" and artefact.view not in links.held_back:
            return {"title": artefact.title, "link": f"{prefix}figures/{name}.png"}
    return None


def _files(plan: Plan, links: Links) -> list[tuple[str, str]]:
    """Return the files of the suite as a whole; baselines.csv where it is compared with the literature."""
    baselines = [("baselines.csv", "baselines against the literature")] * Paths(plan.config).baselines.is_file()
    return [*links.files, *(baselines if links.shown is None else ())]


def _own(name: str) -> str:
    """Return a file of this folder. chart.json is a Vega-Lite specification, into which the page puts rows and ticks.

    Its lines join rows of one method and one promise only: unlike ones are no common scale.
    """
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


STYLE, LIBRARY, SCRIPT = "page.css", "charts.js", "page.js"
NAMES = {"style": STYLE, "library": LIBRARY, "script": SCRIPT}


def shared_files() -> dict[str, str]:
    """Return style, chart library and script of a page, by the names that pages link to."""
    return {STYLE: _own("style.css"), LIBRARY: chart_library(), SCRIPT: _own("script.js")}


@cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets window.vegaEmbed; about 900 kB."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # which its stub takes for required
    return bundle.replace("</script", "<\\/script")
