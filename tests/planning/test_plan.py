import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from dpgraph.config import published, streams
from dpgraph.config.config import Config, load, parse
from dpgraph.config.documents import read_yaml
from dpgraph.config.expansion import merged
from dpgraph.config.streams import check_noise, stream
from dpgraph.config.suite import Suite
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import entropy, torch_generator
from dpgraph.pipeline.bundles import write_runs
from dpgraph.planning.explain import settings as explained
from dpgraph.planning.plan import load_plan
from tests.plans import plan_of

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "workflow"
SUITES = sorted(path.stem for path in (WORKFLOW / "suites").glob("*.yaml"))


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_expands(suite):
    plan = plan_of(suite)
    assert plan.cells
    assert len({cell.identity for cell in plan.cells.values()}) == len(plan.cells)
    check_noise(plan.cells.values())
    for entry in plan.entries:
        assert entry.artefact in plan.artefacts
        if entry.cell.slug in plan.left_out:
            assert entry.not_run is not None
            assert entry.cell.slug not in plan.cells
        elif plan.artefacts[entry.artefact].view != "accounting":  # accounted for, not trained
            assert plan.cells[entry.cell.slug].identity == entry.cell.identity
            assert set(plan.cells[entry.cell.slug].seeds) >= set(entry.cell.seeds)


@pytest.mark.slow
def test_no_two_seeds_of_all_suites_draw_the_same_noise():
    check_noise(cell for suite in SUITES for cell in plan_of(suite).cells.values())


def test_unlike_names_that_give_the_same_noise_are_refused(monkeypatch):
    """PyTorch keeps 32 bits of a seed, so that some of 200,000 runs have equal noise."""
    plan = plan_of("demo")
    cell = next(cell for cell in plan.cells.values() if cell.method == "dp-gnn")
    many = cell.model_copy(update={"seeds": tuple(range(200_000))})
    with pytest.raises(UserError, match="would be the same numbers: leave one of them out") as raised:
        check_noise([many])
    found = re.findall(r"(?:: |and )([a-z ]+) of seed (\d+) of", str(raised.value))
    names = [stream(cell, role, int(seed)) for role, seed in found]
    first, second = (torch.randn(5, generator=torch_generator(*name)).tolist() for name in names)
    assert names[0] != names[1]
    assert first == second
    check_noise([many.model_copy(update={"privacy": None})])
    monkeypatch.setitem(plan.cells, cell.slug, many)
    with pytest.raises(UserError, match=f"seeds: {found[0][0]} of seed {found[0][1]} of {cell.slug} and"):
        write_runs(plan, [], [])


def test_noise_that_is_a_shared_stream_is_refused(monkeypatch):
    cell = next(cell for cell in plan_of("demo").cells.values() if cell.method == "dp-gnn")
    cell = cell.model_copy(update={"seeds": (0, 1)})
    of = {stream(cell, "noise", 1): 7, stream(cell, "parameters", 0): 2**32 + 7}
    monkeypatch.setattr(streams, "entropy", lambda *names: of.get(names, entropy(*names)))
    with pytest.raises(UserError, match=f"parameters of seed 0 of {cell.slug} and noise of seed 1 of {cell.slug}"):
        check_noise([cell])
    check_noise([cell.model_copy(update={"seeds": (0,)})])
    private, public = (cell.model_copy(update={"seeds": (seed,)}) for seed in (1, 0))
    with pytest.raises(UserError, match="parameters of seed 0 of"):
        check_noise([private, public.model_copy(update={"privacy": None})])
    monkeypatch.setattr(streams, "entropy", lambda *names: 7 if "noise" not in names else entropy(*names))
    check_noise([cell])  # that shared streams are one harms no privacy


def test_the_noise_of_an_embedding_counts_too():
    cell = next(cell for slug, cell in plan_of("votes").cells.items() if slug.endswith("c4f12c34"))
    with pytest.raises(UserError, match=r"noise of the embedding of seed 39747 of .* of seed 97522"):
        check_noise([cell.model_copy(update={"seeds": (39747, 97522)})])
    check_noise([cell.model_copy(update={"seeds": (39747, 97523)})])


def test_a_place_that_one_grid_runs_is_not_left_out_by_a_later_one():
    plan = plan_of("text-cpu")
    places = {
        (entry.method_id, entry.task_id, entry.target_epsilon): entry for entry in plan.entries_of("huang/table1")
    }
    assert places["dp-encoder", "m10-cora", 10].not_run is None
    assert places["dp-encoder", "m10-cora", 4].not_run == "compute"
    assert places["dp-encoder", "m10-cora", 10].cell.slug in plan.cells
    assert places["dp-encoder", "m10-cora", 4].cell.slug in plan.left_out
    # another encoder is another cell: no row may show a result of this one
    assert places["encoder-bert-large", "m10-cora", None].cell.slug not in plan.cells


def test_equal_cells_are_shared_between_artefacts():
    plan = plan_of("demo")
    users = {}
    for entry in plan.entries:
        users.setdefault(entry.cell.slug, set()).add(entry.artefact)
    assert {"daigavane/table1", "daigavane/fig2"} in users.values()


def test_more_seeds_keep_the_cells():
    few = plan_of("demo", seeds=2)
    many = plan_of("demo", seeds=7)
    assert list(few.cells) == list(many.cells)
    assert {len(cell.seeds) for cell in many.cells.values()} == {7}


def test_seeds_of_a_grid_of_a_paper_and_of_the_suite(tmp_path):
    workflow = tmp_path / "workflow"
    shutil.copytree(WORKFLOW, workflow)
    suite = read_yaml(workflow / "suites" / "baselines.yaml")
    paper = suite["papers"]["daigavane"]
    grid = {"methods": ["mlp"], "tasks": ["cora"]}
    paper["artefacts"] = {"baselines": [grid, grid | {"methods": ["gcn-2"], "seeds": 3}]}
    suite["papers"] = {"daigavane": paper | {"seeds": 2}}
    (workflow / "suites" / "baselines.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    plan = load_plan(Config(suite="baselines"), workflow)
    found = {entry.method_id: (len(entry.cell.seeds), entry) for entry in plan.entries}
    assert {method: number for method, (number, _) in found.items()} == {"mlp": 2, "gcn-2": 3}
    places = {
        method: next(row["from"] for row in explained(plan, entry) if row["setting"] == "seeds")
        for method, (_, entry) in found.items()
    }
    assert places == {
        "mlp": "suites/baselines.yaml: papers.daigavane.seeds",
        "gcn-2": "suites/baselines.yaml: papers.daigavane.artefacts.baselines[1].seeds",
    }
    assert {len(entry.cell.seeds) for entry in load_plan(Config(suite="baselines", seeds=4), workflow).entries} == {4}


def test_a_rule_may_be_for_some_target_epsilons_only(tmp_path):
    workflow = shutil.copytree(WORKFLOW, tmp_path / "workflow")
    suite = read_yaml(workflow / "suites" / "votes.yaml")
    grid = {"methods": ["raw-graph"], "tasks": ["pubmed"], "epsilons": [1, 8]}
    rate = {"set": {"training": {"learning_rate": 0.125}}}
    rules = [rule for rule in suite["papers"]["votes"]["rules"] if "set" in rule and "settings" not in rule]
    suite["papers"] = {"votes": {"artefacts": {"accuracy": [grid]}, "rules": [*rules, rate | {"epsilons": [8]}]}}
    (workflow / "suites" / "votes.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    plan = load_plan(Config(suite="votes"), workflow)
    assert {entry.target_epsilon: entry.cell.training.learning_rate for entry in plan.entries} == {1: 0.01, 8: 0.125}


def test_rules_do_not_override_what_makes_a_row():
    plan = plan_of("demo")
    optimizers = {entry.method_id: entry.cell.training.optimizer for entry in plan.entries}
    assert optimizers["dp-gcn-1-sgd"] == optimizers["dp-gcn-1-sgd-published"] == "sgd"
    assert optimizers["dp-gcn-1"] == "adam"


def test_artefacts_can_be_chosen():
    plan = plan_of("demo", artefacts=("daigavane/fig2",))
    assert list(plan.artefacts) == ["daigavane/fig2"]
    assert {entry.artefact for entry in plan.entries} == {"daigavane/fig2"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"suite": "nope"}, r"suite=nope: expected one of .*demo"),
        ({"papers": ["huan"]}, "papers=huan: expected one of daigavane"),
        ({"artefacts": ["daigavane/table99"]}, "artefacts=daigavane/table99"),
        ({"sede": 3}, "config: sede=3: unknown key"),
        ({"seeds": 0}, "config: seeds=0: expected greater than or equal to 1"),
        ({"device": "tpu"}, "config: device=tpu: expected 'auto', 'cpu' or 'cuda'"),
    ],
)
def test_bad_config_is_one_line(config, message):
    with pytest.raises(UserError, match=message) as caught:
        load_plan(parse(Config, config, "config"), WORKFLOW)
    assert "\n" not in str(caught.value)


def changed_workflow(folder: Path, change) -> Path:
    (folder / "suites").mkdir()
    shutil.copytree(WORKFLOW / "experiments", folder / "experiments")
    suite = yaml.safe_load((WORKFLOW / "suites/demo.yaml").read_text())
    experiment = yaml.safe_load((WORKFLOW / "experiments/daigavane.yaml").read_text())
    change(suite, experiment)
    (folder / "suites/demo.yaml").write_text(yaml.safe_dump(suite))
    (folder / "experiments/daigavane.yaml").write_text(yaml.safe_dump(experiment))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, e: s["papers"]["daigavane"]["artefacts"]["table1"][0].update(tasks=["mars"]), "tasks=mars"),
        (lambda s, e: e["artefacts"]["table1"]["methods"].append("magic"), "methods=magic"),
        (
            lambda s, e: s["papers"]["daigavane"]["rules"].append({"set": {"privacy": {"max_degree": 0}}}),
            "max_degree=0",
        ),
        (lambda s, e: s["papers"]["daigavane"]["artefacts"].update(table99=[{"tasks": ["sbm"]}]), "table99"),
        (lambda s, e: e["claims"]["D1"]["test"].update(better=["gcn-7"]), "gcn-7"),
        (lambda s, e: s.update(papers={}, tasks={"Bad": 3}), "tasks.Bad"),
    ],
)
def test_mistakes_in_workflow_files_are_one_line(tmp_path, change, message):
    folder = changed_workflow(tmp_path, change)
    with pytest.raises(UserError, match=message) as caught:
        load_plan(Config(), folder)
    assert "\n" not in str(caught.value)


def test_yaml_errors_are_one_line(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: [")
    with pytest.raises(UserError, match="not a YAML file") as caught:
        load(Suite, bad)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="no such file"):
        load(Suite, tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["seeds: 3\nseeds: 5\n", "papers:\n  a: {}\n  b: {}\n  a: {}\n"])
def test_a_key_that_stands_twice_is_refused(tmp_path, text):
    """YAML would keep the last one: a whole part of a suite could vanish without a word."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    with pytest.raises(UserError, match=r"key (seeds|a) occurs twice"):
        load(Suite, bad)
    bad.write_text("a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\n")
    assert read_yaml(bad)["b"] == {"x": 1, "y": 2}


def test_merged_does_not_touch_its_layers():
    below = {"a": {"x": 1}}
    assert merged(below, {"a": {"y": 2}, "b": None}) == {"a": {"x": 1, "y": 2}, "b": None}
    assert below == {"a": {"x": 1}}


def test_default_config_file_says_the_defaults():
    assert load(Config, ROOT / "config.yaml") == Config()


def test_hyperparameters_come_from_the_paper():
    # Daigavane et al., Table 9, DP-GCN (Adam) on ogbn-arxiv
    part = published.hyperparameters("daigavane2022-node-level-dp-gnn", "table9", "DP-GCN (Adam)", "ogbn-arxiv")
    assert part == {
        "model": {"activation": "tanh", "encoder_layers": 1, "decoder_layers": 2},
        "training": {"learning_rate": 0.003, "batch_size": 10000},
        "privacy": {"noise_multiplier": 2.0, "max_degree": 7},
    }
    with pytest.raises(UserError, match="expected one row"):
        published.hyperparameters("daigavane2022-node-level-dp-gnn", "table9", "GIN", "ogbn-arxiv")
    with pytest.raises(UserError, match="not a column"):
        published.match("datasets", colour="red")
    with pytest.raises(UserError, match="published=nothing"):
        published.rows("nothing")


def test_every_row_of_daigavane_s_hyperparameters_is_trained():
    """Tables 9 to 12: each row is a cell of suite `paper`, with its architecture, on its data set, private or not."""
    plan = plan_of("paper")
    called = {plan.task(name).folder: task.published for name, task in plan.suite.tasks.items()}

    def fits(cell, row, part):
        private, kind = row["model"].startswith("DP-"), row["model"].removeprefix("DP-").split(" ")[0].lower()
        value = cell.model_dump()
        return (
            (cell.privacy is not None, cell.model.architecture) == (private, kind)
            and called[cell.task.folder] == row["dataset"]
            and ("2-layer" not in row["model"] or cell.model.hops == 2)
            and ("1-layer" not in row["model"] or cell.model.hops == 1)
            and ("SGD" not in row["model"] or cell.training.optimizer == "sgd")
            and all(value[name][key] == x for name, values in part.items() for key, x in values.items())
        )

    paper = "daigavane2022-node-level-dp-gnn"
    rows = [row for row in published.match("hyperparameters", paper=paper) if row["table"].startswith("table")]
    assert len(rows) == 64
    for row in rows:
        part = published.hyperparameters(paper, row["table"], row["model"], row["dataset"])
        assert any(fits(cell, row, part) for cell in plan.cells.values()), row


def test_a_sweep_must_change_the_cell(tmp_path):
    """K of a private method means nothing to one without privacy: two values would show the same run twice."""
    folder = tmp_path / "workflow"
    shutil.copytree(WORKFLOW, folder)
    demo = folder / "suites/demo.yaml"
    suite = yaml.safe_load(demo.read_text())
    for grid in suite["papers"]["daigavane"]["artefacts"]["table6"]:
        grid["values"] = {"2": {"privacy": {"max_degree": 2}}, "7": {"privacy": {"max_degree": 7}}}
    demo.write_text(yaml.safe_dump(suite))
    with pytest.raises(UserError, match=r"table6.values=7: expected another cell than 2 gives for gcn-1"):
        load_plan(Config(suite="demo"), folder)


def test_predictions_on_the_raw_graph_have_the_settings_of_own_records():
    """They differ in what predictions read, so that their difference is what neighbours are worth."""
    rows: dict[tuple, dict[str, dict]] = {}
    for entry in plan_of("votes").entries:
        if entry.method_id in ("own", "raw-graph") and entry.artefact.endswith(("accuracy", "membership")):
            told = entry.cell.model_dump(exclude={"seeds"})
            read = told["privacy"].pop("raw_inference")
            rows.setdefault((entry.task_id, entry.target_epsilon), {})[entry.method_id] = {"told": told, "read": read}
    both = [found for found in rows.values() if len(found) == 2]
    assert len(both) >= 12
    assert all(found["own"]["told"] == found["raw-graph"]["told"] for found in both)
    assert all((found["own"]["read"], found["raw-graph"]["read"]) == (False, True) for found in both)
