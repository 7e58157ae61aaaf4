"""The target `search` of a suite that has a search and much else."""

SUITE = """
name: sought
title: A search next to a table
note: No number means anything.
demonstration: true
seeds: 1
tasks:
  sbm-disjoint: {label: "demo SBM, disjoint", task: {dataset: demo-sbm, setting: disjoint}}
papers:
  daigavane:
    rules:
      - set: {model: {width: 16}, training: {learning_rate: 0.02, sampling_rate: 0.1, steps: 10}}
    artefacts:
      table2:
        - {methods: [gcn-1, mlp], tasks: [sbm-disjoint]}
      sought:
        - {tasks: [sbm-disjoint], epsilons: [4, 8]}
"""
ARTEFACT = """
  sought:
    kind: table
    view: search
    title: Learning rates
    search: {strategy: grid, space: {training.learning_rate: [0.01, 0.02, 0.04]}}
    methods: [gcn-1, dp-mlp]
"""


def test_only_the_cells_of_searches_are_trained(workflow):
    (workflow.folder / "workflow/suites/sought.yaml").write_text(SUITE)
    experiment = workflow.folder / "workflow/experiments/daigavane.yaml"
    text = experiment.read_text()
    assert text.count("\nartefacts:\n") == 1
    experiment.write_text(text.replace("\nartefacts:\n", f"\nartefacts:{ARTEFACT}", 1))
    jobs = workflow.jobs(suite="sought", targets=("search",))
    once = ("fetch", "preprocess", "calibrate", "train", "search_daigavane_sought", "search")
    assert jobs == dict.fromkeys(once, 1) | {"total": 6}
    # the MLP is in the table only: a bundle of its own, while the GCN at its own rate is in both
    everything = workflow.jobs(suite="sought", targets=("tables",))
    assert everything["train"] == 2
    assert (everything["search_daigavane_sought"], everything["artefacts_daigavane"]) == (1, 1)


def test_a_suite_without_a_search_has_nothing_to_search(workflow):
    assert set(workflow.jobs(targets=("search",))) <= {"search", "total"}
