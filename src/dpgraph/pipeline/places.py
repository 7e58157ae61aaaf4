"""Places in which jobs run side by side: cores, processes on this machine's GPUs, or jobs of a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from dpgraph.config.config import MOST_JOBS
from dpgraph.config.frozen import digest
from dpgraph.pipeline.interruptible import snakemake_options
from dpgraph.planning.cost import memory_mb
from dpgraph.planning.plan import Plan

MOST_PER_GPU = 12  # that many shared an H200 (docs/notes/2026-11-27-step-on-a-gpu.md)
FEW_PER_GPU = 2  # where its memory is not known
MEMORY = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def gpu_memory() -> list[int]:
    """Return the MiB of each GPU that this process may use; empty where `nvidia-smi` names none."""
    try:
        said = subprocess.run(MEMORY, capture_output=True, text=True, timeout=30, check=True).stdout
        found = [int(line) for line in said.split("\n") if line.strip()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    visible = os.environ.get(VISIBLE)
    return found if visible is None else found[: len([one for one in visible.split(",") if one.strip()])]


def jobs_on_gpus(plan: Plan) -> int:
    """Return how many training jobs this machine's GPUs hold at a time: each as large as the largest of the plan's."""
    found, given = gpu_memory(), plan.config.jobs_per_gpu
    if given is not None or not found:
        return max(len(found), 1) * (given or FEW_PER_GPU)
    largest = max((memory_mb(task) for task in {cell.task for cell in plan.cells.values()}), default=1)
    return sum(min(max(memory // largest, 1), MOST_PER_GPU) for memory in found)


def jobs_of_profile(options: Sequence[str]) -> int | None:
    """Return the jobs or cores of Snakemake's options, those of a profile among them; None: without a limit."""
    given = snakemake_options(options)
    limit = given.jobs or given.cores
    return limit if isinstance(limit, int) and 1 <= limit <= MOST_JOBS else None


def choose_gpu(bundle: str, device: str) -> None:
    """Let this process and its children see one of several GPUs, by the bundle's name; a scheduler's choice stands."""
    if device == "cuda" and VISIBLE not in os.environ and len(found := gpu_memory()) > 1:
        os.environ[VISIBLE] = str(int(digest(bundle, 8), 16) % len(found))
