"""Readers, one module per file format, chosen by the registry: `read(raw_dir, **options) -> RawGraph | RawImages`."""

from __future__ import annotations

import importlib
import inspect
import lzma
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpgraph.core import outside
from dpgraph.core.errors import UserError
from dpgraph.data.raw_graph import RawGraph, RawImages
from dpgraph.data.registry import DatasetEntry


def read(entry: DatasetEntry, raw_dir: Path) -> RawGraph | RawImages:
    """Return the content of the files under `raw_dir`.

    Raises UserError in one line that names the file for a missing, truncated or malformed one.
    """
    own = Path(entry.reader) if entry.reader.endswith(".py") else None  # of a user's entry
    if own is None:
        function = importlib.import_module(f"dpgraph.data.readers.{entry.reader}").read
    else:
        function = outside.function_of(own, "read")
    try:
        inspect.signature(function).bind(raw_dir, **entry.options)
    except TypeError as error:
        raise UserError(f"options of reader {entry.reader}: {error}") from None
    if own is None:
        return function(Path(raw_dir), **entry.options)
    try:
        found = function(Path(raw_dir), **entry.options)
    except Exception as error:
        raise outside.broken(own, error) from None
    if not isinstance(found, RawGraph | RawImages):
        raise UserError(f"{own}: read gave {type(found).__name__}: expected a RawGraph")
    return found


# what parsers raise at damaged content, besides UserError
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    OSError,
    EOFError,
    SyntaxError,  # headers of arrays
    tokenize.TokenError,
    RuntimeError,  # encrypted archives, unknown compression, nesting too deep
    MemoryError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
)


def existing(path: Path) -> Path:
    """Return `path`. Raise UserError if there is no such file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; expected it among the data set's raw files (run the download again)")
    return path


def malformed(path: Path, error: Exception) -> UserError:
    text = "it asks for more than fits in memory" if isinstance(error, MemoryError) else str(error)
    reason = " ".join(text.split()) or type(error).__name__
    return UserError(
        f"{path}: expected a readable file of this data set, found damage ({reason[:200]}); "
        "delete it and run the download again"
    )


@contextmanager
def reading(path: Path, quote: bool = True) -> Iterator[Path]:
    """Yield `path` to a block that parses it; a defect becomes one UserError that names the file.

    `quote=False` leaves the parser's message out, which may hold the content of personal data.
    """
    try:
        yield existing(path)
    except UserError:
        raise
    except DAMAGE as error:
        raise malformed(path, error if quote else ValueError(type(error).__name__)) from None
