"""DP-APPR and its baselines: training on rows of approximate personalised PageRank (Zhang 2021, chapter 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.methods.assembly import Bench, SeedRun, fixed_size_sampler, initial_network, on_device, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.propagation import PowerIteration
from dpgraph.engine.models.weighted_rows import RowNetwork
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.training.captured.dispatch import DEVICES
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.engine.training.closed_rows import RowStep
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.pagerank import prepared as prepared_rows
from dpgraph.problems.node_classification.exposure import Exposure


class Appr:
    """A two-layer perceptron over exact rows of PageRank, without privacy: Vanilla of the thesis."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        return train_rows(job, observe)


class DpAppr(Appr):
    """Rows of PageRank released privately, then DP-SGD or DP-Adam on them (Algorithms 6 to 9).

    `rigorous`: columns of the released rows keep K_col entries, Poisson batches of roots. `published`: columns of L1
    norm tau, batches of fixed size; with release=exact the noise std is sigma B C (Eq. 5.5, baseline DPSGD). Baselines
    by release: identity is Features, random is Random. Roots and kept nodes are chosen by public ids, separately for
    each seed; inference is power iteration.
    """


@dataclass(frozen=True)
class Reading:
    """The input of training without privacy: (M, N) rows, the (M,) node ids of their roots, and the batches."""

    rows: sp.csr_matrix
    roots: np.ndarray
    length: int  # nodes that a row and its root may be
    draws: Draws

    @classmethod
    def of_job(cls, job: Job, pagerank: Any) -> Reading:
        """Return the rows and batches of a job."""
        graph = job.graph
        chosen, roots = prepared_rows.kept_nodes(graph, pagerank, numpy_generator(*job.names("kept nodes")))
        rows = prepared_rows.public_rows(graph, pagerank, chosen, roots, numpy_generator(*job.names("random rows")))
        if rows is None:
            raise TypeError(f"release={pagerank.release}: expected rows that need no release, without privacy")
        if pagerank.losses == "kept":
            rows, roots = prepared_rows.with_others(rows, roots, np.setdiff1d(chosen, roots))
            rows = prepared_rows.scaled_columns(rows, 1.0)
        draws = Draws(fixed_size_sampler(job.cell, len(roots)), numpy_generator(*job.names("batches")))
        return cls(rows, roots, prepared_rows.longest(pagerank, len(graph.train_nodes)), draws)


@dataclass(frozen=True)
class WrittenNetwork:
    """Power iteration with the parameters of a `RowNetwork`, which it writes to a network."""

    inference: PowerIteration
    network: Network

    def logits(self, network: Any, features: Tensor) -> Tensor:
        return self.inference.logits(network.write(self.network), features)


def train_rows(job: Job, observe: Observe) -> Outcome:
    """Train one seed, privately if its job is prepared, else by mean cross-entropy. Inference is power iteration."""
    pagerank: Any = job.cell.pagerank
    prepared = None if job.prepared is None else expected(job.prepared, prepared_rows.PreparedRows)
    reading = Reading.of_job(job, pagerank) if prepared is None else prepared
    roots, draws = (reading.roots if isinstance(reading, Reading) else reading.rows.roots), reading.draws
    inference = PowerIteration(job.graph, pagerank.inference_steps, pagerank.teleport, job.device)
    generators: dict[str, Generator] = {"batches": draws.generator}
    if prepared is not None:
        generators["noise"] = prepared.noise.generator
    notes = {"batches": str(draws.sampler.name), "edge_lists": pagerank.release}
    bench, network, closed = _closed(job, reading)
    step, how = on_device(job, closed, None if prepared is None else prepared.device_key)
    run = SeedRun(job, bench, step, generators, {**notes, **how}, inference=WrittenNetwork(inference, network))
    outcome = run_loop(run, observe)
    states = inference.own_records.encoded(network.eval(), bench.features).detach()
    exposed = exposure(network, states, _labels(job), job.graph.train_nodes, roots)
    return replace(outcome, exposure=exposed)


def _closed(job: Job, reading: Reading | prepared_rows.PreparedRows) -> tuple[Bench, Network, RowStep]:
    """Return bench and step of a `RowNetwork`, and a network to write it to."""
    cell, device = job.cell, job.device
    # copied by PyTorch: the bits of a dense product depend on its factors' alignment, which NumPy leaves to chance
    features = torch.tensor(np.asarray(job.graph.features, dtype=np.float32), device=device)
    network = initial_network(job, features.shape[1])
    trained = RowNetwork(network, cell.model.activation)
    optimizer = make_optimizer([trained.theta], cell.training, fused=True, capturable=device.type in DEVICES)
    if isinstance(reading, prepared_rows.PreparedRows):
        step = reading.closed(trained, optimizer)
    else:
        rows = prepared_rows.row_table(job.graph, reading.rows, reading.roots, reading.length, device)
        step = RowStep(trained, optimizer, rows, reading.draws)
    return Bench(trained, optimizer, features, None), network, step


def _labels(job: Job) -> Tensor:
    """Return the (N,) labels that training reads."""
    if job.prepared is not None:
        return job.prepared.data.labels
    return torch.from_numpy(np.array(job.graph.labels, dtype=np.int64)).to(job.device)


@torch.no_grad()
def exposure(network: Network, states: Tensor, labels: Tensor, candidates: np.ndarray, roots: np.ndarray) -> Exposure:
    """Return the roots' states and the losses of all training nodes, from the states (N, width) of own records."""
    hidden, logits = states[torch.from_numpy(roots)], network.decoder(states[torch.from_numpy(candidates)])
    losses = nn.functional.cross_entropy(
        logits, labels[torch.from_numpy(candidates)], reduction="none", ignore_index=-1
    )
    return Exposure(roots, hidden.float().cpu().numpy(), candidates, losses.float().cpu().numpy())
