"""Mechanisms over units of images, from a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.data.registry import entry
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.units.mechanism import ClassUnits, ClusterUnits, RecordUnits, SubclassUnits
from dpgraph.problems.base import Counts


def record_units(asked: MechanismRequest) -> RecordUnits:
    return RecordUnits(**asked.common(asked.num_train), sampling_rate=asked.cell.training.sampling_rate)


def class_units(asked: MechanismRequest) -> ClassUnits:
    return ClassUnits(**_common(asked, classes_of(asked)))


def subclass_units(asked: MechanismRequest) -> SubclassUnits:
    parts = asked.privacy.subclasses
    return SubclassUnits(**_common(asked, classes_of(asked) * parts), subclasses=parts)


def cluster_units(asked: MechanismRequest) -> ClusterUnits:
    parts = asked.privacy.subclasses
    return ClusterUnits(**_common(asked, classes_of(asked) * parts), subclasses=parts)


def classes_of(asked: MechanismRequest) -> int:
    """The public number of classes, that of the registry; raises UserError for a data set without it."""
    dataset = asked.cell.task.dataset
    classes = entry(dataset).expected.classes
    if classes is None:
        raise invalid("dataset", dataset, "one whose number of classes the registry states")
    return classes


def _common(asked: MechanismRequest, units: int) -> dict[str, Any]:
    """Delta counts every image: below 1 / the number of units alone, it would allow to publish some of them whole.

    Their number is the registry's: a class that leaves takes its images along, so the number that is there is private.
    """
    dataset = asked.cell.task.dataset
    images = entry(dataset).expected.nodes
    if images is None:
        raise invalid("dataset", dataset, "one whose number of images the registry states")
    stated = replace(asked, counts=Counts(units, images))
    return {**stated.common(units), "sampling_rate": asked.cell.training.sampling_rate}
