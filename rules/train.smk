# Cells of one task, with all their seeds. A cell that fails (diverged, no data) writes a record that says so. One that
# ran out of memory does, too, but fails its job in every attempt but the last, and the next run trains it again. A bundle
# that runs again leaves the cells alone that are there.


rule train:
    input:
        graph=FLOW.train.graph,
        calibrated=FLOW.calibrations_of,
    output:
        FLOW.suite / "trained/{bundle}.json",
    log:
        FLOW.log("train/{bundle}"),
    benchmark:
        FLOW.benchmark("train/{bundle}")
    conda:
        FLOW.conda
    threads: 1
    resources:
        gpu=1 if FLOW.config.device == "cuda" else 0,
        mem_mb=FLOW.train.memory,
        runtime=FLOW.train.minutes,
        attempt=lambda wildcards, attempt: attempt,
    params:
        sources=FLOW.train.sources,
        runs=FLOW.train.runs,
        unfinished=FLOW.train.unfinished,
        device=FLOW.config.device,
    message:
        "Train {wildcards.bundle}"
    shell:
        FLOW.logged(
            "DPGRAPH_ATTEMPT={resources.attempt} "
            "python -m dpgraph train {params.runs} --device {params.device} --workers {threads}"
        )
