"""workflow/settings/<name>.yaml: settings that a search chose, the data sets that it chose them on, and its scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from dpgraph.config.claim_tests import Id
from dpgraph.config.config import load
from dpgraph.config.frozen import Finite
from dpgraph.core.errors import invalid

FOLDER = "settings"
Score = Annotated[float, Field(ge=0, le=100)]


class ChosenSetting(Finite):
    """The settings that a search chose for one data set."""

    trial: str = Field(description="Of the search")
    set: dict[str, Any] = Field(description="A part of a cell")
    chosen_on: Annotated[tuple[str, ...], Field(min_length=1)]
    """Data sets on whose validation nodes the trial was the best, by its mean over them"""


class SearchedMethod(Finite):
    """The trials of one method. For a private one, each data set has the setting that was best on the others."""

    private: bool
    epsilon: float | None = Field(default=None, description="Target of the private trials")
    trials: Annotated[int, Field(ge=1)]
    seeds: dict[str, Annotated[int, Field(ge=1)]] = Field(description="Of each trial, by data set")
    datasets: dict[str, ChosenSetting]
    """Settings by data set of the search; of a method without privacy that was searched in further settings or splits
    of a data set, by <data set>/<setting> or <data set>/<setting>.<split> for these; also those that join data sets of
    the search"""
    others: ChosenSetting = Field(description="For all other data sets: best by the mean over those of the search")
    scores: dict[str, dict[str, Score]]
    """Mean validation accuracy in percent, by trial and data set; a trial that failed there has none"""

    @model_validator(mode="after")
    def _not_on_itself(self) -> SearchedMethod:
        for dataset, one in self.datasets.items():
            if self.private and dataset in one.chosen_on:
                raise ValueError(f"datasets.{dataset}.chosen_on: a private method: expected other data sets only")
        for one in (*self.datasets.values(), self.others):
            if not set(one.chosen_on) <= self.scores.get(one.trial, {}).keys():
                raise ValueError(f"{one.trial}: expected scores on all of {', '.join(one.chosen_on)}")
        return self

    def chosen_for(self, dataset: str, setting: str, split: str) -> ChosenSetting:
        """Return the setting chosen for a task; the most specific search counts: split, setting, data set."""
        names = (place(dataset, setting, split), place(dataset, setting), dataset)
        return next((self.datasets[name] for name in names if name in self.datasets), self.others)


def place(dataset: str, setting: str, split: str | None = None) -> str:
    """
    >>> place("pubmed", "clustered"), place("pubmed", "transductive", "public")
    ('pubmed/clustered', 'pubmed/transductive.public')
    """
    return f"{dataset}/{setting}" + ("" if split is None else f".{split}")


class ChosenSettings(Finite):
    suite: str = Field(description="Whose search artefacts chose them")
    commit: str = Field(description="Of the code that trained the trials")
    papers: dict[Id, dict[Id, SearchedMethod]] = Field(description="By paper and method id")

    def method(self, paper: str, method: str) -> SearchedMethod:
        """Raise UserError for a method that was not searched."""
        known = self.papers.get(paper, {})
        if method not in known:
            raise invalid("settings: method", f"{paper}/{method}", f"one of {', '.join(known) or 'none'} of {paper}")
        return known[method]


def read_settings(workflow: Path, name: str) -> ChosenSettings:
    """Raise UserError for a name that has no file."""
    path = workflow / FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in (workflow / FOLDER).glob("*.yaml")))
        raise invalid("settings", name, f"one of {known or f'the files in {workflow / FOLDER}, which has none'}")
    return load(ChosenSettings, path)
