"""Peers on JAX: gradients of single roots by `jax.vmap`, and this package's algorithm compiled by XLA.

JAX compiles a program for each shape, so all pieces of a batch have equally many roots, and rows are padded to few
widths. Compilation is not timed. Needs the extra `peers`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.peers_problem import Gradients, PeersProblem, padded
from dpgraph.engine.models.network import Network

# roots of a piece, the fastest of 25, 50, 125, ... on a one-layer GCN
ROOTS_OF_VMAP, ROOTS_OF_OURS = 25, 500
STEPS = {1: (1, 2), 2: (1, 1, 3)}  # by hops: rows of each level are padded to multiples of these
LAYER = {"gcn": ("linear",), "gin": ("self_weight", "linear"), "gat": ("query", "key", "value", "output")}

Parameters = list[tuple[Any, ...]]  # (weight, bias), (weight,) or (epsilon,) of each layer, in the network's order


def use(device: str) -> None:
    """Let JAX run on a device, before its first call; on a GPU it takes memory as it needs it, beside PyTorch."""
    os.environ |= {"JAX_PLATFORMS": device, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@cache
def _jax() -> Any:
    """Return jax with one thread, as everywhere in this benchmark, and float64 where arrays are."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


@dataclass(frozen=True)
class RootShape:
    """The kind of network that a compiled program is for."""

    architecture: str
    hops: int
    decoder_layers: int
    heads: int
    activation: str


def shape_of(network: Network, architecture: str) -> RootShape:
    first: Any = network.aggregation[0] if network.hops else None
    heads = first.query.heads if architecture == "gat" else 1
    activation = {torch.tanh: "tanh", torch.relu: "relu"}[network.encoder.activation]  # type: ignore[index]
    return RootShape(architecture, network.hops, len(network.decoder.layers), heads, activation)


class JaxCalls:
    """Applies layers, adds `taps` to what they give, and keeps what they read.

    The gradient for a tap is the gradient for the layer's output. Without taps it only notes the outputs' shapes.
    """

    def __init__(self, parameters: Parameters, taps: list[Any] | None) -> None:
        self.parameters, self.taps = parameters, taps
        self.order: list[int] = []  # which layer each call is of
        self.by_head: list[bool] = []  # whether it acted on each head apart
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def tapped(self, layer: int, inputs: Any, outputs: Any, by_head: bool = False) -> Any:
        if self.taps is not None:
            outputs = outputs + self.taps[len(self.order)]
        self.order.append(layer)
        self.by_head.append(by_head)
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        return outputs

    def linear(self, layer: int, rows: Any) -> Any:
        weight, *bias = self.parameters[layer]
        return self.tapped(layer, rows, rows @ weight.T + (bias[0] if bias else 0))


def logits_of(shape: RootShape, calls: JaxCalls, rows: Any, reads: Any, own: Any, by_state: bool) -> Any:
    """Map records (..., n_r, F) to (..., classes). `by_state`: roots attend to states, without keys and values."""
    jnp = _jax().numpy
    act = {"tanh": jnp.tanh, "relu": _jax().nn.relu}[shape.activation]
    rows = act(calls.linear(0, rows))
    layer = 1
    for level in reversed(range(shape.hops)):
        # the root's segment has its own row first
        own_rows = rows[..., :1, :] if level == 0 else jnp.take_along_axis(rows, own[level][..., None], axis=-2)
        if shape.architecture == "gcn":
            mean = reads[level] @ rows
            rows = mean + act(calls.linear(layer, mean))
        elif shape.architecture == "gin":
            (epsilon,) = calls.parameters[layer]
            total = reads[level] @ rows + calls.tapped(layer, own_rows, epsilon * own_rows)
            rows = act(calls.linear(layer + 1, total))
        else:
            attend = _attend_states if by_state and level == 0 else _attend
            received = attend(shape, calls, layer, rows, own_rows, reads[level])
            rows = act(calls.linear(layer + 3, received))
        layer += len(LAYER[shape.architecture])
    rows = rows[..., 0, :]
    for place in range(shape.decoder_layers):
        rows = calls.linear(layer + place, rows)
        rows = act(rows) if place < shape.decoder_layers - 1 else rows
    return rows


def _attend(shape: RootShape, calls: JaxCalls, layer: int, rows: Any, own_rows: Any, reads: Any) -> Any:
    jnp = _jax().numpy
    queries, keys, values = (
        calls.linear(layer + place, some).reshape(*some.shape[:-1], shape.heads, -1)
        for place, some in enumerate((own_rows, rows, rows))
    )
    scores = jnp.einsum("...ihd,...jhd->...hij", queries, keys) / queries.shape[-1] ** 0.5
    weights = _jax().nn.softmax(jnp.where(reads[..., None, :, :] > 0, scores, -jnp.inf), axis=-1)
    received = jnp.einsum("...hij,...jhd->...ihd", weights, values)
    return received.reshape(*received.shape[:-2], -1)


def _attend_states(shape: RootShape, calls: JaxCalls, layer: int, rows: Any, own_rows: Any, reads: Any) -> Any:
    """Attend to states: q . K h = (K^T q) . h, sum_j alpha_j V h_j = V sum_j alpha_j h_j; trees (B, n, D)."""
    jnp = _jax().numpy
    queries = calls.linear(layer, own_rows)[:, 0].reshape(len(rows), shape.heads, -1)
    (key,), (value, bias) = calls.parameters[layer + 1], calls.parameters[layer + 2]
    key, value = (weight.reshape(shape.heads, -1, rows.shape[-1]) for weight in (key, value))
    tapped = calls.tapped(layer + 1, queries, jnp.einsum("bhd,hdk->bhk", queries, key), by_head=True)
    scores = jnp.einsum("bhk,bnk->bhn", tapped, rows) / queries.shape[-1] ** 0.5
    weights = _jax().nn.softmax(jnp.where(reads > 0, scores, -jnp.inf), axis=-1)
    states = jnp.einsum("bhn,bnk->bhk", weights, rows)
    given = jnp.einsum("bhk,hdk->bhd", states, value) + bias.reshape(shape.heads, -1)
    return calls.tapped(layer + 2, states, given, by_head=True).reshape(len(rows), 1, -1)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    jnp = _jax().numpy
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return _jax().nn.logsumexp(logits, axis=-1) - chosen


@cache
def formed_program(shape: RootShape) -> Callable[..., Any]:
    """Return the clipped sums of a piece from formed gradients."""
    jax = _jax()
    jnp = jax.numpy

    def loss(parameters: Parameters, rows: Any, label: Any, reads: Any, own: Any) -> Any:
        return _cross_entropy(logits_of(shape, JaxCalls(parameters, None), rows, reads, own, False), label)

    @jax.jit
    def sums(parameters: Parameters, features: Any, nodes: Any, labels: Any, reads: Any, own: Any, counts: Any,
             limit: Any, products: Any) -> Any:  # fmt: skip
        each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0, 0, 0))
        gradients = each(parameters, features[nodes], labels, reads, own)
        squares = [jnp.square(one).reshape(len(one), -1).sum(1) for one in jax.tree.leaves(gradients)]
        factors = jnp.minimum(1, limit / jnp.sqrt(sum(squares))) * counts
        return jax.tree.map(lambda one: jnp.tensordot(factors, one, axes=1), gradients)

    return sums  # type: ignore[no-any-return]


@cache
def unformed_program(shape: RootShape) -> Callable[..., Any]:
    """Return the clipped sums of a piece from the rows that layers read and their gradients (`training.ghost`)."""
    jax = _jax()
    jnp = jax.numpy

    def losses(taps: Any, parameters: Parameters, rows: Any, labels: Any, reads: Any, own: Any) -> Any:
        calls = JaxCalls(parameters, taps)
        logits = logits_of(shape, calls, rows, reads, own, True)
        return _cross_entropy(logits, labels).sum(), calls.inputs

    @jax.jit
    def sums(parameters: Parameters, features: Any, nodes: Any, labels: Any, reads: Any, own: Any, counts: Any,
             limit: Any, products: Any) -> Any:  # fmt: skip
        rows = features[nodes]
        noted = JaxCalls(parameters, None)

        def outputs(rows: Any, reads: Any, own: Any) -> list[Any]:
            logits_of(shape, noted, rows, reads, own, True)
            return noted.outputs

        shapes = jax.eval_shape(outputs, rows, reads, own)
        taps = [jnp.zeros(one.shape, one.dtype) for one in shapes]
        given, read = jax.grad(losses, has_aux=True)(taps, parameters, rows, labels, reads, own)
        squares: Any = 0
        every = list(zip(noted.order, noted.by_head, read, given))
        for call, (layer, by_head, a, g) in enumerate(every):
            squares += _square(parameters[layer], by_head, a, g, None if call else products)
        factors = jnp.minimum(1, limit / jnp.sqrt(squares)) * counts
        result: Parameters = [()] * len(parameters)
        for layer, by_head, a, g in every:
            result[layer] = _weighted(parameters[layer], by_head, a, g, factors)
        return result

    return sums  # type: ignore[no-any-return]


def _square(owned: tuple[Any, ...], by_head: bool, a: Any, g: Any, products: Any) -> Any:
    """Return (B,) squared norms of a layer's gradients, from (B, n, d_in) and (B, n, d_out); n heads or n rows."""
    jnp = _jax().numpy
    bias = len(owned) - 1
    if owned[0].ndim == 0:
        return jnp.square((a * g).sum((1, 2)))
    if a.ndim == 2 or a.shape[1] == 1 or by_head:
        square = (jnp.square(a).sum(-1) + bias) * jnp.square(g).sum(-1)
        return square.reshape(len(a), -1).sum(1)
    inner = jnp.einsum("bik,bjk->bij", a, a) + bias if products is None else products
    return (inner * jnp.einsum("bik,bjk->bij", g, g)).sum((1, 2))


def _weighted(owned: tuple[Any, ...], by_head: bool, a: Any, g: Any, factors: Any) -> tuple[Any, ...]:
    """Return sum_v factors[v] grad_v of the layer's parameters."""
    jnp = _jax().numpy
    if owned[0].ndim == 0:
        return ((factors * (a * g).sum((1, 2))).sum(),)
    biased = len(owned) == 2
    scaled = g * factors.reshape(-1, *(1,) * (g.ndim - 1))
    if by_head:  # the map of keys has no bias and acts on queries, transposed
        left, right = (scaled, a) if biased else (a, scaled)
        weight = jnp.einsum("bhi,bhj->hij", left, right).reshape(owned[0].shape)
        return (weight, scaled.sum(0).reshape(-1)) if biased else (weight,)
    flat = scaled.reshape(-1, g.shape[-1])
    weight = flat.T @ a.reshape(-1, a.shape[-1])
    return (weight, flat.sum(0)) if biased else (weight,)


def jax_vmap(problem: PeersProblem) -> Gradients:
    return _step(problem, formed_program, ROOTS_OF_VMAP)


def jax_ours(problem: PeersProblem) -> Gradients:
    return _step(problem, unformed_program, ROOTS_OF_OURS)


def _step(problem: PeersProblem, program_of: Callable[[RootShape], Callable[..., Any]], most: int) -> Gradients:
    jax = _jax()
    network = problem.network
    program = program_of(shape_of(network, problem.setting.architecture))
    parameters = _parameters(network, problem.setting.architecture)
    features = jax.numpy.asarray(problem.features.cpu().numpy())
    limit = jax.numpy.asarray(problem.limit, dtype=features.dtype)
    parts = [_piece(problem, positions, most) for positions in _equal(problem, most)]
    by_shapes = {tuple(one.shape for one in jax.tree.leaves(part)): part for part in parts}
    for part in by_shapes.values():  # compiles
        program(parameters, features, *part[:-1], limit, part[-1])

    def sums() -> list[Tensor]:
        total = None
        for part in parts:
            own = program(parameters, features, *part[:-1], limit, part[-1])
            total = own if total is None else jax.tree.map(lambda a, b: a + b, total, own)
        return [torch.from_numpy(np.array(one)) for one in jax.tree.leaves(jax.block_until_ready(total))]

    return sums


def _equal(problem: PeersProblem, most: int) -> list[np.ndarray]:
    """Return pieces of equally many positions; the last repeats its last root, which counts 0 (-1 marks it)."""
    ascending = problem.ascending
    size = -(-len(ascending) // -(-len(ascending) // problem.largest_piece(most)))
    rest = -len(ascending) % size
    return np.append(ascending, np.full(rest, -1)).reshape(-1, size)  # type: ignore[return-value]


def _piece(problem: PeersProblem, positions: np.ndarray, most: int) -> tuple[Any, ...]:
    """Return nodes, labels, reads, own rows, whether each root counts, and inner products of records plus 1."""
    jnp = _jax().numpy
    counts = positions >= 0
    trees = padded(problem, np.where(counts, positions, positions[0]), STEPS.get(problem.setting.hops, (1,)))
    reads = trees.means() if problem.setting.architecture == "gcn" else trees.reads
    records = problem.features[trees.nodes]
    products = (torch.bmm(records, records.mT) + 1).cpu().numpy()
    return (
        jnp.asarray(trees.nodes.cpu().numpy().astype(np.int32)),
        jnp.asarray(trees.labels.cpu().numpy().astype(np.int32)),
        tuple(jnp.asarray(one.cpu().numpy()) for one in reads),
        tuple(jnp.asarray(one.cpu().numpy().astype(np.int32)) for one in trees.own),
        jnp.asarray(counts.astype(problem.features.cpu().numpy().dtype)),
        jnp.asarray(products),
    )


def _parameters(network: Network, architecture: str) -> Parameters:
    layers: list[Any] = list(network.encoder.layers)
    for message in network.aggregation:
        layers += [getattr(message, name) for name in LAYER[architecture]]
    layers += list(network.decoder.layers)
    array = partial(_jax().numpy.asarray)
    return [tuple(array(one.detach().cpu().numpy()) for one in layer.parameters()) for layer in layers]
