"""Hyper-parameters beside the paper's: of the plan alone, nothing is trained."""

import pytest

from dpgraph.config.config import Config
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.tables import as_markdown
from dpgraph.reporting.views.hyperparameters import hyperparameter_table, make
from tests.reporting.conftest import WORKFLOW


@pytest.fixture(scope="module")
def plan():
    config = {"suite": "paper", "papers": ["daigavane"], "artefacts": ["daigavane/table9", "daigavane/table10"]}
    return load_plan(Config.model_validate(config), WORKFLOW)


def test_values_are_those_of_the_cells_and_of_the_paper(plan):
    frame = hyperparameter_table(plan, "daigavane/table9").set_index(["method", "task", "setting"])
    # Table 9, DP-GCN (SGD) on ogbn-products
    expected = {
        "Learning rate": ("2", "2.0"),
        "Batch size": ("40000", "40000"),
        "Encoder layers": ("1", "1"),
        "Decoder layers": ("1", "1"),
        "Noise multiplier λ": ("2", "2"),
        "Maximum degree K": ("5", "5"),
    }
    for setting, pair in expected.items():
        row = frame.loc[("dp-gcn-1-sgd-published", "ogbn-products", setting)]
        assert (row["ours"], row["published"], row["agrees"]) == (*pair, "yes")
    assert not (frame["agrees"] == "no").any()  # suite paper takes them from there
    rigorous = frame.loc[("dp-gcn-1", "ogbn-arxiv", "Noise multiplier λ")]
    assert (rigorous["ours"], rigorous["published"], rigorous["agrees"]) == ("from ε", "2", "")


def test_the_table_has_both_and_marks_differences(plan):
    made = make(plan, "daigavane/table10", None)
    changed = made.frame.assign(agrees="no")
    assert " * |" not in as_markdown(made.table)
    from dpgraph.reporting.views.hyperparameters import hyperparameter_display

    text = as_markdown(hyperparameter_display("t", changed))
    assert "0.003 \\*" in text or "0.003 *" in text
