"""`dpgraph.fit` and `dpgraph.compare`: what the command line calls, with errors that name arguments, not options."""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from dpgraph.core.errors import Invalid, UserError
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


def _listener(quiet: bool) -> Callable[[str], None]:
    """Return what takes the lines that are said: stderr, or the logger alone."""
    return log.info if quiet else partial(print, file=sys.stderr)


def _for_python(function: F) -> F:
    """Return `function` with errors that name arguments, and lines on stderr unless it is called with `quiet`."""

    @wraps(function)
    def called(*arguments: Any, quiet: bool = False, say: Callable[[str], None] | None = None, **named: Any) -> Any:
        told = _listener(quiet) if say is None else say
        try:
            return function(*arguments, say=lambda line: told(as_arguments(line)), **named)
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
