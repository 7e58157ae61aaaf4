"""Errors that a user can mend: one line with the name, the value and the allowed range."""

from __future__ import annotations

from typing import Any


class UserError(Exception):
    """A mistake in a config, a data file or a command line; the command line prints it without a traceback."""


class DataUnavailable(UserError):
    """The files of a data set are in no mirror and cannot be downloaded: recorded as a result, never replaced."""


def invalid(name: str, value: Any, allowed: str) -> UserError:
    """Error in the house's form.

    >>> str(invalid("max_degree", 0, "an integer >= 1"))
    'max_degree=0: expected an integer >= 1'
    """
    return UserError(f"{name}={value}: expected {allowed}")
