"""The selected settings of a search as rules of a suite."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import yaml

from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats, protection


def best_settings(plan: Plan, artefact_id: str, frame: pd.DataFrame) -> str:
    """From `search_table`: a list of a suite's rules in YAML, one per selected trial.

    What the selected trials reached is in comments.
    """
    paper = artefact_id.split("/")[0]
    lines = [
        f"# Selected by the search {artefact_id} of suite {plan.suite.name}. These are rules: paste them below",
        f"# papers.{paper}.rules, after the others. A rule applies to all targets: of several rules for one method",
        "# and task keep one.",
    ]
    chosen = frame[frame["selected"]] if len(frame) else frame
    for row in chosen.to_dict("records"):
        rule = {"methods": [row["method"]], "tasks": [row["task"]], "set": json.loads(row["settings"])}
        lines += [f"# {text}" for text in _description(row)]
        lines.append(yaml.safe_dump([rule], sort_keys=False, default_flow_style=None, width=110).rstrip())
    return "\n".join([*lines, *([] if len(chosen) else ["[]"])]) + "\n"


def _description(row: dict[str, Any]) -> list[str]:
    target = "" if math.isnan(row["epsilon_target"]) else f", target epsilon {row['epsilon_target']:g}"
    lines = [
        f"{row['label']} on {row['task_label']}{target}: {row['trial']} of {row['trials']}, "
        f"validation {row['validation_mean']:.2f} % over {row['n']} seeds"
    ]
    if row["variant"] != "none":
        shown = {mode: formats.epsilon(row[f"eps_{mode}"]) for mode in protection.MODES}
        kinds = {mode: protection.promise_of(row, mode) for mode in protection.MODES}
        both = " and ".join(f"{mode} {shown[mode]}" + (f" ({kind})" if kind else "") for mode, kind in kinds.items())
        paid = row["tuning_reason"] or f"{formats.epsilon(row['tuning_epsilon'])} with the selection"
        lines.append(f"epsilon of the run: {both}; {paid}")
        lines += [f"no epsilon covers: {text}" for text in protection.parted(row["uncovered"])]
    return lines
