"""JSON schemas: they accept every YAML file of the workflow, and refuse what the models refuse."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dpgraph.cli import main
from dpgraph.config.documents import read_yaml
from dpgraph.config.expansion import merged
from dpgraph.planning.schemas import models
from tests.contract.cells import CELLS, raw_cells

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"suites": "suite", "experiments": "experiment", "settings": "setting"}
FILES = sorted([*(ROOT / "workflow").rglob("*.yaml"), ROOT / "config.yaml"])


@pytest.fixture(scope="module")
def validators(tmp_path_factory):
    """A validator for each schema that `dpgraph schemas` writes, by its name."""
    folder = tmp_path_factory.mktemp("schemas")
    assert main(["schemas", "--out", str(folder)]) == 0
    written = {
        path.relative_to(folder).as_posix().removesuffix(".schema.json"): json.loads(path.read_text())
        for path in folder.rglob("*.json")
    }
    assert set(written) == set(models())
    return {name: Draft202012Validator(schema) for name, schema in written.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_schemas_accept_every_file_of_the_workflow(validators, path):
    validator = validators[FOLDERS.get(path.parent.name, path.stem)]
    assert not [error.message[:200] for error in validator.iter_errors(json.loads(json.dumps(read_yaml(path))))]


@pytest.mark.parametrize(
    ("kind", "change"),
    [("experiment", {"methods": {"a": {"lable": "x"}}}), ("experiment", {"artefacts": 3}), ("suite", {"seeds": []})],
)
def test_schemas_refuse_wrong_keys_and_values(validators, kind, change):
    path = next(iter(sorted((ROOT / f"workflow/{kind}s").glob("*.yaml"))))
    assert not validators[kind].is_valid(read_yaml(path) | change)


@pytest.mark.parametrize("name", CELLS)
def test_schema_of_a_method_knows_its_settings_and_no_others(validators, name):
    raw, validator = raw_cells()[name], validators[f"cells/{CELLS[name].method}"]
    validator.validate(raw)
    validator.validate(json.loads(CELLS[name].model_dump_json()))
    assert not validator.is_valid(raw | {"pagerunk": {}})
    assert not validator.is_valid(merged(raw, {"training": {"learning_rat": 0.1}}))
    assert not validator.is_valid(merged(raw, {"model": {"hops": 3}}))
