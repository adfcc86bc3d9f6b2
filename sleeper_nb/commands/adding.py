"""`templates` and `add-table`: a table from files that are edited, as the specification's scripts make it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import INSTANCE, Command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound, StorageError
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.table import Table


def _templates(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.operations.administration import templates

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
    from sleeper_nb.operations.administration import templates

    folder = Path(templates.FOLDER)
    schema_path = arguments.schema or folder / templates.SCHEMA
    properties_path = arguments.properties or folder / templates.TABLE_PROPERTIES
    properties = TableProperties.from_text(_read(context, properties_path, "properties"), str(properties_path))
    if TABLE_SCHEMA in properties.texts:
        raise InvalidInput(
            f"{properties_path} sets {TABLE_SCHEMA}, but the schema is read from {schema_path}",
            hint=f"put the schema into {schema_path}, and take the line out of {properties_path}",
        )
    schema = templates.read_schema(_read(context, schema_path, "schema"), str(schema_path))
    session = context.instance(arguments.instance_id)
    return session.create_table(arguments.table_name, schema, properties=properties.texts)


def _read(context: Context, path: str | Path, what: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = f"{context.prefix} templates writes both files here to edit; or name one: --{what} FILE"
        raise NotFound(f"no file {path} with the {what} of the table", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8"
        raise StorageError(f"cannot read the {what} {path}: {why}", hint="give a text file") from error


COMMANDS = (
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
