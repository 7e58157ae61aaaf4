"""Noise and epsilons without training, and claims on them."""

from __future__ import annotations

import dataclasses

import pytest

from dpgraph.config.claim import Claim
from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_json
from dpgraph.families.subgraphs.reported import CLAIMS
from dpgraph.planning.plan import load_plan
from dpgraph.planning.resolve import calibrate
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.paper_values import paper_value
from dpgraph.reporting.results import rows_for
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.accounting import accounting_table


@pytest.fixture
def calibrated(splits_run):
    """Calibrations of table3 for Cora's 1,208 training nodes."""
    for entry in splits_run.entries_of("igamberdiev/table3"):
        calibrate(entry.cell, 1208).write(Paths(splits_run.config).calibration(entry.cell))
    return splits_run


def test_table3_of_the_paper_comes_out(calibrated, tmp_path):
    given = rows_for(calibrated, "igamberdiev/table3")
    table = accounting_table(calibrated, "igamberdiev/table3", given)
    assert table["value"].tolist() == ["4", "112", "2", "56"]
    assert table["published_epsilon"].tolist() == [136.51, 2.0, 136.51, 2.0]
    assert table["eps_published"].round(2).tolist() == [136.51, 2.0, 136.51, 2.0]
    # one node moves a clipped gradient by 2 C: GDP with mu = 2 sqrt(T) / noise, the exact Gaussian epsilon
    assert table["eps_rigorous"].tolist() == pytest.approx([344.451, 3.3801, 344.451, 3.3801], rel=1e-4)
    assert table["steps"].tolist() == [2000, 2000, 500, 500]
    assert table["difference"].abs().max() < 0.005
    write_table(calibrated, "igamberdiev/table3", given, tmp_path / "table3")
    text = (tmp_path / "table3.md").read_text()
    assert "| GCN, SGD-DP, paper's mechanism | 4 | 2,000 | 136.51 | 137 | +0.003 | 345 | graph | parameters |" in text
    assert "Relation graph: any other graph" in text
    (unmet,) = set(table["published_unmet"])
    assert unmet.startswith("lists: ran whole graph, presumed induced subgraph; batches: ran fixed parts of the loss")
    assert text.count("Premise of ε claimed that does not hold for what ran (GCN, SGD-DP, paper's mechanism,") == 3
    assert "Cora (δ = 10⁻⁵)" in text


def test_what_is_not_there_says_so(splits_run, tmp_path):
    entries = splits_run.entries_of("igamberdiev/table3")
    path = Paths(splits_run.config).calibration(entries[0].cell)
    write_json(path, {"status": "unavailable", "reason": "cora: nowhere"})
    given = rows_for(splits_run, "igamberdiev/table3")
    table = accounting_table(splits_run, "igamberdiev/table3", given)
    assert table["reason"].tolist() == ["cora: nowhere", "", "", ""]
    write_table(splits_run, "igamberdiev/table3", given, tmp_path / "table3")
    text = (tmp_path / "table3.md").read_text()
    # one column for the noise, the paper's epsilon in its own, and nothing that our evaluation would have to show
    assert "| GCN, SGD-DP, paper's mechanism | 112 | – | 2.00 | not run | – | – | – | – |" in text
    assert text.count("Not run: Cora. dpgraph run igamberdiev/table3 --suite") == 1
    path.write_text("{")
    with pytest.raises(UserError, match="not a calibration"):
        rows_for(splits_run, "igamberdiev/table3")


def test_computed_claims_have_a_row(splits_plan):
    names = list(CLAIMS)
    claims = {
        f"I{index}": Claim.model_validate(
            {"statement": "s", "source": "t", "test": {"kind": "computed", "function": name}}
        )
        for index, name in enumerate(names)
    }
    experiment = splits_plan.experiments["igamberdiev"].model_copy(update={"claims": claims})
    table = claims_table(dataclasses.replace(splits_plan, experiments={"igamberdiev": experiment}), None)
    assert table["scope"].eq("computed, without training").all()
    assert table["verdict"].isin(["reproduced", "contradicted"]).all()


def test_printed_noises_stand_beside_the_printed_epsilons_and_accuracies(tmp_path):
    """Zhang, section 4.5.1: triples of noise, accuracy and epsilon; Theorem 5 gives the printed ones at our steps."""
    names = ("zhang-ch4/printed-noise-bounds", "zhang-ch4/printed-noise-accuracy")
    plan = load_plan(Config(suite="paper", artefacts=names, data=str(tmp_path), results=str(tmp_path)))
    for entry in plan.entries_of(names[0]):
        calibrate(entry.cell, 60_000, num_protected=70_000).write(Paths(plan.config).calibration(entry.cell))
    table = accounting_table(plan, names[0], rows_for(plan, names[0])).set_index(["method", "value"])
    printed = table["published_epsilon"]
    assert printed["record-thesis"].to_dict() == {"0.65": 6, "1.0": 1.6, "1.8": 0.5}
    assert printed["subclass-kmeans-thesis"].to_dict() == {"1.6": 18.6, "3.0": 8.2, "3.65": 7}
    assert printed["subclass-thesis"].isna().all()  # ours
    assert table["difference"]["subclass-kmeans-thesis"].abs().max() < 0.02
    proved = table["eps_rigorous"]
    assert proved["record-thesis"].tolist() == pytest.approx([6, 1.6, 0.5], rel=0.01)
    assert proved["record-thesis"].max() <= 6
    assert proved["subclass-kmeans-thesis"].isna().all()
    assert proved["subclass-thesis"].tolist() == pytest.approx([20.104, 7.332, 6.093], abs=0.002)
    values = {
        (entry.method_id, entry.value): paper_value(plan.experiments["zhang-ch4"], entry, "accuracy/test")
        for entry in plan.entries_of(names[1])
    }
    found = {key: value.value for key, value in values.items() if value is not None}
    assert found == {
        ("vanilla-thesis", "none"): 98.9,
        ("record-thesis", "0.65"): 96,
        ("record-thesis", "1.0"): 93,
        ("record-thesis", "1.8"): 91,
        ("subclass-kmeans-thesis", "1.6"): 96,
        ("subclass-kmeans-thesis", "3.0"): 93,
        ("subclass-kmeans-thesis", "3.65"): 91,
        ("subclass-kmeans-moments", "1.6"): 96,
        ("subclass-kmeans-moments", "3.0"): 93,
        ("subclass-kmeans-moments", "3.65"): 91,
    }
