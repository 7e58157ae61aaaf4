"""Numbers of nodes with rows and with losses. Settings are unnamed by class: a new field causes no retraining."""

from __future__ import annotations

from typing import Any

from dpgraph.core.errors import invalid


def kept_and_roots(pagerank: Any, num_train: int) -> tuple[int, int]:
    """N, training nodes that are kept (a share q' of them), and M, the roots among them; both public."""
    kept = max(1, round(pagerank.node_share * num_train))
    rows = kept if pagerank.num_rows is None else pagerank.num_rows
    if rows > kept:
        raise invalid("num_rows", rows, f"at most the number of training nodes that are kept, {kept}")
    return kept, rows


def roots_and_rows(pagerank: Any, num_train: int) -> tuple[int, int | None]:
    """Return how many nodes have a loss, and how many of them a row where these are fewer; both public."""
    kept, rows = kept_and_roots(pagerank, num_train)
    if pagerank.losses == "rows":
        return rows, None
    return kept, rows if rows < kept and pagerank.release != "identity" else None
