"""Export: the rows of a scan as plain files that any tool reads, one for each leaf, or one for all."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.operations.loading.source_files import DEFAULT_CSV, CsvFormat
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.read_rows import leaf_rows, opened_condition, selected_fields
from sleeper_nb.operations.scanning.row_condition import Condition, RowTest
from sleeper_nb.operations.scanning.scan_plan import PlannedLeaf, ScanPlan
from sleeper_nb.progress import Progress
from sleeper_nb.report import Bytes, Grid, Report, counted, values_of
from sleeper_nb.storage.filesystem import Storage, open_near

# Rows as the text of a CSV file that an ingest reads as exactly the same values, or a refusal.
#
# Texts, bytes, lists and maps are always in quotes, and NULL never is. Bytes are base64; lists are JSON, and maps are
# lists of pairs; numbers have every digit, moments are in UTC.

_WRITTEN_DAYS = (-12_687_428, 11_248_737)
"""The years -32767 to 32767: of others Arrow writes none, or a wrong one."""
_DAYS_OF_JSON = (-719_162, 2_932_896)
"""The years 1 to 9999, which dates of Python have."""
_MICROSECONDS = 86_400_000_000


class CsvWriter:
    """Writes batches of rows as CSV, with one header."""

    def __init__(self, stream: Any, schema: pa.Schema, form: CsvFormat) -> None:
        self._stream, self._form = stream, form
        if form.header:
            names = (_quoted(pa.array([name]))[0].as_py() for name in schema.names)
            stream.write(f"{form.separator.join(names)}\n".encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows.

        Raises
        ------
        InvalidInput
            For a value that would be read as NULL; for a date or moment outside the years -32767 to 32767, or 1 to
            9999 within a list or map.
        """
        if not batch.num_rows:
            return
        columns = [
            pc.fill_null(_text_of(column, name, self._form), self._form.null)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        separator = pa.scalar(self._form.separator, pa.large_string())
        lines = pc.binary_join_element_wise(*(c.cast(pa.large_string()) for c in columns), separator)
        self._stream.write("\n".join(lines.to_pylist()).encode() + b"\n")

    def close(self) -> None:
        """Do nothing: the stream is closed by its owner."""


def _text_of(column: pa.Array, name: str, form: CsvFormat) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return _quoted(column)
    if pa.types.is_binary(kind):
        return _quoted(
            pa.array([None if value is None else _base64(value) for value in column.to_pylist()], pa.string())
        )
    if pa.types.is_nested(kind):
        _check_years_within(column, name)
        texts = pa.array([None if value is None else _json(value) for value in values_of(column)], pa.string())
    else:
        _check_years(column, name, _WRITTEN_DAYS)
        texts = column.cast(pa.string())
    if pc.index(texts, form.null).as_py() >= 0:
        hint = "give another null text"
        raise InvalidInput(f"column {name!r} has the value {form.null}, which is also the text for NULL", hint=hint)
    if pa.types.is_nested(kind):
        return _quoted(texts)
    return pc.if_else(pc.match_substring(texts, form.separator), _quoted(texts), texts)


def _quoted(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    doubled = pc.replace_substring(texts.cast(pa.string()), '"', '""')
    return pc.binary_join_element_wise(quote, doubled, quote, "")


def _check_years(column: pa.Array, name: str, days: tuple[int, int]) -> None:
    """Raise for a date or moment that is outside of some days since 1970."""
    low, high = days
    if pa.types.is_date(column.type):
        numbers = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        low, high, numbers = low * _MICROSECONDS, (high + 1) * _MICROSECONDS - 1, column.cast(pa.int64())
    else:
        return
    outside = pc.index(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), True).as_py()
    if outside >= 0:
        value = values_of(column.slice(outside, 1))[0]
        raise InvalidInput(f"column {name!r} has {value}, a date that CSV cannot hold", hint="export to .parquet")


def _check_years_within(column: pa.Array, name: str) -> None:
    kind = column.type
    if pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))).flatten()
        for part in pairs.flatten():
            _check_years_within(part, name)
    elif pa.types.is_nested(kind):
        _check_years_within(column.flatten(), name)
    else:
        _check_years(column, name, _DAYS_OF_JSON)


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has no value for is a text."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | Decimal) or (isinstance(value, float) and not -_HUGE < value < _HUGE):
        return str(value)
    return value


_HUGE = float("inf")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


Format = Literal["parquet", "csv", "tsv"]
FORMATS: tuple[Format, ...] = ("parquet", "csv", "tsv")
_OTHER_FORMAT = re.compile(r"\.(xlsx?|jsonl?|ndjson|txt|orc|avro|feather|arrow|ipc|gz|zip)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file that was written: where, which keys it has, its rows and bytes."""

    address: str
    region: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(Report):
    """What an export wrote.

    Parameters
    ----------
    source
        The table and its version.
    files
        In the order of their keys; a leaf without rows has none.
    """

    source: str
    files: tuple[ExportedFile, ...]

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for file in self.files)

    def grid(self) -> Grid:
        """Return one row a file."""
        rows = tuple((file.address, file.region, file.rows, Bytes(file.bytes)) for file in self.files)
        title = f"{self.source}: exported {counted(self.rows, 'row')} to {counted(len(self.files), 'file')}"
        return Grid(("file", "keys", "rows", "bytes"), rows, title)


def export(
    plan: ScanPlan,
    storage: Storage,
    source: str,
    destination: str,
    *,
    file_format: str | None = None,
    csv: CsvFormat = DEFAULT_CSV,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    limit: int | None = None,
    progress: Progress,
) -> ExportReport:
    """Write the rows of a plan, leaf by leaf, in key order within each. When anything fails, no file is left.

    Parameters
    ----------
    source
        What the report calls the rows.
    destination
        A folder that is empty or does not exist, for a file a leaf; or a new file that ends in ``.parquet``, ``.csv``
        or ``.tsv``, for all rows in one. Either can be at ``s3://``.
    file_format
        ``"parquet"``, ``"csv"`` or ``"tsv"``; None goes by the destination's ending, and is Parquet for a folder.
    csv
        How CSV is written. It has byte arrays in base64, and lists and maps as JSON; an ingest reads the same values.

    Raises
    ------
    InvalidInput
        When there is no such format, or it is not that of the ending; for a date that CSV cannot have.
    AlreadyExists
        When there are files at the destination.
    """
    target, single = _target(destination, storage)
    suffix = _suffix(destination if single else None, file_format)
    if suffix == "parquet" and csv != DEFAULT_CSV:
        raise InvalidInput("Parquet has no delimiter, null text or header", hint="leave those out, or export to .csv")
    form = csv.for_file(f"x.{suffix}")
    fields = selected_fields(plan.schema.names if columns is None else columns, plan.schema)
    done: list[ExportedFile] = []
    try:
        with opened_condition(where) as test:
            rows = _RowStream(plan, storage, fields, test, limit)
            for name, region, batches in _parts(plan, rows, single, suffix, progress):
                written = _write(target, name, pa.schema(fields), batches, suffix, form, even_empty=bool(single))
                if written is not None:
                    done.append(ExportedFile(target.locate(name), region, written, target.size(name)))
    except BaseException:
        for file in done:
            target.delete(file.address.removeprefix(f"{target.root}/"))
        raise
    return ExportReport(source, tuple(done))


class _RowStream:
    """Reads the rows of leaves, one leaf after the other, until there are as many as are wanted."""

    def __init__(
        self, plan: ScanPlan, storage: Storage, fields: Sequence[pa.Field], where: RowTest | None, limit: int | None
    ) -> None:
        self._process, self._storage = Processor.of(plan.processing, plan.schema), storage
        self._schema, self._where, self._left = pa.schema(fields), where, limit

    def of(self, *leaves: PlannedLeaf) -> Iterator[pa.RecordBatch]:
        for leaf in leaves:
            for batch in leaf_rows(
                leaf.files,
                self._process,
                self._storage,
                where=self._where,
                columns=self._schema.names,
                limit=self._left,
            ):
                self._left = None if self._left is None else self._left - batch.num_rows
                yield batch.cast(self._schema)


def _parts(
    plan: ScanPlan, rows: _RowStream, single: str, suffix: str, progress: Progress
) -> Iterator[tuple[str, str, Iterator[pa.RecordBatch]]]:
    """Yield for each file its name, its keys in words, and its rows."""
    leaves = [leaf for leaf in plan.leaves if leaf.files]
    if single:
        progress.update("exporting")
        yield single, "all of them", rows.of(*leaves)
        return
    for i, leaf in enumerate(leaves):
        progress.update("exporting", i, len(leaves))
        region = leaf.partition.region.text(plan.schema)
        yield f"part-{i:05d}-{leaf.partition.id}.{suffix}", region, rows.of(leaf)


def _target(destination: str, home: Storage) -> tuple[Storage, str]:
    """Return the folder to write to, and the name of the one file in it; "" for a file a leaf."""
    text = destination.rstrip("/")
    folder, _, name = text.rpartition("/")
    if _OTHER_FORMAT.search(name):
        hint = f"end it in {' or '.join(f'.{each}' for each in FORMATS)}, or give a folder"
        raise InvalidInput(f"cannot write the format of {name!r}", hint=hint)
    single = name if name.lower().endswith(tuple(f".{each}" for each in FORMATS)) else ""
    above = folder or ("/" if text.startswith("/") else ".")
    target = open_near(above if single else text, home)
    there = _first_file(target, single)
    if there:
        raise AlreadyExists(f"there is {there} already", hint="export to a new file, or to an empty folder")
    return target, single


def _first_file(target: Storage, name: str) -> str:
    """Return the address of what an export would write over or beside; "" when there is nothing."""
    if not name:
        return next((target.locate(file.path) for file in target.list()), "")
    try:
        target.size(name)
    except NotFound:
        return ""
    return target.locate(name)


def _suffix(single: str | None, file_format: str | None) -> str:
    ending = None if single is None else single.rpartition(".")[2].lower()
    if file_format is not None and file_format not in FORMATS:
        raise InvalidInput(f"no format {file_format!r}", hint=f"the formats are {', '.join(FORMATS)}")
    if ending and file_format and ending != file_format:
        raise InvalidInput(f"a file that ends in .{ending} is not {file_format}", hint="leave the format out")
    return ending or file_format or FORMATS[0]


def _write(
    target: Storage,
    name: str,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    suffix: str,
    form: CsvFormat,
    *,
    even_empty: bool,
) -> int | None:
    """Write one file and return its rows; None, and no file, when there are none."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None and not even_empty:
        return None
    rows = 0
    with target.output(name) as stream:
        parquet = suffix == "parquet"
        writer = pq.ParquetWriter(stream, schema, compression="zstd") if parquet else CsvWriter(stream, schema, form)
        with closing(writer):
            for batch in chain([] if first is None else [first], batches):
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows
