"""The options of a load, as a user gives them, and what they say about files and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from sleeper_nb.load.matching import EXACT, Matching
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat

_CSV_OPTIONS = frozenset(field.name for field in fields(CsvFormat))


class LoadArguments(TypedDict, total=False):
    """The keyword arguments of every method that loads data; `Table.ingest` says what they mean."""

    ignore_extra: bool
    cast: bool
    by_name: bool
    columns: Sequence[str] | Mapping[str, str] | None
    delimiter: str | None
    null_text: str | Sequence[str] | None
    header: bool
    quote: str
    escape: str | None
    comment: str | None
    skip_lines: int
    encoding: str | None
    decimal: Literal[".", ","]
    thousands: Literal[",", ".", "'", "_", "space"] | None
    date_format: str | None
    timestamp_format: str | None
    sheet: str | None
    format: Literal["csv", "tsv", "json", "parquet", "excel"] | None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How files are read, and how columns of data become columns of the table.

    Parameters
    ----------
    csv
        The format of CSV files.
    matching
        How columns are matched, and what is forgiven.
    sheet
        The sheet of Excel files; None for the only one.
    format
        The format of all files; None where their names or contents say it.
    """

    csv: CsvFormat = DEFAULT_CSV
    matching: Matching = EXACT
    sheet: str | None = None
    format: str | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> LoadOptions:
        """Return the options of `LoadArguments`.

        Raises
        ------
        InvalidInput
            When an option has a value that it cannot have.
        """
        if not arguments:
            return AS_IT_IS
        csv = {name: value for name, value in arguments.items() if name in _CSV_OPTIONS}
        matching = {name: value for name, value in arguments.items() if name not in {*_CSV_OPTIONS, "sheet", "format"}}
        columns = Matching.of(matching.pop("columns", None), **matching)
        return cls(CsvFormat(**csv), columns, arguments.get("sheet"), arguments.get("format"))


AS_IT_IS = LoadOptions()
"""No option is given."""
