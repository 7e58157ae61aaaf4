"""`fit`: what is public, what the budget affords, training, and three folders for three readers."""

from __future__ import annotations

import csv
import logging
import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.data.records import TRAIN
from dpgraph.errors import UserError, invalid
from dpgraph.fitting.card import assumptions, card, draw_curve, markdown
from dpgraph.fitting.model import FORMAT, Header, SavedModel, as_json, softmax
from dpgraph.fitting.objects import own_graph
from dpgraph.fitting.own_graph import DEGREES, OwnGraph
from dpgraph.fitting.training import Budgeted, Trained, budgeted, train
from dpgraph.methods.votes.own_graph import KINDS
from dpgraph.privacy.vote_sensitivity import vote_norm

log = logging.getLogger("dpgraph")
SCOPES = ("others", "all-outputs")
NODE_NULL = "node-null"
LITTLE, ENOUGH = 10.0, 100.0  # labels of a class over the noise of a class sum


@dataclass(frozen=True, eq=False)
class Fitted:
    """What `fit` returns; `predictions` (N, C): row i is for node i alone unless the scope is all outputs."""

    model: SavedModel
    card: dict[str, Any]
    predictions: np.ndarray
    plan: str
    folder: Path | None


def afford(what: Budgeted, *, labelled: int, classes: int) -> str:
    """Whether the budget is enough, in words, from public numbers."""
    ratio = labelled / classes * what.training_mu
    epsilon = what.calibration.target_epsilon
    verdict = "yes" if ratio >= ENOUGH else "in part" if ratio >= LITTLE else "no: expect little more than guesses"
    text = (
        f"Can this graph afford epsilon = {epsilon:g}? {verdict}. A class has about {labelled / classes:.0f} labels; "
        f"they add up to {ratio:.3g} times the noise of one coordinate ({ENOUGH:.0f} is ample, {LITTLE:.0f} little)."
    )
    if what.mechanism.votes_ratio is None:
        return text
    noise = what.mechanism.votes_ratio * what.mechanism.closed()[1] * vote_norm(num_classes=classes, mass=0.3)
    return f"{text} Neighbours tell a node more than noise where it has about {math.ceil(noise)} of them or more."


def fit(
    data: Any,
    epsilon: float,
    *,
    labels: Any = None,
    features: Any = None,
    method: str = "auto",
    relation: str = NODE_NULL,
    scope: str = "others",
    delta: float | None = None,
    labelled: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    command: str = "dpgraph.fit(...)",
    say: Callable[[str], None] = log.info,
) -> Fitted:
    """A private model of `data`, with its card. Without `seed` the noise is the operating system's, for a release.

    Raises UserError for data, budgets and scopes that nothing can be promised for.
    """
    if relation != NODE_NULL:
        raise invalid("--relation", relation, f"{NODE_NULL} (the card states what an edge and a replaced record cost)")
    if scope not in SCOPES:
        raise invalid("--scope", scope, f"one of {', '.join(SCOPES)}")
    kind = "votes" if method == "auto" else method
    if kind not in KINDS:
        raise invalid("--method", method, f"one of auto, {', '.join(KINDS)}")
    if scope == "all-outputs" and kind != "votes":
        raise UserError(f"--scope all-outputs, --method {kind}: no epsilon: rows read raw records: expected votes")
    if not 0 < epsilon < math.inf:
        raise invalid("--epsilon", epsilon, "a finite number > 0")
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists():
        raise invalid("--out", folder, "a folder that does not exist yet")
    own = own_graph(data, labels=labels, features=features)
    present = int(((own.labels >= 0) & (own.roles == TRAIN)).sum())
    if present == 0:
        raise UserError(f"{own.where}: no node outside the held-out ones has a label: expected some to train on")
    count = present if labelled is None else labelled
    if not 1 <= count <= len(own.ids):
        raise invalid("--labelled", count, f"an integer in 1..{len(own.ids)}")
    for text in assumptions(own, count):
        say(f"assumed: {text}")
    what = budgeted(kind, num_nodes=len(own.ids), num_labelled=count, epsilon=epsilon, delta=delta)
    plan = afford(what, labelled=count, classes=len(own.classes))
    say(plan)
    trained = train(own, what, seed)
    secret = trained.secret
    stated = card(own, what, kind=kind, scope=scope, labelled=count, secret=secret, command=command)
    model = _model(own, trained, kind)
    rows = model.outputs() if scope == "all-outputs" else softmax(trained.scores.astype(np.float64))
    fitted = Fitted(model, stated, rows, plan, folder)
    if folder is not None:
        _write(fitted, own, scope, secret, what.mu, folder)
    return fitted


def _model(own: OwnGraph, trained: Trained, kind: str) -> SavedModel:
    mechanism, classes = trained.budgeted.mechanism, len(own.classes)
    over = (mechanism.votes_ratio or 0.0) * mechanism.closed()[1]
    header = Header(
        format=FORMAT, kind=kind, ids=own.ids, classes=own.classes, columns=own.columns,
        num_features=DEGREES if own.features is None else own.features.shape[1],
        degree_features=own.features is None, directed=own.directed, mass=mechanism.mass,
        std=over * vote_norm(num_classes=classes, mass=mechanism.mass), secret=trained.secret, sha256="",
    )  # fmt: skip
    return SavedModel(header, trained.weight, trained.bias, trained.buckets)


def _write(fitted: Fitted, own: OwnGraph, scope: str, secret: bool, mu: float, folder: Path) -> None:
    """All folders at once, or none: they are made beside and renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        # what was made with a known seed protects nobody: nothing of it is called a release
        public = made / ("release" if secret else "not-private")
        fitted.model.save(public)
        (public / "card.json").write_text(as_json(fitted.card), encoding="utf-8")
        (public / "card.md").write_text(markdown(fitted.card), encoding="utf-8")
        if secret:
            draw_curve(mu, public / "tradeoff.png")
        everyone = scope == "all-outputs"
        owners = public if everyone else made / "owners"
        owners.mkdir(exist_ok=True)
        _write_rows(owners / "predictions.csv", own, fitted.predictions)
        if not everyone:
            (owners / "README.txt").write_text(
                "Each row is for the node that it names, and for nobody else. All rows together have no epsilon.\n"
            )
        curator = made / "curator"
        curator.mkdir()
        checks = {"status": "not private, not to be released", **private_checks(own, fitted.predictions)}
        (curator / "checks.json").write_text(as_json(checks), encoding="utf-8")
        made.chmod(0o755)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _write_rows(path: Path, own: OwnGraph, rows: np.ndarray) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "prediction", *(f"probability of {name}" for name in own.classes)])
        chosen = rows.argmax(axis=1)
        writer.writerows(
            [name, own.classes[place], *row]
            for name, place, row in zip(own.ids, chosen.tolist(), np.round(rows, 6).tolist(), strict=True)
        )


def private_checks(own: OwnGraph, rows: np.ndarray) -> dict[str, Any]:
    """What reads private data: for the curator alone."""
    graph = own.graph()
    degrees = np.diff(graph.out_ptr)
    ends = np.repeat(np.arange(len(degrees)), degrees), np.asarray(graph.out_idx)
    both = (own.labels[ends[0]] >= 0) & (own.labels[ends[1]] >= 0)
    held = (own.labels >= 0) & (own.roles != TRAIN)
    right = rows.argmax(axis=1) == own.labels
    bounds = [0, 1, 2, 4, 8, 16, 32, 64, 128, 1 << 62]
    return {
        "held_out_labels": int(held.sum()),
        "accuracy_on_held_out": float(right[held].mean()) if held.any() else None,
        "share_of_largest_class": float(np.bincount(own.labels[held]).max() / held.sum()) if held.any() else None,
        "homophily": float((own.labels[ends[0]] == own.labels[ends[1]])[both].mean()) if both.any() else None,
        "degrees_from": bounds[:-1],
        "degree_histogram": np.histogram(degrees, bounds)[0].tolist(),
        "self_loops_left_out": int((own.source == own.target).sum()),
        "edges_given": len(own.source),
        "list_entries_kept": int(degrees.sum()),
    }
