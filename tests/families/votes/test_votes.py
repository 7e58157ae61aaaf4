"""Private votes on small graphs: next to sums made node by node, on odd inputs, and what they are good for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.audits.graphs import null_records, with_edges
from dpgraph.core.errors import UserError
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.iterates import AveragedNetwork, AveragingStep
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.votes.audit import cases, predictions, prepared_votes, worked_out
from dpgraph.families.votes.ballots import GRID, Ballots
from dpgraph.families.votes.mechanism import READERS, BucketReader
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.families.votes.rows import RowMean, row_sum, scaled_rows
from dpgraph.families.votes.sensitivity import ROW_NORM
from dpgraph.families.votes.train import RawNeighbours
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.procedure import NotAsAccounted

CPU = torch.device("cpu")


def homophilous(nodes: int = 900, degree: float = 12.0, signal: float = 0.6, seed: int = 0) -> Graph:
    """Two classes of equal size, 90 % of edges within them; features tell little of a class."""
    random = np.random.default_rng(seed)
    labels = np.arange(nodes) % 2
    pairs = int(nodes * degree / 2)
    first, second = random.integers(0, nodes, (2, pairs))
    other = (labels[first] != labels[second]) == (random.random(pairs) < 0.1)
    owners, members = first[other], second[other]
    owners, members = np.concatenate([owners, members]), np.concatenate([members, owners])
    keys = np.unique(owners * nodes + members)
    keys = keys[keys // nodes != keys % nodes]
    features = random.standard_normal((nodes, 6)) + signal * np.where(labels, 1, -1)[:, None] * np.eye(6)[0]
    split = np.select([np.arange(nodes) % 10 < 6, np.arange(nodes) % 10 == 6], [TRAIN, VALIDATION], TEST)
    graph = cases()["fan"]
    plain = replace(
        graph, features=features.astype(np.float32), labels=labels.astype(np.int64), split=split.astype(np.uint8),
        num_classes=2,
    )  # fmt: skip
    return with_edges(plain, keys // nodes, keys % nodes)


def cell(privacy: dict[str, Any] | None = None, **training: Any) -> Any:
    return resolve(
        {
            "task": {"dataset": "toy"},
            "method": "dp-votes",
            "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
            "training": {
                "optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1, "steps": 20, "sampling_rate": 1.0,
                "averaged_share": 0.5, **training,
            },
            "privacy": {"epsilon": 4.0, "clip_norm": 5.0, **(privacy or {})},
            "seeds": [0],
        }
    )  # fmt: skip


def accuracy(graph: Graph, found: Any, seeds: int = 1) -> float:
    calibration = calibrate(found, len(graph.train_nodes), default_cache(), num_protected=graph.num_nodes)
    right = []
    for job in make_jobs(graph, found, range(seeds), calibration, CPU):
        outcome = method("dp-votes").run(job, lambda step, logits: {})
        assert job.prepared is not None
        job.prepared.check()
        test = graph.split == TEST
        right.append((outcome.logits.argmax(axis=1) == graph.labels)[test].mean())
    return float(np.mean(right))


def test_raw_inference_averages_final_scores_over_lists_and_covers_the_parameters_alone() -> None:
    """The opponent of votes: the same training and noise, then neighbours that no epsilon covers."""
    graph = homophilous()
    found = {}
    for raw in (False, True):
        asked = cell({"votes_share": 0.0, "raw_inference": raw})
        calibration = calibrate(asked, len(graph.train_nodes), default_cache(), num_protected=graph.num_nodes)
        (job,) = make_jobs(graph, asked, [0], calibration, CPU)
        seen: list[np.ndarray] = []
        logits = method("dp-votes").run(job, lambda step, logits, seen=seen: seen.append(logits) or {}).logits
        found[raw] = calibration.statement.rigorous, logits
    assert (found[False][0].scope, found[True][0].scope) == ("joint", "parameters")
    assert found[True][0].epsilon == found[False][0].epsilon
    plain = RawNeighbours(SimpleNamespace(logits=lambda network, rows: rows), graph)
    own = np.arange(2.0 * graph.num_nodes).reshape(-1, 2)
    mean = plain.logits(None, torch.from_numpy(own)).numpy()
    for node in (0, graph.num_nodes - 1):
        members = [node, *graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]]]
        assert mean[node] == pytest.approx(own[members].mean(axis=0))
    test = graph.split == TEST
    right = {raw: (logits.argmax(axis=1) == graph.labels)[test].mean() for raw, (_, logits) in found.items()}
    assert right[True] > right[False] + 0.02


@pytest.mark.parametrize("privacy", [{"votes_share": 0.5}, {"votes_share": 0.0, "variant": "node-remove-capped"}])
def test_the_raw_graph_is_read_without_votes_alone(privacy: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="raw_inference=True: expected False"):
        cell({**privacy, "raw_inference": True})


@pytest.mark.parametrize("name", ["fan", "star", "hub", "copies"])
def test_buckets_are_the_sums_of_votes(name: str) -> None:
    graph = cases()[name]
    step = prepared_votes(graph, 0)
    cast = step.ballots().ballots(step.labels_that_vote, predictions(graph), 0.3)
    assert step.ballots().buckets(cast) == pytest.approx(worked_out(graph, predictions(graph)), abs=1e-7)


def test_lists_are_sets_of_ids_of_others() -> None:
    """Duplicates, the own id and ids out of range are left out, in any order; one-way edges stay one-way."""
    odd = Ballots.from_lists(np.array([0, 6, 6, 7]), np.array([2, 1, 2, 0, -1, 3, 0]), np.ones(3, dtype=bool), 1)
    plain = Ballots.from_lists(np.array([0, 2, 2, 3]), np.array([1, 2, 0]), np.ones(3, dtype=bool), 1)
    assert np.array_equal(odd.lists.toarray(), plain.lists.toarray())
    assert odd.lists.toarray().tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert odd.degrees.tolist() == [2, 0, 1]
    votes = np.eye(3)
    assert odd.buckets(votes).tolist() == [[1, 0, 1], [1, 1, 0], [1, 0, 1]]  # node 1 votes for itself alone


def test_weights_have_a_floor() -> None:
    ptr = np.array([0, 0, 1, 9])
    ballots = Ballots.from_lists(
        np.append(ptr, [9] * 8), np.array([0, *range(2), *range(3, 9)]), np.ones(11, dtype=bool), 4
    )
    assert ballots.degrees[:3].tolist() == [0, 1, 8]
    assert ballots.weights[:3] == pytest.approx([0.5, 0.5, 1 / 3])


def test_votes_are_probability_vectors_whatever_they_are_given() -> None:
    ballots = Ballots.from_lists(np.zeros(7, dtype=np.int64), np.zeros(0, dtype=np.int32), np.arange(6) != 5, 1)
    given = np.array(
        [[np.nan, 1.0, 0.0], [np.inf, 0.2, -5.0], [0, 0, 0], [1e300, 1e300, 0], [0.2, 0.3, 0.5], [1, 0, 0]]
    )
    found = ballots.ballots(np.array([-1, -1, -1, -1, 2, 0]), given, 0.3)
    shares = found[:, :3] + 1 / 3
    assert shares[:5] == pytest.approx(
        np.array([[0, 1, 0], [0, 1, 0], [1 / 3] * 3, [0.5, 0.5, 0], [0, 0, 1]]), abs=1e-8
    )  # fmt: skip
    assert not found[5].any()  # has no record: neither votes nor counts
    assert found[:5, 3] == pytest.approx(0.3)
    assert (np.linalg.norm(found, axis=1) <= np.sqrt(2 / 3 + 0.09)).all()  # rounding goes towards zero
    assert np.array_equal(found * GRID, np.trunc(found * GRID))


def test_a_label_that_is_no_class_does_not_vote() -> None:
    ballots = Ballots.from_lists(np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int32), np.ones(2, dtype=bool), 1)
    given = np.array([[0.7, 0.3], [0.7, 0.3]])
    assert np.array_equal(
        ballots.ballots(np.array([5, -1]), given, 0.3), ballots.ballots(np.array([-1, -1]), given, 0.3)
    )


def test_a_node_reads_the_others_and_not_itself() -> None:
    """Without noise, what a node reads is the shrunk sum over its buckets less its own share, node by node."""
    graph = cases()["hub"]
    step, chances = prepared_votes(graph, 0), predictions(graph)
    ballots = step.ballots()
    cast = ballots.ballots(step.labels_that_vote, chances, 0.3)
    released = ballots.buckets(cast)
    read = ballots.read(released, cast, 0.3, 0.8, 1.5)
    for node in range(graph.num_nodes):
        total = np.zeros(3)
        for bucket in [*graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]], node]:
            mass = max(released[bucket, 3] / 0.3, 1.0)
            total += mass / (mass**2 + (1.5 * 0.8) ** 2) * (released[bucket, :3] - cast[node, :3])
        assert read[node] == pytest.approx(total, abs=1e-9)
    scores = ballots.scores(chances, read, BucketReader(1.5, 2.0))
    degree = np.diff(graph.out_ptr)
    assert scores == pytest.approx(np.log(chances + 1e-3) + 2 / np.sqrt(degree + 1)[:, None] * read)
    assert np.array_equal(ballots.scores(chances, read, READERS[-1]).argmax(1), chances.argmax(1))  # own alone


def test_with_one_hop_a_node_reads_its_own_bucket() -> None:
    graph = cases()["hub"]
    step, chances = prepared_votes(graph, 0, one_hop=True, degree_floor=4), predictions(graph)
    ballots = step.ballots()
    cast = ballots.ballots(step.labels_that_vote, chances, 0.3)
    released = ballots.buckets(cast)
    two_hops = prepared_votes(graph, 0, degree_floor=4).ballots()
    assert np.array_equal(released, two_hops.buckets(cast))  # what is released is the same
    read = ballots.read(released, cast, 0.3, 0.8, 1.5)
    for node in range(graph.num_nodes):
        mass = max(released[node, 3] / 0.3, 1.0)
        others = mass / (mass**2 + (1.5 * 0.8) ** 2) * (released[node, :3] - cast[node, :3])
        assert read[node] == pytest.approx(others, abs=1e-12)
    scores = ballots.scores(chances, read, BucketReader(1.5, 2.0))
    assert scores == pytest.approx(np.log(chances + 1e-3) + 2 * read)


def test_labels_may_be_kept_out_of_votes() -> None:
    """Then a training node votes as it predicts; one without features still has a record, its label, and votes."""
    graph = cases()["fan"]
    bare = replace(graph, features=np.where(np.arange(graph.num_nodes)[:, None] == 2, 0, graph.features))
    step, chances = prepared_votes(bare, 0, label_votes=False, degree_floor=4), predictions(graph)
    cast = step.ballots().ballots(step.labels_that_vote, chances, 0.3)
    everybody = step.ballots().ballots(np.full(graph.num_nodes, -1), chances, 0.3)
    assert np.array_equal(cast, everybody)
    assert bare.split[2] == TRAIN
    assert cast[2].any()


class _Watched:
    """In place of the noise of votes: what is to be released, and what was given out instead."""

    def __init__(self, given: list[np.ndarray]) -> None:
        self.sums, self.given, self.stds = list[np.ndarray](), given, list[float]()

    def on(self, sums: np.ndarray, std: float, grid: float) -> np.ndarray:
        self.sums.append(sums)
        self.stds.append(std)
        return self.given[len(self.sums) - 1]


@pytest.mark.parametrize("one_hop", [False, True])
@pytest.mark.parametrize("name", list(cases()))
def test_given_what_was_released_a_record_moves_every_round_by_its_own_votes(name: str, one_hop: bool) -> None:
    """Theorem 11 for several rounds: with the same releases on both sides all others vote alike in each round."""
    graph, chances = cases()[name], predictions(cases()[name])
    random = np.random.default_rng(3)
    given = [random.normal(0, 2, (graph.num_nodes, 4)) for _ in range(3)]
    bound, sums = np.sqrt(1 - 1 / 3 + 0.3**2), []
    for one in (graph, null_records(graph, [0])):
        step = prepared_votes(one, 0, rounds=3, one_hop=one_hop, label_votes=False, degree_floor=4)
        step._votes = watched = _Watched(given)  # type: ignore[assignment]
        # of its own record: a null one has others' predictions, and no vote
        step.scores(chances if one is graph else np.where(np.arange(len(chances))[:, None] == 0, 1 / 3, chances))
        assert len(watched.sums) == len([one for one in step.made if one.kind == "votes"]) == 3
        sums.append(watched.sums)
    for place, (present, null) in enumerate(zip(*sums, strict=True)):
        moved = present - null
        assert 0 < np.linalg.norm(moved) <= bound * (1 + 1e-6)
        if name != "copies":
            assert not moved[graph.num_nodes - 1].any() or name == "hub"  # a bucket that it does not name
        assert place == 0 or np.abs(present - sums[0][0]).max() > 0.05  # what nodes say has changed


def test_a_null_record_adds_nothing_and_its_place_stays() -> None:
    graph = cases()["star"]
    nulled = null_records(graph, [0])
    cast = [
        (step := prepared_votes(one, 0)).ballots().ballots(step.labels_that_vote, predictions(one), 0.3)
        for one in (graph, nulled)
    ]
    assert cast[0][0].any()
    assert not cast[1][0].any()
    assert np.array_equal(cast[0][1:], cast[1][1:])  # pointers to it, and the lengths of lists, stay


def test_validation_and_test_labels_do_not_vote() -> None:
    graph = cases()["hub"]
    labels = np.where(graph.split == TRAIN, graph.labels, (graph.labels + 1) % 3)
    cast = [
        (step := prepared_votes(one, 0)).ballots().ballots(step.labels_that_vote, predictions(graph), 0.3)
        for one in (graph, replace(graph, labels=labels))
    ]
    assert np.array_equal(*cast)


def test_rows_have_one_norm() -> None:
    rows = np.array([[3.0, 4.0], [0, 0], [np.nan, 1], [1e200, 0], [np.inf, 1]])
    assert scaled_rows(rows) == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0, 0], [1, 0], [0, 0]]))
    assert row_sum(rows) == pytest.approx([1.6, 0.8])


@given(st.integers(0, 2**32), st.sampled_from([1.0, 1e-200, 1e200]), st.integers(1, 40))
def test_a_record_moves_the_sum_of_the_rows_by_at_most_one_and_the_sum_is_exact(
    seed: int, scale: float, width: int
) -> None:
    """Whatever the records, and in whatever order: what is added up is on a grid."""
    random = np.random.default_rng(seed)
    records = scale * random.standard_normal((20, width)) * 10.0 ** random.integers(-8, 9, (20, width))
    records[3, 0], records[4] = np.inf, 0
    whole = row_sum(records)
    assert np.array_equal(whole, row_sum(records[random.permutation(20)]))
    assert np.array_equal(whole * GRID, np.rint(whole * GRID))
    for place in range(20):
        less = records.copy()
        less[place] = 0
        assert np.linalg.norm(whole - row_sum(less)) <= 1 + 1e-12


def test_centred_rows_keep_features_above_the_noise_and_lose_the_mean() -> None:
    random = np.random.default_rng(1)
    counts = random.poisson([5.0, 3.0, 0.0, 0.0], (50, 4)).astype(float)
    released = scaled_rows(counts).sum(axis=0) + np.array([0.1, -0.1, 0.4, -3.0])
    rows = scaled_rows(counts, RowMean(released, 0.5))
    assert rows.shape == (50, 2)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert rows @ released[:2] == pytest.approx(np.zeros(50), abs=1e-5)
    assert np.array_equal(rows[7:9], scaled_rows(counts[7:9], RowMean(released, 0.5)))  # each record by itself
    nothing = scaled_rows(counts, RowMean(np.full(4, -1.0), 0.5))
    assert np.array_equal(nothing, scaled_rows(counts))


def test_of_features_that_may_be_negative_only_a_mean_beyond_its_noise_is_taken_off() -> None:
    random = np.random.default_rng(2)
    noise = random.standard_normal(50)
    found = RowMean(noise, 1.0, signed=True)
    assert (len(found.kept), found.direction.any()) == (50, False)
    one = RowMean(noise + 30 * (np.arange(50) == 3) - 30 * (np.arange(50) == 7), 1.0, signed=True)
    assert len(one.kept) == 50
    assert np.linalg.norm(one.direction) == pytest.approx(1)
    assert one.direction[3] > 0.6 > -0.6 > one.direction[7]
    assert not one.direction[np.abs(one.released) <= 1].any()
    rows = scaled_rows(random.standard_normal((20, 50)), one)
    assert rows @ one.direction == pytest.approx(np.zeros(20), abs=1e-6)


def test_of_few_features_a_mean_is_taken_off_where_most_of_a_row_is_along_it() -> None:
    for features, share, taken in ((3, 0.85, False), (3, 0.92, True), (15, 0.85, False), (16, 0.1, True)):
        released = np.full(features, 100 * share / np.sqrt(features))  # the mean of 100 rows has the norm `share`
        assert RowMean(released, 0.1, signed=True, rows=100).direction.any() == taken


def test_one_full_step_from_zero_is_the_sum_of_each_class() -> None:
    """The class sums of docs/privacy/votes.md#mechanism: what one clipped step releases, without noise, less the
    bias."""
    graph = homophilous(120)
    graph = replace(graph, labels=(np.arange(120) % 4 == 0).astype(np.int64))  # a bias would say so
    found = cell({"epsilon": None, "noise_multiplier": 1e-6, "votes_share": 0.0, "delta": 1e-4, "clip_norm": 2.0},
                 steps=1, momentum=0.0, averaged_share=0.0, learning_rate=1.0)  # fmt: skip
    calibration = calibrate(found, len(graph.train_nodes), default_cache(), num_protected=120)
    (job,) = make_jobs(graph, found, [0], calibration, CPU)
    weights: list[np.ndarray] = []

    def look(done: int, logits: np.ndarray) -> dict[str, Any]:
        weights.append(logits)
        return {}

    method("dp-votes").run(job, look)
    rows, train = scaled_rows(graph.features) * ROW_NORM, graph.train_nodes
    with_one = np.column_stack([rows, np.ones(120)])
    pushed = (np.eye(2)[graph.labels[train]] - 0.5)[:, :, None] * with_one[train][:, None, :]
    pushed *= (2.0 / np.linalg.norm(pushed, axis=(1, 2)))[:, None, None]  # every gradient is clipped to C alike
    logits = rows @ pushed.sum(axis=0)[:, :-1].T / len(train)
    shown = weights[-1] - weights[-1].mean(axis=1, keepdims=True)  # log-probabilities are logits up to a constant
    assert shown == pytest.approx(logits - logits.mean(axis=1, keepdims=True), abs=2e-3)


def test_votes_help_where_neighbours_agree() -> None:
    graph = homophilous()
    with_votes, own = (accuracy(graph, cell({"votes_share": share}), 2) for share in (0.5, 0.0))
    assert own < 0.85
    assert with_votes > own + 0.06


VARIANTS: dict[str, dict[str, Any]] = {
    "rigorous": {"choice_epsilon": 0.2},
    "rigorous, one hop, two rounds": {"choice_epsilon": 0.2, "one_hop": True, "rounds": 2},
    "rigorous, learnt": {"choice_epsilon": 0.2, "reader_share": 0.2, "reader_steps": 3},
    "node-remove-capped": {
        "variant": "node-remove-capped", "degrees_share": 0.2, "cap_margin": 1.0, "hub_share": 0.1, "hub_limit": 20
    },
    "node-remove-strangers": {"variant": "node-remove-strangers", "degree_bound": 60, "taper": 0.0},
    "node-remove-capped-strangers": {
        "variant": "node-remove-capped-strangers", "degrees_share": 0.2, "cap_margin": 1.0, "hub_share": 0.1,
        "hub_limit": 20,
    },
}  # fmt: skip


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("setting", ["no edges", "one way", "a class without training nodes", "all isolated but two"])
def test_odd_graphs_run_and_are_accounted_for(setting: str, variant: str) -> None:
    graph = homophilous(120)
    owners = np.repeat(np.arange(120), np.diff(graph.out_ptr))
    members = np.asarray(graph.out_idx, dtype=np.int64)
    kept = {
        "no edges": owners < 0,
        "one way": owners < members,
        "a class without training nodes": owners >= 0,
        "all isolated but two": (owners == owners[0]) & (members == members[0]),
    }[setting]
    graph = with_edges(graph, owners[kept], members[kept])
    if setting.startswith("a class"):
        graph = replace(graph, split=np.where((graph.labels == 1) & (graph.split == TRAIN), TEST, graph.split))
    assert 0 <= accuracy(graph, cell({"mean_share": 0.1, "votes_share": 0.4, **VARIANTS[variant]})) <= 1


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_what_is_no_set_of_others_ids_is_made_one_and_the_run_is_the_same(variant: str) -> None:
    """Duplicates, the own id, ids below 0 and beyond the last: every prediction and every release keep their bits."""
    graph = homophilous(120)
    lists = [list(graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]]) for node in range(120)]
    odd = [[*members[::-1], *members[:2], node, -1, 120, 2**31 - 1] for node, members in enumerate(lists)]
    strange = replace(
        graph,
        out_ptr=np.cumsum([0, *map(len, odd)]).astype(graph.out_ptr.dtype),
        out_idx=np.concatenate(odd).astype(graph.out_idx.dtype),
    )
    found = cell({"mean_share": 0.1, "votes_share": 0.4, **VARIANTS[variant]})
    calibration = calibrate(found, len(graph.train_nodes), default_cache(), num_protected=120)
    seen = []
    for one in (graph, strange):
        (job,) = make_jobs(one, found, [0], calibration, CPU)
        logits = method("dp-votes").run(job, lambda step, logits: {}).logits
        expected(job.prepared, PreparedVotes).check()
        seen.append((logits, expected(job.prepared, PreparedVotes).released))
    assert np.array_equal(seen[0][0], seen[1][0])
    assert np.array_equal(seen[0][1], seen[1][1])


@pytest.mark.parametrize("variant", ["node-remove-capped", "node-remove-capped-strangers"])
def test_caps_are_refused_on_a_graph_of_more_nodes_than_were_accounted_for(variant: str) -> None:
    """With too few nodes T_0, the most receivers of a voter, would be too small for the noise of the hubs' counts."""
    graph = with_edges(homophilous(120), np.array([0, 60]), np.array([60, 0]))
    found = cell({"mean_share": 0.1, "votes_share": 0.4, **VARIANTS[variant]})
    roots = len(graph.train_nodes)
    calibration = calibrate(found, roots, default_cache(), num_protected=roots + 1)
    (job,) = make_jobs(graph, found, [0], calibration, CPU)
    with pytest.raises(NotAsAccounted, match=f"a graph of 120 nodes: expected at most {roots + 1}"):
        method("dp-votes").run(job, lambda step, logits: {})


def test_a_class_without_training_nodes_gets_what_soft_predictions_give_it() -> None:
    """No label votes for it, every vote keeps its bound, and it may be predicted."""
    graph = cases()["hub"]
    absent = replace(graph, labels=np.where((graph.split == TRAIN) & (graph.labels == 2), 0, graph.labels))
    step, chances = prepared_votes(absent, 0, degree_floor=1), predictions(graph)
    ballots = step.ballots()
    cast = ballots.ballots(step.labels_that_vote, chances, 0.3)
    training = np.flatnonzero((graph.split == TRAIN) & ballots.votes)
    assert cast[training, 2] == pytest.approx(-ballots.weights[training] / 3, abs=1e-8)
    others = np.setdiff1d(np.flatnonzero(ballots.votes), training)
    assert (cast[others, 2] > -ballots.weights[others] / 3 + 1e-3).any()


def test_votes_that_did_not_happen_or_happened_twice_are_not_accounted_for() -> None:
    graph = homophilous(120)
    found = cell(steps=2)
    calibration = calibrate(found, len(graph.train_nodes), default_cache(), num_protected=120)
    for times in (0, 2):
        (job,) = make_jobs(graph, found, [0], calibration, CPU)
        prepared = expected(job.prepared, PreparedVotes)
        network = Network(found.model, 6, 2, torch.Generator())
        step = prepared.step(network, torch.optim.SGD(network.parameters(), lr=1.0))
        step()
        step()
        for _ in range(times):
            prepared.scores(np.full((120, 2), 0.5))
        with pytest.raises(NotAsAccounted, match=f"releases: ran {times} of them|releases: ran"):
            prepared.check()
        if times == 0:
            prepared.scores(np.full((120, 2), 0.5))
            prepared.check()
        else:  # the noise was drawn twice, whatever the list of releases says
            prepared.made.pop()
            with pytest.raises(NotAsAccounted, match="votes: 2 draws, stated 1"):
                prepared.check()


def test_one_edge_and_a_big_graph_take_memory_in_proportion_to_edges() -> None:
    """50,000 nodes and a million entries, in a moment; nothing of N x N exists."""
    nodes, entries = 50_000, 1_000_000
    random = np.random.default_rng(0)
    owners = np.sort(random.integers(0, nodes, entries))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=nodes))])
    ballots = Ballots.from_lists(
        ptr, random.integers(0, nodes, entries).astype(np.int32), np.ones(nodes, dtype=bool), 8
    )
    assert ballots.lists.nnz <= entries
    cast = ballots.ballots(np.full(nodes, -1), np.full((nodes, 4), 0.25), 0.3)
    released = ballots.buckets(cast)
    assert ballots.read(released, cast, 0.3, 1.0, 1.0).shape == (nodes, 4)
    assert released[:, 4].sum() == pytest.approx(0.3 * (ballots.weights * (ballots.degrees + 1)).sum(), rel=1e-6)


def test_the_mean_of_the_last_iterates() -> None:
    network = torch.nn.Linear(1, 1, bias=False)
    kept = torch.nn.Linear(1, 1, bias=False)
    averaged = AveragedNetwork(network, kept, skipped=2)
    values = iter([1.0, 2.0, 4.0, 6.0, 11.0])

    def step() -> int:
        with torch.no_grad():
            network.weight.fill_(next(values))
        return 7

    stepping = AveragingStep(step, averaged)
    for _ in range(2):
        assert stepping() == 7
    assert averaged.released is network
    for _ in range(3):
        stepping()
    assert averaged.released is kept
    assert float(kept.weight.detach()) == pytest.approx((4 + 6 + 11) / 3)
    assert averaged.notes() == {"averaged_iterates": 3}
    again = AveragedNetwork(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False), skipped=2)
    again.load_state_dict(averaged.state_dict())  # what a checkpoint does
    assert float(again.released.weight.detach()) == pytest.approx(7.0)


def _clique(size: int) -> Graph:
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    return with_edges(cases()["fan"], *np.array(pairs).T)


def capped(graph: Graph, bound: int = 9) -> Ballots:
    budget = {"variant": "node-remove-capped", "degrees_share": 0.1, "cap_margin": 1.0, "degree_bound": bound}
    return prepared_votes(graph, 0, **budget).ballots()


def test_edges_of_one_list_only_do_not_count_under_node_remove() -> None:
    """And a list that breaks the schema ends the run."""
    graph = _clique(6)
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    more = with_edges(graph, np.append(owners, [0, 9]), np.append(np.asarray(graph.out_idx), [9, 2]))
    assert capped(graph).lists.nnz > 0
    assert (capped(more).lists != capped(graph).lists).nnz == 0
    assert (capped(graph, bound=5).lists != capped(graph).lists).nnz == 0
    with pytest.raises(UserError, match="degree_bound=4: expected at least 5, or no guarantee under node-remove"):
        capped(graph, bound=4)


def test_votes_help_strangers_under_node_remove_where_degrees_are_bounded() -> None:
    graph = homophilous(3000, 14.0, signal=0.3)
    bound = int(np.diff(graph.out_ptr).max())
    budget = {"votes_share": 0.9, "variant": "node-remove-strangers", "degree_bound": bound, "taper": 1.0}
    own = accuracy(graph, cell({"epsilon": 8.0, "votes_share": 0.0}))
    assert accuracy(graph, cell({"epsilon": 8.0, **budget})) > own + 0.03
