"""Means of pre-trained fastText word vectors (Bojanowski et al., 2017; Grave et al., 2018)."""

from __future__ import annotations

import gzip
import mmap
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path
from dpgraph.data.readers import reading

BINARY, GZIP = b"\xba\x16\x4f\x2f", b"\x1f\x8b"  # magic numbers: fastText's, little-endian, and gzip's
DICTIONARY = struct.calcsize("<2i12id")  # where it begins in a .bin file
TOKENS = re.compile(r"\w+|[^\w\s]")  # words and single punctuation marks, in their own case


def mean_vectors(documents: list[str], path: Path) -> tuple[np.ndarray, dict[str, object]]:
    """Return (n, d) float32 mean of the vectors of a document's tokens, and what to say about it.

    `path`: a .bin file, gzipped or not, whose subwords give every token a vector. Documents without a token are zeros.
    A row depends on its document only. Raises UserError for a file that is damaged or supervised, and without gensim.
    """
    words, counts = token_counts(documents)
    totals = np.asarray(counts.sum(axis=1), dtype=np.float32)
    means = np.asarray(counts @ _from_binary(path, words), dtype=np.float32) / np.maximum(totals, 1)
    return means, {"vectors": "fastText .bin, subwords included", "tokens": len(words)}


def token_counts(documents: list[str]) -> tuple[list[str], sp.csr_matrix]:
    """Return the distinct tokens and how often each document has them, (n, tokens) float32."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(tokenizer=TOKENS.findall, token_pattern=None, lowercase=False, dtype=np.float32)
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError:
        raise UserError("texts hold no words: expected at least one in all") from None
    return vectorizer.get_feature_names_out().tolist(), counts.tocsr()


def _from_binary(path: Path, words: list[str]) -> np.ndarray:
    """Return vectors (V, d). It loads the whole model, several GB for those of Grave et al."""
    try:
        from gensim.models.fasttext import load_facebook_vectors
    except ImportError:
        raise UserError(f"{path}: expected the package gensim to read it (pip install 'dpgraph[text]')") from None
    with reading(path):
        plain = _unpacked(path)
        check_binary(plain)
        try:
            model = load_facebook_vectors(str(plain))
            return np.stack([model[word] for word in words]).astype(np.float32)
        except (NotImplementedError, AssertionError) as error:
            expected = "expected whole word vectors, neither supervised nor quantised"
            raise UserError(f"{path}: a fastText model that cannot be used: {expected}") from error


def check_binary(path: Path) -> None:
    """Raise ValueError unless the counts in a .bin file agree with its size: at its end gensim would read on for ever.

    The file holds a magic number and a version, 12 integers and a double of settings, the dictionary (each word ends
    with a zero byte, then a count and a type), and the matrix of vectors, each with its sizes before it.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(BINARY)] != BINARY:
            raise ValueError("no model of fastText: its magic number is another one")
        dimension = struct.unpack_from("<i", content, 8)[0]
        size, _, _, _, pruned = struct.unpack_from("<3i2q", content, DICTIONARY)
        place = DICTIONARY + struct.calcsize("<3i2q")
        for _ in range(size):
            end = content.find(b"\0", place)
            if end < 0:
                raise ValueError(f"its dictionary ends before its {size} words")
            place = end + 1 + struct.calcsize("<qb")
        place += 8 * max(pruned, 0)
        quantised, rows, columns = struct.unpack_from("<?2q", content, place)
        needed, left = 4 * rows * columns, len(content) - place - struct.calcsize("<?2q")
        if not quantised and (rows < 0 or columns != dimension or needed > left):
            raise ValueError(f"{rows} x {columns} numbers of {dimension} dimensions in {left} bytes")


def _unpacked(path: Path) -> Path:
    """Return a plain file of the same content: gensim reads a gzipped model wrongly, without an error."""
    with path.open("rb") as file:
        if file.read(2) != GZIP:
            return path
    plain = path.with_name(f"{path.name}.unpacked")
    if not plain.exists() or plain.stat().st_mtime < path.stat().st_mtime:
        with gzip.open(path, "rb") as packed, atomic_path(plain) as temporary, temporary.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 22)
    return plain
