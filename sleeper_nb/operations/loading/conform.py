"""Whether data fits a table's schema: every difference with what to change, and columns cast exactly. Pure."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pyarrow as pa

from sleeper_nb.errors import Action, Hint, HintParts, InvalidInput, hint_text
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.operations.loading.casts import InexactValueError, exactly, fit, kind_of
from sleeper_nb.report import counted

A_TABLE = "<table>"
"""Stands in a hint for the name of the table, which a schema does not know; `Loading` puts the name there."""


def row_number(index: int) -> str:
    """Return what a row of data in memory is called, from 1."""
    return f"row {index + 1:,}"


def for_table(hint: Hint, name: str) -> HintParts:
    """Return a hint whose actions name a table instead of `A_TABLE`."""
    parts = hint if isinstance(hint, tuple) else (hint,)
    return tuple(
        replace(part, line=part.line.replace(A_TABLE, shlex.quote(name))) if isinstance(part, Action) else part
        for part in parts
    )


def no_place(_: int) -> str:
    """Return nothing, for rows that have no order."""
    return ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which data does not fit a table.

    Parameters
    ----------
    column
        The column of the data or of the table.
    problem
        What is wrong, naming the column.
    hint
        What to change in the data or the table.
    source
        The file; empty for rows in memory.
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
    """Data as it came.

    Parameters
    ----------
    names
        The names of all columns, those included that could not be read.
    columns
        The columns that could be read; each has `rows` values.
    differences
        Why the others could not.
    place
        What the row of an index is called in messages: ``row 3``, ``line 7``, or nothing.
    notes
        What was changed although every value fits, by column: NaN of pandas that became NULL.
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
    """Data as far as it fits a table.

    Parameters
    ----------
    columns
        Columns with the type of their field.
    rows
        How many rows the data has.
    differences
        Every way in which it does not fit; a run raises the first, and adds nothing.
    notes
        What was changed although every value fits.
    """

    columns: Mapping[str, pa.ChunkedArray] = field(repr=False)
    rows: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    def table(self, schema: Schema) -> pa.Table:
        """Return the rows with the schema's columns, order and types; raise the first difference if there is one."""
        raise_first(self.differences)
        columns = [
            self.columns[f.name] if f.name in self.columns else pa.nulls(self.rows, f.type.arrow) for f in schema.fields
        ]
        return pa.table(columns, schema=schema.arrow)

    def of(self, source: str) -> Conformed:
        """Return the same, its differences those of a file."""
        return replace(self, differences=tuple(replace(each, source=source) for each in self.differences))


def raise_first(differences: Sequence[Difference]) -> None:
    """Raise `InvalidInput` for the first difference, and say how many more there are."""
    if not differences:
        return
    error = differences[0].error
    if more := len(differences) - 1:
        error.hint = (*error.hint_parts, f"; {counted(more, 'more difference')}: a dry run shows all")
    raise error


def conform(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the table with the schema's columns, order and types; every value stays exactly what it is.

    Raises
    ------
    InvalidInput
        When a column is missing, unknown, has a value that its type cannot hold exactly, or nulls where it must not.
    """
    return compare(RawColumns.of(table, no_place), schema).table(schema)


def compare(raw: RawColumns, schema: Schema) -> Conformed:
    """Return data as far as it fits a schema, and every way in which it does not: names first, then values."""
    return compare_parts([raw], schema)


def compare_parts(parts: Sequence[RawColumns], schema: Schema) -> Conformed:
    """Return data that came in parts, one after the other; a part may lack columns, which are null there."""
    names: Counter[str] = Counter()
    for part in parts:
        names |= Counter(part.names)  # a name that is there twice in any part stays twice
    types = {name: column.type for part in parts for name, column in part.columns.items()}
    found = compare_names(tuple(names.elements()), schema, types)
    columns: dict[str, pa.ChunkedArray] = {}
    for each in schema.fields:
        if each.name not in names:
            continue
        cast = _joined(parts, each)
        if isinstance(cast, Difference):
            found.append(cast)
        else:
            columns[each.name] = cast
    known = set(schema.names)
    found += [each for part in parts for each in part.differences if each.column not in known]
    notes = tuple(note for part in parts for name, note in part.notes.items() if name in known)
    rows = sum(part.rows for part in parts)
    return Conformed(columns, rows, tuple(found), (*notes, *null_notes(names, rows, schema)))


def null_notes(names: Container[str], rows: int, schema: Schema) -> tuple[str, ...]:
    """Return which columns become NULL as the data has no values for them."""
    absent = [field.name for field in schema.fields if field.nullable and field.name not in names]
    return (f"NULL in every row, as the data has no values for it: {', '.join(absent)}",) if absent and rows else ()


def _joined(parts: Sequence[RawColumns], target: Field) -> pa.ChunkedArray | Difference:
    """Return one column of all parts, or why it cannot be."""
    notes = ", ".join(part.notes[target.name] for part in parts if target.name in part.notes)
    there = [part.columns[target.name] for part in parts if target.name in part.columns]
    if not target.nullable and (nulls := sum(column.null_count for column in there)):
        return nulls_refused(target.name, nulls, notes)
    chunks: list[pa.Array] = []
    nulls = 0
    for part in parts:
        bad = next((each for each in part.differences if each.column == target.name), None)
        if bad is not None:
            return bad
        cast: pa.ChunkedArray | Difference = pa.chunked_array([pa.nulls(part.rows, target.type.arrow)])
        if target.name in part.columns:
            cast = cast_column(part.columns[target.name], target, part.place)
        if isinstance(cast, Difference):
            return cast
        nulls += cast.null_count
        chunks += cast.chunks
    if nulls and not target.nullable:
        return nulls_refused(target.name, nulls, notes)
    return pa.chunked_array(chunks, target.type.arrow)


def compare_names(
    names: Sequence[str], schema: Schema, types: Mapping[str, pa.DataType] = MappingProxyType({})
) -> list[Difference]:
    """Return which columns are there twice, missing and unknown; a misspelt one is told with its nearest name.

    Parameters
    ----------
    names
        The names of the columns of the data.
    schema
        The table's schema.
    types
        The types of columns, where the data has any.
    """
    times, known = Counter(names), frozenset(schema.names)
    twice = [name for name, count in times.items() if count > 1]
    missing = [f.name for f in schema.fields if f.name not in times and not f.nullable]
    absent = [f.name for f in schema.fields if f.name not in times]
    unknown = [name for name in times if name not in known]
    found = [
        Difference(name, f"column {name!r} is there twice", "give each column a name of its own") for name in twice
    ]
    for name in missing:
        near = _nearest(name, unknown)
        change = f"rename {near!r} to {name!r}" if near else f"add it; the data has {', '.join(names) or 'no column'}"
        found.append(Difference(name, f"missing column {name!r}", change))
    for name in unknown:
        near = _nearest(name, absent)
        known_names = ", ".join(schema.names)
        added = (*_added(name, types.get(name)), f"; the table has {known_names}")
        found.append(Difference(name, f"unknown column {name!r}", f"rename it to {near!r}" if near else added))
    return found


def _added(name: str, kind: pa.DataType | None) -> HintParts:
    """Return how a column is added to the table, or first gets a name that a table can have."""
    try:
        Field(name, FieldType("string"))
    except InvalidInput:
        return ("leave it out, or rename it in the data: a name starts with a letter; then letters, digits and _",)
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
    """Return the difference of a column that has nulls and must not."""
    change = "drop those rows or fill them in; only fields written with ? can be null"
    return Difference(name, f"column {name!r} has {counted(nulls, 'null')}{f' ({note})' if note else ''}", change)


def compare_column(column: pa.ChunkedArray, target: Field) -> pa.ChunkedArray | Difference:
    """Return a column cast to its field, or why it cannot be."""
    if column.null_count and not target.nullable:
        return nulls_refused(target.name, column.null_count)
    return cast_column(column, target, row_number)


def cast_column(column: pa.ChunkedArray, target: Field, place: Callable[[int], str]) -> pa.ChunkedArray | Difference:
    """Return a column cast to its field, whether it may have nulls or not."""
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
    return pa.chunked_array(chunks, target.type.arrow)


def inexact(error: InexactValueError, target: Field, place: Callable[[int], str]) -> Difference:
    """Return the difference of a value that a field cannot hold exactly."""
    kind = "" if error.kind in {"other", "null"} else f" ({error.kind})"
    within = "" if error.target == target.type else f" in {target.type}"
    goal = f"cannot become {error.target}{within} without loss"
    where = place(error.index) if error.index is not None else ""
    if error.is_no_number:
        kind, goal = "", "is not a number"
    if error.is_bad_text:
        problem = f"column {target.name!r}{f', {where}' if where else ''}: the text {error.shown} is not UTF-8"
    elif error.index is None:
        problem = f"column {target.name!r}{kind} {goal}"
    else:
        problem = f"column {target.name!r}{f', {where}' if where else ''}: {error.shown}{kind} {goal}"
    return Difference(target.name, problem, f"{error.hint}; nothing was ingested")


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says; its class when it says nothing."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
