"""How far one node reaches."""

from __future__ import annotations


def tree_size(*, max_degree: int, hops: int) -> int:
    """N(K, r) = sum of K^i over i = 0..r: nodes of a tree of depth r; also the roots one node can reach."""
    return sum(max_degree**depth for depth in range(hops + 1))
