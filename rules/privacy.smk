# Solve for the noise (or the steps) of a target epsilon, with both guarantees. Cells with equal mechanisms share one.


rule calibrate:
    input:
        graph=lambda wildcards: PATHS.graph_record(
            CALIBRATION_BUNDLES[wildcards.bundle].task
        ),
    output:
        SUITE / "calibrated/{bundle}.json",
    log:
        f"logs/{CONFIG.suite}/calibrate/{{bundle}}.log",
    benchmark:
        f"benchmarks/{CONFIG.suite}/calibrate/{{bundle}}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: CALIBRATION_BUNDLES[
            wildcards.bundle
        ].memory_mb(attempt),
        runtime=lambda wildcards, attempt: CALIBRATION_BUNDLES[
            wildcards.bundle
        ].minutes(attempt),
    params:
        sources=lambda wildcards: calibrations_digest(
            PLAN.calibrations[key]
            for key in CALIBRATION_BUNDLES[wildcards.bundle].members
        ),
    message:
        "Calibrate {wildcards.bundle}"
    shell:
        'python -m dpgraph calibrate --bundle {wildcards.bundle} --config "$DPGRAPH_CONFIG"'
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
