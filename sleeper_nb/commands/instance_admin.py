"""Instances of a warehouse, and the commands with the names and arguments of Sleeper's own scripts."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import (
    CONFIRMED,
    DRY_RUN,
    INSTANCE,
    TABLE,
    VERSION,
    command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.confirm import delete_confirmed
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.deploy_instance import DEPLOY_OPTIONS, deploy_instance
from sleeper_nb.commands.maintenance import set_online
from sleeper_nb.commands.tables import NEW_NAME, OLD_NAME, parse_property
from sleeper_nb.errors import Action, AlreadyExists, InvalidInput, NotFound, StorageError
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.public_types import DeletionReport, DeployReport, InstanceSummary, ReinitialiseReport
    from sleeper_nb.report import Listing
    from sleeper_nb.table import Table

TABLE_NAME = positional("table_name", "its table", "table", metavar="TABLE-NAME")


@command(
    "instances",
    "list the instances of the warehouse; their tables and rows",
    examples=("instances",),
    reads_only=True,
    warehouse="place",
)
def instances(context: Context, _arguments: Namespace) -> Listing[InstanceSummary]:
    return context.warehouse().instances()


@command(
    "add-instance",
    "create an instance without tables; also a file of its properties, or all that it needs on AWS",
    positional("name", "its name: letters, digits, - and _; with --deploy s3://bucket/prefix", metavar="NAME"),
    option("--set", text="a property of the instance; can be repeated", metavar="NAME=VALUE", many=True),
    *DEPLOY_OPTIONS,
    examples=(
        "add-instance test",
        "add-instance test --set sleeper.default.table.gc.delay.minutes=60",
        "add-instance s3://bucket/prefix --instance prod --deploy",
        "add-instance s3://bucket/prefix --instance prod --deploy --force",
    ),
    words=("deploy",),
    warehouse="place",
)  # fmt: skip
def create_instance(context: Context, arguments: Namespace) -> Answer | DeployReport:
    return (deploy_instance if arguments.deploy else _add_instance)(context, arguments)


def _add_instance(context: Context, arguments: Namespace) -> Answer:
    if "://" in arguments.name:
        line = Action(f"add-instance {arguments.name} --instance NAME --deploy")
        raise InvalidInput(f"{arguments.name} is an address, not a name", hint=("to plan one there: ", line))
    path = context.warehouse().add_instance(arguments.name, dict(map(parse_property, arguments.set)))
    return Answer(Grid((), (), footer=f"created instance {arguments.name}, without tables; its properties: {path}"))


@command(
    "templates",
    "write the files that add-table reads, for you to edit: properties and schema",
    positional("folder", "the folder to create them in; this one if not given", "path", metavar="DIR", optional=True,
               default="."),
    flag("--force", "overwrite existing files"),
    examples=("templates", "templates my-tables --force"),
    warehouse="none",
)  # fmt: skip
def templates(context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.commands import table_templates  # heavy: it brings pyarrow

    folder = Path(arguments.folder).expanduser() / table_templates.FOLDER
    texts = {
        folder / table_templates.TABLE_PROPERTIES: table_templates.table_properties_template(),
        folder / table_templates.SCHEMA: table_templates.schema_template(),
    }
    existing = [path for path in texts if path.exists()]
    if existing and not arguments.force:
        raise AlreadyExists(f"{existing[0]} already exists", hint="--force overwrites it, and any edits in it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write into {folder}: {error.strerror}", hint="give another folder") from error
    footer = f"edit them; then {context.prefix} add-table INSTANCE-ID TABLE-NAME"
    return Answer(Grid(("written",), tuple((str(path),) for path in texts), footer=footer))


@command(
    "add-table",
    "create a table of an instance from two edited files: properties and schema",
    INSTANCE,
    positional("table_name", "the new table", metavar="TABLE-NAME"),
    option("--properties", text="its properties; templates/tableproperties.template if not given", metavar="FILE",
           kind="path"),
    option("--schema", text="its schema, as JSON or lines; templates/schema.template if not given", metavar="FILE",
           kind="path"),
    examples=("add-table demo trips", "add-table demo trips --properties trips.txt --schema trips.json"),
    words=("addtable", "addtable.sh"),
)  # fmt: skip
def add_table(context: Context, arguments: Namespace) -> Table:
    from sleeper_nb.commands import table_templates  # heavy: it brings pyarrow
    from sleeper_nb.model.properties import TABLE_SCHEMA, TableProperties
    from sleeper_nb.model.schema import read_schema

    folder = Path(table_templates.FOLDER)
    schema_path = arguments.schema or folder / table_templates.SCHEMA
    properties_path = arguments.properties or folder / table_templates.TABLE_PROPERTIES
    properties = TableProperties.from_text(_read_file(properties_path, "properties"), str(properties_path))
    if TABLE_SCHEMA in properties.texts:
        raise InvalidInput(
            f"{properties_path} sets {TABLE_SCHEMA}, but the schema is read from {schema_path}",
            hint=f"put the schema into {schema_path}, and remove the line from {properties_path}",
        )
    schema = read_schema(_read_file(schema_path, "schema"), str(schema_path))
    session = context.instance(arguments.instance_id)
    return session.create_table(arguments.table_name, schema, properties=properties.texts)


def _read_file(path: str | Path, what: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = (Action("templates"), f" writes both files here to edit; or name one: --{what} FILE")
        raise NotFound(f"no file {path} with the {what} of the table", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise StorageError(f"cannot read the {what} {path}: {reason}", hint="give a text file") from error


@command(
    "rename-table",
    "rename a table of an instance, as Sleeper's script does",
    INSTANCE,
    OLD_NAME,
    NEW_NAME,
    examples=("rename-table default trips journeys",),
)
def rename_table(context: Context, arguments: Namespace) -> Table:
    return context.instance(arguments.instance_id).rename_table(arguments.old, arguments.new)


@command(
    "delete-table",
    "delete a table of an instance permanently; as Sleeper's script does",
    INSTANCE,
    TABLE,
    DRY_RUN,
    CONFIRMED,
    examples=("delete-table default trips", "delete-table default trips --force"),
    words=("drop-table",),
)
def delete_table(context: Context, arguments: Namespace) -> DeletionReport:
    session = context.instance(arguments.instance_id)
    drop = partial(session.drop_table, arguments.table)
    return delete_confirmed(context, session, arguments, drop, lambda plan: plan.table)


@command(
    "reinitialise-table",
    "delete all contents of a table of an instance; as Sleeper's script does",
    INSTANCE,
    TABLE,
    positional("delete_partitions", "true creates new partitions", metavar="DELETE-PARTITIONS", optional=True),
    positional("split_points_file", "the new split points, one a line", "path", metavar="SPLIT-POINTS-FILE",
               optional=True),
    positional("base64_encoded", "true when strings in that file are base64", metavar="BASE64-ENCODED",
               optional=True),
    DRY_RUN,
    flag("--force", "do it even when there are savepoints, which stay; without it a notebook shows the plan"),
    examples=("reinitialise-table default trips", "reinitialise-table mine trips true points.txt false"),
)  # fmt: skip
def reinitialise_table(context: Context, arguments: Namespace) -> ReinitialiseReport:
    delete_partitions = _parse_truth("delete-partitions", arguments.delete_partitions)
    strings_base64 = _parse_truth("base64-encoded", arguments.base64_encoded)
    session = context.instance(arguments.instance_id)
    reinitialise = partial(
        session.admin.reinitialise,
        arguments.table,
        delete_partitions=delete_partitions,
        splits_file=arguments.split_points_file,
        strings_base64=strings_base64,
    )
    if context.face == "console" and not (arguments.force or arguments.dry_run):
        # Sleeper's script does not ask: its line is the confirmation, unless the table has savepoints.
        arguments = Namespace(**{**vars(arguments), "force": not reinitialise(dry_run=True).savepoints})
    return delete_confirmed(context, session, arguments, reinitialise, lambda plan: plan.table)


def _parse_truth(name: str, text: str | None) -> bool:
    if text is None:
        return False
    if text.lower() not in {"true", "false"}:
        raise InvalidInput(
            f"{name} is true or false, not {text!r}", hint=(Action("help reinitialise-table"), " shows the order")
        )
    return text.lower() == "true"


@command(
    "set-online",
    "include a table of an instance in maintenance again",
    INSTANCE,
    TABLE_NAME,
    examples=("set-online demo trips",),
)
def set_table_online(context: Context, arguments: Namespace) -> Answer:
    return set_online(context.instance(arguments.instance_id).table(arguments.table_name), online=True)


@command(
    "set-offline",
    "exclude a table of an instance from maintenance",
    INSTANCE,
    TABLE_NAME,
    examples=("set-offline demo trips",),
)
def set_table_offline(context: Context, arguments: Namespace) -> Answer:
    return set_online(context.instance(arguments.instance_id).table(arguments.table_name), online=False)


@command(
    "export-split-points",
    "write the split points of the first row key; in the form that --splits-file reads",
    VERSION,
    positional("file", "the file; without it, they are shown", "path", metavar="FILE", optional=True),
    flag("--base64", "write strings as base64, since some do not fit on a line; byte arrays always are"),
    examples=("export-split-points trips points.txt",),
)
def export_split_points(context: Context, arguments: Namespace) -> Answer:
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
    return Answer(Grid((), (), footer=f"wrote {len(points):,} split points of {at.name} to {path}"))
