"""Every private method and variant, as the audits attack it: cells, and the prepared steps that the method would run.

An audit never puts sampler, lists, clip norm or noise together: it takes them from `make_jobs`, as methods do, and
brings a graph, a model and a loss. The methods' specifications state which cases there are and what their theorems
require (engine/methods/spec.py), `theory` what has to be found there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch

from dpgraph.audits import theory
from dpgraph.config.cell import Cell
from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid
from dpgraph.data.graph import Graph
from dpgraph.engine.methods.base import Job
from dpgraph.engine.methods.spec import AttackCase, MethodSpec
from dpgraph.engine.preparation.base import PreparedStep, expected
from dpgraph.families.jobs import Preparing, make_jobs, prepare_seeded
from dpgraph.families.registry import outside_of, specs
from dpgraph.planning.resolve import mechanism_for, resolve
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.base import Mechanism, NoisySteps
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation

CPU = torch.device("cpu")
P = TypeVar("P", bound=PreparedStep)
R = TypeVar("R")
CLIP_NORM = 0.5
OF_ROWS = ("num_rows", "top_k", "column_cap", "own_weight", "teleport")  # settings of rows of PageRank
RELEASED = ("gaussian", "exponential", "exponential-values")


@dataclass(frozen=True, kw_only=True)
class Kind(AttackCase):
    """A private method with one of its variants, and what the method's specification states that a theorem requires."""

    method: str

    @property
    def name(self) -> str:
        """Return the name of the case in results and errors."""
        parts = [self.method, "" if self.variant == "rigorous" else self.variant, self.release or ""]
        parts += [f"r={self.hops}" if self.hops and self.trees else ""]
        parts += ["" if self.neighbours else "C_n=0"]
        return " ".join(part for part in parts if part)

    @property
    def neighbours(self) -> bool:
        """Tell whether neighbours add to a root's gradient, if it has any: C_n > 0."""
        return self.terms != "own"

    @property
    def residual(self) -> bool:
        """Tell whether own gradients are clipped apart from what neighbours add."""
        return self.terms != "joint"

    @property
    def fixed_size(self) -> bool:
        """Tell whether batches have a fixed size."""
        return self.batches in (Batches.FIXED_SIZE, Batches.SHUFFLED)

    @property
    def lots(self) -> bool:
        """Tell whether one vector is clipped for each lot of records."""
        return self.batches is Batches.SHUFFLED

    @property
    def percentiles(self) -> bool:
        """Tell whether clip norms are percentiles of initial gradient norms."""
        return self.clipping is Clipped.ROOT_GROUPS

    @property
    def clipped(self) -> bool:
        """Tell whether gradients are clipped, at C."""
        return self.clipping in (Clipped.ROOT, Clipped.STEP)

    @property
    def partition(self) -> bool:
        """Tell whether every root is read once in each epoch."""
        return self.batches in (Batches.SHUFFLED, Batches.MASKED_PARTS, Batches.PARTS_BY_ID)

    @property
    def trees(self) -> bool:
        """Tell whether the kind reads ego trees, of bounded lists."""
        return self.reads == "trees"

    @property
    def ego_trees(self) -> bool:
        """Tell whether each root's gradient is clipped over its ego tree; a record alone is one."""
        return self.trees or (self.reads == "records" and self.poisson)

    @property
    def poisson(self) -> bool:
        """Tell whether every root is drawn independently."""
        return self.batches is Batches.POISSON

    @property
    def parts(self) -> bool:
        """Tell whether the kind reads parts of the graph."""
        return self.reads == "parts"

    @property
    def each_node(self) -> bool:
        """Tell whether the gradient of each node's loss is clipped, over all of the graph that it reads."""
        return self.parts and self.clipping is Clipped.ROOT

    @property
    def silent(self) -> bool:
        """Tell whether the kind reads no record at all."""
        return self.batches is Batches.NONE


def kinds(specifications: Collection[MethodSpec]) -> dict[str, Kind]:
    """Return the cases of these methods by name. Raise UserError for a missing case, and for an unknown variant."""
    cases = [(one, case) for one in specifications for case in one.attacks]
    for one in specifications:
        attacked = {case.variant for case in one.attacks}
        if attacked != set(one.variants):
            wanted = ", ".join(sorted(one.variants)) or "none"
            raise invalid(
                "attacks", ", ".join(sorted(attacked)) or "none", f"a case for each variant of {one.name}: {wanted}"
            )
    return {kind.name: kind for kind in (Kind(method=one.name, **vars(case)) for one, case in cases)}


ALL_KINDS = kinds(specs().values())
OTHERS = ("tuples", "teachers", "node teachers", "sums", "lists", "units")
KINDS = {name: kind for name, kind in ALL_KINDS.items() if kind.reads not in OTHERS}


def _reading(what: str) -> dict[str, Kind]:
    return {name: kind for name, kind in ALL_KINDS.items() if kind.reads == what}


# attacked by the audits of their families
TUPLE_KINDS, UNIT_KINDS = _reading("tuples"), _reading("units")
TEACHER_KINDS, NODE_TEACHER_KINDS = _reading("teachers"), _reading("node teachers")


def of_each(attack: Callable[[Kind], R]) -> dict[str, R]:
    """Return what an attack on each of `KINDS` gives, by name. Raise UserError where a user's own method fails."""
    found = {}
    for name, kind in KINDS.items():
        try:
            found[name] = attack(kind)
        except Exception as error:
            if (folder := outside_of(kind.method)) is None:
                raise
            raise UserError(f"{name}: {outside.broken(folder, error)}") from error
    return found


@dataclass(frozen=True)
class Settings:
    """`noise` is the noise std / C that the audit requires; the cell gets the multiplier that has to give it."""

    noise: float = 1.0
    rate: float = 0.25  # of Poisson batches; parts: 1 / rate of them
    batch_size: int | None = None  # of batches of fixed size
    second_rate: float | None = None
    steps: int = 8
    max_degree: int = 2
    list_cap: int = 1
    ratio: float = 0.5  # C_n / C_s
    learning_rate: float = 0.25
    own_weight: float = 0.0
    num_rows: int | None = None
    top_k: int = 1
    column_cap: int = 2
    clip: float = 0.1  # C1, C2
    teleport: float = 0.25
    release_noise: float = 1.0
    values_epsilon: float | None = None
    components_noise: float = 4.0
    model: dict[str, Any] = field(default_factory=dict)


def cell_of(kind: Kind, settings: Settings, num_train: int) -> Cell:
    """Return the cell of a kind at these settings."""
    batch: dict[str, Any] = {"sampling_rate": settings.rate}
    if kind.parts:
        batch = {"num_splits": max(1, round(1 / settings.rate))}
    elif kind.fixed_size:
        batch = {"batch_size": batch_size(kind, settings, num_train)}
    architecture = "kipf" if kind.parts else "gcn" if kind.hops else "mlp"
    private_rows = kind.release in RELEASED
    privacy: dict[str, Any] = {
        "variant": kind.variant,
        "clip_norm": CLIP_NORM,
        **({"max_degree": settings.max_degree, "list_cap": settings.list_cap} if kind.trees else {}),
        **({"epsilon": 8.0} if private_rows else {"noise_multiplier": multiplier(kind, settings, num_train)}),
    }
    if kind.residual:
        privacy |= {"neighbour_clip_ratio": settings.ratio if kind.neighbours else 0.0}
    if kind.components:
        privacy |= {"components": 1, "components_noise": settings.components_noise}
    value: dict[str, Any] = {
        "task": {"dataset": "audit"},
        "method": kind.method,
        "model": {"architecture": architecture, "hops": kind.hops, "width": 3} | settings.model,
        "training": {"optimizer": "sgd", "learning_rate": settings.learning_rate, "steps": settings.steps, **batch},
        "privacy": privacy,
        "seeds": (0,),
    }
    if kind.votes and kind.relation is Relation.NODE_REMOVE:
        capped = kind.variant.startswith("node-remove-capped")  # whose receivers pay next to no budget
        privacy |= {"degree_bound": 1000} | ({"degrees_share": 1e-9, "cap_margin": 20} if capped else {"taper": 1.0})
    if kind.sums and kind.relation is Relation.NODE_REMOVE:
        privacy |= {"degree_bound": 1000}
    if kind.release is not None:
        budget = {"clip": settings.clip, "epsilon_share": 0.5} if private_rows else {}
        value["pagerank"] = {"release": kind.release, **{name: getattr(settings, name) for name in OF_ROWS}, **budget}
    return resolve(value)


def roots_of(kind: Kind, settings: Settings, num_train: int) -> int:
    """Return the number of roots: N, or M for rows of PageRank."""
    return settings.num_rows or num_train if kind.release is not None else num_train


def multiplier(kind: Kind, settings: Settings, num_train: int) -> float:
    """Return the noise multiplier for which the theorem requires the noise std `settings.noise` times C."""
    return settings.noise / std_over_multiplier(kind, settings, num_train)


def batch_size(kind: Kind, settings: Settings, num_train: int) -> int:
    """Return m as set, or by q."""
    return settings.batch_size or max(1, round(settings.rate * roots_of(kind, settings, num_train)))


def std_over_multiplier(kind: Kind, settings: Settings, num_train: int) -> float:
    """Return noise std on the sum, over C times the noise multiplier, by the theorem of the kind."""
    size = batch_size(kind, settings, num_train)
    return theory.std_over_multiplier(
        kind.noise_unit, kind.hops, settings.max_degree, settings.list_cap, num_train, size
    )


def mechanism_of(kind: Kind, settings: Settings, num_train: int, num_protected: int | None = None) -> NoisySteps:
    """Return the mechanism that the method builds, with the noise of the settings."""
    open_ = mechanism_for(cell_of(kind, settings, num_train), num_train, num_protected)
    if not isinstance(open_, NoisySteps):
        raise TypeError(f"{kind.method}: expected a private mechanism")
    closed: dict[str, Any] = {"noise_multiplier": multiplier(kind, settings, num_train)}
    if kind.release in RELEASED:
        closed["release_noise"] = settings.release_noise
    if kind.residual and settings.second_rate:  # cells have one rate for both terms
        closed["neighbour_rate"] = settings.second_rate
    if kind.release == "exponential-values":
        closed["values_epsilon"] = settings.values_epsilon or settings.release_noise
    return type(open_)(**{**dict(open_), **closed})


_PREPARING: ContextVar[Preparing] = ContextVar("preparing", default=prepare_seeded)


@contextmanager
def prepared_by(preparing: Preparing) -> Iterator[None]:
    """Let audits attack steps that are prepared otherwise: with the noise of a release, or with noise on record."""
    token = _PREPARING.set(preparing)
    try:
        yield
    finally:
        _PREPARING.reset(token)


def jobs_of(data: Any, cell: Cell, mechanism: Mechanism, seeds: Sequence[int] = (0,)) -> list[Job]:
    """Return the jobs that the method would get for these seeds, from `make_jobs`.

    The statement of their calibration is not used, and its epsilon takes time.
    """
    calibration = Calibration.model_construct(mechanism=mechanism)
    return make_jobs(data, cell, seeds, calibration, CPU, preparing=_PREPARING.get())


def prepared_of(expects: type[P], data: Any, settings: Mapping[str, Any], *counts: int, seed: int = 0) -> P:
    """Return what the method would get for a cell of these settings.

    `counts` are the numbers of records that its mechanism reads.
    """
    cell = resolve({"task": {"dataset": "audit"}, "seeds": (0,), **settings})
    (job,) = jobs_of(data, cell, mechanism_for(cell, *counts), [seed])
    return expected(job.prepared, expects)


def prepared_steps(kind: Kind, settings: Settings, graph: Graph, seeds: Sequence[int] = (0,)) -> list[PreparedStep]:
    """Return what the method would get for these seeds, from `make_jobs`.

    Steps on components, or on rows of one norm, read the records as they are, so that what they do can be seen: the
    projection is public, and norms are of each record alone.
    """
    size = len(graph.train_nodes)
    cell, mechanism = cell_of(kind, settings, size), mechanism_of(kind, settings, size, graph.num_nodes)
    steps = []
    for job in jobs_of(graph, cell, mechanism, seeds):
        if job.prepared is None:
            raise TypeError(f"{kind.method}: a private method without a prepared step")
        if kind.components or kind.votes:
            held = job.prepared.data.features
            records = torch.from_numpy(np.array(job.prepared.data.graph.features, dtype=np.float32)).to(held.dtype)
            job.prepared.data = replace(job.prepared.data, features=records)
        steps.append(job.prepared)
    return steps


def prepared_step(expects: type[P], kind: Kind, settings: Settings, graph: Graph) -> P:
    """Return what the method would get for seed 0."""
    (step,) = prepared_steps(kind, settings, graph)
    return expected(step, expects)
