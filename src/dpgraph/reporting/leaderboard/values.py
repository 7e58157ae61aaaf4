"""What a page shows of a suite as values of a script: rows of the leaderboard by column, each text once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.files import write_text
from dpgraph.reporting import formats
from dpgraph.reporting.leaderboard.standings import COLUMNS
from dpgraph.reporting.ranking import PUBLIC

NUMBERS = ("budget", "epsilon", "delta", "mean", "std", "low", "high")
FALLS_BACK = "‡"  # beside the name of a row whose method was not what its name says
EQUALS = " = "


def plain(row: dict[str, Any]) -> dict[str, Any]:
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


def columns_of(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """The rows by column, each text once: {texts, at} where texts repeat, else {values}. script.js makes rows of it.

    >>> columns_of([{"n": 1, "data": "A"}, {"n": 2, "data": "A"}])
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


def script(value: Any) -> str:
    """JSON that can stand in a script element: no text of it closes the element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def write_values(values: Mapping[str, Any], path: Path) -> None:
    """Write what the page over all suites loads of one: a page of the file system may load scripts alone."""
    write_text(path, f"suites[{json.dumps(values['suite'])}]{EQUALS}{script(values)};\n")


def read_values(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8").partition(EQUALS)[2].rstrip(";\n"))  # type: ignore[no-any-return]


def standings_of(values: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows that `page_values` packed, as `standings` made them, with eight digits."""
    columns = {
        name: [column["texts"][at] for at in column["at"]] if "texts" in column else column["values"]
        for name, column in values["rows"].items()
    }
    frame = pd.DataFrame(columns, columns=list(COLUMNS))
    frame["epsilon"] = frame["epsilon"].fillna(math.inf).where(frame["kind"] == PUBLIC, frame["epsilon"])
    frame["budget"] = frame["budget"].astype(float).fillna(math.inf)
    return frame.astype(dict.fromkeys(NUMBERS, float))
