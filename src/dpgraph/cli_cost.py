"""What a suite costs before it runs: the subcommands cost and throughputs."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from dpgraph.cli_stages import read_plan
from dpgraph.errors import UserError, invalid
from dpgraph.experiments.paths import Paths

Parser = argparse.ArgumentParser


def add_cost(added: Parser) -> None:
    text = "cells that are trained side by side (default: the cores of this machine; 1 with device=cuda)"
    added.add_argument("--jobs", type=int, metavar="N", help=text)
    added.add_argument("--json", action="store_true")


def add_throughputs(added: Parser) -> None:
    added.add_argument("--out", type=Path, help="CSV file (default: workflow/throughputs.csv)")


def cost(options: argparse.Namespace) -> None:
    from dpgraph.planning.cost import costs, known_of, table_lines

    plan = read_plan(options)
    known = known_of(plan)
    if not known.rows:
        raise UserError(f"device={plan.config.device}: no throughput was measured: run a suite, then `throughputs`")
    on_gpu = plan.config.device == "cuda"
    jobs = options.jobs if options.jobs is not None else 1 if on_gpu else os.cpu_count() or 1
    if jobs < 1:
        raise invalid("--jobs", jobs, "an integer >= 1")
    rows = costs(plan, known, jobs)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print("\n".join(table_lines(rows)))
    named = [", ".join(dict.fromkeys(getattr(row, name) for row in known.rows)) for name in ("processor", "suite")]
    print(
        f"\nEstimates. Hours: training on one {'GPU beside a' if on_gpu else 'core of'} {named[0]}, from "
        f"{sum(row.cells for row in known.rows):,} cells of suites {named[1]}.\n"
        "Range: a tenth of a method's cells on a data set took less than the lower end in one suite, a tenth more\n"
        f"than the upper. Wall hours: with {jobs} jobs side by side, an upper bound without data stages.\n"
        "Rows share cells; the last row has each once."
        + ("\n* with cells of methods that were not measured: the law of all methods." if rows[-1].unmeasured else "")
    )


def throughputs(options: argparse.Namespace) -> None:
    from dpgraph.planning.cost import FILE, measured, read_throughputs, write_throughputs
    from dpgraph.reporting.results import read_results

    plan = read_plan(options)
    rows = measured(plan, read_results(Paths(plan.config).results))
    out = options.out or Path(options.workflow) / FILE
    others = [row for row in read_throughputs(out) if row.suite != plan.suite.name] if out.is_file() else []
    write_throughputs([*others, *rows], out)
    print(f"{out}: {len(rows)} rows of suite {plan.suite.name}, one for each method, data set and device")
