"""What experiment files may say of graph splits: artefacts with a reference, claims on curves, weighted sums."""

import shutil
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import Monotone, WeightedSum, uses
from dpgraph.config.config import Config
from dpgraph.config.experiment import Artefact, Experiment
from dpgraph.config.paths import Paths
from dpgraph.config.suite import SuiteTask
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.inputs import aggregate_inputs, artefact_inputs, artefact_jobs

SPLITS = Path(__file__).parents[1] / "reporting" / "splits"


@pytest.fixture(scope="module")
def plan():
    return load_plan(Config(suite="splits"), SPLITS)


def artefact(**changes):
    base = {"kind": "figure", "view": "hard-cases", "title": "t", "methods": ["a", "b"], "reference": "a"}
    return Artefact.model_validate(base | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": None}, "reference of a=None: expected one of methods"),
        ({"reference": "c"}, "reference of a=c: expected one of methods"),
        ({"reference": {"b": "c"}}, "reference of b=c"),
        ({"metric": "accuracy/val"}, "view=hard-cases, metric=accuracy/val: expected none, it has its own"),
        ({"reference_value": "100"}, "expected exactly with hard-cases in a sweep"),
        ({"sweep": {"label": "s"}}, "reference_value=None: expected exactly with hard-cases in a sweep"),
        ({"view": "accuracy"}, "expected reference only with hard-cases, confusion, gains"),
        ({"view": "accounting", "reference": None}, "view=accounting, kind=figure: expected kind=table"),
        ({"view": "confusion", "reference": {"a": "b"}}, "expected one reference for all methods"),
        ({"view": "confusion", "reference": "z"}, "reference=z: expected one of methods"),
        ({"view": "confusion", "sweep": {"label": "s"}}, "view=confusion: expected sweep only with sweep, "),
    ],
)
def test_artefacts_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        artefact(**changes)


def test_hard_cases_have_a_metric_of_their_own():
    one = artefact(reference={"b": "a"}, sweep={"label": "s"}, reference_value="100")
    assert (one.reference_of("a"), one.reference_of("b")) == ("a", "a")
    assert one.named("fig5").metric == "hard_cases/fig5"
    assert one.tables("fig5") == ("fig5",)
    assert artefact(published_table=["fig1", "table2"]).tables("x") == ("fig1", "table2")


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"kind": "monotone", "artefact": "fig1", "methods": ["sgd"], "values": ["10"]}, "values: expected only over"),
        (
            {"kind": "constant", "artefact": "fig2", "methods": ["dp-sgd"], "over": "epsilon", "within": 2, "at": [1]},
            r"at=\(1.0,\): expected only over the values",
        ),
        (
            {"kind": "monotone", "artefact": "table2", "methods": ["sgd"]},
            "artefact=table2: expected an artefact with a",
        ),
        (
            {"kind": "weighted-sum", "artefact": "table2", "terms": [{"method": "sgd", "value": "10"}]},
            "terms.value=10: expected one exactly where table2 has a sweep",
        ),
        (
            {"kind": "weighted-sum", "artefact": "fig1", "terms": [{"method": "sgd"}]},
            "terms.value=None: expected one exactly where fig1 has a sweep",
        ),
        (
            {
                "kind": "weighted-sum",
                "artefact": "table2",
                "terms": [{"method": "sgd", "task": "a"}, {"method": "sgd"}],
            },
            "terms.task: expected in every term",
        ),
        ({"kind": "weighted-sum", "artefact": "table2", "terms": [{"method": "fresh"}]}, "fresh is not a method of"),
        ({"kind": "greater", "artefact": "table2", "better": ["sgd"], "worse": ["adam"], "at": []}, "at"),
    ],
)
def test_claims_that_make_no_sense_are_refused(test, message):
    file = yaml.safe_load((SPLITS / "experiments/igamberdiev.yaml").read_text())
    file["claims"] = {"I": {"statement": "s", "source": "t", "test": test}}
    with pytest.raises(ValidationError, match=message):
        Experiment.model_validate(file)


CLAIM = {"statement": "s", "source": "t",
         "test": {"kind": "greater", "artefact": "table2", "better": ["dp-sgd"], "worse": ["random"]}}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [
    ({"sentence": "The paper says so."}, "expected `own`, the paper's data and mechanisms"),
    ({"premises": [CLAIM["test"]]}, "premises: expected `part`, the premise in words, in each"),
    ({"premises": [CLAIM["test"] | {"part": "p", "worse": ["nobody"]}]}, "nobody is not a method of"),
    ({"readings": {"another": {"-sgd": "-nothing"}}}, r"readings\.another: dp-nothing is not a method of this file"),
])  # fmt: skip
def test_what_a_claim_takes_for_granted_is_in_its_file(change, message):
    file = yaml.safe_load((SPLITS / "experiments/igamberdiev.yaml").read_text())
    Experiment.model_validate(file | {"claims": {"I": CLAIM}})
    with pytest.raises(ValidationError, match=message):
        Experiment.model_validate(file | {"claims": {"I": CLAIM | change}})


def test_uses_of_a_weighted_sum():
    terms = [{"method": "a"}, {"method": "b", "artefact": "two"}, {"method": "c"}]
    test = WeightedSum.model_validate({"artefact": "one", "terms": terms})
    assert uses(test) == [("one", ("a", "c")), ("two", ("b",))]
    assert Claim(statement="s", source="t", test=test).parts == (test,)
    assert Monotone(artefact="one", methods=("a",)).direction == "rising"


def test_what_is_accounted_for_is_not_trained(plan):
    table3 = plan.entries_of("igamberdiev/table3")
    assert len(table3) == 4
    for entry in table3:
        assert entry.cell.slug not in plan.cells
        assert plan.calibrations[entry.cell.calibration_key].for_calibration == entry.cell.for_calibration
    paths = Paths(plan.config)
    markers = {key: paths.calibrated(f"bundle-of-{key}") for key in plan.calibrations}
    read = artefact_inputs(plan, "igamberdiev/table3", {}, markers)
    assert read == [markers[entry.cell.calibration_key] for entry in table3]
    trained = plan.entries_of("igamberdiev/table2")
    assert all(entry.cell.slug in plan.cells for entry in trained)
    assert {entry.cell.calibration_key for entry in trained if entry.cell.privacy} <= set(plan.calibrations)


def test_inputs_of_hard_cases_and_confusions(plan):
    paths = Paths(plan.config)
    trained = {slug: paths.trained(cell.task.dataset) for slug, cell in plan.cells.items()}
    calibrated = {key: paths.calibrated(f"bundle-of-{key}") for key in plan.calibrations}
    inputs = aggregate_inputs(plan, trained, calibrated)
    assert set(inputs) >= set(trained.values())
    assert all(inputs.count(marker) == 1 for marker in trained.values())
    assert inputs.count(paths.graph_record(plan.task("cora"))) == 1
    assert paths.graph_record(plan.task("mnist")) not in inputs
    accounted = {calibrated[one.cell.calibration_key] for one in plan.entries_of("igamberdiev/table3")}
    assert accounted <= set(inputs)
    assert artefact_inputs(plan, "igamberdiev/confusion", trained, {}) == [paths.results]
    assert "igamberdiev/confusion" in artefact_jobs(plan)["artefacts_igamberdiev"]
    assert paths.predictions(next(iter(plan.cells.values())), 3).name == "seed=3.predictions.npy"


def test_reference_entries(plan):
    fig5 = {(entry.method_id, entry.task_id, entry.value): entry for entry in plan.entries_of("igamberdiev/fig5")}
    assert plan.reference_entry(fig5["adam", "cora", "10"]) == fig5["adam", "cora", "100"]
    fig6 = plan.entries_of("igamberdiev/fig6")
    for entry in fig6:
        reference = plan.reference_entry(entry)
        assert (reference.method_id, reference.task_id, reference.target_epsilon) == ("sgd", entry.task_id, None)


def test_a_missing_reference_is_one_line(tmp_path):
    folder = tmp_path / "workflow"
    shutil.copytree(SPLITS, folder)
    path = folder / "suites/splits.yaml"
    suite = yaml.safe_load(path.read_text())
    suite["papers"]["igamberdiev"]["artefacts"]["fig6"][0]["tasks"] = ["cora"]
    path.write_text(yaml.safe_dump(suite))
    with pytest.raises(UserError, match=r"artefacts.fig6=dp-sgd: expected its reference sgd on pubmed") as caught:
        load_plan(Config(suite="splits"), folder)
    assert "\n" not in str(caught.value)


def test_a_task_is_called_by_its_name_with_or_without_parameters():
    task = SuiteTask(label="x", task={}, published="pokec;features=BERT")
    assert task.dataset_in_paper == "pokec"
    assert task.is_called(["pokec"])
    assert task.is_called(["pokec;features=BERT"])
    assert not task.is_called(["pokec;features=BoWs"])
    assert not SuiteTask(label="x", task={}).is_called(["pokec"])
