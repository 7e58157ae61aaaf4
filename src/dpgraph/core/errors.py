"""Errors that a user can mend: one line with the name, the value and the allowed range."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

ONE_OF = "one of "
LONGEST = 200  # characters of a value that a message shows
LARGEST_BITS = 256  # of an integer that is written out: Python refuses to print one of thousands of digits


class UserError(Exception):
    """A mistake in a config, a data file or a command line; the command line prints it without a traceback.

    The message is one line, whatever it contains.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class DataUnavailable(UserError):
    """The files of a data set are in no mirror and cannot be downloaded: recorded as a result, never replaced."""


class Invalid(UserError):
    """A value that `name` may not have; `called` is for who knows it by another name, such as that of an option."""

    name: str = ""

    def called(self, name: str) -> Invalid:
        found = Invalid(name + str(self).removeprefix(self.name))
        found.name = name
        return found


def invalid(name: str, value: Any, allowed: str) -> Invalid:
    """Return an error for users in the one form of all errors.

    >>> str(invalid("max_degree", 0, "an integer >= 1"))
    'max_degree=0: expected an integer >= 1'
    >>> str(invalid("suite", "papr", "one of cpu, demo, paper"))
    'suite=papr: expected one of cpu, demo, paper; did you mean paper?'
    """
    known = allowed.removeprefix(ONE_OF).partition(" (")[0].split(", ") if allowed.startswith(ONE_OF) else []
    error = Invalid(f"{name}={shown(value)}: expected {allowed}{meant(value, known)}")
    error.name = one_line(name)
    return error


def meant(value: Any, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for an unknown name, or an empty text where no known name is like it.

    >>> meant("sede", ["seeds", "suite"]), meant("x", ["seeds"])
    ('; did you mean seeds?', '')
    """
    text = value if isinstance(value, str) else ""
    like = get_close_matches(text[:LONGEST], known, n=1) if text else []
    return f"; did you mean {like[0]}?" if like else ""


def one_line(text: str) -> str:
    """Return the text in one line, with escapes for what a terminal would obey or cannot show.

    >>> one_line("a\\n  b\\x1b[2J")
    'a b\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    joined = " ".join(text.split())
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in joined)


def shown(value: Any) -> str:
    """Return `value` for a message: at most 200 characters in one line, fast even for a huge value.

    >>> shown(10**5000), shown("x" * 300)[-5:], shown([1, "a"])
    ('an integer of 16610 bits', 'xx...', "[1, 'a']")
    """
    if isinstance(value, str):
        text = value[: LONGEST + 1]
    elif isinstance(value, (int, bytes, list, tuple, dict, set, frozenset)):
        text = _BRIEF.repr(value)
    else:
        text = str(value)
    text = one_line(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


class _Brief(reprlib.Repr):
    """Lists within lists that share their parts would be written out for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 10
        self.maxstring = self.maxother = LONGEST

    def repr_int(self, value: int, level: int) -> str:
        return repr(value) if value.bit_length() <= LARGEST_BITS else f"an integer of {value.bit_length()} bits"


_BRIEF = _Brief()
