"""Declare an accountant: one function with its theorem in its docstring, and one decorator.

The function's parameters are annotated with their ranges: `q: Annotated[float, Parameter("rate", least=0, most=1)]`.
Every list, evaluation, solution, check and statement of an accountant reads its declaration
(docs/privacy/accountants.md).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from dpgraph.core.errors import UserError, invalid
from dpgraph.privacy.accountants.parameters import PEOPLE, Parameter, Premise, Unknown
from dpgraph.privacy.guarantee import Mode
from dpgraph.privacy.public_numbers import meaningful_delta
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

EPSILON = "epsilon"
OPTIONS = {"epsilon", "mode", "solve", "parameters", "json", "as_json", "mechanism"}  # of the command line


Reference = dict[str, str]  # a row of a table of reference values (check.py)


def reference(value: float, delta: float, source: str, *, tolerance: float = 1e-4, **parameters: Any) -> Reference:
    """Return a value that is cited, or computed in another way, as `source` says; `tolerance` is relative."""
    return {"id": source, "parameters": json.dumps(parameters), "delta": repr(delta), "expected": repr(value),
            "rel_tol": repr(tolerance)}  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Accountant:
    """A declared function. `rate`, `noise` and `steps` name the parameters that a target can be solved for."""

    function: Callable[..., float]
    name: str  # that of the function, where no other is declared
    mode: Mode
    statement: Statement  # of an epsilon
    references: tuple[Reference, ...]
    premises: tuple[Premise, ...] = ()
    quantity: str = EPSILON
    noise: str | None = None
    steps: str | None = None  # the parameter "steps", where there is one
    rate: str | None = None
    guess: float | None = None  # where a search for the noise begins
    units: str = "num_train"  # parameter that holds N; a rigorous delta >= 1 / N is refused when it is given
    # a parameter that chooses the relation, and the relation of each of its values; without it: the statement's
    relations: tuple[str, Mapping[str, Relation]] | None = None
    unproved: str | None = None  # published: why no epsilon is proved, and which accountant to use instead

    def __post_init__(self) -> None:
        if not self.function.__doc__:
            raise TypeError(f"{self.name}: expected a docstring that states the theorem")
        if not self.references:
            raise TypeError(f"{self.name}: expected a reference value, cited or computed in another way")
        for name, parameter in self.own.items():
            if parameter is None:
                raise TypeError(f"{self.name}: {name}: expected a range, Annotated[type, Parameter(...)]")
            if name in OPTIONS:
                raise TypeError(f"{self.name}: {name}: expected another name than that of an option")
        for named in (self.noise, self.steps, self.rate, self.relations and self.relations[0]):
            if named is not None and named not in self.own:
                raise TypeError(f"{self.name}: {named}: expected a parameter of the function")
        if self.relations is not None and set(self.own[self.relations[0]].choices) != set(self.relations[1]):
            raise TypeError(f"{self.name}: {self.relations[0]}: expected choices, and a relation for each of them")

    def __call__(self, **values: Any) -> float:
        """Return the function's value, without any check."""
        return self.function(**values)

    @property
    def key(self) -> tuple[str, Mode, str]:
        return self.name, self.mode, self.quantity

    @cached_property
    def own(self) -> dict[str, Any]:
        """The function's parameters but delta."""
        hints = get_type_hints(self.function, include_extras=True)
        names = inspect.signature(self.function).parameters
        return {name: Parameter.from_annotation(hints.get(name)) for name in names if name != "delta"}

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that may be given: the function's, the premises, and N."""
        people = {} if self.units in self.own else {self.units: PEOPLE}
        return {**self.own, **{one.name: one.parameter for one in self.premises}, **people}

    @cached_property
    def required(self) -> tuple[str, ...]:
        known = inspect.signature(self.function).parameters.values()
        return tuple(one.name for one in known if one.default is one.empty and one.name != "delta")

    def unknown(self, unknown: Unknown) -> str:
        """Return the parameter to solve for. Raise UserError where there is none."""
        solvable = {"noise": self.noise, "steps": self.steps, "rate": self.rate}
        parameter = solvable[unknown]
        if parameter is None:
            known = [name for name, one in solvable.items() if one is not None]
            raise invalid("solve", unknown, f"one of {', '.join(known)}" if known else "a mechanism with noise")
        return parameter

    def checked(self, given: Mapping[str, Any], delta: float, open_: str | None = None) -> dict[str, Any]:
        """Return parameters in their types. Raise UserError for unknown and missing ones, and for a false premise."""
        if self.quantity == EPSILON and not 0 < delta < 1:
            raise invalid("delta", delta, "a number in (0, 1)")
        values = {}
        for name, value in given.items():
            if name not in self.parameters:
                expected = ", ".join(sorted(self.parameters))
                raise UserError(f"{self.name}: unknown parameter {name}: expected some of {expected}")
            values[name] = self.parameters[name].check(name, value)
        for premise in self.premises:
            premise.check(values)
        for name in self.required:
            if name not in values and name != open_:
                raise UserError(f"{self.name}: expected the parameter {name}")
        people = values.get(self.units)
        if (
            self.mode == "rigorous"
            and people is not None
            and (below := meaningful_delta(delta=delta, people=people, name=self.units))
        ):
            raise invalid("delta", delta, below)
        return {name: value for name, value in values.items() if name in self.own or name == self.units}

    def value_at(self, values: Mapping[str, Any], delta: float) -> float:
        """Return the value at checked parameters; parameters that the function does not take were checked only."""
        taken = {name: value for name, value in values.items() if name in self.own}
        more = {"delta": delta} if "delta" in inspect.signature(self.function).parameters else {}
        return float(self.function(**taken, **more))

    def relation(self, given: Mapping[str, Any]) -> Relation:
        """Return the relation of its epsilon at these parameters."""
        name, known = self.relations or ("", {})
        return known[given[name]] if name in given else self.statement.relation


def accountant(mode: Mode, statement: Statement, **declared: Any) -> Callable[[Callable[..., float]], Accountant]:
    """Declare a function as an accountant; `declared` has the other fields of `Accountant`.

    Raises TypeError for a function without a docstring, a parameter without a range, and no reference value.
    """

    def declare(function: Callable[..., float]) -> Accountant:
        steps = "steps" if "steps" in inspect.signature(function).parameters else None
        named = {"name": function.__name__, "steps": steps, **declared}
        return Accountant(function=function, mode=mode, statement=statement, **named)

    return declare
