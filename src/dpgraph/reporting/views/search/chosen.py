"""Chosen settings: from the searches of a suite to workflow/settings/<name>.yaml, which other suites read."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from dpgraph.config.settings import ChosenSetting, ChosenSettings, SearchedMethod, place
from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import write_text
from dpgraph.data.registry import registry
from dpgraph.data.shared_records import same_records
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.records import read_record
from dpgraph.reporting.results import Results, rows_for
from dpgraph.reporting.views.search.table import search_of

Scores = dict[str, dict[str, float]]  # percent, by trial and place (a data set, or a data set in a setting)


def write_settings(plan: Plan, path: Path) -> ChosenSettings:
    """Write the settings that the plan's searches choose. A trial that failed on a data set is not chosen for it."""
    chosen = chosen_settings(plan)
    text = yaml.safe_dump(chosen.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=110)
    head = f"# Made by `dpgraph settings --suite {plan.suite.name}`; docs/how-to/search.md\n"
    write_text(path, head + text)
    return chosen


def chosen_settings(plan: Plan) -> ChosenSettings:
    """Return the settings that the plan's searches choose.

    Raises:
        UserError: The suite has no search, two searches have one method, or a method has no score.
    """
    names = [name for name, artefact in plan.artefacts.items() if artefact.search is not None]
    if not names:
        raise invalid("suite", plan.suite.name, "one with an artefact of view search")
    papers: dict[str, dict[str, SearchedMethod]] = {}
    for name in names:
        results = Results.of(rows_for(plan, name))
        by_method: dict[str, list[Entry]] = {}
        for entry in plan.entries_of(name):
            by_method.setdefault(entry.method_id, []).append(entry)
        for method, entries in by_method.items():
            known = papers.setdefault(name.split("/")[0], {})
            if method in known:
                raise UserError(f"{name}: {method}: another search of the suite has it, too")
            known[method] = searched_method(entries, scores_of(entries, results, search_of(plan, name).metric), name)
    return ChosenSettings(suite=plan.suite.name, commit=", ".join(commits(plan, names)), papers=papers)


def place_of(entries: Collection[Entry]) -> dict[str, str]:
    """Return the place that each task's scores count for: its data set, perhaps with a setting and a split.

    Without privacy, each setting and split of a data set has its own place, since its validation nodes choose for it.
    A private method chooses on other data sets, of which all tasks count.
    """
    first: dict[str, str] = {}  # setting of a data set that is searched first
    splits: dict[tuple[str, str], str] = {}  # the same of the splits of a setting
    places = {}
    for entry in entries:
        dataset, setting, split = entry.cell.task.dataset, entry.cell.task.setting, entry.cell.task.split
        if entry.cell.privacy is not None:
            places[entry.task_id] = dataset
        elif splits.setdefault((dataset, setting), split) != split:
            places[entry.task_id] = place(dataset, setting, split)
        else:
            places[entry.task_id] = (
                dataset if first.setdefault(dataset, setting) == setting else place(dataset, setting)
            )
    return places


def scores_of(entries: Collection[Entry], results: Results, metric: str) -> Scores:
    """Return means over all seeds, in percent, by trial and place; several tasks of one place are averaged."""
    places = place_of(entries)
    values: dict[str, dict[str, list[float]]] = {}
    for entry in entries:
        outcome = results.outcome(entry, metric)
        complete = outcome.ok and len(outcome.values) == len(entry.cell.seeds)
        found = values.setdefault(str(entry.value), {}).setdefault(places[entry.task_id], [])
        found.append(outcome.summary().mean if complete else float("nan"))
    means = {trial: {name: sum(all_) / len(all_) for name, all_ in by.items()} for trial, by in values.items()}
    return {trial: {name: round(mean, 3) for name, mean in by.items() if mean == mean} for trial, by in means.items()}


def searched_method(entries: Collection[Entry], scores: Scores, where: str) -> SearchedMethod:
    """Return the settings of a method for each data set.

    Without privacy, each place has the trial that is best on it; a data set that joins searched ones has the trial of
    the one that it trains on. With privacy, a data set has the trial that is best on data sets without common records.
    Of trials with equal means the first one is chosen.
    """
    places = place_of(entries)
    first = next(iter(entries))
    settings = {str(entry.value): entry.settings for entry in entries}
    datasets = list(dict.fromkeys(entry.cell.task.dataset for entry in entries))
    epsilons = sorted({entry.target_epsilon for entry in entries if entry.target_epsilon is not None})
    if len(epsilons) > 1:
        raise invalid(f"{where}: {first.method_id}: epsilons", epsilons, "one target, at which settings are chosen")
    private = first.cell.privacy is not None

    def best(chosen_on: list[str]) -> ChosenSetting:
        return best_trial(scores, settings, chosen_on, f"{where}: {first.method_id}")

    def others(dataset: str) -> list[str]:
        return [one for one in datasets if not same_records(one, dataset)]

    joined = {name: known.parts[0] for name, known in registry().items() if known.parts}
    trained_on = {place: place for place in places.values()} | {
        name: part for name, part in joined.items() if part in places.values()
    }
    chosen_on = {name: others(name) if private else [part] for name, part in trained_on.items()}
    return SearchedMethod(
        private=private,
        epsilon=epsilons[0] if epsilons else None,
        trials=len(settings),
        seeds={places[entry.task_id]: len(entry.cell.seeds) for entry in entries},
        datasets={name: best(on) for name, on in chosen_on.items() if on},
        others=best(datasets),
        scores=scores,
    )


def best_trial(
    scores: Scores, settings: Mapping[str, Mapping[str, Any]], chosen_on: list[str], where: str
) -> ChosenSetting:
    """Return the trial with the highest mean over `chosen_on` among those with a score on all of them."""
    means = {
        trial: sum(by[name] for name in chosen_on) / len(chosen_on)
        for trial, by in scores.items()
        if all(name in by for name in chosen_on)
    }
    if not means:
        raise UserError(f"{where}: no trial ended well on all of {', '.join(chosen_on)}")
    trial = max(means, key=lambda one: means[one])
    return ChosenSetting(trial=trial, set=dict(settings[trial]), chosen_on=tuple(chosen_on))


def commits(plan: Plan, artefacts: Collection[str]) -> list[str]:
    """Return the commits that made the records of the trials."""
    cells = {entry.cell.slug: entry.cell for name in artefacts for entry in plan.entries_of(name)}
    records = [read_record(plan.paths.result(cell)).record for cell in cells.values()]
    made = [seed.provenance or record.provenance for record in records for seed in record.seeds]
    return sorted({str(one.get("commit", "unknown")) for one in made})
