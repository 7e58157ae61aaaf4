"""Students of PATE on public images, some of them with noisy labels (Zhang, chapter 3, Algorithms 1 and 3).

A student reads no private record: labels come from a release, images are public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.families.pate.gan import ConvolutionalDiscriminator, Discriminator, FrozenSoftmax, ImageGenerator

Teaching = Literal["frozen", "supervised", "gan", "co-teaching", "co-teaching+", "cleansing"]
Reading = Literal["halved", "thesis"]  # of the unsupervised loss
ONE = ("frozen", "supervised", "gan")  # ways of teaching with one discriminator
EPOCHS_TO_FULL = 15  # of the schedule R(e) = 1 - beta min(e / 15, 1) (section 3.4.1)


class Student(nn.Module):
    """One discriminator, or two that teach each other, with a generator except for `frozen` and `supervised`.

    PATE++ keeps its counts here, too. `forward` is the first discriminator without noise, which is released and tested.
    """

    counts: Tensor
    seen: Tensor
    removed: Tensor
    disagreed: Tensor
    fitted: Tensor

    def __init__(
        self, teaching: Teaching, pixels: int, classes: int, width: int, latent: int, labelled: int,
        generator: torch.Generator, looks: int = 0,
        public: Tensor | None = None, convolutional: tuple[tuple[int, int, int], int] | None = None,
    ) -> None:  # fmt: skip
        """Build the networks of a way of teaching.

        Args:
            teaching: Way of teaching.
            pixels: F, numbers of an image.
            classes: K.
            width: Units of a first hidden layer.
            latent: Numbers that the generator starts from; frozen: principal components.
            labelled: Number of labelled images.
            generator: Draws initial parameters, on the CPU.
            looks: Number of steps after which disagreements are kept.
            public: (Q, F) public images on the CPU; read by `frozen` alone.
            convolutional: (height, width, depth) of an image and channels, for convolutional discriminators.
        """
        super().__init__()
        if teaching == "frozen":
            if public is None:
                raise TypeError("public=None: expected the public records of a frozen representation")
            self.peers = nn.ModuleList([FrozenSoftmax(public, latent, classes, generator)])
        else:
            peers = 1 if teaching in ONE else 2
            self.peers = nn.ModuleList(
                Discriminator(pixels, classes, width, generator)
                if convolutional is None
                else ConvolutionalDiscriminator(convolutional[0], classes, convolutional[1], generator)
                for _ in range(peers)
            )
        made = teaching not in ("frozen", "supervised")
        self.generator = ImageGenerator(latent, pixels, width, generator) if made else None
        self.register_buffer("counts", torch.zeros(labelled))  # T of Algorithm 3
        self.register_buffer("seen", torch.zeros(labelled))  # its count of the epoch that runs
        self.register_buffer("removed", torch.zeros(labelled, dtype=torch.bool))
        self.register_buffer("disagreed", torch.zeros(looks, labelled, dtype=torch.bool))  # at each look
        self.register_buffer("fitted", torch.zeros(2, looks, labelled, dtype=torch.bool))  # of both discriminators

    def forward(self, pixels: Tensor) -> Tensor:
        return self.peers[0](pixels)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class StudentPlan:
    """Public settings of a student: how it is taught, beta, tau as a share, alpha, images a step, reading of a loss."""

    teaching: Teaching
    noise_rate: float
    removed_share: float
    decay: float
    batch_size: int
    unsupervised: Reading = "halved"


def kept_share(noise_rate: float, epoch: int) -> float:
    """Return R(e), the share of labels that epoch e = 1, 2, ... keeps.

    >>> kept_share(0.3, 5), kept_share(0.3, 40)
    (0.9, 0.7)
    """
    return 1 - noise_rate * min(epoch / EPOCHS_TO_FULL, 1.0)


def small_losses(losses: Tensor, eligible: Tensor, share: float) -> Tensor:
    """Choose the ceil(share n) smallest of the n eligible losses: return (B,) bool (Algorithm 1, line 10)."""
    order = torch.where(eligible, losses, torch.inf).argsort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    kept = torch.ceil(share * eligible.sum() - 1e-9)
    return eligible & (rank < kept)


def unsupervised_loss(real: Tensor, made: Tensor, reading: Reading = "halved") -> Tensor:
    """Return the mean -log(1 - p(generated)) of real images plus the mean -log p(generated) of made ones.

    Both are (n, K) logits. thesis: their sum, as section 3.3.1 prints it; halved: half of it, as in PATE's code.
    """
    real_mass, made_mass = torch.logsumexp(real, dim=1), torch.logsumexp(made, dim=1)
    softplus, share = nn.functional.softplus, 1.0 if reading == "thesis" else 0.5
    return (softplus(real_mass) - real_mass).mean() * share + softplus(made_mass).mean() * share


@dataclass
class StudentStep:
    """One step of Algorithm 1; of Algorithm 3 the first half of all steps counts noisy labels, the second retrains.

    `pixels` (Q, F) of the public images; `labels` (Q,) int64, negative: none. Epochs are shuffled by `names` and their
    number alone, so that a resumed run goes on where it stopped.
    """

    student: Student
    fresh: Student  # the student that the second half of PATE++ starts from
    optimizer: torch.optim.Optimizer
    pixels: Tensor
    labels: Tensor
    settings: StudentPlan
    steps: int
    noise: torch.Generator
    names: tuple[Name, ...]
    looks: tuple[int, ...] = ()  # steps after which it is kept what two discriminators disagree on
    done: int = 0

    def __post_init__(self) -> None:
        known = (self.labels >= 0).cpu().numpy()
        self.labelled, self.unlabelled = np.flatnonzero(known), np.flatnonzero(~known)
        self.first_half = self.steps // 2 if self.settings.teaching == "cleansing" else self.steps
        self._epochs: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def start_at(self, step: int) -> None:
        self.done = step

    def __call__(self) -> int:
        phase, local = (0, self.done) if self.done < self.first_half else (1, self.done - self.first_half)
        if phase == 1 and local == 0:
            self._cleanse()
        epoch, place = divmod(local, self._per_epoch)
        labelled, unlabelled = self._batch(phase, epoch, place)
        self._move(labelled, unlabelled, epoch + 1)
        self.done += 1
        if phase == 0 and self.settings.teaching == "cleansing" and (place + 1 == self._per_epoch):
            self._end_epoch()
        if self.done in self.looks:
            self._look(self.looks.index(self.done))
        return len(labelled) + len(unlabelled)

    @property
    def _per_epoch(self) -> int:
        """Steps of an epoch, the same when PATE++ retrains."""
        return max(1, math.ceil(max(len(self.labelled), len(self.unlabelled)) / self.settings.batch_size))

    def _batch(self, phase: int, epoch: int, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places in `labelled` and ids of images without a label, from lists repeated to the same length."""
        if (phase, epoch) not in self._epochs:
            removed = self.student.removed.cpu().numpy() & (phase == 1)
            lists = (np.flatnonzero(~removed), np.concatenate([self.unlabelled, self.labelled[removed]]))
            generator = numpy_generator(*self.names, phase, epoch)
            length = self._per_epoch * self.settings.batch_size
            self._epochs.clear()
            self._epochs[phase, epoch] = (
                repeated(lists[0], length, generator), repeated(lists[1], length, generator)
            )  # fmt: skip
        start = place * self.settings.batch_size
        whole = self._epochs[phase, epoch]
        return tuple(part[start : start + self.settings.batch_size] for part in whole)  # type: ignore[return-value]

    def _move(self, labelled: np.ndarray, unlabelled: np.ndarray, epoch: int) -> None:
        device = self.pixels.device
        places = torch.from_numpy(labelled).to(device)
        ids = torch.from_numpy(self.labelled[labelled]).to(device)
        images, wanted = self.pixels[ids], self.labels[ids]
        logits = [peer(images, self.noise) for peer in self.student.peers]
        losses = [nn.functional.cross_entropy(one, wanted, reduction="none") for one in logits]
        chosen = self._chosen(logits, losses, wanted, places, epoch)
        total = torch.zeros((), device=device)
        for own, mask in zip(losses, chosen, strict=True):
            total = total + torch.where(mask, own, 0).sum() / mask.sum().clamp_min(1)
        self.optimizer.zero_grad(set_to_none=True)
        if self.student.generator is None:
            total.backward()
            self.optimizer.step()
            return
        real = self.pixels[torch.from_numpy(unlabelled).to(device)]
        if len(real):
            made = self.student.generator(self.settings.batch_size, self.noise).detach()
            for peer in self.student.peers:
                looked = peer(real, self.noise), peer(made, self.noise)
                total = total + unsupervised_loss(*looked, self.settings.unsupervised)
        total.backward()
        self.optimizer.step()
        if len(real):
            self._match(real)

    def _match(self, real: Tensor) -> None:
        """Move the generator towards the mean features of real images, averaged over discriminators (line 14)."""
        generator = self.student.generator
        if generator is None:
            return
        self.optimizer.zero_grad(set_to_none=True)
        made = generator(self.settings.batch_size, self.noise)
        gaps = []
        for peer in self.student.peers:
            with torch.no_grad():
                aim = peer.features(real, self.noise).mean(dim=0)  # type: ignore[operator]
            gaps.append((aim - peer.features(made, self.noise).mean(dim=0)).square().sum())  # type: ignore[operator]
        parameters = list(generator.parameters())
        for parameter, part in zip(parameters, torch.autograd.grad(sum(gaps) / len(gaps), parameters), strict=True):
            parameter.grad = part
        self.optimizer.step()

    def _chosen(
        self, logits: list[Tensor], losses: list[Tensor], wanted: Tensor, places: Tensor, epoch: int
    ) -> list[Tensor]:
        """Return for each discriminator the labelled images it learns from: those that its peer finds easy."""
        every = torch.ones_like(wanted, dtype=torch.bool)
        if len(losses) == 1:
            return [every]
        first, second = (one.detach().argmax(dim=1) for one in logits)
        eligible = every
        if self.settings.teaching != "co-teaching":
            eligible = first != second
        if self.settings.teaching == "cleansing" and self.done < self.first_half:
            self.student.seen[places[eligible & (first != wanted) & (second != wanted)]] = 1
        share = kept_share(self.settings.noise_rate, epoch)
        easy = [small_losses(one.detach(), eligible, share) for one in losses]
        return [easy[1], easy[0]]

    @torch.no_grad()
    def _look(self, place: int) -> None:
        """Keep which labelled images two discriminators class differently, and which as taught (Figure 3.3)."""
        ids = torch.from_numpy(self.labelled).to(self.pixels.device)
        found = torch.stack([peer(self.pixels[ids]).argmax(dim=1) for peer in self.student.peers])
        self.student.disagreed[place] = found[0] != found[1]
        self.student.fitted[:, place] = found == self.labels[ids]

    def _end_epoch(self) -> None:
        """Decay the counts of earlier epochs by alpha and add those of this one (Algorithm 3, line 16)."""
        self.student.counts.mul_(self.settings.decay).add_(self.student.seen)
        self.student.seen.zero_()

    def _cleanse(self) -> None:
        """Remove the labels with the largest counts and start again on the remaining ones (lines 18 to 21)."""
        removed = removed_labels(self.student.counts, self.settings.removed_share)
        kept = {name: getattr(self.student, name).clone() for name in ("counts", "disagreed", "fitted")}
        self.student.load_state_dict(self.fresh.state_dict())
        self.student.removed.copy_(removed)
        for name, value in kept.items():
            getattr(self.student, name).copy_(value)
        self.optimizer.state.clear()


def removed_labels(counts: Tensor, share: float) -> Tensor:
    """Choose the round(share L) labels with the largest counts, first ones at ties: return (L,) bool."""
    removed = torch.zeros(len(counts), dtype=torch.bool, device=counts.device)
    removed[counts.argsort(descending=True, stable=True)[: round(share * len(counts))]] = True
    return removed


def repeated(items: np.ndarray, length: int, generator: np.random.Generator) -> np.ndarray:
    """Concatenate fresh permutations of the items and cut them at `length`; return no items if there are none."""
    if len(items) == 0:
        return items
    return np.concatenate([generator.permutation(items) for _ in range(-(-length // len(items)))])[:length]
