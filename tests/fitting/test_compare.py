"""`compare`, `afford`, `export`: methods at one epsilon, in words, and the release as tables."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from scipy.stats import t as student

from dpgraph.cli import main
from dpgraph.errors import UserError
from dpgraph.fitting.compare import Compared, compare, paired_tests
from dpgraph.fitting.fit import fit
from dpgraph.fitting.tables import from_arrays
from tests.fitting.test_fit import small, write_csv


def test_all_methods_are_compared_at_one_epsilon_relation_and_scope(tmp_path, capsys):
    data = write_csv(tmp_path, size=120)
    assert main(["compare", *data, "--epsilon", "4", "--seeds", "2", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    with (tmp_path / "out/comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    private = [row for row in rows if row["epsilon"] != "inf"]
    assert {row["method"] for row in private} >= {"votes", "own", "dp-mlp", "dp-gap"}
    assert {row["method"] for row in rows} - {row["method"] for row in private} == {"mlp", "gnn"}
    assert {(row["relation"], row["scope"]) for row in private} == {("node-null", "joint")}
    assert all(3.9 < float(row["epsilon"]) <= 4 for row in private)
    assert all(0 <= float(row["accuracy"]) <= 1 for row in rows)
    assert "not private, not to be released" in said
    assert "votes" in said
    assert "have no epsilon" in (tmp_path / "out/README.txt").read_text()


def test_the_interval_and_the_tests_are_those_of_the_books():
    one = Compared("a", "node-null", "joint", 1.0, (0.5, 0.6, 0.7))
    two = Compared("b", "node-null", "joint", 1.0, (0.4, 0.55, 0.5))
    other = Compared("c", "node-remove", "joint", 1.0, (0.1, 0.2, 0.3))
    free = Compared("d", "no privacy", "no privacy", math.inf, (0.9, 0.9, 0.9))
    assert one.half == pytest.approx(student.ppf(0.975, 2) * 0.1 / math.sqrt(3))
    (found,) = paired_tests([one, two, other, free])  # unlike relations are not compared, nor is what has none
    gaps = np.array([0.1, 0.05, 0.2])
    p = 2 * student.sf(gaps.mean() / (gaps.std(ddof=1) / math.sqrt(3)), 2)
    assert found["p"] == found["p_holm"] == pytest.approx(p)
    assert found["points"] == pytest.approx(100 * gaps.mean())


def test_holm_is_a_step_down():
    rows = [Compared(name, "r", "s", 1.0, tuple(values)) for name, values in
            {"a": (0.5, 0.61, 0.7), "b": (0.4, 0.5, 0.61), "c": (0.3, 0.45, 0.44)}.items()]  # fmt: skip
    found = sorted(paired_tests(rows), key=lambda row: row["p"])
    expected, worst = [], 0.0
    for place, row in enumerate(found):
        worst = max(worst, min(1.0, (3 - place) * row["p"]))
        expected.append(worst)
    assert [row["p_holm"] for row in found] == pytest.approx(expected)


def test_equal_methods_are_equal():
    row = Compared("a", "r", "s", 1.0, (0.5, 0.5))
    (found,) = paired_tests([row, Compared("b", "r", "s", 1.0, (0.5, 0.5))])
    assert found["p_holm"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["vots"]}, "--methods=vots: expected one of .* did you mean votes"),
        ({"seeds": 0}, "--seeds=0"),
        ({"epsilon": -1.0}, "--epsilon=-1.0"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(UserError, match=message):
        compare(small(size=40), **{"epsilon": 1.0, **options})


def test_too_few_labels_are_refused():
    with pytest.raises(UserError, match="too few labels"):
        compare(from_arrays(np.zeros((2, 0), int), [0, -1, -1, -1], classes=["0", "1"]), 1.0)


def test_afford_reads_no_data(capsys):
    asked = ["afford", "--nodes", "20000", "--classes", "10", "--labelled", "4000", "--epsilon"]
    assert main([*asked, "1"]) == 0
    assert capsys.readouterr().out.startswith("Can this graph afford epsilon = 1? in part.")
    assert main([*asked, "8"]) == 0
    assert "epsilon = 8? yes." in capsys.readouterr().out
    assert main(["afford", "--nodes", "20", "--classes", "10", "--labelled", "10", "--epsilon", "1"]) == 0
    assert "? no: expect little more than guesses" in capsys.readouterr().out
    assert main([*asked, "4"]) == 0
    assert "more than noise where it has about 2 of them" in capsys.readouterr().out
    assert main([*asked, "4", "--scope", "all-outputs"]) == 0
    out = capsys.readouterr().out
    assert "a node of few neighbours is guessed" in out
    assert "more than noise where it has about 5 of them" in out
    one_node = ["afford", "--nodes", "1", "--classes", "2", "--labelled", "1", "--epsilon", "1"]
    more = ([*asked, "4", "--degree-bound", "5"], "--degree-bound=5: expected none under node-null")
    for wrong, message in ((one_node, "--nodes=1"), ([*asked, "nan"], "--epsilon=nan"), more):
        assert main(wrong) == 2
        assert message in capsys.readouterr().err


def test_an_export_is_the_release_and_nothing_else(tmp_path, capsys):
    fitted = fit(small(size=50), 4.0, out=tmp_path / "mine")
    assert main(["export", str(tmp_path / "mine"), "--out", str(tmp_path / "tables")]) == 0
    with (tmp_path / "tables/parameters.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["class", "feature 0", "feature 1", "feature 2", "bias"]
    assert np.allclose([[float(x) for x in row[1:-1]] for row in rows], fitted.model.weight)
    with (tmp_path / "tables/buckets.csv").open() as file:
        _, *rows = csv.reader(file)
    assert np.array_equal([[float(x) for x in row[1:]] for row in rows], fitted.model.buckets)
    data = fitted.model.to_pyg()
    assert data.num_nodes == 50
    assert np.array_equal(data.buckets.numpy(), fitted.model.buckets)
    assert "edge_index" not in data
    assert main(["export", str(tmp_path / "mine"), "--out", str(tmp_path / "tables")]) == 2
    assert "expected a folder that does not exist yet" in capsys.readouterr().err


def test_an_export_to_pyg_is_read_without_a_class(tmp_path):
    import torch
    from torch_geometric.data import Data

    fitted = fit(small(size=50), 4.0, out=tmp_path / "mine")
    assert main(["export", str(tmp_path / "mine"), "--to", "pyg", "--out", str(tmp_path / "pyg")]) == 0
    data = Data.from_dict(torch.load(tmp_path / "pyg/release.pt", weights_only=True))
    assert np.array_equal(data.weight.numpy(), fitted.model.weight)
    assert np.allclose(data.predictions.numpy(), fitted.model.outputs())
    assert data.ids == list(fitted.model.header.ids)
    alone = fit(small(size=50), 4.0, method="own").model.to_pyg()
    assert "buckets" not in alone
    assert "predictions" not in alone
