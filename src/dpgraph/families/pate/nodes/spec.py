"""PATE on a graph: teachers on disjoint parts of the training nodes, noisy votes on public nodes, and a student."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpgraph.config.cell import LARGE, Cell, Training
from dpgraph.config.frozen import Finite
from dpgraph.core.errors import invalid
from dpgraph.engine.methods.cost import loop_seconds
from dpgraph.engine.methods.looks import BROWN, PURPLE, Look
from dpgraph.engine.methods.spec import OWN_RECORD, AttackCase, MethodSpec, Public, ScoreReads, Variant, own_record
from dpgraph.families.pate.mechanism import NodeGnmax, node_gnmax
from dpgraph.families.pate.spec import PatePrivacy
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.public_numbers import gaussian_mu
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

PUBLIC_NODES = 0.1  # of all, for estimates
FLOPS = 4e9  # a second, of small batched products and of sparse ones


class PublicRows(Finite):
    """The input of teachers and student: a node's coordinates along axes that public nodes alone determine."""

    components: Annotated[
        int, Field(ge=1, le=10_000, description="Principal components of the validation nodes' features, at most")
    ] = 32


class NodeStudentTraining(Training):
    """Settings of the student, a softmax regression on all labelled nodes at once, and of its teachers."""

    student_weight_decay: Annotated[float, Field(ge=0, description="L2 penalty of the student's parameters")] = 0.01
    precision: Literal["float32"] = Field(default="float32", description="Votes depend on it, their noise does not")
    teachers: Annotated[int, Field(ge=1, le=100_000, description="On disjoint parts of the training nodes")] = 100
    teacher_reads: Literal["own", "means"] = "own"
    """own (features of a node) or means (twice the mean over a node and its list, within the teacher's own part and the
    public nodes)"""
    teacher_ridge: Annotated[float, Field(gt=0, le=1e6, description="Penalty of a teacher's ridge regression")] = 0.1


class NodePatePrivacy(PatePrivacy):
    """The budget of a release on a graph, its caps and threshold."""

    variant: Literal["rigorous"] = "rigorous"
    max_checks: Annotated[int, Field(ge=1, le=LARGE, description="Public cap on checks")] = 1000
    max_answers: Annotated[int, Field(ge=1, le=LARGE, description="Public cap on labels")] = 300
    check_ratio: Annotated[float, Field(ge=1e-3, le=1e3, description="sigma_1 / sigma_2")] = 10.0
    threshold: Annotated[float, Field(ge=-10, le=10, description="T of a check, as a share of the teachers")] = 0.3


class NodePateCell(Cell):
    """The settings of a student whose labels are noiseless majorities."""

    model: PublicRows = PublicRows()
    training: NodeStudentTraining
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return f"teachers-{self.training.teacher_reads}", 0


STUDENTS = tuple(name for name in NodeStudentTraining.model_fields if name != "steps")


class DpNodePateCell(NodePateCell):
    """The settings of a student whose labels are a private release."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        "model": ("components",),
        "training": STUDENTS,
        "privacy": ("threshold",),
    }

    privacy: NodePatePrivacy  # type: ignore[assignment]


def look(cell: Any) -> Look:
    return Look(BROWN, "X", "-") if cell.training.teacher_reads == "own" else Look(PURPLE, "D", "-")


def seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: teachers, student, and the axes of the public nodes."""
    training, queries = cell.training, PUBLIC_NODES * size.nodes
    read = min(cell.model.components, size.features)
    axes = min(queries, size.features) ** 2 * (2 * max(queries, size.features) + 20 * min(queries, size.features))
    part = size.train_nodes / training.teachers
    votes = training.teachers * queries * read * (size.classes + (8 if training.teacher_reads == "means" else 0))
    teachers = 2 * votes + 4 * size.train_nodes * part * (part + read)
    step = 6 * queries * read * size.classes
    return (axes + teachers) / FLOPS + loop_seconds(training, step, 2 * size.nodes * size.features * read)


def score(cell: Any) -> ScoreReads:
    """Return the record of a node; classes of public nodes are the only part of them that is not public."""
    return ScoreReads(OWN_RECORD, Public.NO, "validation nodes", "of which features and edges alone are public")


PER_CLASS, MOST = 0.3, 1.75  # nodes of a part over the root of mu sqrt(N): this for each class, and at most that
FULL_MU, LEAST_SHARE = 2.0, 0.25  # where all queries are answered, and the least share of them
PUBLIC_SHARE = 0.1  # of the nodes, assumed to be the validation nodes: caps follow it, and hold whatever it is
THRESHOLD, RATIO = 0.3, 10.0  # of the checks that choose whom to answer
NOISELESS = 20  # nodes of a part
NONE = -10.0  # a threshold that every query passes


def without_noise(size: Size, epsilon: float | None) -> Mapping[str, Any]:
    """Return parts of `NOISELESS` nodes, which suffice if no noise has to be outvoted."""
    return {"training": {"teachers": max(2, round(size.train_nodes / NOISELESS))}}


def by_noise(size: Size, epsilon: float | None) -> Mapping[str, Any]:
    """Return teachers, caps and threshold for a target epsilon, from declared numbers of the data set alone.

    A part has as many nodes as the noise allows, and as many queries are answered. The constants were fixed on four
    synthetic graphs (docs/privacy/pate.md#graphs).

    Raises:
        UserError: Without a target.
    """
    if epsilon is None:
        raise invalid("privacy.epsilon", None, "a target, from which a public rule makes settings")
    delta = NodeGnmax.counted.delta(roots=size.train_nodes, training=size.train_nodes, protected=size.nodes)
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    nodes = min(PER_CLASS * size.classes, MOST) * math.sqrt(mu * math.sqrt(size.train_nodes))
    queries = max(1, round(PUBLIC_SHARE * size.nodes))
    share = min(max(mu / FULL_MU, LEAST_SHARE), 1.0)
    return {
        "training": {"teachers": max(2, min(round(size.train_nodes / nodes), size.train_nodes))},
        "privacy": {
            "max_checks": queries,
            "max_answers": max(1, round(share * queries)),
            "check_ratio": RATIO,
            "threshold": THRESHOLD if share < 1 else NONE,
        },
    }


SMALL = {"teachers": 8, "teacher_ridge": 0.1}


def small(reads: str, private: bool) -> dict[str, Any]:
    """Return a small cell for the contract of methods."""
    cell: dict[str, Any] = {"model": {"components": 3}, "training": {**SMALL, "teacher_reads": reads}}
    budget = {"variant": "rigorous", "epsilon": 6.0, "max_checks": 10, "max_answers": 10, "threshold": -10}
    return cell | ({"privacy": budget} if private else {})


TRAIN = "dpgraph.families.pate.nodes.train:NodePate"

on_graphs = partial(MethodSpec, look=look, inference=own_record, seconds=seconds)
attack = AttackCase(
    reads="node teachers", batches=Batches.NONE, clipping=Clipped.NOTHING, relation=Relation.TRAINING_NODE
)

SPECS = (
    on_graphs(
        "dp-node-pate",
        "A student of teachers on disjoint parts of the training nodes, whose noisy votes label public nodes.",
        TRAIN,
        DpNodePateCell,
        {"own": small("own", True), "means": small("means", True)},
        {"rigorous": Variant(NodeGnmax, node_gnmax, score)},
        (attack,),
        rules={"by-noise": by_noise},
    ),
    on_graphs(
        "node-pate",
        "The same without noise: the majority of the teachers labels the public nodes.",
        TRAIN,
        NodePateCell,
        {"means": small("means", False)},
        rules={"parts-of-20": without_noise},
    ),
)
