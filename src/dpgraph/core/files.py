"""Files that are either whole or not there, folders that one process at a time works in, and causes in one line."""

import csv
import errno
import hashlib
import json
import logging
import os
import platform
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpgraph.core.errors import invalid

log = logging.getLogger("dpgraph")
LOCK, UNFINISHED = ".lock", ".unfinished."
LOCK_POLL_SECONDS = 0.2


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path` that becomes `path` when the block ends without an error.

    The temporary keeps the suffix of `path`, so that writers that choose a format by suffix work. Where the system
    fails (no space left, a quota, a read-only folder), the OSError names `path`, and the temporary is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{UNFINISHED}{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        with naming(path, temporary):
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp makes files that only their owner can read
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Give an OSError of the block the name of `path`; with a temporary, only one that names it or no file."""
    try:
        yield
    except OSError as error:
        known = temporary is None or error.filename is None or str(temporary) in (error.filename, error.filename2)
        if error.errno is None or not known:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def cause(error: OSError) -> str:
    """Return one line with the file and the reason.

    >>> cause(OSError(errno.ENOSPC, "No space left on device", "a.json"))
    'a.json: no space left on device'
    """
    reason = os.strerror(error.errno) if error.errno is not None else " ".join(str(error).split())
    reason = reason[:1].lower() + reason[1:]
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_rows(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file, as it may be open to others."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def write_json(path: Path, value: Any) -> None:
    """Write JSON. It has no `inf` or `nan`: models write these as strings before."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def check_out(path: Path, *, folder: bool = True) -> Path:
    """Return the `path` of --out. Raise UserError, before data are read, where it cannot be made."""
    expected = "a folder that can be made" if folder else "a file that can be written"
    try:
        there, above = os.path.lexists(path), next(one for one in path.absolute().parents if os.path.lexists(one))
        if path.is_dir() and not folder:
            raise invalid("--out", path, f"{expected}: it is a folder")
        if there and (folder or path.is_file()):  # and no terminal or pipe
            raise invalid("--out", path, f"a {'folder' if folder else 'file'} that does not exist yet")
        if not above.is_dir():
            raise invalid("--out", path, f"{expected}: {above} is no folder")
        if not there:  # what the system says of its rights does not tell all
            with naming(above):
                os.rmdir(tempfile.mkdtemp(prefix=f".{path.name}." if folder else None, dir=above))
        elif not os.access(path, os.W_OK):
            raise invalid("--out", path, f"{expected}: {path} may not be written")
    except OSError as error:
        raise invalid("--out", path, f"{expected}: {cause(error)}") from None
    return path


def make_private(folder: Path) -> None:
    """Let only the owner of a folder read it and its content, whatever the umask."""
    folder.chmod(0o700)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


@contextmanager
def private_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file to be made that only its owner can read (or a terminal or pipe)."""
    with open(path, "w", encoding="utf-8", newline="", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        yield file


class _Hashed:
    """A writer that hashes every byte. NumPy does not take it for a file: its own writer hides why a disk is full."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self.file.write(data)


def write_array(path: Path, array: np.ndarray) -> str:
    """Write `array` as .npy and return the SHA-256 of the file."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        hashed = _Hashed(file)
        np.save(hashed, array)  # type: ignore[arg-type]
    return hashed.hash.hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block of a folder; the others wait, and log for which process.

    A lock of the operating system (flock) on `.lock` in the folder: it ends with its process, however that ends. The
    file stays: a file that is removed and made again can be two files at once, on a network file system above all.
    Where the file system has no locks, no process waits, and a warning says so.
    """
    from filelock import FileLock, Timeout  # here: planning takes no lock

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    # no fallback: a lock by the mere existence of a file would outlive a killed process
    lock = FileLock(path, on_acquired=_sign, fallback_to_soft=False, poll_interval=LOCK_POLL_SECONDS)
    try:
        with naming(path):
            try:
                lock.acquire(blocking=False)
            except Timeout:
                log.warning("%s: waiting for %s, which uses this folder", folder, _holder(path))
                lock.acquire()
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        log.warning("%s: the file system has no locks: start no other process that writes there", folder)
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):
                os.truncate(path, 0)
            lock.release()


def _sign(file: int) -> None:
    """Write into the lock's file which process holds it: a courtesy to those that wait."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {platform.node()}".encode(), 0)


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") or "another process"
    except OSError:
        return "another process"


def sweep(folder: Path) -> None:
    """Remove what killed processes left unfinished in a folder that this process has locked."""
    for path in Path(folder).glob(f"{UNFINISHED}*"):
        path.unlink(missing_ok=True)
