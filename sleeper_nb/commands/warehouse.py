"""`instances`, `add-instance`, `set-online`, `set-offline`, `export-split-points`: administration beyond one table."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    INSTANCE,
    VERSION,
    Command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.create import property_of
from sleeper_nb.commands.home import Home, find_home
from sleeper_nb.commands.maintenance import switch
from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.report import Answer, Grid, Listing, Report
from sleeper_nb.storage.paths import CATALOG

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.instances import InstanceSummary
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table


# `use` and `tables`: which warehouse is open, and what is in it.


@dataclass(frozen=True, slots=True, repr=False)
class Opened(Report):
    """An instance that was opened; `session` is what a program works with. `others` are named beside an empty one.

    `made` says what opening it made: a new warehouse or a new instance.
    """

    warehouse: str
    instance: str
    tables: tuple[str, ...]
    session: Session
    others: tuple[str, ...] = ()
    made: str | None = None

    def grid(self) -> Grid:
        """Return where it is, and its tables."""
        rows = (
            ("warehouse", self.warehouse),
            ("instance", self.instance),
            ("tables", ", ".join(self.tables) or "none"),
            *([("other instances", ", ".join(self.others))] if self.others else []),
        )
        footer = f"{self.made} at {Path(self.session.location)}" if self.made else ""
        return Grid(("", ""), rows, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but for the session."""
        return {"warehouse": self.warehouse, "instance": self.instance, "tables": list(self.tables)}


def _use(context: Context, arguments: Namespace) -> Opened:
    from sleeper_nb.operations.administration.instances import instance_names
    from sleeper_nb.session import Session

    uri = arguments.uri or find_home(arguments.instance, None, os.environ, Path.cwd()).warehouse
    given = context.value(uri)
    if not isinstance(given, Session | str | Path):
        raise InvalidInput(f"{uri} is a {type(given).__name__}, no warehouse", hint="give a session, or its address")
    made = None if isinstance(given, Session) else _to_be_made(str(given), arguments.instance)
    session = given if isinstance(given, Session) else context.connect(str(given), arguments.instance)
    names = tuple(entry.name for entry in session.components.catalog.tables())
    context.session = session
    # An instance without tables may be a misspelt one, which was made just now.
    others = () if names else tuple(each for each in instance_names(session.warehouse()) if each != session.instance)
    return Opened(uri, session.instance, names, session, others, made)


def _to_be_made(uri: str, instance: str) -> str | None:
    """Return what opening makes: ``new warehouse``, ``new instance`` or None.

    Raises
    ------
    InvalidInput
        When it would be made among other files, as a slip in an address would do.
    """
    from sleeper_nb.operations.administration.instances import instance_names
    from sleeper_nb.storage.filesystem import open_storage

    folder = Home(uri).folder  # of a catalog in DynamoDB, the progress says that its tables are made
    if folder is None or (folder / instance / CATALOG).exists() or folder.is_file():
        return None
    if not folder.is_dir():
        return "new warehouse"
    if instance_names(open_storage(str(folder))):
        return "new instance"
    others = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if others:
        hint = f"choose a new or empty folder, such as {folder / 'warehouse'}"
        raise InvalidInput(f"{uri} is no warehouse: it has other files, such as {others[0]}", hint=hint)
    return "new warehouse"


def _tables(context: Context, arguments: Namespace) -> Listing[Table]:  # noqa: ARG001 - it has none
    return context.opened().tables()


OPENING_COMMANDS = (
    Command(
        "use",
        "open a warehouse; a new folder is a new one",
        (
            positional(
                "uri",
                "its folder, s3://bucket/prefix, or $name for a session of Python; where "
                "SLEEPER_WAREHOUSE, the nearest sleeper.toml, or else ./warehouse is, if not",
                "path",
                metavar="URI",
                optional=True,
            ),
            option("--instance", text="which of its instances", metavar="I", default="default"),
        ),
        _use,
        ("use ./warehouse", "use ./warehouse --instance test", "use"),
        words=("open", "connect"),
        warehouse="none",
    ),
    Command(
        "tables",
        "list the tables",
        (),
        _tables,
        ("tables",),
        words=("ls", "list"),
    ),
)


def _instances(context: Context, _arguments: Namespace) -> Listing[InstanceSummary]:
    from sleeper_nb.operations.administration.instances import (
        InstanceSummary,
        instance_names,
        list_instances,
    )

    found = []
    for name in instance_names(context.warehouse()):
        is_open = context.session is not None and context.session.instance == name
        session = context.instance(name) if is_open else context.connect(context.warehouse().root, name)
        catalog = session.components.catalog
        tables = catalog.tables()
        rows = sum(catalog.current(entry.id).rows for entry in tables)
        found.append(InstanceSummary(name, tuple(entry.name for entry in tables), rows))
        if not is_open:
            session.close()
    return list_instances(tuple(found), context.warehouse().root)


def _add(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.model.properties import InstanceProperties
    from sleeper_nb.operations.administration.instances import add_instance

    properties = InstanceProperties(dict(map(property_of, arguments.set)))
    path = add_instance(context.warehouse(), arguments.name, properties)
    return Answer(Grid((), (), footer=f"instance {arguments.name} is there, without tables; its properties: {path}"))


def _switch(context: Context, arguments: Namespace, *, online: bool) -> Answer:
    return switch(context.instance(arguments.instance_id).table(arguments.table_name), online=online)


def _export(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.model.keys import write_split_points

    at = context.table_at(arguments.table)
    points = at.state.tree.split_points()
    text = write_split_points(points, at.schema.row_keys[0], strings_base64=arguments.base64)
    if arguments.file is None:
        return Answer(Grid((), (), footer=text.removesuffix("\n")))
    path = Path(arguments.file).expanduser()
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", hint="give another file") from error
    return Answer(Grid((), (), footer=f"{len(points):,} split points of {at.name} are in {path}"))


_TABLE_NAME = positional("table_name", "its table", metavar="TABLE-NAME")
INSTANCES_COMMANDS = (
    Command(
        "instances",
        "list the instances of the warehouse, with their tables and rows",
        (),
        _instances,
        ("instances",),
        warehouse="place",
    ),
    Command(
        "add-instance",
        "make an instance without tables, with a file of its properties",
        (
            positional("name", "its name: letters, digits, - and _", metavar="NAME"),
            option("--set", text="a property of the instance; once for each", metavar="NAME=VALUE", many=True),
        ),
        _add,
        ("add-instance test", "add-instance test --set sleeper.default.table.gc.delay.minutes=60"),
        warehouse="place",
    ),
    Command(
        "set-online",
        "let maintenance work on a table of an instance again",
        (INSTANCE, _TABLE_NAME),
        partial(_switch, online=True),
        ("set-online demo trips",),
    ),
    Command(
        "set-offline",
        "keep maintenance off a table of an instance",
        (INSTANCE, _TABLE_NAME),
        partial(_switch, online=False),
        ("set-offline demo trips",),
    ),
    Command(
        "export-split-points",
        "write the first row key's split points, as --splits-file reads them",
        (
            VERSION,
            positional("file", "the file; without it, they are shown", "path", metavar="FILE", optional=True),
            flag("--base64", "strings in base64, as some have no line of text; byte arrays always are"),
        ),
        _export,
        ("export-split-points trips points.txt",),
    ),
)
