"""The private part of a run of DP-Votes: rows, steps on own records, one release of buckets, a choice (Theorem 11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN
from dpgraph.engine.preparation.base import Order
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.families.votes import mechanism as mechanisms
from dpgraph.families.votes.ballots import GRID, Ballots, CappedBallots, OneHopBallots
from dpgraph.families.votes.learnt import CLIP, LEAST_UNIT, LearntReader, ReaderSteps
from dpgraph.families.votes.mechanism import BucketReader
from dpgraph.families.votes.removed_mechanism import BoundedStrangerVotes, CappedStrangerVotes, CappedVotes
from dpgraph.families.votes.rows import RowMean, row_sum, scaled_rows
from dpgraph.families.votes.sensitivity import ROW_NORM, vote_norm
from dpgraph.families.votes.strangers import BoundedStrangerBallots, CappedStrangerBallots
from dpgraph.privacy.choice import bounded_choice
from dpgraph.privacy.procedure import NotAsAccounted, Procedure, Release


class PreparedVotes(PreparedTrees):
    """Rows of one norm, centred if their mean is released; steps over them; then `scores`, once.

    All randomness comes from the order: that of `dpgraph fit` draws noise from the operating system.
    """

    def __init__(self, order: Order) -> None:
        mechanism, graph = order.mechanism, order.data.graph
        if not isinstance(mechanism, mechanisms.PoissonVotes):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of votes")
        self.votes_of, noise, self._how = mechanism, mechanism.closed()[1], order.privacy
        self.made: list[Release] = []
        features = np.asarray(graph.features)
        self.mean: RowMean | None = None
        if mechanism.mean_ratio is not None:
            std = mechanism.mean_ratio * noise
            released = order.release_noise("mean of the rows")
            noisy = released.on(row_sum(features), std, 1 / GRID)
            self.mean = RowMean(noisy, std, self._how.signed_rows, len(features))
            self.made.append(Release(kind=mechanisms.MEAN, noise=released.stds[-1], sensitivity=1.0, count=1))
        rows = scaled_rows(features, self.mean)
        read = torch.from_numpy(rows * np.float32(ROW_NORM)).to(order.device)
        super().__init__(replace(order, data=replace(order.data, features=read)))
        self.graph: Graph = graph
        self._degrees, self._votes = order.release_noise("degrees"), order.release_noise("votes")
        self._choice = order.generator("choice of the reader")
        self._reader_noise = order.release_noise("steps of the reader")
        self.final: torch.nn.Module | None = None  # network whose predictions vote: that of the last step, or averaged
        self.reader: BucketReader | None = None
        self.learnt: LearntReader | None = None  # learnt from `reader` on
        self.released: np.ndarray | None = None  # (N, C + 1) buckets of the last round

    @property
    def labels_trained_on(self) -> np.ndarray:
        """(N,) labels of training nodes; -1 elsewhere. Labels of validation nodes judge readers but do not vote."""
        return np.where(np.asarray(self.graph.split) == TRAIN, self.graph.labels, -1)

    @property
    def examples(self) -> np.ndarray:
        """(n,) training nodes, with or without a label.

        Their positions are public, so a null record moves no other example.
        """
        return np.flatnonzero(np.asarray(self.graph.split) == TRAIN)

    @property
    def labels_that_vote(self) -> np.ndarray:
        """(N,) labels of training nodes, or -1 everywhere if predictions vote; -1: a prediction votes."""
        known = self.labels_trained_on
        return known if self._how.label_votes else np.full_like(known, -1)

    def with_record(self) -> np.ndarray:
        """Return (N,) bool: nodes that vote. The null record has no label and no feature, and must not vote.

        Lists do not decide it, so the loss of an edge silences no node.
        """
        features = np.asarray(self.graph.features)
        return np.asarray((features != 0).any(axis=1)) | (self.labels_trained_on >= 0)

    def ballots(self) -> Ballots:
        """Return the ballots of the variant; with caps this releases the degrees they need."""
        graph = self.graph
        kind = OneHopBallots if self._how.one_hop else Ballots
        plain = kind.from_lists(graph.out_ptr, graph.out_idx, self.with_record(), self.votes_of.degree_floor)
        if isinstance(self.votes_of, CappedVotes):
            voters = np.asarray(graph.split) == TRAIN
            capped = CappedStrangerBallots if isinstance(self.votes_of, CappedStrangerVotes) else CappedBallots
            return self._capped(capped.one_way(plain, self.votes_of.degree_bound, voters), self.votes_of)
        if isinstance(self.votes_of, BoundedStrangerVotes):
            return BoundedStrangerBallots.over(plain, self.votes_of.degree_bound, self.votes_of.taper)
        return plain

    def _capped(self, ballots: CappedBallots, mechanism: CappedVotes) -> CappedBallots:
        """Release which receivers are hubs, if that is a stage, and voters' degrees; return capped ballots.

        Raises:
            NotAsAccounted: The graph has more nodes than were accounted for, so that T_0 is no bound on receivers.
        """
        if self.graph.num_nodes > mechanism.most_nodes:
            most = mechanism.most_nodes
            raise NotAsAccounted(f"votes: a graph of {self.graph.num_nodes} nodes: expected at most {most}")
        if mechanism.hubs_noise is not None and mechanism.hub_limit is not None:
            root = np.sqrt(mechanism.most_sent)
            noisy, limit = self._degrees.on(ballots.received, mechanism.hubs_noise, 1.0), mechanism.hub_limit
            ballots = ballots.without_hubs(noisy, limit)
            noise = self._degrees.stds[-1]
            self.made.append(Release(kind=mechanisms.HUBS, noise=noise, sensitivity=root, count=1, limit=limit))
        std, margin = mechanism.degrees_noise, mechanism.margin
        noisy = self._degrees.on(ballots.degrees, std, 1.0)
        moved, noise = np.sqrt(mechanism.most_edges), self._degrees.stds[-1]
        self.made.append(Release(kind=mechanisms.DEGREES, noise=noise, sensitivity=moved, count=1, margin=margin))
        return ballots.capped(noisy, margin, std)

    def scores(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the scores of every node, from its own record and the release: the only step that mixes records.

        To be called once, after the last step. Without votes the scores are the logarithms of the own predictions.

        Args:
            probabilities: (N, C) predictions of the trained network, each from one record.

        Returns:
            (N, C) scores.
        """
        mechanism = self.votes_of
        if mechanism.votes_ratio is None:
            return np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
        ballots, mass = self.ballots(), mechanism.mass
        std = mechanism.votes_ratio * mechanism.closed()[1] * vote_norm(num_classes=probabilities.shape[1], mass=mass)
        weighted: dict[str, Any] = {"degree_floor": ballots.degree_floor}
        if isinstance(ballots, BoundedStrangerBallots):
            weighted = {"list_cap": ballots.degree_bound, "taper": ballots.taper}
        self.reader = BucketReader(self._how.shrinkage, self._how.strength)
        said, read = probabilities, dict[float, np.ndarray]()
        cast = released = np.empty((0, 0))

        def scores_of(reader: BucketReader) -> np.ndarray:
            if reader.shrinkage not in read:  # one at a time: each is as large as all predictions
                read.clear()
                read[reader.shrinkage] = ballots.read(released, cast, mass, std, reader.shrinkage)
            return ballots.scores(probabilities, read[reader.shrinkage], reader)

        for place in range(mechanism.rounds):
            if place:  # a node now votes by its own record and the releases before
                said = softmax(scores_of(self.reader), axis=1)
            cast = ballots.ballots(self.labels_that_vote, said, mass)
            read.clear()
            released = self._votes.on(ballots.buckets(cast), std, 1 / GRID)
            self.released = released
            # by the B of the cast ballots: another B than the accounted one shows as another noise
            over = self._votes.stds[-1] / vote_norm(num_classes=released.shape[1] - 1, mass=mass)
            self.made.append(
                Release(kind=mechanisms.BUCKETS, noise=over, sensitivity=1.0, count=1, mass=mass, **weighted)
            )
        if mechanism.choice_epsilon:
            # only labels of training and validation nodes are there; no reader is right about a null record
            labels = np.asarray(self.graph.labels)
            judged = np.flatnonzero(labels >= 0)
            right = [0] * len(ballots.readers)
            for place, one in sorted(enumerate(ballots.readers), key=lambda item: item[1].shrinkage):
                right[place] = int((scores_of(one).argmax(axis=1)[judged] == labels[judged]).sum())
            chosen = bounded_choice(utilities=right, epsilon=mechanism.choice_epsilon, generator=self._choice)
            self.made.append(Release(kind=mechanisms.READER, noise=chosen.epsilon, sensitivity=1.0, count=1))
            self.reader = ballots.readers[chosen.place]
        if mechanism.reader_ratio is not None:
            shrinkage = self.reader.shrinkage
            near = ballots.read(released, cast, mass, std, shrinkage) / np.sqrt(ballots.degrees + 1.0)[:, None]
            return self._learn(probabilities, near, self.reader.strength)
        return scores_of(self.reader)

    def _learn(self, probabilities: np.ndarray, read: np.ndarray, strength: float) -> np.ndarray:
        """Return (N, C) scores by a reader learnt from labels of training nodes, each reading its own list.

        Args:
            probabilities: (N, C) own predictions.
            read: (N, C) readings.
            strength: beta of the public reader that learning starts from; readings are in units of it, or of 1 if it is
                less.
        """
        mechanism, labels = self.votes_of, self.labels_trained_on
        unit = max(strength, LEAST_UNIT)
        read, classes = unit * read, probabilities.shape[1]
        examples = self.examples
        over = (mechanism.reader_ratio or 0.0) * mechanism.closed()[1]
        steps = ReaderSteps(mechanism.reader_steps, self._how.reader_rate, over * CLIP, mechanism.num_roots)
        self.learnt = steps.learn(
            LearntReader.start(strength / unit, classes),
            probabilities[examples],
            read[examples],
            labels[examples],
            self._reader_noise,
        )
        stds = self._reader_noise.stds
        self.made.append(Release(kind=mechanisms.LEARNT, noise=min(stds) / CLIP, sensitivity=1.0, count=len(stds)))
        return self.learnt.scores(probabilities, read)

    def due(self, stream: str, draws: int) -> int | None:
        """Return how many numbers a stream has drawn after so many releases."""
        nodes, classes = self.graph.num_nodes, self.graph.num_classes
        sizes = {
            "mean of the rows": self.graph.num_features,
            "degrees": nodes,
            "votes": nodes * (classes + 1),
            "choice of the reader": self.votes_of.readers,
            "steps of the reader": 1 + classes**2 + classes,
        }
        return draws * sizes[stream] if stream in sizes else super().due(stream, draws)

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, releases included."""
        return super().ran(resumed_at).model_copy(update={"releases": tuple(self.made)})
