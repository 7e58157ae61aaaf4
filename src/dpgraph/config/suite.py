"""Suite files: on which data, with which settings and at which budgets the artefacts of the papers run."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from dpgraph.config.claim_tests import Id
from dpgraph.config.config import Config, load
from dpgraph.config.expansion import ExpandedModel
from dpgraph.config.experiment import VARIES, Seeds, Varies
from dpgraph.config.frozen import Finite
from dpgraph.config.paths import no_project
from dpgraph.core.errors import invalid

COMPUTE = "compute"  # `Grid.not_run` of what would take too long


class SuiteTask(Finite):
    """A data set of the suite, as its tables show it."""

    label: str
    task: dict[str, Any] = Field(description="dataset, setting, split, features")
    published: str | None = None
    """The paper's name of it, with parameters that distinguish it from others (pokec;features=BERT); null: not in the
    paper"""
    fallback: dict[str, Any] | None = None
    """Another task, which stands in where the data set cannot be had: synthetic, never next to the paper's numbers, and
    labelled as such; null: tables then say that the data are not available"""
    published_statistics: str | None = None
    """The paper's name of the data set whose printed statistics stand next to this one's, and whose printed
    hyper-parameters a rule may take, where no result can be compared; null: that of published"""

    constructed: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Why a comparison of methods on it is decided by how it was made (every second node without features, so that a
    graph must help). Tables and figures show it and say so; a claim is tested on it only if it names the task's
    label, which has the word constructed; null: a data set as it was found"""

    @model_validator(mode="after")
    def _says_that_it_is_constructed(self) -> SuiteTask:
        if self.constructed is None:
            return self
        if self.published is not None:
            raise ValueError(f"published={self.published}: expected none of a constructed data set")
        if "constructed" not in self.label:
            raise ValueError(f"label={self.label}: expected the word constructed, as the task is")
        return self

    @property
    def dataset_in_paper(self) -> str | None:
        """`published` without the parameters."""
        return None if self.published is None else self.published.partition(";")[0]

    def is_called(self, names: Collection[str]) -> bool:
        """Return whether a claim that names these data sets means this one, with or without the parameters."""
        if self.constructed is not None:
            return self.label in names
        return self.published in names or self.dataset_in_paper in names


class Rule(Finite):
    """Hyper-parameters for the cells that match; later rules win."""

    methods: tuple[str, ...] = Field(default=("*",), description="Method ids; * matches any characters")
    tasks: tuple[str, ...] = ("*",)
    epsilons: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Target epsilons; none: all, and cells without one"""
    set: dict[str, Any] = Field(default_factory=dict)
    hyperparameter_table: Id | None = None
    """Take learning rate, batch size, activation, depths, noise multiplier and K from this table of
    published/hyperparameters.csv, for method and data set as the paper names them"""
    settings: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=100)] | None = None
    """Take what a search chose for method and data set from this file below workflow/settings/; a private method takes
    only what was chosen on other data sets"""
    settings_of: Id | None = Field(default=None, description="With settings: the paper there; null: this one")
    settings_method: Id | None = Field(default=None, description="With settings: the method there; null: the same")

    public_rule: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=100)] | None = None
    """Take what this rule of the method makes of the data set's numbers in the registry and of the target epsilon; no
    record is read"""

    @model_validator(mode="after")
    def _of_settings(self) -> Rule:
        if self.settings is None and (self.settings_of is not None or self.settings_method is not None):
            raise ValueError("settings_of, settings_method: expected only with settings")
        return self

    def applies(self, method: str, task: str, epsilon: float | None) -> bool:
        return (
            any(fnmatchcase(method, pattern) for pattern in self.methods)
            and any(fnmatchcase(task, pattern) for pattern in self.tasks)
            and (not self.epsilons or epsilon in self.epsilons)
        )


class Grid(Finite):
    """Methods crossed with tasks, for private methods with target epsilons, and in a sweep with its values."""

    methods: tuple[str, ...] = Field(default=("*",), description="Method ids of the artefact; * matches any characters")
    tasks: tuple[str, ...] = Field(min_length=1)
    epsilons: tuple[Annotated[float, Field(gt=0)], ...] = ()
    values: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Values of a sweep: a part of a cell by its label; it wins over rules, e.g. 7: {privacy: {max_degree: 7}}"""
    seeds: Seeds | None = Field(default=None, description="null: as many as the paper has in this suite")
    not_run: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Why tables show these places and the suite does not run them: compute (tables then say how many hours they would
    take), or a sentence; an earlier grid that has one of the places runs it"""


class SuitePaper(Finite):
    seeds: Seeds | None = Field(default=None, description="null: as many as the suite")
    rules: tuple[Rule, ...] = ()
    varies: Varies = Field(default_factory=dict, description=VARIES)
    artefacts: dict[Id, Annotated[tuple[Grid, ...], Field(min_length=1)]]
    """An artefact is the union of its grids"""


class Headline(Finite):
    """The data set that the first sentence of a suite's page is about."""

    task: Id = Field(description="One of the suite's tasks")
    why: Annotated[str, Field(min_length=1, max_length=300)]
    """The reason for this task: a property of the data or of the papers, never of the results"""


class Suite(ExpandedModel):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    title: str
    note: str = Field(description="Shown on top of the report: what this suite is and what it is not")
    caution: Annotated[str, Field(max_length=240)] = ""
    """One line that is always in sight below the first sentence: which of its settings were chosen with the data in
    sight that the results are on; empty where none were"""
    demonstration: bool = False
    headline: Headline | None = None
    """null: the first data set, in the suite's order, with a proved row"""
    seeds: Seeds
    tasks: dict[str, SuiteTask]
    papers: dict[Id, SuitePaper]

    @model_validator(mode="after")
    def _references(self) -> Suite:
        if self.headline is not None and self.headline.task not in self.tasks:
            raise ValueError(f"headline.task={self.headline.task}: expected one of {', '.join(self.tasks)}")
        for paper, part in self.papers.items():
            for name, artefact in part.artefacts.items():
                for task in (task for grid in artefact for task in grid.tasks):
                    if task not in self.tasks:
                        raise ValueError(
                            f"papers.{paper}.artefacts.{name}.tasks={task}: expected one of {', '.join(self.tasks)}"
                        )
        return self


def read_suite(config: Config, workflow: Path) -> Suite:
    """Return the config's suite. Raises UserError for a folder without suites and for a name that none has."""
    path = workflow / "suites" / f"{config.suite}.yaml"
    if not path.parent.is_dir():
        raise no_project(workflow)
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in path.parent.glob("*.yaml")))
        raise invalid("suite", config.suite, f"one of {known or f'the files in {path.parent}'}")
    return load(Suite, path)


def suite_papers(config: Config, workflow: Path) -> tuple[str, ...]:
    """Return the names of the suite's papers, whatever the config's are."""
    return tuple(read_suite(config, workflow).papers)


def suite_artefacts(config: Config, workflow: Path) -> list[str]:
    """Return the ids of the suite's artefacts, of the config's papers."""
    papers = read_suite(config, workflow).papers.items()
    return [f"{name}/{one}" for name, part in papers for one in part.artefacts if name in (config.papers or [name])]
