"""`why`: what was behind the last error, down to what an engine or a server said."""

from __future__ import annotations

import re
import textwrap
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sleeper_nb.commands.command import OUTPUT, Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import NotFound, SleeperError
from sleeper_nb.report import Grid, Report

# `help`: the table of commands, or one of them with its arguments and examples.

WIDTH = 80
_MOST_NAME = 26
EXAMPLE = "example"
_BRACKETS = re.compile(r"\[[^]]*\]")
_TOGETHER = "\0"


ON_CONSOLE = (
    option("--warehouse", text="its folder; SLEEPER_WAREHOUSE, sleeper.toml or ./warehouse if not", kind="path"),
    option("--instance", text="which of its instances; default when not given"),
)
"""Options that every command of the console takes."""


@dataclass(frozen=True, slots=True, repr=False)
class HelpPage(Report):
    """Names and what they are: folded to the width of a terminal as text, one row each in a notebook."""

    shown: Grid

    def grid(self) -> Grid:
        """Return one row a name."""
        return self.shown

    def to_dict(self) -> dict[str, Any]:
        """Return what is said, by the names; examples and lines below them come together."""
        said: dict[str, Any] = {}
        last = ""
        for name, text in self.shown.rows:
            last = str(name) or last
            said[last] = f"{said[last]}\n{text}" if last in said else str(text)
        return said

    def __repr__(self) -> str:
        return "\n".join(_folded(self.shown))


def _folded(grid: Grid) -> Iterator[str]:
    yield from textwrap.wrap(grid.title, WIDTH)
    rows = [tuple(map(str, row)) for row in grid.rows]
    in_examples = False
    width = min(_MOST_NAME, max(len(name) for name, _ in rows))
    for name, text in rows:
        if name == EXAMPLE or in_examples:  # they are there to be copied, so they are never folded
            if not in_examples:
                yield f"{EXAMPLE}s"
            in_examples = True
            yield f"  {text}"
            continue
        # what stands in brackets belongs together
        kept = _BRACKETS.sub(lambda found: found[0].replace(" ", _TOGETHER), text)
        lines = textwrap.wrap(kept, WIDTH - width - 2, break_long_words=False, break_on_hyphens=False) or [""]
        if len(name) > width:
            yield name
            name = ""  # noqa: PLW2901 - it has its own line
        for line in lines:
            yield f"{name:{width}}  {line.replace(_TOGETHER, ' ')}".rstrip()
            name = ""  # noqa: PLW2901 - only the first line has it
    yield from textwrap.wrap(grid.footer, WIDTH)


def _help(context: Context, arguments: Namespace) -> HelpPage:
    from sleeper_nb.commands import (
        COMMANDS as TABLE,  # here, as the table itself has this module's command
    )

    if arguments.command is not None:
        return HelpPage(describe(TABLE.find(arguments.command), context.prefix))
    return HelpPage(overview(TABLE.commands, context.prefix))


def overview(commands: tuple[Command, ...], prefix: str) -> Grid:
    """Return one row a command."""
    rows = tuple((_title(command), command.summary) for command in commands)
    if not prefix.startswith("%"):
        rows += tuple((f"{option.names[0]} {option.value}", option.help) for option in ON_CONSOLE)
        rows += (("--version", "print the version and exit"),)
    return Grid(("command", "what it does"), rows, footer=f"{prefix} help COMMAND tells more")


def describe(command: Command, prefix: str) -> Grid:
    """Return a command's arguments and examples, as they are typed behind `prefix`."""
    rows: list[tuple[object, ...]] = [("usage", f"{prefix} {command.usage}")]
    for argument in (*command.arguments, *((OUTPUT,) if prefix.startswith("%") else ())):
        default = "" if argument.default is None else f" ({argument.default})"
        names = ", ".join(argument.names) if argument.is_option else argument.usage
        value = argument.value if argument.takes_value else ""
        hidden = argument.choices and "|".join(argument.choices) != argument.value
        choices = f": {', '.join(argument.choices)}" if hidden else ""
        rows.append((f"{names} {value}".strip(), argument.help + choices + default))
    for example in command.examples:
        first, *body = example.splitlines()
        if body and not prefix.startswith("%"):
            continue  # a console has no cells
        rows.append((EXAMPLE, f"{'%' * bool(body)}{prefix} {first}"))
        rows += [("", line) for line in body]
    return Grid(("", ""), tuple(rows), f"{_title(command)}: {command.summary}")


def _title(command: Command) -> str:
    return ", ".join((command.name, *command.aliases))


HELPING_COMMANDS = (
    Command(
        "help",
        "list the commands, or show one with its arguments and examples",
        (positional("command", "the command", "command", metavar="COMMAND", optional=True),),
        _help,
        ("help", "help ingest"),
        words=("man", "?"),
        warehouse="none",
    ),
)

SHOWN_LINES = 30


@dataclass(frozen=True, slots=True, repr=False)
class Causes(Report):
    """An error and what caused it, the first cause last; `error` is the error itself, with its stack."""

    error: BaseException

    def chain(self) -> Iterator[BaseException]:
        """Yield the error, its cause, that one's cause."""
        seen: set[int] = set()
        error: BaseException | None = self.error
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            yield error
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def grid(self) -> Grid:
        """Return each error with its kind and the lines of what it says."""
        rows: list[tuple[object, ...]] = []
        for number, error in enumerate(self.chain()):
            lines = _said(error)
            left = len(lines) - SHOWN_LINES
            lines = [*lines[:SHOWN_LINES], f"… and {left} lines more, in str(_.error)"] if left > 0 else lines
            rows.append(("because of" if number else "it was", _kind(error), lines[0]))
            rows += [("", "", line) for line in lines[1:]]
        footer = "its stack: %config SleeperMagics.traceback='full'"
        return Grid(("what", "error", "what it says"), tuple(rows), footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the kinds and the whole texts, in order."""
        errors = list(self.chain())
        return {"error": [_kind(error) for error in errors], "says": ["\n".join(_said(error)) for error in errors]}


def _kind(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if isinstance(error, SleeperError) else f"{kind.__module__}.{kind.__qualname__}"


def _said(error: BaseException) -> list[str]:
    return [line for line in str(error).splitlines() if line.strip()] or ["nothing"]


def _why(context: Context, arguments: Namespace) -> Causes:  # noqa: ARG001 - it has none
    if context.failure is None:
        raise NotFound("no command has failed yet", hint="type it behind one that did, in the same notebook")
    return Causes(context.failure)


EXPLAINING_COMMANDS = (
    Command(
        "why",
        "show what was behind the last error: each cause, in its own words",
        (),
        _why,
        ("why",),
        words=("error", "traceback", "cause"),
        warehouse="none",
    ),
)
