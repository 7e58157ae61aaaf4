import ast
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpgraph.config import sources
from dpgraph.config.imports import Package, imported_names
from dpgraph.config.sources import (
    NEUTRAL,
    PACKAGE,
    PLANNING,
    STAGES,
    Stage,
    digest_of,
    files_of,
    job_digest,
    sources_digest,
)
from dpgraph.core.errors import UserError
from dpgraph.pipeline.fingerprints import ENCODER, preprocess_roots
from dpgraph.pipeline.workflow import export_interpreter


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(PACKAGE, tmp_path / "dpgraph", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.parametrize("stage", STAGES)
def test_every_root_and_pattern_is_there(stage):
    package = Package(PACKAGE)
    for root in STAGES[stage].roots:
        assert package.matching(f"dpgraph.{root}"), root
    for pattern in STAGES[stage].files:
        assert list(PACKAGE.glob(pattern)), pattern
    assert files_of(STAGES[stage], Package(PACKAGE))
    assert all(path.is_file() for path in files_of(STAGES[stage], Package(PACKAGE)))


def test_unknown_stages_and_modules_are_refused():
    assert len(sources_digest("audit")) == 16
    assert sources_digest("audit") != sources_digest("aggregate")
    with pytest.raises(UserError, match="stage=nope"):
        sources_digest("nope")
    with pytest.raises(ImportError, match=r"dpgraph\.methods\.nope: no such module in the package"):
        job_digest(("methods.nope",))


def test_an_edit_of_any_file_of_the_closure_changes_the_hash(copy):
    stage = Stage(preprocess_roots("cora"), job=True)
    files, before = files_of(stage, Package(copy)), digest_of(stage, Package(copy))
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content + b"# edited\n")
        assert digest_of(stage, Package(copy)) != before, path
        path.write_bytes(content)
    assert digest_of(stage, Package(copy)) == before


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_that_nobody_imports_changes_nothing(stage, copy):
    before = digest_of(STAGES[stage], Package(copy))
    (copy / "privacy/unrelated.py").write_text("import dpgraph.planning.resolve\n")
    (copy / "elsewhere").mkdir()
    (copy / "elsewhere/__init__.py").write_text("")
    assert digest_of(STAGES[stage], Package(copy)) == before


def test_a_new_package_is_found_by_itself(copy):
    stage = STAGES["audit"]
    before = digest_of(stage, Package(copy))
    (copy / "later").mkdir()
    (copy / "later/__init__.py").write_text("")
    (copy / "later/first.py").write_text("from dpgraph.later import second\n")
    (copy / "later/second.py").write_text("")
    with (copy / "families/trees/train.py").open("a") as file:
        file.write("\n\ndef late():\n    from dpgraph.later.first import name\n")
    found = {str(path.relative_to(copy)) for path in sources.files_of(stage, Package(copy))}
    assert {"later/__init__.py", "later/first.py", "later/second.py"} <= found
    changed = digest_of(stage, Package(copy))
    (copy / "later/second.py").write_text("X = 1\n")
    assert len({before, changed, digest_of(stage, Package(copy))}) == 3


def test_an_import_is_found_wherever_it_stands(tmp_path):
    package = tmp_path / "top"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__", "a", "b", "c", "d", "e", "f", "g", "h", "inner/__init__", "inner/deep", "unused"):
        (package / f"{name}.py").write_text("")
    (package / "a.py").write_text(
        "import os, top.b\nif True: from top import c\ntry:\n    from top import (\n        d,  # (one)\n        e,\n"
        "    )\nexcept ImportError:\n    pass\ndef f():\n    x = 1; import top.f\nfrom top.inner.deep import name\n"
        "from top import g as \\\n    h\n"
    )
    found = Package(package).closure(["top.a"])
    assert set(found) == {"top", "top.inner", "top.inner.deep", *(f"top.{name}" for name in "abcdefg")}
    (package / "inner/deep.py").write_text("from . import near\nfrom ..h import y\n")
    (package / "inner/near.py").write_text('"""Prose:\n\nfrom top of it, import nothing\n"""\n')
    assert {"top.h", "top.inner.near"} <= set(Package(package).closure(["top.a"]))
    assert "top.h" not in Package(package).closure(["top.a"], {"top.inner.deep"})


def test_statements_alone_say_the_same_as_whole_files():
    for path in PACKAGE.rglob("*.py"):
        whole = {
            name
            for node in ast.walk(ast.parse(path.read_bytes()))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [f"{node.module}.{alias.name}" for alias in node.names]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            if name.split(".")[0] == "dpgraph"
        }
        assert imported_names(path.read_bytes(), "dpgraph", ["dpgraph"]) == whole, path


@pytest.mark.parametrize("dataset", ["cora", "pokec-bert", "demo-images", "demo-relations"])
def test_what_python_loads_is_in_the_closure(dataset):
    roots = preprocess_roots(dataset)
    code = "from importlib import import_module\n" + "".join(
        f"import_module('dpgraph.{one}')\n" for one in roots if one != ENCODER
    )
    shown = f"{code}\nimport sys\nprint(*(name for name in sys.modules if name.split('.')[0] == 'dpgraph'))"
    run = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    modules = Package(PACKAGE).modules
    left_out = {modules[f"dpgraph.{name}"] for name in NEUTRAL | PLANNING}
    only_named = {
        modules[f"dpgraph.{name}"]
        for name in ("data.registry", "data.graph", "problems", "core.loading", "config.record")
    }
    loaded = {modules[name] for name in run.stdout.split()}
    assert loaded <= {*files_of(Stage(roots, job=True), Package(PACKAGE)), *left_out, *only_named}


def test_what_is_left_out_computes_nothing():
    package = Package(PACKAGE)
    computing = {"scipy", "torch", "pandas", "sklearn", "dp_accounting", "networkx"}
    for name in (*NEUTRAL, *PLANNING):
        if name == "pipeline.jobs":  # the end of the command line: nobody imports it
            continue
        tree = ast.parse(package.modules[f"dpgraph.{name}"].read_bytes())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert not {one.split(".")[0] for one in imported} & computing, name
    for stage in (Stage(preprocess_roots("pokec"), job=True), STAGES["audit"]):  # no job reads the plan
        for path in files_of(stage, package):
            if path.suffix == ".py":
                name = ".".join(("dpgraph", *path.relative_to(PACKAGE).with_suffix("").parts))
                used = package.loaded_with(name.removesuffix(".__init__"))
                assert not used & {f"dpgraph.{one}" for one in PLANNING}, name


def test_every_module_that_is_loaded_by_name_is_a_root():
    """A new place of this kind needs a root in STAGES."""
    computed = re.compile(rb"import_module\(|iter_modules\(|__import__\(|runpy|spec_from|\"-m\", \"dpgraph\.")
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if computed.search(path.read_bytes())}
    assert found == {
        "core/loading.py", "families/registry.py", "reporting/claims/registry.py",
        "problems/registry.py", "data/readers/__init__.py", "data/text/bert.py",
        "cli/app.py", "cli/snakemake.py", "privacy/accountants/evaluate.py",  # no job imports them
        "data/registry.py",  # names of readers, which are roots of their data sets
        "core/outside.py",  # a user's own files, whose hashes fingerprints take whole
    }  # fmt: skip


def test_hashes_of_all_stages_take_no_time_and_load_nothing():
    code = (
        "import sys, time\nfrom dpgraph.config.sources import STAGES, sources_digest\n"
        "start = time.process_time()\nfor stage in STAGES: sources_digest(stage)\nprint(time.process_time() - start)\n"
        "print([name for name in ('torch', 'numpy', 'scipy', 'pandas', 'pydantic') if name in sys.modules])"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    assert all(run.stdout.splitlines()[1] == "[]" for run in runs)
    assert min(float(run.stdout.splitlines()[0]) for run in runs) < 0.5  # 0.13 s where nothing else runs
    start = time.process_time()
    sources_digest("audit")
    before = time.process_time() - start
    start = time.process_time()
    sources_digest("audit")
    assert time.process_time() - start <= max(before, 1e-3)


def test_python_in_the_rules_is_this_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    export_interpreter(tmp_path)
    export_interpreter(tmp_path)
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert os.environ["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/elsewhere"
