# Read, verify, split and store one data set: <dataset>/<setting>.<split>[.<features>]


rule preprocess:
    input:
        manifest=FLOW.paths.data / "raw/{dataset}/manifest.json",
    output:
        FLOW.paths.data / "graphs/{dataset}/{task}/graph.json",
    log:
        "logs/preprocess/{dataset}.{task}.log",
    benchmark:
        "benchmarks/preprocess/{dataset}.{task}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=FLOW.task_memory,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        sources=FLOW.preprocess_sources,
        packages=FLOW.packages,
    message:
        "Preprocess {wildcards.dataset}, {wildcards.task}"
    shell:
        FLOW.logged(
            "python -m dpgraph preprocess {wildcards.dataset}/{wildcards.task}"
            " --raw $(dirname {input.manifest}) --out $(dirname {output}) --packages={params.packages:q}"
        )
