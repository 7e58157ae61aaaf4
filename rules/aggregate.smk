# All results of the suite in one table; tables, figures and claims are functions of it alone.


rule aggregate:
    input:
        FLOW.files,
        results=FLOW.aggregate_inputs,
    output:
        results=FLOW.paths.results,
        columns=FLOW.paths.results.with_suffix(".columns.csv"),
    log:
        FLOW.log("aggregate"),
    benchmark:
        FLOW.benchmark("aggregate")
    conda:
        "../envs/cpu.yaml"
    params:
        sources=FLOW.sources("aggregate"),
        checks=FLOW.checks,
        plan=FLOW.config.arguments(),
    shell:
        FLOW.logged("python -m dpgraph aggregate {params.plan} --out {output.results}")
