"""Records before training: scaled to one length, or projected on principal axes of public rows."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Return the rows (n, F) as float64, each scaled to norm 1; rows that are zero or not finite become zero."""
    scaled = np.array(rows, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scaled /= np.abs(scaled).max(axis=1, keepdims=True, initial=0)  # squares of large numbers overflow
        scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled[~np.isfinite(scaled).all(axis=1)] = 0
    return scaled


SMALLEST = 1e-10  # of a variance over the largest one: below, a direction is rounding


def principal_axes(public: Tensor, components: int) -> tuple[Tensor, Tensor]:
    """Return the mean (F,) and the leading principal axes (F, k) of public rows (Q, F).

    The axes are divided by the standard deviation along the first one; k is at most `components` and F. With fewer rows
    than columns the rows' products are decomposed, which gives the same axes, and k < Q: the rows span no more
    directions. Public rows cost no privacy.
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
