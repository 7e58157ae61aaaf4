"""Cost of private steps against the step without privacy, on batches of one size, in one process.

`python -m bench.steps --out steps.csv [--device cuda] [--graph FOLDER]`
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cyclopts
import numpy as np
import torch
from torch import Tensor

from bench.measuring import write_rows
from dpgraph.config.cell import Model, Task, Training
from dpgraph.core.progress import tracked
from dpgraph.core.randomness import Key, numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.registry import DatasetEntry, Expected, Licence
from dpgraph.data.store import load_graph
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.batches import Draws, FixedSizeSampler, PoissonSampler
from dpgraph.engine.sampling.edge_lists import empty_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import EgoBatch, pack_ego_trees
from dpgraph.engine.training.captured.dispatch import why_not_captured
from dpgraph.engine.training.captured.plain import CapturedTrees
from dpgraph.engine.training.captured.program import AHEAD, CapturedProgram
from dpgraph.engine.training.captured.step import CapturedStep
from dpgraph.engine.training.clipping import RootLosses, neighbour_losses, root_losses
from dpgraph.engine.training.ghost import Recorder
from dpgraph.engine.training.loop import keep_freed_memory
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.precision import products_in
from dpgraph.engine.training.steps import ClippedTerm, PlainStep, PrivateStep, Step
from dpgraph.problems.node_classification.prepare import build

NODES, FEATURES, CLASSES = 169_343, 128, 40  # ogbn-arxiv


@dataclass(frozen=True)
class StepSetting:
    architecture: str
    hops: int
    max_degree: int
    batch_size: int
    decoder_layers: int = 2


SETTINGS = (
    StepSetting("mlp", 0, 1, 10_000),
    *(
        setting
        for kind in ("gcn", "gin", "gat")
        for setting in (StepSetting(kind, 1, 7, 10_000), StepSetting(kind, 2, 3, 20_000, decoder_layers=1))
    ),
)
COLUMNS = (
    *("architecture", "hops", "max_degree", "batch_size", "decoder_layers", "step", "device", "threads", "repeats"),
    *("wall_ms", "cpu_ms", "ratio", "of_autograd", "peak_mib", "note"),
)
Precision = Literal["float32", "tf32"]
CAPTURED = " captured"  # of a step's name: its program of fixed shapes, and how it runs
NOT_CAPTURED = "not captured: no CUDA device; call by call"
AUTOGRAD = " by autograd"  # of a step's name: the same one, with recorded rows instead of closed forms


def bench(
    out: Path,
    device: str = "cpu",
    repeats: int = 7,
    nodes: int = NODES,
    settings: tuple[StepSetting, ...] = SETTINGS,
    folder: Path | None = None,
) -> list[dict[str, Any]]:
    """Write one row for each setting and step as CSV; medians over interleaved repeats.

    On the stored graph in `folder`, or a synthetic one of `nodes`. Steps: `plain` without privacy; `private` with one
    clipped sum; `residual` with two batches, g_self and g_full - g_self; and each of them by autograd. `ratio` is
    against `plain`, `of_autograd` against the same step by autograd: of CPU times on a CPU, which other processes
    disturb least, else of wall times. `peak_mib` is the most memory that one step holds beyond what it starts with.
    Those `captured` are programs of fixed shapes, the private one with Poisson batches of the same mean size: captured
    and replayed on a GPU, there also compiled and in tf32; on a CPU call by call, as `note` says.
    """
    keep_freed_memory()
    graph = synthetic_graph(nodes) if folder is None else load_graph(folder)
    rows = [
        row
        for setting in tracked(settings, "bench", len(settings), "setting")
        for row in _measure(graph, torch.device(device), repeats, setting)
    ]
    write_rows(out, COLUMNS, rows)
    return rows


def synthetic_graph(nodes: int, classes: int = CLASSES) -> Graph:
    """Return a graph with the degrees, features and classes of ogbn-arxiv."""
    model = BlockModel(name="bench", nodes=nodes, classes=classes, features=FEATURES)
    known = DatasetEntry(
        title="bench",
        home="",
        licence=Licence(name="generated"),
        citation="",
        reader="sbm",
        expected=Expected(classes=classes),
    )
    return build(Task(dataset="bench", split="random-54-18-28"), known, generate(model))


def interleaved(steps: Mapping[str, Step], device: torch.device, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return wall and CPU seconds of each step, one after the other in each repeat; the first of each warms up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for repeat in range(repeats + 1):
        for name, step in steps.items():
            calls = AHEAD if CAPTURED in name and device.type == "cuda" else 1  # with one draw of all their batches
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if repeat:
                times[name].append(((time.perf_counter() - wall) / calls, (time.process_time() - cpu) / calls))
    return times


def _measure(graph: Graph, device: torch.device, repeats: int, setting: StepSetting) -> list[dict[str, Any]]:
    steps = make_steps(graph, device, setting)
    medians = {
        name: tuple(1e3 * statistics.median(one) for one in zip(*spent, strict=True))
        for name, spent in interleaved(steps, device, repeats).items()
    }
    kind = 0 if device.type == "cuda" else 1
    shared = {
        **vars(setting),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "repeats": repeats,
    }
    return [
        {
            **shared,
            "step": name,
            "wall_ms": round(medians[name][0], 2),
            "cpu_ms": round(medians[name][1], 2),
            "ratio": round(medians[name][kind] / medians["plain"][kind], 3),
            "of_autograd": round(medians[name][kind] / medians[_by_autograd(name)][kind], 3),
            "peak_mib": round(peak_bytes(step, device) / 2**20, 1),
            "note": NOT_CAPTURED if CAPTURED in name and device.type == "cpu" else "",
        }
        for name, step in steps.items()
    ]


def _by_autograd(name: str) -> str:
    return name.split()[0] + AUTOGRAD


def make_steps(
    graph: Graph, device: torch.device, setting: StepSetting, width: int = 256, seed: int = 0
) -> dict[str, Step]:
    """Return the steps of a setting by name, each with its network."""
    roots, size = graph.train_nodes, min(setting.batch_size, len(graph.train_nodes))
    empty = empty_edge_lists(graph)
    lists = stable_edge_lists(graph, roots, setting.max_degree, setting.max_degree, key=0) if setting.hops else empty
    trees = pack_ego_trees(lists, roots, setting.hops, device)
    features = torch.from_numpy(np.array(graph.features)).to(device)
    labels = torch.from_numpy(np.array(graph.labels)).to(device)
    model = Model(
        architecture=setting.architecture,  # type: ignore[arg-type]
        hops=setting.hops,
        decoder_layers=setting.decoder_layers,
        width=width,
    )
    sampler = FixedSizeSampler(len(roots), size)
    training = Training(optimizer="adam", learning_rate=0.003, steps=1)

    def trained(capturable: bool = False) -> tuple[Network, torch.optim.Optimizer]:
        network = Network(model, graph.num_features, graph.num_classes, torch_generator("bench", seed)).to(device)
        return network, make_optimizer(network.parameters(), training, capturable=capturable)

    def private(*terms: ClippedTerm, capturable: bool = False) -> PrivateStep:
        noise = GaussianNoise(1.0, torch_generator("bench", "noise", seed, device=device))
        return PrivateStep(*trained(capturable), features, labels, terms, noise, float(size))

    def draws(name: str = "batches") -> Draws:
        return Draws(sampler, numpy_generator("bench", name, seed))

    batches, alone = numpy_generator("bench", "batches", seed), pack_ego_trees(empty, roots, setting.hops, device)
    steps: dict[str, Step] = {}
    for name, root, neighbours, forward in (
        ("", root_losses, neighbour_losses, Network.__call__),
        # functions that no closed form is known for
        (AUTOGRAD, _unknown(root_losses), _unknown(neighbour_losses), lambda *arguments: Network.__call__(*arguments)),
    ):
        steps[f"plain{name}"] = PlainStep(*trained(), trees, features, labels, sampler, batches, forward)
        steps[f"private{name}"] = private(ClippedTerm(trees, draws(), 1.0, root))
        if setting.hops:
            second = ClippedTerm(trees, draws("second"), 0.1, neighbours)
            steps[f"residual{name}"] = private(ClippedTerm(alone, draws(), 1.0, root), second)
    poisson = Draws(PoissonSampler(len(roots), size / len(roots)), numpy_generator("bench", "unused"))
    hows: dict[str, tuple[bool, Precision]] = {"": (False, "float32")}
    if device.type == "cuda":
        hows |= {" in tf32": (False, "tf32"), ", compiled": (True, "float32"), ", compiled, in tf32": (True, "tf32")}
    if why_not_captured(private(ClippedTerm(trees, poisson, 1.0), capturable=True)) is None:
        plain = CapturedTrees(PlainStep(*trained(True), trees, features, labels, sampler, batches))
        steps[f"plain{CAPTURED}"] = _program(plain, False, "float32")
        for how, chosen in hows.items():
            own = CapturedStep(private(ClippedTerm(trees, poisson, 1.0), capturable=True), Key(seed))
            steps[f"private{CAPTURED}{how}"] = _program(own, *chosen)
    return steps


def _program(program: CapturedProgram, compiled: bool, precision: Precision) -> Step:
    """Return the steps of a program from its first one on."""
    program.compiles = compiled
    program.start_at(0)

    def step() -> int:
        with products_in(precision):
            return program()

    return step


def _unknown(losses: RootLosses) -> RootLosses:
    """Return the same losses as a function that the engine does not know by name."""

    def same(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
        return losses(network, batch, features, labels, recorder)

    return same


def peak_bytes(step: Step, device: torch.device) -> int:
    """Return the most bytes of tensors that one step holds at a time, beyond those that it finds."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step()
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return int(np.cumsum([0, *(size for _, size in changes)]).max())


def main(*, out: Path, device: Literal["cpu", "cuda"] = "cpu", graph: Path | None = None) -> None:
    """Measure the cost of private steps against the step without privacy.

    Args:
        out: CSV file.
        device: Where the steps run.
        graph: Folder of a stored graph (default: synthetic, as ogbn-arxiv).
    """
    bench(out, device, folder=graph)


if __name__ == "__main__":
    cyclopts.run(main)
