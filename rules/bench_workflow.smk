# Seconds and peak memory of the workflow itself: its plan of jobs, aggregation and status at scale. Never part of a test.


rule bench_workflow:
    output:
        SUITE / "bench/workflow.json",
    log:
        f"logs/{CONFIG.suite}/bench_workflow.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        sources=sources_digest("bench"),
    message:
        "Benchmark of the workflow"
    shell:
        "python -m dpgraph bench-workflow --out {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}; cat {output}"
