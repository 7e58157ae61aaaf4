"""The stages `calibrate` and `train`: from files to files. A cell without data or success still leaves a record."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

from dpgraph.config.cell import Cell
from dpgraph.config.frozen import digest
from dpgraph.config.record import Budget, CellRecord, SeedRecord
from dpgraph.config.streams import stream_name
from dpgraph.config.summary import RESULT, stored_summary, write_record, write_summary
from dpgraph.core.errors import DataUnavailable, UserError, invalid
from dpgraph.core.files import locked, read_json, sweep, write_json
from dpgraph.data.records import Described, data_dependent
from dpgraph.engine.methods.points import evaluation_steps
from dpgraph.families.registry import check_runs, outside_of, spec
from dpgraph.pipeline.collect import seed_path, seed_record
from dpgraph.pipeline.fingerprints import training_digest
from dpgraph.pipeline.provenance import provenance
from dpgraph.planning.resolve import calibrate, is_calibration
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.calibration import Calibration, budgets_at, check_calibration
from dpgraph.privacy.procedure import NotAsAccounted
from dpgraph.problems.base import Counts
from dpgraph.problems.registry import problem_of

log = logging.getLogger("dpgraph")


class NoCalibration(UserError):
    """The cell's budget cannot be met; a result of the cell, with the reason."""


def calibrate_cell(cell: Cell, graph_folder: Path, out: Path, evaluations: Iterable[int] = ()) -> None:
    """Write the cell's calibration; where its data is not available, a record that states this.

    It has the budgets at the steps of the cell's evaluations, and at those of `evaluations`, numbers of other cells
    that share it.
    """
    try:
        problem = problem_of(cell.task).working()
        counts = problem.counts(problem.load(graph_folder, verify=False, split=0))
    except DataUnavailable as error:
        write_json(out, {"status": "unavailable", "reason": str(error)})
        return
    numbers = {cell.training.evaluations, *evaluations}
    calibration = calibrate(
        cell,
        counts.num_train,
        default_cache(),
        show=True,
        num_protected=counts.num_protected,
        evaluated=lambda steps: {step for number in numbers for step in evaluation_steps(number, steps)},
    )
    calibration.write(out)
    log.info("%s: %s", cell.calibration_key, describe(calibration))


def describe(calibration: Calibration, proved: str = "rigorous") -> str:
    """`proved`: what the second epsilon is called; of a method from outside the package it is claimed."""
    statement = calibration.statement
    return (
        f"noise std / clip norm {statement.noise_std_over_clip}, {statement.steps} steps, "
        f"epsilon published {statement.published.text}{statement.published.place}, "
        f"{proved} {', beside it '.join(one.text + one.place for one in (statement.rigorous, *statement.beside))}"
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
    """Train the seeds that are not there yet, all of them if `again`, and write `result.json` and its summary.

    A seed is there if its record, of this cell, mechanism, graph and source code, and the files next to it are whole. A
    job that was killed is taken up where it stopped. A result that would be the same is not written again. A second
    process with the same `out` waits for the first, and finds its seeds. Where what ran is not what was accounted for,
    the record states this without an epsilon, and NotAsAccounted is raised.
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
        problem = problem_of(cell.task).working()
        value = problem.load(graph_folder, verify=True, split=0)
    except DataUnavailable as error:
        return _write(
            out,
            cell.slug,
            CellRecord(cell=_plain(cell), status="not run", reason=str(error), provenance=provenance()),
        )
    try:
        counts = problem.counts(value)
        calibration = _calibration(cell, counts, calibration_path)
    except NoCalibration as error:
        return _write(out, cell.slug, _failed(cell, error))
    check_runs(cell.method, calibration.mechanism)
    asked = [cell.identity, stream_name(cell), cell.task.folder]
    fingerprint = digest([*asked, calibration.mechanism.chosen, _stamp(graph_folder), training_digest(cell)], 16)
    if again:
        for seed in cell.seeds:
            seed_path(out, seed).unlink(missing_ok=True)
    todo = [seed for seed in cell.seeds if seed_record(out, seed, fingerprint) is None]
    proved = "rigorous" if outside_of(cell.method) is None else "claimed"
    log.info("%s: %s; seeds %s", cell.slug, describe(calibration, proved), todo or "all there")
    arguments = [(cell, seed, graph_folder, calibration, counts, device, out, fingerprint) for seed in todo]
    try:
        _run_seeds(arguments, workers)
    except NotAsAccounted as error:
        _write(out, cell.slug, _failed(cell, error))
        raise
    for path in out.glob("*.checkpoint*"):  # of other code or another graph, too: nothing is left to resume
        path.unlink(missing_ok=True)
    seeds = [seed_record(out, seed, fingerprint) for seed in cell.seeds]
    records = tuple(record for record in seeds if record is not None)
    failed = [record for record in records if record.status == "failed"]
    record = CellRecord(
        cell=_plain(cell),
        status="failed" if len(failed) == len(records) else "ok",
        reason=failed[0].reason if len(failed) == len(records) else "",
        statement=_statement(calibration, value, records),
        budgets=budgets(cell, calibration),
        seeds=records,
        provenance=provenance(),
    )
    return _write(out, cell.slug, record)


def _plain(cell: Cell) -> dict[str, Any]:
    return cell.model_dump(mode="json")


def _failed(cell: Cell, error: UserError) -> CellRecord:
    """A record without an epsilon."""
    return CellRecord(cell=_plain(cell), status="failed", reason=str(error), provenance=provenance())


def _statement(calibration: Calibration, value: Described, seeds: Sequence[SeedRecord]) -> dict[str, Any]:
    """The calibration's, with what ran and with what no epsilon covers."""
    ran = next((seed.procedure for seed in seeds if seed.procedure is not None), None)
    uncovered = list(data_dependent(value)) if calibration.target_epsilon is not None or ran is not None else []
    return {**calibration.statement.model_dump(mode="json"), "procedure": ran, "uncovered": uncovered}


def _run_seeds(arguments: Sequence[tuple[Any, ...]], workers: int) -> None:
    from dpgraph.pipeline.execute import train_seed

    if workers == 1 or len(arguments) <= 1:
        for argument in arguments:
            train_seed(*argument)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited: one single-threaded process per core
    count, context = min(workers, len(arguments)), get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_end_with_parent) as pool:
        try:
            for future in [pool.submit(train_seed, *argument) for argument in arguments]:
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
    earlier = evaluation_steps(cell.training.evaluations, steps) - {steps}
    known = {budget.step: budget for budget in calibration.budgets}
    known |= {budget.step: budget for budget in budgets_at(calibration.mechanism, earlier - known.keys())}
    return tuple(known[step] for step in sorted(earlier))


def _write(out: Path, slug: str, record: CellRecord) -> CellRecord:
    try:
        known = CellRecord.model_validate_json((out / RESULT).read_text(encoding="utf-8"))
        if known.model_copy(update={"provenance": record.provenance}) == record:
            if stored_summary(out) is None:
                write_summary(out, known)
            return known
    except (OSError, ValueError):
        pass
    write_record(out, record)
    log.info("%s: %s %s", slug, record.status, record.reason)
    return record


def _calibration(cell: Cell, counts: Counts, path: Path | None) -> Calibration:
    num_train, everybody = counts.num_train, counts.num_protected
    if path is None:
        return calibrate(cell, num_train, num_protected=everybody)
    if (reason := _failure(path)) is not None:
        raise NoCalibration(f"not calibrated: {reason}")
    calibration = Calibration.read(path, spec(cell.method).mechanism_class(cell))
    if is_calibration(calibration, cell, num_train, everybody):
        return calibration
    check_calibration(path, calibration, calibrate(cell, num_train, default_cache(), num_protected=everybody))
    return calibration.model_copy(update={"budgets": ()})  # they were not checked: the ones needed are evaluated


def _failure(path: Path) -> str | None:
    """Why there is no calibration, if the file states one; None for any other file, a damaged one, too."""
    try:
        header = read_json(path)
        return str(header["reason"]) if header.get("status") == "failed" else None
    except (ValueError, AttributeError, KeyError):
        return None


def _stamp(graph_folder: Path) -> str:
    return digest(read_json(graph_folder / "graph.json"), 16)
