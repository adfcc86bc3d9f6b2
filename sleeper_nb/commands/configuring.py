"""`properties`: what a table is told, what it would be by default, and how to tell it otherwise."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.property_listing import PropertyGuide, PropertyValue
    from sleeper_nb.report import Listing


def _run(context: Context, arguments: Namespace) -> Listing[PropertyValue] | PropertyGuide:
    if arguments.describe:
        return _described(arguments)
    if arguments.table is None:
        return context.opened().property_values()
    table = context.table(arguments.table)
    changes: dict[str, str | None] = dict.fromkeys(arguments.unset)
    last = ""
    for text in arguments.property:
        name, equals, value = text.partition("=")
        if last and not equals and name.isalpha():  # no property is a word alone: a value was cut at its space
            whole = f"{last}={changes[last]} {name}"
            raise InvalidInput(f"no property can be called {name!r}", hint=f"write {whole!r}, with the quotes")
        if name in changes:
            raise InvalidInput(f"property {name} is named twice", hint="set it or unset it, once")
        if equals:
            last = name.strip()
            changes[last] = value.strip()
    if changes:
        table.set_properties(changes)
    return table.property_values([*(text.partition("=")[0].strip() for text in arguments.property), *arguments.unset])


def _described(arguments: Namespace) -> PropertyGuide:
    from sleeper_nb.operations.administration.property_listing import guide

    if arguments.unset or any("=" in text for text in arguments.property):
        raise InvalidInput("--describe changes nothing", hint="leave it out, or the values")
    return guide(arguments.property)


COMMANDS = (
    Command(
        "properties",
        "show what a table is told, or tell it otherwise",
        (
            positional("table", "the table; without it, the instance", "table", metavar="T", optional=True),
            positional("property", "only this property; KEY=VALUE sets it", "property", metavar="KEY[=VALUE]",
                       many=True, optional=True),
            option("--unset", text="let the instance's value or the default count again", metavar="KEY",
                   kind="property", many=True),
            flag("--describe", "show what each property is: its type, default and effect"),
        ),
        _run,
        (
            "properties trips",
            "properties trips 'snapshot.time-retained=30 d'",
            "properties trips --unset snapshot.time-retained",
            "properties --describe",
        ),
        words=("settings", "config", "set", "options"),
        free="describe",
    ),
)  # fmt: skip
