"""DP-SGD over units of images."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.methods.assembly import Bench, RowInference, SeedRun, fixed_size_sampler, on_device, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.image_networks import image_network
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.captured.dispatch import DEVICES
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import BatchStep
from dpgraph.families.units.inversion import inverted
from dpgraph.families.units.prepared import PreparedUnits

ROWS = 2048  # of a look at all images at once: `RowInference`


class DpUnits:
    """The private training of a network on images, by the units, batches, clipping and noise of the prepared step."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed, then attack it if the cell says so."""
        prepared, images = expected(job.prepared, PreparedUnits), job.shown
        generator = torch_generator(*job.names("parameters"))
        network = image_network(job.cell.model, images.shape, images.num_classes, generator).to(job.device)
        bench = Bench(network, make_optimizer(network.parameters(), job.cell.training), prepared.data.features, None)
        step = prepared.step(network, bench.optimizer)
        run = SeedRun(job, bench, step, prepared.generators, inference=RowInference(ROWS))
        return inverted(job, network, run_loop(run, observe))


class Cnn:
    """The training of a network on images without privacy: mean cross-entropy of batches of fixed size."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed, then attack it if the cell says so."""
        images, model = job.shown, job.cell.model
        generator = torch_generator(*job.names("parameters"))
        network = image_network(model, images.shape, images.num_classes, generator).to(job.device)
        pixels = torch.from_numpy(np.array(images.features, dtype=np.float32)).to(job.device)
        labels = torch.from_numpy(np.array(images.labels, dtype=np.int64)).to(job.device)
        train = torch.from_numpy(images.train_nodes).to(job.device)
        train = train[labels[train] >= 0]  # an image without label has no loss
        capturable = job.device.type in DEVICES
        optimizer = make_optimizer(network.parameters(), job.cell.training, capturable=capturable)
        bench = Bench(network, optimizer, pixels, None)
        sampler, batches = fixed_size_sampler(job.cell, len(train)), numpy_generator(*job.names("batches"))

        def loss(positions: Tensor) -> Tensor:
            chosen = train[positions]
            return nn.functional.cross_entropy(network(pixels[chosen]), labels[chosen])

        step, how = on_device(job, BatchStep(bench.optimizer, sampler, batches, loss, job.device))
        notes = {"batches": str(sampler.name), **how}
        inference = NoisyInference(model.parameter_noise, job.names("parameter noise"))
        outcome = run_loop(SeedRun(job, bench, step, {"batches": batches}, notes, inference=inference), observe)
        return inverted(job, inference.noisy(network), outcome)


class NoisyInference:
    """An inference with noise added to the parameters, the same at every look; 0: none."""

    def __init__(self, over_rms: float, names: tuple[str | int, ...]) -> None:
        self.over_rms, self.names = over_rms, names

    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        return RowInference(ROWS).logits(self.noisy(network), features)

    @torch.no_grad()
    def noisy(self, network: nn.Module) -> nn.Module:
        """Return the network with noise on its parameters."""
        if not self.over_rms:
            return network
        changed, generator = copy.deepcopy(network), torch_generator(*self.names)
        for parameter in changed.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            parameter.add_(self.over_rms * parameter.square().mean().sqrt() * noise)
        return changed
