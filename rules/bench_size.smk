# The pipeline itself at the sizes of ogbn-products and ogbn-mag, on generated files. Never part of a test.


rule bench_size:
    output:
        table=SUITE / "bench/size.csv",
        shown=SUITE / "bench/size.md",
    log:
        f"logs/{CONFIG.suite}/bench_size.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        sources=sources_digest("bench"),
        work=SUITE / "bench/size",
    message:
        "The pipeline at the sizes of ogbn-products and ogbn-mag"
    shell:
        "python -m dpgraph bench-size --out {output.table} --work {params.work}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
