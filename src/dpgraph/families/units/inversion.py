"""Model inversion of a trained network on images."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from dpgraph.engine.methods.base import Job, Outcome
from dpgraph.engine.training.inversion import Descent, reconstructions
from dpgraph.problems.images.exposure import Inversion


def inverted(job: Job, network: nn.Module, outcome: Outcome) -> Outcome:
    """Return the outcome with reconstructed images, where the cell names an attack.

    The attack reads the released parameters only, so it is post-processing.
    """
    told, images = job.cell.inversion, job.shown
    if told is None:
        return outcome
    attack = Descent(told.steps, told.learning_rate)
    if told.attack != "original":
        attack = replace(attack, penalty=told.penalty, weight=told.weight, window=told.window, decay=told.decay)
        attack = replace(attack, strong=told.attack == "strong", summed=told.penalty_over == "thesis")
    found = reconstructions(network, images.shape, images.num_classes, attack)
    return replace(outcome, exposure=Inversion(found.cpu().numpy()))
