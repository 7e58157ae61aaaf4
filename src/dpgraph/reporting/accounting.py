"""Noise and epsilons without training: what the calibrations of an artefact's cells say, beside the paper's."""

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
from dpgraph.reporting import formats, protection
from dpgraph.reporting.display import (
    DASH,
    EPSILON_REMARK,
    NOT_IN_PAPER,
    PROTECTION_HEADS,
    Block,
    Footnotes,
    Table,
    Text,
    epsilon_cell,
    failure,
    protection_cells,
    with_delta,
)
from dpgraph.reporting.paper_values import paper_value


def accounting_table(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """One row per entry: its calibration's noise, steps and both epsilons, and the epsilon that the paper prints.

    `noise_std_over_clip` is noise std / clip norm per coordinate; `difference` our published epsilon minus the printed
    one. An entry without privacy, or whose calibration is not there, says so.
    """
    return pd.DataFrame([_row(plan, entry) for entry in plan.entries_of(artefact_id)])


def _row(plan: Plan, entry: Entry) -> dict[str, Any]:
    printed = paper_value(plan.experiments[entry.paper], entry, "epsilon")
    row = {
        "paper": entry.paper,
        "artefact": entry.artefact.split("/")[1],
        "method": entry.method_id,
        "label": entry.method.label,
        "task": entry.task_id,
        "task_label": entry.suite_task.label,
        "optimizer": entry.cell.training.optimizer,
        "variant": "none" if entry.cell.privacy is None else entry.cell.privacy.variant,
        "value": entry.value or "",
        "epsilon_target": math.nan if entry.epsilon is None else entry.epsilon,
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
    return {
        "noise_std_over_clip": math.nan if statement.noise_std_over_clip is None else statement.noise_std_over_clip,
        "steps": statement.steps,
        "delta": math.nan if statement.rigorous.delta is None else statement.rigorous.delta,
        **protection.columns(statement.published, statement.rigorous, statement.uncovered),
        **_epsilon(statement.published),
        **_epsilon(statement.rigorous),
        "status": "ok",
        "reason": "",
    }


def _epsilon(guarantee: Guarantee) -> dict[str, Any]:
    name = f"eps_{guarantee.mode}"
    return {
        name: math.nan if guarantee.epsilon is None else guarantee.epsilon,
        f"{name}_reason": guarantee.reason or "",
    }


def _nothing(reason: str) -> dict[str, Any]:
    numbers = ("noise_std_over_clip", "steps", "delta", "eps_published", "eps_rigorous")
    texts = (*protection.COLUMNS, "eps_published_reason", "eps_rigorous_reason")
    return dict.fromkeys(numbers, math.nan) | dict.fromkeys(texts, "") | {"status": "not run", "reason": reason}


def accounting_display(title: str, table: pd.DataFrame, parameter: str) -> Table:
    """From `accounting_table`: a block per task; `parameter` heads the values of a sweep, if there is one."""
    notes = Footnotes()
    names = (parameter, "Target ε", "Noise std / clip norm")
    shown = [
        bool((table["value"] != "").any()),
        bool(table["epsilon_target"].notna().any()),
        not _sweeps_noise(table),
    ]
    blocks = [
        Block(
            with_delta(str(part["task_label"].iloc[0]), part),
            [_cells(row, shown, notes) for row in part.to_dict("records")],
        )
        for _, part in table.groupby("task", sort=False)
    ]
    remarks = [
        "No training: noise and epsilons of the calibrations. ε printed: in the paper. Difference: our evaluation of "
        "the paper’s formula minus the printed value.",
        EPSILON_REMARK,
        *protection.remarks(table),
    ]
    lead = (name for name, holds in zip(names, shown, strict=True) if holds)
    columns = ["Method", *lead, "Steps", "ε printed", "ε published", "Difference", "ε rigorous", *PROTECTION_HEADS]
    return Table(title, columns, blocks, notes.texts, remarks)


def _sweeps_noise(table: pd.DataFrame) -> bool:
    """Whether the sweep's values are the noise, which then has a column already."""
    known = table[table["noise_std_over_clip"].notna()]
    values = pd.to_numeric(known["value"], errors="coerce")
    return bool(len(known)) and bool((values == known["noise_std_over_clip"]).all())


def _cells(row: dict[str, Any], shown: list[bool], notes: Footnotes) -> list[Text]:
    """`shown`: whether the value, the target and the noise have columns."""
    target, noise = row["epsilon_target"], row["noise_std_over_clip"]
    lead = [
        Text(row["value"]),
        Text(DASH if math.isnan(target) else formats.significant(target)),
        Text(DASH if math.isnan(noise) else formats.significant(noise, 4)),
    ]
    head = [Text(row["label"]), *(cell for cell, holds in zip(lead, shown, strict=True) if holds)]
    printed = Text(row["published_text"] or NOT_IN_PAPER)
    if row["status"] != "ok":
        return [*head, failure(row, notes), printed, *[Text(DASH)] * 5]
    return [
        *head,
        Text(formats.count(row["steps"])),
        printed,
        epsilon_cell(row, "published", notes),
        Text(formats.difference(row["difference"], 3)),
        epsilon_cell(row, "rigorous", notes),
        *protection_cells(row),
    ]
