"""Which instances a warehouse has, and how one begins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sleeper_nb.catalog.catalog_base import TableEntry
from sleeper_nb.errors import Action, AlreadyExists, InvalidInput, NotFound
from sleeper_nb.model.properties import InstanceProperties
from sleeper_nb.report import Listing
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

_INSTANCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class InstanceSummary:
    """An instance: its name, its tables, and their rows at this moment."""

    name: str
    tables: tuple[str, ...]
    rows: int


def check_instance_name(name: str) -> None:
    """Raise `InvalidInput` when no instance can have the name."""
    if not _INSTANCE_NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a valid instance name", hint="use letters, digits, - and _")


def instance_names(warehouse: Storage) -> tuple[str, ...]:
    """Return the instances of a warehouse: the folders in it that have a catalog or a ``config`` folder."""
    config = paths.INSTANCE_PROPERTIES.partition("/")[0]
    return tuple(
        name
        for name in warehouse.folders()
        if _INSTANCE_NAME.fullmatch(name) and (config in warehouse.folders(name) or _has_catalog(warehouse, name))
    )


def check_there(warehouse: Storage, name: str) -> None:
    """Raise `NotFound` when a warehouse has no instance of a name, so that none is made by a slip."""
    names = instance_names(warehouse)
    if name not in names:
        near = NotFound.of("instance", name, names, where=f" in {warehouse.root}")
        raise NotFound(
            near.message,
            hint=(*near.hint_parts, " (", Action(f"add-instance {name}", "sleeper_nb.connect(…)"), " creates it)"),
        )


def _has_catalog(warehouse: Storage, name: str) -> bool:
    return warehouse.local and warehouse.has(f"{name}/{paths.CATALOG}")


def add_instance(warehouse: Storage, name: str, properties: InstanceProperties) -> str:
    """Make an instance without tables, and return where its properties are.

    Raises
    ------
    AlreadyExists
        When it is there.
    """
    check_instance_name(name)
    if name in instance_names(warehouse):
        raise AlreadyExists(f"instance {name!r} is there already", hint="choose another name, or use that instance")
    path = f"{name}/{paths.INSTANCE_PROPERTIES}"
    warehouse.write(path, properties.to_text().encode())
    return warehouse.locate(path)


def listing(summaries: tuple[InstanceSummary, ...], warehouse: str) -> Listing[InstanceSummary]:
    """Return instances as a table."""
    cells = tuple((each.name, len(each.tables), each.rows, ", ".join(each.tables)) for each in summaries)
    return Listing(summaries, ("instance", "tables", "rows", "names"), cells, f"instances of {warehouse}")


# What a table can be called: a word, and one that no other table of the instance has, in any case. Pure.

_TABLE_NAME = re.compile(r"[^\W\d][\w-]*")


def check_table_name(name: str, others: Iterable[TableEntry]) -> None:
    """Raise unless a table can be called so, beside the others.

    Raises
    ------
    InvalidInput
        When it does not start with a letter, or has other signs than letters, digits, - and _.
    AlreadyExists
        When another table is called so, perhaps in another case: SQL would not tell them apart.
    """
    if not _TABLE_NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a valid table name", hint="start with a letter; then letters, digits, - _")
    if name.casefold() in {entry.name.casefold() for entry in others}:
        raise AlreadyExists(f"table {name!r} is there already", hint="choose another name, or use that table")
