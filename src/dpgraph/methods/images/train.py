"""A small convolutional network without privacy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.methods.assembly import Bench, Run, fixed_size_sampler, run_loop
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.models.convolution import SmallCnn
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.steps import BatchStep

ROWS = 2048  # of a look at all images at once


class ImageInference:
    """Classifies all images, some at a time."""

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        return torch.cat([network(part) for part in features.split(ROWS)])


class Cnn:
    """Mean cross-entropy of batches of fixed size."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        images, model = job.shown, job.cell.model
        network = SmallCnn(
            images.shape, images.num_classes, model.channels, model.width, torch_generator(*job.names("parameters"))
        ).to(job.device)
        pixels = torch.from_numpy(np.array(images.features, dtype=np.float32)).to(job.device)
        labels = torch.from_numpy(np.array(images.labels, dtype=np.int64)).to(job.device)
        train = torch.from_numpy(images.train_nodes).to(job.device)
        bench = Bench(network, make_optimizer(network.parameters(), job.cell.training), pixels, None)
        sampler, batches = fixed_size_sampler(job.cell, len(train)), numpy_generator(*job.names("batches"))

        def loss(positions: Tensor) -> Tensor:
            chosen = train[positions]
            return nn.functional.cross_entropy(network(pixels[chosen]), labels[chosen])

        step = BatchStep(bench.optimizer, sampler, batches, loss, job.device)
        notes = {"batches": str(sampler.name)}
        return run_loop(Run(job, bench, step, {"batches": batches}, notes, inference=ImageInference()), observe)
