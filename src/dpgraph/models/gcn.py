"""Graph convolution with inverse-degree normalisation (Daigavane et al., App. E)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgraph.models.dense import Activation, Dense, apply_layer, lecun_normal
from dpgraph.sampling.ego import Hop


class GcnLayer(nn.Module):
    """h'_u = m_u + act(W m_u + b), with m_u the mean of h over {u} and E_u: the operator (d + I)^-1 (A + I).

    The skip connection is the authors' released code; the paper's text does not mention it.
    """

    def __init__(self, width: int, activation: Activation, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = lecun_normal(width, width, generator, dtype)
        self.activation = activation

    def forward(self, rows: Tensor, hop: Hop, level: int, dense: Dense = apply_layer) -> Tensor:
        """(n_(level+1), width) states of the deeper level -> (n_level, width)."""
        return self.update(mean_over_segments(rows, hop), level, dense)

    def update(self, mean: Tensor, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        return mean + self.activation(dense(self.linear, mean, level))


def mean_over_segments(rows: Tensor, hop: Hop) -> Tensor:
    """(n_(l+1), d) -> (n_l, d); every segment holds at least its own node."""
    if hop.columns is None:
        return _MeanOfRuns.apply(rows, hop.ptr)  # type: ignore[no-any-return]
    return nn.functional.embedding_bag(hop.columns, rows, hop.ptr, mode="mean", include_last_offset=True)


class _MeanOfRuns(torch.autograd.Function):
    """Mean of runs of consecutive rows; the operator's own backward pass would sort and scatter in vain."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, rows: Tensor, ptr: Tensor) -> Tensor:
        ctx.save_for_backward(ptr)
        ctx.length = len(rows)  # type: ignore[attr-defined]
        each = torch.arange(len(rows), device=rows.device)
        return nn.functional.embedding_bag(each, rows, ptr, mode="mean", include_last_offset=True)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:
        (ptr,) = ctx.saved_tensors  # type: ignore[attr-defined]
        lengths = ptr.diff()
        share = gradients[0] / lengths.unsqueeze(1)
        length = ctx.length  # type: ignore[attr-defined]
        return torch.repeat_interleave(share, lengths, dim=0, output_size=length), None
