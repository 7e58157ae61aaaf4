# The clipped sums of the private step by other libraries: time, memory, equality. Never part of a test.


rule bench_peers:
    output:
        table=SUITE / "bench/peers.csv",
        shown=multiext(str(SUITE / "bench/peers"), ".md", ".html", ".txt"),
        figure=multiext(str(SUITE / "bench/peers"), ".pdf", ".svg", ".png"),
    log:
        f"logs/{CONFIG.suite}/bench_peers.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=6000,
        runtime=120,
    params:
        sources=sources_digest("bench"),
    message:
        "The private step beside those of other libraries"
    shell:
        "python -m dpgraph bench-peers --out {output.table} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
