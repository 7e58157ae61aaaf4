"""Labels of methods are short names; what they leave out is said in `about`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from dpgraph.config.config import parse
from dpgraph.config.documents import read_yaml
from dpgraph.config.experiment import Experiment
from dpgraph.planning.plan import WORKFLOW

LONGEST = 24
WORDS = 25
FILES = sorted(Path(WORKFLOW).glob("experiments/*.yaml"))


def experiment_of(path: Path) -> Experiment:
    return parse(Experiment, read_yaml(path), str(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_labels_are_short_and_unique_within_a_paper(path: Path) -> None:
    labels = [row.label for row in experiment_of(path).methods.values()]
    assert [label for label in labels if len(label) > LONGEST] == []
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_labels_that_differ_in_parentheses_alone_are_described(path: Path) -> None:
    by_name = defaultdict(list)
    for row in experiment_of(path).methods.values():
        by_name[re.sub(r" \(.*\)", "", row.label)].append(row)
    alike = [row for rows in by_name.values() if len(rows) > 1 for row in rows]
    assert [row.label for row in alike if "(" in row.label and not row.about] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_descriptions_are_short_sentences(path: Path) -> None:
    for row in experiment_of(path).methods.values():
        if row.about is not None:
            assert len(row.about.split()) <= WORDS, row.about
            assert re.fullmatch(r"[A-Zk].*\.", row.about), row.about
