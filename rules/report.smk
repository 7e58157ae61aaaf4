# Snakemake reports on finished work only: a second Snakemake reads what this one has recorded so far.


rule report:
    input:
        rules.tables.input,
        rules.figures.input,
        rules.claims.output,
        rules.runtimes.output,
        rules.audits.output,
    output:
        FLOW.paths.report,
    log:
        FLOW.log("report"),
    localrule: True
    conda:
        "../envs/cpu.yaml"
    params:
        overrides=FLOW.config.overrides(),
        snakefile=workflow.main_snakefile,
        style=HERE / "workflow/report/style.css",
    shell:
        FLOW.logged(
            "python -m snakemake --snakefile {params.snakefile:q} --report {output} --nolock --cores 1"
            " --report-stylesheet {params.style:q}"
            " --config {params.overrides} -- tables figures claims runtimes audits"
        )
