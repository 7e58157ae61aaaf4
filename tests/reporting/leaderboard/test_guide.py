"""Of a cell that several suites ran, the run of most seeds stands for it."""

import pandas as pd

from dpgraph.reporting.leaderboard.guide import _best


def row(suite, cell, mean, n):
    return {
        "data": "some", "metric": "accuracy", "relation": "node-null", "scope": "joint", "delta": 1e-5, "budget": 1.0,
        "suite": suite, "cell": cell, "mean": mean, "n": n, "best": "True", "tied": "False", "label": cell,
    }  # fmt: skip


def test_a_lucky_run_of_few_seeds_does_not_replace_one_of_many():
    rows = pd.DataFrame([row("few", "a", 86.0, 5), row("many", "a", 85.0, 64), row("other", "b", 84.0, 8)])
    (found,) = _best(rows)
    assert (found["suite"], found["mean"]) == ("many", 85.0)


def test_another_cell_is_compared_by_its_mean():
    rows = pd.DataFrame([row("few", "b", 86.0, 5), row("many", "a", 85.0, 64)])
    (found,) = _best(rows)
    assert found["suite"] == "few"
