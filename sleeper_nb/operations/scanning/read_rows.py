"""Small batches of a stream joined to larger ones, for work that costs more to begin than to do."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from sleeper_nb.errors import (
    InvalidInput,
    NetworkError,
    NotFound,
    SleeperError,
    StorageError,
)
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Schema, quoted_name
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.footers import row_groups
from sleeper_nb.operations.scanning.row_condition import Condition, RowTest
from sleeper_nb.operations.scanning.scan_plan import PlannedFile, ScanPlan
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import HINT, check_once

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext


# A merge of many bytes is cut into stretches of keys, one behind the other, so that its memory has a bound.
#
# DataFusion keeps what it has read of a Parquet file until it closes it (its Parquet reader's issue 9695), so a merge
# would hold its whole input in the end. Each stretch opens the files anew, and reads only the pages that hold its keys.

MOST_BYTES = 32 * 2**20
"""Of the inputs of one stretch, about. Longer ones are a tenth quicker, and their memory grows with the input."""


def stretches(
    files: Sequence[PlannedFile], schema: Schema, storage: Storage, most_bytes: int = MOST_BYTES
) -> Iterator[tuple[PlannedFile, ...]]:
    """Yield the files of each stretch, in the order of the keys, each file restricted to the stretch.

    Stretches are cut at values of the first row key where row groups begin, which their statistics tell; so rows of one
    such value are in one stretch, however many they are. What is small enough is one stretch, and no file is opened.
    """
    if sum(file.bytes for file in files) <= most_bytes:
        yield tuple(files)
        return
    groups = [group for file in files for group in _first_keys(file, schema, storage)]
    ends: list[KeyValue | None] = [None, *_cuts(groups, most_bytes), None]
    for low, high in pairwise(ends):
        here = Region.whole(schema).narrowed(0, Range(low, high))
        inside = [(file, part) for file in files if (part := (file.region or here).intersect(here)) is not None]
        yield tuple(file._replace(region=part) for file, part in inside)


def _first_keys(file: PlannedFile, schema: Schema, storage: Storage) -> Iterator[tuple[KeyValue, float]]:
    """Yield the least first row key of each row group, and about how many bytes of the file it has."""
    wanted = Range() if file.region is None else file.region.ranges[0]
    for group in row_groups(file.filename, schema, storage):
        ends = group.ends[0]
        if ends is not None and ends[0] in wanted:
            yield ends[0], sum(group.column_bytes.values())


def _cuts(groups: list[tuple[KeyValue, float]], most_bytes: int) -> Iterator[KeyValue]:
    """Yield keys between which there are about so many bytes."""
    size, last = 0.0, None
    for key, more in sorted(groups):
        if size >= most_bytes and key != last:
            yield key
            size = 0.0
        size, last = size + more, key


# Rows of planned files, leaf by leaf, merged as a stream in key order: the kernel of scans and of compaction.
#
# Each file is sorted, so DataFusion is told so and merges the files of a leaf without sorting (one ordered stream per
# file, no repartitioning): it holds a few batches per file, not the rows.

CHECKED_FILES, CHECKED_BYTES = 64, 4 << 20
"""Of a read of some columns or rows, the most files and bytes whose checksums are looked at."""
_FOOTER_BYTES = 65_536
"""More than the footer of a data file takes that has a few dozen row groups and columns."""


def read(
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Return the rows of a plan as its processing gives them: leaf by leaf, in key order within each.

    Parameters
    ----------
    plan
        The files to open, and what is done with their rows.
    storage
        The table's folder.
    columns
        The columns to return, in this order; all when None.
    where
        A condition on any columns.
    limit
        At most so many rows.

    Raises
    ------
    NotFound
        When a column or the table's iterator is unknown, or a planned file is gone.
    InvalidInput
        When a column is named twice, the limit is negative, the condition cannot be computed, or rows cannot be
        processed.
    StorageError
        When a file cannot be read.
    """
    schema = pa.schema(asked_fields(plan.schema.names if columns is None else columns, plan.schema))
    return pa.Table.from_batches(stream(plan, storage, columns=columns, where=where, limit=limit), schema)


def stream(
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that `read` returns, with their types in the table's schema; it holds a few batches."""
    if limit is not None and limit < 0:
        raise InvalidInput(f"the limit {limit} is negative", hint="the limit is 0 or more")
    schema = pa.schema(asked_fields(plan.schema.names if columns is None else columns, plan.schema))
    process, left = Processor.of(plan.processing, plan.schema), limit
    with opened(where) as test:
        for leaf in plan.leaves:
            for batch in leaf_rows(leaf.files, process, storage, where=test, columns=schema.names, limit=left):
                yield batch.cast(schema)
                left = None if left is None else left - batch.num_rows
            if left == 0:
                break


@contextlib.contextmanager
def opened(where: Condition | None) -> Iterator[RowTest | None]:
    """Open the condition of a read, if there is one."""
    if where is None:
        yield None
    else:
        with where.opened() as test:
            yield test


def asked_fields(columns: Sequence[str], schema: Schema) -> list[pa.Field]:
    """Return the fields of columns that a user asks for; `NotFound` or `InvalidInput` for what cannot be."""
    known = dict(zip(schema.names, schema.arrow, strict=True))
    fields: dict[str, pa.Field] = {}
    for name in columns:
        if name not in known:
            raise NotFound.of("column", name, schema.names)
        if name in fields:
            raise InvalidInput(f"column {name!r} is asked for twice", hint="name each column once")
        fields[name] = known[name]
    return list(fields.values())


def leaf_rows(
    files: Sequence[PlannedFile],
    process: Processor,
    storage: Storage,
    *,
    where: RowTest | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one leaf as queries give them, in key order.

    Condition, columns and limit count for processed rows. The whole condition is evaluated here, after processing: what
    a plan left out before is all that was left out.
    """
    processing, schema = process.processing, process.schema
    if processing.is_nothing and where is None:
        yield from merged(files, schema, storage, columns=columns, limit=limit)
        return
    asked = list(schema.names if columns is None else columns)
    needed = {*asked, *(() if where is None else where.columns)}
    rows: Iterator[pa.RecordBatch] = merged(files, schema, storage, columns=processing.columns(schema, needed))
    rows = rows if processing.is_nothing else process(rows)
    left = limit
    for batch in rows if where is None else where.met(rows):
        given = batch.select(asked).slice(0, left)
        yield given
        left = None if left is None else left - given.num_rows
        if left == 0:
            return


def merged(
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield the rows of some files merged in key order, each file restricted to its planned region.

    Parameters
    ----------
    files
        The files, each sorted. However large they are, the merge holds a bounded part of each (see `stretches`).
    schema, storage
        Those of the table.
    columns, limit
        As `read` takes them.

    Raises
    ------
    NotFound, StorageError
        As `read` does.
    """
    if not files:
        return
    from datafusion import SessionConfig, SessionContext

    # One partition: the merge is the work, and each leaf has a task of its own already.
    settings = SessionConfig().with_target_partitions(1).set("datafusion.optimizer.prefer_existing_sort", "true")
    settings = settings.set("datafusion.execution.parquet.pushdown_filters", "true")
    # Of a folder's files a footer's worth is read first; a server is asked once, for the half MiB that is the default.
    hint = _FOOTER_BYTES if storage.local else 8 * _FOOTER_BYTES
    settings = settings.set("datafusion.execution.parquet.metadata_size_hint", str(hint))
    # Without files' statistics: DataFusion takes a column of equal least and greatest value for a constant, NaN or not.
    context = SessionContext(settings.set("datafusion.execution.collect_statistics", "false"))
    _open_buckets(context, storage)
    is_whole = limit is None and len(columns or schema.names) == len(schema.names)
    check_files(files, storage, is_whole=is_whole)
    with _explained(files, storage):
        parts = list(stretches(files, schema, storage))
    left = limit
    with _explained(files, storage):
        for stretch in parts:
            rows = _rows(context, stretch, schema, storage, columns)
            # The filter of a region is pushed into the reader, which would take the first row groups that meet it
            # wholly, whatever comes before them (DataFusion's issue 24272); so the limit is set only without one.
            if left is not None and all(file.region is None for file in stretch):
                rows = rows.limit(left)
            for each in rows.execute_stream():
                batch = each.to_pyarrow().slice(0, left)
                left = None if left is None else left - batch.num_rows
                yield batch
                if left == 0:
                    return


def _rows(
    context: SessionContext,
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    columns: Sequence[str] | None,
) -> DataFrame:
    rows = _union([_frame(context, file, schema, storage) for file in files])
    rows = rows.sort(*[_column(name).sort(ascending=True) for name in schema.sort_order])
    return rows if columns is None else rows.select(*[_column(name) for name in columns])


def check_files(files: Sequence[PlannedFile], storage: Storage, *, is_whole: bool = False) -> None:
    """Raise for a file that is gone or has another size than planned: engines take some of them for ones without rows.

    Its content is checked too, as `check_contents` says.

    Raises
    ------
    NotFound, StorageError
        Naming the first such file.
    """
    names = list(dict.fromkeys(file.filename for file in files))
    if storage.local:
        sizes = {name: storage.size(name) for name in names}
    else:
        with ThreadPoolExecutor(storage.at_once) as pool:  # one after the other, a server's answers would be slow
            sizes = dict(zip(names, pool.map(storage.size, names), strict=True))
    for file in files:
        if sizes[file.filename] != file.bytes:
            raise StorageError(
                f"data file {storage.locate(file.filename)} has {sizes[file.filename]:,} bytes, not {file.bytes:,}",
                hint="was it changed by hand? restore it from a copy",
            )
    check_contents(files, storage, is_whole=is_whole)


def check_contents(files: Sequence[PlannedFile], storage: Storage, *, is_whole: bool) -> None:
    """Raise for a local file whose content is not what was written: engines would give other rows.

    DataFusion and DuckDB do not look at the checksums of pages, so the checksum of the whole file is used. A file is
    read for it once in a process, unless it changes. Where it costs more than a twentieth of the read, nothing is
    looked at: large files of which only a part is read. Objects in buckets are left to their store, which checks them.

    Parameters
    ----------
    files
        What is to be read.
    storage
        The table's folder.
    is_whole
        Whether all columns of all rows are.

    Raises
    ------
    StorageError
        Naming the first such file, and what to do.
    """
    few = len(files) <= CHECKED_FILES and sum(file.bytes for file in files) <= CHECKED_BYTES
    if not storage.local or not (is_whole or few):
        return
    for file in files:
        if file.checksum is not None:
            check_once(storage, file.filename, file.checksum)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames; by halves, as DataFusion's planning is quadratic in the depth of a plan."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _union(frames[:half]).union(_union(frames[half:]))


@contextlib.contextmanager
def _explained(files: Sequence[PlannedFile], storage: Storage) -> Iterator[None]:
    try:
        yield
    except (SleeperError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # DataFusion raises a plain Exception, or a panic of Rust for short or damaged files
        is_panic = not isinstance(error, Exception)
        if is_panic and type(error).__name__ != "PanicException":
            raise
        check_contents(files, storage, is_whole=True)  # raises when one is damaged, and names it
        text = (str(error).splitlines() or [type(error).__name__])[0]
        if not storage.local and (is_panic or "Generic S3 error" in text):  # it panics when an answer is short
            hint = "check the network, then run it again"
            raise NetworkError(f"the network failed: no whole answer from S3: {storage.root}", hint=hint) from error
        raise StorageError(f"cannot read data files in {storage.root}: {text}", hint=HINT) from error


def _frame(context: SessionContext, file: PlannedFile, schema: Schema, storage: Storage) -> DataFrame:
    order = [_column(name).sort(ascending=True) for name in schema.sort_order]
    stored = schema.in_files  # a column that the file does not have is null
    frame = context.read_parquet(_address(storage, file.filename), file_sort_order=[order], schema=stored.arrow)
    if schema.is_renamed:
        frame = frame.select(*[_column(field.column).alias(field.name) for field in schema.fields])
    return frame if file.region is None else frame.filter(*_inside(file.region, schema))


def _address(storage: Storage, filename: str) -> str:
    """Return a file's URL, as DataFusion takes a plain path with brackets or stars for a pattern."""
    located = storage.locate(filename)
    return Path(located).as_uri() if storage.local else "s3://" + quote(located.removeprefix("s3://"))


def _open_buckets(context: SessionContext, storage: Storage) -> None:
    """Tell DataFusion, whose own S3 client knows no AWS profiles, how to open the storage's bucket."""
    access = storage.access
    if access is None:
        return
    from datafusion.object_store import AmazonS3

    store = AmazonS3(
        bucket_name=access.bucket,
        region=access.region,
        access_key_id=access.access_key,
        secret_access_key=access.secret_key,
        session_token=access.session_token,
        endpoint=access.endpoint_url,
        allow_http=(access.endpoint_url or "").startswith("http://"),
    )
    context.register_object_store("s3://", store, access.bucket)


def _inside(region: Region, schema: Schema) -> list[Any]:
    from datafusion import lit

    return region.comparisons(
        schema, lambda key: _column(key.name), lambda key, value: lit(pa.scalar(value, key.type.arrow))
    )


def _column(name: str) -> Any:
    from datafusion import col

    return col(quoted_name(name))  # quoted, or DataFusion would fold its case


MOST_ROWS = 65_536


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream in batches of 65,536 rows or 32 MiB at least, but for the last; none is empty.

    Parameters
    ----------
    batches
        Batches of one schema.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= MOST_ROWS or size >= MOST_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
