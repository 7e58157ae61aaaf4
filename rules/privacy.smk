# Solve for the noise (or the steps) of a target epsilon, with both guarantees. Cells with equal mechanisms share one.
CALIBRATIONS = PLAN.calibrations


rule calibrate:
    input:
        sources("calibrate"),
        graph=lambda wildcards: PATHS.graph_record(CALIBRATIONS[wildcards.key].task),
    output:
        SUITE / "privacy/{key}.json",
    log:
        f"logs/{CONFIG.suite}/calibrate/{{key}}.log",
    benchmark:
        f"benchmarks/{CONFIG.suite}/calibrate/{{key}}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=10,
    params:
        cell=lambda wildcards: CALIBRATIONS[
            wildcards.key
        ].for_calibration.model_dump_json(),
    message:
        "Calibrate {wildcards.key}"
    shell:
        "python -m dpgraph calibrate --cell {params.cell:q} --graph $(dirname {input.graph}) --out {output}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
