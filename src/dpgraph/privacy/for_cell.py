"""From a cell of the workflow to its mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell
from dpgraph.privacy.calibration import MAX_STEPS, Calibration, calibrated
from dpgraph.privacy.mechanisms import FixedBatchTrees, Mechanism, NonPrivate, PoissonTrees

PRIVATE_PREFIX = "dp-"  # of the names of methods with a budget


def mechanism_for(cell: Cell, num_train: int) -> Mechanism:
    """The cell's mechanism; what the cell leaves open (noise or steps) is None. `num_train` is N, public."""
    training, privacy = cell.training, cell.privacy
    if num_train < 1:
        raise invalid("num_train", num_train, "an integer >= 1")
    if training.batch_size is not None and training.batch_size > num_train:
        raise invalid("batch_size", training.batch_size, f"at most the number of training nodes, {num_train}")
    steps = None if training.steps == "max" else training.steps
    if privacy is not None and not cell.method.startswith(PRIVATE_PREFIX):
        raise invalid("privacy", "given", f"none for the method {cell.method}")
    if privacy is None:
        if cell.method.startswith(PRIVATE_PREFIX):
            raise invalid("privacy", None, f"a budget for the method {cell.method}")
        if steps is None:
            raise invalid("steps", "max", "an integer without privacy")
        return NonPrivate(steps=steps)
    if cell.method == "dp-mlp" and cell.model.hops != 0:
        raise invalid("hops", cell.model.hops, "0 for dp-mlp")
    delta = privacy.delta if privacy.delta is not None else 1 / (10 * num_train)
    hops = cell.model.hops
    degree = privacy.max_degree if hops else None
    rate = training.sampling_rate
    batch_size = training.batch_size or max(1, round((rate or 0) * num_train))
    if privacy.variant == "rigorous":
        cap = privacy.list_cap if privacy.list_cap is not None else privacy.max_degree
        return PoissonTrees(
            num_roots=num_train,
            sampling_rate=batch_size / num_train if rate is None else rate,
            steps=steps,
            hops=hops,
            max_degree=degree,
            list_cap=cap if hops else None,
            delta=delta,
            noise_multiplier=privacy.noise_multiplier,
        )
    return FixedBatchTrees(
        num_roots=num_train,
        batch_size=batch_size,
        steps=steps,
        hops=hops,
        max_degree=degree,
        groups=3 if hops else 2,  # encoder, (aggregation,) decoder
        delta=delta,
        noise_multiplier=privacy.noise_multiplier,
    )


def calibrate(cell: Cell, num_train: int, cache_dir: Path | None = None, max_steps: int = MAX_STEPS) -> Calibration:
    """Closes what the cell leaves open, under the accountant of its variant; see `calibrated` for the cache."""
    mechanism = mechanism_for(cell, num_train)
    if cell.privacy is None:
        return calibrated(mechanism, None, "rigorous", None)
    unknown: Literal["noise", "steps"] | None = None
    if cell.privacy.epsilon is not None:
        unknown = "steps" if cell.training.steps == "max" else "noise"
    return calibrated(mechanism, cell.privacy.epsilon, cell.privacy.variant, unknown, max_steps, cache_dir)
