"""Steps over tuples of a relation: which tuples, batches, negatives, clipping and noise, from the mechanism alone."""

from __future__ import annotations

import torch

from dpgraph.core.errors import invalid
from dpgraph.engine.preparation.base import Order, PreparedStep, procedure
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.families.tuples.mechanism import StaticTuples, TupleSteps
from dpgraph.families.tuples.sampling import Negatives, TupleBatches, capped_tuples, stable_tuples
from dpgraph.families.tuples.steps import RelationStep, TupleModel
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Procedure


class PreparedRelations(PreparedStep):
    """Batches, clip norm and noise of one seed; `step` adds the model."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism, graph = order.mechanism, order.data.graph
        if not isinstance(mechanism, TupleSteps):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over tuples")
        key = order.key("edge lists")
        if isinstance(mechanism, StaticTuples):
            tuples = stable_tuples(graph, mechanism.max_degree, mechanism.list_cap, key)
        else:
            tuples = capped_tuples(graph, mechanism.max_degree, key)
        entities = graph.train_nodes
        if len(tuples) > mechanism.num_roots or len(entities) > mechanism.num_entities:
            found = f"{len(tuples)} tuples of {len(entities)} entities"
            raise invalid("counts", found, f"at most {mechanism.num_roots} of {mechanism.num_entities}, as accounted")
        # Theorem 28: negatives are drawn from all n entities, or in a neighbour from all but the one that is null
        null = mechanism.num_entities - len(entities)
        if tuples.kind is Lists.STABLE_TUPLES and null > 1:
            raise invalid("null entities", null, "at most 1: leave out the ids of entities without text or features")
        self.noise = order.noise(order.noise_std)
        draws = Draws(PoissonSampler(mechanism.num_roots, mechanism.sampling_rate), order.generator("batches"))
        # streams that a captured step opens
        self.device_keys = lambda: tuple(order.secret_key(f"{role} of the device") for role in ("batches", "negatives"))
        negatives = Negatives(entities, mechanism.negatives, order.generator("negatives"))
        self.batches = TupleBatches(tuples, draws, negatives)
        self.generators: dict[str, Generator] = {
            "batches": draws.generator,
            "negatives": negatives.generator,
            "noise": self.noise.generator,
        }
        self.clipped, self.clip_norm = mechanism.shape.clipped, order.privacy.clip_norm
        self.divisor = mechanism.divisor
        self._entities = mechanism.num_entities  # public: a null entity keeps its place
        self._step: RelationStep | None = None

    def step(self, model: TupleModel, optimizer: torch.optim.Optimizer) -> RelationStep:
        """Return the private step of a model."""
        self.trains(model.network)
        device = next(model.network.parameters()).device
        self._step = RelationStep(
            model, optimizer, self.batches, self.clipped, self.clip_norm, self.noise, self.divisor, device
        )
        return self._step

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, read from the objects that drew, clipped and noised."""
        step = self._step
        if step is None:
            return procedure(self.mechanism, (), None, 0.0, 0)
        tuples, draws, negatives = step.batches.tuples, step.batches.draws, step.batches.negatives
        once = negatives.without_replacement
        known = step.clipped in (Clipped.ROOT, Clipped.ROOT_COUNTS)
        sampler = draws.sampler
        term = ClippedSum(
            lists=tuples.kind,
            max_degree=tuples.max_degree,
            list_cap=tuples.list_cap,
            batches=sampler.name if once else Batches.NONE,
            num_roots=sampler.num_roots,
            rate=sampler.rate if isinstance(sampler, PoissonSampler) else None,
            clipped=step.clipped if known else Clipped.NOTHING,
            clip_norms=(step.clip_norm,),
            negatives=negatives.per_tuple,
            num_entities=self._entities,
            draws=draws.count + resumed_at,
        )
        return procedure(self.mechanism, (term,), step.noise, step.divisor, resumed_at)
