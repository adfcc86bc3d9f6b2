"""Statistics of value columns in data files: least and greatest value, and the number of nulls. Pure.

A reference to a file records them for the columns that a table's property chooses. They are exact for the whole file,
so that they prune files that a condition excludes, and answer ``min``, ``max`` and ``count`` without reading rows.
Dates are held as days and timestamps as microseconds since 1970: Python's own types do not reach as far as columns do.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.schema import Field, FieldType, Schema

MIN, MAX, NULLS = PREFIXES = ("min_", "max_", "nulls_")
"""The prefixes of the columns of file references that hold the statistics of a column."""

AUTO, NONE = "auto", "none"
_ALWAYS: Final = frozenset({"date", "timestamp"})
_WHOLE: Final = ("tinyint", "smallint", "int", "long")
"""Whole numbers, each type wider than the one before it."""
_NUMBERS: Final = frozenset({*_WHOLE, "date", "timestamp"})
_TEXTS: Final = frozenset({"string", "bytearray"})
_LONGEST: Final = 256
"""Bytes; a file whose least or greatest text is longer has no statistics of the column: metadata must stay small."""
_COUNT: Final = pa.int32()
_MOST_NULLS: Final = 2**31 - 1
"""A file with more has no statistics of the column: a million files are held in memory."""

StatisticsValue = int | str | bytes


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What one data file has in one column."""

    column: str
    # its type there: ``tinyint``, ``smallint``, ``int``, ``long``, ``date``, ``timestamp``, ``string`` or
    # ``bytearray``
    type: str
    # least, greatest: of the values that are not null; None when all are null. Days or microseconds of a date or a
    # timestamp.
    least: StatisticsValue | None
    greatest: StatisticsValue | None
    nulls: int  # the number of nulls


@dataclass(frozen=True, slots=True)
class StatisticsColumns:
    """Which columns of a table have statistics: some by name, or those that are useful by default."""

    # the columns; None for the dates, timestamps and sort keys among the columns that are not row keys
    names: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> StatisticsColumns:
        """Return the columns that a property names: ``auto``, ``none``, or names separated by commas."""
        word = text.strip()
        if word in {AUTO, NONE}:
            return cls(() if word == NONE else None)
        names = tuple(name.strip() for name in text.split(","))
        if not all(names) or len({*names}) < len(names):
            raise ValueError("it must be auto, none, or column names separated by commas, each once")
        return cls(names)

    def fields(self, schema: Schema) -> tuple[Field, ...]:
        """Return the fields of a schema that have statistics; names that it lacks are for other tables."""
        if self.names is None:
            sort_keys = {field.name for field in schema.sort_keys}
            wanted = (f for f in schema.fields if f.name in sort_keys or f.type.name in _ALWAYS)
        else:
            wanted = (field for field in schema.fields if field.name in self.names)
        return tuple(field for field in wanted if field not in schema.row_keys and can_have_statistics(field.type))

    def check(self, schema: Schema) -> None:
        fields = {field.name: field for field in schema.fields}
        for name in self.names or ():
            if name not in fields:
                raise NotFound.of("column", name, fields)
            if name in {key.name for key in schema.row_keys}:
                raise InvalidInput(
                    f"column {name!r} is a row key, whose least and greatest values are always kept",
                    hint="leave it out of the list",
                )
            if not can_have_statistics(fields[name].type):
                kinds = ", ".join(sorted(_NUMBERS | _TEXTS))
                raise InvalidInput(
                    f"column {name!r} is {fields[name].type}, which has no statistics",
                    hint=f"choose columns of these types: {kinds}",
                )

    def uses(self, name: str) -> bool:
        return name in (self.names or ())


AUTO_COLUMNS: Final = StatisticsColumns()


def can_have_statistics(kind: FieldType) -> bool:
    return kind.name in _NUMBERS | _TEXTS


class StatisticsOfRows:
    """Collects the statistics of fields from batches of rows, which have them under their names in files."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._seen = {field.column: ColumnStatistics(field.column, field.type.name, None, None, 0) for field in fields}

    def see(self, rows: pa.Table) -> None:
        for name, before in self._seen.items():
            self._seen[name] = _merged(before, rows[name])

    def found(self) -> tuple[ColumnStatistics, ...]:
        """Return the statistics of all rows so far; a column with very long texts has none."""
        return tuple(each for each in self._seen.values() if _can_be_kept(each))


def _merged(before: ColumnStatistics, column: pa.ChunkedArray) -> ColumnStatistics:
    ends = pc.min_max(plain_column(column))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    least = min((v for v in (before.least, low) if v is not None), default=None)
    greatest = max((v for v in (before.greatest, high) if v is not None), default=None)
    return ColumnStatistics(before.column, before.type, least, greatest, before.nulls + column.null_count)


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _can_be_kept(each: ColumnStatistics) -> bool:
    return each.nulls <= _MOST_NULLS and not _is_long(each.least) and not _is_long(each.greatest)


def _is_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value.encode()) > _LONGEST
    return isinstance(value, bytes) and len(value) > _LONGEST


# As columns of file references.


def reference_fields(columns: Iterable[tuple[str, str]]) -> list[pa.Field]:
    """Return the columns of file references for the statistics of some columns, each a name in files and a type."""
    fields = []
    for column, kind in columns:
        arrow = FieldType(kind).arrow
        fields += [pa.field(f"{MIN}{column}", arrow), pa.field(f"{MAX}{column}", arrow)]
        fields.append(pa.field(f"{NULLS}{column}", _COUNT))
    return fields


def columns_in(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns whose statistics file references have, by their names in files."""
    columns = {}
    for nulls in schema.names:
        if nulls.startswith(NULLS):
            name = nulls.removeprefix(NULLS)
            columns[name] = schema.field(f"{MIN}{name}").type
    return columns


def reference_names(schema: pa.Schema) -> frozenset[str]:
    return frozenset(f"{prefix}{column}" for column in columns_in(schema) for prefix in PREFIXES)


def is_text(kind: pa.DataType) -> bool:
    return kind in {FieldType(name).arrow for name in _TEXTS}


def reference_columns(
    statistics: Sequence[Sequence[ColumnStatistics]], columns: Iterable[tuple[str, str]]
) -> dict[str, pa.Array]:
    """Return the columns of file references, by name, from the statistics of each reference's file.

    Statistics of a column that has another type here are left out, unless that of here is wider: the file counts as
    one without.
    """
    arrays: dict[str, pa.Array] = {}
    by_column = [{each.column: each for each in of_file} for of_file in statistics]
    for column, kind in columns:
        found = [each if each and holds(kind, each.type) else None for each in (f.get(column) for f in by_column)]
        arrow = FieldType(kind).arrow
        plain = {"date": pa.int32(), "timestamp": pa.int64()}.get(kind, arrow)
        arrays[f"{MIN}{column}"] = pa.array([each and each.least for each in found], plain).cast(arrow)
        arrays[f"{MAX}{column}"] = pa.array([each and each.greatest for each in found], plain).cast(arrow)
        arrays[f"{NULLS}{column}"] = pa.array([each and each.nulls for each in found], _COUNT)
    return arrays


def holds(kind: str, other: str) -> bool:
    """Return whether a column of a type can have the values of another."""
    return kind == other or (kind in _WHOLE and other in _WHOLE[: _WHOLE.index(kind)])


def widest_kinds(statistics: Iterable[Sequence[ColumnStatistics]]) -> list[tuple[str, str]]:
    """Return the columns of which some files have statistics, each with the widest type that it has in any."""
    kinds: dict[str, str] = {}
    for each in (each for of_file in statistics for each in of_file):
        if each.column not in kinds or holds(each.type, kinds[each.column]):
            kinds[each.column] = each.type
    return sorted(kinds.items())


_NAMES: Final = {FieldType(name).arrow: name for name in (*_NUMBERS, *_TEXTS)}


def kinds_in(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(name, _NAMES[arrow]) for name, arrow in columns_in(schema).items()]


def of_references(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[ColumnStatistics, ...]]:
    """Yield the statistics of each reference's file, as far as they are known."""
    kinds = kinds_in(rows.schema)
    if not kinds:
        yield from ((),) * rows.num_rows
        return
    parts = [zip(*(_values(rows[f"{prefix}{column}"]) for prefix in PREFIXES), strict=True) for column, _ in kinds]
    for of_file in zip(*parts, strict=True):
        yield tuple(
            ColumnStatistics(column, kind, least, greatest, nulls)
            for (column, kind), (least, greatest, nulls) in zip(kinds, of_file, strict=True)
            if nulls is not None
        )


def _values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    values: list[Any] = plain_column(column).to_pylist()
    return values


# As one text, where there is no Arrow.


def to_text(statistics: Iterable[ColumnStatistics]) -> str:
    cells = [[each.column, each.type, _cell(each.least), _cell(each.greatest), each.nulls] for each in statistics]
    return json.dumps(cells, separators=(",", ":"))


def from_text(text: str) -> tuple[ColumnStatistics, ...]:
    return tuple(
        ColumnStatistics(column, kind, _value(least), _value(greatest), nulls)
        for column, kind, least, greatest, nulls in json.loads(text)
    )


def _cell(value: StatisticsValue | None) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _value(cell: Any) -> StatisticsValue | None:
    return base64.b64decode(cell["base64"]) if isinstance(cell, dict) else cell


# In conditions.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def plain_value(value: Any, kind: pa.DataType) -> StatisticsValue | None:
    """Return a value of a condition as the statistics of a column hold it; None for a value of another type."""
    if pa.types.is_date32(kind):
        is_date = isinstance(value, date) and not isinstance(value, datetime)
        return (value - _EPOCH.date()).days if is_date else None
    if pa.types.is_timestamp(kind):
        has_zone = isinstance(value, datetime) and value.tzinfo is not None
        return (value - _EPOCH) // timedelta(microseconds=1) if has_zone else None
    if pa.types.is_integer(kind):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return value if is_number and abs(value) < 2 ** (kind.bit_width - 1) else None
    wanted = str if pa.types.is_string(kind) else bytes
    return value if isinstance(value, wanted) else None
