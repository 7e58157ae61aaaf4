"""Settings that cells take from elsewhere: chosen by a search, printed by a paper, or of a trial of a search."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from dpgraph.config import published
from dpgraph.config.cell import Task
from dpgraph.config.expansion import merged, nested
from dpgraph.config.experiment import Experiment, MethodRow, Search
from dpgraph.config.settings import ChosenSettings
from dpgraph.config.suite import Rule, SuiteTask
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.shared_records import same_records


def chosen_setting(
    settings: Mapping[str, ChosenSettings], experiment: Experiment, rule: Rule, method_id: str, task: Task, where: str
) -> Mapping[str, Any]:
    """Return the settings that the rule's file has for the method and data set.

    Raises UserError for a method that was not searched, and for a private one whose setting was chosen on data that may
    share records with the data set, which no epsilon would cover.
    """
    searched_as = (rule.settings_of or experiment.paper, rule.settings_method or method_id)
    try:
        searched = settings[str(rule.settings)].method(*searched_as)
    except UserError as error:
        raise UserError(f"{where}: settings={rule.settings}: {error}") from None
    dataset = task.dataset
    chosen = searched.chosen_for(dataset, task.setting, task.split)
    private = searched.private or "privacy" in experiment.methods[method_id].set
    shared = [one for one in chosen.chosen_on if same_records(one.partition("/")[0], dataset)] if private else []
    if shared:
        raise UserError(
            f"{where}: settings={rule.settings}: chosen on {', '.join(shared)}, whose records {dataset} may share: "
            "expected other data sets for a private method"
        )
    return chosen.set


def published_part(
    experiment: Experiment, row: MethodRow, table: str, task: SuiteTask, where: str
) -> dict[str, dict[str, object]]:
    """Return what the paper prints for the method on the data set, or on the one that this data set stands in for."""
    data_set = task.dataset_in_paper or task.published_statistics
    if data_set is None or "model" not in row.published.get(table, {}):
        raise UserError(f"{where}: hyperparameter_table={table}: the paper has no such row")
    return published.hyperparameters(experiment.published, table, row.published[table]["model"], data_set)


def trials(artefact: str, search: Search) -> dict[str, dict[str, Any]]:
    """Return the settings of every trial by its label; random ones are drawn once for all methods and tasks.

    >>> trials("p/s", Search(strategy="grid", space={"training.steps": (1, 2)}))["trial 2"]
    {'training': {'steps': 2}}
    """
    if search.strategy == "grid":
        drawn = list(product(*search.space.values()))
    elif search.strategy == "orthogonal":  # columns i, j, i + j mod n
        first, second, third = search.space.values()
        places = product(range(len(first)), repeat=2)
        drawn = [(first[i], second[j], third[(i + j) % len(third)]) for i, j in places]
    else:
        random = numpy_generator("dpgraph", "search", artefact)
        mean = search.trials or 1
        count = {
            "fixed": lambda: mean,
            "geometric": lambda: int(random.geometric(1 / mean)),
            "poisson": lambda: int(random.poisson(mean)),
        }[search.distribution]()
        drawn = [tuple(values[random.integers(len(values))] for values in search.space.values()) for _ in range(count)]
    return {
        f"trial {number}": merged(*(nested(path, value) for path, value in zip(search.space, values, strict=True)))
        for number, values in enumerate(drawn, 1)
    }
