"""Lists of edges: which two columns hold the ids of the ends, and which node each of them is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgraph.core.errors import UserError, shown
from dpgraph.own_graph.graph import places_of
from dpgraph.own_graph.table_files import FileTable, is_number, read_table

PAIRS = (
    "source target", "src dst", "src dest", "source destination", "source dest", "from to", "u v", "node1 node2",
    "id1 id2", "user1 user2", "start end", "sender receiver", "citing cited", "ego alter", "follower followee", "i j",
    "row col",
)  # fmt: skip
# names of columns that number rows, as pandas, R and data bases write them
NUMBERS_ROWS = re.compile(r"unnamed: \d+|index|level_0|__index_level_\d+__|row\.?_?(id|names?|number)?|rownames", re.I)
FORMS = 100  # ids whose form is looked at


@dataclass(frozen=True, eq=False)
class EdgeTable:
    path: Path
    names: tuple[str, str]  # of the columns of the ends
    ends: tuple[list[str], list[str]]
    first: int  # number of the first row
    read: str  # how it was read, in words

    def row(self, place: int) -> str:
        return f"{self.path}, row {place + self.first}"


def read_edges(path: Path, ids: Sequence[str], source: str | None = None, target: str | None = None) -> EdgeTable:
    """Return the two columns of ends: those of these names, of a usual pair of names, or the only two.

    `ids`: those that an edge may name; a first row with one of them, with a number or with a cell like an id has no
    names of columns. Raises UserError where it is not sure which columns they are.
    """
    path, forms = Path(path), _forms(ids[:FORMS])

    def has_names(cells: Sequence[str]) -> bool:
        if source is not None and {source, target} <= set(cells):
            return True
        among = bool((places_of(cells, ids) >= 0).any())
        if among and _pairs(cells):
            raise UserError(f"{path}: is the first row, {', '.join(map(shown, cells[:20]))}, an edge or the names of "
                            "columns? Expected names that are no ids")  # fmt: skip
        return not (among or any(map(is_number, cells)) or _forms(cells) & forms)

    table = read_table(path, has_names)
    if len(table.names) < 2:
        raise UserError(f"{path}: {len(table.names)} column: expected two with the ids of the ends, separated by "
                        "commas, tabs, semicolons or blanks")  # fmt: skip
    chosen = _chosen(table, source, target)
    unread = [name for name in table.names if name not in chosen]
    read = f"{path.name}: {table.form}; ends: {', '.join(map(shown, chosen))}"
    read += f"; not read: {', '.join(map(shown, unread))}" if unread else ""
    first, second = (table.texts(name, "edges") for name in chosen)
    return EdgeTable(path, chosen, (first, second), table.first, read)


def _chosen(table: FileTable, source: str | None, target: str | None) -> tuple[str, str]:
    names = table.names
    if source is not None or target is not None:
        if source is None or target is None or source == target:
            raise UserError("--source, --target: expected both, each a column of --edges")
        for name, option in ((source, "--source"), (target, "--target")):
            table.texts(name, option)
        return source, target
    pairs = _pairs(names)
    if len(pairs) == 1:
        return pairs[0]
    if len(names) == 2 and not any(map(NUMBERS_ROWS.fullmatch, names)):
        return names[0], names[1]
    raise UserError(f"{table.path}: columns {', '.join(map(shown, names[:20]))}: expected names such as source and "
                    "target (or --source and --target, which name the columns of the ends)")  # fmt: skip


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of columns whose names say that they are ends."""
    by_form: dict[str, list[str]] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        by_form.setdefault(re.sub(r"(node)?(id)?$", "", plain) or plain, []).append(name)
    pairs = [pair.split() for pair in PAIRS]
    return [(one, two) for first, second in pairs for one in by_form.get(first, ()) for two in by_form.get(second, ())]


def _forms(texts: Sequence[str]) -> set[str]:
    """Return n0 for n17: forms of texts with digits, which show that a text is an id even where it is unknown."""
    return {re.sub(r"\d+", "0", text) for text in texts if re.search(r"\d", text)}


def find_ends(table: EdgeTable, ids: Sequence[str], nodes: Path) -> list[np.ndarray]:
    """Return the place of each end in `ids`. Raises UserError for one that is none of them."""
    found = []
    for name, texts in zip(table.names, table.ends, strict=True):
        places = places_of(texts, ids)
        wrong = np.flatnonzero(places < 0)
        if len(wrong):
            text = texts[int(wrong[0])]
            raise UserError(f"{table.row(int(wrong[0]))}, column {shown(name)}: {shown(text)}: expected an id of "
                            f"{nodes}")  # fmt: skip
        found.append(places)
    return found
