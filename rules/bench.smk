# Cost and memory of the private steps of every architecture against the step without privacy. Never part of a test.


rule bench:
    output:
        SUITE / "bench/steps.csv",
    log:
        f"logs/{CONFIG.suite}/bench.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    params:
        sources=sources_digest("bench"),
        device=CONFIG.device,
    message:
        "Benchmark of the training steps"
    shell:
        "python -m dpgraph bench --out {output} --device {params.device} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule bench_growth:
    output:
        table=SUITE / "bench/growth.csv",
        figure=SUITE / "bench/growth.png",
    log:
        f"logs/{CONFIG.suite}/bench_growth.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    params:
        sources=sources_digest("bench"),
    message:
        "Growth of the cost of a private step"
    shell:
        "python -m dpgraph bench-growth --out {output.table} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
