"""What `run` does: it resolves targets by name, and lets Snakemake make them and what they need, nothing else."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from dpgraph.errors import UserError, invalid, meant, shown

NAMED = (
    "all", "data", "cells", "tables", "figures", "claims", "search", "audits", "runtimes", "baselines", "report",
)  # fmt: skip
# greedy: jobs here are alike, and the optimising scheduler costs more than it saves. The timespan is how often
# Snakemake looks again for every job it has finished: at its default of a second that took a quarter of a core. The
# logger is ours: one live line, and no waiting for that timespan at the end.
ALWAYS = ("--scheduler", "greedy", "--max-jobs-per-timespan", "1000/1m", "--rerun-incomplete", "--logger", "dpgraph")


def add_run(added: argparse.ArgumentParser) -> None:
    added.epilog = "Example: dpgraph run daigavane/table7 --suite demo. In the folder of the project's Snakefile."
    text = f"artefacts (daigavane/table7, 'daigavane/fig*'), files below results/, or {', '.join(NAMED)} (default: all)"
    added.add_argument("targets", nargs="*", metavar="TARGET", help=text)
    added.add_argument("--suite", help="suite (default: that of config.yaml)")
    added.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override config.yaml")
    added.add_argument("--cores", type=int, help="jobs at a time (default: all cores; with --profile: the profile's)")
    added.add_argument("--profile", help="how to run, e.g. slurm (docs/cluster.md)")
    added.add_argument("-n", "--dry-run", action="store_true", help="only list the jobs")
    added.add_argument("-k", "--keep-going", action="store_true", help="go on with independent jobs when one fails")
    text = "further options of Snakemake, as one text: --snakemake='--forcerun train'"
    added.add_argument("--snakemake", default="", metavar="OPTIONS", help=text)


def run(options: argparse.Namespace) -> None:
    """Replaces this process by Snakemake's: Ctrl-C (status 130) and a cluster's signals reach that one alone."""
    command = command_of(options)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def command_of(options: argparse.Namespace) -> list[str]:
    """Snakemake's command line for the targets.

    Artefacts alone restrict the plan to their own cells: no other cell is planned, trained or collected. Cells that are
    there are used, and those that are made now are used by every later run of the suite.

    Raises UserError for a folder without a Snakefile, a target of another name, options that Snakemake cannot take.
    """
    from dpgraph.cli_stages import read_config
    from dpgraph.planning.plan import load_plan, suite_artefacts
    from dpgraph.reporting.inputs import artefact_outputs

    if not Path("Snakefile").is_file():
        raise UserError(f"{Path.cwd()}: no Snakefile; run in the folder of the project")
    if options.cores is not None and options.cores < 1:
        raise invalid("--cores", options.cores, "an integer >= 1")
    options.config, options.paper = "config.yaml", None
    config = read_config(options)
    known = suite_artefacts(config)
    artefacts, others = _sorted_out(options.targets, known, config.results, config.suite)
    targets: list[str] = []
    if artefacts:
        # the whole plan is needed only if something else is asked for, too
        part = config.model_copy(update={"artefacts": tuple(artefacts)})
        plan = load_plan(part)
        config = config if others else part
        targets += [str(path) for path in artefact_outputs(plan, plan.artefacts)]
        shown_first = [path for path in targets if path.endswith((".md", ".png"))]
        print("\n".join(["makes:", *(f"  {path}" for path in shown_first)]), file=sys.stderr)
    try:
        further = shlex.split(options.snakemake)
    except ValueError as error:
        raise UserError(f"--snakemake={shown(options.snakemake)}: {error}") from None
    command = [sys.executable, "-m", "dpgraph.pipeline.interruptible", *ALWAYS]
    if options.profile is not None:
        command += ["--profile", options.profile]
    if options.cores is not None or options.profile is None:
        command += ["--cores", str(options.cores or os.cpu_count() or 1)]
    command += ["--dry-run"] * options.dry_run + ["--keep-going"] * options.keep_going
    return [*command, *further, "--config", *config.items(), "--", *targets, *others]


def _sorted_out(targets: Sequence[str], known: Sequence[str], results: str, suite: str) -> tuple[list[str], list[str]]:
    """(ids of artefacts, named targets and files)"""
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
                f"target={shown(target)}: expected an artefact (dpgraph list artefacts --suite {suite})"
                f", a file below {results}/, or one of {', '.join(NAMED)}{meant(target, [*known, *NAMED])}"
            )
    return list(dict.fromkeys(artefacts)), others
