"""No test of this folder reads or leaves calibrations outside of its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPGRAPH_CACHE", str(tmp_path / "own-cache"))
