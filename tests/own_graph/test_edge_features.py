"""Features that are made from edges: what a card assumes, which columns are refused, and that none is by mistake."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import dpgraph
from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.edge_features import MOST_HONEST, check_edge_features, degree_scores
from dpgraph.own_graph.fit import fit
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import small, write_csv
from tests.own_graph.test_relations import campus

PLANTED = {
    "degree": lambda degree, rng: degree,
    "logarithm": lambda degree, rng: np.log1p(degree),
    "standardised": lambda degree, rng: (degree - degree.mean()) / degree.std(),
    "falling": lambda degree, rng: 3 - 2 * degree,
    "rank": lambda degree, rng: degree.argsort(kind="stable").argsort(),
    "with a fraction": lambda degree, rng: degree + rng.random(len(degree)),
    "capped": lambda degree, rng: np.minimum(degree, np.quantile(degree, 0.8)),
    "one of a one-hot code": lambda degree, rng: degree == np.median(degree),
    "far from the mean": lambda degree, rng: np.abs(degree - degree.mean()),
}


def degrees(own):
    return np.diff(own.graph().out_ptr).astype(float)


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("relation", ["edge", "node-remove"])
def test_a_column_that_tells_the_degree_is_refused_in_one_line(name, relation, tmp_path):
    own = small(size=400)
    column = PLANTED[name](degrees(own), np.random.default_rng(1)).astype(np.float32)
    planted = replace(own, features=np.column_stack([own.features, column]), columns=("a", "b", "c", "made"))
    with pytest.raises(UserError, match=r"column made: .*--ignore.*--public-column") as error:
        fit(planted, 4.0, relation=relation, out=tmp_path / "out")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def counts(own):
    """Each count of edges that a user may have in a table, by name."""
    size = len(own.ids)
    out, into = (np.bincount(ends, minlength=size) for ends in (own.source, own.target))
    joined = sp.coo_matrix((np.ones(len(own.source)), (own.source, own.target)), (size, size)).tocsr()
    apart = np.asarray(((joined + joined.T) > 0).sum(axis=1)).ravel()
    return {"out": out, "in": into, "rows": out + into, "distinct neighbours": apart}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ["out", "in", "rows", "distinct neighbours"])
def test_every_count_of_edges_is_found(name, directed):
    """Edges are skewed, with duplicates and in one direction, so that counts differ."""
    rng = np.random.default_rng(0)
    ends = np.stack([(300 * rng.random(2000) ** 2).astype(int), (300 * rng.random(2000) ** 0.5).astype(int)])
    ends = ends[:, ends[0] != ends[1]]
    own = from_arrays(ends, rng.integers(0, 3, 300), rng.random((300, 2)), directed=directed)
    column = np.log1p(counts(own)[name]).astype(np.float32)
    planted = replace(own, features=np.column_stack([own.features, column]))
    scores = degree_scores(planted, Relation.EDGE)
    assert scores[2] > 0.99
    assert scores[:2].max() < 0.4


@pytest.mark.parametrize("sign", [1, -1])
def test_a_column_is_found_where_most_nodes_have_one_degree(sign):
    """Its ranks are not tied where degrees are, so that a plain rank correlation would be .67."""
    rng = np.random.default_rng(0)
    ends = np.stack([np.arange(0, 60), np.arange(60, 120)])
    own = from_arrays(ends, rng.integers(0, 2, 400), rng.random((400, 1)))
    planted = replace(
        own, features=np.column_stack([own.features, sign * (degrees(own) + rng.random(400))]).astype(np.float32)
    )
    assert degree_scores(planted, Relation.NODE_REMOVE)[1] > 0.99


def test_honest_columns_are_not_refused():
    """Rare words are the hard case: one that a hub alone has is a function of the degree by chance."""
    rng = np.random.default_rng(0)
    size = 1500
    weights = rng.pareto(1.5, size) + 1
    ends = rng.choice(size, (2, 6000), p=weights / weights.sum())
    words = (rng.random((size, 2000)) < rng.random(2000) ** 4).astype(np.float32)
    hub = np.bincount(ends.ravel(), minlength=size).argmax()
    words[:, 0] = np.arange(size) == hub
    own = from_arrays(ends, rng.integers(0, 3, size), words)
    for relation in (Relation.EDGE, Relation.NODE_REMOVE):
        assert degree_scores(own, relation).max() < MOST_HONEST / 2


def test_a_degree_is_part_of_the_own_record_under_node_null_unless_others_lists_make_it(tmp_path):
    own = small(size=200)
    column = degrees(own)[:, None].astype(np.float32)
    made = replace(own, features=np.hstack([own.features, column]), as_they_are=("feature 3",))
    assert fit(made, 4.0, list_column=["feature 3"]).card["relation"] == "node-null"
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 200, (2, 2000))
    directed = from_arrays(ends, own.labels, own.features, directed=True)
    graph = directed.graph()
    for pointers, refused in ((graph.out_ptr, False), (graph.in_ptr, True)):
        made = np.hstack([own.features, np.diff(pointers)[:, None]]).astype(np.float32)
        found = degree_scores(replace(directed, features=made), Relation.NODE_NULL)[3]
        assert (found >= MOST_HONEST) == refused


def test_a_column_that_is_the_length_of_the_own_list_is_named_and_no_edge_is_said_to_be_protected(tmp_path):
    """An edge moves the rows of both its ends and with them the noisy mean, which the epsilon of its votes leaves
    out."""
    own = small(size=400)
    made = np.hstack([own.features, degrees(own)[:, None]]).astype(np.float32)
    made = replace(own, features=made, columns=("a", "b", "c", "friends"), as_they_are=("friends",))
    with pytest.raises(UserError, match=r"column friends: .* epsilon of an edge.* --list-column 'friends'"):
        fit(made, 4.0, releases=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    few = small(size=40)
    asked = {
        "none": (own, {}), "few": (few, {}),
        "list": (made, {"list_column": ["friends"]}), "public": (made, {"public_column": ["friends"]}),
    }  # fmt: skip
    said = {}
    for name, (data, options) in asked.items():
        releases = tmp_path / name
        card = fit(data, 4.0, releases=releases, **options).card
        (line,) = [json.loads(text) for text in releases.read_text().splitlines()]
        said[name] = {one["relation"] for one in card["beside"]}
        assert said[name] == {one["relation"] for one in line["others"]}
        premise = "for the epsilon under edge: no feature is made from edges"
        assert any(text.startswith(premise) for text in card["assumptions"]) == ("edge" in said[name])
        assert any("single edges have no epsilon" in text for text in card["not_covered"]) == ("edge" not in said[name])
    assert said["none"] == said["public"] == {*said["list"], "edge"}
    assert "edge" not in said["list"] | said["few"]


def test_made_from_the_own_list_is_for_node_null_and_columns_that_there_are():
    own = replace(small(size=60), list_columns=("feature 1",))
    check_edge_features(own, Relation.NODE_NULL)
    for relation in (Relation.EDGE, Relation.NODE_REMOVE):
        with pytest.raises(UserError, match=f"--list-column=feature 1: expected none under {relation}"):
            check_edge_features(own, relation)
    with pytest.raises(UserError, match="--list-column=feature 9: expected one of feature 0"):
        check_edge_features(replace(own, list_columns=("feature 9",)), Relation.NODE_NULL)


def test_what_is_stated_beside_an_edge_says_what_it_assumes_of_features(tmp_path):
    """Columns standardised over all nodes are no reason against an edge's epsilon, but against that of a record."""
    card = fit(small(size=60), 4.0, relation="edge", releases=tmp_path / "file").card
    beside = [one["relation"] for one in card["beside"]]
    assert "node-null" in beside
    (premise,) = [text for text in card["assumptions"] if "no z-score over all nodes" in text]
    assert premise.startswith("for the epsilon under ")
    assert all(relation in premise for relation in beside)


def test_compare_refuses_the_columns_that_fit_refuses():
    own = small(size=400)
    made = replace(own, features=np.hstack([own.features, degrees(own)[:, None]]).astype(np.float32))
    asked = {"relation": "edge", "seeds": 1, "methods": ["votes"], "ranges": {"feature 3": None}}
    with pytest.raises(UserError, match="column feature 3: it nearly determines"):
        dpgraph.compare(made, 4.0, **asked)
    assert dpgraph.compare(made, 4.0, public_column=["feature 3"], **asked).rows


def test_a_column_that_is_said_to_be_public_is_named_in_the_card_and_nowhere_else(tmp_path, capsys):
    data = write_csv(tmp_path)
    lines = (tmp_path / "nodes.csv").read_text().splitlines()
    own = small(size=60)
    made = ["degree", *degrees(own).tolist()]
    (tmp_path / "nodes.csv").write_text("\n".join(f"{line},{one}" for line, one in zip(lines, made)) + "\n")
    asked = ["fit", *data, "--epsilon", "4", "--relation", "edge", "--out", str(tmp_path / "out")]
    asked += ["--range", "degree=as-is"]
    assert main(asked) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "column degree" in said[0]
    assert not (tmp_path / "out").exists()
    assert main([*asked, "--public-column", "degre"]) == 2
    assert "did you mean degree?" in capsys.readouterr().err
    assert main([*asked, "--public-column", "degree"]) == 0
    card = (tmp_path / "out/release/card.md").read_text()
    assert sum("columns are public" in line and ": degree (--public-column)" in line for line in card.splitlines()) == 1
    assert "(score" not in card


@pytest.mark.parametrize(
    ("relation", "premise"),
    [
        ("edge", "no feature is made from edges"),
        ("node-remove", "no feature is made from edges or from other nodes' records"),
        ("node-null", "no feature of a node is made from other nodes' records"),
    ],
)
def test_the_card_states_what_features_may_not_be(relation, premise):
    said = []
    card = fit(campus(), 8.0, relation=relation, mean_degree=60.0, seed=0, say=said.append).card
    assert sum(premise in text for text in card["assumptions"]) == 1
    assert any(premise in text for text in said)


def test_in_python_it_is_an_argument():
    own = small(size=200)
    made = replace(own, features=np.hstack([own.features, degrees(own)[:, None]]).astype(np.float32))
    with pytest.raises(UserError, match=r"column feature 3: .* public_column"):
        dpgraph.fit(made, 4.0, relation="edge")
    fitted = dpgraph.fit(made, 4.0, relation="edge", public_column=["feature 3"], ranges={"feature 3": None}, seed=0)
    assert any("feature 3" in text for text in fitted.card["assumptions"])


@pytest.mark.parametrize("name", ["modularity_class", "PageRank", "closeness", "betweenesscentrality", "clustering"])
def test_a_name_that_edges_were_read_for_is_refused(name):
    own = replace(small(size=60), columns=("a", "b", name))
    with pytest.raises(UserError, match=rf"column {name}: its name .* computed from edges.* --public-column '{name}'"):
        check_edge_features(own, Relation.NODE_NULL)
    check_edge_features(replace(own, public_columns=(name,)), Relation.NODE_NULL)
    check_edge_features(replace(own, columns=("a", "degree", "cluster")), Relation.NODE_NULL)
