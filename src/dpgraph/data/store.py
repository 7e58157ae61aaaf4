"""A graph on disk: one .npy per array, which can be memory-mapped, and graph.json, which is written last."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from dpgraph.data.arrays import load_npy
from dpgraph.data.checks import problem, problem_of_values
from dpgraph.data.download import sha256_of
from dpgraph.data.graph import Graph
from dpgraph.data.statistics import statistics
from dpgraph.errors import DataUnavailable, UserError
from dpgraph.experiments.config import first_line
from dpgraph.experiments.frozen import Frozen
from dpgraph.files import read_json, write_array, write_json

HEADER = "graph.json"
REMEDY = "delete graph.json beside it and run again"
IN_ARRAYS = ("in_ptr", "in_idx")
DTYPES = {
    "out_ptr": "int64",
    "out_idx": "int32",
    "in_ptr": "int64",
    "in_idx": "int32",
    "features": "float32",
    "labels": "int64",
    "split": "uint8",
}


class Status(Frozen):
    """Whether a stored data set can be loaded; `reason` says why not."""

    name: str
    status: Literal["ok", "unavailable"]
    reason: str = ""
    statistics: dict[str, Any] = Field(default_factory=dict)


class Header(Status):
    """graph.json: a status, and of data that can be loaded the arrays with their shapes."""

    num_classes: int = Field(default=0, ge=0)
    symmetric: bool = False
    shapes: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    sha256: dict[str, str] = Field(default_factory=dict)
    meta: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _shapes(self) -> Header:
        if self.status == "ok":
            expected = [name for name in DTYPES if not (self.symmetric and name in IN_ARRAYS)]
            if sorted(self.shapes) != sorted(expected):
                raise ValueError(f"shapes of {', '.join(self.shapes)}: expected those of {', '.join(expected)}")
            if not set(self.sha256) <= set(expected):
                raise ValueError(f"sha256 of {', '.join(self.sha256)}: expected those of {', '.join(expected)}")
        return self


def save_graph(graph: Graph, folder: Path) -> None:
    """Writes `graph`; a graph whose lists by owner and by node pointed to are the same object stores them once.

    The header holds the hash of every array, so that two headers are equal only if the graphs are.
    """
    folder = Path(folder)
    (folder / HEADER).unlink(missing_ok=True)
    symmetric = graph.in_ptr is graph.out_ptr and graph.in_idx is graph.out_idx
    shapes, hashes = {}, {}
    for name, dtype in DTYPES.items():
        if symmetric and name in IN_ARRAYS:
            continue
        array = np.ascontiguousarray(getattr(graph, name), dtype=dtype)
        shapes[name] = list(array.shape)
        hashes[name] = write_array(folder / f"{name}.npy", array)
    write_json(
        folder / HEADER,
        {
            "name": graph.name,
            "status": "ok",
            "reason": "",
            "num_classes": graph.num_classes,
            "symmetric": symmetric,
            "shapes": shapes,
            "sha256": hashes,
            "statistics": statistics(graph),
            "meta": graph.meta,
        },
    )


def save_unavailable(name: str, reason: str, folder: Path) -> None:
    write_json(Path(folder) / HEADER, {"name": name, "status": "unavailable", "reason": reason})


def load_status(folder: Path) -> Status:
    """Status, reason and statistics; reads graph.json only."""
    header = _header(Path(folder))
    return Status(**{key: getattr(header, key) for key in Status.model_fields})


def load_graph(folder: Path, mmap: bool = True, verify: bool = False) -> Graph:
    """The graph; with `mmap` the features stay on disk until they are read.

    Lists, labels and split are what `Graph` promises, or it is refused. `verify` reads everything: it compares hashes,
    and checks that features are finite and each edge stands in both lists.
    Raises DataUnavailable with the recorded reason if the data could not be had, UserError for a damaged array.
    """
    folder = Path(folder)
    header = _header(folder)
    if header.status != "ok":
        raise DataUnavailable(f"{header.name}: {header.reason}")
    arrays = {
        name: _array(folder / f"{name}.npy", list(shape), DTYPES[name], mmap) for name, shape in header.shapes.items()
    }
    for name, expected in header.sha256.items() if verify else ():
        if (found := sha256_of(path := folder / f"{name}.npy")) != expected:
            raise UserError(f"{path}: damaged, sha256={found}: expected {expected} ({REMEDY})")
    if header.symmetric:
        arrays["in_ptr"], arrays["in_idx"] = arrays["out_ptr"], arrays["out_idx"]
    wrong = problem(arrays, header.num_classes, header.symmetric)
    if wrong is None and verify:
        wrong = problem_of_values(arrays, header.symmetric)
    if wrong is not None:
        raise UserError(f"{folder / wrong[0]}.npy: {wrong[1]} ({REMEDY})")
    return Graph(name=header.name, num_classes=header.num_classes, meta=header.meta, **arrays)


def _header(folder: Path) -> Header:
    path = folder / HEADER
    try:
        return Header.model_validate(read_json(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected a preprocessed graph (run the preprocessing)") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = f": {first_line(error)}" if isinstance(error, ValidationError) else ""
        raise UserError(f"{path}: expected a graph's header in JSON (delete it and run again){reason}") from None


def _array(path: Path, shape: list[int], dtype: str, mmap: bool) -> np.ndarray:
    try:
        array = load_npy(path, mmap)
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
