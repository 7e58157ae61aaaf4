"""Sums over neighbours and their stages: what is sent, what one record moves, and what a removed node would."""

import math
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.records import TEST, TRAIN
from dpgraph.engine.models.dense import ACTIVATIONS, Mlp
from dpgraph.engine.training.noise import ReleaseNoise
from dpgraph.families.aggregates.networks import HopsNetwork
from dpgraph.families.aggregates.prepared import Senders, Sums, with_record
from dpgraph.families.aggregates.train import Stages, equal_parts
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import changed
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
KEY, NODES, WIDTH = 77, 14, 3


def packed(lists):
    ptr = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return ptr, np.array([one for row in lists for one in row], dtype=np.int32)


def joined(edges, size):
    """Lists of an undirected graph."""
    lists = [set() for _ in range(size)]
    for one, other in edges:
        lists[one].add(other)
        lists[other].add(one)
    return [sorted(one) for one in lists]


def summed(lists, rows, sends=None, receivers=None, key=KEY):
    sends = np.ones(len(lists), dtype=bool) if sends is None else sends
    if receivers is None:
        return Senders.whole(*packed(lists), sends).received(rows)
    return Senders.capped(*packed(lists), sends, receivers, key).received(rows)


def random_case(seed):
    random = numpy_generator("sums", seed)
    dense = np.triu(random.random((NODES, NODES)) < 0.4, 1)
    return joined(np.argwhere(dense).tolist(), NODES), random.normal(size=(NODES, WIDTH)) * 10.0, random


@pytest.mark.parametrize("seed", range(3))
def test_each_node_receives_the_rows_of_all_that_list_it(seed):
    lists, rows, random = random_case(seed)
    rows[2], rows[3], rows[4] = 0, np.nan, [1e300, 0, 0]
    sends = random.random(NODES) < 0.8
    wanted = np.zeros((NODES, WIDTH))
    for owner, members in enumerate(lists):
        norm = np.linalg.norm(rows[owner] / np.abs(rows[owner]).max()) if owner not in (2, 3) else 0
        for member in members:
            if sends[owner] and norm:
                wanted[member] += rows[owner] / np.abs(rows[owner]).max() / norm
    assert np.abs(summed(lists, rows, sends) - wanted).max() < NODES * 2.0**-29


def test_what_is_no_set_of_others_ids_is_made_one():
    rows = np.eye(4)[:, :3] + 1e-9
    clean = summed([[1, 2], [0], [], [0]], rows)
    assert np.array_equal(summed([[2, 1, 1, 0, 9, -1], [0, 0], [2], [0, 3]], rows), clean)


@pytest.mark.parametrize("receivers", [1, 3, 50])
def test_nobody_sends_to_more_than_the_cap_and_the_choice_is_of_the_own_list_alone(receivers):
    lists, _, _ = random_case(5)
    everybody = np.ones(NODES, dtype=bool)
    before = Senders.capped(*packed(lists), everybody, receivers, KEY).lists
    assert np.diff(before.indptr).tolist() == [min(receivers, len(one)) for one in lists]
    for owner, members in enumerate(lists):
        assert set(before[[owner]].indices) <= set(members)
        others = [one if node == owner else [] for node, one in enumerate(lists)]
        alone = Senders.capped(*packed(others), everybody, receivers, KEY).lists
        assert np.array_equal(alone[[owner]].toarray(), before[[owner]].toarray())


def test_receivers_are_chosen_uniformly():
    """The papers draw them at random; here the key is public."""
    lists = [list(range(1, 9)), *[[] for _ in range(8)]]
    counts = np.zeros(9)
    for key in range(800):
        counts[Senders.capped(*packed(lists), np.ones(9, dtype=bool), 3, key).lists[[0]].indices] += 1
    assert np.abs(counts[1:] - 300).max() < 5 * math.sqrt(800 * 3 / 8 * 5 / 8)


def null(lists, node):
    return [[] if owner == node else one for owner, one in enumerate(lists)]


def without(lists, node):
    return [[] if owner == node else [one for one in members if one != node] for owner, members in enumerate(lists)]


@pytest.mark.parametrize("receivers", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_a_null_record_moves_capped_sums_by_at_most_the_root_of_the_cap(seed, receivers):
    lists, rows, _ = random_case(seed)
    before, found = summed(lists, rows, receivers=receivers), []
    for node in range(NODES):
        sends = np.arange(NODES) != node
        after = summed(null(lists, node), rows, sends, receivers)
        found.append(np.linalg.norm(before - after))
    assert max(found) <= math.sqrt(receivers)
    assert max(found) > 0.99 * math.sqrt(receivers)  # attained: no smaller number would do


@pytest.mark.parametrize("seed", range(4))
def test_a_removed_node_moves_sums_over_bounded_lists_by_at_most_the_root_of_the_bound(seed):
    lists, rows, _ = random_case(seed)
    bound = max(len(one) for one in lists)
    before, everybody = summed(lists, rows), np.ones(NODES, dtype=bool)
    others, found = np.arange(NODES), []
    for node in range(NODES):
        after = summed(without(lists, node), rows, np.arange(NODES) != node)
        found.append(np.linalg.norm((before - after)[others != node]))  # its own sum is nobody's but its own
    assert math.sqrt(bound) * 0.99 < max(found) <= math.sqrt(bound)
    assert np.array_equal(Senders.bounded(*packed(lists), everybody, bound).received(rows), before)
    with pytest.raises(UserError, match=rf"^degree_bound={bound - 1}: expected at least {bound}"):
        Senders.bounded(*packed(lists), everybody, bound - 1)


def test_one_way_edges_do_not_count_under_a_bound():
    one_way = [[1, 2], [0], [], []]
    rows = np.eye(4)[:, :3] + 0.1
    found = Senders.bounded(*packed(one_way), np.ones(4, dtype=bool), 2).received(rows)
    assert np.array_equal(found, summed([[1], [0], [], []], rows))


@pytest.mark.parametrize("leaves", [10, 40, 160])
def test_under_node_remove_the_cap_bounds_nothing(leaves):
    """The papers claim sqrt(D). A hub of many neighbours, D = 1: without it each of them sends elsewhere, all alike.

    Leaf i has the hub and a node w: it sends to one of them, whichever its priorities favour. When the hub goes, those
    that sent to it send to w: about half of the leaves, in one row.
    """
    hub, other, rows = leaves, leaves + 1, np.ones((leaves + 2, 2))
    lists = joined([(leaf, one) for leaf in range(leaves) for one in (hub, other)], leaves + 2)
    before = summed(lists, rows, receivers=1)
    after = summed(without(lists, hub), rows, np.arange(leaves + 2) != hub, receivers=1)
    moved = np.linalg.norm(before[other] - after[other])
    assert moved > leaves / 4
    assert moved > 2 * math.sqrt(1)  # what the papers' theorem allows, and more


def test_an_edge_moves_capped_sums_by_at_most_the_root_of_six():
    """Attained up to signs: both ends lose one, and each sends to the same third node instead."""
    worst = 0.0
    for key in range(40):
        lists = joined([(0, 1), (0, 2), (1, 2)], 3)
        less = joined([(0, 2), (1, 2)], 3)
        rows = np.ones((3, 2))
        moved = summed(lists, rows, receivers=1, key=key) - summed(less, rows, receivers=1, key=key)
        worst = max(worst, float(np.linalg.norm(moved)))
    assert worst == pytest.approx(math.sqrt(6), abs=1e-6)
    for seed in range(3):
        lists, rows, _ = random_case(seed)
        for one in range(NODES):
            for other in lists[one]:
                less = [[m for m in row if {o, m} != {one, other}] for o, row in enumerate(lists)]
                moved = summed(lists, rows, receivers=2) - summed(less, rows, receivers=2)
                assert np.linalg.norm(moved) <= math.sqrt(6) + 1e-9
                whole = summed(lists, rows) - summed(less, rows)
                assert np.linalg.norm(whole) == pytest.approx(math.sqrt(2), abs=1e-6)


def test_noise_has_the_std_that_is_stated():
    sums = Sums(
        lambda: Senders.whole(*packed([[]] * 50), np.ones(50, dtype=bool)),
        3.0,
        1,
        ReleaseNoise(numpy_generator("noise")),
    )
    drawn = sums.release(np.zeros((50, 200)))
    assert drawn.std() == pytest.approx(3.0, rel=0.03)
    assert sums.count == 1


def test_who_sends_reads_no_list_and_no_validation_label(toy):
    features = toy.features.copy()
    features[[3, 50, 59]] = 0
    labels = toy.labels.copy()
    labels[3] = -1
    sends = with_record(replace(toy, features=features, labels=labels))
    assert np.flatnonzero(~sends).tolist() == [3, 50, 59]  # of 50 and 59, no training nodes, no label counts
    assert with_record(replace(toy, features=features, labels=toy.labels))[3]


@pytest.fixture(scope="module")
def toy():
    return toy_graph()


def prepared(graph, name, **parts):
    found = changed(name, **parts)
    calibration = calibrate(found, len(graph.train_nodes), default_cache())
    (job,) = make_jobs(graph, found, [0], calibration, CPU)
    return job


@pytest.mark.parametrize("name", ["dp-gap-rigorous", "dp-progap-edge", "dp-gap-node-remove", "dp-edge-votes-rigorous"])
def test_one_more_sum_than_accounted_is_refused(toy, name):
    job = prepared(toy, name)
    method(job.cell.method).run(job, lambda step, logits: {})
    job.prepared.check()
    job.prepared.sums.release(np.ones((toy.num_nodes, 2)))
    with pytest.raises(NotAsAccounted, match=r"count: ran"):
        job.prepared.check()


def test_lists_longer_than_accounted_are_refused(toy):
    job = prepared(toy, "dp-gap-rigorous")
    method(job.cell.method).run(job, lambda step, logits: {})
    sends = np.ones(toy.num_nodes, dtype=bool)
    job.prepared.sums._found = Senders.whole(toy.out_ptr, toy.out_idx, sends)
    with pytest.raises(NotAsAccounted, match=r"list_cap: ran"):
        job.prepared.check()


@pytest.mark.parametrize("variant", ["rigorous", "node-remove", "published"])
def test_noise_of_a_sum_is_the_root_of_the_cap_times_that_of_a_step(toy, variant):
    budget = {"sums_share": None} if variant == "rigorous" else {}
    cap = {"degree_bound": 36} if variant == "node-remove" else {"receivers": 36}
    job = prepared(toy, f"dp-gap-{variant}", privacy={**budget, **cap})
    noise = job.mechanism.noise_multiplier
    assert job.prepared.sums.std == pytest.approx(6 * noise)
    assert job.prepared.noise.std == pytest.approx(noise)


def test_full_batches_are_one_gaussian_mechanism(toy):
    """T steps and K sums: mu^2 = T / s^2 + K / (ratio s)^2, of which the share is the sums'."""
    job = prepared(toy, "dp-gap-rigorous", training={"sampling_rate": 1.0}, privacy={"sums_share": 0.3})
    mechanism = job.mechanism
    noise = mechanism.noise_multiplier
    sums = mechanism.aggregations / (mechanism.sums_ratio * noise) ** 2
    steps = mechanism.steps / noise**2
    assert sums / (sums + steps) == pytest.approx(0.3)
    epsilon = gaussian_epsilon(mu=math.sqrt(sums + steps), delta=mechanism.delta)
    assert mechanism.rigorous().epsilon == pytest.approx(epsilon, rel=1e-9)
    assert mechanism.published().epsilon > epsilon  # Renyi DP of the same Gaussian mechanisms
    (edge,) = mechanism.beside()
    assert edge.epsilon == pytest.approx(gaussian_epsilon(mu=math.sqrt(sums * 6 / 3), delta=mechanism.delta), rel=1e-9)


def test_published_and_rigorous_state_their_relations(toy):
    found = prepared(toy, "dp-gap-published").mechanism
    published, rigorous = found.published(), found.rigorous()
    assert (published.relation, rigorous.relation) == ("node-remove", "node-null")
    assert "send to another one instead" in published.unmet[0]
    bounded = prepared(toy, "dp-gap-node-remove").mechanism
    assert bounded.published().unmet == ()
    assert bounded.rigorous().relation == "node-remove"


def test_an_edge_is_charged_in_both_lists(toy):
    mechanism = prepared(toy, "dp-gap-edge").mechanism
    noise, hops = mechanism.noise_multiplier, mechanism.aggregations
    assert mechanism.rigorous().epsilon == gaussian_epsilon(mu=math.sqrt(2 * hops) / noise, delta=mechanism.delta)
    directed = gaussian_epsilon(mu=math.sqrt(hops) / noise, delta=mechanism.delta)
    assert mechanism.rigorous().epsilon > mechanism.published().epsilon > directed


@pytest.mark.parametrize("name", ["dp-gap-edge", "dp-progap-edge", "dp-edge-votes-rigorous"])
def test_edges_reach_predictions_through_the_sums_alone(toy, name):
    """With the same sums, another graph gives the same predictions."""
    seen = []
    for graph in (toy, replace(toy, out_ptr=np.zeros_like(toy.out_ptr), out_idx=np.zeros(0, dtype=np.int32))):
        job = prepared(graph, name)
        job.prepared.sums._senders = lambda: Senders.whole(toy.out_ptr, toy.out_idx, np.ones(60, dtype=bool))
        seen.append(method(job.cell.method).run(job, lambda step, logits: {}).logits)
    assert np.array_equal(seen[0], seen[1])


@pytest.mark.parametrize("name", ["dp-gap-rigorous", "dp-progap-rigorous"])
def test_a_prediction_reads_its_own_record_and_what_was_released(toy, name):
    """With the same steps and sums, another test node's features move its own prediction only."""
    seen = []
    for value in (0.0, 5.0):
        features = toy.features.copy()
        features[58] += value
        assert toy.split[58] == TEST
        job = prepared(replace(toy, features=features), name)
        made = count(1)
        job.prepared.sums.release = lambda rows, made=made: numpy_generator("fixed", next(made)).normal(size=rows.shape)
        seen.append(method(job.cell.method).run(job, lambda step, logits: {}).logits)
    same = (seen[0] == seen[1]).all(axis=1)
    assert same[np.arange(60) != 58].all()
    assert not same[58]


def test_stages_divide_the_steps(toy):
    assert equal_parts(7, 3) == [3, 2, 2]
    job = prepared(toy, "dp-progap-rigorous")
    assert method("dp-progap").run(job, lambda step, logits: {}).notes["stages"] == [2, 2, 2]
    job = prepared(toy, "dp-gap-rigorous", training={"steps": 5, "evaluations": 1})
    assert method("dp-gap").run(job, lambda step, logits: {}).notes["stages"] == [2, 3]
    short = prepared(toy, "dp-progap-rigorous", training={"steps": 2, "evaluations": 1})
    with pytest.raises(UserError, match=r"^steps=2: expected at least 3"):
        method("dp-progap").run(short, lambda step, logits: {})


def test_stages_move_their_own_networks_only(toy):
    job = prepared(toy, "dp-gap-rigorous")
    seen, original = [], Stages.__call__

    def watched(self):
        before = [p.detach().clone() for p in self.networks.parameters()]
        read = original(self)
        moved = [not torch.equal(a, b) for a, b in zip(before, self.networks.parameters(), strict=True)]
        own = len(list(self.encoder.parameters()))
        seen.append((any(moved[:own]), any(moved[own:])))
        return read

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stages, "__call__", watched)
        method("dp-gap").run(job, lambda step, logits: {})
    assert seen == [(True, False)] * 3 + [(False, True)] * 3


def test_a_network_over_blocks_reads_each_block_by_its_own_perceptron():
    generator = torch.Generator().manual_seed(0)
    bases = [Mlp([size, 4], ACTIVATIONS["tanh"], True, generator, torch.float32) for size in (3, 2)]
    head = Mlp([8, 3], ACTIVATIONS["tanh"], False, generator, torch.float32)
    rows = torch.randn(6, 5, generator=generator)
    states = torch.cat([torch.tanh(bases[0].layers[0](rows[:, :3])), torch.tanh(bases[1].layers[0](rows[:, 3:]))], 1)
    assert torch.allclose(HopsNetwork(bases, head, False).classify(rows), head.layers[0](states))
    scaled = states / states.norm(dim=1, keepdim=True)
    assert torch.allclose(HopsNetwork(bases, head, True).classify(rows), head.layers[0](scaled), atol=1e-6)


def test_training_nodes_are_those_of_the_split(toy):
    assert (toy.split == TRAIN).sum() == 40
