"""Shared by methods on images: model inversion of what was trained."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from dpgraph.engine.methods.base import Job, Outcome
from dpgraph.engine.training.inversion import Descent, reconstructions
from dpgraph.problems.images.exposure import Inversion

ROWS = 2048  # of a look at all images at once: `InParts`


def inverted(job: Job, network: nn.Module, outcome: Outcome) -> Outcome:
    """With what an attack reconstructs of the trained parameters, where the cell asks for it: post-processing."""
    told, images = job.cell.inversion, job.shown
    if told is None:
        return outcome
    attack = Descent(told.steps, told.learning_rate)
    if told.attack != "original":
        attack = replace(attack, penalty=told.penalty, weight=told.weight, window=told.window, decay=told.decay)
        attack = replace(attack, strong=told.attack == "strong", summed=told.penalty_over == "thesis")
    found = reconstructions(network, images.shape, images.num_classes, attack)
    return replace(outcome, exposure=Inversion(found.cpu().numpy()))
