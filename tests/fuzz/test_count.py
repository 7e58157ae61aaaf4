"""How many cases there are: every test of this folder checks that its own share has run."""

import importlib
from pathlib import Path

from tests.fuzz.harness import PLANNED

ENOUGH = 10_000


def test_at_least_ten_thousand_cases():
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"tests.fuzz.{path.stem}")
    print(*(f"{count:6} {name}" for name, count in sorted(PLANNED.items())), sep="\n")
    assert sum(PLANNED.values()) >= ENOUGH
