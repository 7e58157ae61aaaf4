"""Noise and epsilons without training: what the calibrations of an artefact's cells state, next to the paper's."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.errors import UserError
from dpgraph.experiments.paths import Paths
from dpgraph.files import read_json
from dpgraph.methods.registry import spec
from dpgraph.planning.plan import Entry, Plan
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.reporting import protection
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.claimed import with_claims
from dpgraph.reporting.paper_values import paper_value

COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "optimizer", "variant", "value",
           "epsilon_target")  # fmt: skip


def accounting_table(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """One row per entry: its calibration's noise, steps and both epsilons, and the epsilon that the paper prints.

    `noise_std_over_clip` is noise std / clip norm per coordinate; `difference` our published epsilon minus the printed
    one. An entry without privacy, or whose calibration is missing, is marked as such.
    """
    return pd.DataFrame([_row(plan, entry) for entry in plan.entries_of(artefact_id)])


def _row(plan: Plan, entry: Entry) -> dict[str, Any]:
    printed = paper_value(plan.experiments[entry.paper], entry, "epsilon")
    row = {
        **of_entry(entry, *COLUMNS),
        **_calibrated(plan, entry),
        "published_epsilon": math.nan if printed is None else printed.value,
        "published_text": "" if printed is None else printed.text,
    }
    row["difference"] = row["eps_published"] - row["published_epsilon"]
    return row | {"calibration": entry.cell.calibration_key or ""}


def _calibrated(plan: Plan, entry: Entry) -> dict[str, Any]:
    path = Paths(plan.config).calibration(entry.cell)
    if path is None:
        return _nothing("no privacy")
    try:
        header = read_json(path)
        if isinstance(header, dict) and "statement" not in header:
            return _nothing(str(header.get("reason", "data not available")))
        kind = spec(entry.cell.method).mechanism_class(entry.cell)
        statement = Calibration.read(path, kind).statement
    except FileNotFoundError:
        return _nothing("not calibrated yet")
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{path}: not a calibration") from None
    columns = {
        "noise_std_over_clip": math.nan if statement.noise_std_over_clip is None else statement.noise_std_over_clip,
        "steps": statement.steps,
        "delta": math.nan if statement.rigorous.delta is None else statement.rigorous.delta,
        **protection.columns(statement.published, statement.rigorous, statement.uncovered),
        **_epsilon(statement.published),
        **_epsilon(statement.rigorous),
        "status": "ok",
        "reason": "",
    }
    # the accounting of a method from outside is its author's, too
    kept = with_claims(entry.cell.method, columns)
    return {name: value for name, value in kept.items() if name not in ("checks", "relation_claimed", "scope_claimed")}


def _epsilon(guarantee: Guarantee) -> dict[str, Any]:
    name = f"eps_{guarantee.mode}"
    return {
        name: math.nan if guarantee.epsilon is None else guarantee.epsilon,
        f"{name}_reason": guarantee.reason or "",
    }


def _nothing(reason: str) -> dict[str, Any]:
    numbers = ("noise_std_over_clip", "steps", "delta", "eps_published", "eps_rigorous", "eps_claimed")
    texts = (*protection.COLUMNS, "eps_published_reason", "eps_rigorous_reason")
    return dict.fromkeys(numbers, math.nan) | dict.fromkeys(texts, "") | {"status": "not run", "reason": reason}
