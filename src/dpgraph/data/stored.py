"""A prepared data set on disk: one .npy per array, which can be memory-mapped, and a header, which is written last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator

from dpgraph.config.config import first_line
from dpgraph.config.frozen import Frozen
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.core.files import read_json, write_array, write_json
from dpgraph.data.arrays import load_npy
from dpgraph.data.download import sha256_of
from dpgraph.data.records import FIRST_PROBLEM

HEADER = "graph.json"  # of all kinds of data sets: rules and folders use one name
REMEDY = "delete graph.json next to it and run again"


class Stored(Frozen):
    """The status of a stored data set: loadable, or not for a `reason`."""

    name: str
    status: Literal["ok", "unavailable"]
    reason: str = ""
    problem: str = FIRST_PROBLEM
    statistics: dict[str, Any] = Field(default_factory=dict)


class ArraysHeader(Stored):
    """A status, and of data that can be loaded the arrays with their shapes."""

    shapes: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    sha256: dict[str, str] = Field(default_factory=dict)
    meta: dict[str, Any] = Field(default_factory=dict)

    @property
    def expected(self) -> Iterable[str]:
        """Names of the arrays."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _names(self) -> Self:
        if self.status == "ok":
            self._check_names(list(self.expected))
        return self

    def _check_names(self, expected: list[str]) -> None:
        if sorted(self.shapes) != sorted(expected):
            raise ValueError(f"shapes of {', '.join(self.shapes)}: expected those of {', '.join(expected)}")
        if not set(self.sha256) <= set(expected):
            raise ValueError(f"sha256 of {', '.join(self.sha256)}: expected those of {', '.join(expected)}")


H = TypeVar("H", bound=ArraysHeader)


def write_stored(
    folder: Path,
    name: str,
    arrays: Mapping[str, np.ndarray],
    dtypes: Mapping[str, str],
    statistics: Mapping[str, Any],
    meta: Mapping[str, Any],
    **others: Any,
) -> None:
    """Write arrays, each as its dtype, and last the header.

    The header holds the hash of every array, so that two headers are equal only if the data sets are.
    """
    folder = Path(folder)
    (folder / HEADER).unlink(missing_ok=True)
    shapes, hashes = {}, {}
    for key, value in arrays.items():
        array = np.ascontiguousarray(value, dtype=dtypes[key])
        shapes[key] = list(array.shape)
        hashes[key] = write_array(folder / f"{key}.npy", array)
    header = {"name": name, "status": "ok", "reason": "", **others, "shapes": shapes, "sha256": hashes}
    write_json(folder / HEADER, header | {"statistics": dict(statistics), "meta": dict(meta)})


def save_unavailable(name: str, reason: str, folder: Path) -> None:
    write_json(Path(folder) / HEADER, {"name": name, "status": "unavailable", "reason": reason})


def read_header(folder: Path, kind: type[H]) -> H:
    """Raise UserError for a header that is missing or damaged."""
    path = Path(folder) / HEADER
    try:
        return kind.model_validate(read_json(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected a preprocessed data set (run the preprocessing)") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = f": {first_line(error)}" if isinstance(error, ValidationError) else ""
        raise UserError(f"{path}: expected a data set's header in JSON (delete it and run again){reason}") from None


def read_arrays(folder: Path, header: ArraysHeader, dtypes: Mapping[str, str], verify: bool) -> dict[str, np.ndarray]:
    """Return the header's arrays, read-only and mapped from disk; `verify` compares hashes.

    Raises UserError for a damaged one, DataUnavailable with the recorded reason if the data could not be had.
    """
    folder = Path(folder)
    if header.status != "ok":
        raise DataUnavailable(f"{header.name}: {header.reason}")
    arrays = {name: _array(folder / f"{name}.npy", list(shape), dtypes[name]) for name, shape in header.shapes.items()}
    for name, expected in header.sha256.items() if verify else ():
        if (actual := sha256_of(path := folder / f"{name}.npy")) != expected:
            raise UserError(f"{path}: damaged, sha256={actual}: expected {expected} ({REMEDY})")
    return arrays


def _array(path: Path, shape: list[int], dtype: str) -> np.ndarray:
    try:
        array = load_npy(path, mmap=0 not in shape)  # an empty array cannot be mapped
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected an array {shape} {dtype} ({REMEDY})") from None
    except (ValueError, OSError, EOFError):
        raise UserError(f"{path}: damaged; expected an array {shape} {dtype} ({REMEDY})") from None
    if list(array.shape) != shape or array.dtype != np.dtype(dtype):
        raise UserError(
            f"{path}: found an array {list(array.shape)} {array.dtype}; expected {shape} {dtype} ({REMEDY})"
        )
    array.flags.writeable = False
    return array
