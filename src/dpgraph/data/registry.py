"""The data sets of the registry: names, sources of their files and expected statistics."""

from __future__ import annotations

import math
import pkgutil
import re
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from dpgraph.config.documents import text_of, yaml_value
from dpgraph.config.frozen import Frozen
from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid, shown
from dpgraph.data.records import FIRST_PROBLEM

MOST_FILES = 10_000  # of one entry that numbers them
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
READERS = tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).with_name("readers"))])))
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _inside(path: str) -> str:
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r}: expected a relative path without ..")
    return path


def _known_reader(name: str) -> str:
    if name not in READERS and not name.endswith(".py"):
        raise ValueError(f"{shown(name)!r}: expected a Python file (.py), or one of {', '.join(READERS)}")
    return name


RelativePath = Annotated[str, AfterValidator(_inside)]
Reader = Annotated[str, AfterValidator(_known_reader)]
Option = bool | int | float | str | tuple[str, ...] | tuple[int, ...]


class Source(Frozen):
    """One place where a file may be had; `mirror` is relative to a mirror's root."""

    mirror: RelativePath | None = None
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    bytes: Annotated[int, Field(ge=0)] | None = None
    sha256: Sha256 | None = None
    note: str = Field(default="", description="What makes these bytes differ from upstream's, if they do")

    @model_validator(mode="after")
    def _somewhere(self) -> Source:
        if self.mirror is None and self.url is None:
            raise ValueError("expected mirror, url or both")
        return self


class Wheel(Frozen):
    """A wheel of a Python package index that has the files of a data set in `folder`, byte for byte."""

    requirement: Annotated[str, Field(pattern=r"^[\w.-]+==[\w.]+$")]
    python: Annotated[str, Field(pattern=r"^\d+$")] = Field(description="Version that the wheel is for")
    platform: str = Field(description="Platform that the wheel is for; which one does not matter")
    folder: RelativePath
    bytes: Annotated[int, Field(ge=0)]
    sha256: Sha256
    licence: str = Field(description="Of the package; that of the data is the entry's")


class File(Frozen):
    """A file in the raw folder: from the first of `sources` that has it, else from `member` of the entry's archive.

    Where the entry has a wheel, files still missing are taken from there.
    """

    path: RelativePath
    sources: tuple[Source, ...] = ()
    member: RelativePath | None = None


class Licence(Frozen):
    name: str
    url: str = ""
    notice: str = ""


class Expected(Frozen):
    """Statistics of the public graph, symmetrised, without self-loops and duplicates; None: not asserted."""

    nodes: int | None = None
    entries: int | None = Field(default=None, description="Directed: an undirected edge counts twice")
    mean_degree: float | None = Field(default=None, description="entries / nodes, compared at the first decimal")
    features: int | None = None
    words: float | None = Field(default=None, description="Features that are not 0 in a mean record; None: most")
    signed: bool | None = Field(default=None, description="Whether features may be negative, as those of embeddings")
    classes: int | None = None
    split: tuple[int, int, int] | None = Field(default=None, description="Official train, validation and test nodes")


class DatasetEntry(Frozen):
    """One data set."""

    problem: Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)*$")] = FIRST_PROBLEM
    """The learning problem, a folder of dpgraph.problems"""
    title: str
    home: str
    licence: Licence
    citation: str = Field(description="BibTeX")
    reader: Reader = Field(description="Module of dpgraph.data.readers; of a user's entry also a Python file")
    options: dict[str, Option] = Field(default_factory=dict, description="Keyword arguments of the reader")
    archive: Source | None = None
    wheel: Wheel | None = None
    files: tuple[File, ...] = ()
    expected: Expected = Expected()
    degree_bound: Annotated[int, Field(ge=1)] | None = None
    """Most edges of a node, assumed to be a public rule of where the data come from"""
    variant_of: str | None = Field(default=None, description="The entry of which this one is a declared variant")
    parts: tuple[str, ...] = ()
    """The entries whose records this one joins: the one trained on, the one tested on"""
    upstream: tuple[str, ...] = ()
    """Features that the publishers computed over all records before these files; no epsilon covers it"""
    shows_no_person: bool = False
    """Its pictures show no person and no writing of one who is named: galleries are kept"""
    notes: str = ""

    @field_validator("files", mode="before")
    @classmethod
    def _numbered(cls, value: Any) -> Any:
        """Write out the 400 files of `numbers: [40, 10]`: in path and sources, {0} is 1..40 and {1} is 1..10."""
        return [one for item in value for one in _each(item)] if isinstance(value, list) else value

    @model_validator(mode="after")
    def _files_have_a_source(self) -> DatasetEntry:
        for file in self.files:
            if not file.sources and file.member is None:
                raise ValueError(f"files.{file.path}: expected sources, or a member of the archive")
            if file.member is not None and self.archive is None:
                raise ValueError(f"files.{file.path}: expected an archive for member {file.member}")
            if self.wheel is not None and not any(source.sha256 for source in file.sources):
                raise ValueError(f"files.{file.path}: expected a source with sha256, as the entry has a wheel")
        return self


def _each(item: Any) -> list[Any]:
    if not isinstance(item, dict) or "numbers" not in item:
        return [item]
    numbers, rest = item["numbers"], {key: value for key, value in item.items() if key != "numbers"}
    whole = isinstance(numbers, list) and all(type(one) is int and one >= 1 for one in numbers)
    if not (whole and numbers and math.prod(numbers) <= MOST_FILES):
        raise ValueError(f"numbers={shown(numbers)}: expected positive integers, {MOST_FILES} files at most")
    return [_filled(rest, place) for place in product(*(range(1, one + 1) for one in numbers))]


def _filled(value: Any, place: tuple[int, ...]) -> Any:
    """Return the value with the numbers in place of {0}, {1}, ... in its texts."""
    if isinstance(value, dict):
        return {key: _filled(one, place) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, place) for one in value]
    if isinstance(value, str):
        for index, number in enumerate(place):
            value = value.replace(f"{{{index}}}", str(number))
    return value


def parse(text: str, where: str = "data set registry") -> dict[str, DatasetEntry]:
    """Return the entries of a registry file. Raise UserError with the entry, the key and the reason."""
    content = yaml_value(text, where)
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise UserError(f"{where}: expected a mapping of names to entries")
    entries = {}
    for name, value in content.items():
        if name.startswith("."):  # anchors that entries share
            continue
        try:
            entries[name] = DatasetEntry.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(shown(part) for part in (name, *first["loc"]))
            raise UserError(f"{where}, {place}: {first['msg'].removeprefix('Value error, ')}") from None
    return entries


def registry() -> dict[str, DatasetEntry]:
    """Return the entries by name: those of `registry.yaml` in its order, then those of the user's own files."""
    return _package() | {name: one for name, (one, _) in _own(outside.places()).items()}


@cache
def _package() -> dict[str, DatasetEntry]:
    return parse(files("dpgraph.data").joinpath("registry.yaml").read_text(encoding="utf-8"))


@cache
def _own(places: outside.Places) -> dict[str, tuple[DatasetEntry, Path]]:
    """Return entry and folder by name. A reader that is a Python file is named by its whole path."""
    own: dict[str, tuple[DatasetEntry, Path]] = {}
    for path in outside.dataset_files(places):
        for name, one in parse(text_of(path), str(path)).items():
            if name in _package() or name in own:
                raise UserError(f"{path}, {shown(name)}: expected another name, a data set has it already")
            if not NAME.fullmatch(name):
                raise UserError(f"{path}, {shown(name)}: expected a name of small letters, digits and -")
            if one.reader.endswith(".py"):
                if not (reader := path.parent / one.reader).is_file():
                    raise UserError(f"{path}, {shown(name)}.reader: {reader}: no such file")
                one = one.model_copy(update={"reader": str(reader)})
            own[name] = one, path.parent
    return own


def home_of(name: str) -> Path | None:
    """Return the folder of a user's own entry, which is its first mirror; None for an entry of the package."""
    found = _own(outside.places()).get(name)
    return None if found is None else found[1]


def entry(name: str) -> DatasetEntry:
    """Return the entry `name`. Raise UserError that names the available ones."""
    entries = registry()
    if name not in entries:
        raise invalid("dataset", name, "one of " + ", ".join(sorted(entries)))
    return entries[name]
