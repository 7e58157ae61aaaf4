"""Source files whose change must rerun a stage: Snakemake does not see imported modules, so rules declare them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from dpgraph.errors import invalid

PACKAGE = Path(__file__).resolve().parent.parent

# per stage, what its result depends on; files that only describe, print or find paths are left out on purpose
STAGES: dict[str, tuple[str, ...]] = {
    "download": ("data/fetch.py", "data/registry.yaml"),
    "preprocess": (
        "data/*.py",
        "data/readers/*.py",
        "data/text/*.py",
        "data/registry.yaml",
        "models/text_encoder.py",
    ),
    "calibrate": tuple(
        f"privacy/{name}.py"
        for name in (
            "mechanisms",
            "noisy_steps",
            "published_trees",
            "record_mechanisms",
            "subgraph_mechanisms",
            "tree_mechanisms",
            "calibration",
            "solving",
            "for_cell",
            "composition",
            "double_mixture",
            "renyi",
            "trees",
            "guarantee",
        )
    ),
    "train": ("data/graph.py", "sampling/*.py", "models/*.py", "training/*.py", "methods/*.py", "randomness.py"),
    "audit": ("audits/*.py", "privacy/*.py", "sampling/*.py", "models/*.py", "training/*.py", "methods/*.py"),
    "aggregate": ("reporting/aggregate.py", "reporting/hard_cases.py"),
    # drawing is cheap: any change of the room redraws
    "table": ("reporting/*.py", "experiments/published/*.csv"),
    "figure": ("reporting/*.py", "reporting/*.mplstyle", "experiments/published/*.csv"),
    "claims": (
        "reporting/*.py",
        "experiments/published/*.csv",
        *(f"privacy/{name}.py" for name in ("renyi", "gaussian", "solving")),
        "sampling/edge_lists.py",
    ),
    "runtimes": ("reporting/*.py",),
}
# who shares a job with whom, and what is measured on the side: no result depends on it
PLANNING = ("data/bundles.py", "methods/bundles.py", "methods/bench.py")


def sources(stage: str) -> list[str]:
    """Files of the stage, relative to the working directory where they lie below it."""
    here = Path.cwd()
    return [str(path.relative_to(here)) if path.is_relative_to(here) else str(path) for path in _files(stage)]


@cache
def sources_digest(stage: str) -> str:
    """Hash of the contents of the stage's files: a result made by other code is not taken for one of this code."""
    found = hashlib.sha256()
    for path in _files(stage):
        found.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _files(stage: str) -> list[Path]:
    if stage not in STAGES:
        raise invalid("stage", stage, f"one of {', '.join(STAGES)}")
    found = {path for pattern in STAGES[stage] for path in PACKAGE.glob(pattern)}
    return sorted(found - {PACKAGE / name for name in PLANNING})
