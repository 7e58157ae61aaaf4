"""What the subcommands of the workflow's stages do: each reads its options and calls the package."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from pathlib import Path

from dpgraph import outside
from dpgraph.errors import UserError, invalid, shown
from dpgraph.experiments.cell import Cell, Task
from dpgraph.experiments.config import Config, parse
from dpgraph.experiments.documents import json_value, read_yaml, text_of, yaml_value
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.record import CellRecord
from dpgraph.pipeline.bundles import Bundle, calibration_bundles, training_bundles
from dpgraph.planning.plan import Plan, load_plan, suite_papers
from dpgraph.planning.resolve import resolve

log = logging.getLogger("dpgraph")


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
    given = {}
    for item in options.set:
        name, equals, text = item.partition("=")
        if not equals:
            raise invalid("--set", item, "NAME=VALUE")
        value[name] = yaml_value(text, f"--set {shown(name)}")
        given[name] = "--set"
    if getattr(options, "suite", None) is not None:
        value["suite"], given["suite"] = options.suite, "--suite"
    if getattr(options, "paper", None) is not None:
        value["papers"], given["papers"] = [options.paper], "--paper"
    config = parse(Config, value, path, given)
    outside.use(config.registry)
    return config


def read_plan(options: argparse.Namespace) -> Plan:
    return load_plan(read_config(options), Path(options.workflow))


def fetch(options: argparse.Namespace) -> None:
    from dpgraph.data.fetch import fetch as fetch_data
    from dpgraph.data.fetch import mirrors_from
    from dpgraph.data.mirrors import remember
    from dpgraph.data.outside import forget_changed, with_home

    named = [part for part in options.mirrors.split(os.pathsep) if part]
    folder = options.out or Path("data/raw") / options.dataset
    forget_changed(options.dataset, folder)
    mirrors = with_home(options.dataset, mirrors_from(named, os.environ))
    manifest = fetch_data(options.dataset, folder, mirrors, missing=options.missing)
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
    cell = read_cell(options.cell)
    record = train_cell(
        cell,
        options.out,
        graph_folder=_graph_folder(options),
        calibration_path=options.calibration,
        device=options.device,
        workers=options.workers,
        again=options.again,
    )
    print(outcome_in_words(cell, record))


def outcome_in_words(cell: Cell, record: CellRecord) -> str:
    """Accuracy on test nodes, or the first metric where there is none, and both epsilons, each in a line."""
    from dpgraph.methods.registry import outside_of

    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    found = [[one for one in seed.metrics if one.final and one.class_id < 0] for seed in record.seeds]
    names = [one.metric for one in next((metrics for metrics in found if metrics), [])]
    name = "accuracy/test" if "accuracy/test" in names else names[0] if names else None
    values = [one.value for metrics in found for one in metrics if one.metric == name]
    lines = []
    if values:
        spread = f" ({min(values):.4g} to {max(values):.4g} over {len(values)} seeds)" if len(values) > 1 else ""
        lines.append(f"{name}: {sum(values) / len(values):.4g}{spread}")
    statement = record.statement or {}
    for mode in ("published", "rigorous"):
        one = statement.get(mode, {})
        called = "claimed (from outside the package)" if mode == "rigorous" and outside_of(cell.method) else mode
        epsilon, where = one.get("epsilon"), f"{one.get('relation')}, {one.get('scope')}"
        if epsilon is None:
            lines.append(f"epsilon, {called}: none: {one.get('reason')}")
        elif epsilon in (math.inf, "Infinity"):
            lines.append(f"epsilon, {called}: infinite: no privacy")
        else:
            lines.append(f"epsilon, {called}: {epsilon:.4g} ({where}) at delta {one.get('delta'):.3g}")
    return "\n".join(lines)


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
            f"{folder}: no graph there; make it with `dpgraph run {folder}/graph.json`, or with "
            f"`dpgraph fetch {task.dataset}` and `dpgraph preprocess {task.folder}`"
        )
    return folder


def aggregate(options: argparse.Namespace) -> None:
    from dpgraph.reporting.aggregate import aggregate as aggregate_records

    plan = read_plan(options)
    rows = aggregate_records(plan, options.out or Paths(plan.config).results)
    log.info("%d rows of %d cells", rows, len(plan.cells))


def artefacts(options: argparse.Namespace) -> None:
    from dpgraph.reporting.render import write_artefacts

    plan = read_plan(options)
    for name in options.artefacts:
        if name not in plan.artefacts:
            raise invalid("artefact", name, f"one of {', '.join(plan.artefacts)} (suite {plan.suite.name})")
    write_artefacts(plan, options.artefacts)


def claims(options: argparse.Namespace) -> None:
    from dpgraph.reporting.claims.table import write_claims
    from dpgraph.reporting.results import read_results

    plan = read_plan(options)
    paths = Paths(plan.config)
    page = paths.claims.with_suffix(".html")
    write_claims(plan, read_results(paths.results), paths.claims, page, Path(options.workflow))


def runtimes(options: argparse.Namespace) -> None:
    from dpgraph.reporting.results import read_results
    from dpgraph.reporting.runtimes import write_runtimes

    plan = read_plan(options)
    paths = Paths(plan.config)
    write_runtimes(plan, read_results(paths.results), paths.suite / "runtimes.html")


def index(options: argparse.Namespace) -> None:
    from dpgraph.reporting.claims.table import read_claims
    from dpgraph.reporting.leaderboard.page import write_index
    from dpgraph.reporting.results import read_results

    plan = read_plan(options)
    paths = Paths(plan.config)
    write_index(plan, read_results(paths.results), read_claims(paths.claims), paths.index)


def ship(options: argparse.Namespace) -> None:
    from dpgraph.reporting.shipping import ship as ship_results

    plan = read_plan(options)
    written = ship_results(plan, options.rows, options.out, Path(options.workflow))
    size = sum(path.stat().st_size for path in written)
    print(f"{options.out / plan.suite.name}: {len(written)} files, {size:,} bytes")


def render(options: argparse.Namespace) -> None:
    from dpgraph.reporting.render import ROWS
    from dpgraph.reporting.render import render as render_rows
    from dpgraph.reporting.shipping import FOLDER

    options.set = [*options.set, f"results={options.out}"]
    plan = read_plan(options)
    print(render_rows(plan, options.rows or FOLDER / plan.suite.name / ROWS, Path(options.workflow)))


def verify(options: argparse.Namespace) -> None:
    from dpgraph.reporting.verify import unlike_pages, unlike_statements

    lines = [*unlike_statements(), *unlike_pages(claims=not options.fast)]
    print("\n".join(lines) or "README, docs and docs/results print what the kept rows say")
    if lines:
        sys.exit(1)


def references(options: argparse.Namespace) -> None:
    from dpgraph.reporting.baselines.compared import seeds_by_task
    from dpgraph.reporting.baselines.references import write_references

    plan, task = read_plan(options), Task.from_folder(options.task)
    seeds, paths = seeds_by_task(plan), Paths(plan.config)
    if task not in seeds:
        raise invalid("task", options.task, f"one of {', '.join(one.folder for one in seeds)}")
    write_references(task, paths.graph(task), seeds[task], paths.reference(task))


def baselines(options: argparse.Namespace) -> None:
    from dpgraph.experiments.literature import read_baselines
    from dpgraph.reporting.baselines.table import complaints, write_baselines
    from dpgraph.reporting.results import read_results

    plan = read_plan(options)
    paths = Paths(plan.config)
    known = read_baselines(Path(options.workflow))
    table = write_baselines(plan, known, read_results(paths.results), paths.baselines)
    log.info("%s: %d comparisons", paths.baselines, len(table))
    if options.check and (lines := complaints(table)):
        print("\n".join(lines))
        sys.exit(1)


def settings(options: argparse.Namespace) -> None:
    from dpgraph.experiments.settings import FOLDER
    from dpgraph.reporting.views.search.chosen import write_settings

    plan = read_plan(options)
    out = options.out or Path(options.workflow) / FOLDER / f"{plan.suite.name}.yaml"
    chosen = write_settings(plan, out)
    methods = sum(map(len, chosen.papers.values()))
    log.info("%s: settings of %d methods, commit %s", out, methods, chosen.commit)


def audit_report(options: argparse.Namespace) -> None:
    from dpgraph.reporting.audit_figure import read_audits, write_audit_figure, write_audit_page

    plan = read_plan(options)
    paths = Paths(plan.config)
    audits = read_audits(paths.suite / "audits.parquet")
    write_audit_figure(audits, paths.figure("audits", "png").with_suffix(""))
    write_audit_page(plan, audits, paths.suite / "audits.html")


def schemas(options: argparse.Namespace) -> None:
    from dpgraph.planning.schemas import write_schemas

    for path in write_schemas(options.out):
        print(path)


def list_(options: argparse.Namespace) -> None:
    from dpgraph.catalogue import catalogue, known_anywhere, print_rows

    if not Path(options.workflow).is_dir() and options.what in ("methods", "datasets") and options.paper is None:
        read_config(options)  # an installed package alone, as for `fit`: no suite is there to speak of
        print_rows(known_anywhere(options.what), as_json=options.json)
        return
    if options.paper is not None:  # the user's own option, before the plan speaks of the config's papers
        asked = argparse.Namespace(**vars(options) | {"paper": None})
        known = suite_papers(read_config(asked), Path(options.workflow))
        if options.paper not in known:
            raise invalid("--paper", options.paper, f"one of {', '.join(known)}")
    plan = read_plan(options)
    print_rows(catalogue(options.what, plan, options.paper), as_json=options.json)


def inventory(options: argparse.Namespace) -> None:
    from dpgraph.catalogue import print_rows
    from dpgraph.experiments.inventory import Inventory

    path = Path(options.workflow) / "inventory.yaml"
    known = parse(Inventory, read_yaml(path), str(path))
    if options.paper is not None and options.paper not in known.papers:
        raise invalid("--paper", options.paper, f"one of {', '.join(known.papers)}")
    print_rows([row._asdict() for row in known.rows(options.paper)], as_json=options.json)


def explain(options: argparse.Namespace) -> None:
    from dpgraph.catalogue import print_explained

    print_explained(read_plan(options), options.name, options.json)


def status(options: argparse.Namespace) -> None:
    from dpgraph.pipeline.status import Watcher
    from dpgraph.pipeline.status_text import print_status

    print_status(Watcher(read_plan(options)), as_json=options.json, watched=options.watch)
