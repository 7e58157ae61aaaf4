"""Vectors of profiles from a BERT-like model: means over the tokens of a column, then over a profile's columns.

The model runs in a process of its own (`python -m dpgraph.engine.models.text_encoder`): this module imports no torch.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from dpgraph.config.frozen import digest
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.core.files import atomic_path, read_json
from dpgraph.data.arrays import load_npy
from dpgraph.data.download import sha256_of
from dpgraph.data.readers import reading

TEXTS, ORDER, META = "texts.parquet", "order.npy", "meta.json"  # META is written last
UNAVAILABLE = 3  # exit status of the encoder for a missing checkpoint


def column_means(
    texts: dict[str, list[str]], checkpoint: Path, work: Path, special_tokens: bool = False
) -> tuple[np.ndarray, dict[str, object]]:
    """Return (n, d) float32 features of n profiles with `texts` by column, and what to say about them.

    Each distinct text is encoded once: the mean of the last hidden layer over its word pieces, special tokens included
    or not (the paper does not say). A profile's vector is the mean over its columns that hold text; zeros without any.
    A row depends on its own texts only. `work` keeps encodings, by checkpoint, texts and settings.

    Raises DataUnavailable if there is no such checkpoint, UserError in one line if the encoder fails.
    """
    weights, distinct = weights_of_texts(texts)
    if not distinct:
        raise UserError("texts hold no words: expected at least one in all")
    if not checkpoint.is_dir():
        raise DataUnavailable(f"{checkpoint}: no such folder: expected a checkpoint of transformers")
    folder = work / digest([_hash(distinct), _files(checkpoint), special_tokens], 16)
    if not (folder / META).exists():
        with atomic_path(folder / TEXTS) as path:
            pd.DataFrame({"text": distinct}).to_parquet(path)
        _encode(folder, checkpoint, special_tokens)
    with reading(folder / META) as path:
        meta = read_json(path)
        if not isinstance(meta, dict):
            raise ValueError("expected a mapping")
        return weighted_sum(weights, folder), meta


def weighted_sum(weights: sp.csr_matrix, folder: Path) -> np.ndarray:
    """Return (n, d) float32: weights (n, texts) times the vectors of the texts, file by file."""
    order = load_npy(folder / ORDER)
    if order.ndim != 1 or sorted(order) != list(range(weights.shape[1])):
        raise ValueError(f"{ORDER} is not an order of {weights.shape[1]} texts")
    by_text = weights.tocsc()
    total: np.ndarray | None = None
    number = start = 0
    while start < len(order):
        vectors = load_npy(chunk_path(folder, number))
        part = by_text[:, order[start : start + len(vectors)]] @ vectors
        total = part if total is None else total + part
        number, start = number + 1, start + len(vectors)
    return np.asarray(total, dtype=np.float32)


def chunk_path(folder: Path, number: int) -> Path:
    return folder / f"chunk-{number:05d}.npy"


def weights_of_texts(texts: dict[str, list[str]]) -> tuple[sp.csr_matrix, list[str]]:
    """Return (n, distinct texts) float32, rows of sum 1 over a profile's columns that hold text; the distinct texts."""
    cells = np.array([[text.strip() for text in column] for column in texts.values()], dtype=object)
    column, row = np.nonzero(cells != "")
    codes, distinct = pd.factorize(cells[column, row])
    filled = np.bincount(row, minlength=cells.shape[1])
    matrix = sp.coo_matrix((1 / filled[row], (row, codes)), shape=(cells.shape[1], len(distinct)))
    return matrix.tocsr().astype(np.float32), list(distinct)


def _encode(folder: Path, checkpoint: Path, special_tokens: bool) -> None:
    command = [sys.executable, "-m", "dpgraph.engine.models.text_encoder", "--texts", str(folder / TEXTS)]
    command += ["--checkpoint", str(checkpoint), "--out", str(folder)]
    run = subprocess.run(
        command + ["--special-tokens"] * special_tokens, stdout=subprocess.PIPE, text=True, check=False
    )
    if run.returncode:
        last = (run.stdout.strip().splitlines() or [f"status {run.returncode}"])[-1]
        if run.returncode == UNAVAILABLE:
            raise DataUnavailable(last)
        raise UserError(f"encoding texts ended: {last} (finished encodings are kept: run the preprocessing again)")


def _hash(distinct: list[str]) -> str:
    return hashlib.sha256("\0".join(distinct).encode()).hexdigest()


def _files(checkpoint: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in sorted(checkpoint.iterdir()) if path.is_file()}
