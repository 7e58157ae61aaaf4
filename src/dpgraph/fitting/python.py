"""`dpgraph.fit` and `dpgraph.compare`: what the command line calls, with errors that name arguments, not options."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from dpgraph.errors import Invalid, UserError
from dpgraph.fitting import compare as comparing
from dpgraph.fitting import fit as fitting

log = logging.getLogger("dpgraph")
F = TypeVar("F", bound=Callable[..., Any])
NAMES = {"range": "ranges"}  # of an option that may be repeated
OPTION = re.compile(r"(?<![\w-])--(no-)?([a-z][a-z-]*)")


def as_arguments(text: str) -> str:
    """`text` with the names that Python knows options by.

    >>> as_arguments("--degree-bound=0: expected an integer in 1..100 (or --no-signed)")
    'degree_bound=0: expected an integer in 1..100 (or signed=False)'
    """
    return OPTION.sub(
        lambda found: NAMES.get(found[2], found[2].replace("-", "_")) + ("=False" if found[1] else ""), text
    )


def _named_as_arguments(function: F) -> F:
    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        say = named.pop("say", log.info)
        try:
            return function(*arguments, say=lambda text: say(as_arguments(text)), **named)
        except Invalid as error:
            raise error.called(as_arguments(error.name)) from None
        except UserError as error:
            raise type(error)(as_arguments(str(error))) from None

    return cast(F, called)


fit = _named_as_arguments(fitting.fit)
compare = _named_as_arguments(comparing.compare)
