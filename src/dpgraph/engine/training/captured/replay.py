"""Programs of fixed shapes that a CUDA device captures once and replays (`torch.cuda.CUDAGraph`).

A replayed step is a few calls of the driver. On a CPU the same program runs call by call, which is how it is tested.
With `DPGRAPH_COMPILED_STEPS=1` in the environment, PyTorch's compiler first joins the element-wise calls of a program.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dpgraph.engine.training.fused.passes import LOOPS


def compiles() -> bool:
    """Return whether programs are compiled before they are captured."""
    return os.environ.get("DPGRAPH_COMPILED_STEPS") == "1"


@torch.no_grad()
def compiled(part: Callable[[], None], compiler: Callable[..., Any] | None = None) -> Callable[[], None]:
    """Return a part of a program as PyTorch's compiler gives it, equal up to rounding.

    The part has fixed shapes, reads no generator, and may be run more than once: first to compute what it keeps, then
    to record its calls. Inductor takes these, not their Python code; what it makes stays in the user's cache folder.
    """
    import torch._inductor

    def record() -> Any:
        LOOPS.set(False)
        part()
        return make_fx(lambda: part())()  # a bound method would be recorded with its object

    recorded = copy_context().run(record)
    return torch.no_grad()((compiler or torch._inductor.compile)(recorded, []))  # type: ignore[no-any-return]


class Replay:
    """Programs by their keys; each is captured when it is called for the second time."""

    def __init__(self, device: torch.device, generators: Collection[torch.Generator]) -> None:
        """Keep the device, and the generators that programs draw from."""
        self.device, self.generators = device, generators
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._warm: set[Hashable] = set()
        self._pool: Any = None  # memory that programs share: one runs at a time

    def run(self, program: Callable[[], None], key: Hashable = None) -> bool:
        """Run the program of a key once; return False if it was replayed without its Python code."""
        if self.device.type != "cuda":
            program()
            return True
        if key in self._graphs:
            self._graphs[key].replay()
            return False
        if key not in self._warm:  # its first call warms up, as a capture needs, and draws no number twice
            with _beside(self.device):
                program()
            self._warm.add(key)
            return True
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        self._pool = self._pool or torch.cuda.graph_pool_handle()  # all results that last are outside of it
        with _nothing_collected(), torch.cuda.graph(graph, pool=self._pool):
            program()
        self._graphs[key] = graph
        graph.replay()
        return True


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep Python's collector from an older program: the driver ends a capture in which it frees a graph."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _beside(device: torch.device) -> Iterator[None]:
    """Run on a stream of its own that waits for the current one, which then waits for it."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)
