"""docs/how-to/add-a-method.md, walked; and what a new method, mechanism, problem or setting leaves alone."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.workflow import forked
from tests.workflow.conftest import ROOT

PAGE = (ROOT / "docs/how-to/add-a-method.md").read_text()
PLAIN = (("nearest", "spec"), ("nearest", "train"))
PRIVATE = (("smooth", "spec"), ("smooth", "variants"), ("smooth", "train"))


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def own(finished):
    """The finished workflow with sources of its own."""
    source = finished.folder / "src"
    source.unlink()
    shutil.copytree(ROOT / "src", source)
    return finished


def add_methods(folder: Path) -> None:
    """Write the files of both methods of the page."""
    for (family, name), text in zip((*PLAIN, *PRIVATE), blocks("python"), strict=True):
        path = folder / f"src/dpgraph/families/{family}/{name}.py"
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)


def python(folder: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [forked.python(), *arguments], cwd=cwd, capture_output=True, text=True,
        env={"PYTHONPATH": f"{folder / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_the_method_without_privacy_is_short():
    texts = blocks("python")[: len(PLAIN)]
    assert sum(bool(line) for text in texts for line in text.splitlines()) <= 25


def test_the_method_without_privacy_passes_its_contract(tmp_path):
    (tmp_path / "src").mkdir()
    shutil.copytree(ROOT / "src/dpgraph", tmp_path / "src/dpgraph")  # compiled as it is
    add_methods(tmp_path)
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "nearest-mean", "tests/contract")
    run = python(tmp_path, *arguments, cwd=ROOT)
    assert run.returncode == 0, run.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) >= 5


@pytest.mark.slow
def test_the_page_works_and_trains_nothing_else(own):
    add_methods(own.folder)
    assert own.jobs(targets=("cells", "tables")) == {}  # nothing that is there depends on it

    listed = python(own.folder, "-m", "dpgraph", "list", "methods", "--suite", "tiny", cwd=own.folder)
    assert "DP-SGD or DP-Adam of an MLP on own records, with smoothed labels." in listed.stdout, listed.stderr
    assert "Predicts the class with the nearest mean" in listed.stdout

    path = own.folder / "workflow/experiments/daigavane.yaml"
    text = path.read_text()
    row, place = blocks("yaml")
    experiment = yaml.safe_load(text)
    experiment["methods"] |= yaml.safe_load(row)["methods"]
    experiment["artefacts"]["table1"]["methods"] += yaml.safe_load(place)["artefacts"]["table1"]["methods"]
    path.write_text(yaml.safe_dump(experiment, sort_keys=False))
    suite = own.folder / "workflow/suites/tiny.yaml"
    grids = "methods: [gcn-1, dp-gcn-1, dp-gcn-1-published, mlp, dp-mlp]"
    refused = suite.read_text().replace(grids, grids.replace("dp-mlp]", "dp-mlp, dp-smooth]"))
    suite.write_text(refused)  # its rules set max_degree for dp-*
    run = own.snakemake("-n", targets=("cells",))
    assert run.returncode == 2
    assert "dp-smooth on sbm: privacy.max_degree=3: unknown key" in run.stderr
    suite.write_text(refused.replace('methods: ["dp-*"]', 'methods: ["dp-[gm]*"]'))

    before = {p: p.stat().st_mtime_ns for p in (own.folder / "results/tiny/cells").glob("*/seed=?.json")}
    run = own.snakemake(targets=("cells",))
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert {p: p.stat().st_mtime_ns for p in before} == before
    (cell,) = (own.folder / "results/tiny/cells").glob("*.dp-smooth-0hop.*")
    record = json.loads((cell / "result.json").read_text())
    assert record["status"] == "ok"
    assert 11 < record["statement"]["rigorous"]["epsilon"] <= 12
    assert record["statement"]["procedure"]["terms"][0]["clipped"] == "each root's gradient"


@pytest.mark.slow
def test_the_private_method_is_tested_by_itself(own):
    add_methods(own.folder)
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "dp-smooth")
    run = python(own.folder, *arguments, "tests/contract", "tests/engine/methods/test_soundness.py", cwd=ROOT)
    assert run.returncode == 0, run.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) >= 12


LATER = {
    "privacy/mechanisms/later.py": "from dpgraph.privacy.mechanisms.base import NoisySteps\n",
    "privacy/accountants/later.py": "from dpgraph.privacy.accountants.renyi import Orders\n",
    "problems/later/__init__.py": "",
    "problems/later/blind.py": "from dpgraph.data.graph import Graph\n",
    "problems/later/problem.py": (
        "from dpgraph.problems.base import Problem\n"
        "PROBLEM = Problem('later', 'Later.', store='dpgraph.problems.later.blind:store', work='nothing:yet')\n"
    ),
    "data/readers/later.py": "from dpgraph.data.raw_graph import RawGraph\n",
}
ENTRY = """
later:
  title: A later data set
  home: https://example.org
  licence: {name: CC0}
  citation: none
  reader: sbm
  options: {name: later, nodes: 100, classes: 2, features: 3}
"""


def test_a_new_mechanism_problem_and_data_set_plan_nothing(own):
    for name, text in LATER.items():
        path = own.folder / "src/dpgraph" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    path = own.folder / "src/dpgraph/data/registry.yaml"
    path.write_text(path.read_text() + ENTRY)
    assert own.jobs(targets=("cells", "tables")) == {}


def test_new_optional_settings_rename_and_plan_nothing(own):
    for module, line, new in (
        ("config/cell.py", "    momentum: ", "    later: Annotated[float, Field(ge=0)] = 0.5\n"),
        ("families/trees/spec.py", "    variant: ", "    later: Annotated[float, Field(ge=0)] = 0.5\n"),
        ("config/cell.py", "    features: str", "    later: int = 3\n"),
    ):
        path = own.folder / "src/dpgraph" / module
        text = path.read_text()
        assert line in text
        path.write_text(text.replace(line, new + line, 1))
    assert own.jobs(targets=("cells",)) == {}


@pytest.mark.slow
def test_an_edit_of_one_method_trains_its_cells_only(own):
    path = own.folder / "src/dpgraph/families/trees/plain.py"
    path.write_text(path.read_text() + "\n# edited\n")
    before = {p: p.stat().st_mtime_ns for p in (own.folder / "results/tiny/cells").glob("*/seed=?.json")}
    run = own.snakemake(targets=("cells",))
    assert run.returncode == 0, run.stderr
    trained = {p.parent.name.split(".")[1] for p, when in before.items() if p.stat().st_mtime_ns != when}
    assert {name.split("-")[0] for name in trained} == {"gnn", "mlp"}
