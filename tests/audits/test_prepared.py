"""What the audits of prepared steps rest on: numbers of another origin, graphs that reach the bounds, honest probes."""

from __future__ import annotations

import numpy as np
import pytest

from dpgraph.audits import facts, inputs, probes, reach, theory
from dpgraph.audits.cases import KINDS, Settings, prepared_steps
from dpgraph.audits.gadgets import Gadgets, Worst
from dpgraph.audits.graphs import directed_graph, null_records, without_node
from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.privacy.accountants.composition import composed_delta
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair, residual_pair
from dpgraph.privacy.accountants.gaussian import gaussian_delta
from dpgraph.privacy.procedure import NotAsAccounted

EPSILONS = np.array([0.0, 0.5, 1.0, 2.0])


def test_two_ways_to_compose_agree() -> None:
    poisson = theory.poisson(4, 0.25, 5.0, 8)
    expected = composed_delta(
        affected_roots_pair(affected_roots=4, rate=0.25, noise_std=5.0), steps=8, epsilons=EPSILONS
    )
    assert poisson.delta(EPSILONS) == pytest.approx(expected, rel=1e-2, abs=1e-4)
    residual = theory.residual(4, 0.25, 0.1, 0.5, 3.0, 8)
    expected = composed_delta(
        residual_pair(affected_roots=4, self_rate=0.25, neighbour_rate=0.1, neighbour_clip=0.5, noise_std=3.0),
        steps=8,
        epsilons=EPSILONS,
    )
    assert residual.delta(EPSILONS) == pytest.approx(expected, rel=1e-2, abs=1e-4)
    nothing = (np.ones(1), np.zeros(1))
    gaussian = theory.MixtureClaim(nothing, nothing, 1.0, 0, 1.3)
    assert gaussian.delta(EPSILONS) == pytest.approx(gaussian_delta(mu=1.3, epsilon=EPSILONS), rel=1e-3)
    assert poisson.delta([poisson.epsilon(1e-3)]) == pytest.approx(1e-3, rel=1e-2)


def test_two_gaussian_parts_compose_to_one() -> None:
    """R = 1 at rate 1 is a Gaussian of mu = 1 / noise."""
    both = theory.poisson(1, 1.0, 2.0, 3, mu=1.0)
    assert both.delta(EPSILONS) == pytest.approx(gaussian_delta(mu=np.sqrt(3 / 4 + 1), epsilon=EPSILONS), rel=2e-3)
    # its Renyi divergence: alpha mu^2 / 2
    assert theory.poisson(1, 1.0, 2.0, 1).divergence(np.array([2.0, 5.0])) == pytest.approx([0.25, 0.625], rel=1e-3)


@pytest.mark.parametrize(("degree", "cap", "hops"), [(2, 1, 1), (2, 2, 1), (1, 1, 2), (2, 1, 2)])
def test_copies_reach_the_bound_of_the_sampler(degree: int, cap: int, hops: int) -> None:
    """In many copies R roots change, in none more; each pushes by C one way with the record, the other way without."""
    kind, roots = KINDS[f"dp-gnn r={hops}"], theory.affected_roots(degree, cap, hops, 10**6)
    settings = Settings(noise=1e-6, rate=1.0, max_degree=degree, list_cap=cap)
    gadgets = Gadgets.copied(60, degree, cap, hops, spare=1)
    changed = gadgets.changed(kind, settings)
    assert np.bincount(gadgets.copy[changed]).max() == roots
    worst = Worst.chosen(gadgets, changed, roots)
    present = np.arange(worst.count) % 2 == 0
    positions = worst.run(kind, settings, present).step()
    assert positions == pytest.approx(np.where(present, roots, -(roots - 1)), abs=1e-3)


def test_null_records_and_absent_nodes() -> None:
    graph = directed_graph([0, 0, 1, 2], [1, 2, 0, 1], np.ones((3, 2)), [1, 1, 0])
    nulled, without = null_records(graph, [0]), without_node(graph, 0)
    assert nulled.labels.tolist() == without.labels.tolist() == [-1, 1, 0]
    assert nulled.out_ptr.tolist() == [0, 0, 1, 2]
    assert nulled.out_idx.tolist() == [0, 1]
    assert without.out_idx.tolist() == [1]
    assert np.array_equal(nulled.train_nodes, graph.train_nodes)
    assert (nulled.features[0] == 0).all()


@pytest.mark.parametrize(
    "name", ["dp-gnn r=1", "dp-residual r=1", "dp-lots published", "dp-subgraph", "dp-appr random"]
)
def test_probes_see_what_was_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read off the parameters, and remembered by the objects themselves."""
    kind, settings = KINDS[name], Settings(noise=0.005, steps=4, own_weight=0.9, num_rows=30, top_k=2, column_cap=2)
    (prepared,) = prepared_steps(kind, settings, probes.probe_graph(kind, 40))
    held = getattr(prepared, "terms", None) or [prepared]
    drawn: list[list[np.ndarray]] = [[] for _ in held]
    for place, one in enumerate(held):
        source = next(getattr(one, part) for part in ("draws", "lots", "schedule") if hasattr(one, part))
        method = {"LotSchedule": "lot", "FreshNodes": "nodes"}.get(type(source).__name__, "next")
        original = getattr(type(source), method)

        def remember(self, *step, original=original, place=place, source=source):  # type: ignore[no-untyped-def]
            remembered = original(self, *step)
            if self is source:
                drawn[place].append(remembered)
            return remembered

        monkeypatch.setattr(type(source), method, remember)
    (seen,) = probes.observe([prepared], kind, settings)
    for mask, batches in zip(seen.drawn, drawn):
        assert [np.flatnonzero(row).tolist() for row in mask] == [np.sort(batch).tolist() for batch in batches]


def test_independent_numbers_of_any_shape_pass_as_noise() -> None:
    random = np.random.default_rng(0)
    assert all(fact.holds for fact in facts._noise(random.standard_normal((12, 3000)), "noise"))
    laplace = random.laplace(size=(100, 300)) / np.sqrt(2)
    assert all(fact.holds for fact in facts._noise(laplace, "noise", kurtosis=6.0))
    for wrong in (random.standard_normal((12, 3000)) * 1.05, random.standard_normal((1, 3000)).repeat(12, axis=0)):
        assert not all(fact.holds for fact in facts._noise(wrong, "noise"))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dp-gnn r=1", lambda step: vars(step.noise).update(std=step.noise.std / 1.3)),
        ("dp-mlp", lambda step: vars(step.terms[-1].draws).update(sampler=PoissonSampler(40, 0.5))),
        ("dp-lots published", lambda step: vars(step).update(clip_norm=2 * step.clip_norm)),
    ],
)
def test_the_check_after_a_run_sees_prepared_steps_that_were_changed(name: str, change) -> None:  # type: ignore[no-untyped-def]
    """Two lines of defence: the comparison of what ran with what was accounted for, and the audits."""
    kind, settings = KINDS[name], Settings(noise=0.005, steps=4)
    prepared = prepared_steps(kind, settings, probes.probe_graph(kind, 40))
    change(prepared[0])
    probes.observe(prepared, kind, settings)
    with pytest.raises(NotAsAccounted):
        prepared[0].check()


def test_what_is_unread_is_changed() -> None:
    """Every change of inputs changes something, and leaves the records of training nodes alone where it states that."""
    graph = inputs._graph(0, apart=False)
    training, random = graph.train_nodes, np.random.default_rng(0)
    for kind in KINDS.values():
        for change in inputs.unread(kind).values():
            other = change(graph, random)
            same = [np.array_equal(getattr(graph, part), getattr(other, part)) for part in ("features", "labels")]
            assert not all(same) or not np.array_equal(graph.out_idx, other.out_idx)
            if kind.method != "dp-pure-noise":
                assert np.array_equal(graph.features[training], other.features[training])
                assert np.array_equal(graph.labels[training], other.labels[training])


def test_an_attack_that_lost_its_strength_is_no_pass() -> None:
    assert not reach.Reach(0.5, 1.0).holds
    assert not reach.Reach(1.01, 1.0).holds
    assert reach.Reach(1.0, 1.0).holds


def test_a_fact_that_is_no_number_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a NaN, `max` returned whatever stood before it."""
    monkeypatch.setattr(facts, "facts_of", lambda kind, size: [facts.Fact("a", 1.0), facts.Fact("b", np.nan)])
    result = facts.facts(200)
    assert not result.passed
    assert "b)" in result.finding
