"""What compared cells may differ in, as experiment files and suites declare it; planning/fairness.py finds the rest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpgraph.config.frozen import Finite

Setting = Annotated[str, Field(pattern=r"^(epochs|private|[a-z]+\.[a-z_]+)$")]


class Difference(Finite):
    """Why compared cells may differ in a setting."""

    why: Annotated[str, Field(min_length=10)]
    between: tuple[Setting, ...] = Field(
        default=(), description="Only between cells that differ in one of these settings; none: between any methods"
    )
    methods: tuple[str, ...] = Field(
        default=("*",), description="Only where one of the two methods is among these; * matches any characters"
    )
    searched: bool = Field(
        default=False,
        description="Only where each of the two cells has what its method's settings file chose, or, where that chose "
        "nothing of this setting, the default",
    )


Varies = dict[Setting, Difference | tuple[Difference, ...]]
VARIES = (
    "Settings in which compared cells may differ besides those of their methods, the sweep and epsilon, each with the "
    "reason; epochs: how often a record is seen; private: whether there is a budget"
)
