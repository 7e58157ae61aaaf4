"""Claims of Huang et al. that need no training."""

import pytest

from dpgraph.families.tuples.bounds import DEFAULTS, GAUSSIAN, THEOREM_3, rdp_of_a_step
from dpgraph.families.tuples.reported import CLAIMS, constant_sensitivity


def test_adaptive_clipping_moves_by_more_the_more_tuples_an_entity_has():
    """C (1 + K (1 + k) / 2); with K = k = 1 it moves by no more than 2 C."""
    found = constant_sensitivity()
    assert found.verdict == "contradicted"
    assert "K = 2, 5 and 50 tuples by 6, 13.5 and 126 C" in found.evidence
    assert "by 3 C" in constant_sensitivity(own=(2,), negatives=1).evidence
    assert constant_sensitivity(own=(1,), negatives=1).verdict == "reproduced"


def test_bounds_are_the_accountants():
    """Reference value: n = 10^6, m = 5 10^6, sigma = .5, order 2: 5.5427e-6."""
    bounds = rdp_of_a_step({**DEFAULTS, "noise": 0.5}, (2.0,))
    assert bounds[THEOREM_3][0] == pytest.approx(5.5427e-6, rel=1e-3)
    assert bounds[GAUSSIAN][0] == 4


def test_shares_of_true_negatives_come_from_table_2():
    found = CLAIMS["paired-negatives-are-rarely-true"]()
    assert found.verdict == "reproduced"
    assert "mag-usa 8.0e-05" in found.evidence


def test_bounds_that_presume_a_false_proposition_decide_nothing():
    found = CLAIMS["bounds-elsewhere"]()
    assert found.verdict == "premise fails"
    assert "Proposition 4.1" in found.reason
    assert found.evidence.startswith("11 settings that stand in")
