"""Tables as people read them: blocks of rows with numbered footnotes, written as Markdown, LaTeX or HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from dpgraph.reporting import formats, protection
from dpgraph.reporting.formats import DASH, Quantity

NOT_IN_PAPER = "not in the paper"


@dataclass(frozen=True)
class Text:
    """A cell, with the numbers of its footnotes."""

    value: str
    notes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    title: str
    rows: list[list[Text]]


@dataclass
class Footnotes:
    """Equal texts share a number."""

    texts: list[str] = field(default_factory=list)

    def number(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    blocks: list[Block]
    footnotes: list[str]
    remarks: list[str]  # below the footnotes, without a number
    text_columns: int = 1  # the first ones are left-aligned, the others hold numbers


EPSILON_REMARK = (
    "ε published: by the paper’s formula, even where it is wrong. ε rigorous: proved. ∞: no privacy. "
    "none: nothing is guaranteed. Relation (which data sets are neighbours) and scope (what is covered): published / "
    "rigorous where they differ."
)
PROTECTION_HEADS: tuple[str, ...] = ("Relation", "Scope")
EPSILON_HEADS: tuple[str, ...] = ("ε published", "ε rigorous", *PROTECTION_HEADS)
ACCURACY_COLUMNS = [
    "Method",
    "Target ε",
    "",  # the metric
    "Seeds",
    *EPSILON_HEADS,
    "Paper (%)",
    "Paper’s ε (rigorous)",
    "Difference",
]


def reference_remarks(table: pd.DataFrame, shown: Quantity) -> list[str]:
    """What knows nothing, by task (column reference of `accuracy_table`)."""
    if "reference" not in table or table["reference"].isna().all():
        return []
    levels = table.groupby("task_label", sort=False)["reference"].mean().dropna()
    found = "; ".join(f"{label} {level:.2f} {shown.unit}" for label, level in levels.items())
    return [f"To be read against {shown.reference_label}: {found}. A lower value is a better attack."]


def accuracy_display(title: str, table: pd.DataFrame, shown: Quantity) -> Table:
    """From `accuracy_table`: a block per task; the quantity heads the values."""
    notes = Footnotes()
    blocks = []
    for _, part in table.groupby("task", sort=False):
        rows = [_accuracy_cells(row, notes) for row in part.to_dict("records")]
        blocks.append(Block(with_delta(str(part["task_label"].iloc[0]), part), rows))
    remarks = [
        "Values: mean ± sample standard deviation over the seeds. Difference: ours minus the paper’s"
        f"{shown.difference and f', in {shown.difference}'}.",
        *reference_remarks(table, shown),
        "Target ε: of the rigorous accountant; of the published one for the paper’s mechanism.",
        f"{EPSILON_REMARK} Paper’s ε: as printed, of the published relation, with what is proved of that run.",
        *protection.remarks(table),
    ]
    heads = {
        "": shown.label[0].upper() + shown.label[1:],
        "Paper (%)": f"Paper ({shown.unit})" if shown.unit else "Paper",
    }
    columns = [heads.get(name, name) for name in ACCURACY_COLUMNS]
    return Table(title, columns, blocks, notes.texts, remarks)


def _accuracy_cells(row: dict, notes: Footnotes) -> list[Text]:
    ok = row["status"] == "ok"
    seeds = str(row["n"]) if row["n"] == row["n_planned"] else f"{row['n']} of {row['n_planned']}"
    if ok:
        accuracy = Text(formats.mean_std(row["mean"], row["std"]))
        count = Text(seeds, (notes.number(row["reason"]),) if row["reason"] else ())
    else:
        accuracy = failure(row, notes)
        count = Text(DASH)
    printed = bool(row["published_text"])
    return [
        Text(row["label"]),
        Text(formats.significant(row["epsilon_target"]) if not math.isnan(row["epsilon_target"]) else DASH),
        accuracy,
        count,
        *epsilon_cells(row, notes),
        Text(row["published_text"] if printed else NOT_IN_PAPER),
        Text(_printed_epsilon(row) if printed else DASH),
        Text(formats.difference(row["difference"])),
    ]


def failure(row: dict, notes: Footnotes) -> Text:
    return Text(row["status"], (notes.number(row["reason"]),) if row["reason"] else ())


def epsilon_cell(row: dict, mode: str, notes: Footnotes) -> Text:
    """One epsilon; where nothing is guaranteed, none and the reason; a dash where nothing is known.

    The rigorous one is marked where private data are read that it does not cover.
    """
    value, reason = row[f"eps_{mode}"], row[f"eps_{mode}_reason"]
    mark = protection.mark(row) if mode == "rigorous" else ""
    if not math.isnan(value):
        return Text(formats.epsilon(value) + mark)
    if not reason and row["status"] != "ok":
        return Text(DASH)
    return Text("none" + mark, (notes.number(reason or "no reason was recorded"),))


def epsilon_cells(row: dict, notes: Footnotes) -> list[Text]:
    """Both epsilons and what they are about, as `EPSILON_HEADS` name them."""
    return [*(epsilon_cell(row, mode, notes) for mode in protection.MODES), *protection_cells(row)]


def protection_cells(row: dict) -> list[Text]:
    return [Text(protection.both(row, name)) for name in ("relation", "scope")]


def _printed_epsilon(row: dict) -> str:
    if row["published_epsilon"] == "inf":
        return "∞"
    return f"{row['published_epsilon'] or 'not printed'} ({row['published_epsilon_rigorous']})"


def with_delta(label: str, part: pd.DataFrame) -> str:
    deltas = sorted({formats.power_of_ten(value) for value in part["delta"].dropna() if value > 0})
    return f"{label} (δ = {', '.join(deltas)})" if deltas else label


STATISTICS_COLUMNS = [
    "Data set",
    "Source",
    "Nodes",
    "Edges",
    "Mean degree",
    "Features",
    "Classes",
    "Train / validation / test",
]


def statistics_display(title: str, table: pd.DataFrame) -> Table:
    """From `statistics_table`: our graph and, below it, the paper's row."""
    notes = Footnotes()
    rows: list[list[Text]] = []
    counted = bool((table["published_train_nodes"] != "").any())  # the paper prints sizes, not shares
    for row in table.to_dict("records"):
        if row["status"] == "ok":
            ours = [
                formats.count(row["nodes"]),
                formats.count(row["entries"] // 2),
                f"{row['mean_degree']:.1f}",
                formats.count(row["features"]),
                formats.count(row["classes"]),
                _split(row, counted),
            ]
            rows.append([Text(row["task_label"]), Text("ours"), *map(Text, ours)])
        else:
            gap = [Text(DASH)] * (len(STATISTICS_COLUMNS) - 3)
            status = Text("not run", (notes.number(row["reason"]),))
            rows.append([Text(row["task_label"]), Text("ours"), status, *gap])
        if any(row[name] for name in row if name.startswith("published_") and name != "published_dataset"):
            split = " / ".join(_counted(row[f"published_{name}_nodes"]) for name in SPLITS)
            printed = [
                _counted(row["published_nodes"]),
                _counted(row["published_edges"]),
                *(row[f"published_{name}"] or DASH for name in ("mean_degree", "features", "classes")),
                row["published_split_ratio"].replace("/", " / ") or (split if counted else DASH),
            ]
            rows.append([Text(""), Text("paper"), *map(Text, printed)])
        else:
            rows.append([Text(""), Text("paper"), Text(NOT_IN_PAPER), *[Text(DASH)] * (len(STATISTICS_COLUMNS) - 3)])
    remarks = [
        "Edges: pairs of neighbours in this setting (disjoint and clustered: none between splits); a paper may count "
        "the directed entries of its file. Mean degree: directed entries per node; an undirected edge counts twice."
    ]
    return Table(title, STATISTICS_COLUMNS, [Block("", rows)], notes.texts, remarks, text_columns=2)


SPLITS = ("train", "val", "test")


def _split(row: dict, counted: bool) -> str:
    if counted:
        return " / ".join(_counted(row[f"{name}_nodes"]) for name in SPLITS)
    shares = [row[f"{name}_share"] for name in SPLITS]
    return " / ".join(f"{share:.2f}" for share in shares if share is not None and not math.isnan(share))


def _counted(value: float | str | None) -> str:
    return DASH if value is None or value == "" or math.isnan(float(value)) else formats.count(float(value))


def as_markdown(table: Table) -> str:
    lines = [f"**{formats.markdown(table.title)}**", ""]
    for block in table.blocks:
        if block.title:
            lines += [f"{formats.markdown(block.title)}", ""]
        lines.append(_markdown_line(map(formats.markdown, table.columns)))
        lines.append(_markdown_line([":--"] * table.text_columns + ["--:"] * (len(table.columns) - table.text_columns)))
        lines += [_markdown_line(_markdown_cell(cell) for cell in row) for row in block.rows]
        lines.append("")
    for number, text in enumerate(table.footnotes, 1):
        lines += [f"<sup>{number}</sup> {formats.markdown(text)}", ""]
    for text in table.remarks:
        lines += [formats.markdown(text), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_line(cells) -> str:  # type: ignore[no-untyped-def]
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: Text) -> str:
    return formats.markdown(cell.value) + _marks(cell.notes, "<sup>", "</sup>")


def _marks(notes: Sequence[int], before: str, after: str) -> str:
    return f"{before}{','.join(map(str, notes))}{after}" if notes else ""


def as_latex(table: Table, label: str) -> str:
    r"""A table float; needs \usepackage{booktabs}. ASCII only, so any engine takes it."""
    width = len(table.columns)
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table*}[htbp]",
        "\\centering",
        "\\footnotesize",
        "\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{formats.latex(table.title)}}}",
        f"\\label{{tab:{label}}}",
        f"\\begin{{tabular}}{{@{{}}{'l' * table.text_columns}{'r' * (width - table.text_columns)}@{{}}}}",
        "\\toprule",
        " & ".join(map(formats.latex, table.columns)) + " \\\\",
    ]
    for block in table.blocks:
        lines.append("\\midrule")
        if block.title:
            lines.append(f"\\multicolumn{{{width}}}{{@{{}}l}}{{\\itshape {formats.latex(block.title)}}} \\\\")
        lines += [" & ".join(_latex_cell(cell) for cell in row) + " \\\\" for row in block.rows]
    lines += ["\\bottomrule", "\\end{tabular}"]
    below = [
        f"\\textsuperscript{{{number}}}~{formats.latex(text)}" for number, text in enumerate(table.footnotes, 1)
    ] + [formats.latex(text) for text in table.remarks]
    if below:
        lines += ["", "\\smallskip", "\\begin{minipage}{\\textwidth}", "\\scriptsize"]
        lines += [" \\par\n".join(below), "\\end{minipage}"]
    return "\n".join([*lines, "\\end{table*}"]) + "\n"


def _latex_cell(cell: Text) -> str:
    return formats.latex(cell.value) + _marks(cell.notes, "\\textsuperscript{", "}")


def as_html(table: Table) -> str:
    """<table> and its notes, without the page around them."""
    head = "".join(f'<th scope="col">{formats.html_text(name)}</th>' for name in table.columns)
    body = []
    for block in table.blocks:
        if block.title:
            body.append(
                f'<tr class="block"><th scope="rowgroup" colspan="{len(table.columns)}">'
                f"{formats.html_text(block.title)}</th></tr>"
            )
        body += ["<tr>" + "".join(_html_cell(cell, i < table.text_columns) for i, cell in enumerate(row)) + "</tr>"
                 for row in block.rows]  # fmt: skip
    notes = "".join(f"<li>{formats.html_text(text)}</li>" for text in table.footnotes)
    remarks = "".join(f"<p>{formats.html_text(text)}</p>" for text in table.remarks)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        f'<div class="notes">{f"<ol>{notes}</ol>" if notes else ""}{remarks}</div>'
    )


def _html_cell(cell: Text, is_text: bool) -> str:
    quiet = cell.value in (DASH, NOT_IN_PAPER)
    kind = " ".join(name for name, holds in (("number", not is_text), ("quiet", quiet)) if holds)
    marks = _marks(cell.notes, "<sup>", "</sup>")
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{formats.html_text(cell.value)}{marks}</td>"
