"""Crossed splits and initialisations, from a synthetic graph to the table and the figure."""

import json

import pandas as pd
import pytest

SUITE = """
name: crossed
title: Two splits, two initialisations
note: No number means anything.
demonstration: true
seeds: 4
tasks:
  sbm: {label: demo SBM, task: {dataset: demo-sbm, split: random-60-20-20}}
papers:
  variance:
    rules:
      - set:
          seeds_per_split: 2
          model: {width: 16}
          training: {learning_rate: 0.02, sampling_rate: 0.1, steps: 10}
      - {methods: ["dp-*"], set: {privacy: {max_degree: 3, clip_norm: 1.0}}}
    artefacts:
      components: [{methods: [mlp, dp-gcn-1], tasks: [sbm], epsilons: [12]}]
      spread: [{methods: [mlp, dp-gcn-1], tasks: [sbm], epsilons: [12]}]
"""


@pytest.mark.slow
def test_crossed_seeds_from_data_to_figure(workflow):
    (workflow.folder / "workflow/suites/crossed.yaml").write_text(SUITE)
    targets = ("results/crossed/tables/variance/components.csv", "results/crossed/figures/variance/spread.csv")
    run = workflow.snakemake(suite="crossed", targets=targets)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    results = workflow.folder / "results/crossed"
    assert len(list((workflow.folder / "data/graphs/demo-sbm").iterdir())) == 1  # one stored graph has all splits
    table = pd.read_csv(results / "tables/variance/components.csv").set_index("method")
    assert table["splits"].tolist() == [2, 2]
    assert table["initialisations"].tolist() == [2, 2]
    shares = table[["share_split", "share_initialisation", "share_rest"]].sum(axis=1)
    assert shares.tolist() == pytest.approx([100, 100])
    assert table.loc["dp-gcn-1", "eps_rigorous"] <= 12
    points = pd.read_csv(results / "figures/variance/spread.csv")
    own = points[points["method"] == "mlp"].set_index(["split", "initialisation"])["value"]
    cell = results / "cells" / table.loc["mlp", "cell"]
    for seed in range(4):
        metrics = json.loads((cell / f"seed={seed}.json").read_text())["record"]["metrics"]
        (value,) = (one["value"] for one in metrics if one["metric"] == "accuracy/test" and one["final"])
        assert own[seed // 2, seed % 2] == pytest.approx(100 * value)
    assert (results / "figures/variance/spread.pdf").stat().st_size > 1000
