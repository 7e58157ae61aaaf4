"""Hashes of the code that makes a cell's calibration and its training: the import closures of its own modules.

Another method, mechanism or problem is none of a cell's modules, so that adding one calibrates and trains no cell
again. A module that is loaded by its name (config/imports.py cannot see it) is a root here.
"""

from collections.abc import Iterable
from pathlib import Path

from dpgraph.config.frozen import chosen, digest
from dpgraph.config.sources import imported_by, job_digest, reaches, sources_digest
from dpgraph.core import outside
from dpgraph.core.loading import module_of
from dpgraph.data.registry import entry, home_of
from dpgraph.families.registry import folder_of
from dpgraph.planning.run import Run
from dpgraph.privacy.cache import LIBRARIES, versions
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.problems.registry import problem

FETCHED = {"archive", "files", "licence", "citation"}  # of an entry of the registry, what a download writes
ENCODER, STARTS_ENCODER = "engine.models.text_encoder", "data.text.bert"


def training_roots(run: Run) -> tuple[str, ...]:
    """Return the method's code, its mechanism and prepared step, its problem, and what runs and keeps a seed."""
    named = [module_of(run.spec.train), run.mechanism.__module__, module_of(run.problem.work)]
    if issubclass(run.mechanism, NoisySteps):
        named.append(module_of(run.mechanism.prepared))
    return (*_roots(run, named), "pipeline.execute", "pipeline.collect")


def calibration_roots(run: Run) -> tuple[str, ...]:
    """Return what builds the mechanism from the cell, the mechanism, and what solves it."""
    mechanism = run.mechanism.__module__
    builder = run.spec.variant(run.cell).build.__module__ if run.spec.private else mechanism
    return (*_roots(run, [builder, mechanism]), "planning.resolve", "privacy.calibration")


def _roots(run: Run, modules: list[str]) -> list[str]:
    """Return modules of the package, without its name; of a user's method, what its files import of the package."""
    roots = [_within(name) for name in modules if outside.is_within(name)]
    return roots if (folder := folder_of(run.spec)) is None else [*roots, *imported_by(outside.sources(folder))]


def _job(roots: tuple[str, ...], run: Run, numbers: bool = False) -> str:
    """Hash what the roots import, and the files of a user's method."""
    known, folder = job_digest(roots, numbers), folder_of(run.spec)
    return known if folder is None else digest([known, outside.digest_of(outside.sources(folder))], 16)


def fetch_digest(dataset: str) -> str:
    """Hash what fetches a data set: its own entry of the registry; a better way to fetch does not fetch again."""
    return digest([sources_digest("fetch"), chosen(entry(dataset), include=FETCHED), *_stamps(dataset)], 16)


def _stamps(dataset: str) -> list[tuple[str, int, int]]:
    """Return sizes and times of the files next to a user's own entry: an edited one is fetched again."""
    home, found = home_of(dataset), []
    for file in entry(dataset).files if home is not None else ():
        for source in file.sources:
            path = Path(home or "", source.mirror or "")
            if source.mirror is not None and path.is_file():
                found.append((source.mirror, path.stat().st_size, path.stat().st_mtime_ns))
    return found


def preprocess_digest(dataset: str) -> str:
    """Hash what prepares a data set: its entry, its reader, and how its problem stores it."""
    known = entry(dataset)
    own = [outside.digest_of([Path(known.reader)])] if _is_own_reader(known.reader) else []
    return digest([job_digest(preprocess_roots(dataset)), chosen(known, exclude={"files", "archive"}), *own], 16)


def _is_own_reader(reader: str) -> bool:
    return reader.endswith(".py") and Path(reader).is_file()


def preprocess_roots(dataset: str) -> tuple[str, ...]:
    """Return the modules that are imported by their names, and the encoder of texts, a process of its own."""
    known = entry(dataset)
    store = _within(module_of(problem(known.problem).store))
    roots: tuple[str, ...] = ("problems.preprocess", store)
    roots += imported_by([Path(known.reader)]) if _is_own_reader(known.reader) else (f"data.readers.{known.reader}",)
    return (*roots, ENCODER) if reaches(roots, STARTS_ENCODER) else roots


def training_digest(run: Run) -> str:
    """Hash what decides the numbers of a seed, whatever they cost in privacy."""
    return _job(training_roots(run), run, numbers=True)


def bundle_digest(runs: Iterable[Run]) -> str:
    """Hash a job that trains these cells and writes down what they cost."""
    return digest(sorted({_job(training_roots(run), run) for run in runs}), 16)


def calibrations_digest(runs: Iterable[Run]) -> str:
    """Hash a job that calibrates these cells: code, what predictions read, and versions that may move an epsilon."""
    libraries = [versions()[name] for name in LIBRARIES]
    return digest([*libraries, *sorted({f"{_job(calibration_roots(run), run)} {_declared(run)}" for run in runs})], 16)


def _declared(run: Run) -> str:
    """Return what the method's specification decides of a statement: its module is no root, as it lists all methods."""
    return f"{run.spec.inference(run.cell)}, {run.spec.variant(run.cell).target}" if run.spec.private else ""


def _within(module: str) -> str:
    """Return the module's name without that of the package."""
    return module.partition(".")[2]
