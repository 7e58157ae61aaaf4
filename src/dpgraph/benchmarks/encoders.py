"""Fine-tuning of a suite's encoders with privacy and without it, on the same batches of the suite's own tuples.

What a suite does not run for want of compute, it says how long would take: from the speeds that are measured here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from dpgraph.benchmarks.steps import interleaved, peak_bytes
from dpgraph.data.graph import Graph
from dpgraph.errors import UserError
from dpgraph.experiments.paths import Paths
from dpgraph.files import atomic_path
from dpgraph.methods.tuples.train import loss_of, tower_of
from dpgraph.planning.left_out import cells_to_time
from dpgraph.planning.plan import Plan
from dpgraph.privacy.procedure import Clipped
from dpgraph.problems.registry import problem_of
from dpgraph.progress import progress
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.tuples import Negatives, owned_pairs
from dpgraph.training.noise import GaussianNoise
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.steps import Step
from dpgraph.training.tower_clipping import TowerModel
from dpgraph.training.tuples import PlainRelationStep, RelationStep

TOKENS = 2048  # about, of a batch: seconds on a CPU core
PLAIN, AUTOGRAD, PRIVATE = "plain", "plain by autograd", "private"
COLUMNS = (
    *("dataset", "encoder", "max_tokens", "negatives", "train_tuples", "entities", "tuples", "texts", "inputs"),
    *("step", "device", "threads", "repeats", "wall_ms", "cpu_ms", "ratio", "of_autograd"),
    *("tuples_per_second", "peak_mib", "texts_encoded_per_second", "reason"),
)


@dataclass(frozen=True)
class OneBatch:
    """The same batch (b, 2 + k) at every step, in the place of `TupleBatches`."""

    batch: np.ndarray

    def next(self) -> np.ndarray:
        return self.batch


def bench(plan: Plan, out: Path, device: str = "cpu", repeats: int = 3, tokens: int = TOKENS) -> pd.DataFrame:
    """A row for each of `cells_to_time` and step, written as CSV; medians over interleaved repeats.

    Steps, all on one batch of about `tokens` inputs: `plain`, as it runs here without privacy; `plain by autograd`, one
    pass over all texts and gradients of the mean loss, as training loops elsewhere have it; `private`, every tuple's
    gradient clipped, and noise. `ratio` is against plain, `of_autograd` against plain by autograd, both of CPU times
    on a CPU, else of wall times, and so are the tuples and texts a second. `peak_mib` is the most memory of tensors
    that one step holds beyond what it starts with. Data or an encoder that is not there is a row with its reason.
    """
    where = torch.device("cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu"))
    cells = cells_to_time(plan)
    rows: list[dict[str, Any]] = []
    with progress("bench encoders", len(cells)) as bar:
        for cell in cells.values():
            rows += _measured(cell, Paths(plan.config).graph(cell.task), where, repeats, tokens)
            bar.update()
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    with atomic_path(out) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
    return table


def _measured(cell: Any, folder: Path, device: torch.device, repeats: int, tokens: int) -> Iterator[dict[str, Any]]:
    named = {"dataset": cell.task.dataset, "encoder": cell.model.encoder, "max_tokens": cell.model.max_tokens,
             "negatives": cell.training.negatives}  # fmt: skip
    try:
        working = problem_of(cell.task).working()
        value = working.load(folder, False, 0)
        names = ("bench encoders", cell.task.dataset)
        tower = tower_of(value, cell.model, torch_generator(*names, "parameters")).to(device)
    except UserError as error:  # DataUnavailable is one
        yield named | {"reason": str(error)}
        return
    model = TowerModel(tower, loss_of(cell.training))
    graph: Graph = working.graph(value)
    batch = _batch(model, graph, cell.training.negatives, value.num_private, tokens, numpy_generator(*names))
    steps = _steps(model, batch, cell, device)
    times = interleaved(steps, device, repeats)
    kind = 0 if device.type == "cuda" else 1
    medians = {name: statistics.median(spent[kind] for spent in times[name]) for name in steps}
    texts = batch.reshape(-1)
    shared = {
        **named,
        "train_tuples": len(owned_pairs(graph)),
        "entities": value.num_entities,
        "tuples": len(batch),
        "texts": len(texts),
        "inputs": int(tower.sizes(torch.from_numpy(texts).to(device)).sum()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "texts_encoded_per_second": round(_encoded_per_second(model, value.num_entities, tokens, device), 2),
        "reason": "",
    }
    for name, step in steps.items():
        yield shared | {
            "step": name,
            "wall_ms": round(1e3 * statistics.median(spent[0] for spent in times[name]), 1),
            "cpu_ms": round(1e3 * statistics.median(spent[1] for spent in times[name]), 1),
            "ratio": round(medians[name] / medians[PLAIN], 3),
            "of_autograd": round(medians[name] / medians[AUTOGRAD], 3),
            "tuples_per_second": round(len(batch) / medians[name], 3),
            "peak_mib": round(peak_bytes(step, device) / 2**20, 3),
        }


def _batch(
    model: TowerModel, graph: Graph, negatives: int, entities: int, tokens: int, random: np.random.Generator
) -> np.ndarray:
    """(b, 2 + k) tuples of the training graph, drawn without replacement."""
    pairs = owned_pairs(graph)
    place = next(model.network.parameters()).device
    mean = float(model.network.sizes(torch.arange(entities, device=place)).double().mean())
    most = min(len(pairs), entities // negatives)
    size = int(np.clip(round(tokens / ((2 + negatives) * mean)), 1, most))
    chosen = pairs[random.choice(len(pairs), size, replace=False)]
    return np.concatenate([chosen, Negatives(np.arange(entities), negatives, random).draw(size)], axis=1)


def _steps(model: TowerModel, batch: np.ndarray, cell: Any, device: torch.device) -> dict[str, Step]:
    optimizer = make_optimizer(model.network.parameters(), cell.training)
    drawn: Any = OneBatch(batch)
    positions = torch.from_numpy(batch).to(device)
    clip_norm = 1.0 if cell.privacy is None else cell.privacy.clip_norm
    noise = GaussianNoise(clip_norm, torch_generator("bench encoders", "noise", device=device))

    def autograd() -> int:
        optimizer.zero_grad()
        states = model.network(positions.reshape(-1)).view(*positions.shape, -1)
        model.loss(torch.einsum("bd,bkd->bk", states[:, 0], states[:, 1:])).mean().backward()
        optimizer.step()
        return len(batch)

    private = RelationStep(model, optimizer, drawn, Clipped.ROOT, clip_norm, noise, float(len(batch)), device)
    return {PLAIN: PlainRelationStep(model, optimizer, drawn, device), AUTOGRAD: autograd, PRIVATE: private}


def _encoded_per_second(model: TowerModel, entities: int, tokens: int, device: torch.device) -> float:
    """Texts of both graphs, by a sample with about `tokens` inputs: the pass that an evaluation begins with."""
    sample = torch.from_numpy(numpy_generator("bench encoders", "texts").permutation(entities)).to(device)
    sizes = model.network.sizes(sample)
    sample = sample[: max(1, int(torch.searchsorted(sizes.cumsum(0), tokens)))]

    def encode() -> int:
        model.states_of(sample)
        return len(sample)

    ((wall, cpu),) = interleaved({"encode": encode}, device, 1)["encode"]
    return len(sample) / max(wall if device.type == "cuda" else cpu, 1e-9)
