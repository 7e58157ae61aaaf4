"""The private part of PATE on a graph: teachers on disjoint parts of the training nodes label public nodes once.

Teacher p reads the subgraph of its *view*: its part of the training nodes and the public nodes that it labels. No other
node of the graph moves its votes. All teachers are ridge regressions, fitted at once in closed form.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.config.streams import split_number
from dpgraph.core.errors import invalid
from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.data.adjacency import Csr
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.engine.preparation.base import Order
from dpgraph.engine.preparation.rows import principal_axes
from dpgraph.families.pate.prepared import PreparedTeachers

STACK = 25  # teachers whose views are in memory together
MEAN_STEPS = 2


@dataclass(frozen=True)
class NodeTeacherPlan:
    """The public settings of the teachers; `names` key their parts."""

    teachers: int
    reads: Literal["own", "means"]
    components: int
    ridge: float
    names: tuple[Name, ...]

    def told(self) -> tuple[object, ...]:
        """Return the values that name the noise of the votes."""
        return astuple(self)


def node_teachers_votes(
    rows: Tensor, labels: np.ndarray, lists: Csr, train: np.ndarray, queries: np.ndarray, classes: int,
    plan: NodeTeacherPlan,
) -> np.ndarray:  # fmt: skip
    """Return the classes that teachers predict for the nodes `queries`, each fitted on its part of `train`.

    A teacher is a ridge regression of class indicators, with a constant. A teacher without any label predicts class 0.

    Args:
        rows: (N, k) values of the nodes.
        labels: (N,) int64 classes; -1: no label, and no training record.
        lists: Start of each owner's list (N + 1,) and neighbours (E,), as of `data.graph.Graph`.
        train: Ids of the training nodes.
        queries: (Q,) ids of the public nodes.
        classes: Number of classes.
        plan: Settings of the teachers.

    Returns:
        (teachers, Q) int16 classes.

    Raises:
        UserError: For more teachers than training nodes.
    """
    parts = even_parts(plan.teachers, len(labels), train, *plan.names)
    sizes = np.bincount(parts[train], minlength=plan.teachers)
    ids, starts = train[np.argsort(parts[train], kind="stable")], np.concatenate([[0], np.cumsum(sizes)])
    edges = edges_in_views(lists, parts, queries) if plan.reads == "means" else None
    votes = np.empty((plan.teachers, len(queries)), dtype=np.int16)
    for first in range(0, plan.teachers, STACK):
        last = min(first + STACK, plan.teachers)
        mine = ids[starts[first] : starts[last]]
        if edges is None:
            own, queried = rows[torch.from_numpy(mine)], rows[torch.from_numpy(queries)][None]
        else:
            own, queried = view_means(rows, edges, parts, mine, queries, first, last)
        weights = fitted(own, labels[mine], sizes[first:last], classes, plan.ridge)
        votes[first:last] = (_with_constant(queried) @ weights).argmax(dim=2).cpu().numpy()
    return votes


def even_parts(teachers: int, num_nodes: int, train: np.ndarray, *names: Name) -> np.ndarray:
    """Deal the training nodes to teachers by a public shuffle of their ids.

    Ids and split are public and no record is read, so no record moves another one's part. Sizes differ by at most one.

    Returns:
        (N,) teacher of each node; -1: no training node.
    """
    if not 1 <= teachers <= len(train):
        raise invalid("training.teachers", teachers, f"at most {len(train)}, the number of training nodes")
    parts = np.full(num_nodes, -1)
    parts[numpy_generator(*names, "parts").permutation(train)] = np.arange(len(train)) % teachers
    return parts


def edges_in_views(lists: Csr, parts: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return owners and members of the edges that some teacher reads: within a part, or with a query at an end."""
    owners, found = np.repeat(np.arange(len(parts)), np.diff(lists[0])), np.asarray(lists[1], dtype=np.int64)
    queried = np.zeros(len(parts), dtype=bool)
    queried[queries] = True
    known = ((parts >= 0) | queried)[owners] & ((parts >= 0) | queried)[found]
    kept = known & (queried[owners] | queried[found] | (parts[owners] == parts[found]))
    return owners[kept], found[kept]


def view_means(
    rows: Tensor, edges: tuple[np.ndarray, np.ndarray], parts: np.ndarray, mine: np.ndarray, queries: np.ndarray,
    first: int, last: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return smoothed rows of the teachers first .. last - 1: (n, k) of their nodes `mine`, (t, Q, k) of the queries.

    Twice, each row is replaced by the mean of itself and of its neighbours' rows within the teacher's view.
    """
    size, queried, stack = len(mine), len(queries), last - first
    own, place = (np.full(len(parts), -1) for _ in range(2))
    own[mine], place[queries] = np.arange(size), np.arange(queried)
    owners, found = edges
    whole = own[owners], own[found], place[owners], place[found]
    view_of = (parts - first) * queried + size  # where the queries of a training node's view begin
    inner = (whole[0] >= 0) & (whole[1] >= 0)
    reads = (whole[0] >= 0) & (whole[3] >= 0)
    read = (whole[2] >= 0) & (whole[1] >= 0)
    both = (whole[2] >= 0) & (whole[3] >= 0)
    shift = (size + queried * np.arange(stack))[:, None]
    at = [whole[0][inner], whole[0][reads], view_of[found[read]] + whole[2][read], (shift + whole[2][both]).ravel()]
    to = [whole[1][inner], view_of[owners[reads]] + whole[3][reads], whole[1][read], (shift + whole[3][both]).ravel()]
    total = size + stack * queried
    adjacency = sp.csr_array(
        (np.ones(sum(map(len, at)), dtype=np.float32), (np.concatenate(at), np.concatenate(to))), shape=(total, total)
    ) + sp.eye_array(total, dtype=np.float32, format="csr")
    mean = sp.diags_array((1 / adjacency.sum(axis=1)).astype(np.float32)) @ adjacency
    values = rows.cpu().numpy()
    states = np.concatenate([values[mine], np.tile(values[queries], (stack, 1))])
    for _ in range(MEAN_STEPS):
        states = mean @ states
    both_kinds = torch.from_numpy(states).to(rows.device)
    return both_kinds[:size], both_kinds[size:].reshape(stack, queried, rows.shape[1])


def fitted(own: Tensor, labels: np.ndarray, sizes: np.ndarray, classes: int, ridge: float) -> Tensor:
    """Fit one ridge regression per teacher on consecutive groups of `own` (n, k) with `sizes` (t,) rows.

    A part has few rows, so weights come from products of rows: X^T (X X^T + ridge I)^-1 Y. Unused places are rows of 0.
    A teacher whose system is singular in floating point, or whose weights are not finite, has weights 0 and predicts
    class 0: one record with huge features may do that, and whether there is a release must not tell it.

    Returns:
        (t, k + 1, classes) weights.
    """
    stack = len(sizes)
    teacher = np.repeat(np.arange(stack), sizes)
    place = np.arange(len(own)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    known = labels >= 0
    at = tuple(torch.from_numpy(one[known]) for one in (teacher, place))
    records = own.new_zeros(stack, int(sizes.max()), own.shape[1] + 1)
    records[at] = _with_constant(own[torch.from_numpy(np.flatnonzero(known))])
    wanted = own.new_zeros(stack, int(sizes.max()), classes)
    wanted[(*at, torch.from_numpy(labels[known]))] = 1.0
    products = records @ records.transpose(1, 2) + ridge * torch.eye(records.shape[1], device=own.device)
    solved, failed = torch.linalg.solve_ex(products, wanted)
    weights = records.transpose(1, 2) @ solved
    usable = (failed == 0) & weights.isfinite().all(dim=2).all(dim=1)
    return torch.where(usable[:, None, None], weights, 0.0)


def _with_constant(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)


def plan_of(cell: Any, seed: int) -> NodeTeacherPlan:
    """Return the teachers' settings. Parts follow from the split: seeds and methods of a split share them."""
    told = cell.training
    return NodeTeacherPlan(
        teachers=told.teachers,
        reads=told.teacher_reads,
        components=cell.model.components,
        ridge=told.teacher_ridge,
        names=names_of(cell, seed),
    )


def names_of(cell: Any, seed: int) -> tuple[Name, ...]:
    """Return the names that key the random streams of the teachers' parts."""
    return "dpgraph", cell.task.folder, "teachers on nodes", split_number(cell, seed)


def queries_of(graph: Graph, *names: Name) -> np.ndarray:
    """Return the (Q,) ids of the public nodes, those of validation, in a public random order.

    The order is random because ids may be sorted by class. Raises UserError if there are none.
    """
    pool = np.flatnonzero(np.asarray(graph.split) == VALIDATION)
    if len(pool) == 0:
        raise invalid("split", "without validation nodes", "some: they are the public nodes that teachers label")
    return numpy_generator(*names, "queries").permutation(pool)


def votes_of(graph: Graph, features: torch.Tensor, plan: NodeTeacherPlan) -> np.ndarray:
    """Return the (teachers, Q) int16 classes of the public nodes; only labels of training nodes are read.

    `features` (N, F) are those of the graph, on the device that computes.
    """
    train = np.flatnonzero(np.asarray(graph.split) == TRAIN)
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    labels[train] = np.asarray(graph.labels)[train]
    queries = queries_of(graph, *plan.names)
    mean, axes = queries_axes(features, queries, plan.components)
    lists = np.asarray(graph.out_ptr), np.asarray(graph.out_idx)
    rows = features @ axes - mean @ axes  # no second copy of the features
    return node_teachers_votes(rows, labels, lists, train, queries, graph.num_classes, plan)


def queries_axes(features: torch.Tensor, queries: np.ndarray, components: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean and the principal axes of the public nodes' features alone."""
    return principal_axes(features[torch.from_numpy(queries)], components)


class PreparedNodeTeachers(PreparedTeachers):
    """`labels` of the public nodes, in the order of `queries_of`."""

    def planned(self, order: Order) -> NodeTeacherPlan:
        """Return the settings of the teachers of a run."""
        return plan_of(order.cell, order.seed)

    def votes(self) -> np.ndarray:
        """Return the private (teachers, Q) votes."""
        return votes_of(self.data.graph, self.data.features, self.plan)
