"""Membership inference in long form: curves of a figure, measures and bounds of a table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dpgraph.reporting.artefacts import beside, described
from dpgraph.reporting.results import over_seeds
from dpgraph.reporting.views.membership.attacks import GRID, RATES, Attack, Bound


def membership_points(made: list[Attack]) -> pd.DataFrame:
    """What the figure shows: per attack a row for each false positive rate of GRID; one without where there is none."""
    parts = []
    for one in made:
        rows = pd.DataFrame({"fpr": [math.nan], "tpr": math.nan, "tpr_std": math.nan, "tpr_bound": math.nan})
        if one.seeds:
            tpr = np.array([seed.tpr for seed in one.seeds])
            std = tpr.std(axis=0, ddof=1) if len(tpr) > 1 else np.full(len(GRID), math.nan)
            bound = math.nan if one.bound is None else one.bound.tpr(GRID)
            rows = pd.DataFrame({"fpr": GRID, "tpr": one.mean_tpr, "tpr_std": std, "tpr_bound": bound})
        parts.append(beside(_head(one), rows))
    return pd.concat(parts, ignore_index=True)


def membership_table(made: list[Attack]) -> pd.DataFrame:
    """One row per attack: mean and sample std over seeds of each measure, and its bound (nan: none)."""
    rows = []
    for one in made:
        row = _head(one)
        row["members"] = one.seeds[0].members if one.seeds else 0
        row["others"] = one.seeds[0].others if one.seeds else 0
        for name, values in measures(one).items():
            row |= over_seeds(name, values)
        row["advantage_by_chance"] = one.chance if one.seeds else math.nan
        limits = bounds(one.bound)
        row |= {f"{name}_bound": limits.get(name, math.nan) for name in measures(one)}
        row["bound_epsilon"] = math.nan if one.bound is None else one.bound.epsilon
        row["bound_delta"] = math.nan if one.bound is None else one.bound.delta
        rows.append(row)
    return pd.DataFrame(rows)


def _head(one: Attack) -> dict[str, object]:
    text = one.reason if one.outcome.ok else one.outcome.reason
    return described(one.entry, one.outcome) | {"score": one.score, "reason": text}


def measures(one: Attack) -> dict[str, np.ndarray]:
    """By name, one value per seed."""
    by_name = {name: np.array([getattr(seed, name) for seed in one.seeds]) for name in ("auc", "advantage")}
    for place, rate in enumerate(RATES):
        by_name[f"tpr_at_{rate:g}"] = np.array([seed.at_rates[place] for seed in one.seeds])
    return by_name


def bounds(bound: Bound | None) -> dict[str, float]:
    """By the same names; empty where there is none."""
    if bound is None:
        return {}
    at_rates = bound.tpr(np.array(RATES))
    return {"auc": bound.auc, "advantage": bound.advantage} | {
        f"tpr_at_{rate:g}": float(value) for rate, value in zip(RATES, at_rates)
    }
