"""What a reader can do where the files of a data set could not be had: the command that runs what is missing."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from dpgraph.planning.plan import Plan

REASON = "data not available"


def lacks_data(table: pd.DataFrame) -> pd.Series:
    """Rows of ours without a value because their data set is not there (column reason)."""
    if "reason" not in table:
        return pd.Series(False, index=table.index)
    return table["reason"].fillna("").astype(str).str.startswith(REASON)


def how_to_run(plan: Plan, artefact_id: str, table: pd.DataFrame) -> list[str]:
    """A remark with the command, or nothing where all data are there."""
    lacking = lacks_data(table)
    if not lacking.any() or "task_label" not in table:
        return []
    labels = dict.fromkeys(table.loc[lacking, "task_label"].astype(str))
    command = with_files([artefact_id], plan.suite.name)
    return [f"Not run because the data cannot be had here: {', '.join(labels)}. {command}"]


def with_files(artefacts: Iterable[str], suite: str) -> str:
    """The command that runs them where the data are."""
    command = f"dpgraph run {' '.join(artefacts)} --suite {suite} --set 'mirrors=[FOLDER]'"
    return f"With their files in FOLDER (docs/reference/datasets.md): {command}"
