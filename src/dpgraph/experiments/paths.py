"""Where each stage reads and writes: the rules and the command line both ask here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpgraph.experiments.cell import Cell, Task
from dpgraph.experiments.config import Config
from dpgraph.experiments.plan import Plan


@dataclass(frozen=True)
class Paths:
    """All paths of one config; a suite's results lie below results/<suite>/ only."""

    config: Config

    @property
    def data(self) -> Path:
        return Path(self.config.data)

    @property
    def suite(self) -> Path:
        return Path(self.config.results) / self.config.suite

    def raw(self, dataset: str) -> Path:
        return self.data / "raw" / dataset

    def manifest(self, dataset: str) -> Path:
        return self.raw(dataset) / "manifest.json"

    def graph(self, task: Task) -> Path:
        return self.data / "graphs" / task.folder

    def graph_record(self, task: Task) -> Path:
        return self.graph(task) / "graph.json"

    def calibration(self, cell: Cell) -> Path | None:
        return None if cell.calibration_key is None else self.suite / "privacy" / f"{cell.calibration_key}.json"

    def cell(self, cell: Cell) -> Path:
        return self.suite / "cells" / cell.slug

    def result(self, cell: Cell) -> Path:
        return self.cell(cell) / "result.json"

    @property
    def results(self) -> Path:
        return self.suite / "results.parquet"

    @property
    def claims(self) -> Path:
        return self.suite / "claims.csv"

    @property
    def report(self) -> Path:
        return self.suite / "report.html"

    def table(self, artefact: str, suffix: str) -> Path:
        return self.suite / "tables" / f"{artefact}.{suffix}"

    def figure(self, artefact: str, suffix: str) -> Path:
        return self.suite / "figures" / f"{artefact}.{suffix}"


def artefact_files(plan: Plan, kind: str, *suffixes: str) -> list[Path]:
    """Files of the plan's tables or figures, one per suffix."""
    paths = Paths(plan.config)
    place = paths.table if kind == "table" else paths.figure
    return [place(name, suffix) for name, spec in plan.artefacts.items() if spec.kind == kind for suffix in suffixes]


def artefact_inputs(plan: Plan, artefact: str) -> list[Path]:
    """Results for what is computed from cells, graphs for what describes data sets, both for class frequencies."""
    paths = Paths(plan.config)
    graphs = [paths.graph_record(task) for _, task in plan.tasks_of(artefact).values()]
    return {"statistics": graphs, "class-wise": [paths.results, *graphs]}.get(
        plan.artefacts[artefact].view, [paths.results]
    )


def claims_inputs(plan: Plan) -> list[Path]:
    """What the claims of the plan are decided from."""
    class_wise = [name for name, artefact in plan.artefacts.items() if artefact.view == "class-wise"]
    paths = [Paths(plan.config).results, *(path for name in class_wise for path in artefact_inputs(plan, name))]
    return list(dict.fromkeys(paths))
