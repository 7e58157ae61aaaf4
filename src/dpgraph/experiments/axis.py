"""An x axis of a figure that is neither of the two epsilons."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpgraph.experiments.frozen import Finite


class ReleaseAxis(Finite):
    """An axis of epsilon_pr, what the release of PageRank rows may cost, at a fixed epsilon_sgd (Zhang, section 5.4.1).

    x = factor epsilon - training_epsilon, epsilon the published one, epsilon_pr + epsilon_sgd. Methods without a
    release train with all of epsilon, and are where the others have as much.
    """

    training_epsilon: Annotated[float, Field(gt=0)] = Field(description="epsilon_sgd, in units of the axis")
    factor: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="q', where the axis shows epsilon after the thesis' multiplication by it"
    )
