"""Records scaled to one length, each by itself."""

from __future__ import annotations

import numpy as np


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """(n, F) -> (n, F) float64, each row of norm 1. A row that is zero or not finite is zero."""
    scaled = np.array(rows, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scaled /= np.abs(scaled).max(axis=1, keepdims=True, initial=0)  # squares of large numbers overflow
        scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled[~np.isfinite(scaled).all(axis=1)] = 0
    return scaled
