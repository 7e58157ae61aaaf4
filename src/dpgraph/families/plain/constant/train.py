"""Baselines that learn nothing from the graph: random and majority class (Igamberdiev and Habernal, first version)."""

from __future__ import annotations

import numpy as np

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.methods.assembly import used_nodes
from dpgraph.engine.methods.base import Job, Observe, Outcome, constant_outcome


class Random:
    """Predicts a uniformly random class for every node; it reads no record, so its epsilon is 0."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        shape = (job.graph.num_nodes, job.graph.num_classes)
        scores = numpy_generator(*job.names("random classes")).random(shape, dtype=np.float32)
        return constant_outcome(job, observe, scores)


class Majority:
    """Predicts the most frequent training label for every node, without privacy."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        labels = np.asarray(job.graph.labels)[used_nodes(job)]
        counts = np.bincount(labels[labels >= 0], minlength=job.graph.num_classes).astype(np.float32)
        return constant_outcome(job, observe, np.tile(counts, (job.graph.num_nodes, 1)))
