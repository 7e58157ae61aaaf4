"""The order of the rooms, and what must stay light: docs/architecture.md."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src/dpgraph"
ROOMS = [  # from below
    "experiments", "data", "privacy", "sampling", "models", "training", "preparation", "methods", "audits", "reporting"
]  # fmt: skip


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_below(room):
    allowed = set(ROOMS[: ROOMS.index(room) + 1]) | {"errors", "files", "randomness", "progress"}
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for path in files:
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "dpgraph" and len(parts) > 1:
                assert parts[1] in allowed, f"{path} imports {name}"


@pytest.mark.parametrize("room", ["experiments", "data", "privacy"])
def test_light_rooms_do_not_import_torch(room):
    for path in (PACKAGE / room).rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & {"torch", "torch_geometric", "opacus", "ogb"}, path


def test_planning_loads_nothing_heavy():
    """The Snakefile is parsed again in every cluster job."""
    code = (
        "import sys\n"
        "from dpgraph.experiments.plan import load_plan\n"
        "from dpgraph.data.registry import entry\n"
        "from dpgraph.data.fetch import mirrors_from\n"
        "from dpgraph.reporting.front_page import front_page\n"
        "print([name for name in ('torch', 'pandas', 'scipy', 'matplotlib', 'requests') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_modules_stay_small_and_have_no_catch_all_names():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
        assert path.stem not in {"utils", "helpers", "common", "misc"}, path
