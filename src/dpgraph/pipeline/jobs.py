"""The jobs of the workflow: calibrate or train all runs of a bundle in one process, then write the bundle's marker.

A member that is there already is left alone, and one that fails does not keep the others from running; a file system
that fails does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from dpgraph.config.frozen import digest
from dpgraph.core.errors import UserError
from dpgraph.core.files import read_json, write_json, write_text
from dpgraph.pipeline.fingerprints import bundle_digest
from dpgraph.pipeline.run_files import BundleRuns, content, is_forced, last_request
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
    """Train a bundle. One that ended well and is requested again unchanged is trained again (a forced rerun)."""
    runs, files = bundle.runs.values(), {name: bundle.paths.result(run.cell) for name, run in bundle.runs.items()}
    marker = bundle.paths.trained(bundle.name)
    last = last_request(marker)
    calibrations = [content(run.paths.calibration) for run in runs if run.paths.calibration is not None]
    graph = read_json(next(iter(runs)).paths.graph / "graph.json")
    request = digest([[run.cell.slug, run.cell.seeds] for run in runs] + [graph, calibrations, bundle_digest(runs)])
    again = all(path.is_file() for path in files.values()) and is_forced(marker, request)
    last.unlink(missing_ok=True)

    def train(name: str, run: Run) -> None:
        write_json(run.paths.out / "cell.json", run.cell.model_dump(mode="json"))
        train_run(run, device, workers, again)

    _each(bundle, train)
    _mark(marker, files)
    write_text(last, request)


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
