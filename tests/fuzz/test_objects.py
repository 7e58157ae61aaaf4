"""Graphs in memory with parts that are something else: a graph that can be used, or one line."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pandas
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from dpgraph.own_graph.objects import own_graph
from tests.fuzz.harness import SEEDS, fuzzed, told
from tests.fuzz.strategies import damaged
from tests.fuzz.test_own_graphs import NPZ, sound
from tests.fuzz.test_readers import wrong_array

SIZE = 6
NAMES = ("edge_index", "edges", "adj", "adj_t", "x", "y", "label", "split", "directed", "num_nodes", "train_mask",
         "val_idx", "test_mask", "adj_data", "attr_indptr", "edge_weight", "z", "id", "", 3)  # fmt: skip
ODD = (
    *(None, "text", b"bytes", 3, -1, 2.5, float("nan"), 10**30, [], [[1], [1, 2]], {}, {"train": [0]}, object(), set()),
    *(SimpleNamespace(shape=(6, 3)), SimpleNamespace(layout="torch.strided"), pandas.DataFrame({"a": range(SIZE)})),
    *(pandas.Series([*"abab", None, "b"]), torch.zeros(6, 3, device="meta"), torch.zeros(0), [object()] * 6),
)
MADE = networkx.cycle_graph(SIZE)
for _node in MADE:
    MADE.nodes[_node].update(label="ab"[_node % 2], a=_node / 2)


def value_of(random: Random) -> Any:
    """Return an array, a tensor, a matrix or a value of some type, right or wrong."""
    array = random.choice([*NPZ.values(), np.eye(SIZE), np.arange(SIZE), np.arange(SIZE) % 2 == 0])
    if random.random() < 0.5 and array.ndim == 1:
        array = wrong_array(array, random)
    if random.random() < 0.3:
        return random.choice(ODD)
    kind = random.randrange(5)
    if kind < 2 or array.dtype.kind not in "biufc" or array.dtype.names:
        return array
    if kind == 2 and array.ndim == 2:
        return sp.coo_array(array).asformat(random.choice(("csr", "csc", "coo", "lil", "dok", "dia", "bsr")))
    tensor = torch.from_numpy(np.array(array))
    if kind == 3:
        tensor = tensor.to(random.choice((torch.float16, torch.bfloat16, torch.int8, torch.float64)))
    return tensor.to_sparse() if kind == 4 and tensor.ndim else tensor


def changed(values: dict[Any, Any], random: Random) -> dict[Any, Any]:
    found = dict(values)
    for _ in range(random.randint(1, 3)):
        name = random.choice(NAMES)
        if random.random() < 0.2:
            found.pop(name, None)
        else:
            found[name] = value_of(random)
    return found


@fuzzed(2400, light=160, seed=SEEDS)
def test_named_arrays(seed):
    """As dictionaries, `Data`, objects, and OGB's pair."""
    random = Random(seed)
    given: Any = changed({name: value for name, value in NPZ.items() if name != "split"}, random)
    kind = random.randrange(4)
    if kind:
        given = {str(name) or "empty": value for name, value in given.items()}
    if kind == 1:
        data = Data()
        for name, value in given.items():
            setattr(data, f"n{name}" if name.isdigit() else name, value)
        given = data
    elif kind == 2:
        given = SimpleNamespace(**given)
    elif kind == 3:
        given = (given, value_of(random))
    told(lambda: sound(own_graph(given, directed=random.choice((None, True))).graph()))


@fuzzed(1600, light=120, seed=SEEDS)
def test_objects_with_labels_beside(seed):
    random = Random(seed)
    given = {"data": NPZ["edge_index"], "labels": NPZ["y"], "features": NPZ["x"]}
    for name in random.sample(["data", "labels", "features", "split"], random.randint(1, 2)):
        given[name] = value_of(random)
    told(lambda: sound(own_graph(**given).graph()))


@fuzzed(1200, light=100, seed=SEEDS)
def test_attributes_of_networkx(seed):
    random = Random(seed)
    made = MADE.copy()
    for _ in range(random.randint(1, 2)):
        name = random.choice(NAMES)
        for node in list(made) if random.random() < 0.5 else [2]:
            made.nodes[node][name] = (
                value_of(random) if random.random() < 0.5 else random.choice((1, "a", None, [1, 2]))
            )
    more = random.choice(
        ({}, {}, {"labels": value_of(random)}, {"features": value_of(random)}, {"split": value_of(random)})
    )
    told(lambda: sound(own_graph(made, **more).graph()))


@fuzzed(1200, light=80, seed=SEEDS)
def test_graphml_cut_and_flipped(tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "g.graphml"
    path.write_bytes(damaged("\n".join(networkx.generate_graphml(MADE)).encode(), Random(seed)))
    line = told(lambda: sound(own_graph(path).graph()))
    assert line is None or "g.graphml" in line, line
