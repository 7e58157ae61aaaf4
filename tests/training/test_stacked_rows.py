"""Seeds of DP-APPR side by side: gradients against the engine for any network, the bound of a root, independence."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Model, Training
from dpgraph.models.network import Network
from dpgraph.models.row_stack import RowBatch, RowStack, SeedRows, with_constant
from dpgraph.models.weighted_rows import PaddedRows, WeightedRows
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import Draws, FixedSizeSampler, PoissonSampler
from dpgraph.training import stacked_rows
from dpgraph.training.clipping import clipped_gradient_sum
from dpgraph.training.loop import Diverged
from dpgraph.training.noise import GaussianNoise, add_gaussian_noise
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.stacked_rows import RowPrivatizer, StackedRowsStep, write_gradients

CPU = torch.device("cpu")
NODES, CLASSES, PLACES = 40, 4, 5
KINDS = ("sparse", "dense")


def records_of(kind, width=11):
    """float32, so that both engines read the same numbers."""
    random = numpy_generator("stacked rows", kind)
    values = random.normal(size=(NODES, width))
    return (values * (random.random(values.shape) < 0.2) if kind == "sparse" else values).astype(np.float32)


LABELS = numpy_generator("stacked rows", "labels").integers(0, CLASSES, NODES)


def rows_of(seed, roots=13):
    """Rows of 0 to PLACES - 1 other nodes, negative weights too; some name their root, some are empty."""
    random = numpy_generator("stacked rows", "rows", seed)
    chosen = random.permutation(NODES)[:roots]
    dense = np.zeros((roots, NODES))
    for row, root in enumerate(chosen):
        others = random.permutation(np.delete(np.arange(NODES), root))[: row % PLACES]
        dense[row, others] = random.normal(size=len(others))
        if row % 3 == 0:
            dense[row, root] = 0.7
    return sp.csr_matrix(dense), chosen


def network_of(seed, width=8, activation="tanh", features=11, dtype=torch.float32):
    model = Model(architecture="mlp", hops=0, width=width, activation=activation)
    network = Network(model, features, CLASSES, torch_generator("stacked rows", seed), dtype)
    with torch.no_grad():
        for parameter in network.parameters():  # biases of 0 would hide mistakes in them
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch_generator("biases", seed), dtype=dtype)
    return network


def seed_rows(seed, records, dtype=torch.float32, roots=13):
    rows, chosen = rows_of(seed, roots)
    return SeedRows(PaddedRows.of(rows, chosen, PLACES), with_constant(records, CPU), records, LABELS, CPU, dtype)


def stack_of(seeds, records, dtype=torch.float32, **model):
    networks = [network_of(seed, features=records.shape[1], dtype=dtype, **model) for seed in seeds]
    return RowStack(networks, model.get("activation", "tanh")), networks


def sums_of(stack, seed, records, positions, clip_norm, dtype=torch.float32, network_seed=None):
    """Parts of the sum of clipped gradients, as a network's parameters."""
    batch = seed_rows(seed if network_seed is None else network_seed, records, dtype).batch(np.asarray(positions))
    into = torch.zeros_like(stack.theta.data)
    share = torch.ones(1, len(positions), dtype=dtype)
    write_gradients(stack, slice(seed, seed + 1), batch, share, clip_norm, into)
    return stack.parts(into[seed])


def oracle(network, records, positions, clip_norm, seed=0, dtype=torch.float64):
    rows, roots = rows_of(seed)
    weighted = WeightedRows(rows, roots)

    def losses(network, batch, features, labels, recorder):
        logits = weighted.logits(network, batch, features, recorder.on(batch))
        return nn.functional.cross_entropy(logits, labels[batch.roots], reduction="none")

    features, labels = torch.from_numpy(records).to(dtype), torch.from_numpy(LABELS)
    return clipped_gradient_sum(network, weighted.trees, positions, features, labels, clip_norm, losses)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("clip_norm", [0.05, 0.5, 1e6])
@pytest.mark.parametrize("positions", [[3], [12, 0, 5, 7], list(range(13))])
def test_sums_are_those_of_the_engine_for_any_network(kind, activation, clip_norm, positions):
    records = records_of(kind)
    stack, networks = stack_of([0, 1], records, torch.float64, activation=activation)
    expected = oracle(networks[0], records, np.array(positions), clip_norm)
    sums = sums_of(stack, 0, records, positions, clip_norm, torch.float64)
    for one, other in zip(sums, expected.sums, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9 * clip_norm if clip_norm < 1 else 1e-9)
    clipped = (expected.norms > clip_norm).sum()
    assert clip_norm == 1e6 or len(positions) < 13 or clipped > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_is_what_autograd_finds(kind):
    records = records_of(kind)
    stack, networks = stack_of([0], records, torch.float64)
    positions = [2, 9, 4]
    rows, roots = rows_of(0)
    own = networks[0].decoder(networks[0].encoder(torch.from_numpy(records).double()))
    logits = torch.from_numpy(rows.toarray()[positions]) @ own
    loss = nn.functional.cross_entropy(logits, torch.from_numpy(LABELS[roots[positions]]))
    expected = torch.autograd.grad(loss, list(networks[0].parameters()))
    into = torch.zeros_like(stack.theta.data)
    batch = seed_rows(0, records, torch.float64).batch(np.array(positions))
    write_gradients(stack, slice(0, 1), batch, torch.full((1, 3), 1 / 3, dtype=torch.float64), None, into)
    for one, other in zip(stack.parts(into[0]), expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)


def test_what_is_padding_stays_zero():
    records = records_of("sparse")
    stack, _ = stack_of([0], records)
    into = torch.zeros_like(stack.theta.data)
    write_gradients(stack, slice(0, 1), seed_rows(0, records).batch(np.arange(13)), torch.ones(1, 13), 1.0, into)
    assert into.shape[1] % 16 == 0
    assert into[0, : stack.size].any()
    assert not into[0, stack.size :].any()


def norm_of(parts):
    return math.sqrt(sum(float(part.double().square().sum()) for part in parts))


SCALES = (1e-6, 1.0, 1e4, 1e9, 1e15)


@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, 12),
    st.sampled_from(KINDS),
    st.sampled_from(("relu", "tanh")),
    st.sampled_from(SCALES),
    st.sampled_from(SCALES[:4]),
    st.sampled_from((1e-3, 1.0, 50.0)),
    st.booleans(),
)
def test_no_root_adds_more_than_the_clip_norm(root, kind, activation, size, strength, clip_norm, cancelling):
    """Large records and parameters, and records that are almost the same with weights that cancel."""
    records = records_of(kind) * np.float32(size)
    if cancelling:
        records = (records[:1] + 1e-6 * records).astype(np.float32)
    stack, _ = stack_of([0], records, activation=activation)
    stack.theta.data.mul_(strength)
    parts = sums_of(stack, 0, records, [root], clip_norm)
    assert all(torch.isfinite(part).all() for part in parts)
    assert norm_of(parts) <= clip_norm * (1 + 1e-6)


@pytest.mark.parametrize("broken", [math.inf, -math.inf, math.nan, 1e25, -3e38])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_root_that_is_not_finite_adds_exactly_nothing(kind, activation, broken):
    """Of a broken record all roots that name it are lost, the root itself included, and the others stay as they are."""
    records = records_of(kind)
    rows, roots = rows_of(0)
    node = int(roots[6])
    names = (rows.toarray()[:, node] != 0) | (roots == node)
    assert 1 < names.sum() < 13
    planted = records.copy()
    planted[node, 2] = broken
    stack, _ = stack_of([0], records, activation=activation)
    for root in np.flatnonzero(names):
        assert not any(part.any() for part in sums_of(stack, 0, planted, [root], 0.5))
    others = np.flatnonzero(~names)
    sums, expected = sums_of(stack, 0, planted, np.arange(13), 0.5), sums_of(stack, 0, planted, others, 0.5)
    before = sums_of(stack, 0, records, others, 0.5)
    for one, other, third in zip(sums, expected, before, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
        assert torch.allclose(other, third, atol=1e-6)


def test_parameters_that_are_not_finite_add_nothing():
    records = records_of("dense")
    stack, _ = stack_of([0], records)
    stack.theta.data[0, 3] = math.nan
    assert not any(part.any() for part in sums_of(stack, 0, records, range(13), 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_outside_of_a_row_does_not_move_its_gradient(kind):
    records = records_of(kind)
    rows, roots = rows_of(0)
    stack, _ = stack_of([0], records)
    for root in range(13):
        named = rows.toarray()[root] != 0
        named[roots[root]] = True
        other = np.where(named[:, None], records, -7 * records + 3 * (records != 0)).astype(np.float32)
        one, two = (sums_of(stack, 0, each, [root], 0.5) for each in (records, other))
        assert any(part.any() for part in one) == bool(rows[root].nnz)
        for part, same in zip(one, two, strict=True):
            assert torch.equal(part, same)


SAMPLERS = {"poisson": PoissonSampler(13, 0.5), "fixed": FixedSizeSampler(13, 7), "rare": PoissonSampler(13, 0.05)}


def step_of(seeds, kind="sparse", private=True, sampler="poisson", roots=13, noise_std=0.3, divisor=6.5, **settings):
    records = records_of(kind, settings.pop("features", 11))
    model = {name: settings.pop(name) for name in ("width", "activation") if name in settings}
    stack, networks = stack_of(seeds, records, **model)
    training = Training(**{"learning_rate": 0.1, "steps": 1, "optimizer": "sgd", **settings})
    noises = [GaussianNoise(noise_std, torch_generator("noise", seed)) for seed in seeds]
    privatizer = RowPrivatizer(stack, 0.5, noises, divisor) if private else None
    drawn = SAMPLERS[sampler] if roots == 13 else FixedSizeSampler(roots, 5)
    step = StackedRowsStep(
        stack,
        make_optimizer([stack.theta], training, fused=True),
        [seed_rows(seed, records, roots=roots) for seed in seeds],
        [Draws(drawn, numpy_generator("batches", seed)) for seed in seeds],
        privatizer,
    )
    return step, networks


@pytest.mark.parametrize("training", [{"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}])
@pytest.mark.parametrize("together", [4096, 0])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "roots", "features"), [(8, 13, 11), (32, 13, 64), (5, 9, 7), (33, 11, 30)])
def test_a_seed_has_the_same_bits_alone_and_in_company(
    training, together, private, kind, width, roots, features, monkeypatch
):
    monkeypatch.setattr(stacked_rows, "TOGETHER", together)

    def trained(seeds):
        step, _ = step_of(
            seeds,
            kind,
            private,
            "fixed" if not private else "poisson",
            roots,
            width=width,
            features=features,
            **training,
        )
        for _ in range(12):
            step()
        return step.stack.theta.data

    company = trained(range(4))
    for seed in range(4):
        assert torch.equal(trained([seed])[0], company[seed])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_roots_at_once_or_batches_one_by_one_is_the_same(kind, sampler, monkeypatch):
    runs = []
    for together in (4096, 0):
        monkeypatch.setattr(stacked_rows, "TOGETHER", together)
        step, _ = step_of(range(3), kind, sampler=sampler, optimizer="adam")
        read = [step() for _ in range(15)]
        runs.append((read, step.stack.theta.data))
    assert runs[0][0] == runs[1][0]
    assert torch.allclose(runs[0][1], runs[1][1], atol=1e-4)
    assert sampler != "rare" or runs[0][0].count(0) > 0


def test_a_step_is_the_sum_and_the_noise_of_the_other_engine():
    """Noise is drawn for W1, b1, W2, b2 in turn, from the seed's generator, and not clipped or divided otherwise."""
    step, networks = step_of([0, 1], sampler="fixed", noise_std=0.3, divisor=7.0)
    before = step.stack.theta.data.clone()
    step()
    for seed in (0, 1):
        positions = SAMPLERS["fixed"].draw(numpy_generator("batches", seed))
        sums = oracle(networks[seed], records_of("sparse"), positions, 0.5, seed, torch.float32).sums
        add_gaussian_noise(sums, 0.3, torch_generator("noise", seed))
        for now, then, total in zip(*map(step.stack.parts, (step.stack.theta.data[seed], before[seed])), sums):
            assert torch.allclose(now, then - 0.1 * total / 7, atol=1e-6)


def test_a_step_without_roots_is_noise_alone():
    step, _ = step_of([0], sampler="rare", noise_std=0.0)
    generator = numpy_generator("batches", 0)
    expected = [len(SAMPLERS["rare"].draw(generator)) for _ in range(10)]
    assert 0 in expected
    for size in expected:
        before = step.stack.theta.data.clone()
        assert step() == size
        assert torch.equal(before, step.stack.theta.data) == (size == 0)


def test_a_seed_that_diverges_fails_alone():
    step, _ = step_of(range(3), optimizer="adam")
    alone, _ = step_of([0], optimizer="adam")
    for one in (step, alone):
        one()
        one.check(1)
    with torch.no_grad():
        step.stack.theta[1, 0] = math.inf
    for one in (step, alone):
        one()
        one.check(2)
        one()
    assert step.stack.diverged_at.tolist() == [0, 2, 0]
    assert step.stack.sound == [0, 2]
    assert torch.equal(step.stack.theta.data[0], alone.stack.theta.data[0])
    with torch.no_grad():
        step.stack.theta[:] = math.nan
    with pytest.raises(Diverged, match="after step 7"):
        step.check(7)
    assert step.stack.diverged_at.tolist() == [7, 2, 7]


def test_joined_batches_read_what_each_reads():
    records = records_of("sparse")
    stack, _ = stack_of([0, 1], records, torch.float64)
    batches = [seed_rows(seed, records, torch.float64).batch(np.arange(13)) for seed in (0, 1)]
    share = torch.from_numpy(numpy_generator("shares").random((2, 13)))
    together, apart = torch.zeros_like(stack.theta.data), torch.zeros_like(stack.theta.data)
    write_gradients(stack, slice(None), RowBatch.joined(batches), share, 0.5, together)
    for seed in (0, 1):
        write_gradients(stack, slice(seed, seed + 1), batches[seed], share[seed : seed + 1], 0.5, apart)
    assert torch.allclose(together, apart, rtol=1e-12)
    assert apart.any(dim=1).all()


def test_impossible_settings():
    stack, _ = stack_of([0], records_of("sparse"))
    for clip_norm, divisor, message in (
        (0.0, 1.0, "clip_norm=0.0: expected a finite number > 0"),
        (1.0, math.inf, "divisor=inf: expected a finite number > 0"),
    ):
        with pytest.raises(UserError, match=message):
            RowPrivatizer(stack, clip_norm, [], divisor)
    for std in (-1.0, math.inf, (1.0, math.nan)):
        with pytest.raises(UserError, match=r"noise std=.*: expected a finite number >= 0"):
            GaussianNoise(std, torch.Generator())
    deep = Network(Model(architecture="mlp", hops=0, encoder_layers=2), 11, CLASSES, torch.Generator())
    with pytest.raises(TypeError, match="one encoder layer and one decoder layer"):
        RowStack([deep], "tanh")
