"""What an attacker with the released parameters and the records computes: embeddings and losses of training nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Exposure:
    """Of one seed. Both arrays depend on the parameters and each node's own record alone, as the guarantee demands."""

    roots: np.ndarray  # (M,) int64 node ids with a loss in training: the members
    embeddings: np.ndarray  # (M, width) float32 hidden states of the roots
    candidates: np.ndarray  # (n,) int64 node ids of all training nodes, members among them
    losses: np.ndarray  # (n,) float32 cross-entropy of the candidates' labels
