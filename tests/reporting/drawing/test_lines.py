"""The lines of a figure: which methods it draws where there are many."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd

from dpgraph.reporting.drawing.lines import chosen_methods, left_out
from dpgraph.reporting.views.privacy_utility import MODES, drawable


def of_methods(names: dict[str, str], data_sets: str = "AB") -> pd.DataFrame:
    """Points of ours at two epsilons; a method is the better the later it stands."""
    rows = [
        (task, method, variant, "ours", epsilon, 50.0 + (100 if task == "B" else 1) * place * epsilon)
        for task in data_sets
        for place, (method, variant) in enumerate(names.items())
        for epsilon in (1.0, 4.0)
    ]
    points = pd.DataFrame(rows, columns=["task", "method", "variant", "source", "epsilon_target", "mean"])
    return points.assign(eps_published=points["epsilon_target"], eps_rigorous=points["epsilon_target"])


def chosen(most: int, points: pd.DataFrame, families: dict[str, str], modes: tuple[str, ...] = MODES) -> list[str]:
    """Return the chosen methods with points, in the order of `families`."""
    entries = [
        SimpleNamespace(method_id=name, cell=SimpleNamespace(method=family)) for name, family in families.items()
    ]
    placed = drawable(points, modes)
    return [name for name in chosen_methods(entries, placed, most) if (placed["method"] == name).any()]


def test_a_legend_has_six_lines_of_what_has_points():
    """Without privacy, the paper's own mechanism, then the nearest to the best of each data set."""
    names = {"mlp": "none", "paper": "published", **{f"ours-{place}": "rigorous" for place in range(6)}}
    families, points = {name: "dp-gnn" for name in names}, of_methods(names)
    printed = points[(points["task"] == "A") & (points["epsilon_target"] == 4.0) & (points["method"] == "ours-0")]
    points = pd.concat([points, printed.assign(source="paper's table 1", mean=90.0)], ignore_index=True)
    assert chosen(6, points, families) == ["mlp", "paper", "ours-2", "ours-3", "ours-4", "ours-5"]
    missing = points.assign(mean=points["mean"].mask(points["method"].isin(["ours-4", "ours-5"])))
    assert chosen(6, missing, families) == ["mlp", "paper", "ours-0", "ours-1", "ours-2", "ours-3"]
    claimed = points.assign(eps_rigorous=points["eps_rigorous"].mask(points["method"].isin(["paper", "ours-5"])))
    proved = chosen(5, claimed, families, ("rigorous",))  # what has no place takes no line
    assert proved == ["mlp", "ours-1", "ours-2", "ours-3", "ours-4"]
    assert left_out(
        drawable(points).assign(label=points["method"]), ["mlp", "paper", "ours-3", "ours-4", "ours-5"]
    ) == ["Not drawn, since a figure has at most 6 lines: ours-0; ours-1; ours-2."]


def test_six_lines_show_the_best_of_each_family_before_its_second_variant():
    names = {"floor": "rigorous", "gap": "rigorous", "paper-2": "published", "paper": "published", "ours-0": "rigorous"}
    names |= {"ours-1": "rigorous", "ours-2": "rigorous"}
    families = {"paper": "dp-gnn", "paper-2": "dp-gnn", "floor": "dp-mlp", "gap": "dp-gap"}
    families |= {f"ours-{place}": "dp-gnn" for place in range(3)}
    assert chosen(4, of_methods(names), families) == ["paper", "floor", "gap", "ours-2"]
    assert chosen(5, of_methods(names), families) == ["paper", "floor", "gap", "ours-1", "ours-2"]


def test_what_is_proved_stands_for_its_family_before_what_is_published():
    names = {"gcn-proved": "rigorous", "mlp-proved": "rigorous", "mlp-paper": "published", "gcn-paper": "published"}
    families = {"gcn-paper": "dp-gnn", "gcn-proved": "dp-gnn", "mlp-paper": "dp-mlp", "mlp-proved": "dp-mlp"}
    assert chosen(3, of_methods(names), families) == ["gcn-paper", "gcn-proved", "mlp-proved"]


def test_panels_of_one_figure_leave_out_the_same_published_mechanism():
    names = [f"paper-{place}" for place in range(7)]
    families = dict.fromkeys(names, "dp-appr")
    for order in (names, names[::-1], names[3:] + names[:3]):  # the last is the best
        assert chosen(6, of_methods(dict.fromkeys(order, "published")), families) == names[:6]


def test_at_most_two_lines_are_without_privacy_those_of_most_data_sets_first():
    names = {"gcn": "none", "mlp": "none", "best": "none", **{f"ours-{place}": "rigorous" for place in range(4)}}
    points = of_methods(names)
    families = {name: name for name in names}
    assert set(chosen(6, points, families)) - {"ours-0", "ours-1", "ours-2", "ours-3"} == {"mlp", "best"}
    fewer = points[(points["method"] != "best") | (points["task"] == "A")]
    assert set(chosen(6, fewer, families)) - {"ours-0", "ours-1", "ours-2", "ours-3"} == {"gcn", "mlp"}
