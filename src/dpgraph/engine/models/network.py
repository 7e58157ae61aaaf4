"""The networks of the benchmark: encoder MLP, r message-passing layers, decoder MLP (Daigavane et al., section 6)."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn

from dpgraph.config.cell import Model
from dpgraph.engine.models.dense import ACTIVATIONS, Dense, Dropout, Mlp, apply_layer
from dpgraph.engine.models.message_passing import GatLayer, GcnLayer, GinLayer
from dpgraph.engine.models.segments import Segments
from dpgraph.engine.sampling.ego import EgoBatch


class LayeredModule(nn.Module):
    """A module whose layers and parameters stay the same objects, and are looked up once."""

    @cached_property
    def layers(self) -> list[nn.Module]:
        """The layers with parameters of their own, in parameter order."""
        return owners(self)

    @cached_property
    def parameter_list(self) -> list[nn.Parameter]:
        """The parameters in their order."""
        return list(self.parameters())


class Network(LayeredModule):
    """Logits of the roots of a batch of ego trees; all parameters belong to the layers of `models.dense` or PyTorch.

    The encoder's n_enc layers are all activated; the last of the decoder's n_dec layers gives the logits. The `mlp`
    architecture is encoder and decoder alone and reads the roots' own features only. Without an encoder and with one
    decoder layer it is softmax regression.
    """

    def __init__(
        self,
        model: Model,
        num_features: int,
        num_classes: int,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        masks: torch.Generator | None = None,
    ) -> None:
        """Draw initial parameters from `generator` on the CPU, so that they are equal on all devices.

        Dropout draws its `masks` on the device of the features.
        """
        super().__init__()
        width, act = model.width, ACTIVATIONS[model.activation]
        self.drop = drop = Dropout(model.dropout, masks)
        self.hops = model.hops
        self.encoder = Mlp([num_features] + [width] * model.encoder_layers, act, True, generator, dtype, drop)
        self.aggregation = nn.ModuleList(_message_passing(model, generator, dtype) for _ in range(model.hops))
        first = width if model.encoder_layers else num_features
        sizes = [first] + [width] * (model.decoder_layers - 1) + [num_classes]
        self.decoder = Mlp(sizes, act, False, generator, dtype, drop)

    @cached_property
    def groups(self) -> dict[str, list[nn.Module]]:
        """The layers with parameters by parameter group, in parameter order; a group without any is left out."""
        parts = {"encoder": self.encoder, "aggregation": self.aggregation, "decoder": self.decoder}
        groups = {name: owners(part) for name, part in parts.items()}
        return {name: layers for name, layers in groups.items() if layers}

    def forward(self, batch: EgoBatch, features: Tensor, dense: Dense = apply_layer) -> Tensor:
        """Return the logits (B, classes) from the features (N, F) of all nodes; `dense` applies every layer."""
        return self.classify(self.encode(batch, features, dense), batch, dense)

    def encode(self, batch: EgoBatch, features: Tensor, dense: Dense = apply_layer) -> Tensor:
        """Return the states (n_r, width) of the deepest rows: functions of each row's own features."""
        return self.encoder(features[batch.nodes], self.hops, dense)

    def classify(self, states: Tensor, batch: EgoBatch, dense: Dense = apply_layer) -> Tensor:
        """Return the logits (B, classes) from the states (n_r, width) of the deepest rows."""
        for layer, level in zip(self.aggregation, reversed(range(self.hops)), strict=True):
            states = self.drop(layer(states, Segments.of_level(batch, level), level, dense))
        return self.decoder(states, 0, dense)

    def on_graph(self, features: Tensor, segments: Segments | None, dense: Dense = apply_layer) -> Tensor:
        """Return the states (N, width) of all nodes after the last message, from features (N, F).

        `segments` are the closed lists of all nodes.
        """
        states = self.encoder(features, self.hops, dense)
        for layer in self.aggregation:
            states = self.drop(layer(states, segments))
        return states


def _message_passing(model: Model, generator: torch.Generator, dtype: torch.dtype) -> nn.Module:
    act = ACTIVATIONS[model.activation]
    if model.architecture == "gat":
        return GatLayer(model.width, model.heads, act, generator, dtype)
    kind = {"gcn": GcnLayer, "gin": GinLayer}[model.architecture]
    return kind(model.width, act, generator, dtype)


def owners(network: nn.Module) -> list[nn.Module]:
    """Return the modules with parameters of their own, in parameter order."""
    return [module for module in network.modules() if next(module.parameters(recurse=False), None) is not None]
