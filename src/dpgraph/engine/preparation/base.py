"""Base of all prepared steps: their origin, and the comparison of the run with the accounted mechanism.

A method adds its model and its loss. Everything that the guarantee depends on is in a prepared step, which is built
from the mechanism object that the accountant reads. After the run `check` compares what the objects did with what that
mechanism states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from dpgraph.config.streams import PAIRED, SECRET_MASKS, initialisation_number, stream
from dpgraph.core.errors import invalid
from dpgraph.core.loading import load
from dpgraph.core.randomness import CountedGenerator, Key, entropy, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.preparation.ledger import Ledger, check_streams
from dpgraph.engine.training.noise import GaussianNoise, ReleaseNoise
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.procedure import (
    Batches,
    Clipped,
    ClippedSum,
    Lists,
    NotAsAccounted,
    Procedure,
    Release,
    check_same,
)
from dpgraph.privacy.public_numbers import noise_std
from dpgraph.privacy.relation import Relation

STEPS = ("noise", "batches")  # streams of which every step draws; an earlier process had its part

# the relations that docs/privacy proves for terms of this kind; no relation is proved for any other combination
PROVED: dict[tuple[Lists, Batches, Clipped], frozenset[Relation]] = {
    (Lists.STABLE, Batches.POISSON, Clipped.ROOT): frozenset({Relation.NODE_NULL}),
    (Lists.STABLE, Batches.FIXED_SIZE, Clipped.ROOT): frozenset({Relation.NODE_NULL}),
    (Lists.NONE, Batches.POISSON, Clipped.ROOT): frozenset(
        {Relation.NODE_NULL, Relation.RECORD_REMOVE, Relation.NODE_REMOVE}  # no list is read
    ),
    (Lists.NONE, Batches.FIXED_SIZE, Clipped.ROOT): frozenset({Relation.NODE_NULL}),
    (Lists.NONE, Batches.SHUFFLED, Clipped.STEP): frozenset({Relation.RECORD_REPLACE}),
    (Lists.WHOLE_GRAPH, Batches.MASKED_PARTS, Clipped.STEP): frozenset({Relation.GRAPH}),
    (Lists.WHOLE_GRAPH, Batches.MASKED_PARTS, Clipped.ROOT): frozenset({Relation.GRAPH}),
    (Lists.CUT, Batches.PARTS_BY_ID, Clipped.STEP): frozenset({Relation.NODE_REMOVE}),
    (Lists.INDUCED, Batches.POISSON, Clipped.STEP): frozenset({Relation.NODE_REMOVE}),
    (Lists.CAPPED_ROWS, Batches.POISSON, Clipped.ROOT): frozenset({Relation.NODE_NULL}),
    (Lists.SCALED_ROWS, Batches.FIXED_SIZE, Clipped.ROOT): frozenset({Relation.NODE_NULL}),
    (Lists.STABLE_TUPLES, Batches.POISSON, Clipped.ROOT): frozenset({Relation.ENTITY}),
    (Lists.CLASSES, Batches.POISSON, Clipped.ROOT): frozenset({Relation.CLASS}),
    (Lists.SUBCLASSES, Batches.POISSON, Clipped.ROOT): frozenset({Relation.SUBCLASS}),
    (Lists.NONE, Batches.NONE, Clipped.STEP): frozenset({Relation.GRAPH}),
}


@dataclass(frozen=True)
class PrivateData:
    """The records of a private run on its device."""

    graph: Graph  # labels of training and validation nodes; others are -1
    features: Tensor  # (N, F) float32
    labels: Tensor  # (N,) int64

    @classmethod
    def from_graph(cls, graph: Graph, device: torch.device) -> PrivateData:
        """Return the records of a graph on a device."""
        features = torch.from_numpy(np.array(graph.features, dtype=np.float32)).to(device)
        labels = torch.from_numpy(np.array(graph.labels, dtype=np.int64)).to(device)
        return cls(graph, features, labels)


@dataclass(frozen=True)
class Order:
    """The inputs of a prepared step."""

    cell: Any  # of the method's own class
    mechanism: NoisySteps
    seed: int
    data: PrivateData
    device: torch.device
    ledger: Ledger = field(default_factory=Ledger, compare=False)

    @property
    def privacy(self) -> Any:
        """The budget, of the method's own class."""
        if self.cell.privacy is None:
            raise invalid("privacy", None, f"a budget for the method {self.cell.method}")
        return self.cell.privacy

    def _open(self, role: str, counter: Callable[..., Any] | None, *, secret: bool) -> tuple[Any, tuple[Any, ...]]:
        """Open a stream in the ledger; return its counter and its name."""
        names = stream(self.cell, role, self.seed)
        number = initialisation_number(self.cell, self.seed) if role in PAIRED else self.seed
        made = None if counter is None else counter(*names)
        self.ledger.open(role, names, number, secret=secret, counter=made)
        return made, names

    def generator(self, role: str) -> np.random.Generator:
        """Open a stream: secret, unless the role is one that cells share."""
        generator: np.random.Generator = self._open(role, CountedGenerator, secret=role not in PAIRED)[0]
        return generator

    def names(self, role: str) -> tuple[str | int, ...]:
        """Open a secret stream that is keyed by epochs, or whose length is private."""
        return self._open(role, None, secret=True)[1]

    def key(self, role: str) -> int:
        """Open a public stream keyed by ids: it depends on names only."""
        if role not in PAIRED:
            raise NotAsAccounted(f"random stream {role}: expected a public one for a sampler's key")
        return entropy(*self._open(role, None, secret=False)[1]) % 2**63

    def secret_key(self, role: str) -> Key:
        """Open a secret stream of a counter-based generator."""
        key: Key = self._open(role, lambda *names: Key(entropy(*names) % 2**63), secret=True)[0]
        return key

    def noise(self, std: float | tuple[float, ...], role: str = "noise") -> GaussianNoise:
        """Open the stream of the noise of the steps."""

        def made(*names: Any) -> GaussianNoise:
            return GaussianNoise(std, torch_generator(*names, device=self.device))

        noise: GaussianNoise = self._open(role, made, secret=True)[0]
        return noise

    def release_noise(self, role: str) -> ReleaseNoise:
        """Open the stream of the noise of releases."""
        return ReleaseNoise(self._open(role, CountedGenerator, secret=True)[0])

    @property
    def noise_over_clip(self) -> float:
        """Noise std over clip norm, the one that the accountant used."""
        value = self.mechanism.noise_std_over_clip
        if value is None:
            raise invalid("noise_multiplier", None, "a number > 0: calibrate the cell first")
        return value

    @property
    def noise_std(self) -> float:
        """Noise std in the unit of the gradients, at the cell's clip norm."""
        return noise_std(noise_over_clip=self.noise_over_clip, clip_norm=self.privacy.clip_norm)


NOT_KEPT = "a checkpoint would not keep it: a resumed run repeats it"


class PreparedStep(ABC):
    """The private part of one seed's run."""

    def __init__(self, order: Order) -> None:
        self.mechanism, self.data, self.ledger = order.mechanism, order.data, order.ledger
        self._order = order
        self._masks: torch.Generator | None = None
        self._trained: list[tuple[int, int]] = []  # for each network: draws of noise before it, its parameters
        self.public_clip_norms: tuple[float, ...] = (order.privacy.clip_norm,)

    @property
    def steps(self) -> int:
        return self.mechanism.closed()[0]

    @property
    def needs_secret_masks(self) -> bool:
        """Return whether a record that leaves, or is not drawn, may move others to other masks of dropout."""
        return self.mechanism.steps_cost and not self.mechanism.public_masks

    def masks(self) -> torch.Generator:
        """Open the secret stream of masks of dropout. Raise NotAsAccounted for a second reader."""
        self._masks = masks = torch_generator(*self._order.names(SECRET_MASKS), device=self._order.device)
        return masks

    @property
    def streams(self) -> dict[str, int | None]:
        """The streams that the mechanism states, and that of masks where they are drawn."""
        return self.mechanism.streams | ({} if self._masks is None else {SECRET_MASKS: None})

    @property
    def accounted_clip_norms(self) -> tuple[float, ...]:
        """C of the cell; mechanisms that choose their clip norms state what they chose."""
        return self.public_clip_norms

    def accounted(self) -> Procedure:
        """Return what the run does according to the mechanism whose epsilon is reported."""
        return self.mechanism.procedure(self.accounted_clip_norms)

    @abstractmethod
    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what the objects did; an earlier process did the first `resumed_at` steps."""

    def trains(self, network: torch.nn.Module, before: int = 0) -> None:
        """Record the size of a network whose steps begin after `before` draws of noise."""
        self._trained.append((before, size_of(network)))

    def check_kept(self, kept: Collection[object]) -> None:
        """Raise NotAsAccounted if a checkpoint does not keep the state of a generator that steps draw from.

        A resumed run would draw the same numbers again.
        """
        for role in (*STEPS, *self.mechanism.more_streams) if self.mechanism.steps_cost else ():
            entry = self.ledger.entries.get(role)
            counter = None if entry is None or not entry.secret else entry.counter
            drawn = counter.generator if isinstance(counter, GaussianNoise) else counter
            if drawn is not None and not any(drawn is one for one in kept):
                raise NotAsAccounted(f"random stream {role}: {NOT_KEPT}")
        if self._masks is not None and not any(self._masks is one for one in kept):
            raise NotAsAccounted(f"random stream {SECRET_MASKS}: {NOT_KEPT}")

    def due(self, stream: str, draws: int) -> int | None:
        """Return how many independent numbers `draws` draws of a stream hold; None if that is private or unknown."""
        if stream == "noise":
            ends = [*(start for start, _ in self._trained[1:]), draws][: len(self._trained)]
            return sum((end - start) * size for (start, size), end in zip(self._trained, ends, strict=True))
        if stream == "batches":
            terms = self.mechanism.terms(self.accounted_clip_norms)
            all_draws = sum(term.draws for term in terms)
            return sum(term.draws * (term.batch_size or term.num_roots) for term in terms) * draws // all_draws
        return None

    def check(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, after comparing it with what was accounted for.

        Args:
            resumed_at: Steps that an earlier process did.

        Returns:
            The procedure that ran, with the use of its random streams.

        Raises:
            NotAsAccounted: A field of the procedure or a random stream differs: no epsilon holds.
        """
        ran, stated = self.ran(resumed_at), self.streams
        check_same(self.accounted(), ran)
        used = self.ledger.used()
        steps = {name: resumed_at * draws // self.steps for name, draws in stated.items() if draws and name in STEPS}
        check_streams(stated, self.due, used, steps)
        drawn = [used[name].for_whole_run(stated.get(name)) for name in sorted(used) if used[name].draws != 0]
        return ran.model_copy(update={"streams": tuple(drawn)})

    def notes(self) -> dict[str, Any]:
        """Return the batches and lists of the last term, for a record."""
        terms = self.accounted().terms
        return {"batches": str(terms[-1].batches), "edge_lists": str(terms[-1].lists)}


def size_of(network: torch.nn.Module) -> int:
    """Return the number of parameters of a network; its `size` where it pads them to whole vectors."""
    known: int | None = getattr(network, "size", None)
    return sum(parameter.numel() for parameter in network.parameters()) if known is None else known


def prepare(order: Order) -> PreparedStep:
    """Return the private part of one seed's run, an object of the class that the mechanism names."""
    step = load(order.mechanism.prepared)(order)
    if not isinstance(step, PreparedStep):
        raise TypeError(f"{order.mechanism.prepared}: expected a prepared step")
    return step


P = TypeVar("P", bound=PreparedStep)


def expected(prepared: PreparedStep | None, kind: type[P]) -> P:
    """Return `prepared` as the kind that a method runs. Raise TypeError for another kind."""
    if not isinstance(prepared, kind):
        raise TypeError(f"prepared step: found {type(prepared).__name__}: expected {kind.__name__}")
    return prepared


def procedure(
    mechanism: NoisySteps,
    terms: Sequence[ClippedSum],
    noise: GaussianNoise | None,
    divisor: float,
    resumed_at: int,
    releases: Sequence[Release] = (),
) -> Procedure:
    """Return what ran, with the relation that docs/privacy proves for such terms.

    Args:
        mechanism: The mechanism of the run.
        terms: The clipped sums of a step, as the objects drew them.
        noise: The noise on the sum, in gradient units; None if none was added.
        divisor: The public divisor of the noisy sum.
        resumed_at: Steps of an earlier process.
        releases: What was released in addition to the steps.

    Returns:
        A procedure whose steps are those that were noised; relation NONE for an unproved combination.
    """
    held = [PROVED.get((term.lists, term.batches, term.clipped), frozenset()) for term in terms]
    proved = all(mechanism.relation in relations for relations in held) and bool(held)
    std = () if noise is None else noise.std if isinstance(noise.std, tuple) else (noise.std,)
    noised = 0 if noise is None else noise.draws + resumed_at
    return Procedure(
        relation=mechanism.relation if proved else Relation.NONE,
        terms=tuple(terms),
        noise_std=std,
        noise_draws=noised,
        divisor=divisor,
        steps=noised,
        releases=tuple(releases),
    )
