"""Counterexamples to statements of the papers that are false. Each test names the statement that it refutes.

Where the project has the code of the paper's method, that code runs; else a few lines written out here stand for it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN
from dpgraph.engine.sampling.edge_lists import EdgeLists, sample_edge_lists
from dpgraph.families.pagerank.epsilon import theorem6_epsilon
from dpgraph.families.units.accountant import class_dp_theorem5
from dpgraph.privacy.accountants.composition import composed_epsilon
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair
from dpgraph.privacy.accountants.evaluate import evaluate
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.steps import moments


def fan(spokes: int, with_hub: bool) -> Graph:
    """Roots w_1..w_n with lists {u_i}; the last node points to all u_i, or to nothing, and is a root, too."""
    members = np.arange(spokes, 2 * spokes)
    lengths = [1] * spokes + [0] * spokes + [spokes if with_hub else 0]
    split = np.full(2 * spokes + 1, 2, dtype=np.uint8)
    split[:spokes] = split[-1] = TRAIN
    return Graph(
        name="fan",
        out_ptr=np.concatenate([[0], np.cumsum(lengths)]),
        out_idx=np.concatenate([members, members if with_hub else []]).astype(np.int32),
        in_ptr=np.zeros(2 * spokes + 2, dtype=np.int64),
        in_idx=np.zeros(0, dtype=np.int32),
        features=np.zeros((2 * spokes + 1, 1), dtype=np.float32),
        labels=np.zeros(2 * spokes + 1, dtype=np.int64),
        split=split,
        num_classes=2,
    )


def changed(before: EdgeLists, after: EdgeLists, nodes: range) -> int:
    return sum(not np.array_equal(before.members(v), after.members(v)) for v in nodes)


@pytest.mark.parametrize(("spokes", "least"), [(100, 30), (1000, 440)])
def test_daigavane_lemma_2_fails_for_algorithm_1(spokes: int, least: int) -> None:
    """Daigavane et al., Lemma 2: one node changes at most N(K, r) training subgraphs, here 1 + K = 3 (K = 2, r = 1).

    The hub's edges lower the keep-probability of every u_i from 1 to 1/2, so about half of the n subgraphs {w_i, u_i},
    none of which holds the hub, lose their edge: the number of changed subgraphs grows with the graph.
    """
    pair = [
        sample_edge_lists(
            graph, graph.train_nodes, 2, numpy_generator("claims", spokes)
        )  # the same coins on both sides
        for graph in (fan(spokes, True), fan(spokes, False))
    ]
    assert changed(pair[0], pair[1], range(spokes)) > least > 3


def test_daigavane_one_multiplier_for_all_groups() -> None:
    """Daigavane et al., section 5: with noise lambda per layer "the overall privacy cost only depends on lambda".

    Two groups, each clipped at C with noise s C: the joint vector moves by sqrt(2) C under noise s C.
    """
    s, clip = 3.0, 1.0
    moved = np.concatenate([np.array([clip, 0.0]), np.array([0.0, clip])])  # both groups at their clip norm
    assert np.linalg.norm(moved) == pytest.approx(math.sqrt(2) * clip)
    assert gaussian_epsilon(mu=np.linalg.norm(moved) / (s * clip), delta=1e-5) > 1.4 * gaussian_epsilon(
        mu=1 / s, delta=1e-5
    )


def clipped(gradient: np.ndarray, norm_: float = 1.0) -> np.ndarray:
    return gradient / max(1.0, float(np.linalg.norm(gradient)) / norm_)


def test_igamberdiev_one_clipped_vector_moves_by_2c() -> None:
    """Igamberdiev & Habernal: the gradient of a whole (sub)graph, clipped at C, is given sensitivity C.

    One node's features can turn the whole gradient around: it moves by 2 C, and epsilon is 19.9 where 9.75 is claimed
    (their Table 3: sigma = 26, 2000 epochs, delta = 1e-5).
    """
    gap = np.linalg.norm(clipped(np.array([5.0, 0.0])) - clipped(np.array([-5.0, 0.0])))
    assert gap == pytest.approx(2.0)
    claimed = moments(q=1.0, noise_multiplier=26.0, steps=2000, delta=1e-5)
    true = gaussian_epsilon(mu=gap * math.sqrt(2000) / 26, delta=1e-5)
    assert (claimed, true) == (pytest.approx(9.755, abs=1e-3), pytest.approx(19.94, abs=0.01))


def test_igamberdiev_tensors_clipped_one_by_one_move_by_twice_as_much_again() -> None:
    """Released code: each of the 4 parameter tensors of a two-layer GCN is clipped at C separately: sqrt(4) more."""
    tensors = [np.array([9.0, 0.0])] * 4
    joint = np.concatenate([clipped(tensor) for tensor in tensors])
    gap = np.linalg.norm(joint - -joint)
    assert gap == pytest.approx(2 * math.sqrt(4))


def test_igamberdiev_clipping_a_detached_gradient_does_nothing() -> None:
    """Released code calls clip_grad_norm_ on a gradient tensor, which has no .grad: nothing is clipped."""
    gradient = torch.full((3,), 100.0)
    torch.nn.utils.clip_grad_norm_(gradient, 1.0)
    assert torch.equal(gradient, torch.full((3,), 100.0))


def test_igamberdiev_a_fixed_partition_amplifies_nothing() -> None:
    """Igamberdiev & Habernal, graph splits: s = 10 groups drawn once and cycled, accounted as Poisson with q = 1/s.

    The node's group is read once in every epoch for sure: T / s full releases of sensitivity 2 C (edges between groups
    cut). At sigma = 69.336, T = 20000 that is 5.89 where 1.00 is claimed; even fresh Poisson subgraphs give 1.59.
    """
    noise, steps, groups = 69.336, 20_000, 10
    cyclic = np.arange(steps) % groups
    assert np.count_nonzero(cyclic == 3) == steps // groups  # whatever the group
    claimed = moments(q=1 / groups, noise_multiplier=noise, steps=steps, delta=1e-5)
    partition = gaussian_epsilon(mu=2 * math.sqrt(steps / groups) / noise, delta=1e-5)
    fresh = evaluate(
        "poisson_gaussian", "rigorous", {"q": 1 / groups, "noise_multiplier": noise / 2, "steps": steps}, 1e-5
    )
    assert claimed == pytest.approx(1.0, abs=0.01)
    assert partition == pytest.approx(5.89, abs=0.01)
    assert fresh == pytest.approx(1.59, abs=0.01)


def adaptive_sum(tuples: list[tuple[set[str], float]]) -> float:
    """Huang et al.: tuple i is clipped at C / max over its nodes w of the number of the batch's tuples that hold w."""
    occurrences = {w: sum(w in nodes for nodes, _ in tuples) for nodes, _ in tuples for w in nodes}
    return sum(sign / max(occurrences[w] for w in nodes) for nodes, sign in tuples)


def test_huang_proposition_4_1_fails_for_adaptive_clipping() -> None:
    """Huang et al., Proposition 4.1: without u among the negatives the clipped sum moves by at most C.

    u has 5 positives with 4 negatives each. Every one of the 25 partners is in one other tuple without u, too. With u's
    tuples those others are clipped at C/2; without them at C: 25 of them grow by C/2 while u's own, of opposed sign and
    weight C/5, vanish: 13.5 C in all. The thresholds of tuples *without* u depend on u.
    """
    with_u: list[tuple[set[str], float]] = []
    others: list[tuple[set[str], float]] = []
    for positive in range(5):
        partners = {f"p{positive}"} | {f"n{positive}.{k}" for k in range(4)}
        with_u.append(({"u"} | partners, -1.0))
        others += [({partner, f"far {partner}"}, 1.0) for partner in partners]
    gap = adaptive_sum(with_u + others) - adaptive_sum(others)
    assert abs(gap) == pytest.approx(13.5)
    assert abs(gap) > 2.0  # even with u once among the negatives the proposition allows 2 C only


@pytest.mark.parametrize(
    ("rate", "noise"), [(0.2, 1.6), (0.2, 3.0), (0.2, 3.65), (0.33, 0.8), (0.33, 1.2), (0.33, 1.6)]
)
def test_zhang_theorem_5s_condition_fails_at_all_of_its_settings(rate: float, noise: float) -> None:
    """Zhang, Theorem 5 presumes q < 1 / (16 sigma); no setting of the thesis's tables satisfies it."""
    assert rate > 1 / (16 * noise)


def test_zhang_theorem_5_understates() -> None:
    """At sigma = .8, q = .33, T = 307, delta = .01 Theorem 5 gives 62.0; the exact epsilon is 112.5."""
    claimed = class_dp_theorem5(q=0.33, noise_multiplier=0.8, steps=307, delta=0.01)
    exact = composed_epsilon(
        affected_roots_pair(affected_roots=1, rate=0.33, noise_std=0.8, own_root_removed=False), steps=307, delta=0.01
    )
    assert claimed == pytest.approx(62.0, abs=0.1)
    assert exact == pytest.approx(112.5, rel=5e-3)


def test_zhang_exponential_below_its_tangent() -> None:
    """Zhang, equation 4.5: e^(4 / sigma^2) - 1 <= 4 / sigma^2. For every x > 0 it is the other way round."""
    for sigma in (0.8, 1.2, 1.6, 3.65, 100.0):
        assert math.expm1(4 / sigma**2) > 4 / sigma**2


def test_zhang_theorem_6_two_clipped_rows_are_sqrt_2_apart() -> None:
    """Zhang, Theorem 6: a row of PageRank values clipped at C1 is given sensitivity C1.

    Two non-negative rows with disjoint support are sqrt(2) C1 apart, so a row's noise for (eps, delta) is too small by
    sqrt(2). (Over all M rows the theorem composes so loosely that its total holds at the thesis's settings.)
    """
    a, b = clipped(np.array([3.0, 0.0])), clipped(np.array([0.0, 7.0]))
    gap = float(np.linalg.norm(a - b))
    assert gap == pytest.approx(math.sqrt(2))
    epsilon, delta = 0.5, 1e-5
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert gaussian_epsilon(mu=1 / sigma, delta=delta) <= epsilon < gaussian_epsilon(mu=gap / sigma, delta=delta)
    assert gaussian_epsilon(mu=math.sqrt(2 * 70) / 199.09, delta=0.002) < theorem6_epsilon(
        rows=70, noise=199.09, row_delta=1.429e-5
    )


def test_zhang_theorem_8_sampling_amplifies_less_than_linearly() -> None:
    """Zhang, Theorem 8: sampling the training nodes once at rate q' multiplies epsilon by q'.

    The tight answer is ln(1 + q' (e^eps - 1)): 5.60 and not 0.72 at q' = .09, eps = 8. Randomised response attains it.
    """
    rate, epsilon = 0.09, 8.0
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    with_record = rate * truth + (1 - rate) * (1 - truth)  # not sampled: the answer of a null record
    loss = math.log(with_record / (1 - truth))
    assert loss == pytest.approx(math.log1p(rate * math.expm1(epsilon)))
    assert loss == pytest.approx(5.60, abs=0.01)
    assert rate * epsilon == pytest.approx(0.72)


def test_zhang_theorem_8_column_norms_bound_nothing() -> None:
    """Zhang, Theorem 8: one node moves the gradient by at most tau, the norm of its column of PageRank values.

    Root i reads softmax(x_i W + pi_iv x_v W): with weight 1e-3 and features of 1e6 the clipped gradients of all M roots
    turn around, while the column norm is sqrt(M) / 1000. It is the *support* of the column that counts.
    """
    roots, weight = 25, 1e-3
    column = np.full(roots, weight)
    own, features = 1.0, 1e6

    def total(node_present: bool) -> float:
        inputs = own - (column * features if node_present else 0)  # one feature, two classes, W = 0: gradient -x / 2
        return float(np.sum([clipped(np.atleast_1d(-x / 2 * 10))[0] for x in np.broadcast_to(inputs, roots)]))

    gap = abs(total(True) - total(False))
    assert gap == pytest.approx(2 * roots)
    assert gap > 5000 * np.linalg.norm(column)


def test_zhang_theorem_8_the_batch_rate_is_over_the_private_rows() -> None:
    """Zhang, Theorem 8 takes q = B / N; batches come from the M rows. Cora-ML: B = 60 of M = 70, N = 2485.

    A Gaussian shift seen with probability .857 instead of .024 per step.
    """
    claimed = composed_epsilon(
        affected_roots_pair(affected_roots=1, rate=60 / 2485, noise_std=5.92), steps=400, delta=1e-3
    )
    true = composed_epsilon(affected_roots_pair(affected_roots=1, rate=60 / 70, noise_std=5.92), steps=400, delta=1e-3)
    assert claimed < 1 < 10 < true


def test_pate_realised_answers_are_private() -> None:
    """Zhang, Proposition 2 charges the answers that were given; that number depends on the votes.

    Two vote histograms that differ in one vote, on either side of the threshold: a different number of answers, hence
    a different "epsilon", which is then itself a release that is not charged to the budget.
    """
    threshold, noise_free = 50, np.array([50, 49])
    answered = noise_free >= threshold
    costs = [
        evaluate(
            "pate_confident_gnmax",
            "published",
            {"checks": 1, "answers": int(count), "sigma_threshold": 150, "sigma_votes": 40},
            1e-5,
        )
        for count in answered
    ]
    assert costs[0] > costs[1]
