# All results of the suite in one table; tables, figures and claims are functions of it alone.


rule aggregate:
    input:
        SUITE_FILES,
        results=aggregate_inputs(PLAN, TRAINED, CALIBRATED),
    output:
        results=PATHS.results,
        columns=PATHS.results.with_suffix(".columns.csv"),
    log:
        f"logs/{CONFIG.suite}/aggregate.log",
    benchmark:
        f"benchmarks/{CONFIG.suite}/aggregate.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("aggregate"),
        checks=checks_noted(entry.cell.method for entry in PLAN.entries),
        plan=PLAN_ARGUMENTS,
    message:
        "Aggregate {CONFIG.suite}"
    shell:
        "python -m dpgraph aggregate {params.plan} --out {output.results} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
