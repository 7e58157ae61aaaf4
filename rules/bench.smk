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


# speeds of the suite's encoders, which say how long would take what it leaves out
rule bench_encoders:
    input:
        SUITE_FILES,
        [PATHS.graph_record(task) for task in ENCODER_TASKS],
    output:
        PATHS.encoder_costs,
    log:
        f"logs/{CONFIG.suite}/bench_encoders.log",
    conda:
        CONDA
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        sources=sources_digest("bench"),
        plan=PLAN_ARGUMENTS,
    message:
        "Speeds of the encoders of {CONFIG.suite}"
    shell:
        "python -m dpgraph bench-encoders {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
