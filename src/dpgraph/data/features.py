"""Public feature transforms: each row depends on that row only, so that they cost no privacy."""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import numpy_generator

Features: TypeAlias = np.ndarray | sp.csr_matrix


def transform(features: Features, name: str) -> Features:
    """Return features (N, F) after transform `name`; sparse stays sparse unless projected.

    raw: unchanged. l1: rows whose absolute values sum to 1. l2: rows of norm 1. project-D: rows of norm 1 times a
    Gaussian matrix (F, D) of standard normals, drawn from a generator keyed by F and D: coordinates have variance about
    1, rows norm about sqrt(D), and inner products are kept in expectation, times D. Rows of zeros stay zeros.
    """
    if name == "raw":
        return features
    if name == "l1":
        return _scaled(features, np.asarray(abs(features).sum(axis=1)).ravel())
    if name == "l2":
        return normalise_rows(features)
    match = re.fullmatch(r"project-([1-9]\d*)", name)
    if not match:
        raise invalid("features", name, "raw, l1, l2 or project-D with D >= 1")
    return project(normalise_rows(features), int(match[1]))


def normalise_rows(features: Features) -> Features:
    """Return rows divided by their L2 norm; rows of zeros stay."""
    if not isinstance(features, np.ndarray):
        return _scaled(features, np.sqrt(np.asarray(features.multiply(features).sum(axis=1))).ravel())
    return _scaled(features, np.sqrt(np.einsum("nf,nf->n", features, features, dtype=np.float64)))


def _scaled(features: Features, norms: np.ndarray) -> Features:
    if not isinstance(features, np.ndarray):
        return sp.diags(_inverse(norms)).dot(features).tocsr().astype(np.float32)
    return features * _inverse(norms)[:, None]


def project(features: Features, dimension: int) -> np.ndarray:
    """Return (N, D) float32 features @ R; R (F, D) has standard normals, the same for every data set of F features."""
    width = features.shape[1]
    matrix = numpy_generator("features", "project", width, dimension).standard_normal(
        (width, dimension), dtype=np.float32
    )
    return np.asarray(features @ matrix, dtype=np.float32)


def dense(features: Features) -> np.ndarray:
    """Return (N, F) float32, C order."""
    if not isinstance(features, np.ndarray):
        features = features.toarray()
    return np.ascontiguousarray(features, dtype=np.float32)


def _inverse(norms: np.ndarray) -> np.ndarray:
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)
