"""`--method votes-learnt`: what is released, stored, charged and refused, and that new nodes are read by it."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save

from dpgraph.audits.registry import AUDITS
from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.families.votes.learnt import LearntReader
from dpgraph.own_graph import audited
from dpgraph.own_graph.budget import PublicNumbers, budgeted
from dpgraph.own_graph.compare import compare
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.model import SavedModel, load
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.guarantee import at_most
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import small, write_csv

NUMBERS = PublicNumbers(4000, 4000, 4, mean_degree=30.0, features=700)


def test_predictions_are_good_where_noise_is_small():
    own = small(size=300)
    fitted = fit(own, 50.0, method="votes-learnt")
    assert fitted.card["method"] == fitted.model.header.kind == "votes-learnt"
    assert (fitted.predictions.argmax(axis=1) == own.labels)[own.roles != 0].mean() > 0.9


def test_it_is_asked_for_by_name():
    assert budgeted("votes", NUMBERS, epsilon=4.0).mechanism.reader_ratio is None
    assert budgeted("auto", NUMBERS, epsilon=4.0).kind == "votes-learnt"
    assert budgeted("auto", replace(NUMBERS, mean_degree=4.0), epsilon=1.0).kind == "votes"
    what = budgeted("votes-learnt", NUMBERS, epsilon=4.0)
    assert what.mechanism.reader_mu**2 / what.mu**2 == pytest.approx(0.03)
    assert what.mechanism.votes_mu / what.mu == pytest.approx(np.sqrt(0.5))


def test_all_of_it_is_charged_under_every_relation_that_the_card_states():
    what, plain = (budgeted(kind, NUMBERS, epsilon=1.0) for kind in ("votes-learnt", "votes"))
    mechanism = what.mechanism
    steps, noise = mechanism.closed()
    parts = [steps / noise**2, *(one.count / one.noise**2 for one in mechanism.releases)]
    assert len(parts) == 4
    assert what.mu == pytest.approx(np.sqrt(sum(parts)))
    assert what.epsilon == pytest.approx(gaussian_epsilon(mu=what.mu, delta=mechanism.delta))
    for one in (what, plain):  # what was asked for, from the private side
        assert 0.999 <= one.epsilon <= 1
    votes = mechanism.votes_mu**2 * 2 / mechanism.degree_floor
    edge = gaussian_epsilon(mu=np.sqrt(votes + 16 * mechanism.reader_mu**2), delta=mechanism.delta)
    assert what.epsilon_of(Relation.EDGE) == pytest.approx(edge)
    assert edge > 1.5 * plain.epsilon_of(Relation.EDGE)


def test_the_card_says_what_was_released_and_what_an_edge_has(tmp_path):
    own = small(size=300)
    made = {name: fit(own, 4.0, method=name, out=tmp_path / name).card for name in ("votes", "votes-learnt")}
    edges = {
        name: next(one["epsilon"] for one in card["beside"] if one["relation"] == "edge") for name, card in made.items()
    }
    assert edges["votes-learnt"] > 1.5 * (edges["votes"] - 4.0 / 20)  # without the choice of a reader
    assert any("20 steps in which a reader of buckets is learnt" in text for text in made["votes-learnt"]["releases"])
    assert not any("a reader of buckets is learnt" in text for text in made["votes"]["releases"])
    text = (tmp_path / "votes-learnt/release/card.md").read_text()
    assert f"- edge, ε = {at_most(edges['votes-learnt'], digits=4)}" in text
    assert "method votes-learnt" in text


def test_new_nodes_are_read_by_the_reader_that_was_released(tmp_path):
    fitted = fit(small(size=200), 4.0, method="votes-learnt", out=tmp_path / "out")
    model = load(tmp_path / "out")
    header, learnt = model.header, model.learnt
    features, lists = np.array([[1.0, 0.2, 0.1], [0.0, 0.5, 0.0]]), [[*header.ids[:4]], []]
    found = model.predict(features, lists)
    own = model.predict(features)
    for row, names in enumerate(lists):
        read = np.zeros(3)
        for name in names:
            bucket = model.buckets[header.ids.index(name)]
            mass = max(bucket[-1] / header.mass, 1.0)
            read += mass / (mass**2 + (header.shrinkage * header.std) ** 2) * bucket[:-1]
        read *= max(header.strength, 1.0) / np.sqrt(len(names) + 1)
        scores = learnt.factor * np.log(own[row] + 1e-3) + read @ learnt.weight + learnt.bias
        assert found[row] == pytest.approx(np.exp(scores) / np.exp(scores).sum())
    assert np.array_equal(learnt.parameters, fitted.model.learnt.parameters)
    start = LearntReader.start(header.strength / max(header.strength, 1.0), 3)
    assert not np.array_equal(learnt.parameters, start.parameters)
    plain = SavedModel(header, model.weight, model.bias, model.buckets, model.row_sum)
    as_started = SavedModel(header, model.weight, model.bias, model.buckets, model.row_sum, start)
    assert as_started.predict(features, lists) == pytest.approx(plain.predict(features, lists))
    assert as_started.outputs() == pytest.approx(plain.outputs())


def test_its_noise_is_the_operating_system_s_and_a_known_seed_leaves_no_release(tmp_path):
    found = [fit(small(), 4.0, method="votes-learnt").model.learnt.parameters for _ in range(2)]
    assert not np.isclose(*found).all()
    for name in ("one", "two"):
        fit(small(), 4.0, method="votes-learnt", seed=1, out=tmp_path / name)
    one, two = (tmp_path / name / "not-private/model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"relation": "node-remove"}, "its reader has no proof"),
        ({"relation": "edge"}, "each step of its reader moves by four"),
        ({"scope": "all-outputs"}, "its rows read raw records"),
    ],
)
def test_where_nothing_is_proved_or_gained_it_is_refused(asked, reason, capsys):
    option, value = next(iter(asked.items()))
    message = f"--{option} {value}, --method votes-learnt: "
    with pytest.raises(UserError, match=message):
        fit(small(), 4.0, method="votes-learnt", **asked)
    public = ["afford", "--nodes", "900", "--classes", "3", "--labelled", "800", "--epsilon", "4"]
    assert main([*public, "--method", "votes-learnt", f"--{option}", value]) == 2
    assert message in (said := capsys.readouterr().err)
    assert reason in said
    compared = compare(small(), 4.0, methods=["votes", "votes-learnt"], seeds=1, **asked)
    assert [row.method for row in compared.rows] == ["votes"]
    assert reason in compared.left_out["votes-learnt"]


def test_afford_says_what_an_edge_has(capsys):
    public = ["afford", "--nodes", "4000", "--classes", "4", "--labelled", "4000", "--epsilon", "1"]
    assert main([*public, "--method", "votes-learnt"]) == 0
    assert "With a learnt reader a single edge has epsilon = " in capsys.readouterr().out
    assert main([*public, "--method", "votes"]) == 0
    assert "edge" not in capsys.readouterr().out


def test_compare_has_it_where_it_is_named(tmp_path, capsys):
    data = write_csv(tmp_path, size=120)
    named = ["--methods", "votes-learnt,votes", "--out", str(tmp_path / "out")]
    assert main(["compare", *data, "--epsilon", "4", "--seeds", "2", *named]) == 0
    with (tmp_path / "out/comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"votes", "votes-learnt"}
    assert {(row["relation"], row["scope"]) for row in rows} == {("node-null", "joint")}
    assert all(3.9 < float(row["epsilon"]) <= 4 for row in rows)


def test_an_export_has_the_reader(tmp_path, capsys):
    fitted = fit(small(size=80), 4.0, method="votes-learnt", out=tmp_path / "mine")
    assert main(["export", str(tmp_path / "mine"), "--out", str(tmp_path / "tables")]) == 0
    assert "reader.csv" in capsys.readouterr().out
    with (tmp_path / "tables/reader.csv").open(newline="") as file:
        head, *rows = list(csv.reader(file))
    learnt = fitted.model.learnt
    assert head == ["what is read", "score of 0", "score of 1", "score of 2"]
    numbers = np.array([[float(one) for one in row[1:]] for row in rows])
    assert np.array_equal(numbers[:3], learnt.weight)
    assert np.array_equal(numbers[3], [learnt.factor] * 3)
    assert np.array_equal(numbers[4], learnt.bias)


@pytest.mark.parametrize("damage", ["none", "shape", "nan", "of votes"])
def test_a_model_whose_reader_is_not_whole_is_refused(damage, tmp_path):
    fit(small(size=80), 4.0, method="votes-learnt", out=tmp_path / "mine")
    folder = tmp_path / "mine/release"
    arrays = load_arrays((folder / "model.safetensors").read_bytes())
    header = json.loads((folder / "model.json").read_text())
    if damage == "none":
        del arrays["reader_weight"]
    elif damage == "shape":
        arrays["reader_bias"] = np.zeros(4)
    elif damage == "nan":
        arrays["reader_factor"] = np.array([np.nan])
    else:
        header["kind"] = "votes"
    data = save(arrays)
    (folder / "model.safetensors").write_bytes(data)
    header["sha256"] = hashlib.sha256(data).hexdigest()
    (folder / "model.json").write_text(json.dumps(header))
    with pytest.raises(UserError, match=r"arrays .*: expected finite"):
        load(folder)


def test_its_audit_is_run(monkeypatch):
    monkeypatch.undo()
    names = [name for name, _ in audited.audits_of(budgeted("votes-learnt", NUMBERS, epsilon=4.0))]
    assert names[4:-2] == ["votes-mean", "votes", "votes-learnt"]
    assert "votes-learnt" in AUDITS
    assert "votes-learnt" not in [name for name, _ in audited.audits_of(budgeted("votes", NUMBERS, epsilon=4.0))]


@pytest.mark.parametrize(
    ("method", "relation"),
    [(method, relation) for method in ("auto", "votes")
     for relation in ([], ["--relation", "node-remove"], ["--scope", "all-outputs"])] + [("votes-learnt", [])],
)  # fmt: skip
def test_without_features_afford_is_no_better_than_for_any_number_of_them(method, relation, capsys):
    for nodes, labelled, epsilon in ((300, 250, "8"), (1500, 900, "4"), (20000, 4000, ".5")):
        asked = ["afford", "--nodes", str(nodes), "--classes", "3", "--labelled", str(labelled), "--epsilon", epsilon]
        asked += ["--method", method, "--mean-degree", "60", *relation]
        if main(asked):
            assert "would drown in noise" in capsys.readouterr().err
            continue
        worst = stated(capsys.readouterr().out)
        for features in (0, 1, 19, 20, 224, 225, 1125, 14999, 15000, 30000):
            assert main([*asked, "--features", str(features)]) == 0
            times, neighbours, edge = stated(capsys.readouterr().out)
            assert times >= worst[0]
            assert neighbours <= worst[1]
            assert edge <= worst[2]


def stated(said):
    """Return times the noise, neighbours that are needed (without votes endless), and the epsilon of an edge, or 0."""
    texts = (("add up to", 0.0), ("where it has about", math.inf), ("edge has epsilon =", 0.0))
    found = [(re.search(rf"{text} ([\d.e+-]*\d)", said), none) for text, none in texts]
    return [none if one is None else float(one[1]) for one, none in found]


def test_afford_states_what_the_card_of_the_same_public_numbers_has(tmp_path, capsys):
    data = write_csv(tmp_path, size=120)
    out = tmp_path / "out"
    public = ["--epsilon", "8", "--labelled", "100", "--method", "votes-learnt"]
    assert main(["fit", *data, *public, "--out", str(out)]) == 0
    fitted = capsys.readouterr().out
    columns = load(out).header.num_features
    plan = next(line for line in fitted.splitlines() if line.startswith("Can this graph"))
    for features in ([], ["--features", str(columns)]):
        assert main(["afford", "--nodes", "120", "--classes", "3", *public, *features]) == 0
        assert capsys.readouterr().out.splitlines()[0] == plan
