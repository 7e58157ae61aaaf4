# Seconds and peak memory of edge lists and ego trees at the size of ogbn-products. Never part of a test.


rule bench_sampling:
    output:
        SUITE / "bench/sampling.json",
    log:
        f"logs/{CONFIG.suite}/bench_sampling.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        sources=sources_digest("bench"),
    message:
        "Benchmark of the samplers"
    shell:
        "python -m dpgraph bench-sampling --out {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# the same of approximate personalised PageRank, for all training nodes of one graph
rule bench_pagerank:
    input:
        graph=PATHS.data / "graphs/{dataset}/{task}/graph.json",
    output:
        SUITE / "bench/pagerank/{dataset}/{task}.json",
    log:
        f"logs/{CONFIG.suite}/bench_pagerank/{{dataset}}.{{task}}.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        sources=sources_digest("bench"),
    message:
        "Benchmark of PageRank rows on {wildcards.dataset}, {wildcards.task}"
    shell:
        "python -m dpgraph bench-pagerank $(dirname {input.graph}) --out {output}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
