"""Read one sheet of an Excel file as columns of the table's types, with the package ``openpyxl``.

Not through pandas, which makes a column of whole numbers with an empty cell one of floats.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from zipfile import BadZipFile

from sleeper_nb.errors import Action, EngineError, InvalidInput, StorageError
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.report import counted

Row = tuple[int, tuple[Any, ...]]


def sheet_rows(file: SourceFile) -> tuple[tuple[str | None, ...], list[Row]]:
    """Return the names in the header of a sheet, and its rows with their numbers, without empty ones.

    Without a header, the names are those of the first row's cells, all None.

    Raises
    ------
    EngineError
        When ``openpyxl`` is missing.
    InvalidInput
        When the file has several sheets and none is named, or not the one that is named.
    StorageError
        When the file is not an Excel file.
    """
    rows = [
        (number, cells) for number, cells in _cells(file) if number > file.csv.skip_lines and any(map(_is_set, cells))
    ]
    if not rows:
        raise InvalidInput(f"the sheet of {file.label} is empty", hint="name another sheet, or skip fewer lines")
    width = 1 + max(i for _, cells in rows for i, value in enumerate(cells) if _is_set(value))
    rows = [(number, (*cells, *(None,) * width)[:width]) for number, cells in rows]
    if not file.csv.header:
        return (None,) * width, _with_nulls(rows, file)
    names = tuple(None if value is None else str(value) for value in rows[0][1])
    return names, _with_nulls(rows[1:], file)


def _is_set(value: Any) -> bool:
    return value is not None and value != ""


def _with_nulls(rows: list[Row], file: SourceFile) -> list[Row]:
    """Return rows in which the texts for NULL are None."""
    nulls = set(file.csv.nulls) if file.csv.null_text is not None else {""}
    return [
        (number, tuple(None if isinstance(value, str) and value in nulls else value for value in cells))
        for number, cells in rows
    ]


def _cells(file: SourceFile) -> Iterator[Row]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        hint = 'pip install "sleeper-nb[excel]"; or save the sheet as CSV'
        raise EngineError(f"reading {file.label} needs the package openpyxl", hint=hint) from error
    try:
        with (
            file.open() as stream,
            closing(load_workbook(io.BytesIO(stream.read()), read_only=True, data_only=True)) as book,
        ):
            yield from enumerate(_sheet(book, file).iter_rows(values_only=True), 1)
    except (BadZipFile, KeyError, InvalidFileException) as error:
        raise StorageError(
            f"cannot read {file.label}: it is not an Excel file", hint="save it as .xlsx or .csv"
        ) from error


def _sheet(book: Any, file: SourceFile) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if file.sheet is None and len(names) == 1:
        return book.worksheets[0]
    if file.sheet is None:
        example = next((name for name in names), "")
        hint = (f"name one of {', '.join(names)}: ", Action(f'--sheet "{example}"', f"sheet={example!r}"))
        raise InvalidInput(f"{file.label} has {counted(len(names), 'sheet')}", hint=hint)
    if file.sheet not in names:
        raise InvalidInput(f"{file.label} has no sheet {file.sheet!r}", hint=f"it has {', '.join(names)}")
    return book[file.sheet]
