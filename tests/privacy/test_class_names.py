"""A class of privacy/ and audits/ shares its name with no other: an import states which one is meant."""

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src/dpgraph"


def classes(path: Path) -> list[str]:
    return [one.name for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.ClassDef)]


def test_class_names_are_unique() -> None:
    """Reporting's classes are local to its files and are imported by nobody else."""
    everywhere = Counter(
        name for path in PACKAGE.rglob("*.py") if "reporting" not in path.parts for name in classes(path)
    )
    ours = {name for part in ("privacy", "audits") for path in (PACKAGE / part).rglob("*.py") for name in classes(path)}
    assert not {name for name in ours if everywhere[name] > 1}
