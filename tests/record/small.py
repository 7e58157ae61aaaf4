"""The small record: probabilities and both epsilons of the contract's cells on its toy graph.

`python -m tests.record.small` writes it again: only where numbers change on purpose, with the differences in the
commit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph
from tests.contract.test_methods import calibrated, first_run
from tests.record.compare import recorded_name

STORED = Path(__file__).with_name("small.json")
NODES = slice(0, 60, 12)


def recorded() -> dict[str, dict[str, Any]]:
    return json.loads(STORED.read_text())  # type: ignore[no-any-return]


def now(name: str) -> tuple[str, dict[str, Any]]:
    """What the recorded commit calls the cell, and what is recorded of it."""
    toy = toy_graph()
    outcome, calibration = first_run(toy, name)[0], calibrated(CELLS[name], toy)
    shifted = np.exp(outcome.logits[NODES] - outcome.logits[NODES].max(axis=1, keepdims=True)).astype(np.float64)
    statement = calibration.statement
    return recorded_name(CELLS[name].model_dump(mode="json")), {
        "cell": name,
        "probabilities": (shifted / shifted.sum(axis=1, keepdims=True)).round(6).tolist(),
        "published": _text(statement.published.epsilon),
        "rigorous": _text(statement.rigorous.epsilon),
        "noise": _text(statement.noise_std_over_clip),
    }


def _text(value: float | None) -> str:
    """Ten digits: the last ones are the machine's."""
    return "none" if value is None else f"{value:.10g}"


if __name__ == "__main__":
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in map(now, CELLS))
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
