# Tables, figures, claims and the report.
CAPTIONS = "../workflow/report"


# all tables and figures of a paper that are functions of results.parquet have one job: one process draws fifty of them
# in a minute, where fifty would import the libraries fifty times
for NAME, ARTEFACTS in artefact_jobs(PLAN).items():

    rule:
        name:
            NAME
        input:
            SUITE_FILES,
            data=[
                path
                for artefact in ARTEFACTS
                for path in artefact_inputs(PLAN, artefact, TRAINED, CALIBRATED)
            ],
        output:
            [
                (
                    report(str(path), **about_page(path, CAPTIONS))
                    if path.suffix == ".html"
                    else path
                )
                for path in artefact_outputs(PLAN, ARTEFACTS)
            ],
        log:
            f"logs/{CONFIG.suite}/artefacts/{NAME}.log",
        conda:
            "../envs/cpu.yaml"
        params:
            sources=sources_digest("figure"),
            names=ARTEFACTS,
            plan=PLAN_ARGUMENTS,
        message:
            f"Tables and figures: {NAME}"
        shell:
            "python -m dpgraph artefacts {params.names} {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule claims:
    input:
        SUITE_FILES,
        results=PATHS.results,
    output:
        PATHS.claims,
        report(
            SUITE / "claims.html",
            category="claims and runtimes",
            labels={"result": "claims"},
            caption=f"{CAPTIONS}/claims.rst",
        ),
    log:
        f"logs/{CONFIG.suite}/claims.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("claims"),
        plan=PLAN_ARGUMENTS,
    message:
        "Claims of {CONFIG.suite}"
    shell:
        "python -m dpgraph page claims {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule runtimes:
    input:
        results=PATHS.results,
    output:
        SUITE / "runtimes.csv",
        report(
            SUITE / "runtimes.html",
            category="claims and runtimes",
            labels={"result": "runtimes"},
            caption=f"{CAPTIONS}/runtimes.rst",
        ),
    log:
        f"logs/{CONFIG.suite}/runtimes.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("runtimes"),
        plan=PLAN_ARGUMENTS,
    message:
        "Runtimes of {CONFIG.suite}"
    shell:
        "python -m dpgraph page runtimes {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# the first page: links to all else, so it comes after what it links to
rule index:
    input:
        rules.tables.input,
        rules.figures.input,
        rules.runtimes.output,
        rules.audits.input,
        BASELINES,
        results=PATHS.results,
        claims=PATHS.claims,
    output:
        PATHS.index,
    log:
        f"logs/{CONFIG.suite}/index.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("index"),
        plan=PLAN_ARGUMENTS,
    message:
        "First page of {CONFIG.suite}"
    shell:
        "python -m dpgraph page index {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


localrules:
    report,


# Snakemake reports on finished work only: a second Snakemake reads what this one has recorded so far.
rule report:
    input:
        rules.tables.input,
        rules.figures.input,
        rules.claims.output,
        rules.runtimes.output,
        rules.audits.input,
    output:
        PATHS.report,
    log:
        f"logs/{CONFIG.suite}/report.log",
    conda:
        "../envs/cpu.yaml"
    params:
        overrides=CONFIG.overrides(),
        snakefile=workflow.main_snakefile,
        style=HERE / "workflow/report/style.css",
    message:
        "Report of {CONFIG.suite}"
    shell:
        "python -m snakemake --snakefile {params.snakefile:q} --report {output} --nolock --cores 1"
        " --report-stylesheet {params.style:q}"
        " --config {params.overrides} -- tables figures claims runtimes audits"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
