"""Checkpoints of a training run: resume with the same random streams, so that a step is never paid for twice.

A resumed run repeats the batches and the noise of the steps after its checkpoint bit by bit: whoever sees both
attempts sees one transcript.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dpgraph.errors import UserError
from dpgraph.files import atomic_path

Generator = np.random.Generator | torch.Generator


class Checkpoint:
    """File at `path` for the run that `identity` names (hash of cell and seed); saved at most every `every_seconds`."""

    def __init__(self, path: Path, identity: str, every_seconds: float = 60.0) -> None:
        self.path, self.identity, self.every = Path(path), identity, every_seconds
        self.last = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self.last >= self.every

    def save(
        self,
        step: int,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        generators: Mapping[str, Generator],
        rows: list[dict[str, Any]],
    ) -> None:
        """Atomic: the file is always one whole checkpoint."""
        state = {
            "identity": self.identity,
            "step": step,
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "generators": {name: _state(generator) for name, generator in generators.items()},
            "rows": rows,
        }
        with atomic_path(self.path) as temporary:
            torch.save(state, temporary)
        self.last = time.monotonic()

    def restore(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        generators: Mapping[str, Generator],
    ) -> tuple[int, list[dict[str, Any]]]:
        """(finished steps, rows of metrics), and everything else put back in place; (0, []) without a file.

        Raises UserError for a file that is damaged or belongs to another run.
        """
        if not self.path.exists():
            return 0, []
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise UserError(
                f"{self.path}: not a checkpoint ({type(error).__name__}); delete it to start anew"
            ) from error
        if state["identity"] != self.identity or set(state["generators"]) != set(generators):
            raise UserError(f"{self.path}: checkpoint of run {state['identity']}: expected {self.identity}; delete it")
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        for name, generator in generators.items():
            _set_state(generator, state["generators"][name])
        return state["step"], state["rows"]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _state(generator: Generator) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    return dict(generator.bit_generator.state)


def _set_state(generator: Generator, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
