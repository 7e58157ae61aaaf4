"""What the audits of graph splits rest on."""

import torch

from dpgraph.audits import subgraphs


def test_one_node_turns_the_gradient_around():
    absent, present = subgraphs.opposed_gradients()
    assert torch.cosine_similarity(absent, present, dim=0) < -0.99
    assert min(absent.norm(), present.norm()) > subgraphs.CLIP_NORM


def test_masking_the_loss_does_not_cut_edges():
    """The counterexample to amplification: parts that do not hold the node move with it, unlike those that are cut."""
    assert all(subgraphs.whole_graph_reach(index) > 0 for index in range(6))


def test_the_audits_have_power():
    assert float(subgraphs.steps(1000).finding.split("mu_lb ")[1].split(";")[0]) > 0.3
    assert float(subgraphs.locality(20).finding.split("at most ")[1].split(" ")[0]) > 0.8
