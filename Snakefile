# Entry of the workflow. Rules are thin: each calls one stage of `python -m dpgraph`. A checkout has it in its root; the
# installed package has it as dpgraph/project/Snakefile, which the Snakefile of `dpgraph new-project` includes.
import os
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")

HERE = Path(str(workflow.current_basedir)).resolve()
# of a checkout: the package next to this file, whether or not it is installed
SOURCES = HERE / "src" if (HERE / "src").is_dir() else None
if SOURCES:
    sys.path.insert(0, str(SOURCES))

from dpgraph.core import outside
from dpgraph.data.registry import entry, registry
from dpgraph.core.errors import UserError
from dpgraph.config.cell import Task
from dpgraph.config.config import Config
from dpgraph.config.config import parse as parse_config
from dpgraph.config.paths import Paths
from dpgraph.config.shell import export_config, export_interpreter
from dpgraph.config.sources import sources_digest
from dpgraph.pipeline.bundles import (
    calibration_bundles,
    calibrations_of,
    forget_unfinished,
    seconds_to_run,
    training_bundles,
)
from dpgraph.pipeline.fingerprints import (
    bundle_digest,
    calibrations_digest,
    download_digest,
    preprocess_digest,
)
from dpgraph.pipeline.interruptible import check_cluster
from dpgraph.pipeline.locks import remove_ended, sign
from dpgraph.planning.cost import memory_mb
from dpgraph.planning.fallback import provide
from dpgraph.planning.plan import WORKFLOW, load_plan
from dpgraph.reporting.baselines.compared import compared, seeds_by_task
from dpgraph.reporting.claimed import checks_noted
from dpgraph.reporting.inputs import (
    about_page,
    aggregate_inputs,
    artefact_inputs,
    artefact_jobs,
    artefact_outputs,
    front_page,
)

from snakemake_logger_plugin_dpgraph.jobs import expect


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


if workflow.is_main_process:
    for said in remove_ended():
        print(said, file=sys.stderr, flush=True)

try:
    CONFIG = parse_config(Config, config, "config")
    outside.use(CONFIG.registry)
    # which jobs there are depends on what can be had, so it is fetched before they are planned, and once only
    if workflow.is_main_process and CONFIG.when_data_is_missing == "record":
        if said := provide(CONFIG, WORKFLOW, os.environ):
            print(said, file=sys.stderr, flush=True)
    PLAN = load_plan(CONFIG, WORKFLOW)
    for task in PLAN.suite.tasks:
        entry(PLAN.task(task).dataset)  # refuses unknown data sets
    TRAINING_BUNDLES = training_bundles(PLAN)
    CALIBRATION_BUNDLES = calibration_bundles(PLAN)
    # a job must not judge markers: its own is not there while it runs
    if workflow.is_main_process:
        forget_unfinished(PLAN, TRAINING_BUNDLES.values(), CALIBRATION_BUNDLES.values())
        expect("train", seconds_to_run(PLAN, TRAINING_BUNDLES.values()))
except UserError as error:
    print(f"error: {error}", file=sys.stderr, flush=True)
    # a config error ends before any work with status 2; Snakemake would turn an exception into a traceback
    sys.stdout.flush()
    os._exit(2)

export_interpreter(SOURCES)
export_config(CONFIG)
config["about"] = front_page(PLAN)  # what the report's front page says of the suite
PATHS = Paths(CONFIG)
SUITE = PATHS.suite
PLAN_ARGUMENTS = CONFIG.arguments()
# the bundle's marker by the cell's slug, by the calibration's key
TRAINED = {
    member: PATHS.trained(name)
    for name, bundle in TRAINING_BUNDLES.items()
    for member in bundle.members
}
CALIBRATED = {
    member: PATHS.calibrated(name)
    for name, bundle in CALIBRATION_BUNDLES.items()
    for member in bundle.members
}
CONDA = "../envs/cpu.yaml" if CONFIG.device == "cpu" else "../envs/cuda.yaml"
SUITE_FILES = [
    f"workflow/suites/{CONFIG.suite}.yaml",
    *(f"workflow/experiments/{paper}.yaml" for paper in PLAN.experiments),
    *(f"workflow/settings/{name}.yaml" for name in PLAN.settings),
]


wildcard_constraints:
    dataset="|".join(registry()),
    task=r"[a-z]+\.[a-z0-9.-]+",
    bundle=r"[A-Za-z0-9.+-]+",


localrules:
    all,
    data,
    cells,
    tables,
    figures,
    search,
    audits,


# in the main process, before its first job; no dry run comes here
onstart:
    sign(getattr(workflow.persistence, "_lockfile", {}).values())
    try:
        check_cluster(workflow.executor_plugin.name)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        workflow.persistence.unlock()
        sys.stdout.flush()
        os._exit(2)


# seeds by folder of the graph, of results that are compared with computed references
REFERENCES = {task.folder: seeds for task, seeds in seeds_by_task(PLAN).items()}
KINDS = {name: spec.kind for name, spec in PLAN.artefacts.items()}
TABLES = artefact_outputs(PLAN, [name for name in KINDS if KINDS[name] == "table"])
FIGURES = artefact_outputs(PLAN, [name for name in KINDS if KINDS[name] == "figure"])
# tables of hyper-parameter searches: `snakemake search` trains their cells only
SEARCHES = [name for name, spec in PLAN.artefacts.items() if spec.view == "search"]
# a demonstration is compared with itself alone, and so is a project without numbers of the literature
PRINTED = WORKFLOW / "baselines.yaml"
COMPARED = not PLAN.suite.demonstration and PRINTED.is_file() and compared(PLAN)
BASELINES = [PATHS.baselines] if COMPARED else []


# what a plain `snakemake` makes; the report is made from the others, but a deleted figure is to be drawn again
rule all:
    default_target: True
    input:
        PATHS.index,
        PATHS.report,
        PATHS.claims,
        BASELINES,
        TABLES,
        FIGURES,


# all graphs of the suite, preprocessed
rule data:
    input:
        [PATHS.graph_record(PLAN.task(task)) for task in PLAN.suite.tasks],


# all training runs of the suite
rule cells:
    input:
        [PATHS.trained(name) for name in TRAINING_BUNDLES],


rule tables:
    input:
        TABLES,


rule figures:
    input:
        FIGURES,


rule search:
    input:
        artefact_outputs(PLAN, SEARCHES),


# attacks on the update code, and what they found
rule audits:
    input:
        PATHS.figure("audits", "png"),
        SUITE / "audits.html",


include: "rules/download.smk"
include: "rules/preprocess.smk"
include: "rules/privacy.smk"
include: "rules/train.smk"
include: "rules/audit.smk"
include: "rules/aggregate.smk"
include: "rules/report.smk"
include: "rules/baselines.smk"
include: "rules/bench.smk"
