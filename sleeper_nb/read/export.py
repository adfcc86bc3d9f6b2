"""Export the rows of a scan to Parquet, CSV or TSV files: one file per leaf, or one file for all rows.

A CSV file holds exactly the values of the rows, and an ingest reads the same values from it. Texts, bytes, lists and
maps are always quoted, and NULL never is. Bytes are base64, lists are JSON, and maps are JSON lists of pairs; numbers
have all their digits, and timestamps are in UTC. A value that CSV cannot hold is refused.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.progress import Progress
from sleeper_nb.read.predicate import Condition, RowFilter
from sleeper_nb.read.read_rows import leaf_rows, opened_condition, selected_fields
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import PlannedLeaf, ScanPlan
from sleeper_nb.report import Bytes, Grid, TableReport, counted, values_of
from sleeper_nb.storage.filesystem import Storage, open_near, open_parent

logger = logging.getLogger(__name__)

Format = Literal["parquet", "csv", "tsv"]
EXPORT_FORMATS: tuple[Format, ...] = ("parquet", "csv", "tsv")
"""The formats that can be written; the first is the default."""
_ENDINGS = tuple(f".{each}" for each in EXPORT_FORMATS)
_OTHER_FORMAT = re.compile(r"\.(xlsx?|jsonl?|ndjson|txt|orc|avro|feather|arrow|ipc|gz|zip)$", re.IGNORECASE)
_WRITTEN_DAYS = (-12_687_428, 11_248_737)
"""The years -32767 to 32767: Arrow writes wrong text, or none, for other years."""
_DAYS_OF_JSON = (-719_162, 2_932_896)
"""The years 1 to 9999, which Python's dates can hold."""
_MICROSECONDS_PER_DAY = 86_400_000_000
_INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file that was written: its address, the keys of its rows as text, and its rows and bytes."""

    address: str
    region: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(TableReport):
    """What an export wrote.

    Parameters
    ----------
    source
        The table and its version, as text.
    files
        The files in key order; leaves without rows have none.
    """

    source: str
    files: tuple[ExportedFile, ...]

    @property
    def rows(self) -> int:
        """Number of rows in all files."""
        return sum(file.rows for file in self.files)

    def grid(self) -> Grid:
        """Return one row per file."""
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
    """Write the rows of a plan, leaf by leaf, in key order within each. After an error, no file is left.

    `InvalidInput` when the format is unknown or does not match the ending, or a value does not fit CSV. `AlreadyExists`
    when there are files at the destination.

    Parameters
    ----------
    destination
        A folder that is empty or does not exist, for one file per leaf; or a new file that ends in ``.parquet``,
        ``.csv`` or ``.tsv``, for all rows. Either can be an ``s3://`` address.
    file_format
        ``"parquet"``, ``"csv"`` or ``"tsv"``; None follows the destination's ending, and means Parquet for a folder.
    columns, where, limit
        As in `read`.
    """
    target, single = _target(destination, storage)
    suffix = _suffix(destination if single else None, file_format)
    if suffix == "parquet" and csv != DEFAULT_CSV:
        raise InvalidInput("Parquet has no delimiter, null text or header", hint="omit them, or export to .csv")
    csv_format = csv.for_file(f"x.{suffix}")
    fields = selected_fields(plan.schema.names if columns is None else columns, plan.schema)
    done: list[ExportedFile] = []
    try:
        with opened_condition(where) as row_filter:
            rows = _RowStream(plan, storage, fields, row_filter, limit)
            for name, region, batches in _parts(plan, rows, single, suffix, progress):
                written = _write(target, name, pa.schema(fields), batches, suffix, csv_format, even_empty=bool(single))
                if written is not None:
                    done.append(ExportedFile(target.locate(name), region, written, target.size(name)))
    except BaseException as error:
        logger.info("export of %s ended by %s; deleting %d files", source, type(error).__name__, len(done))
        for file in done:
            target.delete(file.address.removeprefix(f"{target.root}/"))
        raise
    return ExportReport(source, tuple(done))


class _RowStream:
    """Reads the rows of leaves, one leaf after the other, up to a limit in total."""

    def __init__(
        self, plan: ScanPlan, storage: Storage, fields: Sequence[pa.Field], where: RowFilter | None, limit: int | None
    ) -> None:
        self._process, self._storage = Processor.of(plan.processing, plan.schema), storage
        self._schema, self._where, self._rows_left = pa.schema(fields), where, limit

    def of(self, *leaves: PlannedLeaf) -> Iterator[pa.RecordBatch]:
        for leaf in leaves:
            for batch in leaf_rows(
                leaf.files,
                self._process,
                self._storage,
                where=self._where,
                columns=self._schema.names,
                limit=self._rows_left,
            ):
                self._rows_left = None if self._rows_left is None else self._rows_left - batch.num_rows
                yield batch.cast(self._schema)


def _parts(
    plan: ScanPlan, rows: _RowStream, single: str, suffix: str, progress: Progress
) -> Iterator[tuple[str, str, Iterator[pa.RecordBatch]]]:
    leaves = [leaf for leaf in plan.leaves if leaf.files]
    if single:
        progress.update("exporting")
        yield single, "all keys", rows.of(*leaves)
        return
    for i, leaf in enumerate(leaves):
        progress.update("exporting", i, len(leaves))
        region = leaf.partition.region.text(plan.schema)
        yield f"part-{i:05d}-{leaf.partition.id}.{suffix}", region, rows.of(leaf)


def _target(destination: str, home: Storage) -> tuple[Storage, str]:
    """Return the folder to write to, and the name of the single file in it; "" for one file per leaf."""
    text = destination.rstrip("/")
    name = text.rpartition("/")[2]
    if _OTHER_FORMAT.search(name):
        hint = f"end it in {' or '.join(_ENDINGS)}, or give a folder"
        raise InvalidInput(f"the format of {name!r} cannot be written", hint=hint)
    single = name if name.lower().endswith(_ENDINGS) else ""
    target = open_parent(text, home)[0] if single else open_near(text, home)
    existing = _existing_file(target, single)
    if existing:
        raise AlreadyExists(f"{existing} already exists", hint="export to a new file or an empty folder")
    return target, single


def _existing_file(target: Storage, name: str) -> str:
    """Return the address of the file, or of any file in the folder, that an export would meet; "" if there is none."""
    if not name:
        return next((target.locate(file.path) for file in target.list()), "")
    try:
        target.size(name)
    except NotFound:
        return ""
    return target.locate(name)


def _suffix(single: str | None, file_format: str | None) -> str:
    ending = None if single is None else single.rpartition(".")[2].lower()
    if file_format is not None and file_format not in EXPORT_FORMATS:
        raise InvalidInput(f"no format {file_format!r}", hint=f"the formats are {', '.join(EXPORT_FORMATS)}")
    if ending and file_format and ending != file_format:
        raise InvalidInput(f"a file that ends in .{ending} is not {file_format}", hint="omit the format")
    return ending or file_format or EXPORT_FORMATS[0]


def _write(
    target: Storage,
    name: str,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    suffix: str,
    csv_format: CsvFormat,
    *,
    even_empty: bool,
) -> int | None:
    """Write one file and return its row count; without rows, write no file and return None unless `even_empty`."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None and not even_empty:
        return None
    rows = 0
    with target.output(name) as stream:
        writer: pq.ParquetWriter | CsvWriter
        if suffix == "parquet":
            writer = pq.ParquetWriter(stream, schema, compression="zstd")
        else:
            writer = CsvWriter(stream, schema, csv_format)
        with closing(writer):
            for batch in chain([] if first is None else [first], batches):
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows


class CsvWriter:
    """Writes batches of rows as CSV, after a header if the format has one."""

    def __init__(self, stream: Any, schema: pa.Schema, csv_format: CsvFormat) -> None:
        self._stream, self._format = stream, csv_format
        if csv_format.header:
            names = (_quoted(pa.array([name]))[0].as_py() for name in schema.names)
            stream.write(f"{csv_format.separator.join(names)}\n".encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch.

        `InvalidInput`: for a value that would be read back as NULL; for a date or timestamp outside the years -32767 to
        32767, or outside 1 to 9999 in a list or map.
        """
        if not batch.num_rows:
            return
        columns = [
            pc.fill_null(_text_of(column, name, self._format), self._format.null)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        separator = pa.scalar(self._format.separator, pa.large_string())
        lines = pc.binary_join_element_wise(*(c.cast(pa.large_string()) for c in columns), separator)
        self._stream.write("\n".join(lines.to_pylist()).encode() + b"\n")

    def close(self) -> None:
        """Do nothing: the stream is closed by its owner."""


def _text_of(column: pa.Array, name: str, csv_format: CsvFormat) -> pa.Array:
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
    null_text = csv_format.null
    if pc.index(texts, null_text).as_py() >= 0:
        hint = "give another null text"
        raise InvalidInput(f"column {name!r} has the value {null_text}, which is also the text for NULL", hint=hint)
    if pa.types.is_nested(kind):
        return _quoted(texts)
    return pc.if_else(pc.match_substring(texts, csv_format.separator), _quoted(texts), texts)


def _quoted(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    doubled = pc.replace_substring(texts.cast(pa.string()), '"', '""')
    return pc.binary_join_element_wise(quote, doubled, quote, "")


def _check_years(column: pa.Array, name: str, days: tuple[int, int]) -> None:
    low, high = days
    if pa.types.is_date(column.type):
        numbers = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        numbers = column.cast(pa.int64())
        low, high = low * _MICROSECONDS_PER_DAY, (high + 1) * _MICROSECONDS_PER_DAY - 1
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
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            _check_years_within(part, name)
    elif pa.types.is_nested(kind):
        _check_years_within(column.flatten(), name)
    else:
        _check_years(column, name, _DAYS_OF_JSON)


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: as text, if JSON has no type for it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time | Decimal) or (isinstance(value, float) and not -_INFINITY < value < _INFINITY):
        return str(value)
    return value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
