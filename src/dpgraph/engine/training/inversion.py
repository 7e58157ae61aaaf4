"""Model inversion: an image that a network assigns to a class, found by descent from its parameters alone.

Original: Fredrikson et al. 2015. Enhanced: Zhang 2021, Algorithm 4 and Equations 4.1 to 4.4. Strong: this project's own
attack. No record is read, so the images may be published with the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from dpgraph.core.errors import invalid

FIRST_MOMENT, SECOND_MOMENT, FLOOR = 0.9, 0.999, 1e-8  # beta_1, beta_2, tau


@dataclass(frozen=True)
class Descent:
    """The settings of an attack.

    Without `penalty`, the original attack: plain descent on 1 - f_label within [0, 1] from a black image. Otherwise
    Adam as Algorithm 4 prints it (without correction of the moments' bias, tau under the root) on x = (tanh(w) + 1) / 2
    from a grey image, with lambda = `weight` times the penalty: its mean over pixels, so that one lambda serves images
    of any size, or with `summed` its sum, as Equations 4.2 and 4.4 print it.

    With `strong`, descent on -log f_label, which has a slope where f_label is nearly 0, by Adam as Kingma and Ba print
    it: moments without bias, tau outside the root, so that steps have the size of the learning rate however small the
    slope.
    """

    steps: int
    learning_rate: float
    penalty: Literal["l1", "btv"] | None = None
    weight: float = 0.0  # lambda
    window: int = 2  # p
    decay: float = 0.9  # alpha
    strong: bool = False
    summed: bool = False

    def __post_init__(self) -> None:
        if self.penalty not in (None, "l1", "btv") or (self.strong and self.penalty is None):
            raise invalid("penalty", self.penalty, "l1 or btv")
        if self.steps < 1:
            raise invalid("steps", self.steps, "an integer >= 1")


def reconstructions(network: nn.Module, shape: tuple[int, int, int], classes: int, attack: Descent) -> Tensor:
    """Return (classes, F) an image in [0, 1] for each class; `network` takes (n, F) pixels, channels last.

    All classes are searched at once: no class enters another one's objective, and the descent is separate for each
    pixel.
    """
    device = next(network.parameters()).device
    wanted = torch.arange(classes, device=device)
    height, width, depth = shape
    state = torch.zeros(classes, height * width * depth, device=device)
    first, second = torch.zeros_like(state), torch.zeros_like(state)
    for step in range(1, attack.steps + 1):
        state.requires_grad_(True)
        images = state if attack.penalty is None else (torch.tanh(state) + 1) / 2
        logits = network(images)
        if attack.strong:
            cost = -torch.log_softmax(logits, dim=1)[wanted, wanted]
        else:
            cost = 1 - torch.softmax(logits, dim=1)[wanted, wanted]
        if attack.penalty is not None:
            cost = cost + attack.weight * penalties(images.view(-1, *shape), attack)
        (slope,) = torch.autograd.grad(cost.sum(), state)
        with torch.no_grad():
            state = state.detach()
            if attack.penalty is None:
                state = (state - attack.learning_rate * slope).clamp_(0, 1)
                continue
            first = FIRST_MOMENT * first + (1 - FIRST_MOMENT) * slope
            second = SECOND_MOMENT * second + (1 - SECOND_MOMENT) * slope**2
            if attack.strong:
                unbiased = first / (1 - FIRST_MOMENT**step), second / (1 - SECOND_MOMENT**step)
                state = state - attack.learning_rate * unbiased[0] / (torch.sqrt(unbiased[1]) + FLOOR)
            else:
                state = state - attack.learning_rate * first / torch.sqrt(second + FLOOR)
    return state if attack.penalty is None else (torch.tanh(state) + 1) / 2


def penalties(images: Tensor, attack: Descent) -> Tensor:
    """Return the (n,) penalties of images (n, height, width, channels): mean or sum over pixels.

    The L1 norm |x|_1, or the bilateral total variation (BTV, Eq. 4.3). BTV adds decay^(m + l) |x - S_x^l S_y^m x|_1
    over shifts l in -p..p, m in 0..p with m + l >= 0. A shift compares the part that lies within both images.
    """
    if attack.penalty == "l1":
        return images.abs().sum(dim=(1, 2, 3)) if attack.summed else images.abs().mean(dim=(1, 2, 3))
    height, width = images.shape[1:3]
    total = images.new_zeros(len(images))
    for across in range(-attack.window, attack.window + 1):
        for down in range(max(0, -across), attack.window + 1):
            if (across, down) == (0, 0):
                continue
            left, right = max(0, across), max(0, -across)
            moved = images[:, : height - down, right : width - left]
            fixed = images[:, down:, left : width - right]
            total = total + attack.decay ** (down + across) * (fixed - moved).abs().sum(dim=(1, 2, 3))
    return total if attack.summed else total / images[0].numel()
