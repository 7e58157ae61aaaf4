"""Two numbers of one call are never told apart by their place: epsilon and delta, rate and noise are given by name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src/dpgraph"
FILES = sorted((PACKAGE / "privacy").rglob("*.py"))
# "file:function" that may take several numbers by place, with the reason
EXCEPTIONS = {
    "privacy/accountants/declaration.py:reference": "a row of a table: value, delta, where it is from",
    "privacy/guarantee.py:at_most": "one number and, by name, how it is written",
}


def is_number(annotation: ast.expr | None) -> bool:
    """int, float, or a union with one of them."""
    if isinstance(annotation, ast.BinOp):
        return is_number(annotation.left) or is_number(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "float")


def by_place(function: ast.FunctionDef) -> bool:
    """Whether one of two numbers or more can be given without its name."""
    placed = [one for one in (*function.args.posonlyargs, *function.args.args) if is_number(one.annotation)]
    named = [one for one in function.args.kwonlyargs if is_number(one.annotation)]
    return bool(placed) and len(placed) + len(named) > 1


def fields_by_place(record: ast.ClassDef) -> bool:
    """The same of a dataclass; pydantic's models take names only."""
    made = [ast.unparse(one) for one in record.decorator_list]
    if not any(one.startswith(("dataclass", "attrs.")) for one in made) or any("kw_only=True" in one for one in made):
        return False
    fields = [one for one in record.body if isinstance(one, ast.AnnAssign)]
    names = [ast.unparse(one.annotation) for one in fields]
    numbers = [is_number(one.annotation) for one in fields]
    placed = numbers[: names.index("KW_ONLY")] if "KW_ONLY" in names else numbers
    return any(placed) and sum(numbers) > 1


def refused(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Public functions, methods and records of a module's or class's body that take numbers by place."""
    for one in body:
        if isinstance(one, ast.ClassDef):
            if fields_by_place(one):
                yield prefix + one.name
            yield from refused(one.body, f"{prefix}{one.name}.")
        elif isinstance(one, ast.FunctionDef):
            public = one.name == "__init__" or not one.name.startswith("_")
            if public and by_place(one):
                yield prefix + one.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE / "privacy")))
def test_numbers_are_given_by_name(path: Path) -> None:
    names = {f"{path.relative_to(PACKAGE)}:{name}" for name in refused(ast.parse(path.read_text()).body)}
    assert names == {name for name in EXCEPTIONS if name.startswith(f"{path.relative_to(PACKAGE)}:")}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(epsilon: float, delta: float): ...", ["f"]),
        ("def f(text: str, delta: float, *, steps: int | None = None): ...", ["f"]),
        ("def f(text: str, *, delta: float, steps: int): ...", []),
        ("def f(delta: float, text: str): ...", []),
        ("def _f(epsilon: float, delta: float): ...", []),
        ("class A:\n  def __init__(self, a: int, b: float): ...\n  def g(self, a: int): ...", ["A.__init__"]),
        ("@dataclass(frozen=True)\nclass A:\n  a: int\n  b: float", ["A"]),
        ("@dataclass\nclass A:\n  a: str\n  _: KW_ONLY\n  b: float\n  c: int", []),
        ("@dataclass(kw_only=True)\nclass A:\n  b: float\n  c: int", []),
        ("class A(Frozen):\n  b: float\n  c: int", []),
    ],
)
def test_what_counts_as_given_by_place(code: str, names: list[str]) -> None:
    assert list(refused(ast.parse(code).body)) == names
