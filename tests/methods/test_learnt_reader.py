"""A reader of votes that is learnt from labels of training nodes: gradients, and what a record moves of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dpgraph.audits.graphs import null_records, with_edges
from dpgraph.audits.votes import cases, mixed_graph
from dpgraph.audits.votes_learnt import VOTES_LEARNT_BUGS, learnt_from, votes_learnt
from dpgraph.data.records import TEST, TRAIN
from dpgraph.errors import UserError
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.registry import method
from dpgraph.methods.votes.learnt import CLIP, LearntReader, ReaderSteps, gradient_sum
from dpgraph.methods.votes.prepared import PreparedVotes
from dpgraph.methods.votes.train import notes
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.preparation.base import expected
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.votes import votes_epsilon
from dpgraph.privacy.mechanisms.votes import BoundedVotes, CappedVotes, PoissonVotes
from tests.methods.test_votes import homophilous

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
    """Theorem L: null at most 1, replaced 2, an edge 4."""
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


def test_labels_of_test_and_validation_nodes_teach_nothing() -> None:
    graph = mixed_graph()
    labels = np.where(graph.split == TRAIN, graph.labels, (graph.labels + 1) % 3)
    sums = [learnt_from(one, 0)[1].sums for one in (graph, replace(graph, labels=labels))]
    assert all(np.array_equal(*pair) for pair in zip(*sums, strict=True))


def test_the_audit_passes_and_finds_a_reader_that_clips_nothing() -> None:
    assert votes_learnt(1).passed
    assert not votes_learnt(1, next(iter(VOTES_LEARNT_BUGS))).passed


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
    (BoundedVotes, {"degree_bound": 9, "taper": 0.0, "degree_floor": 1}),
    (CappedVotes, {"degree_bound": 9, "by_schema": True, "margin": 1.0, "degrees_ratio": 1.0}),
])  # fmt: skip
def test_mechanisms_without_a_proof_refuse_a_reader(kind: Any, more: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"reader_steps=|reader_ratio=0|rounds=2"):
        kind(**MECHANISM | LEARNS | more)


@pytest.mark.parametrize(("changed", "message"), [
    ({"votes_share": 0.0}, r"reader_share=0\.2: expected 0 with votes_share=0"),
    ({"one_hop": True}, r"reader_share=0\.2: expected 0 for variant rigorous with one_hop=True, rounds=1"),
    ({"rounds": 2}, r"expected 0 for variant rigorous with one_hop=False, rounds=2"),
    ({"variant": "node-remove", "degree_bound": 9, "taper": 0.5}, r"expected 0 for variant node-remove"),
    ({"votes_share": 0.8}, r"votes_share=0\.8, mean_share=0\.0, reader_share=0\.2: expected a sum < 1"),
    ({"reader_steps": 0}, "reader_steps"), ({"reader_rate": 0.0}, "reader_rate"),
    ({"reader_share": 1.0}, "reader_share"),
])  # fmt: skip
def test_settings_that_are_not_proved_or_not_there_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cell({"reader_share": 0.2, **changed})


def test_a_run_states_that_its_reader_was_learnt_and_is_accounted_for() -> None:
    graph, found = homophilous(), cell({"reader_share": 0.1, "choice_epsilon": 0.2})
    calibration = calibrate(found, len(graph.train_nodes), num_protected=graph.num_nodes)
    (job,) = make_jobs(graph, found, [0], calibration, CPU)
    logits = np.asarray(method("dp-votes").run(job, lambda step, logits: {}).logits)
    prepared = expected(job.prepared, PreparedVotes)
    prepared.check()
    assert prepared.learnt is not None
    assert str(notes(prepared)["reader"]).endswith(", learnt from there on")
    tested = graph.split == TEST
    assert (logits.argmax(axis=1)[tested] == graph.labels[tested]).mean() > 0.85
