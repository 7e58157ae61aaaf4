"""A suite's file, and what it names before anything is resolved."""

from __future__ import annotations

from pathlib import Path

from dpgraph.config.config import Config, load
from dpgraph.config.paths import no_project
from dpgraph.config.suite import Suite
from dpgraph.core.errors import invalid


def read_suite(config: Config, workflow: Path) -> Suite:
    """Return the config's suite. Raises UserError for a folder without suites and for a name that none has."""
    path = workflow / "suites" / f"{config.suite}.yaml"
    if not path.parent.is_dir():
        raise no_project(workflow)
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in path.parent.glob("*.yaml")))
        raise invalid("suite", config.suite, f"one of {known or f'the files in {path.parent}'}")
    return load(Suite, path)


def suite_papers(config: Config, workflow: Path) -> tuple[str, ...]:
    """Return the names of the suite's papers, whatever the config's are."""
    return tuple(read_suite(config, workflow).papers)


def suite_artefacts(config: Config, workflow: Path) -> list[str]:
    """Return the ids of the suite's artefacts, of the config's papers."""
    papers = read_suite(config, workflow).papers.items()
    return [f"{name}/{one}" for name, part in papers for one in part.artefacts if name in (config.papers or [name])]
