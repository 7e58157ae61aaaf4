"""Records scaled to one length, each by itself."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """(n, F) -> (n, F) float64, each row of norm 1. A row that is zero or not finite is zero."""
    scaled = np.array(rows, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scaled /= np.abs(scaled).max(axis=1, keepdims=True, initial=0)  # squares of large numbers overflow
        scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled[~np.isfinite(scaled).all(axis=1)] = 0
    return scaled


SMALLEST = 1e-10  # of a variance over the largest one: below, a direction is rounding


def principal_axes(public: Tensor, components: int) -> tuple[Tensor, Tensor]:
    """(F,) mean and (F, k) leading axes of `public` (Q, F), each divided by the standard deviation along the first.

    k <= `components` and <= F. Of fewer rows than columns the rows' products are decomposed, which has the same axes,
    and k is below Q: only as many directions as the rows span.
    """
    mean = public.double().mean(dim=0)
    centred = public.double() - mean
    wide = len(public) < public.shape[1]
    products = (centred @ centred.T if wide else centred.T @ centred) / len(public)
    values, vectors = torch.linalg.eigh(products)
    order = values.argsort(descending=True)[:components]
    largest = values[order[:1]].clamp_min(1e-12)
    if wide:
        order = order[values[order] > SMALLEST * largest]
        vectors = centred.T @ vectors[:, order] / (len(public) * values[order]).sqrt()
    else:
        vectors = vectors[:, order]
    return public.mean(dim=0), (vectors / largest.sqrt()).float()
