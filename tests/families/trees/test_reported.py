"""Claims of Daigavane et al. that need no training."""

import pytest

from dpgraph.families.trees.reported import occurrence_bound, tighter_than_group_privacy


def test_claims_of_the_paper_hold():
    bound = occurrence_bound(graphs=4, nodes=120)
    assert bound.verdict == "reproduced"
    assert bound.comparisons == 4 * 5 * 2
    tighter = tighter_than_group_privacy()
    assert tighter.verdict == "reproduced"


def test_occurrence_count_finds_a_broken_sampler(monkeypatch):
    """A sampler that keeps every entry breaks the bound, and the count sees it."""
    from dpgraph.engine.sampling import edge_lists

    def whole(graph, roots, max_degree, generator):
        return edge_lists.full_edge_lists(graph, roots)

    monkeypatch.setattr(edge_lists, "sample_edge_lists", whole)
    assert occurrence_bound(graphs=1, nodes=60).verdict == "contradicted"


def test_group_privacy_by_hand():
    """Full batch, no amplification: Theorem 1 gives alpha / (2 lambda^2), group privacy 6^c alpha / (2 lambda^2 R^2).

    With R = 3 (K = 2, r = 1), c = 2: the ratio is 36 / 9 = 4.
    """
    from dpgraph.privacy.accountants.renyi import theorem1_rdp

    orders, affected, doublings, noise = (2.0, 4.0), 3, 2, 5.0
    single = theorem1_rdp(
        num_roots=100,
        batch_size=100,
        affected_roots=1,
        noise_multiplier=noise * affected,
        orders=tuple(2**doublings * order for order in orders),
    )
    theorem = theorem1_rdp(
        num_roots=100, batch_size=100, affected_roots=affected, noise_multiplier=noise, orders=orders
    )
    assert 3**doublings * single / theorem == pytest.approx([4.0, 4.0])
