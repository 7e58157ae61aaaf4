"""How many nodes have rows; and the settings of rows, as what runs reads them."""

from __future__ import annotations

from typing import Protocol

from dpgraph.errors import invalid


class PagerankSettings(Protocol):
    """`settings.Pagerank`, whose fields explain themselves; named here, so that a new field causes no retraining."""

    @property
    def release(self) -> str: ...
    @property
    def released(self) -> bool: ...
    @property
    def num_rows(self) -> int | None: ...
    @property
    def node_share(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def clip(self) -> float | None: ...
    @property
    def own_weight(self) -> float: ...
    @property
    def teleport(self) -> float: ...
    @property
    def sparsity(self) -> float: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def inference_steps(self) -> int: ...


def kept_and_roots(pagerank: PagerankSettings, num_train: int) -> tuple[int, int]:
    """N, training nodes that are kept (a share q' of them), and M, the roots among them; both public."""
    kept = max(1, round(pagerank.node_share * num_train))
    rows = kept if pagerank.num_rows is None else pagerank.num_rows
    if rows > kept:
        raise invalid("num_rows", rows, f"at most the number of training nodes that are kept, {kept}")
    return kept, rows
