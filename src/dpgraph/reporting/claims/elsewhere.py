"""Where a claim that this suite does not run is run, and what it costs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dpgraph.experiments.claim import Claim, WeightedSum, uses
from dpgraph.planning.cost import train_seconds
from dpgraph.planning.plan import WORKFLOW, Entry, Plan, load_plan

WHOLE = "paper"  # the suite that has everything
HAS_IT = f"suite {WHOLE} has it"


def cost_elsewhere(plan: Plan, names: Iterable[str], workflow: Path = WORKFLOW) -> dict[str, str]:
    """By claim: what suite paper plans for it, and the command. Claims that it has no runs of are left out.

    Hours are the planner's estimate for one CPU core, as `snakemake -n` shows them.
    """
    wanted = list(names)
    if not wanted or plan.suite.name == WHOLE or not (workflow / "suites" / f"{WHOLE}.yaml").is_file():
        return {}
    whole = load_plan(
        plan.config.model_copy(update={"suite": WHOLE, "papers": None, "artefacts": None, "seeds": None}), workflow
    )
    claims = whole.claims()
    planned = {name: list(_entries(whole, *claims[name])) for name in wanted if name in claims}
    return {name: _text(entries) for name, entries in planned.items() if entries}


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
