# Attacks on the project's own code. They read no data of the suite: a change of the code is what reruns them.


rule audit:
    output:
        parquet=FLOW.suite / "audits.parquet",
    log:
        FLOW.log("audit"),
    benchmark:
        FLOW.benchmark("audit")
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 3000 * attempt,
        runtime=20,
    params:
        sources=FLOW.sources("audit"),
        more="--quick" if FLOW.plan.suite.demonstration else "",
    shell:
        FLOW.logged("python -m dpgraph audit all {params.more} --out {output.parquet}")
