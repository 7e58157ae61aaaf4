"""The source itself: nothing that reads a file can run what is in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
UNPICKLERS = {("data/readers/planetoid.py", "pickle._Unpickler")}  # its subclass admits a few types
METHODS = {"eval", "exec"}  # of networks and tables
FORBIDDEN = {
    "eval",
    "exec",
    "__import__",
    "read_pickle",
    "unsafe_load",
    "full_load",
    "UnsafeLoader",
    "FullLoader",
    "dill",
}
FORBIDDEN |= {"joblib", "shelve", "marshal", "cloudpickle", "load_npz"}  # SciPy's load_npz trusts indices


def violations(code: str, place: str = "") -> list[str]:
    """Lines that read a file by what could run code."""
    tree = ast.parse(code)
    names: dict[str, str] = {}  # what a name stands for, e.g. load -> torch.load
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def full(node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return f"{full(node.value)}.{node.attr}"
        return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    found = []
    for node in ast.walk(tree):
        line = f"{place}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = full(node)
            first, last = name.split(".")[0], name.split(".")[-1]
            if first in FORBIDDEN or (last in FORBIDDEN and (last not in METHODS or isinstance(node, ast.Name))):
                found.append(f"{line} {name}")
            pickles = first in ("pickle", "_pickle") and name not in ("pickle", "pickle.UnpicklingError")
            if pickles and (place, name) not in UNPICKLERS:
                found.append(f"{line} {name}")
        if not isinstance(node, ast.Call):
            continue
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        name = full(node.func)
        if name == "torch.load" and not _is(keywords.get("weights_only"), True):
            found.append(f"{line} torch.load without weights_only=True")
        if name in ("numpy.load", "numpy.lib.format.read_array", "np.load") and not _is(
            keywords.get("allow_pickle"), False
        ):
            found.append(f"{line} {name} without allow_pickle=False")
        if _is(keywords.get("allow_pickle"), True) or _is(keywords.get("trust_remote_code"), True):
            found.append(f"{line} {name} trusts a file")
        if _is(keywords.get("shell"), True):
            found.append(f"{line} {name} through a shell")
        if name in ("yaml.load", "yaml.load_all", "yaml.safe_load") and place != "config/documents.py":
            found.append(f"{line} {name}: expected config/documents.py")
    return found


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_no_reader_runs_what_it_reads():
    package = SOURCE / "dpgraph"
    paths = sorted(SOURCE.rglob("*.py"))
    assert len(paths) > 100
    found = [
        line
        for path in paths
        for line in violations(
            path.read_text(encoding="utf-8"),
            str(path.relative_to(package)) if path.is_relative_to(package) else path.name,
        )
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\nnp.load(path)",
        "import numpy as np\nnp.load(\n  path,\n  allow_pickle\n=True)",
        "from numpy import load as innocent\ninnocent(path)",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "from torch import load\nload(path, map_location='cpu')",
        "import pickle\npickle.load(file)",
        "from pickle import loads as innocent\ninnocent(text)",
        "import pickle as p\np.Unpickler(file)",
        "import pandas as pd\npd.read_pickle(path)",
        "import yaml\nyaml.load(text, yaml.UnsafeLoader)",
        "import yaml\nyaml.safe_load(text)",
        "eval(text)",
        "import scipy.sparse as sp\nsp.load_npz(path)",
        "import joblib\njoblib.load(path)",
        "import subprocess\nsubprocess.run(text, shell=True)",
    ],
    ids=range(16),
)
def test_they_would_be_found(code):
    assert violations(code)
