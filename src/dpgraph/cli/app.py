"""Find the command of the command line, read its options by its signature and run it.

A command is a function of the module of its group. Its docstring is its help. To add one, write the function and put
its name into `GROUPS`. Modules of groups import heavy packages inside their functions, so `dpgraph --help` stays quick.

A user's mistake prints one line and ends with status 2, a failure of the file system (no space left, a read-only
folder) one line with the file and status 1.
"""

from __future__ import annotations

import logging
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, get_origin

from dpgraph import __version__
from dpgraph.core.errors import Invalid, UserError, invalid, meant, one_line, shown

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError


class CommandGroup(NamedTuple):
    """A group of commands: its title and the names of its commands."""

    title: str
    commands: tuple[str, ...]


GROUPS = {  # by the module that has the commands
    "graph": CommandGroup("Your graph", ("fit", "predict", "compare", "afford", "export")),
    "workflow": CommandGroup(
        "Workflow", ("run", "list", "explain", "cost", "ship", "render", "verify", "status", "settings", "schemas")
    ),
    "skeletons": CommandGroup("Your own workflow", ("new-project", "new")),
    "stages": CommandGroup(
        "Stages, as the rules of the workflow call them",
        ("fetch", "preprocess", "calibrate", "train", "aggregate", "artefacts", "page", "references"),
    ),
    "privacy": CommandGroup("Privacy", ("epsilon", "noise", "plan", "audit", "check")),
}
COMMANDS = {name: module for module, group in GROUPS.items() for name in group.commands}
HELP = ("--help", "-h")
NUMBERS = {int: "an integer", float: "a number"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] in HELP:
        with suppress(BrokenPipeError):  # the reader of a listing (head, less) has left
            print(overview(), flush=True)
        return 0
    if given[0] == "--version":
        print(f"dpgraph {__version__}")
        return 0
    name = given[0]
    if name not in COMMANDS:
        return _refuse(f"{shown(name)}: no such command; dpgraph --help lists them{meant(name, COMMANDS)}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    try:
        return call(name, given[1:])
    except UserError as error:
        return _refuse(str(error))
    except BrokenPipeError:  # the reader of a listing (head, less) has left
        sys.stderr.close()
        return 1
    except OSError as error:
        from dpgraph.core.files import cause

        return _refuse(cause(error), status=1)
    except ValueError as error:
        from pydantic import ValidationError

        from dpgraph.config.config import first_line

        if not isinstance(error, ValidationError):
            raise
        return _refuse(f"{error.title}: {first_line(error)}")
    except KeyboardInterrupt as error:
        signal_name = str(error) or "SIGINT"
        whole = COMMANDS[name] == "graph"
        kept = "no folder was written" if whole else "finished work is kept, run again to resume"
        return _refuse(f"ended by {signal_name}: {kept}", status=128 + signal.Signals[signal_name])


def command(name: str) -> Callable[..., int | None]:
    """Return the function of a command."""
    module = import_module(f"dpgraph.cli.{COMMANDS[name]}")
    found = getattr(module, name.replace("-", "_"), None) or getattr(module, f"{name}_")  # `list` is Python's
    return found  # type: ignore[no-any-return]


def call(name: str, words: Sequence[str]) -> int:
    """Run a command with the words that follow its name and return its exit status.

    Raises UserError for words that the command does not take.
    """
    from cyclopts import CycloptsError

    app = parser(name)
    try:
        function, bound, _ = app.parse_args(words)
    except CycloptsError as error:
        line = _slip(app, words) or _plainly(error) or one_line(str(error)).rstrip(".")
        raise UserError(f"{line} (dpgraph {name} --help)") from None
    if not any(word.startswith("--config") for word in words):
        _name_outside()
    try:
        return function(*bound.args, **bound.kwargs) or 0
    except Invalid as error:  # what the package knows as `delta` the user called --delta
        option = f"--{error.name.replace('_', '-')}"
        if any(word == option or word.startswith(f"{option}=") for word in words):
            raise error.called(option) from None
        raise


def parser(name: str) -> App:
    """Return the parser of a command, which has its help, too."""
    from cyclopts import App, Parameter

    app = App(
        name=f"dpgraph {name}",
        help_format="plaintext",
        version_flags=(),
        default_parameter=Parameter(
            negative=(), json_list=False, json_dict=False, show_default=lambda value: str(value) if value else None
        ),
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    app.default(command(name))
    app["--help"].show = False
    return app


def overview() -> str:
    """Return the help of `dpgraph` alone: all commands with the first line of their help."""
    width = max(map(len, COMMANDS)) + 4
    lines = ["Usage: dpgraph COMMAND [OPTIONS]", "", f"{sys.modules['dpgraph'].__doc__}".partition("\n")[0]]
    for group in GROUPS.values():
        lines += ["", f"{group.title}:"]
        for name in group.commands:
            text = (command(name).__doc__ or "").partition("\n")[0].removesuffix(".")
            lines.append(f"  {name.ljust(width - 2)}{text}"[: shutil.get_terminal_size((120, 24)).columns])
    return "\n".join([*lines, "", "dpgraph COMMAND --help shows the options of a command."])


def _refuse(line: str, status: int = 2) -> int:
    print(f"error: {line}", file=sys.stderr)
    return status


def _slip(app: App, words: Sequence[str]) -> str:
    """Name an option that is nearly one: cyclopts misses the option that was meant instead."""
    known = [name for argument in app.assemble_argument_collection() for name in argument.names]
    options = (word.partition("=")[0] for word in words if word.startswith("--"))
    return next(
        (f"{one}: no such option{meant(one, known)}" for one in options if one not in known and meant(one, known)), ""
    )


def _plainly(error: CycloptsError) -> str:
    """Say of a word that is missing, one too many or of another kind what cyclopts says in words of its own."""
    from cyclopts import MissingArgumentError, UnusedCliTokensError

    if isinstance(error, UnusedCliTokensError):
        return f"{' '.join(map(shown, error.unused_tokens or ()))}: expected no more words"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return f"{error.keyword}: expected a value" if error.keyword else f"{error.argument.name}: missing"
    token, target, argument = (getattr(error, name, None) for name in ("token", "target_type", "argument"))
    if not token or argument is None:
        return ""
    kinds = [one for one in (target, *get_args(target)) if one in NUMBERS or get_origin(one) is Literal]
    allowed = [NUMBERS.get(one) or f"one of {', '.join(map(str, get_args(one)))}" for one in kinds]
    return str(invalid(token.keyword or argument.name.lower(), token.value, allowed[0])) if allowed else ""


def _name_outside() -> None:
    """Register what the config of this folder names outside the package, for commands that read no config themselves.

    Away from a Snakefile a config.yaml may be another program's: it is read where all its names are ours.
    """
    path = Path("config.yaml")
    if path.is_file() and "registry:" in path.read_text(errors="replace"):
        from dpgraph.config.config import Config, knows
        from dpgraph.config.config import load as load_config
        from dpgraph.core.outside import use

        if Path("Snakefile").is_file() or knows(Config, path):
            use(load_config(Config, path).registry)
