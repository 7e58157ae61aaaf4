"""The private step as one program of fixed shapes that reads no number back to the host.

On a CUDA device the program is captured once and replayed (`torch.cuda.CUDAGraph`): a step is two calls of the driver.
On a CPU the same program runs call by call, which is how it is tested.

**Exact.** Batches of the next steps are drawn at once and assigned to slots (`sampling.slots`), and the host reads,
once for all of them, which fit. A batch that does not fit is summed by `clipped_gradient_sum`, which has no fixed
shapes; noise and update are the program's. No root is ever left out because it has no slot.

**The accounted step is the one that runs.** The program reads rates, clip norms, noise and divisor from the objects of
the `PrivateStep` that it stands for. It counts its draws and its noise in them, so that `preparation` compares them
with the mechanism as for every step. Numbers that a captured program holds are compared with those objects at every
step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.randomness import Key
from dpgraph.engine.models.message_passing import GatLayer
from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.engine.sampling.slots import DrawnSlots, SlotClasses, fill_slots, poisson_masks, public_classes
from dpgraph.engine.training.captured.gradients import SLOT_FORMS, DeviceRecords, SlotParts
from dpgraph.engine.training.captured.slot_batch import SlotBatch, SlotLayout, TreeTable
from dpgraph.engine.training.clipping import clip_columns, clip_factors, clipped_gradient_sum
from dpgraph.engine.training.fused.network import has_closed_form
from dpgraph.engine.training.steps import ClippedTerm, PrivateStep

DEVICES = {"cuda"}  # kinds of devices on which methods train so; on others the step that a captured one stands for
AHEAD = 64  # steps whose batches are drawn at once: one wait for the device in so many steps
MOST_DRAWN = 1 << 24  # numbers of one draw
MOST_ROWS = 1 << 22  # of a batch in slots: lists so long that padding them would cost more than a step without it
MOST_NUMBERS = 1 << 31  # of the records of such rows


class Slots:
    """The trees of one term in a table, its slots, and the batches of the steps ahead."""

    def __init__(self, term: ClippedTerm, sampler: PoissonSampler, labels: Tensor, key: int, stream: int) -> None:
        self.term, self.sampler, self.key, self.stream = term, sampler, key, stream
        trees, lists = term.trees, term.trees.lists
        self.classes = classes_of(term, sampler)
        self.layout = SlotLayout(self.classes, trees.device)
        self.table = TreeTable.from_trees(trees, labels, self.classes.widths[-1])
        sizes = np.diff(trees.row_ptr[-1])
        ends = np.searchsorted(sizes, self.classes.widths, side="right")
        if ends[-1] < len(sizes):
            raise TypeError(f"a tree has {sizes[-1]} rows: expected at most 1 + D = {1 + (lists.list_cap or 0)}")
        self.ends = torch.from_numpy(ends).to(trees.device)
        order = np.empty(len(sizes), dtype=np.int64)
        order[trees.rank] = np.arange(len(sizes))
        self.order = torch.from_numpy(order).to(trees.device)
        self.row = torch.full((self.classes.slots,), len(sizes), dtype=torch.int64, device=trees.device)

    def masks(self, first: int, steps: int) -> Tensor:
        """Return masks (steps, N) of the batches, roots in the sampler's order."""
        sampler = self.sampler
        return poisson_masks(sampler.num_roots, sampler.rate, self.key, first, steps, self.stream, self.row)

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the slots of the batches of `steps` steps."""
        return fill_slots(self.masks(first, steps).index_select(1, self.order), self.ends, self.classes)

    def positions(self, step: int) -> np.ndarray:
        """Return the positions of the roots of one step, for an engine without slots."""
        return self.masks(step, 1)[0].nonzero().squeeze(1).cpu().numpy()


def classes_of(term: ClippedTerm, sampler: PoissonSampler) -> SlotClasses:
    """Return the slots of a term, from public numbers."""
    lists = term.trees.lists
    alone = lists.list_cap is None
    return public_classes(
        num_roots=sampler.num_roots,
        rate=sampler.rate,
        num_nodes=lists.num_nodes,
        max_degree=None if alone else lists.max_degree,
        list_cap=lists.list_cap,
    )


@dataclass
class Ahead:
    """The batches of the steps from `first` on."""

    first: int
    drawn: list[DrawnSlots]  # of each term
    fits: list[bool]
    sizes: list[int]


@dataclass
class CapturedStep:
    """A program that replaces `step`; `why_not_captured` says for which steps it can.

    Batches are functions of `key` and of the number of finished steps, so `start_at` has to be called before the first
    step, and a step that was not told where it starts is refused. An optimiser must update its parameters in place from
    their `grad` without reading a number back: SGD, and Adam with `capturable`.
    """

    step: PrivateStep
    key: Key
    ahead_steps: int = AHEAD
    overflows: int = 0  # steps of this process that ran without slots
    _next: int | None = field(default=None, init=False)
    _ahead: Ahead | None = field(default=None, init=False)
    _graph: torch.cuda.CUDAGraph | None = field(default=None, init=False)
    _warm: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if reason := why_not_captured(self.step):
            raise TypeError(f"the step cannot be captured: {reason}")
        step, parameters = self.step, list(self.step.network.parameters())
        first = parameters[0]
        self.device = first.device
        self.slots = [
            Slots(term, sampler, step.labels, self.key.value, index)
            for index, (term, sampler) in enumerate(zip(step.terms, _poisson(step), strict=True))
        ]
        self.forms: list[SlotParts] = [SLOT_FORMS[term.losses] for term in step.terms]
        columns = [clip_columns(step.network, term.clip_norms) for term in step.terms]
        self.column = columns[0][0]
        self.limits = [torch.tensor(limits, dtype=first.dtype, device=self.device) for _, limits in columns]
        self.records = DeviceRecords(step.features, bool(torch.isfinite(step.features).all()))
        self.flat = first.new_zeros(sum(parameter.numel() for parameter in parameters))
        self.noise = torch.empty_like(self.flat)
        parts = self.flat.split([parameter.numel() for parameter in parameters])
        self.sums: dict[Tensor, Tensor] = {p: part.view_as(p) for p, part in zip(parameters, parts, strict=True)}
        for parameter, total in self.sums.items():
            parameter.grad = total
        self._baked = self._numbers()
        most = max(slots.sampler.num_roots for slots in self.slots)
        self.ahead_steps = max(1, min(self.ahead_steps, MOST_DRAWN // most))

    def start_at(self, step: int) -> None:
        self._next, self._ahead = step, None

    def __call__(self) -> int:
        if self._next is None:
            raise TypeError("a captured step has to be told where it starts: call start_at first")
        if self._baked != self._numbers():
            raise TypeError("clip norms, noise or divisor changed after the step was captured")
        ahead = self._ahead
        if ahead is None or self._next >= ahead.first + len(ahead.fits):
            self._ahead = ahead = self._drawn(self._next)
        index = self._next - ahead.first
        for slots in self.slots:
            slots.term.draws.count += 1
            self.key.draws += 1
            self.key.numbers += slots.sampler.num_roots
        self.step.noise.draws += 1
        self.step.noise.numbers += self.flat.numel()
        if ahead.fits[index]:
            for slots, drawn in zip(self.slots, ahead.drawn, strict=True):
                slots.row.copy_(drawn.ranks[index])
            self._run()
        else:
            self.overflows += 1
            self.sum_without_slots(self._next)
            self.release()
        self._next += 1
        return ahead.sizes[index]

    def program(self) -> None:
        """Run one step on the roots in the slots: all of it on the device, every shape the same each time."""
        self.sum_slots()
        self.release()

    @torch.no_grad()
    def sum_slots(self) -> None:
        """Write the clipped sums of all terms to `flat`."""
        self.flat.zero_()
        for slots, form, limits in zip(self.slots, self.forms, self.limits, strict=True):
            batch = SlotBatch(slots.layout, slots.table, slots.row)
            by_layer, losses = form(self.step.network, batch, self.records)
            _, factors, finite = clip_factors(by_layer, losses, self.column, limits)
            for layer, gradients in by_layer.items():
                gradients.add_weighted(self.sums, factors[:, self.column[layer]], finite)

    @torch.no_grad()
    def sum_without_slots(self, step: int) -> None:
        """Write the same sums for a batch of any size to `flat`."""
        self.flat.zero_()
        own = self.step
        for slots in self.slots:
            term = slots.term
            clipped = clipped_gradient_sum(
                own.network, term.trees, slots.positions(step), own.features, own.labels, term.clip_norms, term.losses
            )
            for total, part in zip(self.sums.values(), clipped.sums, strict=True):
                total += part

    @torch.no_grad()
    def release(self) -> None:
        """Add noise once to the joint vector, divide by the public divisor, and update the parameters."""
        noise = self.step.noise
        self.noise.normal_(generator=noise.generator)
        self.flat.add_(self.noise, alpha=float(noise.std))  # type: ignore[arg-type]
        self.flat.div_(self.step.divisor)
        self.step.optimizer.step()

    def _drawn(self, first: int) -> Ahead:
        drawn = [slots.ahead(first, self.ahead_steps) for slots in self.slots]
        known = torch.stack([torch.stack([one.overflow.long(), one.sizes]) for one in drawn]).sum(0)
        overflow, sizes = known.tolist()  # the one wait for the device
        return Ahead(first, drawn, [not over for over in overflow], sizes)

    def _numbers(self) -> tuple[object, ...]:
        """Return the numbers that a captured program holds as constants."""
        step = self.step
        return (step.noise.std, step.divisor, *((t.clip_norms, t.draws.sampler) for t in step.terms))

    def _run(self) -> None:
        if self.device.type != "cuda":
            self.program()
        elif self._graph is not None:
            self._graph.replay()
        elif not self._warm:  # the first step is the warm-up that a capture needs, so that no number is drawn twice
            with _beside(self.device):
                self.program()
            self._warm = True
        else:
            self._graph = torch.cuda.CUDAGraph()
            self._graph.register_generator_state(self.step.noise.generator)
            with torch.cuda.graph(self._graph):
                self.program()
            self._graph.replay()


def why_not_captured(step: PrivateStep) -> str | None:
    """Return why `CapturedStep` cannot replace a step, or None; public numbers and the kind of step decide."""
    network = step.network
    if step.engine is not None:
        return "another library forms the gradients"
    if not has_closed_form(network) or any(isinstance(layer, GatLayer) for layer in network.aggregation):
        return "the network has no closed form over slots"
    if network.hops > 1:
        return "more than one hop"
    if isinstance(step.noise.std, tuple) or any(not isinstance(t.clip_norms, float | int) for t in step.terms):
        return "groups of parameters are clipped separately"
    if any(group.get("capturable") is False for group in step.optimizer.param_groups):
        return "the optimiser counts its steps on the host"
    if any(term.losses not in SLOT_FORMS for term in step.terms):
        return "losses of the method's own"
    samplers = _poisson(step)
    if len(samplers) < len(step.terms):
        return "batches are not Poisson"
    if any(term.trees.hops and term.trees.lists.list_cap is None and len(term.trees.lists.idx) for term in step.terms):
        return "lists have no public cap"
    rows = max(classes_of(term, sampler).rows for term, sampler in zip(step.terms, samplers, strict=True))
    if rows > MOST_ROWS or rows * step.features.shape[1] > MOST_NUMBERS:
        return f"{rows} rows of padded trees"
    return None


def _poisson(step: PrivateStep) -> list[PoissonSampler]:
    samplers = (term.draws.sampler for term in step.terms)
    return [sampler for sampler in samplers if isinstance(sampler, PoissonSampler)]


@contextmanager
def _beside(device: torch.device) -> Iterator[None]:
    """Run on a stream of its own that waits for the current one, which then waits for it."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)
