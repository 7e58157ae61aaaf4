"""Command line: one subcommand per stage of the workflow. The rules call nothing else.

A user's mistake prints one line and exits with 2, a failure of the file system (no space left, a read-only folder) one
with the file and exits with 1. This module imports nothing heavy: a subcommand's options are added, and what it runs is
imported (cli_stages.py, cli_bench.py, cli_privacy.py), when it is the one that is asked for.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpgraph import __version__
from dpgraph.cli_parser import Parser
from dpgraph.errors import UserError
from dpgraph.loading import load


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    asked = next((argument for argument in given if not argument.startswith("-")), None)
    if asked is not None and asked not in STAGES:
        from dpgraph.errors import meant, shown

        print(f"error: STAGE={shown(asked)}: expected one of dpgraph --help{meant(asked, STAGES)}", file=sys.stderr)
        return 2
    options = _parser(given).parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    try:
        _name_outside(options)
        load(options.run)(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a listing (head, less) has left
        sys.stderr.close()
        return 1
    except OSError as error:
        from dpgraph.files import cause

        print(f"error: {cause(error)}", file=sys.stderr)
        return 1
    except ValueError as error:
        if (line := _invalid(error)) is None:
            raise
        print(f"error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        name = str(error) or "SIGINT"
        whole = STAGES[given[0]].run.startswith("dpgraph.cli_fit:") if given and given[0] in STAGES else False
        kept = "nothing was written" if whole else "finished work is kept, run again to resume"
        print(f"error: ended by {name}: {kept}", file=sys.stderr)
        return 128 + signal.Signals[name]
    return 0


def _name_outside(options: argparse.Namespace) -> None:
    """What the config of this folder names outside the package, for stages that read no config of their own.

    Away from a Snakefile a config.yaml may be another program's: it is read where all its names are ours.
    """
    path = Path("config.yaml")
    here = getattr(options, "config", path.name) == path.name and path.is_file()
    if here and "registry:" in path.read_text(errors="replace"):
        from dpgraph.experiments.config import Config, knows
        from dpgraph.experiments.config import load as load_config
        from dpgraph.outside import use

        if Path("Snakefile").is_file() or knows(Config, path):
            use(load_config(Config, path).registry)


def _invalid(error: ValueError) -> str | None:
    """A model's own error in one line; None for any other."""
    from pydantic import ValidationError

    from dpgraph.experiments.config import first_line

    return f"{error.title}: {first_line(error)}" if isinstance(error, ValidationError) else None


@dataclass(frozen=True)
class Subcommand:
    """A subcommand. `run`, "module:function" of its options, is imported when it runs; `plan`: it reads the config."""

    text: str
    run: str
    options: Callable[[Parser], None] = lambda _: None
    plan: bool = False


def _parser(arguments: Sequence[str]) -> Parser:
    """All subcommands, with the options of the one that `arguments` ask for: the others' are never read."""
    parser = Parser(prog="dpgraph", description=sys.modules["dpgraph"].__doc__)
    parser.add_argument("--version", action="version", version=f"dpgraph {__version__}")
    added = parser.add_subparsers(required=True, metavar="STAGE")
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, stage in STAGES.items():
        own = added.add_parser(name, help=stage.text, description=stage.text)
        if name == asked:
            own.set_defaults(run=stage.run)
            if stage.plan:
                _plan_options(own)
            stage.options(own)
    return parser


def _plan_options(added: Parser) -> None:
    added.add_argument("--config", default="config.yaml", help="config: a file, or JSON text (config.yaml)")
    added.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override the config")
    added.add_argument("--workflow", default="workflow", help="folder of suites and experiments")
    added.add_argument("--suite", help="suite (default: the config's)")


def _fetch(added: Parser) -> None:
    added.add_argument("dataset")
    added.add_argument("--out", type=Path, default=None, help="folder (default: data/raw/DATASET)")
    added.add_argument("--mirrors", default="", help="folders tried first, separated as in PATH")
    added.add_argument("--missing", choices=["record", "fail"], default="fail", help="when the files cannot be found")


def _preprocess(added: Parser) -> None:
    added.add_argument("task", help="DATASET/SETTING.SPLIT[.FEATURES], e.g. cora/disjoint.train-rest")
    added.add_argument("--raw", type=Path, help="folder of the fetched files (default: data/raw/DATASET)")
    added.add_argument("--out", type=Path, help="folder (default: data/graphs/TASK)")


def _cell_options(added: Parser) -> None:
    what = added.add_mutually_exclusive_group(required=True)
    what.add_argument("--cell", help="cell: a JSON file, or JSON text")
    what.add_argument("--bundle", help="cells that share a job of the workflow; reads the config and the suite")
    added.add_argument("--graph", type=Path, help="with --cell: folder of the graph (default: data/graphs/...)")


def _calibrate(added: Parser) -> None:
    _cell_options(added)
    added.add_argument("--out", type=Path, help="with --cell: JSON file")


def _train(added: Parser) -> None:
    _cell_options(added)
    added.add_argument("--out", type=Path, help="with --cell: folder of the results")
    added.add_argument("--calibration", type=Path, help="with --cell: its calibration (default: calibrate now)")
    added.add_argument("--again", action="store_true", help="with --cell: train finished seeds again")
    _device(added)
    added.add_argument("--workers", type=int, default=1, help="seeds at a time, one single-threaded process each")


def _device(added: Parser) -> None:
    added.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")


def _out(added: Parser) -> None:
    added.add_argument("--out", type=Path)


def _artefact(added: Parser) -> None:
    added.add_argument("artefact", help="e.g. daigavane/table1")


def _table(added: Parser) -> None:
    _artefact(added)
    added.add_argument("--wide", action="store_true", help="in the paper's own layout, for tables of accuracies")


def _list(added: Parser) -> None:
    added.epilog = "Example: dpgraph list artefacts --suite cpu --paper daigavane. In the folder of the project."
    added.add_argument("what", choices=["papers", "artefacts", "claims", "methods", "datasets", "cells"])
    added.add_argument("--paper", help="only this paper")
    added.add_argument("--json", action="store_true")


def _inventory(added: Parser) -> None:
    added.add_argument("--paper", help="only this one, as the file names it")
    added.add_argument("--workflow", default="workflow", help="folder of inventory.yaml")
    added.add_argument("--json", action="store_true")


def _explain(added: Parser) -> None:
    added.epilog = "Example: dpgraph explain daigavane/table1 --suite demo. In the folder of the project."
    added.add_argument("name", help="an artefact (daigavane/table1), or a cell's name or its beginning")
    added.add_argument("--json", action="store_true")


def _references(added: Parser) -> None:
    added.add_argument("task", help="DATASET/SETTING.SPLIT[.FEATURES] of the suite")


def _baselines(added: Parser) -> None:
    text = "status 1, with a line for each, if a result is more than 1.5 points lower than a reference without a reason"
    added.add_argument("--check", action="store_true", help=text)


def _ship(added: Parser) -> None:
    added.add_argument("--out", type=Path, default=Path("docs/results"), help="folder (default: docs/results)")
    text = "write the suite's pages there again, with the words of today, from the numbers that are kept there"
    added.add_argument("--pages", action="store_true", help=text)


def _settings(added: Parser) -> None:
    text = "YAML file (default: workflow/settings/SUITE.yaml)"
    added.add_argument("--out", type=Path, help=text)


def _status(added: Parser) -> None:
    shown = added.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true")
    shown.add_argument("--watch", action="store_true", help="one line, updated until every cell has a record")


def _schemas(added: Parser) -> None:
    added.add_argument("--out", type=Path, required=True, help="folder to write them to")


def _epsilon(added: Parser) -> None:
    from dpgraph.cli_privacy import mechanism_options

    mechanism_options(added, solving=False)


def _noise(added: Parser) -> None:
    from dpgraph.cli_privacy import mechanism_options

    mechanism_options(added, solving=True)


def _plan(added: Parser) -> None:
    added.epilog = (
        "Example: dpgraph plan --num-train 1000 --hops 1 --max-degree 5 --epsilon 4 --max-steps 100. No data are read."
    )
    added.add_argument("--num-train", type=int, required=True, help="N, training nodes, public")
    added.add_argument("--hops", type=int, required=True, help="r, layers of message passing")
    added.add_argument("--max-degree", type=int, help="K, lists in which a node may occur (with hops)")
    added.add_argument("--list-cap", type=int, help="D, longest list (default: K)")
    added.add_argument("--epsilon", type=float, required=True)
    added.add_argument("--delta", type=float, help="default: 1 / (10 N), N training nodes")
    added.add_argument("--max-steps", type=int, required=True, help="step budget")
    text = "C_n / C_s: plan residual clipping (equal batch rates)"
    added.add_argument("--neighbour-clip", type=float, metavar="RATIO", help=text)
    added.add_argument("--json", action="store_true")


def _audit(added: Parser) -> None:
    added.add_argument(
        "audit",
        help="update, trajectory, partition, residual, appr, pate, lists, sensitivity, clipping, locality, self-terms, "
        "the nightly ones canary, canary-residual, one-run, or all",
    )
    added.add_argument("--nightly", action="store_true", help="with all: run the nightly audits, too (minutes)")
    added.add_argument("--trials", type=int, help="trials per side (default: the audit's own)")
    added.add_argument(
        "--quick", action="store_true", help="fewer trials where an audit takes long (half a minute in all)"
    )
    added.add_argument("--out", type=Path, help="Parquet file of the results")
    added.add_argument("--figure", type=Path, metavar="STEM", help="with --out: STEM.pdf, .svg and .png of the curves")
    added.add_argument("--json", action="store_true")


def _check_method(added: Parser) -> None:
    added.add_argument("method", help="a method of your own, e.g. dp-mine")


def _check_accounting(added: Parser) -> None:
    added.add_argument("file", type=Path)


def _of(name: str, text: str, options: Callable[[Parser], None] = lambda _: None, plan: bool = False) -> Subcommand:
    return Subcommand(text, f"dpgraph.cli_stages:{name}", options, plan)


def _in(module: str, name: str, text: str, plan: bool = False, options: str | None = None) -> Subcommand:
    """A subcommand of a module that adds its options itself, by `add_` and its name."""
    add = f"dpgraph.{module}:{options or f'add_{name}'}"
    return Subcommand(text, f"dpgraph.{module}:{name}", lambda added: load(add)(added), plan)


def _accounting(name: str, text: str, options: Callable[[Parser], None]) -> Subcommand:
    return Subcommand(text, f"dpgraph.cli_privacy:{name}", options)


STAGES: dict[str, Subcommand] = {
    "fit": _in("cli_fit", "fit", "Train a private model on your own graph, with a privacy card"),
    "predict": _in("cli_fit", "predict", "Predict new nodes with a model that fit made"),
    "compare": _in("cli_fit", "compare", "Compare methods on your own graph at one epsilon"),
    "afford": _in("cli_fit", "afford", "Say in words whether a graph affords an epsilon"),
    "export": _in("cli_fit", "export", "Write a release as CSV files"),
    "run": _in("cli_run", "run", "Make artefacts (daigavane/table7), or a whole suite, with Snakemake"),
    "cost": _in("cli_cost", "cost", "Hours, memory and wall time of each artefact before it runs", plan=True),
    "throughputs": _in("cli_cost", "throughputs", "What training took in a run, for the subcommand cost", plan=True),
    "new-dataset": _in("cli_outside", "new_dataset", "Skeleton of a data set of your own", options="add_new"),
    "new-method": _in("cli_outside", "new_method", "Skeleton of a method of your own", options="add_new"),
    "check-method": Subcommand(
        "Check a method of your own; results list the outcome", "dpgraph.cli_outside:check_method", _check_method
    ),
    "fetch": _of("fetch", "Fetch a data set's files from a mirror or its URLs", _fetch),
    "preprocess": _of("preprocess", "Read, verify, split and store one graph", _preprocess),
    "calibrate": _of(
        "calibrate", "Solve a cell's privacy target for noise or steps, with both guarantees", _calibrate, plan=True
    ),
    "train": _of("train", "Train a cell, or a bundle of cells, all seeds", _train, plan=True),
    "aggregate": _of("aggregate", "Collect all records of a suite in one Parquet table", _out, plan=True),
    "table": _of("table", "Make one table", _table, plan=True),
    "figure": _of("figure", "Make one figure", _artefact, plan=True),
    "claims": _of("claims", "Give a verdict on every claim", plan=True),
    "index": _of("index", "Write the first page of the results, which links to all else", plan=True),
    "ship": _of("ship", "Keep the suite's results in docs/results: page, tables, figures, claims", _ship, plan=True),
    "runtimes": _of("runtimes", "List runtime, memory and outcome of every cell", plan=True),
    "references": _of("references", "Logistic regressions on a task's splits, by scikit-learn", _references, plan=True),
    "baselines": _of(
        "baselines", "Compare results without privacy with the literature and with references", _baselines, plan=True
    ),
    "settings": _of(
        "settings", "Write the settings that a suite's searches chose, for other suites to read", _settings, plan=True
    ),
    "audit-report": _of("audit_report", "Make the figure and page of the suite's audits", plan=True),
    "ogb-files": _in(
        "cli_bench", "ogb_files", "Generated files in OGB's layout at a data set's size, to rehearse with"
    ),
    "bench": _in("cli_bench", "bench", "Private step against the non-private step on the same batches"),
    "bench-growth": _in(
        "cli_bench",
        "bench_growth",
        "How a private step's cost grows with each quantity, with a figure",
        options="add_out",
    ),
    "bench-encoders": _in(
        "cli_bench", "bench_encoders", "A suite's encoders with and without privacy", plan=True, options="add_out"
    ),
    "bench-sampling": _in(
        "cli_bench", "bench_sampling", "Edge lists and ego trees at the sizes of ogbn-arxiv and -products"
    ),
    "bench-pagerank": _in("cli_bench", "bench_pagerank", "PageRank rows of all training nodes of a graph"),
    "bench-peers": _in("cli_bench", "bench_peers", "Clipped sums by Opacus, torch.func, JAX and PyTorch Geometric"),
    "bench-size": _in("cli_bench", "bench_size", "The pipeline at the sizes of ogbn-products and ogbn-mag, by stage"),
    "bench-workflow": _in("cli_bench", "bench_workflow", "The workflow's jobs, aggregation and status at scale"),
    "list": _of("list_", "List papers, artefacts, claims, methods, data sets or cells", _list, plan=True),
    "inventory": _of(
        "inventory", "List the papers' tables, figures and claims, and what shows each or why nothing does", _inventory
    ),
    "explain": _of("explain", "Show every setting of a cell, and the file and rule it comes from", _explain, plan=True),
    "status": _of("status", "What has run, what failed and why, what remains; reads files only", _status, plan=True),
    "schemas": _of("schemas", "Write the JSON schemas of config, suites, experiments and cells", _schemas),
    "epsilon": _accounting("epsilon", "Epsilon of a mechanism under its accountants", _epsilon),
    "noise": _accounting("noise", "Least noise, most steps or highest batch rate for a target epsilon", _noise),
    "plan": _accounting("plan", "Best (batch rate, steps, noise) for a target under the rigorous accountant", _plan),
    "audit": _accounting("audit", "Attack the project's own code; status 1 if a claim does not hold", _audit),
    "check-accounting": _accounting(
        "check_accounting", "Check the accountants against a CSV of reference values", _check_accounting
    ),
}
