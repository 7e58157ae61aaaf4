"""Which changes train a cell again: those of its own modules, and no others."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpgraph.config.imports import Package
from dpgraph.config.sources import ACCOUNTING, NEUTRAL, PACKAGE, PLANNING, Stage, digest_of, files_of
from dpgraph.data.fetch import fetch
from dpgraph.data.registry import entry
from dpgraph.data.store import save_graph
from dpgraph.families.registry import specs
from dpgraph.pipeline import execute
from dpgraph.pipeline.fingerprints import (
    bundle_digest,
    calibration_roots,
    calibrations_digest,
    fetch_digest,
    preprocess_digest,
    preprocess_roots,
    training_digest,
    training_roots,
)
from dpgraph.pipeline.stages import train_cell
from dpgraph.planning.resolve import resolve
from dpgraph.planning.run import Run
from dpgraph.privacy.cache import versions
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.preprocess import preprocess
from dpgraph.problems.registry import problem_of
from tests.contract.cells import CELLS, raw_cells
from tests.contract.conftest import toy_graph

THIS = Package(PACKAGE)
RUNS = {name: Run.resolve(cell) for name, cell in CELLS.items()}
KINDS = {training_roots(run): name for name, run in reversed(RUNS.items())}  # one cell for each set of modules
ONES = sorted(KINDS.values())


def closure(name, calibration=False, numbers=False, package=THIS):
    roots = calibration_roots(RUNS[name]) if calibration else training_roots(RUNS[name])
    files = files_of(Stage(roots, job=True, numbers=numbers), package)
    return {str(path.relative_to(package.folder)) for path in files}


def digests(package, numbers=False):
    found = {}
    for name in ONES:
        run = RUNS[name]
        found[name, "train"] = digest_of(Stage(training_roots(run), job=True, numbers=numbers), package)
        found[name, "calibrate"] = digest_of(Stage(calibration_roots(run), job=True), package)
    return found


@pytest.fixture(scope="module")
def before():
    return digests(THIS)


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(PACKAGE, tmp_path / "dpgraph", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.parametrize("name", ONES)
def test_a_cell_has_its_own_modules_and_no_other_methods(name):
    cell = CELLS[name]
    family = specs()[cell.method].train.split(".")[2]
    found = closure(name)
    assert {"pipeline/execute.py", "pipeline/collect.py", "engine/methods/base.py", "core/randomness.py"} <= found
    problem = problem_of(cell.task).name.replace("-", "_")
    assert f"problems/{problem}/work.py" in found
    if problem == "node_classification":
        assert {"problems/classification.py", "problems/node_classification/work.py", "data/store.py"} <= found
    of_problems = {path.split("/")[1] for path in found if path.startswith("problems/")}
    assert of_problems <= {problem, "classification.py", "__init__.py"}
    assert not {path for path in found if path.startswith("problems/") and path.endswith(("prepare.py", "problem.py"))}
    others = {one.split(".")[2] for one in (spec.train for spec in specs().values())} - {family}
    allowed = {"trees", *({"votes"} if family == "aggregates" else ())}
    # whose training they are, or whose lists
    for other in others - allowed:
        assert not {path for path in found if path.startswith(f"families/{other}/")}, (name, other)
    assert not {path for path in found if re.fullmatch("families/.*/(spec|look|settings).py", path)}
    planned = {path for path in found if path.startswith(("reporting/", "audits/", "planning/"))}
    assert planned <= {"planning/__init__.py"}  # a docstring
    accountants = {path for path in closure(name, numbers=True) if "accountant" in path}
    assert accountants <= {"privacy/accountants/__init__.py"}


def test_a_method_without_privacy_does_not_depend_on_accountants_of_others():
    assert not {path for path in closure("gnn-1-none") if "double_mixture" in path or "trees/mechanism" in path}
    assert {"families/trees/mechanism.py", "privacy/accountants/double_mixture.py", "families/trees/prepared.py",
            "privacy/accountants/renyi.py", "privacy/relation.py"} <= closure("dp-gnn-1-rigorous")  # fmt: skip


def test_what_an_epsilon_is_computed_with_calibrates_anew():
    rows = closure("dp-appr-gaussian-rigorous", calibration=True)
    accountants = ("gaussian", "renyi", "composition", "double_mixture")
    assert {f"privacy/accountants/{name}.py" for name in accountants} <= rows
    assert {"families/pagerank/accountant.py", "families/pagerank/variants.py", "families/pagerank/mechanism.py",
            "privacy/calibration.py",
            "privacy/solving.py", "engine/methods/request.py"} <= rows  # fmt: skip
    assert "privacy/accountants/composition.py" in closure("dp-residual-1-rigorous", calibration=True)
    assert not {path for path in rows if "trees/mechanism" in path or "lots/mechanism" in path}


def test_what_predictions_read_is_stated_anew_and_trains_nothing():
    """The scope is of the method's specification, whose module lists all methods and is no root."""
    run = RUNS["dp-relation-head-rigorous"]
    own = replace(run, spec=replace(run.spec, inference=lambda cell: PredictionInput.OWN_RECORD))
    assert calibrations_digest([own]) != calibrations_digest([run])
    assert training_digest(own) == training_digest(run)


@pytest.mark.parametrize("library", ["dp-accounting", "scipy", "numpy"])
def test_another_version_of_a_library_calibrates_anew_and_trains_nothing(library, monkeypatch):
    runs = [RUNS["dp-gnn-1-rigorous"]]
    before = calibrations_digest(runs), bundle_digest(runs)
    other = versions() | {library: "0"}
    monkeypatch.setattr("dpgraph.pipeline.fingerprints.versions", lambda: other)
    assert calibrations_digest(runs) != before[0]
    assert bundle_digest(runs) == before[1]


EDITED = [  # read by the training of one family, of all, by calibrations, of a problem, and by no job
    "families/trees/train.py",
    "families/pagerank/prepared.py",
    "families/subgraphs/steps.py",
    "engine/methods/base.py",
    "families/lots/mechanism.py",
    "privacy/accountants/double_mixture.py",
    "problems/images/work.py",
    "data/splits.py",
    "reporting/tables.py",
]


@pytest.mark.parametrize("edited", EDITED)
def test_an_edit_reruns_the_cells_that_import_it_and_no_others(edited, copy, before):
    with (copy / edited).open("a") as file:
        file.write("# edited\n")
    after = digests(Package(copy))
    for name in ONES:
        assert (before[name, "train"] != after[name, "train"]) == (edited in closure(name)), name
        if CELLS[name].privacy is not None:
            changed = before[name, "calibrate"] != after[name, "calibrate"]
            assert changed == (edited in closure(name, calibration=True)), name


NEW_FILES = {
    "families/later/__init__.py": "",
    "families/later/spec.py": "from dpgraph.engine.methods.spec import MethodSpec\nSPECS = ()\n",
    "families/later/train.py": "from dpgraph.families.trees.train import tree_run\n",
    "privacy/mechanisms/later.py": "from dpgraph.privacy.mechanisms.base import NoisySteps\n",
    "privacy/accountants/later.py": "from dpgraph.privacy.accountants.renyi import Orders\n",
    "problems/later/__init__.py": "",
    "problems/later/blind.py": "from dpgraph.data.graph import Graph\n",
    "problems/later/problem.py": "from dpgraph.problems.base import Problem\n",
    "engine/preparation/later.py": "from dpgraph.engine.preparation.base import PreparedStep\n",
    "data/readers/later.py": "from dpgraph.data.raw_graph import RawGraph\n",
}


def test_new_methods_mechanisms_problems_and_readers_make_nothing_anew(copy, before):
    for name, text in NEW_FILES.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(text)
    assert digests(Package(copy)) == before


def test_a_new_optional_field_makes_nothing_anew(copy, before):
    for name in ("config/cell.py", "families/trees/spec.py", "families/pagerank/spec.py"):
        text = (copy / name).read_text()
        start = text.index("class ")
        (copy / name).write_text(text[:start] + "class Later:\n    extra: float = 1.0\n\n\n" + text[start:])
    assert digests(Package(copy)) == before


# Real edits of what is left out of fingerprints: none of them changes a number of any seed.
HARMLESS = {
    "core.errors": ('expected {allowed}', 'allowed: {allowed}'),
    "core.files": ("    return hashed.hash.hexdigest()", "    return hashed.hash.hexdigest()  # edited"),
    "core.progress": ('"""', '"""Edited. '),
    "data.download": ('"""', '"""Edited. ', ),
    "config.cell": (
        "    momentum: ", "    extra: Annotated[float, Field(ge=0)] = 0.0\n    momentum: ",
    ),
    "config.config": ("expected {message}{more}", "allowed: {message}{more}"),
    "config.documents": ('"""', '"""Edited. '),
    "config.imports": ('"""', '"""Edited. '),
    "config.paths": ('f"seed={seed}.predictions.npy"', 'f"seed={seed}.classes.npy"'),
    "config.sources": ("hashlib.sha256()", 'hashlib.sha256(b"edited")'),
    "core.outside": ("    return hashed.hexdigest()[:16]", "    return hashed.hexdigest()[:12]"),
    "families.registry": ("def trainer_of(", "def unused() -> None:\n    pass\n\n\ndef trainer_of("),
    "planning.run": ("    device: str", "    device: str\n    extra: int = 0"),
    "problems.base": ("    nodes: int", "    extra = 0\n    nodes: int"),
    "problems.registry": ('"""', '"""Edited. '),
    "engine.methods.spec": ("    without_noise: ", "    extra: int = 0\n    without_noise: "),
    "pipeline.provenance": ('"commit": _commit()', '"commit": "edited"'),
    "privacy.cache": ("digest([question", "digest([1, question"),
    "privacy.calibration": ("    seconds: float", "    extra: float = 0.0\n    seconds: float"),
    "privacy.guarantee": ('"""', '"""Edited. '),
    "privacy.solving": ('"""', '"""Edited. '),
    "privacy.accountants.renyi": ('"""', '"""Edited. '),
    "families.pagerank.accountant": ('"""', '"""Edited. '),
    "families.pagerank.epsilon": ('"""', '"""Edited. '),
}  # fmt: skip
EXAMPLES = {
    "privacy.accountants.*": "privacy.accountants.renyi",
    "families.*.*accountant": "families.pagerank.accountant",
    "families.*.epsilon": "families.pagerank.epsilon",
}


def test_every_module_that_is_left_out_has_its_edit():
    """An addition to these lists needs a reason, and a real edit here. What plans makes no seed."""
    assert set(PLANNING) == {"pipeline.bundles", "pipeline.jobs", "pipeline.run_files",
                             "config.claim", "config.claim_tests", "config.experiment",
                             "planning.plan", "config.published"}  # fmt: skip
    assert set(HARMLESS) == {*NEUTRAL, *(EXAMPLES.get(name, name) for name in ACCOUNTING)}


def quick(name):
    """A cell of the contract with a given noise: nothing is solved."""
    raw = raw_cells()[name]
    if "privacy" not in raw:
        return raw
    return {**raw, "privacy": {**raw["privacy"], "epsilon": None, "noise_multiplier": 3.0}}


# one process that has imported what is heavy, and forks for each run: source folder, cell, output folder
FORKS = """
import hashlib, importlib, json, os, sys
from dataclasses import replace
from pathlib import Path
for heavy in ("torch", "torch._dynamo", "scipy.sparse", "scipy.stats", "pydantic",
              "dp_accounting.pld.privacy_loss_distribution"):
    importlib.import_module(heavy)
graph, runs = json.loads(sys.argv[1])
for sources, cell, out in runs:
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, (sources, out)
        continue
    sys.path.insert(0, sources)
    import dpgraph
    assert dpgraph.__file__.startswith(sources), dpgraph.__file__
    from dpgraph.planning.resolve import resolve
    from dpgraph.pipeline.stages import train_cell
    out = Path(out)
    train_cell(resolve(cell), out, Path(graph), device="cpu")
    record = json.loads((out / "seed=0.json").read_text())["record"]
    (classes,) = out.glob("seed=0.*.npy")
    made = [record["metrics"], record["procedure"], hashlib.sha256(classes.read_bytes()).hexdigest()]
    loaded = [one for one in sys.modules if one.split(".")[0] == "dpgraph"]
    (out / "found.json").write_text(json.dumps({"made": made, "loaded": loaded}))
    os._exit(0)
"""


def trained(folder, runs):
    """What each run made of its seed, and the modules of the package that it left in memory."""
    save_graph(toy_graph(), folder / "graph")
    orders = [(str(sources), cell, str(folder / name)) for name, (sources, cell) in runs.items()]
    run = subprocess.run(
        [sys.executable, "-c", FORKS, json.dumps([str(folder / "graph"), orders])], capture_output=True, text=True,
        cwd=folder, env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "DPGRAPH_CACHE": str(folder)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    return {name: json.loads((folder / name / "found.json").read_text()) for name in runs}


# given noise, but of the last: its calibration is solved
LOADED = ("dp-gnn-1-rigorous", "gnn-1-none", "kipf-gcn-3-none", "dp-appr-gaussian-rigorous")


@pytest.mark.slow
def test_what_is_left_out_cannot_change_a_result(tmp_path):
    """All edits at once, of different modules: if one changed a number, so would all together."""
    copied = tmp_path / "sources/dpgraph"
    shutil.copytree(PACKAGE, copied)
    for name, (old, new) in HARMLESS.items():
        path = copied / THIS.modules[f"dpgraph.{name}"].relative_to(PACKAGE)
        text = path.read_text()
        assert old in text, name
        path.write_text(text.replace(old, new, 1))
    cell = quick("dp-residual-1-rigorous")
    runs = trained(tmp_path, {"as it is": (PACKAGE.parent, cell), "edited": (copied.parent, cell)})
    assert runs["edited"]["made"] == runs["as it is"]["made"]


def test_what_python_loads_to_train_is_in_the_closure(tmp_path):
    """All modules of the package that a training of one seed leaves in memory."""
    cells = {name: quick(name) for name in LOADED[:-1]} | {LOADED[-1]: raw_cells()[LOADED[-1]]}
    runs = trained(tmp_path, {name: (PACKAGE.parent, cell) for name, cell in cells.items()})
    for name in LOADED:
        loaded = {str(THIS.modules[one].relative_to(PACKAGE)) for one in runs[name]["loaded"]}
        left_out = {str(THIS.modules[f"dpgraph.{one}"].relative_to(PACKAGE)) for one in NEUTRAL | PLANNING}
        # specifications and builders of all methods, which load when a method is looked for
        looked_up = {
            path
            for path in loaded
            if path.endswith(("/spec.py", "/look.py", "/settings.py", "mechanism.py", "/variants.py", "/problem.py"))
            or path.endswith(("accountant.py", "accountants.py", "/records.py", "/published.py"))
            or path.startswith(("privacy/mechanisms/", "planning/", "privacy/accountants/"))
            or path.endswith("/__init__.py")
        }
        assert "pipeline/execute.py" in loaded
        rest = loaded - closure(name) - left_out - looked_up
        assert rest <= {"engine/methods/looks.py", "engine/methods/request.py", "engine/methods/spec.py",
                        "engine/methods/cost.py",
                        "families/votes/rules.py", "families/votes/caps.py",  # which rules read
                        "families/own_graphs.py",  # settings by rule, which are in the cell
                        "engine/methods/free.py",  # settings of specifications
                        "engine/models/image_convolutions.py",  # what PATE's networks cost
                        "families/votes/sensitivity.py",  # mechanisms of votes
                        "pipeline/stages.py", "pipeline/fingerprints.py",
                        "data/registry.py"}, (name, rest)  # fmt: skip


# one private cell of the contract for each class of mechanism
BY_MECHANISM = {run.mechanism: name for name, run in reversed(RUNS.items()) if run.cell.privacy is not None}
# what these read stands in the cell, or in the graph: an entry of the registry, settings
SETTINGS = {"data/registry.py", "families/pagerank/spec.py"}


def stored(task, folder):
    """Store the toy graph, or the demo data of another problem, unless it is there."""
    if task.dataset == "toy":
        save_graph(toy_graph(), folder)
    elif not folder.exists():
        assert fetch(task.dataset, folder / "raw").status == "ok"
        preprocess(task, folder / "raw", folder)
    return folder


def test_functions_that_train_are_in_the_closure(tmp_path, monkeypatch):
    """All functions of the package that a seed of each mechanism calls: none of an accountant makes its noise."""
    train_seed, left_out = execute.train_seed, {THIS.modules[f"dpgraph.{name}"] for name in NEUTRAL}
    called: set[str] = set()

    def watched(*arguments):
        sys.setprofile(lambda frame, event, _: called.add(frame.f_code.co_filename))
        try:
            train_seed(*arguments)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(execute, "train_seed", watched)
    for name in BY_MECHANISM.values():
        cell = CELLS[name] if "pagerank" in raw_cells()[name] else resolve(quick(name))
        folder = stored(cell.task, tmp_path / cell.task.folder)
        train_cell(cell, tmp_path / name, folder, device="cpu")
        ours = {Path(path) for path in called if path.startswith(f"{PACKAGE}/")} - left_out
        assert {str(path.relative_to(PACKAGE)) for path in ours} - closure(name, numbers=True) <= SETTINGS, name
        called.clear()


def test_a_cell_of_the_contract_resolves_to_the_same_modules_again():
    for name, value in raw_cells().items():
        assert training_roots(Run.resolve(resolve(value))) == training_roots(RUNS[name])


def preprocess_files(dataset):
    return {str(path.relative_to(PACKAGE)) for path in files_of(Stage(preprocess_roots(dataset), job=True), THIS)}


def test_a_data_set_is_prepared_by_its_own_reader_and_problem():
    pokec = preprocess_files("pokec-bert")
    assert {"data/readers/pokec_bert.py", "data/text/bert.py", "engine/models/text_encoder.py", "data/clusters.py",
            "problems/node_classification/prepare.py", "data/store.py"} <= pokec  # fmt: skip
    cora = preprocess_files("cora")
    assert {path for path in cora if path.startswith("data/readers/")} == {
        "data/readers/__init__.py", "data/readers/planetoid.py"
    }  # fmt: skip
    assert not {
        path for path in cora if path.startswith(("data/text/", "engine/models/", "problems/images", "families/"))
    }
    images = preprocess_files("demo-images")
    assert {"problems/images/prepare.py", "data/readers/digit_images.py"} <= images
    assert not {path for path in images if path.startswith("problems/node_classification/")}


def test_a_new_entry_of_the_registry_fetches_and_prepares_nothing_else(monkeypatch):
    before = fetch_digest("cora"), preprocess_digest("cora")
    other = entry("citeseer").model_copy(update={"title": "Another"})
    monkeypatch.setattr("dpgraph.pipeline.fingerprints.entry", {"cora": entry("cora"), "new": other}.__getitem__)
    assert (fetch_digest("cora"), preprocess_digest("cora")) == before
    assert preprocess_digest("new") != before[1]
    files = entry("cora").files[1:]
    fewer = entry("cora").model_copy(update={"files": files})
    monkeypatch.setattr("dpgraph.pipeline.fingerprints.entry", {"cora": fewer}.__getitem__)
    assert fetch_digest("cora") != before[0]
    assert preprocess_digest("cora") == before[1]  # new bytes change its input, the manifest
