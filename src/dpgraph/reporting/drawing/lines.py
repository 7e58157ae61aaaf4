"""The lines of a figure: at most `MOST` methods, chosen by one rule; the caption names the others."""

from collections.abc import Iterable, Sequence

import pandas as pd

from dpgraph.planning.plan import Entry

MOST = 6  # lines of a legend: more are not told apart at a glance
PUBLIC_LINES = 2  # of these, for methods without privacy


def chosen_methods(entries: Sequence[Entry], drawable: pd.DataFrame, most: int = MOST) -> list[str]:
    """Return the methods that a figure draws; all of them where they are no more than `most`.

    Methods are taken in this order: `PUBLIC_LINES` without privacy (those of most data sets, then the best), the first
    mechanism as a paper publishes it, the best method of each family, and then the other methods; in both, what is
    proved comes before what is published. A method is better the nearer it is, at its largest epsilon, to the best of
    each data set, on average. Published mechanisms keep the artefact's order: the panels of one figure leave out the
    same one.

    Args:
        entries: Entries of the artefact, in its order.
        drawable: Points that have a place in a panel; printed ones do not count.
        most: How many methods are drawn at most.
    """
    families = {entry.method_id: entry.cell.method for entry in entries}
    last = drawable[drawable["source"] == "ours"].sort_values("epsilon_target", kind="stable")
    last = last.groupby(["task", "method"], sort=False, as_index=False).last()
    if last["method"].nunique() <= most:
        return list(families)
    last["below"] = last["mean"] - last.groupby("task")["mean"].transform("max")
    ranked = last.groupby("method").agg(
        variant=("variant", "first"), data_sets=("task", "size"), below=("below", "mean")
    )
    ranked = ranked.reindex(method for method in families if method in ranked.index)
    public = ranked[ranked["variant"] == "none"].sort_values(["data_sets", "below"], ascending=False, kind="stable")
    private = ranked[ranked["variant"] != "none"]
    published = list(private.index[private["variant"].str.startswith("published")][:1])
    others = private.drop(published)
    claimed = others["variant"].str.startswith("published")
    others = others.assign(claimed=claimed, below=others["below"].mask(claimed, 0.0))
    others = others.sort_values(["claimed", "below"], ascending=[True, False], kind="stable")
    second = others.index.map(families).duplicated()
    order = [*public.index[:PUBLIC_LINES], *published, *others.index[~second], *others.index[second]]
    chosen = order[:most]
    return [method for method in families if method in chosen or method not in ranked.index]


def left_out(drawable: pd.DataFrame, methods: Iterable[str]) -> list[str]:
    """Return a sentence that names the methods with points that are not among the drawn `methods`."""
    points = drawable[drawable["source"] == "ours"]
    labels = dict.fromkeys(points.loc[~points["method"].isin(list(methods)), "label"])
    return [f"Not drawn, since a figure has at most {MOST} lines: {'; '.join(labels)}."] if labels else []
