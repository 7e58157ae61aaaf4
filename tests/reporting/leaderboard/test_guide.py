"""Which method is best over all suites: of which rows, on which data, and what a cell of the page says of it."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpgraph.reporting.leaderboard.guide import Winners, _best, _line, _rows, _winners
from dpgraph.reporting.leaderboard.standings import COLUMNS as ALL
from dpgraph.reporting.leaderboard.standings import NUMBERS, columns_of, plain, write_values

FELL = "falls back to own records"


def row(suite, cell, mean, n=8, **given):
    return {
        "data": "some", "dataset": "some", "setting": "transductive", "split": "public", "features": "raw",
        "metric": "accuracy", "relation": "node-null", "scope": "joint", "delta": 1e-5, "budget": 1.0, "suite": suite,
        "cell": cell, "mean": mean, "n": n, "best": "True", "tied": "False", "label": cell, "below": "",
        "fallback": "", "no_privacy": math.nan,
    } | given  # fmt: skip


def test_a_lucky_run_of_few_seeds_does_not_replace_one_of_many():
    rows = pd.DataFrame([row("few", "a", 86.0, 5), row("many", "a", 85.0, 64), row("other", "b", 84.0, 8)])
    (found,) = _best(rows)
    assert (found["suite"], found["mean"]) == ("many", 85.0)


def test_another_cell_is_compared_by_its_mean():
    rows = pd.DataFrame([row("few", "b", 86.0, 5), row("many", "a", 85.0, 64)])
    (found,) = _best(rows)
    assert found["suite"] == "few"


def test_what_is_not_above_its_floor_is_best_only_where_nothing_is():
    low = row("one", "a", 90.0, below="the largest class")
    assert [found["label"] for found in _best(pd.DataFrame([low, row("one", "b", 80.0)]))] == ["b"]
    (found,) = _best(pd.DataFrame([low, row("one", "b", 80.0, below="the largest class")]))
    assert (found["label"], found["below"]) == ("a", "the largest class")


def test_one_data_set_has_one_best_row_whatever_suites_call_it():
    rows = pd.DataFrame([row("one", "a", 80.0, data="Coauthor-CS"), row("two", "b", 81.0, data="Coauthor CS")])
    assert [found["label"] for found in _best(rows)] == ["b"]
    for name, value in (("split", "train-rest"), ("setting", "disjoint"), ("features", "l2")):
        assert len(list(_best(rows.assign(**{name: ["other", value]})))) == 2


def first(rows):
    """The winners of each range under node-null; joint."""
    return _winners(pd.DataFrame(rows), "node-null", "joint")


def test_a_smaller_epsilon_and_delta_compete_for_a_range():
    """Votes at 8 is better than what a larger epsilon and a larger delta give: it promises less loss, too."""
    rows = [
        row("votes", "Votes", 89.0, budget=8.0, delta=1e-6),
        row("cpu", "DP-MLP", 88.0, budget=12.0, delta=1e-5),
        row("cpu", "Large", 99.0, budget=32.0),
        row("cpu", "Model only", 99.0, scope="parameters"),
        row("cpu", "Loose", 99.0, relation="graph", delta=1e-3),
    ]
    assert [one.text for one in first(rows)] == ["–", "–", "Votes (1 of 1)"]
    before = row("votes", "Early", 90.0, budget=0.5, delta=1e-6)
    assert [one.text for one in first([*rows, before])] == ["Early (1 of 1)", "–", "Early (1 of 1)"]
    stronger = row("other", "Whole graph", 91.0, budget=2.0, relation="graph", scope="all outputs")
    assert [one.text for one in first([*rows, stronger])] == ["–", "–", "Whole graph (1 of 1)"]


def test_a_row_that_is_not_above_its_floor_wins_nowhere():
    low = [row("one", "Low", 90.0, dataset=name, below="the largest class") for name in "abc"]
    assert first(low)[0].text == "none above its floor (3 of 3)"
    assert first([*low, row("one", "High", 20.0, dataset="a")])[0].text == "High (1 of 3, none above its floor on 2)"


def won(*labels, fell=(), without=0):
    rows = [row("one", label, 1.0, fallback=FELL * (place in fell)) for place, label in enumerate(labels)]
    return Winners(pd.DataFrame(rows), without)


@pytest.mark.parametrize(
    ("winners", "text"),
    [
        (won("A", "B", "A"), "A (2 of 3)"),
        (won("A", "B", "A", fell=(0, 1)), "A (2 of 3, ‡ on 1)"),
        (won("A", "A", fell=(0, 1), without=1), "A (2 of 3, ‡ on 2, none above its floor on 1)"),
        (won("B", "A"), "A and B (1 of 2 each)"),
        (won("C", "B", "A", fell=(1,)), "A, B (‡ on 1) and C (1 of 3 each)"),
        (won("D", "C", "B", "A", fell=(0,)), "4 methods (1 of 4 each)"),
    ],
)
def test_a_cell_names_all_that_share_the_first_place_and_what_they_fell_back_on(winners, text):
    assert winners.text == text
    assert set(winners.named["label"]) == {name for name in "ABCD" if f"{name} " in f"{text} ".replace(",", " ")}


def write(folder, suite, rows):
    (folder / suite).mkdir()
    frame = pd.DataFrame(rows).reindex(columns=list(ALL))
    texts = [name for name in ALL if name not in (*NUMBERS, "n", "best", "tied")]
    frame = frame.astype(dict.fromkeys(texts, object)).fillna(dict.fromkeys(texts, ""))
    values = {
        "suite": suite,
        "demonstration": False,
        "rows": columns_of([plain(one) for one in frame.to_dict("records")]),
    }
    write_values(values, folder / suite / "values.js")


def test_the_price_is_within_a_split_and_of_the_longest_run(tmp_path):
    """Marks of floors stay those of the row's own suite, whatever another one found with other seeds."""
    private = [
        row("", "a", 80.0, kind="proved", split="random", relation="edge"),
        row("", "a", 60.0, kind="proved", split="train-rest"),
    ]
    public = {"kind": "no privacy", "method": "mlp", "relation": "", "scope": "", "budget": math.inf}
    write(tmp_path, "one", [*private, row("", "MLP", 90.0, 5, split="random", **public)])
    write(tmp_path, "two", [row("", "MLP", 82.0, 16, split="random", data="Some", **public)])
    rows = _rows(tmp_path)
    found = rows[rows["kind"] == "proved"].set_index("split")
    assert found["no_privacy"].to_dict() == pytest.approx({"random": 82.0, "train-rest": math.nan}, nan_ok=True)
    assert (rows["below"] == "").all()
    lines = {split: _line("", "", 1, [Winners(one)]) for split, one in found.groupby("split")}
    assert {split: line[-1] for split, line in lines.items()} == {"random": "2.0 to 2.0 points", "train-rest": "–"}


def test_rows_of_before_the_column_of_features_are_read(tmp_path):
    write(tmp_path, "one", [row("", "a", 80.0, kind="proved")])
    path = tmp_path / "one/values.js"
    path.write_text(path.read_text().replace('"features"', '"unknown"'))
    assert _rows(tmp_path)["features"].tolist() == [""]
