"""`create`: a table from the lines of a cell, or from a file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.model.properties import SPLITS_BASE64, SPLITS_FILE, STATE_STORES

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Schema
    from sleeper_nb.table import Table
    from sleeper_nb.widgets.create_form_widget import CreateForm


def _create(context: Context, arguments: Namespace) -> Table | CreateForm:
    if arguments.form:
        return _form(context, arguments.table)
    from sleeper_nb.model.split_points import typed_split_points  # heavy: it brings pyarrow

    session = context.opened()
    points = typed_split_points(arguments.splits or "")
    properties = dict(map(property_of, arguments.set))
    if arguments.splits_file:
        properties[SPLITS_FILE] = arguments.splits_file
    if arguments.base64:
        properties[SPLITS_BASE64] = "true"
    store = arguments.state_store
    return session.create_table(
        arguments.table, _schema(context, arguments), points, state_store=store, properties=properties
    )


def _form(context: Context, name: str | None) -> CreateForm:
    context.check_shows_widgets("--form", "sleeper create T --schema FILE")
    from sleeper_nb import widgets

    return widgets.create_form(context.opened(), name)


def property_of(text: str) -> tuple[str, str]:
    """Return the name and the value of ``--set NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"--set {text!r} gives no value", hint="write --set NAME=VALUE, once for each property")
    return name.strip(), value.strip()


def _schema(context: Context, arguments: Namespace) -> Schema:
    from sleeper_nb.model.schema import Schema

    if (arguments.body is None) == (arguments.schema is None):
        line = "name TYPE [KEY|SORT] [NULL]"
        hint = f"write lines below %%sleeper create: {line}; or give --schema FILE"
        if context.face == "console":
            hint = f"give --schema FILE, a file of lines: {line}; --schema - reads them from the console"
        raise InvalidInput("create needs the columns of the table, once", hint=hint)
    text = arguments.body or _read(arguments.schema)
    return Schema.from_json(text) if text.lstrip().startswith("{") else Schema.from_ddl(text)


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise StorageError(f"cannot read the schema {path}: {why}", hint="give a file of lines or JSON") from error


COMMANDS = (
    Command(
        "create",
        "make a table of the columns below it: name TYPE [KEY|SORT] [NULL]",
        (
            positional("table", "the table", "table", metavar="T", unless="form"),
            flag("--form", "fill in a form, which writes the cell; in a notebook"),
            option("--splits", text="first row keys at which it is cut into partitions", metavar="g,n,t"),
            option("--splits-file", text="a file of them, one a line, ascending", metavar="FILE", kind="path"),
            flag("--base64", "strings of that file are in base64; byte arrays always are"),
            option("--schema", text="a file with the columns, as lines or as JSON; - reads them from the console",
                   metavar="FILE", kind="path"),
            option("--state-store", text="where its metadata is kept, if not where the instance says",
                   choices=STATE_STORES, metavar="state-store"),
            option("--set", text="a property of the table; once for each", metavar="NAME=VALUE", many=True),
        ),
        _create,
        (
            "create trips --splits g,n,t\ncity STRING KEY, pickup TIMESTAMP SORT, fare DOUBLE NULL",
            "create trips --splits g,n,t --schema trips.ddl",
            "create --form",
            "create sales --set sleeper.table.aggregations=sum(fare)\ncity STRING KEY, fare DOUBLE",
        ),
        aliases=("add",),
        words=("make", "new", "init"),
        body=True,
        warehouse="new",
        free="form",
    ),
)  # fmt: skip
