"""How many cases there are with DPGRAPH_FUZZ_ALL; every test of this folder checks that its own share has run."""

import ast
from pathlib import Path

ENOUGH = 10_000


def planned(path: Path) -> dict[str, int]:
    """Cases by test: the first argument of each decorator `fuzzed`."""
    return {
        f"{path.stem}.{test.name}": mark.args[0].value
        for test in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(test, ast.FunctionDef)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "fuzzed"
    }


def test_at_least_ten_thousand_cases():
    counts: dict[str, int] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        counts |= planned(path)
    print(*(f"{count:6} {name}" for name, count in counts.items()), f"{sum(counts.values()):6} in all", sep="\n")
    assert sum(counts.values()) >= ENOUGH


def test_ten_thousand_of_them_are_for_fit_s_readers():
    assert sum(planned(Path(__file__).parent / "test_own_graphs.py").values()) >= ENOUGH
