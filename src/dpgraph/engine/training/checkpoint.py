"""Checkpoints of a training run: resume with the same random streams, so that a step is never charged twice.

A resumed run repeats the batches and the noise of the steps after its checkpoint bit by bit: anyone who sees both
attempts sees one transcript. This also holds for a run that starts again from the beginning: a checkpoint that cannot
be used, because it is damaged or was written on another kind of device, is put aside, and the run begins again with
step 1 and the same random streams. The broken attempt has released no result: its files are replaced, not extended.
"""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import atomic_path

log = logging.getLogger("dpgraph")
Generator = np.random.Generator | torch.Generator
VARIABLE = "DPGRAPH_CHECKPOINT_SECONDS"
SECONDS = 60.0
HASH_BYTES = 32  # a file begins with the SHA-256 of the rest: torch.load sees a cut, but no flipped bit


def seconds_between(environ: Mapping[str, str]) -> float:
    """Return the seconds between two checkpoints: 60, or DPGRAPH_CHECKPOINT_SECONDS; 0 saves after every step."""
    text = environ.get(VARIABLE) or str(SECONDS)
    try:
        if (value := float(text)) >= 0:
            return value
    except ValueError:
        pass
    raise invalid(VARIABLE, text, "a number of seconds >= 0")


class Checkpoint:
    """The file at `path` for the run that `identity` names (hash of cell and seed).

    Saved at most every `every_seconds`; None: as the environment sets it.
    """

    def __init__(self, path: Path, identity: str, every_seconds: float | None = None) -> None:
        self.path, self.identity = Path(path), identity
        self.every = seconds_between(os.environ) if every_seconds is None else every_seconds
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
        """Save one whole checkpoint, atomically. Raise OSError where the disk is full."""
        buffer = io.BytesIO()  # torch's own writer hides why a disk took no more
        state = {"identity": self.identity, "step": step, "rows": rows}
        torch.save(state | _state(network, optimizer, generators), buffer)
        with atomic_path(self.path) as temporary, temporary.open("wb") as file:
            file.write(hashlib.sha256(buffer.getbuffer()).digest())
            file.write(buffer.getbuffer())
        self.last = time.monotonic()

    def restore(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, generators: Mapping[str, Generator]
    ) -> tuple[int, list[dict[str, Any]]]:
        """Put the saved state back in place; return the finished steps and the rows of metrics.

        Returns (0, []) without a usable file. Raises UserError for a whole checkpoint of another run, OSError for a
        file that cannot be read.
        """
        if not self.path.exists():
            return 0, []
        content = self.path.read_bytes()
        before = copy.deepcopy(_state(network, optimizer, generators))
        try:
            state = self._parsed(content)
            _put_back(state, network, optimizer, generators)
        except UserError:
            raise
        except Exception as error:  # whatever is wrong with the bytes, torch may meet it anywhere
            _put_back(before, network, optimizer, generators)
            aside = self.path.with_name(f"{self.path.name}.unusable")
            os.replace(self.path, aside)
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            log.warning("%s: not usable (%s): moved aside, training starts from the beginning", self.path, reason)
            return 0, []
        return state["step"], state["rows"]

    def _parsed(self, content: bytes) -> dict[str, Any]:
        digest, rest = content[:HASH_BYTES], content[HASH_BYTES:]
        if hashlib.sha256(rest).digest() != digest:
            raise ValueError("damaged")
        state = torch.load(io.BytesIO(rest), map_location="cpu", weights_only=True)
        if state["identity"] != self.identity:
            raise UserError(f"{self.path}: checkpoint of run {state['identity']}: expected {self.identity}; delete it")
        return state

    def remove(self) -> None:
        """Remove the file, and the unusable one that `restore` has put aside."""
        self.path.unlink(missing_ok=True)
        self.path.with_name(f"{self.path.name}.unusable").unlink(missing_ok=True)


def _state(network: nn.Module, optimizer: torch.optim.Optimizer, generators: Mapping[str, Generator]) -> dict[str, Any]:
    return {
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generators": {name: _state_of(generator) for name, generator in generators.items()},
    }


def _put_back(
    state: Mapping[str, Any], network: nn.Module, optimizer: torch.optim.Optimizer, generators: Mapping[str, Generator]
) -> None:
    if set(state["generators"]) != set(generators):
        raise ValueError(f"random streams {', '.join(state['generators'])}: expected {', '.join(generators)}")
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    for name, generator in generators.items():
        _set_state(generator, state["generators"][name])


def _state_of(generator: Generator) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    return dict(generator.bit_generator.state)


def _set_state(generator: Generator, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
