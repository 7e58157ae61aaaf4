"""Galleries in docs/results: pictures that a run has drawn, of data sets that show no person.

Rows are not enough for them. So a run's own picture is taken, or else the one that was kept before; a picture of a data
set that may show persons stays in results/.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dpgraph.config.paths import Paths
from dpgraph.data.registry import entry
from dpgraph.planning.plan import Plan
from dpgraph.reporting.views.registry import inputs_of

CAPTION = "Rows beside the first one are reconstructions; the first one shows a training image of each class."


def keep_galleries(plan: Plan, before: Path, folder: Path) -> dict[str, list[str]]:
    """Copy pictures of this run, or of the folder `before`, to `folder`; return their captions by artefact."""
    captions = {}
    for name in galleries(plan):
        kept = folder / f"figures/{name}.png"
        for source in (Paths(plan.config).figure(name, "png"), before / f"figures/{name}.png"):
            if source.is_file():
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, kept)
                captions[name] = [CAPTION]
                break
    return captions


def galleries(plan: Plan) -> list[str]:
    """Return the artefacts that show records, each of a data set of which the registry says that it shows no person."""
    return [
        name
        for name, artefact in plan.artefacts.items()
        if inputs_of(artefact.view).pictures
        and all(entry(plan.task(task_id).dataset).shows_no_person for task_id in plan.tasks_of(name))
    ]
