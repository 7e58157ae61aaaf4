"""The target `baselines`: a reference for each task of a method without privacy, and what it is compared in."""


def test_references_of_each_task_and_one_table(finished):
    """Of the tiny suite: MLP and GCN on one graph, an MLP where there are no data; Table 7 trains nothing."""
    assert finished.jobs(targets=("baselines",)) == {"references": 2, "baselines": 1, "total": 3}
    run = finished.snakemake("--quiet", "all", targets=("baselines",))
    assert run.returncode == 0, run.stdout + run.stderr
    lines = (finished.folder / "results/tiny/baselines.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert {(row[1], row[4]) for row in rows} == {("gcn-1", "demo-sbm"), ("mlp", "demo-sbm"), ("mlp", "ogbn-arxiv")}
    assert sum("one-step mean features + logistic regression" in line for line in lines) == 1  # GCN of one layer
    assert sum("data not available" in line for line in lines) == 1
    assert finished.jobs(targets=("baselines",)) == {}
