"""The origin of every setting of a cell: `dpgraph explain CELL_OR_ARTEFACT`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpgraph.config.expansion import flat
from dpgraph.core.errors import UserError, meant, shown
from dpgraph.planning.plan import Entry, EntryPlace, Plan, layers

Row = dict[str, Any]


def explain(plan: Plan, name: str) -> dict[str, list[Row]]:
    """Return, by cell, each setting with its value and the file and rule that it comes from.

    `name` is an artefact (daigavane/table1), or a cell's name or the beginning of it. A cell that is in several
    places is explained at its first one. Raises UserError for a name that is neither.
    """
    entries = plan.entries_of(name) or [one for one in plan.entries if name and one.cell.slug.startswith(name)]
    if not entries:
        known = f"one of suite {plan.suite.name} (dpgraph list cells, dpgraph list artefacts)"
        raise UserError(f"cell or artefact={shown(name)}: expected {known}{meant(name, plan.artefacts)}")
    explained: dict[str, list[Row]] = {}
    for entry in entries:
        if entry.cell.slug not in explained:
            explained[entry.cell.slug] = list(settings(plan, entry))
    return explained


def settings(plan: Plan, entry: Entry) -> Iterator[Row]:
    """Yield the settings of the cell at one place; one that no layer gives has the method's default."""
    sources: dict[str, str] = {}
    place = EntryPlace(entry.artefact, entry.method_id, entry.task_id, entry.value, entry.settings)
    for source, part in layers(plan, place, entry.target_epsilon):
        sources |= dict.fromkeys(flat(part), source())
    suite = f"suites/{plan.suite.name}.yaml"
    sources |= dict.fromkeys(
        flat({"task": entry.suite_task.task}), f"{suite}: {plan.suite.place(f'tasks.{entry.task_id}')}"
    )
    row = plan.experiments[entry.paper].place(f"methods.{entry.method_id}")
    sources["method"] = f"experiments/{entry.paper}.yaml: {row}"
    paper, name = entry.artefact.split("/")
    sources["seeds"] = "config: seeds" if plan.config.seeds else f"{suite}: {_seeds_place(plan, entry)}"
    if entry.target_epsilon is not None and "privacy.epsilon" not in sources:
        sources["privacy.epsilon"] = f"{suite}: papers.{paper}.artefacts.{name}.epsilons"
    for path, found in flat(entry.cell.model_dump()).items():
        value = list(found) if isinstance(found, tuple) else found
        yield {"setting": path, "value": value, "from": sources.get(path, f"default of {entry.cell.method}")}


def _seeds_place(plan: Plan, entry: Entry) -> str:
    paper, name = entry.artefact.split("/")
    part = plan.suite.papers[paper]
    for index, grid in enumerate(part.artefacts[name]):
        if grid.seeds is not None and grid.seeds == len(entry.cell.seeds) and entry.task_id in grid.tasks:
            return f"{plan.suite.place(f'papers.{paper}.artefacts.{name}[{index}]')}.seeds"
    return "seeds" if part.seeds is None else f"papers.{paper}.seeds"
