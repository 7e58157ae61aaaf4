"""One file over HTTP: resumed, retried, checked against size and SHA-256, renamed when it is whole."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.core.files import naming
from dpgraph.core.progress import progress

TRIES = 4
TRIES_UNREACHABLE = 2
CONNECT_SECONDS, READ_SECONDS = 5.0, 60.0
CHUNK = 1 << 20
RETRY_STATUS = {408, 425, 429, 500, 502, 503, 504}


def sha256_of(path: Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: Path, name: str, size: int | None, sha256: str | None) -> str:
    """Return the SHA-256 of `path`. Raise UserError with both values if a known size or hash differs."""
    actual = path.stat().st_size
    if size is not None and actual < size:
        raise UserError(f"{name}: truncated, {actual} bytes: expected {size} bytes")
    if size is not None and actual > size:
        raise UserError(f"{name}: {actual} bytes: expected {size} bytes")
    digest = sha256_of(path)
    if sha256 is not None and digest != sha256:
        raise UserError(f"{name}: sha256={digest}: expected sha256 {sha256}")
    return digest


def download(
    url: str,
    target: Path,
    size: int | None = None,
    sha256: str | None = None,
    *,
    pause: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Bring `url` to `target` and return its SHA-256.

    A broken transfer leaves `<target>.part`, which the next call resumes if the server's file is still the same. Tries
    are `pause`, 2 `pause`, 4 `pause` seconds apart. Raises DataUnavailable if the host cannot be reached or has no such
    file, UserError for a truncated or corrupt one, OSError where the disk takes no more (what came stays in the part).
    """
    import requests
    import tenacity

    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    tries = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=lambda state: state.attempt_number >= _tries(state.outcome, part),
        wait=tenacity.wait_exponential(multiplier=pause),
        sleep=sleep,
        reraise=True,
    )
    try:
        tries(_transfer_all, url, part)
    except requests.exceptions.HTTPError as error:
        raise DataUnavailable(f"{url}: HTTP status {error.response.status_code}") from None
    except requests.exceptions.RequestException as error:
        raise DataUnavailable(f"{url}: {_reason(error)}") from None
    return _finish(url, part, target, size, sha256)


class _Truncated(UserError):
    """The connection ended before the file did."""


def _may_pass(error: BaseException) -> bool:
    """Return whether another try may succeed."""
    import requests

    if isinstance(error, requests.exceptions.HTTPError):
        return error.response.status_code in RETRY_STATUS
    return isinstance(error, (_Truncated, requests.exceptions.RequestException))


def _tries(outcome: Any, part: Path) -> int:
    """Return the number of tries, fewer for a host that has never answered."""
    import requests

    unreachable = isinstance(outcome.exception(), requests.exceptions.ConnectionError)
    return TRIES_UNREACHABLE if unreachable and not part.exists() else TRIES


def _transfer_all(url: str, part: Path) -> None:
    total = _transfer(url, part)
    have = part.stat().st_size
    if total is not None and have < total:
        raise _Truncated(f"{url}: truncated download, {have} bytes: expected {total} bytes (run it again)")


def _finish(url: str, part: Path, target: Path, size: int | None, sha256: str | None) -> str:
    try:
        digest = check(part, url, size, sha256)
    except UserError as error:
        _discard(part)
        raise UserError(f"{error} (deleted: run again; if it stays so, put the expected file into a mirror)") from None
    os.replace(part, target)
    _validator(part).unlink(missing_ok=True)
    return digest


def _transfer(url: str, part: Path) -> int | None:
    """Append the missing bytes to `part`; return the file's full size as the server states it."""
    import requests

    offset = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "dpgraph"}
    if offset and _validator(part).exists():
        headers |= {"Range": f"bytes={offset}-", "If-Range": _validator(part).read_text(encoding="utf-8")}
    with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS)) as response:
        if response.status_code == 416:
            _discard(part)
            raise requests.exceptions.ChunkedEncodingError("the server refused to resume")
        response.raise_for_status()
        if response.headers.get("Content-Type", "").startswith("text/html"):
            raise requests.exceptions.InvalidSchema("the server answered with a web page")
        resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
            f"bytes {offset}-"
        )
        if not resumed:
            offset = 0
        length = response.headers.get("Content-Length")
        total = offset + int(length) if length else None
        with naming(part, part), progress(f"download {url}", total or 0, "B") as bar:
            _remember(part, response.headers)
            with part.open("ab" if resumed else "wb") as file:
                bar.update(offset)
                _copy(response, file, bar)
    return total


def _copy(response: Any, file: Any, bar: Any) -> None:
    import requests
    import urllib3

    try:
        for chunk in response.raw.stream(CHUNK, decode_content=False):
            file.write(chunk)
            bar.update(len(chunk))
    except urllib3.exceptions.HTTPError as error:
        if isinstance(error, urllib3.exceptions.ProtocolError) and "Content-Length" in response.headers:
            return  # the connection broke: the caller compares sizes
        raise requests.exceptions.ChunkedEncodingError(error) from None


def _remember(part: Path, headers: Any) -> None:
    """Keep the server's mark of this version of the file. A download without one, or with a weak one, starts anew."""
    mark = headers.get("ETag") or headers.get("Last-Modified")
    if mark and not mark.startswith("W/"):
        _validator(part).write_text(mark, encoding="utf-8")
    else:
        _validator(part).unlink(missing_ok=True)


def _validator(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "the host cannot be reached"
    return " ".join(str(error).split())[:120]
