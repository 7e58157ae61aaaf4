"""The same sums and gradients by Opacus and by PyTorch Geometric: how long each takes, and how far they are apart.

Run `python -m dpgraph.benchmarks.references OUT.csv`; both packages come with the extra `dev`. Tests compare with the
same references in float64.
"""

from __future__ import annotations

import argparse
import copy
import csv
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.experiments.cell import Model
from dpgraph.files import atomic_path
from dpgraph.models.gat import GatLayer
from dpgraph.models.gin import GinLayer
from dpgraph.models.network import Network
from dpgraph.models.segments import Segments
from dpgraph.progress import tracked
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.edge_lists import EdgeLists
from dpgraph.sampling.ego import closed_hop, pack_ego_trees
from dpgraph.training.clipping import clipped_gradient_sum

FEATURES, CLASSES = 128, 40  # ogbn-arxiv
MLP_BATCHES = (1_800,)
NODES, MEAN_LENGTH = 20_000, 14
COLUMNS = ("case", "size", "implementation", "threads", "repeats", "cpu_ms", "ratio", "difference")

Gradients = Callable[[], list[Tensor]]


def pyg_logits(network: Network, features: Tensor, edges: Tensor) -> Tensor:
    """(N, F) features of all nodes, (2, E) edges from who is read to who reads -> (N, classes), differentiable.

    Encoder and decoder are the network's; messages are passed by PyTorch Geometric with the network's parameters.
    """
    states: Tensor = network.encoder(features)
    for layer in network.aggregation:
        states = pyg_layer(layer, states, edges)
    return network.decoder(states)  # type: ignore[no-any-return]


def pyg_layer(layer: nn.Module, states: Tensor, edges: Tensor) -> Tensor:
    """(N, width) -> (N, width) by PyTorch Geometric's convolution, around which activation and skip are written out."""
    from torch_geometric.nn import GINConv, SimpleConv, TransformerConv
    from torch_geometric.utils import add_remaining_self_loops

    act: Any = layer.activation
    if isinstance(layer, GinLayer):
        convolution = GINConv(nn.Identity(), train_eps=True)  # it would draw new parameters of what it is given
        convolution.nn, convolution.eps = layer.linear, layer.self_weight.epsilon
        return act(convolution(states, edges))  # type: ignore[no-any-return]
    if isinstance(layer, GatLayer):
        convolution = TransformerConv(states.shape[1], layer.head_width, heads=layer.query.heads, root_weight=False)
        for name, ours in (("lin_query", layer.query), ("lin_key", layer.key), ("lin_value", layer.value)):
            theirs = getattr(convolution, name)
            theirs.weight, theirs.bias = ours.weight, ours.bias
        closed, _ = add_remaining_self_loops(edges, num_nodes=len(states))
        return act(layer.output(convolution(states, closed)))  # type: ignore[no-any-return]
    mean: Tensor = SimpleConv(aggr="mean", combine_root="self_loop")(states, edges)
    linear: Any = layer.linear
    return mean + act(linear(mean))  # type: ignore[no-any-return]


def plain_layers(network: Network) -> nn.Sequential:
    """An MLP as layers that Opacus knows, with copies of the parameters in the same order."""
    activation = {torch.tanh: nn.Tanh, torch.relu: nn.ReLU}[network.encoder.activation]  # type: ignore[index]
    modules: list[nn.Module] = []
    for layer in [*network.encoder.layers, *network.decoder.layers]:
        modules += [copy.deepcopy(layer), activation()]
    return nn.Sequential(*modules[:-1])


def opacus_hooks(layers: nn.Sequential, limit: float, features: Tensor, labels: Tensor) -> Gradients:
    """Clipped sums of gradients that Opacus forms for each record."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module = GradSampleModule(layers, loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=limit,
        expected_batch_size=1,
        loss_reduction="sum",
    )

    def gradients() -> list[Tensor]:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(features), labels, reduction="sum").backward()
        optimizer.clip_and_accumulate()
        return [parameter.summed_grad for parameter in module.parameters()]

    return gradients


def opacus_ghost(
    layers: nn.Sequential, limit: float, features: Tensor, labels: Tensor, kind: type[Any] | None = None
) -> tuple[Any, Gradients]:
    """Opacus's module with ghost clipping, of the class `kind` or its own, and the clipped sums that it makes."""
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    kind = kind or GradSampleModuleFastGradientClipping
    module = kind(layers, loss_reduction="sum", max_grad_norm=limit, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=limit,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    loss = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")

    def gradients() -> list[Tensor]:
        optimizer.zero_grad()
        loss(module(features), labels).backward()
        return [parameter.grad for parameter in module.parameters()]

    return module, gradients


def bench(
    out: Path, repeats: int = 7, batches: tuple[int, ...] = MLP_BATCHES, nodes: int = NODES
) -> list[dict[str, Any]]:
    """One row for each case and implementation, written as CSV; medians of CPU times over interleaved repeats.

    Cases: `clipped sum` of an MLP over a batch; `gcn`, `gin`, `gat`: all gradients of the mean loss of one layer on a
    whole graph, edges as a list for PyTorch Geometric. `ratio` is against dpgraph; `difference` the largest one of any
    gradient, over the largest entry of that gradient.
    """
    cases = [*(("clipped sum", size) for size in batches), *((kind, nodes) for kind in ("gcn", "gin", "gat"))]
    rows = []
    for case, size in tracked(cases, "bench", len(cases), "case"):
        make = clipped_sums(size) if case == "clipped sum" else whole_graph(case, size)
        rows += _measure(case, size, make, repeats)
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return rows


def clipped_sums(size: int) -> dict[str, Gradients]:
    network = _network("mlp", 0)
    features, labels = _data(size)
    nothing = EdgeLists(np.zeros(size + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    roots = np.arange(size)
    trees = pack_ego_trees(nothing, roots, 0)
    limit = float(clipped_gradient_sum(network, trees, roots, features, labels, 1.0).norms.median())
    return {
        "dpgraph": lambda: clipped_gradient_sum(network, trees, roots, features, labels, limit).sums,
        "opacus ghost": opacus_ghost(plain_layers(network), limit, features, labels)[1],
        "opacus hooks": opacus_hooks(plain_layers(network), limit, features, labels),
    }


def whole_graph(kind: str, nodes: int) -> dict[str, Gradients]:
    network = _network(kind, 1)
    features, labels = _data(nodes)
    random = numpy_generator("bench", "references", "lists")
    lengths = random.poisson(MEAN_LENGTH, nodes)
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    # never the owner itself, whose loop each implementation adds
    owners = np.repeat(np.arange(nodes), lengths)
    members = (owners + random.integers(1, nodes, ptr[-1])) % nodes
    hop = closed_hop(EdgeLists(ptr, members.astype(np.int32)))
    edges = torch.from_numpy(np.stack([members, owners]))
    parameters = list(network.parameters())

    def ours() -> Tensor:
        segments = Segments.of_graph(hop)
        states = network.encoder(features)
        for layer in network.aggregation:
            states = layer(states, segments)
        return network.decoder(states)  # type: ignore[no-any-return]

    def gradients(logits: Callable[[], Tensor]) -> Gradients:
        return lambda: list(torch.autograd.grad(nn.functional.cross_entropy(logits(), labels), parameters))

    return {"dpgraph": gradients(ours), "pyg": gradients(lambda: pyg_logits(network, features, edges))}


def _network(kind: str, hops: int) -> Network:
    model = Model(architecture=kind, hops=hops, decoder_layers=2)  # type: ignore[arg-type]
    return Network(model, FEATURES, CLASSES, torch_generator("bench"))


def _data(size: int) -> tuple[Tensor, Tensor]:
    random = numpy_generator("bench", "references")
    features = torch.from_numpy(random.normal(size=(size, FEATURES)).astype(np.float32))
    return features, torch.from_numpy(random.integers(0, CLASSES, size))


def _measure(case: str, size: int, implementations: dict[str, Gradients], repeats: int) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {name: [] for name in implementations}
    results: dict[str, list[Tensor]] = {}
    for repeat in range(repeats + 1):
        for name, gradients in implementations.items():
            start = time.process_time()
            results[name] = gradients()
            if repeat:  # the first of each warms up
                times[name].append(time.process_time() - start)
    ours = results["dpgraph"]
    medians = {name: statistics.median(spent) for name, spent in times.items()}
    return [
        {
            "case": case,
            "size": size,
            "implementation": name,
            "threads": torch.get_num_threads(),
            "repeats": repeats,
            "cpu_ms": round(1e3 * medians[name], 2),
            "ratio": round(medians[name] / medians["dpgraph"], 3),
            "difference": max(
                float((theirs - own).abs().max() / own.abs().max())
                for theirs, own in zip(results[name], ours, strict=True)
            ),
        }
        for name in implementations
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Opacus and PyTorch Geometric against this package")
    parser.add_argument("out", type=Path, help="CSV file to write")
    warnings.filterwarnings("ignore", "Full backward hook is firing")  # features need no gradients
    bench(parser.parse_args().out)
