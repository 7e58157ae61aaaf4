"""Table and figure of `bench-peers`, from its CSV file: this package's clipped sums beside those of other libraries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from dpgraph.errors import UserError
from dpgraph.files import write_text
from dpgraph.methods.looks import ANY, BLUE, GREY, Look
from dpgraph.reporting.display import Footnotes, RowGroup, Table, Text
from dpgraph.reporting.drawing import canvas, marks
from dpgraph.reporting.drawing.palette import allocate
from dpgraph.reporting.drawing.ticks import set_ticks
from dpgraph.reporting.figures import write_caption
from dpgraph.reporting.formats import DASH, count, significant
from dpgraph.reporting.page import document
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.rendering import as_html, as_markdown

OURS, PLAIN = "dpgraph", "plain, not private"
SECONDS = Quantity("CPU seconds of one call", "s", "s", 1.0, 0.0, math.inf)
HEADS = ("m", "Peer", "CPU seconds (quartiles)", "in dpgraph’s time (quartiles)", "MiB", "Difference", "Repeats")
TITLE = "Clipped sums by other libraries"
AS_MEANS = {"cpu_seconds": "mean", "cpu_seconds_q25": "ci_low", "cpu_seconds_q75": "ci_high"}
AXIS = 0.75  # inches of a panel beside its x axis


def write_peers(csv: Path) -> list[Path]:
    """Beside the CSV file, of the same name: .md and .html, and the figure as .pdf, .svg and .png with its caption."""
    if not csv.is_file():
        raise UserError(f"{csv}: no such file; make it with `dpgraph bench-peers --out {csv}`")
    rows = pd.read_csv(csv)
    shown = table(rows)
    stem = csv.with_suffix("")
    written = [stem.with_suffix(".md"), stem.with_suffix(".html")]
    write_text(written[0], as_markdown(shown))
    write_text(written[1], document(TITLE, as_html(shown), shown.remarks[0]))
    return [*written, *draw(rows, stem)]


def table(rows: pd.DataFrame) -> Table:
    """Rows by architecture and r; in a row without a time, a footnote says why."""
    notes, measured = Footnotes(), rows[rows["architecture"].notna()]
    blocks = [
        RowGroup(_title(str(name), int(hops), part), [_cells(row, notes) for row in part.to_dict("records")])
        for (name, hops), part in measured.groupby(["architecture", "hops"], sort=False)
    ]
    missing = rows[rows["architecture"].isna()]
    if len(missing):
        blocks.append(RowGroup("Not measured", [_cells(row, notes) for row in missing.to_dict("records")]))
    return Table(TITLE, list(HEADS), blocks, notes.texts, [_about(rows), *_remarks(rows)], text_columns=2)


def _title(name: str, hops: int, part: pd.DataFrame) -> str:
    return name.upper() + (f", r = {hops}, K = {int(part['max_degree'].iloc[0])}" if hops else "")


def _cells(row: Mapping, notes: Footnotes) -> list[Text]:
    note = row["note"] if isinstance(row["note"], str) else ""
    mark = (notes.number(note),) if note else ()
    size = row["batch_size"]
    return [
        Text(DASH if math.isnan(size) else count(size)),
        Text(str(row["peer"]), bold=row["peer"] == OURS),
        Text(_with_range(row, "cpu_seconds"), mark),
        Text(_with_range(row, "ratio")),
        Text(DASH if math.isnan(row["peak_mib"]) else significant(row["peak_mib"])),
        Text(DASH if math.isnan(row["difference"]) else f"{row['difference']:.0e}"),
        Text(DASH if math.isnan(row["repeats"]) else str(int(row["repeats"]))),
    ]


def _with_range(row: Mapping, name: str) -> str:
    middle, low, high = (row[name + end] for end in ("", "_q25", "_q75"))
    if math.isnan(middle):
        return DASH
    return f"{significant(middle)} ({significant(low, 2)} to {significant(high, 2)})"


def _about(rows: pd.DataFrame) -> str:
    first = rows.drop_duplicates("peer")
    versions = dict.fromkeys(f"{one['peer']} {one['version']}" for one in first.to_dict("records") if _said(one))
    return f"{rows['processor'].iloc[0]}, one thread. Versions: {'; '.join(versions)}."


def _said(row: Mapping) -> bool:
    return isinstance(row["version"], str) and bool(row["version"])


def _remarks(rows: pd.DataFrame) -> list[str]:
    return [
        "m: roots of the batch. CPU seconds: median of interleaved repeats. Ratio: median of each repeat’s ratio to "
        "dpgraph. MiB: resident memory of one call beyond what it starts with. Difference: of the sums in float32, "
        "over the largest entry of a parameter’s sum; only what agreed with dpgraph in float64 to 10⁻⁹ is timed.",
        f"{PLAIN}: the sum of unclipped gradients by autograd, a floor for all others.",
    ]


def draw(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """Growth with m: a panel for each architecture and r, both axes logarithmic."""
    timed = rows[rows["cpu_seconds"].notna()]
    looks = looks_of(list(dict.fromkeys(timed["peer"])))
    kinds = list(timed.groupby(["architecture", "hops"], sort=False))
    handles: dict[str, Artist] = {name: marks.sample(look) for name, look in looks.items()}
    with canvas.house_style("peers"):
        figure, places, width = canvas.panels([1] * max(len(kinds), 1), handles if kinds else {})
        for (axes,), ((name, hops), part) in zip(places, kinds):
            canvas.panel_title(axes, _title(str(name), int(hops), part), False, width)
            _panel(axes, part, looks, width)
        if not kinds:
            canvas.no_results(places[0][0])
        files = canvas.save_all(figure, stem)
    return [*files, write_caption(_caption(rows, kinds), stem)]


def looks_of(peers: list[str]) -> dict[str, Look]:
    own = {OURS: Look(BLUE, "o", "-"), PLAIN: Look(GREY, "s", (0, (1.5, 1)))}
    return allocate({name: own.get(name, ANY) for name in sorted(peers, key=lambda one: one not in own)})


def _panel(axes: Axes, part: pd.DataFrame, looks: Mapping[str, Look], width: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = sorted(set(part["batch_size"]))
    span = max(math.log10(sizes[-1] / sizes[0]), 0.1)
    inches = {size: math.log10(size / sizes[0]) / span * (width - AXIS) for size in sizes}
    gap = min((inches[b] - inches[a] for a, b in pairwise(sizes)), default=width - AXIS)
    for place, (name, look) in enumerate(looks.items()):
        points = part[part["peer"] == name].sort_values("batch_size").rename(columns=AS_MEANS)
        if len(points):
            marks.curve(axes, points["batch_size"], points, look, SECONDS, marks.Slot(place, len(looks), gap))
    axes.set_xlim(sizes[0] / 1.6, sizes[-1] * 1.6)
    set_ticks(axes, {size: count(size) for size in sizes}, inches)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("m, roots of the batch")
    canvas.y_label(axes, "CPU seconds")


def _caption(rows: pd.DataFrame, kinds: list) -> list[str]:
    lines = [f"Clipped sums of the same batches; {_about(rows)} Medians of interleaved repeats, with quartiles."]
    drawn = {key for key, _ in kinds}
    known = rows[rows["architecture"].notna()]
    empty = [
        _title(str(name), int(hops), part)
        for (name, hops), part in known.groupby(["architecture", "hops"], sort=False)
        if (name, hops) not in drawn
    ]
    untimed = known[known["cpu_seconds"].isna()]
    if empty:
        lines.append(f"No panel, because nothing was measured: {'; '.join(empty)}.")
    if len(untimed):
        lines.append(f"{len(untimed)} of {len(known)} rows of the table have no time; it says why.")
    return lines
