"""Protection by an epsilon: relation, scope, premises of its formula that failed, and reads that it does not cover.

Rows of results and tables carry this as the texts of `guarantee`. Epsilons are compared within one relation and scope
only: where a table or figure has several, it lists them.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.privacy.guarantee import MODE_NAMES, Mode
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.formats import DASH

MODES: tuple[Mode, ...] = ("published", "rigorous")
MARK = "†"
UNLIKE = "Relation or scope differ between runs: their ε are no common scale, equal ones do not promise the same."
BETWEEN = "; "  # texts of one column


def joined(texts: Iterable[str]) -> str:
    return BETWEEN.join(text.replace(BETWEEN, ", ") for text in texts)


def parted(text: Any) -> list[str]:
    """Return the texts of one column; none for a missing value."""
    return text.split(BETWEEN) if isinstance(text, str) and text else []


def mark(row: Mapping[str, Any]) -> str:
    """Return `MARK` where a private run reads data that no epsilon covers, else an empty text."""
    return MARK if parted(row["uncovered"]) and row["eps_rigorous"] != math.inf else ""


def both(row: Mapping[str, Any], name: str) -> str:
    """Return relation or scope of both epsilons, once where they agree; a dash without privacy or result.

    >>> row = {"eps_published": 2.0, "relation_published": "node-remove", "relation_rigorous": "none"}
    >>> both(row | {"eps_rigorous": float("nan")}, "relation")
    'node-remove / none'
    """
    texts = [row[f"{name}_{mode}"] if row[f"eps_{mode}"] != math.inf else "" for mode in MODES]
    shown = [text if isinstance(text, str) and text else DASH for text in texts]
    return shown[0] if shown[0] == shown[1] else " / ".join(shown)


def promise_of(row: Mapping[str, Any], mode: str) -> str:
    """Return e.g. `node-null, parameters`; empty where the epsilon is none or infinite."""
    if not np.isfinite(row[f"eps_{mode}"]):
        return ""
    return ", ".join([*parted(row[f"relation_{mode}"]), *parted(row[f"scope_{mode}"])])


def kinds(table: pd.DataFrame, mode: str) -> dict[str, list[str]]:
    """Return the labels of the runs by relation and scope of one epsilon, in the order of the rows.

    Left out is what depends on no record: its epsilon of 0 holds in every sense.
    """
    rows = table.to_dict("records")
    kept = (row for row in rows if row[f"eps_{mode}"] != 0 or row[f"scope_{mode}"] != Scope.ALL_OUTPUTS)
    return _labels((promise_of(row, mode), row["label"]) for row in kept)


def unlike(table: pd.DataFrame) -> bool:
    """Return whether proved epsilons of more than one relation or scope are next to each other."""
    return len(kinds(table, "rigorous")) > 1


def remarks(table: pd.DataFrame) -> list[str]:
    """Return the remarks below a table: its relations and scopes in words, and reads that its epsilons do not cover."""
    sentences = [UNLIKE] if unlike(table) else []
    sentences += [f"{name[0].upper()}{name[1:]}: {one.meaning}." for name, one in _named(table).items()]
    return sentences + _premises(table) + uncovered(table)


def brief(table: pd.DataFrame) -> list[str]:
    """Return `remarks` for a paper: each relation and scope in a few words, and reads that no epsilon covers."""
    words = "; ".join(f"{name}: {one.short}" for name, one in _named(table).items())
    labels = dict.fromkeys(label for runs in _unmet(table).values() for label in runs)
    return [
        *([f"{words[0].upper()}{words[1:]}."] if words else []),
        *([f"ε claimed with premises that do not hold for what ran: {', '.join(labels)}."] if labels else []),
        *uncovered(table),
    ]


def _named(table: pd.DataFrame) -> dict[str, Relation | Scope]:
    """Return every relation and scope of the finite epsilons of a table, by e.g. `relation node-null`."""
    found: dict[str, Relation | Scope] = {}
    for head, words in (("relation", Relation), ("scope", Scope)):
        names = dict.fromkeys(
            name
            for mode in MODES
            for row in table[np.isfinite(table[f"eps_{mode}"])].to_dict("records")
            for name in parted(row[f"{head}_{mode}"])
        )
        found |= {f"{head} {name}": words(name) for name in names if name != words.NONE}
    return found


def caption(points: pd.DataFrame) -> list[str]:
    """Return the sentences below a figure: relation and scope of its epsilons, by run where they differ."""
    if "source" in points:
        points = points[points["source"] == "ours"]
    by_mode: dict[Mode, str] = {}
    for mode in MODES:
        by_kind = kinds(points, mode)
        runs = (f"{kind} ({', '.join(labels)})" for kind, labels in by_kind.items())
        by_mode[mode] = next(iter(by_kind), "") if len(by_kind) < 2 else "; ".join(runs)
    if by_mode["published"] == by_mode["rigorous"]:
        by_name = {"claimed and proved": by_mode["rigorous"]}
    else:
        by_name = {MODE_NAMES[mode]: text for mode, text in by_mode.items()}
    sentences = [f"{name.capitalize()} ε: {text}." for name, text in by_name.items() if text]
    if unlike(points):
        sentences.append("Unlike relations or scopes: their ε are no common scale.")
    return sentences + _premises(points) + uncovered(points)


def _unmet(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the labels of runs by each premise of the claimed epsilon that does not hold for them."""
    return by_text(table[table["eps_published"].notna()], "published_unmet")


def _premises(table: pd.DataFrame) -> list[str]:
    return [f"Premise of ε claimed that does not hold for what ran ({', '.join(labels)}): {text}."
            for text, labels in _unmet(table).items()]  # fmt: skip


def uncovered(table: pd.DataFrame) -> list[str]:
    """Return the meaning of `MARK` in this table, a remark for each text."""
    texts = by_text(table[table["eps_rigorous"] != math.inf], "uncovered")
    return [f"{MARK} Reads private data, and no ε covers it ({', '.join(labels)}): {text}."
            for text, labels in texts.items()]  # fmt: skip


def by_text(table: pd.DataFrame, column: str) -> dict[str, list[str]]:
    """Return the labels of the runs by each distinct text of a column."""
    pairs = dict.fromkeys(zip(table[column], table["label"], strict=True))
    return _labels((text, label) for texts, label in pairs for text in parted(texts))


def _labels(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    """Return distinct labels by text, both in their order; those of an empty text are left out."""
    found: dict[str, dict[str, None]] = {}
    for text, label in pairs:
        if text:
            found.setdefault(text, {})[str(label)] = None
    return {text: list(labels) for text, labels in found.items()}
