"""What a comparison of numbers cannot see: independence of draws, of noise, and of what one node may move."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.data.records import NO_SPLIT
from dpgraph.engine.models.kipf import GraphBlocks
from dpgraph.engine.preparation.base import PROVED
from dpgraph.engine.sampling.edge_lists import EdgeLists
from dpgraph.families.jobs import make_jobs
from dpgraph.families.subgraphs.prepared import source_of
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, NotAsAccounted, Procedure, differences
from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph
from tests.contract.test_methods import calibrated
from tests.contract.values import value_of

CPU = torch.device("cpu")
GRAPH = toy_graph()


def prepared_of(name, seed=0, graph=GRAPH):
    return make_jobs(value_of(CELLS[name], graph), CELLS[name], [seed], calibrated(CELLS[name], graph), CPU)[0].prepared


def noise_of(prepared, steps=400, size=50):
    """(steps, 2, size): what is added to two tensors of zeros, step by step."""
    noise = np.zeros((steps, 2, size))
    for step in range(steps):
        sums = [torch.zeros(size, dtype=torch.float64) for _ in range(2)]
        prepared.noise.add(sums)
        noise[step] = np.stack([part.numpy() for part in sums])
    return noise


ONE_OF_EACH = ["dp-gnn-1-rigorous", "dp-gnn-1-rigorous-fixed-size", "dp-mlp-0-rigorous", "dp-residual-1-rigorous",
               "dp-lots-0-rigorous", "dp-lots-0-published", "dp-subgraph-3-rigorous", "dp-subgraph-3-cut",
               "dp-subgraph-3-published", "dp-appr-gaussian-rigorous", "dp-appr-exact-published"]  # fmt: skip


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_noise_has_its_std_and_is_independent_across_steps_and_coordinates(name):
    """40,000 numbers: the std within 5 standard errors, correlations of neighbours, steps and tensors near 0."""
    prepared = prepared_of(name)
    std = prepared.mechanism.noise_std_over_clip * CELLS[name].privacy.clip_norm
    drawn = noise_of(prepared) / std
    assert drawn.std() == pytest.approx(1, abs=5 / np.sqrt(2 * drawn.size))
    assert abs(drawn.mean()) < 5 / np.sqrt(drawn.size)
    pairs = (
        (drawn[1:], drawn[:-1]),  # one step and the next
        (drawn[:, 0], drawn[:, 1]),  # one tensor and the other
        (drawn[:, :, 1:], drawn[:, :, :-1]),  # one coordinate and the next
    )
    for one, other in pairs:
        assert abs((one * other).mean()) < 5 / np.sqrt(one.size)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_seeds_have_noise_and_batches_of_their_own(name):
    first, second = (noise_of(prepared_of(name, seed), steps=40) for seed in (0, 1))
    assert abs((first * second).mean()) < 5 * first.std() ** 2 / np.sqrt(first.size)
    drawn = [batches_of(prepared_of(name, seed), 20) for seed in (0, 1)]
    if drawn[0] is not None and len(set(map(bytes, drawn[0]))) > 1:
        assert not np.array_equal(*drawn)


def batches_of(prepared, steps):
    """(steps, 60) which nodes each step reads; None: the same in every step."""
    drawn = np.zeros((steps, 60), dtype=bool)
    nodes = GRAPH.train_nodes
    for step in range(steps):
        if hasattr(prepared, "terms"):
            drawn[step, nodes[prepared.terms[0].draws.next()]] = True
        elif hasattr(prepared, "draws"):
            drawn[step, prepared.rows.roots[prepared.draws.next()]] = True
        elif hasattr(prepared, "lots"):
            drawn[step, nodes[prepared.lots.lot(step)]] = True
        else:
            drawn[step, prepared.schedule.nodes(step)] = True
    return drawn


POISSON = ["dp-gnn-1-rigorous", "dp-mlp-0-rigorous", "dp-residual-1-rigorous", "dp-lots-0-rigorous",
           "dp-subgraph-3-rigorous", "dp-appr-random-rigorous"]  # fmt: skip


@pytest.mark.parametrize("name", POISSON)
def test_poisson_batches_have_their_rate_and_are_independent(name):
    """Every root alone in every step: sizes have the binomial's mean and variance, steps do not correlate."""
    prepared = prepared_of(name)
    term = prepared.accounted().terms[0]
    drawn = batches_of(prepared, 3000)
    drawn = drawn[:, drawn.any(axis=0)].astype(float)
    assert drawn.shape[1] == term.num_roots
    assert drawn.mean() == pytest.approx(term.rate, abs=5 * np.sqrt(term.rate / drawn.size))
    spread = term.num_roots * term.rate * (1 - term.rate)
    assert drawn.sum(axis=1).var() == pytest.approx(spread, rel=5 * np.sqrt(2 / 3000))
    centred = (drawn - term.rate) / np.sqrt(term.rate * (1 - term.rate))
    assert abs((centred[1:] * centred[:-1]).mean()) < 5 / np.sqrt(drawn.size)


def test_the_two_batches_of_residual_clipping_are_independent():
    """Theorem 7 is false for one batch: who is in the first reveals nothing about who is in the second."""
    first, second = prepared_of("dp-residual-1-rigorous").terms
    drawn = np.zeros((2, 3000, 40))
    for step in range(3000):
        for index, term in enumerate((first, second)):
            drawn[index, step, term.draws.next()] = 1
    rates = first.draws.sampler.rate, second.draws.sampler.rate
    centred = [(one - rate) / np.sqrt(rate * (1 - rate)) for one, rate in zip(drawn, rates)]
    assert abs((centred[0] * centred[1]).mean()) < 5 / np.sqrt(drawn[0].size)


def test_nobody_else_changes_parts_when_a_node_leaves():
    """Parts by id: the split of training nodes by their ids alone (node-remove; the place stays empty)."""
    name = "dp-subgraph-3-cut"
    cell = CELLS[name].model_copy(update={"training": CELLS[name].training.model_copy(update={"train_share": 1.0})})
    mechanism = calibrated(cell, GRAPH)
    before = make_jobs(GRAPH, cell, [0], mechanism, CPU)[0].prepared.schedule.parts
    split = GRAPH.split.copy()
    gone = int(GRAPH.train_nodes[5])
    split[gone] = NO_SPLIT
    after = make_jobs(replace(GRAPH, split=split), cell, [0], mechanism, CPU)[0].prepared.schedule.parts
    assert [set(part) - {gone} for part in before] == [set(part) for part in after]


@pytest.mark.parametrize("release", ["gaussian", "exponential", "exponential-values"])
def test_released_rows_have_the_noise_that_is_accounted_for(release, monkeypatch):
    """Read where the noise is drawn: its scale over that of the data is the mechanism's, in every release."""
    scales = []
    from dpgraph.families.pagerank import release as pagerank_release

    def remember(name, scale_of):
        real = getattr(pagerank_release, name)

        def wrapped(*arguments, **options):
            scales.append(scale_of(*arguments, **options))
            return real(*arguments, **options)

        monkeypatch.setattr(pagerank_release, name, wrapped)
        monkeypatch.setattr(f"dpgraph.families.pagerank.prepared.{name}", wrapped)

    remember("gaussian_release", lambda rows, clip, noise, *rest: (clip, noise))
    remember("exponential_release", lambda rows, clip, noise, k, random, values=None: (clip, noise, k, values))
    name = f"dp-appr-{release}-rigorous"
    prepared = prepared_of(name)
    mechanism, clip = prepared.mechanism, CELLS[name].pagerank.clip
    if release == "gaussian":
        assert scales == [(clip, mechanism.release_noise)]
    else:
        assert scales == [(clip, mechanism.release_noise, mechanism.top_k, mechanism.values_epsilon)]
    ran, accounted = prepared.release, prepared.accounted().releases[0]
    assert not list(differences(accounted, ran))


def test_lists_that_break_their_bounds_are_refused():
    crowded = EdgeLists(np.array([0, 1, 2, 2]), np.array([2, 2], dtype=np.int32), Lists.STABLE, 1, 4)
    with pytest.raises(NotAsAccounted, match=r"a node is in 2 lists: expected at most K = 1$"):
        crowded.checked()
    long = EdgeLists(np.array([0, 2, 2, 2]), np.array([1, 2], dtype=np.int32), Lists.STABLE, 1, 1)
    with pytest.raises(NotAsAccounted, match=r"one has 2 entries: expected at most D = 1$"):
        long.checked()
    with pytest.raises(NotAsAccounted, match=r"found 2 entries: expected none$"):
        EdgeLists(long.ptr, long.idx, Lists.NONE).checked()


def test_what_no_theorem_is_about_protects_nothing():
    """A private relation is proved for few combinations, none with unbounded lists or without a clip norm."""
    for lists, batches, clipped in PROVED:
        assert lists is not Lists.UNBOUNDED
        assert lists is not Lists.ALGORITHM_1
        assert clipped in (Clipped.ROOT, Clipped.STEP)
        assert (lists is Lists.STABLE) <= (batches in (Batches.POISSON, Batches.FIXED_SIZE))
    proved = [name for name, cell in CELLS.items() if cell.privacy is not None and "rigorous" in name]
    of_one_network = [name for name in proved if not name.endswith(("-gin", "-gat"))]
    held = {prepared_of(name).accounted().relation for name in of_one_network}
    assert held == {"node-null", "node-remove", "record-remove", "entity", "edge"}


def test_differences_are_named_with_both_values():
    term = ClippedSum(lists=Lists.STABLE, batches=Batches.POISSON, num_roots=5, rate=0.1, clipped=Clipped.ROOT,
                clip_norms=(1.0,), draws=3)  # fmt: skip
    one = Procedure(relation="node-null", terms=(term,), noise_std=(1.0,), noise_draws=3, divisor=0.5, steps=3)
    other = one.model_copy(update={
        "noise_std": (1 / 1.3,), "terms": (term.model_copy(update={"rate": 0.2, "lists": Lists.UNBOUNDED}),),
    })  # fmt: skip
    assert list(differences(one, other)) == [
        "terms[0].lists: ran uncut lists, accounted stable",
        "terms[0].rate: ran 0.2, accounted 0.1",
        "noise_std[0]: ran 0.7692307692, accounted 1",
    ]
    assert not list(differences(one, one.model_copy(update={"noise_std": (1 + 1e-12,)})))
    assert list(differences(one, one.model_copy(update={"terms": (term, term)}))) == [
        "terms: ran 2 of them, accounted 1 of them"
    ]


@pytest.mark.parametrize("name", ["dp-subgraph-1-rigorous", "dp-subgraph-1-cut"])
def test_a_null_record_is_drawn_and_not_read(name):
    """Theorem 21: the place of an absent node stays in the schedule, and moves neither messages nor the divisor."""
    gone = int(prepared_of(name).schedule.nodes(0)[0])
    labels = GRAPH.labels.copy()
    labels[gone] = -1
    prepared = prepared_of(name, graph=replace(GRAPH, labels=labels))
    source = source_of(prepared, GraphBlocks(prepared.data.graph, CPU))
    drawn = prepared.schedule.nodes(0)
    assert gone in drawn
    assert source.block_at(0).num_nodes == len(drawn) - 1
