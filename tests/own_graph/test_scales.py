"""Columns of large numbers, which leave nothing of the others in a row of norm 1, and public ranges against it."""

import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpgraph
from dpgraph.cli import main
from dpgraph.cli.graph_options import GraphOptions
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.model import load
from dpgraph.own_graph.new_nodes import read_new_npz
from dpgraph.own_graph.scales import check_scales, norm_shares, with_ranges
from dpgraph.own_graph.tables import read_csv_graph
from tests.own_graph.test_fit import CLASSES, small

RNG = np.random.default_rng(0)
SIZE = 200
SIX = RNG.normal(size=(SIZE, 6))
INCOME = RNG.uniform(20_000, 90_000, SIZE)
ONE_HOT = np.eye(12)[np.where(RNG.random(SIZE) < 0.97, 0, RNG.integers(0, 12, SIZE))]  # most have the first word


def of(*columns):
    return replace(small(size=SIZE), features=np.column_stack(columns).astype(np.float32))


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ((SIX, INCOME), "column feature 6: 100.0 % of the norm"),
        ((INCOME, SIX, 2 * INCOME), "column feature 7, feature 0: 100.0 %"),
        ((SIX, RNG.uniform(18, 90, SIZE)), "column feature 6: 9"),
        ((RNG.uniform(18, 90, SIZE), RNG.random(SIZE) < 0.5), "column feature 0"),
        ((-INCOME, SIX), "column feature 0"),
        ((ONE_HOT, INCOME * (RNG.random(SIZE) < 0.95)), "column feature 12"),
    ],
)
def test_columns_with_nearly_all_of_the_norm_are_named(columns, named):
    with pytest.raises(UserError, match=named) as caught:
        check_scales(of(*columns))
    for way in ("--range 'feature", "--ignore 'feature", "=as-is"):
        assert way in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "columns",
    [(SIX,), (ONE_HOT,), (INCOME,), (SIX, np.zeros(SIZE)), (SIX * 1e4,), (ONE_HOT, ONE_HOT[:, ::-1])],
    ids=["alike", "most have one word", "one column", "zeros", "large and alike", "two codes"],
)
def test_others_are_not(columns):
    check_scales(of(*columns))


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["cora", "pubmed", "amazon-photo", "facebook-cornell5"])
def test_data_sets_of_the_registry_are_not_refused(name):
    try:
        own = GraphOptions(dataset=name).read()
    except DataUnavailable as missing:
        if os.environ.get("DPGRAPH_MIRROR"):
            raise
        pytest.skip(str(missing))  # without a mirror and without a network
    check_scales(own)


def test_shares_are_those_of_rows_of_norm_one():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e30, 0.0]], dtype=np.float32)
    assert np.allclose(norm_shares(rows), [(0.36 + 1) / 2, 0.64 / 2])


def arrays(folder, columns):
    own = of(*columns)
    path = folder / "g.npz"
    np.savez(path, edge_index=np.stack([own.source, own.target]), y=own.labels, x=own.features)
    return ["fit", "--graph", str(path), "--classes", ",".join(CLASSES), "--epsilon", "4", "--no-audit"]


def test_it_is_refused_before_the_budget_is_spent_and_each_way_out_is_one(tmp_path, capsys):
    asked = arrays(tmp_path, (SIX, INCOME))
    assert main([*asked, "--out", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]
    for place, ends in enumerate(("0:100000", "as-is")):
        out = tmp_path / str(place)
        assert main([*asked, "--range", f"feature 6={ends}", "--out", str(out)]) == 0
        checks = json.loads((out / "curator/checks.json").read_text())
        first, share = next(iter(checks["largest_shares_of_norm"].items()))
        assert (first == "feature 6" and share > 0.99) == (ends == "as-is")
        assert "largest_shares" not in (out / "release/card.json").read_text()
    assert load(tmp_path / "0").header.ranges == (("feature 6", 0.0, 100_000.0),)
    assert load(tmp_path / "1").header.ranges == ()
    assert main([*asked, "--range", "feature 7=0:1", "--out", str(tmp_path / "no")]) == 2
    assert "did you mean feature" in capsys.readouterr().err


def test_ranges_in_python_are_those_of_the_command_line():
    own = of(SIX, INCOME)
    with pytest.raises(UserError, match=r"ranges=\{'feature 6': \(LOW, HIGH\)\}.*features without 'feature 6'\)"):
        dpgraph.fit(own, 4.0, seed=0)
    with pytest.raises(UserError, match=r"feature 6"):
        dpgraph.compare(own, 4.0, seeds=1, methods=["own"])
    fitted = dpgraph.fit(own, 4.0, seed=0, ranges={"feature 6": (0, 1e5)})
    by_hand = of(SIX, np.clip(INCOME.astype(np.float32) / 5e4 - 1, -1, 1))
    assert np.allclose(fitted.predictions, dpgraph.fit(by_hand, 4.0, seed=0).predictions, atol=1e-4)
    found = dpgraph.fit(by_hand, 4.0, seed=0).model.predict(by_hand.features)
    assert np.allclose(fitted.model.predict(own.features), found, atol=1e-4)  # new records are scaled as old ones
    dpgraph.compare(own, 4.0, seeds=1, methods=["own"], ranges={"feature 6": None})
    for wrong in ({"feature 6": (1, 0)}, {"feature 6": (0, float("inf"))}):
        with pytest.raises(UserError, match="LOW < HIGH"):
            with_ranges(own, wrong)
    with pytest.raises(UserError, match="expected a column of feature 0, "):
        with_ranges(own, {"income": (0, 1)})
    with pytest.raises(UserError, match="expected a column of features, and there are none"):
        with_ranges(replace(own, features=None), {"feature 6": (0, 1)})


TIMES = 1_700_000_000 + np.arange(60) * 18.0


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_a_range_is_applied_before_numbers_are_rounded(kind, tmp_path):
    """Unix times of an hour: float32 has 29 of 200 of them, and none of 1e300, which a range clips."""
    features = np.stack([TIMES.astype(kind), (np.arange(60) % 7).astype(kind)], axis=1)
    ends, labels = np.zeros((2, 0), int), np.arange(60) % 2
    ranges = {"feature 0": (1_700_000_000, 1_700_003_600)}
    own = with_ranges(from_arrays(ends, labels, features), ranges)
    assert own.features.dtype == np.float32
    expected = np.arange(60) * 18 / 1800 - 1
    assert np.allclose(own.features[:, 0], expected, atol=1e-6)
    frame = pd.DataFrame(features.astype(float), columns=["joined", "b"]).assign(id=np.arange(100, 160), label=labels)
    frame.loc[3, "joined"] = 1e300
    frame.to_csv(tmp_path / "nodes.csv", index=False)
    (tmp_path / "edges.csv").write_text("source,target\n100,101\n")
    of_files = read_csv_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv", kept=["joined"])
    own = with_ranges(of_files, {"joined": ranges["feature 0"]})
    assert np.allclose(own.features[:, 0], [*expected[:3], 1, *expected[4:]], atol=1e-6)
    with pytest.raises(UserError, match="node 103: features: expected finite numbers, below 3e38: joined"):
        with_ranges(of_files, {})


def test_new_nodes_are_scaled_before_they_are_rounded(tmp_path):
    features = np.column_stack([TIMES, RNG.normal(size=(60, 3))])
    options = {"labels": np.arange(60) % 2, "features": features, "classes": ["0", "1"], "seed": 0}
    ranges = {"feature 0": (1_700_000_000, 1_700_003_600)}
    model = dpgraph.fit(np.zeros((2, 0), int), 50.0, ranges=ranges, **options).model
    new = np.array([[1_700_000_010.0, 0.5, 1, 1], [1_700_000_070.0, 0.5, 1, 1]])
    np.savez(tmp_path / "new.npz", x=new)
    rows = model.predict(read_new_npz(model.header, tmp_path / "new.npz").features)
    assert np.array_equal(rows, model.predict(new))
    assert not np.array_equal(rows[0], rows[1])
    assert np.isfinite(model.predict([[1e300, 0.5, 1, 1]])).all()
