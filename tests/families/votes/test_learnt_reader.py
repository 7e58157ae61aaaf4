"""A reader of votes that is learnt from labels of training nodes: gradients, and what a record moves of them."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dpgraph.audits.graphs import null_records, with_edges
from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN
from dpgraph.engine.preparation.base import expected
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.votes import learnt
from dpgraph.families.votes.audit import cases, mixed_graph
from dpgraph.families.votes.audit_learnt import learnt_from, votes_learnt
from dpgraph.families.votes.ballots import Ballots
from dpgraph.families.votes.epsilon import votes_epsilon
from dpgraph.families.votes.learnt import CLIP, LearntReader, ReaderSteps, gradient_sum
from dpgraph.families.votes.mechanism import PoissonVotes
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.families.votes.removed_mechanism import BoundedStrangerVotes, CappedVotes
from dpgraph.families.votes.train import notes
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.cache import default_cache
from tests.families.votes.test_votes import homophilous

CPU = torch.device("cpu")
MECHANISM: dict[str, Any] = {
    "delta": 1e-5, "steps": 4, "noise_multiplier": 5.0, "num_roots": 100, "sampling_rate": 1.0,
    "mean_ratio": 2.0, "votes_ratio": 1.5, "mass": 0.3, "degree_floor": 8, "inference": "its own record",
}  # fmt: skip
LEARNS = {"reader_ratio": 8.0, "reader_steps": 5}
RUN: dict[str, Any] = {
    "rate": 1.0, "noise_multiplier": 20.0, "steps": 40, "mean_mu": 0.1, "votes_mu": 0.2, "choice_epsilon": 0.2,
    "mass": 0.3, "degree_floor": 8, "delta": 1e-5,
}  # fmt: skip


def cell(privacy: dict[str, Any], **training: Any) -> Any:
    return resolve(
        {
            "task": {"dataset": "toy"},
            "method": "dp-votes",
            "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
            "training": {"optimizer": "sgd", "learning_rate": 1.0, "steps": 5, "sampling_rate": 1.0, **training},
            "privacy": {"epsilon": 4.0, "votes_share": 0.4, **privacy},
            "seeds": [0],
        }
    )


def examples(count: int = 40, classes: int = 3, scale: float = 3.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    shares = random.dirichlet(np.ones(classes), count)
    return shares, random.normal(0, scale, (count, classes)), random.integers(0, classes, count)


def by_autograd(reader: LearntReader, share: np.ndarray, read: np.ndarray, label: int) -> np.ndarray:
    parameters = [torch.tensor(one, requires_grad=True) for one in (reader.factor, reader.weight, reader.bias)]
    factor, weight, bias = parameters
    scores = factor * torch.log(torch.tensor(share) + 1e-3) + torch.tensor(read) @ weight + bias
    loss = torch.nn.functional.cross_entropy(scores[None], torch.tensor([label]))
    return np.concatenate([one.numpy().ravel() for one in torch.autograd.grad(loss, parameters)])


def test_a_sum_is_of_gradients_that_are_clipped_one_by_one() -> None:
    shares, read, labels = examples()
    random = np.random.default_rng(6)
    reader = LearntReader(0.7, random.normal(size=(3, 3)), random.normal(size=3))
    each = [by_autograd(reader, *one) for one in zip(shares, read, labels, strict=True)]
    norms = np.array([np.linalg.norm(one) for one in each])
    assert (norms < CLIP).any()
    assert (norms > 3 * CLIP).any()
    wanted = sum(one * min(1.0, CLIP / norm) for one, norm in zip(each, norms, strict=True))
    assert gradient_sum(reader, shares, read, labels) == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_what_is_not_finite_adds_nothing_and_nothing_is_longer_than_the_clip_norm(strange: float) -> None:
    shares, read, labels = examples()
    reader, whole = LearntReader.start(1.0, 3), gradient_sum(LearntReader.start(1.0, 3), shares, read, labels)
    read[7] = [strange, 1.0, -strange]
    changed = gradient_sum(reader, shares, read, labels)
    rest = np.arange(len(labels)) != 7
    moved = changed - gradient_sum(reader, shares[rest], read[rest], labels[rest])
    assert np.isfinite(changed).all()
    assert np.linalg.norm(moved) <= CLIP
    assert np.linalg.norm(changed - whole) <= 2 * CLIP


def test_without_noise_a_reader_becomes_what_fits_and_without_steps_it_is_the_public_one() -> None:
    """Neighbours of class c vote for c + 1."""
    shares, _, labels = examples(600)
    read = 3 * np.eye(3)[(labels + 1) % 3] - 1 + np.random.default_rng(8).normal(0, 0.5, (600, 3))
    start = LearntReader.start(1.0, 3)
    assert np.array_equal(start.scores(shares, read), np.log(shares + 1e-3) + read)
    found = ReaderSteps(50, 5.0, 0.0, 600).learn(start, shares, read, labels, _Plain())
    right = [(one.scores(shares, read).argmax(axis=1) == labels).mean() for one in (start, found)]
    assert right[0] < 0.3 < 0.95 < right[1]


class _Plain:
    """No noise."""

    def on(self, values: np.ndarray, std: float, unit: float) -> np.ndarray:
        return values


@pytest.mark.parametrize("name", [*cases(), "mixed"])
def test_given_what_was_released_a_record_moves_a_step_by_its_own_gradient(name: str) -> None:
    """Theorem 17: null at most 1, replaced 2, an edge 4."""
    graph = mixed_graph() if name == "mixed" else cases()[name]
    _, steps, _ = learnt_from(graph, 1)
    sizes = []
    for node in range(graph.num_nodes if name != "copies" else 0):
        _, less, _ = learnt_from(null_records(graph, [node]), 1)
        moved = max(np.linalg.norm(a - b) for a, b in zip(steps.sums, less.sums, strict=True))
        assert moved <= 1 + 1e-6
        assert (moved > 0) == (graph.split[node] == TRAIN)
        sizes.append(moved)
    assert name == "copies" or max(sizes) > 0.5


def test_an_edge_moves_two_gradients_and_a_replaced_record_one() -> None:
    graph = mixed_graph()
    _, steps, _ = learnt_from(graph, 2)
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    members = np.asarray(graph.out_idx, dtype=np.int64)
    most = 0.0
    for first, second in list(zip(owners, members, strict=True))[:40]:
        kept = ~(((owners == first) & (members == second)) | ((owners == second) & (members == first)))
        _, less, _ = learnt_from(with_edges(graph, owners[kept], members[kept]), 2)
        moved = max(np.linalg.norm(a - b) for a, b in zip(steps.sums, less.sums, strict=True))
        ends = int((graph.split[[first, second]] == TRAIN).sum())
        assert moved <= 2 * ends + 1e-6
        most = max(most, moved)
    assert most > 0
    labels = np.where(np.arange(graph.num_nodes) == 0, (graph.labels + 1) % 3, graph.labels)
    _, other, _ = learnt_from(replace(graph, labels=labels), 2)
    moved = max(np.linalg.norm(a - b) for a, b in zip(steps.sums, other.sums, strict=True))
    assert 0 < moved <= 2 + 1e-6


VOTES_OF_FIVE = np.random.default_rng(3).dirichlet(np.ones(3), 5)
LABELS_OF_FIVE = np.array([0, 1, 2, 0, 1])


def each_gradient(lists: tuple[frozenset[int], ...], released: np.ndarray, reader: LearntReader) -> np.ndarray:
    """(N, ·) of all nodes, one by one, each with its own list, given what was released."""
    size = len(lists)
    ptr = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    ids = np.array([node for one in lists for node in sorted(one)], dtype=np.int64)
    ballots = Ballots.from_lists(ptr, ids, np.ones(size, dtype=bool), 2)
    cast = ballots.ballots(LABELS_OF_FIVE[:size], VOTES_OF_FIVE[:size], 0.3)
    read = ballots.read(released, cast, 0.3, 1.0, 1.0) / np.sqrt(ballots.degrees + 1.0)[:, None]
    alone = ([node] for node in range(size))
    return np.array([
        gradient_sum(reader, VOTES_OF_FIVE[one], read[one], LABELS_OF_FIVE[one]) for one in alone
    ])  # fmt: skip


def test_an_edge_of_any_small_graph_changes_its_ends_gradients_alone_and_moves_their_sum_by_four() -> None:
    """Every edge of every graph of five nodes, for one and the same release."""
    random = np.random.default_rng(1)
    released = random.normal(0, 20, (5, 4))
    reader = LearntReader(0.3, random.normal(size=(3, 3)), random.normal(size=3))
    pairs = list(itertools.combinations(range(5), 2))
    found = {}
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = frozenset(itertools.compress(pairs, chosen))
        lists = tuple(frozenset(sum(pair) - node for pair in edges if node in pair) for node in range(5))
        found[edges] = each_gradient(lists, released, reader)
    most = 0.0
    for edges, gradients in found.items():
        for pair in edges:
            moved = gradients - found[edges - {pair}]
            assert not np.delete(moved, pair, axis=0).any()
            most = max(most, float(np.linalg.norm(moved.sum(axis=0))))
    assert 1 < most <= 4


def test_an_edge_may_move_a_step_by_almost_four() -> None:
    """Each end reads the other's bucket, a hub's, and its own: without the edge what it reads changes its sign."""
    released = np.zeros((4, 4))
    released[0, :3] = released[1, :3] = [2e6, -1e6, -1e6]
    released[2, :3] = released[3, :3] = [-3e6, 1.5e6, 1.5e6]
    reader = LearntReader(0.0, np.zeros((3, 3)), np.zeros(3))
    edges = [(0, 1), (0, 2), (1, 3)]
    both = []
    for some in (edges, edges[1:]):
        lists = tuple(frozenset(sum(pair) - node for pair in some if node in pair) for node in range(4))
        both.append(each_gradient(lists, released, reader)[:2])
    moved = np.linalg.norm(both[0] - both[1], axis=1)
    assert (moved > 1.99).all()  # of each end: so with one and the same label the sum moves by almost four
    assert (moved <= 2).all()


@pytest.mark.parametrize("numbers", [1, 9, 100])
def test_pieces_of_examples_change_no_bit_and_bound_the_memory(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shares, read, labels = examples(300)
    reader = LearntReader(0.7, np.random.default_rng(6).normal(size=(3, 3)), np.zeros(3))
    whole = gradient_sum(reader, shares, read, labels)
    monkeypatch.setattr(learnt, "NUMBERS", numbers)
    assert np.array_equal(gradient_sum(reader, shares, read, labels), whole)


def test_gradients_of_all_examples_are_never_in_memory_at_once() -> None:
    shares, read, labels = examples(20_000, 30)
    tracemalloc.start()
    try:
        gradient_sum(LearntReader.start(1.0, 30), shares, read, labels)
        assert tracemalloc.get_traced_memory()[1] < 8e6  # 144 MB of float64 in all
    finally:
        tracemalloc.stop()


def test_an_example_without_a_label_adds_nothing_and_changes_no_bit_of_others() -> None:
    """As of a null record, whose place is public."""
    shares, read, labels = examples(300)
    reader = LearntReader(0.7, np.random.default_rng(6).normal(size=(3, 3)), np.zeros(3))
    for node, none in ((0, -1), (7, -1), (150, 3)):
        less = labels.copy()
        less[node] = none
        alone = gradient_sum(reader, shares[node : node + 1], read[node : node + 1], labels[node : node + 1])
        assert np.array_equal(
            gradient_sum(reader, shares, read, labels) - gradient_sum(reader, shares, read, less), alone
        )
    assert not gradient_sum(reader, shares, read, np.full(300, -1)).any()


def test_a_null_record_keeps_its_place_among_examples() -> None:
    graph = mixed_graph()
    node = int(np.flatnonzero(graph.split == TRAIN)[0])
    found = [learnt_from(one, 1)[0].examples for one in (graph, null_records(graph, [node]))]
    assert np.array_equal(*found)
    assert node in found[0]


def test_labels_of_test_and_validation_nodes_teach_nothing() -> None:
    graph = mixed_graph()
    labels = np.where(graph.split == TRAIN, graph.labels, (graph.labels + 1) % 3)
    sums = [learnt_from(one, 0)[1].sums for one in (graph, replace(graph, labels=labels))]
    assert all(np.array_equal(*pair) for pair in zip(*sums, strict=True))


def test_the_audit_passes_and_finds_a_reader_that_clips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert votes_learnt(1).passed
    monkeypatch.setattr("dpgraph.families.votes.learnt.CLIP", 1e9)
    assert not votes_learnt(1).passed


def test_steps_share_what_a_reader_has() -> None:
    found = calibrate(
        cell({"epsilon": 2.0, "mean_share": 0.1, "reader_share": 0.2, "reader_steps": 7}), 700, num_protected=1000
    )
    mechanism = found.mechanism
    assert isinstance(mechanism, PoissonVotes)
    _, noise = mechanism.closed()
    parts = [5 / noise**2, mechanism.mean_mu**2, mechanism.votes_mu**2, mechanism.reader_mu**2]
    assert np.array(parts) / sum(parts) == pytest.approx([0.3, 0.1, 0.4, 0.2])
    assert mechanism.reader_mu == pytest.approx(math.sqrt(7) / (mechanism.reader_ratio * noise))
    assert gaussian_epsilon(mu=math.sqrt(sum(parts)), delta=1e-4) == pytest.approx(found.statement.rigorous.epsilon)
    learnt = next(one for one in mechanism.releases if one.kind == "steps of the reader")
    assert (learnt.count, learnt.noise) == (7, pytest.approx(mechanism.reader_ratio * noise))
    assert any("7 steps of a reader" in text for text in found.statement.rigorous.assumptions)


@pytest.mark.parametrize(("relation", "times"), [("node-null", 1), ("record-replace", 2), ("edge", 4)])
def test_each_relation_pays_for_what_it_moves(relation: Any, times: int) -> None:
    """As if the mean of the rows (null, replaced) or nothing else (an edge) had the same mu more."""
    alone = RUN | {"mean_mu": 0.0, "votes_mu": 0.0, "choice_epsilon": 0.0, "noise_multiplier": 1e6}
    found = votes_epsilon(**alone, reader_mu=0.3, relation=relation)
    assert found == pytest.approx(gaussian_epsilon(mu=times * 0.3, delta=1e-5), rel=1e-3)
    assert votes_epsilon(**RUN, reader_mu=0.3, relation=relation) > votes_epsilon(**RUN, relation=relation)


def test_before_the_last_step_nothing_is_learnt_and_renyi_divergences_cover_it() -> None:
    mechanism = PoissonVotes(**MECHANISM, **LEARNS)
    silent = {"votes_ratio": None, "steps": 3}
    assert mechanism.at_step(3).rigorous.epsilon == PoissonVotes(**MECHANISM | silent).rigorous().epsilon
    assert mechanism.rigorous().epsilon > PoissonVotes(**MECHANISM).rigorous().epsilon
    orders = np.array([2.0, 8.0])
    more = mechanism.rdp(orders) - PoissonVotes(**MECHANISM).rdp(orders)  # type: ignore[arg-type]
    assert more == pytest.approx(orders * 5 / (8.0 * 5.0) ** 2 / 2)
    edge, plain = (next(one for one in made.beside() if one.relation == "edge") for made in (
        mechanism, PoissonVotes(**MECHANISM)))  # fmt: skip
    assert edge.epsilon > plain.epsilon
    assert any("in each of 5 steps two gradients" in text for text in edge.assumptions)


@pytest.mark.parametrize(("kind", "more"), [
    (PoissonVotes, {"votes_ratio": None}), (PoissonVotes, {"rounds": 2}), (PoissonVotes, {"reader_steps": 0}),
    (PoissonVotes, {"reader_ratio": None}), (PoissonVotes, {"reader_ratio": 0.0}),
    (BoundedStrangerVotes, {"degree_bound": 9, "taper": 0.0, "degree_floor": 1}),
    (CappedVotes, {"degree_bound": 9, "by_schema": True, "margin": 1.0, "degrees_ratio": 1.0}),
])  # fmt: skip
def test_mechanisms_without_a_proof_refuse_a_reader(kind: Any, more: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"reader_steps=|reader_ratio=0|rounds=2"):
        kind(**MECHANISM | LEARNS | more)


@pytest.mark.parametrize(("changed", "message"), [
    ({"votes_share": 0.0}, r"reader_share=0\.2: expected 0 with votes_share=0"),
    ({"one_hop": True}, r"reader_share=0\.2: expected 0 for variant rigorous with one_hop=True, rounds=1"),
    ({"rounds": 2}, r"expected 0 for variant rigorous with one_hop=False, rounds=2"),
    ({"variant": "node-remove-strangers", "degree_bound": 9, "taper": 0.5}, r"expected 0 for variant node-remove-"),
    ({"votes_share": 0.8}, r"votes_share=0\.8, mean_share=0\.0, reader_share=0\.2: expected a sum < 1"),
    ({"reader_steps": 0}, "reader_steps"), ({"reader_rate": 0.0}, "reader_rate"),
    ({"reader_share": 1.0}, "reader_share"),
])  # fmt: skip
def test_settings_that_are_not_proved_or_not_there_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cell({"reader_share": 0.2, **changed})


def test_a_run_states_that_its_reader_was_learnt_and_is_accounted_for() -> None:
    graph, found = homophilous(), cell({"reader_share": 0.1, "choice_epsilon": 0.2})
    calibration = calibrate(found, len(graph.train_nodes), default_cache(), num_protected=graph.num_nodes)
    (job,) = make_jobs(graph, found, [0], calibration, CPU)
    logits = np.asarray(method("dp-votes").run(job, lambda step, logits: {}).logits)
    prepared = expected(job.prepared, PreparedVotes)
    prepared.check()
    assert prepared.learnt is not None
    assert str(notes(prepared)["reader"]).endswith(", learnt from there on")
    tested = graph.split == TEST
    assert (logits.argmax(axis=1)[tested] == graph.labels[tested]).mean() > 0.85
