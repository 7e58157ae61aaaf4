"""What the audits of graph splits rest on."""

import numpy as np
import torch

from dpgraph.families.subgraphs import audit as subgraphs


def test_one_node_turns_the_gradient_around():
    """Gradients of the mean loss of seven nodes without node 0, and with it."""
    graph = subgraphs.crowd(True)
    settings = subgraphs.Settings(rate=1 / subgraphs.PARTS)
    run = subgraphs.Positions(subgraphs._prepared(graph, settings, range(1)), graph)
    absent, present = run._of(np.arange(1, 8)), run._of(np.arange(8))
    assert torch.cosine_similarity(absent, present, dim=0) < -0.99
    assert min(absent.norm(), present.norm()) > subgraphs.CLIP_NORM


def test_masking_the_loss_does_not_cut_edges():
    """The counterexample to amplification: parts that do not hold the node move with it, unlike those that are cut."""
    for index in range(6):
        before, after, node = subgraphs._neighbours(index)
        steps = (subgraphs._clipped_gradients(graph, "dp-subgraph published", index) for graph in (before, after))
        moved = [not torch.equal(left, right) for (nodes, left), (_, right) in zip(*steps) if node not in nodes]
        assert any(moved)


def test_the_audits_have_power():
    assert float(subgraphs.steps(1000).finding.split("mu_lb ")[1].split(";")[0]) > 0.3
    assert float(subgraphs.locality(20).finding.split("at most ")[1].split(" ")[0]) > 0.8
