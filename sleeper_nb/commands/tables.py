"""`tables`, `create`, `describe`, `alter`, `rename`, `drop` and `reinitialise`: tables and their columns."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    COLUMNS,
    CONFIRMED,
    DRY_RUN,
    MESSAGE,
    SCHEMA,
    TABLE,
    VERSION,
    WHERE,
    command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.confirm import confirmed
from sleeper_nb.commands.context import Context, pairs, split_names
from sleeper_nb.commands.edit_rows import TO_DELETE_ROWS
from sleeper_nb.commands.load import MATCHING_OPTIONS, READ, SOURCE_TEXT, data_of, load_options
from sleeper_nb.errors import Action, InvalidInput, NotFound, StorageError
from sleeper_nb.model.properties import SPLITS_FILE
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Field, Schema
    from sleeper_nb.public_types import (
        AlterReport,
        ColumnProfile,
        CreatePlan,
        DeletionReport,
        ReinitialiseReport,
        SplitPointsEstimate,
    )
    from sleeper_nb.report import Listing, Stacked
    from sleeper_nb.table import Table
    from sleeper_nb.widgets.form import CreateForm

SPLITS = option("--splits", text="split points: first row keys at which new partitions begin", metavar="g,n,t")
SPLITS_FROM_FILE = option("--splits-file", text="a file of split points, one a line, ascending", metavar="FILE",
                          kind="path")  # fmt: skip
SPLITS_ENCODED = flag("--base64", "strings in that file are base64; byte arrays always are")


@command("tables", "list the tables", examples=("tables",), words=("ls", "list"), reads_only=True)
def tables(context: Context, _arguments: Namespace) -> Listing[Table]:
    return context.opened().tables()


KEYS = option("--keys", text="the row keys: columns of the data, the one that most conditions are on first",
              metavar="a,b", kind="data_columns", only_with="--from")  # fmt: skip
LEAVES = option("--leaves", text="how many leaf partitions, with about equal shares of the rows; one for each "
                "2 million rows if not given", kind="number", metavar="N", only_with="--from")  # fmt: skip


@command(
    "create",
    "create a table: from data, or from definitions: name TYPE [KEY|SORT] [NULL] [DEFAULT 0] [COMMENT 'text']",
    positional("table", "the table", "table", metavar="T", unless="form"),
    option("--from", text=f"make the columns, the partitions and the rows of data: {SOURCE_TEXT}; can be repeated",
           metavar="SRC", kind="source", many=True),
    KEYS,
    option("--sort", text="the sort keys, which order rows of equal row keys", metavar="c", kind="data_columns",
           only_with="--from"),
    option("--types", text="types of columns, instead of those of the data", metavar="col=TYPE,…", only_with="--from"),
    LEAVES,
    option("--like", text="the columns, partitions and properties of another table", metavar="T2", kind="table"),
    flag("--if-not-exists", "leave an existing table as it is, and load nothing"),
    flag("--or-replace", "give an existing table a new version with these columns and rows; older ones stay"),
    flag("--dry-run", "show the columns, leaves and rows, and what does not fit; without --keys, the possible keys"),
    MESSAGE,
    *(replace(each, only_with="--from") for each in (READ, *MATCHING_OPTIONS)),
    flag("--form", "fill in a form, which creates the table; in a notebook"),
    SPLITS,
    SPLITS_FROM_FILE,
    option("--schema", text="a file with the columns, as lines or as JSON; - reads them from standard input",
           metavar="FILE", kind="path"),
    option("--set", text="a property of the table; can be repeated", metavar="NAME=VALUE", many=True),
    examples=(
        "create trips --from trips.parquet --keys city --leaves 16",
        "create trips --from $df --dry-run",
        "create trips --splits g,n,t\ncity STRING KEY, pickup TIMESTAMP SORT, fare DOUBLE NULL",
        "create trips --splits g,n,t --schema trips.ddl",
        "create fares\ncity STRING KEY, fare DOUBLE DEFAULT 0 COMMENT 'dollars', CHECK (fare >= 0)",
        "create --form",
        "create sales --set sleeper.table.aggregations=sum(fare)\ncity STRING KEY, fare DOUBLE",
    ),
    words=("add", "make", "new", "init", "create-table", "new-table"),
    body=True,
    warehouse="new",
    free="form",
    instead={
        "": "column definitions go into a cell, below its first line; or into a file: --schema FILE",
        "--state-store": "write --set sleeper.table.statestore.classname=NAME",
    },
)  # fmt: skip
def create(context: Context, arguments: Namespace) -> Table | CreatePlan | CreateForm | Answer:
    if arguments.form:
        return _create_form(context, arguments)
    from sleeper_nb.model.keys import typed_split_points  # heavy: it brings pyarrow

    session = context.opened()
    if arguments.if_not_exists and arguments.table in session:
        text = f"table {arguments.table} exists already; nothing was created or loaded"
        return Answer(Grid((), (), footer=text))
    points = typed_split_points(arguments.splits) if arguments.splits else None
    properties = pairs(arguments.set, "--set NAME=VALUE")
    if arguments.splits_file:
        properties[SPLITS_FILE] = arguments.splits_file
    new = (arguments.table, _new_schema(context, arguments), points)
    wanted: dict[str, Any] = {
        "properties": properties,
        "data": data_of(context, getattr(arguments, "from")),
        "row_keys": split_names(arguments.keys) or (),
        "sort_keys": split_names(arguments.sort) or (),
        "types": _types(arguments.types),
        "leaves": arguments.leaves,
        "like": arguments.like,
        "or_replace": arguments.or_replace,
        "message": arguments.message,
        **load_options(arguments),
    }
    if arguments.dry_run:
        return session.admin.plan_table(*new, **wanted)
    table = session.create_table(*new, if_not_exists=arguments.if_not_exists, **wanted)
    table.prefix = context.prefix
    return table


_PAIR_FOLLOWS = re.compile(r",(?=[^,]*=)")
"""A comma between two types: one inside a type has no equals sign before the next comma."""


def _types(text: str | None) -> dict[str, str]:
    return pairs(_PAIR_FOLLOWS.split(text), "--types fare=double,note=string") if text else {}


@command(
    "split-points",
    "estimate split points from data; leaf partitions then get about equal shares of the rows",
    positional("source", SOURCE_TEXT, "source", metavar="SRC", many=True),
    option("--keys", text="the row keys of the table; split points are values of the first", metavar="a,b",
           kind="data_columns"),
    option("--leaves", text="how many leaf partitions; one for each 2 million rows if not given", kind="number",
           metavar="N"),
    option("--types", text="types of columns, instead of those of the data", metavar="col=TYPE,…"),
    option("--to", text="a new file for them, as --splits-file reads it", metavar="FILE", kind="path"),
    flag("--base64", "write strings in base64; byte arrays always are"),
    READ,
    *MATCHING_OPTIONS,
    examples=(
        "split-points trips.parquet --keys city --leaves 16",
        "split-points $df --keys city --leaves 16 --to splits.txt",
    ),
    words=("estimate-split-points", "quantiles"),
    reads_only=True,
)  # fmt: skip
def split_points(context: Context, arguments: Namespace) -> SplitPointsEstimate:
    found: SplitPointsEstimate = context.opened().admin.split_points(
        data_of(context, arguments.source),
        split_names(arguments.keys) or (),
        arguments.leaves,
        types=_types(arguments.types),
        **load_options(arguments),
    )
    if arguments.to:
        found.write(arguments.to, strings_base64=arguments.base64)
    return found


def _create_form(context: Context, arguments: Namespace) -> CreateForm:
    context.check_shows_widgets("--form", Action("create T --schema FILE"))
    from sleeper_nb import widgets

    sources = getattr(arguments, "from")
    words = " --from ".join(word if word.startswith("$") else shlex.quote(word) for word in sources)
    return widgets.create_form(context.opened(), arguments.table, data_of(context, sources), words)


def _new_schema(context: Context, arguments: Namespace) -> Schema | None:
    """Return the schema in the cell or in ``--schema FILE``; None when it is that of data or of another table."""
    from sleeper_nb.model.schema import Schema, read_schema

    if arguments.body is None and arguments.schema is None and (getattr(arguments, "from") or arguments.like):
        return None
    if (arguments.body is None) == (arguments.schema is None):
        line = "name TYPE [KEY|SORT] [NULL]"
        hint = f"write lines below %%sleeper create: {line}; or give --from DATA --keys a,b, or --schema FILE"
        if context.face == "console":
            hint = f"give --from DATA --keys a,b; or --schema FILE, a file of lines: {line}; --schema - reads them"
        raise InvalidInput("create needs the columns of the table, in one way", hint=hint)
    if arguments.schema is not None:
        return read_schema(read_text(arguments.schema, "schema"), arguments.schema)
    text = arguments.body
    return Schema.from_json(text) if text.lstrip().startswith("{") else Schema.from_ddl(text)


def read_text(path: str, what: str) -> str:
    """Return the text of a file of a new table's schema or properties; that of standard input for ``-``."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = (f"name one: --{what} FILE; or ", Action("templates"), " writes one here to edit")
        raise NotFound(f"no file {path} with the {what} of the table", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise StorageError(f"cannot read the {what} {path}: {reason}", hint="give a text file") from error


@command(
    "describe",
    "show one version: its commit or savepoint, the columns and the size of the table, and its first rows",
    VERSION,
    flag("--fields", "list the fields instead: roles, types, and which may be null"),
    SCHEMA,
    examples=("describe trips", "describe trips@12", "describe trips@before-fix", "describe trips --fields"),
    words=("desc", "schema", "info", "show", "card"),
    reads_only=True,
)
def describe(context: Context, arguments: Namespace) -> Stacked | Listing[Field]:
    at = context.table_at(arguments.table, arguments.schema)
    return at.inspect.fields() if arguments.fields else at.describe()


@command(
    "profile",
    "read the rows of a version: nulls, distinct values, bounds, quartiles and a histogram of each column",
    VERSION,
    COLUMNS,
    WHERE,
    examples=("profile trips", "profile trips@12 --columns fare,tip"),
    words=("summarize", "statistics", "histogram"),
    reads_only=True,
)
def profile(context: Context, arguments: Namespace) -> Listing[ColumnProfile]:
    return context.table_at(arguments.table).profile(split_names(arguments.columns), arguments.where)


@command(
    "alter",
    "change value columns, types, rules and comments; no file is rewritten, and older versions keep their columns",
    TABLE,
    option("--add-column", metavar='"NAME TYPE?"', many=True,
           text="a new column, or address.zip: a new field of a struct; a column may have DEFAULT and COMMENT"),
    option("--rename-column", text="a column and its new name", metavar="OLD=NEW", kind="assignment",
           many=True),
    option("--drop-column", text="a column to drop", metavar="NAME", kind="columns", many=True),
    option("--column-type", text="a column, or a field of a struct, and a wider type for it, such as long for an int",
           metavar="NAME=TYPE", kind="assignment", many=True),
    option("--default", text="the constant of rows whose load does not name the column", metavar="NAME=VALUE",
           kind="assignment", many=True),
    option("--drop-default", text="remove a column's default", metavar="NAME", kind="columns", many=True),
    option("--set-not-null", text="make a column NOT NULL; existing rows are checked", metavar="NAME",
           kind="columns", many=True),
    option("--drop-not-null", text="a column that may be NULL", metavar="NAME", kind="columns", many=True),
    option("--add-check", text="a condition that rows must meet; existing rows are checked",
           metavar='"NAME: CONDITION"', kind="condition", many=True),
    option("--drop-check", text="the name of a check to drop", metavar="NAME", many=True),
    option("--comment", text="what a column means; nothing after = drops it", metavar='NAME="TEXT"',
           kind="assignment", many=True),
    option("--table-comment", text='what the table holds; "" drops it', metavar="TEXT"),
    option("--unique-keys", text="whether no two rows may have the same row keys; existing rows are checked",
           choices=("true", "false"), metavar="true"),
    MESSAGE,
    DRY_RUN,
    examples=(
        'alter trips --add-column "note string?" --dry-run',
        'alter trips --default fare=0 --comment fare="in dollars"',
        'alter trips --add-check "positive: tip >= 0" --dry-run',
        "alter trips --unique-keys false",
        "alter trips --rename-column fare=price --drop-column tip -m new",
        "alter trips --column-type riders=long --dry-run",
    ),
    words=(
        "evolve", "add-column", "rename-column", "drop-column", "column-type", "widen", "constraint", "default",
        "comment",
    ),
    instead=dict.fromkeys(("--widen", "--type", "--types"), "did you mean '--column-type'?"),
)  # fmt: skip
def alter(context: Context, arguments: Namespace) -> AlterReport:
    defaults = _values(arguments.default, "--default fare=0")
    comments = _values(arguments.comment, '--comment fare="in dollars"')
    checks = dict(map(_parse_check, arguments.add_check))
    return context.table(arguments.table).alter(
        _parse_columns(arguments.add_column),
        pairs(arguments.rename_column, "--rename-column old=new"),
        arguments.drop_column,
        types=pairs(arguments.column_type, "--column-type name=long"),
        defaults=_together(defaults, dict.fromkeys(arguments.drop_default)),
        not_null=_together(dict.fromkeys(arguments.set_not_null, True), dict.fromkeys(arguments.drop_not_null, False)),
        checks=_together(checks, dict.fromkeys(arguments.drop_check)),
        comments=comments,
        comment=arguments.table_comment,
        unique_keys=None if arguments.unique_keys is None else arguments.unique_keys == "true",
        dry_run=arguments.dry_run,
        message=arguments.message,
    )


def _parse_check(text: str) -> tuple[str, str]:
    name, colon, condition = (part.strip() for part in text.partition(":"))
    if not (name and colon and condition):
        raise InvalidInput(f"cannot read {text!r}", hint='write --add-check "fare_positive: fare >= 0"')
    return name, condition


def _values(texts: Iterable[str], example: str) -> dict[str, str]:
    """Return the values of ``NAME=VALUE`` by name, without quotes around a value."""
    return {
        name: value[1:-1] if len(value) > 1 and value[0] == value[-1] in {"'", '"'} else value
        for name, value in pairs(texts, example).items()
    }


def _together(added: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes of two options by name; `InvalidInput` for a name that both have."""
    for name in added.keys() & other.keys():
        raise InvalidInput(f"{name!r} is changed twice", hint="change it once")
    return {**added, **other}


def _parse_columns(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the columns, and fields of structs, that some definitions add, as `Table.alter` takes them."""
    from sleeper_nb.model.schema import parse_field

    columns: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, _, kind = text.strip().partition(" ")
        if not kind:
            hint = f'write --add-column "{path or "note"} string?"'
            raise InvalidInput(f"column {path!r} has no type", hint=hint)
        if path in columns:
            raise InvalidInput(f"column {path!r} is added twice", hint="give it one type")
        field = parse_field(f"{path.rpartition('.')[2]} {kind}")
        columns[path] = {"type": field.text, "default": field.default_text, "comment": field.comment}
    return columns


@command(
    "rename",
    "rename a table; its data and history stay where they are",
    positional("old", "the table", "table", metavar="OLD"),
    positional("new", "its new name: letters, digits, - and _", metavar="NEW"),
    examples=("rename trips journeys",),
    words=("mv",),
)
def rename(context: Context, arguments: Namespace) -> Table:
    return context.opened().rename_table(arguments.old, arguments.new)


@command(
    "drop",
    "drop a table: delete it permanently; shows the plan, until --force",
    TABLE,
    DRY_RUN,
    CONFIRMED,
    examples=("drop trips", "drop trips --force"),
    words=("rm", "remove", "destroy", "drop-table"),
    instead={"": TO_DELETE_ROWS},
)
def drop(context: Context, arguments: Namespace) -> DeletionReport:
    return confirmed(context, arguments, partial(context.opened().drop_table, arguments.table))


@command(
    "reinitialise",
    "delete all contents of a table; shows the plan, until --force",
    TABLE,
    flag("--delete-partitions", "create new partitions; without it the existing ones stay"),
    SPLITS,
    SPLITS_FROM_FILE,
    SPLITS_ENCODED,
    DRY_RUN,
    CONFIRMED,
    examples=("reinitialise trips", "reinitialise trips --delete-partitions --force"),
    words=("truncate", "empty", "reinitialize"),
)
def reinitialise(context: Context, arguments: Namespace) -> ReinitialiseReport:
    from sleeper_nb.model.keys import typed_split_points  # heavy: it brings pyarrow

    reinitialise_table = partial(
        context.opened().admin.reinitialise,
        arguments.table,
        delete_partitions=arguments.delete_partitions,
        split_points=typed_split_points(arguments.splits) if arguments.splits else None,
        splits_file=arguments.splits_file,
        strings_base64=arguments.base64,
    )
    return confirmed(context, arguments, reinitialise_table)
