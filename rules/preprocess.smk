# Read, verify, split and store one data set: <dataset>/<setting>.<split>[.<features>]


rule preprocess:
    input:
        manifest=PATHS.data / "raw/{dataset}/manifest.json",
    output:
        PATHS.data / "graphs/{dataset}/{task}/graph.json",
    log:
        "logs/preprocess/{dataset}.{task}.log",
    benchmark:
        "benchmarks/preprocess/{dataset}.{task}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt
        * memory_mb(Task.from_folder(f"{wildcards.dataset}/{wildcards.task}")),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        sources=lambda wildcards: preprocess_digest(wildcards.dataset),
    message:
        "Preprocess {wildcards.dataset}, {wildcards.task}"
    shell:
        "python -m dpgraph preprocess {wildcards.dataset}/{wildcards.task}"
        " --raw $(dirname {input.manifest}) --out $(dirname {output})"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
