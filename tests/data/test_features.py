import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpgraph.core.errors import UserError
from dpgraph.data.features import dense, transform

MATRICES = arrays(np.float32, (5, 7), elements=st.floats(-8, 8, width=32).map(lambda x: round(x)))


@given(MATRICES)
def test_l2_rows_have_norm_one_or_zero_and_sparse_agrees(features):
    result = dense(transform(features, "l2"))
    norms = np.linalg.norm(result, axis=1)
    assert np.allclose(norms, np.linalg.norm(features, axis=1) > 0, atol=1e-6)
    assert np.allclose(dense(transform(sp.csr_matrix(features), "l2")), result, atol=1e-6)
    assert result.dtype == np.float32


@given(MATRICES, st.integers(0, 4))
def test_projection_depends_on_its_own_row_only(features, row):
    whole = transform(features, "project-3")
    assert np.allclose(transform(features[row : row + 1], "project-3"), whole[row], atol=1e-5)
    assert np.allclose(transform(sp.csr_matrix(features), "project-3"), whole, atol=1e-5)


def test_projection_scale_and_inner_products():
    generator = np.random.default_rng(0)
    features = generator.random((50, 300)).astype(np.float32)
    projected = transform(features, "project-2000")
    assert projected.var() == pytest.approx(1, rel=0.05)
    assert np.linalg.norm(projected, axis=1).mean() == pytest.approx(2000**0.5, rel=0.02)
    unit = dense(transform(features, "l2"))
    assert np.abs(projected @ projected.T / 2000 - unit @ unit.T).max() < 0.12  # 5 deviations of 1 / sqrt(2000)


def test_projection_is_the_same_every_time():
    features = np.eye(4, dtype=np.float32)
    assert np.array_equal(transform(features, "project-2"), transform(features, "project-2"))


def test_raw_keeps_sparse_input_sparse():
    features = sp.csr_matrix(np.eye(3, dtype=np.float32))
    assert transform(features, "raw") is features
    assert sp.issparse(transform(features, "l2"))


@pytest.mark.parametrize("name", ["project-0", "project", "L2", "project-1.5"])
def test_unknown_transform(name):
    with pytest.raises(UserError, match=f"^features={name}: expected raw, l1, l2 or project-D with D >= 1$"):
        transform(np.eye(2, dtype=np.float32), name)
