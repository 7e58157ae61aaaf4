"""The jobs of the workflow: calibrate or train all runs of a bundle in one process, then write the bundle's marker.

A member that is there already is left alone, and one that fails does not keep the others from running; a file system
that fails does.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from dpgraph.core.errors import UserError
from dpgraph.core.files import write_json
from dpgraph.pipeline.run_files import AGAIN, ATTEMPT, RETRIES, BundleRuns, content
from dpgraph.pipeline.stages import calibrate_run, train_run
from dpgraph.planning.run import Run

log = logging.getLogger("dpgraph")


def calibrate_bundle(bundle: BundleRuns) -> None:
    """Calibrate a bundle. A budget that cannot be met is a result: its cells record it, other cells train."""
    files = {key: bundle.paths.privacy / f"{key}.json" for key in bundle.runs}

    def calibrate(key: str, run: Run) -> None:
        try:
            calibrate_run(run, files[key], bundle.evaluations.get(key, ()))
        except UserError as error:
            log.error("%s: %s", key, error)
            write_json(files[key], {"status": "failed", "reason": str(error)})

    _each(bundle, calibrate)
    _mark(bundle.paths.calibrated(bundle.name), files)


def train_bundle(bundle: BundleRuns, device: str, workers: int) -> None:
    """Train a bundle. In a forced rerun, what is there is trained again.

    Raises UserError for cells that ran out of memory, if Snakemake submits the job again: with more memory. In the last
    attempt they are results, and a file notes that the next run trains them again.
    """
    files = {name: bundle.paths.result(run.cell) for name, run in bundle.runs.items()}
    again = os.environ.get(AGAIN) == "1"
    unfinished: dict[str, Path] = {}

    def train(name: str, run: Run) -> None:
        write_json(run.paths.out / "cell.json", run.cell.model_dump(mode="json"))
        record = train_run(run, device, workers, again)
        if any(seed.ran_out_of_memory for seed in record.seeds):
            unfinished[name] = files[name]

    _each(bundle, train)
    attempt, attempts = int(os.environ.get(ATTEMPT, "1")), 1 + int(os.environ.get(RETRIES, "0"))
    if unfinished and attempt < attempts:
        short = f"{len(unfinished)} of {len(bundle.runs)} ran out of memory, the first {next(iter(unfinished))}"
        raise UserError(f"{bundle.name}: attempt {attempt} of {attempts}: {short}")
    if unfinished:
        _mark(bundle.paths.unfinished(bundle.name), unfinished)
    _mark(bundle.paths.trained(bundle.name), files)


def _each(bundle: BundleRuns, job: Callable[[str, Run], None]) -> None:
    failed: dict[str, str] = {}
    for number, (name, run) in enumerate(bundle.runs.items(), 1):
        log.info("%d of %d: %s", number, len(bundle.runs), name)
        try:
            job(name, run)
        except UserError as error:
            log.error("%s: %s", name, error)
            failed[name] = str(error)
        except OSError:
            raise  # a full disk or a read-only folder is no matter of one member
        except Exception as error:
            log.exception("%s", name)
            failed[name] = f"{type(error).__name__}: {error}"
    if failed:
        name, reason = next(iter(failed.items()))
        raise UserError(f"{bundle.name}: {len(failed)} of {len(bundle.runs)} failed, the first {name}: {reason}")


def _mark(marker: Path, files: dict[str, Path]) -> None:
    """Write hashes, not times: a job without changes writes the same marker, and its readers do not run again."""
    write_json(marker, {name: content(path) for name, path in files.items()})
