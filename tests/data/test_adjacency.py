import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.data.adjacency import keep_entries, owners, symmetric_csr, transpose

NODES = 6
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=30)


def as_sets(ptr, idx):
    return [list(idx[ptr[node] : ptr[node + 1]]) for node in range(len(ptr) - 1)]


@given(EDGES)
def test_symmetric_csr_against_sets(edges):
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    ptr, idx = symmetric_csr(source, target, NODES)
    neighbours = [
        sorted({v for u, v in edges if u == node} | {u for u, v in edges if v == node} - {node})
        for node in range(NODES)
    ]
    assert as_sets(ptr, idx) == [[v for v in found if v != node] for node, found in enumerate(neighbours)]
    assert ptr.dtype == np.int64
    assert idx.dtype == np.int32


@given(EDGES, st.data())
def test_transpose_and_filter_against_sets(edges, data):
    directed = sorted({(u, v) for u, v in edges if u != v})
    ptr = np.cumsum([0] + [sum(u == node for u, _ in directed) for node in range(NODES)])
    idx = np.array([v for _, v in directed], dtype=np.int32)
    assert as_sets(*transpose(ptr, idx)) == [sorted(u for u, v in directed if v == node) for node in range(NODES)]
    assert list(owners(ptr)) == [u for u, _ in directed]
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(idx), max_size=len(idx))), dtype=bool)
    kept = [edge for edge, flag in zip(directed, keep) if flag]
    assert as_sets(*keep_entries(ptr, idx, keep)) == [[v for u, v in kept if u == node] for node in range(NODES)]
