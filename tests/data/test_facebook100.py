"""The reader on made-up campuses; no row of the real data appears here."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from dpgraph.core.errors import UserError
from dpgraph.data.raw_graph import RawGraph, frequent_classes
from dpgraph.data.readers import facebook100

# status, gender, major, second major, dorm, year, high school
USERS = np.array(
    [
        [1, 1, 50, 0, 7, 2006, 11],
        [1, 2, 50, 9, 0, 2006, 12],
        [2, 1, 60, 0, 8, 2005, 13],
        [2, 0, 70, 0, 7, 2005, 14],
        [2, 2, 60, 0, 7, 2004, 15],  # the only one of its year
        [3, 1, 50, 0, 7, 0, 16],  # states no year
        [1, 1, 80, 0, 9, 2006, 17],  # no friend of the two years
    ]
)
FRIENDS = [(0, 1), (2, 3), (1, 2), (6, 5), (6, 4), (0, 0)]


def write(folder, users=USERS, friends=FRIENDS, **others):
    first, second = np.array(friends).T
    size = len(USERS)
    adjacency = sp.csc_matrix((np.ones(len(first)), (first, second)), shape=(size, size))
    content = {"A": ((adjacency + adjacency.T) > 0).astype(float), "local_info": users.astype(np.uint16), **others}
    savemat(folder / "Toy1.mat", {name: value for name, value in content.items() if value is not None})


def test_classes_nodes_and_features(tmp_path):
    write(tmp_path)
    raw = facebook100.read(tmp_path, "Toy1", 2)
    assert raw.labels.tolist() == [1, 1, 0, 0]  # 2006, 2006, 2005, 2005
    ptr, idx = raw.symmetric
    assert [idx[a:b].tolist() for a, b in pairwise(ptr)] == [[1], [0, 2], [1, 3], [2]]
    # status 1 2, gender 1 2, major 50 60 70, second major 9, dorm 7 8: what occurs among the four
    assert raw.features.tolist() == [
        [1, 0, 1, 0, 1, 0, 0, 0, 1, 0],
        [1, 0, 0, 1, 1, 0, 0, 1, 0, 0],
        [0, 1, 1, 0, 0, 1, 0, 0, 0, 1],
        [0, 1, 0, 0, 0, 0, 1, 0, 1, 0],
    ]
    assert raw.split is None
    assert "at least 2 nodes" in raw.data_dependent[0]
    assert "columns" in raw.data_dependent[1]


def test_a_stored_zero_of_the_adjacency_is_no_friendship(tmp_path):
    rows, columns, stored = [0, 1, 2, 3, 0, 3], [1, 0, 3, 2, 3, 0], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    write(tmp_path, A=sp.csc_matrix((stored, (rows, columns)), shape=(len(USERS), len(USERS))))
    ptr, idx = facebook100.read(tmp_path, "Toy1", 2).symmetric
    assert [idx[a:b].tolist() for a, b in pairwise(ptr)] == [[1], [0], [3], [2]]


def test_neither_year_nor_high_school_is_a_feature(tmp_path):
    write(tmp_path)
    before = facebook100.read(tmp_path, "Toy1", 2).features
    users = USERS.copy()
    users[:, 6] = 99
    users[[2, 3], 5] = 2009
    write(tmp_path, users)
    after = facebook100.read(tmp_path, "Toy1", 2)
    assert np.array_equal(after.features, before)
    assert after.labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"local_info": USERS[:, :6]}, "ValueError"),
        ({"local_info": USERS - 3000.0}, "ValueError"),
        ({"local_info": USERS + 0.5}, "ValueError"),
        ({"A": sp.eye(3).tocsc()}, "ValueError"),
        ({"A": None}, "KeyError"),
    ],
)
def test_damage_is_named_without_quoting_a_row(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(UserError, match=message) as error:
        facebook100.read(tmp_path, "Toy1", 2)
    assert "2006" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_threshold_that_leaves_no_class_is_refused(tmp_path):
    write(tmp_path)
    with pytest.raises(UserError, match=r"^least_in_class=4: expected at most 3, "):
        facebook100.read(tmp_path, "Toy1", 4)


def test_classes_are_renumbered_and_lonely_nodes_leave():
    labels = np.array([5, 5, 2, 2, 2, 7, -1])
    raw = RawGraph(np.array([0, 2, 5]), np.array([1, 3, 4]), np.eye(7, dtype=np.float32), labels, None, False)
    kept = frequent_classes(raw, 2)
    assert kept.labels.tolist() == [1, 1, 0, 0]
    assert kept.features.argmax(1).tolist() == [0, 1, 2, 3]  # 4 has no edge but to 5, whose class is rare
