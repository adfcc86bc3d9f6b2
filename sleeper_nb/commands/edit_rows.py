"""`delete`, `update`, `upsert` and `overwrite`: rows that change, in one commit each; `purge`: rows go for good."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import (
    DRY_RUN,
    JOB_ID,
    MESSAGE,
    REGION,
    TABLE,
    command,
    flag,
    option,
    positional,
)
from sleeper_nb.commands.confirm import confirmed, line_again, with_line
from sleeper_nb.commands.context import Context, pairs, split_names
from sleeper_nb.commands.load import MATCHING_OPTIONS, READ, SOURCE_TEXT, data_of, load_options
from sleeper_nb.errors import Action, Hint, InvalidInput
from sleeper_nb.model.sql_values import DIALECTS
from sleeper_nb.report import Answer, nothing_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from sleeper_nb.public_types import ChangeReport, EngineName, PurgeReport
    from sleeper_nb.table import Table

ROWS_WHERE = option(
    "--where",
    text="a condition in the engine's SQL; it may read any version of the table, and :name is the value of a variable",
    metavar='"…"',
    kind="condition",
)
SOURCE = positional("source", SOURCE_TEXT, "source", metavar="SRC", many=True)
ENGINE = option("--engine", text="which finds the rows; duckdb if not given", choices=DIALECTS)
ALL_ROWS = flag("--force", "change all rows; without it, a notebook shows the plan and a console asks")
PLANNED_ROWS = flag("--rows", "with --dry-run: show the rows that would change, before and after",
                    only_with="--dry-run")  # fmt: skip
OF_A_CHANGE = (MESSAGE, JOB_ID, ENGINE, DRY_RUN, PLANNED_ROWS)


TO_DELETE_ROWS: Hint = (
    "to delete rows: ", Action('delete T --where "fare < 0"'), "; to delete the table itself: ", Action("drop T"),
)  # fmt: skip


def _check_condition(command_name: str, arguments: Namespace) -> None:
    """Refuse ``delete t`` by itself: it says neither which rows, nor whether the table is meant."""
    if arguments.where is None and not (arguments.force or arguments.dry_run):
        rows, table = Action(f"{command_name} {arguments.table} --force"), Action(f"drop {arguments.table}")
        raise InvalidInput(
            f"{command_name} needs --where, a condition on the rows",
            hint=("to delete all rows: ", rows, "; to delete the table itself: ", table),
        )


@command(
    "delete",
    "delete rows that match a condition; older versions keep them until they expire",
    TABLE,
    ROWS_WHERE,
    *OF_A_CHANGE,
    replace(ALL_ROWS, help="delete all rows, without --where"),
    examples=(
        'delete trips --where "fare < 0" --dry-run',
        'delete trips --where "fare < 0" --dry-run --rows',
        'delete trips --where "fare < 0" -m "no refunds"',
        'delete trips --where "fare > (SELECT 5 * avg(fare) FROM trips)"',
        "delete trips --force",
    ),
    words=("delete-rows", "remove-rows", "drop-rows", "delete-from"),
    check=partial(_check_condition, "delete"),
    instead={"": TO_DELETE_ROWS},
)
def delete(context: Context, arguments: Namespace) -> ChangeReport | Answer:
    table = context.table(arguments.table)
    change = partial(table.delete, arguments.where, **_names(context), **_options(context, arguments))
    return _changed(context, arguments, change)


@command(
    "purge",
    "delete rows for good, for privacy; with the versions, savepoints and files that have them, at once; to finish an "
    "interrupted purge, repeat the line",
    TABLE,
    replace(
        ROWS_WHERE,
        help="a condition in the engine's SQL, which cannot read the table itself; :name is the value of a variable",
    ),
    MESSAGE,
    ENGINE,
    DRY_RUN,
    flag("--force", "delete versions and savepoints, or all rows; without it, a notebook shows the plan and a console "
         "asks"),
    examples=(
        "purge trips --where \"city = 'Rome'\" --dry-run",
        "purge trips --where \"city = 'Rome'\" --force",
    ),
    words=("erase", "privacy", "gdpr", "forget"),
    check=partial(_check_condition, "purge"),
)  # fmt: skip
def purge(context: Context, arguments: Namespace) -> PurgeReport:
    change = partial(
        context.table(arguments.table).maintenance.purge,
        arguments.where,
        engine=_engine(context, arguments),
        message=arguments.message,
        **_names(context),
    )
    return confirmed(context, arguments, change)


@command(
    "update",
    "set columns of rows that match a condition; in one commit",
    TABLE,
    option("--set", text="a column and its new value in SQL, which sees the row as it was; can be repeated",
           metavar='"a = SQL"', kind="condition", many=True),
    option("--value", text="a column and its new value as a text, without quotes of SQL; can be repeated",
           metavar="a=VALUE", kind="assignment", many=True),
    ROWS_WHERE,
    *OF_A_CHANGE,
    ALL_ROWS,
    examples=(
        'update trips --set "fare = fare * 1.1" --where "fare > 0" --dry-run',
        'update trips --value city=Athens --where "city = \'athens\'"',
        'update trips --set "fare = 0" --set "tip = 0" --where "fare < 0"',
        'update trips --set "fare = 0" --force',
    ),
    words=("modify", "set-values"),
)  # fmt: skip
def update(context: Context, arguments: Namespace) -> ChangeReport | Answer:
    table = context.table(arguments.table)
    change = partial(
        table.update,
        pairs(arguments.set, '--set "fare = fare * 1.1"'),
        arguments.where,
        new_values=pairs(arguments.value, "--value city=London", as_typed=True),
        **_names(context),
        **_options(context, arguments),
    )
    return _changed(context, arguments, change)


@command(
    "upsert",
    "update rows by their keys, and insert new ones; in one commit",
    TABLE,
    SOURCE,
    option("--on", text="the columns by which rows match; if not given, the row keys where they are unique, else row "
           "and sort keys", metavar="a,b", kind="columns"),
    READ,
    *MATCHING_OPTIONS,
    *OF_A_CHANGE,
    examples=(
        "upsert trips $df --dry-run",
        "upsert trips $df --ignore-extra --cast --by-name",
        "upsert trips trips.parquet --on city,pickup",
        "upsert trips data/2026-*.parquet --job-id 2026-11-21/trips",
    ),
    words=("merge", "merge-into"),
)  # fmt: skip
def upsert(context: Context, arguments: Namespace) -> ChangeReport | Answer:
    table = context.table(arguments.table)
    change = partial(
        table.upsert,
        data_of(context, arguments.source),
        on=split_names(arguments.on),
        **load_options(arguments),
        **_options(context, arguments),
    )
    if arguments.rows:
        return _planned_rows(context, arguments, change)
    return with_line(arguments, change(dry_run=arguments.dry_run))


@command(
    "overwrite",
    "replace the rows of a part of a table, or all; in one commit",
    TABLE,
    SOURCE,
    option("--where", text="the part, as a condition in the engine's SQL, which every new row must meet; :name is "
           "the value of a variable", metavar='"…"', kind="condition"),
    option("--keys", text="instead: values of the first row key", metavar="a,b"),
    REGION,
    READ,
    *MATCHING_OPTIONS,
    *OF_A_CHANGE,
    ALL_ROWS,
    examples=(
        "overwrite trips $df --keys London,athens --dry-run",
        'overwrite trips trips.parquet --where "pickup >= \'2026-01-01\'"',
        'overwrite trips trips.parquet --region "city=[A,z)"',
        "overwrite trips trips.parquet --force",
    ),
    words=("replace", "insert-overwrite", "replace-where"),
)  # fmt: skip
def overwrite(context: Context, arguments: Namespace) -> ChangeReport | Answer:
    table = context.table(arguments.table)
    change = partial(
        table.overwrite,
        data_of(context, arguments.source),
        arguments.where,
        keys=_keys(table, arguments.keys),
        region=arguments.region,
        params=context.own_variables(),
        **load_options(arguments),
        **_options(context, arguments),
    )
    return _changed(context, arguments, change)


def _changed(context: Context, arguments: Namespace, change: Callable[..., ChangeReport]) -> ChangeReport | Answer:
    if arguments.rows:
        return _planned_rows(context, arguments, change)
    return confirmed(context, arguments, change)


def _planned_rows(context: Context, arguments: Namespace, change: Callable[..., ChangeReport]) -> Answer:
    from sleeper_nb.display.preview import preview

    plan = change(dry_run=True)
    rows, limit = plan.changed_rows(), context.display.rows
    added = ("--force",) if plan.needs_confirmation else ()
    again = Action(line_again((word for word in arguments.words if word not in PLANNED_ROWS.names), *added))
    done = f"{plan.operation}: {plan.inserted:,} inserted, {plan.updated:,} updated, {plan.deleted:,} deleted"
    footer = f"{done} · {nothing_done(again, context.prefix) if rows.num_rows else 'no row to change'}"
    return Answer(preview(rows, footer, limit=limit, total=rows.num_rows), rows)


def _options(context: Context, arguments: Namespace) -> dict[str, Any]:
    return {"engine": _engine(context, arguments), "message": arguments.message, "job_id": arguments.job_id}


def _engine(context: Context, arguments: Namespace) -> EngineName:
    return arguments.engine or (DIALECTS[0] if context.engine == "auto" else context.engine)


def _names(context: Context) -> dict[str, Any]:
    """Return what SQL may name, besides tables: the values of variables, and those with rows."""
    variables = context.own_variables()
    return {"params": variables, "data": variables if context.reads_variables else {}}


def _keys(table: Table, text: str | None) -> list[Any] | None:
    """Return the values of the first row key in ``a,b``."""
    from sleeper_nb.model.keys import parse_key

    if text is None:
        return None
    first = table.schema.row_keys[0]
    return [parse_key(first, word.strip(), what="key") for word in text.split(",")]
