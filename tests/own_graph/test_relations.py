"""`fit` under node-remove and for an edge: who gets which bucket, what noise is drawn, and what is refused."""

import csv
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.data.records import TRAIN
from dpgraph.families.votes.removed_mechanism import CappedVotes
from dpgraph.own_graph import secret, training
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.budget import PublicNumbers, budgeted
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.model import load
from dpgraph.own_graph.secret import check_vote_slack
from dpgraph.privacy.accountants.gaussian import gaussian_delta, gaussian_epsilon
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import CLASSES, small

CLIP = 10 * math.sqrt(1 - 1 / 3)  # rows of norm 10 of three classes
NODE_REMOVE = {"relation": "node-remove", "mean_degree": 60.0}


def campus(size=600, split=True):
    """Weak records and many neighbours, so that the public rule gives votes a share."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size)
    ends = rng.integers(0, size, (2, 60 * size))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) | (rng.random(60 * size) < 0.25)]
    features = 0.3 * np.eye(3)[labels] + rng.random((size, 3))
    roles = np.where(rng.random(size) < 0.6, "train", "test")
    return from_arrays(ends, labels, features, roles if split else None, classes=CLASSES)


def test_under_node_remove_every_bucket_is_its_owners(tmp_path):
    own = campus()
    fitted = fit(own, 8.0, out=tmp_path / "out", **NODE_REMOVE)
    release = tmp_path / "out/release"
    assert set(load_file(release / "model.safetensors")) == {"weight", "bias", "row_sum"}
    assert {path.name for path in release.iterdir()} == {
        "model.safetensors", "model.json", "card.json", "card.md", "tradeoff.png",
    }  # fmt: skip
    with (tmp_path / "out/owners/buckets.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["id", "votes for 0", "votes for 1", "votes for 2", "mass of voters"]
    assert np.array_equal([[float(x) for x in row[1:]] for row in rows], fitted.buckets)
    card = json.loads((release / "card.json").read_text())
    assert (card["relation"], card["scope"], card["method"]) == ("node-remove", "joint", "votes")
    assert 7.9 < card["epsilon"] <= 8
    assert any("owner alone" in text for text in card["not_covered"])
    assert not any("edges to a node" in text for text in card["not_covered"])  # they leave with it
    loaded = load(tmp_path / "out")
    new = np.eye(3)
    assert np.allclose(loaded.predict(new).sum(axis=1), 1)
    with pytest.raises(UserError, match="buckets are for their owners alone"):
        loaded.predict(new, [["1"], [], []])
    with pytest.raises(UserError, match="all-outputs"):
        loaded.outputs()
    assert main(["export", str(tmp_path / "out"), "--out", str(tmp_path / "tables")]) == 0
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"parameters.csv", "row_sum.csv"}


def test_neighbours_help_under_node_remove():
    own = campus(size=1500)
    held = own.roles != TRAIN
    votes, alone = (fit(own, 8.0, method=method, **NODE_REMOVE) for method in ("votes", "own"))
    right = [(one.predictions.argmax(axis=1) == own.labels)[held].mean() for one in (votes, alone)]
    assert right[0] > right[1] + 0.1
    assert alone.buckets is None


def test_noise_under_node_remove_is_what_was_accounted_for_and_a_little_more(monkeypatch):
    drawn = []
    monkeypatch.setattr(secret, "noised", lambda values, std, grid, counter, add=secret.noised: (
        drawn.append((values.shape, std, grid)) or add(values, std, grid, counter)))  # fmt: skip
    own = campus()
    mechanism = fit(own, 8.0, **NODE_REMOVE).card["mechanism"]
    found = CappedVotes.model_validate(mechanism)
    norm = math.sqrt(1 - 1 / 3 + found.mass**2)
    assert found.hubs_noise is None or found.hub_limit is not None
    steps = [((3, 3), found.noise_multiplier * CLIP), ((3,), found.noise_multiplier * CLIP)] * found.steps
    hubs = [] if found.hubs_noise is None else [((600,), found.hubs_noise)]
    votes = ((600, 4), found.votes_ratio * found.noise_multiplier * norm)
    wanted = [((3,), found.mean_ratio * found.noise_multiplier), *steps, *hubs, ((600,), found.degrees_noise), votes]
    assert [shape for shape, _, _ in drawn] == [shape for shape, _ in wanted]
    raised = [std if shape == (600,) else std * (1 + 2**-10) for shape, std in wanted]  # counts need no more
    assert np.allclose([std for _, std, _ in drawn], raised, rtol=1e-6)
    assert all(math.log2(grid) % 1 == 0 and grid <= std * 2.0**-20 for _, std, grid in drawn)


def test_a_voter_that_leaves_moves_others_buckets_by_b_at_most(monkeypatch):
    """The code of a release with its noise held fixed, and a voter's record and edges taken away."""
    fixed = np.random.default_rng(1).normal(size=(10_000, 8))

    def held(values, std, grid, counter):
        counter.numbers += values.size
        return values + std * fixed.reshape(-1)[: values.size].reshape(values.shape)

    monkeypatch.setattr(secret, "noised", held)
    own = campus()
    numbers = {"labelled": 300}
    whole = fit(own, 8.0, **NODE_REMOVE, **numbers)
    mechanism = whole.card["mechanism"]
    norm = math.sqrt(1 - 1 / 3 + mechanism["mass"] ** 2)
    degrees = np.bincount(own.source, minlength=600) + np.bincount(own.target, minlength=600)
    voters = np.flatnonzero(own.roles == TRAIN)
    for leaves in voters[np.argsort(degrees[voters])[[0, len(voters) // 2, -1]]]:
        stays = (own.source != leaves) & (own.target != leaves)
        features, labels = own.features.copy(), own.labels.copy()
        features[leaves], labels[leaves] = 0, -1
        less = replace(own, source=own.source[stays], target=own.target[stays], features=features, labels=labels)
        moved = fit(less, 8.0, **NODE_REMOVE, **numbers).buckets - whole.buckets
        moved[leaves] = 0
        # training and hubs are other releases: probabilities of voters without a label would move, and there are none
        assert np.linalg.norm(moved) <= norm * (1 + 1e-9)
        assert np.linalg.norm(moved) > 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scope": "all-outputs", **NODE_REMOVE}, "--scope all-outputs, --relation node-remove: no epsilon"),
        ({"degree_bound": 40}, "--degree-bound=40: expected none under node-null"),
        ({"degree_bound": 3, **NODE_REMOVE}, "degree_bound=3: expected at least"),
        ({"relation": "edge", "method": "own"}, "it reads no edge"),
        ({"relation": "node-remove", "mean_degree": 0.0}, "--mean-degree=0.0"),
        ({"relation": "node-remove", "method": "votes", "epsilon": 0.01}, "drown in noise"),
        ({"relation": "node-remove", "labelled": 599}, "--labelled=599"),
        ({"relation": "edge", "epsilon": 1e6}, "--epsilon=1000000.0: expected a smaller one"),
        ({"relation": "edge", "epsilon": 1e-6, "delta": 1e-9}, "--epsilon=1e-06: expected a larger one: at this delta"),
    ],
)
def test_what_has_no_epsilon_is_refused(options, named, tmp_path):
    with pytest.raises(UserError, match=re.escape(named)):
        fit(campus(), out=tmp_path / "out", **{"epsilon": 8.0, **options})
    # a bound that does not hold is found where noise is drawn: by then the run is charged
    assert [path.name for path in tmp_path.iterdir()] == ["dpgraph.releases.jsonl"] * ("degree_bound=" in named)


@pytest.mark.parametrize("relation", ["node-remove", "edge"])
def test_without_features_lists_would_be_read_in_their_place(relation):
    own = small(size=60)
    with pytest.raises(UserError, match="no features"):
        fit(replace(own, features=None), 4.0, relation=relation)


def test_who_votes_is_the_split_and_never_who_has_a_label():
    own = replace(campus(), labels=np.where(np.arange(600) % 3 == 0, -1, campus().labels))
    free = replace(own, split=None)
    for one in (own, free):
        assert np.array_equal(training.sides(one, Relation.NODE_REMOVE), one.roles == TRAIN)
    assert training.sides(own, Relation.NODE_NULL).all()
    for method in ("auto", "votes"):
        with pytest.raises(UserError, match="no column split: who has a label is protected"):
            fit(free, 8.0, method=method, **NODE_REMOVE)
    assert fit(free, 8.0, method="own", **NODE_REMOVE).card["mechanism"]["num_roots"] == (free.roles == TRAIN).sum()


def test_for_an_edge_the_votes_alone_count():
    card = fit(small(size=400), 1.0, relation="edge").card
    assert card["relation"] == "edge"
    assert 0.99 < card["epsilon"] <= 1
    assert card["epsilon"] == pytest.approx(gaussian_epsilon(mu=card["mu"], delta=card["delta"]))
    beside = {one["relation"]: one["epsilon"] for one in card["beside"]}
    assert set(beside) == {"node-null", "record-replace"}
    assert beside["node-null"] > 1  # a record moves more than an edge


def test_epsilon_at_other_deltas_leaves_room_for_unlikely_events():
    numbers = PublicNumbers(600, 350, 3, voters=350, mean_degree=60.0, features=3)
    what = budgeted("votes", numbers, epsilon=8.0, relation=Relation.NODE_REMOVE)
    delta = what.mechanism.delta
    assert what.failure > 0
    assert what.epsilon_at(what.failure) is None
    for one in (delta, 1e-3):
        epsilon = what.epsilon_at(one)
        assert gaussian_delta(mu=what.mu, epsilon=epsilon) + what.failure <= one * (1 + 1e-6)
    assert what.epsilon_at(delta) >= what.epsilon - 1e-9


def test_rounded_votes_are_paid_for_or_refused():
    check_vote_slack(classes=10, mass=0.01, floor=64, ids=10**6)
    with pytest.raises(UserError, match="rounded votes"):
        check_vote_slack(classes=200, mass=0.01, floor=2048, ids=10**6)
    with pytest.raises(UserError, match="rounded votes"):
        check_vote_slack(classes=200, mass=0.01, floor=512, ids=10**10)


def test_the_command_line_takes_node_remove(tmp_path, capsys):
    own = campus()
    with (tmp_path / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "split", "a", "b", "c"])
        roles = np.where(own.roles == TRAIN, "train", "test")
        writer.writerows([i, own.labels[i], roles[i], *own.features[i]] for i in range(600))
    np.savetxt(tmp_path / "edges.csv", np.stack([own.source, own.target]).T, "%d", ",", header="u,v", comments="")
    data = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--epsilon", "8"]
    data += ["--classes", "0,1,2"]
    removed = ["--relation", "node-remove", "--mean-degree", "60", "--degree-bound", "150"]
    assert main(["fit", *data, *removed, "--out", str(tmp_path / "out")]) == 0
    assert "no node may have more than 150 edges, by a public schema" in capsys.readouterr().out
    card = (tmp_path / "out/release/card.md").read_text()
    assert "relation: node-remove: one node of any degree leaves" in card
    assert "but for a probability of" in card
    asked = ["afford", "--nodes", "600", "--classes", "3", "--labelled", "350", "--epsilon", "8"]
    assert main([*asked, *removed]) == 0
    assert "Can this graph afford epsilon = 8?" in capsys.readouterr().out
