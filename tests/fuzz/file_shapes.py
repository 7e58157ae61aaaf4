"""Lists of edges and tables of nodes as other tools write them. No rule of a reader is used."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import networkx
import pandas

from tests.fuzz.made import MISSING

Write = Callable[[pandas.DataFrame, Path, Random], Path | None]  # None: to the path that was given
Change = Callable[[pandas.DataFrame, Random], pandas.DataFrame]
ENDS = (("src", "dst"), ("from", "to"), ("u", "v"), ("Source", "Target"), ("SOURCE", "TARGET"), ("From", "To"))
MORE_ENDS = (
    ("src_id", "dst_id"),
    ("source_id", "target_id"),
    ("node_1", "node_2"),
    ("id_1", "id_2"),
    ("user1", "user2"),
)
SNAP = "# Directed graph (each unordered pair of nodes is saved once): Amazon0302.txt\n# Nodes: 9 Edges: 9\n"
SNAP_NAMES = SNAP + "# FromNodeId\tToNodeId\n"
REMARK = "# made on a Monday, by me\n"


def cells(frame: pandas.DataFrame) -> list[list[str]]:
    """Return rows of texts; "" for what is missing."""
    return [["" if pandas.isna(one) else str(one) for one in row] for row in frame.astype(object).to_numpy().tolist()]


def text(
    path: Path, header: Sequence[Any] | None, rows: Sequence[Sequence[Any]], *, sep: str = ",", end: str = "\n",
    before: str = "", encoding: str = "utf-8",
) -> Path:  # fmt: skip
    """Write cells as they are; compress for .gz."""
    held = io.StringIO()
    writer = csv.writer(held, delimiter=sep, lineterminator=end)
    writer.writerows([*([header] if header is not None else []), *rows])
    content = (before.replace("\n", end) + held.getvalue()).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def lines(path: Path, written: Sequence[str]) -> Path:
    path.write_text("\n".join([*written, ""]), encoding="utf-8")
    return path


# --- ways to write, and what is done to a table before ------------------------------------------------------------


def as_pandas(suffix: str = ".csv", index: bool = False, **options: Any) -> Write:
    def write(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
        path = path.with_suffix(suffix)
        frame.to_csv(path, index=index, **options)
        return path

    return write


def as_cells(suffix: str = ".csv", header: bool = True, **options: Any) -> Write:
    return lambda frame, path, random: text(
        path.with_suffix(suffix), [*frame.columns] if header else None, cells(frame), **options
    )


def as_rows(
    rows: Callable[[list[list[str]], Random], list[list[str]]], more: Sequence[str] = (), **options: Any
) -> Write:
    """Cells that `rows` has changed, and `more` names in the header."""
    return lambda frame, path, random: text(path, [*frame.columns, *more], rows(cells(frame), random), **options)


def as_lines(line: str, first: Sequence[str] = ()) -> Write:
    """Each pair of ends as `line` has it, without a rule for quotes."""
    return lambda frame, path, random: lines(path, [*first, *(line.format(*row) for row in cells(frame))])


def as_parquet(**options: Any) -> Write:
    def write(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
        path = path.with_suffix(".parquet")
        frame.to_parquet(path, **options)
        return path

    return write


def as_r(names: bool = True) -> Write:
    """As R's write.csv: row names, quotes around texts, NA; without `names` a header of one less (write.table)."""

    def write(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
        written = [",".join([*(['""'] if names else []), *(f'"{one}"' for one in frame.columns)])]
        for place, row in enumerate(frame.astype(object).to_numpy().tolist()):
            held = ["NA" if pandas.isna(one) else f'"{one}"' if isinstance(one, str) else str(one) for one in row]
            written.append(",".join([f'"{place + 1}"', *held]))
        return lines(path, written)

    return write


def as_networkx(write: Callable[..., Any], kind: type = object, **options: Any) -> Write:
    def written(frame: pandas.DataFrame, path: Path, random: Random) -> None:
        graph = networkx.DiGraph()
        graph.add_edges_from(frame.astype(kind).to_numpy().tolist())
        write(graph, path, **options)

    return written


def as_workbook(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
    path = path.with_suffix(".xlsx")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("xl/worksheets/sheet1.xml", "<worksheet><sheetData/></worksheet>")
    return path


def as_market(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
    weights = random.choice(("integer", "pattern"))
    rows = [[*row, "1"][: 3 if weights == "integer" else 2] for row in cells(frame)]
    size = random.choice(rows)[0]
    head = f"%%MatrixMarket matrix coordinate {weights} general\n{size} {size} {len(rows)}\n"
    return text(path, None, rows, sep=" ", before=head)


def in_gephi(sep: str = ",") -> Write:
    def write(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
        rows = [[*ends, "Undirected", place, None, None, "1.0"] for place, ends in enumerate(cells(frame))]
        return text(path, ["Source", "Target", "Type", "Id", "Label", "timeset", "Weight"], rows, sep=sep)

    return write


def after(change: Change, write: Write) -> Write:
    return lambda frame, path, random: write(change(frame, random), path, random)


def named(*names: tuple[Any, ...]) -> Change:
    """One of these tuples of names in the place of the first columns' own."""
    return lambda frame, random: frame.rename(columns=dict(zip(frame.columns, random.choice(names))))


def more(first: str = "", last: str = "", name: str = "") -> Change:
    """Columns of these kinds, separated by spaces, before and behind all others."""

    def change(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
        found = {kind: _column(kind, len(frame), random) for kind in (first + " " + last).split()}
        return pandas.DataFrame(
            {**{name or one: found[one] for one in first.split()}, **frame, **{one: found[one] for one in last.split()}}
        )

    return change


def _column(kind: str, size: int, random: Random) -> list[Any]:
    if kind == "weight":
        return [random.randint(1, 5) for _ in range(size)]
    if kind == "share":
        return [round(random.random(), 3) for _ in range(size)]
    if kind == "timestamp":
        return [1_300_000_000 + random.randrange(10**7) for _ in range(size)]
    if kind == "number":
        first = random.choice((0, 1))
        return list(range(first, first + size))
    return [""] * size if kind == "empty" else [f"Ms {place}" for place in range(size)]


def in_any_order(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
    return frame[random.sample(list(frame.columns), frame.shape[1])]


def sorted_by_source(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
    return frame.sort_values("source")  # in which # and % come before @


def both(*changes: Change) -> Change:
    def change(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
        for one in changes:
            frame = one(frame, random)
        return frame

    return change


def typed(kind: str, *columns: str) -> Change:
    return lambda frame, random: frame.astype({name: kind for name in columns or frame.columns})


# --- lists of edges: a table with columns source and target -------------------------------------------------------

USUAL = "pandas to_csv(index=False)"
ORDINARY_EDGES: dict[str, Write] = {
    USUAL: as_pandas(),
    "pandas to_csv()": as_pandas(index=True),
    "pandas to_csv() of edges with weights": after(more(last="weight"), as_pandas(index=True)),
    "pandas to_csv(), weights first": after(more("weight", "timestamp"), as_pandas(index=True)),
    "pandas to_csv(index=False), weights first": after(more("share"), as_pandas()),
    "usual names of ends, any order": after(both(named(*ENDS), more("weight", "timestamp"), in_any_order), as_cells()),
    "usual names of ends, numbers of edges first": after(both(named(*ENDS), more("number", name="id")), as_pandas()),
    "other usual names of ends, weights first": after(both(named(*MORE_ENDS), more("weight")), as_pandas()),
    "headerless, commas": as_cells(header=False),
    "headerless, tabs": as_cells(header=False, sep="\t"),
    "headerless, spaces": as_cells(header=False, sep=" "),
    "tabs": as_pandas(sep="\t"),
    "tabs, .tsv.gz": as_cells(".tsv.gz", sep="\t"),
    "semicolons": as_pandas(sep=";"),
    "spreadsheet: BOM, semicolons, CRLF": as_cells(sep=";", end="\r\n", encoding="utf-8-sig"),
    "quotes around each cell": as_pandas(quoting=csv.QUOTE_ALL),
    "pandas .csv.gz": as_pandas(".csv.gz"),
    "networkx write_edgelist(data=False)": as_networkx(networkx.write_edgelist, data=False),
    "networkx write_edgelist": as_networkx(networkx.write_edgelist),
    "SNAP": as_cells(".txt", header=False, sep="\t", before=SNAP_NAMES),
    "SNAP, CRLF": as_cells(".txt", header=False, sep="\t", before=SNAP, end="\r\n"),
    "SNAP, .txt.gz": as_cells(".txt.gz", header=False, sep="\t", before=SNAP_NAMES),
    "KONECT": as_cells(header=False, sep=" ", before="% sym unweighted\n% 9 9 9\n"),
    "Gephi": in_gephi(),
    "R write.csv": as_r(),
    "R write.csv, from and to": after(named(("from", "to")), as_r()),
    "Parquet": as_parquet(),
    "Parquet, weights first": after(more("weight"), as_parquet()),
}
WEIGHTED = "% sym weighted\n% 9 9 9\n"
OTHER_EDGES: dict[str, Write] = {
    "numbers of edges first, no header": after(more("number"), as_cells(header=False)),
    "a comment, numbers of edges first, no header": after(more("number"), as_cells(header=False, before=REMARK)),
    "ids that begin like comments, no header": after(sorted_by_source, as_cells(header=False)),
    "weights first, no header": after(more("weight"), as_cells(header=False)),
    "shares first, no header": after(more("share"), as_cells(header=False)),
    "weights behind, no header": after(more(last="weight"), as_cells(header=False)),
    "weights behind, no header, tabs": after(more(last="weight"), as_cells(header=False, sep="\t")),
    "KONECT, weights and times": after(more(last="weight timestamp"), as_cells(header=False, sep=" ", before=WEIGHTED)),
    "KONECT, weights, tabs": after(more(last="share"), as_cells(header=False, sep="\t", before=WEIGHTED)),
    "unknown names": after(named(("a", "b"), ("citing", "cited"), ("", "x")), as_pandas()),
    "unknown names, weights behind": after(both(named(("a", "b")), more(last="weight")), as_pandas()),
    "unknown names, weights first": after(both(named(("a", "b"), ("", " ")), more("weight")), as_pandas()),
    "unknown names, numbers of edges": after(named(("a", "b")), as_pandas(index=True)),
    "unknown names, numbers of edges under a name": after(
        both(named(("0", "1")), more("number", name="x")), as_pandas()
    ),
    "numbers as names": after(named((0, 1)), as_pandas()),
    "numbers as names, with an index": after(named((0, 1)), as_pandas(index=True)),
    "one usual name of two": after(both(named(("source", "b")), more("weight")), as_pandas()),
    "two pairs of usual names": after(
        lambda frame, random: both(named(("from", "to")), more("number", "weight"))(frame, random).rename(
            columns={"number": "source", "weight": "target"}
        ),
        as_pandas(),
    ),
    "a name twice": as_rows(lambda rows, random: [[*row, row[1]] for row in rows], ["source"]),
    "pipes": as_pandas(sep="|"),
    "several spaces": as_lines("  {}   {} "),
    "spaces behind separators": as_lines("{}, {} ", ["source, target"]),
    "separators at ends of lines": as_rows(lambda rows, random: [[*row, ""] for row in rows], [""]),
    "separators at ends of lines but the header": as_rows(lambda rows, random: [[*row, ""] for row in rows]),
    "empty rows at the end": as_rows(lambda rows, random: [*rows, ["", ""], ["", ""]]),
    "blank lines": as_lines("{},{}\n", ["source,target", ""]),
    "sep= of a spreadsheet": as_cells(sep=";", before="sep=;\n"),
    "a comment with commas, no header": as_cells(header=False, before="# source,target\n"),
    "a comment and a header": as_cells(before=REMARK),
    "a comment in the middle": as_rows(lambda rows, random: [*rows[:3], ["# half of them"], *rows[3:]]),
    "a header in the middle": as_rows(lambda rows, random: [*rows[:4], ["source", "target"], *rows[4:]]),
    "single quotes, no header": as_lines("'{}','{}'"),
    "ids as floats": as_lines("{}.0,{}.0", ["source,target"]),
    "ids of 17 digits as floats": after(typed("float"), as_pandas()),
    "ids without their zeros": after(typed("int"), as_pandas()),
    "R write.table": as_r(names=False),
    "networkx write_edgelist with data": as_lines("{} {} {{'weight': 2, 'kind': 'a b'}}"),
    "networkx write_weighted_edgelist": after(more(last="share"), as_cells(header=False, sep=" ")),
    "networkx write_adjlist": as_networkx(networkx.write_adjlist),
    "networkx write_pajek": as_networkx(networkx.write_pajek),
    "networkx write_gml": as_networkx(networkx.write_gml, str),
    "networkx write_graphml": as_networkx(networkx.write_graphml_xml),
    "networkx write_gexf": as_networkx(networkx.write_gexf),
    "networkx write_multiline_adjlist": as_networkx(networkx.write_multiline_adjlist),
    "Neo4j": after(both(named((":START_ID", ":END_ID")), more(last="name")), as_pandas()),
    "Cytoscape SIF": as_lines("{}\tpp\t{}"),
    "spaces": as_pandas(sep=" "),
    "no edges": as_pandas(),
    "one edge, no header": as_cells(header=False),
    "one edge": as_pandas(index=True),
    "a short row": as_rows(lambda rows, random: [*rows, rows[0][:1]]),
    "igraph write_ncol": after(more(last="weight"), as_cells(".ncol", header=False, sep=" ")),
    "igraph write_lgl": as_lines("# {}\n{}"),
    "Matrix Market": as_market,
    "JSON lines": lambda frame, path, random: frame.to_json(path, orient="records", lines=True),
    "Feather": lambda frame, path, random: frame.to_feather(path),
    "a workbook": as_workbook,
    "UTF-16": as_cells(sep="\t", encoding="utf-16"),
    "Gephi, semicolons": in_gephi(";"),
    "ends of lines of old": as_cells(end="\r"),
    "Parquet of floats": after(typed("float"), as_parquet()),
    "Parquet with an index": after(lambda frame, random: frame.set_index("source"), as_parquet()),
    "Parquet under the name of a CSV file": lambda frame, path, random: frame.to_parquet(path),
    "gzip under the name of a CSV file": lambda frame, path, random: frame.to_csv(
        path, index=False, compression="gzip"
    ),
    "an id that no node has": as_rows(lambda rows, random: [*rows, ["zz", rows[0][1]]]),
    "an id that is missing": as_rows(lambda rows, random: [*rows, [random.choice(("", "NaN")), rows[0][1]]]),
}

# --- tables of nodes: columns id, label, features and, of some, split ---------------------------------------------


def missing_as(none: str, share: float = 1.0) -> Write:
    def rows(given: list[list[str]], random: Random) -> list[list[str]]:
        return [[row[0], none if row[1] == "" and random.random() < share else row[1], *row[2:]] for row in given]

    return as_rows(rows)


def with_masks(one: Any, other: Any, names: str = "{}_mask") -> Change:
    """A column for each part in the place of the split."""
    return lambda frame, random: frame.drop(columns="split").assign(
        **{names.format(part): frame["split"].map(lambda found, part=part: one if found == part else other)
           for part in ("train", "val", "test")}
    )  # fmt: skip


def as_gephi_nodes(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
    table = frame.rename(columns={"id": "Id", "label": "class"})
    table.insert(1, "Label", [f"node {place}" for place in range(len(frame))])
    table.insert(2, "timeset", "")
    return table


def decimal_commas(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
    """As spreadsheets of half of Europe write numbers."""
    return frame.assign(**{name: frame[name].astype(str).str.replace(".", ",") for name in frame.columns[2:]})


def in_lists(frame: pandas.DataFrame, random: Random) -> pandas.DataFrame:
    return frame[["id", "label"]].assign(x=frame[list(frame.columns[2:])].astype(float).to_numpy().tolist())


def short_row(frame: pandas.DataFrame, path: Path, random: Random) -> Path:
    """The label is the last cell, and one row that has a label ends before it."""
    table = frame[[*(name for name in frame.columns if name != "label"), "label"]]
    rows = cells(table)
    random.choice([row for row in rows if row[-1]]).pop()
    return text(path, [*table.columns], rows)


def parts(change: Callable[[pandas.Series, Random], Any]) -> Write:
    return after(lambda frame, random: frame.assign(split=change(frame["split"], random)), as_pandas())


COUNTED = ("index", "Unnamed: 0", "X", "rownames", "row")
ORDINARY_NODES: dict[str, Write] = {
    USUAL: as_pandas(),
    "pandas to_csv()": as_pandas(index=True),
    "pandas to_csv(), the id as index": after(lambda frame, random: frame.set_index("id"), as_pandas(index=True)),
    "columns in any order": after(in_any_order, as_cells()),
    "tabs": as_pandas(sep="\t"),
    "semicolons": as_pandas(sep=";"),
    "spreadsheet: BOM, semicolons, CRLF": as_cells(sep=";", end="\r\n", encoding="utf-8-sig"),
    "quotes around each cell": as_pandas(quoting=csv.QUOTE_ALL),
    "pandas .csv.gz": as_pandas(".csv.gz"),
    "R write.csv": as_r(),
    "Parquet": as_parquet(),
    "Parquet of categories": after(typed("category", "label"), as_parquet()),
    "Gephi": after(as_gephi_nodes, as_cells()),
    "names by option": after(named(("user", "Hobby")), as_pandas()),
    "classes by option": as_pandas(),
    "a column left out by option": after(more("name"), as_pandas(index=True)),
}
OTHER_NODES: dict[str, Write] = {
    **{f"labels missing as {none}": missing_as(none) for none in MISSING},
    "labels missing as nothing and NA": missing_as("NA", 0.5),
    "0 and 0.0": as_rows(
        lambda rows, random: [
            [row[0], row[1] and row[1].removesuffix(".0") + random.choice(("", ".0")), *row[2:]] for row in rows
        ]
    ),
    "spaces around labels": as_rows(
        lambda rows, random: [[row[0], f"{random.choice(' _')}{row[1]} ".replace("_", ""), *row[2:]] for row in rows]
    ),
    "Id and Label": after(named(("Id", "Label"), ("ID", "Label")), as_pandas()),
    "node and y": after(named(("node", "y"), ("node_id", "class"), ("", "label")), as_pandas()),
    "ids as floats": after(typed("float", "id"), as_pandas()),
    "ids without their zeros": after(typed("int", "id"), as_pandas()),
    "ids of 17 digits as floats": after(typed("float", "id"), as_pandas()),
    "two columns of ids": after(both(named(("node", "label")), more("number", name="id")), as_pandas()),
    "a short row": short_row,
    "Neo4j, names with types": after(named(("userId:ID", ":LABEL")), as_pandas()),
    "a list in each cell": after(in_lists, as_pandas()),
    "pipes": as_pandas(sep="|"),
    "spaces": as_pandas(sep=" "),
    "decimal commas": after(decimal_commas, as_cells(sep=";")),
    "truth values as features": after(
        lambda frame, random: frame.assign(**{name: frame[name] > 0 for name in frame.columns[2:3]}), as_pandas()
    ),
    "an index twice": after(more("number", name="Unnamed: 0"), as_pandas(index=True)),
    **{f"an index, {name}": after(more("number", name=name), as_pandas()) for name in COUNTED},
    "a column of names": after(more("name"), as_pandas()),
    "an empty column": after(more("empty"), as_pandas()),
    "masks of True and False": after(with_masks(True, False), as_cells()),
    "masks of 1 and 0": after(with_masks(1, 0), as_cells()),
    "masks named train, val, test": after(with_masks(1, 0, "{}"), as_cells()),
    "masks named is_train, is_val, is_test": after(with_masks(1, 0, "is_{}"), as_cells()),
    "no edges, hashtags and nothing else": as_pandas(),
    "parts in capitals": parts(lambda split, random: split.str.upper()),
    "parts under other names": parts(
        lambda split, random: split.str.replace("val", random.choice(("valid", "validation", "dev")))
    ),
    "a part that is missing": parts(lambda split, random: [None, *split[1:]]),
    "no header": as_pandas(header=False),
    "LINQS: no header, tabs, the label last": after(
        lambda frame, random: frame[["id", *frame.columns[2:], "label"]], as_pandas(header=False, sep="\t")
    ),
    "a number that is missing": as_rows(
        lambda rows, random: [[*rows[0][:-1], random.choice(("", "NA", "nan"))], *rows[1:]]
    ),
    "a row twice": as_rows(lambda rows, random: [*rows, rows[0]]),
    "a comment": as_cells(before=REMARK),
    "empty rows at the end": as_rows(lambda rows, random: [*rows, *[[""] * len(rows[0])] * 2]),
    "separators at ends of lines": as_rows(lambda rows, random: [[*row, ""] for row in rows], [""]),
    "sep= of a spreadsheet": as_cells(sep=";", before="sep=;\n"),
    "R write.table": as_r(names=False),
    "JSON lines": lambda frame, path, random: frame.to_json(path, orient="records", lines=True),
    "a workbook": as_workbook,
    "UTF-16": as_cells(sep="\t", encoding="utf-16"),
    "Latin-1": as_cells(encoding="latin-1"),
    "ends of lines of old": as_cells(end="\r"),
    "Parquet with an index": after(lambda frame, random: frame.set_index("id"), as_parquet()),
    "Parquet of short floats": after(
        lambda frame, random: typed("float16", *frame.columns[2:])(frame, random), as_parquet()
    ),
    "Parquet with a column of lists": after(in_lists, as_parquet()),
    "Parquet of truth values": after(
        lambda frame, random: frame.assign(label=frame["label"].map({"False": False, "True": True, None: None})),
        as_parquet(),
    ),
}
OPTIONS: dict[str, dict[str, Any]] = {  # of GraphOptions
    "Gephi": {"id_column": "Id", "label_column": "class", "ignored": ("Label", "timeset")},
    "names by option": {"id_column": "user", "label_column": "Hobby"},
    "classes by option": {"classes": "NA,EU"},
    "a column left out by option": {"ignored": ("name",)},
}
