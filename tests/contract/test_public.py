"""What every private method calls public is equal on neighbours: each relation by its own definition, up to the run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from dpgraph.audits.graphs import edges_of, null_records, with_edges, without_node
from dpgraph.data.records import TRAIN
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.tuples.mechanism import StaticTuples
from dpgraph.planning.resolve import calibrate
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.public_numbers import PUBLIC, DataFact, private_numbers
from dpgraph.privacy.relation import Relation
from dpgraph.problems.registry import problem_of
from tests.contract.cells import CELLS, PRIVATE
from tests.contract.values import value_of

CPU = torch.device("cpu")
CHOSEN = ("reader",)  # notes of what the exponential mechanism chose, which the mechanism charges
OWNER = 3  # of a record that changes: it trains in every value of the contract, and has a list


def changed_rows(value, rows):
    """Other features and labels in these places."""
    features, labels = np.array(value.features), np.array(value.labels)
    features[rows] = features[rows][:, ::-1] + 1
    labels[rows] = (labels[rows] + 1) % value.num_classes
    return replace(value, features=features, labels=labels)


def null_row(value):
    features, labels = np.array(value.features), np.array(value.labels)
    features[OWNER], labels[OWNER] = 0, -1
    return replace(value, features=features, labels=labels)


def without_edge(graph):
    owners, members = edges_of(graph)
    one = int(members[owners == OWNER][0])
    gone = ((owners == OWNER) & (members == one)) | ((owners == one) & (members == OWNER))
    return with_edges(graph, owners[~gone], members[~gone])


def another_graph(graph):
    owners, members = edges_of(graph)
    return with_edges(changed_rows(graph, np.arange(graph.num_nodes)), members[: len(owners) // 2],
                      owners[: len(owners) // 2])  # fmt: skip


def without_class(value, parts=1):
    """The first of so many parts of the records of one class leave, places and all."""
    gone = np.flatnonzero(np.asarray(value.labels) == 1)
    kept = np.ones(value.num_nodes, dtype=bool)
    kept[gone[: len(gone) // parts]] = False
    rows = {name: np.asarray(getattr(value, name))[kept] for name in ("features", "labels", "split")}
    return replace(value, **rows)


def null_entity(relations):
    """Its features, and the tuples that it owns; those in others' lists stay in their places."""
    head, tail = np.asarray(relations.tuples).T
    owner = np.where((head + tail) % 2 == 0, head, tail)
    trained = np.asarray(relations.split) == TRAIN
    one = np.bincount(owner[trained]).argmax()
    features = np.array(relations.features)
    features[one] = 0
    kept = owner != one
    assert (trained & ~kept).any()
    return replace(relations, features=features, tuples=relations.tuples[kept], split=np.asarray(relations.split)[kept])


def another_training_node(graph):
    assert graph.split[OWNER] == TRAIN
    return without_node(changed_rows(graph, [OWNER]), OWNER)


NEIGHBOURS = {
    Relation.NODE_NULL: lambda value: null_records(value, [OWNER]),
    Relation.NODE_REMOVE: lambda value: without_node(value, OWNER),
    Relation.TRAINING_NODE: another_training_node,
    Relation.TRAINING_RECORD: lambda value: changed_rows(value, [OWNER]),
    Relation.EDGE: without_edge,
    Relation.GRAPH: another_graph,
    Relation.RECORD_REMOVE: null_row,
    Relation.RECORD_REPLACE: lambda value: changed_rows(value, [OWNER]),
    Relation.VOTE: lambda value: changed_rows(value, [OWNER]),
    Relation.ENTITY: null_entity,
    Relation.CLASS: without_class,
    Relation.SUBCLASS: lambda value: without_class(value, parts=2),
}


def record(cell, value):
    """All that a record of a run calls public, from the data's own counts on; what ran is what was accounted for."""
    counts = problem_of(cell.task).working().counts(value)
    calibration = calibrate(cell, counts.num_train, default_cache(), num_protected=counts.num_protected)
    (job,) = make_jobs(value, cell, [0], calibration, CPU)
    outcome = method(cell.method).run(job, lambda step, logits: {"step": step})
    notes = {key: value for key, value in outcome.notes.items() if key not in CHOSEN}
    ran = job.prepared and job.prepared.check().model_dump(), job.prepared and job.prepared.notes()
    return calibration, {"calibration": calibration.model_dump(), "ran": ran, "notes": notes}


@pytest.mark.parametrize("name", PRIVATE)
def test_neighbours_have_the_same_mechanism_statement_and_procedure(name, toy):
    cell, value = CELLS[name], value_of(CELLS[name], toy)
    calibration, public = record(cell, value)
    found = (calibration.statement.rigorous, *calibration.statement.beside)
    for relation in {one.relation for one in found if one.epsilon is not None} - {Relation.NONE}:
        assert not private_numbers(calibration.mechanism.numbers_from, relation)
        assert record(cell, NEIGHBOURS[relation](value))[1] == public, relation


def test_an_epsilon_under_a_relation_that_a_number_may_differ_in_is_refused():
    asked = {"num_protected": 2000, "steps": 100, "delta": 1e-5, "sampling_rate": 0.01, "negatives": 4,
             "max_degree": 4, "list_cap": 2, "noise_multiplier": 1.0}  # fmt: skip
    places = StaticTuples.places(num_entities=2000, max_degree=4, list_cap=2)
    assert StaticTuples(num_roots=places, **asked).rigorous().epsilon is not None

    class CountedTuples(StaticTuples):
        numbers_from: ClassVar[Mapping[str, DataFact]] = {"num_roots": DataFact.TUPLES}

    refused = CountedTuples(num_roots=places, **asked).rigorous()
    assert refused.epsilon is None
    assert refused.reason == "neighbours under entity may differ in num_roots"


def public_table() -> str:
    """Return the table of docs/privacy/index.md: a row for each fact, with the relations under which it is public."""
    protecting = [one for one in PUBLIC if one is not Relation.NONE]
    rows = ["| fact | equal on both neighbours under |", "|---|---|"]
    for fact in DataFact:
        held = [f"`{one}`" for one in protecting if fact in PUBLIC[one]]
        named = "all" if len(held) == len(protecting) else ", ".join(held) or "none"
        if len(protecting) / 2 < len(held) < len(protecting):
            named = f"all but {', '.join(f'`{one}`' for one in protecting if fact not in PUBLIC[one])}"
        rows.append(f"| {fact} | {named} |")
    return "\n".join(rows)


def test_the_table_says_what_the_documentation_says():
    assert public_table() in Path("docs/privacy/index.md").read_text()
    assert set(PUBLIC) == set(Relation)
