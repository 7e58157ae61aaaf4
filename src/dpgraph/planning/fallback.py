"""Tasks of a suite whose data set cannot be had, and the synthetic ones that stand in for them.

What stands in is decided before anything is planned, by the manifests of the downloads alone, so that every job of a
run plans the same cells. A data set without a manifest counts as one that can be had.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpgraph.config.cell import Task
from dpgraph.config.config import Config, load, parse
from dpgraph.config.paths import Paths
from dpgraph.config.suite import Suite, SuiteTask
from dpgraph.core.errors import UserError
from dpgraph.data.manifest import read_manifest
from dpgraph.data.registry import entry


def with_fallbacks(suite: Suite, config: Config) -> Suite:
    """Return the suite with stand-ins for missing data: labels and note say so; they get no printed values."""
    tasks = dict(suite.tasks)
    for name, item in suite.tasks.items():
        if item.fallback is None:
            continue
        wanted = parse(Task, item.task, f"suite {suite.name}: tasks.{name}.task")
        instead = parse(Task, item.fallback, f"suite {suite.name}: tasks.{name}.fallback")
        if entry(instead.dataset).files:
            raise UserError(
                f"suite {suite.name}: tasks.{name}.fallback={instead.dataset}: expected a generated data set"
            )
        if _unavailable(Paths(config).raw(wanted.dataset)):
            label = f"synthetic instead of {item.label} (not reachable)"
            tasks[name] = SuiteTask(label=label, task=item.fallback)
    if tasks == suite.tasks:
        return suite
    return suite.model_copy(update={"tasks": tasks, "note": f"{suite.note.strip()} {sentence(suite, config)}"})


def datasets(suite: Suite) -> tuple[str, ...]:
    """Return the data sets that something may stand in for."""
    tasks = (item for item in suite.tasks.values() if item.fallback is not None)
    return tuple(dict.fromkeys(str(item.task.get("dataset")) for item in tasks))


def sentence(suite: Suite, config: Config) -> str:
    """Return what a reader is told of data sets that something stands in for; empty without any."""
    folders = {name: str(folder) for name in datasets(suite) if _unavailable(folder := Paths(config).raw(name))}
    if not folders:
        return ""
    titles = " and ".join(entry(name).title for name in folders)
    return (
        f"NOT REACHABLE: {titles}: no mirror, no URL and no package index had the files, so synthetic graphs stand in, "
        f"without the papers' numbers (delete {' '.join(folders.values())} and run again to look for them anew)."
    )


def provide(config: Config, workflow: Path, mirrors: Mapping[str, str]) -> str:
    """Look once for the data sets that have a stand-in; return the sentence about missing ones.

    A data set is looked for again when its manifest is deleted or says unavailable and the mirrors have changed.
    """
    from dpgraph.data.fetch import fetch, mirrors_from
    from dpgraph.data.manifest import remember, tried

    path = workflow / "suites" / f"{config.suite}.yaml"
    if not path.is_file():
        return ""  # load_plan says so
    suite, places = load(Suite, path), mirrors_from(config.mirrors, mirrors)
    for name in datasets(suite):
        folder = Paths(config).raw(name)
        if tried(folder, places):
            continue
        fetch(name, folder, places)
        remember(folder, places)
    return sentence(suite, config)


def _unavailable(raw_dir: Path) -> bool:
    try:
        return read_manifest(raw_dir).status == "unavailable"
    except UserError:
        return False
