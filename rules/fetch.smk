# Fetch a data set: mirrors first, then its canonical URLs. A data set that cannot be found is a recorded result.


rule fetch:
    output:
        FLOW.paths.data / "raw/{dataset}/manifest.json",
    log:
        "logs/fetch/{dataset}.log",
    benchmark:
        "benchmarks/fetch/{dataset}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        runtime=240,
    params:
        sources=FLOW.fetch_sources,
        mirrors=FLOW.mirrors,
        missing=FLOW.config.when_data_is_missing,
    message:
        "Fetch {wildcards.dataset}"
    shell:
        FLOW.logged(
            "python -m dpgraph fetch {wildcards.dataset} --out $(dirname {output}) --missing {params.missing}"
            " --mirrors={params.mirrors:q}"
        )
