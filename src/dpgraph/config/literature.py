"""workflow/baselines.yaml: what the literature reaches without privacy, and why a result of ours may be lower."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dpgraph.config.config import load
from dpgraph.config.expansion import ExpandedModel
from dpgraph.config.frozen import Finite

FILE = "baselines.yaml"
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class PrintedAccuracy(Finite):
    """A printed test accuracy, in percent, of a setting in which all edges are seen."""

    model: str = Field(description="As the source calls it")
    architectures: Annotated[tuple[Literal["mlp", "gcn", "gin", "gat", "kipf"], ...], Field(min_length=1)]
    """Architectures of the methods that are compared with it"""
    hops: Annotated[int, Field(ge=0, le=2, description="Layers of message passing of these methods")]
    dataset: str
    split: str
    accuracy: Annotated[float, Field(gt=0, le=100)]
    std: Annotated[float, Field(ge=0)] | None = None
    source: str = Field(min_length=1, description="Paper and table, and where its numbers were read if not there")


class LowerReason(Finite):
    """Why results may be more than the tolerance below a reference; a pattern's * matches any characters."""

    papers: Names = ("*",)
    methods: Names = ("*",)
    tasks: Names = ("*",)
    kinds: Annotated[tuple[Literal["literature", "computed"], ...], Field(min_length=1)] = ("literature", "computed")
    """References that it is about"""
    reason: str = Field(min_length=1)

    def holds(self, paper: str, method: str, task: str, kind: str) -> bool:
        given = ((paper, self.papers), (method, self.methods), (task, self.tasks))
        return kind in self.kinds and all(
            any(fnmatchcase(name, pattern) for pattern in patterns) for name, patterns in given
        )


class Baselines(ExpandedModel):
    literature: tuple[PrintedAccuracy, ...] = ()
    reasons: tuple[LowerReason, ...] = ()
    left_out: tuple[str, ...] = Field(default=(), description="Numbers that are not here, and why")

    def printed(self, architecture: str, hops: int, dataset: str, split: str) -> PrintedAccuracy | None:
        place = (hops, dataset, split)
        rows = (row for row in self.literature if (row.hops, row.dataset, row.split) == place)
        return next((row for row in rows if architecture in row.architectures), None)

    def reason(self, paper: str, method: str, task: str, kind: str) -> str:
        """Return the reasons that hold, joined; empty without one."""
        return "; ".join(one.reason for one in self.reasons if one.holds(paper, method, task, kind))


def read_baselines(workflow: Path) -> Baselines:
    return load(Baselines, workflow / FILE)
