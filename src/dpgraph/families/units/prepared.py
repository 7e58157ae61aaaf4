"""Steps over units of images: which units there are, batches, clipping and noise, from the mechanism alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from dpgraph.core.errors import invalid
from dpgraph.data.records import Records
from dpgraph.engine.preparation.base import Order, PreparedStep, procedure
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.families.units.mechanism import ClassUnits, ClusterUnits, RecordUnits, SubclassUnits
from dpgraph.families.units.sampling import Units, class_units, parted_units, record_units
from dpgraph.families.units.steps import UnitStep
from dpgraph.privacy.procedure import Clipped, ClippedSum, Procedure


def units_of(records: Records, mechanism: RecordUnits | ClassUnits, folder: str) -> Units:
    """Return the units of a mechanism. Subclasses depend on the task's name, so that all seeds have the same.

    A class or subclass may be empty; which ones are empty is private.

    Raises:
        UserError: For another number of classes than accounted for.
    """
    if isinstance(mechanism, RecordUnits):
        return record_units(records.train_nodes)
    parts = mechanism.subclasses if isinstance(mechanism, SubclassUnits) else 1
    if records.num_classes * parts != mechanism.num_roots:
        raise invalid("classes", records.num_classes, f"{mechanism.num_roots // parts}, as accounted")
    if isinstance(mechanism, SubclassUnits):
        return parted_units(records, parts, folder, isinstance(mechanism, ClusterUnits))
    return class_units(records.train_nodes, np.asarray(records.labels), records.num_classes)


class PreparedUnits(PreparedStep):
    """Units, batches, clip norm and noise of one seed; `step` adds the network."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, RecordUnits | ClassUnits):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over units of images")
        self.units = units_of(order.data.graph, mechanism, order.cell.task.folder)
        count = len(self.units.sizes)
        if count != mechanism.num_roots:
            raise invalid("counts", count, f"{mechanism.num_roots} units, as accounted")
        self.most: int | None = order.cell.training.images_per_unit
        self.draws = Draws(PoissonSampler(count, mechanism.sampling_rate), order.generator("batches"))
        self.images = order.generator("images of units")
        self.noise = order.noise(order.noise_std)
        self.clip_norm, self.divisor = order.privacy.clip_norm, mechanism.divisor
        self.generators: dict[str, Generator] = {
            "batches": self.draws.generator,
            "images": self.images,
            "noise": self.noise.generator,
        }
        self._step: UnitStep | None = None

    def step(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> UnitStep:
        """Return the step of a network on the prepared units."""
        self.trains(network)
        self._step = UnitStep(
            network, optimizer, self.data.features, self.data.labels, self.units, self.draws, self.images, self.most,
            self.clip_norm, self.noise, self.divisor,
        )  # fmt: skip
        return self._step

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, read from the objects that drew and clipped."""
        step = self._step
        if step is None:
            return procedure(self.mechanism, (), None, 0.0, 0)
        sampler = step.draws.sampler
        term = ClippedSum(
            lists=step.units.kind,
            batches=sampler.name,
            num_roots=sampler.num_roots,
            rate=sampler.rate if isinstance(sampler, PoissonSampler) else None,
            clipped=Clipped.ROOT,
            clip_norms=(step.clip_norm,),
            draws=step.draws.count + resumed_at,
        )
        return procedure(self.mechanism, (term,), step.noise, step.divisor, resumed_at)
