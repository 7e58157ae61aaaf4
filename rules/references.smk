# scikit-learn's logistic regressions on the splits of the suite, for the page baselines.


rule references:
    input:
        graph=FLOW.paths.data / "graphs/{dataset}/{task}/graph.json",
    output:
        FLOW.suite / "references/{dataset}/{task}.json",
    log:
        FLOW.log("references/{dataset}.{task}"),
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=FLOW.task_memory,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        sources=FLOW.sources("references"),
        seeds=FLOW.reference_seeds,
        plan=FLOW.config.arguments(),
    message:
        "References on {wildcards.dataset}, {wildcards.task}"
    shell:
        FLOW.logged(
            "python -m dpgraph references {wildcards.dataset}/{wildcards.task} {params.plan}"
        )
