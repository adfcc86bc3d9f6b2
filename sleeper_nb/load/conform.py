"""Compare data with a table's schema: columns cast exactly, and every difference with what to change. Pure.

`compare` takes `RawColumns`, the data as it came, and returns `Conformed`: the columns that fit, cast to the types of
the schema, and a `Difference` for everything that does not fit. `Matching` says what is forgiven. A run raises all
differences in one error, grouped by column; a dry run lists them with what to change for each.
"""

from __future__ import annotations

import difflib
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import UNCHANGED, Action, Hint, HintParts, InvalidInput, hint_text, joined
from sleeper_nb.load.casts import InexactValueError, cast_apart, exactly, fit, kind_of
from sleeper_nb.load.load_options import EXACT, Matching, folded, is_nameless, valid_name
from sleeper_nb.load.python_values import can_be_requested, cast_exactly, is_word
from sleeper_nb.model.keys import OUT_OF_YEARS, arrow_value, first_and_last
from sleeper_nb.model.load_hints import IGNORE_EXTRA, LEFT_OUT, OR_BY_NAME, SAYS_CHANGES, Cast, DryRun, OnTable
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.report import class_name, counted

REASON, FILE, ROW = "_reason", "_file", "_row"
"""The columns that a file of rows which were kept back has besides those of the data."""
OF_KEPT_ROWS: Final = frozenset({REASON, FILE, ROW})
_MOST_LINES = 9
"""More differences than these are counted in an error; a dry run lists all."""
_MOST_COUNTED = 1_000
"""So many values of a column that do not fit are counted in each part of data, unless they are kept back."""


NULLS: Final = "nulls"
"""The kind of values that are missing where none may be."""
WHOLE_LINE: Final = "whole line"
"""The column of the difference of a line that is no row of the columns: all of its values are bad."""
MISSING: Final = "missing column"
"""The kind of the difference that data lack a column which may not be NULL."""


def row_number(index: int) -> str:
    return f"row {index + 1:,}"


def row_after(before: int, index: int) -> str:
    """Return the name of a row of a part, which begins after some rows."""
    return row_number(before + index)


def _class_of(value: Any) -> str:
    return "" if value is None else f" ({class_name(value)})"


def no_place(_: int) -> str:
    """Return no name, for rows without an order."""
    return ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which data does not fit a table.

    Parameters
    ----------
    problem
        What is wrong, in a sentence that names the column, and the first value with its place.
    hint
        What to change in the data or the table.
    source
        The file of the first value; "" for data in memory.
    kind
        What is wrong, without the column and its values: ``is not a number``.
    values
        The number of values that are wrong; 0 when the column as a whole is.
    counted_all
        Whether more values than `values` may be wrong.
    example, place
        The first of them as text, and its row or line; "" where there is none.
    files
        The number of files in which the column is wrong.
    unit
        What `values` counts.
    """

    column: str
    problem: str
    hint: Hint
    source: str = ""
    kind: str = ""
    values: int = 0
    counted_all: bool = True
    example: str = ""
    place: str = ""
    files: int = 1
    unit: str = "value"

    @property
    def change(self) -> str:
        return hint_text(self.hint, "")

    @property
    def count(self) -> str:
        return f"{self.values:,}{'' if self.counted_all else ' or more'}" if self.values else ""

    @property
    def first_at(self) -> str:
        return ", ".join(filter(None, (self.source, self.place)))

    @property
    def line(self) -> str:
        """The problem, its file, and how many values and files have it."""
        line = f"{self.problem}, in {self.source}" if self.source else self.problem
        values = f"{self.count} {self.unit}s" if self.values > 1 and self.example else ""
        files = f"{self.files:,} files" if self.files > 1 else ""
        return f"{line} ({' in '.join(filter(None, (values, files)))})" if values or files else line

    @property
    def error(self) -> InvalidInput:
        return InvalidInput(self.line, hint=self.hint)

    def plus(self, other: Difference) -> Difference:
        """Return this difference with the values that another file or part of it has."""
        return replace(
            self,
            values=self.values + other.values,
            counted_all=self.counted_all and other.counted_all,
            files=self.files + (other.files if other.source != self.source else 0),
        )


@dataclass(frozen=True, slots=True)
class BadValue:
    """A value of a column that does not fit, and the index of its row.

    Parameters
    ----------
    described
        Returns what is wrong with it, from the name of its row or line; "" for none.
    """

    row: int
    column: str
    described: Callable[[str], Difference]

    @classmethod
    def of(cls, row: int, difference: Difference) -> BadValue:
        return cls(row, difference.column, lambda _: difference)

    @property
    def difference(self) -> Difference:
        return self.described("")


@dataclass(frozen=True, slots=True)
class RawColumns:
    """Data as it came, as Arrow columns that are not yet cast.

    Parameters
    ----------
    names
        The names of all columns, including those that could not be read.
    columns
        The columns that could be read; each has `rows` values.
    differences
        Why the other columns could not be read.
    place
        Returns the name of a row in messages, from its index: ``row 3``, ``line 7``, or "".
    notes
        What was changed although every value fits, by column: NaN in pandas that became NULL.
    bad
        The values that do not fit, which are NULL in the columns: all where bad rows are kept back, or as many as are
        counted.
    """

    names: tuple[str, ...]
    columns: Mapping[str, pa.ChunkedArray]
    rows: int
    differences: tuple[Difference, ...] = ()
    place: Callable[[int], str] = row_number
    notes: Mapping[str, str] = field(default_factory=dict)
    bad: tuple[BadValue, ...] = ()

    @classmethod
    def of(
        cls,
        table: pa.Table,
        place: Callable[[int], str] = row_number,
        rename: Callable[[Sequence[str]], tuple[str, ...]] = tuple,
    ) -> RawColumns:
        """Return the columns of an Arrow table; `rename` returns the table's names for those of the data."""
        try:
            names = rename(tuple(table.column_names))
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
    left_out
        The columns that the table lacks, where they are ignored.
    bad
        The values that do not fit, where bad rows are kept back; in the columns they are NULL.
    """

    columns: Mapping[str, pa.ChunkedArray] = field(repr=False)
    rows: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    place: Callable[[int], str] = field(default=row_number, repr=False, compare=False)
    left_out: tuple[str, ...] = ()
    bad: tuple[BadValue, ...] = field(default=(), repr=False)

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


def grouped(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return one difference for each column and kind, the first, with the values and files of all."""
    groups: dict[tuple[str, str], Difference] = {}
    for each in differences:
        key = (each.column, each.kind or each.problem)
        groups[key] = groups[key].plus(each) if key in groups else each
    return tuple(groups.values())


def raise_first(differences: Sequence[Difference]) -> None:
    """Raise `InvalidInput` for the first difference, with a line for each of the others."""
    if not differences:
        return
    first, *others = grouped(differences)
    error = first.error
    if others:
        lines = [each.line for each in others[:_MOST_LINES]]
        if more := len(others) - len(lines):
            lines.append(f"and {counted(more, 'more difference')}")
        error.place = "\n".join(lines)
        error.hint = (*error.hint_parts, DryRun(SAYS_CHANGES))
    raise error


def conform(table: pa.Table, schema: Schema, matching: Matching = EXACT) -> pa.Table:
    """Return the rows with the schema's columns, order and types, without changing any value.

    Raises `InvalidInput` when a column is missing or unknown, has a value that its type cannot hold exactly, or has
    nulls but must not.
    """
    raw = RawColumns.of(table, no_place, partial(matching.names, schema=schema))
    return compare(raw, schema, matching).table(schema)


def compare(raw: RawColumns, schema: Schema, matching: Matching = EXACT) -> Conformed:
    """Return the columns that fit a schema, and every difference: first of names, then of values."""
    return compare_parts([raw], schema, matching)


def column_of_default(target: Field, rows: int) -> pa.Array:
    kind = target.type.arrow
    return pa.nulls(rows, kind) if target.default is None else pa.repeat(pa.scalar(target.default, kind), rows)


def with_default(column: pa.ChunkedArray, target: Field, is_named: Sequence[bool]) -> pa.ChunkedArray:
    """Return a column of a field with its default in the rows that do not name the column."""
    if target.default is None or all(is_named):
        return column
    default = pa.scalar(target.default, target.type.arrow)
    return pc.if_else(pa.chunked_array([pa.array(is_named, pa.bool_())]), column, default)


def compare_parts(parts: Sequence[RawColumns], schema: Schema, matching: Matching = EXACT) -> Conformed:
    """Compare data that came in parts, as `compare` does; a column that a part lacks has its default there, or NULL."""
    names: Counter[str] = Counter()
    for part in parts:
        names |= Counter(part.names)  # keeps a name that occurs twice in any part
    types = {name: column.type for part in parts for name, column in part.columns.items()}
    known = set(schema.names)
    extra = matching.left_out(names, schema)
    for name in extra:
        del names[name]
    differences = compare_names(tuple(names.elements()), schema, types, matching)
    columns: dict[str, pa.ChunkedArray] = {}
    bad: list[BadValue] = []
    for each in schema.fields:
        if each.name not in names:
            continue
        found = column_of_parts(parts, each, matching, is_row_key=each in schema.row_keys)
        if isinstance(found, Difference):
            differences.append(found)
        else:
            columns[each.name], wrong = found
            bad += wrong
    bad += _whole_lines(parts)
    unread = [each for part in parts for each in part.differences if each.column not in known]
    differences = [*(each for each in unread if each.column == WHOLE_LINE), *differences]
    differences += [each for each in unread if each.column not in {*extra, WHOLE_LINE}]
    noted = dict.fromkeys(note for part in parts for name, note in part.notes.items() if name in known)
    rows = sum(part.rows for part in parts)
    notes = (*noted, *extra_notes(extra), *null_notes(names, rows, schema))
    return Conformed(columns, rows, grouped(differences), notes, _place_in(parts), extra, tuple(bad))


def _whole_lines(parts: Sequence[RawColumns]) -> Iterator[BadValue]:
    start = 0
    for part in parts:
        yield from (replace(each, row=start + each.row) for each in part.bad if each.column == WHOLE_LINE)
        start += part.rows


def notes_of_sources(noted: Iterable[tuple[str, Iterable[str]]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the notes that all sources have, each once, and those of only some files, with the names of these.

    `noted` has the label of each source, which is empty for rows in memory, and its notes.
    """
    labels: dict[str, list[str]] = {}
    sources = tuple(noted)
    for label, notes in sources:
        for note in dict.fromkeys(notes):
            labels.setdefault(note, []).append(PurePosixPath(label).name)
    shared = {note for note, files in labels.items() if len(files) == len(sources) or not all(files)}
    of_some = (f"{joined(files)}: {note}" for note, files in labels.items() if note not in shared)
    return tuple(note for note in labels if note in shared), tuple(of_some)


def extra_notes(names: Sequence[str]) -> tuple[str, ...]:
    shown = [name if name.strip() else "a column without a name" for name in names]
    return (f"skipped, not in the table: {', '.join(shown)}",) if names else ()


def _place_in(parts: Sequence[RawColumns]) -> Callable[[int], str]:
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


def column_of_parts(
    parts: Sequence[RawColumns], target: Field, matching: Matching, *, is_row_key: bool
) -> tuple[pa.ChunkedArray, Sequence[BadValue]] | Difference:
    """Return one column of all parts, cast to its field, NULL where a value does not fit, and these values.

    Unless bad rows are kept back, values that do not fit, and nulls where none may be, are a difference.
    """
    unread = [each for part in parts for each in part.differences if each.column == target.name]
    if unread:
        return grouped(unread)[0]
    chunks: list[pa.Array] = []
    bad: list[BadValue] = []
    start = 0
    for part in parts:
        column = part.columns.get(target.name)
        if column is None:
            column = pa.chunked_array([column_of_default(target, part.rows)])
        elif refused := _kind_refused(column, target, part.place, matching):
            return refused
        fitting, wrong = _fitting_column(column, target, matching, is_row_key=is_row_key)
        wrong = [*(each for each in part.bad if each.column in {target.name, WHOLE_LINE}), *wrong]
        if not target.nullable and matching.keep_back:
            wrong += _nulls_apart(fitting, target, {each.row for each in wrong}, is_row_key=is_row_key)
        bad += [replace(each, row=start + each.row) for each in wrong if each.column == target.name]
        chunks += fitting.chunks
        start += part.rows
    done = pa.chunked_array(chunks, target.type.arrow)
    if matching.keep_back or not (bad or (done.null_count and not target.nullable)):
        return done, bad
    place = _place_in(parts)
    if not bad:
        notes = ", ".join(part.notes[target.name] for part in parts if target.name in part.notes)
        found = nulls_refused(target.name, done.null_count, notes, is_row_key=is_row_key)
        return replace(found, place=place(pc.index(done.is_null(), True).as_py()))
    first = bad[0].described(place(bad[0].row))
    return replace(first, values=min(len(bad), _MOST_COUNTED), counted_all=len(bad) <= _MOST_COUNTED)


def _kind_refused(
    column: pa.ChunkedArray, target: Field, place: Callable[[int], str], matching: Matching
) -> Difference | None:
    """Return the difference of a column of which no value is cast to the field, with its first value."""
    kind = kind_of(column.type)
    if not _is_refused(kind, target, matching) or 0 < len(column) == column.null_count:
        return None
    row = pc.index(column.is_valid(), True).as_py() if len(column) else -1
    if row < 0:
        return inexact(InexactValueError(kind, target.type), target, "", matching)
    try:
        exactly(column.slice(row, 1).combine_chunks(), target.type)
    except InexactValueError as error:
        return replace(inexact(error, target, place(row), matching), values=len(column) - column.null_count)
    return None


def _fitting_column(
    column: pa.ChunkedArray, target: Field, matching: Matching, *, is_row_key: bool
) -> tuple[pa.ChunkedArray, list[BadValue]]:
    """Return a column cast to its field, NULL where a value does not fit, and these values."""
    cast = partial(cast_exactly, target=target.type, is_requested=matching.cast)
    chunks: list[pa.Array] = []
    bad: list[BadValue] = []
    start = 0
    for chunk in column.chunks:
        part, wrong = converted(chunk, cast, target, matching)
        bad += [replace(each, row=start + each.row) for each in wrong]
        chunks += part.chunks
        start += len(chunk)
    done = pa.chunked_array(chunks, target.type.arrow)
    outside = _outside_years(done, target) if is_row_key else None
    if outside is None or not pc.any(outside).as_py():
        return done, bad
    refused = partial(_year_refused, target)
    bad += [BadValue(row, target.name, refused) for row in pc.indices_nonzero(outside).to_pylist()]
    return pc.if_else(outside, pa.scalar(None, target.type.arrow), done), bad


def converted(
    values: Any,
    convert: Callable[[Any], pa.Array],
    target: Field,
    matching: Matching,
    hint_of: Callable[[InexactValueError], Hint] = lambda _: "",
) -> tuple[pa.ChunkedArray, tuple[BadValue, ...]]:
    """Return values as a column of a field, NULL where a value does not fit, and these values.

    Unless bad rows are kept back, these may be fewer than there are, and then the column is NULL.

    Parameters
    ----------
    convert
        Returns a slice of the values with the field's type, or raises `InexactValueError`.
    hint_of
        Returns what to do about a value that does not fit; "" where the general hint says it.
    """
    column, misfits = cast_apart(values, convert, target.type.arrow, None if matching.keep_back else _MOST_COUNTED)

    def described(place: str, error: InexactValueError) -> Difference:
        difference = replace(inexact(error, target, place, matching), values=1, example=error.shown)
        hint = hint_of(error)
        return replace(difference, hint=hint) if hint else difference

    bad = tuple(BadValue(row, target.name, partial(described, error=error)) for row, error in misfits)
    return pa.chunked_array([column], target.type.arrow), bad


def _nulls_apart(
    column: pa.ChunkedArray, target: Field, known: Container[int], *, is_row_key: bool
) -> Iterator[BadValue]:
    """Yield the nulls of a column that must have none, except in rows that are known to be bad."""
    refused = nulls_refused(target.name, 1, is_row_key=is_row_key)
    refused = replace(refused, problem=f"column {target.name!r} is NULL")
    nulls = pc.indices_nonzero(column.is_null()).to_pylist() if column.null_count else []
    yield from (BadValue.of(row, refused) for row in nulls if row not in known)


def compare_names(
    names: Sequence[str],
    schema: Schema,
    types: Mapping[str, pa.DataType] = MappingProxyType({}),
    matching: Matching = EXACT,
) -> list[Difference]:
    """Return which columns are duplicate, missing or unknown; for a misspelt one, suggest the nearest name."""
    times, known = Counter(names), frozenset(schema.names)
    twice = [name for name, count in times.items() if count > 1 and not is_nameless(name)]
    missing = [f.name for f in schema.fields if f.name not in times and not f.nullable and f.default is None]
    absent = [f.name for f in schema.fields if f.name not in times]
    unknown = [name for name in times if name not in known]
    differences = [
        Difference(name, f"column {name!r} occurs twice", "rename one of the columns", kind="occurs twice")
        for name in twice
    ]
    for name in missing:
        near = _nearest(name, unknown)
        change: Hint = f"add it; the data has {', '.join(names) or 'no columns'}"
        if near:
            change = _hint_to_rename(f"rename {near!r} to {name!r}", near, name, matching)
        differences.append(Difference(name, f"missing column {name!r}", change, kind=MISSING))
    for name in unknown:
        hint = _hint_for_unknown(name, types.get(name), _nearest(name, absent), schema, matching)
        problem = without_name(name) if is_nameless(name) else f"unknown column {name!r}"
        differences.append(Difference(name, problem, hint, kind="unknown column"))
    return differences


def _hint_for_unknown(
    name: str, kind: pa.DataType | None, near: str | None, schema: Schema, matching: Matching
) -> Hint:
    if is_nameless(name):
        listed = f"; the table has {', '.join(schema.names)}"
        return ("leave it out with ", IGNORE_EXTRA, ", or add ", naming(name, "NAME"), listed)
    clean = valid_name(name)
    if near is None and clean in schema.names and not matching.by_name:
        near = clean
    if near is None:
        return (*_hint_to_add(name, kind), f"; the table has {', '.join(schema.names)}")
    return _hint_to_rename(f"rename it to {near!r}", near, name, matching)


def without_name(name: str) -> str:
    return f"{name.partition(' without')[0] if name.strip() else 'a column'} of the data has no name"


def naming(name: str, column: str = "name") -> Action:
    return Action(f'--columns "{name}={column}"', f"columns={{{name!r}: {column!r}}}")


def giving_type(name: str, kind: str, *, cast: bool = False) -> Action:
    line, python = f"--types {shlex.quote(f'{name}={kind}')}", f"types={{{name!r}: {kind!r}}}"
    return Action(f"{line} --cast", f"{python}, cast=True") if cast else Action(line, python)


def _hint_to_rename(change: str, name: str, other: str, matching: Matching) -> Hint:
    """Return a hint, with the option that makes it needless where the names are similar enough."""
    is_similar = folded(name) == folded(other) or valid_name(name) == other
    return (change, OR_BY_NAME) if is_similar and not matching.by_name else change


def _hint_to_add(name: str, kind: pa.DataType | None) -> HintParts:
    if name in OF_KEPT_ROWS:
        return ("it is of rows that were kept back; leave it out", LEFT_OUT)
    try:
        Field(name, FieldType("string"))
    except InvalidInput:
        name_rule = ", or rename it: a name is a letter followed by letters, digits and _"
        return ("leave it out", LEFT_OUT, name_rule)
    try:
        of_type = f"{FieldType.from_arrow(kind)}?" if kind is not None else "string?"
    except InvalidInput:
        return ("leave it out", LEFT_OUT)
    added = OnTable(
        "alter",
        f'--add-column "{name} {of_type}"',
        f"table.alter({{{name!r}: {of_type!r}}})",
        defined=f"define the column {name} {of_type}",
    )
    return ("leave it out", LEFT_OUT, ", or add it: ", added, "" if kind is not None else ", or with its type")


def _nearest(name: str, candidates: Sequence[str]) -> str | None:
    same = next((each for each in candidates if folded(each) == folded(name)), None)  # also where --by-name matches it
    by_case = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1, cutoff=0.7)
    return same or (by_case[near[0]] if near else None)


def nulls_refused(name: str, nulls: int, note: str = "", *, is_row_key: bool = False) -> Difference:
    which = "row keys cannot be null" if is_row_key else "only fields declared with ? can be null"
    change = f"drop those rows or fill in the values; {which}"
    reason = f" ({note})" if note else ""
    return Difference(name, f"column {name!r} has {counted(nulls, 'null')}{reason}", change, kind=NULLS, values=nulls)


def _outside_years(column: pa.ChunkedArray, target: Field) -> pa.ChunkedArray | None:
    """Return which times of a row key Python does not have; None for a type that has no such times."""
    ends = first_and_last(target.type.name)
    if ends is None:
        return None
    first, last = (arrow_value(end, column.type) for end in ends)
    return pc.or_(pc.less(column, first), pc.greater(column, last))


def _year_refused(target: Field, place: str) -> Difference:
    where = f"column {target.name!r}, {place}" if place else f"column {target.name!r}"
    problem = f"{where}: the {target.type} is out of range"
    hint = (OUT_OF_YEARS, UNCHANGED)
    return Difference(target.name, problem, hint, kind=f"{target.type} is out of range", values=1, place=place)


def _is_refused(kind: str, target: Field, matching: Matching) -> bool:
    """Return whether no value of a source kind is cast to a field, as it is matched."""
    return fit(kind, target.type.name) == "refused" and not (matching.cast and can_be_requested(kind, target.type.name))


def inexact(error: InexactValueError, target: Field, place: str, matching: Matching = EXACT) -> Difference:
    """Return the difference of a value that a field cannot hold exactly; `place` names its row, "" for none."""
    kind = {"null": "", "other": _class_of(error.value)}.get(error.kind, f" ({error.kind})")
    container = "" if error.path or error.target == target.type else f" in {target.type}"
    verdict = f"cannot become {error.target}{container} without loss"
    row, name = place if error.index is not None else "", f"{target.name}{error.path}"
    where = f"column {name!r}, {row}" if row else f"column {name!r}"
    if error.misfit is not None:
        problem = f"{where}, {error.misfit.problem}" if row else f"{where} {error.misfit.problem}"
        return Difference(target.name, problem, (error.hint, UNCHANGED))
    if error.verdict or error.is_not_a_number:
        kind, verdict = "", error.verdict or "is not a number"
    elif error.is_not_a_moment:
        kind, verdict = "", f"is not a {error.target}"
    elif (error.kind, error.target.name) == ("string", "boolean") and not is_word(error.value, error.target):
        kind, verdict = "", "is not a boolean"
    if error.is_bad_text:
        kind, verdict = "", "is not UTF-8"
        problem = f"{where}: the text {error.shown} is not UTF-8"
    elif error.index is None:
        problem = f"{where}{kind} {verdict}"
    else:
        problem = f"{where}: {error.shown}{kind} {verdict}"
    hint: Hint = (error.hint, UNCHANGED)
    if matching.cast:
        pass  # the cast was requested already
    elif is_word(error.value, error.target):
        hint = ("to read it as a boolean, ", Cast("BOOLEAN"), UNCHANGED)
    elif error.has_leading_zeros:
        hint = (
            "use a column of type string to keep the zeros; to drop them, ",
            Cast("DOUBLE"),
            UNCHANGED,
        )
    elif error.is_refused and can_be_requested(error.kind, error.target.name):
        hint = ("to store it as text, ", Cast("STRING"), UNCHANGED)
    example = error.shown if error.index is not None else ""
    short = f"{kind.strip()} {verdict}".strip()
    return Difference(target.name, problem, hint, kind=short, example=example, place=row)
