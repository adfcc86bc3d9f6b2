"""`help`: the table of commands, or one of them with its arguments and examples."""

from __future__ import annotations

import re
import textwrap
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sleeper_nb.commands.base import OUTPUT, Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Grid, Report

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
    from sleeper_nb.commands import COMMANDS as TABLE  # here, as the table itself has this module's command

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


COMMANDS = (
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
