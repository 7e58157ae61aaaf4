# Time and memory of steps, samplers and the whole pipeline (bench/), in the folder of a checkout. Never part of a test.


DEVICE = f"--device {'cuda' if FLOW.config.device == 'cuda' else 'cpu'}"


rule bench_steps:
    output:
        table=FLOW.suite / "bench/steps.csv",
    log:
        FLOW.log("bench_steps"),
    conda:
        "../envs/cpu.yaml"
    params:
        module="steps",
        more=DEVICE,
    shell:
        FLOW.logged(
            "python -m bench.{params.module} --out {output.table} {params.more}"
        )


# clipped sums by other libraries
use rule bench_steps as bench_peers with:
    output:
        table=FLOW.suite / "bench/peers.csv",
        ratios=FLOW.suite / "bench/peers.md",
    log:
        FLOW.log("bench_peers"),
    resources:
        mem_mb=6000,
        runtime=120,
    params:
        module="peers",
        more=DEVICE,


# edge lists and ego trees at the size of ogbn-products
use rule bench_steps as bench_sampling with:
    output:
        table=FLOW.suite / "bench/sampling.csv",
    log:
        FLOW.log("bench_sampling"),
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        module="sampling",
        more="",


# the pipeline at the sizes of ogbn-products and ogbn-mag, on generated files
use rule bench_steps as bench_size with:
    output:
        table=FLOW.suite / "bench/size.csv",
    log:
        FLOW.log("bench_size"),
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        module="size",
        more=f"--work {FLOW.suite / 'bench/size'}",
