"""Read one sheet of an Excel file as columns of the table's types, with the package ``openpyxl``.

Not through pandas, which makes a column of whole numbers with an empty cell one of floats.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from zipfile import BadZipFile, ZipFile

from sleeper_nb.errors import Action, EngineError, HintParts, InvalidInput, StorageError
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.report import counted

Row = tuple[int, tuple[Any, ...]]
_FORMULA = re.compile(rb"<(\w+:)?f[\s/>]")


@dataclass(frozen=True, slots=True)
class CellWithoutValue:
    """A cell that shows an error, or whose formula was never calculated.

    Parameters
    ----------
    cell
        Its name in the sheet: ``B2``.
    error
        The error that it shows: ``#N/A``; "" for a formula without a result.
    """

    cell: str
    error: str = ""

    @property
    def problem(self) -> str:
        """What is wrong, without the column."""
        return f"the cell shows {self.error}" if self.error else "the formula has no stored result"

    @property
    def hint(self) -> HintParts:
        """What to do about it."""
        if not self.error:
            return ("open the file in a spreadsheet program and save it, so that it has the results of its formulas",)
        option = Action(f'--null-text "" --null-text "{self.error}"', f"null_text=['', {self.error!r}]")
        return ("correct the cell, or add ", option, " if it means NULL")


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
    wrong = next((value for value in rows[0][1] if isinstance(value, CellWithoutValue)), None)
    if wrong is not None:
        problem = f"the header of {file.label}, cell {wrong.cell}: {wrong.problem}"
        raise InvalidInput(problem, hint="write the names of the columns as texts")
    names = tuple(None if value is None else str(value) for value in rows[0][1])
    return names, _with_nulls(rows[1:], file)


def _is_set(value: Any) -> bool:
    return value is not None and value != ""


def _with_nulls(rows: list[Row], file: SourceFile) -> list[Row]:
    """Return rows in which the texts for NULL, and cells that show one, are None."""
    nulls = set(file.csv.nulls) if file.csv.null_text is not None else {""}

    def is_null(value: Any) -> bool:
        if isinstance(value, CellWithoutValue):
            return bool(value.error) and value.error in nulls
        return isinstance(value, str) and value in nulls

    return [(number, tuple(None if is_null(value) else value for value in cells)) for number, cells in rows]


def _cells(file: SourceFile) -> Iterator[Row]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        hint = 'pip install "sleeper-nb[excel]"; or save the sheet as CSV'
        raise EngineError(f"reading {file.label} needs the package openpyxl", hint=hint) from error
    try:
        with file.open() as stream:
            content = stream.read()
        with (
            closing(load_workbook(io.BytesIO(content), read_only=True, data_only=True)) as book,
            closing(load_workbook(io.BytesIO(content), read_only=True)) as of_formulas,
        ):
            rows = _sheet(book, file).iter_rows()
            formulas = _sheet(of_formulas, file).iter_rows() if _has_formulas(content) else repeat(())
            for number, (cells, written) in enumerate(zip(rows, formulas, strict=False), 1):
                yield number, tuple(map(_value, cells, written or repeat(None)))
    except (BadZipFile, KeyError, InvalidFileException) as error:
        raise StorageError(
            f"cannot read {file.label}: it is not an Excel file", hint="save it as .xlsx or .csv"
        ) from error


def _has_formulas(content: bytes) -> bool:
    """Return whether any sheet has a formula; only then are the sheets read twice."""
    with ZipFile(io.BytesIO(content)) as parts:
        return any(name.endswith(".xml") and _FORMULA.search(parts.read(name)) for name in parts.namelist())


def _value(cell: Any, written: Any) -> Any:
    """Return the value of a cell, which is also given as it was written if the file has formulas."""
    if cell.data_type == "e":
        return CellWithoutValue(cell.coordinate, str(cell.value))
    # the stored result of a formula can be an empty text
    if cell.value is None and written is not None and written.data_type == "f" and cell.data_type != "str":
        return CellWithoutValue(written.coordinate)
    return cell.value


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
