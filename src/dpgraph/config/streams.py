"""Names of the random streams of a run, and the split that belongs to a seed.

A seed is a pair of a split and an initialisation: seed s of a task with a random split has random split s and
initialisation s. In a crossed design (`Cell.seeds_per_split` = n) it has split s // n and initialisation s % n.

Cells that are compared share public inputs, and those independent of privacy (data, split, initial parameters, keys of
samplers), so that they are paired by seed. Everything else belongs to one cell: two runs that shared their noise would
together release the difference of two gradients, and no epsilon covers that (docs/privacy/index.md).
"""

from collections.abc import Iterable
from typing import Any

from dpgraph.config.cell import MOST_SEEDS, Cell, Task
from dpgraph.config.frozen import digest
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import entropy

MASKS = ("masks", "dropout")  # of dropout, where no theorem needs them fresh given the past
SECRET_MASKS = "secret masks"
OF_TORCH = ("parameters", *MASKS)  # shared streams of PyTorch's generator
# the same in every cell of a task: initial parameters, masks, public keys, public choices of nodes
PAIRED = frozenset({
    "parameters", *MASKS, "edge lists", "partition", "training share", "kept nodes", "column priorities",
    "random rows",
})  # fmt: skip


# Settings and defaults of the commit from which on the names of streams are fixed. A later setting enters a name only
# where it is not the default: a new one gives no run other random numbers.
FIRST_DEFAULTS: dict[str, dict[str, Any]] = {
    "task": {"setting": "transductive", "split": "public", "features": "raw"},
    "model": {
        "architecture": "gcn", "hops": 1, "encoder_layers": 1, "decoder_layers": 1, "width": 256, "activation": "tanh",
        "heads": 10, "dropout": 0.0, "inference_own_weight": 0.0,
    },
    "training": {
        "optimizer": "adam", "momentum": 0.0, "batch_size": None, "sampling_rate": None, "num_splits": None,
        "train_share": 1.0, "weight_decay": 0.0, "patience": None, "evaluations": 1, "max_degree": None,
        "precision": "float32",
    },
    "privacy": {
        "variant": "rigorous", "epsilon": None, "noise_multiplier": None, "delta": None, "max_degree": 4,
        "list_cap": None, "clip_norm": 1.0, "neighbour_clip_ratio": 0.1, "neighbour_sampling_rate": None,
        "choice_epsilon": None, "clip_percentile": 75.0,
    },
    "pagerank": {
        "num_rows": None, "node_share": 1.0, "top_k": 4, "clip": None, "epsilon_share": None, "training_epsilon": None,
        "column_norm": 1.0, "column_cap": 1, "own_weight": 0.0, "teleport": 0.25, "sparsity": 0.0001,
        "tolerance": 0.0001, "inference_steps": 2,
    },
}  # fmt: skip
FIRST_SECTIONS = ("task", "model", "training", "privacy", "pagerank")  # null where a cell has none


def stream_name(cell: Cell) -> str:
    """Hash of all settings but the seeds: those of `FIRST_DEFAULTS` in full, later ones where they differ."""
    everything = cell.model_dump(mode="json", exclude={"seeds"})
    chosen = cell.model_dump(mode="json", exclude={"seeds"}, exclude_defaults=True)
    named: dict[str, Any] = {**dict.fromkeys(FIRST_SECTIONS), **chosen}
    for section, defaults in FIRST_DEFAULTS.items():
        if everything.get(section) is not None:
            first = {key: value for key, value in everything[section].items() if key in defaults}
            named[section] = {**defaults, **first, **chosen.get(section, {})}
    return digest(named)


def stream(cell: Cell, role: str, seed: int, name: str | None = None) -> tuple[str | int, ...]:
    """Return the names of the generator of `role`: with the name of the whole cell unless the role is among `PAIRED`.

    The cell's name is computed unless it is given (`stream_name`).

    Paired roles are numbered by the seed's initialisation; batches and noise by the seed itself, so that no two runs
    share them, those of one initialisation on two splits neither.
    """
    number = initialisation_number(cell, seed) if role in PAIRED else seed
    names: tuple[str | int, ...] = ("dpgraph", cell.task.folder, role, number)
    return names if role in PAIRED else (*names, name or stream_name(cell))


def check_noise(cells: Iterable[Cell]) -> None:
    """Raise UserError where a private run would draw the numbers of another run's noise, or of a shared stream.

    PyTorch's generator for a CPU keeps 32 bits of a stream's name, so that unlike names may give equal numbers.
    """
    secret: dict[int, tuple[tuple[str | int, ...], str]] = {}
    shared: dict[int, str] = {}
    for cell in cells:
        roles = [] if cell.privacy is None else ["noise"]
        if getattr(cell.privacy, "embedding_share", None) is not None:
            roles.append("noise of the embedding")
        if roles and getattr(getattr(cell, "model", None), "dropout", 0.0) > 0:
            roles.append(SECRET_MASKS)
        name = stream_name(cell) if roles else ""
        for seed in cell.seeds:
            for role in roles:
                names = stream(cell, role, seed, name)
                mine = names, f"{role} of seed {seed} of {cell.slug}"
                if (other := secret.setdefault(entropy(*names) % 2**32, mine))[0] != names:
                    raise _same_numbers(other[1], mine[1])
            for role in OF_TORCH:
                shared.setdefault(entropy(*stream(cell, role, seed)) % 2**32, f"{role} of seed {seed} of {cell.slug}")
    for bits in secret.keys() & shared:
        raise _same_numbers(shared[bits], secret[bits][1])


def _same_numbers(one: str, other: str) -> UserError:
    return UserError(f"seeds: {one} and {other} would be the same numbers: leave one of them out")


def split_number(cell: Cell, seed: int) -> int:
    """Return the number of the seed's random split; 0 for an official split or one by clusters.

    Runs of a selection with a theorem of its own are independent, on the same data: trial t has the seeds t 10,000 + s,
    and all of them split s (`trial_seeds`).
    """
    return split_of(cell.task, seed, cell.seeds_per_split or 1)


def split_of(task: Task, seed: int, seeds_per_split: int = 1) -> int:
    """Return the same for a task, where `seeds_per_split` seeds in a row share a split."""
    return seed % MOST_SEEDS // seeds_per_split if task.split.startswith(("random-", "per-class-")) else 0


def initialisation_number(cell: Cell, seed: int) -> int:
    """Return the number of the seed's paired streams: the seed's own, except in a crossed design."""
    if cell.seeds_per_split is None:
        return seed
    number = seed % MOST_SEEDS
    return seed - number + number % cell.seeds_per_split


def trial_seeds(trial: int, count: int) -> tuple[int, ...]:
    """Return the seeds of an independent trial: random numbers of their own, on the same splits."""
    return tuple(trial * MOST_SEEDS + seed for seed in range(count))
