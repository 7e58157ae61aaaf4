# Fetch a data set: mirrors first, then its canonical URLs. A data set that cannot be found is a recorded result.
import os

from dpgraph.data.fetch import mirrors_from
from dpgraph.data.mirrors import mirrors_parameter

MIRRORS = [str(mirror) for mirror in mirrors_from(CONFIG.mirrors, os.environ)]


rule download:
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
        sources=lambda wildcards: download_digest(wildcards.dataset),
        # tried again where a data set was unavailable and the mirrors have changed since; a good copy stays
        mirrors=lambda wildcards: mirrors_parameter(
            PATHS.raw(wildcards.dataset), MIRRORS
        ),
        missing=CONFIG.when_data_is_missing,
    message:
        "Fetch {wildcards.dataset}"
    shell:
        "python -m dpgraph fetch {wildcards.dataset} --out $(dirname {output}) --missing {params.missing}"
        " --mirrors={params.mirrors:q} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
