"""Snakemake's command line for `dpgraph run`: targets by name, and only what they need."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from dpgraph.cli.options import PlanOptions
from dpgraph.core.errors import UserError, invalid, meant, shown

NAMED = (
    "all", "data", "cells", "tables", "figures", "claims", "search", "audits", "runtimes", "baselines", "report",
)  # fmt: skip
LEAST_FREE = 2**20  # bytes below which a run cannot even keep its own log
# greedy: jobs here are alike, and the optimising scheduler costs more than it saves. The timespan is how often
# Snakemake looks again for every job it has finished: at its default of a second that took a quarter of a core. The
# logger is ours: one live line, and no waiting for that timespan at the end.
ALWAYS = ("--scheduler", "greedy", "--max-jobs-per-timespan", "1000/1m", "--rerun-incomplete", "--logger", "dpgraph")


def snakemake_command(
    targets: Sequence[str] = (),
    *,
    suite: str | None = None,
    changes: tuple[str, ...] = (),
    cores: int | None = None,
    profile: str | None = None,
    dry_run: bool = False,
    keep_going: bool = False,
    further: str = "",
) -> list[str]:
    """Return Snakemake's command line for the targets.

    Artefacts alone restrict the plan to their own cells: no other cell is planned, trained or collected. Cells that are
    there are used, and those that are made now are used by every later run of the suite.

    Raises UserError for a folder without a Snakefile, a target of another name, options that Snakemake cannot take.
    """
    from dpgraph.config.paths import no_project
    from dpgraph.config.suite import suite_artefacts
    from dpgraph.pipeline.places import jobs_of_profile, jobs_on_gpus
    from dpgraph.planning.plan import WORKFLOW, load_plan
    from dpgraph.reporting.inputs import artefact_outputs

    if not Path("Snakefile").is_file():
        raise no_project()
    if cores is not None and cores < 1:
        raise invalid("--cores", cores, "an integer >= 1")
    config = PlanOptions(changes=changes, suite=suite).read()
    for folder in (Path(), Path(config.results, config.suite), Path("logs", config.suite)):
        _check_writable(folder)
    known = suite_artefacts(config, WORKFLOW)
    artefacts, others = _sort_out(targets, known, config.results, config.suite)
    files: list[str] = []
    if artefacts:
        # the whole plan is needed only if other targets are given, too
        part = config.model_copy(update={"artefacts": tuple(artefacts)})
        plan = load_plan(part)
        config = config if others else part
        files += [str(path) for path in artefact_outputs(plan, plan.artefacts)]
        shown_first = [path for path in files if path.endswith((".md", ".png"))]
        print("\n".join(["makes:", *(f"  {path}" for path in shown_first)]), file=sys.stderr)
    try:
        more = shlex.split(further)
    except ValueError as error:
        raise UserError(f"--snakemake={shown(further)}: {error}") from None
    options = [*ALWAYS]
    if profile is not None:
        options += ["--profile", profile]
        places = jobs_of_profile([*options, *more])
    else:
        places = cores = cores or os.cpu_count() or 1
        if config.device == "cuda":
            slots = jobs_on_gpus(load_plan(config))
            options += ["--resources", f"gpu={slots}"]
            places = min(cores, slots)
    if cores is not None:
        options += ["--cores", str(cores)]
    options += ["--dry-run"] * dry_run + ["--keep-going"] * keep_going + more
    config = config.model_copy(update={"parallel_jobs": config.parallel_jobs or places})
    command = [sys.executable, "-m", "dpgraph.pipeline.interruptible", *options]
    return [*command, "--config", *config.items(), "--", *files, *others]


def _check_writable(folder: Path) -> None:
    """Raise UserError for a folder that is a file, that may not be written, or whose disk is full."""
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not place.is_dir():
        raise UserError(f"{place}: a file where a run makes a folder: expected another name, or the file moved away")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{place}: a run writes there, and you may not: expected a folder of your own")
    if (free := shutil.disk_usage(place).free) < LEAST_FREE:
        raise UserError(f"{place}: {free:,} bytes free on the disk: expected at least {LEAST_FREE:,}")


def _sort_out(targets: Sequence[str], known: Sequence[str], results: str, suite: str) -> tuple[list[str], list[str]]:
    """Return (ids of artefacts, named targets and files)."""
    artefacts: list[str] = []
    others: list[str] = []
    for target in targets:
        found = [name for name in known if fnmatchcase(name, target)]
        if found:
            artefacts += found
        elif target in NAMED or target.startswith((f"{results}/", "data/", "logs/")):
            others.append(target)
        else:
            raise UserError(
                f"target={shown(target)}: expected an artefact (dpgraph list artefacts --suite {suite}), a file "
                f"below {results}/, data/ or logs/, or one of {', '.join(NAMED)}{meant(target, [*known, *NAMED])}"
            )
    return list(dict.fromkeys(artefacts)), others
