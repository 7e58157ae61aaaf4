"""The stages `calibrate` and `train`: from files to files. A cell without data or success still leaves a record."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from dpgraph.data.graph import Graph, data_dependent
from dpgraph.data.store import load_graph
from dpgraph.errors import DataUnavailable, UserError, invalid
from dpgraph.experiments.cell import Cell
from dpgraph.experiments.frozen import digest
from dpgraph.experiments.record import Budget, CellRecord, Metric, SeedRecord
from dpgraph.experiments.sources import sources_digest
from dpgraph.files import locked, read_json, sweep, write_array, write_json, write_text
from dpgraph.methods.base import Job, Observation, Outcome, StackedMethod
from dpgraph.methods.evaluator import evaluate, predictions
from dpgraph.methods.exposure import exposure_metrics
from dpgraph.methods.provenance import provenance
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.calibration import Calibration, check_calibration
from dpgraph.privacy.for_cell import calibrate
from dpgraph.privacy.procedure import NotAsAccounted

if TYPE_CHECKING:
    import torch

log = logging.getLogger("dpgraph")


class NoCalibration(UserError):
    """The cell's budget cannot be met; a result of the cell, with the reason."""


def calibrate_cell(cell: Cell, graph_folder: Path, out: Path) -> None:
    """Write the cell's calibration; where its data is not available, a record that says so."""
    try:
        graph = load_graph(graph_folder)
    except DataUnavailable as error:
        write_json(out, {"status": "unavailable", "reason": str(error)})
        return
    calibration = calibrate(cell, len(graph.train_nodes), default_cache(), show=True, num_protected=graph.num_nodes)
    calibration.write(out)
    log.info("%s: %s", cell.calibration_key, describe(calibration))


def describe(calibration: Calibration) -> str:
    statement = calibration.statement
    return (
        f"noise std / clip norm {statement.noise_std_over_clip}, {statement.steps} steps, "
        f"epsilon published {statement.published.text}{statement.published.place}, "
        f"rigorous {statement.rigorous.text}{statement.rigorous.place}"
    )


def train_cell(
    cell: Cell,
    out: Path,
    graph_folder: Path,
    calibration_path: Path | None = None,
    device: str = "auto",
    workers: int = 1,
    again: bool = False,
) -> CellRecord:
    """Train the seeds that are not there yet, all of them if `again`, and write `result.json`.

    A seed is there if its record, of this cell, mechanism, graph and source code, and the files beside it are whole. A
    job that was killed is taken up where it stopped. A result that would say the same is not written again. A second
    process with the same `out` waits for the first, and finds its seeds. Where what ran is not what was accounted for,
    the record says so without an epsilon, and NotAsAccounted is raised.
    """
    if workers < 1:
        raise invalid("workers", workers, "an integer >= 1")
    with locked(out):
        sweep(out)
        return _train_cell(cell, out, graph_folder, calibration_path, device, workers, again)


def _train_cell(
    cell: Cell, out: Path, graph_folder: Path, calibration_path: Path | None, device: str, workers: int, again: bool
) -> CellRecord:
    try:
        graph = load_graph(graph_folder, verify=True)
    except DataUnavailable as error:
        return _write(out, CellRecord(cell=cell, status="not run", reason=str(error), provenance=provenance()))
    try:
        calibration = _calibration(cell, graph, calibration_path)
    except NoCalibration as error:
        return _write(out, _failed(cell, error))
    _check_method(cell, calibration)
    mechanism = calibration.mechanism.model_dump(mode="json")
    fingerprint = digest([cell.identity, mechanism, _stamp(graph_folder), sources_digest("train")], 16)
    if again:
        for seed in cell.seeds:
            _seed_path(out, seed).unlink(missing_ok=True)
    todo = [seed for seed in cell.seeds if _seed_record(out, seed, fingerprint) is None]
    log.info("%s: %s; seeds %s", cell.slug, describe(calibration), todo or "all there")
    groups = [todo] if todo and _stacked(cell, device) else [[seed] for seed in todo]
    arguments = [(cell, seeds, graph_folder, calibration, device, out, fingerprint) for seeds in groups]
    try:
        _run_groups(arguments, workers)
    except NotAsAccounted as error:
        _write(out, _failed(cell, error))
        raise
    for path in out.glob("*.checkpoint*"):  # of other code or another graph, too: nothing is left to resume
        path.unlink(missing_ok=True)
    seeds = [_seed_record(out, seed, fingerprint) for seed in cell.seeds]
    records = tuple(record for record in seeds if record is not None)
    failed = [record for record in records if record.status == "failed"]
    record = CellRecord(
        cell=cell,
        status="failed" if len(failed) == len(records) else "ok",
        reason=failed[0].reason if len(failed) == len(records) else "",
        statement=_statement(calibration, graph, records),
        budgets=budgets(cell, calibration),
        seeds=records,
        provenance=provenance(),
    )
    return _write(out, record)


def _failed(cell: Cell, error: UserError) -> CellRecord:
    """A record without an epsilon."""
    return CellRecord(cell=cell, status="failed", reason=str(error), provenance=provenance())


def _statement(calibration: Calibration, graph: Graph, seeds: Sequence[SeedRecord]) -> dict[str, Any]:
    """The calibration's, with what ran and with what no epsilon covers."""
    ran = next((seed.procedure for seed in seeds if seed.procedure is not None), None)
    uncovered = list(data_dependent(graph)) if calibration.target_epsilon is not None or ran is not None else []
    return {**calibration.statement.model_dump(mode="json"), "procedure": ran, "uncovered": uncovered}


def _check_method(cell: Cell, calibration: Calibration) -> None:
    from dpgraph.methods import registry

    registry.check_runs(cell.method, calibration.mechanism)


def _run_groups(arguments: Sequence[tuple[Any, ...]], workers: int) -> None:
    if workers == 1 or len(arguments) <= 1:
        for argument in arguments:
            _train_seeds(*argument)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited: one single-threaded process per core
    count, context = min(workers, len(arguments)), get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_end_with_parent) as pool:
        try:
            for future in [pool.submit(_train_seeds, *argument) for argument in arguments]:
                future.result()
        except BaseException:
            for process in active_children():
                process.terminate()
            raise


def _end_with_parent() -> None:
    """A worker whose parent is killed would wait for work for ever, and write where another job may be by then."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def budgets(cell: Cell, calibration: Calibration) -> tuple[Budget, ...]:
    """Both epsilons at the evaluations before the last one, whose own are in the statement."""
    if cell.privacy is None:
        return ()
    steps = calibration.statement.steps
    earlier = sorted(cell.training.evaluation_steps(steps) - {steps})
    statements = [calibration.mechanism.at_step(step) for step in earlier]
    return tuple(
        Budget(step=step, eps_published=found.published.epsilon, eps_rigorous=found.rigorous.epsilon)
        for step, found in zip(earlier, statements, strict=True)
    )


def _write(out: Path, record: CellRecord) -> CellRecord:
    try:
        known = CellRecord.model_validate_json((out / "result.json").read_text(encoding="utf-8"))
        if known.model_copy(update={"provenance": record.provenance}) == record:
            return known
    except (OSError, ValueError):
        pass
    write_text(out / "result.json", record.model_dump_json(indent=1) + "\n")
    log.info("%s: %s %s", record.cell.slug, record.status, record.reason)
    return record


def _calibration(cell: Cell, graph: Graph, path: Path | None) -> Calibration:
    num_train, everybody = len(graph.train_nodes), graph.num_nodes
    if path is None:
        return calibrate(cell, num_train, num_protected=everybody)
    if (reason := _failure(path)) is not None:
        raise NoCalibration(f"not calibrated: {reason}")
    calibration = Calibration.read(path)
    check_calibration(path, calibration, calibrate(cell, num_train, default_cache(), num_protected=everybody))
    return calibration


def _failure(path: Path) -> str | None:
    """Why there is no calibration, if that is what the file says; None for any other file, a damaged one, too."""
    try:
        header = read_json(path)
        return str(header["reason"]) if header.get("status") == "failed" else None
    except (ValueError, AttributeError, KeyError):
        return None


def _stamp(graph_folder: Path) -> str:
    return digest(read_json(graph_folder / "graph.json"), 16)


def _seed_path(out: Path, seed: int) -> Path:
    return out / f"seed={seed}.json"


def _predictions_path(out: Path, seed: int) -> Path:
    return out / f"seed={seed}.predictions.npy"


def _exposure_path(out: Path, seed: int) -> Path:
    return out / f"seed={seed}.exposure.npz"


def _seed_record(out: Path, seed: int, fingerprint: str) -> SeedRecord | None:
    """The seed's record if it is of the same fingerprint and nothing that was written with it is gone or cut off."""
    try:
        value = read_json(_seed_path(out, seed))
        if value["fingerprint"] != fingerprint:
            return None
        if any((out / name).stat().st_size != size for name, size in value["files"].items()):
            return None
        return SeedRecord.model_validate(value["record"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return None


def _stacked(cell: Cell, device: str) -> bool:
    """Whether one process trains all seeds at once."""
    from dpgraph.methods import registry

    found = registry.method(cell.method)
    return isinstance(found, StackedMethod) and found.stacks(cell, _device(device))


def _device(name: str) -> torch.device:
    """`auto`: a GPU if there is one."""
    import torch

    chosen = torch.device("cuda" if name == "auto" and torch.cuda.is_available() else name.replace("auto", "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise invalid("device", name, "cpu or auto: this machine has no CUDA device")
    return chosen


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Weights that noise has made large saturate the softmax; its denormal gradients would cost five times the time."""
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@_denormals_flushed()
def _train_seeds(
    cell: Cell, seeds: list[int], graph_folder: Path, calibration: Calibration, device: str, out: Path, fingerprint: str
) -> None:
    """One seed, or all that a stacked method takes at once; a record for each."""
    import torch

    from dpgraph.methods import registry
    from dpgraph.methods.jobs import make_jobs
    from dpgraph.training.loop import Diverged
    from dpgraph.training.precision import products_in

    graph = load_graph(graph_folder)
    chosen = _device(device)
    named = "-".join(map(str, seeds)) if len(seeds) < 10 else f"{len(seeds)}-{digest(list(seeds))}"
    checkpoint = out / f"seed={named}.{fingerprint}.checkpoint"
    jobs: list[Job] = []
    steps = calibration.statement.steps
    start = time.monotonic()

    def observe(step: int, logits: np.ndarray) -> Observation:
        return {"metrics": [metric.model_dump() for metric in evaluate(graph, logits, step, final=step == steps)]}

    found = registry.method(cell.method)
    outcomes: list[Any]
    try:
        with products_in(cell.training.precision):
            jobs = make_jobs(graph, cell, seeds, calibration, chosen, checkpoint)
            if isinstance(found, StackedMethod) and found.stacks(cell, chosen):
                outcomes = found.run_all(jobs, [observe] * len(jobs))
            else:
                outcomes = [found.run(jobs[0], observe)]
    except (Diverged, torch.OutOfMemoryError, MemoryError) as error:
        outcomes = [error] * len(seeds)
    share = (time.monotonic() - start) / len(seeds)
    ran = [_checked(job, outcome) for job, outcome in zip(jobs, outcomes)] or [None] * len(seeds)
    for seed, outcome, done in zip(seeds, outcomes, ran, strict=True):
        _write_seed(out, cell, seed, graph, outcome, done, share, str(chosen), fingerprint, steps)
    for path in out.glob(f"*{checkpoint.name}*"):  # seeds that were trained one by one have their own
        path.unlink(missing_ok=True)


def _checked(job: Job, outcome: Outcome | BaseException) -> dict[str, Any] | None:
    """What a private seed did with the data; raises NotAsAccounted. None: without privacy, or it ended early."""
    if job.prepared is None or isinstance(outcome, BaseException):
        return None
    return job.prepared.check(outcome.resumed_at).model_dump(mode="json")


def _write_seed(
    out: Path,
    cell: Cell,
    seed: int,
    graph: Graph,
    outcome: Outcome | BaseException,
    ran: dict[str, Any] | None,
    seconds: float,
    device: str,
    fingerprint: str,
    steps: int,
) -> None:
    """`graph` is the whole one: attacks know the truth, methods do not."""
    common: dict[str, Any] = {"seed": seed, "device": device, "seconds": seconds}
    files: list[Path] = []
    for path in (_predictions_path(out, seed), _exposure_path(out, seed)):
        path.unlink(missing_ok=True)  # of an earlier attempt, whose record is not taken without them
    if isinstance(outcome, BaseException):
        kind = "diverged" if isinstance(outcome, ArithmeticError) else "out of memory"
        record = SeedRecord(status="failed", reason=f"{kind}: {_one_line(outcome)}", **common)
    else:
        attacked: tuple[Metric, ...] = ()
        notes = outcome.notes
        if outcome.exposure is not None:
            names = ("dpgraph", cell.task.folder, seed)
            attacked, remarks = exposure_metrics(graph, outcome.exposure, steps, *names)
            notes = notes | remarks
            outcome.exposure.save(_exposure_path(out, seed))
            files.append(_exposure_path(out, seed))
        record = SeedRecord(
            status="ok",
            metrics=(*(Metric(**metric) for row in outcome.observations for metric in row["metrics"]), *attacked),
            steps_per_second=outcome.steps_per_second,
            roots_per_second=outcome.roots_per_second,
            peak_memory_bytes=outcome.peak_memory_bytes,
            notes=notes,
            procedure=ran,
            **common,
        )
        write_array(_predictions_path(out, seed), predictions(outcome.logits).astype(np.int16))
        files.append(_predictions_path(out, seed))
    sizes = {path.name: path.stat().st_size for path in files}
    value = {"fingerprint": fingerprint, "files": sizes, "record": json.loads(record.model_dump_json())}
    write_json(_seed_path(out, seed), value)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
