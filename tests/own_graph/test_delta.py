"""A delta that means little: refused from 1 / N on, and named on screen and in the card above 1 / (10 N)."""

import json

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.fit import fit
from tests.own_graph.test_fit import small

WARNED = "the promise may fail for a node"


@pytest.mark.parametrize(
    ("size", "delta", "warned"),
    [(200, 0.99 / 200, True), (200, 1.01 / 2000, True), (200, None, False), (200, 1e-5, False), (60, None, True)],
)
def test_a_large_delta_is_named_on_screen_and_in_the_card(size, delta, warned, tmp_path):
    said = []
    fit(small(size=size), 4.0, delta=delta, say=said.append, out=tmp_path / "out", audit=False)
    assert any(text.startswith("warning: delta = ") and WARNED in text for text in said) == warned
    card = json.loads((tmp_path / "out/release/card.json").read_text())
    assert any(WARNED in text for text in card["warnings"]) == warned
    text = (tmp_path / "out/release/card.md").read_text()
    assert (WARNED in text) == ("## Warnings" in text) == warned
    assert card["epsilon_by_delta"]
    assert max(map(float, card["epsilon_by_delta"])) < 1 / size


def test_two_nodes_are_warned_and_a_known_seed_promises_nothing_to_warn_of(tmp_path):
    own = from_arrays(np.array([[0], [1]]), [0, 1], np.eye(2), ["train", "train"], classes=("0", "1"))
    assert "1 in 20" in fit(own, 4.0).card["warnings"][0]
    assert fit(own, 4.0, seed=1).card["warnings"] == []


@pytest.mark.parametrize("delta", [1 / 200, 0.1, 1.0, 2.0, 0.0, -1.0, float("nan")])
def test_a_delta_that_would_publish_a_record_is_refused(delta):
    with pytest.raises(UserError, match=r"--delta=.* expected a number > 0 and < 1 / nodes"):
        fit(small(size=200), 4.0, delta=delta)
