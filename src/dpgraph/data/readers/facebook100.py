"""Facebook100 (Traud, Mucha and Porter, 2012): friendships within a campus, class year, and what users state.

The task of GAP and ProGAP (Sajadmanesh et al., 2023, section 6.1). Personal data: this module computes on it and never
prints a row, not even in an error.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.io import loadmat

from dpgraph.data.raw_graph import RawGraph, frequent_classes
from dpgraph.data.readers import reading

YEAR, COLUMNS = 5, 7  # of local_info, where 0 is missing
STATED = (0, 1, 2, 3, 4)  # status, gender, major, second major, dorm: features. The high school is left out
MOST_VALUES = 10_000  # of a column of the files; more would be another file


def read(raw_dir: Path, campus: str, least_in_class: int) -> RawGraph:
    """Return the users of class years with `least_in_class` or more users who have a friend among these.

    Class = year, ascending. Features: one column for each value of status, gender, major, second major and dorm that
    occurs among them, 1 where the user states it; 0 means not stated.
    """
    with reading(raw_dir / f"{campus}.mat", quote=False) as path:
        content = loadmat(path, variable_names=["A", "local_info"])
        friends = sp.coo_matrix(content["A"])
        friends.eliminate_zeros()  # a stored zero is no friendship
        stated = np.asarray(content["local_info"])
        if stated.ndim != 2 or stated.shape[1] != COLUMNS or friends.shape != (len(stated), len(stated)):
            raise ValueError("expected a square adjacency and seven columns for each user")
        whole = np.rint(stated.astype(np.float64))
        if not np.array_equal(whole, stated) or whole.min(initial=0) < 0 or whole[:, STATED].max(initial=0) > 2**31:
            raise ValueError("expected codes that are integers >= 0")
        codes = whole.astype(np.int64)
    years = np.unique(codes[codes[:, YEAR] > 0, YEAR])
    if len(years) > MOST_VALUES:
        raise ValueError("more years than any file of this data set has")
    labels = np.where(codes[:, YEAR] > 0, np.searchsorted(years, codes[:, YEAR]), -1)
    # the codes travel as features, so that they lose the same nodes
    raw = RawGraph(friends.row, friends.col, codes[:, STATED].astype(np.float64), labels, None, directed=False)
    kept = frequent_classes(raw, least_in_class)
    features = np.concatenate([_stated(column) for column in np.asarray(kept.features).T], axis=1)
    seen = "the feature columns: values that occur among the nodes"
    return replace(kept, features=features, data_dependent=(*kept.data_dependent, seen))


def _stated(codes: np.ndarray) -> np.ndarray:
    """Return (n, values) float32 0 or 1: one column for each code above 0, ascending."""
    return (codes[:, None] == np.unique(codes[codes > 0])[None, :]).astype(np.float32)
