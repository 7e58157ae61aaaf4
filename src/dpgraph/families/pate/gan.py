"""Networks of a semi-supervised GAN (Salimans et al. 2016; the student of PATE, Papernot et al. 2017)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import undrawn
from dpgraph.engine.models.image_convolutions import convolutions, made_sides
from dpgraph.engine.preparation.rows import principal_axes

INPUT_NOISE, HIDDEN_NOISE = 0.3, 0.5  # standard deviations while training, as Salimans et al. have them for MNIST


def dense(read: int, made: int, generator: torch.Generator) -> nn.Linear:
    """Return a linear layer with weights drawn by He's normal law and a bias of 0."""
    layer = undrawn(nn.Linear, read, made)
    with torch.no_grad():
        layer.weight.normal_(0, math.sqrt(2 / max(read, 1)), generator=generator)  # equal images have no axes
        layer.bias.zero_()
    return layer


class FeatureClassifier(nn.Module):
    """Class logits from features of pixels, by a last linear layer; with Gaussian noise where a generator is given."""

    last: nn.Linear

    def features(self, pixels: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the features (n, F') of pixels (n, F)."""
        raise NotImplementedError

    def classify(self, features: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the class logits (n, K) of features (n, F')."""
        return self.last(perturbed(features, HIDDEN_NOISE, noise))  # type: ignore[no-any-return]

    def forward(self, pixels: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the class logits (n, K) of pixels (n, F)."""
        return self.classify(self.features(pixels, noise), noise)


class Discriminator(FeatureClassifier):
    """(n, F) pixels -> K class logits; the class "generated" has logit 0, which loses no generality.

    So 1 - p(generated) = Z / (Z + 1) with Z = sum exp(logits). `features` are what the generator matches.
    """

    def __init__(self, pixels: int, classes: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = dense(pixels, width, generator)
        self.second = dense(width, width // 2 or 1, generator)
        self.last = dense(width // 2 or 1, classes, generator)

    def features(self, pixels: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the features (n, width / 2); a generator adds Gaussian noise to pixels and hidden units."""
        hidden = torch.relu(self.first(perturbed(pixels, INPUT_NOISE, noise)))
        return torch.relu(self.second(perturbed(hidden, HIDDEN_NOISE, noise)))


class ConvolutionalDiscriminator(FeatureClassifier):
    """A discriminator of seven convolutions and two hidden linear layers: PATE's deep network (Zhang, section 3.4.1).

    The first three convolutions have `channels` channels. The linear layers have twice as many units; the units of the
    second one are `features`. Noise is added to the pixels and before linear layers. Weights follow He's normal law;
    there are no batch statistics.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        height, breadth, read = shape
        self.shape, layers = shape, convolutions(7, channels)
        self.convolutions = nn.ModuleList()
        for layer in layers:
            made = undrawn(nn.Conv2d, read, layer.channels, layer.kernel, layer.stride, layer.padding)
            with torch.no_grad():
                made.weight.normal_(0, math.sqrt(2 / (read * layer.kernel**2)), generator=generator)
                nn.init.zeros_(made.bias)  # type: ignore[arg-type]
            self.convolutions.append(made)
            read = layer.channels
        height, breadth = made_sides(height, breadth, layers)
        self.first = dense(read * height * breadth, 2 * channels, generator)
        self.second = dense(2 * channels, 2 * channels, generator)
        self.last = dense(2 * channels, classes, generator)

    def features(self, pixels: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the features (n, 2 channels), with Gaussian noise if a generator is given."""
        height, breadth, depth = self.shape
        states = perturbed(pixels, INPUT_NOISE, noise).reshape(-1, height, breadth, depth).permute(0, 3, 1, 2)
        for layer in self.convolutions:
            states = torch.relu(layer(states))
        hidden = torch.relu(self.first(perturbed(states.flatten(1), HIDDEN_NOISE, noise)))
        return torch.relu(self.second(perturbed(hidden, HIDDEN_NOISE, noise)))


class FrozenSoftmax(nn.Module):
    """(n, F) values -> (n, K) logits, linear in the leading principal components of public records, which are frozen.

    Components are divided by the standard deviation of the first one, so that the others keep their smaller weight.
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, public: Tensor, components: int, classes: int, generator: torch.Generator) -> None:
        """Find the axes of public rows (Q, F): at most `components` of them, and at most F."""
        super().__init__()
        mean, axes = principal_axes(public, components)
        self.register_buffer("mean", mean)
        self.register_buffer("axes", axes)
        self.last = dense(axes.shape[1], classes, generator)

    def forward(self, pixels: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Return the class logits (n, K) of values (n, F), without noise."""
        return self.last((pixels - self.mean) @ self.axes)  # type: ignore[no-any-return]


class ImageGenerator(nn.Module):
    """(n, latent) uniform numbers -> (n, F) pixels in (0, 1), three dense layers (section 3.4.1 of the thesis)."""

    def __init__(self, latent: int, pixels: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.latent = latent
        self.first, self.second = dense(latent, width, generator), dense(width, width, generator)
        self.last = dense(width, pixels, generator)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, track_running_stats=False) for _ in range(2))

    def forward(self, count: int, noise: torch.Generator) -> Tensor:
        """Draw `count` images (count, F)."""
        weight = self.first.weight
        states = torch.rand(count, self.latent, generator=noise, device=weight.device)
        for layer, norm in zip((self.first, self.second), self.norms, strict=True):
            states = nn.functional.softplus(norm(layer(states)))
        return torch.sigmoid(self.last(states))


def perturbed(values: Tensor, std: float, noise: torch.Generator | None) -> Tensor:
    """Return the values with Gaussian noise of this standard deviation; unchanged without a generator."""
    if noise is None:
        return values
    return values + std * torch.randn(values.shape, generator=noise, device=values.device)
