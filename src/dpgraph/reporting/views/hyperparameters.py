"""Tables of hyper-parameters: a block per data set, our settings and below them the paper's row."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from dpgraph.config import published
from dpgraph.config.cell import Cell
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import heading, of_entry
from dpgraph.reporting.display import DASH, NOT_IN_PAPER, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.formats import significant

COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target")
CALIBRATED = "from ε"  # the noise that the target epsilon asks for


def hyperparameter_table(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """Return a row per entry and printed column: `ours` and `published` as text, and whether they agree.

    A setting that is not set, or not printed, is empty; `agrees` is empty where one of them is.
    """
    rows = []
    for entry in plan.entries_of(artefact_id):
        printed = printed_row(plan, entry)
        for setting, (column, of) in SETTINGS.items():
            ours, theirs = of(entry.cell), printed.get(column, "")
            agrees = "" if not ours or not theirs or ours == CALIBRATED else "yes" if _same(ours, theirs) else "no"
            row = {"setting": setting, "ours": ours, "published": theirs, "agrees": agrees, "cell": entry.cell.slug}
            rows.append({**of_entry(entry, *COLUMNS), **row})
    return pd.DataFrame(rows)


def printed_row(plan: Plan, entry: Entry) -> dict[str, str]:
    """Return the row of published/hyperparameters.csv for the entry; empty where the paper prints none."""
    paper, name = entry.artefact.split("/")
    experiment = plan.experiments[paper]
    for table in experiment.artefacts[name].tables(name):
        model = entry.method.published.get(table, {}).get("model")
        if model is None or entry.suite_task.published is None:
            continue
        where = {"table": table, "model": model, "dataset": str(entry.suite_task.dataset_in_paper)}
        if found := published.match("hyperparameters", paper=experiment.published, **where):
            return found[0]
    return {}


def _batch(cell: Cell) -> str:
    training: Any = cell.training
    size, rate = getattr(training, "batch_size", None), getattr(training, "sampling_rate", None)
    return str(size) if size is not None else f"{significant(100 * rate)} % of the training nodes" if rate else ""


def _degree(cell: Cell) -> str:
    """Return K of a private method, or of one that samples neighbours; empty for an MLP."""
    if getattr(getattr(cell, "model", None), "hops", 0) == 0:
        return ""
    part: Any = cell.training if cell.privacy is None else cell.privacy
    degree = getattr(part, "max_degree", None)
    return "" if degree is None else str(degree)


def _noise(cell: Cell) -> str:
    if cell.privacy is None:
        return ""
    noise = getattr(cell.privacy, "noise_multiplier", None)
    return CALIBRATED if noise is None else f"{noise:g}"


def _model(name: str) -> Callable[[Cell], str]:
    return lambda cell: str(getattr(getattr(cell, "model", None), name, ""))


# our name, with the column of published/hyperparameters.csv
SETTINGS: dict[str, tuple[str, Callable[[Cell], str]]] = {
    "Learning rate": ("lr", lambda cell: f"{cell.training.learning_rate:g}"),
    "Batch size": ("batch_size", _batch),
    "Activation": ("activation", _model("activation")),
    "Encoder layers": ("n_enc", _model("encoder_layers")),
    "Decoder layers": ("n_dec", _model("decoder_layers")),
    "Noise multiplier λ": ("noise_multiplier", _noise),
    "Maximum degree K": ("K", _degree),
    "Steps": ("", lambda cell: str(cell.training.steps)),
    "Optimiser": ("", lambda cell: str(cell.training.optimizer)),
}


def _same(ours: str, theirs: str) -> bool:
    """Return whether two settings agree.

    >>> _same("1", "1.0"), _same("tanh", "Tanh"), _same("2", "3")
    (True, True, False)
    """
    try:
        return float(ours) == float(theirs)
    except ValueError:
        return ours.lower() == theirs.lower()


def make(plan: Plan, artefact_id: str, _: object) -> MadeTable:
    """Make the table of hyper-parameters."""
    frame = hyperparameter_table(plan, artefact_id)
    return MadeTable(frame, hyperparameter_display(heading(plan, artefact_id), frame))


def hyperparameter_display(title: str, frame: pd.DataFrame) -> Table:
    """Lay out the rows of `hyperparameter_table`; settings that differ from the paper are marked."""
    blocks = []
    for _, part in frame.groupby("task", sort=False):
        rows: list[list[Text]] = []
        for _, of_method in part.groupby(["method", "epsilon_target"], sort=False, dropna=False):
            by_setting = of_method.set_index("setting").loc[list(SETTINGS)].to_dict("records")
            ours = [f"{one['ours'] or DASH}{' *' if one['agrees'] == 'no' else ''}" for one in by_setting]
            theirs = [one["published"] or DASH for one in by_setting]
            rows.append([Text(str(of_method["label"].iloc[0])), Text("ours"), *map(Text, ours)])
            empty = not any(one["published"] for one in by_setting)
            printed = [NOT_IN_PAPER, *theirs[1:]] if empty else theirs
            rows.append([Text(""), Text("paper"), *map(Text, printed)])
        blocks.append(RowGroup(str(part["task_label"].iloc[0]), rows))
    remarks = [
        "* differs from the paper's.",
        f"{CALIBRATED}: the least noise with which the target ε holds after these steps. The paper prints neither "
        "steps nor δ.",
    ]
    return Table(title, ["Method", "Source", *SETTINGS], blocks, [], remarks, text_columns=2)
