"""Where a claim that this suite does not run is run, and what it costs there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dpgraph.data.fetch import mirrors_from
from dpgraph.data.manifest import read_manifest
from dpgraph.data.mirrors import holds
from dpgraph.data.registry import entry as dataset_entry
from dpgraph.errors import UserError
from dpgraph.experiments.claim import Claim, WeightedSum, uses
from dpgraph.experiments.paths import Paths
from dpgraph.planning.cost import train_seconds
from dpgraph.planning.plan import WORKFLOW, Entry, Plan, load_plan
from dpgraph.reporting.claims.comparing import at_target
from dpgraph.reporting.missing_data import with_files
from dpgraph.reporting.paper_values import paper_value

WHOLE = "paper"  # the suite that has everything
HAS_IT = f"suite {WHOLE} has it"
PRINTED = 8  # numbers of the paper that are named


def cost_elsewhere(plan: Plan, names: Iterable[str], workflow: Path = WORKFLOW) -> dict[str, str]:
    """By claim: what suite paper plans for it, and the command. Claims that it has no runs of are left out.

    Where no mirror has the data: the paper's own numbers, and the command that runs the claim where the files
    are. Hours are the planner's estimate for one CPU core, as `snakemake -n` shows them.
    """
    wanted = list(names)
    if not wanted or plan.suite.name == WHOLE or not (workflow / "suites" / f"{WHOLE}.yaml").is_file():
        return {}
    whole = load_plan(
        plan.config.model_copy(update={"suite": WHOLE, "papers": None, "artefacts": None, "seeds": None}), workflow
    )
    claims = whole.claims()
    planned = {name: list(_entries(whole, *claims[name])) for name in wanted if name in claims}
    return {
        name: _text(entries) + _without_data(whole, claims[name][1], entries)
        for name, entries in planned.items()
        if entries
    }


def _entries(plan: Plan, paper: str, claim: Claim) -> Iterator[Entry]:
    """Places of the suite that the claim's tests look at, some of them more than once."""
    for test in claim.parts:
        tasks = test.tasks
        if isinstance(test, WeightedSum) and test.terms[0].task is not None:
            tasks = tuple(str(term.task) for term in test.terms)
        for artefact, methods in uses(test):
            for entry in plan.entries_of(f"{paper}/{artefact}"):
                if entry.method_id in methods and (tasks is None or entry.suite_task.is_called(tasks)):
                    yield entry


def _text(entries: Iterable[Entry]) -> str:
    entries = list(entries)
    cells = {entry.cell.slug: entry.cell for entry in entries}
    artefacts = list(dict.fromkeys(entry.artefact for entry in entries))
    runs = sum(len(cell.seeds) for cell in cells.values())
    hours = sum(train_seconds(cell) for cell in cells.values()) / 3600
    return (
        f"{HAS_IT}: {runs:,} runs, {hours:,.1f} hours of one CPU core planned "
        f"(dpgraph run {' '.join(artefacts)} --suite {WHOLE} --profile slurm)"
    )


def _without_data(plan: Plan, claim: Claim, entries: Sequence[Entry]) -> str:
    """Which of the data sets no mirror has, what the paper prints, and how to run it with their files; else nothing."""
    mirrors = mirrors_from(plan.config.mirrors, os.environ)
    lacking = [entry for entry in entries if not _is_here(plan, entry.cell.task.dataset, mirrors)]
    if not lacking:
        return ""
    labels = dict.fromkeys(entry.suite_task.label for entry in lacking)
    printed: dict[str, None] = {}
    for entry in lacking:
        value = paper_value(plan.experiments[entry.paper], entry, plan.artefacts[entry.artefact].metric)
        if value is not None:
            swept = "" if entry.value is None else f" ({entry.value})"
            place = f"{entry.method_id}{swept} on {entry.suite_task.label}{at_target(entry.epsilon)}"
            printed[f"{place}: {value.text}"] = None
    shown = "; ".join([*([claim.own_numbers] if claim.own_numbers else []), *list(printed)[:PRINTED]])
    if len(printed) > PRINTED:
        shown += f"; and {len(printed) - PRINTED} more"
    numbers = f". In print: {shown}" if shown else ""
    artefacts = dict.fromkeys(entry.artefact for entry in entries)
    return f"; no mirror here has {' / '.join(labels)}{numbers}. {with_files(artefacts, WHOLE)}"


def _is_here(plan: Plan, dataset: str, mirrors: Sequence[Path]) -> bool:
    try:
        if read_manifest(Paths(plan.config).raw(dataset)).status == "ok":
            return True
    except UserError:
        pass
    return holds(dataset_entry(dataset), mirrors)
