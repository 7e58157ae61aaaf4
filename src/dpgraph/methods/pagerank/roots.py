"""How many nodes have rows. Settings are not named by their class, so that a new field causes no retraining."""

from __future__ import annotations

from typing import Any

from dpgraph.errors import invalid


def kept_and_roots(pagerank: Any, num_train: int) -> tuple[int, int]:
    """N, training nodes that are kept (a share q' of them), and M, the roots among them; both public."""
    kept = max(1, round(pagerank.node_share * num_train))
    rows = kept if pagerank.num_rows is None else pagerank.num_rows
    if rows > kept:
        raise invalid("num_rows", rows, f"at most the number of training nodes that are kept, {kept}")
    return kept, rows
