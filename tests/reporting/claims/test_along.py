"""Claims on a metric along the steps of training."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from dpgraph.reporting.claims.kinds.curves import rise_and_fall
from dpgraph.reporting.claims.table import claims_table
from tests.plans import plan_of

STEPS = (100, 200, 300, 400)


def made(means, seeds=5, noise=0.0, seed=0):
    drawn = np.random.default_rng(seed).normal(0, noise, (seeds, len(means))) if noise else np.zeros((seeds, 1))
    return pd.DataFrame(np.array(means) + drawn, columns=STEPS[: len(means)])


@pytest.mark.parametrize(
    ("means", "verdict"),
    [((1, 5, 4, 1), "holds"), ((1, 2, 3, 9), "refuted"), ((9, 3, 2, 1), "refuted"), ((9, 3, 2, 8), "refuted")],
)
def test_rising_and_falling_is_told_from_each_alone(means, verdict):
    found = rise_and_fall("x", made(means, noise=0.05), "points")
    assert (found.p_above < 0.05) == (verdict == "holds")
    assert (found.p_below < 0.05) == (verdict == "refuted")


@pytest.mark.parametrize(("seeds", "steps"), [(5, 10), (15, 40)])
@pytest.mark.parametrize("far", [False, True])
def test_noise_alone_is_seldom_a_peak_or_its_opposite(seeds, steps, far):
    """A flat curve, or one that rises at once and stays: a peak that is picked among 40 steps is corrected for."""
    random = np.random.default_rng(seeds + steps)
    found = []
    for _ in range(200):
        values = random.standard_normal((seeds, steps))
        values[:, 0] -= 20 * far
        found.append(rise_and_fall("x", pd.DataFrame(values), "points"))
    wrong = [one.p_above < 0.05 for one in found] if far else [one.p_below < 0.05 for one in found]
    assert np.mean(wrong) <= 0.05 + 0.03  # two standard errors of 200 draws


def test_evaluations_without_a_value_of_every_seed_are_left_out():
    values = made((1, 5, 4, 1))
    values.loc[2, 200] = np.nan
    assert rise_and_fall("x", values, "points").estimate == pytest.approx(3.0)
    assert rise_and_fall("x", values.drop(columns=300), "points") is None


def test_one_seed_decides_nothing():
    assert np.isnan(rise_and_fall("x", made((1, 5, 4, 1), seeds=1), "points").p_above)


@pytest.fixture(scope="module")
def plan():
    return plan_of("images-cpu", seeds=5, artefacts=("zhang-ch3/fig3.3b", "zhang-ch3/fig3.3c"))


@pytest.mark.parametrize(
    ("left", "shares", "verdict"),
    [
        (40, (0.3, 0.8, 0.5), "reproduced"),
        (85, (0.3, 0.8, 0.5), "contradicted"),  # too many are left
        (40, (0.3, 0.5, 0.8), "contradicted"),  # rises and does not fall
        (40, (0.2, 0.3, 0.25), "contradicted"),  # below 0.33
    ],
)
def test_all_three_parts_of_z5_decide(plan, rows_of, as_frame, left, shares, verdict):
    rows = []
    for entry in {entry.cell.slug: entry for entry in plan.entries}.values():
        for row in rows_of(entry):
            if not (row["final"] and row["metric"] == "accuracy/test"):
                continue
            for step, images, share in zip((1000, 9000, 27200), (300, 200, left), shares, strict=True):
                told = {"step": step, "final": step == 27200}
                wiggle = 1e-7 * step * row["seed"]  # no difference is the same for all seeds
                rows.append(row | told | {"metric": "disagreements/labelled", "value": images + wiggle})
                rows.append(row | told | {"metric": "wrong_disagreements/labelled", "value": share + wiggle})
    paper = plan.experiments["zhang-ch3"]
    own = paper.own.model_copy(update={"settings": {}})  # small teachers are no substitutes here
    only = paper.model_copy(update={"own": own, "claims": {"Z5": paper.claims["Z5"]}})
    table = claims_table(dataclasses.replace(plan, experiments={"zhang-ch3": only}), as_frame(rows))
    assert table["verdict"].tolist() == [verdict], table["evidence"].tolist()
