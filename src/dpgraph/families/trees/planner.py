"""Plans for `dpgraph plan`: the batch rate, number of steps and noise to train with, given a privacy target.

Every step releases q N times the mean clipped gradient plus noise: in units of the clip norm the averaged gradient has
noise of std nu = sigma / (q N) per coordinate. T averaged gradients that agree have together the signal-to-noise ratio
sqrt(T) / nu, the *total signal*. A setting is *dominated* if another one has at least its steps T (progress of the
optimiser), at least its total signal, and at most its epochs q T (passes over the training nodes), one of them
strictly. The settings that no other dominates are the Pareto front. Only public numbers enter, so planning costs no
privacy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import model_validator

from dpgraph.config.cell import LARGE
from dpgraph.config.frozen import Frozen
from dpgraph.core.errors import invalid
from dpgraph.core.progress import progress
from dpgraph.families.trees.mechanism import PoissonTrees, ResidualTrees
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.cache import Cache
from dpgraph.privacy.calibration import calibrated
from dpgraph.privacy.guarantee import at_most
from dpgraph.privacy.public_numbers import expected_batch

RATES, STEPS = 6, 4  # points of the logarithmic grids
SMALLEST_BATCH = 32  # expected roots
MOST_HOPS = 10
MOST_ROOTS = 2000  # affected roots: more take minutes, and need more noise than training bears
TIE = 1e-3  # shares below which two merits count as equal: noise has four digits


class Question(Frozen):
    """A privacy target on a graph of N training nodes, and a budget of steps."""

    num_train: int
    hops: int
    max_degree: int | None
    list_cap: int | None
    epsilon: float
    delta: float
    max_steps: int
    neighbour_clip: float | None = None  # C_n / C_s of residual clipping; None: DP-GNN with one clip norm

    @model_validator(mode="after")
    def _valid(self) -> Question:
        for name, most in (("num_train", LARGE), ("max_steps", par.MOST_STEPS)):
            if not 1 <= getattr(self, name) <= most:
                raise invalid(name, getattr(self, name), f"an integer from 1 to {most:g}")
        for name, most in (("hops", MOST_HOPS), ("max_degree", par.MOST_TERMS), ("list_cap", par.MOST_TERMS)):
            if (getattr(self, name) or 0) > most:
                raise invalid(name, getattr(self, name), f"an integer <= {most}")
        if not par.LEAST_PRICE <= self.epsilon <= par.MOST_PRICE:
            raise invalid("epsilon", self.epsilon, f"a number from {par.LEAST_PRICE:g} to {par.MOST_PRICE:g}")
        if self.neighbour_clip is not None and not 0 <= self.neighbour_clip <= par.MOST_RATIO:
            raise invalid("neighbour_clip", self.neighbour_clip, f"a number from 0 to {par.MOST_RATIO:g}")
        if (roots := self.mechanism(rate=1.0, steps=1).affected_roots) > MOST_ROOTS:
            raise invalid(
                "--hops", self.hops, f"at most {MOST_ROOTS} affected roots, found {roots}: fewer hops or --max-degree"
            )
        return self

    def mechanism(self, *, rate: float, steps: int) -> PoissonTrees | ResidualTrees:
        """Return the mechanism at this rate and number of steps, its noise open."""
        common: dict[str, Any] = {
            "num_roots": self.num_train,
            "hops": self.hops,
            "max_degree": self.max_degree,
            "list_cap": self.list_cap,
            "sampling_rate": rate,
            "steps": steps,
            "delta": self.delta,
            "noise_multiplier": None,
        }
        if self.neighbour_clip is None:
            return PoissonTrees(**common)
        return ResidualTrees(**common, neighbour_rate=rate, neighbour_clip=self.neighbour_clip)


class TrainingPlan(Frozen):
    """A setting that meets the target; noise_multiplier is noise std / C, with residual clipping / C_s."""

    sampling_rate: float
    steps: int
    noise_multiplier: float
    epsilon: float
    num_train: int

    @property
    def expected_batch(self) -> float:
        """Expected number of roots in a batch."""
        return expected_batch(rate=self.sampling_rate, num_roots=self.num_train)

    @property
    def merits(self) -> dict[str, float]:
        """Noise per step, total signal and epochs."""
        noise = self.noise_multiplier / self.expected_batch
        return {
            "noise_per_step": noise,
            "total_signal": math.sqrt(self.steps) / noise,
            "epochs": self.sampling_rate * self.steps,
        }


def candidates(question: Question) -> list[tuple[float, int]]:
    """Return pairs (q, T): expected batches from 32 roots to all, steps down to a hundredth of the budget."""
    least = min(1.0, SMALLEST_BATCH / question.num_train)
    rates = np.unique([float(f"{rate:.3g}") for rate in np.geomspace(least, 1.0, RATES)])
    steps = np.unique(np.geomspace(max(1, question.max_steps / 100), question.max_steps, STEPS).round().astype(int))
    return [(float(rate), int(count)) for rate in rates for count in steps]


def plans(question: Question, cache: Cache | None = None) -> list[TrainingPlan]:
    """Return the Pareto front, by ascending steps and epochs.

    Args:
        question: Target and budget.
        cache: Where calibrations are kept.

    Returns:
        Plans, each of which meets the target by the proved accountant.
    """
    grid = candidates(question)
    solved: list[TrainingPlan] = []
    with progress("plan", len(grid), "setting") as bar:
        for rate, steps in grid:
            # with the same rate the next number of steps needs little more noise
            guess = solved[-1].noise_multiplier if solved else None
            mechanism = question.mechanism(rate=rate, steps=steps)
            answer = calibrated(mechanism, "rigorous", "noise", epsilon=question.epsilon, cache=cache, guess=guess)
            solved.append(
                TrainingPlan(
                    sampling_rate=rate,
                    steps=steps,
                    noise_multiplier=answer.statement.noise_std_over_clip or 0.0,
                    epsilon=answer.statement.rigorous.epsilon or 0.0,
                    num_train=question.num_train,
                )
            )
            bar.update()
    return sorted(pareto(solved), key=lambda plan: (plan.steps, plan.merits["epochs"]))


def pareto(settings: list[TrainingPlan]) -> list[TrainingPlan]:
    """Return the settings that no other one dominates."""
    if not settings:
        return []
    losses = np.log([[1 / p.steps, 1 / p.merits["total_signal"], p.merits["epochs"]] for p in settings])
    gap = losses[:, None, :] - losses[None, :, :]  # of i over j
    dominated = (np.all(gap >= -TIE, axis=2) & np.any(gap > TIE, axis=2)).any(axis=1)
    return [plan for plan, drop in zip(settings, dominated) if not drop]


def plan_table(question: Question, front: list[TrainingPlan]) -> str:
    """Return the plans as a table of text, with a line that explains it."""
    roots = question.mechanism(rate=1.0, steps=1).affected_roots
    clip = "C" if question.neighbour_clip is None else "C_s"
    head = ("q", "batch", "T", f"sigma/{clip}", "epsilon", "noise/step", "signal", "epochs")
    rows = [
        (
            f"{p.sampling_rate:.3g}", f"{p.expected_batch:.0f}", f"{p.steps}", f"{p.noise_multiplier:.4g}",
            at_most(p.epsilon, digits=4),
            *(f"{p.merits[name]:.3g}" for name in ("noise_per_step", "total_signal", "epochs")),
        )
        for p in front
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in (head, *rows)]
    residual = (
        "" if question.neighbour_clip is None else f"residual clipping, C_n / C_s = {question.neighbour_clip:g}, "
    )
    note = (
        f"{residual}{roots} affected roots, proved epsilon <= {question.epsilon:g} at delta {question.delta:.3g}; "
        "node-null, parameters; noise/step: sigma / (q N); signal: sqrt(T) q N / sigma; epochs: q T; none is beaten in "
        "steps, signal and epochs at once"
    )
    return "\n".join([note, *lines])
