# Fetch a data set: mirrors first, then its canonical URLs. A data set that is nowhere to be had is a recorded result.
from dpgraph.data.fetch import mirrors_from, mirrors_of_manifest

MIRRORS = [str(mirror) for mirror in mirrors_from(CONFIG.mirrors, os.environ)]


rule download:
    input:
        sources("download"),
    output:
        PATHS.data / "raw/{dataset}/manifest.json",
    log:
        "logs/download/{dataset}.log",
    benchmark:
        "benchmarks/download/{dataset}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        runtime=240,
    params:
        # tried again where a data set was unavailable and the mirrors have changed since; a good copy stays
        mirrors=lambda wildcards: mirrors_of_manifest(
            PATHS.manifest(wildcards.dataset), MIRRORS
        ),
        missing=CONFIG.when_data_is_missing,
    message:
        "Fetch {wildcards.dataset}"
    shell:
        "{PYTHON} -m dpgraph fetch {wildcards.dataset} --out $(dirname {output}) --missing {params.missing}"
        " --mirrors {params.mirrors:q} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
