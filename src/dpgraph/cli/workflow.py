"""Commands of the workflow: what a suite holds, costs and has done, and Snakemake that makes it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dpgraph.cli.options import ANY_SUITE, Json, PlanOptions, Whole
from dpgraph.errors import UserError, invalid

if TYPE_CHECKING:
    from dpgraph.planning.plan import Plan

Listing = Literal["papers", "artefacts", "claims", "methods", "datasets", "cells", "inventory", "mechanisms"]


def run(
    *targets: str,
    suite: str | None = None,
    changes: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    cores: Whole | None = None,
    profile: str | None = None,
    dry_run: Annotated[bool, Parameter(alias="-n")] = False,
    keep_going: Annotated[bool, Parameter(alias="-k")] = False,
    snakemake: str = "",
) -> None:
    """Make artefacts (daigavane/table7), or a whole suite, with Snakemake.

    Run it in the folder of the project's Snakefile.

    Example: dpgraph run daigavane/table7 --suite demo

    Args:
        targets: Artefacts (daigavane/table7, 'daigavane/fig*'), files below results/, or all, data, cells, tables,
            figures, claims, search, audits, runtimes, baselines, report (default: all).
        suite: Suite (default: that of config.yaml).
        changes: NAME=VALUE: override config.yaml; may be repeated.
        cores: Jobs at a time (default: all cores; with --profile: the profile's).
        profile: How to run, e.g. slurm (docs/cluster.md).
        dry_run: Only list the jobs.
        keep_going: Go on with independent jobs when one fails.
        snakemake: Further options of Snakemake, as one text: --snakemake='--forcerun train'.
    """
    from dpgraph.cli.snakemake import snakemake_command

    command = snakemake_command(
        targets, suite=suite, changes=changes, cores=cores, profile=profile, dry_run=dry_run, keep_going=keep_going,
        further=snakemake,
    )  # fmt: skip
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)  # Ctrl-C (status 130) and a cluster's signals reach Snakemake alone


def list_(what: Listing, /, *, paper: str | None = None, as_json: Json = False, suite: PlanOptions = ANY_SUITE) -> None:
    """List papers, artefacts, claims, methods, data sets, cells and more.

    `inventory` lists every table, figure and claim of the papers, and what shows it or why nothing does; `mechanisms`
    lists the parameters of every mechanism, for `dpgraph epsilon` and `dpgraph noise`.

    Example: dpgraph list artefacts --suite cpu --paper daigavane

    Args:
        what: What to list.
        paper: Only of this paper.
    """
    from dpgraph.cli.catalogue import ANYWHERE, catalogue, inventory, print_rows
    from dpgraph.planning.plan import suite_papers

    if what == "inventory":
        rows = inventory(suite.workflow, paper)
    elif what == "mechanisms" or (what in ANYWHERE and paper is None and not suite.workflow.is_dir()):
        suite.read()  # an installed package alone, as for `fit`: there is no suite
        rows = ANYWHERE[what]()
    else:
        if paper is not None:  # the user's own option, before the plan speaks of the config's papers
            known = suite_papers(suite.read(), suite.workflow)
            if paper not in known:
                raise invalid("--paper", paper, f"one of {', '.join(known)}")
        rows = catalogue(what, suite.plan(paper))
    print_rows(rows, as_json=as_json)


def explain(name: str, /, *, as_json: Json = False, suite: PlanOptions = ANY_SUITE) -> None:
    """Show every setting of a cell, and the file and rule it comes from.

    Example: dpgraph explain daigavane/table1 --suite demo

    Args:
        name: An artefact (daigavane/table1), or a cell's name or its beginning.
    """
    from dpgraph.cli.catalogue import print_explained

    print_explained(suite.plan(), name, as_json)


def cost(
    *,
    cluster: Path | None = None,
    throughputs: Path | None = None,
    learn: bool = False,
    check: bool = False,
    as_json: Json = False,
    suite: PlanOptions = ANY_SUITE,
) -> None:
    """Estimate hours, memory and wall time of each artefact before it runs.

    Args:
        cluster: YAML file of the machine (docs/cluster.md).
        throughputs: CSV file of what training took (default: workflow/throughputs.csv).
        learn: Write what training took in the suite's run into that file, in place of the suite's rows.
        check: Only print how far the estimates are from the suite's run.
    """
    from dpgraph.experiments.config import load
    from dpgraph.planning.estimates import Cluster, costs
    from dpgraph.planning.throughputs import FILE, learnt, read_throughputs

    plan = suite.plan()
    file = throughputs or suite.workflow / FILE
    if learn or check:
        _learn(plan, file, write=learn)
        return
    known = learnt(read_throughputs(file))
    machine = Cluster(cores=os.cpu_count() or 1) if cluster is None else load(Cluster, cluster)
    rows = costs(plan, known, machine)
    if as_json:
        numbers = [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in asdict(row).items()
            }
            for row in rows
        ]
        print(json.dumps({"cluster": machine.model_dump(), "estimates": numbers}, indent=1))
        return
    lines = [("artefact", "cells", "runs", "core h", "range", "memory", "wall h", "GPU h")]
    for row in rows:
        lines.append(
            (
                row.artefact,
                f"{row.cells:,}",
                f"{row.runs:,}",
                _hours(row.core_hours) + ("*" if row.unmeasured else ""),
                f"{_hours(row.low_hours)} to {_hours(row.high_hours)}",
                f"{row.memory_gib:.1f} GiB",
                _hours(row.wall_hours),
                _hours(row.gpu_hours),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        padded = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *padded]))
    places = f"{machine.gpus} GPU" if machine.gpus and machine.gpu_speed else f"{machine.cores} core"
    if not places.startswith("1 "):
        places += "s"
    print(
        f"\nEstimates. Core hours: training on one core of {' and '.join(known.processors)}.\n"
        f"From {known.cells:,} cells of suites {', '.join(known.suites)}\n(commits {', '.join(known.commits)}).\n"
        "A tenth of a method's cells on a data set took less than the lower end of the range in one of them, a\n"
        f"tenth more than the upper. Wall hours: on {places} of {machine.name}, an upper bound without data stages.\n"
        "Rows share cells; the last row has each once."
        + ("\n* with cells of methods that were not measured: the law of all methods." if rows[-1].unmeasured else "")
        + ("" if machine.gpu_speed else "\nGPU hours: not known without gpu_speed in --cluster.")
    )


def _hours(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _learn(plan: Plan, out: Path, write: bool) -> None:
    """Print how far the estimates are from the suite's run; `write`: replace its rows in the file."""
    from dpgraph.experiments.paths import Paths
    from dpgraph.planning.throughputs import learnt, read_throughputs, write_throughputs
    from dpgraph.reporting.results import read_results
    from dpgraph.reporting.throughputs import against, left_out_check, throughputs

    results = read_results(Paths(plan.config).results)
    rows = throughputs(plan, results)
    others = [row for row in read_throughputs(out) if row.suite != plan.suite.name] if out.is_file() else []
    if write:
        write_throughputs([*others, *rows], out)
        print(f"{out}: {len(rows)} rows of suite {plan.suite.name}, one for each method and data set")
    if others:
        names = ", ".join(dict.fromkeys(row.suite for row in others))
        found = against(plan, results, learnt(others))
        print(_compared(f"suite {plan.suite.name}", found, f"suites {names}"))
    for row in left_out_check(plan, results).to_dict("records"):
        print(_compared(row["dataset"], row, "the other data sets"))


def _compared(what: str, row: Mapping[str, Any], source: str) -> str:
    return (
        f"{what}: estimated {row['estimated_h']:.2f} h from {source}, measured {row['measured_h']:.2f} h: "
        f"{row['ratio']:.2f}"
    )


def ship(*, out: Path = Path("docs/results"), pages: bool = False, suite: PlanOptions = ANY_SUITE) -> None:
    """Keep the suite's results in docs/results: page, tables, figures and claims.

    Args:
        out: Folder.
        pages: Write the suite's pages there again, from the numbers that are kept there.
    """
    from dpgraph.reporting.reshipping import reship
    from dpgraph.reporting.shipping import ship as ship_results

    plan = suite.plan()
    written, left = reship(plan, out) if pages else (ship_results(plan, out), {})
    for name, reason in left.items():
        print(f"{name}: stays as it was drawn, {reason}")
    print(f"{out / plan.suite.name}: {len(written)} files, {sum(path.stat().st_size for path in written):,} bytes")


def status(*, as_json: Json = False, watch: bool = False, suite: PlanOptions = ANY_SUITE) -> None:
    """Show what has run, what failed and why, and what remains; it only reads files.

    Args:
        watch: One line, updated until every cell has a record.
    """
    from dpgraph.pipeline.status import Watcher
    from dpgraph.pipeline.status_text import print_status

    if watch and as_json:
        raise UserError("--watch, --json: expected only one of them")
    print_status(Watcher(suite.plan()), as_json=as_json, watched=watch)


def new(what: Literal["method", "dataset"], name: str, /, *, out: Path = Path("own")) -> None:
    """Write the skeleton of a method or a data set of your own, which runs as it is.

    Example: dpgraph new method mine. Then as it says; docs/extend-from-outside.md.

    Args:
        what: What to write.
        name: Small letters and digits: mine.
        out: Folder, to be named in `registry:` of config.yaml.
    """
    from dpgraph.cli.skeletons import write_dataset, write_method

    (write_method if what == "method" else write_dataset)(name, out)


def settings(*, out: Path | None = None, suite: PlanOptions = ANY_SUITE) -> None:
    """Write the settings that a suite's searches chose, for other suites to read.

    Args:
        out: YAML file (default: workflow/settings/SUITE.yaml).
    """
    import logging

    from dpgraph.experiments.settings import FOLDER
    from dpgraph.reporting.views.search.chosen import write_settings

    plan = suite.plan()
    file = out or suite.workflow / FOLDER / f"{plan.suite.name}.yaml"
    chosen = write_settings(plan, file)
    methods = sum(map(len, chosen.papers.values()))
    logging.getLogger("dpgraph").info("%s: settings of %d methods, commit %s", file, methods, chosen.commit)


def schemas(*, out: Path) -> None:
    """Write the JSON schemas of config, suites, experiments and cells.

    Args:
        out: Folder.
    """
    from dpgraph.planning.schemas import write_schemas

    for path in write_schemas(out):
        print(path)
