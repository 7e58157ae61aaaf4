"""Labels as people write them: which text is a class, and which says that there is none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, invalid, meant, shown
from dpgraph.own_graph.graph import places_of

MISSING = frozenset(("", "nan", "na", "n/a", "#n/a", "<na>", "nat", "none", "null", "\\n", "?", "-", "--", ".", "-1"))
DOUBTFUL = frozenset(("unknown", "unlabeled", "unlabelled", "missing", "n.a.", "(blank)", "undefined", "unspecified"))
NEGATIVE = re.compile(r"-\d+")
WHOLE = re.compile(r"([+-]?\d+)\.0*")
DECIMAL = re.compile(r"[+-]?\d*[.,]\d+(e[+-]?\d+)?", re.IGNORECASE)
MANY, FEW = 20, 5  # classes, and labels of a class on average: with more, and fewer, no column of classes


@dataclass(frozen=True, eq=False)
class Labels:
    places: np.ndarray  # (N,) int64 in `classes`, -1: none
    classes: tuple[str, ...]
    missing: dict[str, int]  # texts that mean no label, and how many there are; those of empty cells left out


def read_labels(
    values: Sequence[str], given: Sequence[str] | None, where: str, *, first: int = 2, missing: Sequence[str] = ()
) -> Labels:
    """Return the labels that texts name. `given`: the class list; `missing`: more texts that mean no label.

    `first` is the number of the first row. 1.0 and 1 are one class. A text that usually means a missing value is no
    label unless `given` names it. Raises UserError for classes that are not given or that are one in two forms, and
    where most texts are labels of few nodes.
    """
    import pandas as pd

    codes, distinct = pd.factorize(np.asarray(values, dtype=object))
    texts = [_whole(str(text).strip()) for text in distinct]
    known = [_whole(name.strip()) for name in given or ()]
    if len(set(known)) != len(known) or "" in known:
        raise invalid("--classes", known, "each class once, and none that is empty")
    more = [_whole(text) for text in missing]
    absent = [text not in known and (text.casefold() in MISSING or text in more) for text in texts]
    counts = np.bincount(codes, minlength=len(texts))
    if given is None:
        known = sorted({text for text, none in zip(texts, absent, strict=True) if not none})
        labelled = int(counts[~np.asarray(absent, dtype=bool)].sum())
        _check_classes(known, labelled, where)
    places = places_of(texts, known)
    places[np.asarray(absent, dtype=bool)] = -1
    wrong = np.flatnonzero(((places < 0) & ~np.asarray(absent, dtype=bool))[codes])
    if len(wrong):
        text = str(distinct[codes[wrong[0]]]).strip()
        raise UserError(f"{where}, row {wrong[0] + first}: label={shown(text)}: expected one of --classes, "
                        f"{shown(known)}{meant(text, known)}")  # fmt: skip
    said: dict[str, int] = {}
    for text, none, count in zip(texts, absent, counts.tolist(), strict=True):
        if none and text:
            said[text] = said.get(text, 0) + count
    if given is None and len(known) < 2 and said:
        raise UserError(f"{where}: classes={', '.join(known) or 'none'}: expected at least 2: labels {', '.join(said)} "
                        "mean none, unless --classes names them")  # fmt: skip
    return Labels(places[codes], tuple(given) if given is not None else tuple(known), said)


def _check_classes(classes: Sequence[str], labelled: int, where: str) -> None:
    """Raise UserError where the texts of a column of labels are no classes, or some are one class in two forms."""
    advice = "cut numbers into ranges, name another column (--label), or state the classes (--classes)"
    decimal = next((text for text in classes if DECIMAL.fullmatch(text)), None)
    if decimal is not None:
        raise UserError(f"{where}: label={shown(decimal)}: a number with decimals: expected classes: {advice}")
    if len(classes) > MANY and labelled < FEW * len(classes):
        raise UserError(f"{where}: {len(classes)} distinct labels of {labelled} nodes: expected classes of several "
                        f"nodes each: {advice}")  # fmt: skip
    doubtful = next((text for text in classes if text.casefold() in DOUBTFUL or NEGATIVE.fullmatch(text)), None)
    if doubtful is not None:
        raise UserError(f"{where}: label={shown(doubtful)}: a class, or none? Expected the classes stated (--classes), "
                        f"or an empty cell for none (--missing={doubtful!r})")  # fmt: skip
    forms: dict[str, str] = {}
    for text in classes:
        form = "".join(unicodedata.normalize("NFKC", text).casefold().split())
        form = form.lstrip("0") if form.isdigit() else form
        other = forms.setdefault(form, text)
        if other != text:
            raise UserError(f"{where}: labels {shown(other)} and {shown(text)} differ in case, spaces or form only: "
                            "expected one form of each class, or both in --classes")  # fmt: skip


def _whole(text: str) -> str:
    """Return 1 for 1.0, as a table has it where some labels are missing."""
    found = WHOLE.fullmatch(text)
    return found[1] if found else text


def label_texts(y: np.ndarray, where: str) -> list[str]:
    """Return (N,) names of labels, "" for None and NaN; -1 is "-1", which means none unless it is a class."""
    import pandas as pd

    if y.dtype.kind in "iuf":
        found = np.isfinite(y)
        if (y[found] % 1 != 0).any() or (y < -1).any():
            raise UserError(f"{where}: y: expected whole numbers, -1 for no label")
        if y.dtype.kind == "f" and (y[found] >= 2.0 ** (np.finfo(y.dtype).nmant + 1)).any():
            raise UserError(f"{where}: y of {y.dtype}: labels so large are not exact: expected whole numbers of an "
                            "integer type, or texts")  # fmt: skip
        return [str(int(value)) if there else "" for value, there in zip(y.tolist(), found.tolist())]
    return ["" if none else _label_text(value) for value, none in zip(y.tolist(), pd.isna(y).tolist())]


def _label_text(value: Any) -> str:
    """Return the name of a value that is not missing; 1 and 1.0 are one class, as in arrays of numbers."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return str(int(value)) if value % 1 == 0 else str(value)
    return str(value)
