"""`instances`, `add-instance`, `set-online`, `set-offline`, `export-split-points`: administration beyond one table."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import INSTANCE, VERSION, Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.creating import property_of
from sleeper_nb.commands.switching import switch
from sleeper_nb.errors import StorageError
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.instances import InstanceSummary
    from sleeper_nb.report import Listing


def _instances(context: Context, _arguments: Namespace) -> Listing[InstanceSummary]:
    from sleeper_nb.operations.administration.instances import InstanceSummary, instance_names, listing

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
    return listing(tuple(found), context.warehouse().root)


def _add(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.model.properties import InstanceProperties
    from sleeper_nb.operations.administration.instances import add_instance

    properties = InstanceProperties(dict(map(property_of, arguments.set)))
    path = add_instance(context.warehouse(), arguments.name, properties)
    return Answer(Grid((), (), footer=f"instance {arguments.name} is there, without tables; its properties: {path}"))


def _switch(context: Context, arguments: Namespace, *, online: bool) -> Answer:
    return switch(context.instance(arguments.instance_id).table(arguments.table_name), online=online)


def _export(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.model.split_points import write_split_points

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
COMMANDS = (
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
