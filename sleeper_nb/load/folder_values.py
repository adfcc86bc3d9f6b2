"""Columns that the names of a file's folders give, such as ``year=2013``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from sleeper_nb.load.casts import NUMBERS, InexactValueError, exactly
from sleeper_nb.load.conform import Difference, RawColumns, cast_column, inexact, row_number
from sleeper_nb.load.matching import Matching
from sleeper_nb.load.requested_casts import without_leading_zeros
from sleeper_nb.load.source_files import FolderValue, SourceFile
from sleeper_nb.model.schema import Field, Schema


def with_folder_values(raw: RawColumns, file: SourceFile, schema: Schema, matching: Matching) -> RawColumns:
    """Return the columns with those that the names of the file's folders give, such as ``year=2013``.

    A column that the file has too must have the same value in every row.
    """
    if not file.folder_values:
        return raw
    names, columns, differences = list(raw.names), dict(raw.columns), list(raw.differences)
    fields = {field.name: field for field in schema.fields}
    added = []
    for name, value in folder_columns(file, raw.names, schema, matching):
        is_in_file = name in names
        if not is_in_file:
            names.append(name)
        if name not in fields:
            continue
        column = folder_column(value, fields[name], raw.rows)
        if isinstance(column, Difference):
            differences.append(column)
        elif not is_in_file:
            columns[name] = column
            added.append(name)
        elif name in columns and (difference := _contradiction(columns[name], column, fields[name], value)):
            differences.append(difference)
    notes = {**raw.notes, added[0]: f"taken from the names of folders: {', '.join(added)}"} if added else raw.notes
    return replace(raw, names=tuple(names), columns=columns, differences=tuple(differences), notes=notes)


def folder_columns(
    file: SourceFile, names: Sequence[str], schema: Schema, matching: Matching
) -> list[tuple[str, FolderValue]]:
    """Return the table's names for the columns that the file's folders give, each with its value."""
    given = matching.folder_names([value.name for value in file.folder_values], schema)
    return [
        (name, value)
        for name, value in zip(given, file.folder_values, strict=True)
        if value.is_below or (name in schema.names and name not in names)
    ]


def folder_column(value: FolderValue, field: Field, rows: int) -> pa.ChunkedArray | Difference:
    """Return the value of a folder's name as a column; its text is read as that of a CSV file.

    But ``month=01`` is a number, too: the zeros are there for the order of the folders.
    """
    text = pa.array([value.text], pa.string())
    try:
        scalar = exactly(without_leading_zeros(text) if field.type.name in NUMBERS else text, field.type)[0]
    except InexactValueError as error:
        difference = inexact(error, field, lambda _: f"folder {value.name}={value.text}")
        return replace(difference, values=rows)
    return pa.chunked_array([pa.repeat(scalar, rows)], field.type.arrow)


def _contradiction(
    column: pa.ChunkedArray, expected: pa.ChunkedArray, field: Field, value: FolderValue
) -> Difference | None:
    """Return the difference of a column that is in the file and in a folder's name, with different values."""
    cast = cast_column(column, field, row_number, is_row_key=False)
    if isinstance(cast, Difference) or cast.equals(expected):
        return None
    folder = f"{value.name}={value.text}"
    problem = f"column {field.name!r} is in the file too, with other values than its folder {folder}"
    return Difference(
        field.name, problem, "drop it from the file, or rename the folder", kind="differs from its folder"
    )
