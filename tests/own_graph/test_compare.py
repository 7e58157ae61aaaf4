"""`compare`, `afford`, `export`: methods at one epsilon, in words, and the release as tables."""

from __future__ import annotations

import csv
import importlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

import dpgraph
from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.compare import (
    NO_SETTINGS,
    ComparedMethod,
    RequiredPromise,
    _held_out,
    compare,
    paired_tests,
    table,
)
from dpgraph.own_graph.fit import fit
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import small, write_csv


def test_all_methods_are_compared_at_one_epsilon_relation_and_scope(tmp_path, capsys):
    data = write_csv(tmp_path, size=120)
    assert main(["compare", *data, "--epsilon", "4", "--seeds", "2", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    with (tmp_path / "out/comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    private = [row for row in rows if row["epsilon"] != "inf"]
    assert {row["method"] for row in private} >= {"votes", "own", "dp-mlp", "dp-gap"}
    assert "votes-learnt" not in {row["method"] for row in private}  # only where it is named
    assert {row["method"] for row in rows} - {row["method"] for row in private} == {"mlp", "gnn"}
    assert {(row["relation"], row["scope"]) for row in private} == {("node-null", "joint")}
    assert all(3.9 < float(row["epsilon"]) <= 4 for row in private)
    assert all(0 <= float(row["accuracy"]) <= 1 for row in rows)
    assert "not private, not to be released" in said
    assert "votes" in said
    assert "have no epsilon" in (tmp_path / "out/README.txt").read_text()


@pytest.mark.parametrize(("relation", "left"), [("node-null", " and has 0.9 of epsilon left"), ("edge", "")])
def test_classes_that_compare_reads_and_fit_pays_for_are_named(relation, left):
    read = "warning: classes are read exactly; without classes fit chooses them by noisy counts" + left
    for given in (False, True):
        said = []
        own = replace(small(), classes_given=given)
        dpgraph.compare(own, 4.0, methods=["votes"], relation=relation, seeds=1, say=said.append)
        assert [one for one in said if "classes are read" in one] == [read] * (not given)


def test_the_interval_and_the_tests_are_those_of_the_books():
    one = ComparedMethod("a", "node-null", "joint", 1.0, (0.5, 0.6, 0.7))
    two = ComparedMethod("b", "node-null", "joint", 1.0, (0.4, 0.55, 0.5))
    other = ComparedMethod("c", "node-remove", "joint", 1.0, (0.1, 0.2, 0.3))
    free = ComparedMethod("d", "no privacy", "no privacy", math.inf, (0.9, 0.9, 0.9))
    assert one.half == pytest.approx(student.ppf(0.975, 2) * 0.1 / math.sqrt(3))
    (found,) = paired_tests([one, two, other, free])  # unlike relations are not compared, nor is what has none
    gaps = np.array([0.1, 0.05, 0.2])
    p = 2 * student.sf(gaps.mean() / (gaps.std(ddof=1) / math.sqrt(3)), 2)
    assert found["p"] == found["p_holm"] == pytest.approx(p)
    assert found["points"] == pytest.approx(100 * gaps.mean())


def test_holm_is_a_step_down():
    rows = [ComparedMethod(name, "r", "s", 1.0, tuple(values)) for name, values in
            {"a": (0.5, 0.61, 0.7), "b": (0.4, 0.5, 0.61), "c": (0.3, 0.45, 0.44)}.items()]  # fmt: skip
    found = sorted(paired_tests(rows), key=lambda row: row["p"])
    expected, worst = [], 0.0
    for place, row in enumerate(found):
        worst = max(worst, min(1.0, (3 - place) * row["p"]))
        expected.append(worst)
    assert [row["p_holm"] for row in found] == pytest.approx(expected)


def test_equal_methods_are_equal():
    row = ComparedMethod("a", "r", "s", 1.0, (0.5, 0.5))
    (found,) = paired_tests([row, ComparedMethod("b", "r", "s", 1.0, (0.5, 0.5))])
    assert found["p_holm"] == 1


def reader(where):
    with where.open(newline="") as file:
        return list(csv.DictReader(file))


def test_under_node_remove_methods_of_own_records_and_those_under_a_bound_are_compared(tmp_path, capsys):
    data = write_csv(tmp_path, size=120)
    asked = ["compare", *data, "--epsilon", "4", "--seeds", "2", "--relation", "node-remove"]
    few = ["--methods", "own,dp-mlp,dp-gap,mlp"]
    assert main([*asked, *few, "--degree-bound", "119", "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    rows = reader(tmp_path / "out/comparison.csv")
    private = [row for row in rows if row["epsilon"] != "inf"]
    assert {row["method"] for row in private} == {"own", "dp-mlp", "dp-gap"}
    assert {(row["relation"], row["scope"]) for row in private} == {("node-remove", "joint")}
    assert all(3.9 < float(row["epsilon"]) <= 4 for row in private)
    assert reader(tmp_path / "out/left_out.csv") == []
    pairs = json.loads((tmp_path / "out/tests.json").read_text())
    assert {frozenset((pair["better"], pair["than"])) for pair in pairs} == {
        frozenset(pair) for pair in (("own", "dp-mlp"), ("own", "dp-gap"), ("dp-mlp", "dp-gap"))
    }
    assert main([*asked, *few, "--out", str(tmp_path / "without")]) == 0
    assert "dp-gap is left out: --degree-bound: expected the public bound" in capsys.readouterr().out
    (left,) = reader(tmp_path / "without/left_out.csv")
    assert left["method"] == "dp-gap"


def test_reasons_name_options_that_compare_has(tmp_path, capsys):
    """They are those of `fit`, which has --method."""
    own = small(size=60)
    asked = {"epsilon": 0.3, "seeds": 1}
    removed = compare(own, **asked, relation="node-remove", methods=["votes", "own", "mlp"]).left_out["votes"]
    assert removed == (
        "votes would drown in noise, by the public rule: expected a larger --epsilon, or a --degree-bound"
    )
    edge = compare(own, **asked, relation="edge", methods=["votes", "own"]).left_out["own"]
    assert edge.endswith("no edge needs protection: expected another --relation")
    with pytest.raises(UserError, match=r"--method votes: votes would drown in noise.*: expected auto, own, a larger"):
        fit(replace(own, split=own.roles), 0.3, relation="node-remove", method="votes")
    with pytest.raises(UserError, match="--relation edge, --method own: it reads no edge"):
        fit(own, 0.3, relation="edge", method="own")


@pytest.mark.parametrize("method", ["votes", "dp-gap"])
def test_a_bound_that_a_node_breaks_is_called_as_the_user_gave_it(tmp_path, capsys, method):
    data = write_csv(tmp_path, split=True)
    about = [*data, "--relation", "node-remove", "--degree-bound", "2", "--epsilon", "100"]
    assert main(["compare", *about, "--methods", method, "--seeds", "1"]) == 2
    assert re.search(r"(?<![\w_])--degree-bound=2: expected at least \d+, or no guarantee", capsys.readouterr().err)
    if method == "votes":
        assert main(["fit", *about, "--out", str(tmp_path / "out"), "--no-audit", "--method", "votes"]) == 2
        assert re.search(r"(?<![\w_])--degree-bound=2: expected at least \d+,", capsys.readouterr().err)
        assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match=r"^degree_bound=2: expected at least"):
        compare(small(size=60), 100.0, relation="node-remove", degree_bound=2, methods=[method], seeds=1)


def test_for_an_edge_each_row_says_what_it_promises_records():
    found = compare(small(size=80), 2.0, seeds=2, relation="edge", methods=["votes", "own", "dp-gap", "dp-mlp"])
    assert {(row.method, row.relation, row.scope) for row in found.rows} == {
        ("votes", "edge", "joint"), ("dp-gap", "edge", "joint"),
    }  # fmt: skip
    assert all(1.9 < row.epsilon <= 2 for row in found.rows)
    beside = {row.method: row.beside for row in found.rows}
    assert re.match("records are protected as well: ε = .* under node-null", beside["votes"])
    assert beside["dp-gap"] == "features and labels have no guarantee"
    assert "it reads no edge" in found.left_out["own"]
    assert "promise node-null; joint: expected edge; joint" in found.left_out["dp-mlp"]
    text = table(found)
    assert len([line for line in text.splitlines() if "edge; joint |" in line]) == 2
    assert "dp-gap: features and labels have no guarantee" in text


def test_methods_without_settings_for_own_graphs_are_named(monkeypatch):
    """All that are private and predict nodes' classes; none where methods were asked for."""
    module = importlib.import_module("dpgraph.own_graph.compare")
    monkeypatch.setattr(module, "_other", lambda name, *_: (_ for _ in ()).throw(UserError("not here")))  # sooner
    found = compare(small(size=80), 8.0, seeds=1)
    silent = {name for name, reason in found.left_out.items() if reason == NO_SETTINGS}
    assert {"dp-gnn", "dp-residual", "dp-appr", "dp-subgraph"} <= silent
    assert not silent & {"dp-mlp", "dp-gap", "dp-votes", "gnn", "dp-pate"}
    assert not compare(small(size=80), 8.0, seeds=1, methods=["own"]).left_out


def test_where_all_outputs_are_public_rows_are_functions_of_the_release():
    own = small(size=80)
    found = compare(own, 8.0, seeds=1, scope="all-outputs", methods=["votes", "own", "dp-mlp", "dp-gap", "mlp"])
    private = [row for row in found.rows if row.epsilon < math.inf]
    assert [(row.method, row.relation, row.scope) for row in private] == [("votes", "node-null", "all outputs")]
    assert set(found.left_out) == {"own", "dp-mlp", "dp-gap"}
    assert all("expected node-null; all outputs" in reason for reason in found.left_out.values())
    held = _held_out(own, 0)
    there = held.split == TEST
    fitted = fit(held, 8.0, scope="all-outputs", method="votes", seed=0)
    right = (fitted.model.outputs().argmax(axis=1) == own.labels)[there].mean()
    assert private[0].accuracies == (right,)
    own_records_too = fit(held, 8.0, method="votes", seed=0).predictions
    assert (own_records_too.argmax(axis=1) == own.labels)[there].mean() != right


STATED = {"mode": "rigorous", "accountant": "-", "sampling": "-", "delta": 1e-5}


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"relation": "node-null", "scope": "parameters", "epsilon": 1.0}, "promise node-null; parameters"),
        ({"relation": "edge", "scope": "joint", "epsilon": 1.0}, "promise edge; joint"),
        ({"relation": "node-null", "scope": "joint", "epsilon": 1.1}, "it states epsilon = 1.1: expected at most 1"),
        ({"relation": "node-null", "scope": "joint", "epsilon": 1.0, "delta": 1e-3}, "it states delta = 0.001"),
        ({"epsilon": None, "reason": "no proof"}, "no guarantee: no proof"),
    ],
)
def test_what_promises_less_than_was_asked_for_is_no_answer(stated, message):
    question = RequiredPromise(Relation.NODE_NULL, all_outputs=False, epsilon=1.0, delta=1e-5)
    with pytest.raises(UserError, match=message):
        question.check(Guarantee(**{**STATED, **stated}))
    more = {"relation": "node-null", "scope": "all outputs", "epsilon": 0.0}
    assert question.check(Guarantee(**{**STATED, **more})) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["vots"]}, "--methods=vots: expected one of .* did you mean votes"),
        ({"seeds": 0}, "--seeds=0"),
        ({"epsilon": -1.0}, "--epsilon=-1.0"),
        ({"delta": 0.5, "methods": ["dp-mlp"]}, "--delta=0.5"),
        ({"relation": "node-nul"}, "--relation=node-nul: expected one of .* did you mean node-null"),
        ({"scope": "all-output"}, "--scope=all-output: expected one of .* did you mean all-outputs"),
        ({"scope": "all-outputs", "relation": "node-remove"}, "no epsilon: rows read raw records"),
        ({"degree_bound": 9}, "--degree-bound=9: expected none under node-null"),
        (
            {"relation": "edge", "methods": ["own", "dp-mlp", "mlp"]},
            "--methods: none promises edge; joint: own: it reads no edge.*; dp-mlp: its settings",
        ),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(UserError, match=message):
        compare(small(size=40), **{"epsilon": 1.0, **options})


def test_lengths_of_lists_are_no_features_for_an_edge():
    own = small(size=40)
    bare = from_arrays(np.stack([own.source, own.target]), own.labels)
    with pytest.raises(UserError, match="--relation edge: no features"):
        compare(bare, 1.0, relation="edge")


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
    assert "Votes exceed their noise where a node has about 2 neighbours" in capsys.readouterr().out
    assert main([*asked, "4", "--scope", "all-outputs"]) == 0
    out = capsys.readouterr().out
    assert "a node of few neighbours is guessed" in out
    assert "Votes exceed their noise where a node has about 5 neighbours" in out
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


def test_every_export_of_a_known_seed_says_that_it_is_not_private(tmp_path, capsys):
    import torch

    for seed, status in ((None, "private"), (1, "not private: seed known")):
        fit(small(size=50), 4.0, seed=seed, out=tmp_path / str(seed), audit=False)
        for form in ("csv", "pyg"):
            out = tmp_path / f"{seed}-{form}"
            assert main(["export", str(tmp_path / str(seed)), "--to", form, "--out", str(out)]) == 0
            assert ("not private: seed known" in capsys.readouterr().out) == (seed == 1)
        names = {path.name for path in (tmp_path / f"{seed}-csv").iterdir()}
        assert all(name.startswith("not-private-") == (seed == 1) for name in names)
        assert torch.load(tmp_path / f"{seed}-pyg/release.pt", weights_only=True)["status"] == status
