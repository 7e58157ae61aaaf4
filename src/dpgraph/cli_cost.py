"""What a suite costs before it runs: the subcommands cost and throughputs."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpgraph.cli_stages import read_plan
from dpgraph.experiments.paths import Paths

Parser = argparse.ArgumentParser


def add_cost(added: Parser) -> None:
    added.add_argument("--cluster", type=Path, metavar="FILE", help="YAML file of the machine (docs/cluster.md)")
    added.add_argument("--throughputs", type=Path, metavar="FILE", help="default: workflow/throughputs.csv")
    added.add_argument("--json", action="store_true")


def add_throughputs(added: Parser) -> None:
    added.add_argument("--out", type=Path, help="CSV file (default: workflow/throughputs.csv)")
    added.add_argument("--check", action="store_true", help="only print how far estimates are from this run")


def cost(options: argparse.Namespace) -> None:
    from dpgraph.experiments.config import load
    from dpgraph.planning.estimates import Cluster, costs
    from dpgraph.planning.throughputs import FILE, learnt, read_throughputs

    plan = read_plan(options)
    known = learnt(read_throughputs(options.throughputs or Path(options.workflow) / FILE))
    machine = Cluster(cores=os.cpu_count() or 1) if options.cluster is None else load(Cluster, options.cluster)
    rows = costs(plan, known, machine)
    if options.json:
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


def throughputs(options: argparse.Namespace) -> None:
    from dpgraph.planning.throughputs import FILE, learnt, read_throughputs, write_throughputs
    from dpgraph.reporting.results import read_results
    from dpgraph.reporting.throughputs import against, left_out_check
    from dpgraph.reporting.throughputs import throughputs as measured

    plan = read_plan(options)
    results = read_results(Paths(plan.config).results)
    out = options.out or Path(options.workflow) / FILE
    rows = measured(plan, results)
    others = [row for row in read_throughputs(out) if row.suite != plan.suite.name] if out.is_file() else []
    if not options.check:
        write_throughputs([*others, *rows], out)
        print(f"{out}: {len(rows)} rows of suite {plan.suite.name}, one for each method and data set")
    if others:
        names = ", ".join(dict.fromkeys(row.suite for row in others))
        found = against(plan, results, learnt(others))
        print(_said(f"suite {plan.suite.name}", found, f"suites {names}"))
    for row in left_out_check(plan, results).to_dict("records"):
        print(_said(row["dataset"], row, "the other data sets"))


def _said(what: str, row: Mapping[str, Any], source: str) -> str:
    return (
        f"{what}: estimated {row['estimated_h']:.2f} h from {source}, measured {row['measured_h']:.2f} h: "
        f"{row['ratio']:.2f}"
    )
