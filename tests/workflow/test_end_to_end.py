"""The workflow from download to report on a tiny suite, which runs once: each test has a copy of it."""

import os
from pathlib import Path

import pandas as pd
import pytest

from dpgraph.reporting.results import read_results


def test_everything_is_there(finished):
    results = finished.folder / "results/tiny"
    for name in (
        *(f"tables/daigavane/{table}.{suffix}" for table in ("table1", "table7") for suffix in ("csv", "md", "tex")),
        *(f"figures/daigavane/fig2.{suffix}" for suffix in ("pdf", "svg", "png", "txt", "html")),
        "claims.csv",
        "results.parquet",
        "index.html",
        "report.html",
        "runtimes.html",
        "audits.parquet",
        "audits.html",
        "figures/audits.pdf",
        "figures/audits.svg",
    ):
        assert (results / name).stat().st_size > 100, name
    assert not list((finished.folder / "results").glob("[!t]*"))


def test_results_carry_both_epsilons_and_what_did_not_run(finished):
    results = read_results(Path(finished.folder) / "results/tiny/results.parquet")
    final = results[results.final & (results.metric == "accuracy/test")]
    rigorous = final[final.variant == "rigorous"]
    assert (rigorous.eps_rigorous <= rigorous.epsilon_target).all()
    assert rigorous.eps_published.notna().all()
    published = final[final.variant == "published"]
    assert published.eps_rigorous.isna().all()
    assert (published.eps_rigorous_reason.str.len() > 0).all()
    assert (final[final.variant == "none"].eps_rigorous == float("inf")).all()
    assert (final.groupby("cell").size() == 2).all()
    missing = results[results.status == "not run"]
    assert set(missing.dataset) == {"ogbn-arxiv"}
    assert missing.reason.str.contains("data not available").all()


def test_tables_say_what_did_not_run_and_show_published_values(finished):
    table = pd.read_csv(finished.folder / "results/tiny/tables/daigavane/table1.csv")
    arxiv = table[table.dataset == "ogbn-arxiv"]
    assert arxiv.published_value.tolist() == [55.236]  # MLP, Table 1 of the paper
    assert arxiv.status.tolist() == ["not run"]
    text = (finished.folder / "results/tiny/tables/daigavane/table1.md").read_text()
    assert "not run" in text
    assert "none" in text


def test_a_second_run_does_nothing_and_knows_its_named_targets(finished):
    named = ("tables", "figures", "claims", "report", "data", "cells", "audits")
    assert finished.jobs(targets=("all", *named)) == {}


def test_forcing_a_stage_reruns_what_depends_on_it_and_nothing_else(finished):
    jobs = finished.jobs("--forcerun", "train")
    made = {"artefacts_daigavane", "claims", "runtimes", "index", "report"}
    assert set(jobs) == {"train", "aggregate", *made, "all", "total"}
    assert jobs["train"] == 2  # a job for the cells of each of the two graphs
    forced = set(finished.jobs("--forcerun", "artefacts_daigavane"))  # table 7 depends on no training: another job
    assert forced == {"artefacts_daigavane", "index", "report", "all", "total"}


def test_deleted_artefacts_are_made_again_without_training(finished):
    table = finished.folder / "results/tiny/tables/daigavane/table7.csv"
    figure = finished.folder / "results/tiny/figures/daigavane/fig2.png"
    before = table.read_bytes()
    table.unlink()
    figure.unlink()
    targets = ("results/tiny/tables/daigavane/table7.csv", "figures")
    made = {"table_daigavane_table7": 1, "artefacts_daigavane": 1, "figures": 1, "total": 3}
    assert finished.jobs(targets=targets) == made
    run = finished.snakemake(targets=targets[:1])
    assert run.returncode == 0, run.stderr
    assert table.read_bytes() == before


def test_forcing_an_early_stage_reruns_the_later_ones(finished):
    jobs = finished.jobs("--forcerun", "preprocess")
    assert {"preprocess", "calibrate", "train"} <= set(jobs)
    assert "fetch" not in jobs


def test_no_download_is_asked_for_twice_but_a_new_mirror_is_tried(finished, tmp_path):
    (tmp_path / "mirror").mkdir()
    run = finished.snakemake("-n", DPGRAPH_MIRROR=str(tmp_path / "mirror"))
    lines = (run.stdout + run.stderr).splitlines()
    fetched = [line for line in lines if "Fetch " in line]
    assert len(fetched) == 1  # ogbn-arxiv cannot be found; the demo graph stays
    assert "ogbn-arxiv" in fetched[0]


def test_a_bad_config_or_suite_is_one_line_and_status_2(workflow):
    """What else is refused: tests/planning, tests/experiments."""
    suites = workflow.folder / "workflow/suites"
    known = sorted(path.stem for path in suites.glob("*.yaml"))
    assert {"cpu", "paper", "tiny"} <= set(known)
    unknown = (suites / "tiny.yaml").read_text().replace("dataset: ogbn-arxiv", "dataset: ogbn-xarviv")
    (suites / "unknown.yaml").write_text(unknown.replace("name: tiny", "name: unknown"))
    for suite, config, message in (
        ("tiny", ("sede=3",), "error: config: sede=3: unknown key"),
        ("nope", (), f"error: suite=nope: expected one of {', '.join(known)}"),
        ("unknown", (), "ogbn-xarviv: expected one of"),
    ):
        run = workflow.snakemake(suite=suite, config=config)
        assert run.returncode == 2, message
        assert message in run.stderr.replace(", unknown", "")
        assert "Traceback" not in run.stderr
    assert not (workflow.folder / "results").exists()


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["demo", "paper"])
def test_the_real_suites_expand(workflow, suite):
    jobs = workflow.jobs(suite=suite)
    assert jobs["train"] >= 8
    assert jobs["report"] == 1


@pytest.mark.real_data
@pytest.mark.slow
def test_real_data_from_a_mirror(workflow):
    mirror = os.environ.get("DPGRAPH_MIRROR")
    if not mirror:
        pytest.skip("DPGRAPH_MIRROR is not set: no real data to run on")
    path = workflow.folder / "workflow/suites/tiny.yaml"
    text = path.read_text().replace("{dataset: demo-sbm}", "{dataset: cora, split: train-rest}")
    path.write_text(text.replace("{dataset: demo-sbm, setting: disjoint}", "{dataset: cora, setting: disjoint}"))
    run = workflow.snakemake(targets=("tables",), DPGRAPH_MIRROR=mirror)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    table = pd.read_csv(workflow.folder / "results/tiny/tables/daigavane/table1.csv")
    cora = table[table.dataset == "cora"]
    assert (cora.n == 2).all()
    assert (cora.status == "ok").all()


def test_the_catalogue_s_entry_is_the_same_workflow(workflow):
    once = ("audit", "audits", "table_daigavane_table7", "aggregate", "artefacts_daigavane", "claims")
    once += ("runtimes", "index", "report", "all")
    jobs = {**dict.fromkeys(once, 1), "fetch": 2, "preprocess": 3, "calibrate": 2, "train": 2, "total": 19}
    assert workflow.jobs("--snakefile", "workflow/Snakefile") == jobs


def test_unknown_artefacts_have_no_rule(workflow):
    run = workflow.snakemake("-n", targets=("results/tiny/tables/daigavane/table99.csv",))
    assert run.returncode == 1
    assert "No rule to produce results/tiny/tables/daigavane/table99.csv" in run.stderr + run.stdout
