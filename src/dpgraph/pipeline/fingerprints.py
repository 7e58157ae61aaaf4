"""What a cell's calibration and its training are made by: the import closures of its own modules, and of no others.

Another method, mechanism or problem is none of a cell's modules, so that adding one calibrates and trains nothing that
is there. What is loaded by its name (experiments/imports.py cannot see it) is a root here.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpgraph.data.registry import entry
from dpgraph.experiments.cell import Cell
from dpgraph.experiments.frozen import chosen, digest
from dpgraph.experiments.sources import job_digest, reaches, sources_digest
from dpgraph.loading import module_of
from dpgraph.methods.registry import spec
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.problems.registry import problem, problem_of

FETCHED = {"archive", "files", "licence", "citation"}  # of an entry of the registry, what a download writes
ENCODER, STARTS_ENCODER = "models.text_encoder", "data.text.bert"


def training_roots(cell: Cell) -> tuple[str, ...]:
    """The method's code, its mechanism, that mechanism's prepared step, its problem, and what runs and keeps a seed."""
    known = spec(cell.method)
    mechanism = known.mechanism_class(cell)
    named = [module_of(known.train), mechanism.__module__, module_of(problem_of(cell.task).work)]
    if issubclass(mechanism, NoisySteps):
        named.append(module_of(mechanism.prepared))
    return (*(_within(name) for name in named), "pipeline.execute", "pipeline.collect")


def calibration_roots(cell: Cell) -> tuple[str, ...]:
    """What builds the mechanism from the cell, the mechanism, and what solves it."""
    known = spec(cell.method)
    mechanism = known.mechanism_class(cell)
    builder = known.variant(cell).build.__module__ if known.private else mechanism.__module__
    return (_within(builder), _within(mechanism.__module__), "planning.resolve", "privacy.calibration")


def download_digest(dataset: str) -> str:
    """Of what fetches a data set: its own entry of the registry; a better way to fetch does not fetch again."""
    return digest([sources_digest("download"), chosen(entry(dataset), include=FETCHED)], 16)


def preprocess_digest(dataset: str) -> str:
    """Of what prepares a data set: its entry, its reader, and how its problem stores it."""
    known = entry(dataset)
    return digest([job_digest(preprocess_roots(dataset)), chosen(known, exclude={"files", "archive"})], 16)


def preprocess_roots(dataset: str) -> tuple[str, ...]:
    """Modules that are imported by their names, and the encoder of texts, a process of its own."""
    known = entry(dataset)
    store = _within(module_of(problem(known.problem).store))
    roots = ("problems.preprocess", store, f"data.readers.{known.reader}")
    return (*roots, ENCODER) if reaches(roots, STARTS_ENCODER) else roots


def training_digest(cell: Cell) -> str:
    """Of what a seed trains to, whatever it costs."""
    return job_digest(training_roots(cell), numbers=True)


def bundle_digest(cells: Iterable[Cell]) -> str:
    """Of a job that trains these cells and writes down what they cost."""
    return digest(sorted({job_digest(training_roots(cell)) for cell in cells}), 16)


def calibrations_digest(cells: Iterable[Cell]) -> str:
    """Of a job that calibrates these cells."""
    return digest(sorted({job_digest(calibration_roots(cell)) for cell in cells}), 16)


def _within(module: str) -> str:
    """Its name without that of the package."""
    return module.partition(".")[2]
