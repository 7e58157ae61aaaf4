"""Choose the program that stands for a step, or say why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dpgraph.core.randomness import Key
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.engine.sampling.ego import EgoTrees
from dpgraph.engine.training.captured.plain import CapturedLoss, CapturedTrees
from dpgraph.engine.training.captured.program import CapturedProgram, DeviceBatches, HostBatches, classes_of
from dpgraph.engine.training.captured.replay import compiles
from dpgraph.engine.training.captured.rows import CapturedRows
from dpgraph.engine.training.captured.step import CapturedStep
from dpgraph.engine.training.clipping import CLOSED_FORMS
from dpgraph.engine.training.closed_rows import RowStep
from dpgraph.engine.training.fused.network import has_closed_form
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.steps import BatchStep, PlainStep, PrivateStep, Step

DEVICES = {"cuda"}  # kinds of devices on which methods train so; on others the step that a captured one stands for
MOST_ROWS = 1 << 22  # of a batch in slots: lists so long that padding them would cost more than a step without it
MOST_NUMBERS = 1 << 31  # of the records of such rows
MOST_STATES = 1 << 28  # numbers of the hidden states at all places of all rows


def captured(step: Step, key: Callable[[], Key] | None = None, captures: bool = True) -> CapturedProgram:
    """Return the program that stands for a step; a private one that is captured draws its batches with the key.

    Raises:
        TypeError: The step cannot be captured, or is private and has no key.
    """
    if reason := why_not_captured(step, captures):
        raise TypeError(f"the step cannot be captured: {reason}")
    if isinstance(step, PlainStep):
        return CapturedTrees(step)
    if isinstance(step, BatchStep):
        return CapturedLoss(step)
    if isinstance(step, RowStep) and step.privatizer is None:
        return CapturedRows(step, HostBatches(step.draws.sampler, step.draws.generator))
    if isinstance(step, PrivateStep) and not captures:
        return CapturedStep(step, None)
    if key is None:
        raise TypeError("a private step needs the key of its batches")
    if isinstance(step, RowStep):
        return CapturedRows(step, DeviceBatches(step.draws.sampler, key(), 0))
    return CapturedStep(step, key())  # type: ignore[arg-type]


def why_not_captured(step: Any, captures: bool = True) -> str | None:
    """Return why no program can stand for a step, or None; without `captures` it only runs call by call."""
    if not isinstance(step, PrivateStep | PlainStep | BatchStep | RowStep):
        return "the host takes part in the step"
    if captures and any(group.get("capturable") is False for group in step.optimizer.param_groups):
        return "the optimiser counts its steps on the host"
    if isinstance(step, BatchStep):
        return None if isinstance(step.sampler, FixedSizeSampler) else "the size of a batch is not known before"
    if isinstance(step, RowStep):
        return "too many hidden states" if step.rows.num_places * step.network.shapes[0][1] > MOST_STATES else None
    if isinstance(step, PlainStep):
        return _too_long(step.trees, step.sampler, step.features)
    if step.engine is not None:
        return "another library forms the gradients"
    if type(step.noise) is not GaussianNoise:
        return "noise of its own"
    if not has_closed_form(step.network):
        return "the network has no closed form"
    for term in step.terms:
        if term.losses not in CLOSED_FORMS:
            return "losses of the method's own"
        if reason := _too_long(term.trees, term.draws.sampler, step.features):
            return reason
    return None


def runs_as_program(step: Any, device: torch.device) -> bool:
    """Return whether a program may stand for a step: on a GPU, and on a CPU where it is compiled.

    On a CPU a run is the same with and without the compiler, up to rounding: it has the batches and the noise of the
    usual step. Several terms would draw from one generator by turns, and dropout would draw masks of other shapes.
    """
    if device.type in DEVICES:
        return True
    if not compiles() or not isinstance(step, PrivateStep | PlainStep) or why_not_captured(step, captures=False):
        return False
    if isinstance(step, PrivateStep):
        return len(step.terms) == 1
    return step.fused and step.network.drop.generator is None


def _too_long(trees: EgoTrees, sampler: Sampler, features: Tensor) -> str | None:
    """Return why batches of trees do not go into slots, or None."""
    if not isinstance(sampler, PoissonSampler | FixedSizeSampler):
        return "batches are neither Poisson nor of a fixed size"
    rows = classes_of(trees, sampler).rows
    if rows > MOST_ROWS or rows * features.shape[1] > MOST_NUMBERS:
        return "too many rows of padded trees"  # how many is private
    return None
