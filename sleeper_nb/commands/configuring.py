"""`properties`: what a table or an instance is told, what would be by default, and how to tell it otherwise."""

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
    table, words = _placed(arguments)
    if arguments.describe:
        return _described(words, arguments.unset)
    if arguments.accept:
        return _accepted(context, table, words, arguments.unset)
    of = context.opened() if table is None else context.table(table)
    changes = _changes(words, arguments.unset)
    names = [*(text.partition("=")[0].strip() for text in words), *arguments.unset]
    if not changes:
        return of.property_values(names)
    told = of.set_properties(changes)
    return told if set(names) == set(changes) else of.property_values(names)


def _accepted(context: Context, table: str | None, words: list[str], unset: list[str]) -> Listing[PropertyValue]:
    if table is None or words or unset:
        raise InvalidInput("--accept takes over the file of one table as it is", hint="properties T --accept")
    return context.table(table).accept_properties()


def _placed(arguments: Namespace) -> tuple[str | None, list[str]]:
    """Return the table, if one is named, and the words of properties: every one has a dot, and no table has."""
    first, words = arguments.table, arguments.property
    if first is not None and ("=" in first or "." in first.partition("@")[0]):
        return None, [first, *words]
    return first, words


def _changes(words: list[str], unset: list[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(unset)
    last = ""
    for text in words:
        name, equals, value = text.partition("=")
        if last and not equals and name.isalpha():  # no property is a word alone: a value was cut at its space
            whole = f"{last}={changes[last]} {name}"
            raise InvalidInput(f"{name!r} is not a valid property name", hint=f"write {whole!r}, with the quotes")
        if name in changes:
            raise InvalidInput(f"property {name} is named twice", hint="set it or unset it, once")
        if equals:
            last = name.strip()
            changes[last] = value.strip()
    return changes


def _described(words: list[str], unset: list[str]) -> PropertyGuide:
    from sleeper_nb.operations.administration.property_listing import guide

    if unset or any("=" in text for text in words):
        raise InvalidInput("--describe changes nothing", hint="leave it out, or the values")
    return guide(words)


COMMANDS = (
    Command(
        "properties",
        "show what a table is told, or tell it otherwise",
        (
            positional("table", "the table; without it, the instance", "configured", metavar="T", optional=True),
            positional("property", "only this property; KEY=VALUE sets it", "property", metavar="KEY[=VALUE]",
                       many=True, optional=True),
            option("--unset", text="let the instance's value or the default count again", metavar="KEY",
                   kind="property", many=True),
            flag("--accept", "take over the table's file as it is, after it was edited by hand"),
            flag("--describe", "show what each property is: its type, default and effect"),
        ),
        _run,
        (
            "properties trips",
            "properties trips 'snapshot.time-retained=30 d'",
            "properties trips --unset snapshot.time-retained",
            "properties trips --accept",
            "properties sleeper.default.table.gc.delay.minutes=60",
            "properties --describe",
            "properties --describe sleeper.storage.sync",
        ),
        words=("settings", "config", "set", "options"),
        free="describe",
    ),
)  # fmt: skip
