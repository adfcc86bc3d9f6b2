"""The names of Sleeper's own scripts: each is a command, in the instance that is its first word; and `templates`."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from sleeper_nb.commands.command import CONFIRMED, DRY_RUN, TABLE, Argument, Command, command, flag, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.maintenance import offline, online
from sleeper_nb.commands.tables import create, drop, read_text, reinitialise, rename
from sleeper_nb.errors import AlreadyExists, InvalidInput, StorageError
from sleeper_nb.report import Answer, Grid

FOLDER = "templates"
PROPERTIES = f"{FOLDER}/tableproperties.template"
SCHEMA = f"{FOLDER}/schema.template"
_WIDTH = 100
_HEAD = """Properties of a new table, for: sleeper add-table INSTANCE-ID TABLE-NAME
Each property is commented out and shows its default. To set one, remove the # and change the value.
A property that is not set has the value that the instance sets (sleeper.default.table.…), or the default.
"""


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
    from sleeper_nb.model.schema import Schema  # heavy: it brings pyarrow

    folder = Path(arguments.folder).expanduser()
    example = Schema({"key": "string"}, {"timestamp": "long"}, {"value": "string?"})
    texts = {folder / PROPERTIES: _table_properties(), folder / SCHEMA: example.to_json() + "\n"}
    existing = [path for path in texts if path.exists()]
    if existing and not arguments.force:
        raise AlreadyExists(f"{existing[0]} already exists", hint="--force overwrites it, and any edits in it")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write into {folder}: {error.strerror}", hint="give another folder") from error
    footer = f"edit them; then {context.prefix} add-table INSTANCE-ID TABLE-NAME"
    return Answer(Grid(("written",), tuple((str(path),) for path in texts), footer=footer))


def _table_properties() -> str:
    """Return the text of a properties file that names every property of a table and sets none."""
    from sleeper_nb.model.config_text import comment_of, line_of
    from sleeper_nb.model.property_guide import property_groups, type_and_default

    parts = [comment_of(_ascii(_HEAD))]
    for title, properties in property_groups():
        if title == "instance":
            continue
        parts.append(comment_of(f"\n== {title} =="))
        for each in properties:
            description = textwrap.wrap(_ascii(f"{each.effect}. {type_and_default(each)}"), _WIDTH)
            parts.append("\n" + comment_of("\n".join(description)) + f"# {line_of(each.name, each.default)}\n")
    return "".join(parts)


def _ascii(text: str) -> str:
    """Return a text in ASCII: Java before version 9 reads properties files as Latin-1."""
    return text.replace("…", "...").replace("−", "-")


def _script(
    name: str,
    of: Command,
    arguments: tuple[Argument, ...],
    example: str,
    adapt: Callable[[Context, Namespace], None] | None = None,
) -> Command:
    """Return a command under the name of a script.

    Parameters
    ----------
    name, arguments, example
        Of the script; the instance comes before its arguments. What the command takes besides has its default.
    of
        The command.
    adapt
        Makes the arguments of the command from those of the script, in a context of the instance.
    """
    absent: dict[str, Any] = {
        each.dest: [] if each.many else False if each.is_flag else each.default for each in of.arguments
    }

    def run(context: Context, given: Namespace) -> Any:
        own = Namespace(**{**absent, **vars(given)})
        inside = replace(context, session=context.instance(given.instance_id))
        if adapt is not None:
            adapt(inside, own)
        answer = of.run(inside, own)
        is_elsewhere = context.session is not inside.session and is_dataclass(answer)
        if is_elsewhere and "instance" in {each.name for each in fields(answer)}:
            return replace(answer, instance=given.instance_id)
        return answer

    instance = positional("instance_id", "an instance of the open warehouse", "instance", metavar="INSTANCE-ID")
    summary = f"as {of.name}, in an instance; the name and arguments of Sleeper's script"
    return Command(name, summary, (instance, *arguments), run, (example,), alias=of.name)


def _read_properties(_context: Context, arguments: Namespace) -> None:
    from sleeper_nb.model.properties import TABLE_SCHEMA, TableProperties  # heavy: it brings pyarrow

    path = arguments.properties
    texts = TableProperties.from_text(read_text(path, "properties"), path).texts
    if TABLE_SCHEMA in texts:
        raise InvalidInput(
            f"{path} sets {TABLE_SCHEMA}, but the schema is read from {arguments.schema}",
            hint=f"put the schema into {arguments.schema}, and remove the line from {path}",
        )
    arguments.set = [f"{name}={value}" for name, value in texts.items()]


def _reinitialised(context: Context, arguments: Namespace) -> None:
    arguments.delete_partitions = arguments.delete_partitions == "true"
    arguments.base64 = arguments.base64 == "true"
    if context.face == "console" and not context.table(arguments.table).savepoints():
        arguments.force = True  # Sleeper's script does not ask: its line is the confirmation


_TRUTH = ("true", "false")
SCRIPTS = (
    _script(
        "add-table",
        create,
        (
            replace(TABLE, help="the new table", metavar="TABLE-NAME"),
            option("--properties", text="a file of its properties", metavar="FILE", kind="path", default=PROPERTIES),
            option("--schema", text="a file of its schema, as JSON or lines", metavar="FILE", kind="path",
                   default=SCHEMA),
        ),
        "add-table demo trips --properties trips.txt --schema trips.json",
        _read_properties,
    ),
    _script("rename-table", rename, rename.arguments, "rename-table default trips journeys"),
    _script("delete-table", drop, drop.arguments, "delete-table default trips --force"),
    _script(
        "reinitialise-table",
        reinitialise,
        (
            TABLE,
            positional("delete_partitions", "whether to create new partitions", metavar="DELETE-PARTITIONS",
                       choices=_TRUTH, optional=True),
            positional("splits_file", "the new split points, one a line", "path", metavar="SPLIT-POINTS-FILE",
                       optional=True),
            positional("base64", "whether strings in that file are base64", metavar="BASE64-ENCODED", choices=_TRUTH,
                       optional=True),
            DRY_RUN,
            CONFIRMED,
        ),
        "reinitialise-table mine trips true points.txt false",
        _reinitialised,
    ),
    _script("set-online", online, online.arguments, "set-online demo trips"),
    _script("set-offline", offline, offline.arguments, "set-offline demo trips"),
)  # fmt: skip
"""Each script and the command that it is."""
