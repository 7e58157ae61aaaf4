"""Looks of one figure: distinct whatever its methods propose, and as they propose wherever nothing clashes."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.methods.looks import ANY, COLOURS, DASH_DOT, DASHED, MARKERS, Look
from dpgraph.methods.registry import spec
from dpgraph.reporting.drawing.palette import allocate, looks_of_methods

GREY = Look("#A0A0A0", "", (0, (1, 2)), neutral=True)
LOOKS = st.one_of(
    st.just(ANY),
    st.just(GREY),
    st.builds(
        Look,
        st.sampled_from((*COLOURS, "#123456")),
        st.sampled_from((*MARKERS, "1", "")),
        st.sampled_from(("-", DASHED, DASH_DOT)),
    ),
)
FIGURE = st.lists(LOOKS, max_size=len(COLOURS)).map(lambda looks: dict(enumerate(looks)))


def shape(look: Look) -> tuple[str, object]:
    return look.marker, look.line


def alike(first: Look, second: Look) -> bool:
    """Without a marker the line tells them apart."""
    same_marks = first.marker != "" and (first.colour, first.marker) == (second.colour, second.marker)
    return shape(first) == shape(second) or same_marks


@given(FIGURE)
def test_no_two_look_alike_whatever_is_proposed(proposed):
    looks = allocate(proposed)
    assert list(looks) == list(proposed)
    assert not any(alike(first, second) for first, second in combinations(looks.values(), 2))


@given(FIGURE)
def test_what_clashes_with_nothing_before_it_is_kept(proposed):
    looks = list(allocate(proposed).values())
    for index, own in enumerate(proposed.values()):
        if not any(alike(own, other) for other in looks[:index]):
            assert looks[index] == own


@given(FIGURE)
def test_proposals_without_a_clash_are_all_kept(proposed):
    distinct: dict[int, Look] = {}
    for key, own in proposed.items():
        if not any(alike(own, other) for other in distinct.values()):
            distinct[key] = own
    assert allocate(distinct) == distinct


@given(FIGURE)
def test_a_clash_costs_the_marker_only(proposed):
    """Line, neutrality and what a method proposes for its colour stay."""
    for own, look in zip(proposed.values(), allocate(proposed).values(), strict=True):
        assert dataclasses.replace(look, marker=own.marker, colour=own.colour) == own
        if own != ANY:
            assert look.colour == own.colour


@given(FIGURE, st.integers(2, 4))
def test_methods_that_propose_nothing_differ_in_colour_and_marker(proposed, more):
    looks = allocate({**dict(list(proposed.items())[: len(COLOURS) - more - 1]), **dict.fromkeys("abcd"[:more], ANY)})
    for first, second in combinations([looks[name] for name in "abcd"[:more]], 2):
        assert first.colour != second.colour
        assert first.marker != second.marker


@pytest.mark.parametrize("own", [ANY, Look("#0072B2", "o", DASHED)])
def test_more_methods_than_markers_are_all_drawn(own):
    """Where no marker is left for a line there are other lines; where nothing is left two look alike, as proposed."""
    looks = list(allocate(dict.fromkeys(range(len(MARKERS) + 3), own)).values())
    assert len({(look.marker, look.line) for look in looks}) == len(looks)
    assert {look.line for look in looks[: len(MARKERS)]} == {own.line}
    assert {look.line for look in looks[len(MARKERS) :]}.isdisjoint({own.line})
    many = list(allocate(dict.fromkeys(range(500), own)).values())
    assert many[-1] == own


def test_a_colour_is_used_again_where_all_are_taken():
    every = {colour: Look(colour, "d", (0, (index + 1, 1))) for index, colour in enumerate(COLOURS)}
    last = allocate({**every, "last": ANY})["last"]
    assert not any(alike(last, other) for other in every.values())
    assert last.colour in COLOURS


def test_by_hand():
    circle = Look("#0072B2", "o", "-")
    assert allocate({}) == {}
    assert allocate({"a": circle}) == {"a": circle}
    assert allocate({"a": circle, "b": circle})["b"] == Look("#0072B2", "s", "-")
    # another line is no difference at one colour and marker: marks stand without lines in some figures
    assert allocate({"a": circle, "b": dataclasses.replace(circle, line=DASHED)})["b"].marker == "s"
    assert allocate({"a": GREY, "b": dataclasses.replace(GREY, line="-")})["b"].marker == ""


def test_a_method_has_the_look_of_most_of_its_values(splits_plan):
    entries = splits_plan.entries_of("igamberdiev/fig4")
    looks = looks_of_methods(entries)
    assert list(looks) == ["dp-sgd", "fresh", "noise"]
    dp = [entry for entry in entries if entry.method_id == "dp-sgd"]
    other = next(entry.cell for entry in entries if entry.method_id == "fresh")
    odd = dataclasses.replace(dp[0], cell=other)
    assert spec(other.method).look(other) != looks["dp-sgd"]
    assert looks_of_methods([odd, *dp[1:]]) == {"dp-sgd": looks["dp-sgd"]}
    assert looks_of_methods([odd, odd, dp[0]]) == {"dp-sgd": looks["fresh"]}


@pytest.mark.parametrize("name", ["daigavane/fig2"])
def test_every_method_of_a_figure_has_a_look(plan, name):
    entries = plan.entries_of(name)
    assert set(looks_of_methods(entries)) == {entry.method_id for entry in entries}
