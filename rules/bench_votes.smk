# Private votes over a stream of records, extrapolated to 10^9 edges. Never part of a test.


rule bench_votes:
    output:
        table=SUITE / "bench/votes.csv",
        figure=SUITE / "bench/votes.png",
    log:
        f"logs/{CONFIG.suite}/bench_votes.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        sources=sources_digest("bench"),
    message:
        "Private votes over a stream of records"
    shell:
        "python -m dpgraph bench-votes --out {output.table} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
