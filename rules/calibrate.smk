# Solve for the noise (or the steps) of a target epsilon, with both guarantees. Cells with equal mechanisms share one.


rule calibrate:
    input:
        graph=FLOW.calibrate.graph,
    output:
        FLOW.suite / "calibrated/{bundle}.json",
    log:
        FLOW.log("calibrate/{bundle}"),
    benchmark:
        FLOW.benchmark("calibrate/{bundle}")
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=FLOW.calibrate.memory,
        runtime=FLOW.calibrate.minutes,
    params:
        sources=FLOW.calibrate.sources,
        runs=FLOW.calibrate.runs,
    message:
        "Calibrate {wildcards.bundle}"
    shell:
        FLOW.logged("python -m dpgraph calibrate {params.runs}")
