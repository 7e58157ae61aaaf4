"""Rules that every figure keeps, measured by the renderer: shares of the height, what touches, what looks alike."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from dpgraph.reporting import figures as audit_figures
from dpgraph.reporting.drawing import canvas, legend
from dpgraph.reporting.drawing.palette import APART, distance
from dpgraph.reporting.figures import write_figure

AXES = 0.5  # share of the height that panels take at least, with the labels of their axes between them
PROSE = 60  # characters of a text that is no label
COUNTS = np.array([90, 50, 30, 20, 10, 5])
FIGURES = [
    ("plan", "daigavane/fig2"),
    ("plan", "daigavane/fig3b"),
    ("plan", "zhang/fig5.4"),
    ("plan", "igamberdiev/fig2"),
    ("views_plan", "daigavane/fig2"),
    ("views_plan", "daigavane/fig4"),
    ("views_plan", "daigavane/batches"),
    ("splits_plan", "igamberdiev/fig1"),
    ("splits_plan", "igamberdiev/fig2"),
    ("splits_plan", "igamberdiev/fig4"),
]


@pytest.fixture(scope="module")
def drawn(request, rows_of, as_frame, tmp_path_factory):
    """A function of a plan's name and an artefact: the laid out figure, drawn from made-up results, and its caption."""
    made: dict[tuple[str, str], tuple[Figure, list[str]]] = {}
    folder = tmp_path_factory.mktemp("rules")

    def draw(plan_name: str, artefact: str) -> tuple[Figure, list[str]]:
        if (plan_name, artefact) in made:
            return made[plan_name, artefact]
        plan, seen = request.getfixturevalue(plan_name), []
        metric = plan.artefacts[artefact].metric
        entries = plan.entries_of(artefact)
        rows = [
            row
            for entry in entries
            for row in rows_of(entry, **({} if metric == "accuracy/test" else {"metric": metric}))
        ]
        rows += [
            row | {"metric": "class_accuracy/test", "class_id": place, "value": row["value"] - 0.1 * place}
            for row in rows
            if plan.artefacts[artefact].view == "class-wise" and row["final"] and row["metric"] == metric
            for place in range(len(COUNTS))
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(canvas, "save_all", lambda figure, stem: seen.append(figure) or _png(figure, stem))
            patch.setattr(
                "dpgraph.reporting.views.class_wise.display.class_counts",
                lambda plan, artefact, rows: dict.fromkeys(plan.tasks_of(artefact), COUNTS),
            )
            *_, text, _ = write_figure(plan, artefact, as_frame(rows), folder / artefact.replace("/", "-"))
        made[plan_name, artefact] = seen[0], text.read_text().splitlines()
        return made[plan_name, artefact]

    return draw


def _png(figure, stem):
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    path = stem.with_name(f"{stem.name}.png")
    path.write_bytes(b"png")
    return [path]


def legends(figure):
    return [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend() is not None)]


def panels_of(figure):
    return [axes for axes in figure.axes if axes.axison]


def box(artist, figure):
    """(left, low, right, high) as shares of the figure."""
    one = artist.get_window_extent(figure.canvas.get_renderer())
    width, height = figure.bbox.width, figure.bbox.height
    return one.x0 / width, one.y0 / height, one.x1 / width, one.y1 / height


def labels(figure):
    """Texts that are seen."""
    found = [text for one in legends(figure) for text in one.get_texts()]
    for axes in panels_of(figure):
        found += [axes._left_title, axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        low, high = sorted(axes.get_xlim())
        ticks = [tick for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        found += [tick.label1 for tick in ticks]
        low, high = sorted(axes.get_ylim())
        found += [
            t.label1 for t in axes.yaxis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_visible()
        ]
    return [text for text in found if isinstance(text, Text) and text.get_text().strip()]


def covered(spans):
    """Length of the union of intervals."""
    total, end = 0.0, 0.0
    for low, high in sorted(spans):
        total += max(high - max(low, end), 0.0)
        end = max(end, high)
    return total


def overlapping(figure):
    boxes = [(text.get_text(), box(text, figure)) for text in labels(figure)]
    edge = 0.001
    return [
        (first, second)
        for (first, a), (second, b) in combinations(boxes, 2)
        if min(a[2], b[2]) - max(a[0], b[0]) > edge and min(a[3], b[3]) - max(a[1], b[1]) > edge
    ]


@pytest.mark.parametrize(("plan_name", "artefact"), FIGURES)
def test_panels_take_the_height_and_a_legend_its_share(drawn, plan_name, artefact):
    figure, _ = drawn(plan_name, artefact)
    spans = [box(axes, figure)[1::2] for axes in panels_of(figure)]
    assert covered(spans) >= AXES
    below = [box(one, figure) for one in figure.legends]
    assert all(high - low <= legend.SHARE + 0.02 or left > 0.5 for left, low, _, high in below)
    assert figure.get_figwidth() <= canvas.WIDTH


@pytest.mark.parametrize(("plan_name", "artefact"), FIGURES)
def test_no_text_touches_another_or_leaves_the_picture(drawn, plan_name, artefact):
    figure, _ = drawn(plan_name, artefact)
    assert overlapping(figure) == []
    for text in labels(figure):
        left, low, right, high = box(text, figure)
        assert min(left, low) >= -0.001, text
        assert max(right, high) <= 1.001, text


@pytest.mark.parametrize(("plan_name", "artefact"), FIGURES)
def test_prose_stands_beside_the_picture(drawn, plan_name, artefact):
    figure, caption = drawn(plan_name, artefact)
    assert figure.texts == []
    assert all(len(text.get_text()) <= PROSE for text in labels(figure))
    assert any("95 % confidence interval" in line or line.startswith("One seed") for line in caption)
    assert all(one.get_title().get_text() == "" for one in legends(figure))


@pytest.mark.parametrize(("plan_name", "artefact"), FIGURES)
def test_every_panel_shows_something_and_has_ticks(drawn, plan_name, artefact):
    figure, _ = drawn(plan_name, artefact)
    for axes in panels_of(figure):
        assert [line for line in axes.lines if len(line.get_xdata())]
        assert [tick for tick in axes.get_xticks() if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]


@pytest.mark.parametrize(("plan_name", "artefact"), FIGURES)
def test_series_differ_in_colour_and_without_it(drawn, plan_name, artefact):
    figure, _ = drawn(plan_name, artefact)
    handles = [handle for one in legends(figure) for handle in one.legend_handles if isinstance(handle, Line2D)]
    assert handles
    for first, second in combinations(handles, 2):
        assert distance(to_hex(first.get_color()), to_hex(second.get_color())) >= APART
        shapes = [(one.get_marker(), str(one._dash_pattern)) for one in (first, second)]
        assert shapes[0] != shapes[1]


@pytest.mark.parametrize(("plan_name", "artefact"), FIGURES)
def test_no_mark_is_cut_off(drawn, plan_name, artefact):
    """Its centre is within the axes, and what is beyond them is drawn."""
    figure, _ = drawn(plan_name, artefact)
    for axes in panels_of(figure):
        frame = axes.get_window_extent()
        for line in axes.lines:
            if line.get_marker() not in ("", "None", None) and len(line.get_xdata()):
                places = line.get_transform().transform(
                    np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
                )
                places = places[np.isfinite(places).all(axis=1)]
                assert not line.get_clip_on()
                assert (places >= [frame.x0 - 1, frame.y0 - 1]).all()
                assert (places <= [frame.x1 + 1, frame.y1 + 1]).all()
        assert not any(isinstance(one, PathCollection) for one in axes.collections)


@pytest.mark.parametrize(
    ("plan_name", "artefact"), [one for one in FIGURES if one[1] in ("daigavane/fig2", "zhang/fig5.4")]
)
def test_the_suites_epsilons_are_ticks(drawn, request, plan_name, artefact):
    figure, _ = drawn(plan_name, artefact)
    targets = {
        entry.target_epsilon
        for entry in request.getfixturevalue(plan_name).entries_of(artefact)
        if entry.target_epsilon
    }
    for axes in panels_of(figure):
        ticks = [*axes.get_xticks(), *axes.get_xticks(minor=True)]
        assert all(np.isclose(ticks, target).any() for target in targets), axes.get_xlabel()
        assert axes.get_xscale() == ("log" if max(targets) > 4 * min(targets) else "linear")


def test_audits_fit_a_page(monkeypatch, tmp_path):
    epsilon = np.linspace(0, 4, 9)
    rows = [
        {"audit": f"a{audit}", "title": "the release of votes, and a record's part in it", "epsilon": e,
         "claimed": np.exp(-e - 1), "measured": np.exp(-e - 1.5)}
        for audit in range(8)
        for e in epsilon
    ]  # fmt: skip
    seen: list[Figure] = []
    monkeypatch.setattr(canvas, "save_all", lambda figure, stem: seen.append(figure) or _png(figure, stem))
    audit_figures.write_audit_figure(pd.DataFrame(rows), tmp_path / "audits")
    (figure,) = seen
    assert figure.get_figheight() < 18 / 2.54
    assert overlapping(figure) == []
    assert all(box(one, figure)[2] <= 1.001 for one in labels(figure))


def test_the_rules_see_what_they_forbid():
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1])
    axes.set_title("over the edge of the panel", loc="left")
    axes.text(0.0, 1.06, "over the edge", transform=axes.transAxes)
    canvas.FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    assert len(overlapping(figure)) == 1
    assert covered([(0.0, 0.4), (0.3, 0.5), (0.8, 0.9)]) == pytest.approx(0.6)
