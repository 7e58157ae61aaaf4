"""Random streams of every private method: opened once, secret, named by the seed, and never used twice."""

from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from dpgraph.config.streams import MASKS, SECRET_MASKS
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import CountedGenerator, numpy_generator
from dpgraph.engine.methods.base import Job
from dpgraph.engine.preparation.base import Order, PrivateData
from dpgraph.engine.preparation.ledger import Ledger, check_streams
from dpgraph.engine.sampling import batches
from dpgraph.engine.training.captured.dispatch import DEVICES
from dpgraph.engine.training.noise import GaussianNoise, ReleaseNoise
from dpgraph.families.aggregates.prepared import Sums
from dpgraph.families.jobs import make_jobs
from dpgraph.families.lots.mechanism import ShuffledLots, UnclippedLots
from dpgraph.families.pate import prepared as gnmax
from dpgraph.families.registry import method, spec
from dpgraph.families.subgraphs.mechanism import (
    MaskedSubgraphs,
    NodeClippedSubgraphs,
    NodeNoise,
    PoissonSubgraphs,
    PureNoise,
    UnclippedSubgraphs,
)
from dpgraph.own_graph.secret import SecretNoise, SecretOrder, SecretReleases
from dpgraph.own_graph.training import SecretVotes
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.mechanisms.batches import PoissonBatches
from dpgraph.privacy.procedure import NotAsAccounted, StreamUse
from dpgraph.problems.registry import problem_of
from tests.contract.cells import CELLS, PRIVATE
from tests.contract.conftest import toy_graph
from tests.contract.test_methods import calibrated
from tests.contract.values import value_of

CPU = torch.device("cpu")
SEEDS = (0, 1)
FALSE_ALARM = 5.5  # standard deviations: 4e-8 for each of some thousand comparisons
KINDS = {name: spec(CELLS[name].method).mechanism_class(CELLS[name]) for name in PRIVATE}
OF_ONE_KIND = ("dp-votes", "dp-appr")  # whose mechanisms release other things in the same prepared step
FIRST = {
    (CELLS[name].method, kind.prepared, kind if CELLS[name].method in OF_ONE_KIND else None): name
    for name, kind in reversed(KINDS.items())
}
ONE_OF_EACH = [name for name in PRIVATE if name in FIRST.values() or "choice" in name or "learnt" in name]
POISSON = [name for name in ONE_OF_EACH if issubclass(KINDS[name], PoissonBatches | PoissonSubgraphs)]


class Recorder:
    """The noise of every draw, in units of its standard deviation: one list of arrays for each draw."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        steps: type[GaussianNoise] = GaussianNoise,
        releases: type[ReleaseNoise] = ReleaseNoise,
    ) -> None:
        self.draws: list[list[np.ndarray]] = []
        self.sums: list[np.ndarray] = []  # what leaves noisy sums
        add, fill, on, summed = steps.add, steps.fill, releases.on, Sums.release
        checks, answers = gnmax.noisy_largest_count, gnmax.noisy_histograms

        def added(noise, sums):
            before = [one.clone().double() for one in sums]
            add(noise, sums)
            stds = noise.std if isinstance(noise.std, tuple) else [noise.std] * len(sums)
            parts = zip(sums, before, stds, strict=True)
            self.keep([((one.double() - old) / std).numpy() for one, old, std in parts])

        def filled(noise, buffers):
            std = fill(noise, buffers)
            self.keep([one.double().clone().numpy() for one in buffers])
            return std

        def released(noise, values, std, unit):
            made = on(noise, values, std, unit)
            self.keep([(made - values) / std])
            return made

        def sums_released(sums, rows):
            made = summed(sums, rows)
            self.sums.append((made - sums.senders.received(rows)).ravel() / sums.std)
            return made

        def checked(votes, std, generator):
            made = checks(votes, std, generator)
            self.keep([(made - votes.max(axis=1)) / std])
            return made

        def answered(votes, std, generator):
            made = answers(votes, std, generator)
            self.keep([(made - votes) / std])
            return made

        monkeypatch.setattr(steps, "add", added)
        monkeypatch.setattr(steps, "fill", filled)
        monkeypatch.setattr(releases, "on", released)
        monkeypatch.setattr(Sums, "release", sums_released)
        monkeypatch.setattr(gnmax, "noisy_largest_count", checked)
        monkeypatch.setattr(gnmax, "noisy_histograms", answered)

    def keep(self, tensors: list[np.ndarray]) -> None:
        self.draws.append([np.array(one).ravel() for one in tensors])


def products(pairs) -> tuple[float, int]:
    """Sum of the products of what stands at the same places of two arrays, and how many there are."""
    total, count = 0.0, 0
    for one, two in pairs:
        size = min(len(one), len(two))
        total, count = total + float(one[:size] @ two[:size]), count + size
    return total, count


def check_white(pairs) -> None:
    """Independent standard normal numbers: the sum of n products has mean 0 and variance n. Used twice: n."""
    total, count = products(pairs)
    assert count == 0 or abs(total) < FALSE_ALARM * np.sqrt(count) or count < 9, (total, count)


def check_draws(draws: list[list[np.ndarray]]) -> None:
    """White over steps and releases, over the tensors of a step, and within each."""
    assert draws
    flat = [np.concatenate(one) for one in draws]
    check_white(pairwise(flat))
    check_white((flat[0], later) for later in flat[1:])
    check_white(pair for one in draws for pair in combinations(one, 2))
    for lag in (1, 2, 3, 7):
        check_white((one[lag:], one[:-lag]) for one in flat)
    check_white((one[len(one) // 2 :], one) for one in flat)
    numbers = np.concatenate(flat)
    spread = np.sqrt(2 / len(numbers))  # of the mean square
    assert abs((numbers**2).mean() - 1) < FALSE_ALARM * spread or len(numbers) < 100, (numbers**2).mean()


def run(name: str, seed: int, graph=None):
    """The prepared step after its run, and what was checked."""
    toy = toy_graph() if graph is None else graph
    asked = CELLS[name]
    calibration = calibrated(asked, toy)
    (job,) = make_jobs(value_of(asked, toy), asked, [seed], calibration, CPU)
    outcome = method(asked.method).run(job, lambda step, logits: {})
    return job.prepared, job.prepared.check(outcome.resumed_at)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_no_noise_is_used_twice_over_steps_tensors_releases_and_seeds(name, monkeypatch):
    """Nor any secret stream by two seeds."""
    recorded, names = [], []
    for seed in SEEDS:
        with monkeypatch.context() as patch:
            recorder = Recorder(patch)
            prepared, procedure = run(name, seed)
        recorded.append(recorder.draws)
        names.append({entry.names for entry in prepared.ledger.entries.values() if entry.secret})
        used = {use.stream: use for use in procedure.streams}
        assert {stream for stream, use in used.items() if use.secret} <= set(prepared.streams)
        if recorder.draws:
            check_draws(recorder.draws)
        check_white(combinations(recorder.sums, 2))
        spread = [float((one**2).mean()) for one in recorder.sums]
        assert all(abs(one - 1) < FALSE_ALARM * np.sqrt(2 / recorder.sums[0].size) for one in spread), spread
    assert not names[0] & names[1]
    flat = [[np.concatenate(one) for one in draws] for draws in recorded]
    check_white(zip(*flat, strict=False))


def test_no_noise_of_a_release_of_fit_is_used_twice(monkeypatch):
    """The operating system's: over steps, class sums and biases, the mean of the rows, buckets, and two fits."""
    asked = {**CELLS["dp-votes-softmax"].model_dump()}
    asked["training"] = {**asked["training"], "sampling_rate": 1.0, "steps": 12}
    cell, toy, both = resolve(asked), toy_graph(), []
    mechanism = calibrate(cell, len(toy.train_nodes)).mechanism
    for _ in SEEDS:
        recorder = Recorder(monkeypatch, SecretNoise, SecretReleases)
        shaped = replace(toy, features=np.asarray(toy.features, dtype=np.float32))
        prepared = SecretVotes(SecretOrder(cell, mechanism, 0, PrivateData.from_graph(shaped, CPU), CPU))
        calibration = calibrate(cell, len(toy.train_nodes))
        shown = problem_of(cell.task).working().unlabelled(shaped)
        outcome = method(cell.method).run(Job(shown, cell, 0, calibration, CPU, prepared), lambda step, logits: {})
        procedure = prepared.check(outcome.resumed_at)
        assert {use.stream for use in procedure.streams} >= {"noise", "votes", "mean of the rows"}
        check_draws(recorder.draws)
        both.append([np.concatenate(one) for one in recorder.draws])
        monkeypatch.undo()
    check_white(zip(*both, strict=True))


@pytest.mark.parametrize("name", POISSON)
def test_empty_batches_batches_of_one_and_absent_classes_are_noised_as_all_others(name, monkeypatch):
    """A step without noise would tell that its batch is empty; `check` compares noise, draws and batches."""
    plain, drawn = batches.poisson_batch, []

    def few(num_roots, rate, generator):
        batch = plain(num_roots, rate, generator)
        drawn.append(len(drawn))
        return batch[: {0: 0, 1: 1}.get(drawn[-1] % 3, len(batch))]

    monkeypatch.setattr(batches, "poisson_batch", few)
    toy = toy_graph()
    labels = toy.labels.copy()
    labels[labels == 2] = 1
    _, procedure = run(name, 0, type(toy)(**{**vars(toy), "labels": labels}))
    assert procedure.steps
    assert len(drawn) >= 3


def test_a_counted_generator_draws_what_a_plain_one_draws_and_refuses_what_it_does_not_count():
    counted, plain = CountedGenerator("one", 2), numpy_generator("one", 2)
    for draw in (
        lambda one: one.random((3, 4)), lambda one: one.standard_normal(5), lambda one: one.permutation(7),
        lambda one: one.choice(9, size=3, replace=False, shuffle=False), lambda one: one.gumbel(size=2),
        lambda one: one.laplace(scale=2.0), lambda one: one.permutation(np.arange(6)),
    ):  # fmt: skip
        assert np.array_equal(draw(counted), draw(plain))
    assert (counted.draws, counted.numbers) == (7, 12 + 5 + 7 + 3 + 2 + 1 + 6)
    with pytest.raises(TypeError, match="exponential: expected one of random"):
        counted.exponential()


def test_a_secret_key_is_no_public_one():
    order = Order(CELLS["dp-mlp-0-rigorous"], None, 0, None, CPU)
    for role in ("edge lists", "parameters"):
        with pytest.raises(NotAsAccounted, match="other cells share it"):
            order.secret_key(role)
        with pytest.raises(NotAsAccounted, match="other cells share it"):
            order.noise(1.0, role)
    with pytest.raises(NotAsAccounted, match="expected a public one"):
        order.key("batches of the device")
    assert order.key("edge lists") != order.secret_key("batches of the device").value


@pytest.mark.parametrize("name", ["dp-gnn-1-rigorous", "dp-mlp-0-rigorous"])
def test_batches_of_a_captured_step_come_from_a_secret_stream_of_their_own(name):
    """The program of a CUDA step, run on the CPU."""
    DEVICES.add("cpu")
    try:
        prepared, procedure = run(name, 0)
    finally:
        DEVICES.discard("cpu")
    entry = prepared.ledger.entries["batches of the device"]
    assert entry.secret
    assert entry.counter.draws == prepared.steps
    (batches_used,) = (use for use in procedure.streams if use.stream == "batches")
    assert batches_used.numbers == prepared.steps * prepared.mechanism.num_roots


@pytest.mark.parametrize("name", PRIVATE)
def test_a_checkpoint_keeps_every_generator_that_steps_draw_from(name, tmp_path):
    """Else a resumed run would draw the noise of its first steps again."""
    toy, asked = toy_graph(), CELLS[name]
    calibration = calibrated(asked, toy)
    (job,) = make_jobs(value_of(asked, toy), asked, [0], calibration, CPU, tmp_path / "run.checkpoint")
    method(asked.method).run(job, lambda step, logits: {})
    with (
        pytest.raises(NotAsAccounted, match="would not keep it")
        if job.prepared.ledger.entries.get("noise")
        else nullcontext()
    ):
        job.prepared.check_kept([])


def test_nothing_but_the_prepared_step_draws_from_its_secret_streams():
    toy, asked = toy_graph(), CELLS["dp-mlp-0-rigorous"]
    (job,) = make_jobs(toy, asked, [0], calibrated(asked, toy), CPU)
    for role in ("noise", "batches"):
        with pytest.raises(NotAsAccounted, match=f"random stream {role}: opened twice"):
            job.names(role)
    assert job.names("parameters")


def with_dropout(name: str):
    """The contract's cell with dropout; None where the method has none."""
    asked = CELLS[name]
    with suppress(ValidationError, UserError):
        return resolve({**asked.model_dump(), "model": {**asked.model_dump()["model"], "dropout": 0.5}})
    return None


DROPPED = {name: cell for name in PRIVATE if (cell := with_dropout(name)) is not None}
# theorems that hold given all masks, as no record moves another one to other masks, or each step is charged in full
GIVEN_MASKS = {
    MaskedSubgraphs,
    UnclippedSubgraphs,
    NodeClippedSubgraphs,
    PureNoise,
    NodeNoise,
    ShuffledLots,
    UnclippedLots,
}


@pytest.mark.parametrize("name", DROPPED)
def test_masks_of_dropout_are_secret_where_a_theorem_needs_them_fresh(name, monkeypatch):
    """One node that leaves moves all later masks of shared parts, and one that is not drawn those of its batch."""
    asked, toy, roles = DROPPED[name], toy_graph(), []
    names = Job.names
    monkeypatch.setattr(Job, "names", lambda job, role: (roles.append(role), names(job, role))[1])
    (job,) = make_jobs(value_of(asked, toy), asked, [0], calibrated(asked, toy), CPU)
    outcome = method(asked.method).run(job, lambda step, logits: {})
    procedure = job.prepared.check(outcome.resumed_at)
    free = not job.prepared.mechanism.steps_cost or type(job.prepared.mechanism) in GIVEN_MASKS
    assert job.prepared.ledger.holds_secret(SECRET_MASKS) is not free
    assert (SECRET_MASKS in {use.stream for use in procedure.streams if use.secret}) is not free
    assert bool(set(MASKS) & set(roles)) is free


def test_secret_masks_have_one_reader_are_not_replaced_by_shared_ones_and_are_kept(tmp_path):
    asked, toy = DROPPED["dp-mlp-0-rigorous"], toy_graph()
    (job,) = make_jobs(toy, asked, [0], calibrated(asked, toy), CPU, tmp_path / "run.checkpoint")
    for role in MASKS:
        with pytest.raises(NotAsAccounted, match="other cells share it"):
            job.names(role)
    method(asked.method).run(job, lambda step, logits: {})
    with pytest.raises(NotAsAccounted, match="opened twice"):
        job.masks()
    drawn = [job.prepared.ledger.entries[role].counter for role in ("noise", "batches")]
    kept = [one.generator if isinstance(one, GaussianNoise) else one for one in drawn]
    with pytest.raises(NotAsAccounted, match="secret masks: a checkpoint would not keep it"):
        job.prepared.check_kept(kept)


def test_methods_of_each_family_with_dropout_are_among_those_that_are_tested():
    assert {CELLS[name].method for name in DROPPED} >= {"dp-mlp", "dp-lots", "dp-subgraph", "dp-edge-votes"}
    assert {"dp-mlp-0-rigorous", "dp-lots-0-rigorous", "dp-lots-0-components"} <= set(DROPPED)


def test_a_run_whose_streams_are_not_those_stated_has_no_epsilon(monkeypatch):
    plain = ReleaseNoise.on

    def silent(noise, values, std, unit):
        noise.stds.append(std)
        return values

    monkeypatch.setattr(ReleaseNoise, "on", silent)
    with pytest.raises(NotAsAccounted, match="votes: 0 draws, stated 1"):
        run("dp-votes-softmax", 0)
    monkeypatch.setattr(ReleaseNoise, "on", plain)


def test_a_stream_is_opened_once_under_its_role_and_seed_and_a_secret_is_not_shared():
    ledger = Ledger()
    ledger.open("noise", ("dpgraph", "task", "noise", 3, "cell"), 3, secret=True, counter=None)
    for role, names, secret, reason in (
        ("noise", ("dpgraph", "task", "noise", 3, "other"), True, "opened twice"),
        ("votes", ("dpgraph", "task", "noise", 3, "cell"), True, "opened twice"),
        ("votes", ("dpgraph", "task", "votes", 0, "cell"), True, "expected its role and seed 3"),
        ("votes", ("dpgraph", "task", "votes"), True, "expected its role and seed 3"),
        ("edge lists", ("dpgraph", "task", "edge lists", 3), True, "other cells share it"),
    ):
        with pytest.raises(NotAsAccounted, match=reason):
            ledger.open(role, names, 3, secret=secret, counter=None)
    assert ledger.holds_secret("noise")
    assert not ledger.holds_secret("votes")


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        ({}, "noise: it was not opened; edge lists: it was not opened"),
        ({"noise": (4, 40)}, "noise: 4 draws, stated 5"),
        ({"noise": (5, 10)}, "noise: 10 independent numbers, 50 are due"),
        ({"noise": (5, 50), "more": (1, 1)}, "more: not stated"),
        ({"noise": (5, 50)}, None),
    ],
)
def test_what_was_drawn_is_compared_with_what_is_stated(used, reason):
    uses = {name: StreamUse(stream=name, secret=True, draws=d, numbers=n) for name, (d, n) in used.items()}
    if used:
        uses["edge lists"] = StreamUse(stream="edge lists", secret=False)
    stated = {"noise": 7, "edge lists": None}
    if reason is None:
        check_streams(stated, lambda stream, draws: 10 * draws, uses, {"noise": 2})
        return
    with pytest.raises(NotAsAccounted, match=reason):
        check_streams(stated, lambda stream, draws: 10 * draws, uses, {"noise": 2})
