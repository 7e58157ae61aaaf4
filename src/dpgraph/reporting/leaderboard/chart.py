"""Accuracy against total rigorous epsilon as a Vega-Lite specification; the page puts in the rows of one data set."""

from __future__ import annotations

from typing import Any

WIDTH, HEIGHT = "container", 320
# those of a palette for colour-blind readers first; as many as a data set of any suite has proved methods
COLOURS = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8c564b",
    "#7f7f7f", "#6a3d9a", "#b8b000", "#00bfae", "#8b0000", "#a6cee3", "#b5a0c9", "#556b2f",
]  # fmt: skip
TOOLTIP = (
    ("label", "method"),
    ("paper", "paper"),
    ("shown", "mean"),
    ("eps", "ε"),
    ("relation", "relation"),
    ("scope", "scope"),
    ("n", "seeds"),
)


def chart() -> dict[str, Any]:
    """Points and lines with 95 % intervals; methods without privacy are dashed lines across.

    Data: `rows` (label, paper, relation, scope, promise, epsilon, mean, low, high, n, shown, eps) and `public` (label,
    mean, ...). Lines join rows of one method and one promise only: unlike ones are no common scale.
    """
    tooltip = [{"field": name, "title": title, "type": "nominal"} for name, title in TOOLTIP]
    x = {
        "field": "epsilon",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 24},
        "axis": {"title": "total rigorous ε (log scale)", "values": {"expr": "ticks"}, "format": "~g", "grid": False},
    }
    y = {"field": "mean", "type": "quantitative", "scale": {"zero": False}, "axis": {"title": {"expr": "metric"}}}
    colour = {"field": "label", "type": "nominal", "scale": {"range": COLOURS}, "legend": {"title": None}}
    shape = {"field": "promise", "type": "nominal", "legend": {"title": "protects (relation; scope)"}}
    lines = {"color": colour, "detail": [{"field": "promise"}, {"field": "paper"}]}
    private = [
        {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {"x": x, "y": y, **lines}},
        {
            "mark": {"type": "rule", "strokeWidth": 1.2, "opacity": 0.7},
            "transform": [{"filter": "isValid(datum.low)"}],
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, **lines},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
            "encoding": {"x": x, "y": y, "shape": shape, "tooltip": tooltip, **lines},
        },
    ]
    public = {
        "data": {"name": "public"},
        "layer": [
            {
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": "#777"},
                "encoding": {"y": {"field": "mean", "type": "quantitative"}, "tooltip": tooltip[:3]},
            },
            {
                "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -2, "color": "#555"},
                "transform": [
                    {"window": [{"op": "rank", "as": "place"}], "sort": [{"field": "mean", "order": "descending"}]},
                    {"filter": "datum.place == 1"},
                ],
                "encoding": {
                    "x": {"value": "width"},
                    "y": {"field": "mean", "type": "quantitative"},
                    "text": {"field": "label", "type": "nominal"},
                },
            },
        ],
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": WIDTH,
        "height": HEIGHT,
        "background": "transparent",
        "params": [{"name": "ticks", "value": []}, {"name": "metric", "value": ""}],
        "datasets": {"rows": [], "public": []},
        "data": {"name": "rows"},
        "layer": [*private, public],
        "config": {"font": "system-ui, sans-serif", "axis": {"labelFontSize": 12, "titleFontSize": 12}},
    }
