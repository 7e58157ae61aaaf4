# Hyper-parameter searches: a table of the trials and the selected settings, from the records of their own cells.
# `snakemake search` trains these cells only.
SEARCHES = [name for name, spec in PLAN.artefacts.items() if spec.view == "search"]


rule search:
    input:
        [
            PATHS.table(name, suffix)
            for name in SEARCHES
            for suffix in ("csv", "md", "tex", "html", "best.yaml")
        ],


if SEARCHES:

    ruleorder: search_table > table

    rule search_table:
        input:
            SUITE_FILES,
            results=lambda wildcards: artefact_inputs(
                PLAN, f"{wildcards.paper}/{wildcards.artefact}", TRAINED, CALIBRATED
            ),
        output:
            SUITE / "tables/{paper}/{artefact}.csv",
            SUITE / "tables/{paper}/{artefact}.md",
            SUITE / "tables/{paper}/{artefact}.tex",
            SUITE / "tables/{paper}/{artefact}.parquet",
            SUITE / "tables/{paper}/{artefact}.best.yaml",
            report(
                SUITE / "tables/{paper}/{artefact}.html",
                category="{paper}",
                labels={"result": "{artefact}, table"},
                caption=f"{CAPTIONS}/table.rst",
            ),
        log:
            f"logs/{CONFIG.suite}/search/{{paper}}.{{artefact}}.log",
        wildcard_constraints:
            artefact="|".join(
                sorted({re.escape(name.split("/")[1]) for name in SEARCHES})
            ),
        conda:
            "../envs/cpu.yaml"
        params:
            sources=sources_digest("search"),
            plan=PLAN_ARGUMENTS,
        message:
            "Search {wildcards.paper}/{wildcards.artefact}"
        shell:
            "python -m dpgraph table {wildcards.paper}/{wildcards.artefact} {params.plan}"
            " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
