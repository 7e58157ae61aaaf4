"""The jobs of the workflow: calibrate or train all members of a bundle in one process, then write the bundle's marker.

A member that is there already is left alone, and one that fails does not keep the others from running; a file system
that fails does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from dpgraph.config.frozen import digest
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.files import read_json, write_json, write_text
from dpgraph.pipeline.bundles import Bundle, content, is_forced, last_asked
from dpgraph.pipeline.fingerprints import bundle_digest
from dpgraph.pipeline.stages import calibrate_cell, train_cell
from dpgraph.planning.plan import Plan

log = logging.getLogger("dpgraph")


def calibrate_bundle(plan: Plan, bundle: Bundle) -> None:
    """A budget that cannot be met is a result too: its cells will record it, those of other calibrations train."""
    paths = Paths(plan.config)
    evaluations: dict[str | None, set[int]] = {}  # of the cells that share a calibration
    for trained in plan.cells.values():
        evaluations.setdefault(trained.calibration_key, set()).add(trained.training.evaluations)

    def calibrate(key: str) -> None:
        cell = plan.calibrations[key].for_calibration
        if cell is None:
            return
        out = paths.privacy / f"{key}.json"
        try:
            calibrate_cell(cell, paths.graph(bundle.task), out, evaluations.get(key, ()))
        except UserError as error:
            log.error("%s: %s", key, error)
            write_json(out, {"status": "failed", "reason": str(error)})

    _run(bundle, calibrate)
    _mark(paths.calibrated(bundle.name), {key: paths.privacy / f"{key}.json" for key in bundle.members})


def train_bundle(plan: Plan, bundle: Bundle, device: str, workers: int) -> None:
    """A bundle that ended well and is requested once more, with nothing changed, is trained again (a forced rerun)."""
    paths = Paths(plan.config)
    cells = {name: plan.cells[name] for name in bundle.members}
    marker = paths.trained(bundle.name)
    last = last_asked(marker)
    calibrations = [content(path) for path in map(paths.calibration, cells.values()) if path is not None]
    graph = read_json(paths.graph_record(bundle.task))
    asked = digest(
        [[cell.slug, cell.seeds] for cell in cells.values()] + [graph, calibrations, bundle_digest(cells.values())]
    )
    whole = all(paths.result(cell).is_file() for cell in cells.values())
    again = whole and is_forced(marker, asked)
    last.unlink(missing_ok=True)

    def train(name: str) -> None:
        cell = cells[name]
        write_json(paths.cell(cell) / "cell.json", cell.model_dump(mode="json"))
        train_cell(
            cell,
            paths.cell(cell),
            graph_folder=paths.graph(bundle.task),
            calibration_path=paths.calibration(cell),
            device=device,
            workers=workers,
            again=again,
        )

    _run(bundle, train)
    _mark(marker, {name: paths.result(cell) for name, cell in cells.items()})
    write_text(last, asked)


def _run(bundle: Bundle, member: Callable[[str], None]) -> None:
    failed: dict[str, str] = {}
    for number, name in enumerate(bundle.members, 1):
        log.info("%d of %d: %s", number, len(bundle.members), name)
        try:
            member(name)
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
        raise UserError(f"{bundle.name}: {len(failed)} of {len(bundle.members)} failed, the first {name}: {reason}")


def _mark(marker: Path, files: dict[str, Path]) -> None:
    """Hashes, and no times: a job that changed nothing writes the same marker, and what reads it does not run again."""
    write_json(marker, {name: content(path) for name, path in files.items()})
