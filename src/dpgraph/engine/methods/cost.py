"""Estimates of training time before any data exist; jobs and their time limits are planned with them."""

from __future__ import annotations

from typing import Any

from dpgraph.problems.base import Size

STEPS_IF_OPEN = 2000  # of a cell that trains as long as its budget lasts
FLOPS_PER_SECOND = 20e9  # float32 on one CPU core, products of middling size
DENSE_FLOPS_PER_SECOND = 50e9  # where a step is a few large dense products
# fitted to the 545 cells of suite cpu on a core of 2.5 GHz: median error 1.5-fold, all together within a sixth
NETWORK_FLOPS_PER_SECOND = 90e9  # in the closed forms of training/fused
ATTENTION = 1.8  # a step of GAT costs as many of GCN
EARLY_STOP = 0.5  # of the steps, where validation decides when to end
SECONDS_PER_STEP = 1e-3  # what a step costs whatever its size
SECONDS_TO_START = 0.4
# kinds of products, of which a device has rates of its own (workflow/throughputs.csv)
NETWORK, TRANSFORMER, CONVOLUTION = "network", "transformer", "convolution"
GATHERED = 10  # a feature that is read by its place costs as much as so many in a dense product


def steps_of(training: Any) -> int:
    """Return the number of steps, or a guess where the budget decides it."""
    return STEPS_IF_OPEN if training.steps == "max" else int(training.steps)


def loop_seconds(
    training: Any, flops_per_step: float, flops_per_look: float, per_second: float = FLOPS_PER_SECOND
) -> float:
    """Return the seconds of one seed on one CPU core: its steps and its evaluations."""
    step = SECONDS_PER_STEP + flops_per_step / per_second
    return float(SECONDS_TO_START + steps_of(training) * step + training.evaluations * flops_per_look / per_second)


def network_seconds(cell: Any, size: Size, gathered: float = GATHERED, lists: bool = True) -> float:
    """Return the seconds of one seed of a network of `models`, from the products with its weight matrices.

    lists: whether a step reads neighbours outside its batch; graphs induced on the batch have none.
    """
    model, training = cell.model, cell.training
    read = size.features if size.words is None else min(size.features, gathered * size.words)
    first = read * model.width
    others = model.encoder_layers + model.decoder_layers + model.hops - 1
    rest = others * model.width**2 + model.width * size.classes
    roots = training.roots_per_step(size.train_nodes)
    nodes = roots * _tree(cell, size) if lists else roots
    if model.architecture == "kipf" or (cell.privacy is None and getattr(training, "max_degree", None) is None):
        nodes = min(nodes, size.nodes)  # whole lists are computed once for each node, not once for each tree
    times = ATTENTION if model.architecture == "gat" else 1.0
    step, look = times * nodes * (4 * first + 6 * rest), times * size.nodes * 2 * (first + rest)
    share = 1.0
    if getattr(training, "patience", None) is not None:
        step, share = step + look, EARLY_STOP
    return loop_seconds(training, share * step, look, NETWORK_FLOPS_PER_SECOND)


def _tree(cell: Any, size: Size) -> float:
    """Return the number of nodes that one prediction reads: 1 + K + ... + K^r, with K at most the mean list."""
    degree = size.entries / size.nodes
    caps = (
        getattr(cell.privacy, "list_cap", None),
        getattr(cell.privacy, "max_degree", None),
        getattr(cell.training, "max_degree", None),
    )
    cap = next((value for value in caps if value is not None), None)
    if cap is not None:
        degree = min(degree, cap)
    return float(sum(degree**hop for hop in range(cell.model.hops + 1)))
