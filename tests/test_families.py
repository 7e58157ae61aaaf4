"""A family is one folder: without it, and without its lines elsewhere, the rest stands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
LEFT = """
import importlib, pkgutil
import dpgraph
from dpgraph.audits.registry import AUDITS
from dpgraph.families.registry import method, specs
from dpgraph.privacy.accountants.evaluate import names
for module in pkgutil.walk_packages(dpgraph.__path__, "dpgraph."):
    if module.name not in ("dpgraph.__main__", "dpgraph.families.tuples.text_tower"):
        importlib.import_module(module.name)
for name in specs():
    method(name)
print(len(specs()), len(AUDITS), len(names()))
"""


def left(sources):
    run = subprocess.run(
        [sys.executable, "-c", LEFT],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(sources)},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return [int(number) for number in run.stdout.split()]


@pytest.fixture(scope="module")
def whole():
    return left(ROOT / "src")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["aggregates", "pate"])
def test_what_is_left_without_a_family_loads_with_its_methods_audits_and_accountants(tmp_path, whole, family):
    """Every module is imported, so that one that needs the family fails."""
    shutil.copytree(ROOT / "src/dpgraph", tmp_path / "dpgraph", ignore=shutil.ignore_patterns("project"))
    shutil.rmtree(tmp_path / "dpgraph/families" / family)
    methods, audits, accountants = left(tmp_path)
    assert methods < whole[0]
    assert audits < whole[1]
    assert accountants <= whole[2]  # not every family has accountants by name


@pytest.mark.slow
def test_what_is_left_without_a_family_and_its_lines_of_yaml_passes_its_tests(tmp_path):
    """PATE's lines are those of a paper's file, and of the suites that show it."""
    for name in ("src", "tests", "workflow", "docs", "pyproject.toml", "config.yaml", "Snakefile", "rules"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for folder in ("src/dpgraph/families/pate", "tests/families/pate"):
        shutil.rmtree(tmp_path / folder)
    (tmp_path / "workflow/experiments/zhang-ch3.yaml").unlink()
    suite = tmp_path / "workflow/suites/demo.yaml"
    raw = yaml.safe_load(suite.read_text())
    del raw["papers"]["zhang-ch3"]
    suite.write_text(yaml.safe_dump(raw))
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"}
    for command in (
        ["dpgraph", "list", "cells", "--suite", "demo"],
        ["pytest", "-q", "tests/contract/test_cells.py", "tests/contract/test_public.py", "tests/test_layers.py"],
    ):
        run = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, (run.stdout + run.stderr)[-2000:]
