"""Runs of all seeds of a cell in one process, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from dpgraph.experiments.cell import Cell
from dpgraph.methods.assembly import Run, run_loop
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.points import evaluation_steps
from dpgraph.training.captured.step import CapturedStep
from dpgraph.training.checkpoint import Checkpoint, Generator
from dpgraph.training.loop import Diverged, Row, train
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.seed_stack import SeedStack, StackedPrivateStep
from dpgraph.training.steps import PrivateStep, Step


class Stack(Protocol):
    """Parameters of S seeds."""

    diverged_at: torch.Tensor  # (S,) step after which a seed's parameters were not finite, 0: they were


class StepOfSeeds(Step, Protocol):
    """A step of all seeds that have not diverged."""

    def check(self, done: int) -> None:
        """Notes seeds that diverge, which fail alone; raises Diverged when all have."""


STACKED_ROOTS, STACKED_WIDTH = 128, 128  # batch and width, up to which seeds are trained side by side on a CPU
S = TypeVar("S", bound=nn.Module)


def only(outcomes: Sequence[Outcome | Diverged]) -> Outcome:
    """The outcome of a single seed; raises its Diverged."""
    (outcome,) = outcomes
    if isinstance(outcome, Diverged):
        raise outcome
    return outcome


def train_stack(
    jobs: Sequence[Job],
    observes: Sequence[Observe],
    stack: S,
    optimizer: torch.optim.Optimizer,
    step: StepOfSeeds,
    generators: Mapping[str, Generator],
    logits: Callable[[int], Sequence[np.ndarray | None]],
    notes: Callable[[int], Mapping[str, Any]],
) -> list[Outcome | Diverged]:
    """T steps of all seeds, whose checkpoint they share. Raises nothing for a seed that diverges.

    `stack` is a `Stack`; `logits` gives, after so many steps, each seed's (N, classes), None if it has diverged;
    `notes` further remarks on the seed at an index.
    """
    first = jobs[0]
    steps = first.mechanism.steps
    if steps is None:
        raise TypeError("the mechanism's steps are open: calibrate it first")
    last: list[np.ndarray | None] = []

    def observe(done: int, _: S) -> Row:
        last[:] = logits(done)
        return {
            "seeds": [None if one is None else look(done, one) for look, one in zip(observes, last, strict=True)]
        }  # fmt: skip

    named = ", ".join(str(job.seed) for job in jobs)
    diverged_at: torch.Tensor = stack.diverged_at  # type: ignore[assignment]
    try:
        record = train(
            f"{first.cell.slug} seeds {named}",
            stack,
            optimizer,
            step,
            steps,
            observe,
            evaluation_steps(first.cell.training.evaluations, steps),
            generators,
            None if first.checkpoint is None else Checkpoint(first.checkpoint, f"{first.cell.identity} {named}"),
            step.check,
        )
    except Diverged:
        return [Diverged(at) for at in diverged_at.tolist()]
    return [
        Diverged(at)
        if scores is None
        else Outcome(
            logits=scores,
            observations=[row["seeds"][index] for row in record.rows],
            steps_per_second=record.steps_per_second * len(jobs),
            roots_per_second=record.roots_per_second,
            peak_memory_bytes=record.peak_memory_bytes,
            resumed_at=record.resumed_at,
            notes={
                "device": record.device,
                "resumed_at": record.resumed_at,
                "stacked_seeds": len(jobs),
                **notes(index),
            },
        )
        for index, (scores, at) in enumerate(zip(last, diverged_at.tolist(), strict=True))
    ]


def stacking_pays(cell: Any, device: torch.device) -> bool:
    """Whether seeds on ego trees are trained side by side: where time goes into starting operations.

    On a GPU always, where `run_together` takes captured steps in turn. On a CPU for small batches of narrow networks:
    of width 64, five seeds took 0.6 to 0.8 times as long together at up to 100 roots, 1.9 times at 400; of width 256,
    about as long. Dropout would draw all masks from one generator.
    """
    size = cell.training.batch_size
    small = size is not None and size <= STACKED_ROOTS and cell.model.width <= STACKED_WIDTH
    return (device.type == "cuda" or small) and not cell.model.dropout


class TreeMethod:
    """Private training on ego trees; a method brings its model to a prepared step."""

    def prepare(self, job: Job) -> Run:
        """The run of one seed."""
        raise NotImplementedError

    def run(self, job: Job, observe: Observe) -> Outcome:
        return run_loop(self.prepare(job), observe)

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return stacking_pays(cell, device)

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return run_together(self.prepare, jobs, observes)


def _in_turn(prepare: Callable[[Job], Run], job: Job, observe: Observe) -> Outcome | Diverged:
    """One of several seeds, with a checkpoint of its own."""
    if (path := job.checkpoint) is not None:
        job = replace(job, checkpoint=path.with_name(f"{job.seed}.{path.name}"))
    try:
        return run_loop(prepare(job), observe)
    except Diverged as error:
        return error


def run_together(
    prepare: Callable[[Job], Run], jobs: Sequence[Job], observes: Sequence[Observe]
) -> list[Outcome | Diverged]:
    """Private runs of one cell side by side; one alone, and captured steps, which no host holds up, in turn."""
    first = prepare(jobs[0])
    if len(jobs) == 1:
        return [run_loop(first, observes[0])]
    if isinstance(first.step, CapturedStep):
        del first  # one seed's tables at a time
        return [_in_turn(prepare, job, observe) for job, observe in zip(jobs, observes, strict=True)]
    runs = [first, *map(prepare, jobs[1:])]
    steps = [run.step for run in runs if isinstance(run.step, PrivateStep)]
    if len(steps) < len(runs):
        raise TypeError("only private steps on ego trees can be stacked")
    stack = SeedStack([run.bench.network for run in runs])
    optimizer = make_optimizer(chain.from_iterable(n.parameters() for n in stack.networks), runs[0].job.cell.training)
    whole = runs[0].whole()

    def logits(done: int) -> list[np.ndarray | None]:
        sound = set(stack.sound)
        return [run.logits(whole, done) if seed in sound else None for seed, run in enumerate(runs)]

    return train_stack(
        jobs,
        observes,
        stack,
        optimizer,
        StackedPrivateStep(stack, steps, optimizer),
        {f"{name} {run.job.seed}": drawn for run in runs for name, drawn in run.all_generators.items()},
        logits,
        lambda index: runs[index].all_notes(),
    )
