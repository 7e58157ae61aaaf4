"""Compiled loops: what they take, where their machine code is kept, and that they are loaded only where called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpgraph.config.imports import Package
from dpgraph.engine.sampling import list_loops

PACKAGE = Path(__file__).resolve().parents[1] / "src/dpgraph"
LOOP = """
from dpgraph.core.compiled import compiled

@compiled("i8[!]")
def added(values):
    total = 0
    for value in values:
        total += value
    return total
"""
CALL = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from loops import added
print(added(np.arange(5)), sum(added.machine_code.stats.cache_hits.values()))
"""


@pytest.fixture
def loops(tmp_path):
    """A module `loops` of its own, and a function that calls it in a new process."""
    (tmp_path / "loops.py").write_text(LOOP)

    def start(**environment):
        return subprocess.Popen(
            [sys.executable, "-c", CALL, str(tmp_path)],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(**environment):
        out, err = (process := start(**environment)).communicate()
        assert process.returncode == 0, err
        return out.split()

    call.start = start
    return call


def kept(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.rglob("*.nb[ci]"))


def test_machine_code_is_kept_and_an_edited_source_or_a_broken_file_is_compiled(loops, tmp_path):
    """First by two processes that compile at once: one finds what the other wrote, or compiles it, too."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    outputs = [process.communicate() for process in [loops.start(**cache) for _ in range(2)]]
    assert [out.split()[0] for out, _ in outputs] == ["10"] * 2, outputs
    assert kept(tmp_path) == [".nbc", ".nbi"]
    assert loops(**cache) == ["10", "1"]
    (tmp_path / "loops.py").write_text(LOOP.replace("+= value", "-= value"))
    assert loops(**cache) == ["-10", "0"]
    assert kept(tmp_path) == [".nbc", ".nbc", ".nbi", ".nbi"]
    for path in (tmp_path / "cache").rglob("*.nbc"):
        path.write_bytes(b"")
    assert loops(**cache) == ["-10", "0"]


def test_without_a_folder_to_write_to(loops, tmp_path):
    """No folder can be made where a file is: what happens to a user without rights, whom a test as root is not."""
    (tmp_path / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    nothing = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home/cache")}
    assert loops(**nothing) == ["10", "0"]
    assert kept(tmp_path) == []


def test_other_types_are_refused():
    ptr, idx, counts = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int32)
    roots = np.zeros(1, dtype=np.int64)
    list_loops.count(ptr, idx, roots, counts)
    for wrong in ((ptr, idx.astype(np.int64), roots, counts), (ptr, idx, np.zeros(4, dtype=np.int64)[::2], counts)):
        with pytest.raises(TypeError, match="No matching definition"):
            list_loops.count(*wrong)


def test_small_inputs_load_no_compiler():
    code = (
        "import sys, numpy as np\n"
        "from dpgraph.data.adjacency import symmetric_csr\n"
        "from dpgraph.data.synthetic import BlockModel, generate\n"
        "from dpgraph.engine.sampling import edge_lists, ego\n"
        "from dpgraph.engine.sampling.edge_lists import EdgeLists\n"
        "generate(BlockModel(name='toy', nodes=300, classes=3, features=1))\n"
        "lists = EdgeLists(np.array([0, 1, 1]), np.array([1], dtype=np.int32))\n"
        "ego.pack_ego_trees(lists, np.arange(2), 2).batch(np.arange(2))\n"
        "print([name for name in ('numba', 'llvmlite') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_loops_are_among_the_sources_of_what_calls_them():
    """Imported within a function, they are seen all the same: an edit trains again."""
    for caller, loops in {
        "engine.sampling.edge_lists": "engine.sampling.list_loops",
        "engine.sampling.ego": "engine.sampling.tree_loops",
        "engine.training.fused.passes": "engine.training.fused.row_loops",
        "engine.training.ghost": "engine.training.fused.row_loops",
        "engine.training.fused.shared": "engine.training.fused.row_loops",
        "engine.training.fused.inputs": "engine.training.fused.row_loops",
    }.items():
        found = Package(PACKAGE).closure([f"dpgraph.{caller}"])
        assert {f"dpgraph.{loops}", "dpgraph.core.compiled"} <= set(found)
    called = {path for path in PACKAGE.rglob("*.py") if "import compiled\n" in path.read_text()}
    assert called == {
        PACKAGE / place
        for place in (
            "engine/sampling/list_loops.py",
            "engine/sampling/tree_loops.py",
            "engine/training/fused/row_loops.py",
        )
    }


def test_a_loop_calls_none_of_another_module():
    """numba reads machine code again though a function of another module changed."""
    for path in PACKAGE.rglob("*_loops.py"):
        lines = path.read_text().splitlines()
        imported = [line for line in lines if line.startswith(("import ", "from "))]
        assert set(imported) <= {
            "from __future__ import annotations", "import numba", "import numpy as np",
            "from dpgraph.core.compiled import compiled", "from typing import Any", "from llvmlite import ir",
            "from numba.core import cgutils, types", "from numba.extending import intrinsic",
        }, path  # fmt: skip
