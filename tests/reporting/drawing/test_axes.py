"""Axes of epsilon, ticks whose labels do not touch, marks that are joined or not, and where a legend stands."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpgraph.engine.methods.looks import Look
from dpgraph.reporting.drawing import marks
from dpgraph.reporting.drawing.canvas import panels
from dpgraph.reporting.drawing.epsilon_axis import GAP, LETTER, WIDE, epsilon_axis, set_ticks
from dpgraph.reporting.drawing.legend import SHARE, Legend, Place, size
from dpgraph.reporting.quantities import quantity

LOOK = Look("#0072B2", "o", (0, (4, 1)))
SHOWN = quantity("accuracy/test")
TARGETS = st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0, 4.91, 8.0, 12.0, 15.0, 136.51, 900.0]), min_size=1, unique=True)


@pytest.fixture
def axes():
    return Figure(figsize=(3, 2)).subplots()


def labelled(axes):
    return dict(zip(axes.get_xticks(), (text.get_text() for text in axes.get_xticklabels())))


@given(TARGETS, st.floats(0.7, 1.5))
def test_every_epsilon_of_a_suite_is_a_tick(targets, factor):
    """Marked with or without a label; inside the limits, as is what was reached."""
    axes = Figure().subplots()
    reached = [target * factor for target in targets]
    epsilon_axis(axes, targets, reached, 2.5, 0.1)
    ticks = [*axes.get_xticks(), *axes.get_xticks(minor=True)]
    assert all(np.isclose(ticks, target).any() for target in targets)
    low, high = axes.get_xlim()
    assert all(low < value < high for value in (*targets, *reached))
    spread = max(*targets, *reached) / min(*targets, *reached)
    assert axes.get_xscale() == ("log" if spread > WIDE else "linear")
    assert max(targets) in axes.get_xticks()


def test_what_has_no_result_is_a_tick_as_well(axes):
    epsilon_axis(axes, [1, 4, 12], [3.99], 2.5, 0.1)
    assert labelled(axes) == {1.0: "1", 4.0: "4", 12.0: "12"}


def test_values_beyond_the_targets_have_round_numbers(axes):
    epsilon_axis(axes, [1, 4], [1.1, 4.2, 60.0], 2.5, 0.1)
    assert labelled(axes) == {1.0: "1", 4.0: "4", 10.0: "10", 20.0: "20", 50.0: "50"}


def test_targets_far_from_every_value_are_no_ticks(axes):
    epsilon_axis(axes, [1, 4], [300.0, 2000.0], 2.5, 0.1)
    assert list(labelled(axes).values()) == ["500", "1k", "2k"]


@pytest.mark.parametrize(("reached", "shown"), [
    ([3.5, 5.2, 6.7, 8.1, 12.0], ["4", "6", "8", "10", "12"]),
    ([2.4, 3.3, 8.2, 12.0], ["3", "5", "7", "10", "12"]),
    ([3.4, 6.2, 12.4, 20.0], ["5", "7", "10", "12", "20"]),
])  # fmt: skip
def test_values_along_training_have_ticks_between(axes, reached, shown):
    epsilon_axis(axes, [12.0], reached, 2.5, 0.1)
    assert list(labelled(axes).values()) == shown


def test_one_epsilon_has_a_place_of_its_own(axes):
    epsilon_axis(axes, [12.0], [11.9, 12.0], 2.5, 0.1)
    assert labelled(axes) == {12.0: "12"}


@given(
    st.dictionaries(st.integers(0, 400).map(lambda place: place / 100), st.text("0123456789", min_size=1, max_size=5))
)
def test_labels_never_touch(texts):
    axes = Figure().subplots()
    set_ticks(axes, texts, {value: value for value in texts})
    shown = sorted(axes.get_xticks())
    for left, right in pairwise(shown):
        assert right - left >= LETTER * (len(texts[left]) + len(texts[right])) / 2 + GAP - 1e-9
    assert sorted([*shown, *axes.get_xticks(minor=True)]) == sorted(texts)


def rows(count):
    means = np.arange(50.0, 50 + count)
    return pd.DataFrame({"mean": means, "ci_low": means - 1, "ci_high": means + 1})


@pytest.mark.parametrize(("count", "ordered", "joined"), [(2, True, False), (3, True, True), (5, False, False)])
def test_few_points_and_what_has_no_order_are_not_joined(axes, count, ordered, joined):
    marks.curve(axes, range(count), rows(count), LOOK, SHOWN, ordered=ordered)
    (line,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert (line.get_linestyle() != "None") == joined
    assert len(line.get_xdata()) == count  # each with its mark
    assert line.get_markevery() is None
    low, high = axes.get_ylim()
    assert low <= 49
    assert high >= 50 + count  # whiskers are inside


def test_marks_of_one_place_are_side_by_side(axes):
    axes.set_xlim(0, 2)
    for place in range(3):
        marks.curve(axes, [1.0], rows(1), LOOK, SHOWN, marks.Slot(place, 3, 0.5))
    at = sorted(line.get_transform().transform((1.0, 50.0))[0] for line in axes.lines if line.get_marker() == "o")
    assert np.diff(at) == pytest.approx(marks.STEP / 72 * axes.figure.dpi)
    assert sum(at) / 3 == pytest.approx(axes.transData.transform((1.0, 50.0))[0])


def handles(count, letters=20):
    return {f"{place} ".ljust(letters, "x"): Line2D([], []) for place in range(count)}


def test_a_legend_is_beside_one_panel_in_a_free_place_or_below():
    assert Legend.placed({}, 6.6, 2, 1, [2.4]).place is Place.NONE
    assert Legend.placed(handles(3), 6.6, 1, 1, [2.4]).place is Place.RIGHT
    assert Legend.placed(handles(3), 6.6, 2, 3, [2.4, 2.4]).place is Place.FREE
    assert Legend.placed(handles(3), 6.6, 2, 4, [2.4, 2.4]).place is Place.BELOW
    assert Legend.placed(handles(30), 6.6, 2, 3, [2.4, 2.4]).place is Place.BELOW
    assert Legend.placed(handles(3), 6.6, 1, 1, [2.4], below=True).place is Place.BELOW


@pytest.mark.parametrize("count", [2, 14, 40])
def test_panels_grow_until_a_legend_keeps_its_share(count):
    figure, grid, _ = panels([1, 1], handles(count, 40))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().height / figure.bbox.height <= SHARE + 0.01
    assert size(handles(count, 40), legend._ncols)[0] <= 6.6
    assert all(axes.get_position().height > 0.35 for (axes,) in grid)
