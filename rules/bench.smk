# Throughput of the private step against the non-private one, in one process. Never part of a test.


rule bench:
    input:
        sources("train"),
    output:
        SUITE / "bench/step.json",
    log:
        f"logs/{CONFIG.suite}/bench.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    params:
        device=CONFIG.device,
    message:
        "Benchmark of the training step"
    shell:
        "python -m dpgraph bench --out {output} --device {params.device} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
