"""Edge votes: what votes, what is released, and where the reader starts."""

import numpy as np
import pytest
import torch

from dpgraph.core.randomness import torch_generator
from dpgraph.families.aggregates.edge_votes import EdgeVoteStages, LogitsOfRows, VoteReader
from dpgraph.families.aggregates.prepared import Senders
from dpgraph.families.aggregates.train import equal_parts
from dpgraph.families.registry import method
from dpgraph.privacy.relation import PredictionInput, Scope
from tests.contract.conftest import toy_graph
from tests.families.aggregates.test_aggregates import prepared

NAME, FOLDS = "dp-edge-votes-rigorous", 2


@pytest.fixture(scope="module")
def toy():
    return toy_graph()


@pytest.fixture(scope="module")
def job(toy):
    return prepared(toy, NAME, model={"dropout": 0.0})


def trained(job):
    """Stages after the last step of the last network of records."""
    features = job.prepared.data.features
    stages = EdgeVoteStages(job, job.prepared, features, equal_parts(job.mechanism.steps, FOLDS + 1))
    for _ in range(stages.first_steps[FOLDS]):
        stages()
    return stages


def test_the_reader_starts_at_own_scores(job):
    reader = VoteReader(job.cell.model, 3, torch_generator("reader"), None)
    rows = torch.randn(5, 6, generator=torch_generator("rows"))
    assert torch.equal(reader(rows), rows[:, :3])


def test_training_nodes_vote_for_their_labels_and_others_for_their_scores(toy):
    job, sent = prepared(toy, NAME), []
    release = job.prepared.sums.release
    job.prepared.sums.release = lambda rows: sent.append(rows) or release(rows)
    stages = trained(job)
    stages.rows_of(FOLDS)
    (votes,) = sent
    nodes = stages.train_nodes.numpy()
    labels = job.prepared.data.labels.numpy()[nodes]
    assert np.array_equal(votes[nodes], np.eye(toy.num_classes)[labels])
    others = np.setdiff1d(np.arange(toy.num_nodes), nodes)
    assert np.allclose(votes[others].sum(axis=1), 1, atol=1e-6)
    assert (votes[others].max(axis=1) < 1).all()


def test_own_scores_are_of_networks_trained_without_the_node(job, toy):
    stages = trained(job)
    scores = [torch.softmax(stages.best[fold].released.decoder(stages.best[fold].released.encoder(stages.records)), 1)
              for fold in range(FOLDS)]  # fmt: skip
    own = stages.own_scores()
    for fold in range(FOLDS):
        nodes = stages.train_nodes[stages.fold == fold]
        assert torch.allclose(own[nodes], scores[fold][nodes], atol=1e-6)
    rest = torch.ones(toy.num_nodes, dtype=torch.bool)
    rest[stages.train_nodes] = False
    assert torch.allclose(own[rest], (scores[0][rest] + scores[1][rest]) / 2, atol=1e-6)


def test_a_network_is_trained_without_its_fold(job, monkeypatch):
    stages, read = trained(job), []

    class Seen(LogitsOfRows):
        def __init__(self, rows):
            read.append(rows)
            super().__init__(rows)

    monkeypatch.setattr("dpgraph.families.aggregates.edge_votes.LogitsOfRows", Seen)
    stages.rows = stages.records
    stages.step_of(0, stages.networks[0], torch.optim.SGD(stages.networks[0].parameters(), lr=0.1))
    assert torch.equal(read[0], stages.records[stages.train_nodes[stages.fold != 0]])


def test_one_noisy_sum_of_votes_is_released(toy):
    job = prepared(toy, NAME)
    method(NAME.removesuffix("-rigorous")).run(job, lambda step, logits: {})
    (release,) = job.prepared.check().releases
    assert (release.count, release.sensitivity) == (1, pytest.approx(np.sqrt(2)))


def test_an_edge_moves_the_votes_of_its_two_ends_and_no_other(toy):
    """Brute force over all edges of the toy: the sum moves by the root of 2 for votes of labels."""
    job = prepared(toy, NAME)
    votes = np.eye(toy.num_classes)[np.arange(toy.num_nodes) % toy.num_classes]
    before = job.prepared.sums.senders.received(votes)
    lists = [set(toy.out_idx[toy.out_ptr[node] : toy.out_ptr[node + 1]].tolist()) for node in range(toy.num_nodes)]
    both = [(one, other) for one in range(toy.num_nodes) for other in lists[one] if other > one and one in lists[other]]
    assert both
    for one, other in both:
        fewer = [kept - {other} if node == one else kept - {one} if node == other else kept
                 for node, kept in enumerate(lists)]  # fmt: skip
        ptr = np.concatenate([[0], np.cumsum([len(kept) for kept in fewer])])
        idx = np.array([member for kept in fewer for member in sorted(kept)], dtype=np.int32)
        after = Senders.whole(ptr, idx, np.ones(toy.num_nodes, dtype=bool)).received(votes)
        assert np.linalg.norm(before - after) == pytest.approx(np.sqrt(2), rel=1e-6)
        assert np.flatnonzero((before != after).any(axis=1)).tolist() == [one, other]


@pytest.mark.parametrize(
    ("inference", "scope"),
    [(PredictionInput.OWN_RECORD, Scope.ALL_OUTPUTS), (PredictionInput.RAW_GRAPH, Scope.PARAMETERS)],
)
def test_everything_may_be_published_unless_predictions_read_the_raw_graph(job, inference, scope):
    mechanism = job.mechanism.model_copy(update={"inference": inference})
    assert mechanism.rigorous().scope is scope
