"""Training and predictions of DP-Votes (ours, docs/privacy/votes.md, Theorem 11)."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from dpgraph.data.graph import Graph
from dpgraph.engine.methods.assembly import run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.inference import Predictor
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.iterates import AveragedNetwork, AveragingStep
from dpgraph.families.trees.train import tree_run
from dpgraph.families.votes.prepared import PreparedVotes


@dataclass(frozen=True)
class VotingPredictor:
    """Own predictions first, then the one release and what every node reads of it."""

    own: Predictor
    prepared: PreparedVotes

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Return (N, C) scores; releases the votes."""
        self.prepared.final = network
        own = torch.softmax(self.own.logits(network, features).double(), dim=1).cpu().numpy()
        scores = self.prepared.scores(own)
        del own
        return torch.from_numpy(scores).to(features.device, features.dtype)


@dataclass(frozen=True)
class RawNeighbours:
    """Own scores averaged over a node and its list, without privacy."""

    own: Predictor
    graph: Graph

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Return (N, C) mean scores of each node and its list."""
        own = self.own.logits(network, features)
        nodes, ptr = self.graph.num_nodes, np.asarray(self.graph.out_ptr)
        ones = np.ones(self.graph.num_edges, dtype=np.float64)
        lists = csr_matrix((ones, self.graph.out_idx, ptr), shape=(nodes, nodes))
        scores = own.double().cpu().numpy()
        mean = (scores + lists @ scores) / (1 + np.diff(ptr))[:, None]
        return torch.from_numpy(mean).to(own.device, own.dtype)


class DpVotes:
    """DP-SGD on own records, then one noisy release of every node's votes to the nodes it lists.

    Softmax regression (no encoder, one decoder layer) starts at zero, so one full step yields the classes' sums of
    records. With a single step the bias is dropped, though its clip norm covers it. Predictions during training use own
    records; after the last step all nodes vote once.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed, vote, and return the predictions."""
        run, prepared = tree_run(job), expected(job.prepared, PreparedVotes)
        network, model = run.bench.network, job.cell.model
        if model.encoder_layers == 0 and model.decoder_layers == 1:
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.zero_()
            if run.steps == 1:  # class sums of records alone; counts of labels would dominate with little signal
                bias = network.decoder.layers[-1].bias
                run.bench.optimizer.register_step_post_hook(lambda *_: bias.data.zero_())
        share = job.cell.training.averaged_share
        if share:
            skipped = run.steps - math.ceil(share * run.steps)
            averaged = AveragedNetwork(network, deepcopy(network), skipped)
            run = replace(run, step=AveragingStep(run.step, averaged), watched=averaged)
        if job.cell.privacy.raw_inference:
            return run_loop(replace(run, last=lambda own: RawNeighbours(own, job.graph)), observe)
        return run_loop(
            replace(run, last=lambda own: VotingPredictor(own, prepared), late_notes=lambda: notes(prepared)), observe
        )


def notes(prepared: PreparedVotes) -> dict[str, float | str]:
    """Return the note of a record about the reader that was used."""
    reader = prepared.reader
    if reader is None:
        return {"reader": "own records alone"}
    learnt = "" if prepared.learnt is None else ", learnt from there on"
    return {"reader": f"kappa {reader.shrinkage:g}, beta {reader.strength:g}{learnt}"}
