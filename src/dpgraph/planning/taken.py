"""What rules of a suite take from elsewhere: settings that a search chose, and hyper-parameters that a paper prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpgraph.config import published
from dpgraph.config.cell import Task
from dpgraph.config.experiment import Experiment, MethodRow
from dpgraph.config.settings import ChosenSettings
from dpgraph.config.suite import Rule, SuiteTask
from dpgraph.core.errors import UserError
from dpgraph.data.families import same_records


def chosen_setting(
    settings: Mapping[str, ChosenSettings], experiment: Experiment, rule: Rule, method_id: str, task: Task, where: str
) -> Mapping[str, Any]:
    """Return what the rule's settings file has for the method and data set.

    Raises UserError for a method that was not searched, and for a private one whose setting was chosen on data that may
    share records with the data set: nothing would account for it.
    """
    searched_as = (rule.settings_of or experiment.paper, rule.settings_method or method_id)
    try:
        searched = settings[str(rule.settings)].method(*searched_as)
    except UserError as error:
        raise UserError(f"{where}: settings={rule.settings}: {error}") from None
    dataset = task.dataset
    chosen = searched.of(dataset, task.setting, task.split)
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
