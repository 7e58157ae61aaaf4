"""Steps over rows of weights: gradients against the engine for any network, the bound of a root, noise."""

import math
from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpgraph.config.cell import Model, Training
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.sparse import declared_density
from dpgraph.engine.models.weighted_rows import PaddedRows, RowNetwork, RowTable
from dpgraph.engine.sampling.batches import Draws, FixedSizeSampler, PoissonSampler
from dpgraph.engine.training import closed_rows
from dpgraph.engine.training.captured import dispatch
from dpgraph.engine.training.captured.dispatch import why_not_captured
from dpgraph.engine.training.captured.program import HostBatches
from dpgraph.engine.training.captured.rows import CapturedRows
from dpgraph.engine.training.clipping import clipped_gradient_sum
from dpgraph.engine.training.closed_rows import RowPrivatizer, RowStep, write_gradient
from dpgraph.engine.training.noise import GaussianNoise, add_gaussian_noise
from dpgraph.engine.training.optimizers import make_optimizer
from tests.engine.training.test_captured import MOVES, OnDevice, _moved
from tests.engine.weighted_rows import WeightedRows

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


def table_of(records, dtype=torch.float32):
    rows, chosen = rows_of(0)
    with declared_density(np.count_nonzero(records) / records.size):
        return RowTable(PaddedRows.from_weights(rows, chosen, PLACES), records, LABELS, CPU, dtype)


def trained_of(records, dtype=torch.float32, **model):
    network = network_of(0, features=records.shape[1], dtype=dtype, **model)
    return RowNetwork(network, model.get("activation", "tanh")), network


def sums_of(trained, records, positions, clip_norm, dtype=torch.float32, share=1.0):
    """Parts of the sum of clipped gradients, as a network's parameters."""
    into = torch.zeros_like(trained.theta.data)
    shares = torch.full((len(positions),), share, dtype=dtype)
    write_gradient(trained, table_of(records, dtype).batch(np.asarray(positions)), shares, clip_norm, into)
    assert len(into) % 16 == 0
    assert not into[trained.size :].any()
    return trained.parts(into)


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
    trained, network = trained_of(records, torch.float64, activation=activation)
    expected = oracle(network, records, np.array(positions), clip_norm)
    sums = sums_of(trained, records, positions, clip_norm, torch.float64)
    for one, other in zip(sums, expected.sums, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9 * clip_norm if clip_norm < 1 else 1e-9)
    clipped = (expected.norms > clip_norm).sum()
    assert clip_norm == 1e6 or len(positions) < 13 or clipped > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_is_what_autograd_finds(kind):
    records = records_of(kind)
    trained, network = trained_of(records, torch.float64)
    positions = [2, 9, 4]
    rows, roots = rows_of(0)
    own = network.decoder(network.encoder(torch.from_numpy(records).double()))
    logits = torch.from_numpy(rows.toarray()[positions]) @ own
    loss = nn.functional.cross_entropy(logits, torch.from_numpy(LABELS[roots[positions]]))
    expected = torch.autograd.grad(loss, list(network.parameters()))
    for one, other in zip(sums_of(trained, records, positions, None, torch.float64, 1 / 3), expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)


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
    trained, _ = trained_of(records, activation=activation)
    trained.theta.data.mul_(strength)
    parts = sums_of(trained, records, [root], clip_norm)
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
    trained, _ = trained_of(records, activation=activation)
    for root in np.flatnonzero(names):
        assert not any(part.any() for part in sums_of(trained, planted, [root], 0.5))
    others = np.flatnonzero(~names)
    sums, expected = sums_of(trained, planted, np.arange(13), 0.5), sums_of(trained, planted, others, 0.5)
    before = sums_of(trained, records, others, 0.5)
    for one, other, third in zip(sums, expected, before, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
        assert torch.allclose(other, third, atol=1e-6)


def test_parameters_that_are_not_finite_add_nothing():
    records = records_of("dense")
    trained, _ = trained_of(records)
    trained.theta.data[3] = math.nan
    assert not any(part.any() for part in sums_of(trained, records, range(13), 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_outside_of_a_row_does_not_move_its_gradient(kind):
    records = records_of(kind)
    rows, roots = rows_of(0)
    trained, _ = trained_of(records)
    for root in range(13):
        named = rows.toarray()[root] != 0
        named[roots[root]] = True
        other = np.where(named[:, None], records, -7 * records + 3 * (records != 0)).astype(np.float32)
        one, two = (sums_of(trained, each, [root], 0.5) for each in (records, other))
        assert any(part.any() for part in one) == bool(rows[root].nnz)
        for part, same in zip(one, two, strict=True):
            assert torch.equal(part, same)


SAMPLERS = {"poisson": PoissonSampler(13, 0.5), "fixed": FixedSizeSampler(13, 7), "rare": PoissonSampler(13, 0.05)}


def step_of(kind="sparse", sampler="poisson", noise_std=0.3, divisor=6.5, **settings):
    trained, network = trained_of(records_of(kind))
    training = Training(**{"learning_rate": 0.1, "steps": 1, "optimizer": "sgd", **settings})
    privatizer = RowPrivatizer(trained, 0.5, GaussianNoise(noise_std, torch_generator("noise")), divisor)
    optimizer = make_optimizer([trained.theta], training, fused=True)
    draws = Draws(SAMPLERS[sampler], numpy_generator("batches", 0))
    return RowStep(trained, optimizer, table_of(records_of(kind)), draws, privatizer), network


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_roots_at_once_or_batch_by_batch_is_the_same(kind, sampler, monkeypatch):
    runs = []
    for places in (4096, 0):
        monkeypatch.setattr(closed_rows, "ALL_PLACES", places)
        step, _ = step_of(kind, sampler, optimizer="adam")
        read = [step() for _ in range(15)]
        runs.append((read, step.network.theta.data))
    assert runs[0][0] == runs[1][0]
    assert torch.allclose(runs[0][1], runs[1][1], atol=1e-4)
    assert sampler != "rare" or runs[0][0].count(0) > 0


def test_a_step_is_the_sum_and_the_noise_of_the_other_engine():
    """Noise is drawn for W1, b1, W2, b2 in turn, from the seed's generator, and not clipped or divided otherwise."""
    step, network = step_of(sampler="fixed", noise_std=0.3, divisor=7.0)
    before = step.network.theta.data.clone()
    step()
    positions = SAMPLERS["fixed"].draw(numpy_generator("batches", 0))
    sums = oracle(network, records_of("sparse"), positions, 0.5, dtype=torch.float32).sums
    add_gaussian_noise(sums, 0.3, torch_generator("noise"))
    for now, then, total in zip(*map(step.network.parts, (step.network.theta.data, before)), sums, strict=True):
        assert torch.allclose(now, then - 0.1 * total / 7, atol=1e-6)


def test_a_step_without_roots_is_noise_alone():
    step, _ = step_of(sampler="rare", noise_std=0.0)
    generator = numpy_generator("batches", 0)
    expected = [len(SAMPLERS["rare"].draw(generator)) for _ in range(10)]
    assert 0 in expected
    for size in expected:
        before = step.network.theta.data.clone()
        assert step() == size
        assert torch.equal(before, step.network.theta.data) == (size == 0)


def test_impossible_settings():
    trained, _ = trained_of(records_of("sparse"))
    noise = GaussianNoise(1.0, torch.Generator())
    for clip_norm, divisor, message in (
        (0.0, 1.0, "clip_norm=0.0: expected a finite number >= 1e-09"),
        (1.0, math.inf, "divisor=inf: expected a finite number >= 1e-09"),
    ):
        with pytest.raises(UserError, match=message):
            RowPrivatizer(trained, clip_norm, noise, divisor)
    for std in (-1.0, math.inf, (1.0, math.nan)):
        with pytest.raises(UserError, match=r"noise std=.*: expected a finite number >= 0"):
            GaussianNoise(std, torch.Generator())
    deep = Network(Model(architecture="mlp", hops=0, encoder_layers=2), 11, CLASSES, torch.Generator())
    with pytest.raises(TypeError, match="one encoder layer and one decoder layer"):
        RowNetwork(deep, "tanh")


def captured_of(step, start=0, **options):
    program = CapturedRows(step, HostBatches(step.draws.sampler, step.draws.generator), **options)
    program.start_at(start)
    return program


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("private", [True, False], ids=["private", "plain"])
def test_a_captured_step_is_the_usual_one(kind, sampler, private):
    """With the same batches and the same noise; what the accounting reads is counted."""
    if sampler != "fixed" and not private:
        pytest.skip("batches without privacy have a fixed size")
    steps = [step_of(kind, sampler, optimizer="adam")[0] for _ in range(2)]
    if not private:
        for step in steps:
            step.privatizer = None
    program = captured_of(steps[0], ahead_steps=4)
    for _ in range(10):
        assert program() == steps[1]()
        torch.testing.assert_close(*(step.network.theta.data for step in steps), rtol=1e-4, atol=1e-5)
    assert steps[0].draws.generator.bit_generator.state == steps[1].draws.generator.bit_generator.state
    if private:
        assert steps[0].draws.count == 10
        assert steps[0].privatizer.noise == replace(steps[1].privatizer.noise, generator=ANY)
    assert "host" in why_not_captured(steps[1])


@pytest.mark.parametrize("private", [True, False], ids=["private", "plain"])
def test_a_captured_step_has_fixed_shapes_and_reads_nothing(private, monkeypatch):
    step, _ = step_of(sampler="fixed", optimizer="adam")
    step.optimizer = make_optimizer(
        [step.network.theta], Training(optimizer="adam", learning_rate=0.1, steps=1), capturable=True
    )
    step.privatizer = step.privatizer if private else None
    assert why_not_captured(step) is None
    program, seen = captured_of(step), []
    program()  # the optimiser makes its state
    monkeypatch.setattr(closed_rows, "may_lose", lambda finite: True)  # as on a GPU
    for number in (1, 2, 3):
        program.source.row.copy_(program.source.ahead(number, 1).ranks[0])
        with OnDevice() as mode, monkeypatch.context() as patched:
            for place, name in MOVES:
                patched.setattr(place, name, _moved)
            program.program()
        seen.append(mode.calls)
    assert seen[0] == seen[1] == seen[2]
    if private:
        step.privatizer.noise.std = 0.1
        with pytest.raises(TypeError, match="changed"):
            program()
    monkeypatch.setattr(dispatch, "MOST_STATES", 3)
    assert "hidden states" in why_not_captured(step)
