"""The command line's parser: its own refusals, too, are one line with the user's word and what it may have meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from dpgraph.errors import invalid, meant, one_line, shown

OPTION = re.compile(r"--[A-Za-z][\w-]*")
KINDS = {"int": "an integer", "float": "a number"}


class Parser(argparse.ArgumentParser):
    """Of a subcommand, too: argparse makes subparsers of their parser's class."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        given = sys.argv[1:] if args is None else list(args)
        if self._subparsers is None:  # else a part of the words is for another parser
            self._check_names(given)
        return super().parse_known_args(given, namespace)

    def _check_names(self, given: Sequence[str]) -> None:
        """Before argparse looks for what is missing: --datset is a slip of --dataset, and not a lack of it."""
        known = list(self._option_string_actions)
        for word in given:
            if word == "--":
                return
            name = word.partition("=")[0]
            if OPTION.fullmatch(name) and not any(one.startswith(name) for one in known):
                self.error(f"{name}: no such option{meant(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        name = "/".join(action.option_strings) or str(action.metavar or action.dest)
        # other spellings of a name (poisson-gaussian for poisson_gaussian) are not listed twice
        names = list({str(one).replace("_", "-"): str(one) for one in action.choices}.values())
        self.error(str(invalid(name, value, f"one of {', '.join(names)}")))

    def error(self, message: str) -> NoReturn:
        wrong = re.fullmatch(r"argument (\S+): invalid (int|float) value: '(.*)'", message, re.DOTALL)
        if wrong is not None:
            message = f"{wrong[1]}={shown(wrong[3])}: expected {KINDS[wrong[2]]}"
        self.exit(2, f"error: {one_line(message)} ({self.prog} --help)\n")
