"""The files of a seed: its record with all metrics, its predictions, and what attacks on its parameters may use."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpgraph.config.paths import exposure_path, predictions_path
from dpgraph.config.record import OUT_OF_MEMORY, Metric, SeedRecord
from dpgraph.core.files import read_json, write_array, write_json
from dpgraph.engine.methods.base import Outcome
from dpgraph.planning.run import CalibratedRun


def seed_path(out: Path, seed: int) -> Path:
    return out / f"seed={seed}.json"


def seed_record(out: Path, seed: int, fingerprint: str) -> SeedRecord | None:
    """Return the seed's record if its fingerprint is the same and every file written with it is whole, else None."""
    try:
        value = read_json(seed_path(out, seed))
        if value["fingerprint"] != fingerprint:
            return None
        if any((out / name).stat().st_size != size for name, size in value["files"].items()):
            return None
        return SeedRecord.model_validate(value["record"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return None


def write_seed(
    calibrated: CalibratedRun,
    value: Any,
    outcome: Outcome | BaseException,
    ran: dict[str, Any] | None,
    common: dict[str, Any],
) -> None:
    """Write the files of a seed.

    `value` is the whole one: attacks get the true labels, methods do not. `common`: seed, device, provenance, wall and
    CPU time.
    """
    out, seed, problem = calibrated.run.paths.out, common["seed"], calibrated.run.problem.working()
    files: list[Path] = []
    for path in (predictions_path(out, seed), exposure_path(out, seed)):
        path.unlink(missing_ok=True)  # of an earlier attempt, whose record is not taken without them
    if isinstance(outcome, BaseException):
        reason = " ".join(str(outcome).split())[:200]
        kind = "diverged" if isinstance(outcome, ArithmeticError) else OUT_OF_MEMORY
        record = SeedRecord(status="failed", reason=f"{kind}: {reason}", **common)
    else:
        attacked: tuple[Metric, ...] = ()
        notes = outcome.notes
        if outcome.exposure is not None:
            names = ("dpgraph", calibrated.run.cell.task.folder, seed)
            attacked, remarks = problem.exposure_metrics(value, outcome.exposure, calibrated.steps, *names)
            notes = notes | remarks
            outcome.exposure.save(exposure_path(out, seed))
            files.append(exposure_path(out, seed))
        record = SeedRecord(
            status="ok",
            metrics=(*(Metric(**metric) for row in outcome.observations for metric in row["metrics"]), *attacked),
            steps_per_second=outcome.steps_per_second,
            peak_memory_bytes=outcome.peak_memory_bytes,
            notes=notes,
            procedure=ran,
            **common,
        )
        write_array(predictions_path(out, seed), problem.predictions(value, outcome.logits))
        files.append(predictions_path(out, seed))
    sizes = {path.name: path.stat().st_size for path in files}
    value = {"fingerprint": calibrated.fingerprint, "files": sizes, "record": json.loads(record.model_dump_json())}
    write_json(seed_path(out, seed), value)
