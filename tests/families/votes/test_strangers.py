"""Votes under node-remove that are read over two hops: Theorem 16 by brute force, what is stated, what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpgraph.core.errors import UserError
from dpgraph.families.registry import spec
from dpgraph.families.votes.ballots import Ballots
from dpgraph.families.votes.mechanism import BucketReader, PoissonVotes
from dpgraph.families.votes.removed_mechanism import (
    BoundedStrangerVotes,
    CappedStrangerVotes,
    CappedVotes,
)
from dpgraph.families.votes.sensitivity import bounded_null_votes, vote_norm
from dpgraph.families.votes.strangers import BoundedStrangerBallots, CappedStrangerBallots
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.relation import PredictionInput
from dpgraph.reporting.guarantee import Promise, RunGuarantee
from dpgraph.reporting.ranking import implies, promise
from dpgraph.reporting.results import EntryResult

Lists = list[set[int]]
MECHANISM: dict[str, Any] = {
    "num_roots": 100, "num_protected": 200, "steps": 4, "delta": 1e-4, "noise_multiplier": 5.0, "sampling_rate": 1.0,
    "mean_ratio": 2.0, "votes_ratio": 1.5, "mass": 0.3, "inference": "its own record",
}  # fmt: skip
BOUNDED = {**MECHANISM, "degree_bound": 40, "taper": 1.0}
CAPPED = {**MECHANISM, "degree_bound": 199, "by_schema": False, "margin": 1.0, "degrees_ratio": 1.0, "degree_floor": 4}
CELL = {"variant": "node-remove-strangers", "degree_bound": 40, "taper": 1.0}
CELL_CAPPED = {"variant": "node-remove-capped-strangers", "degrees_share": 0.1, "cap_margin": 1.5, "degree_floor": 4}


def plain(lists: Lists, present: np.ndarray, floor: int = 1) -> Ballots:
    rows = [sorted(row) for row in lists]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Ballots.from_lists(ptr, np.array([one for row in rows for one in row], dtype=np.int64), present, floor)


def symmetric(edges: Any, size: int) -> Lists:
    lists: Lists = [set() for _ in range(size)]
    for one, other in edges:
        lists[one].add(other)
        lists[other].add(one)
    return lists


def without(lists: Lists, node: int) -> Lists:
    return [set() if one == node else row - {node} for one, row in enumerate(lists)]


def nulled(lists: Lists, node: int) -> Lists:
    return [set() if one == node else row for one, row in enumerate(lists)]


def bounded(lists: Lists, node: int | None, bound: int, taper: float, mass: float = 0.3) -> tuple[Any, np.ndarray]:
    """Ballots, and buckets of votes that all agree, in B: what moves has to add up."""
    present = np.arange(len(lists)) != (-1 if node is None else node)
    ballots = BoundedStrangerBallots.over(plain(lists, present), bound, taper)
    vote = np.array([0.5, -0.5, mass]) / vote_norm(num_classes=2, mass=mass)
    return ballots, ballots.buckets(vote * (present * ballots.weights)[:, None])


def reading(ballots: Any, size: int) -> np.ndarray:
    """(N, C) scores of a release that is made up, by records that are."""
    random = np.random.default_rng(5)
    released, chances = random.standard_normal((size, 3)), random.dirichlet(np.ones(2), size)
    cast = ballots.ballots(np.full(size, -1), chances, 0.3)
    return ballots.scores(chances, ballots.read(released, cast, 0.3, 0.7, 1.0), BucketReader(1.0, 2.0))


@pytest.mark.parametrize("taper", [0.0, 0.4, 1.0])
def test_every_node_of_every_graph_of_four_nodes_leaves(taper: float) -> None:
    """All 64 graphs: others' buckets move by at most B, attained without a taper; a stranger's list and reading stay.

    A neighbour's reading moves somewhere: without "strangers" the statement would be false.
    """
    size, most, heard = 4, 0.0, False
    pairs = list(itertools.combinations(range(size), 2))
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        lists = symmetric(itertools.compress(pairs, chosen), size)
        ballots, sums = bounded(lists, None, size - 1, taper)
        for node in range(size):
            rest, less = bounded(without(lists, node), node, size - 1, taper)
            others = np.arange(size) != node
            most = max(most, float(np.linalg.norm((sums - less)[others])))
            strangers = np.array([one != node and one not in lists[node] for one in range(size)])
            assert all(without(lists, node)[one] == lists[one] for one in np.flatnonzero(strangers))
            assert np.array_equal(reading(ballots, size)[strangers], reading(rest, size)[strangers])
            neighbours = sorted(lists[node])
            heard |= not np.array_equal(reading(ballots, size)[neighbours], reading(rest, size)[neighbours])
    assert (0.4 if taper else 0.999) < most <= 1 + 1e-9
    assert heard


@pytest.mark.parametrize("taper", [0.0, 0.2, 0.5, 1.0])
def test_a_record_that_becomes_null_moves_no_reading_of_others(taper: float) -> None:
    """Neighbours included; all buckets, its own too, move by at most the stated part of B, which stars nearly reach."""
    size, random, most = 24, np.random.default_rng(3), 0.0
    graphs = [symmetric(((0, other) for other in range(1, degree + 1)), size) for degree in range(1, size)]
    upper = np.triu(random.random((size, size)) < 0.3, 1)
    graphs.append(symmetric(np.argwhere(upper).tolist(), size))
    for lists in graphs:
        ballots, sums = bounded(lists, None, size - 1, taper)
        rest, less = bounded(nulled(lists, 0), 0, size - 1, taper)
        most = max(most, float(np.linalg.norm(sums - less)))
        assert np.array_equal(reading(ballots, size)[1:], reading(rest, size)[1:])
    assert 0.98 * bounded_null_votes(taper) < most <= bounded_null_votes(taper) + 1e-9


def test_the_part_of_a_null_record_is_the_largest_of_all_lengths() -> None:
    for taper in (0.0, 0.1, 1 / 3, 0.5, 1.0):
        share = np.linspace(0, 1, 100_001)
        assert bounded_null_votes(taper) == pytest.approx(float((share * (1 + taper - 2 * taper * share)).max()))
    assert bounded_null_votes(1.0) == 0.5


def test_a_node_that_has_no_list_and_leaves_moves_at_most_b() -> None:
    """A null record: others name it and have no vote of it; it takes their weights along."""
    size = 10
    lists = nulled(symmetric(((0, other) for other in range(1, size)), size), 0)
    ring = symmetric(((other, 1 + other % (size - 1)) for other in range(1, size)), size)
    lists = [row | more for row, more in zip(lists, ring, strict=True)]
    _, sums = bounded(lists, None, size - 1, 1.0)
    _, less = bounded(without(lists, 0), 0, size - 1, 1.0)
    assert 0 < np.linalg.norm((sums - less)[1:]) <= 1


def test_lists_that_break_the_schema_end_the_run() -> None:
    everybody = np.ones(6, dtype=bool)
    star = symmetric(((0, other) for other in range(1, 5)), 6)
    assert BoundedStrangerBallots.over(plain(star, everybody), 4, 1.0).degrees.tolist() == [4, 1, 1, 1, 1, 0]
    for over in (BoundedStrangerBallots.over, CappedStrangerBallots.one_way):
        third = 1.0 if over == BoundedStrangerBallots.over else everybody
        with pytest.raises(UserError, match="degree_bound=3: expected at least 4"):
            over(plain(star, everybody), 3, third)
        with pytest.raises(UserError, match="degree_bound=3: expected at least 4"):  # lists that name one node
            over(plain(nulled(star, 0), everybody), 3, third)
    one_way = [{1}, {2}, {1}, set(), set(), set()]  # 1 has a list, and 0 is not in it
    with pytest.raises(UserError, match="expected every edge in both ends' lists"):
        BoundedStrangerBallots.over(plain(one_way, everybody), 3, 0.5)
    assert BoundedStrangerBallots.over(plain(one_way, everybody), 3, 0.0).degrees.tolist() == [1, 1, 1, 0, 0, 0]


def test_where_weights_are_alike_lists_need_not_be_mutual() -> None:
    """All 64 directed graphs of three nodes, kappa = 0: removal and null."""
    pairs = [(one, other) for one in range(3) for other in range(3) if one != other]
    most = 0.0
    for chosen in itertools.product((False, True), repeat=6):
        lists: Lists = [set() for _ in range(3)]
        for one, other in itertools.compress(pairs, chosen):
            lists[one].add(other)
        ballots, sums = bounded(lists, None, 2, 0.0)
        for node in range(3):
            others = np.arange(3) != node
            rest, less = bounded(nulled(lists, node), node, 2, 0.0)
            most = max(most, float(np.linalg.norm(sums - less)))
            assert np.array_equal(reading(ballots, 3)[others], reading(rest, 3)[others])
            rest, less = bounded(without(lists, node), node, 2, 0.0)
            most = max(most, float(np.linalg.norm((sums - less)[others])))
            strangers = np.array([one != node and node not in lists[one] for one in range(3)])
            assert np.array_equal(reading(ballots, 3)[strangers], reading(rest, 3)[strangers])
    assert 0.999 < most <= 1 + 1e-9


def test_what_is_read_is_what_the_page_says() -> None:
    """Node by node: own bucket and those of the list, each by its trust, less the own share where it voted."""
    lists = symmetric([(0, 1), (1, 2), (2, 3), (1, 3)], 5)
    ballots, _ = bounded(lists, None, 4, 1.0)
    random = np.random.default_rng(1)
    released, chances = random.standard_normal((5, 3)), random.dirichlet(np.ones(2), 5)
    cast = ballots.ballots(np.full(5, -1), chances, 0.3)
    read = ballots.read(released, cast, 0.3, 0.7, 1.5)
    scores = ballots.scores(chances, read, BucketReader(1.5, 2.0))
    for node in range(5):
        total = np.zeros(2)
        for bucket in lists[node] | {node}:
            mass = max(released[bucket, 2] / 0.3, 1 / math.sqrt(4))
            own = cast[node, :2] if bucket != node else 0.0
            total += mass / (mass**2 + (1.5 * 0.7) ** 2) * (released[bucket, :2] - own)
        assert read[node] == pytest.approx(total)
        assert scores[node] == pytest.approx(np.log(chances[node] + 1e-3) + 2 * total / math.sqrt(len(lists[node]) + 1))


@pytest.mark.parametrize("margin", [0.0, 1.5])
def test_with_caps_directed_lists_move_what_theorem_r_says(margin: float) -> None:
    """Removal of voters and receivers on directed graphs, given noisy numbers; and null, which moves no reading."""
    random, std, size = np.random.default_rng(3), 2.0, 14
    voters = np.arange(size) % 3 > 0
    vote = np.array([0.5, -0.5, 0.3]) / vote_norm(num_classes=2, mass=0.3)
    most = {True: 0.0, False: 0.0}
    for floor, share in itertools.product((1, 4), (0.15, 0.4, 0.9)):
        lists = [
            set(np.flatnonzero(row).tolist()) - {one} for one, row in enumerate(random.random((size, size)) < share)
        ]

        def made(some: Lists, floor: int = floor) -> CappedStrangerBallots:
            return CappedStrangerBallots.one_way(plain(some, np.ones(size, dtype=bool), floor), size - 1, voters)

        whole = made(lists)
        noisy = whole.degrees + std * random.standard_normal(size)
        caps = whole.capped(noisy, margin, std)
        for node, leaves in itertools.product(range(size), (True, False)):
            less = made(without(lists, node) if leaves else nulled(lists, node))
            others = np.arange(size) != node
            if voters[node] or not leaves:
                assert (less.degrees == whole.degrees)[others].all()
            if not voters[node]:  # its own count, too, while others name it
                assert (less.received == whole.received)[others | (not leaves)].all()
            fixed = less.capped(noisy, margin, std)
            shown = others if leaves else np.ones(size, dtype=bool)
            sums = [one.buckets(vote * (one.weights * keep)[:, None]) for one, keep in
                    zip((caps, fixed), (np.ones(size, dtype=bool), others), strict=True)]  # fmt: skip
            moved = float(np.linalg.norm((sums[0] - sums[1])[shown]))
            naming = [one for one in range(size) if voters[one] and node in lists[one]]
            over = int((whole.degrees > caps.caps)[naming].sum()) if leaves else 0
            assert moved <= (1 if voters[node] else over / (2 * floor)) + 1e-9
            most[bool(voters[node])] = max(most[bool(voters[node])], moved)
            seen = others if not leaves else np.array([one != node and node not in lists[one] for one in range(size)])
            assert np.array_equal(reading(caps, size)[seen], reading(fixed, size)[seen])
    assert min(most.values()) > 0.01


def test_voters_and_hubs_have_no_bucket_to_read() -> None:
    lists = symmetric([(0, 1), (0, 2), (0, 3), (1, 4), (0, 5)], 6)
    voters = np.array([False, True, True, True, False, False])
    ballots = CappedStrangerBallots.one_way(plain(lists, np.ones(6, dtype=bool), 4), 5, voters)
    assert ballots.received.tolist() == [3, 0, 0, 0, 1, 0]
    left = ballots.without_hubs(np.array([9.0, 0, 0, 0, 1, 0]), 5.0).capped(np.zeros(6), 0.0, 1.0)
    released = np.ones((6, 3))
    read = left.read(released, np.zeros((6, 3)), 0.3, 0.0, 0.0)
    trust = 0.3  # 1 / m of mass 1 / 0.3
    assert read[:, 0] == pytest.approx([trust, trust, 0, 0, trust, trust])  # of 5; of 4; the hub's; own; own
    scores = left.scores(np.full((6, 2), 0.5), read, BucketReader(1.0, 2.0))
    factors = (scores[:, 0] - math.log(0.5 + 1e-3)) / np.where(read[:, 0], read[:, 0], 1)
    assert factors == pytest.approx([2 / math.sqrt(2), 2 / math.sqrt(2), 0, 0, 2, 2])


def test_strangers_are_the_scope_and_everybody_has_node_null() -> None:
    """The same epsilon as of the joint variants; neighbours, too, are covered where only the record goes."""
    for kind, joint, settings in (
        (BoundedStrangerVotes, PoissonVotes(**MECHANISM, degree_floor=1), BOUNDED),
        (CappedStrangerVotes, CappedVotes(**CAPPED), CAPPED),
    ):
        found, other = kind(**settings), joint
        stated = found.rigorous()
        assert (stated.relation, stated.scope) == ("node-remove", "strangers")
        assert other.rigorous().scope == "joint"
        assert stated.epsilon == other.rigorous().epsilon
        assert any("all but the protected node and its neighbours" in text for text in stated.assumptions)
        assert {one.scope for one in found.beside()} == {"joint"}
        null = next(one for one in found.beside() if one.relation == "node-null")
        assert 0 < null.epsilon <= stated.epsilon
        raw = kind(**settings | {"inference": PredictionInput.RAW_GRAPH})
        assert raw.rigorous().scope == "parameters"
        with pytest.raises(UserError, match=r"choice_epsilon=0.3: expected 0: who leaves moves its neighbours"):
            kind(**settings, choice_epsilon=0.3, readers=7)
    mu = 4 / 5.0**2 + 1 / 10.0**2 + 0.5**2 / 7.5**2  # steps, mean, half of the votes
    null = next(one for one in BoundedStrangerVotes(**BOUNDED).beside() if one.relation == "node-null")
    assert null.epsilon == pytest.approx(gaussian_epsilon(mu=math.sqrt(mu), delta=1e-4))
    silent = BoundedStrangerVotes(**BOUNDED | {"votes_ratio": None})
    assert silent.beside()[1].epsilon == pytest.approx(silent.rigorous().epsilon)


@pytest.mark.parametrize("privacy", [CELL, CELL_CAPPED])
def test_a_choice_by_data_is_refused_in_one_line(privacy: dict[str, Any]) -> None:
    with pytest.raises(
        UserError, match=r"choice_epsilon=0.1: expected null for variant node-remove-.*strangers"
    ) as found:
        cell(privacy | {"choice_epsilon": 0.1})
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree_bound": None}, "degree_bound=None: expected a number for variant node-remove-strangers"),
        ({"taper": None}, "taper=None: expected a number for variant node-remove-strangers"),
        ({"one_hop": True}, "one_hop=True: expected False for variant node-remove-strangers"),
        ({"rounds": 2}, "rounds=2: expected 1 for variant node-remove-strangers"),
        ({"degree_floor": 2}, "degree_floor=2: expected none for variant node-remove-strangers"),
    ],
)
def test_settings_are_complete(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cell({**CELL, **change})


def cell(privacy: dict[str, Any]) -> Any:
    return resolve(
        {
            "task": {"dataset": "toy"}, "method": "dp-votes",
            "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
            "training": {"learning_rate": 0.1, "steps": 10, "sampling_rate": 1.0},
            "privacy": {"epsilon": 4.0, **privacy}, "seeds": [0],
        }
    )  # fmt: skip


def test_a_cell_has_its_epsilon_and_does_not_compete_with_scope_joint() -> None:
    """In a ranking of strangers the variant of scope joint competes, as the stronger one; not the other way round."""
    privacy = CELL_CAPPED
    outcomes = []
    for variant in (privacy["variant"], privacy["variant"].removesuffix("-strangers")):
        stated = calibrate(cell({**privacy, "variant": variant}), 700, num_protected=1000).statement.rigorous
        assert 3.99 < stated.epsilon <= 4.0
        outcomes.append(
            EntryResult("ok", "", pd.Series([0.5]), RunGuarantee(rigorous=Promise.recorded(stated), delta=stated.delta))
        )
    keys = [promise(one) for one in outcomes]
    assert keys[0][0] == keys[1][0]
    assert [key[1] for key in keys] == ["strangers", "joint"]
    assert implies(keys[1], keys[0])
    assert not implies(keys[0], keys[1])
    look = spec("dp-votes").look
    assert look(cell(privacy)) != look(cell({**privacy, "variant": privacy["variant"].removesuffix("-strangers")}))
