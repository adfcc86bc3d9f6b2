"""The reference page: every command, option and property, made of what defines them; run as a module to write it.

``python -m sleeper_nb.commands.reference`` writes ``REFERENCE.md`` beside the package's modules.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.base import Argument, Command
from sleeper_nb.errors import ConfirmationNeeded
from sleeper_nb.model.properties import Property
from sleeper_nb.operations.administration.property_listing import DEFAULTS_NOTE, groups

PAGE = Path(__file__).parents[1] / "REFERENCE.md"
BAR = r"\|"
_HEAD = """# Reference
Made by `python -m sleeper_nb.commands.reference` of the command table and the properties: do not edit it by hand.

Each command is typed behind `%sleeper` in a notebook and behind `sleeper` on a console. In a notebook each also takes
`-o VAR`, the variable that keeps its value, as `VAR = %sleeper …` does; on a console each takes `--warehouse` and
`--instance`, and `sleeper --version` tells the version. `T` is a table, `T@REF` one of its versions:
`T@12` or `T@v12`, `T@<savepoint>`, `T@savepoint.3`, `T@2026-11-01T10:00`.
"""


def page() -> str:
    """Return the content of the page."""
    rule = ["## What deletes", *_rule()]
    return "\n".join([_HEAD, *rule, "## Commands", *_commands(), "## Properties", *_properties()])


def write(path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(page(), encoding="utf-8")


def _rule() -> Iterator[str]:
    """Yield the rule of `ConfirmationNeeded`, where it is written down."""
    text = inspect.getdoc(ConfirmationNeeded) or ""
    yield text.partition("\n\n")[2].partition("\n\nParameters\n")[0]
    yield ""


def _commands() -> Iterator[str]:
    for command in COMMANDS.commands:
        yield f"### {command.name}"
        also = f" Also called {', '.join(f'`{name}`' for name in command.aliases)}." if command.aliases else ""
        yield f"{command.summary[:1].upper()}{command.summary[1:]}.{also}\n"
        yield f"    {command.usage}\n"
        if command.arguments:
            yield from _table(("argument", "what it is", "default"), map(_argument, command.arguments))
        yield from _examples(command)


def _argument(argument: Argument) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in argument.names) if argument.is_option else f"`{argument.usage}`"
    value = f" `{argument.value}`" if argument.takes_value else ""
    choices = f"; one of {', '.join(argument.choices)}" if argument.choices else ""
    return names + value, argument.help + choices, "" if argument.default is None else f"`{argument.default}`"


def _examples(command: Command) -> Iterator[str]:
    yield "Examples:\n"
    for example in command.examples:
        first, *body = example.splitlines()
        yield f"    {'%' * bool(body)}%sleeper {first}"
        yield from (f"    {line}" for line in body)
        if body:
            yield ""
    yield ""


def _properties() -> Iterator[str]:
    yield f"{DEFAULTS_NOTE}\n"
    for title, known in groups():
        yield f"### Properties: {title}"
        yield from _table(("property", "type", "default", "effect"), map(_property, known))


def _property(known: Property) -> tuple[str, str, str, str]:
    return f"`{known.name}`", known.kind, f"`{known.default}`" if known.default else "", known.effect


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |"
    yield ""


if __name__ == "__main__":
    write()
