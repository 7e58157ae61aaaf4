"""Scales of features: public ranges, and a check that no few columns have nearly all of the rows' norm.

A row is scaled to norm 1, so what a column of large numbers leaves of the others is rounding. The check reads private
data. It may only refuse, on the curator's screen: no setting, no card and no release reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpgraph.core.errors import UserError, invalid, meant, shown
from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.own_graph.graph import OwnGraph, scaled_columns

MOST = 0.9  # of the mean squared norm of rows, from which columns of large numbers are refused
LARGE = 5.0  # times the lower quartile: root mean square of a column, where it is not 0
ROWS = 1 << 13  # at once
SHOWN = 5  # columns in curator/checks.json
KEPT = "as-is"

RangesGiven = Mapping[str, tuple[float, float] | None]  # public ends by column; None: as it is


def ranges_of(texts: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """Return what COLUMN=LOW:HIGH or COLUMN=as-is says in each text. Both ends are public."""
    found: dict[str, tuple[float, float] | None] = {}
    for text in texts:
        name, _, ends = text.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            bounds = None if ends == KEPT else (float(low), float(high))
        except ValueError:
            raise invalid("--range", text, f"COLUMN=LOW:HIGH, two numbers, or COLUMN={KEPT}") from None
        if name in found:
            raise invalid("--range", text, "each column once")
        found[name] = bounds
    return found


def with_ranges(own: OwnGraph, given: RangesGiven) -> OwnGraph:
    """Return the graph with -1..1 in the place of the public range of each column; all others are as they were, and
    all of them float32."""
    if not given and (own.features is None or own.features.dtype == np.float32):
        return own
    names = own.names if own.features is not None else ()
    for name, ends in given.items():
        text = f"{name}={KEPT if ends is None else ':'.join(f'{end:g}' for end in ends)}"
        if name not in names:
            there = f"of {', '.join(map(shown, names[:20]))}" if names else "of features, and there are none"
            raise invalid("--range", text, f"a column {there}{meant(name, names)}")
        if not (ends is None or (len(ends) == 2 and bool(np.isfinite(ends).all()) and ends[0] < ends[1])):
            raise invalid("--range", text, "COLUMN=LOW:HIGH with two finite numbers, LOW < HIGH")
    ranges = tuple((name, float(ends[0]), float(ends[1])) for name, ends in given.items() if ends is not None)
    features = None if own.features is None else scaled_columns(own.features, names, ranges)
    kept = tuple(name for name, ends in given.items() if ends is None)
    return replace(own, features=features, ranges=own.ranges + ranges, as_they_are=own.as_they_are + kept)


def norm_shares(features: np.ndarray) -> np.ndarray:
    """Return (F,) shares of columns in the squared norm of a row, the mean over rows that are not zero."""
    total, rows = np.zeros(features.shape[1]), 0
    for start in range(0, len(features), ROWS):
        unit = unit_rows(features[start : start + ROWS]).astype(np.float64)
        total += np.square(unit).sum(axis=0)
        rows += int(unit.any(axis=1).sum())
    return total / max(rows, 1)


def largest_shares(own: OwnGraph) -> dict[str, float]:
    """Return the shares of the columns that have most of the norm."""
    if own.features is None:
        return {}
    shares = norm_shares(own.features)
    return {own.names[place]: round(float(shares[place]), 6) for place in np.argsort(-shares, kind="stable")[:SHOWN]}


def check_scales(own: OwnGraph) -> None:
    """Raise UserError where columns of large numbers have nearly all of the norm, and are not to stay as they are."""
    if own.features is None:
        return
    sizes = _sizes(own.features)
    there = sizes[sizes > 0]
    if len(there) < 2:
        return
    large = sizes > LARGE * np.quantile(there, 0.25, method="lower")
    share = float(norm_shares(own.features)[large].sum()) if large.any() else 0.0
    named = [own.names[place] for place in np.flatnonzero(large)[np.argsort(-sizes[large], kind="stable")]]
    loud = [name for name in named if name not in own.as_they_are]
    if share >= MOST and loud:
        more = f" and {len(loud) - 3} more" if len(loud) > 3 else ""
        raise UserError(
            f"{own.where}: column {', '.join(loud[:3])}{more}: {100 * share:.1f} % of the norm of a mean row, so "
            f"that {len(there) - len(named)} other columns hardly count: give the public range (--range "
            f"{loud[0]!r}=LOW:HIGH), leave it out (--ignore {loud[0]!r}), or keep it (--range {loud[0]!r}={KEPT})"
        )


def _sizes(features: np.ndarray) -> np.ndarray:
    """Return (F,) root mean squares of columns where they are not 0; of a column of zeros, 0."""
    squares, counts = np.zeros(features.shape[1]), np.zeros(features.shape[1])
    for start in range(0, len(features), ROWS):
        rows = features[start : start + ROWS].astype(np.float64)
        squares += np.square(rows).sum(axis=0)
        counts += (rows != 0).sum(axis=0)
    return np.asarray(np.sqrt(squares / np.maximum(counts, 1)))
