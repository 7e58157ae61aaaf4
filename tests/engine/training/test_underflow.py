"""Norms of contributions whose factors' squares underflow, with denormal numbers flushed as in training."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.config.cell import Model
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.dense import KeyLinear
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.products import squared_lengths
from dpgraph.engine.models.slot_segments import SlotRows
from dpgraph.engine.models.weighted_rows import PaddedRows, RowNetwork, RowTable
from dpgraph.engine.sampling.edge_lists import empty_edge_lists, full_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training import clipping, closed_rows, ghost
from dpgraph.engine.training.clipping import clipped_gradient_sum, neighbour_losses, root_losses
from dpgraph.engine.training.closed_rows import write_gradient
from dpgraph.engine.training.fused import inputs, passes, row_loops, shared
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.row_loops import NORMS
from dpgraph.engine.training.ghost import CallRows, LinearGradients, norms_with_products
from dpgraph.engine.training.precision import UNDERFLOW, enlarged_norms, with_underflow
from dpgraph.families.tuples.heads import Head, HeadModel
from dpgraph.families.tuples.steps import TupleLoss

SLACK = 1e-6  # of C, for a product with a clip factor that is itself rounded
FAR, NEAR = 1.2e19, 1e-20  # a length whose square is finite, one whose square is not


@pytest.fixture(autouse=True)
def _flushed() -> Iterator[None]:
    torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


def log_uniform(random: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
    """Numbers of random signs."""
    values = 10 ** random.uniform(low, high, shape) * random.choice([-1, 1], shape)
    return torch.as_tensor(values).float()


def spread(
    random: np.random.Generator, shape: tuple[int, int, int], low: float = -30.0, high: float = 30.0
) -> torch.Tensor:
    """Rows (n, H, d) of one magnitude each, or of one for all, or numbers of their own; some are 0."""
    low, high = np.sort(random.uniform(low, high, 2))
    sizes = [(1, 1, 1), (shape[0], 1, 1), shape][random.integers(3)]
    values = log_uniform(random, sizes, low, high) * torch.from_numpy(random.uniform(0.5, 1, shape)).float()
    return values * torch.from_numpy(random.random(shape) < random.choice([0.5, 1.0])).float()


def rows_and_slopes(
    random: np.random.Generator, shape: tuple[int, int, int], width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and slopes (n, H, ...) of any magnitudes; half of them long rows whose slopes are short, or the reverse."""
    between = [((-30, 30), (-30, 30)), ((14, 19.2), (-24, -16)), ((-24, -16), (14, 19.2))][
        random.choice(3, p=[0.4, 0.4, 0.2])
    ]
    return spread(random, shape, *between[0]), spread(random, (*shape[:2], width), *between[1])


def factors_of(squared: torch.Tensor, scale: torch.Tensor, clip_norm: float) -> torch.Tensor:
    enlarged = enlarged_norms(squared, scale)
    return torch.clamp_max(clip_norm / enlarged, 1).masked_fill_(~torch.isfinite(enlarged), 0)


def true_norm(*calls: CallRows, bias: bool) -> float:
    """The norm of one root's gradient in float64."""
    weight = sum(torch.einsum("nho,nhi->hoi", c.gradients.double(), c.inputs.double()) for c in calls)
    offset = sum(c.gradients.double().sum(0) for c in calls)
    return float((weight.square().sum() + bias * offset.square().sum()).sqrt())  # type: ignore[union-attr]


def test_machine_code_has_the_same_allowance():
    assert row_loops.UNDERFLOW == UNDERFLOW


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    heads=st.sampled_from([1, 2]),
    bias=st.booleans(),
    power=st.integers(-6, 2),
)
def test_no_contribution_is_longer_than_the_clip_norm(seed, sizes, heads, bias, power):
    """Of rows of any magnitudes against float64, in one call or several, from Gram forms and formed gradients."""
    random, clip_norm = numpy_generator("underflow", seed), 10.0**power
    d_in, d_out = (int(random.integers(1, 12)) for _ in range(2))
    calls = tuple(CallRows(*rows_and_slopes(random, (n, heads, d_in), d_out), np.array([n])) for n in sizes)
    gradients = LinearGradients(torch.nn.Linear(d_in, d_out * heads, bias), calls)
    factors = factors_of(*gradients.squared_norms(), clip_norm)
    assert float(factors) * true_norm(*calls, bias=bias) <= clip_norm * (1 + SLACK)
    sums = {p: torch.zeros_like(p) for p in gradients.layer.parameters()}
    gradients.add_weighted(sums, factors, factors != 0)
    contribution = torch.cat([total.double().flatten() for total in sums.values()]).norm()
    assert float(contribution.detach()) <= clip_norm * (1 + SLACK)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), size=st.integers(1, 9), power=st.integers(-6, 2))
def test_neither_is_one_whose_inner_products_are_known(seed, size, power):
    """By array operations, and by the compiled loop."""
    random, clip_norm = numpy_generator("known", seed), 10.0**power
    a, g = rows_and_slopes(random, (size, 1, 7), 5)
    products = (a[:, 0] @ a[:, 0].T + 1).unsqueeze(0)
    one, index = np.zeros(1, dtype=np.int64), np.arange(size)
    looped, flat = (torch.empty(1), torch.empty(1)), g.flatten().numpy()
    arrays = (index, index, flat, flat, one, products.flatten().numpy(), np.empty(size * 5, dtype=np.float32))
    NORMS["f4"](0, 5, np.array([0, size]), *arrays, *(some.numpy() for some in looped))
    wanted = true_norm(CallRows(a, g, np.array([size])), bias=True)
    for found in (looped, norms_with_products(products, g[:, 0].unsqueeze(0))):
        assert float(factors_of(*found, clip_norm)) * wanted <= clip_norm * (1 + SLACK)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), size=st.integers(1, 5), power=st.integers(-6, 2))
def test_neither_is_one_of_closed_rows(seed, size, power):
    random, clip_norm = numpy_generator("closed", seed), 10.0**power
    a, delta = (some[:, 0] for some in rows_and_slopes(random, (size, 1, 6), 4))
    mixed, error = (some[0] for some in rows_and_slopes(random, (1, 1, 5), 3))
    factor = closed_rows._clip_factors((a @ a.T + 1).unsqueeze(0), delta.unsqueeze(0), error, mixed, clip_norm)
    encoder = true_norm(CallRows.flat(a, delta, np.array([size])), bias=True)
    whole = np.hypot(encoder, float(error.double().norm() * mixed.double().norm()))
    assert float(factor) * whole <= clip_norm * (1 + SLACK)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), power=st.integers(-6, 2))
def test_neither_is_one_of_a_symmetric_head(seed, power):
    random, clip_norm = numpy_generator("head", seed), 10.0**power
    head, others = rows_and_slopes(random, (1, 1, 4), 8)
    model = HeadModel(Head("symmetric", 4), torch.cat([head.view(1, 4), others.view(2, 4)]), TupleLoss())
    (total,) = model.clipped(torch.tensor([[0, 1, 2]]), torch.tensor([clip_norm])).sums
    assert not float(total.double().norm()) > clip_norm * (1 + SLACK)


def graph_of(features: np.ndarray) -> Graph:
    """Node 0 names nodes 1 and 2, node 3 names none; labels are 0."""
    count, named = len(features), np.array([1, 2], dtype=np.int32)
    return Graph(
        name="toy",
        out_ptr=np.array([0, 2, 2, 2, 2]),
        out_idx=named,
        in_ptr=np.zeros(count + 1, dtype=np.int64),
        in_idx=np.zeros(0, dtype=np.int32),
        features=features.astype(np.float32),
        labels=np.zeros(count, dtype=np.int64),
        split=np.zeros(count, dtype=np.uint8),
        num_classes=2,
    )


PATHS = ("ghost", "fused", "known products", "loop", "shared nodes")


def contribution(network: Network, graph: Graph, root: int, clip_norm: float, path: str, losses=root_losses) -> float:
    """The norm of one root's clipped gradient, formed in one of the engine's ways."""
    lists = full_edge_lists(graph, np.arange(4)) if network.hops else empty_edge_lists(graph)
    trees, features = pack_ego_trees(lists, np.arange(4), network.hops), torch.from_numpy(graph.features)
    known = None if path in ("ghost", "fused") else TreeInputs(trees, features)
    with (
        patch.object(clipping, "has_closed_form", (lambda _: False) if path == "ghost" else clipping.has_closed_form),
        patch.object(inputs, "WORTH", 0 if path in ("loop", "shared nodes") else inputs.WORTH),
        patch.object(passes, "WORTH", 0 if path in ("loop", "shared nodes") else passes.WORTH),
        patch.object(shared, "WORTH", 0 if path == "shared nodes" else shared.WORTH),
        patch.object(shared, "LEAST_COLUMNS", -1.0),
    ):
        labels, position = torch.from_numpy(graph.labels), np.array([root])
        found = clipped_gradient_sum(network, trees, position, features, labels, clip_norm, losses, known)
    return float(torch.cat([total.detach().double().flatten() for total in found.sums]).norm())


def sure_network(hops: int) -> Network:
    """A network that a record (FAR, 0) makes so sure of its label that its slope is about NEAR."""
    model = Model(
        architecture="gcn" if hops else "mlp", hops=hops, encoder_layers=1, decoder_layers=1, width=1, activation="relu"
    )
    network = Network(model, 2, 2, torch.Generator().manual_seed(0), torch.float32)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.encoder.layers[0].weight[0, 0] = (1 + 2 * bool(hops)) * 10 / FAR
        network.decoder.layers[0].weight[:, 0] = torch.tensor([2.3, -2.3])
    return network


@pytest.mark.parametrize("hops", [0, 1])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("losses", [root_losses, neighbour_losses])
def test_a_far_record_of_a_sure_root_stays_within_the_clip_norm(hops, path, losses):
    """A record of 1.2e19 whose slope is 1e-20: its squared slope is 0, its contribution 10 to 60 clip norms."""
    if losses is neighbour_losses and not hops:
        return
    features = np.zeros((4, 2))
    features[1 if hops else 0, 0] = FAR
    network, graph, clip_norm = sure_network(hops), graph_of(features), 1e-3
    whole = contribution(network, graph, 0, 1e30, "ghost", losses)
    assert whole == 0 or whole > 10 * clip_norm  # of neighbours, the root's own loss is the larger part
    assert contribution(network, graph, 0, clip_norm, path, losses) <= clip_norm * (1 + SLACK)


def test_a_far_row_of_closed_rows_stays_within_the_clip_norm():
    model = Model(architecture="mlp", hops=0, encoder_layers=1, decoder_layers=1, width=1, activation="relu")
    network = sure_network(0)
    trained = RowNetwork(network, model.activation)
    records = np.zeros((4, 2), dtype=np.float32)
    records[0, 0] = FAR
    rows = PaddedRows.from_weights(sp.csr_matrix(np.eye(4)), np.arange(4), 2)
    batch = RowTable(rows, records, np.zeros(4, dtype=np.int64), torch.device("cpu")).batch(np.array([0]))
    lengths = []
    for clip_norm in (1e30, 1e-3):
        into = torch.zeros_like(trained.theta.data)
        write_gradient(trained, batch, torch.ones(1), clip_norm, into)
        lengths.append(float(into.double().norm()))
    assert lengths[0] > 10e-3
    assert lengths[1] <= 1e-3 * (1 + SLACK)
    error, mixed = torch.tensor([[NEAR, -NEAR]]), torch.tensor([[1e19, 1.0]])
    factor = closed_rows._clip_factors(torch.ones(1, 1, 1), torch.zeros(1, 1, 4), error, mixed, 1e-2)
    assert float(factor * error.double().norm() * mixed.double().norm()) <= 1e-2


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    kind=st.sampled_from(["mlp", "gcn", "gin", "gat"]),
    activation=st.sampled_from(["relu", "tanh"]),
    path=st.sampled_from(PATHS),
    losses=st.sampled_from([root_losses, neighbour_losses]),
    power=st.integers(-6, 1),
)
def test_networks_of_any_weights_contribute_at_most_the_clip_norm(seed, kind, activation, path, losses, power):
    random, hops = numpy_generator("networks", seed), 0 if kind == "mlp" else int(seed % 2) + 1
    model = Model(
        architecture=kind, hops=hops, heads=2, encoder_layers=1, decoder_layers=1 + seed % 2, width=4,
        activation=activation,
    )  # fmt: skip
    network = Network(model, 3, 2, torch_generator("weights", seed), torch.float32)
    with torch.no_grad():
        for parameter in network.parameters():
            middle = random.uniform(-30, 30) if random.random() < 0.3 else 0.0
            parameter.copy_(log_uniform(random, tuple(parameter.shape), middle - 1, middle + 1))
    graph, losses = graph_of(spread(random, (4, 1, 3))[:, 0].numpy()), losses if hops else root_losses
    for root in (0, 3):
        assert contribution(network, graph, root, 10.0**power, path, losses) <= 10.0**power * (1 + SLACK)


@pytest.mark.parametrize("size", [1, 3])
def test_numbers_of_double_precision_underflow_likewise(size):
    a, g = torch.full((size, 1, 1), 2.0**510, dtype=torch.float64), torch.zeros(size, 1, 30, dtype=torch.float64)
    g[:, :, 0] = 2.0**-514  # whose square is below the least number
    gradients = LinearGradients(torch.nn.Linear(1, 30), (CallRows(a, g, np.array([size])),))
    assert float(factors_of(*gradients.squared_norms(), 1e-3)) * size * 2.0**-4 <= 1e-3


def test_padding_does_not_change_what_underflow_adds():
    """A factor depends on its root only: beside longer runs, and in slots, its last row is repeated without a slope."""
    random = numpy_generator("padding")
    own, other = ((spread(random, (n, 1, 6)), spread(random, (n, 1, 4))) for n in (5, 9))
    own = (own[0] / own[0].abs().max() * FAR / 10, own[1] / own[1].abs().max() * NEAR)
    alone = LinearGradients(torch.nn.Linear(6, 4), (CallRows(*own, np.array([5])),)).squared_norms()[1]
    rows = CallRows(*(torch.cat(both) for both in zip(own, other, strict=True)), np.array([5, 9]))
    beside = LinearGradients(torch.nn.Linear(6, 4), (rows,)).squared_norms()[1]
    padded = own[0][[0, 1, 2, 3, 4, 4, 4]], torch.cat([own[1], torch.zeros(2, 1, 4)])
    slots = CallRows(*padded, SlotRows([1], [7], torch.device("cpu")))
    in_slots = LinearGradients(torch.nn.Linear(6, 4), (slots,)).squared_norms()[1]
    torch.testing.assert_close(in_slots[0], alone[0], rtol=1e-5, atol=0)
    assert alone[0] > UNDERFLOW * FAR**2 / 200
    torch.testing.assert_close(beside[0], alone[0], rtol=1e-5, atol=0)


def before(a: torch.Tensor, g: torch.Tensor, bias: float, form: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared norms and scales of (b, H, w, d) without an allowance for underflow."""
    if form == "gram":
        gram = torch.matmul(a, a.mT).add_(bias).mul_(torch.matmul(g, g.mT))
        scale = gram.diagonal(dim1=2, dim2=3).sqrt().sum(2).square()
        return gram.sum((1, 2, 3)).clamp_min_(0), scale.sum(1)
    scale = ((a.square().sum(3) + bias) * g.square().sum(3)).sqrt().sum(2).square()
    formed = torch.matmul(g.mT, a).square().sum((1, 2, 3))
    return formed + bias * g.sum(2).square().sum((1, 2)), scale.sum(1)


@pytest.mark.parametrize("magnitude", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("slope", [1e-3, 1.0])
@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_ordinary_norms_keep_every_bit(magnitude, slope, size):
    generator = torch_generator("bits", size)
    a = magnitude * torch.randn(200, 2, size, 20, generator=generator)
    g = slope * torch.randn(200, 2, size, 30, generator=generator)
    for bias in (0.0, 1.0):
        for form, now in (("gram", ghost.gram_form), ("explicit", ghost.explicit_form)):
            for mine, wanted in zip(now(a, g, bias), before(a.double(), g.double(), bias, form), strict=True):
                assert torch.equal(mine, wanted.float())
    one, other = a[:, 0], g[:, 0]
    products = torch.bmm(one, one.mT) + 1
    gram = products.double() * torch.bmm(other.double(), other.double().mT)
    wanted = gram.sum((1, 2)).clamp_min_(0), gram.diagonal(dim1=1, dim2=2).sqrt().sum(1).square_()
    if size == 1:
        square = products.flatten() * squared_lengths(other.squeeze(1))
        wanted = square, square
    for mine, theirs in zip(norms_with_products(products, other), wanted, strict=True):
        assert torch.equal(mine, theirs.float())


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("calls", [1, 2])
def test_ordinary_norms_of_single_rows_keep_every_bit(heads, calls):
    generator = torch_generator("single bits", heads, calls)
    a = [torch.randn(300, heads, 20, generator=generator) for _ in range(calls)]
    g = [0.01 * torch.randn(300, heads, 30, generator=generator) for _ in range(calls)]
    lengths = [squared_lengths(x) for x in (*a, *g)]
    squares = [(x + 1) * y for x, y in zip(lengths[:calls], lengths[calls:], strict=True)]
    squared = sum(squares).sum(1)
    scale = squared if heads == calls == 1 else sum(one.sqrt() for one in squares).square().sum(1)
    if calls == 2:
        dots = [torch.linalg.vecdot(one.double(), other.double()).float() for one, other in (a, g)]
        squared = squared + 2 * ((dots[0] + 1) * dots[1]).sum(1)
    rows = tuple(CallRows(*both, np.ones(300, dtype=np.int64)) for both in zip(a, g, strict=True))
    found = LinearGradients(torch.nn.Linear(20, 30 * heads), rows).squared_norms()
    assert torch.equal(found[0], squared.clamp_min(0))
    assert torch.equal(found[1], scale)


def test_ordinary_norms_of_closed_rows_keep_every_bit():
    generator = torch_generator("row bits")
    x, delta = torch.randn(100, 5, 20, generator=generator), 1e-2 * torch.randn(100, 5, 8, generator=generator)
    error, mixed = torch.randn(100, 4, generator=generator) / 10, torch.randn(100, 9, generator=generator)
    gram, inner = torch.bmm(x, x.mT) + 1, torch.bmm(delta.double(), delta.double().mT)
    scale = (gram.diagonal(dim1=1, dim2=2) * inner.diagonal(dim1=1, dim2=2)).sqrt_().sum(1).square_()
    last = error.square().sum(1) * mixed.square().sum(1)
    squared = (inner * gram).flatten(1).sum(1).clamp_min_(0) + last
    wanted = factors_of(squared.float(), (scale + last).float(), 0.6)
    assert torch.equal(closed_rows._clip_factors(gram, delta, error, mixed, 0.6), wanted)
    assert 0 < (wanted < 1).float().mean() < 1


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_ordinary_norms_of_the_loop_keep_every_bit(kind):
    """Slopes that are 2^30 times as long have norms that are 2^60 times as large, to the last bit."""
    generator, width, sizes = torch_generator("loop bits", kind), 40, np.arange(1, 17)
    ptr, count = np.append(0, np.cumsum(sizes)), int(sizes.sum())
    products, first = [], np.append(0, np.cumsum(sizes**2))[:-1]
    for size in sizes:
        records = torch.randn(int(size), 12, generator=generator)
        products.append((records @ records.T + 1).flatten())
    output = torch.rand(count * width, generator=generator).numpy()
    slopes = (1e-2 * torch.randn(count * width, generator=generator)).numpy()
    results = []
    for times in (1.0, 2.0**30):
        found = np.empty((2, len(sizes)), dtype=np.float32)
        arrays = (np.arange(count), np.arange(count), output, slopes * np.float32(times), first)
        NORMS["f4"](kind, width, ptr, *arrays, torch.cat(products).numpy(), np.empty(16 * width, np.float32), *found)
        results.append(found / np.float32(times) ** 2)
    assert np.array_equal(*results)


def test_lost_rows_stay_lost():
    """The allowance is not finite where a length is not, whatever the slopes are."""
    for length in (float("inf"), float("nan")):
        found = with_underflow(torch.zeros(1), torch.tensor([[1.0, length]]), torch.zeros(1, 2))
        assert not torch.isfinite(found).any()
    rows = CallRows(torch.full((1, 2, 3), 1e20), torch.zeros(1, 2, 4), np.array([1]))
    assert factors_of(*LinearGradients(KeyLinear(3, 2, 4), (rows,)).squared_norms(), 1.0) == 0
