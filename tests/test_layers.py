"""The order of the packages, and what must stay light: docs/reference/architecture.md."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dpgraph.cli import main
from dpgraph.cli.app import COMMANDS, command
from dpgraph.config.experiment import View
from dpgraph.config.imports import Package
from dpgraph.families.registry import specs
from dpgraph.reporting.views.registry import VIEWS, function_of, views_with

PACKAGE = Path(__file__).resolve().parents[1] / "src/dpgraph"
LAYERS = [  # from below
    "core", "config", "privacy", "data", "problems", "engine/sampling", "engine/models", "engine/training",
    "engine/preparation", "engine/methods", "families", "planning", "audits", "reporting", "pipeline", "own_graph",
    "cli",
]  # fmt: skip
# whose theorem rests on whose: the second ones' mechanisms, lists or sums are part of the first one's proof
EVERYBODY = {"trees"}  # DP-SGD on trees, and on records, which are trees of depth 0
RESTS_ON = {"aggregates": {"votes"}}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def layer_of(parts):
    """Return the layer of a module's path; a family's attacks stand with audits, its claims with reporting."""
    if parts[0] == "families" and parts[-1].removesuffix(".py") == "reported":
        return "reporting"
    if parts[0] == "families" and any(part.removesuffix(".py").rpartition("_")[0] == "audit" or "audit" in part
                                      for part in parts[2:]):  # fmt: skip
        return "audits"
    return "/".join(parts[:2]) if parts[0] == "engine" else parts[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_imports_only_from_below(layer):
    files = [path for path in PACKAGE.rglob("*/*.py") if layer_of(path.relative_to(PACKAGE).parts) == layer]
    assert files
    for path in files:
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "dpgraph" and len(parts) > 1 and parts[1:] != ["engine"]:
                assert LAYERS.index(layer_of(parts[1:])) <= LAYERS.index(layer), f"{path} imports {name}"


def families():
    return sorted(path.name for path in (PACKAGE / "families").iterdir() if (path / "__init__.py").is_file())


@pytest.mark.parametrize("family", families())
def test_a_family_imports_another_only_where_its_theorem_rests_on_it(family):
    allowed = {family, "registry", "jobs", "own_graphs", *EVERYBODY, *RESTS_ON.get(family, ())}
    for path in (PACKAGE / "families" / family).rglob("*.py"):
        for name in imports(path):
            if name.startswith("dpgraph.families."):
                assert name.split(".")[2] in allowed, f"{path} imports {name}"


def test_reporting_asks_the_registry_of_families_alone():
    for path in (PACKAGE / "reporting").rglob("*.py"):
        for name in imports(path):
            if name.startswith("dpgraph.families"):
                assert name == "dpgraph.families.registry", f"{path} imports {name}"


def test_the_package_does_not_import_its_benchmarks():
    assert not [path for path in PACKAGE.rglob("*.py") if any(name.split(".")[0] == "bench" for name in imports(path))]


def test_every_package_has_its_place():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {layer.split("/")[0] for layer in LAYERS}


def test_modules_do_not_import_each_other_in_a_circle():
    package = Package(PACKAGE)
    edges = {name: set(package.loaded_with(name)) for name in package.modules}
    for name in edges:  # a package's own __init__ is no import of its author's
        edges[name] -= {one for one in edges[name] if name.startswith(f"{one}.")}
    while leaves := {name for name, used in edges.items() if not used & edges.keys()}:
        edges = {name: used for name, used in edges.items() if name not in leaves}
    assert not edges, sorted(edges)


def light_files():
    for layer in ("config", "privacy", "data", "planning"):
        yield from (PACKAGE / layer).rglob("*.py")
    light = re.compile("spec|mechanism|.*_mechanism|variants|accountant|.*accountants|published|records|settings|look")
    yield from (path for path in (PACKAGE / "families").rglob("*.py") if light.fullmatch(path.stem))


def test_light_modules_do_not_import_torch():
    for path in light_files():
        assert not {name.split(".")[0] for name in imports(path)} & {"torch", "torch_geometric", "opacus", "ogb"}, path


def test_nothing_outside_families_knows_a_method_by_its_name():
    quoted = re.compile("|".join(rf"[\"']{re.escape(name)}[\"']" for name in specs() if "-" in name))
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != "families":
            assert not quoted.search(path.read_text()), path


def test_planning_loads_nothing_heavy():
    """The Snakefile is parsed again in every cluster job."""
    code = (
        "import sys\n"
        "from dpgraph.planning.plan import load_plan\n"
        "from dpgraph.config.config import Config\n"
        "from dpgraph.pipeline.bundles import training_bundles\n"
        "from dpgraph.pipeline.fingerprints import bundle_digest\n"
        "plan = load_plan(Config())\n"
        "for bundle in training_bundles(plan).values(): bundle_digest(bundle.runs.values())\n"
        "from dpgraph.data.registry import entry\n"
        "from dpgraph.data.fetch import mirrors_from\n"
        "from dpgraph.reporting.inputs import front_page\n"
        "from dpgraph.reporting.inputs import artefact_inputs, artefact_jobs, artefact_outputs, aggregate_inputs\n"
        "for name in plan.artefacts: artefact_inputs(plan, name, {}, plan.calibrations)\n"
        "aggregate_inputs(plan, {}, plan.calibrations), artefact_outputs(plan, plan.artefacts), artefact_jobs(plan)\n"
        "print([name for name in ('torch', 'pandas', 'scipy', 'matplotlib', 'requests') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def rule_files():
    root = PACKAGE.parents[1]
    return {path.name: path.read_text() for path in (root / "Snakefile", *sorted((root / "rules").glob("*.smk")))}


def test_the_snakefile_takes_all_from_one_object():
    found = [
        line for text in rule_files().values() for line in re.findall(r"^.*import .*$", text, re.M) if "dpgraph" in line
    ]
    assert found == ["from dpgraph.pipeline.workflow import Workflow"]


def test_a_rule_is_called_like_its_command():
    called = {}
    for text in rule_files().values():
        for rule in re.split(r"^(?=rule |    rule:|use rule )", text, flags=re.M)[1:]:
            if command := re.search(r'"python -m (?:dpgraph|(?=bench\.))(?: page)? ?([a-z{}.]+)', rule):
                called[re.match(r" *rule ?([a-z_]*)", rule)[1]] = command[1]
    named = {name: name for name in ("aggregate", "audit", "calibrate", "fetch", "preprocess", "references", "train")}
    # the other pages inherit from the first one; a job of artefacts has their paper's name
    assert called == {**named, "claims": "{params.page}", "": "artefacts", "bench_steps": "bench.{params.module}"}


def test_help_loads_nothing_but_the_parser():
    code = (
        "import sys\n"
        "from dpgraph.cli import main\n"
        "main(['--help'])\n"
        "own = {name for name in sys.modules if name.split('.')[0] == 'dpgraph' and name[:11] != 'dpgraph.cli'}\n"
        "heavy = [name for name in ('pydantic', 'numpy', 'yaml', 'rich') if name in sys.modules]\n"
        "print(sorted(own - {'dpgraph', 'dpgraph.core', 'dpgraph.core.errors'}), heavy)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in run.stdout for name in ("train", "calibrate", "fit"))
    assert run.stdout.splitlines()[-1] == "[] []"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_for_each_of_its_options(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[2] == command(name).__doc__.splitlines()[0]
    assert not re.search(r"^│[ *]+--[\w-]+( -?-\w+)*( [A-Z]+)? *│$", shown, re.M)


def test_one_class_per_name():
    homes = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: files for name, files in homes.items() if len(files) > 1}


def test_every_view_has_functions_that_load():
    """A new kind of display is its name, its functions, and an entry of the registry of views."""
    assert set(VIEWS) == set(get_args(View))
    for kind in ("table", "figure", "wide"):
        assert all(callable(function_of("a/b", view, kind)) for view in views_with(kind))
    assert set(views_with("table") + views_with("figure")) == set(VIEWS)


def test_modules_stay_small_and_have_no_catch_all_names():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
        assert path.stem not in {"utils", "helpers", "common", "misc"}, path
