"""What others' predictions show of who is there: a lower bound of epsilon from one run on a graph with canaries.

Each canary's record is there by a fair coin (`data/canaries.py`). The attacker sees the predicted classes of the nodes
that list it, which are tested nodes, and guesses it there the more of them say class 1. Right guesses bound epsilon
from below (Steinke, Nasr & Jagielski 2023, Theorem 5.2), for the view of all others: nodes that list a canary are none.
"""

from __future__ import annotations

import numpy as np

from dpgraph.config.experiment import PRESENCE
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import Entry, Plan
from dpgraph.privacy.auditing import CONFIDENCE, one_run_epsilon, one_run_guesses
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.reporting.stored import Predictions, stored_graph
from dpgraph.reporting.views.registry import Derived, DerivedMetric

GUESSED = (0.2, 0.9)  # shares of the canaries that are guessed, half of them there: the surest, or nearly all


def metrics(plan: Plan) -> Derived:
    predictions, shown = Predictions(plan), Derived()
    for name, artefact in plan.artefacts.items():
        for entry in plan.entries_of(name) if artefact.view == "presence" else ():
            for seed in entry.cell.seeds:
                if (found := _shown(plan, entry, seed, predictions)) is not None:
                    shown[entry.paper, entry.cell.slug, seed] = [DerivedMetric(PRESENCE, found)]
    return shown


def _shown(plan: Plan, entry: Entry, seed: int, predictions: Predictions) -> float | None:
    predicted, tested = predictions.predicted(entry, seed), predictions.tested(entry, seed)
    graph = stored_graph(plan, entry.task_id)
    if predicted is None or tested is None or graph is None:
        return None
    nodes, present = tested
    if not (np.diff(graph.out_ptr)[nodes] == 1).all() or present.max(initial=0) > 1:
        raise UserError(f"{entry.artefact}: {entry.task_id}: expected a data set of canaries for the view presence")
    # delta of training nodes, the largest that a row has: a bound there holds at each smaller one
    delta = usual_delta(len(graph.train_nodes))
    return presence_epsilon(np.asarray(graph.out_idx)[graph.out_ptr[nodes]], predicted == 1, present == 1, delta)


def presence_epsilon(canaries: np.ndarray, says: np.ndarray, present: np.ndarray, delta: float) -> float:
    """Epsilon at `delta`, at least, at 99 % over the run's own randomness and the coins.

    Of each node (n,): the canary that it lists, whether its prediction says "there", and the coin of the canary.
    Guesses of GUESSED are tried, each at half of what may fail.
    """
    ids, place = np.unique(canaries, return_inverse=True)
    score = np.bincount(place, says.astype(float))
    coin = np.bincount(place, present) > 0
    level, bounds = 1 - (1 - CONFIDENCE) / len(GUESSED), []
    for share in GUESSED:
        guesses = 2 * max(1, int(share * len(ids) / 2))
        correct = one_run_guesses(score, coin, guesses)
        bounds.append(
            one_run_epsilon(correct=correct, guesses=guesses, canaries=len(ids), delta=delta, confidence=level)
        )
    return max(bounds)
