"""Names of the random streams of a run.

Cells that are compared share what is public or has nothing to do with privacy (data, split, initial parameters, keys of
samplers), so that they are paired by seed. Everything else belongs to one cell: two runs that shared their noise would
together release the difference of two gradients, and no epsilon covers that (docs/privacy.md, section 1).
"""

from __future__ import annotations

from dpgraph.experiments.cell import Cell

# the same in every cell of a task: initial parameters, dropout, public keys, public choices of nodes
PAIRED = frozenset(
    {
        "parameters",
        "masks",
        "dropout",
        "edge lists",
        "edge lists of the choice",
        "partition",
        "training share",
        "kept nodes",
        "column priorities",
        "random rows",
    }
)


def stream(cell: Cell, role: str, seed: int) -> tuple[str | int, ...]:
    """Names of the generator of `role`: with the identity of the whole cell unless the role is among `PAIRED`."""
    names: tuple[str | int, ...] = ("dpgraph", cell.task.folder, role, seed)
    return names if role in PAIRED else (*names, cell.identity)
