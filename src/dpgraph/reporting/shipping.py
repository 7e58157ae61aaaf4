"""docs/results: a suite's results as they are kept in the repository, readable there without running anything.

Each suite has a folder with README.md (best proved results, verdicts, tables, figures), the first page (index.html),
its rows (standings.csv), tables as Markdown and CSV, figures as PNG of at most 256 colours, claims.csv and
baselines.csv, and results.parquet where it is small. What several suites have in common is there once, and pages link
to it: style and scripts of the pages, and below shared/, by their content, the figure of the audits and what the
columns of results.parquet are. A figure that is the same as another one of its suite is not kept twice. which-method.md
is beside the folder. Records, predictions and graphs stay in results/: no row of a data set is kept.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow.parquet as pq
from PIL import Image

from dpgraph.errors import UserError
from dpgraph.experiments.paths import Paths
from dpgraph.files import read_json, write_json, write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.claims.held import elsewhere, held
from dpgraph.reporting.claims.page import strong_enough, strong_enough_in_any
from dpgraph.reporting.claims.table import read_claims
from dpgraph.reporting.claims.verdicts import VERDICTS
from dpgraph.reporting.commits import latest_of
from dpgraph.reporting.figures import read_caption
from dpgraph.reporting.formats import DASH, markdown, power_of_ten, significant
from dpgraph.reporting.leaderboard.finding import finding, overview
from dpgraph.reporting.leaderboard.guide import STANDINGS, SUMMARY, guide
from dpgraph.reporting.leaderboard.page import Links, page, shared_files
from dpgraph.reporting.leaderboard.shown_tables import shown_tables
from dpgraph.reporting.leaderboard.standings import standings
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import read_results, write_csv

FOLDER = Path("docs/results")
GUIDE = "which-method.md"
WITHDRAWN = "WITHDRAWN.md"  # written by hand: why a suite's verdicts are not to be read until it is run again
LIMIT = 10_000_000  # bytes of all that is in the folder
SHARED = "shared"
COMMON = ("figures/audits.png", "results.columns.csv")  # which suites of one commit have in common
ACCURACY = "accuracy/test"  # a metric that is named only where it is another one
SMALL = 300_000  # bytes up to which results.parquet is kept, too
LONG = 4_000  # bytes above which a CSV file is kept packed, .csv.gz
UNPACKED = ("claims.csv", "baselines.csv", "results.columns.csv")  # which are read as they are
COLOURS = 256  # of a picture; with fewer, colour bars show bands
HELD_BACK = ("gallery", "subclasses")  # views that show records themselves, such as faces


def ship(plan: Plan, out: Path = FOLDER) -> list[Path]:
    """Writes out/<suite> anew, out/README.md and the page beside `out` over all suites; returns the suite's files.

    Raises UserError where a result is missing, where rows are of several commits or of changed files, or where the
    folder would exceed `LIMIT`; what was there before is kept then.
    """
    paths, name = Paths(plan.config), plan.suite.name
    results, claims = read_results(paths.results), read_claims(paths.claims)
    commit = _one_commit(results, name)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix=".unfinished.") as temporary:
        kept = Kept(Path(temporary) / name, Path(temporary) / SHARED)
        for source, place in _copied(plan):
            kept.add(source, place)
        table = standings(plan, results)
        write_csv(table, Path(temporary) / STANDINGS)
        kept.add(Path(temporary) / STANDINGS, STANDINGS)
        captions = {name: caption_lines(read_caption(paths.figure(name, "txt"))) for name in plan.artefacts}
        write_pages(plan, table, claims, commit, kept, captions)
        counted = {"cells": _cells(results), "cpu_hours": _cpu_hours(results), "shared": kept.common()}
        write_json(kept.folder / SUMMARY, summary(plan, table, claims, commit) | counted)
        _check_size(out, kept)
        shutil.rmtree(out / name, ignore_errors=True)
        kept.folder.rename(out / name)
        (out / SHARED).mkdir(exist_ok=True)
        for path in kept.shared.iterdir():
            path.replace(out / SHARED / path.name)
    _forget(out)
    write_common(out)
    return sorted(path for path in (out / name).rglob("*") if path.is_file())


def write_pages(
    plan: Plan, table: pd.DataFrame, claims: pd.DataFrame, commit: str, kept: Kept, captions: Mapping[str, list[str]]
) -> None:  # fmt: skip
    """index.html and README.md of a suite. captions: by figure, lines that stand below it."""
    links = Links(
        "md", "png", cells=False, typeset=False, held_back=HELD_BACK, shared="..", moved=kept.moved,
        files=tuple(_top(kept)), shown=shown_tables(_tables(plan, kept)),
    )  # fmt: skip
    write_text(kept.folder / "index.html", page(plan, table, claims, links, [commit]))
    write_text(kept.folder / "README.md", _readme(plan, table, claims, commit, kept, captions))


def _tables(plan: Plan, kept: Kept) -> dict[str, Path]:
    names = (name for name, artefact in plan.artefacts.items() if artefact.kind == "table")
    return {name: kept.folder / kept.at(f"tables/{name}.md") for name in names}


def write_common(out: Path) -> None:
    """What is there once: style and scripts of the pages, the page over all suites, and the guide."""
    for shared, text in shared_files().items():
        write_text(out / shared, text)
    write_text(out / "README.md", _contents(out))
    write_text(out.parent / GUIDE, guide(out))


@dataclass
class Kept:
    """What is kept of a suite, while it is written: its folder, what it shares with others, and where files are."""

    folder: Path
    shared: Path
    moved: dict[str, str] = field(default_factory=dict)  # links to files that are not at their own place
    _pictures: dict[str, str] = field(default_factory=dict)  # by content

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.shared.mkdir(exist_ok=True)

    def add(self, source: Path, place: str) -> None:
        """Below `place`; packed where it is long, shared where other suites have it; not twice if it is a picture."""
        packed = source.suffix == ".csv" and place not in UNPACKED and source.stat().st_size > LONG
        link = f"{place}.gz" if packed else place
        target = self.folder / link
        _copy(source, target)
        content = hashlib.sha256(target.read_bytes()).hexdigest()[:12]
        if place in COMMON:
            name = f"{Path(place).stem}-{content}{source.suffix}"
            target.replace(self.shared / name)
            link = f"../{SHARED}/{name}"
        elif source.suffix == ".png" and self._pictures.setdefault(content, place) != place:
            target.unlink()
            link = self._pictures[content]
        if link != place:
            self.moved[place] = link

    def at(self, place: str) -> str:
        """The link to a file."""
        return self.moved.get(place, place)

    def has(self, place: str) -> bool:
        return place in self.moved or (self.folder / place).is_file()

    def common(self) -> list[str]:
        """Names of what is shared."""
        return sorted(path.name for path in self.shared.iterdir())


def _check_size(out: Path, kept: Kept) -> None:
    """Of the folder as it would be, pages' scripts and all other suites with it."""
    ours = {out / kept.folder.name, kept.folder.parent}
    others = sum(
        path.stat().st_size
        for path in out.rglob("*")
        if path.is_file() and not ours.intersection(path.parents)
        and path.name not in shared_files() and not (kept.shared / path.name).is_file()
    )  # fmt: skip
    size = (
        others + _size(kept.folder) + _size(kept.shared) + sum(len(text.encode()) for text in shared_files().values())
    )
    if size > LIMIT:
        told = f"{size / 1e6:.2f} MB with suite {kept.folder.name}: expected at most {LIMIT / 1e6:.0f} MB"
        raise UserError(f"{out}: {told}")


def _forget(out: Path) -> None:
    """Shared files that no suite has any longer."""
    used = {name for path in out.glob(f"*/{SUMMARY}") for name in read_json(path).get("shared", [])}
    for path in (out / SHARED).iterdir():
        if path.name not in used:
            path.unlink()


def _one_commit(results: pd.DataFrame, suite: str) -> str:
    """The commit of all results; or the latest, where they are of commits that differ in the suite's own list alone."""
    commits = sorted({str(text) for text in results.loc[results["status"] == "ok", "commit"].dropna()})
    clean = [text for text in commits if text not in ("", "unknown") and not text.endswith("+")]
    if clean and clean == commits and (latest := latest_of(clean, f"workflow/suites/{suite}.yaml")):
        return latest
    found = ", ".join(text or "unknown" for text in commits) or "no result"
    raise UserError(f"suite {suite}: results of {found}: expected one commit, without changed files, for all of them")


def _copied(plan: Plan) -> Iterator[tuple[Path, str]]:
    """(file of results/<suite>, its place in the folder)."""
    paths = Paths(plan.config)
    for artefact, described in plan.artefacts.items():
        if described.view in HELD_BACK:
            continue
        suffixes = ("png", "csv") if described.kind == "figure" else ("md", "csv", "wide.md")
        for suffix in suffixes:
            place = paths.figure if described.kind == "figure" else paths.table
            source = place(artefact, suffix)
            if source.is_file():
                yield source, str(source.relative_to(paths.suite))
            elif suffix != "wide.md":
                raise UserError(f"{source}: no such file; it is made by `dpgraph run --suite {plan.suite.name}`")
    for source in (paths.claims, paths.baselines, paths.figure("audits", "png")):
        if source.is_file():
            yield source, str(source.relative_to(paths.suite))
    for source in (paths.results.with_suffix(".columns.csv"), paths.results):
        if source.is_file() and source.stat().st_size <= SMALL:
            yield source, source.name


def _copy(source: Path, target: Path) -> None:
    """A picture loses what no reader sees: colours beyond `COLOURS`, which make most of its size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".png":
        with Image.open(source) as image:
            if image.mode == "P":  # it has lost them before
                shutil.copyfile(source, target)
                return
            image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    elif source.suffix == ".parquet":
        # most of 200 columns hold one value: without statistics and a second schema the file is half as large
        table = pq.read_table(source).replace_schema_metadata(None)
        # nearly no two values are equal: their bytes, place by place, pack better than a dictionary of them
        values = [name for name in table.column_names if name == "value"]
        coded = [name for name in table.column_names if name not in values]
        pq.write_table(
            table, target, compression="zstd", compression_level=19, write_statistics=False, store_schema=False,
            use_dictionary=coded, use_byte_stream_split=values,
        )  # fmt: skip
    elif target.suffix == ".gz":
        target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
    else:
        shutil.copyfile(source, target)


def _top(kept: Kept) -> Iterator[tuple[str, str]]:
    names = {"README.md": "summary", "claims.csv": "claims.csv", "baselines.csv": "baselines against the literature"}
    names |= {STANDINGS: "leaderboard as CSV", "results.parquet": "all results"}
    names |= {"results.columns.csv": "their columns", "figures/audits.png": "audits"}
    return ((kept.at(name), text) for name, text in names.items() if name == "README.md" or kept.has(name))


def summary(plan: Plan, table: pd.DataFrame, claims: pd.DataFrame, commit: str) -> dict[str, object]:
    """What the contents page says of a suite, but for what is counted over its results."""
    counts = held(plan, claims)["verdict"].value_counts()
    return {
        "suite": plan.suite.name,
        "title": plan.suite.title,
        "demonstration": plan.suite.demonstration,
        "commit": commit,
        "finding": finding(plan, table, claims),
        "verdicts": {name: int(counts[name]) for name in VERDICTS if name in counts},
    }


def _cells(results: pd.DataFrame) -> int:
    return int(results.loc[results["status"] == "ok", "cell"].nunique())


def _cpu_hours(results: pd.DataFrame) -> float:
    """Of all trainings of nodes that ran, each seed once."""
    seeds = results[results["status"] == "ok"].drop_duplicates(["cell", "seed"])
    return round(float(seeds["cpu_seconds"].fillna(seeds["seconds"]).sum()) / 3600, 2)


def _readme(
    plan: Plan, table: pd.DataFrame, claims: pd.DataFrame, commit: str, kept: Kept, captions: Mapping[str, list[str]]
) -> str:  # fmt: skip
    suite = plan.suite
    lines = [f"# {suite.title} (suite `{suite.name}`)", "", finding(plan, table, claims), ""]
    lines += [f"**{suite.caution}**", ""] if suite.caution else []
    lines += [" ".join(suite.note.split()), ""]
    if suite.headline is not None:
        lines += [f"The first sentence is about one data set: {suite.headline.why}", ""]
    made = f"`dpgraph run --suite {suite.name}`"
    lines += [
        f"Commit {commit}; {made} makes it again, with logs and the provenance of every file in "
        f"`results/{suite.name}/report.html`. [First page](index.html), "
        f"[leaderboard as CSV]({kept.at(STANDINGS)}).",
        "",
    ]
    lines += [*_best(table), *_claims(held(plan, claims), elsewhere(plan, claims)), "## Tables and figures", ""]
    for name, described in plan.artefacts.items():
        picture, wide, table_at = f"figures/{name}.png", f"tables/{name}.wide.md", f"tables/{name}"
        if described.kind == "figure" and kept.has(picture):
            lines += [f"### {heading(plan, name)}", "", f"![{name}]({kept.at(picture)})", ""]
            lines += [*captions.get(name, []), f"[numbers]({kept.at(f'figures/{name}.csv')})", ""]
        elif described.kind == "table":
            as_paper = f", [as in the paper]({kept.at(wide)})" * kept.has(wide)
            numbers = kept.at(f"{table_at}.csv")
            lines += [f"- {heading(plan, name)}: [table]({kept.at(f'{table_at}.md')}){as_paper}, [CSV]({numbers})", ""]
    return "\n".join(lines)


def caption_lines(caption: list[str]) -> list[str]:
    """Paragraphs of a caption as a list."""
    return [*(f"- {markdown(line)}" for line in caption), ""] if caption else []


def _claims(claims: pd.DataFrame, more: str) -> list[str]:
    """more: a sentence on claims that are left out."""
    if claims.empty:
        return []
    lines = [
        "## Claims",
        "",
        *([f"{power}.", ""] if (power := strong_enough(claims)) else []),
        "| claim | verdict | statement | why | seeds | size | power |",
        "|---|---|---|---|--:|--:|--:|",
    ]
    for row in claims.to_dict("records"):
        why = row["reason"] if isinstance(row["reason"], str) and row["reason"] else row["evidence"]
        texts = [markdown(str(text)) for text in (row["claim"], row["verdict"], row["statement"], _short(why))]
        numbers = [
            str(row["n"] or DASH),
            *("" if math.isnan(row[at]) else f"{row[at]:.2f}" for at in ("size", "power")),
        ]
        lines.append("| " + " | ".join([*texts, *numbers]) + " |")
    return [*lines, "", *([more, ""] if more else [])]


def _best(table: pd.DataFrame) -> list[str]:
    seen = overview(table)
    if not seen.lines:
        return []
    heads = [
        "data",
        "ε protects: relation; scope",
        "δ",
        "no privacy",
        *(f"ε ≤ {significant(at)}" for at in seen.budgets),
    ]
    heads += ["other ε"] * seen.more
    lines = ["## Best proved results", "", "Mean of test values in %. A line is a ranking of its own.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|---|---|---|" + "--:|" * (1 + len(seen.budgets)) + "---|" * seen.more]
    for about, best in seen.lines:
        shown = seen.shown(best)
        numbers = [_value(shown.get(at), at) for at in (math.inf, *seen.budgets)]
        others = ["; ".join(f"{significant(at)}: {_value(row)}" for at, row in seen.others(best)) or DASH] * seen.more
        promise = f"{about['relation']}; {about['scope']}"
        lines.append(
            "| " + " | ".join([_about(about), promise, power_of_ten(about["delta"]), *numbers, *others]) + " |"
        )
    return [*lines, "", *([seen.caution, ""] if seen.caution else [])]


def _about(about: dict) -> str:
    named = about["metric"] == quantity(ACCURACY).label
    return str(about["data"]) if named else f"{about['data']}, {about['metric']}"


def _value(row: dict | None, column: float | None = None) -> str:
    """column: the budget that heads the column, which is said beside the value if the row has a smaller one."""
    if row is None:
        return DASH
    smaller = f", ε ≤ {significant(row['budget'])}" if column is not None and row["budget"] != column else ""
    return f"{row['mean']:.1f} ({markdown(str(row['label']))}{smaller})"


def _short(text: object, limit: int = 220) -> str:
    words = str(text) if isinstance(text, str) else ""
    return words if len(words) <= limit else words[:limit].rsplit(" ", 1)[0] + " …"


def _contents(out: Path) -> str:
    """README.md over all suites that are there."""
    known = [read_json(path) for path in sorted(out.glob(f"*/{SUMMARY}"))]
    about = f"[Which method when](../{GUIDE}), over all suites. Each was run as a whole at one commit. "
    about += "`dpgraph ship --suite NAME` writes its folder."
    heads = "| suite | finding | claims | commit | trained cells | CPU hours of training |"
    lines = ["# Results", "", about, "", heads, "|---|---|---|---|--:|--:|"]
    for one in known:
        verdicts = ", ".join(f"{count} {name}" for name, count in one["verdicts"].items())
        if (out / one["suite"] / WITHDRAWN).is_file():
            verdicts = f"withdrawn ([why]({one['suite']}/{WITHDRAWN}))"
        cells = [f"[{one['suite']}]({one['suite']}/README.md)", markdown(one["finding"]), verdicts, one["commit"]]
        lines.append("| " + " | ".join([*cells, str(one["cells"]), f"{one['cpu_hours']:.2g}"]) + " |")
    kept = [path for one in known if not (out / one["suite"] / WITHDRAWN).is_file()
            if (path := out / one["suite"] / "claims.csv").is_file()]  # fmt: skip
    if power := strong_enough_in_any([read_claims(path) for path in kept]):
        lines += ["", f"{power}."]
    return "\n".join(lines) + "\n"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
