# One job per cell, with all its seeds. A cell that fails (diverged, out of memory, no data) writes a record that says so.


rule train:
    input:
        sources("train"),
        graph=lambda wildcards: PATHS.graph_record(PLAN.cells[wildcards.cell].task),
        calibration=lambda wildcards: PATHS.calibration(PLAN.cells[wildcards.cell])
        or [],
    output:
        result=SUITE / "cells/{cell}/result.json",
        cell=SUITE / "cells/{cell}/cell.json",
    log:
        f"logs/{CONFIG.suite}/train/{{cell}}.log",
    benchmark:
        f"benchmarks/{CONFIG.suite}/train/{{cell}}.jsonl"
    conda:
        CONDA
    threads: 1
    resources:
        gpu=1 if CONFIG.device == "cuda" else 0,
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        cell=lambda wildcards: PLAN.cells[wildcards.cell].model_dump_json(),
        calibration=lambda wildcards, input: (
            f"--calibration {input.calibration}" if input.calibration else ""
        ),
        device=CONFIG.device,
    message:
        "Train {wildcards.cell}"
    shell:
        "printf '%s\\n' {params.cell:q} > {output.cell};"
        " python -m dpgraph train --cell {output.cell} --out $(dirname {output.result})"
        " --graph $(dirname {input.graph}) {params.calibration} --device {params.device} --workers {threads}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
