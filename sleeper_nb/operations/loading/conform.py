"""Compare data with a table's schema: columns cast exactly, and every difference with what to change. Pure.

`compare` takes `RawColumns`, the data as it came, and returns `Conformed`: the columns that fit, cast to the types of
the schema, and a `Difference` for everything that does not fit. A run raises the first difference; a dry run lists all.
"""

from __future__ import annotations

import difflib
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import Action, Hint, HintParts, InvalidInput, hint_text
from sleeper_nb.model.keys import OUT_OF_YEARS, KeyValue, arrow_value, first_and_last
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.operations.loading.casts import InexactValueError, exactly, fit, kind_of
from sleeper_nb.report import counted

A_TABLE = "<table>"
"""A placeholder in hints for the table's name, which a schema does not know; `Table` replaces it."""


def row_number(index: int) -> str:
    """Return the name of a row in messages, counted from 1: ``row 3``."""
    return f"row {index + 1:,}"


def for_table(hint: Hint, name: str) -> HintParts:
    """Return a hint whose actions name a table instead of `A_TABLE`."""
    parts = hint if isinstance(hint, tuple) else (hint,)
    return tuple(
        replace(part, line=part.line.replace(A_TABLE, shlex.quote(name))) if isinstance(part, Action) else part
        for part in parts
    )


def no_place(_: int) -> str:
    """Return no name, for rows without an order."""
    return ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which data does not fit a table.

    Parameters
    ----------
    column
        The column of the data or of the table.
    problem
        What is wrong; names the column.
    hint
        What to change in the data or the table.
    source
        The file; "" for data in memory.
    """

    column: str
    problem: str
    hint: Hint
    source: str = ""

    @property
    def change(self) -> str:
        """The hint in Python."""
        return hint_text(self.hint, "")

    @property
    def error(self) -> InvalidInput:
        """The error that a run raises for it."""
        return InvalidInput(f"{self.problem}, in {self.source}" if self.source else self.problem, hint=self.hint)


@dataclass(frozen=True, slots=True)
class RawColumns:
    """Data as it came, as Arrow columns that are not yet cast.

    Parameters
    ----------
    names
        The names of all columns, including those that could not be read.
    columns
        The columns that could be read; each has `rows` values.
    rows
        The number of rows.
    differences
        Why the other columns could not be read.
    place
        Returns the name of a row in messages, from its index: ``row 3``, ``line 7``, or "".
    notes
        What was changed although every value fits, by column: NaN in pandas that became NULL.
    """

    names: tuple[str, ...]
    columns: Mapping[str, pa.ChunkedArray]
    rows: int
    differences: tuple[Difference, ...] = ()
    place: Callable[[int], str] = row_number
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, table: pa.Table, place: Callable[[int], str] = row_number) -> RawColumns:
        """Return the columns of an Arrow table."""
        try:
            names = tuple(table.column_names)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the column name {error.object!r} is not UTF-8", hint="rename the column") from error
        return cls(names, dict(zip(names, table.columns, strict=True)), table.num_rows, place=place)


@dataclass(frozen=True, slots=True)
class Conformed:
    """The part of some data that fits a table, and everything that does not.

    Parameters
    ----------
    columns
        The columns that fit, with the type of their field.
    rows
        The number of rows.
    differences
        Every way in which the data does not fit. A run raises the first and adds nothing.
    notes
        What was changed although every value fits.
    place
        Returns the name of a row of the data in messages, such as its line.
    """

    columns: Mapping[str, pa.ChunkedArray] = field(repr=False)
    rows: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    place: Callable[[int], str] = field(default=row_number, repr=False, compare=False)

    def table(self, schema: Schema) -> pa.Table:
        """Return the rows with the schema's columns, order and types; raise the first difference, if any."""
        raise_first(self.differences)
        columns = [
            self.columns[f.name] if f.name in self.columns else column_of_default(f, self.rows) for f in schema.fields
        ]
        return pa.table(columns, schema=schema.arrow)

    def of(self, source: str) -> Conformed:
        """Return the same with a file as the source of all differences."""
        return replace(self, differences=tuple(replace(each, source=source) for each in self.differences))


def raise_first(differences: Sequence[Difference]) -> None:
    """Raise `InvalidInput` for the first difference, and say how many more there are."""
    if not differences:
        return
    error = differences[0].error
    if more := len(differences) - 1:
        error.hint = (*error.hint_parts, f"; {counted(more, 'more difference')}: a dry run lists all")
    raise error


def conform(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the rows with the schema's columns, order and types, without changing any value.

    Raises
    ------
    InvalidInput
        When a column is missing or unknown, has a value that its type cannot hold exactly, or has nulls but must not.
    """
    return compare(RawColumns.of(table, no_place), schema).table(schema)


def compare(raw: RawColumns, schema: Schema) -> Conformed:
    """Return the columns that fit a schema, and every difference: first of names, then of values."""
    return compare_parts([raw], schema)


def column_of_default(target: Field, rows: int) -> pa.Array:
    """Return a field's column of rows whose load does not name it: its default, or NULL without one."""
    kind = target.type.arrow
    return pa.nulls(rows, kind) if target.default is None else pa.repeat(pa.scalar(target.default, kind), rows)


def with_default(column: pa.ChunkedArray, target: Field, is_named: Sequence[bool]) -> pa.ChunkedArray:
    """Return a column of a field with its default in the rows that do not name the column."""
    if target.default is None or all(is_named):
        return column
    default = pa.scalar(target.default, target.type.arrow)
    return pc.if_else(pa.chunked_array([pa.array(is_named, pa.bool_())]), column, default)


def compare_parts(parts: Sequence[RawColumns], schema: Schema) -> Conformed:
    """Compare data that came in parts, as `compare` does; a column that a part lacks has its default there, or NULL."""
    names: Counter[str] = Counter()
    for part in parts:
        names |= Counter(part.names)  # keeps a name that occurs twice in any part
    types = {name: column.type for part in parts for name, column in part.columns.items()}
    differences = compare_names(tuple(names.elements()), schema, types)
    columns: dict[str, pa.ChunkedArray] = {}
    for each in schema.fields:
        if each.name not in names:
            continue
        column = _column_of_parts(parts, each, is_row_key=each in schema.row_keys)
        if isinstance(column, Difference):
            differences.append(column)
        else:
            columns[each.name] = column
    known = set(schema.names)
    differences += [each for part in parts for each in part.differences if each.column not in known]
    notes = tuple(note for part in parts for name, note in part.notes.items() if name in known)
    rows = sum(part.rows for part in parts)
    place = _place_in(parts)
    return Conformed(columns, rows, tuple(differences), (*notes, *null_notes(names, rows, schema)), place)


def _place_in(parts: Sequence[RawColumns]) -> Callable[[int], str]:
    """Return the function that names a row of all parts."""
    starts = list(accumulate((part.rows for part in parts), initial=0))

    def place(row: int) -> str:
        part = bisect_right(starts, row) - 1
        return parts[part].place(row - starts[part]) if part < len(parts) else row_number(row)

    return place


def null_notes(names: Container[str], rows: int, schema: Schema) -> tuple[str, ...]:
    """Return notes that name the columns that are NULL, or their default, because the data has no values for them."""
    absent = [field for field in schema.fields if field.name not in names] if rows else []
    nulls = [field.name for field in absent if field.nullable and field.default is None]
    defaults = [f"{field.name} = {field.default_text}" for field in absent if field.default is not None]
    null_note = f"NULL in every row, as the data has no values for it: {', '.join(nulls)}"
    default_note = f"the default in every row, as the data has no values for it: {', '.join(defaults)}"
    return (*([null_note] if nulls else []), *([default_note] if defaults else []))


def _column_of_parts(parts: Sequence[RawColumns], target: Field, *, is_row_key: bool) -> pa.ChunkedArray | Difference:
    """Return one column of all parts, cast to its field, or its first difference."""
    notes = ", ".join(part.notes[target.name] for part in parts if target.name in part.notes)
    if not target.nullable:
        nulls = sum(part.columns[target.name].null_count for part in parts if target.name in part.columns)
        if nulls:
            return nulls_refused(target.name, nulls, notes)
    chunks: list[pa.Array] = []
    nulls = 0
    for part in parts:
        unread = next((each for each in part.differences if each.column == target.name), None)
        if unread is not None:
            return unread
        if target.name in part.columns:
            column = cast_column(part.columns[target.name], target, part.place, is_row_key=is_row_key)
        else:
            column = pa.chunked_array([column_of_default(target, part.rows)])
        if isinstance(column, Difference):
            return column
        nulls += column.null_count
        chunks += column.chunks
    if nulls and not target.nullable:
        return nulls_refused(target.name, nulls, notes)
    return pa.chunked_array(chunks, target.type.arrow)


def compare_names(
    names: Sequence[str], schema: Schema, types: Mapping[str, pa.DataType] = MappingProxyType({})
) -> list[Difference]:
    """Return which columns are duplicate, missing or unknown; for a misspelt one, suggest the nearest name.

    Parameters
    ----------
    names
        The names of the data's columns.
    schema
        The table's schema.
    types
        The types of the data's columns, as far as known.
    """
    times, known = Counter(names), frozenset(schema.names)
    twice = [name for name, count in times.items() if count > 1]
    missing = [f.name for f in schema.fields if f.name not in times and not f.nullable and f.default is None]
    absent = [f.name for f in schema.fields if f.name not in times]
    unknown = [name for name in times if name not in known]
    differences = [Difference(name, f"column {name!r} occurs twice", "rename one of the columns") for name in twice]
    for name in missing:
        near = _nearest(name, unknown)
        change = f"rename {near!r} to {name!r}" if near else f"add it; the data has {', '.join(names) or 'no columns'}"
        differences.append(Difference(name, f"missing column {name!r}", change))
    for name in unknown:
        near = _nearest(name, absent)
        known_names = ", ".join(schema.names)
        adding = (*_hint_to_add(name, types.get(name)), f"; the table has {known_names}")
        differences.append(Difference(name, f"unknown column {name!r}", f"rename it to {near!r}" if near else adding))
    return differences


def _hint_to_add(name: str, kind: pa.DataType | None) -> HintParts:
    """Return how to add a column to the table; if its name is not valid there, that it must be renamed first."""
    try:
        Field(name, FieldType("string"))
    except InvalidInput:
        return ("leave it out, or rename it: a name is a letter followed by letters, digits and _",)
    try:
        of_type = f"{FieldType.from_arrow(kind)}?" if kind is not None else "string?"
    except InvalidInput:
        return ("leave it out",)
    added = Action(f'alter {A_TABLE} --add-column "{name} {of_type}"', f"table.alter({{{name!r}: {of_type!r}}})")
    return ("leave it out, or add it: ", added, "" if kind is not None else ", or with its type")


def _nearest(name: str, candidates: Sequence[str]) -> str | None:
    folded = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return folded[near[0]] if near else None


def nulls_refused(name: str, nulls: int, note: str = "") -> Difference:
    """Return the difference of a column that has nulls but must not."""
    change = "drop those rows or fill in the values; only fields declared with ? can be null"
    reason = f" ({note})" if note else ""
    return Difference(name, f"column {name!r} has {counted(nulls, 'null')}{reason}", change)


def compare_column(column: pa.ChunkedArray, target: Field, *, is_row_key: bool) -> pa.ChunkedArray | Difference:
    """Return a column cast to its field, or the difference."""
    if column.null_count and not target.nullable:
        return nulls_refused(target.name, column.null_count)
    return cast_column(column, target, row_number, is_row_key=is_row_key)


def cast_column(
    column: pa.ChunkedArray, target: Field, place: Callable[[int], str], *, is_row_key: bool
) -> pa.ChunkedArray | Difference:
    """Return a column cast to its field, or the first difference; nulls are not checked."""
    if fit(kind_of(column.type), target.type.name) == "refused" and not len(column):
        return inexact(InexactValueError(kind_of(column.type), target.type), target, place)
    chunks, start = [], 0
    for chunk in column.chunks:
        try:
            chunks.append(exactly(chunk, target.type))
        except InexactValueError as error:
            here = error if error.index is None else error.at(start + error.index)
            return inexact(here, target, place)
        start += len(chunk)
    cast = pa.chunked_array(chunks, target.type.arrow)
    ends = first_and_last(target.type.name) if is_row_key else None
    return cast if ends is None else _within_years(cast, ends, target, place)


def _within_years(
    column: pa.ChunkedArray, ends: tuple[KeyValue, KeyValue], target: Field, place: Callable[[int], str]
) -> pa.ChunkedArray | Difference:
    """Return the column of a row key, or the difference of its first time that Python does not have."""
    first, last = (arrow_value(end, column.type) for end in ends)
    at = pc.index(pc.or_(pc.less(column, first), pc.greater(column, last)), pa.scalar(True)).as_py()  # noqa: FBT003
    if at < 0:
        return column
    row = place(at)
    where = f"column {target.name!r}, {row}" if row else f"column {target.name!r}"
    problem = f"{where}: the {target.type} is out of range"
    return Difference(target.name, problem, f"{OUT_OF_YEARS}; nothing was ingested")


def inexact(error: InexactValueError, target: Field, place: Callable[[int], str]) -> Difference:
    """Return the difference of a value that a field cannot hold exactly."""
    kind = "" if error.kind in {"other", "null"} else f" ({error.kind})"
    container = "" if error.target == target.type else f" in {target.type}"
    verdict = f"cannot become {error.target}{container} without loss"
    row = place(error.index) if error.index is not None else ""
    where = f"column {target.name!r}, {row}" if row else f"column {target.name!r}"
    if error.is_not_a_number:
        kind, verdict = "", "is not a number"
    if error.is_bad_text:
        problem = f"{where}: the text {error.shown} is not UTF-8"
    elif error.index is None:
        problem = f"{where}{kind} {verdict}"
    else:
        problem = f"{where}: {error.shown}{kind} {verdict}"
    return Difference(target.name, problem, f"{error.hint}; nothing was ingested")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; the name of its class if the message is empty."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
