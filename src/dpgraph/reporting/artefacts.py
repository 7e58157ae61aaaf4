"""An artefact of the plan by its id, and the heading of its table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dpgraph.errors import invalid
from dpgraph.experiments.experiment import Artefact
from dpgraph.planning.plan import Entry, Plan


def artefact_of(plan: Plan, artefact_id: str, kind: str) -> Artefact:
    """Raises UserError where the plan has no such table or figure."""
    of_kind = [name for name, artefact in plan.artefacts.items() if artefact.kind == kind]
    if artefact_id not in of_kind:
        raise invalid(kind, artefact_id, f"one of {', '.join(of_kind)} (suite {plan.suite.name})")
    return plan.artefacts[artefact_id]


def heading(plan: Plan, artefact_id: str) -> str:
    """E.g. `Table 1 of daigavane: Test accuracy`; an artefact of ours has its own name, `ablation (daigavane): ...`."""
    paper, name = artefact_id.split("/")
    place = re.sub(r"^(table|fig)(?=\d)", lambda kind: {"table": "Table ", "fig": "Figure "}[kind[0]], name)
    where = f"{place} of {paper}" if place != name else f"{name} ({paper})"
    mark = " (demonstration)" if plan.suite.demonstration else ""
    return f"{where}: {plan.artefacts[artefact_id].title}{mark}"


def counterparts(entries: Iterable[Entry]) -> dict[str, str]:
    """By private method, the first one without privacy that has the same architecture and number of hops."""
    entries = list(entries)
    public: dict[tuple[str, int], str] = {}
    for entry in entries:
        if entry.cell.privacy is None:
            public.setdefault(_network(entry), entry.method_id)
    private = (entry for entry in entries if entry.cell.privacy is not None)
    return {entry.method_id: public[_network(entry)] for entry in private if _network(entry) in public}


def _network(entry: Entry) -> tuple[str, int]:
    return entry.cell.network
