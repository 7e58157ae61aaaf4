"""The audits' figure and page: one panel per curve, verdicts in words, the same bytes again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from dpgraph.core.errors import UserError
from dpgraph.reporting.figures import read_audits, write_audit_figure, write_audit_page


@pytest.fixture
def audits() -> pd.DataFrame:
    epsilon = np.linspace(0, 4, 9)
    claimed = np.exp(-epsilon - 1)
    rows = []
    for audit, factor in (("votes", 0.8), ("votes-membership", 1.9), ("subgraph-steps", 0.0)):
        shared = {
            "audit": audit, "title": f"audit {audit}", "passed": factor < 1, "claim": "R < 8",
            "finding": "eps_lb 1", "trials": 100, "seconds": 0.5,
        }  # fmt: skip
        rows += [{**shared, "epsilon": e, "claimed": c, "measured": factor * c} for e, c in zip(epsilon, claimed)]
    exact = {**rows[-1], "audit": "clipping", "title": "audit clipping", "passed": True}
    rows += [{**exact, "epsilon": None, "claimed": None, "measured": None}]
    return pd.DataFrame(rows).astype({"epsilon": float, "claimed": float, "measured": float})


def test_figure(audits: pd.DataFrame, tmp_path: Path) -> None:
    paths = write_audit_figure(audits, tmp_path / "audits")
    assert [path.name for path in paths] == ["audits.pdf", "audits.svg", "audits.png", "audits.txt"]
    image = imread(paths[2])[:, :, :3]
    border = np.concatenate([image[:3].reshape(-1, 3), image[-3:].reshape(-1, 3), image[:, -3:].reshape(-1, 3)])
    assert (border > 0.99).all()  # nothing is cut off
    assert "audit votes 80 %" in paths[3].read_text()
    again = write_audit_figure(audits, tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    with pytest.raises(UserError, match=r"^audits: expected at least one with a curve"):
        write_audit_figure(audits[audits.epsilon.isna()], tmp_path / "none")


def test_page(plan, audits: pd.DataFrame, tmp_path: Path) -> None:
    text = write_audit_page(plan, audits, tmp_path / "audits.html").read_text()
    assert text.count("<tr>") == 5  # a head, votes, votes-membership, subgraph-steps, clipping
    assert "<td>audit votes</td><td>passed</td><td>R &lt; 8</td>" in text
    assert "<td>audit votes-membership</td><td>FAILED</td>" in text
    assert "<td>80 %</td>" in text
    assert text.count("<td>–</td>") == 1  # clipping has no curve


def test_no_audits_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no audits there; make them with `dpgraph audit all"):
        read_audits(tmp_path / "audits.parquet")
