"""Which data sets a verdict is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dpgraph.experiments.suite import SuiteTask

ELSEWHERE = "on this suite's data sets, which are not the paper's"
DEMONSTRATION = "in a demonstration, whose short trainings decide nothing"


@dataclass
class Coverage:
    """Which data sets a verdict is about, and which of the paper's it is not."""

    shown: dict[str, SuiteTask] = field(default_factory=dict)
    wanted: dict[str, None] = field(default_factory=dict)  # the paper's names
    others: dict[str, SuiteTask] = field(default_factory=dict)  # of the artefact

    def add(self, tasks: Iterable[SuiteTask], wanted: Iterable[str], others: Iterable[SuiteTask]) -> None:
        self.shown |= {task.label: task for task in tasks}
        self.wanted |= dict.fromkeys(wanted)
        self.others |= {task.label: task for task in others}

    def text(self, demonstration: bool) -> str:
        tasks = self.shown.values()
        foreign = [task.label for task in tasks if task.published is None]
        own = [task.published for task in tasks if task.published is not None]
        parts = [DEMONSTRATION] if demonstration else []
        if foreign:
            parts.append(f"{ELSEWHERE}: {' / '.join(foreign)}")
        if own:
            parts.append(f"on the paper's data sets {', '.join(own)}")
        left = [name for name in self.wanted if own and name not in own]
        left += [label for label, task in self.others.items() if label not in self.shown and task.published not in left]
        if left:
            parts.append(f"not tested on {', '.join(left)}")
        return "; ".join(parts)
