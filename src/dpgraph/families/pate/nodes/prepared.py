"""The private part of PATE on a graph: teachers on disjoint parts of the training nodes label public nodes once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dpgraph.config.streams import split_number
from dpgraph.core.errors import invalid
from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.engine.preparation.base import Order
from dpgraph.engine.preparation.rows import principal_axes
from dpgraph.families.pate.nodes.teachers import NodeTeacherPlan, OwnerLists, node_teachers_votes
from dpgraph.families.pate.prepared import PreparedTeachers


def plan_of(cell: Any, seed: int) -> NodeTeacherPlan:
    """Parts are those of the split: seeds and methods that agree in it share them."""
    told = cell.training
    return NodeTeacherPlan(
        teachers=told.teachers,
        reads=told.teacher_reads,
        components=cell.model.components,
        ridge=told.teacher_ridge,
        names=names_of(cell, seed),
    )


def names_of(cell: Any, seed: int) -> tuple[Name, ...]:
    return "dpgraph", cell.task.folder, "teachers on nodes", split_number(cell, seed)


def queries_of(graph: Graph, *names: Name) -> np.ndarray:
    """(Q,) ids of the public nodes, those of validation, in a public random order: ids may be sorted by class.

    Raises UserError where there are none.
    """
    pool = np.flatnonzero(np.asarray(graph.split) == VALIDATION)
    if len(pool) == 0:
        raise invalid("split", "without validation nodes", "some: they are the public nodes that teachers label")
    return numpy_generator(*names, "queries").permutation(pool)


def votes_of(graph: Graph, features: torch.Tensor, plan: NodeTeacherPlan) -> np.ndarray:
    """(teachers, Q) int16 classes of the public nodes; classes of other nodes than those of training are not read.

    `features` (N, F) are the graph's, on the device that computes.
    """
    train = np.flatnonzero(np.asarray(graph.split) == TRAIN)
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    labels[train] = np.asarray(graph.labels)[train]
    queries = queries_of(graph, *plan.names)
    mean, axes = queries_axes(features, queries, plan.components)
    lists = OwnerLists(np.asarray(graph.out_ptr), np.asarray(graph.out_idx))
    rows = features @ axes - mean @ axes  # no second copy of the features
    return node_teachers_votes(rows, labels, lists, train, queries, graph.num_classes, plan)


def queries_axes(features: torch.Tensor, queries: np.ndarray, components: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and axes of what is public, the features of `queries`, alone."""
    return principal_axes(features[torch.from_numpy(queries)], components)


class PreparedNodeTeachers(PreparedTeachers):
    """`labels` of the public nodes, in the order of `queries_of`."""

    def planned(self, order: Order) -> NodeTeacherPlan:
        return plan_of(order.cell, order.seed)

    def votes(self) -> np.ndarray:
        return votes_of(self.data.graph, self.data.features, self.plan)
