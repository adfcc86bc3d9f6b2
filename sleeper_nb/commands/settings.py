"""`properties`, `apply` and `migrate`: how tables and instances are configured."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import (
    DRY_RUN,
    MESSAGE,
    TABLE,
    command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.parse import check_quotes
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.properties import STATE_STORES

if TYPE_CHECKING:
    from sleeper_nb.model.property_guide import PropertyGuide
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.public_types import ApplyReport, PropertyValue
    from sleeper_nb.report import Listing


@command(
    "properties",
    "show or set the properties of a table or an instance",
    positional("table", "the table; the instance if not given", "configured", metavar="T", optional=True),
    positional("property", "only this property; KEY=VALUE sets it", "property", metavar="KEY[=VALUE]", many=True,
               optional=True),
    option("--unset", text="return to the instance's value or the default", metavar="KEY", kind="property", many=True),
    flag("--accept", "accept the table's properties file as it is, after it was edited by hand"),
    flag("--describe", "show the type, default and effect of each property"),
    examples=(
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
)  # fmt: skip
def properties(context: Context, arguments: Namespace) -> Listing[PropertyValue] | PropertyGuide:
    table, words = _table_and_words(arguments)
    if arguments.describe:
        return _describe_properties(words, arguments.unset)
    if arguments.accept:
        return _accept_file(context, table, words, arguments.unset)
    target = context.opened() if table is None else context.table(table)
    typed = arguments.words[1:]
    check_quotes(typed, arguments.written, lambda at: _goes_on(typed[at], typed[at + 1]), _NAMES)
    changes = _parse_changes(words, arguments.unset)
    names = [*(text.partition("=")[0].strip() for text in words), *arguments.unset]
    if not changes:
        return target.properties(names)
    changed = target.set_properties(changes)
    return changed if set(names) == set(changes) else target.properties(names)


def _accept_file(context: Context, table: str | None, words: list[str], unset: list[str]) -> Listing[PropertyValue]:
    if table is None or words or unset:
        raise InvalidInput("--accept takes one table and nothing else", hint=Action("properties T --accept"))
    return context.table(table).accept_properties()


def _table_and_words(arguments: Namespace) -> tuple[str | None, list[str]]:
    """Return the table, if one is named, and the words about properties: these have a dot, and no table's name does."""
    first, words = arguments.table, arguments.property
    if first is not None and ("=" in first or "." in first.partition("@")[0]):
        return None, [first, *words]
    return first, words


def _goes_on(word: str, following: str) -> bool:
    """Return whether a value was cut at a space, or the spaces around an equals sign cut it from its name."""
    return following == "=" or (word != "=" and "=" in word and not _NAMES.match(following))


_NAMES = re.compile(r"--?[a-z]|[a-z][\w-]*(\.[\w-]+)+\s*(=|$)", re.IGNORECASE)
"""An option, or a property: every property has a dot in its name."""


def _parse_changes(words: list[str], unset: list[str]) -> dict[str, str | None]:
    """Return the new value of each property that is set, and None for each that is unset."""
    changes: dict[str, str | None] = dict.fromkeys(unset)
    for text in words:
        name, equals, value = text.partition("=")
        if name in changes:
            raise InvalidInput(f"property {name} is given twice", hint="set it or unset it, once")
        if equals:
            changes[name.strip()] = value.strip()
    return changes


def _describe_properties(words: list[str], unset: list[str]) -> PropertyGuide:
    from sleeper_nb.model.property_guide import describe_properties

    if unset or any("=" in text for text in words):
        raise InvalidInput("--describe changes nothing", hint="leave out --describe, or the values")
    return describe_properties(words)


@command(
    "apply",
    "create tables and set properties as a file says; it is TOML, and applying it again changes nothing",
    positional("file", "the file: [tables.NAME] with schema, split-points and properties", "path", metavar="FILE"),
    DRY_RUN,
    flag("--skip-conflicts", "skip tables that cannot be made as declared, and apply the others"),
    examples=("apply tables.toml --dry-run", "apply tables.toml"),
    words=("deploy", "declare"),
    warehouse="new",
)
def apply(context: Context, arguments: Namespace) -> ApplyReport:
    return context.opened().admin.apply(
        arguments.file, dry_run=arguments.dry_run, skip_conflicts=arguments.skip_conflicts
    )


@command(
    "migrate",
    "move a table's metadata to another state store; history and savepoints stay",
    TABLE,
    option("--to", text="the new state store", metavar="state-store", choices=STATE_STORES),
    MESSAGE,
    examples=("migrate trips --to TransactionLogStateStore",),
    words=("move", "convert"),
)
def migrate(context: Context, arguments: Namespace) -> Snapshot:
    table = context.table(arguments.table)
    if arguments.to is None:
        kind = table.history(1)[0].state_store
        other = next(name for name in STATE_STORES if name != kind)
        raise InvalidInput(
            f"migrate needs a state store; {table.name} has {kind}", hint=Action(f"migrate {table.name} --to {other}")
        )
    return context.opened().admin.migrate(table.name, arguments.to, message=arguments.message)
