"""Claims of Igamberdiev and Habernal that need no training."""

from dpgraph.config import published
from dpgraph.families.subgraphs import reported


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
    assert "without edges between parts to 5.90 (node-remove)" in finding.evidence


def test_lot_sizes():
    """The last row of Table 5 is not what the formula gives (inventory, G3)."""
    finding = reported.lot_size_accounting()
    assert finding.verdict == "reproduced"
    assert finding.evidence.startswith("4 of 5 to the printed digit")
    assert "lot 600, noise 4: printed 1.26, by the formula 1.26" in finding.evidence
    assert "lot 60000, noise 100: printed 0.50, by the formula 0.52" in finding.evidence


def test_a_wrong_number_contradicts(monkeypatch):
    """At noise 5 in place of 50 the lot of 60,000 gives more than 1."""
    real = published.match

    def changed(name, **columns):
        rows = real(name, **columns)
        return [row | {"other_params": row["other_params"].replace("noise=50", "noise=5")} for row in rows]

    monkeypatch.setattr(reported.published, "match", changed)
    assert reported.lot_size_accounting().verdict == "contradicted"
