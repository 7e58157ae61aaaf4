"""Tuples and their batches: bounds of the stable sampler under a null entity, and negatives without replacement."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TRAIN
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.families.tuples.sampling import Negatives, TupleBatches, Tuples, capped_tuples, stable_tuples
from dpgraph.privacy.procedure import Lists
from dpgraph.problems.relations.value import Relations
from dpgraph.problems.relations.work import RelationPrediction


def relation(pairs, entities, private=None):
    pairs = np.unique(np.sort(np.asarray(pairs, dtype=np.int32).reshape(-1, 2), axis=1), axis=0)
    domain = np.where(np.arange(entities) < (entities if private is None else private), TRAIN, 2).astype(np.uint8)
    return Relations(
        name="toy", features=np.eye(entities, dtype=np.float32), tuples=pairs, split=domain[pairs[:, 0]], domain=domain,
        letters=np.zeros(0, dtype=np.uint8), text_ends=np.zeros(entities, dtype=np.int64),
    )  # fmt: skip


def graph_of(pairs, entities) -> Graph:
    return RelationPrediction().graph(relation(pairs, entities))


def null(graph: Graph, entity: int) -> Graph:
    """Its record and its own list are gone; its places in others' lists stay."""
    kept = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr)) != entity
    lengths = np.where(np.arange(graph.num_nodes) == entity, 0, np.diff(graph.out_ptr))
    ptr, idx = np.concatenate([[0], np.cumsum(lengths)]), graph.out_idx[kept]
    split = graph.split.copy()
    split[entity] = NO_SPLIT
    back = transpose(ptr, idx)
    return replace(graph, out_ptr=ptr, out_idx=idx, in_ptr=back[0], in_idx=back[1], split=split)


def as_set(tuples: Tuples) -> set:
    return {tuple(sorted(pair)) for pair in tuples.pairs.tolist()}


def random_pairs(seed, entities, count, hub):
    random = np.random.Generator(np.random.PCG64(seed))
    pairs = random.integers(0, entities, size=(count, 2))
    star = np.stack([np.zeros(hub, dtype=int), 1 + random.permutation(entities - 1)[:hub]], axis=1)
    pairs = np.concatenate([pairs, star])
    return pairs[pairs[:, 0] != pairs[:, 1]]


def test_a_graph_has_every_training_tuple_once_in_the_list_of_its_owner():
    pairs = random_pairs(0, 20, 60, 10)
    value = relation(pairs, 20)
    graph = RelationPrediction().graph(value)
    owners = np.repeat(np.arange(20), np.diff(graph.out_ptr))
    found = {tuple(sorted(one)) for one in zip(owners.tolist(), graph.out_idx.tolist())}
    assert found == {tuple(one) for one in value.tuples.tolist()}
    assert graph.num_edges == len(value.tuples)
    assert graph.num_classes == 0
    assert (graph.labels == -1).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3), st.integers(0, 24), st.integers(0, 23))
def test_a_null_entity_moves_few_tuples(seed, degree, cap, hub, entity):
    """At most K + D leave, all of which name it, and at most D enter; a tuple's order never changes."""
    graph = graph_of(random_pairs(seed, 25, 80, hub), 25)
    before, after = (as_set(stable_tuples(one, degree, cap, seed)) for one in (graph, null(graph, entity)))
    assert all(entity in pair for pair in before - after)
    assert len(before - after) <= degree + cap
    assert len(after - before) <= cap
    assert not any(entity in pair for pair in after)


def test_no_entity_is_in_too_many_tuples():
    pairs = random_pairs(3, 40, 300, 39)
    for found, most in (
        (stable_tuples(graph_of(pairs, 40), 2, 3, 1), 5),
        (capped_tuples(graph_of(pairs, 40), 4, 1), 4),
    ):
        assert 0 < np.bincount(found.pairs.ravel()).max() <= most
        assert found.kind is (Lists.STABLE_TUPLES if most == 5 else Lists.CAPPED_TUPLES)
    few = graph_of([(0, 1), (2, 3)], 4)
    assert len(capped_tuples(few, 1, 0)) == len(stable_tuples(few, 1, 1, 0)) == 2
    with pytest.raises(UserError, match="max_degree=0"):
        capped_tuples(few, 0, 0)


def test_the_papers_cap_is_not_stable():
    """A hub's partners keep others in its place: with K = 1 every one of them changes a tuple without the hub."""
    partners = 40
    pairs = [(0, one) for one in range(1, partners + 1)] + [(one, one + partners) for one in range(1, partners + 1)]
    graph = graph_of(pairs, 2 * partners + 1)
    entered = [
        len(as_set(capped_tuples(null(graph, 0), 1, key)) - as_set(capped_tuples(graph, 1, key))) for key in range(5)
    ]
    assert min(entered) > 10


def batches_of(tuples, rate=1.0, negatives=2, places=None, entities=30, seed=0):
    pairs = np.asarray(tuples, dtype=np.int64).reshape(-1, 2)
    random = [np.random.Generator(np.random.PCG64(seed + i)) for i in (0, 1)]
    sampler = PoissonSampler(places or len(pairs), rate)
    return TupleBatches(
        Tuples(pairs, Lists.STABLE_TUPLES, 3),
        Draws(sampler, random[0]),
        Negatives(np.arange(entities), negatives, random[1]),
    )


def test_no_entity_is_a_negative_twice_in_a_batch():
    batches = batches_of([(0, 1), (1, 2), (4, 9), (2, 8)], negatives=7)
    for _ in range(50):
        batch = batches.next()
        assert batch.shape == (4, 9)
        assert np.array_equal(batch[:, :2], batches.tuples.pairs)
        assert len(np.unique(batch[:, 2:])) == 28


def test_negatives_are_uniform_at_every_place():
    batches = batches_of([(0, 1), (2, 3)], negatives=2, entities=8)
    drawn = np.stack([batches.next()[:, 2:] for _ in range(8000)])
    for row in range(2):
        for column in range(2):
            assert chisquare(np.bincount(drawn[:, row, column], minlength=8)).pvalue > 1e-4
    pairs = drawn[:, 0, 0] * 8 + drawn[:, 1, 1]
    counts = np.bincount(pairs, minlength=64)[[a * 8 + b for a in range(8) for b in range(8) if a != b]]
    assert chisquare(counts).pvalue > 1e-4


def test_places_without_a_tuple_stay_empty_and_rates_hold():
    batches = batches_of([(i, i + 1) for i in range(10)], rate=0.3, places=25)
    sizes = np.array([len(batches.next()) for _ in range(4000)])
    assert sizes.max() <= 10
    assert sizes.mean() == pytest.approx(3.0, abs=6 * np.sqrt(2.1 / 4000))
    assert batches.draws.count == 4000


def test_a_batch_that_needs_too_many_entities_is_refused():
    with pytest.raises(UserError, match="needs 40: expected <= 30"):
        batches_of([(i, i + 1) for i in range(20)], negatives=2).next()
