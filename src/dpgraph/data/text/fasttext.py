"""Means of pre-trained fastText word vectors (Bojanowski et al., 2017; Grave et al., 2018)."""

from __future__ import annotations

import gzip
import re
import shutil
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from dpgraph.data.readers import existing, malformed
from dpgraph.errors import UserError
from dpgraph.files import atomic_path

BINARY, GZIP = b"\xba\x16\x4f\x2f", b"\x1f\x8b"  # fastText's magic number, little-endian; gzip's
TOKENS = re.compile(r"\w+|[^\w\s]")  # words and single punctuation marks, in their own case


def mean_vectors(documents: list[str], path: Path) -> tuple[np.ndarray, dict[str, object]]:
    """(n, d) float32 mean of the vectors of a document's tokens, and what to say about it.

    `path`: a .bin file, whose subwords give every token a vector, or a .vec file, where tokens without one are left
    out; either may be gzipped, whatever its name. Documents without a token are zeros. A row depends on its document
    only. Raises UserError for a damaged or supervised model, and where a .bin file needs gensim and there is none.
    """
    words, counts = token_counts(documents)
    if _beginning(existing(path)) == BINARY:
        vectors, known = _from_binary(path, words), np.ones(len(words), dtype=bool)
        source = "fastText .bin, subwords included"
    else:
        vectors, known = _from_text(path, words)
        source = "fastText .vec, tokens without a vector left out"
    counts = counts[:, np.flatnonzero(known)]
    totals = np.asarray(counts.sum(axis=1), dtype=np.float32)
    means = np.asarray(counts @ vectors[known], dtype=np.float32) / np.maximum(totals, 1)
    meta: dict[str, object] = {"vectors": source, "tokens": len(words), "tokens_with_vector": int(known.sum())}
    return means, meta


def token_counts(documents: list[str]) -> tuple[list[str], sp.csr_matrix]:
    """The distinct tokens and how often each document has them, (n, tokens) float32."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(tokenizer=TOKENS.findall, token_pattern=None, lowercase=False, dtype=np.float32)
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError:
        raise UserError("texts hold no words: expected at least one in all") from None
    return vectorizer.get_feature_names_out().tolist(), counts.tocsr()


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP
    return gzip.open(path, "rb") if zipped else path.open("rb")  # type: ignore[return-value]


def _beginning(path: Path) -> bytes:
    try:
        with _open(path) as file:
            return file.read(len(BINARY))
    except (OSError, EOFError, zlib.error) as error:
        raise malformed(path, error) from None


def _from_binary(path: Path, words: list[str]) -> np.ndarray:
    """(V, d). The whole model is loaded, several GB for those of Grave et al."""
    try:
        from gensim.models.fasttext import load_facebook_vectors
    except ImportError:
        raise UserError(f"{path}: expected the package gensim to read it (pip install 'dpgraph[text]')") from None
    try:
        model = load_facebook_vectors(_unpacked(path))
        return np.stack([model[word] for word in words]).astype(np.float32)
    except NotImplementedError:
        raise UserError(f"{path}: a supervised or quantised fastText model: expected one of word vectors") from None
    except (ValueError, OSError, EOFError, AssertionError, zlib.error, MemoryError) as error:
        raise malformed(path, error) from None


def _unpacked(path: Path) -> str:
    """A plain file of the same content: gensim reads a gzipped model without complaint, and wrongly."""
    with path.open("rb") as file:
        if file.read(2) != GZIP:
            return str(path)
    plain = path.with_name(f"{path.name}.unpacked")
    if not plain.exists() or plain.stat().st_mtime < path.stat().st_mtime:
        with _open(path) as packed, atomic_path(plain) as temporary, temporary.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 22)
    return str(plain)


def _from_text(path: Path, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """(V, d) vectors and (V,) which tokens have one; streams the file and keeps the tokens that occur."""
    place = {word.encode(): index for index, word in enumerate(words)}
    known = np.zeros(len(words), dtype=bool)
    try:
        with _open(path) as file:
            header = file.readline().split()
            if len(header) != 2 or not all(part.isdigit() for part in header):
                raise ValueError("its first line is not the numbers of words and of dimensions")
            count, dimension = map(int, header)
            vectors = np.zeros((len(words), dimension), dtype=np.float32)
            lines = 0
            for lines, line in enumerate(file, 1):
                word, _, numbers = line.partition(b" ")
                index = place.get(word)
                if index is not None and not known[index]:
                    values = np.array(numbers.split(), dtype=np.float32)
                    if len(values) != dimension:
                        raise ValueError(f"line {lines + 1} has {len(values)} numbers instead of {dimension}")
                    vectors[index], known[index] = values, True
            if lines != count:
                raise ValueError(f"{lines} words instead of {count}")
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise malformed(path, error) from None
    return vectors, known
