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
FLOAT = r"(-?(0|[1-9]\d{0,14})(\.0+)?|-?\d\.\d+[eE][+-]\d\d)?"
EXACT = 1e15
LEAST_ENDS = 0.5  # cells that are ids, from which a column may be one of ends, some of which are wrong
SHAPES = 100  # ids whose form is looked at
UNNAMED = re.compile(r"Unnamed: \d+|column \d+")
# names of columns that number rows, as pandas, R and data bases write them
WEIGHTS = re.compile(r"w|weights?|values?|adj(acency)?|connected|linked", re.I)  # in a table of all pairs 0 is no edge
NUMBERS_ROWS = re.compile(r"unnamed: \d+|index|level_0|__index_level_\d+__|row\.?_?(id|names?|number)?|rownames", re.I)


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
    """Return the two columns of ends: those of these names, of a usual pair of names, or by content.

    `ids`: those that an edge may name. Raises UserError where it is not sure which columns they are, or whether the
    first row has their names.
    """
    path = Path(path)
    forms = _shapes(ids[:SHAPES])
    named = [name for name in (source, target) if name is not None]

    def judge(cells: Sequence[str]) -> bool | None:
        if named and set(named) <= set(cells):
            return True
        among = places_of(cells, ids) >= 0
        pairs = _pairs(cells)
        sure = len(pairs) == 1
        if sure and not among[list(pairs[0])].any():
            return True
        if sure or (among.sum() == 1 and not all(map(is_number, cells))):
            found = ", ".join(map(shown, cells[:20]))
            raise UserError(f"{path}: is the first row, {found}, an edge or the names of columns? Some of it are ids: "
                            "expected names that are no ids, such as source,target, in the first row")  # fmt: skip
        data = among.any() or any(map(is_number, cells)) or _shapes(cells) & forms
        return False if data else None

    table = read_table(path, judge)
    _check_first(table)
    names = [name for name in table.names if not (name in table.empty and UNNAMED.fullmatch(name))]
    if len(names) < 2:
        raise UserError(f"{path}: {len(names)} column: expected two with the ids of the ends, separated by commas, "
                        "tabs, semicolons or blanks")  # fmt: skip
    chosen = _chosen(table, names, ids, source, target)
    unread = [name for name in names if name not in chosen]
    read = f"{path.name}: {table.form}; ends: {', '.join(map(shown, chosen))}"
    read += f"; not read: {', '.join(map(shown, unread))}" if unread else ""
    kinds = {kind for name in unread if name.casefold() == "type" for kind in set(table.texts(name, ""))}
    if len(kinds) == 1:
        read += f" (type is {shown(kinds.pop())}: --directed says how edges are read)"
    if not named:
        _check_weights(table, unread)
    first, second = (table.texts(name, "edges") for name in chosen)
    if not table.header and [first[0], second[0]] == [str(len(ids)), str(len(first) - 1)]:
        raise UserError(f"{path}, row {table.first}: {first[0]} {second[0]}: an edge, or how many nodes and edges "
                        "there are? Expected a header such as source,target, or no such row")  # fmt: skip
    return EdgeTable(path, chosen, (first, second), table.first, read)


def _check_weights(table: FileTable, unread: Sequence[str]) -> None:
    """Raise UserError for a weight of 0, as a table of all pairs of nodes has it where there is no edge."""
    import pandas as pd

    for name in unread:
        if WEIGHTS.fullmatch(name):
            cells = table.columns[name].replace({"False": "0", "false": "0", "FALSE": "0"})
            zero = np.flatnonzero(pd.to_numeric(cells, errors="coerce").to_numpy() == 0)
            if len(zero):
                raise UserError(f"{table.path}, row {zero[0] + table.first}, column {shown(name)}: 0: an edge or "
                                "none? Expected edges alone (with --source and --target each row is one)")  # fmt: skip


def _check_first(table: FileTable) -> None:
    """Raise UserError where the first row is taken for an edge and has names that are ids, such as 0 and 1."""
    first = [column.iloc[0] for column in table.columns.values() if len(column)]
    if not table.header and first and not first[0] and any(first):
        raise UserError(f"{table.path}, row {table.first}: {', '.join(map(shown, first[:20]))}: names of columns "
                        "that are ids? Expected others, such as source,target")  # fmt: skip


def _chosen(
    table: FileTable, names: list[str], ids: Sequence[str], source: str | None, target: str | None
) -> tuple[str, str]:
    if source is not None or target is not None:
        if source is None or target is None or source == target:
            raise UserError("--source, --target: expected both, each a column of --edges")
        for name, option in ((source, "--source"), (target, "--target")):
            table.texts(name, option)
        return source, target
    pairs = _pairs(names)
    if len(pairs) == 1:
        return names[pairs[0][0]], names[pairs[0][1]]
    advice = f"{table.path}: columns {', '.join(map(shown, names[:20]))}: expected names such as source and target " \
             "(or --source and --target, which name the columns of the ends)"  # fmt: skip
    if len(names) == 2:
        if any(NUMBERS_ROWS.fullmatch(name) for name in names):
            raise UserError(advice)
        return names[0], names[1]
    shares = [float((find_ids(table.texts(name, ""), ids) >= 0).mean()) for name in names]
    of_ids = [name for name, share in zip(names, shares, strict=True) if share == 1]
    counted = bool(of_ids) and _numbers_rows(table.texts(of_ids[0], ""))
    if table.comments and not table.header and of_ids[:2] == names[:2] and not counted:
        return names[0], names[1]  # as SNAP and KONECT have them: weights and times follow
    unsure = len(of_ids) != 2 or any(LEAST_ENDS <= share < 1 for share in shares)
    if unsure or NUMBERS_ROWS.fullmatch(of_ids[0]) or counted:
        raise UserError(advice)
    return of_ids[0], of_ids[1]


def _pairs(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of pairs of columns whose names say that they are ends."""
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    short = [re.sub(r"(node)?(id)?$", "", name) or name for name in plain]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(short):
        places.setdefault(name, []).append(place)
    pairs = [pair.split() for pair in PAIRS]
    return [(one, two) for first, second in pairs for one in places.get(first, ()) for two in places.get(second, ())]


def _shapes(texts: Sequence[str]) -> set[str]:
    """Return n0 for n17: forms of texts with digits, which show that a text is an id even where it is unknown."""
    return {re.sub(r"\d+", "0", text) for text in texts if re.search(r"\d", text)}


def _numbers_rows(texts: Sequence[str]) -> bool:
    """Return whether cells are 0, 1, 2, ... or 1, 2, 3, ..."""
    return len(texts) > 1 and any(texts == list(map(str, range(low, low + len(texts)))) for low in (0, 1))


def find_ends(table: EdgeTable, ids: Sequence[str], nodes: Path) -> list[np.ndarray]:
    """Return the place of each end in `ids`. Raises UserError for one that is none of them."""
    found = []
    for name, texts in zip(table.names, table.ends, strict=True):
        places = find_ids(texts, ids)
        wrong = np.flatnonzero(places < 0)
        if len(wrong):
            text = texts[int(wrong[0])]
            alike = _alike(text, ids)
            raise UserError(f"{table.row(int(wrong[0]))}, column {shown(name)}: {shown(text)}: expected an id of "
                            f"{nodes}{alike}")  # fmt: skip
        found.append(places)
    return found


def find_ids(texts: Sequence[str], ids: Sequence[str]) -> np.ndarray:
    """Return the place of each text in `ids`, -1 for none. 69.0 is 69 where all ids are whole numbers.

    How a text is read depends on `ids` and on no other text: no edge says which nodes another one joins.
    """
    places = places_of(texts, ids)
    rest = np.flatnonzero(places < 0)
    if len(rest):
        known, are_whole = _whole(ids)
        if are_whole.all() and len(set(known)) == len(known):
            places[rest] = places_of(_whole([texts[place] for place in rest.tolist()])[0], known)
    return places


def without_decimals(texts: Sequence[str]) -> Sequence[str]:
    """Return whole numbers without decimals, or `texts` as they are where some are none."""
    plain, are_whole = _whole(texts)
    return plain if are_whole.all() else texts


def _whole(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return 69 for 69.0, as whole numbers are written next to a missing one, and for 6.9e+01, and all other texts as
    they are; and which are whole or empty. Beyond 15 digits a float is not exact, and with zeros in front a text is no
    number."""
    import pandas as pd

    series = pd.Series(texts, dtype=str)
    numbers = pd.to_numeric(series.where(series.str.fullmatch(FLOAT), "nan"), errors="coerce")
    whole = (numbers % 1 == 0) & (numbers.abs() < EXACT)
    decimals = whole & series.str.contains(".", regex=False)
    plain = series.where(~decimals, numbers.where(whole, 0).astype(np.int64).astype(str))
    return plain.tolist(), (whole | (series == "")).to_numpy()


def _alike(text: str, ids: Sequence[str]) -> str:
    """Say which id is this one in another form."""
    import pandas as pd

    def plain(series: pd.Series) -> pd.Series:
        return series.str.casefold().str.strip("'\" ").str.replace(r"\.0+$", "", regex=True).str.lstrip("0")

    wanted = plain(pd.Series([text], dtype=str))[0]
    same = np.flatnonzero((plain(pd.Series(ids, dtype=str)) == wanted) & bool(text.strip()))
    return f", which has {shown(ids[int(same[0])])}: expected the same form in both files" if len(same) else ""
