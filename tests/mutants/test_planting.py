"""Planted bugs: each finds its place in today's code, wherever that stands, and changes what runs."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.mutants.catalogue import BUGS
from tests.mutants.planting import CannotPlantError, Edit, Place, check, definitions, replace_fragment

SOURCE = '''
class Noise:
    std = 2.0

    @property
    def twice(self):
        """Return twice the std."""
        if self.std:  # a comment
            return (2 *
                    self.std)
        return 0

def add(values, std):
    total = values + std
    return total
'''


def changed(qualified: str, old: str, new: str) -> str:
    tree = ast.parse(SOURCE)
    replace_fragment(tree, qualified, Edit(f"a.b:{qualified}", old, new))
    return ast.unparse(tree)


def test_every_bug_can_be_planted() -> None:
    lost = {}
    for bug in BUGS:
        try:
            check(bug)
        except CannotPlantError as error:
            lost[bug.name] = str(error)
    assert lost == {}
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_a_fragment_is_found_whatever_its_format() -> None:
    assert "return 3 * self.std" in changed("Noise.twice", "2*self.std", "3 * self.std")
    assert "if not self.std:" in changed("Noise.twice", "if self.std: ...", "if not self.std: ...")
    assert changed("add", "total = values + std\nreturn total", "return values").endswith("return values")
    assert changed("add", "total = values + std", "").count("total") == 1


@pytest.mark.parametrize(
    ("qualified", "old", "message"),
    [
        ("Noise.twice", "self.std", "found 2 times"),
        ("add", "values - std", "found 0 times"),
        ("Noise.thrice", "self.std", "0 definitions"),
    ],
)
def test_a_fragment_that_is_not_there_once_is_an_error(qualified: str, old: str, message: str) -> None:
    with pytest.raises(CannotPlantError, match=message):
        changed(qualified, old, "0")


def test_an_object_that_moved_is_found_by_its_qualified_name() -> None:
    moved = Place.of("dpgraph.somewhere.else:GaussianNoise.add")
    assert (moved.module, moved.qualified) == ("dpgraph.engine.training.noise", "GaussianNoise.add")
    several = next(name for name, modules in definitions().items() if len(modules) > 1)
    with pytest.raises(CannotPlantError, match="expected 1"):
        Place.of(f"dpgraph.somewhere.else:{several}")


def test_a_planted_change_runs_in_every_module_that_imported_the_object() -> None:
    """In a process of its own: nothing is taken back."""
    program = """
from dpgraph.engine.sampling import batches
from dpgraph.data.records import Records
from dpgraph.engine.sampling.batches import poisson_batch
from dpgraph.engine.training import precision, clipping
from tests.mutants.planting import Bug, Edit, Swap, plant
import numpy as np
edit = Edit(
        "dpgraph.engine.sampling.batches:poisson_batch", "generator.random(num_roots) < rate", "np.ones(num_roots) > 0"
    )
size = Edit("dpgraph.data.records:Records.num_nodes", "len(self.labels)", "7")
plant(Bug("all", (edit, size, Swap("dpgraph.engine.training.precision:enlarged_norms", lambda plain: "other")), ""))
assert len(poisson_batch(9, 0.1, np.random.default_rng(0))) == 9
assert Records.num_nodes.fget(None) == 7
assert clipping.enlarged_norms == precision.enlarged_norms == "other"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_changed_signature_is_refused() -> None:
    with pytest.raises(CannotPlantError, match="signature"):
        replace_fragment(ast.parse("def add(values=1):\n    return 2"), "add", Edit("a:add", "1", "3"))
