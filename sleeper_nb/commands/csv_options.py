"""The options that say how a CSV file is written: of `ingest` and of `export`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from sleeper_nb.commands.base import flag, option

CSV_OPTIONS = (
    option("--delimiter", text="what separates the values of a CSV file, or the word tab; a comma when not given, "
           "a tab in .tsv", metavar="C"),
    option("--null-text", text="what stands for NULL in a CSV file, without quotes; nothing when not given",
           metavar="TEXT"),
    flag("--no-header", "the first line of a CSV file is a row: its columns are those of the table, in order"),
)  # fmt: skip


def csv_options(arguments: Namespace) -> dict[str, Any]:
    """Return the options as the arguments of Python."""
    return {
        "delimiter": arguments.delimiter,
        "null_text": arguments.null_text,
        "header": not arguments.no_header,
    }
