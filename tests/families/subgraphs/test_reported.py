"""Claims of Igamberdiev and Habernal that need no training."""

import pytest

from dpgraph.config import published
from dpgraph.families.subgraphs import reported


def test_table3_is_reproduced():
    finding = reported.noise_epsilon_table()
    assert (finding.verdict, finding.comparisons) == ("reproduced", 8)
    assert "SGD, noise 4, 2000 steps: printed 136.51, by the formula 136.51, proved 345" in finding.evidence


def test_epsilon_one_needs_no_splits():
    """Inventory, I12: the same accountant gives 1 at noise of about 220 and 110."""
    finding = reported.epsilon_one_without_splits()
    assert finding.verdict == "contradicted"
    assert "noise 219.3 gives ε = 0.9995" in finding.evidence
    assert "noise 109.7 gives ε = 0.9991" in finding.evidence


def test_the_factor_is_a_ratio_of_published_epsilons():
    finding = reported.privacy_bound_factor()
    assert finding.verdict == "contradicted"
    assert "e^(2.0 − 1.0) = 2.72" in finding.evidence
    assert "from 3.39 (whole graph, noise 112, claimed 2.00) to 25.1 (10 parts" in finding.evidence


def test_lot_sizes():
    """The last row of Table 5 is not what the formula gives (inventory, G3)."""
    finding = reported.lot_size_accounting()
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

    monkeypatch.setattr(reported.published, "match", changed)
    assert getattr(reported, function)().verdict == "contradicted"
