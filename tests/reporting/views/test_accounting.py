"""Noise and epsilons without training, and claims on them."""

from __future__ import annotations

import dataclasses

import pytest

from dpgraph.config import published
from dpgraph.config.claim import Claim
from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_json
from dpgraph.planning.plan import load_plan
from dpgraph.planning.resolve import calibrate
from dpgraph.reporting.claims import computed_splits
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
    assert text.count("Premise of ε published that does not hold for what ran (GCN, SGD-DP, paper's mechanism,") == 3
    assert "Cora (δ = 10⁻⁵)" in text


def test_what_is_not_there_says_so(splits_run, tmp_path):
    entries = splits_run.entries_of("igamberdiev/table3")
    path = Paths(splits_run.config).calibration(entries[0].cell)
    write_json(path, {"status": "unavailable", "reason": "cora: nowhere"})
    given = rows_for(splits_run, "igamberdiev/table3")
    table = accounting_table(splits_run, "igamberdiev/table3", given)
    assert table["reason"].tolist() == ["cora: nowhere", *["not calibrated yet"] * 3]
    write_table(splits_run, "igamberdiev/table3", given, tmp_path / "table3")
    assert "not run" in (tmp_path / "table3.md").read_text()
    path.write_text("{")
    with pytest.raises(UserError, match="not a calibration"):
        rows_for(splits_run, "igamberdiev/table3")


# ---- claims that are computed ----------------------------------------------------------------------------------------


def test_table3_is_reproduced():
    finding = computed_splits.noise_epsilon_table()
    assert (finding.verdict, finding.comparisons) == ("reproduced", 8)
    assert "SGD, noise 4, 2000 steps: printed 136.51, by the formula 136.51, proved 345" in finding.evidence


def test_epsilon_one_needs_no_splits():
    """Inventory, I12: the same accountant gives 1 at noise of about 220 and 110."""
    finding = computed_splits.epsilon_one_without_splits()
    assert finding.verdict == "contradicted"
    assert "noise 219.3 gives ε = 0.9995" in finding.evidence
    assert "noise 109.7 gives ε = 0.9991" in finding.evidence


def test_the_factor_is_a_ratio_of_published_epsilons():
    finding = computed_splits.privacy_bound_factor()
    assert finding.verdict == "contradicted"
    assert "e^(2.0 − 1.0) = 2.72" in finding.evidence
    assert "from ε = 3.39 (whole graph, noise 112, published 2.00) to 25.1 (10 parts" in finding.evidence


def test_lot_sizes():
    """The last row of Table 5 is not what the formula gives (inventory, G3)."""
    finding = computed_splits.lot_size_accounting()
    assert finding.verdict == "reproduced"
    assert finding.evidence.startswith("4 of 5 to the printed digit")
    assert "lot 600, noise 4: printed 1.26, by the formula 1.26" in finding.evidence
    assert "lot 60000, noise 100: printed 0.50, by the formula 0.52" in finding.evidence


@pytest.mark.parametrize(
    ("function", "table", "metric"),
    [("noise_epsilon_table", "table3", "epsilon")],
)
def test_a_wrong_number_contradicts(monkeypatch, function, table, metric):
    real = published.match

    def changed(name, **columns):
        rows = [dict(row) for row in real(name, **columns)]
        for row in rows:
            if row["table"] == table and row["metric"] == metric and row["value"] and row["epsilon"] != "inf":
                row["value"] = "0.01"
        return rows

    monkeypatch.setattr(computed_splits.published, "match", changed)
    assert getattr(computed_splits, function)().verdict == "contradicted"


def test_computed_claims_have_a_row(splits_plan):
    names = list(computed_splits.FUNCTIONS)
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
    }
