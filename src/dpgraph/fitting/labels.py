"""Labels as people write them: which text is a class, and which says that there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgraph.errors import UserError, invalid, shown
from dpgraph.fitting.own_graph import places_of


def labels_of(values: Sequence[str], given: Sequence[str] | None, where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels and the class list, from texts of which an empty one is no label."""
    array = np.asarray(values, dtype=object)
    present = np.asarray([bool(value) for value in values], dtype=bool)
    classes = tuple(given) if given is not None else tuple(sorted(set(array[present])))
    if len(set(classes)) != len(classes):
        raise invalid("--classes", ",".join(classes), "each class once")
    labels = places_of(values, classes)
    wrong = np.flatnonzero(present & (labels < 0))
    if len(wrong):
        raise UserError(f"{where}, row {wrong[0] + 2}: label={shown(array[wrong[0]])}: expected one of --classes")
    return labels, classes


def label_texts(y: np.ndarray, where: str) -> list[str]:
    """(N,) names of labels, "" for none: None, NaN and negative numbers, also where an array holds any objects."""
    import pandas as pd

    if y.dtype.kind in "iuf":
        whole = y.astype(np.float64)
        missing = ~np.isfinite(whole) | (whole < 0)
        if (whole[~missing] % 1 != 0).any():
            raise UserError(f"{where}: y: expected whole numbers, -1 for no label")
        return ["" if none else str(int(value)) for value, none in zip(whole.tolist(), missing.tolist())]
    return ["" if none else _label_text(value) for value, none in zip(y.tolist(), pd.isna(y).tolist())]


def _label_text(value: Any) -> str:
    """Of one value that is not missing; 1 and 1.0 are one class, as in arrays of numbers."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return "" if value < 0 else str(int(value)) if value % 1 == 0 else str(value)
    return str(value)
