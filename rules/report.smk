# Tables, figures, claims and the report.
CAPTIONS = "../workflow/report"


rule table:
    input:
        SUITE_FILES,
        data=lambda wildcards: artefact_inputs(
            PLAN, f"{wildcards.paper}/{wildcards.artefact}", TRAINED, CALIBRATED
        ),
    output:
        SUITE / "tables/{paper}/{artefact}.csv",
        SUITE / "tables/{paper}/{artefact}.md",
        SUITE / "tables/{paper}/{artefact}.tex",
        report(
            SUITE / "tables/{paper}/{artefact}.html",
            category="{paper}",
            labels={"result": "{artefact}, table"},
            caption=f"{CAPTIONS}/table.rst",
        ),
    log:
        f"logs/{CONFIG.suite}/table/{{paper}}.{{artefact}}.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("table"),
        plan=PLAN_ARGUMENTS,
    message:
        "Table {wildcards.paper}/{wildcards.artefact}"
    shell:
        "python -m dpgraph table {wildcards.paper}/{wildcards.artefact} {params.plan}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# the same in the paper's own layout: what it prints above ours
rule wide_table:
    input:
        SUITE_FILES,
        data=lambda wildcards: artefact_inputs(
            PLAN, f"{wildcards.paper}/{wildcards.artefact}", TRAINED, CALIBRATED
        ),
    output:
        SUITE / "tables/{paper}/{artefact}.wide.csv",
        SUITE / "tables/{paper}/{artefact}.wide.md",
        SUITE / "tables/{paper}/{artefact}.wide.tex",
        report(
            SUITE / "tables/{paper}/{artefact}.wide.html",
            category="{paper}",
            labels={"result": "{artefact}, table as in the paper"},
            caption=f"{CAPTIONS}/table.rst",
        ),
    log:
        f"logs/{CONFIG.suite}/wide_table/{{paper}}.{{artefact}}.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("table"),
        plan=PLAN_ARGUMENTS,
    message:
        "Table {wildcards.paper}/{wildcards.artefact} as in the paper"
    shell:
        "python -m dpgraph table --wide {wildcards.paper}/{wildcards.artefact} {params.plan}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule figure:
    input:
        SUITE_FILES,
        data=lambda wildcards: artefact_inputs(
            PLAN, f"{wildcards.paper}/{wildcards.artefact}", TRAINED, CALIBRATED
        ),
    output:
        SUITE / "figures/{paper}/{artefact}.pdf",
        SUITE / "figures/{paper}/{artefact}.svg",
        SUITE / "figures/{paper}/{artefact}.csv",
        SUITE / "figures/{paper}/{artefact}.txt",
        SUITE / "figures/{paper}/{artefact}.png",
        report(
            SUITE / "figures/{paper}/{artefact}.html",
            category="{paper}",
            labels={"result": "{artefact}, figure"},
            caption=f"{CAPTIONS}/figure.rst",
        ),
    log:
        f"logs/{CONFIG.suite}/figure/{{paper}}.{{artefact}}.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("figure"),
        plan=PLAN_ARGUMENTS,
    message:
        "Figure {wildcards.paper}/{wildcards.artefact}"
    shell:
        "python -m dpgraph figure {wildcards.paper}/{wildcards.artefact} {params.plan}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule claims:
    input:
        SUITE_FILES,
        data=claims_inputs(PLAN),
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
