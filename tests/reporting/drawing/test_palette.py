"""Looks of one figure: distinct whatever its methods propose, and as they propose wherever nothing clashes."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.engine.methods.looks import ANY, COLOURS, DASH_DOT, DASHED, MARKERS, Look
from dpgraph.families.registry import spec
from dpgraph.reporting.drawing.palette import (
    APART,
    COLOURS_OF_CLASSES,
    MORE_COLOURS,
    allocate,
    dashed,
    distance,
    looks_of_classes,
    looks_of_methods,
)

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


def kind(marker: str) -> str:
    """Hexagons and circles are alike at the size of a figure, and so are both diamonds."""
    return "round" if marker in "o8hHp" and marker else "diamond" if marker in "Dd" and marker else marker


def alike(first: Look, second: Look) -> bool:
    """By colour, or without it."""
    return shape(first) == shape(second) or distance(first.colour, second.colour) < APART


def clash(first: Look, second: Look) -> bool:
    """What makes the later one of two give way."""
    return alike(first, second) or kind(first.marker) == kind(second.marker)


@given(FIGURE)
def test_no_two_look_alike_whatever_is_proposed(proposed):
    looks = allocate(proposed)
    assert list(looks) == list(proposed)
    assert not any(alike(first, second) for first, second in combinations(looks.values(), 2))


@given(FIGURE)
def test_what_clashes_with_nothing_before_it_is_kept(proposed):
    looks = list(allocate(proposed).values())
    for index, own in enumerate(proposed.values()):
        if own != ANY and not any(clash(own, other) for other in looks[:index]):
            assert looks[index] == own


@given(FIGURE)
def test_few_series_differ_in_the_shape_of_their_marks(proposed):
    looks = list(allocate(dict(list(proposed.items())[:8])).values())
    shapes = [kind(look.marker) for look in looks if look.marker]
    assert len(set(shapes)) == len(shapes)


@given(FIGURE)
def test_controls_stay_controls(proposed):
    for own, look in zip(proposed.values(), allocate(proposed).values(), strict=True):
        assert look.neutral == own.neutral
        assert look.marker == "" or own.marker != ""  # there are dashes enough


def test_more_series_than_colours_are_all_drawn():
    many = allocate(dict.fromkeys(range(60), ANY))
    first = list(many.values())[: len(COLOURS) + len(MORE_COLOURS) - 4]
    assert all(distance(a.colour, b.colour) >= APART for a, b in combinations(first, 2))
    assert len({shape(look) for look in many.values()}) > 55


def test_lines_without_marks_have_dashes_of_their_own():
    looks = dashed(dict.fromkeys(range(10), Look("#000000", "o", "-")))
    assert {look.marker for look in looks.values()} == {""}
    assert len({look.line for look in looks.values()}) == 10


def test_distance_of_colours():
    """Ottosson's Oklab: black and white are 1 apart, greys differ in lightness alone."""
    assert distance("#000000", "#ffffff") == pytest.approx(1.0, abs=1e-3)
    assert distance("#0072B2", "#0072B2") == 0
    assert distance("#ff0000", "#00ff00") > distance("#E69F00", "#D55E00") > APART
    assert all(distance(a, b) >= APART for a, b in combinations(COLOURS_OF_CLASSES, 2))
    assert len({look.colour for look in looks_of_classes(range(13)).values()}) == 13


def test_by_hand():
    circle = Look("#0072B2", "o", "-")
    assert allocate({}) == {}
    assert allocate({"a": circle}) == {"a": circle}
    assert allocate({"a": circle, "b": circle})["b"] == Look("#003f62", "s", "-")
    second = allocate({"a": circle, "b": dataclasses.replace(circle, line=DASHED)})["b"]
    assert (second.marker, second.line) == ("s", DASHED)
    assert second.colour == "#003f62"  # darker, of the same kind
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
