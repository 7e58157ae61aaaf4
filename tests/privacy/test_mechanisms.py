"""Mechanisms: what they state, what they refuse, what they cost."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from dpgraph.core.errors import UserError
from dpgraph.families.registry import specs
from dpgraph.families.trees.mechanism import FixedSizeStableTrees, PoissonTrees, RemovedRecords, ResidualTrees
from dpgraph.families.trees.published import FixedBatchTrees, PrintedRecords
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.renyi import theorem1_epsilon, theorem1_rdp
from dpgraph.privacy.guarantee import Guarantee, PrivacyStatement
from dpgraph.privacy.mechanisms.base import Mechanism, mechanism_from
from dpgraph.privacy.mechanisms.none import NonPrivate, NoRecord
from dpgraph.privacy.relation import PredictionInput, Relation, Scope

ARXIV: dict[str, Any] = {"num_roots": 90941, "delta": 1 / 909410}


def poisson_trees(**changes: Any) -> PoissonTrees:
    settings = {
        **ARXIV,
        "steps": 500,
        "noise_multiplier": 32.0,
        "sampling_rate": 10000 / 90941,
        "hops": 1,
        "max_degree": 7,
        "list_cap": 7,
    }
    return PoissonTrees(**{**settings, **changes})


def poisson_mlp(**changes: Any) -> PoissonTrees:
    return poisson_trees(**{"hops": 0, "max_degree": None, "list_cap": None, **changes})


def removed_records(**changes: Any) -> RemovedRecords:
    fields = {**dict(poisson_mlp()), "kind": "removed-records", "inference": PredictionInput.OWN_RECORD}
    return RemovedRecords(**{**fields, **changes})


def fixed_trees(**changes: Any) -> FixedBatchTrees:
    settings = {
        **ARXIV,
        "steps": 500,
        "noise_multiplier": 2.0,
        "batch_size": 10000,
        "hops": 1,
        "max_degree": 7,
        "groups": 3,
    }
    return FixedBatchTrees(**{**settings, **changes})


def printed_records(**changes: Any) -> PrintedRecords:
    fields = {**dict(fixed_trees(hops=0, max_degree=None, groups=2)), "kind": "printed-records"}
    return PrintedRecords(**{**fields, **changes})


def residual_trees(**changes: Any) -> ResidualTrees:
    settings = {
        **ARXIV,
        "steps": 100,
        "noise_multiplier": 2.6,
        "sampling_rate": 0.1,
        "neighbour_rate": 0.1,
        "neighbour_clip": 0.1,
        "hops": 1,
        "max_degree": 7,
        "list_cap": 7,
    }
    return ResidualTrees(**{**settings, **changes})


def fixed_stable(**changes: Any) -> FixedSizeStableTrees:
    settings = {
        **ARXIV,
        "steps": 500,
        "noise_multiplier": 2.0,
        "batch_size": 10000,
        "hops": 1,
        "max_degree": 7,
        "list_cap": 7,
    }
    return FixedSizeStableTrees(**{**settings, **changes})


@pytest.mark.parametrize(
    ("hops", "degree", "cap", "roots"),
    [(1, 7, 7, 15), (1, 7, 2, 10), (2, 3, 3, 25), (2, 1, 1, 5), (1, 1, 1, 3)],
)
def test_affected_roots(hops: int, degree: int, cap: int, roots: int) -> None:
    """N(K, r) + D N(K, r - 1), by hand: K = D = 3, r = 2: 13 + 3 * 4."""
    assert poisson_trees(hops=hops, max_degree=degree, list_cap=cap).affected_roots == roots


def test_no_more_roots_change_than_there_are() -> None:
    """All 20 roots may change; one more, so that the pair also covers a changed node that is no root."""
    assert (
        poisson_trees(num_roots=20, sampling_rate=0.5, delta=0.01, hops=2, max_degree=9, list_cap=9).affected_roots
        == 21
    )


def test_the_two_epsilons_of_the_rigorous_mechanism() -> None:
    """Reference: arxiv-like, R = 15, noise 32 C, T = 500, delta = 1/(10 N): 12.489 and, as lambda = 2, 10.134."""
    statement = poisson_trees().statement()
    assert statement.rigorous.epsilon == pytest.approx(12.48939, rel=5e-3)
    assert statement.published.epsilon == pytest.approx(10.13431, rel=1e-4)
    assert "batches: ran poisson, presumed fixed-size without replacement" in statement.published.unmet
    assert poisson_trees().shape.model_dump() == {
        "lists": "stable",
        "batches": "poisson",
        "clipped": "each root's gradient",
    }
    assert statement.noise_std_over_clip == 32.0


def test_the_published_mechanism_has_no_rigorous_epsilon() -> None:
    statement = fixed_trees().statement()
    assert statement.published.epsilon == pytest.approx(10.13431, rel=1e-4)
    assert statement.rigorous.epsilon is None
    reason = statement.rigorous.reason or ""
    assert all(word in reason for word in ("Lemma 2", "percentiles", "sqrt(3)"))
    assert statement.noise_std_over_clip == 2 * 8 * 2.0
    assert not statement.published.unmet


def test_a_single_group_has_nothing_to_reproach_for_groups() -> None:
    assert "sqrt" not in (fixed_trees(groups=1).rigorous().reason or "")


def test_dp_mlp_as_published_and_as_proved() -> None:
    published = fixed_trees(hops=0, max_degree=None, groups=2)
    assert published.noise_std_over_clip == 2.0
    assert "Poisson" in (published.rigorous().reason or "")
    assert "Lemma 2" not in (published.rigorous().reason or "")
    proved = poisson_mlp(noise_multiplier=2.0)
    assert proved.affected_roots == 1
    assert proved.shape.lists == "own record"
    rdp, tight = published.published().epsilon, proved.rigorous().epsilon
    assert rdp is not None
    assert tight is not None
    assert 0.85 * rdp < tight < rdp  # same formula's mechanism, tighter accountant
    assert proved.published().epsilon == pytest.approx(rdp, rel=1e-9)


def test_a_prefix_costs_less_and_nothing_is_spent_before_the_first_step() -> None:
    mechanism = poisson_trees(steps=100)
    nothing, some, everything = (mechanism.at_step(t) for t in (0, 40, 100))
    assert nothing.rigorous.epsilon == nothing.published.epsilon == 0
    assert 0 < some.rigorous.epsilon < everything.rigorous.epsilon  # type: ignore[operator]
    assert some.steps == 40
    assert everything == mechanism.statement()
    assert fixed_trees().at_step(0).rigorous.epsilon is None


def test_non_private() -> None:
    statement = NonPrivate(steps=10).statement()
    assert statement.rigorous.epsilon == statement.published.epsilon == math.inf
    assert statement.noise_std_over_clip is None


@pytest.mark.parametrize(
    "mechanism",
    [poisson_trees(), poisson_mlp(), residual_trees(), fixed_stable(), fixed_trees(), NonPrivate(steps=4)],
    ids=lambda mechanism: mechanism.kind,
)
def test_json_round_trips(mechanism: Mechanism) -> None:
    assert mechanism_from(type(mechanism), json.loads(mechanism.model_dump_json())) == mechanism
    statement = mechanism.statement()
    strict = json.dumps(statement.model_dump(mode="json"), allow_nan=False)
    assert PrivacyStatement.model_validate(json.loads(strict)) == statement
    assert mechanism_from(type(mechanism), statement.mechanism) == mechanism


@pytest.mark.parametrize(
    ("make", "changes", "line"),
    [
        (poisson_trees, {"sampling_rate": 1.2}, r"^sampling_rate=1\.2: expected a number in \(0, 1\]$"),
        (poisson_trees, {"max_degree": 0}, "^max_degree=0: expected an integer >= 1"),
        (poisson_trees, {"list_cap": 0}, "^list_cap=0: expected an integer >= 1"),
        (poisson_trees, {"list_cap": None}, "^list_cap=None: expected an integer >= 1"),
        (poisson_trees, {"hops": -1}, "^hops=-1: expected"),
        (poisson_trees, {"steps": 0}, r"^steps=0: expected an integer from 1 to 1e\+06$"),
        (poisson_trees, {"noise_multiplier": 0.0}, "^noise_multiplier=0.0: expected a number from 1e-06"),
        (poisson_trees, {"noise_multiplier": math.inf}, "^noise_multiplier=inf"),
        (poisson_trees, {"delta": 1 / 90941}, r"^delta=.*: expected a number < 1 / num_roots = 1\.1e-05$"),
        (poisson_trees, {"num_roots": 0}, "^num_roots=0: expected an integer >= 1$"),
        (poisson_mlp, {"max_degree": 3}, "^max_degree=3: expected .* left out without hops$"),
        (residual_trees, {"sampling_rate": 0.0}, r"^sampling_rate=0\.0: expected a number in \(0, 1\]$"),
        (residual_trees, {"neighbour_rate": 1.5}, r"^neighbour_rate=1\.5: expected a number in \(0, 1\]$"),
        (residual_trees, {"neighbour_clip": -0.1}, r"^neighbour_clip=-0\.1: expected a finite number >= 0$"),
        (residual_trees, {"neighbour_clip": math.nan}, r"^neighbour_clip=nan: expected a finite number >= 0$"),
        (
            residual_trees,
            {"hops": 0, "max_degree": None, "list_cap": None},
            "^hops=0: expected an integer >= 1$",
        ),
        (residual_trees, {"delta": 1e-4}, "^delta=0.0001: expected a number < 1 / num_roots"),
        (fixed_stable, {"batch_size": 0}, "^batch_size=0: expected an integer from 1 to num_roots = 90941$"),
        (fixed_stable, {"list_cap": None}, "^list_cap=None: expected an integer >= 1"),
        (fixed_stable, {"delta": 1e-4}, "^delta=0.0001: expected a number < 1 / num_roots"),
        (fixed_trees, {"batch_size": 90942}, "^batch_size=90942: expected an integer from 1 to num_roots = 90941$"),
        (fixed_trees, {"groups": 0}, "^groups=0: expected"),
        (fixed_trees, {"delta": 0.0}, r"^delta=0.0: expected a number in \(0, 1\)$"),
    ],
)
def test_refused_in_one_line(make: Any, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "line"),
    [
        (PoissonTrees, {"kind": "poisson-forest"}, "kind=poisson-forest: expected 'poisson-trees'"),
        (PoissonTrees, residual_trees().model_dump(), "kind=residual-trees: expected 'poisson-trees'"),
        (NonPrivate, NoRecord(steps=3).model_dump(), "kind=no-record: expected 'non-private'"),
        (NonPrivate, {"kind": "non-private", "steps": 3, "epsilon": 1}, "epsilon=1: unknown key"),
        (PoissonTrees, {**poisson_trees().model_dump(), "sampler": "algorithm-1"}, "sampler=algorithm-1: unknown key"),
        (PoissonTrees, {**poisson_trees().model_dump(), "steps": 10**5000}, "steps=an integer of 16610 bits: expected"),
        (PoissonTrees, {"kind": "x" * 5000}, r"kind=x+\.\.\.: expected 'poisson-trees'"),
        (PoissonTrees, {**poisson_trees().model_dump(), "delta": 2.0}, r"delta=2.0: expected a number in \(0, 1\)"),
        (PoissonTrees, {}, "steps: missing"),
        (PoissonTrees, None, "mechanism: expected a mapping"),
        (PoissonTrees, [], "mechanism: expected a mapping"),
    ],
)
def test_another_kind_or_an_unknown_key_is_refused_in_one_line(kind: type[Mechanism], value: Any, line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        mechanism_from(kind, value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_each_kind_has_its_own_name() -> None:
    """It tells the classes apart in files and in the questions of the cache."""
    classes = {variant.mechanism for spec in specs().values() for variant in spec.variants.values()}
    kinds = [kind.model_fields["kind"].default for kind in (*classes, NonPrivate, NoRecord)]
    assert len(set(kinds)) == len(kinds)


def test_what_names_are_made_of_is_what_differs_from_the_defaults() -> None:
    mechanism = poisson_mlp()
    assert mechanism.chosen["kind"] == "poisson-trees"
    assert not {"num_protected", "inference"} & set(mechanism.chosen)
    assert mechanism_from(PoissonTrees, mechanism.chosen) == mechanism
    assert poisson_mlp(num_protected=10**5).chosen == {**mechanism.chosen, "num_protected": 10**5}
    assert NonPrivate(steps=3).chosen != NoRecord(steps=3).chosen


def test_open_quantities_must_be_closed_first() -> None:
    for mechanism in (poisson_trees(noise_multiplier=None), fixed_trees(steps=None)):
        with pytest.raises(UserError, match="calibrate the mechanism first"):
            mechanism.statement()


def test_a_missing_epsilon_needs_a_reason() -> None:
    with pytest.raises(ValidationError, match="reason"):
        Guarantee(mode="rigorous", accountant="-", sampling="-", epsilon=None)
    for epsilon, relation, scope in ((1.0, "none", "parameters"), (1.0, "edge", "none"), (None, "edge", "parameters")):
        reason = None if epsilon else "why"
        with pytest.raises(ValueError, match=r"expected none exactly where nothing is guaranteed"):
            Guarantee(
                mode="rigorous", accountant="-", relation=relation, scope=scope, sampling="-", epsilon=epsilon,
                reason=reason,
            )  # fmt: skip


def test_theorem_1_is_read_at_the_same_noise() -> None:
    """std = 2 C N(K, r) lambda, whatever the list cap."""
    mechanism = poisson_trees(max_degree=3, list_cap=9, noise_multiplier=24.0)
    expected = theorem1_epsilon(
        num_roots=90941, batch_size=10000, affected_roots=4, noise_multiplier=24.0 / 8, steps=500, delta=1 / 909410
    )
    assert mechanism.published().epsilon == pytest.approx(expected)


def test_residual_clipping_states_both_batches_and_has_no_published_epsilon() -> None:
    """Reference R302: 7.98214 by an independent Fourier accountant."""
    statement = residual_trees(neighbour_rate=0.1).statement()
    assert statement.rigorous.epsilon == pytest.approx(7.98214, rel=3e-3)
    assert statement.rigorous.sampling.startswith("two independent Poisson batches, rates 0.1 (self terms) and 0.1")
    assert any("own record only" in text for text in statement.rigorous.assumptions)
    assert any("at most 15 roots" in text for text in statement.rigorous.assumptions)
    assert (statement.published.epsilon, statement.published.reason) == (None, "no paper has published this mechanism")
    assert statement.noise_std_over_clip == 2.6
    assert residual_trees().at_step(0).rigorous.epsilon == 0
    assert residual_trees().at_step(0).published.epsilon is None


def test_residual_clipping_without_neighbours_is_dp_mlp_exactly() -> None:
    nothing = residual_trees(neighbour_clip=0.0)
    mlp = poisson_mlp(steps=100, noise_multiplier=2.6, sampling_rate=0.1)
    assert nothing.dominating_pair == mlp.dominating_pair
    assert nothing.rigorous().epsilon == mlp.rigorous().epsilon
    assert [term.loss for term in nothing.procedure((1.0,)).terms] == ["loss of a root alone"]


@pytest.mark.parametrize("neighbour_rate", [0.02, 0.1, 0.5])
def test_neighbours_cost_more_the_more_they_may_add(neighbour_rate: float) -> None:
    epsilons = [
        residual_trees(neighbour_clip=clip, neighbour_rate=neighbour_rate).rigorous().epsilon
        for clip in (0.0, 0.05, 0.2, 1.0)
    ]
    assert epsilons == sorted(epsilons)  # type: ignore[type-var]
    assert len(set(epsilons)) == 4


@pytest.mark.parametrize("hops", [1, 2])
def test_a_large_neighbour_clip_dwarfs_the_self_term(hops: int) -> None:
    """C_s -> 0: the double mixture of DP-GNN, with noise in units of C_n."""
    few = {"hops": hops, "max_degree": 2, "list_cap": 2}
    residual = residual_trees(neighbour_clip=1e7, noise_multiplier=20e7, **few)
    gnn = poisson_trees(steps=100, noise_multiplier=20.0, sampling_rate=0.1, **few)
    assert residual.affected_roots == gnn.affected_roots
    assert residual.rigorous().epsilon == pytest.approx(gnn.rigorous().epsilon, rel=1e-3)


def test_rates_are_scaled_together() -> None:
    assert poisson_trees().with_rate(0.5).sampling_rate == 0.5
    faster = residual_trees(neighbour_rate=0.2).with_rate(0.3)
    assert (faster.sampling_rate, faster.neighbour_rate) == (0.3, pytest.approx(0.6))
    assert residual_trees(neighbour_rate=0.2).with_rate(0.9).neighbour_rate == 1.0
    with pytest.raises(UserError, match="fixed size"):
        fixed_stable().with_rate(0.1)


@pytest.mark.parametrize(("noise", "expected"), [(16, 43.4), (32, 17.0), (64, 7.23)])
def test_fixed_size_batches_with_a_proof(noise: float, expected: float) -> None:
    """R = 15, N = 90941, m = 10000, T = 500, delta = 1/N, noise std / C; real orders are a little lower."""
    mechanism = fixed_stable(noise_multiplier=noise / 30, delta=1 / 90941 * (1 - 1e-9))
    assert mechanism.noise_std_over_clip == pytest.approx(noise)
    assert mechanism.rigorous().epsilon == pytest.approx(expected, rel=3e-3)
    poisson = poisson_trees(noise_multiplier=float(noise), delta=mechanism.delta)
    assert poisson.rigorous().epsilon < mechanism.rigorous().epsilon  # type: ignore[operator]


def test_all_real_orders_are_at_least_as_good_as_any_list() -> None:
    mechanism = fixed_stable()
    wide = tuple(1 + order / 20 for order in range(1, 4000))
    best = theorem1_epsilon(
        num_roots=90941,
        batch_size=10000,
        affected_roots=15,
        noise_multiplier=2.0,
        steps=500,
        delta=1 / 909410,
        orders=wide,
    )
    assert mechanism.rigorous().epsilon == pytest.approx(best, rel=1e-4)
    assert mechanism.rigorous().epsilon <= theorem1_epsilon(
        num_roots=90941, batch_size=10000, affected_roots=15, noise_multiplier=2.0, steps=500, delta=1 / 909410
    )  # type: ignore[operator]
    quiet = fixed_stable(noise_multiplier=200.0)  # the released orders have a floor of 1.18
    assert (
        quiet.rigorous().epsilon
        < 0.2
        < 1.1
        < theorem1_epsilon(
            num_roots=90941, batch_size=10000, affected_roots=15, noise_multiplier=200.0, steps=500, delta=1 / 909410
        )
    )  # type: ignore[operator]


def test_a_fixed_size_run_without_hops_moves_by_its_clip_norm() -> None:
    """Full batches: the Gaussian mechanism of sensitivity C, noise 2 C lambda; null is a zero, so not 2C."""
    mlp = fixed_stable(hops=0, max_degree=None, list_cap=None, num_roots=100, batch_size=100, steps=1, delta=1e-3)
    assert mlp.affected_roots == 1
    assert mlp.noise_std_over_clip == 4.0
    exact = gaussian_epsilon(mu=1 / 4.0, delta=1e-3)
    assert exact < mlp.rigorous().epsilon < 1.2 * exact  # type: ignore[operator]
    assert mlp.shape.lists == "own record"


def test_the_fixed_size_statement_names_both_readings_of_theorem_1() -> None:
    statement = fixed_stable().statement()
    assert statement.published.unmet[0] == "lists: ran stable, presumed algorithm-1"
    assert statement.published.epsilon == pytest.approx(
        theorem1_epsilon(
            num_roots=90941,
            batch_size=10000,
            affected_roots=8,
            noise_multiplier=2.0 * 15 / 8,
            steps=500,
            delta=1 / 909410,
        )
    )
    assert statement.rigorous.epsilon is not None
    assert "without replacement" in statement.rigorous.sampling


def brute_force_rdp(num_roots: int, affected: int, batch: int, noise: float, order: float) -> float:
    """All batches listed: ln of the mean of exp(alpha (alpha - 1) (2 drawn)^2 / (2 std^2)) / (alpha - 1), C = 1."""
    sums = [
        math.exp(order * (order - 1) * (2 * sum(root < affected for root in drawn)) ** 2 / (2 * noise**2))
        for drawn in itertools.combinations(range(num_roots), batch)
    ]
    return math.log(sum(sums) / len(sums)) / (order - 1)


@pytest.mark.parametrize(("batch", "degree", "cap"), [(3, 1, 1), (5, 2, 1), (8, 3, 4)])
def test_theorem_1_against_all_batches(batch: int, degree: int, cap: int) -> None:
    """Eight roots; with K = 3, D = 4 all of them may change."""
    mechanism = fixed_stable(
        num_roots=8, batch_size=batch, max_degree=degree, list_cap=cap, noise_multiplier=1.3, delta=0.01
    )
    std = mechanism.noise_std_over_clip or 0.0
    affected = min(mechanism.affected_roots, 8)
    for order in (1.7, 4.0):
        expected = brute_force_rdp(8, affected, batch, std, order)
        rdp = theorem1_rdp(
            num_roots=8,
            batch_size=batch,
            affected_roots=mechanism.affected_roots,
            noise_multiplier=mechanism.proved_multiplier,
            orders=(order,),
        )[0]
        assert rdp == pytest.approx(expected, rel=1e-9)


def test_an_epsilon_of_zero_says_what_it_means() -> None:
    loud = fixed_trees(noise_multiplier=1e7).published()
    assert loud.epsilon == 0
    assert any(text.startswith("epsilon 0: delta alone") for text in loud.assumptions)
    assert not any(text.startswith("epsilon 0") for text in fixed_trees().published().assumptions)


def test_own_records_cost_the_same_when_a_node_leaves_with_its_edges() -> None:
    """No edge is read: the pair is that of a null record, the Poisson-subsampled Gaussian, under either relation."""
    removed = removed_records()
    stated, nulled = removed.statement(), poisson_mlp(inference=PredictionInput.OWN_RECORD).rigorous()
    assert stated.rigorous.relation is Relation.NODE_REMOVE
    assert stated.rigorous.scope is nulled.scope is Scope.JOINT
    assert stated.rigorous.epsilon == nulled.epsilon
    (beside,) = stated.beside
    assert (beside.relation, beside.epsilon) == (Relation.NODE_NULL, nulled.epsilon)
    assert removed.with_rate(0.5).kind == removed.kind
    assert mechanism_from(RemovedRecords, removed.model_dump()) == removed
    assert removed.procedure((1.0,)).relation is Relation.NODE_REMOVE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hops": 1, "max_degree": 7, "list_cap": 7}, "hops=1: expected 0: with hops an edge is read"),
        ({"inference": PredictionInput.RAW_GRAPH}, "inference=the raw graph: expected its own record or no record"),
        ({"delta": 0.1}, "delta=0.1: expected a number < 1 / num_roots"),
    ],
)
def test_whoever_reads_an_edge_has_no_such_statement(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        removed_records(**changes)


def test_dp_mlp_has_two_readings_of_its_noise() -> None:
    """The text's lambda = sigma / (2 C N(K, 0)), N(K, 0) = 1, with Theorem 1; the released code's sigma = lambda C."""
    text, code = printed_records(noise_multiplier=1.0), fixed_trees(noise_multiplier=1.0, hops=0, max_degree=None)
    assert (text.noise_std_over_clip, code.noise_std_over_clip) == (2.0, 1.0)
    rate, steps, epsilons = 10000 / 90941, 12, []
    for order in [tenth / 10 for tenth in range(11, 100)]:  # of a root that is drawn with probability m / N
        step = math.log1p(rate * math.expm1(order * (order - 1) / 2)) / (order - 1)
        tail = math.log1p(-1 / order) - math.log(ARXIV["delta"] * order) / (order - 1)
        epsilons.append(steps * step + tail)
    published = text.with_steps(steps).published()
    assert published.epsilon == pytest.approx(min(epsilons), rel=1e-9)
    assert published.epsilon < 12 < (text.with_steps(steps + 1).published().epsilon or 0)
    assert published.unmet == ()
    assert code.published().unmet != ()  # a Poisson formula for batches of fixed size
    assert text.rigorous().epsilon is None
    assert "percentiles" in text.rigorous().reason
    assert "Poisson" not in text.rigorous().reason


def test_the_noise_of_the_text_is_of_records_alone() -> None:
    with pytest.raises(UserError, match=r"^hops=1: expected 0: records are read without their neighbours"):
        printed_records(hops=1, max_degree=7)
