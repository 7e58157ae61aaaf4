"""DP-SGD over units of images."""

from __future__ import annotations

from dpgraph.core.randomness import torch_generator
from dpgraph.engine.methods.assembly import Bench, RowInference, SeedRun, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.methods.image_networks import ROWS, inverted
from dpgraph.engine.models.image_networks import image_network
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.units.prepared import PreparedUnits


class DpUnits:
    """A network on images; units, batches, clipping and noise are those of the prepared step."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        prepared, images = expected(job.prepared, PreparedUnits), job.shown
        generator = torch_generator(*job.names("parameters"))
        network = image_network(job.cell.model, images.shape, images.num_classes, generator).to(job.device)
        bench = Bench(network, make_optimizer(network.parameters(), job.cell.training), prepared.data.features, None)
        step = prepared.step(network, bench.optimizer)
        run = SeedRun(job, bench, step, prepared.generators, inference=RowInference(ROWS))
        return inverted(job, network, run_loop(run, observe))
