"""Results of the demo suite with plausible random values, made from the plan: no training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.store import save_graph
from dpgraph.planning.plan import Entry, Plan, load_plan
from dpgraph.reporting.aggregate import COLUMNS, GRAPH, TRAIN_NODES, graph_numbers
from dpgraph.reporting.claims.parts import VERDICTS, PartResult, parts_as_text
from dpgraph.reporting.claims.registry import COMPUTED
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.drawing import canvas
from dpgraph.reporting.protection import MODES
from dpgraph.reporting.views.registry import derived_metrics
from tests.plans import plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"
REASON = "Lemma 2 is false for Algorithm 1; the percentile threshold is data-dependent & not charged"
BASE = {"gnn": 0.80, "mlp": 0.62, "dp-gnn": 0.70, "dp-mlp": 0.55, "dp-residual": 0.72}
BASE |= {"kipf-gcn": 0.78, "dp-subgraph": 0.45, "dp-pure-noise": 0.36, "random": 0.17, "majority": 0.3, "dp-lots": 0.60}
BASE |= {"appr": 0.8, "dp-appr": 0.7, "cnn": 0.95, "cosine": 0.06, "linear-relation": 0.08}
BASE |= {"relation-head": 0.12, "dp-relation-head": 0.10, "relation-encoder": 0.14, "dp-relation-encoder": 0.09}
BASE |= {
    "pate": 0.79,
    "dp-pate": 0.74,
    "node-pate": 0.7,
    "dp-node-pate": 0.6,
    "base-encoder": 0.05,
    "dp-units": 0.7,
    "dp-votes": 0.7,
}
PROTECTION = (*(f"{name}_{mode}" for mode in MODES for name in ("relation", "scope")), "published_unmet", "uncovered")
SPLITS = Path(__file__).parent / "splits"
STYLE, EMBEDDED = canvas.STYLE, "pdf.fonttype: 42"


def result_rows(entry: Entry, mean: float | None = None, std: float = 0.01, **changed: object) -> list[dict]:
    """Rows of one cell: test accuracy at the last step and one step before, per seed."""
    cell, privacy = entry.cell, entry.cell.privacy
    variant = "none" if privacy is None else privacy.variant
    claimed = variant.removesuffix("-text")  # both readings of DP-MLP are the paper's own
    target = math.nan if entry.target_epsilon is None else entry.target_epsilon
    private = privacy is not None
    bound = BASE[cell.method] + (0.02 * math.log(entry.target_epsilon or 1.0) if private else 0.0)
    generator = numpy_generator("test", entry.paper, cell.slug)
    rows = []
    for seed in cell.seeds:
        value = (bound if mean is None else mean) + std * float(generator.standard_normal())
        row = {
            "paper": entry.paper,
            "cell": cell.slug,
            "dataset": cell.task.dataset,
            "setting": cell.task.setting,
            "split": cell.task.split,
            "features": cell.task.features,
            "method": cell.method,
            "variant": variant,
            "architecture": cell.network[0],
            "hops": cell.network[1],
            "optimizer": cell.training.optimizer,
            "epsilon_target": target,
            "seed": seed,
            "status": "ok",
            "reason": "",
            "step": 100,
            "final": True,
            "metric": "accuracy/test",
            "class_id": -1,
            "value": value,
            "delta": 8.34e-5 if private else math.nan,
            "eps_published": {"none": math.inf, "published": target}.get(claimed, 3.1 * target),
            "eps_published_reason": "",
            "eps_rigorous": {"none": math.inf, "published": math.nan}.get(claimed, 0.999 * target),
            "eps_rigorous_reason": REASON if claimed == "published" else "",
            **protected(claimed, cell.network[1]),
            "fallback": "",
            "noise_std_over_clip": 12.5 if private else 0.0,
            "steps": 100,
            "seconds": 3.25,
            "cpu_seconds": 2.5,
            "steps_per_second": 30.8,
            "peak_memory_bytes": 420_000_000,
            "device": "cpu",
            "processor": "",
            "commit": "0123456789ab",
        }
        row |= changed
        rows += [
            row,
            row | {"step": 50, "final": False, "value": 0.01},
            row | {"metric": "accuracy/val", "value": 0.02},
        ]
    return rows


def protected(variant: str, hops: int) -> dict[str, str]:
    """Nothing is proved of the paper's mechanism, and predictions of an MLP read no edge."""
    if variant == "none":
        return dict.fromkeys(PROTECTION[:4], "none") | dict.fromkeys(PROTECTION[4:], "")
    proved = ("none", "none") if variant == "published" else ("node-null", "parameters" if hops else "joint")
    return dict(zip(PROTECTION, ("node-remove", "parameters", *proved, "", ""), strict=True))


def missing_row(entry: Entry, status: str, reason: str) -> dict:
    first = result_rows(entry)[0]
    nothing = dict.fromkeys(
        ("value", "delta", "eps_published", "eps_rigorous", "seconds", "steps_per_second"), math.nan
    )
    nothing |= dict.fromkeys(PROTECTION, "")
    return first | nothing | {"seed": -1, "metric": "", "status": status, "reason": reason, "eps_rigorous_reason": ""}


def frame_of(rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS)).drop_duplicates(ignore_index=True).astype(COLUMNS)


def with_derived(plan: Plan, frame: pd.DataFrame) -> pd.DataFrame:
    """Add what views derive from files of the plan's cells, as the aggregation does."""
    final = frame[frame["final"] & (frame["metric"] == "accuracy/test")]
    places = {key: rows.iloc[0].to_dict() for key, rows in final.groupby(["paper", "cell", "seed"])}
    added = [
        places[place] | {"metric": one.metric, "value": one.value, "class_id": one.class_id, "reason": one.reason}
        for place, metrics in derived_metrics(plan).items()
        if place in places
        for one in metrics
    ]
    return pd.concat([frame, frame_of(added)], ignore_index=True) if added else frame


def graph_rows(
    plan: Plan,
    artefact: str,
    records: Mapping[str, Mapping[str, Any] | None],
    counts: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> pd.DataFrame:
    """Facts of graphs as the aggregation keeps them: records as graph.json has them, by task."""
    empty = {name: "" if kind == "string" else math.nan if kind == "float64" else 0 for name, kind in COLUMNS.items()}
    rows: list[dict] = []
    for task_id, (_, task) in plan.tasks_of(artefact).items():
        if (record := records.get(task_id)) is None and task_id not in counts:
            continue
        facts = dict((record or {}).get("statistics") or {})
        facts["counted"] = ((record or {}).get("meta") or {}).get("counted")
        numbers = graph_numbers(facts) or {GRAPH: math.nan}
        own = empty | task.model_dump(mode="json") | {"seed": -1, "class_id": -1, "final": True, "status": "ok"}
        if record is not None and "nodes" not in facts and "reason" in record:
            own |= {"status": "not run", "reason": f"data not available: {record['reason']}"}
        rows += [own | {"metric": name, "value": value} for name, value in numbers.items()]
        rows += [own | {"metric": TRAIN_NODES, "class_id": number, "value": count}
                 for number, count in enumerate(counts.get(task_id, ()))]  # fmt: skip
    return frame_of(rows)


def first_entries(plan: Plan) -> list[Entry]:
    """Each cell once."""
    return list({(entry.paper, entry.cell.slug): entry for entry in plan.entries}.values())


@pytest.fixture(scope="session", autouse=True)
def computed_once() -> Iterator[None]:
    """Claims that need no training are computed once in a process: some take ten seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for name, function in COMPUTED.items():
            patch.setitem(COMPUTED, name, cache(function))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_fonts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Draw letters into a PDF: to embed their fonts takes a third of a figure's time. drawing/test_figures.py does."""
    text = STYLE.read_text(encoding="utf-8")
    assert EMBEDDED in text
    style = tmp_path_factory.mktemp("style") / STYLE.name
    style.write_text(text.replace(EMBEDDED, "pdf.fonttype: 3"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "STYLE", style)
        yield


@pytest.fixture(scope="session")
def plan() -> Plan:
    return plan_of(seeds=3)


@pytest.fixture(scope="session")
def results(plan: Plan) -> pd.DataFrame:
    """All ok but two: a non-private GCN that diverged and a DP-MLP without data."""
    rows: list[dict] = []
    for entry in first_entries(plan):
        if entry.task_id == "sbm-clustered" and entry.method_id == "gcn-2":
            rows.append(missing_row(entry, "failed", "diverged: non-finite loss at step 41"))
        elif entry.task_id == "sbm-clustered" and entry.method_id == "dp-mlp":
            rows.append(missing_row(entry, "not run", "data not available"))
        else:
            rows += result_rows(entry)
    return frame_of(rows)


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., list[dict]]:
    return result_rows


@pytest.fixture(scope="session")
def as_frame() -> Callable[[list[dict]], pd.DataFrame]:
    return frame_of


@pytest.fixture(scope="session")
def claims(plan: Plan) -> pd.DataFrame:
    """Claims as claims.csv has them: every verdict once, the others not run. Deciding them takes half a minute."""
    table = claims_table(plan, None)
    decided = {
        "reason": "",
        "evidence": "Votes − own records: 1.0 ± 0.2",
        "size": 0.05,
        "power": 0.8,
        "n": 5,
        "data": "here",
        "parts": parts_as_text([PartResult("", reason="seen", n=5, power=0.8, p_for=0.5, p_against=0.5)]),
    }
    for row, verdict in enumerate(VERDICTS[:-1]):
        table.loc[row, ["verdict", *decided]] = [verdict, *decided.values()]
    return table


@pytest.fixture(scope="session")
def paper_plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A small suite on two of the paper's data sets."""
    folder = tmp_path_factory.mktemp("workflow")
    (folder / "suites").mkdir()
    (folder / "experiments").symlink_to(WORKFLOW / "experiments")
    (folder / "suites" / "small.yaml").write_text(SMALL_SUITE, encoding="utf-8")
    return load_plan(Config(suite="small"), folder)


SMALL_SUITE = """
name: small
title: Two of the paper's data sets
note: For tests.
seeds: 4
tasks:
  arxiv:
    label: ogbn-arxiv
    task: {dataset: ogbn-arxiv}
    published: ogbn-arxiv
  reddit:
    label: reddit
    task: {dataset: reddit-saint}
    published: reddit
papers:
  daigavane:
    rules:
      - set: {training: {learning_rate: 0.01, batch_size: 1000, steps: 10}}
    artefacts:
      table1:
        - {tasks: [arxiv, reddit], epsilons: [6, 12]}
      table7:
        - {tasks: [arxiv, reddit]}
      fig2:
        - methods: [gcn-1, mlp, dp-gcn-1, dp-gcn-1-published, dp-mlp, dp-mlp-published, dp-mlp-published-text]
          tasks: [arxiv, reddit]
          epsilons: [2, 6, 12]
"""


@pytest.fixture(scope="session")
def views_plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Sweeps, curves along training and classes, on the paper's names, with artefacts and claims of its own."""
    folder = tmp_path_factory.mktemp("views")
    for name in ("suites", "experiments"):
        (folder / name).mkdir()
    (folder / "suites" / "views.yaml").write_text(VIEWS_SUITE, encoding="utf-8")
    (folder / "experiments" / "daigavane.yaml").write_text(VIEWS_EXPERIMENT, encoding="utf-8")
    return load_plan(Config(suite="views"), folder)


@pytest.fixture(scope="session")
def splits_plan() -> Plan:
    """Graph splits: several epsilons per method, a control, accounting, hard cases, confusions."""
    return load_plan(Config(suite="splits"), SPLITS)


def splits_rows(entry: Entry, mean: float | None = None, std: float = 0.01) -> list[dict]:
    """As `result_rows`; what is proved of a subgraph is weaker than what is published, of pure noise it is 0."""
    changed: dict[str, object] = {}
    if entry.cell.privacy is not None:
        target = entry.target_epsilon or 1.0
        factor = {"dp-pure-noise": 0.0, "dp-lots": 0.8}.get(entry.cell.method, 1.7 * parts_of(entry))
        if entry.cell.privacy.variant != "published":
            factor = 1.0
        changed = {"eps_published": target, "eps_rigorous": factor * target, "eps_rigorous_reason": "", "delta": 1e-5}
        published = "subgraph" if parts_of(entry) > 1 else "graph"
        changed |= {"relation_published": published, "relation_rigorous": "graph", "scope_rigorous": "parameters"}
    return result_rows(entry, mean, std, **changed)


def parts_of(entry: Entry) -> int:
    """s; 1 for a method without parts."""
    return getattr(entry.cell.training, "num_splits", None) or 1


@pytest.fixture(scope="session")
def splits_rows_of() -> Callable[..., list[dict]]:
    return splits_rows


@pytest.fixture(scope="session")
def splits_results(splits_plan: Plan) -> pd.DataFrame:
    rows: list[dict] = []
    for entry in first_entries(splits_plan):
        share, parts = getattr(entry.cell.training, "train_share", 1.0), parts_of(entry)
        mean = BASE[entry.cell.method] + 0.05 * math.log10(share * parts) * (entry.cell.method != "dp-pure-noise")
        rows += splits_rows(entry, mean + 0.01 * math.log(entry.target_epsilon or 1.0))
    return frame_of(rows)


@pytest.fixture
def splits_run(tmp_path: Path, splits_plan: Plan) -> Plan:
    """The plan with folders of its own, graphs of 12 nodes for Cora and PubMed (nodes 0 to 8 tested) and no results."""
    plan = dataclasses.replace(splits_plan, config=Config(suite="splits", data=str(tmp_path), results=str(tmp_path)))
    pointers, entries = np.zeros(13, dtype=np.int64), np.zeros(0, dtype=np.int32)
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, -1])
    split = np.array([TEST] * 9 + [TRAIN] * 2 + [TEST], dtype=np.uint8)
    features = np.zeros((12, 1), dtype=np.float32)
    graph = Graph(
        name="toy",
        out_ptr=pointers,
        out_idx=entries,
        in_ptr=pointers,
        in_idx=entries,
        features=features,
        labels=labels,
        split=split,
        num_classes=3,
    )
    for task in ("cora", "pubmed"):
        save_graph(graph, Paths(plan.config).graph(plan.task(task)))
    return plan


VIEWS_EXPERIMENT = """
paper: daigavane
title: Node-Level Differentially Private Graph Neural Networks
citation: Daigavane et al.
published: daigavane2022-node-level-dp-gnn
defaults: {model: {architecture: gcn, hops: 1}}
methods:
  gcn: &gcn
    label: GCN
    method: gnn
    set: {model: {hops: 1}}
    published: &of_gcn {table1: {model: GCN}, table3: {model: GCN}, table5: {model: GCN}, table6: {model: GCN}}
  gin:
    label: GIN
    method: gnn
    set: {model: {architecture: gin}}
    published: {table3: {model: GIN}}
  dp-gcn-published:
    label: DP-GCN, paper's mechanism
    method: dp-gnn
    set: {privacy: {variant: published}}
    published: &of_dp
      table1: {model: DP-GCN, optimizer: Adam}
      table3: {model: DP-GCN}
      table5: {model: DP-GCN, other_params: layers=1}
      table6: {model: DP-GCN}
  dp-gcn:
    label: DP-GCN, rigorous
    method: dp-gnn
    set: {privacy: {variant: rigorous}}
    published: *of_dp
  dp-residual:
    label: DP-GCN, residual clipping
    method: dp-residual
    set: {privacy: {variant: rigorous}}
  mlp:
    label: MLP
    method: mlp
    set: {model: {architecture: mlp, hops: 0}}
    published: {table1: {model: MLP}}
artefacts:
  table3: {kind: table, view: accuracy, title: Architectures, methods: [gcn, gin, dp-gcn, mlp]}
  table5:
    kind: table
    view: sweep
    title: By batch size
    sweep:
      label: Batch size m
      settings: [training.batch_size, training.sampling_rate, epochs]
      published_key: batch_size
    methods: [gcn, dp-gcn-published, dp-gcn]
  table6:
    kind: table
    view: sweep
    title: By degree
    sweep: {label: K, settings: [privacy.max_degree, privacy.list_cap, training.max_degree], published_key: K}
    methods: [gcn, dp-gcn]
  batches:
    kind: figure
    view: sweep
    title: By batch size
    sweep:
      label: Batch size m
      settings: [training.batch_size, training.sampling_rate, epochs]
      published_key: batch_size
    published_table: table5
    methods: [gcn, dp-gcn-published, dp-gcn]
  fig2:
    kind: figure
    view: privacy-utility
    title: Two axes
    methods: [gcn, dp-gcn-published, dp-gcn, dp-residual, mlp]
  residual: {kind: figure, view: privacy-utility, title: One axis, methods: [gcn, dp-residual]}
  fig3b:
    kind: figure
    view: privacy-utility
    title: Along training
    sweep: {label: K, settings: [privacy.max_degree, privacy.list_cap, training.max_degree], published_key: K}
    published_table: table6
    along_training: true
    methods: [dp-gcn-published, dp-gcn]
  fig4: {kind: figure, view: class-wise, title: Classes, methods: [gcn, dp-gcn-published, dp-gcn, mlp]}
  classes: {kind: table, view: class-wise, title: Classes, methods: [gcn, dp-gcn]}
"""
VIEWS_SUITE = """
name: views
title: Views
note: For tests.
seeds: 4
tasks:
  arxiv:
    label: ogbn-arxiv
    task: {dataset: ogbn-arxiv}
    published: ogbn-arxiv
  other:
    label: Another graph
    task: {dataset: cora}
papers:
  daigavane:
    rules:
      - set: {training: {learning_rate: 0.01, batch_size: 1000, steps: 100, evaluations: 4}}
    artefacts:
      table3:
        - {tasks: [arxiv, other], epsilons: [12]}
      table5: &batches
        - tasks: [arxiv, other]
          epsilons: [12]
          values:
            "2500": {training: {batch_size: 2500}}
            "10000": {training: {batch_size: 10000}}
            full: {training: {batch_size: 90941}}
      batches: *batches
      table6:
        - methods: [gcn]
          tasks: [arxiv]
          values: {"3": {training: {max_degree: 3}}, "10": {training: {max_degree: 10}}}
        - methods: [dp-gcn]
          tasks: [arxiv]
          epsilons: [12]
          values: &degrees {"3": {privacy: {max_degree: 3}}, "10": {privacy: {max_degree: 10}}}
      fig2:
        - {tasks: [arxiv], epsilons: [2, 12]}
      residual:
        - {tasks: [arxiv], epsilons: [2, 12]}
      fig3b:
        - {tasks: [arxiv], epsilons: [12], values: *degrees}
      fig4:
        - {tasks: [arxiv, other], epsilons: [6, 12]}
      classes:
        - {tasks: [arxiv], epsilons: [12]}
"""
