"""The files that each stage reads and writes; the rules and the command line both use them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dpgraph.config.cell import Cell, Task
from dpgraph.config.config import Config
from dpgraph.config.frozen import digest
from dpgraph.core.errors import UserError


def no_project(workflow: Path = Path("workflow")) -> UserError:
    """Return the error of a command that needs a project and is run outside its folder."""
    folder, needed = workflow.absolute().parent, f"Snakefile, {workflow.name}/suites"
    return UserError(
        f"{folder}: no project here ({needed}): run in the folder of one, or make one: dpgraph new-project FOLDER"
    )


def predictions_path(folder: Path, seed: int) -> Path:
    """Return (N,) int16 in a cell's folder: the predicted class of every node after the last step, -1 for none."""
    return folder / f"seed={seed}.predictions.npy"


def exposure_path(folder: Path, seed: int) -> Path:
    """Return the file of what an attacker computes (exposure.py of the problem)."""
    return folder / f"seed={seed}.exposure.npz"


@dataclass(frozen=True)
class Paths:
    """The paths of one config; a suite's results are in results/<suite>/ only."""

    config: Config

    @cached_property
    def data(self) -> Path:
        return Path(self.config.data)

    @cached_property
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

    @cached_property
    def privacy(self) -> Path:
        return self.suite / "privacy"

    def calibration(self, cell: Cell) -> Path | None:
        return None if cell.calibration_key is None else self.privacy / f"{cell.calibration_key}.json"

    def calibrated(self, bundle: str) -> Path:
        """Return the marker of a bundle whose calibrations are all there."""
        return self.suite / "calibrated" / f"{bundle}.json"

    def trained(self, bundle: str) -> Path:
        """Return the marker of a bundle whose cells all have a record."""
        return self.suite / "trained" / f"{bundle}.json"

    def unfinished(self, bundle: str) -> Path:
        """Return the file of the last job of a bundle that ended with cells out of memory."""
        return self.suite / "unfinished" / f"{bundle}.json"

    def runs(self, stage: str, bundle: str) -> Path:
        """Return the file of a bundle's runs, which the workflow writes and the bundle's job reads."""
        return self.suite / "runs" / stage / f"{bundle}.json"

    def cell(self, cell: Cell) -> Path:
        return self.suite / "cells" / cell.slug

    def result(self, cell: Cell) -> Path:
        return self.cell(cell) / "result.json"

    def predictions(self, cell: Cell, seed: int) -> Path:
        return predictions_path(self.cell(cell), seed)

    def exposure(self, cell: Cell, seed: int) -> Path:
        return exposure_path(self.cell(cell), seed)

    @property
    def results(self) -> Path:
        """Return the results of the suite; a plan of some artefacts has a file of its own, which replaces no other."""
        if self.config.artefacts is None:
            return self.suite / "results.parquet"
        return self.suite / "parts" / f"{digest(sorted(self.config.artefacts), 12)}.parquet"

    @property
    def claims(self) -> Path:
        return self.suite / "claims.csv"

    @property
    def baselines(self) -> Path:
        return self.suite / "baselines.csv"

    def reference(self, task: Task) -> Path:
        """Return the file of what scikit-learn's reference methods reach on the splits of the suite's seeds."""
        return self.suite / "references" / f"{task.folder}.json"

    @property
    def report(self) -> Path:
        return self.suite / "report.html"

    @property
    def index(self) -> Path:
        """The first page: links to all else."""
        return self.suite / "index.html"

    def table(self, artefact: str, suffix: str) -> Path:
        return self.suite / "tables" / f"{artefact}.{suffix}"

    def figure(self, artefact: str, suffix: str) -> Path:
        return self.suite / "figures" / f"{artefact}.{suffix}"
