"""Keep back the rows of a load that do not fit, and write them to a Parquet file of their own, with the reasons.

The file has all columns of the data as the data has them, or as text where files have them with different types; the
whole text of a line that has too many or too few values; the reasons of each row; and its file and number. It is
written completely before the load is committed, never over another file, and deleted when the commit fails.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from sleeper_nb.errors import AlreadyExists, InvalidInput, OutcomeUnknown, SleeperError
from sleeper_nb.load.casts import BAD_VALUE, plain_chunks
from sleeper_nb.load.conform import (
    FILE,
    NULLS,
    OF_KEPT_ROWS,
    REASON,
    ROW,
    WHOLE_LINE,
    BadValue,
    Conformed,
    Difference,
    column_of_default,
    notes_of_sources,
    raise_first,
)
from sleeper_nb.load.file_formats import folder_columns, rows_at
from sleeper_nb.load.lake_tables import LakeTable
from sleeper_nb.load.load_options import Matching
from sleeper_nb.load.python_values import NoValue
from sleeper_nb.load.row_checks import JudgedRows, RowCheck, no_rows_judged, opened_checks, taken_keys
from sleeper_nb.load.source_files import OriginalRows, SourceFile
from sleeper_nb.load.sources import IngestSource, InMemory, arrow_of, is_pandas, is_rows, label_of, read_source
from sleeper_nb.model.load_hints import QUARANTINE
from sleeper_nb.model.schema import Schema, is_utf8
from sleeper_nb.model.state import TableState
from sleeper_nb.report import counted, values_of
from sleeper_nb.storage.filesystem import Storage, open_parent

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ReadSource:
    """A source that was read, and what is wrong with its rows, by their indexes."""

    source: SourceFile | InMemory
    read: Conformed
    wrong: Mapping[int, Sequence[Difference]]

    @property
    def label(self) -> str:
        return label_of(self.source)


@dataclass(frozen=True, slots=True)
class SortedOut:
    """The rows of a load that fit, and those that are kept back.

    Parameters
    ----------
    notes
        What the load changes although every value fits.
    judged
        The expectations of the table; rows that break one are kept back, so no row that fits does.
    """

    rows: pa.Table
    notes: tuple[str, ...]
    parts: tuple[_ReadSource, ...]
    judged: JudgedRows

    @property
    def count(self) -> int:
        return sum(len(part.wrong) for part in self.parts)

    @property
    def reasons(self) -> tuple[Difference, ...]:
        """What is wrong with them: for each column and kind how many values, and the first with its place."""
        groups: dict[tuple[str, str], Difference] = {}
        for part in self.parts:
            for row, differences in sorted(part.wrong.items()):
                for each in differences:
                    key = (each.column, each.kind or each.problem)
                    known = groups.get(key)
                    placed = replace(each, source=part.label)
                    if known is None:
                        place = part.read.place(row)
                        problem = f"{place}: {each.problem}" if place else each.problem
                        groups[key] = replace(placed, place=place, problem=problem)
                    else:
                        groups[key] = known.plus(placed)
        return tuple(groups.values())

    @property
    def why(self) -> str:
        """How many values have which problem, most first; "" when no row is kept back."""
        found = sorted(self.reasons, key=lambda each: -each.values)
        more = len(found) - _MOST_REASONS
        shown = [self._reason(each) for each in found[:_MOST_REASONS]]
        shown += [f"{counted(more, 'more reason')} in {REASON}"] if more > 0 else []
        return f"why: {'; '.join(shown)}" if shown else ""

    def _reason(self, of: Difference) -> str:
        if of.column == WHOLE_LINE:
            return f"{counted(of.values, 'line')} {of.kind.replace('has', 'with')}"
        what = of.kind or of.problem
        if of.column in self.rows.column_names:
            what = f"{of.column} is NULL" if what == NULLS else f"{of.column} {what}"
        example = f", such as {of.example}" if of.example else ""
        return f"{counted(max(1, of.values), 'row')}: {what}{example}"


_MOST_REASONS: Final = 3


def sort_out(
    sources: Iterable[IngestSource],
    state: TableState,
    storage: Storage,
    matching: Matching,
    checks: Sequence[RowCheck],
) -> SortedOut:
    """Read sources, and tell the rows that fit a table from those that do not.

    Raises `InvalidInput` when whole columns do not fit: one is missing, unknown, or of a kind that is never cast.

    Parameters
    ----------
    sources
        As `data_columns.materialised` returns them; no Spark DataFrame.
    """
    schema = state.schema
    # rows are read again by their places, which a table of another format has not
    found = [InMemory(each.to_arrow()) if isinstance(each, LakeTable) else each for each in sources]
    read = [read_source(source, schema, replace(matching, keep_back=True)) for source in found]
    raise_first([difference for each in read for difference in each.differences])
    tables = [_whole(each, schema) for each in read]
    wrong = [_wrong_rows(each, rows, checks) for each, rows in zip(read, tables, strict=True)]
    starts = np.cumsum([0, *(each.rows for each in read)])
    fitting = np.ones(int(starts[-1]), bool)
    for start, here in zip(starts.tolist(), wrong, strict=False):
        fitting[[start + row for row in here]] = False
    rows = pa.concat_tables(tables)
    kept = np.flatnonzero(fitting)
    for bad in taken_keys(rows.take(pa.array(kept)), state, storage):
        at = int(kept[bad.row])
        part = int(np.searchsorted(starts, at, "right")) - 1
        wrong[part].setdefault(at - int(starts[part]), []).append(bad.difference)
        fitting[at] = False
    parts = tuple(_ReadSource(*each) for each in zip(found, read, wrong, strict=True))
    fit = rows.filter(pa.array(fitting))
    shared, of_some = notes_of_sources((part.label, part.read.notes) for part in parts)
    return SortedOut(pa.table(fit.columns, schema=schema.arrow), (*shared, *of_some), parts, no_rows_judged(checks))


def _whole(read: Conformed, schema: Schema) -> pa.Table:
    """Return all rows of a source, with NULL for values that do not fit, also where the schema has none."""
    columns = [read.columns.get(f.name, column_of_default(f, read.rows)) for f in schema.fields]
    return pa.table(columns, names=list(schema.names))


def _wrong_rows(read: Conformed, rows: pa.Table, checks: Sequence[RowCheck]) -> dict[int, list[Difference]]:
    wrong: defaultdict[int, list[Difference]] = defaultdict(list)
    known = {(each.row, each.column) for each in read.bad}
    with opened_checks(checks) as opened:
        bad: list[BadValue] = [*read.bad, *opened.bad_values(rows, known)]
    lines = {each.row for each in bad if each.column == WHOLE_LINE}
    for each in bad:
        if each.row not in lines or each.column == WHOLE_LINE:  # no check is broken by a line without values
            wrong[each.row].append(each.difference)
    return dict(wrong)


_IS_TAKEN = "already exists, and rows that are kept back need a new file"


@dataclass(frozen=True, slots=True)
class QuarantineFile:
    """Where a load keeps the rows that it keeps back."""

    storage: Storage
    name: str

    @classmethod
    def of(cls, address: str | Path, home: Storage | None) -> QuarantineFile:
        """Return the file at an address, a path or ``s3://``.

        Raises `InvalidInput` when it does not end in ``.parquet``.
        """
        storage, name = open_parent(address, home)
        if not name.lower().endswith(".parquet") or name.lower() == ".parquet":
            hint = ("write ", QUARANTINE)
            raise InvalidInput(f"quarantine needs a .parquet file, not {str(address)!r}", hint=hint)
        return cls(storage, name)

    @property
    def address(self) -> str:
        """Its absolute path, or ``s3://bucket/key``."""
        return self.storage.locate(self.name)

    def check_new(self) -> None:
        if self.storage.has(self.name):
            raise self._exists()

    def _exists(self) -> AlreadyExists:
        hint = "give another file, or delete this one when its rows are corrected and loaded, or not needed"
        return AlreadyExists(f"{self.address} {_IS_TAKEN}", hint=hint)

    @contextmanager
    def write_kept_rows(self, sorted_out: SortedOut, schema: Schema, matching: Matching) -> Iterator[None]:
        """Write the rows that are kept back, and delete the file again when the block ends with an error.

        Without such rows no file is written.
        """
        if not sorted_out.count:
            yield
            return
        content = io.BytesIO()
        parquet.write_table(rows_kept_back(sorted_out, schema, matching), content, compression="zstd")
        if not self.storage.write_new(self.name, content.getvalue()):
            raise self._exists()
        try:
            yield
        except OutcomeUnknown:
            logger.warning("the outcome of the commit is unknown; %s stays", self.address)
            raise
        except BaseException:
            self.storage.delete(self.name)
            raise

    def note(self, count: int) -> str:
        """Return what the report and the history say of the rows that were kept back."""
        if not count:
            return "no rows kept back, so no file of them was written"
        return f"{counted(count, 'row')} kept back in {self.address}"


_NOTED = re.compile(rf"rows? kept back in (?P<written>.+\.parquet)\)?$|^(?P<taken>.+\.parquet) {re.escape(_IS_TAKEN)}$")


def noted_files(texts: Iterable[str | None]) -> tuple[str, ...]:
    """Return the files of kept rows that messages of snapshots or reasons of jobs name, and that may still be there."""
    found = (match for each in texts if (match := _NOTED.search(each or "")))
    noted = dict.fromkeys(match["written"] or match["taken"] for match in found)
    return tuple(address for address in noted if _may_exist(address))


def _may_exist(address: str) -> bool:
    try:
        return _exists(address, None)
    except SleeperError:  # a bucket that does not answer, or that this user may not list
        return True


def new_address(address: str, home: Storage | None) -> str:
    """Return the address of a .parquet file, with a number before its ending where there is such a file already."""
    stem, ending = address[: -len(".parquet")], address[-len(".parquet") :]
    addresses = (f"{stem}.{number}{ending}" if number > 1 else address for number in itertools.count(1))
    return next(each for each in addresses if not _exists(each, home))


def _exists(address: str, home: Storage | None) -> bool:
    storage, name = open_parent(address, home)
    return storage.has(name)


def rows_kept_back(sorted_out: SortedOut, schema: Schema, matching: Matching) -> pa.Table:
    """Return the rows that are kept back, with all columns of their sources, the reasons, the file and the number."""
    parts = [_kept_part(part, schema, matching) for part in sorted_out.parts if part.wrong]
    names = dict.fromkeys(name for part in parts for name in part.column_names if name not in OF_KEPT_ROWS)
    columns = {name: _joined([_column(part, name) for part in parts]) for name in names}
    for name in (REASON, FILE, ROW):
        columns[name] = pa.chunked_array([chunk for part in parts for chunk in part[name].chunks])
    return pa.table(columns)


def _column(part: pa.Table, name: str) -> pa.ChunkedArray:
    return part[name] if name in part.column_names else pa.chunked_array([pa.nulls(part.num_rows)])


def _joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return a column of all sources: with the type that it has in them, or as text where they differ."""
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    return pa.chunked_array([chunk for column in columns for chunk in _of_type(column, kind).chunks], type=kind)


def _of_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), kind)])
    return _texts(values_of(column))


def _kept_part(part: _ReadSource, schema: Schema, matching: Matching) -> pa.Table:
    rows = sorted(part.wrong)
    if isinstance(part.source, SourceFile):
        found = rows_at(part.source, schema, matching, rows)
        of_folders = folder_columns(part.source, list(found.columns), schema, matching)
    else:
        found, of_folders = OriginalRows(_in_memory(part.source.data, rows), [row + 1 for row in rows]), []
    columns = {name: _storable(column) for name, column in found.columns.items() if name not in OF_KEPT_ROWS}
    for _, folder in of_folders:
        columns.setdefault(folder.name, _texts([folder.text] * len(rows)))
    reasons = ["; ".join(each.problem for each in part.wrong[row]) for row in rows]
    columns[REASON] = _texts(reasons)
    columns[FILE] = _texts([part.label or None] * len(rows))
    columns[ROW] = pa.chunked_array([pa.array(found.numbers, pa.int64())])
    return pa.table(columns)


def _in_memory(data: Any, rows: Sequence[int]) -> dict[str, Any]:
    if is_rows(data):
        found = [data[row] for row in rows]
        return {str(name): [row.get(name) for row in found] for name in dict.fromkeys(n for row in found for n in row)}
    if is_pandas(data):
        frame = data.iloc[list(rows)]
        return {str(name): frame.iloc[:, i] for i, name in enumerate(frame.columns)}
    table, places = arrow_of(data), pa.array(rows, pa.int64())
    return {
        name: plain_chunks(column).take(places) for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _storable(column: Any) -> pa.ChunkedArray:
    """Return a column that a Parquet file can hold: as text where Arrow or Parquet has no type for its values."""
    try:
        array = column if isinstance(column, pa.ChunkedArray) else pa.array(column, from_pandas=True)
        array = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
        if is_utf8(array):
            parquet.write_table(pa.table({"column": array}), io.BytesIO())
            return array
    except BAD_VALUE:
        pass
    return _texts(values_of(column) if isinstance(column, pa.ChunkedArray) else column)


def _texts(values: Iterable[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(list(map(_text, values)), pa.string())])


def _text(value: Any) -> str | None:
    """Return a value as text; bytes that are not UTF-8 with the codes of the wrong ones."""
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - NaN, as pandas has NULL
        return None
    if isinstance(value, NoValue):
        return value.shown or value.misfit.problem
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | time):
        return value.isoformat()
    text = json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return text.encode(errors="backslashreplace").decode()
