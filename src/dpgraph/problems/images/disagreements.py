"""What two discriminators of a student disagree on, and how many of these labels are wrong (Zhang, Figure 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.core.files import atomic_path


@dataclass(frozen=True)
class Disagreements:
    """Of one seed: made of the released labels and public images alone."""

    steps: np.ndarray  # (P,) int64 steps done at each look
    images: np.ndarray  # (L,) int64 ids of the labelled public images
    labels: np.ndarray  # (L,) int64 noisy labels that were released
    disagreed: np.ndarray  # (P, L) bool
    fitted: np.ndarray  # (2, P, L) bool: whose class of which discriminator is the released label

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary:
            np.savez(temporary, **{field.name: getattr(self, field.name) for field in fields(self)})


def disagreement_metrics(true: np.ndarray, found: Disagreements) -> tuple[Metric, ...]:
    """At each look `disagreements/labelled`, a number of images, and the share of wrong labels among them.

    The share compares released labels with the public images' own classes, `true` (N,), which no method reads: it is
    a number of who has these, and no part of a release. Where nothing is disagreed on there is no share.
    `wrong/labelled` is the share among all labelled images, at the last look. `training_accuracy_1/labelled` and `_2`
    are the shares of labelled images that each discriminator classes as their released labels (Figure 3.3(a)).
    """
    wrong = np.asarray(true)[found.images] != found.labels
    metrics, last = [], len(found.steps) - 1
    for place, (step, chosen) in enumerate(zip(found.steps, found.disagreed, strict=True)):
        values = {"disagreements/labelled": float(chosen.sum())}
        if chosen.size:
            for peer, fitted in enumerate(found.fitted[:, place], 1):
                values[f"training_accuracy_{peer}/labelled"] = float(fitted.mean())
        if chosen.any():
            values["wrong_disagreements/labelled"] = float(wrong[chosen].mean())
        if place == last and len(wrong):
            values["wrong/labelled"] = float(wrong.mean())
        metrics += [
            Metric(step=int(step), final=place == last, metric=name, value=value) for name, value in values.items()
        ]
    return tuple(metrics)
