"""Where each stage reads and writes: the rules and the command line both ask here."""

from __future__ import annotations

from collections.abc import Mapping
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

    @property
    def privacy(self) -> Path:
        return self.suite / "privacy"

    def calibration(self, cell: Cell) -> Path | None:
        return None if cell.calibration_key is None else self.privacy / f"{cell.calibration_key}.json"

    def calibrated(self, bundle: str) -> Path:
        """Marker of a bundle of which every calibration is there."""
        return self.suite / "calibrated" / f"{bundle}.json"

    def trained(self, bundle: str) -> Path:
        """Marker of a bundle of which every cell has its record."""
        return self.suite / "trained" / f"{bundle}.json"

    def cell(self, cell: Cell) -> Path:
        return self.suite / "cells" / cell.slug

    def result(self, cell: Cell) -> Path:
        return self.cell(cell) / "result.json"

    def predictions(self, cell: Cell, seed: int) -> Path:
        """(N,) int16: the predicted class of every node after the last step, -1 for none."""
        return self.cell(cell) / f"seed={seed}.predictions.npy"

    def exposure(self, cell: Cell, seed: int) -> Path:
        """What an attacker computes (methods/exposure.py); not there where the method offers nothing."""
        return self.cell(cell) / f"seed={seed}.exposure.npz"

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


Markers = Mapping[str, Path]  # of the bundle of each cell by its slug, or of each calibration by its key


def artefact_inputs(plan: Plan, artefact: str, trained: Markers, calibrated: Markers) -> list[Path]:
    """Results for what is computed from cells, graphs for what describes data sets, both for class frequencies.

    Confusions read predictions, embeddings and membership read exposures, all complete when their bundle's marker is
    there; accounting reads calibrations.
    """
    paths = Paths(plan.config)
    graphs = [paths.graph_record(task) for _, task in plan.tasks_of(artefact).values()]
    entries = plan.entries_of(artefact)
    cells = list(dict.fromkeys(trained[entry.cell.slug] for entry in entries if entry.cell.slug in trained))
    match plan.artefacts[artefact].view:
        case "statistics":
            return graphs
        case "class-wise":
            return [paths.results, *graphs]
        case "confusion" | "embedding":
            return [paths.results, *graphs, *cells]
        case "membership":
            return [paths.results, *cells]
        case "search":
            return cells
        case "accounting":
            keys = [entry.cell.calibration_key for entry in entries]
            return list(dict.fromkeys(calibrated[key] for key in keys if key is not None))
        case _:
            return [paths.results]


def aggregate_inputs(plan: Plan, trained: Markers) -> list[Path]:
    """Records of all cells; for hard cases the graphs that say which nodes are tested, and their labels."""
    paths = Paths(plan.config)
    tasks = [task for name, artefact in plan.artefacts.items() if artefact.view == "hard-cases"
             for _, task in plan.tasks_of(name).values()]  # fmt: skip
    return [*dict.fromkeys(trained.values()), *dict.fromkeys(map(paths.graph_record, tasks))]


def claims_inputs(plan: Plan) -> list[Path]:
    """What the claims of the plan are decided from."""
    paths = Paths(plan.config)
    class_wise = [name for name, artefact in plan.artefacts.items() if artefact.view == "class-wise"]
    graphs = [paths.graph_record(task) for name in class_wise for _, task in plan.tasks_of(name).values()]
    return [paths.results, *dict.fromkeys(graphs)]
