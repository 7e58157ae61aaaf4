# Time and memory of steps, samplers and the whole pipeline (bench/), in the folder of a checkout. Never part of a test.


rule bench:
    output:
        SUITE / "bench/steps.csv",
    log:
        f"logs/{CONFIG.suite}/bench.log",
    conda:
        "../envs/cpu.yaml"
    params:
        device="cuda" if CONFIG.device == "cuda" else "cpu",
    message:
        "Benchmark of the training steps"
    shell:
        "python -m bench.steps --out {output} --device {params.device} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# clipped sums by other libraries
rule bench_peers:
    output:
        table=SUITE / "bench/peers.csv",
        ratios=SUITE / "bench/peers.md",
    log:
        f"logs/{CONFIG.suite}/bench_peers.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=6000,
        runtime=120,
    message:
        "Clipped sums by this package and by other libraries"
    shell:
        "python -m bench.peers --out {output.table} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# edge lists and ego trees at the size of ogbn-products
rule bench_sampling:
    output:
        SUITE / "bench/sampling.csv",
    log:
        f"logs/{CONFIG.suite}/bench_sampling.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=8000,
        runtime=30,
    message:
        "Benchmark of the samplers"
    shell:
        "python -m bench.sampling --out {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# the pipeline at the sizes of ogbn-products and ogbn-mag, on generated files
rule bench_size:
    output:
        SUITE / "bench/size.csv",
    log:
        f"logs/{CONFIG.suite}/bench_size.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        work=SUITE / "bench/size",
    message:
        "The pipeline at the sizes of ogbn-products and ogbn-mag"
    shell:
        "python -m bench.size --out {output} --work {params.work} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
