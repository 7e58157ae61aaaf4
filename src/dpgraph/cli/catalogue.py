"""Listings for `dpgraph list` and `explain`, as a table or as JSON."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabulate import tabulate

from dpgraph.config.cell import Cell
from dpgraph.families.registry import spec
from dpgraph.planning.explain import explain
from dpgraph.planning.plan import Plan

Row = dict[str, Any]


def print_rows(rows: list[Row], as_json: bool) -> None:
    """Print a listing."""
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        print(tabulate(rows, headers="keys", tablefmt="plain", maxcolwidths=90) if rows else "none")


def print_explained(plan: Plan, name: str) -> None:
    """Print where the settings of a cell, or of an artefact's cells, come from."""
    shown = {entry.cell.slug: entry.method for entry in reversed(plan.entries)}  # the first one, as in `explain`
    by_slug = {entry.cell.slug: entry.cell for entry in plan.entries}
    for slug, rows in explain(plan, name).items():
        print(f"\n{slug}\n{shown[slug].label}" + (f": {shown[slug].about}" if shown[slug].about else ""))
        reason = spec(by_slug[slug].method).why_not_captured(by_slug[slug])
        print("step on a GPU: " + (f"not captured: {reason}" if reason else "captured"))
        print(_promise(by_slug[slug]))
        print_rows([{**row, "value": "null" if row["value"] is None else row["value"]} for row in rows], as_json=False)


def _promise(cell: Cell) -> str:
    """Return the class whose theorem gives the epsilon of a cell, and its delta."""
    if cell.privacy is None:
        return "epsilon: none, without privacy"
    name = spec(cell.method).variants[cell.privacy.variant].mechanism.__name__
    delta = "1 / (10 N)" if cell.privacy.delta is None else f"{cell.privacy.delta:g}"
    return f"epsilon: that of {name} (relation, scope and theorem: docs/privacy/index.md#the-theorems), delta {delta}"


def _papers(plan: Plan) -> list[Row]:
    return [
        {
            "paper": name,
            "artefacts": len(experiment.artefacts),
            "claims": len(experiment.claims),
            "cells": len({entry.cell.slug for entry in plan.entries if entry.paper == name}),
            "title": experiment.title,
        }
        for name, experiment in plan.experiments.items()
    ]


def _artefacts(plan: Plan) -> list[Row]:
    return [
        {
            "artefact": name,
            "kind": artefact.kind,
            "cells": len({entry.cell.slug for entry in plan.entries_of(name)}),
            "title": artefact.title,
        }
        for name, artefact in plan.artefacts.items()
    ]


def _claims(plan: Plan) -> list[Row]:
    """Return each claim's sentence, parts, premises and readings, with its verdict where docs/results is."""
    path = Path("docs/results/claims.csv")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    decided = {row["claim"]: row["verdict"] for row in csv.DictReader(lines)}
    return [
        {
            "claim": name,
            "paper": paper,
            "source": claim.source,
            "verdict": decided.get(name, ""),
            "sentence": claim.sentence or f"(ours) {claim.statement}",
            "parts": "; ".join(part or one[0].kind for part, one in claim.by_part.items()),
            "premises": "; ".join(premise.part for premise in claim.premises),
            "readings": "; ".join(claim.readings),
        }
        for name, (paper, claim) in plan.claims().items()
    ]


def _method_rows(plan: Plan) -> list[Row]:
    """Return each method of the plan's papers as their tables label it."""
    shown = {(entry.paper, entry.method_id): entry.method for entry in plan.entries}
    return [
        {"paper": paper, "row": name, "label": row.label, "method": row.method, "about": row.about or ""}
        for (paper, name), row in shown.items()
    ]


def _methods(_: Plan | None) -> list[Row]:
    from dpgraph.families.registry import specs

    return [{"method": name, "private": spec.private, "description": spec.summary} for name, spec in specs().items()]


def _datasets(plan: Plan | None) -> list[Row]:
    from dpgraph.data.registry import registry

    used = {} if plan is None else {task: plan.task(task).dataset for task in plan.suite.tasks}
    rows = []
    for name, entry in registry().items():
        counts = {key: getattr(entry.expected, key) for key in ("nodes", "features", "classes")}
        places = ", ".join(task for task, dataset in used.items() if dataset == name)
        suites = {} if plan is None else {"in suite": places}
        rows.append({"dataset": name, **counts, **suites, "licence": entry.licence.name})
    return rows


def _cells(plan: Plan) -> list[Row]:
    artefacts: dict[str, dict[str, None]] = {}  # each name once, in the order of the plan
    for entry in plan.entries:
        artefacts.setdefault(entry.cell.slug, {})[entry.artefact] = None
    return [
        {"cell": slug, "seeds": len(cell.seeds), "artefacts": ", ".join(artefacts[slug])}
        for slug, cell in plan.cells.items()
    ]


def _mechanisms(_: None) -> list[Row]:
    from dpgraph.privacy.accountants.evaluate import modes, names

    rows = []
    for mechanism in names():
        known = modes(mechanism)
        for name, parameter in {name: one for each in known.values() for name, one in each.parameters.items()}.items():
            takers = (mode for mode, one in known.items() if name in one.parameters)
            rows.append({
                "mechanism": mechanism.replace("_", "-"),
                "parameter": f"--{name.replace('_', '-')}",
                "accountants": " and ".join(takers),
                "meaning": f"{parameter.text}: {parameter.allowed}",
            })  # fmt: skip
    return rows


def _audits(_: None) -> list[Row]:
    from dpgraph.audits.registry import AUDITS  # imports every method

    return [
        {"audit": name, "trials": one.trials, "about": f"{one.run.__doc__}".partition("\n")[0]}
        for name, one in AUDITS.items()
    ]


# each gets the plan, or None where there is no suite
LISTINGS: dict[str, Callable[[Any], list[Row]]] = {
    "papers": _papers,
    "artefacts": _artefacts,
    "claims": _claims,
    "rows": _method_rows,
    "cells": _cells,
    "methods": _methods,
    "datasets": _datasets,
    "mechanisms": _mechanisms,
    "audits": _audits,
}
OF_THE_PACKAGE = ("mechanisms", "audits")  # whatever a suite holds
ANYWHERE = ("methods", "datasets", *OF_THE_PACKAGE)  # in a folder without suites, too
