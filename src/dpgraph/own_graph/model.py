"""A released model: a folder of safetensors and JSON (no pickle), loaded only if it is whole, and its predictions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from pydantic import Field, ValidationError, model_validator

from dpgraph.config.config import first_line
from dpgraph.config.frozen import Finite
from dpgraph.core.errors import UserError, invalid, shown
from dpgraph.core.files import make_private, write_rows
from dpgraph.families.votes.ballots import SMALLEST, Ballots
from dpgraph.families.votes.learnt import LEAST_UNIT, LearntReader
from dpgraph.families.votes.rows import RowMean, scaled_rows
from dpgraph.families.votes.sensitivity import ROW_NORM
from dpgraph.own_graph.budget import LEARNT
from dpgraph.own_graph.graph import MOST_NUMBERS, Ranges, length_rows, places_of, scaled_columns
from dpgraph.own_graph.risk import weakness
from dpgraph.privacy.relation import Relation

PARAMETERS, HEADER = "model.safetensors", "model.json"
PYG = "release.pt"
FORMAT = 3
PRIVATE, SEED_KNOWN = "private", "not private: seed known"
FOLDERS = ("release", "not-private")  # where `fit` puts a model: with secret noise, and with that of a known seed
LARGEST = 1e30  # of a number in a model: sums of larger ones might be none


def status_of(secret: bool, advantage: float | None) -> str:
    """Return the word that a release is called by, and more words where its promise is weak."""
    return SEED_KNOWN if not secret else weakness(advantage or 0.0) or PRIVATE


class Header(Finite):
    """model.json. Everything in it is public or released."""

    format: int
    kind: Annotated[str, Field(pattern=f"^(votes|own|{LEARNT})$")]
    ids: Annotated[tuple[str, ...], Field(min_length=2)]
    classes: Annotated[tuple[str, ...], Field(min_length=2)]
    columns: tuple[str, ...]
    num_features: Annotated[int, Field(ge=1, le=MOST_NUMBERS)]
    degree_features: bool
    directed: bool
    mass: Annotated[float, Field(ge=1e-9, le=1e9)]
    std: Annotated[float, Field(ge=0, le=1e18)]  # of the noise in the buckets
    secret: bool
    sha256: str  # of model.safetensors
    relation: Relation = Relation.NODE_NULL
    shrinkage: Annotated[float, Field(ge=0, le=1000)]  # of the reader of the buckets
    strength: Annotated[float, Field(ge=0, le=1000)]
    mean_std: Annotated[float, Field(gt=0, le=1e18)] | None = None  # of the noise in the sum of the rows; None: no sum
    signed: bool = False  # whether features may be negative, so that all are kept
    ranges: Ranges = ()  # of columns: their public ends become -1 and 1, of new nodes, too
    advantage: Annotated[float, Field(ge=0, le=1)] | None = None  # an attacker's; None: a known seed, an older model

    @model_validator(mode="after")
    def _whole(self) -> Header:
        for name in ("ids", "classes", "columns"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name}: expected each one once")
        if self.columns and len(self.columns) != self.num_features:
            raise ValueError(f"columns: expected none or {self.num_features}, found {len(self.columns)}")
        if any(name not in self.names or not low < high for name, low, high in self.ranges):
            raise ValueError("ranges: expected columns, each with LOW < HIGH")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of features; of an array, their places."""
        return self.columns or tuple(f"feature {place}" for place in range(self.num_features))

    @property
    def holds_buckets(self) -> bool:
        """Under node-remove a bucket is its owner's and no part of a model."""
        return self.kind != "own" and self.relation is not Relation.NODE_REMOVE


@dataclass(frozen=True, eq=False)
class SavedModel:
    """softmax regression on rows of one norm, buckets (N, C + 1) of votes or none, and the noisy sum of all rows or
    none, which says how a row is made of a record."""

    header: Header
    weight: np.ndarray  # (C, F'), F' features that `mean` keeps
    bias: np.ndarray  # (C,)
    buckets: np.ndarray | None
    row_sum: np.ndarray | None = None  # (F,)
    learnt: LearntReader | None = None  # of the buckets, in the place of the header's

    @property
    def status(self) -> str:
        """Return what each exported file says of itself."""
        return status_of(self.header.secret, self.header.advantage)

    @property
    def mean(self) -> RowMean | None:
        if self.row_sum is None or self.header.mean_std is None:
            return None
        return RowMean(self.row_sum, self.header.mean_std, self.header.signed, len(self.header.ids))

    def _own(self, features: np.ndarray) -> np.ndarray:
        """Return (n, C) probabilities of records (n, num_features) by themselves."""
        rows = scaled_rows(features, self.mean).astype(np.float64) * ROW_NORM
        return softmax(rows @ self.weight.T.astype(np.float64) + self.bias)

    def predict(self, features: np.ndarray | None, lists: list[list[str]] | None = None) -> np.ndarray:
        """Return (n, C) probabilities of new nodes, from their records: features, and ids of old nodes in their lists.

        `features` are as they were given to `fit`, and None for a model without any, which reads the lists' lengths.
        A new node has not voted, so that it has no bucket and no share in one. Raises UserError for unknown ids and
        for numbers that are not finite.
        """
        if lists is not None and (
            isinstance(lists, str) or any(isinstance(one, str) or not isinstance(one, Iterable) for one in lists)
        ):
            raise invalid("lists", lists, "a list of ids for each node, such as [['12', '7'], []]")
        if features is None:
            if not self.header.degree_features or lists is None:
                raise invalid("features", None, "none only with lists and a model without features")
            features = length_rows(np.array([len(set(one)) for one in lists], dtype=np.int64))
        try:
            rows = np.array(features, dtype=np.float64)
        except (TypeError, ValueError):
            raise invalid("features", features, f"rows of {self.header.num_features} numbers") from None
        if rows.ndim != 2 or rows.shape[1] != self.header.num_features:
            raise invalid("features", rows.shape, f"rows of {self.header.num_features} numbers")
        scaled = scaled_columns(rows, self.header.names, self.header.ranges)
        wrong = np.flatnonzero(~(np.isfinite(rows) & np.isfinite(scaled)).all(axis=1))
        if len(wrong):
            raise UserError(f"features, row {wrong[0]}: expected finite numbers (fill them in by public ones)")
        own = self._own(scaled)
        if lists is not None and self.header.relation is Relation.NODE_REMOVE:
            raise UserError("lists of new nodes: expected none: under node-remove buckets are for their owners alone")
        if self.buckets is None or lists is None:
            return own
        if len(lists) != len(own):
            raise invalid("lists", len(lists), f"one for each of {len(own)} nodes")
        sets = [sorted({str(node) for node in one}) for one in lists]  # places in arrays are ids, too
        flat = [one for row in sets for one in row]
        places = places_of(flat, self.header.ids)
        if (places < 0).any():
            raise invalid("list", flat[int((places < 0).argmax())], "ids of nodes that the model was trained with")
        ptr = np.concatenate([[0], np.cumsum([len(row) for row in sets])])
        chosen = sp.csr_matrix((np.ones(len(flat)), places, ptr), shape=(len(sets), len(self.header.ids)))
        factor = 1 / np.sqrt(np.diff(ptr) + 1.0)
        voters = np.maximum(self.buckets[:, -1] / self.header.mass, 1.0)
        trust = voters / (voters**2 + (self.header.shrinkage * self.header.std) ** 2)
        read = chosen @ (self.buckets[:, :-1] * trust[:, None])
        return softmax(self._scores(own, factor[:, None] * read))

    def _scores(self, own: np.ndarray, read: np.ndarray) -> np.ndarray:
        """Return scores (n, C) from own probabilities (n, C) and read buckets (n, C)."""
        strength = self.header.strength
        if self.learnt is not None:
            return self.learnt.scores(own, max(strength, LEAST_UNIT) * read)
        return np.log(own + SMALLEST) + strength * read

    def outputs(self) -> np.ndarray:
        """Return (N, C) rows of old nodes from the release alone: a node's own bucket, without its record or share."""
        if self.buckets is None:
            raise UserError("scope=all-outputs: expected a model with votes: own records are no part of a release")
        none = sp.csr_matrix((len(self.buckets), len(self.buckets)))
        empty = Ballots(none, np.zeros(len(self.buckets), dtype=bool), 1)
        header = self.header
        read = empty.read(self.buckets, np.zeros_like(self.buckets), header.mass, header.std, header.shrinkage)
        return softmax(self._scores(np.full_like(read, 1 / len(header.classes)), read))

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save

        learnt = self.learnt
        reader = None if learnt is None else (np.array([learnt.factor]), learnt.weight, learnt.bias)
        names = ("weight", "bias", "buckets", "row_sum", "reader_factor", "reader_weight", "reader_bias")
        arrays = zip(names, (self.weight, self.bias, self.buckets, self.row_sum, *(reader or ())))
        data = save({name: np.ascontiguousarray(one, dtype=np.float64) for name, one in arrays if one is not None})
        header = self.header.model_copy(update={"sha256": hashlib.sha256(data).hexdigest()})
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PARAMETERS).write_bytes(data)
        (folder / HEADER).write_text(header.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def write_csv(self, folder: Path) -> list[Path]:
        """Write parameters.csv, buckets.csv where there are votes, reader.csv of a learnt reader, and row_sum.csv
        where rows are centred: the whole release as tables.

        The names of all begin with not-private where the seed is known: a table has no other place for a mark."""
        folder = self._made(folder)
        header = self.header
        columns = header.names
        rows = [
            [name, *weights, bias]
            for name, weights, bias in zip(header.classes, self.weight.tolist(), self.bias.tolist())
        ]
        kept = range(len(columns)) if self.mean is None else self.mean.kept.tolist()
        tables = {"parameters.csv": ([["class", *(columns[place] for place in kept), "bias"], *rows])}
        if self.row_sum is not None:
            sums = [[name, value] for name, value in zip(columns, self.row_sum.tolist())]
            tables["row_sum.csv"] = [["feature", "noisy sum of the rows"], *sums]
        if self.buckets is not None:
            heads = ["id", *(f"votes for {name}" for name in header.classes), "mass of voters"]
            tables["buckets.csv"] = [heads, *([name, *row] for name, row in zip(header.ids, self.buckets.tolist()))]
        if self.learnt is not None:
            learnt, classes = self.learnt, header.classes
            rows = [[f"votes for {name}", *row] for name, row in zip(classes, learnt.weight.tolist())]
            rows += [["own probability's logarithm", *[learnt.factor] * len(classes)], ["bias", *learnt.bias.tolist()]]
            tables["reader.csv"] = [["what is read", *(f"score of {name}" for name in classes)], *rows]
        mark = "" if header.secret else f"{FOLDERS[1]}-"
        paths = [folder / f"{mark}{name}" for name in tables]
        for path, lines in zip(paths, tables.values(), strict=True):
            write_rows(path, lines)
        self._close(folder)
        return paths

    def _made(self, folder: Path) -> Path:
        folder = Path(folder)
        folder.mkdir(0o777 if self.header.secret else 0o700, parents=True)
        return folder

    def _close(self, folder: Path) -> None:
        """Let only the owner read a folder that protects no one."""
        if not self.header.secret:
            make_private(folder)

    def to_pyg(self) -> Any:
        """Return the release as `torch_geometric.data.Data`: `buckets` (N, C + 1), `weight`, `bias`; no edges.

        `status` says whether it is private.

        With votes also `predictions` (N, C), a function of the buckets.
        """
        import torch
        from torch_geometric.data import Data

        data = Data(
            num_nodes=len(self.header.ids), weight=torch.from_numpy(self.weight), bias=torch.from_numpy(self.bias)
        )
        if self.buckets is not None:
            data.buckets, data.predictions = torch.from_numpy(self.buckets), torch.from_numpy(self.outputs())
        if self.row_sum is not None:
            data.row_sum = torch.from_numpy(self.row_sum)
        if self.learnt is not None:
            data.reader_factor = self.learnt.factor
            data.reader_weight, data.reader_bias = (
                torch.from_numpy(one) for one in (self.learnt.weight, self.learnt.bias)
            )
        data.ids, data.classes, data.status = list(self.header.ids), list(self.header.classes), self.status
        return data

    def write_pyg(self, folder: Path) -> list[Path]:
        """Write release.pt, the dictionary of `to_pyg` with tensors and lists of texts; no class is pickled.

        It is read by `Data.from_dict(torch.load("release.pt"))`.
        """
        import torch

        data = self.to_pyg()
        path = self._made(folder) / PYG
        torch.save(data.to_dict(), path)
        self._close(path.parent)
        return [path]


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def load(folder: str | Path) -> SavedModel:
    """Return the model in a folder `release/` or `not-private/` (of a known seed), or in a folder with one of them.

    Example: rows = dpgraph.load("mine").predict(features)

    Raises UserError for anything else.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_arrays

    try:
        folder = Path(folder)
    except TypeError:
        raise invalid("folder", folder, "a path") from None
    folder = next((folder / name for name in FOLDERS if (folder / name).is_dir()), folder)
    try:
        header = Header.model_validate_json((folder / HEADER).read_bytes())
        data = (folder / PARAMETERS).read_bytes()
    except ValidationError as error:
        raise UserError(f"{folder / HEADER}: {first_line(error)}") from None
    except OSError as error:
        raise UserError(f"{folder}: expected {HEADER} and {PARAMETERS}: {error.strerror}") from None
    if header.format != FORMAT:
        raise invalid(f"{folder / HEADER}: format", header.format, str(FORMAT))
    if hashlib.sha256(data).hexdigest() != header.sha256:
        raise UserError(f"{folder / PARAMETERS}: damaged: expected the file that {HEADER} names by its hash")
    try:
        arrays = load_arrays(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / PARAMETERS}: expected a file of safetensors: {shown(str(error))}") from None
    size = len(header.classes)
    found = {name: array.shape for name, array in arrays.items()}
    width, wanted = header.num_features, dict[str, tuple[int, ...]](bias=(size,))
    if header.mean_std is not None:
        wanted["row_sum"] = (width,)
        if found.get("row_sum") == (width,):
            width = len(RowMean(arrays["row_sum"], header.mean_std, header.signed).kept)
    wanted["weight"] = (size, width)
    if header.holds_buckets:
        wanted["buckets"] = (len(header.ids), size + 1)
    if header.kind == LEARNT:
        wanted |= {"reader_factor": (1,), "reader_weight": (size, size), "reader_bias": (size,)}
    if found != wanted or not all(_usable(array) for array in arrays.values()):
        raise UserError(f"{folder / PARAMETERS}: arrays {shown(found)}: expected finite {shown(wanted)} of float64")
    learnt = None
    if header.kind == LEARNT:
        factor = float(arrays["reader_factor"][0])
        learnt = LearntReader(factor, arrays["reader_weight"], arrays["reader_bias"])
    rest = arrays.get("buckets"), arrays.get("row_sum"), learnt
    return SavedModel(header, arrays["weight"], arrays["bias"], *rest)


def _usable(array: np.ndarray) -> bool:
    return array.dtype == np.float64 and bool((np.abs(array) <= LARGEST).all())


def as_json(value: object) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"
