"""The workflow as the Snakefile has it: one suite's plan, and what its rules read, write and request."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from dpgraph.config.cell import Task
from dpgraph.config.config import Config, parse
from dpgraph.config.paths import Paths
from dpgraph.config.sources import sources_digest
from dpgraph.core import outside
from dpgraph.core.errors import UserError
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.manifest import mirrors_parameter
from dpgraph.data.registry import entry, registry
from dpgraph.pipeline import bundles as bundling
from dpgraph.pipeline.fingerprints import bundle_digest, calibrations_digest, fetch_digest, preprocess_digest
from dpgraph.pipeline.interruptible import check_cluster
from dpgraph.pipeline.locks import remove_ended, sign
from dpgraph.pipeline.run_files import AGAIN, RETRIES, Stage, content
from dpgraph.planning.cost import memory_mb
from dpgraph.planning.fallback import provide
from dpgraph.planning.plan import WORKFLOW, Plan, load_plan
from dpgraph.planning.run import Run
from dpgraph.problems.preprocess import packages_parameter
from dpgraph.reporting import inputs
from dpgraph.reporting.guarantee import checks_noted
from dpgraph.reporting.inputs import compared, splits_by_task

CAPTIONS = "../workflow/report"  # as the files of rules see it


@dataclass(frozen=True)
class BundleJobs:
    """The jobs of one stage; Snakemake asks by the wildcard `bundle`."""

    stage: Stage
    bundles: Mapping[str, bundling.Bundle]
    paths: Paths
    code: Callable[[Iterable[Run]], str]

    def graph(self, wildcards: Any) -> Path:
        """Return the record of the graph that the job reads."""
        return self.paths.graph_record(self.bundles[wildcards.bundle].task)

    def runs(self, wildcards: Any) -> Path:
        """Return the file of the job's runs."""
        return self.paths.runs(self.stage, wildcards.bundle)

    def sources(self, wildcards: Any) -> str:
        """Hash the code whose change makes the job run again."""
        return self.code(self.bundles[wildcards.bundle].runs.values())

    def unfinished(self, wildcards: Any) -> str:
        """Return the parameter of the training rule that makes the next run train cells that ran out of memory.

        The job ends with another value than it began with if there are such cells.
        """
        path = self.paths.unfinished(wildcards.bundle)
        return content(path) if path.is_file() else ""

    def memory(self, wildcards: Any, attempt: int) -> int:
        """Return the megabytes that the job requests."""
        return self.bundles[wildcards.bundle].memory_mb(attempt)

    def minutes(self, wildcards: Any, attempt: int) -> int:
        """Return the job's time limit."""
        return self.bundles[wildcards.bundle].minutes(attempt)


@dataclass(frozen=True)
class Workflow:
    """A suite whose jobs Snakemake runs."""

    plan: Plan
    training: Mapping[str, bundling.Bundle]
    calibrations: Mapping[str, bundling.Bundle]

    @classmethod
    def start(cls, given: dict[str, Any], sources: Path | None, main: bool) -> Workflow:
        """Plan the suite that Snakemake's config names; a wrong one ends the process with one line and status 2.

        `sources` has the package of a checkout, for the jobs (None: the installed one). In the `main` process, and once
        only, locks of killed runs are removed, data that other data may stand in for is looked for, and markers that
        no longer stand are forgotten: a job must not judge markers, its own is not there while it runs.
        """
        try:
            if main:
                _say(*remove_ended())
            config = parse(Config, given, "config")
            outside.use(config.registry)
            if main and config.when_data_is_missing == "record":  # which jobs there are depends on what can be had
                _say(provide(config, WORKFLOW, os.environ))
            plan = load_plan(config, WORKFLOW)
            for task in plan.suite.tasks:
                entry(plan.task(task).dataset)  # refuses unknown data sets
            workflow = cls(plan, bundling.training_bundles(plan), bundling.calibration_bundles(plan))
            if main:
                workflow._expect()
        except UserError as error:
            end(error)
        export_interpreter(sources)
        given["about"] = inputs.front_page(plan)  # what the report's front page says of the suite
        return workflow

    def _expect(self) -> None:
        from snakemake_logger_plugin_dpgraph.jobs import expect

        training = self.training.values()
        bundling.forget_changed(self.plan, training, self.calibrations.values())
        expect("train", bundling.seconds_to_run(self.plan, training))

    def begin(self, running: Any) -> None:
        """Sign the lock of `running`, which is Snakemake's, and write the files of runs, before the first job.

        It ends in one line where this machine cannot submit the jobs.
        """
        sign(getattr(running.persistence, "_lockfile", {}).values())
        forced = running.dag_settings
        os.environ[AGAIN] = str(int(forced.forceall or "train" in forced.forcerun))
        os.environ[RETRIES] = str(running.execution_settings.retries)
        try:
            check_cluster(running.executor_plugin.name)
            bundling.write_runs(self.plan, self.training.values(), self.calibrations.values())
        except (UserError, OSError) as error:
            running.persistence.unlock()
            end(error)

    # --- files --------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        """The config, every key of it."""
        return self.plan.config

    @cached_property
    def paths(self) -> Paths:
        """Return the paths that each stage reads and writes."""
        return self.plan.paths

    @property
    def suite(self) -> Path:
        """Folder of the suite's results."""
        return self.paths.suite

    @property
    def files(self) -> list[Path]:
        """YAML files of the suite, its experiments and the settings that it reads."""
        experiments = [WORKFLOW / f"experiments/{paper}.yaml" for paper in self.plan.experiments]
        settings = [WORKFLOW / f"settings/{name}.yaml" for name in self.plan.settings]
        return [WORKFLOW / f"suites/{self.config.suite}.yaml", *experiments, *settings]

    @property
    def graphs(self) -> list[Path]:
        """Records of all graphs."""
        return [self.paths.graph_record(self.plan.task(task)) for task in self.plan.suite.tasks]

    @cached_property
    def trained(self) -> dict[str, Path]:
        """Marker of the bundle of each cell, by its slug."""
        return {slug: self.paths.trained(name) for name, bundle in self.training.items() for slug in bundle.runs}

    @cached_property
    def calibrated(self) -> dict[str, Path]:
        """Marker of the bundle of each calibration, by its key."""
        return {key: self.paths.calibrated(name) for name, bundle in self.calibrations.items() for key in bundle.runs}

    def outputs(self, kind: str = "", view: str = "") -> list[Path]:
        """Return the files of the artefacts of a kind, or of a view."""
        artefacts = self.plan.artefacts.items()
        return inputs.artefact_outputs(
            self.plan, [name for name, one in artefacts if kind == one.kind or view == one.view]
        )

    def log(self, name: str) -> str:
        """Return the log of a job of this suite."""
        return f"logs/{self.config.suite}/{name}.log"

    def benchmark(self, name: str) -> str:
        """Return the file of the time and memory of a job of this suite."""
        return f"benchmarks/{self.config.suite}/{name}.jsonl"

    @staticmethod
    def logged(command: str) -> str:
        """Return a rule's command whose output goes to its log, and is shown where it fails."""
        return f"{command} > {{log}} 2>&1 || {{{{ cat {{log}} >&2; exit 1; }}}}"

    # --- jobs ---------------------------------------------------------------------------------------------------------

    @property
    def datasets(self) -> str:
        """Return a pattern of the names of data sets."""
        return "|".join(registry())

    @property
    def conda(self) -> str:
        """Conda environment of jobs that may use a GPU."""
        return f"../envs/{'cpu' if self.config.device == 'cpu' else 'cuda'}.yaml"

    @cached_property
    def train(self) -> BundleJobs:
        """Jobs that train."""
        return BundleJobs("train", self.training, self.paths, bundle_digest)

    @cached_property
    def calibrate(self) -> BundleJobs:
        """Jobs that calibrate."""
        return BundleJobs("calibrate", self.calibrations, self.paths, calibrations_digest)

    def calibrations_of(self, wildcards: Any) -> list[Path]:
        """Return the markers of the calibrations that a training job reads."""
        keys = (run.cell.calibration_key for run in self.training[wildcards.bundle].runs.values())
        return sorted({self.calibrated[key] for key in keys if key is not None})

    sources = staticmethod(sources_digest)  # of a stage

    def fetch_sources(self, wildcards: Any) -> str:
        """Hash what fetches the data set."""
        return fetch_digest(wildcards.dataset)

    def mirrors(self, wildcards: Any) -> str:
        """Return the mirrors: a data set is tried again where it was unavailable and they have changed since."""
        known = [str(mirror) for mirror in mirrors_from(self.config.mirrors, os.environ)]
        return mirrors_parameter(self.paths.raw(wildcards.dataset), known)

    def preprocess_sources(self, wildcards: Any) -> str:
        """Hash what prepares the data set."""
        return preprocess_digest(wildcards.dataset)

    def packages(self, wildcards: Any) -> str:
        """Return optional packages: data that a reader could not prepare are tried again where these have changed."""
        return packages_parameter(self.paths.graph(Task.from_folder(f"{wildcards.dataset}/{wildcards.task}")))

    def task_memory(self, wildcards: Any, attempt: int) -> int:
        """Return the megabytes that a job on the graph of wildcards `dataset` and `task` requests."""
        return attempt * memory_mb(Task.from_folder(f"{wildcards.dataset}/{wildcards.task}"))

    # --- reports ------------------------------------------------------------------------------------------------------

    @property
    def aggregate_inputs(self) -> list[Path]:
        """Return the files from which results.parquet is made."""
        return inputs.aggregate_inputs(self.plan, self.trained, self.calibrated)

    @property
    def checks(self) -> dict[str, list[str]]:
        """Return the findings of `dpgraph check method` on each method."""
        return checks_noted(entry.cell.method for entry in self.plan.entries)

    @property
    def artefact_jobs(self) -> dict[str, list[str]]:
        """Return the artefacts of each job, by its name."""
        return inputs.artefact_jobs(self.plan)

    def artefact_inputs(self, names: Iterable[str]) -> list[Path]:
        """Return what these artefacts are made from."""
        plan, markers = self.plan, (self.trained, self.calibrated)
        return [path for name in names for path in inputs.artefact_inputs(plan, name, *markers)]

    def artefact_outputs(self, names: Iterable[str], report: Callable[..., Any]) -> list[Any]:
        """Return the files that these artefacts make; pages are marked for Snakemake's `report`."""
        files = inputs.artefact_outputs(self.plan, names)
        return [
            report(str(path), **inputs.about_page(path, CAPTIONS)) if path.suffix == ".html" else path for path in files
        ]

    @property
    def printed(self) -> Path:
        """The literature's numbers."""
        return WORKFLOW / "baselines.yaml"

    @property
    def baselines(self) -> list[Path]:
        """The comparison with the literature, but not of a demonstration or of a project without its numbers."""
        wanted = not self.plan.suite.demonstration and self.printed.is_file() and compared(self.plan)
        return [self.paths.baselines] if wanted else []

    @cached_property
    def references(self) -> dict[str, tuple[int, ...]]:
        """Splits of the results that are compared with computed references, by the folder of the graph."""
        return {task.folder: splits for task, splits in splits_by_task(self.plan).items()}

    @property
    def reference_files(self) -> list[Path]:
        """Files of all computed references."""
        return [self.paths.reference(Task.from_folder(folder)) for folder in self.references]

    def reference_seeds(self, wildcards: Any) -> tuple[int, ...]:
        """Return the seeds of a graph: those that are added need references of their own."""
        return self.references[f"{wildcards.dataset}/{wildcards.task}"]


def _say(*lines: str) -> None:
    for line in lines:
        if line:
            print(line, file=sys.stderr, flush=True)


def end(error: Exception) -> NoReturn:
    """End with one line and status 2; Snakemake would turn an exception into a traceback."""
    _say(f"error: {error}")
    sys.stdout.flush()
    os._exit(2)


def export_interpreter(sources: Path | None) -> None:
    """Make `python -m dpgraph` in a rule mean this interpreter and the package in `sources`; None: the installed one.

    An activated conda environment still puts its own `python` in front.
    """
    _prepend("PATH", Path(sys.executable).parent)
    if sources is not None:
        _prepend("PYTHONPATH", sources)


def _prepend(variable: str, folder: Path) -> None:
    parts = [part for part in os.environ.get(variable, "").split(os.pathsep) if part and part != str(folder)]
    os.environ[variable] = os.pathsep.join([str(folder), *parts])
