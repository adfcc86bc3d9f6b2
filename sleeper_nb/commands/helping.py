"""`help`: the table of commands, or one of them with its arguments and examples."""

from __future__ import annotations

from argparse import Namespace

from sleeper_nb.commands.base import Command, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Answer, Grid


def _help(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.commands import COMMANDS as TABLE  # here, as the table itself has this module's command

    if arguments.command is not None:
        return Answer(describe(TABLE.find(arguments.command), context.prefix))
    return Answer(overview(TABLE.commands, context.prefix))


def overview(commands: tuple[Command, ...], prefix: str) -> Grid:
    """Return one row a command."""
    rows = tuple((_title(command), command.summary) for command in commands)
    return Grid(("command", "what it does"), rows, footer=f"{prefix} help COMMAND tells more")


def describe(command: Command, prefix: str) -> Grid:
    """Return a command's arguments and examples, as they are typed behind `prefix`."""
    rows: list[tuple[object, ...]] = [("usage", f"{prefix} {command.usage}")]
    for argument in command.arguments:
        default = "" if argument.default is None else f" ({argument.default})"
        names = ", ".join(argument.names) if argument.is_option else argument.usage
        value = argument.usage.strip("[]").partition(" ")[2] if argument.takes_value else ""
        rows.append((f"{names} {value}".strip(), argument.help + default))
    for example in command.examples:
        first, *body = example.splitlines()
        if body and not prefix.startswith("%"):
            continue  # a console has no cells
        rows.append(("example", f"{'%' * bool(body)}{prefix} {first}"))
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
