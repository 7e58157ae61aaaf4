# Cells of one task, with all their seeds. A cell that fails (diverged, out of memory, no data) writes a record that says
# so. A bundle that runs again leaves the cells alone that are there.


rule train:
    input:
        graph=lambda wildcards: PATHS.graph_record(
            TRAINING_BUNDLES[wildcards.bundle].task
        ),
        calibrated=lambda wildcards: sorted(
            {
                CALIBRATED[key]
                for key in calibrations_of(PLAN, TRAINING_BUNDLES[wildcards.bundle])
            }
        ),
    output:
        SUITE / "trained/{bundle}.json",
    log:
        f"logs/{CONFIG.suite}/train/{{bundle}}.log",
    benchmark:
        f"benchmarks/{CONFIG.suite}/train/{{bundle}}.jsonl"
    conda:
        CONDA
    threads: 1
    resources:
        gpu=1 if CONFIG.device == "cuda" else 0,
        mem_mb=lambda wildcards, attempt: TRAINING_BUNDLES[wildcards.bundle].memory_mb(
            attempt
        ),
        runtime=lambda wildcards, attempt: TRAINING_BUNDLES[wildcards.bundle].minutes(
            attempt
        ),
    params:
        sources=lambda wildcards: bundle_digest(
            PLAN.cells[name] for name in TRAINING_BUNDLES[wildcards.bundle].members
        ),
        device=CONFIG.device,
    message:
        "Train {wildcards.bundle}"
    shell:
        'python -m dpgraph train --bundle {wildcards.bundle} --config "$DPGRAPH_CONFIG"'
        " --device {params.device} --workers {threads}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
