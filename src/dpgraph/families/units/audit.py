"""Audit of steps over units of images: which units enter a step, what one unit moves, the noise and the divisor.

Units, batches, clip norm and noise are those that the method prepares for its cells; a softmax regression runs on them.
The audit compares its measurements with Theorem 29 (docs/privacy/units.md), written once more from C, q, K and the
noise multiplier.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from dpgraph.audits.cases import CLIP_NORM, UNIT_KINDS, Kind, prepared_of
from dpgraph.audits.graphs import random_images
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.image_networks import Softmax
from dpgraph.families.units.prepared import PreparedUnits
from dpgraph.families.units.sampling import Units
from dpgraph.privacy.relation import Relation
from dpgraph.problems.images.value import Images

LEVEL = 5.0  # standard deviations
SIDE, CLASSES, RECORDS, PARTS = 4, 10, 120, 3
NOISED = 20  # steps of noise alone
NOISE, RATE, SILENT = 1.5, 0.3, 1e-6  # noise multipliers of the laws and of the sums
SLACK = 1 + 1e-4  # noise of the sums, rounding


def images() -> Images:
    """Return `RECORDS` training images and a test image of random pixels; some classes are larger than others."""
    random = numpy_generator("audits", "units")
    labels = np.concatenate([np.arange(CLASSES), random.integers(0, CLASSES // 2, RECORDS - CLASSES + 1)])
    return random_images(random, labels, SIDE)


def prepared(kind: Kind, value: Images, noise: float, rate: float) -> PreparedUnits:
    """Return the prepared step of a cell of one variant with this noise multiplier and rate."""
    settings = {
        "task": {"dataset": "demo-images"},
        "method": kind.method,
        "model": {"kind": "softmax"},
        "training": {"optimizer": "sgd", "learning_rate": 1.0, "steps": 1, "sampling_rate": rate},
        "privacy": {
            "variant": kind.variant, "noise_multiplier": noise, "delta": 1e-3, "clip_norm": CLIP_NORM,
            **({"subclasses": PARTS} if parted(kind) else {}),
        },
    }  # fmt: skip
    return prepared_of(PreparedUnits, value, settings, RECORDS)


def parted(kind: Kind) -> bool:
    """Tell whether the units are parts of classes."""
    return kind.relation is Relation.SUBCLASS or kind.relation is Relation.NONE


def units_of(kind: Kind) -> int:
    """Return the number of units."""
    return RECORDS if kind.relation is Relation.RECORD_REMOVE else CLASSES * (PARTS if parted(kind) else 1)


def stepped(step: PreparedUnits) -> tuple[np.ndarray, int]:
    """Return by how much a step of learning rate 1 moves the parameters (P,), and how many images it read."""
    network = Softmax(SIDE * SIDE, CLASSES, torch_generator("audits", "units"))
    before = [one.detach().clone() for one in network.parameters()]
    read = step.step(network, torch.optim.SGD(network.parameters(), lr=1.0))()
    parts = [first - second.detach() for first, second in zip(before, network.parameters(), strict=True)]
    return torch.cat([part.flatten() for part in parts]).double().numpy(), read


def moved(kind: Kind) -> tuple[float, int]:
    """Return how far one unit moves a sum, over what the relation allows, and the images of others that it displaces.

    Each unit changes in turn, and the largest numbers count.
    """
    value, most, displaced = images(), 0.0, 0
    step = prepared(kind, value, SILENT, 1.0)
    before, units = stepped(step)[0] * units_of(kind), step.units
    for number in np.flatnonzero(units.sizes > 0)[:: 7 if len(units.sizes) > 50 else 1]:
        own = units.ids[units.starts[number] : units.starts[number + 1]]
        features, labels = value.features.copy(), value.labels.copy()
        allowed = CLIP_NORM
        if kind.relation is Relation.CLASS:  # it is replaced; another unit vanishes
            features[own], allowed = -50 * features[own], 2 * CLIP_NORM
        else:
            labels[own] = -1
        changed = prepared(kind, replace(value, features=features, labels=labels), SILENT, 1.0)
        others = np.setdiff1d(units.ids, own)
        displaced = max(displaced, int((places(units)[others] != places(changed.units)[others]).sum()))
        most = largest(most, float(np.linalg.norm(before - stepped(changed)[0] * units_of(kind))) / allowed)
    return most, displaced


def places(found: Units) -> np.ndarray:
    """Return the (RECORDS,) unit of each image; -1: none."""
    unit = np.full(RECORDS, -1)
    unit[found.ids] = np.repeat(np.arange(len(found.sizes)), found.sizes)
    return unit


def laws(kind: Kind, trials: int) -> dict[str, float]:
    """Return how far the units drawn, and the noise's variance, are from their laws, in standard deviations."""
    step, count = prepared(kind, images(), NOISE, RATE), units_of(kind)
    drawn = sum(len(step.draws.next()) for _ in range(trials))
    wanted = trials * count * RATE
    found = {"rate": (drawn - wanted) / math.sqrt(wanted * (1 - RATE))}
    silent = replace(images(), labels=np.full(RECORDS + 1, -1))  # no image has a loss: noise alone
    quiet = prepared(kind, silent, NOISE, RATE)
    noise = np.concatenate([stepped(quiet)[0] for _ in range(NOISED)])
    scaled = noise * RATE * count / (NOISE * CLIP_NORM)
    found["noise and divisor"] = float(scaled @ scaled - len(scaled)) / math.sqrt(2 * len(scaled))
    return found


def units(trials: int) -> AuditResult:
    """Test that one unit moves a sum by no more than its relation allows; test batches, noise and divisor."""
    broken, most = [], 0.0
    for name, kind in UNIT_KINDS.items():
        if kind.relation is not Relation.NONE:
            share, displaced = moved(kind)
            most = largest(most, share)
            if displaced:
                broken.append(f"{name}: a unit moves {displaced} images of others")
            if share > SLACK:
                broken.append(f"{name}: a unit moves {share:.3g} of what it may")
        broken += [
            f"{name}, {what}: {z:.3g} standard deviations" for what, z in laws(kind, trials).items()
            if not abs(z) < LEVEL
        ]  # fmt: skip
    return AuditResult(
        audit="units",
        title="units of images: batches, what one moves, noise and divisor",
        passed=not broken and most > 0.5,
        claim=f"2 C for a replaced class, C for a unit that vanishes; q, noise, q K; of {len(UNIT_KINDS)} variants",
        finding="; ".join(broken) or f"at most {most:.3g} of what a unit may move",
        trials=trials,
    )


AUDITS = {"units": Audit(units, 2000)}
