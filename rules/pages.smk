# Tables and figures, and the pages of a suite: each is a target of its own, `dpgraph run claims`.
CAPTIONS = "../workflow/report"


# all tables and figures of a paper that are functions of results.parquet have one job: one process draws fifty of them
# in a minute, where fifty would import the libraries fifty times
for NAME, ARTEFACTS in FLOW.artefact_jobs.items():

    rule:
        name:
            NAME
        input:
            FLOW.files,
            data=FLOW.artefact_inputs(ARTEFACTS),
        output:
            FLOW.artefact_outputs(ARTEFACTS, report),
        log:
            FLOW.log(f"artefacts/{NAME}"),
        conda:
            "../envs/cpu.yaml"
        params:
            sources=FLOW.sources("figure"),
            names=ARTEFACTS,
            plan=FLOW.config.arguments(),
        shell:
            FLOW.logged("python -m dpgraph artefacts {params.names} {params.plan}")


rule claims:
    input:
        FLOW.files,
        results=FLOW.paths.results,
    output:
        FLOW.paths.claims,
        report(
            FLOW.suite / "claims.html",
            category="claims and runtimes",
            labels={"result": "claims"},
            caption=f"{CAPTIONS}/claims.rst",
        ),
    log:
        FLOW.log("claims"),
    conda:
        "../envs/cpu.yaml"
    params:
        page="claims",
        sources=FLOW.sources("claims"),
        plan=FLOW.config.arguments(),
    shell:
        FLOW.logged("python -m dpgraph page {params.page} {params.plan}")


use rule claims as runtimes with:
    input:
        results=FLOW.paths.results,
    output:
        FLOW.suite / "runtimes.csv",
        report(
            FLOW.suite / "runtimes.html",
            category="claims and runtimes",
            labels={"result": "runtimes"},
            caption=f"{CAPTIONS}/runtimes.rst",
        ),
    log:
        FLOW.log("runtimes"),
    params:
        page="runtimes",
        sources=FLOW.sources("runtimes"),


use rule claims as audits with:
    input:
        audits=FLOW.suite / "audits.parquet",
    output:
        FLOW.suite / "figures/audits.pdf",
        FLOW.suite / "figures/audits.svg",
        FLOW.suite / "figures/audits.txt",
        report(
            FLOW.suite / "figures/audits.png",
            category="audits",
            labels={"result": "audits, figure"},
            caption=f"{CAPTIONS}/audits.rst",
        ),
        report(
            FLOW.suite / "audits.html",
            category="audits",
            labels={"result": "audits, table"},
            caption=f"{CAPTIONS}/audits.rst",
        ),
    log:
        FLOW.log("audits"),
    params:
        page="audits",
        sources=FLOW.sources("figure"),


# results without privacy beside the literature's and scikit-learn's on the same splits
use rule claims as baselines with:
    input:
        FLOW.files,
        FLOW.printed,
        results=FLOW.paths.results,
        references=FLOW.reference_files,
    output:
        FLOW.paths.baselines,
    log:
        FLOW.log("baselines"),
    params:
        page="baselines",
        sources=FLOW.sources("baselines"),


# the first page: links to all else, so it comes after what it links to
use rule claims as index with:
    input:
        rules.tables.input,
        rules.figures.input,
        rules.runtimes.output,
        rules.audits.output,
        FLOW.baselines,
        results=FLOW.paths.results,
        claims=FLOW.paths.claims,
    output:
        FLOW.paths.index,
    log:
        FLOW.log("index"),
    params:
        page="index",
        sources=FLOW.sources("index"),
