# Results without privacy beside the literature's (workflow/baselines.yaml) and scikit-learn's on the same splits.


rule reference:
    input:
        graph=PATHS.data / "graphs/{dataset}/{task}/graph.json",
    output:
        SUITE / "references/{dataset}/{task}.json",
    log:
        f"logs/{CONFIG.suite}/reference/{{dataset}}.{{task}}.log",
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: attempt
        * memory_mb(Task.from_folder(f"{wildcards.dataset}/{wildcards.task}")),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        sources=sources_digest("references"),
        # seeds that are added need references of their own
        seeds=lambda wildcards: REFERENCES[f"{wildcards.dataset}/{wildcards.task}"],
        plan=PLAN_ARGUMENTS,
    message:
        "References on {wildcards.dataset}, {wildcards.task}"
    shell:
        "python -m dpgraph references {wildcards.dataset}/{wildcards.task} {params.plan}"
        " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule baselines:
    input:
        SUITE_FILES,
        PRINTED,
        results=PATHS.results,
        references=[PATHS.reference(Task.from_folder(folder)) for folder in REFERENCES],
    output:
        PATHS.baselines,
    log:
        f"logs/{CONFIG.suite}/baselines.log",
    conda:
        "../envs/cpu.yaml"
    params:
        sources=sources_digest("baselines"),
        plan=PLAN_ARGUMENTS,
    message:
        "Baselines of {CONFIG.suite}"
    shell:
        "python -m dpgraph page baselines {params.plan} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
