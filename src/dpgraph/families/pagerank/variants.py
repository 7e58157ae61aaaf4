"""Mechanisms over rows of PageRank, from a cell; numbers of nodes with rows and with losses.

Settings are not named by class here, so that a new field retrains no cell.
"""

from __future__ import annotations

from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest, batch_size
from dpgraph.families.pagerank.mechanism import FixedBatchPagerank, PoissonPagerank


def kept_and_roots(pagerank: Any, num_train: int) -> tuple[int, int]:
    """Return N, training nodes that are kept (a share q' of them), and M, the roots among them; both public."""
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


def published_pagerank(asked: MechanismRequest) -> FixedBatchPagerank:
    """Build the published mechanism."""
    pagerank, training = asked.cell.pagerank, asked.cell.training
    kept, _ = kept_and_roots(pagerank, asked.num_train)
    roots, _ = roots_and_rows(pagerank, asked.num_train)
    return FixedBatchPagerank(
        **_rows(asked, published=True),
        batch_size=batch_size(training, roots),
        sampled_nodes=kept,
        node_share=pagerank.node_share,
        column_norm=pagerank.column_norm,
    )


def poisson_pagerank(asked: MechanismRequest) -> PoissonPagerank:
    """Build the proved mechanism."""
    pagerank, training = asked.cell.pagerank, asked.cell.training
    roots, _ = roots_and_rows(pagerank, asked.num_train)
    rate = training.sampling_rate if training.batch_size is None else training.batch_size / roots
    if rate is None or rate > 1:
        raise invalid("batch_size", training.batch_size, f"at most the number of roots, {roots}")
    return PoissonPagerank(**_rows(asked, published=False), sampling_rate=rate, column_cap=pagerank.column_cap)


def _rows(asked: MechanismRequest, published: bool) -> dict[str, Any]:
    """Return the fields that both mechanisms have."""
    from dpgraph.families.pagerank.epsilon import release_noise

    pagerank = asked.cell.pagerank
    _, rows = kept_and_roots(pagerank, asked.num_train)
    roots, fewer = roots_and_rows(pagerank, asked.num_train)
    common = asked.common(roots) | {"num_rows": fewer}
    noise: float | None = None
    values: float | None = None
    if asked.cell.release_epsilon is not None:
        noise, values = release_noise(
            pagerank.release,
            epsilon=asked.cell.release_epsilon,
            rows=rows,
            top_k=pagerank.top_k,
            delta=common["delta"] / 2,
            published=published,
        )
    shared = {"release": pagerank.release, "top_k": pagerank.top_k, "release_noise": noise, "values_epsilon": values}
    return common | shared
