"""`apply`: make the tables of an instance as a file declares them."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import (
    DRY_RUN,
    INSTANCE,
    Command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound, StorageError
from sleeper_nb.model.properties import SPLITS_BASE64, SPLITS_FILE, STATE_STORES
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Schema
    from sleeper_nb.operations.administration.apply import ApplyReport
    from sleeper_nb.table import Table
    from sleeper_nb.widgets.form import CreateForm


# `create`: a table from the lines of a cell, or from a file.


def _create(context: Context, arguments: Namespace) -> Table | CreateForm:
    if arguments.form:
        return _form(context, arguments.table)
    from sleeper_nb.model.keys import typed_split_points  # heavy: it brings pyarrow

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


CREATING_COMMANDS = (
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


# `templates` and `add-table`: a table from files that are edited, as the specification's scripts make it.


def _templates(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.operations.administration import table_templates as templates

    folder = Path(arguments.folder).expanduser() / templates.FOLDER
    texts = {
        folder / templates.TABLE_PROPERTIES: templates.table_properties_template(),
        folder / templates.SCHEMA: templates.schema_template(),
    }
    there = [path for path in texts if path.exists()]
    if there and not arguments.force:
        raise AlreadyExists(f"{there[0]} is there already", hint="--force writes it anew, without what was edited")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write into {folder}: {error.strerror}", hint="give another folder") from error
    footer = f"edit them; then {context.prefix} add-table INSTANCE-ID TABLE-NAME"
    return Answer(Grid(("written",), tuple((str(path),) for path in texts), footer=footer))


def _add(context: Context, arguments: Namespace) -> Table:
    from sleeper_nb.model.properties import TABLE_SCHEMA, TableProperties
    from sleeper_nb.operations.administration import table_templates as templates

    folder = Path(templates.FOLDER)
    schema_path = arguments.schema or folder / templates.SCHEMA
    properties_path = arguments.properties or folder / templates.TABLE_PROPERTIES
    properties = TableProperties.from_text(
        _read_templates(context, properties_path, "properties"), str(properties_path)
    )
    if TABLE_SCHEMA in properties.texts:
        raise InvalidInput(
            f"{properties_path} sets {TABLE_SCHEMA}, but the schema is read from {schema_path}",
            hint=f"put the schema into {schema_path}, and take the line out of {properties_path}",
        )
    schema = templates.read_schema(_read_templates(context, schema_path, "schema"), str(schema_path))
    session = context.instance(arguments.instance_id)
    return session.create_table(arguments.table_name, schema, properties=properties.texts)


def _read_templates(context: Context, path: str | Path, what: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = f"{context.prefix} templates writes both files here to edit; or name one: --{what} FILE"
        raise NotFound(f"no file {path} with the {what} of the table", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8"
        raise StorageError(f"cannot read the {what} {path}: {why}", hint="give a text file") from error


ADDING_COMMANDS = (
    Command(
        "templates",
        "write the files that add-table reads, to be edited: properties and schema",
        (
            positional("folder", "below which folder; this one when not given", "path", metavar="DIR", optional=True,
                       default="."),
            flag("--force", "also over files that are there"),
        ),
        _templates,
        ("templates", "templates my-tables --force"),
        warehouse="none",
    ),
    Command(
        "add-table",
        "make a table of an instance, as two edited files say",
        (
            INSTANCE,
            positional("table_name", "the new table", metavar="TABLE-NAME"),
            option("--properties", text="its properties; templates/tableproperties.template when not given",
                   metavar="FILE", kind="path"),
            option("--schema", text="its schema, as JSON or lines; templates/schema.template when not given",
                   metavar="FILE", kind="path"),
        ),
        _add,
        ("add-table demo trips", "add-table demo trips --properties trips.txt --schema trips.json"),
        words=("addtable", "addtable.sh"),
    ),
)  # fmt: skip


def _run(context: Context, arguments: Namespace) -> ApplyReport:
    return context.opened().apply(arguments.file, dry_run=arguments.dry_run, skip_conflicts=arguments.skip_conflicts)


APPLYING_COMMANDS = (
    Command(
        "apply",
        "make tables and their properties as a TOML file declares them; again does nothing",
        (
            positional("file", "the file: [tables.NAME] with schema, split-points and properties", "path",
                       metavar="FILE"),
            DRY_RUN,
            flag("--skip-conflicts", "when a table cannot be as declared, leave it alone and do the others"),
        ),
        _run,
        ("apply tables.toml --dry-run", "apply tables.toml"),
        words=("deploy", "declare"),
        warehouse="new",
    ),
)  # fmt: skip
