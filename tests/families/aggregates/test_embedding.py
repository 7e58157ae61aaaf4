"""DPDGC: whose gradients one record moves, by how much, what noise they get, and what predictions read."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.engine.models.dense import ACTIVATIONS, Mlp
from dpgraph.families.aggregates.embedding import ListEmbedding, clipped_sums, rows_of
from dpgraph.families.aggregates.networks import SkipNetwork
from dpgraph.families.aggregates.prepared import Senders
from dpgraph.families.aggregates.train import Stages
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate
from dpgraph.privacy.accountants.composition import composed_epsilon, gaussian_pair
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, epsilon_from_rdp
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import changed
from tests.contract.conftest import toy_graph
from tests.families.aggregates.test_aggregates import CPU, KEY, NODES, null, packed, random_case

WIDTH, CLASSES = 4, 3
EVERYBODY = np.ones(NODES, dtype=bool)


@pytest.fixture(scope="module")
def toy():
    return toy_graph()


def network(nodes=NODES, activation="tanh"):
    generator = torch.Generator().manual_seed(3)
    found = ListEmbedding(nodes, WIDTH, CLASSES, ACTIVATIONS[activation], generator)
    with torch.no_grad():
        found.bias.copy_(torch.randn(WIDTH, generator=generator))
    return found


def labelled(nodes=NODES):
    return torch.arange(nodes) % CLASSES


def each_root(lists, receivers, sends=EVERYBODY, clip_norm=1e-3, labels=None, whole=False):
    """(nodes, P): the clipped gradient of every root, one by one; `whole`: under a public bound, nothing is cut."""
    given = *packed(lists), sends, receivers
    rows = rows_of(Senders.bounded(*given) if whole else Senders.capped(*given, KEY), np.arange(len(lists)))
    found, labels = network(len(lists)), labelled(len(lists)) if labels is None else labels
    sums = [clipped_sums(found, rows[[root]], labels[[root]], clip_norm) for root in range(len(lists))]
    return np.stack([torch.cat([part.flatten() for part in one]).numpy() for one in sums])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("clip_norm", [0.05, 1e3])
def test_gradients_are_those_of_each_root_clipped_to_the_norm(clip_norm, activation):
    """Against automatic differentiation, root by root."""
    lists, _, random = random_case(1)
    rows = rows_of(Senders.whole(*packed(lists), random.random(NODES) < 0.8), np.arange(NODES))
    labels, found = labelled(), network(activation=activation)
    labels[5] = -1
    wanted = [torch.zeros_like(one) for one in found.parameters()]
    for root in range(NODES):
        states = torch.from_numpy(rows[[root]].toarray()).float() @ found.weight + found.bias
        logits = found.activation(states) @ found.head.T.float()
        loss = torch.nn.functional.cross_entropy(logits, labels[[root]], reduction="sum", ignore_index=-1)
        parts = torch.autograd.grad(loss, list(found.parameters()))
        norm = torch.cat([part.flatten() for part in parts]).norm()
        for total, part in zip(wanted, parts, strict=True):
            total += part * min(1.0, clip_norm / max(float(norm), 1e-30))
    for made, total in zip(clipped_sums(found, rows, labels, clip_norm), wanted, strict=True):
        assert torch.allclose(made, total, atol=1e-5)


def test_what_is_not_finite_counts_as_nothing():
    rows = rows_of(Senders.whole(*packed([[1], [0], []]), np.ones(3, dtype=bool)), np.arange(3))
    found = network(3)
    with torch.no_grad():
        found.weight[0] = float("nan")
    received, own = clipped_sums(found, rows, labelled(3), 1.0)
    assert torch.isfinite(received).all()
    assert torch.isfinite(own).all()
    with torch.no_grad():
        found.bias[0] = float("nan")
    assert all(not part.any() for part in clipped_sums(found, rows, labelled(3), 1.0))


@pytest.mark.parametrize("receivers", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_null_record_changes_its_own_root_and_those_that_it_sends_to(seed, receivers):
    lists, _, _ = random_case(seed)
    before, most = each_root(lists, receivers), 0
    assert np.linalg.norm(before, axis=1).max() <= 1e-3
    assert np.linalg.norm(before, axis=1).max() > 0.999e-3
    for node in range(NODES):
        labels = labelled()
        labels[node] = -1
        after = each_root(null(lists, node), receivers, np.arange(NODES) != node, labels=labels)
        roots = np.flatnonzero((before != after).any(axis=1))
        most = max(most, len(roots))
        assert not after[node].any()
        assert np.linalg.norm((before - after).sum(axis=0)) <= (2 * receivers + 1) * 1e-3
    assert most == receivers + 1


@pytest.mark.parametrize("receivers", [16, 40])
def test_the_root_of_the_cap_that_the_code_charges_does_not_bound_a_step(receivers):
    """One node sends to D others of equal labels: all turn the same way, by more than 2 sqrt(D + 1) C in all."""
    lists = [list(range(1, receivers + 1)), *[[] for _ in range(receivers)]]
    labels = torch.ones(receivers + 1, dtype=torch.int64)
    before = each_root(lists, receivers, np.ones(receivers + 1, dtype=bool), labels=labels)
    labels[0] = -1
    after = each_root(null(lists, 0), receivers, np.arange(receivers + 1) != 0, labels=labels)
    moved = np.linalg.norm((before - after).sum(axis=0)) / 1e-3
    assert 2 * math.sqrt(receivers + 1) < moved <= 2 * receivers + 1


@pytest.mark.parametrize("receivers", [1, 2, 4])
def test_an_edge_changes_four_roots_at_most(receivers):
    found = []
    for seed in range(3):
        lists, _, _ = random_case(seed)
        before = each_root(lists, receivers)
        for one in range(NODES):
            for other in [member for member in lists[one] if member > one]:
                less = [[m for m in row if {o, m} != {one, other}] for o, row in enumerate(lists)]
                found.append(int((before != each_root(less, receivers)).any(axis=1).sum()))
    assert max(found) == 4


def prepared(graph, name, **parts):
    found = changed(name, **parts)
    (job,) = make_jobs(graph, found, [0], calibrate(found, len(graph.train_nodes), default_cache()), CPU)
    return job


def ran(job, observe=lambda step, logits: {}):
    return method("dp-dgc").run(job, observe)


@pytest.mark.parametrize(("variant", "step", "released"), [("rigorous", 17.0, 1.0), ("published", 3.0, 0.5**0.5)])
def test_noise_of_the_parts_is_in_proportion_to_what_they_are_charged(toy, variant, step, released):
    budget = {"receivers": 8, "sums_share": None, "embedding_share": None}
    job = prepared(toy, f"dp-dgc-{variant}", training={"sampling_rate": 1.0}, privacy=budget)
    noise = job.mechanism.noise_multiplier
    assert job.prepared.embedding_noise.std == pytest.approx(step * noise)
    assert job.prepared.sums.std == pytest.approx(released * math.sqrt(8) * noise)
    assert job.prepared.noise.std == pytest.approx(noise)
    drawn = [torch.zeros(200, 50)]
    job.prepared.embedding_noise.add(drawn)
    assert float(drawn[0].std()) == pytest.approx(step * noise, rel=0.03)


def test_the_two_kinds_of_steps_have_noise_and_batches_of_their_own(toy):
    job = prepared(toy, "dp-dgc-rigorous")
    first, second = [torch.zeros(4000)], [torch.zeros(4000)]
    job.prepared.embedding_noise.add(first)
    job.prepared.noise.add(second)
    assert abs(np.corrcoef(first[0], second[0])[0, 1]) < 0.08
    one, other = (draws.generator.random(4000) for draws in (job.prepared._draws, job.prepared.terms[0].draws))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.08


def test_full_batches_are_one_gaussian_mechanism(toy):
    """mu^2 = T1 (2 D + 1)^2 / s1^2 + 1 / s2^2 + T2 / s^2, of which the shares are what they are asked to be."""
    job = prepared(toy, "dp-dgc-rigorous", training={"sampling_rate": 1.0, "steps": 5, "evaluations": 1})
    mechanism, noise = job.mechanism, job.mechanism.noise_multiplier
    assert mechanism.parts == (2, 3)
    parts = [2 * 7**2 / mechanism.embedding_noise**2, 1 / mechanism.sums_noise**2, 3 / noise**2]
    assert np.array(parts) / sum(parts) == pytest.approx([0.3, 0.4, 0.3])
    epsilon = gaussian_epsilon(mu=math.sqrt(sum(parts)), delta=mechanism.delta)
    assert mechanism.rigorous().epsilon == pytest.approx(epsilon, rel=1e-9)
    (edge,) = mechanism.beside()
    mu = math.sqrt(2 * 8**2 / mechanism.embedding_noise**2 + 6 / 3 / mechanism.sums_noise**2)
    assert edge.epsilon == pytest.approx(gaussian_epsilon(mu=mu, delta=mechanism.delta), rel=1e-9)


def test_epsilon_of_poisson_batches_is_that_of_the_composition(toy):
    mechanism = prepared(toy, "dp-dgc-rigorous").mechanism
    found = mechanism.rigorous().epsilon
    renyi = epsilon_from_rdp(WIDE_ORDERS, mechanism.rdp(WIDE_ORDERS), mechanism.delta)
    assert 0.8 * renyi < found <= renyi
    many = affected_roots_pair(affected_roots=4, rate=0.5, noise_std=mechanism.embedding_noise)
    alone = composed_epsilon(many, steps=3, delta=mechanism.delta, once=gaussian_pair(mechanism.release_mu))
    assert mechanism.with_steps(3).rigorous().epsilon == pytest.approx(alone, rel=1e-9)  # no step of the classifier yet
    assert 0.5 * found < alone < found
    wider = type(mechanism)(**{**dict(mechanism), "receivers": 6, "sums_ratio": mechanism.sums_ratio})
    assert wider.rigorous().epsilon > found


def test_published_and_rigorous_state_their_relations(toy):
    mechanism = prepared(toy, "dp-dgc-published").mechanism
    published, rigorous = mechanism.published(), mechanism.rigorous()
    assert (published.relation, rigorous.relation) == ("node-replace", "node-null")
    assert "send to another one instead" in published.unmet[0]
    assert "not 2 sqrt(4)" in published.unmet[1]
    wide = type(mechanism)(**{**dict(mechanism), "receivers": 99, "embedding_ratio": 10.0, "sampling_rate": 1.0})
    assert wide.rigorous().epsilon > 2 * wide.published().epsilon
    assert "4 of them change" in rigorous.assumptions[0]


def test_published_adds_up_three_parts_of_one_noise_scale(toy):
    """As the released code: the same multiplier for every part, in units of what each is charged."""
    job = prepared(toy, "dp-dgc-published", training={"sampling_rate": 1.0})
    scale = job.mechanism.noise_multiplier / 2
    orders = np.asarray(WIDE_ORDERS)
    epsilon = epsilon_from_rdp(WIDE_ORDERS, (6 + 1) * orders / (2 * scale**2), job.mechanism.delta)
    assert job.mechanism.published().epsilon == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("more", ["sum", "step"])
def test_more_than_accounted_is_refused(toy, more):
    job = prepared(toy, "dp-dgc-rigorous")
    ran(job)
    job.prepared.check()
    if more == "sum":
        job.prepared.sums.release(np.ones((toy.num_nodes, 2)))
    else:
        job.prepared._embedding()
    with pytest.raises(NotAsAccounted, match=r"count: ran" if more == "sum" else r"terms\[0\].draws: ran 4"):
        job.prepared.check()


def test_rows_of_more_than_the_cap_are_refused(toy):
    job = prepared(toy, "dp-dgc-rigorous")
    job.prepared.sums._found = Senders.whole(toy.out_ptr, toy.out_idx, np.ones(toy.num_nodes, dtype=bool))
    ran(job)
    with pytest.raises(NotAsAccounted, match=r"terms\[0\].max_degree: ran"):
        job.prepared.check()


def test_what_is_summed_has_norm_1_and_stages_move_their_own_networks(toy):
    job = prepared(toy, "dp-dgc-rigorous")
    seen, original = [], Stages.__call__

    def watched(self):
        before = [p.detach().clone() for p in self.networks.parameters()]
        read = original(self)
        moved = [not torch.equal(a, b) for a, b in zip(before, self.networks.parameters(), strict=True)]
        seen.append((any(moved[:2]), any(moved[2:])))
        assert torch.allclose(self.networks[0].weight.norm(dim=1), torch.ones(60), atol=1e-5)
        return read

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stages, "__call__", watched)
        ran(job)
    assert seen == [(True, False)] * 3 + [(False, True)] * 3


def test_no_list_reaches_a_prediction_before_the_sum(toy):
    """While vectors are learnt, another graph gives the same predictions; afterwards it does not."""
    seen = []
    for graph in (toy, replace(toy, out_ptr=np.zeros_like(toy.out_ptr), out_idx=np.zeros(0, dtype=np.int32))):
        curve = []
        job = prepared(graph, "dp-dgc-rigorous")
        ran(job, lambda step, logits, curve=curve: curve.append(logits.copy()) or {})
        seen.append(curve)
    assert np.array_equal(seen[0][0], seen[1][0])
    assert not np.array_equal(seen[0][-1], seen[1][-1])


def test_a_prediction_reads_its_own_record_and_what_was_released(toy):
    seen = []
    for value in (0.0, 5.0):
        features = toy.features.copy()
        features[58] += value
        seen.append(ran(prepared(replace(toy, features=features), "dp-dgc-rigorous")).logits)
    same = (seen[0] == seen[1]).all(axis=1)
    assert same[np.arange(60) != 58].all()
    assert not same[58]


def test_the_classifier_adds_what_it_mixes_to_both_of_its_inputs():
    generator = torch.Generator().manual_seed(0)
    own, mixing, head = (
        Mlp(sizes, ACTIVATIONS["tanh"], False, generator, torch.float32) for sizes in ([3, 2], [4, 2], [2, 5])
    )
    rows = torch.randn(6, 5, generator=generator)
    records, received = own.layers[0](rows[:, :3]), rows[:, 3:]
    states = mixing.layers[0](torch.tanh(torch.cat([records, received], 1))) + records + received
    wanted = head.layers[0](torch.tanh(states))
    assert torch.allclose(SkipNetwork(own, mixing, head).classify(rows), wanted, atol=1e-6)


def test_shares_leave_something_to_the_classifier():
    for shares, message in (
        ({"sums_share": 0.5, "embedding_share": None}, "embedding_share=None: expected a number"),
        ({"sums_share": 0.5, "embedding_share": 0.5}, "embedding_share=0.5: expected less than 1 - sums_share = 0.5"),
    ):
        with pytest.raises(UserError, match=message):
            changed("dp-dgc-rigorous", privacy=shares)


def test_more_classes_than_the_width_have_axes_too():
    found = ListEmbedding(3, 2, 5, torch.tanh, torch.Generator().manual_seed(0))
    assert found.head.shape == (5, 2)
    assert torch.allclose(found.head.T @ found.head, 3 * torch.eye(2, dtype=torch.float64), atol=1e-9)


def without_node(lists, node):
    """The lists after a node left with all its edges, in whose place nobody is; who sends; the roots' labels."""
    left = [[] if owner == node else [one for one in members if one != node] for owner, members in enumerate(lists)]
    stays = np.arange(len(lists)) != node
    return left, stays, torch.where(torch.from_numpy(stays), labelled(len(lists)), -1)


@pytest.mark.parametrize("leaves", [10, 40, 160])
def test_under_node_remove_no_cap_bounds_how_many_roots_change(leaves):
    """D = 1: each leaf names the hub and a friend of its own, and sends to it once the hub is gone: gradients of
    about half of the friends change, where Theorem 20 counts two roots under node-null."""
    hub = 2 * leaves
    lists = [[hub, leaves + leaf] for leaf in range(leaves)] + [[leaf] for leaf in range(leaves)] + [[*range(leaves)]]
    less, sends, labels = without_node(lists, hub)
    changed = np.abs(each_root(lists, 1, np.ones(hub + 1, dtype=bool)) - each_root(less, 1, sends, labels=labels)) > 0
    assert changed.any(axis=1).sum() > leaves / 4


@pytest.mark.parametrize("seed", range(5))
def test_where_no_list_is_cut_a_node_that_leaves_changes_its_neighbours_roots_and_its_own(seed):
    """A public bound D on all lists, edges in both lists: D + 1 roots, as Theorem 20 counts under node-null."""
    random = np.random.default_rng(seed)
    joined = np.triu(random.random((NODES, NODES)) < 0.3, 1)
    lists = [np.flatnonzero(row).tolist() for row in joined | joined.T]
    bound = max(map(len, lists))
    before, most = each_root(lists, bound, whole=True), 0
    for node in range(NODES):
        less, sends, labels = without_node(lists, node)
        moved = np.abs(before - each_root(less, bound, sends, labels=labels, whole=True)) > 0
        changed = set(np.flatnonzero(moved.any(axis=1)).tolist())
        assert changed <= {node, *lists[node]}
        most = max(most, len(changed))
    assert most == bound + 1
