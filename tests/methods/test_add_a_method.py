"""docs/add-a-method.md, walked."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import dpgraph.methods
from dpgraph.data.store import save_graph
from dpgraph.experiments.config import Config
from dpgraph.experiments.plan import load_plan, merged
from dpgraph.experiments.streams import stream
from dpgraph.methods import registry
from dpgraph.methods.stages import train_cell
from dpgraph.randomness import numpy_generator
from tests.contract.conftest import toy_graph

ROOT = Path(__file__).resolve().parents[2]


def blocks(language):
    text = (ROOT / "docs/add-a-method.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def with_frequencies(tmp_path, monkeypatch):
    """The page's file in a folder of its own that counts as part of methods/."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods/frequencies.py").write_text(blocks("python")[0])
    monkeypatch.setattr(dpgraph.methods, "__path__", [*dpgraph.methods.__path__, str(tmp_path / "methods")])
    registry.methods.cache_clear()
    yield
    registry.methods.cache_clear()


def test_the_page_works(with_frequencies, tmp_path):
    assert "frequencies" in registry.methods()
    for folder in ("suites", "experiments"):
        (tmp_path / folder).mkdir()
    suite = (ROOT / "workflow/suites/demo.yaml").read_text()
    (tmp_path / "suites/demo.yaml").write_text(suite)
    for path in (ROOT / "workflow/experiments").glob("*.yaml"):
        (tmp_path / "experiments" / path.name).write_text(path.read_text())
    experiment = yaml.safe_load((ROOT / "workflow/experiments/daigavane.yaml").read_text())
    row, place = (yaml.safe_load(block) for block in blocks("yaml"))
    before = experiment["artefacts"]["table1"]["methods"]
    experiment = merged(experiment, row, place)
    experiment["artefacts"]["table1"]["methods"] += before
    (tmp_path / "experiments/daigavane.yaml").write_text(yaml.safe_dump(experiment))
    plan = load_plan(Config(), tmp_path)
    entry = next(entry for entry in plan.entries if entry.method_id == "frequencies")
    graph = toy_graph()
    save_graph(graph, tmp_path / "graph")
    record = train_cell(entry.cell, tmp_path / "out", tmp_path / "graph", device="cpu")
    assert record.status == "ok", record.reason
    accuracy = next(metric.value for metric in record.seeds[0].metrics if metric.metric == "accuracy/train")
    labels = graph.labels[graph.train_nodes]
    guesses = numpy_generator(*stream(entry.cell, "guesses", entry.cell.seeds[0]))
    drawn = guesses.choice(3, size=graph.num_nodes, p=np.bincount(labels) / len(labels))
    assert accuracy == pytest.approx((drawn[graph.train_nodes] == labels).mean())
