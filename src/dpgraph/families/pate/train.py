"""Students of PATE: what follows the release of labels, all of it post-processing (Zhang, Algorithms 1 and 3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from dpgraph.core.randomness import torch_generator
from dpgraph.engine.methods.assembly import Bench, RowInference, SeedRun, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome, evaluation_steps
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.pate.prepared import NO_ANSWER, PreparedTeachers, plan_of, pool_of, vote_histograms, votes_of
from dpgraph.families.pate.students import ONE, Student, StudentPlan, StudentStep
from dpgraph.problems.images.exposure import Disagreements

ROWS = 4096  # of a look at all images


class Pate:
    """The training of a student on public images, those of validation.

    Without a prepared step their labels are majorities of the teachers.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        images, settings, model = job.shown, job.cell.training, job.cell.model
        labels = torch.from_numpy(released(job)).to(job.device)
        steps = job.mechanism.steps
        if steps is None:
            raise TypeError("the mechanism's steps are open: calibrate it first")
        looks = () if model.teaching in ONE else tuple(sorted(evaluation_steps(settings.evaluations, steps)))
        deep = (images.shape, model.discriminator_channels) if model.discriminator == "convolutional" else None
        public = torch.from_numpy(np.array(images.features, dtype=np.float32)[pool_of(images)])
        students = [
            Student(
                model.teaching, images.num_features, images.num_classes, model.width, model.latent,
                int((labels >= 0).sum()), torch_generator(*job.names("parameters"), part),
                len(looks), public, deep,
            ).to(job.device)
            for part in range(2)
        ]  # fmt: skip
        features = torch.from_numpy(np.array(images.features, dtype=np.float32)).to(job.device)
        pool = torch.from_numpy(pool_of(images)).to(job.device)
        noise = torch_generator(*job.names("student"), device=job.device)
        bench = Bench(students[0], make_optimizer(students[0].parameters(), settings), features, None)
        plan = StudentPlan(
            model.teaching, settings.noise_rate, settings.removed_share, settings.decay, settings.student_batch_size,
            settings.unsupervised,
        )  # fmt: skip
        step = StudentStep(
            students[0], students[1], bench.optimizer, features[pool], labels, plan, steps, noise,
            job.names("epochs of the student"), looks,
        )  # fmt: skip
        notes = {} if job.prepared is not None else {"batches": "epochs", "edge_lists": "own record"}
        outcome = run_loop(SeedRun(job, bench, step, {"student": noise}, notes, inference=RowInference(ROWS)), observe)
        if not looks:
            return outcome
        known = (labels >= 0).cpu().numpy()
        return replace(
            outcome,
            exposure=Disagreements(
                steps=np.array(looks),
                images=pool_of(images)[known],
                labels=labels.cpu().numpy()[known],
                disagreed=students[0].disagreed.cpu().numpy(),
                fitted=students[0].fitted.cpu().numpy(),
            ),
        )


def released(job: Job) -> np.ndarray:
    """Return the (Q,) int64 labels of the public images; NO_ANSWER: none."""
    if job.prepared is not None:
        return expected(job.prepared, PreparedTeachers).labels()
    records = job.graph
    votes = votes_of(records, plan_of(job.cell, job.seed), job.device)
    labels = vote_histograms(votes, records.num_classes).argmax(axis=1).astype(np.int64)
    labels[job.cell.training.answers :] = NO_ANSWER
    return labels
