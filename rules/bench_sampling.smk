# Seconds and peak memory of edge lists and ego trees at the size of ogbn-products. Never part of a test.


rule bench_sampling:
    input:
        sources("train"),
    output:
        SUITE / "bench/sampling.json",
    log:
        f"logs/{CONFIG.suite}/bench_sampling.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=30,
    message:
        "Benchmark of the samplers"
    shell:
        "python -m dpgraph bench-sampling --out {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
