"""A graph on disk: one .npy per array, which can be memory-mapped, and graph.json, which is written last."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from dpgraph.data.download import sha256_of
from dpgraph.data.graph import Graph
from dpgraph.data.statistics import statistics
from dpgraph.errors import DataUnavailable, UserError
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
    return Status(**{key: header[key] for key in Status.model_fields if key in header})


def load_graph(folder: Path, mmap: bool = True, verify: bool = False) -> Graph:
    """The graph; with `mmap` its arrays stay on disk until they are read. `verify` reads them and compares hashes.

    Raises DataUnavailable with the recorded reason if the data could not be had, UserError for a damaged array.
    """
    folder = Path(folder)
    header = _header(folder)
    if header["status"] != "ok":
        raise DataUnavailable(f"{header['name']}: {header['reason']}")
    arrays = {
        name: _array(folder / f"{name}.npy", shape, DTYPES[name], mmap) for name, shape in header["shapes"].items()
    }
    for name, expected in header.get("sha256", {}).items() if verify else ():
        if (found := sha256_of(path := folder / f"{name}.npy")) != expected:
            raise UserError(f"{path}: damaged, sha256={found}: expected {expected} ({REMEDY})")
    if header["symmetric"]:
        arrays["in_ptr"], arrays["in_idx"] = arrays["out_ptr"], arrays["out_idx"]
    return Graph(name=header["name"], num_classes=header["num_classes"], meta=header["meta"], **arrays)


def _header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = read_json(path)
        return header if isinstance(header["status"], str) and isinstance(header["name"], str) else {}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected a preprocessed graph (run the preprocessing)") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: expected a graph's header in JSON (delete it and run again)") from None


def _array(path: Path, shape: list[int], dtype: str, mmap: bool) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r" if mmap and 0 not in shape else None, allow_pickle=False)
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
