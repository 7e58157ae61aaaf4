"""Students of PATE: whom they learn from, what PATE++ counts and removes, and that a run can be resumed."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.config.cell import Training
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.pate.gan import FrozenSoftmax
from dpgraph.families.pate.students import (
    Student,
    StudentPlan,
    StudentStep,
    kept_share,
    removed_labels,
    repeated,
    small_losses,
    unsupervised_loss,
)
from dpgraph.families.pate.teachers import StackedTeachers
from dpgraph.problems.images.exposure import Disagreements, disagreement_metrics

PIXELS, CLASSES, LABELLED, POOL = 12, 3, 20, 50


def step_of(teaching, steps=12, noise_rate=0.3, removed=0.25, seed=0, labelled=LABELLED, reading="halved"):
    random = numpy_generator("test", "students")
    pixels = torch.from_numpy(random.random((POOL, PIXELS), dtype=np.float32))
    labels = np.full(POOL, -1)
    labels[random.permutation(POOL)[:labelled]] = random.integers(0, CLASSES, labelled)
    students = [Student(teaching, PIXELS, CLASSES, 8, 4, labelled, torch_generator("test", part)) for part in range(2)]
    optimizer = make_optimizer(students[0].parameters(), Training(learning_rate=0.01, steps=steps))
    plan = StudentPlan(teaching, noise_rate, removed, 0.9, 10, reading)
    return StudentStep(
        students[0], students[1], optimizer, pixels, torch.from_numpy(labels), plan, steps,
        torch_generator("noise", seed), ("test", seed),
    )  # fmt: skip


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12), st.sampled_from([0.1, 0.5, 0.7, 1])
)
def test_small_losses_against_sorting(items, share):
    losses = torch.tensor([float(loss) for loss, _ in items])
    eligible = torch.tensor([one for _, one in items])
    places = [place for place in range(len(items)) if eligible[place]]
    wanted = sorted(places, key=lambda place: (items[place][0], place))[: math.ceil(share * len(places) - 1e-9)]
    assert torch.nonzero(small_losses(losses, eligible, share)).flatten().tolist() == sorted(wanted)


def test_the_schedule_of_kept_losses():
    """R(e) = 1 - beta min(e / 15, 1)."""
    assert [kept_share(0.2, epoch) for epoch in (0, 3, 15, 100)] == pytest.approx([1, 0.96, 0.8, 0.8])


def test_unsupervised_loss_is_that_of_an_explicit_last_class():
    """Logit 0 for "generated": -log(1 - p) of real and -log p of generated images."""
    logits = torch.randn(2, 7, 4, generator=torch_generator("test"), dtype=torch.float64)
    whole = torch.cat([logits, torch.zeros(2, 7, 1, dtype=torch.float64)], dim=2).softmax(dim=2)
    wanted = -(1 - whole[0, :, -1]).log().mean() / 2 - whole[1, :, -1].log().mean() / 2
    assert unsupervised_loss(logits[0], logits[1]) == pytest.approx(float(wanted))


@pytest.mark.parametrize("reading", ["halved", "thesis"])
def test_a_step_moves_by_the_printed_sum_only_where_it_is_asked_for(reading):
    """Plain descent on the loss of labels plus (thesis) or half (halved) the two means of section 3.3.1, by hand."""
    step = step_of("gan", reading=reading)
    step.optimizer = make_optimizer(
        step.student.parameters(), Training(learning_rate=1.0, steps=12, optimizer="sgd", momentum=0.0)
    )
    step.noise.manual_seed(1)
    known = copy.deepcopy(step.student)
    noise = torch.Generator().set_state(step.noise.get_state())
    labelled, unlabelled = step._batch(0, 0, 0)
    peer, images = known.peers[0], step.pixels[step.labelled[labelled]]
    wanted = step.labels[step.labelled[labelled]]
    loss = -peer(images, noise).log_softmax(dim=1)[range(len(wanted)), wanted].mean()
    made = known.generator(10, noise).detach()
    for pixels, generated in ((step.pixels[unlabelled], False), (made, True)):
        logits = peer(pixels, noise)
        last = torch.cat([logits, torch.zeros(len(logits), 1)], dim=1).softmax(dim=1)[:, -1]
        mean = -(last if generated else 1 - last).log().mean()
        loss = loss + (mean if reading == "thesis" else mean / 2)
    slopes = torch.autograd.grad(loss, list(peer.parameters()))
    step._move(labelled, unlabelled, 1)
    for before, slope, after in zip(peer.parameters(), slopes, step.student.peers[0].parameters(), strict=True):
        assert torch.allclose(before - slope, after, atol=1e-5)


@pytest.mark.parametrize("teaching", ["co-teaching", "co-teaching+"])
def test_peers_teach_each_other(teaching):
    step = step_of(teaching)
    logits = [torch.randn(10, CLASSES, generator=torch_generator("logits", one)) for one in range(2)]
    wanted = torch.arange(10) % CLASSES
    losses = [torch.nn.functional.cross_entropy(one, wanted, reduction="none") for one in logits]
    first, second = (one.argmax(dim=1) for one in logits)
    eligible = [place for place in range(10) if teaching == "co-teaching" or first[place] != second[place]]
    count = math.ceil((1 - 0.3 * 5 / 15) * len(eligible))
    chosen = step._chosen(logits, losses, wanted, torch.arange(10), 5)
    for own, peer in ((0, 1), (1, 0)):
        easy = sorted(eligible, key=lambda place: float(losses[peer][place]))[:count]
        assert torch.nonzero(chosen[own]).flatten().tolist() == sorted(easy)


def test_what_cleansing_counts():
    """Labels with which neither of two disagreeing discriminators agrees; earlier epochs decay by alpha."""
    step = step_of("cleansing", steps=100)
    wanted, places = torch.tensor([0, 1, 2, 2]), torch.tensor([4, 0, 7, 9])
    first, second = torch.tensor([1, 0, 0, 2]), torch.tensor([2, 1, 0, 1])  # only the first label is nobody's
    logits = [torch.nn.functional.one_hot(one, CLASSES).float() for one in (first, second)]
    losses = [torch.nn.functional.cross_entropy(one, wanted, reduction="none") for one in logits]
    for _ in range(2):  # twice in an epoch counts once
        step._chosen(logits, losses, wanted, places, 1)
    step._end_epoch()
    assert step.student.counts.tolist() == [1.0 if place == 4 else 0.0 for place in range(LABELLED)]
    step._chosen(logits, losses, wanted, torch.tensor([4, 0, 7, 4]), 2)
    step._end_epoch()
    assert float(step.student.counts[4]) == pytest.approx(1.9)


def test_removed_are_the_largest_counts():
    counts = torch.tensor([0.0, 3.0, 1.0, 3.0, 2.0, 0.0])
    assert removed_labels(counts, 0.5).tolist() == [False, True, False, True, True, False]
    assert removed_labels(counts, 0.0).sum() == 0


def test_cleansing_begins_anew_without_the_removed_labels():
    step = step_of("cleansing", steps=20)
    for _ in range(10):
        step()
    assert not step.student.removed.any()
    step.student.counts.copy_(torch.arange(LABELLED).float())
    step()
    assert step.student.removed.tolist() == [place >= 15 for place in range(LABELLED)]
    ((labelled, unlabelled),) = step._epochs.values()
    assert set(labelled) == set(range(15))
    without = set(step.labelled[15:])
    assert set(unlabelled) <= set(step.unlabelled) | without
    assert set(unlabelled) & without
    fresh = step.fresh.peers[0].first.weight
    assert (step.student.peers[0].first.weight - fresh).abs().max() <= 0.0101  # one step of Adam away


@pytest.mark.parametrize("teaching", ["supervised", "gan", "co-teaching", "co-teaching+", "cleansing"])
def test_a_run_goes_on_where_it_stopped(teaching):
    """From state, generators and the number of finished steps alone, in the second half of PATE++ too."""
    whole = step_of(teaching)
    for _ in range(12):
        whole()
    for stop in (3, 8):
        first, second = step_of(teaching), step_of(teaching)
        for _ in range(stop):
            first()
        second.student.load_state_dict(first.student.state_dict())
        second.optimizer.load_state_dict(first.optimizer.state_dict())
        second.noise.set_state(first.noise.get_state())
        second.start_at(stop)
        for _ in range(12 - stop):
            second()
        for one, other in zip(whole.student.parameters(), second.student.parameters(), strict=True):
            assert torch.equal(one, other)


def test_the_generator_moves_by_its_own_loss_only():
    """A supervised step leaves it where it is; with real images it moves, and discriminators do not move with it."""
    step = step_of("gan")
    before = [parameter.clone() for parameter in step.student.generator.parameters()]
    real = step.pixels[:10]
    peers = [parameter.clone() for parameter in step.student.peers.parameters()]
    step._match(real)
    assert all(torch.equal(a, b) for a, b in zip(peers, step.student.peers.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(before, step.student.generator.parameters(), strict=True))


def test_no_label_at_all_is_no_error():
    step = step_of("co-teaching", labelled=0)
    for _ in range(3):
        step()
    assert all(torch.isfinite(parameter).all() for parameter in step.student.parameters())


def test_lists_are_repeated_whole():
    found = repeated(np.array([3, 5, 7]), 8, numpy_generator("test"))
    assert len(found) == 8
    assert sorted(found[:3]) == sorted(found[3:6]) == [3, 5, 7]
    assert len(repeated(np.zeros(0, dtype=int), 8, numpy_generator("test"))) == 0


def test_what_is_disagreed_on_is_kept_at_each_look():
    """By both discriminators' own classes; a look of the first half of PATE++ outlives the retraining."""
    step = step_of("cleansing", steps=6)
    step.looks = (2, 6)
    for name in ("student", "fresh"):
        getattr(step, name).disagreed = torch.zeros(2, LABELLED, dtype=torch.bool)
        getattr(step, name).fitted = torch.zeros(2, 2, LABELLED, dtype=torch.bool)
    first, right = np.zeros(0), []
    for done in range(1, 7):
        step()
        if done in step.looks:
            images = step.pixels[step.labelled]
            one, two = (peer(images).argmax(dim=1) for peer in step.student.peers)
            first = (one != two) if done == 2 else first
            right.append(torch.stack([one, two]) == step.labels[step.labelled])
    assert first.any()
    assert torch.equal(step.student.disagreed[0], first)
    assert torch.equal(step.student.disagreed[1], one != two)
    assert torch.equal(step.student.fitted, torch.stack(right, dim=1))


def test_wrong_labels_among_disagreements():
    true = np.array([0, 1, 2, 0, 1])
    found = Disagreements(
        steps=np.array([3, 6, 9]),
        images=np.array([4, 0, 2]),
        labels=np.array([1, 2, 0]),  # right, wrong, wrong
        disagreed=np.array([[True, True, False], [True, False, False], [False, False, False]]),
        fitted=np.array([[[1, 1, 1], [1, 1, 1], [1, 0, 1]], [[0, 0, 1], [0, 1, 1], [1, 0, 1]]], dtype=bool),
    )
    values = {(one.step, one.metric): one.value for one in disagreement_metrics(true, found)}
    assert values == {
        (3, "disagreements/labelled"): 2,
        (3, "wrong_disagreements/labelled"): 0.5,
        (6, "disagreements/labelled"): 1,
        (6, "wrong_disagreements/labelled"): 0,
        (9, "disagreements/labelled"): 0,  # and no share of nothing
        (9, "wrong/labelled"): pytest.approx(2 / 3),
        # Figure 3.3(a), against the labels that each was taught
        (3, "training_accuracy_1/labelled"): 1,
        (3, "training_accuracy_2/labelled"): pytest.approx(1 / 3),
        (6, "training_accuracy_1/labelled"): 1,
        (6, "training_accuracy_2/labelled"): pytest.approx(2 / 3),
        (9, "training_accuracy_1/labelled"): pytest.approx(2 / 3),
        (9, "training_accuracy_2/labelled"): pytest.approx(2 / 3),
    }


def test_a_frozen_representation_is_that_of_principal_components():
    """Against scikit-learn's: signs of components are free, their first one has variance 1, no step moves them."""
    from sklearn.decomposition import PCA

    public = torch.from_numpy(numpy_generator("test", "frozen").random((40, 6), dtype=np.float32))
    network = FrozenSoftmax(public, 3, CLASSES, torch_generator("test"))
    known = PCA(3).fit(public.numpy())
    wanted = known.transform(public.numpy()) * np.sqrt(40 / 39 / known.explained_variance_[0])
    found = ((public - network.mean) @ network.axes).numpy()
    assert np.abs(found) == pytest.approx(np.abs(wanted), abs=1e-4)
    assert [name for name, _ in network.named_parameters()] == ["last.weight", "last.bias"]
    assert FrozenSoftmax(public, 50, CLASSES, torch_generator("test")).last.in_features == 6


@pytest.mark.parametrize("public", [torch.full((5, 64), 0.5), torch.rand(1, 64)], ids=["equal", "one"])
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_public_images_that_do_not_differ_have_no_axes_and_no_error(public):
    logits = FrozenSoftmax(public, 4, CLASSES, torch_generator("test"))(public)
    assert logits.tolist() == [[0.0] * CLASSES] * len(public)


@pytest.mark.parametrize("teaching", ["supervised", "gan", "cleansing"])
def test_a_convolutional_discriminator_learns_and_is_that_of_the_deep_teachers(teaching):
    """Shapes of its layers are those of the teachers of seven convolutions; every parameter moves; epochs end."""
    shape = (5, 6, 2)
    student = Student(teaching, 60, CLASSES, 8, 4, LABELLED, torch_generator("test"), convolutional=(shape, 3))
    peer = student.peers[0]
    teacher = StackedTeachers(shape, CLASSES, 1, 3, 6, torch_generator("test"), depth=7)
    sizes = [
        sum(parameter.numel() for parameter in parameters) for parameters in (peer.parameters(), teacher.parameters())
    ]
    assert sizes[0] == sizes[1]
    random = numpy_generator("test", "convolutional students")
    pixels = torch.from_numpy(random.random((POOL, 60), dtype=np.float32))
    labels = np.full(POOL, -1)
    labels[:LABELLED] = random.integers(0, CLASSES, LABELLED)
    optimizer = make_optimizer(student.parameters(), Training(learning_rate=0.01, steps=30))
    plan = StudentPlan(teaching, 0.2, 0.25, 0.9, 10)
    step = StudentStep(
        student, student, optimizer, pixels, torch.from_numpy(labels), plan, 30, torch_generator("noise"), ("test", 0)
    )
    before = [parameter.detach().clone() for parameter in peer.parameters()]
    for _ in range(10):
        step()
    assert all((one != now).any() for one, now in zip(before, peer.parameters(), strict=True))
    assert peer.features(pixels).shape == (POOL, 6)
    assert torch.equal(student(pixels), peer.classify(peer.features(pixels)))
    assert not torch.equal(peer(pixels, torch_generator("a")), peer(pixels, torch_generator("b")))
