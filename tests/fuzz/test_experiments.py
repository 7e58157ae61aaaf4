"""Suites and experiment files: the project's own, with wrong values in wrong places."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import yaml

from dpgraph.config.config import Config, parse
from dpgraph.config.documents import read_yaml
from dpgraph.config.experiment import Experiment, Search
from dpgraph.config.suite import Grid, Suite
from dpgraph.planning.plan import load_plan
from tests.fuzz.harness import SEEDS, files_in, fuzzed, told
from tests.fuzz.strategies import mangled

WORKFLOW = Path(__file__).resolve().parents[2] / "workflow"
SUITES = [read_yaml(WORKFLOW / "suites" / f"{name}.yaml") for name in ("demo", "mnist", "ablations")]
EXPERIMENTS = [read_yaml(path) for path in sorted((WORKFLOW / "experiments").glob("*.yaml"))]
TINY_SUITE = {
    "name": "tiny",
    "title": "t",
    "note": "n",
    "seeds": 2,
    "tasks": {"a": {"label": "A", "task": {"dataset": "cora", "setting": "disjoint"}, "published": "cora"}},
    "papers": {
        "p": {
            "rules": [{"methods": ["*"], "set": {"training": {"learning_rate": 0.1, "batch_size": 4, "steps": 5}}}],
            "artefacts": {
                "t": [{"tasks": ["a"], "epsilons": [1, 2]}],
                "s": [{"tasks": ["a"], "epsilons": [1], "values": {"k1": {"privacy": {"max_degree": 1}}}}],
                "h": [{"tasks": ["a"]}],
            },
        }
    },
}
TINY_EXPERIMENT = {
    "paper": "p",
    "title": "t",
    "citation": "c",
    "published": "daigavane2022-node-level-dp-gnn",
    "defaults": {"model": {"architecture": "gcn"}},
    "methods": {
        "gcn": {"label": "G", "method": "gnn"},
        "dp-gcn": {"label": "D", "method": "dp-gnn", "set": {"privacy": {"delta": 1e-5}}},
    },
    "artefacts": {
        "t": {"kind": "table", "view": "accuracy", "title": "T", "methods": ["gcn", "dp-gcn"]},
        "s": {"kind": "figure", "view": "sweep", "title": "S", "methods": ["dp-gcn"], "sweep": {"label": "K"}},
        "h": {
            "kind": "table",
            "view": "search",
            "title": "H",
            "methods": ["gcn"],
            "search": {"strategy": "grid", "space": {"training.learning_rate": [0.1, 0.2], "model.width": [2, 3]}},
        },
    },
    "claims": {
        "C1": {
            "statement": "s",
            "source": "t",
            "test": {"kind": "greater", "artefact": "t", "better": ["gcn"], "worse": ["dp-gcn"]},
        }
    },
}


@fuzzed(200, seed=SEEDS)
def test_suite_trees(seed):
    random = Random(seed)
    tree = mangled(random.choice(SUITES), random)
    told(lambda: parse(Suite, tree, "suite.yaml"))


@fuzzed(200, seed=SEEDS)
def test_experiment_trees(seed):
    random = Random(seed)
    tree = mangled(random.choice(EXPERIMENTS), random)
    told(lambda: parse(Experiment, tree, "experiment.yaml"))


@fuzzed(200, seed=SEEDS)
def test_plans(tmp_path_factory, seed):
    """Whatever both files say, a plan comes of it or one line."""
    random = Random(seed)
    folder = tmp_path_factory.getbasetemp() / "workflow"
    suite, experiment = TINY_SUITE, TINY_EXPERIMENT
    if random.random() < 0.5:
        suite = mangled(suite, random, PLAIN)
    else:
        experiment = mangled(experiment, random, PLAIN)
    for name, value in (("suites/tiny.yaml", suite), ("experiments/p.yaml", experiment)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(yaml.safe_dump(value), encoding="utf-8")
    told(lambda: load_plan(Config(suite="tiny"), folder).cells)
    assert files_in(folder) == {"suites", "experiments", "suites/tiny.yaml", "experiments/p.yaml"}


PLAIN = (None, True, 0, -1, 1, 10**30, 0.5, "", "a", "p", "t", "*", "[", "a.b", "x" * 300, [], {}, [1], {"a": 1}, [[]])


@pytest.mark.parametrize(
    ("model", "tree", "message"),
    [
        (Grid, {"tasks": ["a"], "epsilons": [float("inf")]}, "epsilons.0=inf: expected a finite number"),
        (Search, {"strategy": "random", "trials": 10**9, "space": {"a": [1]}}, "trials=1000000000: expected less than"),
        (Config, {"seeds": 10**9}, "seeds=1000000000: expected less than or equal to 10000"),
    ],
    ids=range(3),
)
def test_a_plan_that_would_never_end(model, tree, message):
    assert message in str(told(lambda: parse(model, tree, "here")))
