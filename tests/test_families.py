"""A family is one folder: without it, and without its lines elsewhere, the rest stands."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEFT = """
import importlib, pkgutil
import dpgraph
from dpgraph.audits.registry import AUDITS
from dpgraph.families.registry import method, specs
from dpgraph.privacy.accountants.catalogue import names
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


@pytest.mark.parametrize("family", ["aggregates", "pate"])
def test_what_is_left_without_a_family_loads_with_its_methods_audits_and_accountants(tmp_path, whole, family):
    """Every module is imported, so that one that needs the family fails."""
    shutil.copytree(ROOT / "src/dpgraph", tmp_path / "dpgraph", ignore=shutil.ignore_patterns("__pycache__", "project"))
    shutil.rmtree(tmp_path / "dpgraph/families" / family)
    found = left(tmp_path)
    assert all(few < all_of_them for few, all_of_them in zip(found, whole, strict=True))
