"""The papers' printed numbers, read from CSV, never typed into code.

The files are in this package, not in reporting/, because experiment files take hyper-parameters from them too.
"""

import csv
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

from dpgraph.core.errors import UserError, shown

FOLDER = Path(__file__).parent / "published"
NUMBERS = {"value", "std"}
# by column of hyperparameters.csv: the part of a cell, the setting, and what makes it of a text
SETTINGS: dict[str, tuple[str, str, Callable[[str], object]]] = {
    "lr": ("training", "learning_rate", float),
    "batch_size": ("training", "batch_size", int),
    "activation": ("model", "activation", str.lower),
    "n_enc": ("model", "encoder_layers", int),
    "n_dec": ("model", "decoder_layers", int),
    "noise_multiplier": ("privacy", "noise_multiplier", float),
}


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of published/<name>.csv as text, e.g. `rows("hyperparameters")`."""
    path = FOLDER / f"{name}.csv"
    if name not in {file.stem for file in FOLDER.glob("*.csv")}:
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.csv")))
        raise UserError(f"published={name}: expected one of {known}")
    return read_table(path)


def read_table(path: Path) -> tuple[dict[str, str], ...]:
    """Return the rows of a CSV file: a text in every column, a number in those of NUMBERS."""
    read: list[dict[str, str]] = []
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle, strict=True):
                if None in row or None in row.values():  # DictReader's marks of a row with too many or too few
                    raise ValueError("other columns than in the first line")
                for column in NUMBERS & row.keys():
                    if row[column] and not math.isfinite(float(row[column])):
                        raise ValueError(f"{column}={shown(row[column])}: expected a number, or no text")
                read.append(row)
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path}: expected a CSV file in UTF-8: row {len(read) + 1}: {error}") from None
    return tuple(read)


def match(name: str, **columns: str) -> list[dict[str, str]]:
    """Return the rows whose named columns have exactly these texts."""
    matching = rows(name)
    for column in columns:
        if matching and column not in matching[0]:
            raise UserError(f"{column}: not a column of published/{name}.csv (has {', '.join(matching[0])})")
    return [row for row in matching if all(row[column] == text for column, text in columns.items())]


def hyperparameters(paper: str, table: str, model: str, dataset: str) -> dict[str, dict[str, object]]:
    """Return a part of a cell (model, training, privacy) from one row of published/hyperparameters.csv.

    Daigavane et al., Tables 9 to 12: lr, batch size, activation, n_enc, n_dec, lambda and K. A value that the paper
    leaves empty is left out. K of an MLP has no meaning and is dropped.
    """
    printed = match("hyperparameters", paper=paper, table=table, model=model, dataset=dataset)
    if len(printed) != 1:
        raise UserError(f"{table}: {model} on {dataset}: expected one row in hyperparameters.csv, found {len(printed)}")
    row = printed[0]
    part: dict[str, dict[str, object]] = {"model": {}, "training": {}, "privacy": {}}
    try:
        for column, (section, name, kind) in SETTINGS.items():
            if row[column]:
                part[section][name] = kind(row[column])
        if row["K"] and "MLP" not in model:
            part["privacy" if model.startswith("DP-") else "training"]["max_degree"] = int(row["K"])
    except ValueError as error:  # the table prints several values, or words
        raise UserError(f"{table}: {model} on {dataset}: expected one number in each column: {error}") from None
    return part
