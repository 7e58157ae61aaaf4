"""Source files whose change must rerun a stage: Snakemake does not see imported modules.

Rules carry the hash of their stage's files as a parameter: as inputs the files would be a hundred thousand edges of a
large suite's graph, and a touched file would count as a changed one.
"""

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
    "search": ("reporting/*.py", "experiments/published/*.csv", "privacy/tuning.py"),
    "runtimes": ("reporting/*.py",),
}
# who shares a job with whom, and what is measured on the side: no result depends on it
PLANNING = ("data/bundles.py", "methods/bundles.py", "methods/bench.py")


@cache
def sources_digest(stage: str) -> str:
    """Hash of the contents of the stage's files: a result made by other code is not taken for one of this code."""
    found = hashlib.sha256()
    for path in source_files(stage):
        found.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def source_files(stage: str) -> list[Path]:
    if stage not in STAGES:
        raise invalid("stage", stage, f"one of {', '.join(STAGES)}")
    found = {path for pattern in STAGES[stage] for path in PACKAGE.glob(pattern)}
    return sorted(found - {PACKAGE / name for name in PLANNING})
