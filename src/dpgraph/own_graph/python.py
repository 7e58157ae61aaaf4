"""`dpgraph.fit` and `dpgraph.compare`: what the command line calls, with errors that name arguments, not options."""

from __future__ import annotations

import inspect
import logging
import operator
import re
import sys
from collections.abc import Callable, Mapping, Set
from functools import partial, wraps
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from dpgraph.core.errors import Invalid, UserError, invalid
from dpgraph.own_graph import compare as comparing
from dpgraph.own_graph import fit as fitting

log = logging.getLogger("dpgraph")
F = TypeVar("F", bound=Callable[..., Any])
RANGE = re.compile(r"--range '?([^=']+)'?=(LOW:HIGH|as-is)")
IGNORE = re.compile(r"--ignore\b( '[^']*'| COLUMN)?")
MISSING = re.compile(r" \(--missing=[^)]*\)")
OPTION = re.compile(r"(?<![\w-])--(no-)?([a-z][a-z-]*)")
ARGUMENTS = {"label": "labels", "range": "ranges"}  # that are not called as the option


def as_arguments(text: str) -> str:
    """Return `text` with the names that Python knows options by.

    >>> as_arguments("--degree-bound=0: expected an integer in 1..100 (or --no-signed)")
    'degree_bound=0: expected an integer in 1..100 (or signed=False)'
    >>> as_arguments("column age: give the public range (--range age=LOW:HIGH) or leave it out (--ignore)")
    "column age: give the public range (ranges={'age': (LOW, HIGH)}) or leave it out (features without it)"
    """
    text = RANGE.sub(lambda found: f"ranges={{{found[1]!r}: {'None' if found[2] == 'as-is' else '(LOW, HIGH)'}}}", text)
    text = MISSING.sub("", text)
    text = IGNORE.sub(lambda found: f"features without{found[1] or ' it'}", text)
    return OPTION.sub(lambda found: _argument(found[2]) + ("=False" if found[1] else ""), text)


def _argument(option: str) -> str:
    return ARGUMENTS.get(option, option.replace("-", "_"))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str | bytes | Mapping | Set):  # a set has no order
        raise TypeError
    found = list(value)
    if not all(isinstance(one, str | Real | np.bool_) for one in found):
        raise TypeError
    return [*map(str, found)]


def _one_of(*kinds: type) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError
        return value

    return checked


def _whole(value: Any) -> int:
    return operator.index(_one_of(object)(value))


def _ranges(value: Any) -> dict[str, Any]:
    real = _one_of(Real)
    return {_one_of(str)(name): None if ends is None else (real(ends[0]), real(ends[1]), *ends[2:])
            for name, ends in _one_of(Mapping)(value).items()}  # fmt: skip


Taken = tuple[Callable[[Any], Any], str]  # what returns a value as it is read, and what is expected
COLUMNS: Taken = (_texts, "a list of names of columns, such as ['age']")
NUMBER: Taken = (_one_of(Real), "a number")
WHOLE: Taken = (_whole, "a whole number")
TRUTH: Taken = (_one_of(bool, np.bool_), "True or False")
TEXT: Taken = (_one_of(str), "a text")
PATH: Taken = (Path, "a path")
TYPES: dict[str, Taken] = {
    "classes": (_texts, "a list of texts, such as ['0', '1']"),
    "methods": (_texts, "a list of texts, such as ['votes', 'own']"),
    "ranges": (_ranges, "a dictionary of columns, such as {'age': (0, 100)}"),
    **dict.fromkeys(("public_column", "list_column"), COLUMNS),
    **dict.fromkeys(("epsilon", "advantage", "delta", "mean_degree", "words"), NUMBER),
    **dict.fromkeys(("labelled", "degree_bound", "seed", "seeds"), WHOLE),
    **dict.fromkeys(("directed", "signed", "audit"), TRUTH),
    **dict.fromkeys(("method", "relation", "scope"), TEXT),
    **dict.fromkeys(("out", "releases"), PATH),
}


def _checked(given: inspect.BoundArguments) -> dict[str, Any]:
    """Return the arguments. Raises UserError for one of a type that would be read as something else, or not at all."""
    for name, value in given.arguments.items():
        if name not in TYPES or (value is None and given.signature.parameters[name].default is None):
            continue
        read, expected = TYPES[name]
        try:
            given.arguments[name] = read(value)
        except (TypeError, ValueError, LookupError):
            raise invalid(name, repr(value) if isinstance(value, str) else value, expected) from None
    return given.arguments


def _listener(quiet: bool) -> Callable[[str], None]:
    """Return what takes the lines that are said: stderr, or the logger alone."""
    return log.info if quiet else partial(print, file=sys.stderr)


def _for_python(function: F) -> F:
    """Return `function` with errors that name arguments, and lines on stderr unless it is called with `quiet`."""

    @wraps(function)
    def called(*arguments: Any, quiet: bool = False, say: Callable[[str], None] | None = None, **named: Any) -> Any:
        if say is not None and not callable(say):
            raise invalid("say", say, "a function of one text")
        told = _listener(quiet) if say is None else say
        arguments_by_name = _checked(known.bind(*arguments, **named))
        try:
            return function(**arguments_by_name, say=lambda line: told(as_arguments(line)))
        except Invalid as error:
            raise error.called(as_arguments(error.name)) from None
        except UserError as error:
            raise type(error)(as_arguments(str(error))) from None

    known = inspect.signature(function)
    parameters = {name: one for name, one in known.parameters.items() if name != "command"}
    parameters["say"] = parameters["say"].replace(default=None, annotation="Callable[[str], None] | None")
    parameters["quiet"] = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")
    called.__signature__ = known.replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    return cast(F, called)


fit, compare = _for_python(fitting.fit), _for_python(comparing.compare)
