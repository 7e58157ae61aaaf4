import os
import sys
from pathlib import Path

import pytest

from dpgraph.errors import UserError
from dpgraph.experiments.shell import export_interpreter
from dpgraph.experiments.sources import PACKAGE, STAGES, source_files, sources_digest


@pytest.mark.parametrize("stage", STAGES)
def test_every_pattern_matches_files(stage):
    for pattern in STAGES[stage]:
        assert list(PACKAGE.glob(pattern)), pattern
    assert all(path.is_file() for path in source_files(stage))


def test_the_training_step_retrains_and_a_figure_does_not():
    names = {str(path.relative_to(PACKAGE)) for path in source_files("train")}
    assert {"training/clipping.py", "sampling/edge_lists.py", "models/gcn.py", "methods/dp_gnn.py"} <= names
    assert not any(name.startswith("reporting/") for name in names)
    assert "methods/bundles.py" not in names
    assert len(sources_digest("train")) == 16
    assert sources_digest("train") != sources_digest("preprocess")
    with pytest.raises(UserError, match="stage=nope"):
        sources_digest("nope")


def test_python_in_the_rules_is_this_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    export_interpreter(tmp_path)
    export_interpreter(tmp_path)
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert os.environ["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/elsewhere"
