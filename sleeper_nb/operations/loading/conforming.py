"""Whether data fits a table's schema: every difference with what to change, and columns cast without loss. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.report import counted

CSV_NULLS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
    "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""What stands for null in a CSV file, in every column but texts."""
_ZONED = r"[Tt ]\d\d.*([Zz]|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which data does not fit a table.

    Parameters
    ----------
    column
        The column of the data or of the table.
    problem
        What is wrong, naming the column.
    change
        What to change in the data.
    source
        The file; empty for rows in memory.
    """

    column: str
    problem: str
    change: str
    source: str = ""

    @property
    def error(self) -> InvalidInput:
        """The error that a run raises for it."""
        return InvalidInput(f"{self.problem}, in {self.source}" if self.source else self.problem, hint=self.change)


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
    """

    names: tuple[str, ...]
    columns: Mapping[str, pa.ChunkedArray]
    rows: int
    differences: tuple[Difference, ...] = ()

    @classmethod
    def of(cls, table: pa.Table) -> RawColumns:
        """Return the columns of an Arrow table."""
        names = tuple(table.column_names)
        return cls(names, dict(zip(names, table.columns, strict=True)), table.num_rows)


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
    """

    columns: Mapping[str, pa.ChunkedArray] = field(repr=False)
    rows: int
    differences: tuple[Difference, ...]

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
        error.hint = f"{error.hint}; {counted(more, 'more difference')}: a dry run shows all"
    raise error


def conform(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the table with the schema's columns, order and types; nothing is lost in a cast.

    Raises
    ------
    InvalidInput
        When a column is missing, unknown, of a type that cannot be cast without loss, or has nulls where it must not.
    """
    return compare(RawColumns.of(table), schema).table(schema)


def compare(raw: RawColumns, schema: Schema) -> Conformed:
    """Return data as far as it fits a schema, and every way in which it does not: names first, then values."""
    columns: dict[str, pa.ChunkedArray] = {}
    found = [*compare_names(raw.names, schema), *raw.differences]
    for each in schema.fields:
        if each.name in raw.columns:
            cast = compare_column(raw.columns[each.name], each)
            if isinstance(cast, Difference):
                found.append(cast)
            else:
                columns[each.name] = cast
    return Conformed(columns, raw.rows, tuple(found))


def compare_names(names: Sequence[str], schema: Schema) -> list[Difference]:
    """Return which columns are there twice, missing and unknown; a misspelt one is told with its nearest name."""
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    missing = [f.name for f in schema.fields if f.name not in names and not f.nullable]
    absent = [f.name for f in schema.fields if f.name not in names]
    unknown = [name for name in dict.fromkeys(names) if name not in schema.names]
    found = [
        Difference(name, f"column {name!r} is there twice", "give each column a name of its own") for name in twice
    ]
    for name in missing:
        near = _nearest(name, unknown)
        change = f"rename {near!r} to {name!r}" if near else f"add it; the data has {', '.join(names) or 'no column'}"
        found.append(Difference(name, f"missing column {name!r}", change))
    for name in unknown:
        near = _nearest(name, absent)
        change = (
            f"rename it to {near!r}"
            if near
            else f'leave it out, or add it: alter --add-column "{name} TYPE?"; the table has {", ".join(schema.names)}'
        )
        found.append(Difference(name, f"unknown column {name!r}", change))
    return found


def _nearest(name: str, candidates: Sequence[str]) -> str | None:
    folded = {candidate.casefold(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return folded[near[0]] if near else None


def nulls_refused(name: str, nulls: int) -> Difference:
    """Return the difference of a column that has nulls and must not."""
    change = "drop those rows or fill them in; only fields written with ? can be null"
    return Difference(name, f"column {name!r} has {counted(nulls, 'null')}", change)


def compare_column(column: pa.ChunkedArray, target: Field) -> pa.ChunkedArray | Difference:
    """Return a column cast to its field, or why it cannot be."""
    if column.null_count and not target.nullable:
        return nulls_refused(target.name, column.null_count)
    try:
        return _without_loss(column, target.type.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        problem = (
            f"column {target.name!r} is {column.type}, which cannot become {target.type} without loss"
            f": {first_line(error)}"
        )
        return Difference(target.name, problem, f"cast or round it to {target.type} first; nothing was ingested")


def _without_loss(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Cast, and raise Arrow's own error also where Arrow would lose something without a word."""
    if column.type == target:
        return column
    column = _decoded(column)
    source = column.type
    if pa.types.is_timestamp(source) and source.tz is None:
        column = pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC")  # a time without a zone is UTC
    numbers = pa.types.is_integer(source) or pa.types.is_floating(source)
    if numbers and (pa.types.is_timestamp(target) or pa.types.is_date(target)):
        raise pa.ArrowInvalid("a number does not say in which unit it counts time")
    cast = column.cast(target)
    cuts = (numbers and pa.types.is_boolean(target)) or (pa.types.is_timestamp(source) and pa.types.is_date(target))
    if cuts and cast.cast(column.type) != column:
        raise pa.ArrowInvalid("something would be cut off")
    if pa.types.is_floating(source) and pa.types.is_floating(target) and pc.is_inf(cast) != pc.is_inf(column):
        raise pa.ArrowInvalid("a number is too large")
    return cast


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts of Polars' categories, which are views: Arrow cannot look those up by number, nor cast them."""
    if not (pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type)):
        return column
    text = pa.large_string()
    return pa.chunked_array([chunk.dictionary.cast(text).take(chunk.indices) for chunk in column.chunks], text)


def moments_of(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the moments that texts of a file mean, in UTC where they name no zone; what CSV takes for null is null.

    Raises
    ------
    ArrowInvalid
        For a text that is no moment, or finer than a microsecond.
    """
    texts = pc.if_else(pc.is_in(texts, value_set=pa.array(CSV_NULLS)), pa.scalar(None, pa.string()), texts)
    zoned = pc.match_substring_regex(texts, _ZONED)
    none = pa.scalar(None, pa.string())
    with_zone = _parsed(pc.if_else(zoned, texts, none), "UTC")
    without = pc.assume_timezone(_parsed(pc.if_else(zoned, none, texts), None), "UTC")
    return pc.coalesce(with_zone, without)


def _parsed(texts: pa.ChunkedArray, zone: str | None) -> pa.ChunkedArray:
    target = pa.timestamp("us", zone)
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("ns", zone)).cast(target)  # nine digits of a second, the last three zero


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says; its class when it says nothing."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
