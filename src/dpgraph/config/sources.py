"""Source files whose change must rerun a stage: Snakemake does not see imported modules.

A stage's files are all that its roots import (imports.py), less what cannot change a result. Rules carry the hash of
these files as a parameter: as inputs the files would be a hundred thousand edges of a large suite's graph, and a
touched file would count as a changed one.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpgraph.config.imports import Package, imported_names
from dpgraph.core.errors import invalid

PACKAGE = Path(__file__).resolve().parent.parent
PUBLISHED = "config/published/*.csv"


@dataclass(frozen=True)
class Stage:
    """`roots`: modules, and patterns (imports.py) of those that are loaded by name. `files`: data next to them.

    A `job` makes one result, whose name holds the hash of what was requested: how the plan requested it does not
    matter. In `numbers`, what a seed trains to, what they cost does not matter either.
    """

    roots: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    job: bool = False
    numbers: bool = False
    without: tuple[str, ...] = ()  # modules below the roots that the stage does not run


_REPORT = ("reporting.*", "families.*.reported")  # drawing is cheap: any change of the package redraws
STAGES: dict[str, Stage] = {
    # with the data set's entry of the registry; a better way to fetch does not fetch again
    "fetch": Stage(files=("data/fetch.py",), job=True),
    # methods and prepared steps are loaded by their names
    "audit": Stage(
        ("audits.registry", "families.*", "engine.preparation.*"), job=True, without=("families.*.reported",)
    ),
    # what views derive is loaded by their names
    "aggregate": Stage(("reporting.aggregate", "reporting.views.derived")),
    "figure": Stage(_REPORT, (PUBLISHED, "reporting/drawing/*.mplstyle")),
    "claims": Stage(_REPORT, (PUBLISHED,)),
    "runtimes": Stage(_REPORT),
    "index": Stage(
        _REPORT, ("reporting/leaderboard/*.j2", "reporting/leaderboard/*.css", "reporting/leaderboard/*.js")
    ),
    "references": Stage(("reporting.references",), job=True),
    "baselines": Stage(("reporting.baselines",)),
}
# modules that cannot change a result, and why; they and what only they import are left out
NEUTRAL: dict[str, str] = {
    "core.errors": "texts of errors",
    "families.registry": "finds methods by their names",
    "problems.registry": "finds problems by their names",
    "problems.base": "how a problem describes itself: what it names is a root",
    "engine.methods.spec": "how a method describes itself: what it names is a root",
    "core.files": "whole files and locks; the content of a file is its writer's",
    "core.outside": "finds a user's own data sets and methods, whose files have hashes of their own",
    "planning.run": "holds what the names of a cell stand for: each of these has its own hash",
    "core.progress": "bars on the terminal",
    "data.download": "downloads bytes; their hash shows whether they are the right ones",
    "config.cell": "settings and their limits: their values, and the names of its streams, have their own hashes",
    "config.config": "names suite, folders and device; rules carry what matters of it",
    "config.documents": "reads YAML and JSON or refuses; what was read has its own hash",
    "config.imports": "finds the files of this very hash",
    "config.paths": "names files",
    "config.sources": "makes this very hash",
    "pipeline.provenance": "says which code and machine made a result; the code has its own hash",
}
# of jobs only: the report depends on which cells there are and in which artefacts
PLANNING: dict[str, str] = {
    "pipeline.bundles": "who shares a job",
    "config.claim": "claims on results",
    "config.claim_tests": "how it is tested",
    "config.experiment": "what a suite may contain; what it sets in a cell is in the cell",
    "planning.plan": "which cells there are",
    "config.published": "numbers of the papers",
    "pipeline.jobs": "runs the cells of a job one by one",
    "pipeline.run_files": "names jobs, notes their ends and hands them cells; each has its own hash",
}
# of what a seed trains to only: its fingerprint has the mechanism's own numbers and the procedure that it states, noise
# included (pipeline/stages.py), and records are written again
ACCOUNTING: dict[str, str] = {
    "privacy.accountants.*": "what a mechanism costs",
    "families.*.*accountant": "what a family's mechanism costs",
    "families.*.epsilon": "its numbers",
    "privacy.cache": "keeps answers of accountants",
    "privacy.calibration": "solves for the mechanism's numbers",
    "privacy.guarantee": "how a guarantee is written",
    "privacy.solving": "solves for the mechanism's numbers",
}


@cache
def sources_digest(stage: str) -> str:
    """Hash of the contents of the stage's files: a result made by other code is not taken for one of this code."""
    if stage not in STAGES:
        raise invalid("stage", stage, f"one of {', '.join(STAGES)}")
    return digest_of(STAGES[stage], _this())


@cache
def job_digest(roots: tuple[str, ...], numbers: bool = False) -> str:
    """Hash a job that these modules make, see `Stage`. Raises ImportError for a module that does not exist."""
    for root in roots:
        if not _this().matching(f"{PACKAGE.name}.{root}"):
            raise ImportError(f"{PACKAGE.name}.{root}: no such module in the package: a result would not depend on it")
    return digest_of(Stage(roots, job=True, numbers=numbers), _this())


def imported_by(files: Iterable[Path]) -> tuple[str, ...]:
    """Return the modules that files outside of the package import of it, as roots of a job."""
    names = {name for path in files for name in imported_names(path.read_bytes(), PACKAGE.name, [])}
    top = f"{PACKAGE.name}."
    known = {name if name in _this().modules else name.rpartition(".")[0] for name in names}
    return tuple(sorted(name.removeprefix(top) for name in known if name in _this().modules and name != PACKAGE.name))


def reaches(roots: tuple[str, ...], module: str) -> bool:
    """Return whether a job that these modules make imports `module`."""
    return _this().modules[f"{PACKAGE.name}.{module}"] in files_of(Stage(roots, job=True), _this())


def digest_of(stage: Stage, package: Package) -> str:
    hashed = hashlib.sha256()
    for path in files_of(stage, package):
        hashed.update(str(path.relative_to(package.folder)).encode() + b"\0" + package.source(path) + b"\0")
    return hashed.hexdigest()[:16]


def files_of(stage: Stage, package: Package) -> list[Path]:
    top = package.folder.name
    left_out = NEUTRAL | (PLANNING if stage.job else {}) | (ACCOUNTING if stage.numbers else {})
    without = {name for pattern in (*left_out, *stage.without) for name in package.matching(f"{top}.{pattern}")}
    modules = package.closure((f"{top}.{root}" for root in stage.roots), without)
    data = (path for pattern in stage.files for path in package.folder.glob(pattern))
    return sorted({*data, *(package.modules[name] for name in modules)})


@cache
def _this() -> Package:
    return Package(PACKAGE)
