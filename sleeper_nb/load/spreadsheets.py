"""Read one sheet of an Excel file as columns of the table's types, with the package ``openpyxl``.

Not through pandas, which makes a column of whole numbers with an empty cell one of floats.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any
from zipfile import BadZipFile, ZipFile

from sleeper_nb.errors import Action, EngineError, HintParts, InvalidInput, StorageError
from sleeper_nb.load.conform import BadValue, Difference, RawColumns
from sleeper_nb.load.csv_files import matched_names
from sleeper_nb.load.csv_text import null_hint
from sleeper_nb.load.json_files import columns_of_objects
from sleeper_nb.load.matching import Matching, nameless
from sleeper_nb.load.original_rows import OriginalRows
from sleeper_nb.load.source_files import SourceFile, read_errors
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.model.schema import Schema
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
    null_option
        The options with which that error means NULL, too.
    """

    cell: str
    error: str = ""
    null_option: Action | None = None

    @property
    def problem(self) -> str:
        """What is wrong, without the column."""
        return f"the cell shows {self.error}" if self.error else "the formula has no stored result"

    @property
    def hint(self) -> HintParts:
        """What to do about it."""
        if self.null_option is None:
            return ("open the file in a spreadsheet program and save it, so that it has the results of its formulas",)
        return ("correct the cell, or add ", self.null_option, " if it means NULL")


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
            rows = _sheet_of(book, file).iter_rows()
            formulas = _sheet_of(of_formulas, file).iter_rows() if _has_formulas(content) else repeat(())
            for number, (cells, written) in enumerate(zip(rows, formulas, strict=False), 1):
                yield number, tuple(map(partial(_value, file.csv), cells, written or repeat(None)))
    except (BadZipFile, KeyError, InvalidFileException) as error:
        raise StorageError(
            f"cannot read {file.label}: it is not an Excel file", hint="save it as .xlsx or .csv"
        ) from error


def _has_formulas(content: bytes) -> bool:
    """Return whether any sheet has a formula; only then are the sheets read twice."""
    with ZipFile(io.BytesIO(content)) as parts:
        return any(name.endswith(".xml") and _FORMULA.search(parts.read(name)) for name in parts.namelist())


def _value(csv_format: CsvFormat, cell: Any, written: Any) -> Any:
    """Return the value of a cell, which is also given as it was written if the file has formulas."""
    if cell.data_type == "e":
        error = str(cell.value)
        return CellWithoutValue(cell.coordinate, error, csv_format.null_option(error))
    # the stored result of a formula can be an empty text
    if cell.value is None and written is not None and written.data_type == "f" and cell.data_type != "str":
        return CellWithoutValue(written.coordinate)
    return cell.value


def _sheet_of(book: Any, file: SourceFile) -> Any:
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


def sheet_columns(file: SourceFile, schema: Schema, matching: Matching) -> RawColumns:
    """Return the rows of a sheet with the types of the schema."""
    names, rows = sheet_rows(file)
    if not file.csv.header:
        names = matching.columns or tuple(schema.names)
        if rows and len(names) != len(rows[0][1]):
            width = len(rows[0][1])
            raise InvalidInput(f"the sheet of {file.label} has {width} columns, not {len(names)}", hint="name them all")
    matched = matched_names(_with_numbers(names), file.csv, schema, matching)
    first = {name: matched.index(name) for name in matched}  # the first of each name; a second one is a difference
    wrong = tuple(_cells_without_values(first, rows))
    objects = [(number, {name: _cell_value(cells[i]) for name, i in first.items()}) for number, cells in rows]
    exact = replace(matching, columns=(), renames=(), by_name=False)
    raw = columns_of_objects(objects, schema, exact, "row", null_hint=partial(null_hint, csv_format=file.csv))
    if not rows:
        return raw
    if matching.keep_back:
        bad = tuple(_cells_apart({name: i for name, i in first.items() if name in schema.names}, rows))
        return replace(raw, names=matched, bad=(*raw.bad, *bad))
    unread = {each.column for each in wrong}
    columns = {name: column for name, column in raw.columns.items() if name not in unread}
    return replace(raw, names=matched, columns=columns, differences=(*wrong, *raw.differences))


def sheet_names(file: SourceFile) -> tuple[str, ...]:
    """Return the names in the header of a sheet, with the number of each column that has none there."""
    return _with_numbers(sheet_rows(file)[0])


def sheet_rows_at(file: SourceFile, schema: Schema, matching: Matching, rows: Sequence[int]) -> OriginalRows:
    """Return the rows of a sheet that have some indexes."""
    names, cells = sheet_rows(file)
    if not file.csv.header:
        names = matching.columns or tuple(schema.names)
    found = [cells[row] for row in rows]
    columns = zip(*(values for _, values in found), strict=True)
    return OriginalRows(dict(zip(_with_numbers(names), map(list, columns), strict=True)), [n for n, _ in found])


def sheet_sample(file: SourceFile) -> list[dict[str, Any]]:
    """Return the rows of a sheet of an Excel file by the names in its header."""
    with read_errors(file):
        names, rows = sheet_rows(file)
    names = _with_numbers(names)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InvalidInput(f"column {twice!r} of {file.label} occurs twice", hint="rename one in the sheet's header")
    return [  # the load refuses cells without values
        {name: _cell_value(cell) for name, cell in zip(names, cells, strict=True)} for _, cells in rows
    ]


def cell_in_sample(file: SourceFile, name: str, row: int) -> str:
    """Return the name of the cell that `sheet_sample` has in a row, counted from 0, of a column: ``cell B3``."""
    from openpyxl.utils import get_column_letter

    names, rows = sheet_rows(file)
    return f"cell {get_column_letter(_with_numbers(names).index(name) + 1)}{rows[row][0]}"


def _cell_value(cell: Any) -> Any:
    return None if isinstance(cell, CellWithoutValue) else cell


def _cells_apart(places: Mapping[str, int], rows: Sequence[tuple[int, tuple[Any, ...]]]) -> Iterator[BadValue]:
    for row, (number, cells) in enumerate(rows):
        for each in _cells_without_values(places, [(number, cells)]):
            yield BadValue(row, each)


def _cells_without_values(
    places: Mapping[str, int], rows: Sequence[tuple[int, tuple[Any, ...]]]
) -> Iterator[Difference]:
    """Yield the difference of each column in which cells show errors, or have formulas without results."""
    for name, i in places.items():
        wrong = [cells[i] for _, cells in rows if isinstance(cells[i], CellWithoutValue)]
        if wrong:
            problem = f"column {name!r}, cell {wrong[0].cell}: {wrong[0].problem}"
            kind, place = wrong[0].problem, f"cell {wrong[0].cell}"
            yield Difference(
                name, problem, wrong[0].hint, kind=kind, values=len(wrong), example=wrong[0].error or "=", place=place
            )


def _with_numbers(names: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(nameless(i) if name is None else name for i, name in enumerate(names, 1))
