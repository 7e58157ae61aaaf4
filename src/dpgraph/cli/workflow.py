"""Commands of the workflow: what a suite holds, costs and has done, and Snakemake that makes it."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dpgraph.cli.options import ANY_SUITE, Json, PlanOptions, Whole
from dpgraph.core.errors import UserError, invalid

Listing = Literal[
    "papers", "artefacts", "claims", "methods", "rows", "datasets", "cells", "inventory", "mechanisms", "audits"
]


def run(
    *targets: str,
    suite: str | None = None,
    changes: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    cores: Whole | None = None,
    profile: str | None = None,
    dry_run: Annotated[bool, Parameter(alias="-n")] = False,
    keep_going: Annotated[bool, Parameter(alias="-k")] = False,
    unlock: bool = False,
    snakemake: str = "",
) -> None:
    """Make artefacts (daigavane/table7), or a whole suite, with Snakemake.

    Run it in the folder of the project's Snakefile.

    Example: dpgraph run daigavane/table7 --suite demo

    Args:
        targets: Artefacts (daigavane/table7, 'daigavane/fig*'), files below results/, data/ or logs/, or all, data,
            cells, tables, figures, claims, search, audits, runtimes, baselines, report (default: all).
        suite: Suite (default: that of config.yaml).
        changes: NAME=VALUE: override config.yaml; may be repeated.
        cores: Jobs at a time (default: all cores; with --profile: the profile's).
        profile: How to run, e.g. slurm (docs/how-to/slurm.md).
        dry_run: Only list the jobs.
        keep_going: Go on with independent jobs when one fails.
        unlock: Only remove the lock that a run on another host left when it was killed there.
        snakemake: Further options of Snakemake, as one text: --snakemake='--forcerun train'.
    """
    from dpgraph.cli.snakemake import snakemake_command

    if unlock:
        from dpgraph.pipeline.locks import unlock as remove_locks

        print(remove_locks())
        return
    command = snakemake_command(
        targets, suite=suite, changes=changes, cores=cores, profile=profile, dry_run=dry_run, keep_going=keep_going,
        further=snakemake,
    )  # fmt: skip
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)  # Ctrl-C (status 130) and a cluster's signals reach Snakemake alone


def list_(what: Listing, /, *, paper: str | None = None, as_json: Json = False, suite: PlanOptions = ANY_SUITE) -> None:
    """List papers, artefacts, claims, methods, data sets, cells and more.

    `rows` lists the methods of tables and figures by label, and what a label leaves out; `inventory` lists every
    table, figure and claim of the papers, and what shows it or why none does; `mechanisms` lists the parameters of
    every mechanism, for `dpgraph epsilon` and `dpgraph noise`; `audits` those of `dpgraph audit`.

    Example: dpgraph list artefacts --suite cpu --paper daigavane

    Args:
        what: What to list.
        paper: Only of this paper.
    """
    from dpgraph.cli.catalogue import ANYWHERE, LISTINGS, OF_THE_PACKAGE, print_rows
    from dpgraph.config.paths import no_project
    from dpgraph.config.suite import suite_papers
    from dpgraph.planning.inventory import read_inventory

    if what == "inventory":
        if not suite.workflow.is_dir():
            raise no_project(suite.workflow)
        rows = read_inventory(suite.workflow, paper)[1]
    elif what in OF_THE_PACKAGE or (what in ANYWHERE and paper is None and not suite.workflow.is_dir()):
        suite.read()  # an installed package alone, as for `fit`: there is no suite
        rows = LISTINGS[what](None)
    else:
        if paper is not None:  # the user's own option, before the plan speaks of the config's papers
            known = suite_papers(suite.read(), suite.workflow)
            if paper not in known:
                raise invalid("--paper", paper, f"one of {', '.join(known)}")
        rows = LISTINGS[what](suite.plan(paper))
    print_rows(rows, as_json=as_json)


def explain(name: str, /, *, suite: PlanOptions = ANY_SUITE) -> None:
    """Show every setting of a cell, and the file and rule it comes from.

    Example: dpgraph explain daigavane/table1 --suite demo

    Args:
        name: An artefact (daigavane/table1), or a cell's name or its beginning.
    """
    from dpgraph.cli.catalogue import print_explained

    print_explained(suite.plan(), name)


def cost(
    *, jobs: Whole | None = None, learn: bool = False, out: Path | None = None, suite: PlanOptions = ANY_SUITE
) -> None:
    """Estimate hours of cores and of GPUs, memory and wall time of each artefact before it runs.

    Example: dpgraph cost --suite demo

    Args:
        jobs: Jobs that run side by side (default: the cores of this machine; with device=cuda what its GPUs hold).
        learn: Note what training took in the suite's run, for later estimates.
        out: With --learn: CSV file (default: workflow/throughputs.csv), in which the suite's rows of the device are
            replaced.
    """
    from dpgraph.config.config import MOST_JOBS
    from dpgraph.pipeline.bundles import training_bundles
    from dpgraph.pipeline.places import jobs_on_gpus
    from dpgraph.planning import cost as costing
    from dpgraph.planning import throughputs

    plan = suite.plan()
    if learn:
        from dpgraph.reporting.results import read_results

        learnt = costing.measured(plan, read_results(plan.paths.results))
        file = out or suite.workflow / throughputs.FILE
        kept = throughputs.read_throughputs(file) if file.is_file() else []
        again = {(row.suite, row.device) for row in learnt}
        throughputs.write_throughputs([*(row for row in kept if (row.suite, row.device) not in again), *learnt], file)
        print(f"{file}: {len(learnt)} rows of suite {plan.suite.name}, one for each method, data set and device")
        return
    on_gpu = plan.config.device == "cuda"
    if jobs is None:
        jobs = plan.config.parallel_jobs or (jobs_on_gpus(plan) if on_gpu else os.cpu_count() or 1)
    if not 1 <= jobs <= MOST_JOBS:
        raise invalid("--jobs", jobs, f"an integer from 1 to {MOST_JOBS}")
    rows = costing.costs(plan, jobs)
    if not rows[-1].gpu and on_gpu:
        raise UserError("device=cuda: no throughput was measured: run a suite, then `cost --learn`")
    print(costing.table_of(rows))
    plan = replace(plan, config=plan.config.model_copy(update={"parallel_jobs": jobs}))
    print(f"\nEstimates, of one core and of one GPU. {costing.measured_on(plan)}")
    print(
        "Range: a tenth of a method's cells on a data set took less than the lower end in one suite, a tenth more\n"
        "than the upper; for a GPU's rates, the least and the most that was measured. Wall hours: of "
        f"{len(training_bundles(plan)):,} training jobs,\n{jobs} side by side, each with a "
        f"{'GPU' if on_gpu else 'core'} of its own; an upper bound without data stages. Rows share cells; the last row "
        "has each once."
    )
    if any(one.unmeasured for row in rows for one in (row.core, row.gpu) if one):
        print("* with cells that were not measured: the law of all methods, or the rate of other work.")


def ship(*, rows: Path | None = None, out: Path = Path("docs/results"), suite: PlanOptions = ANY_SUITE) -> None:
    """Keep the suite's rows in docs/results, and the pages made of them.

    Args:
        rows: Parquet file of rows (default: that of the suite's run).
        out: Folder.
    """
    from dpgraph.reporting.shipping import ship as ship_results

    plan = suite.plan()
    written = ship_results(plan, rows, out, suite.workflow)
    print(f"{out / plan.suite.name}: {len(written)} files, {sum(path.stat().st_size for path in written):,} bytes")


def render(
    name: str,
    /,
    *,
    rows: Path | None = None,
    out: Path = Path("rendered"),
    changes: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
) -> None:
    """Make a suite's tables, figures, claims and pages from its kept rows, without training.

    Run it in the folder of the project.

    Example: dpgraph render votes

    Args:
        name: Suite.
        rows: Parquet file of rows (default: docs/results/SUITE/rows.parquet).
        out: Folder.
        changes: NAME=VALUE: override config.yaml; may be repeated.
    """
    from dpgraph.reporting.render import ROWS
    from dpgraph.reporting.render import render as render_rows
    from dpgraph.reporting.shipping import FOLDER

    suite = PlanOptions(suite=name, changes=(*changes, f"results={out}"))
    print(render_rows(suite.plan(), rows or FOLDER / name / ROWS))


def verify(*, fast: bool = False) -> int:
    """Recompute numbers of README, docs and docs/results from the kept rows; status 1 where a page differs.

    Of README and docs these are the statements of docs/numbers.yaml; of docs/results the leaderboards, verdicts and the
    README of each suite whose rows are kept. Run it in the folder of the project.

    Args:
        fast: Do not decide claims again, which takes minutes.
    """
    from dpgraph.config.paths import no_project
    from dpgraph.reporting.verify import unlike_pages, unlike_statements, without_rows

    if not Path("Snakefile").is_file():
        raise no_project()
    lines = [*unlike_statements(), *unlike_pages(claims=not fast)]
    print("\n".join(lines) or "the statements of docs/numbers.yaml and docs/results are what the kept rows give")
    if missing := without_rows():
        print(f"not recomputed, as their rows are not kept: {', '.join(missing)}")
    return int(bool(lines))


def status(*, suite: PlanOptions = ANY_SUITE) -> None:
    """Show by artefact which cells have a result, which failed and why, and which have no record yet.

    Example: dpgraph status --suite demo
    """
    from dpgraph.pipeline.status import Status

    print(Status.read(suite.plan()).page())


def settings(*, out: Path | None = None, suite: PlanOptions = ANY_SUITE) -> None:
    """Write the settings that a suite's searches chose, for other suites to read.

    Args:
        out: YAML file (default: workflow/settings/SUITE.yaml).
    """
    import logging

    from dpgraph.config.settings import FOLDER
    from dpgraph.reporting.views.search.chosen import write_settings

    plan = suite.plan()
    file = out or suite.workflow / FOLDER / f"{plan.suite.name}.yaml"
    chosen = write_settings(plan, file)
    methods = sum(map(len, chosen.papers.values()))
    logging.getLogger("dpgraph").info("%s: settings of %d methods, commit %s", file, methods, chosen.commit)


def schemas(*, out: Path) -> None:
    """Write the JSON schemas of config, suites, experiments and cells.

    Example: dpgraph schemas --out schemas

    Args:
        out: Folder.
    """
    from dpgraph.planning.schemas import write_schemas

    for path in write_schemas(out):
        print(path)
