"""Command line: one subcommand per stage of the workflow. The rules call nothing else.

A user's mistake prints one line and exits with 2, a failure of the file system (no space left, a read-only folder) one
with the file and exits with 1. Heavy imports are inside the subcommands, so that
listing and planning are fast.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpgraph import __version__, cli_privacy
from dpgraph.errors import UserError, invalid, shown
from dpgraph.experiments.cell import Cell, Task
from dpgraph.experiments.config import Config, first_line, parse
from dpgraph.experiments.documents import json_value, read_yaml, text_of, yaml_value
from dpgraph.experiments.paths import Paths
from dpgraph.files import cause
from dpgraph.pipeline.bundles import Bundle, calibration_bundles, training_bundles
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.planning.resolve import resolve

log = logging.getLogger("dpgraph")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    try:
        options.run(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ValidationError as error:
        print(f"error: {error.title}: {first_line(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a listing (head, less) has left
        sys.stderr.close()
        return 1
    except OSError as error:
        print(f"error: {cause(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        name = str(error) or "SIGINT"
        print(f"error: ended by {name}: finished work is kept, run again to resume", file=sys.stderr)
        return 128 + signal.Signals[name]
    return 0


def read_cell(text: str) -> Cell:
    """A cell from a JSON file or from JSON text."""
    if text.lstrip().startswith("{"):
        return resolve(json_value(text, "cell"))
    if not os.path.isfile(text):  # unlike Path's, it answers no to names that no file can have
        raise UserError(f"cell={shown(text)}: no such file")
    return resolve(json_value(text_of(Path(text)), text), text)


def read_config(options: argparse.Namespace) -> Config:
    path, value = options.config, None
    if path.lstrip().startswith("{"):
        path, value = "config", json_value(path, "config")
    elif os.path.isfile(path) or path != "config.yaml":
        value = read_yaml(Path(path))
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a mapping of names to values")
    for item in options.set:
        name, equals, text = item.partition("=")
        if not equals:
            raise invalid("--set", item, "NAME=VALUE")
        value[name] = yaml_value(text, f"--set {shown(name)}")
    if getattr(options, "suite", None) is not None:
        value["suite"] = options.suite
    if getattr(options, "paper", None) is not None:
        value["papers"] = [options.paper]
    return parse(Config, value, path)


def read_plan(options: argparse.Namespace) -> Plan:
    return load_plan(read_config(options), Path(options.workflow))


# ---- stages ----------------------------------------------------------------------------------------------------------


def fetch(options: argparse.Namespace) -> None:
    from dpgraph.data.fetch import fetch as fetch_data
    from dpgraph.data.fetch import mirrors_from
    from dpgraph.data.mirrors import remember

    named = [part for part in options.mirrors.split(os.pathsep) if part]
    folder = options.out or Path("data/raw") / options.dataset
    manifest = fetch_data(options.dataset, folder, mirrors_from(named, os.environ), missing=options.missing)
    remember(folder, named)
    log.info("%s: %s %s", options.dataset, manifest.status, manifest.reason)


def preprocess(options: argparse.Namespace) -> None:
    from dpgraph.problems.preprocess import preprocess as preprocess_data

    task = Task.from_folder(options.task)
    raw = options.raw or Path("data/raw") / task.dataset
    preprocess_data(task, raw, options.out or Path("data/graphs") / task.folder)


def calibrate(options: argparse.Namespace) -> None:
    from dpgraph.pipeline.jobs import calibrate_bundle
    from dpgraph.pipeline.stages import calibrate_cell

    if options.bundle is not None:
        plan, bundle = _bundle(options, "calibration")
        return calibrate_bundle(plan, bundle)
    if options.out is None:
        raise UserError("--cell: expected --out with it")
    calibrate_cell(read_cell(options.cell), _graph_folder(options), options.out)


def train(options: argparse.Namespace) -> None:
    from dpgraph.pipeline.jobs import train_bundle
    from dpgraph.pipeline.stages import train_cell

    if options.bundle is not None:
        plan, bundle = _bundle(options, "training")
        return train_bundle(plan, bundle, options.device, options.workers)
    if options.out is None:
        raise UserError("--cell: expected --out with it")
    train_cell(
        read_cell(options.cell),
        options.out,
        graph_folder=_graph_folder(options),
        calibration_path=options.calibration,
        device=options.device,
        workers=options.workers,
        again=options.again,
    )


def _bundle(options: argparse.Namespace, kind: str) -> tuple[Plan, Bundle]:
    plan = read_plan(options)
    bundles = training_bundles(plan) if kind == "training" else calibration_bundles(plan)
    if options.bundle not in bundles:
        raise invalid("--bundle", options.bundle, f"a {kind} bundle of suite {plan.suite.name} with this config")
    return plan, bundles[options.bundle]


def _graph_folder(options: argparse.Namespace) -> Path:
    task = read_cell(options.cell).task
    folder = options.graph or Path("data/graphs") / task.folder
    if not (folder / "graph.json").is_file():
        raise UserError(
            f"{folder}: no graph there; make it with `snakemake --cores 1 {folder}/graph.json`, or with "
            f"`python -m dpgraph fetch {task.dataset}` and `python -m dpgraph preprocess {task.folder}`"
        )
    return folder


def aggregate(options: argparse.Namespace) -> None:
    from dpgraph.reporting.aggregate import aggregate as aggregate_records

    plan = read_plan(options)
    rows = aggregate_records(plan, options.out or Paths(plan.config).results)
    log.info("%d rows of %d cells", rows, len(plan.cells))


def table(options: argparse.Namespace) -> None:
    from dpgraph.reporting.tables import write_table

    plan = _plan_with(options, "table")
    stem = Paths(plan.config).table(options.artefact, "csv").with_suffix("")
    write_table(plan, options.artefact, _given(plan, options.artefact), stem)


def figure(options: argparse.Namespace) -> None:
    from dpgraph.reporting.figures import write_figure

    plan = _plan_with(options, "figure")
    stem = Paths(plan.config).figure(options.artefact, "png").with_suffix("")
    write_figure(plan, options.artefact, _given(plan, options.artefact), stem)


def _plan_with(options: argparse.Namespace, kind: str) -> Plan:
    plan = read_plan(options)
    known = [name for name, artefact in plan.artefacts.items() if artefact.kind == kind]
    if options.artefact not in known:
        raise invalid(kind, options.artefact, f"one of {', '.join(known)} (suite {plan.suite.name})")
    return plan


def _given(plan: Plan, artefact: str) -> Any:
    """What the artefact's view is a function of."""
    from dpgraph.reporting.views.registry import inputs_of

    return inputs_of(plan.artefacts[artefact].view).load(plan, artefact)


def claims(options: argparse.Namespace) -> None:
    from dpgraph.reporting.claims.table import write_claims
    from dpgraph.reporting.results import read_results

    plan = read_plan(options)
    paths = Paths(plan.config)
    write_claims(plan, read_results(paths.results), paths.claims, paths.claims.with_suffix(".html"))


def runtimes(options: argparse.Namespace) -> None:
    from dpgraph.reporting.results import read_results
    from dpgraph.reporting.runtimes import write_runtimes

    plan = read_plan(options)
    paths = Paths(plan.config)
    write_runtimes(plan, read_results(paths.results), paths.suite / "runtimes.html")


def audit_report(options: argparse.Namespace) -> None:
    from dpgraph.reporting.audit_figure import read_audits, write_audit_figure, write_audit_page

    plan = read_plan(options)
    paths = Paths(plan.config)
    audits = read_audits(paths.suite / "audits.parquet")
    write_audit_figure(audits, paths.figure("audits", "png").with_suffix(""))
    write_audit_page(plan, audits, paths.suite / "audits.html")


def bench(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.steps import bench as bench_step

    bench_step(options.out, options.device)


def bench_sampling(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.sampling import bench as bench_samplers

    bench_samplers(options.out, options.nodes)


def bench_pagerank(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.sampling import bench_pagerank as bench_rows

    bench_rows(options.graph, options.out)


def bench_workflow(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.workflow import bench as bench_scale

    bench_scale(options.out, options.cells, options.seeds, options.suite)


def schemas(options: argparse.Namespace) -> None:
    from dpgraph.planning.schemas import write_schemas

    for path in write_schemas(options.out):
        print(path)


def list_(options: argparse.Namespace) -> None:
    from dpgraph.catalogue import catalogue, print_rows

    plan = read_plan(options)
    print_rows(catalogue(options.what, plan, options.paper), as_json=options.json)


def explain(options: argparse.Namespace) -> None:
    from dpgraph.catalogue import print_explained

    print_explained(read_plan(options), options.name, options.json)


def status(options: argparse.Namespace) -> None:
    from dpgraph.pipeline.status import Watcher
    from dpgraph.pipeline.status_text import print_status

    print_status(Watcher(read_plan(options)), as_json=options.json, watched=options.watch)


# ---- options ---------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpgraph", description=sys.modules["dpgraph"].__doc__)
    parser.add_argument("--version", action="version", version=f"dpgraph {__version__}")
    stages = parser.add_subparsers(required=True, metavar="STAGE")

    def stage(name: str, run: Any, text: str, plan: bool = False) -> argparse.ArgumentParser:
        added = stages.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        if plan:
            added.add_argument("--config", default="config.yaml", help="config: a file, or JSON text (config.yaml)")
            added.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override the config")
            added.add_argument("--workflow", default="workflow", help="folder of suites and experiments")
            added.add_argument("--suite", help="suite (default: the config's)")
        return added

    def cell_options(added: argparse.ArgumentParser) -> None:
        what = added.add_mutually_exclusive_group(required=True)
        what.add_argument("--cell", help="cell: a JSON file, or JSON text")
        what.add_argument("--bundle", help="cells that share a job of the workflow; reads the config and the suite")
        added.add_argument("--graph", type=Path, help="with --cell: folder of the graph (default: data/graphs/...)")

    fetch_ = stage("fetch", fetch, "Fetch a data set's files from a mirror or its URLs")
    fetch_.add_argument("dataset")
    fetch_.add_argument("--out", type=Path, default=None, help="folder (default: data/raw/DATASET)")
    fetch_.add_argument("--mirrors", default="", help="folders tried first, separated as in PATH")
    fetch_.add_argument("--missing", choices=["record", "fail"], default="fail", help="when the files cannot be found")

    preprocess_ = stage("preprocess", preprocess, "Read, verify, split and store one graph")
    preprocess_.add_argument("task", help="DATASET/SETTING.SPLIT[.FEATURES], e.g. cora/disjoint.train-rest")
    preprocess_.add_argument("--raw", type=Path, help="folder of the fetched files (default: data/raw/DATASET)")
    preprocess_.add_argument("--out", type=Path, help="folder (default: data/graphs/TASK)")

    calibrate_ = stage(
        "calibrate", calibrate, "Solve a cell's privacy target for noise or steps, with both guarantees", plan=True
    )
    cell_options(calibrate_)
    calibrate_.add_argument("--out", type=Path, help="with --cell: JSON file")

    train_ = stage("train", train, "Train a cell, or a bundle of cells, all seeds", plan=True)
    cell_options(train_)
    train_.add_argument("--out", type=Path, help="with --cell: folder of the results")
    train_.add_argument("--calibration", type=Path, help="with --cell: its calibration (default: calibrate now)")
    train_.add_argument("--again", action="store_true", help="with --cell: train finished seeds again")
    train_.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    train_.add_argument("--workers", type=int, default=1, help="seeds at a time, one single-threaded process each")

    aggregate_ = stage("aggregate", aggregate, "Collect all records of a suite in one Parquet table", plan=True)
    aggregate_.add_argument("--out", type=Path)
    for name, run in (("table", table), ("figure", figure)):
        added = stage(name, run, f"Make one {name}", plan=True)
        added.add_argument("artefact", help="e.g. daigavane/table1")
    stage("claims", claims, "Give a verdict on every claim", plan=True)
    stage("runtimes", runtimes, "List runtime, memory and outcome of every cell", plan=True)
    stage("audit-report", audit_report, "Make the figure and page of the suite's audits", plan=True)

    bench_ = stage("bench", bench, "Private step against the non-private step on the same batches")
    bench_.add_argument("--out", type=Path, required=True)
    bench_.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")

    bench_sampling_ = stage("bench-sampling", bench_sampling, "Edge lists and ego trees at the size of ogbn-products")
    bench_sampling_.add_argument("--out", type=Path, required=True)
    bench_sampling_.add_argument(
        "--nodes", type=int, default=None, help="number of nodes (default: as ogbn-products, 2.4 million)"
    )

    bench_pagerank_ = stage("bench-pagerank", bench_pagerank, "PageRank rows of all training nodes of a graph")
    bench_pagerank_.add_argument("graph", type=Path, help="folder of the graph")
    bench_pagerank_.add_argument("--out", type=Path, required=True)

    bench_workflow_ = stage("bench-workflow", bench_workflow, "The workflow's jobs, aggregation and status at scale")
    bench_workflow_.add_argument("--out", type=Path, required=True)
    bench_workflow_.add_argument(
        "--cells", type=int, default=10_000, help="number of cells to aggregate (default: 10000)"
    )
    bench_workflow_.add_argument("--seeds", type=int, default=10, help="seeds of each cell (default: 10)")
    bench_workflow_.add_argument("--suite", default="paper", help="suite whose jobs are planned (default: paper)")

    list__ = stage("list", list_, "List papers, artefacts, claims, methods, data sets or cells", plan=True)
    list__.add_argument("what", choices=["papers", "artefacts", "claims", "methods", "datasets", "cells"])
    list__.add_argument("--paper", help="only this paper")
    list__.add_argument("--json", action="store_true")

    explain_ = stage("explain", explain, "Show every setting of a cell, and the file and rule it comes from", plan=True)
    explain_.add_argument("name", help="an artefact (daigavane/table1), or a cell's name or its beginning")
    explain_.add_argument("--json", action="store_true")

    status_ = stage("status", status, "What has run, what failed and why, what remains; reads files only", plan=True)
    shown = status_.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true")
    shown.add_argument("--watch", action="store_true", help="one line, updated until every cell has a record")

    schemas_ = stage("schemas", schemas, "Write the JSON schemas of config, suites, experiments and cells")
    schemas_.add_argument("--out", type=Path, default=Path("workflow/schemas"))

    cli_privacy.add_stages(stage)
    return parser
