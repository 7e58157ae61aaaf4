"""Why a place of a table was not run, and where that is for want of compute, how long it would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.errors import UserError
from dpgraph.experiments.paths import Paths
from dpgraph.planning.left_out import COMPUTE, needs_speeds
from dpgraph.planning.plan import Entry, Plan

PLAIN, PRIVATE = "plain", "private"  # steps of `benchmarks.encoders`


def reasons(plan: Plan) -> dict[str, str]:
    """By slug of the cells that the suite leaves out; raises UserError without the speeds that they need."""
    speeds = read_speeds(Paths(plan.config).encoder_costs) if needs_speeds(plan) else None
    return {slug: reason(entry, speeds) for slug, entry in plan.left_out.items()}


def read_speeds(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, keep_default_na=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no table of measured speeds ({' '.join(str(error).split())[:100]})") from None


def reason(entry: Entry, speeds: pd.DataFrame | None) -> str:
    """The suite's own words, or the hours of one core that all seeds would take at the speed that was measured.

    A text of other batches costs what it costs in the measured one: negatives count as the texts that they are.
    """
    if entry.not_run != COMPUTE or speeds is None:
        return str(entry.not_run)
    cell: Any = entry.cell
    step = PLAIN if cell.privacy is None else PRIVATE
    same = (
        (speeds["dataset"] == cell.task.dataset)
        & (speeds["encoder"] == cell.model.encoder)
        & (speeds["max_tokens"] == cell.model.max_tokens)
    )
    of_step = speeds[same & (speeds["step"] == step)]
    if of_step.empty:
        why = [text for text in speeds[same]["reason"].dropna() if text]
        return f"compute: hours not measured{''.join(f' ({text})' for text in why[:1])}"
    row = of_step.iloc[0]
    steps, seeds = cell.training.steps, len(cell.seeds)
    per_second = row["tuples_per_second"] * (2 + row["negatives"]) / (2 + cell.training.negatives)
    tuples = cell.training.roots_per_step(int(row["train_tuples"]))
    if not isinstance(steps, int):
        return f"compute: {per_second:.2g} tuples a second (measured), as many steps as the noise allows"
    evaluation = row["entities"] / row["texts_encoded_per_second"] * cell.training.evaluations
    hours = seeds * (steps * tuples / per_second + evaluation) / 3600
    return (
        f"compute: {hours:.2g} hours of one core for {seeds} seeds of {steps} steps with {tuples:.0f} tuples, measured "
        f"{per_second:.2g} tuples a second, and {row['texts_encoded_per_second']:.0f} texts when it is tested"
    )
