"""The record that a training job writes for each cell, whether it succeeded, failed or had no data."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from dpgraph.config.frozen import Frozen

Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]  # as columns of tables hold it
OUT_OF_MEMORY = "out of memory"  # begins the reason of a seed


class Metric(Frozen):
    step: Int64 = Field(description="Training steps done")
    final: bool
    metric: str = Field(description="accuracy/test, macro_f1/test, class_accuracy/test, ...")
    class_id: Int64 = Field(default=-1, description="-1: all classes")
    value: float


class SeedRecord(Frozen):
    seed: Int64
    status: Literal["ok", "failed"]
    reason: str = ""
    metrics: tuple[Metric, ...] = ()
    seconds: float = Field(description="Wall time of the seed, sampling and evaluation included")
    cpu_seconds: float = Field(default=math.nan, exclude_if=math.isnan)
    """CPU time of the same, by all threads, whatever else the machine did; NaN: not measured"""
    steps_per_second: float = 0.0
    peak_memory_bytes: Int64 = 0
    device: str = ""
    notes: dict[str, Any] = Field(default_factory=dict, description="What the method reports of itself")
    procedure: dict[str, Any] | None = None
    """privacy/procedure: read off the objects that ran, equal to what was accounted for"""
    provenance: dict[str, Any] = Field(default_factory=dict)
    """Versions, machine and commit that trained this seed, and when it started; {}: those of the cell's record"""

    @property
    def ran_out_of_memory(self) -> bool:
        """True for a failure that says nothing of the cell: the next run trains the seed again."""
        return self.status == "failed" and self.reason.startswith(OUT_OF_MEMORY)


class Budget(Frozen):
    """The epsilons that the run would have cost, had training ended at this step."""

    step: int
    eps_published: float | None = Field(description="None: no guarantee")
    eps_rigorous: float | None = Field(description="None: no guarantee")


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


class CellRecord(Frozen):
    cell: Annotated[dict[str, Any], BeforeValidator(_plain)]
    """As it was written; planning resolves it"""
    status: Literal["ok", "failed", "not run"]
    reason: str = ""
    statement: dict[str, Any] | None = Field(default=None, description="PrivacyStatement of privacy/guarantee")
    budgets: tuple[Budget, ...] = Field(default=(), description="At the evaluation steps before the last one")
    seeds: tuple[SeedRecord, ...] = ()
    provenance: dict[str, Any] = Field(default_factory=dict)
    """Versions, machine, commit and time of this record, with its statement; seeds have their own"""
