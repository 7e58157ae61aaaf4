"""Accuracy tables in the paper's own layout: the paper's value above ours, which has its 95 % interval.

The wide form only places rows of the long form, whose CSV file has the numbers of both.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pandas as pd

from dpgraph.config.layout import Layout
from dpgraph.planning.plan import Plan
from dpgraph.reporting import chance, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import Footnotes, RowGroup, Table, Text, failure, with_delta
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.ranking import REMARK
from dpgraph.reporting.results import worth_showing

Row = dict[str, Any]
PAPER, DIFFERENCE = "paper", "difference"
HEADS = ("", "Target ε", "ε claimed / proved")


@dataclass(frozen=True)
class Line:
    """A line of the table: for each column a row of the long form, or None."""

    block: str
    label: str  # `DIFFERENCE`: of the line above from the paper
    target: str  # epsilon, as text
    cells: tuple[Row | None, ...]

    @property
    def printed(self) -> bool:
        """Return whether the line has the paper's values, not ours."""
        return self.label == PAPER

    @property
    def rows(self) -> list[Row]:
        """Return the rows of the line."""
        return [row for row in self.cells if row is not None]


@dataclass(frozen=True)
class Wide:
    """A table in the paper's layout: heads of its columns and lines."""

    heads: tuple[str, ...]  # of the columns with values
    spans: tuple[str, ...]  # above them; empty: none
    lines: tuple[Line, ...]


def make(plan: Plan, artefact_id: str, long: pd.DataFrame) -> Table:
    """Make the wide form of the rows of `accuracy_table`; if none was run, of those with a printed value."""
    long = worth_showing(long)
    artefact = plan.artefacts[artefact_id]
    layout = artefact.layout
    wide = _by_data_set(plan, artefact_id, long) if layout is None else _by_layout(layout, long)
    deltas = _deltas(long) if layout is None else []  # heads of a layout's blocks name delta
    return _display(heading(plan, artefact_id), wide, long, chance.shown_as(artefact), deltas)


def _by_data_set(plan: Plan, artefact_id: str, long: pd.DataFrame) -> Wide:
    """Place methods by data sets. Methods that the paper prints as one row form a block below that row."""
    tasks = dict(zip(long["task"], long["task_label"]))
    lines: list[Line] = []
    for _, rows in groupby(long.to_dict("records"), key=lambda row: _printed_as(plan, artefact_id, row)):
        group = list(rows)
        title = _without_variant(str(group[0]["label"]))
        shown = set[tuple[str, str]]()  # printed values that stand above, by task
        found = any(row["published_text"] for row in group)
        by_target: dict[tuple[str, str], list[Row]] = {}
        for row in group:
            by_target.setdefault((row["label"], _target(row["epsilon_target"])), []).append(row)
        for (label, target), own in by_target.items():
            text = _below(label, title) if found else label
            cells = tuple(_first(own, task=task) for task in tasks)
            paper = tuple(_first(own if shown else group, task=task, printed=True) for task in tasks)
            printed = {(row["task"], row["published_text"]) for row in paper if row is not None}
            if printed - shown:
                lines.append(Line(title, PAPER, _printed_target(paper), paper))
            shown |= printed
            lines += _with_difference(Line(title if found else "", text, target, cells))
    return Wide(tuple(tasks.values()), ("",) * len(tasks), tuple(lines))


def _by_layout(layout: Layout, long: pd.DataFrame) -> Wide:
    """Place rows into the layout's columns, in a block for each data set, with lines by target epsilon."""
    lines: list[Line] = []
    spans, heads = zip(*layout.columns)
    for task, label in dict(zip(long["task"], long["task_label"])).items():
        of_task = long[(long["task"] == task) & long["method"].isin(layout.methods)]
        title, at = with_delta(str(label), of_task), of_task["epsilon_target"]
        for number, target in enumerate(sorted(at.dropna().unique()) or [math.nan]):
            # rows without a target are shown once
            there = of_task[(at == target) | (at.isna() & (number == 0))].to_dict("records")
            for name, rows in layout.rows.items():
                block = f"{title}: {name}" if name else title
                methods = [{line[place] for line in rows.values()} for place in range(len(heads))]
                paper = tuple(_first(there, methods=names, printed=True) for names in methods)
                if any(row is not None for row in paper):
                    lines.append(Line(block, PAPER, _printed_target(paper), paper))
                for text, line in rows.items():
                    cells = tuple(_first(there, methods={method}) for method in line)
                    if any(row is not None for row in cells):
                        lines += _with_difference(Line(block, text, _targets(cells), cells))
    return Wide(tuple(heads), tuple(spans), tuple(lines))


def _with_difference(line: Line) -> list[Line]:
    """Return the line, and its differences from the paper where both have a value."""
    both = any(not math.isnan(row["difference"]) for row in line.rows)
    return [line, *[replace(line, label=DIFFERENCE, target="")] * both]


def _printed_as(plan: Plan, artefact_id: str, row: Row) -> str:
    """Return the paper's name of the row; the method's id where the paper has none."""
    paper, name = artefact_id.split("/")
    experiment = plan.experiments[paper]
    known = experiment.methods[row["method"]].published
    named = [known[table] for table in experiment.artefacts[name].tables(name) if table in known]
    return str(sorted(named[0].items())) if named else str(row["method"])


def _first(
    rows: Iterable[Row], task: str | None = None, methods: set[str | None] | None = None, printed: bool = False
) -> Row | None:
    """Return the first row of the task and of one of the methods; if `printed`, the first with a printed value."""
    fitting = (row for row in rows if task in (None, row["task"]) and (methods is None or row["method"] in methods))
    return next((row for row in fitting if row["published_text"] or not printed), None)


def _below(label: str, title: str) -> str:
    """Return a label without the title of its block.

    >>> _below("DP-GCN-1 (proved)", "DP-GCN-1"), _below("GCN-1", "GCN-1"), _below("DP-GCN-1 SGD (paper)", "DP-GCN-1")
    ('ours (proved)', 'ours', 'ours: DP-GCN-1 SGD (paper)')
    """
    rest = label.removeprefix(title)
    return f"ours{rest}" if _without_variant(label) == title else f"ours: {label}"


def _without_variant(label: str) -> str:
    """Return what stands before a comma or a parenthesis."""
    return re.split(r", | \(", label, maxsplit=1)[0]


def _target(target: float) -> str:
    return DASH if math.isnan(target) else formats.significant(target)


def _targets(cells: Sequence[Row | None]) -> str:
    """Return the target of a line whose rows have one target or none."""
    targets = (row["epsilon_target"] for row in cells if row is not None)
    return _target(next((target for target in targets if not math.isnan(target)), math.nan))


def _printed_target(paper: Sequence[Row | None]) -> str:
    """Return the printed epsilons of private methods; a dash where all are without privacy."""
    texts = [row["published_epsilon"] for row in paper if row is not None and row["variant"] != "none"]
    return " or ".join(dict.fromkeys(text or "not printed" for text in texts)) or DASH


def _deltas(long: pd.DataFrame) -> list[str]:
    """Return a remark with the deltas of each data set; empty without privacy."""
    by_label = {label: formats.deltas(part["delta"]) for label, part in long.groupby("task_label", sort=False)}
    texts = [f"{label} {', '.join(texts)}" for label, texts in by_label.items() if texts]
    return [f"δ: {'; '.join(texts)}."] if texts else []


def _display(title: str, wide: Wide, long: pd.DataFrame, shown: Quantity, deltas: list[str]) -> Table:
    notes = Footnotes()
    blocks = [
        RowGroup(block, [_texts(line, notes) for line in part])
        for block, part in groupby(wide.lines, key=lambda line: line.block)
    ]
    named = {row["method"] for line in wide.lines for row in line.rows}
    left_out = dict.fromkeys(long[~long["method"].isin(named)]["label"])
    counts = sorted({int(n) for n in long[long["status"] == "ok"]["n"]})
    seeds = f" ({' or '.join(map(str, counts))})" if counts else ""
    difference = shown.difference and f", in {shown.difference}"
    below = [*deltas, *[REMARK] * bool(long["rank"].any())]
    remarks = [
        f"{shown.label[0].upper()}{shown.label[1:]}. Ours: mean over the seeds{seeds} and its 95 % Student t interval. "
        f"Paper: as printed, ± as the paper has it. Difference: ours minus the paper’s{difference}.",
        "Target ε: proved; claimed for the paper’s mechanism. ε claimed: by the paper’s formula, even where it is "
        "wrong; ε proved: by a theorem; none: no guarantee; ∞: no privacy; a range spans the values of the line. The "
        "paper’s own runs have no proved ε.",
        *below,
        *protection.remarks(long),
        *([f"In the long form only: {', '.join(left_out)}."] if left_out else []),
    ]
    brief = [
        f"{shown.label[0].upper()}{shown.label[1:]}: mean over the seeds{seeds} ± half of the 95 % Student t interval. "
        f"Paper: as printed. Difference: ours minus the paper’s{difference}. "
        "ε claimed: by the paper’s formula; ε proved: by a theorem; none: no guarantee.",
        *below,
        *protection.brief(long),
    ]
    spans = ("",) * len(HEADS) + wide.spans
    return Table(title, [*HEADS, *wide.heads], blocks, notes.texts, remarks, spans=spans, brief=brief)


def _texts(line: Line, notes: Footnotes) -> list[Text]:
    if line.label == DIFFERENCE:
        gaps = (math.nan if row is None else row["difference"] for row in line.cells)
        return [Text(line.label), Text(""), Text(""), *(Text(formats.difference(gap)) for gap in gaps)]
    values = [_value(row, line.printed, notes) for row in line.cells]
    return [Text(line.label), Text(line.target), _epsilons(line, notes), *values]


def _value(row: Row | None, printed: bool, notes: Footnotes) -> Text:
    """Return a value with its interval, such as 61.20 [59.91, 62.49]; one seed has the mean alone."""
    if row is None or printed:
        return Text(DASH if row is None else row["published_text"])
    if row["status"] != "ok":
        return failure(row, notes)
    interval = "" if math.isnan(row["ci_low"]) else f" [{row['ci_low']:.2f},\u00a0{row['ci_high']:.2f}]"
    lost = f"{row['n']} of {row['n_planned']} seeds: {row['reason']}" if row["n"] < row["n_planned"] else ""
    half = "" if math.isnan(row["ci_low"]) else f" ± {(row['ci_high'] - row['ci_low']) / 2:.2f}"
    marks = tuple(notes.number(text) for text in (lost, row["fallback"]) if text)
    return Text(f"{row['mean']:.2f}{interval}", marks, bold=bool(row["rank"]), tex=f"{row['mean']:.2f}{half}")


def _private(line: Line) -> list[Row]:
    """Return the rows with epsilons that the line states: those of private methods, if any, with a result."""
    rows = [row for row in line.rows if row["status"] == "ok" or not math.isnan(row["eps_rigorous"])]
    return [row for row in rows if row["variant"] != "none"] or rows


def _epsilons(line: Line, notes: Footnotes) -> Text:
    """Return both epsilons; notes give relation, scope and reasons."""
    if line.printed:
        return Text("∞" if line.target == DASH else f"{line.target} / none")  # the paper's runs have no proved epsilon
    rows = _private(line)
    if not rows:
        return Text(DASH)
    marks = "".join(dict.fromkeys(protection.mark(row) for row in rows))
    texts = [_range(row[f"eps_{mode}"] for row in rows) for mode in protection.MODES]
    about: dict[str, None] = {}
    for row in rows:
        reasons = (row[f"eps_{mode}_reason"] for mode in protection.MODES if math.isnan(row[f"eps_{mode}"]))
        about |= dict.fromkeys(filter(None, (_about(row), *reasons)))
    shown = texts[0] if texts[0] == texts[1] else " / ".join(texts)
    return Text(shown + marks, tuple(map(notes.number, about)))


def _about(row: Row) -> str:
    """Return relation and scope of both epsilons; empty without privacy."""
    texts = [protection.both(row, name) for name in ("relation", "scope")]
    return "" if set(texts) == {DASH} else f"Relation {texts[0]}; scope {texts[1]}"


def _range(values: Iterable[float]) -> str:
    """Return epsilons as a range.

    >>> _range([7.98214, 12.0]), _range([12.0, 12.0]), _range([math.nan, 9.75]), _range([math.inf, 0.0])
    ('7.99–12.0', '12.0', '9.75 or none', '0 or ∞')
    """
    values = list(values)
    numbers = sorted(value for value in values if math.isfinite(value))
    ends = dict.fromkeys(formats.epsilon(value) for value in numbers[:1] + numbers[-1:])
    others = sorted({formats.epsilon(value) for value in values if not math.isfinite(value)})
    return " or ".join([*(["–".join(ends)] if ends else []), *others])
