"""The stages `calibrate` and `train`: from files to files. A cell without data or success still leaves a record."""

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, Literal

from dpgraph.config.cell import Cell
from dpgraph.config.frozen import digest
from dpgraph.config.record import Budget, CellRecord, SeedRecord
from dpgraph.config.streams import stream_name
from dpgraph.core.errors import DataUnavailable, UserError, invalid
from dpgraph.core.files import locked, read_json, sweep, write_json, write_text
from dpgraph.data.records import Described, data_dependent
from dpgraph.engine.methods.base import evaluation_steps
from dpgraph.families.registry import folder_of
from dpgraph.pipeline.collect import seed_path, seed_record
from dpgraph.pipeline.fingerprints import training_digest
from dpgraph.pipeline.provenance import provenance
from dpgraph.planning.run import CalibratedRun, Run, RunPaths
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.calibration import Calibration, budgets_at, check_calibration
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.procedure import NotAsAccounted
from dpgraph.problems.base import Counts

log = logging.getLogger("dpgraph")


class NoCalibration(UserError):
    """The cell's budget cannot be met; a result of the cell, with the reason."""


def calibrate_cell(cell: Cell, graph_folder: Path, out: Path, evaluations: Iterable[int] = ()) -> None:
    """Calibrate a cell that is in no suite's plan, see `calibrate_run`."""
    calibrate_run(Run.resolve(cell, RunPaths(graph_folder)), out, evaluations)


def calibrate_run(run: Run, out: Path, evaluations: Iterable[int] = ()) -> None:
    """Write the run's calibration; where its data is not available, a record that states this.

    It has the budgets at the steps of the cell's evaluations, and at those of `evaluations`, numbers of other cells
    that share it.
    """
    try:
        problem = run.problem.working()
        counts = problem.counts(problem.load(run.paths.graph, verify=False, split=0))
    except DataUnavailable as error:
        write_json(out, {"status": "unavailable", "reason": str(error)})
        return
    numbers = {run.cell.training.evaluations, *evaluations}
    calibration = run.calibrate(
        counts,
        cache=default_cache(),
        show=True,
        evaluated=lambda steps: {step for number in numbers for step in evaluation_steps(number, steps)},
    )
    calibration.write(out)
    log.info("%s: %s", run.cell.calibration_key, describe(calibration))


def describe(calibration: Calibration, proved: str = "rigorous") -> str:
    """Return one line on a calibration. `proved` names the second epsilon: a method from outside only claims it."""
    statement = calibration.statement
    return (
        f"noise std / clip norm {statement.noise_std_over_clip}, {statement.steps} steps, "
        f"epsilon published {statement.published.text}{statement.published.place}, "
        f"{proved} {', also '.join(one.text + one.place for one in (statement.rigorous, *statement.beside))}"
    )


def train_cell(
    cell: Cell, out: Path, graph_folder: Path, calibration_path: Path | None = None, **options: Any
) -> CellRecord:
    """Train a cell that is in no suite's plan; without a calibration, calibrate it first. `options` of `train_run`."""
    return train_run(Run.resolve(cell, RunPaths(graph_folder, out, calibration_path)), **options)


def train_run(run: Run, device: str = "auto", workers: int = 1, again: bool = False) -> CellRecord:
    """Train the seeds that are not there yet, all of them if `again`, and write `result.json`.

    A seed is there if its record, of this cell, mechanism, noise, graph and source code, and the files next to it are
    whole, and it did not run out of memory. A job that was killed is taken up where it stopped. A result that would be
    the same is not written again. A second process with the same folder waits for the first, and finds its seeds. Where
    what ran is not what was accounted for, the record states this without an epsilon, and NotAsAccounted is raised.
    """
    if workers < 1:
        raise invalid("workers", workers, "an integer >= 1")
    with locked(run.paths.out):
        sweep(run.paths.out)
        return _train_run(run, device, workers, again)


def _train_run(run: Run, device: str, workers: int, again: bool) -> CellRecord:
    cell, out = run.cell, run.paths.out
    try:
        problem = run.problem.working()
        value = problem.load(run.paths.graph, verify=True, split=0)
    except DataUnavailable as error:
        return _write(run, _without_epsilon(cell, "not run", error))
    try:
        counts = problem.counts(value)
        calibration = _calibration(run, counts)
    except NoCalibration as error:
        return _write(run, _without_epsilon(cell, "failed", error))
    mechanism = calibration.mechanism
    run.spec.check_runs(mechanism)
    known = [cell.identity, stream_name(cell), cell.task.folder, mechanism.chosen]
    # what runs must equal it: code that makes another noise of the same numbers, hashed or not, keeps no seed
    stated = mechanism.procedure((1.0,)).model_dump(mode="json") if isinstance(mechanism, NoisySteps) else None
    stamp = digest(read_json(run.paths.graph / "graph.json"), 16)
    fingerprint = digest([*known, stated, stamp, training_digest(run)], 16)
    if again:
        for seed in cell.seeds:
            seed_path(out, seed).unlink(missing_ok=True)
    kept = {seed: seed_record(out, seed, fingerprint) for seed in cell.seeds}
    todo = [seed for seed, record in kept.items() if record is None or record.ran_out_of_memory]
    proved = "rigorous" if folder_of(run.spec) is None else "claimed"
    log.info("%s: %s; seeds %s", cell.slug, describe(calibration, proved), todo or "all there")
    try:
        _train_seeds(CalibratedRun(run, calibration, counts, fingerprint, device), todo, workers)
    except NotAsAccounted as error:
        _write(run, _without_epsilon(cell, "failed", error))
        raise
    for path in out.glob("*.checkpoint*"):  # of other code or another graph, too: no run could resume them
        path.unlink(missing_ok=True)
    seeds = [seed_record(out, seed, fingerprint) for seed in cell.seeds]
    records = tuple(record for record in seeds if record is not None)
    failed = [record for record in records if record.status == "failed"]
    record = CellRecord(
        cell=cell.model_dump(mode="json"),
        status="failed" if len(failed) == len(records) else "ok",
        reason=failed[0].reason if len(failed) == len(records) else "",
        statement=_statement(calibration, value, records),
        budgets=budgets(cell, calibration),
        seeds=records,
        provenance=provenance(),
    )
    return _write(run, record)


def _without_epsilon(cell: Cell, status: Literal["failed", "not run"], error: UserError) -> CellRecord:
    plain = cell.model_dump(mode="json")
    return CellRecord(cell=plain, status=status, reason=str(error), provenance=provenance())


def _statement(calibration: Calibration, value: Described, seeds: Sequence[SeedRecord]) -> dict[str, Any]:
    """Return the calibration's statement, with the procedure that ran and the steps that no epsilon covers."""
    ran = next((seed.procedure for seed in seeds if seed.procedure is not None), None)
    uncovered = list(data_dependent(value)) if calibration.target_epsilon is not None or ran is not None else []
    return {**calibration.statement.model_dump(mode="json"), "procedure": ran, "uncovered": uncovered}


def _train_seeds(run: CalibratedRun, seeds: Sequence[int], workers: int) -> None:
    from dpgraph.pipeline.execute import train_seed

    if workers == 1 or len(seeds) <= 1:
        for seed in seeds:
            train_seed(run, seed)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited: one single-threaded process per core
    count, context = min(workers, len(seeds)), get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_end_with_parent) as pool:
        try:
            for future in [pool.submit(train_seed, run, seed) for seed in seeds]:
                future.result()
        except BaseException:
            for process in active_children():
                process.terminate()
            raise


def _end_with_parent() -> None:
    """End a worker with its parent: it would wait for ever, and write where another job may be by then."""
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def budgets(cell: Cell, calibration: Calibration) -> tuple[Budget, ...]:
    """Return both epsilons at the evaluations before the last one, whose own are in the statement."""
    if cell.privacy is None:
        return ()
    steps = calibration.statement.steps
    earlier = evaluation_steps(cell.training.evaluations, steps) - {steps}
    known = {budget.step: budget for budget in calibration.budgets}
    known |= {budget.step: budget for budget in budgets_at(calibration.mechanism, earlier - known.keys())}
    return tuple(known[step] for step in sorted(earlier))


def _write(run: Run, record: CellRecord) -> CellRecord:
    path = run.paths.out / "result.json"
    try:
        known = CellRecord.model_validate_json(path.read_text(encoding="utf-8"))
        if known.model_copy(update={"provenance": record.provenance}) == record:
            return known
    except (OSError, ValueError):
        pass
    write_text(path, record.model_dump_json(indent=1) + "\n")
    log.info("%s: %s %s", run.cell.slug, record.status, record.reason)
    return record


def _calibration(run: Run, counts: Counts) -> Calibration:
    path = run.paths.calibration
    if path is None:
        return run.calibrate(counts)
    if (reason := _failure(path)) is not None:
        raise NoCalibration(f"not calibrated: {reason}")
    calibration = Calibration.read(path, run.mechanism)
    if run.accepts(calibration, counts):
        return calibration
    check_calibration(path, calibration, run.calibrate(counts, cache=default_cache()))
    return calibration.model_copy(update={"budgets": ()})  # they were not checked: the ones needed are evaluated


def _failure(path: Path) -> str | None:
    """Return why there is no calibration, if the file states it; None for any other file, even a damaged one."""
    try:
        header = read_json(path)
        return str(header["reason"]) if header.get("status") == "failed" else None
    except (ValueError, AttributeError, KeyError):
        return None
