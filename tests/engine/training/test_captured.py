"""The captured step, call by call on a CPU: the same sums and mechanism, fixed shapes, nothing read by the host."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dpgraph.config.cell import Training
from dpgraph.core.randomness import Key, numpy_generator, torch_generator
from dpgraph.engine.models.slot_segments import SlotRows
from dpgraph.engine.sampling import slots as draws
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler
from dpgraph.engine.sampling.edge_lists import empty_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.sampling.slots import SlotClasses, fill_slots, fixed_size_batches, poisson_masks, random_numbers
from dpgraph.engine.training.captured import dispatch, replay
from dpgraph.engine.training.captured import program as programs
from dpgraph.engine.training.captured.dispatch import why_not_captured
from dpgraph.engine.training.captured.slot_batch import Level
from dpgraph.engine.training.captured.step import CapturedStep
from dpgraph.engine.training.clipping import clipped_gradient_sum, neighbour_losses, root_losses
from dpgraph.engine.training.fused import messages, passes
from dpgraph.engine.training.iterates import AveragedNetwork, AveragingStep
from dpgraph.engine.training.noise import add_gaussian_noise
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.own_graph.secret import SecretNoise
from tests.engine.training.steps import private_step, term_of

RECORDED = partial(replay.compiled, compiler=lambda recorded, inputs: recorded)  # without Inductor, which takes long
ADAM = Training(optimizer="adam", learning_rate=0.1, steps=1)
SGD = Training(optimizer="sgd", learning_rate=0.5, momentum=0.9, steps=1)
CASES = [
    (kind, hops, n_enc, n_dec, activation)
    for kind, hops in (("mlp", 0), ("gcn", 1), ("gin", 1), ("gat", 1), ("gcn", 2), ("gin", 2), ("gat", 2))
    for n_enc, n_dec, activation in ((1, 2, "tanh"), (2, 1, "relu"))
] + [("mlp", 0, 0, 1, "tanh")]


class Looked(Exception):
    """The host asked the device for a number."""


class OnDevice(TorchDispatchMode):
    """Records every call and the shapes of what it gives; refuses calls that read a number or make a shape of one."""

    READS = ("_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "is_nonzero", "equal")
    READS += ("lift_fresh",)  # a number of the host, as assigned to a place

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        moves = name == "_to_copy" and (kwargs or {}).get("device") is not None
        if (
            name in self.READS
            or (name in ("index", "index_put_") and _by_mask(args))
            or _repeats(name, kwargs)
            or moves
        ):
            raise Looked(name)
        result = func(*args, **(kwargs or {}))
        given = result if isinstance(result, tuple | list) else (result,)
        self.calls.append((name, tuple(tuple(t.shape) for t in given if isinstance(t, torch.Tensor))))
        return result


VIEWS = {"view", "select", "unsqueeze", "squeeze", "permute", "slice", "expand", "transpose", "t", "_unsafe_view"} | {
    "alias", "unbind", "diagonal", "split", "_record_function_enter_new", "_record_function_exit", "detach",
}  # fmt: skip
MOVES = [(torch, name) for name in ("from_numpy", "tensor", "as_tensor")] + [
    (torch.Tensor, name) for name in ("cpu", "cuda", "numpy", "tolist", "item", "__bool__", "__int__", "__float__")
]  # between host and device, which on a CPU are one


def _moved(*arguments, **options):
    raise Looked


def _by_mask(args):
    return any(t is not None and t.dtype == torch.bool for t in args[1])


def _repeats(name, kwargs):
    return name == "repeat_interleave" and (kwargs or {}).get("output_size") is None


def lists_of(graph, max_degree=2, list_cap=11):
    return stable_edge_lists(graph, graph.train_nodes, max_degree, list_cap, key=1)


def step_of(
    graph,
    network,
    terms=("root",),
    rate=0.4,
    noise=0.3,
    clip=0.05,
    training=ADAM,
    features=None,
    dtype=None,
    lists=None,
    batch_size=None,
):
    """A private step whose terms draw Poisson batches, or batches of a fixed size; the label of one root is missing."""
    hops, roots = network.hops, graph.train_nodes
    trees = pack_ego_trees(lists_of(graph, **lists or {}) if hops else empty_edge_lists(graph), roots, hops)
    alone = pack_ego_trees(empty_edge_lists(graph), roots, hops)
    features = torch.from_numpy(graph.features).to(dtype or torch.float64) if features is None else features
    labels = torch.from_numpy(graph.labels).clone()
    labels[roots[21]] = -1
    sampler = PoissonSampler(len(roots), rate) if batch_size is None else FixedSizeSampler(len(roots), batch_size)
    made = {
        "root": term_of(trees, sampler, clip),
        "own": term_of(alone, PoissonSampler(len(roots), 0.2), clip),
        "neighbours": term_of(trees, sampler, clip if isinstance(clip, dict) else clip / 3, neighbour_losses),
    }
    optimizer = make_optimizer(network.parameters(), training, capturable=training is ADAM)
    streams = numpy_generator("batches"), torch_generator("noise")
    return private_step(network, optimizer, features, labels, [made[t] for t in terms], noise, 12.5, *streams)


def captured(step, key=3, start=0, **options):
    result = CapturedStep(step, Key(key), **options)
    result.start_at(start)
    return result


def parameters(step):
    return [p.detach().clone() for p in step.step.network.parameters()]


@pytest.fixture(autouse=True)
def narrow_classes(monkeypatch):
    """As many classes as there are widths, as for large batches."""
    monkeypatch.setattr(draws, "CLASS_ROWS", {"cpu": 1})
    monkeypatch.setattr(messages, "BY_ELEMENT", {"cpu"})


def sums_of(step, number):
    """The sums of a step by the engine without slots, on roots that are drawn here."""
    own, expected = step.step, torch.zeros_like(step.flat)
    for source, term in zip(step.slots, own.terms, strict=True):
        parts = clipped_gradient_sum(
            own.network, term.trees, source.positions(number), own.features, own.labels, term.clip_norms, term.losses
        )
        expected += torch.cat([part.flatten() for part in parts.sums])
    return expected


def fill(step, number):
    """Put the roots of a step in their slots."""
    for source in step.sources:
        source.row.copy_(source.ahead(number, 1).ranks[0])


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("terms", [("root",), ("own", "neighbours")], ids=["trees", "residual"])
@pytest.mark.parametrize("kind", ["poisson", "fixed", "groups"])
def test_sums_are_those_of_the_step_it_stands_for(graph, make_network, case, terms, kind):
    architecture, hops, *rest = case
    if len(terms) > 1 and (not hops or kind != "poisson"):
        pytest.skip("no neighbours, or clipped as the root's own")
    network = make_network(hops, *rest, architecture=architecture)
    clip = {name: 0.02 * (1 + place) for place, name in enumerate(network.groups)} if kind == "groups" else 0.05
    fixed = {} if kind == "poisson" else {"batch_size": 17}
    step = captured(step_of(graph, network, terms, noise=0.0, clip=clip, **fixed))
    if hops and terms == ("root",):
        assert len(step.slots[0].classes.widths) > 1
    for number in range(3):
        drawn = [source.positions(number) for source in step.slots]
        assert all(map(len, drawn))
        assert not fixed or [len(positions) for positions in drawn] == [17]
        expected = sums_of(step, number)
        fill(step, number)
        for summed in (step.sum_slots, lambda number=number: step.sum_without_slots(number)):
            summed()
            torch.testing.assert_close(step.flat, expected, rtol=1e-10, atol=1e-12)


def test_noise_of_another_kind_is_not_drawn_by_a_program(graph, make_network):
    """Noise of a release is on a grid and from the operating system: a program would draw it from a generator."""
    step = step_of(graph, make_network(1))
    assert why_not_captured(step) is None
    own = replace(step, noise=SecretNoise(0.3, torch.Generator()))
    assert why_not_captured(own) == "noise of its own"


def test_batches_drawn_early_are_those_of_their_steps(graph, make_network):
    step = captured(step_of(graph, make_network(1)), ahead_steps=12)
    (source,) = step.sources
    seen = 0
    for number in (*range(30), 21, 22):
        if number == 21:
            step.start_at(21)  # after the steps from 24 on were drawn
        before = step.overflows
        step()
        if step.overflows == before:
            assert torch.equal(source.row, source.ahead(number, 1).ranks[0])
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
def test_compiled_sums_are_those_of_the_program(graph, make_network, kind, hops, monkeypatch):
    """Recorded in the first step, on batches of later ones; without Inductor itself, which takes long."""
    monkeypatch.setenv("DPGRAPH_COMPILED_STEPS", "1")
    monkeypatch.setattr(programs, "compiled", RECORDED)
    step = captured(step_of(graph, make_network(hops, architecture=kind), ("own", "neighbours")))
    assert step.is_compiled
    for number in range(3):
        fill(step, number)
        step.summed  # noqa: B018
        with OnDevice():  # what a host computes once is not among the recorded calls
            step.summed()
        torch.testing.assert_close(step.flat, sums_of(step, number), rtol=1e-10, atol=1e-12)


def test_a_step_is_clip_noise_divide_and_update(graph, make_network):
    """With plain SGD, from the same streams drawn by hand; draws and noise are counted where the accounting looks."""
    network = make_network(1)
    plain = Training(optimizer="sgd", learning_rate=0.5, steps=1)
    step = captured(step_of(graph, network, ("own", "neighbours"), training=plain))
    noise, before = torch_generator("noise"), parameters(step)
    for number in range(2):
        drawn = [slots.positions(number) for slots in step.slots]
        flat = torch.zeros_like(step.flat)
        for term, positions in zip(step.step.terms, drawn, strict=True):
            parts = clipped_gradient_sum(
                network, term.trees, positions, step.step.features, step.step.labels, term.clip_norms, term.losses
            )
            flat += torch.cat([part.flatten() for part in parts.sums])
        add_gaussian_noise([flat], 0.3, noise)
        assert step() == sum(map(len, drawn))
        moved = torch.cat([(a - b).flatten() for a, b in zip(before, parameters(step), strict=True)])
        torch.testing.assert_close(moved, 0.5 / 12.5 * flat, rtol=1e-9, atol=1e-12)
        before = parameters(step)
    assert [term.draws.count for term in step.step.terms] == [2, 2]
    assert step.step.noise.draws == 2
    assert step.overflows == 0


@pytest.mark.parametrize("training", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize("counts", [(1, 1), (4, 1), (9, 9), (1, 12)], ids=str)
def test_a_batch_without_a_slot_for_each_root_is_exact(graph, make_network, monkeypatch, counts, training):
    """Few slots, at every stage of running out of them, against slots for all roots."""
    ends = []
    for few in (False, True):
        if few:
            monkeypatch.setattr(draws, "slot_classes", lambda *numbers: SlotClasses((2, 12), counts))
        step = captured(step_of(graph, make_network(1), rate=0.3, training=training), ahead_steps=4)
        sizes = [step() for _ in range(10)]
        ends.append((parameters(step), sizes))
        assert (step.overflows > 0) == few
        assert step.overflows < 10 or counts != (9, 9)
    (first, sizes), (second, same) = ends
    assert sizes == same
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", [*CASES, ("residual", 1, 1, 2, "tanh"), ("residual", 2, 1, 2, "tanh")], ids=str)
def test_shapes_are_fixed_and_the_host_reads_nothing(graph, make_network, monkeypatch, case):
    """The same calls with the same shapes at every step, whatever was drawn."""
    kind, hops, *rest = case
    residual = kind == "residual"
    network = make_network(hops, *rest, architecture="gcn" if residual else kind, dtype=torch.float32)
    step = captured(step_of(graph, network, ("own", "neighbours") if residual else ("root",), dtype=torch.float32))
    step()  # the optimiser makes its state
    seen = []
    for number in (1, 2, 3):
        fill(step, number)
        with OnDevice() as mode, monkeypatch.context() as patched:
            for place, name in MOVES:
                patched.setattr(place, name, _moved)
            step.program()
        seen.append(mode.calls)
    assert seen[0] == seen[1] == seen[2]


def to_meta(step):
    """Move all that a program reads to the device `meta`, which has no numbers."""
    network = step.step.network.to("meta")
    for source in step.slots:
        own, trees = source.slots, source.slots.trees
        source.row = source.row.to("meta")
        own.entries = own.entries.to("meta")
        own.own, own.labels = own.own.to("meta"), own.labels.to("meta")
        own.levels = [Level(level.start.to("meta"), level.sizes.to("meta")) for level in own.levels]
        own.rows = [SlotRows(rows.counts, rows.widths, torch.device("meta")) for rows in own.rows]
        own.trees = replace(
            trees,
            nodes=trees.nodes.to("meta"),
            segment_ptr=tuple(ptr.to("meta") for ptr in trees.segment_ptr),
            columns=tuple(None if columns is None else columns.to("meta") for columns in trees.columns),
        )
    step.records.values = step.records.values.to("meta")
    step.limits = [limits.to("meta") for limits in step.limits]
    step.flat = step.flat.to("meta")
    step.parameters = list(network.parameters())
    del step.sums


@pytest.mark.parametrize("terms", [("root",), ("own", "neighbours")], ids=["trees", "residual"])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
def test_nothing_is_on_the_host(graph, make_network, terms, hops, kind):
    """On the device `meta`, which has no numbers: reading one fails, and so does a number that comes from the host."""
    step = captured(step_of(graph, make_network(hops, 2, 2, architecture=kind), terms))
    assert len(step.sums)
    to_meta(step)
    step.sum_slots()
    assert step.flat.device.type == "meta"
    with pytest.raises(RuntimeError, match="meta"):
        step.flat.sum().item()


def test_a_step_takes_few_calls(graph, make_network, monkeypatch):
    """Of trees of one class, as DP-GCN's are; 567 calls were issued for each step on a GPU before."""
    monkeypatch.setattr(passes, "_has_fast_tanh", lambda: True)  # as on a GPU
    monkeypatch.setattr(draws, "CLASS_ROWS", {"cpu": 4096})
    step = captured(step_of(graph, make_network(1, 1, 2), dtype=torch.float64, lists={"max_degree": 7, "list_cap": 7}))
    assert step.slots[0].classes.widths == (8,)
    step()
    with OnDevice() as mode:
        step.program()
    kernels = [name for name, _ in mode.calls if name not in VIEWS]
    print(f"{len(mode.calls)} calls of ATen, {len(kernels)} of them no views; before: 567")
    assert len(mode.calls) < 250
    assert len(kernels) < 148


def test_the_recorder_of_calls_sees_reads(graph, make_network):
    """The step that is not captured reads numbers back; so would a program that did."""
    step = step_of(graph, make_network(1))
    with pytest.raises(Looked), OnDevice():
        step()
    ones = torch.ones(3)
    for look in (lambda: ones.sum().item(), lambda: ones.nonzero(), lambda: ones[ones > 0], lambda: bool(ones.any())):
        with pytest.raises(Looked), OnDevice():
            look()


class Tape(TorchDispatchMode):
    """What a CUDA graph keeps: calls on the same memory, with the host's numbers as they were."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self):
        for func, args, kwargs, before in self.calls:
            for old, new in zip(*map(tree_leaves, (before, func(*args, **kwargs))), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def replayed(program):
    """The program with a tape for the graph, as on a GPU."""

    def run():
        if program.tape is not None:
            program.tape.replay()
        elif not program.warm:
            program.program()
            program.warm = True
        else:
            program.tape = Tape()
            with program.tape:
                program.program()

    program.tape, program.warm, program._run = None, False, run
    return program


def memory(step):
    """Addresses of all that a captured program reads and writes from one step to the next."""
    state = [value for kept in step.step.optimizer.state.values() for value in kept.values()]
    own = [step.flat, step.noise, *step.sums, *step.sums.values(), *(slots.row for slots in step.slots)]
    grads = [parameter.grad for parameter in step.sums]
    return [tensor.data_ptr() for tensor in [*own, *grads, *state] if isinstance(tensor, torch.Tensor)]


@pytest.mark.parametrize("training", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize("kind", ["mlp", "gcn", "gin", "gat", "residual", "gcn-2", "gat-2", "groups", "fixed"])
def test_what_is_replayed_is_the_step(graph, make_network, monkeypatch, kind, training):
    """Bit by bit, from the third step on calls that were recorded in the second; some steps have too few slots."""
    hops = 2 if kind.endswith("2") else int(kind != "mlp")
    architecture = kind[:3] if kind[:3] in ("mlp", "gin", "gat") else "gcn"
    if kind in ("gcn", "gin"):
        monkeypatch.setattr(draws, "slot_classes", lambda *numbers: SlotClasses((2, 12), (9, 9)))
    steps = []
    for _ in range(2):
        network, options = make_network(hops, architecture=architecture), {"training": training, "rate": 0.3}
        if kind == "groups":
            options |= {"clip": dict.fromkeys(network.groups, 0.05), "batch_size": 12}
            options["noise"] = tuple(0.1 * (1 + place) for place, _ in enumerate(network.parameters()))
        if kind == "fixed":
            options["batch_size"] = 12
        terms = ("own", "neighbours") if kind == "residual" else ("root",)
        steps.append(captured(step_of(graph, network, terms, **options), ahead_steps=4))
    plain, program = steps[0], replayed(steps[1])
    for number in range(9):
        assert plain() == program()
        for one, other in zip(parameters(plain), parameters(program), strict=True):
            assert torch.equal(one, other), f"step {number}"
        if number == 1:
            addresses = memory(program)
    assert memory(program) == addresses
    assert program.tape is not None
    assert (program.overflows > 0) == (kind in ("gcn", "gin"))
    assert 9 - program.overflows > 3


def test_a_tape_keeps_what_the_host_knew(graph, make_network):
    """A number of the host is replayed as it was, one of the device as it is."""
    here, there, total = 1.0, torch.ones(1), torch.zeros(1)
    with Tape() as tape:
        total += here * there
    here = 5.0
    there.fill_(2.0)
    tape.replay()
    assert total.item() == 3.0


def test_batches_are_drawn_where_the_step_is():
    """On the device `meta`: no word comes from the host, and no shape depends on what was drawn."""
    there = torch.zeros(1, device="meta")
    numbers = random_numbers(31, key=7, first=5, steps=4, stream=1, like=there)
    assert fixed_size_batches(numbers, 7).shape == (4, 7)
    masks = poisson_masks(numbers, 0.3)
    assert (masks.device.type, tuple(masks.shape)) == ("meta", (4, 31))
    ends = torch.zeros(2, dtype=torch.int64, device="meta")
    with OnDevice():
        drawn = fill_slots(masks, ends, SlotClasses((2, 12), (9, 5)))
    shapes = [(part.device.type, tuple(part.shape)) for part in (drawn.ranks, drawn.overflow, drawn.sizes)]
    assert shapes == [("meta", (4, 14)), ("meta", (4,)), ("meta", (4,))]


def test_the_host_reads_once_for_many_steps(graph, make_network, monkeypatch):
    step, drawn = captured(step_of(graph, make_network(1)), ahead_steps=5), []
    real = CapturedStep._drawn
    monkeypatch.setattr(CapturedStep, "_drawn", lambda self, first: drawn.append(first) or real(self, first))
    for _ in range(12):
        step()
    assert drawn == [0, 5, 10]


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("n_enc", [1, 2])
def test_a_record_that_is_not_finite_leaves_its_readers_out(graph, make_network, kind, poison, n_enc, hops):
    network = make_network(hops, n_enc, 1, "relu", architecture=kind)
    features = torch.from_numpy(graph.features).double()
    step = captured(step_of(graph, network, rate=1.0, features=features))
    term = step.step.terms[0]
    trees = [term.trees.batch(np.array([i])).nodes.tolist() for i in range(term.trees.num_roots)]
    first = int(term.trees.roots[0])  # what slots without a root hold
    for node in (first, 30):
        poisoned = features.clone()
        poisoned[node, 3] = poison
        clean = np.array([i for i, read in enumerate(trees) if node not in read])
        assert 0 < len(clean) < len(trees)
        step = captured(step_of(graph, network, rate=1.0, features=poisoned))
        step.slots[0].row.copy_(step.slots[0].ahead(0, 1).ranks[0])
        step.sum_slots()
        expected = clipped_gradient_sum(network, term.trees, clean, features, step.step.labels, 0.05)
        for mine, theirs in zip(step.sums.values(), expected.sums, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
def test_update_ignores_nodes_outside_the_batch_s_trees(graph, make_network, kind, hops):
    """Bit-identical sums whatever the records of other nodes are, padding and empty slots included."""
    network, results = make_network(hops, architecture=kind), []
    features = torch.from_numpy(graph.features).double()
    step = captured(step_of(graph, network, rate=0.1, features=features))
    trees = step.step.terms[0].trees
    inside = trees.batch(step.slots[0].positions(0)).nodes
    mask = torch.ones(len(features), dtype=torch.bool)
    mask[inside] = False
    mask[trees.roots[0]] &= trees.roots[0] not in inside
    outside = features.clone()
    outside[mask] = 1e9
    for values in (features, outside):
        step = captured(step_of(graph, network, rate=0.1, features=values))
        step.slots[0].row.copy_(step.slots[0].ahead(0, 1).ranks[0])
        step.sum_slots()
        results.append(step.flat.clone())
    assert torch.equal(*results)


@pytest.mark.parametrize("done", [3, 8])
def test_it_goes_on_where_it_was(graph, make_network, done):
    """Batches are functions of the step: a process that takes the run up draws those that are next."""
    whole = captured(step_of(graph, make_network(1)), ahead_steps=4)
    for _ in range(done):
        whole()
    step = captured(step_of(graph, make_network(1)), start=done, ahead_steps=7)
    assert [whole() for _ in range(6)] == [step() for _ in range(6)]


def test_a_step_that_was_not_told_where_it_starts_is_refused(graph, make_network):
    step = CapturedStep(step_of(graph, make_network(1)), Key(3))
    with pytest.raises(TypeError, match="start_at"):
        step()
    network = step.step.network
    averaging = AveragingStep(step, AveragedNetwork(network, make_network(1), 0))
    averaging.start_at(5)
    size = averaging()
    assert size == len(step.slots[0].positions(5))


def test_groups_have_noise_of_their_own(graph, make_network):
    """The standard deviation of each parameter's noise, over steps whose sums are known."""
    network = make_network(1)
    stds = tuple(0.1 * 4**place for place, _ in enumerate(network.parameters()))
    clip = dict.fromkeys(network.groups, 0.05)
    step = captured(step_of(graph, network, noise=stds, clip=clip, batch_size=9, training=SGD))
    seen = []
    for number in range(40):
        expected = sums_of(step, number)
        step()
        seen.append(step.flat * 12.5 - expected)
    parts = torch.stack(seen).split([p.numel() for p in network.parameters()], dim=1)
    for part, std in zip(parts, stds, strict=True):
        assert abs(part.std().item() / std - 1) < 5 / (2 * part.numel()) ** 0.5


def test_numbers_that_change_after_the_capture_are_refused(graph, make_network):
    step = captured(step_of(graph, make_network(1)))
    step()
    step.step.noise.std = 0.1
    with pytest.raises(TypeError, match="noise"):
        step()


def test_terms_draw_independent_batches(graph, make_network):
    step = captured(step_of(graph, make_network(1), ("root", "root")))
    one, two = (source.batches.masks(0, 64, source.row) for source in step.slots)
    both = (one & two).sum().item()
    assert abs(both - 0.16 * one.numel()) < 5 * (0.16 * one.numel()) ** 0.5


def test_what_is_not_captured(graph, make_network, monkeypatch):
    def reason(network, change=lambda step: None):
        step = step_of(graph, network)
        change(step)
        return why_not_captured(step)

    def replaced(**fields):
        def change(step):
            for name, value in fields.items():
                object.__setattr__(step.terms[0], name, value)

        return change

    def of_the_host(step):
        object.__setattr__(step, "optimizer", make_optimizer(step.network.parameters(), ADAM))

    assert reason(make_network(1)) is None
    assert "own" in reason(make_network(1), replaced(losses=lambda *arguments: root_losses(*arguments)))
    assert "host" in reason(make_network(1), of_the_host)
    step = step_of(graph, make_network(1))
    assert "host" in why_not_captured(lambda: 0)
    assert "library" in why_not_captured(replace(step, engine=lambda *arguments: ()))
    other = term_of(None, replace(step.terms[0].draws.sampler), 1.0).draws
    other.sampler = object()
    assert "fixed size" in reason(make_network(1), replaced(draws=other))
    with pytest.raises(TypeError, match="library"):
        dispatch.captured(replace(step, engine=lambda *arguments: ()), lambda: Key(3))
    with pytest.raises(TypeError, match="key"):
        dispatch.captured(step)
    monkeypatch.setattr(dispatch, "MOST_ROWS", 3)
    assert "rows" in reason(make_network(1))
