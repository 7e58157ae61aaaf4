# Attacks on the project's own code, and their figure.
# They read no data of the suite: a change of the code is what reruns them.


rule audit:
    output:
        SUITE / "audits.parquet",
    log:
        f"logs/{CONFIG.suite}/audit.log",
    benchmark:
        f"benchmarks/{CONFIG.suite}/audit.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 3000 * attempt,
        runtime=20,
    params:
        sources=sources_digest("audit"),
        quick="--quick" if PLAN.suite.demonstration else "",
    message:
        "Audits of the code"
    shell:
        "python -m dpgraph audit all {params.quick} --out {output}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule audit_report:
    input:
        audits=SUITE / "audits.parquet",
    output:
        SUITE / "figures/audits.pdf",
        SUITE / "figures/audits.svg",
        SUITE / "figures/audits.txt",
        report(
            SUITE / "figures/audits.png",
            category="audits",
            labels={"result": "audits, figure"},
            caption="../workflow/report/audits.rst",
        ),
        report(
            SUITE / "audits.html",
            category="audits",
            labels={"result": "audits, table"},
            caption="../workflow/report/audits.rst",
        ),
    log:
        f"logs/{CONFIG.suite}/audit_report.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("figure"),
        plan=CONFIG.arguments(),
    message:
        "Figure of the audits"
    shell:
        "python -m dpgraph page audits {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# all audits, those of whole training runs among them: minutes
rule audits_nightly:
    output:
        parquet=SUITE / "audits-nightly.parquet",
        figure=multiext(
            str(SUITE / "figures/audits-nightly"), ".pdf", ".svg", ".png", ".txt"
        ),
    log:
        f"logs/{CONFIG.suite}/audits_nightly.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 3000 * attempt,
        runtime=120,
    params:
        sources=sources_digest("audit"),
        stem=lambda wildcards, output: os.path.splitext(output.figure[0])[0],
    message:
        "Audits of the code and of whole training runs"
    shell:
        "python -m dpgraph audit all --nightly --out {output.parquet} --figure {params.stem}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
