"""Splits as masks or indices of nodes: what is outside of the training nodes is held out."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from dpgraph.core.errors import UserError

MASK = re.compile(r"(train|val|valid|validation|dev|test)_?(masks?|idx|index|indices|ids?)")
ROLES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}


def mask_roles(given: Mapping[str, np.ndarray], size: int, where: str) -> np.ndarray | None:
    """Return the name of the role of each node; None without masks.

    `given`: such as train_mask, valid_idx or (in a split of its own) test. A node in none of them is held out, or
    trains if there is no training mask. Raises UserError for several splits, an overlap, and all that is no mask.
    """
    masks: dict[str, np.ndarray] = {}
    for name, value in given.items():
        found = MASK.fullmatch(name)
        role = ROLES.get(found[1] if found else name)
        if role is None:
            raise UserError(f"{where}.{name}: expected train, val or test")
        if role in masks:
            raise UserError(f"{where}.{name}: {role} again: expected one mask of it")
        masks[role] = _mask(value, found[2] if found else "", size, f"{where}.{name}")
    if not masks:
        return None
    twice = np.flatnonzero(np.sum([*masks.values()], axis=0) > 1)
    if len(twice):
        both = " and ".join(role for role, mask in masks.items() if mask[twice[0]])
        raise UserError(f"{where}: node {twice[0]} is in {both}: expected one role of each node (split= states them)")
    return np.select([*masks.values()], [*masks], default="test" if "train" in masks else "train")


def _mask(array: np.ndarray, kind: str, size: int, what: str) -> np.ndarray:
    """Return (N,) bool of a mask, or of the indices of nodes."""
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim == 2:
        several = array.shape[1] if array.shape[0] == size else array.shape[0]
        raise UserError(f"{what}: {several} splits: expected one, or split= with a role for each node")
    if kind.startswith("mask") or array.dtype.kind == "b":
        if array.shape == (size,) and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all():
            return array == 1
        raise UserError(f"{what} of shape {array.shape}, type {array.dtype}: expected true or false for each of {size} "
                        "nodes (of indices: split={'train': indices})")  # fmt: skip
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < size):
        raise UserError(f"{what} of shape {array.shape}, type {array.dtype}: expected indices of nodes, 0..{size - 1}")
    if len(np.unique(array)) < len(array):
        raise UserError(f"{what}: a node again: expected the index of each node once")
    mask = np.zeros(size, dtype=bool)
    mask[array.astype(np.int64)] = True
    return mask
