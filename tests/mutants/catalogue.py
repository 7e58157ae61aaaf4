"""All planted bugs; see tests/mutants/planting.py for what one is. A family's are in its own folder of tests."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.mutants.planting import Bug

TESTS = Path(__file__).resolve().parents[1]
FILES = [*sorted((TESTS / "mutants/bugs").glob("*.py")), *sorted((TESTS / "families").rglob("bugs*.py"))]
MODULES = [import_module(".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts))) for path in FILES]
BUGS: tuple[Bug, ...] = tuple(bug for module in MODULES for bug in getattr(module, "BUGS", ()))
