"""`compare`: methods on one's own graph at one epsilon, one relation and one scope, on the same held-out nodes.

For the curator alone: accuracies on held-out labels are private, and so is the choice of a method by them. No epsilon
covers either. Runs have known seeds and leave no release.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from scipy.stats import ttest_rel

from dpgraph.data.records import TEST, TRAIN
from dpgraph.errors import UserError, invalid
from dpgraph.experiments.expansion import merged
from dpgraph.fitting.budget import KINDS, MEAN_DEGREE, PublicNumbers, budgeted
from dpgraph.fitting.objects import own_graph
from dpgraph.fitting.own_graph import OwnGraph
from dpgraph.fitting.training import train
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.own_graphs import RULE
from dpgraph.methods.registry import method, outside_of, spec, specs
from dpgraph.outside import checks_of
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.problems.base import Size
from dpgraph.randomness import numpy_generator

HELD_OUT = 0.2  # of the nodes, drawn anew for each seed
MOST_SEEDS = 100
NO_PRIVACY = "no privacy"


@dataclass(frozen=True)
class Compared:
    """One method: what its epsilon is about, and its accuracy on the held-out nodes of each seed."""

    method: str
    relation: str
    scope: str
    epsilon: float
    accuracies: tuple[float, ...]
    checks: tuple[str, ...] = ()  # of a method from outside the package, whose epsilon is its author's claim

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies))

    @property
    def half(self) -> float:
        """Half of the 95 % Student t interval of the mean over the seeds' splits; nan for one seed."""
        n = len(self.accuracies)
        return float(student.ppf(0.975, n - 1) * np.std(self.accuracies, ddof=1) / math.sqrt(n)) if n > 1 else math.nan


def compare(
    data: Any,
    epsilon: float,
    *,
    labels: Any = None,
    features: Any = None,
    classes: Sequence[str] | None = None,
    directed: bool | None = None,
    seeds: int = 5,
    methods: Sequence[str] | None = None,
    delta: float | None = None,
    mean_degree: float = MEAN_DEGREE,
    words: float | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Compared]:
    """Every method that states settings for own graphs, best first; of those without privacy, for orientation, too.

    Raises UserError for unknown methods, and for a graph with too few labels to hold some out.
    """
    if not 0 < epsilon < math.inf:
        raise invalid("--epsilon", epsilon, "a finite number > 0")
    if not 1 <= seeds <= MOST_SEEDS:
        raise invalid("--seeds", seeds, f"an integer in 1..{MOST_SEEDS}")
    others = [name for name, one in specs().items() if RULE in one.rules]
    known = [*KINDS, *others]
    for name in methods or ():
        if name not in known:
            raise invalid("--methods", name, f"one of {', '.join(known)}")
    own = own_graph(data, labels, features, classes=classes, directed=directed)
    chosen = list(methods or known)
    found: dict[str, list[float]] = {name: [] for name in chosen}
    about: dict[str, tuple[str, str, float]] = {}
    for seed in range(seeds):
        one = _held_out(own, seed)
        for name in chosen:
            if name in KINDS:
                scores, about[name] = _own(name, one, _numbers(one, mean_degree, words), epsilon, delta, seed)
            else:
                scores, about[name] = _other(name, one, epsilon, delta, seed)
            held = (one.split == TEST) & (one.labels >= 0)
            found[name].append(float((scores.argmax(axis=1) == one.labels)[held].mean()))
            say(f"split {seed + 1} of {seeds}, {name}: {100 * found[name][-1]:.1f} %")
    rows = [Compared(name, *about[name], tuple(values), _checks(name)) for name, values in found.items()]
    return sorted(rows, key=lambda row: -row.mean)


def _checks(name: str) -> tuple[str, ...]:
    folder = None if name in KINDS else outside_of(name)
    return () if folder is None else checks_of(folder)


def _held_out(own: OwnGraph, seed: int) -> OwnGraph:
    """Who is held out is drawn from N and the seed alone; a label has to be on both sides."""
    random = numpy_generator("dpgraph", "compare", len(own.ids), seed)
    split = np.where(random.random(len(own.ids)) < HELD_OUT, TEST, TRAIN).astype(np.uint8)
    for role, where in ((TRAIN, "to train on"), (TEST, "to hold out")):
        if not ((split == role) & (own.labels >= 0)).any():
            raise UserError(f"{own.where}: too few labels: split {seed + 1} has none {where}")
    return replace(own, split=split)


Scored = tuple[np.ndarray, tuple[str, str, float]]


def _numbers(own: OwnGraph, mean_degree: float, words: float | None) -> PublicNumbers:
    labelled = int(((own.labels >= 0) & (own.roles == TRAIN)).sum())
    return PublicNumbers(
        len(own.ids), labelled, len(own.classes), mean_degree=mean_degree, features=own.num_features,
        words=own.known_words if words is None else words,
    )  # fmt: skip


def _own(kind: str, own: OwnGraph, numbers: PublicNumbers, epsilon: float, delta: float | None, seed: int) -> Scored:
    """As `fit` does it."""
    what = budgeted(kind, numbers, epsilon=epsilon, delta=delta)
    stated = what.calibration.statement.rigorous
    return train(own, what, seed).scores, (str(stated.relation), str(stated.scope), stated.epsilon or math.nan)


def _other(name: str, own: OwnGraph, epsilon: float, delta: float | None, seed: int) -> Scored:
    graph, known = own.graph(), spec(name)
    num_train = int((graph.split == TRAIN).sum())
    size = Size(graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes, num_train)
    # the same delta for all: that of a graph of all nodes
    budget = {"privacy": {"epsilon": epsilon, "delta": delta or usual_delta(graph.num_nodes)}} if known.private else {}
    shared = {"task": {"dataset": "own-graph"}, "method": name, "seeds": [seed]}
    raw = merged(shared, known.by_rule(RULE, size, epsilon), budget)
    cell = resolve(raw, name)
    calibration = calibrate(cell, num_train, num_protected=graph.num_nodes)
    (job,) = make_jobs(graph, cell, [seed], calibration, torch.device("cpu"))
    outcome = method(name).run(job, lambda step, logits: {})
    if job.prepared is not None:
        job.prepared.check(outcome.resumed_at)
    stated = calibration.statement.rigorous
    if not known.private:
        return outcome.logits, (NO_PRIVACY, NO_PRIVACY, math.inf)
    claimed = " (claimed)" if outside_of(name) is not None else ""
    return outcome.logits, (f"{stated.relation}{claimed}", str(stated.scope), stated.epsilon or math.nan)


def paired_tests(rows: Sequence[Compared]) -> list[dict[str, Any]]:
    """Paired t tests of private methods of one relation and scope, Holm's correction over all of them.

    Pairs are the accuracies of one split. Splits of one graph overlap, so that p values are too small: a small one is
    no proof that a method is better on other graphs.
    """
    pairs = [
        (one, two) for one, two in itertools.combinations([row for row in rows if row.epsilon < math.inf], 2)
        if (one.relation, one.scope) == (two.relation, two.scope) and len(one.accuracies) > 1
    ]  # fmt: skip
    raw: list[dict[str, Any]] = []
    for one, two in pairs:
        gaps = np.subtract(one.accuracies, two.accuracies)
        if np.ptp(gaps) == 0:  # equal gaps: n equal signs, as in a sign test of both sides
            p = 1.0 if gaps[0] == 0 else 0.5 ** (len(gaps) - 1)
        else:
            p = float(ttest_rel(one.accuracies, two.accuracies).pvalue)
        raw.append({"better": one.method, "than": two.method, "points": float(100 * gaps.mean()), "p": p})
    worst = 0.0
    for place, row in enumerate(sorted(raw, key=lambda row: row["p"])):
        worst = max(worst, min(1.0, row["p"] * (len(raw) - place)))
        row["p_holm"] = worst
    return raw


def table(rows: Sequence[Compared]) -> str:
    """Lines for people."""
    lines = ["| method | relation; scope | ε | accuracy on held-out labels |", "| :-- | :-- | --: | --: |"]
    for row in rows:
        half = "" if math.isnan(row.half) else f" ± {100 * row.half:.1f}"
        about = row.relation if row.epsilon == math.inf else f"{row.relation}; {row.scope}"
        epsilon = "∞" if row.epsilon == math.inf else f"{row.epsilon:.3g}"
        lines.append(f"| {row.method} | {about} | {epsilon} | {100 * row.mean:.1f}{half} % |")
    lines.append("")
    lines += [f"{row.method}: its ε is its author's claim, not proved; checks: {', '.join(row.checks)}"
              for row in rows if row.checks]  # fmt: skip
    for one in paired_tests(rows):
        gap = f"{one['better']} is {one['points']:.1f} points above {one['than']}"
        lines.append(f"{gap} (paired t test, Holm: p = {one['p_holm']:.2g})")
    return "\n".join(lines)


def write(rows: Sequence[Compared], folder: Path) -> None:
    """comparison.csv, tests.json and README.txt, which says who may read them."""
    folder.mkdir(parents=True)
    with (folder / "comparison.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        head = ["method", "relation", "scope", "epsilon", "mean", "ci_half", "checks", "split", "accuracy"]
        writer.writerow(head)
        for row in rows:
            head = [row.method, row.relation, row.scope, str(row.epsilon), str(row.mean), str(row.half)]
            head.append(", ".join(row.checks))
            writer.writerows([*head, split, value] for split, value in enumerate(row.accuracies))
    (folder / "tests.json").write_text(json.dumps(paired_tests(rows), indent=1) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(
        "Not private, not to be released: accuracies on held-out labels, and what is chosen by them, have no epsilon.\n"
    )
