"""`export`: the rows of a version as files that any tool reads."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from sleeper_nb.commands.base import SCHEMA, VERSION, Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.csv_options import CSV_OPTIONS, csv_options
from sleeper_nb.commands.scanning import COLUMNS, WHERE, named_columns

if TYPE_CHECKING:
    from sleeper_nb.operations.scanning.exporting import ExportReport


def _export(context: Context, arguments: Namespace) -> ExportReport:
    at = context.table_at(arguments.table, arguments.schema)
    columns = named_columns(arguments.columns)
    csv = csv_options(arguments)
    return at.export(arguments.to, arguments.format, columns=columns, where=arguments.where, **csv)


COMMANDS = (
    Command(
        "export",
        "write the rows of a version to files: Parquet, one per leaf partition, or CSV",
        (
            VERSION,
            positional("to", "a new or empty folder; or a new file that ends in .parquet, .csv or .tsv, for all rows",
                       "path", metavar="TO"),
            option("--format", text="what a folder gets; parquet when not given", choices=("parquet", "csv", "tsv")),
            *CSV_OPTIONS,
            COLUMNS,
            WHERE,
            SCHEMA,
        ),
        _export,
        ("export trips trips-2026/", "export trips@before-fix trips.csv --columns city,fare",
         "export trips trips-2026.csv --delimiter ; --null-text NA"),
        words=("dump", "unload", "download"),
    ),
)  # fmt: skip
