"""Sums of clipped per-root gradients (Algorithm 4 of Daigavane et al.), exact, without forming a single gradient.

Guarantees, for every batch, features, labels and parameters:

1. The result is sum_v c_v grad_v over the batch's roots, where grad_v depends on root v's ego tree, labels and the
parameters only, up to the rounding of states (docs/privacy/shared.md, "Not covered"). 2. c_v = min(1, C / n_v), for all
parameters jointly or for each group with its own C, where n_v is ||grad_v|| enlarged by more than its own rounding
error (`training.precision.enlarged_norms`), so that a contribution does not exceed C where the rows of a tree cancel,
or where squares of their numbers underflow. Where matrices are multiplied with rounded operands (tf32, bf16), it is
enlarged by what that can add to a contribution, too (docs/privacy/shared.md, Theorem 2). Rounding of the sum itself is
outside of this. 3. A root whose gradient is not finite, or whose squared norm overflows, contributes exactly 0 to every
group and is counted (`dropped`). So the bound holds for any input, and one root cannot poison the sum. The count is
private.

Norms, losses and counts are computed from private data: diagnostics for research, outside of every epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.config.cell import LEAST_CLIP_NORM
from dpgraph.core.errors import invalid
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees, upload
from dpgraph.engine.training.captured.slot_batch import NO_LABEL
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.network import Parts, first_rows, has_closed_form, neighbour_parts, root_parts
from dpgraph.engine.training.fused.records import DenseRecords
from dpgraph.engine.training.fused.shared import groups
from dpgraph.engine.training.ghost import LAYERS, Recorder, RootGradients
from dpgraph.engine.training.precision import enlarged_norms

ClipNorms = float | Mapping[str, float]  # one for all parameters jointly, or one for each parameter group

# Losses (B,) of the roots of a batch; every forward pass goes through the recorder.
RootLosses = Callable[[Network, EgoBatch, Tensor, Tensor, Recorder], Tensor]


Part = tuple[np.ndarray, Mapping[nn.Module, RootGradients], Tensor]  # places in the batch, by layer, (b,) losses

# Gradients of a batch's roots in parts: network, trees, positions, features, labels, losses, inputs.
Engine = Callable[[Network, EgoTrees, np.ndarray, Tensor, Tensor, RootLosses, TreeInputs | None], Iterator[Part]]


@dataclass(frozen=True)
class ClippedGradients:
    """The clipped sum over a batch of B roots; L = 1 for joint clipping, else the number of parameter groups."""

    sums: list[Tensor]  # per parameter, in the network's parameter order
    parts: list[tuple[np.ndarray, Tensor, Tensor, Tensor]]  # places, squared norms (b, L), losses, whether finite

    @cached_property
    def norms(self) -> Tensor:
        """(B, L) before clipping, in the order of the batch."""
        places, squared = np.concatenate([part[0] for part in self.parts]), torch.cat([part[1] for part in self.parts])
        return squared[upload(np.argsort(places), squared.device)].sqrt()

    @cached_property
    def loss(self) -> Tensor:
        """() the sum of the roots' losses."""
        return torch.cat([values for _, _, values, _ in self.parts]).sum()

    @cached_property
    def dropped(self) -> Tensor:
        """() int64, the roots that contribute 0 because their gradient is not finite."""
        return (~torch.cat([finite for *_, finite in self.parts])).sum()


def root_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the (B,) cross-entropies; 0 without a gradient for a root without a label (-1), a null record."""
    return nn.functional.cross_entropy(logits, labels, reduction="none", ignore_index=NO_LABEL)


def root_losses(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
    """Return the (B,) cross-entropies of the roots' logits."""
    logits = network(batch, features, recorder.on(batch))
    return root_cross_entropy(logits, labels[batch.roots])


def neighbour_losses(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
    """Return the (B,) losses of the tree minus those of the root alone; their gradients are g_full - g_self.

    Both share the encoding of the root, so that the encoder runs once. For the sum of g_self itself use `root_losses`
    on trees of empty lists: then not even the order of the sum depends on neighbours.
    """
    dense = recorder.on(batch)
    states = network.encode(batch, features, dense)
    full = network.classify(states, batch, dense)
    alone = batch.without_messages()
    own = network.classify(states.index_select(0, batch.own), alone, recorder.on(alone))
    target = labels[batch.roots]
    return root_cross_entropy(full, target) - root_cross_entropy(own, target)


def clipped_gradient_sum(
    network: Network,
    trees: EgoTrees,
    positions: np.ndarray,
    features: Tensor,
    labels: Tensor,
    clip_norms: ClipNorms,
    losses: RootLosses = root_losses,
    inputs: TreeInputs | None = None,
    engine: Engine | None = None,
) -> ClippedGradients:
    """Return the sum of the clipped gradients of a batch's roots; it is not divided by the batch size.

    Args:
        network: The network, whose layers `training.ghost` knows.
        trees: The ego trees of all roots.
        positions: (B,) the batch's roots, as positions in `trees`; may be empty.
        features: (N, F) of all nodes, on the network's device.
        labels: (N,) of all nodes, on the network's device; -1 for none.
        clip_norms: C for all parameters jointly, or one for each parameter group, in gradient units.
        losses: The loss of each root.
        inputs: Products of records that are known before.
        engine: Forms the gradients; None for this module's own closed forms.

    Returns:
        The sums in the network's parameter order, norms before clipping, the loss, and the count of dropped roots.

    Raises:
        UserError: A clip norm is below `LEAST_CLIP_NORM` or not finite, or the groups differ from the network's.
    """
    column, limits = clip_columns(network, clip_norms)
    sums: dict[Tensor, Tensor] = {parameter: torch.zeros_like(parameter) for parameter in network.parameter_list}
    first = network.parameter_list[0]
    empty = first.new_empty(0)
    parts = [(np.empty(0, dtype=np.int64), empty.view(0, len(limits)), empty, empty.bool())]
    bounds = torch.tensor(limits, dtype=first.dtype).to(first.device, non_blocking=True)
    forms = engine or _root_gradients
    for places, by_layer, values in forms(network, trees, positions, features, labels, losses, inputs):
        squared, factors, finite = clip_factors(by_layer, values, column, bounds)
        lost = finite if may_lose(finite) else None
        for layer, gradients in by_layer.items():
            gradients.add_weighted(sums, factors[:, column[layer]], lost)
        parts.append((places, squared, values, finite))
        del by_layer, gradients  # before the next part is computed: they are the most of its memory
    return ClippedGradients(list(sums.values()), parts)


def gradient_sum(
    network: Network,
    trees: EgoTrees,
    positions: np.ndarray,
    features: Tensor,
    labels: Tensor,
    inputs: TreeInputs | None = None,
) -> list[Tensor]:
    """Return the gradient of the sum of the roots' cross-entropies, without privacy, in the network's parameter order.

    The network's gradients must have closed forms (`training.fused`).
    """
    sums: dict[Tensor, Tensor] = {parameter: torch.zeros_like(parameter) for parameter in network.parameter_list}
    for _, by_layer, _ in _root_gradients(network, trees, positions, features, labels, root_losses, inputs):
        for gradients in by_layer.values():
            gradients.add_weighted(sums, None, None)
    return list(sums.values())


def gradient_norms(
    network: Network, trees: EgoTrees, positions: np.ndarray, features: Tensor, labels: Tensor
) -> Tensor:
    """Return the (B, groups) gradient norms of the roots per parameter group, in the order of `positions`.

    Daigavane et al. clip at the 75th percentile of these at initialisation; the percentile is private and not charged.
    """
    column = _columns_of_groups(network)
    norms = next(network.parameters()).new_empty(len(positions), len(network.groups))
    inputs = TreeInputs(trees, features)
    for places, by_layer, values in _root_gradients(network, trees, positions, features, labels, root_losses, inputs):
        squared, _ = _squared_norms(by_layer, values, column, norms.shape[1])
        norms[upload(places, norms.device)] = squared.sqrt()
        del by_layer
    return norms


CLOSED_FORMS: dict[RootLosses, Callable[..., Parts]] = {  # network, batch, its records, labels
    root_losses: root_parts,
    neighbour_losses: neighbour_parts,
}


def _root_gradients(
    network: Network,
    trees: EgoTrees,
    positions: np.ndarray,
    features: Tensor,
    labels: Tensor,
    losses: RootLosses,
    inputs: TreeInputs | None = None,
) -> Iterator[Part]:
    """Yield the gradients of the batch's roots in parts, by closed forms where the engine knows all layers.

    A part without roots adds the sums by node of the parts before it (`training.fused.shared`).
    """
    fused = CLOSED_FORMS.get(losses) if has_closed_form(network) else None
    if fused is None:
        unknown = {type(m).__name__ for m in network.layers if not isinstance(m, LAYERS)}
        if unknown:
            known = ", ".join(layer.__name__ for layer in LAYERS)
            raise TypeError(f"layer {', '.join(sorted(unknown))}: expected parameters of {known} only")
        for batch in trees.chunks(positions):
            yield _recorded(network, batch, features, labels, losses)
        return
    for group in groups(network, trees, positions, features):
        shared = group.shared(network, DenseRecords(features) if inputs is None else inputs.records)
        for batch in group.pieces:
            records = first_rows(batch, features, trees.rank[positions[batch.places]], inputs, shared)
            yield batch.places, *fused(network, batch, records, labels)
        if shared is not None:
            yield np.empty(0, dtype=np.int64), {shared.layer: shared}, features.new_empty(0)


def _recorded(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, losses: RootLosses) -> Part:
    recorder = Recorder()
    values = losses(network, batch, features, labels, recorder)
    return batch.places, recorder.gradients(values), values.detach()


def clip_factors(
    by_layer: Mapping[nn.Module, RootGradients], values: Tensor, column: dict[nn.Module, int], limits: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (B, L) squared norms, (B, L) factors c_v of guarantees 2 and 3, and (B,) whether a gradient is finite.

    `limits` are the clip norms C, (L,) or (B, L).
    """
    squared, scale = _squared_norms(by_layer, values, column, limits.shape[-1])
    enlarged = enlarged_norms(squared, scale)
    finite = torch.isfinite(enlarged).all(1)
    return squared, torch.clamp_max(limits / enlarged, 1).masked_fill_(~finite.unsqueeze(1), 0), finite


def _squared_norms(
    by_layer: Mapping[nn.Module, RootGradients], values: Tensor, column: dict[nn.Module, int], columns: int
) -> tuple[Tensor, Tensor]:
    """Return the (B, L) squared norms and their rounding scales."""
    squared = [values.new_zeros(len(values))] * columns
    scale = list(squared)
    for layer, gradients in by_layer.items():
        norm, magnitude = gradients.squared_norms()
        place = column[layer]
        squared[place] = squared[place] + norm
        scale[place] = scale[place] + magnitude
    return torch.stack(squared, 1), torch.stack(scale, 1)


def may_lose(finite: Tensor) -> bool:
    """Return whether a root may have to be left out; on a GPU True, because an answer would wait for the device."""
    return finite.is_cuda or not bool(finite.all())


def clip_columns(network: Network, clip_norms: ClipNorms) -> tuple[dict[nn.Module, int], list[float]]:
    """Return the column of norms of each layer, and the clip norm of each column."""
    if isinstance(clip_norms, Mapping):
        groups = network.groups
        if set(clip_norms) != set(groups):
            raise invalid("clip_norm", sorted(clip_norms), f"one for each group {sorted(groups)}")
        limits = [float(clip_norms[name]) for name in groups]
        column = _columns_of_groups(network)
    else:
        limits = [float(clip_norms)]
        column = dict.fromkeys(network.layers, 0)
    for limit in limits:
        if not LEAST_CLIP_NORM <= limit < np.inf:
            raise invalid("clip_norm", limit, f"a finite number >= {LEAST_CLIP_NORM:g}")
    return column, limits


def _columns_of_groups(network: Network) -> dict[nn.Module, int]:
    column = {layer: i for i, layers in enumerate(network.groups.values()) for layer in layers}
    if set(column) != set(network.layers):
        raise TypeError("every parameter must belong to a layer of one parameter group")
    return column
