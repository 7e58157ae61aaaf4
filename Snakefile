# Entry of the workflow. Rules are thin: each calls the command of `python -m dpgraph` that it is named after. A checkout
# has it in its root; the installed package has it as dpgraph/project/Snakefile, which the Snakefile of
# `dpgraph new-project` includes.
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")

HERE = Path(str(workflow.current_basedir)).resolve()
# of a checkout: the package next to this file, whether or not it is installed
SOURCES = HERE / "src" if (HERE / "src").is_dir() else None
if SOURCES:
    sys.path.insert(0, str(SOURCES))

from dpgraph.pipeline.workflow import Workflow


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


FLOW = Workflow.start(config, SOURCES, main=workflow.is_main_process)


wildcard_constraints:
    dataset=FLOW.datasets,
    task=r"[a-z]+\.[a-z0-9.-]+",
    bundle=r"[A-Za-z0-9.+-]+",


# in the main process, before its first job; no dry run comes here
onstart:
    FLOW.begin(workflow)


# what a plain `snakemake` makes; the report is made from the others, but a deleted figure is to be drawn again
rule all:
    default_target: True
    input:
        FLOW.paths.index,
        FLOW.paths.report,
        FLOW.paths.claims,
        FLOW.baselines,
        FLOW.outputs("table"),
        FLOW.outputs("figure"),
    localrule: True


# all graphs of the suite, preprocessed
rule data:
    input:
        FLOW.graphs,
    localrule: True


# all training runs of the suite
rule cells:
    input:
        sorted(set(FLOW.trained.values())),
    localrule: True


rule tables:
    input:
        FLOW.outputs("table"),
    localrule: True


rule figures:
    input:
        FLOW.outputs("figure"),
    localrule: True


# tables of hyper-parameter searches, of which only the cells are trained
rule search:
    input:
        FLOW.outputs(view="search"),
    localrule: True


include: "rules/fetch.smk"
include: "rules/preprocess.smk"
include: "rules/calibrate.smk"
include: "rules/train.smk"
include: "rules/audit.smk"
include: "rules/aggregate.smk"
include: "rules/pages.smk"
include: "rules/report.smk"
include: "rules/references.smk"
include: "rules/bench.smk"
