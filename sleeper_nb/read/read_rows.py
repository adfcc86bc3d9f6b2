"""Read the rows of planned files, merged leaf by leaf in key order: the kernel of scans and of compaction.

Each data file is sorted. DataFusion is told so and merges the files of a leaf without sorting, from one ordered stream
per file, so it holds a few batches per file rather than all rows.

DataFusion keeps everything it has read of a Parquet file until it closes the file (issue 9695 of its Parquet reader),
so a large merge would end up holding its whole input. Therefore a merge of many bytes is cut into key ranges that are
merged one after the other: each range opens the files again and reads only the pages that hold its keys.

Another process can delete files at any moment. DataFusion looks for each file when it plans, takes one that is not
there for one without rows, and fails at one that goes later. So each plan must have all files before it runs.

The module reads from top to bottom: `read` and `stream` for a scan, `leaf_rows` for one leaf, `merged` for the merge
itself, then its key ranges, the checks of files before they are read, DataFusion's frames, and `coalesced`, which joins
small batches.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, reduce
from itertools import chain, pairwise
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NetworkError, NotFound, SleeperError, StorageError
from sleeper_nb.forks import check_has_threads
from sleeper_nb.model.checksums import is_stamp
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import KeyValue, arrow_value
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.read.live_rows import LiveRows, PlacedFile, placed_schema
from sleeper_nb.read.predicate import Condition, RowFilter
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import FileContent, PlannedFile, PlannedLeaf, ScanPlan
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import HINT, changed_since, check_is_file, check_once
from sleeper_nb.storage.paths import is_foreign
from sleeper_nb.storage.places import S3Access

if TYPE_CHECKING:
    from datafusion import DataFrame, ExecutionPlan, SessionContext


logger = logging.getLogger(__name__)

RANGE_BYTES = 32 * 2**20
"""About how many input bytes one key range has. Larger ranges are a tenth faster, but memory grows with them."""
CHECKED_FILES, CHECKED_BYTES = 64, 4 << 20
"""The most files and bytes whose checksums are verified when only some columns or rows are read."""
_FOOTER_BYTES = 65_536
"""Bytes read ahead for a footer: enough for a data file with a few dozen row groups and columns."""
_LEAVES_AT_ONCE = 16
"""How many leaves are read together at most, where only parts of them are wanted."""
_REGIONS_AT_ONCE = 20
"""How many regions of a file are read together: DataFusion prunes no page where more keys are asked for."""
BATCH_ROWS, BATCH_BYTES = 65_536, 32 * 2**20
"""`coalesced` yields a batch as soon as it has this many rows or bytes."""


def read(
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Return the processed rows of a plan, leaf by leaf and in key order within each leaf.

    `NotFound` when a column or the table's iterator is unknown, or a planned file does not exist any more.
    `InvalidInput` when a column is named twice, the limit is negative, or the condition or the processing fails for a
    row. `StorageError` when a file cannot be read.
    """
    schema = pa.schema(selected_fields(plan.schema.names if columns is None else columns, plan.schema))
    return pa.Table.from_batches(stream(plan, storage, columns=columns, where=where, limit=limit), schema)


def stream(
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that `read` returns, with the types of the table's schema; holds a few batches in memory."""
    if limit is not None and limit < 0:
        raise InvalidInput(f"the limit {limit} is negative", hint="give a limit of 0 or more")
    schema = pa.schema(selected_fields(plan.schema.names if columns is None else columns, plan.schema))
    process = Processor.of(plan.processing, plan.schema)
    with opened_condition(where) as row_filter:
        of_leaves = (
            leaf_rows(files, process, storage, where=row_filter, columns=schema.names, limit=limit)
            for files in _read_together(plan, storage)
        )
        for batch in limited(chain.from_iterable(of_leaves), limit):
            yield batch if batch.schema == schema else batch.cast(schema)


def _read_together(plan: ScanPlan, storage: Storage) -> Iterator[tuple[PlannedFile, ...]]:
    """Yield the files of each leaf; of leaves that follow each other, of which only parts are wanted, those of several.

    To plan and to open them together takes half as long, and no more memory than another merge of so many bytes. What
    is checked of a leaf's files is checked as if it was read alone.
    """
    for group in _groups(plan):
        for leaf in group if len(group) > 1 else ():
            _check_checksums(leaf.files, storage, is_whole=False)
        yield tuple(file for leaf in group for file in leaf.files)


def _groups(plan: ScanPlan) -> Iterator[list[PlannedLeaf]]:
    group: list[PlannedLeaf] = []
    for leaf in plan.leaves:
        if group and not (plan.processing.is_nothing and _can_join(group, leaf)):
            yield group
            group = []
        group.append(leaf)
    if group:
        yield group


def _can_join(group: Sequence[PlannedLeaf], leaf: PlannedLeaf) -> bool:
    """Return whether a leaf can be read with others: its keys come after theirs, and all files are read in part."""
    if len(group) == _LEAVES_AT_ONCE or not group[-1].partition.region.is_before(leaf.partition.region):
        return False
    files = [file for each in (*group, leaf) for file in each.files]
    return all(file.region is not None for file in files) and _bytes_of(files) <= RANGE_BYTES


def placed_rows(files: Iterable[PlacedFile], schema: Schema, storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some files with their places: the columns of the schema, then `deletions.PLACES`.

    `NotFound`, `StorageError` when a file does not exist any more, or cannot be read.
    """
    types = placed_schema(schema.arrow)
    for file in files:
        check_files(file.parts, storage, is_whole=True)
        with _datafusion_errors(file.parts, storage):
            yield from (batch.cast(types) for batch in file.batches(schema, storage))


@contextlib.contextmanager
def opened_condition(where: Condition | None) -> Iterator[RowFilter | None]:
    """Prepare the condition of a read for evaluation, if there is one."""
    if where is None:
        yield None
    else:
        with where.opened() as row_filter:
            yield row_filter


def selected_fields(columns: Sequence[str], schema: Schema) -> list[pa.Field]:
    """Return the Arrow fields of the columns that a user selected; raises for an unknown or repeated name."""
    known = dict(zip(schema.names, schema.arrow, strict=True))
    fields: dict[str, pa.Field] = {}
    for name in columns:
        if name not in known:
            raise NotFound.of("column", name, schema.names)
        if name in fields:
            raise InvalidInput(f"column {name!r} is named twice", hint="name each column once")
        fields[name] = known[name]
    return list(fields.values())


def leaf_rows(
    files: Sequence[PlannedFile],
    process: Processor,
    storage: Storage,
    *,
    where: RowFilter | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one leaf as queries return them, in key order.

    The condition, columns and limit apply to processed rows. The whole condition is evaluated here, after processing,
    even if the plan has already pruned files by a part of it.
    """
    processing, schema = process.processing, process.schema
    if processing.is_nothing and where is None:
        yield from merged(files, schema, storage, columns=columns, limit=limit)
        return
    selected = list(schema.names if columns is None else columns)
    needed = {*selected, *(() if where is None else where.columns)}
    rows: Iterator[pa.RecordBatch] = merged(files, schema, storage, columns=processing.columns(schema, needed))
    rows = rows if processing.is_nothing else process(rows)
    for batch in limited(rows if where is None else where.filter(rows), limit):
        yield batch.select(selected)


def merged(
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield the rows of some files merged in key order, each file restricted to its planned region.

    `NotFound`, `StorageError` when a file does not exist any more, or cannot be read.

    Parameters
    ----------
    files
        The files, each sorted. However large they are, the merge holds a bounded part of each (see `key_ranges`).
    columns, limit
        As in `read`.
    """
    if not files:
        return
    is_whole = limit is None and len(columns or schema.names) == len(schema.names)
    is_whole = is_whole and all(file.only is None for file in files)
    context = _checked_context(files, storage, is_whole=is_whole)
    placed = _read_by_position(files, schema, storage)
    if placed and len({file.content for file in files}) == 1:  # nothing to merge
        (alone,) = placed.values()
        with _datafusion_errors(files, storage):
            yield from limited(alone.batches(columns), limit)
        return
    with _datafusion_errors(files, storage):
        ranges = list(key_ranges(files, schema, storage))
        if len(ranges) > 1:
            logger.debug("merge of %d files in %s runs in %d key ranges", len(files), storage.root, len(ranges))
        parts = (_range_rows(context, part, schema, storage, columns, placed, limit) for part in ranges)
        yield from limited(chain.from_iterable(parts), limit)


def _read_by_position(files: Sequence[PlannedFile], schema: Schema, storage: Storage) -> Mapping[FileContent, LiveRows]:
    """Return the rows of the files with deletion vectors; leaves that share a file can have a vector of it each."""
    regions: dict[FileContent, list[Region | None]] = {}
    parts = [file for file in files if file.deletions is not None or file.only is not None]
    for file in parts:
        regions.setdefault(file.content, []).append(file.region)
    firsts = {file.content: file for file in parts}
    return {content: LiveRows.of(file, schema, storage, regions[content]) for content, file in firsts.items()}


def _checked_context(files: Sequence[PlannedFile], storage: Storage, *, is_whole: bool) -> SessionContext:
    """Return the DataFusion session that reads some files, which are checked as by `check_files`."""
    check_has_threads()
    if storage.access is None:
        check_files(files, storage, is_whole=is_whole)
        return _local_context()
    bucket = _bucket(storage.access)
    bucket.check(files, storage)
    return bucket.context


def _range_rows(
    context: SessionContext,
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    columns: Sequence[str] | None,
    placed: Mapping[FileContent, LiveRows],
    limit: int | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some files in key order, `limit` of them or more."""
    if limit == 0:
        return
    rows, opened = _sorted_frame(context, files, schema, storage, columns, placed)
    # DataFusion pushes a region's filter into the reader, where a limit would stop at the first row groups
    # that match completely and skip partial matches before them (its issue 24272). So no limit with a region.
    is_limited = limit is not None and all(file.region is None for file in files)
    plan = (rows.limit(limit) if is_limited else rows).execution_plan()
    if _files_in(plan) < opened:
        check_files(files, storage)  # raises, and names the file
        raise StorageError(f"DataFusion does not find all files in {storage.root}", hint="run it again")
    for partition in range(plan.partition_count):
        yield from (batch.to_pyarrow() for batch in context.execute(plan, partition))


def _files_in(plan: ExecutionPlan) -> int:
    """Return how many times a plan of DataFusion opens a data file; one that is not there became an `EmptyExec`."""
    children = plan.children()
    return sum(map(_files_in, children)) if children else plan.display().startswith("DataSourceExec: file_groups=")


@cache
def _local_context() -> SessionContext:
    return _new_context(_FOOTER_BYTES, key_columns_first=True)


_MOST_BUCKETS, _MOST_CHECKED = 8, 100_000


@dataclass(frozen=True, slots=True, eq=False)
class _Bucket:
    """What is kept between reads of a bucket.

    Parameters
    ----------
    context
        A DataFusion session with the access, which keeps the footers that it read last, in at most 50 MB.
    others
        The buckets of files that are not in the table's folder; the same keys open them.
    """

    context: SessionContext
    access: S3Access
    others: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)

    def check(self, files: Sequence[PlannedFile], storage: Storage) -> None:
        """Raise as `check_files` does, but not for one file that was checked before: that takes one request less."""
        located = {storage.locate(file.filename) for file in files}
        foreign = {_bucket_of(storage.locate(file.filename)) for file in files if is_foreign(file.filename)}
        for name in foreign - {self.access.bucket} - self.others:
            _register_bucket(self.context, replace(self.access, bucket=name))
            self.others.add(name)
        if len(located) == 1 and located <= self.checked and not foreign:
            return
        check_files(files, storage)
        if len(self.checked) > _MOST_CHECKED:
            self.checked.clear()
        self.checked.update(located)


@lru_cache(maxsize=_MOST_BUCKETS)
def _bucket(access: S3Access) -> _Bucket:
    """Return what is kept of a bucket for as long as its access is the same: temporary keys end."""
    # A server is asked for all of a footer at once, up to DataFusion's default of 512 KiB, and for all columns at once.
    context = _new_context(8 * _FOOTER_BYTES, key_columns_first=False)
    _register_bucket(context, access)
    return _Bucket(context, access)


def _bucket_of(address: str) -> str:
    return address.removeprefix("s3://").partition("/")[0]


def _new_context(footer_bytes: int, *, key_columns_first: bool) -> SessionContext:
    """Return a DataFusion session that reads so many bytes at the end of a file first.

    With `key_columns_first`, it decodes other columns only where a region has rows; without, it asks once for both.
    """
    from datafusion import SessionConfig, SessionContext

    # One partition: the merge is most of the work, and each leaf already has a task of its own.
    config = SessionConfig().with_target_partitions(1)
    settings = {
        "datafusion.optimizer.prefer_existing_sort": "true",
        "datafusion.execution.parquet.pushdown_filters": str(key_columns_first).lower(),
        "datafusion.execution.parquet.metadata_size_hint": str(footer_bytes),
        # With statistics, DataFusion takes a column whose minimum and maximum are equal for a constant, even with NaN.
        "datafusion.execution.collect_statistics": "false",
        "datafusion.optimizer.max_passes": "1",  # plans of scans and merges are the same with more, which take longer
    }
    for name, value in settings.items():
        config = config.set(name, value)
    return SessionContext(config)


def _sorted_frame(
    context: SessionContext,
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    columns: Sequence[str] | None,
    placed: Mapping[FileContent, LiveRows],
) -> tuple[DataFrame, int]:
    regions: dict[FileContent, list[Region | None]] = {}
    for file in files:  # a file with several of the regions is opened once
        regions.setdefault(file.content, []).append(file.region)
    parts = [
        (content[0], each[begin : begin + _REGIONS_AT_ONCE])
        for content, each in regions.items()
        if content not in placed
        for begin in range(0, len(each), _REGIONS_AT_ONCE)
    ]
    order = _order(schema) if len(regions) > 1 or len(parts) > 1 else None  # each file is sorted; one needs no merge
    frames = [_frame(context, name, each, schema, storage, order) for name, each in parts]
    read = (replace(placed[content], regions=each) for content, each in regions.items() if content in placed)
    frames += [_frame_of(context, each) for each in read]
    rows = frames[0] if order is None else _union(frames).sort(*order)
    if columns is not None and tuple(columns) != schema.names:
        rows = rows.select(*[_column(name) for name in columns])
    return rows, len(parts)


def key_ranges(
    files: Sequence[PlannedFile], schema: Schema, storage: Storage, range_bytes: int = RANGE_BYTES
) -> Iterator[tuple[PlannedFile, ...]]:
    """Yield the files of each key range in key order, each file restricted to the range.

    Ranges begin at values of the first row key at which row groups begin, according to the footers; all rows with one
    such value are in the same range. Files that are small together form one range, and none is opened.
    """
    if _bytes_of(files) <= range_bytes:
        yield tuple(files)
        return
    groups = [group for file in files for group in _first_keys(file, schema, storage)]
    ends: list[KeyValue | None] = [None, *_range_starts(groups, range_bytes), None]
    for low, high in pairwise(ends):
        key_range = Region.whole(schema).narrowed(0, Range(low, high))
        parts = [(file, (file.region or key_range).intersect(key_range)) for file in files]
        yield tuple(file._replace(region=part) for file, part in parts if part is not None)


def _first_keys(file: PlannedFile, schema: Schema, storage: Storage) -> Iterator[tuple[KeyValue, float]]:
    wanted = Range() if file.region is None else file.region.ranges[0]
    from sleeper_nb.read.footers import row_groups

    for group in row_groups(file.filename, schema, storage, file.checksum):
        ends = group.ends[0]
        if ends is not None and ends[0] in wanted:
            yield ends[0], sum(group.column_bytes.values())


def _range_starts(groups: list[tuple[KeyValue, float]], range_bytes: int) -> Iterator[KeyValue]:
    size, previous_key = 0.0, None
    for key, group_bytes in sorted(groups):
        if size >= range_bytes and key != previous_key:
            yield key
            size = 0.0
        size, previous_key = size + group_bytes, key


def _bytes_of(files: Iterable[PlannedFile]) -> int:
    return sum({file.filename: file.bytes for file in files}.values())


def check_files(files: Sequence[PlannedFile], storage: Storage, *, is_whole: bool = False) -> None:
    """Raise for a file that does not exist any more or has another size than planned.

    Engines read some truncated files as files without rows. The content is checked as well, as in `check_contents`.

    `NotFound`, `StorageError`: naming the first such file.
    """
    own = [file for file in files if not is_foreign(file.filename)]
    sizes = _of_each(own, storage, storage.size)
    for file in own:
        _check_size(file, sizes[file.filename], storage)
    check_contents(files, storage, is_whole=is_whole)


_T = TypeVar("_T")


def _of_each(files: Sequence[PlannedFile | FileReference], storage: Storage, ask: Callable[[str], _T]) -> dict[str, _T]:
    names = list(dict.fromkeys(file.filename for file in files))
    if storage.local:
        return {name: ask(name) for name in names}
    with ThreadPoolExecutor(storage.at_once) as pool:  # one request after the other would be slow
        return dict(zip(names, pool.map(ask, names), strict=True))


def _check_size(file: PlannedFile | FileReference, size: int, storage: Storage) -> None:
    if size != file.bytes:
        raise StorageError(
            f"data file {storage.locate(file.filename)} has {size:,} bytes, not {file.bytes:,}",
            hint="it may have been changed by hand: restore it from a copy",
        )


def check_unchanged(files: Sequence[PlannedFile | FileReference], storage: Storage) -> None:
    """Raise for a file outside the table's folder that was changed since it was added: its owner may do so."""
    foreign = [file for file in files if is_foreign(file.filename)]
    found = _of_each(foreign, storage, storage.stamped) if foreign else {}
    for file in foreign:
        size, stamp = found[file.filename]
        _check_size(file, size, storage)
        if stamp != file.checksum:
            raise changed_since(storage, file.filename)


def check_contents(files: Sequence[PlannedFile], storage: Storage, *, is_whole: bool) -> None:
    """Raise for a local file whose content is not what was written; engines would return wrong rows from it.

    DataFusion and DuckDB do not verify page checksums, so the checksum of the whole file is verified, once per process
    unless the file changes. It is skipped where it would cost more than a twentieth of the read: for large files of
    which only a part is read. Objects in a bucket are verified by their store. Of files that were added where they
    were, size and stamp are compared.

    `StorageError`: for the first damaged file; the hint says what to do.
    """
    check_unchanged(files, storage)
    _check_checksums(files, storage, is_whole=is_whole)


def _check_checksums(files: Sequence[PlannedFile], storage: Storage, *, is_whole: bool) -> None:
    each = {file.filename: file for file in files}
    few = len(each) <= CHECKED_FILES and _bytes_of(files) <= CHECKED_BYTES
    for file in each.values() if storage.local else ():
        if (is_whole or few) and file.checksum is not None and not is_stamp(file.checksum):
            check_once(storage, file.filename, file.checksum)
        else:
            check_is_file(storage, file.filename)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of all frames, built by halves: DataFusion's planning is quadratic in a plan's depth."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _union(frames[:half]).union(_union(frames[half:]))


@contextlib.contextmanager
def _datafusion_errors(files: Sequence[PlannedFile], storage: Storage) -> Iterator[None]:
    """Raise DataFusion's errors as `StorageError` or `NetworkError`; a damaged file is named."""
    try:
        yield
    except (SleeperError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # DataFusion raises a plain Exception, or a Rust panic for short or damaged files
        is_panic = not isinstance(error, Exception)
        if is_panic and type(error).__name__ != "PanicException":
            raise
        check_files(files, storage, is_whole=True)  # raises for a file that is damaged or gone, and names it
        text = (str(error).splitlines() or [type(error).__name__])[0]
        if not storage.local and (is_panic or "Generic S3 error" in text):  # it panics when a response is cut short
            hint = "check the network, then run it again"
            raise NetworkError(f"the network failed: incomplete response from S3: {storage.root}", hint=hint) from error
        raise StorageError(f"cannot read data files in {storage.root}: {text}", hint=HINT) from error


def _frame(
    context: SessionContext,
    filename: str,
    regions: Sequence[Region | None],
    schema: Schema,
    storage: Storage,
    order: Sequence[Any] | None,
) -> DataFrame:
    """Return the rows of a file in some regions that do not overlap; None is the whole file."""
    stored = schema.in_files  # a column that the file lacks is null
    sorted_by = None if order is None else [order]
    frame = context.read_parquet(_address(storage, filename), file_sort_order=sorted_by, schema=stored.arrow)
    if schema.is_renamed:
        frame = frame.select(*[_column(field.column).alias(field.name) for field in schema.fields])
    tests = [None if region is None else _region_filter(region, schema) for region in regions]
    known = [test for test in tests if test is not None]
    return frame.filter(_any(known)) if len(known) == len(tests) else frame


def _order(schema: Schema) -> list[Any]:
    return [_column(name).sort(ascending=True) for name in schema.sort_order]


def _frame_of(context: SessionContext, rows: LiveRows) -> DataFrame:
    """Return rows that are read now, in memory: a key range bounds how many."""
    table = pa.Table.from_batches(rows.batches(), rows.schema.arrow)
    name = f"live_{id(table)}"  # no other table has this id now, in any thread
    frame = context.from_arrow(table, name)
    context.deregister_table(name)  # the frame keeps them, the session does not
    return frame


def _address(storage: Storage, filename: str) -> str:
    """Return a file's URL: DataFusion would treat a plain path with brackets or stars as a glob."""
    located = storage.locate(filename)
    return Path(located).as_uri() if storage.local else "s3://" + quote(located.removeprefix("s3://"))


def _register_bucket(context: SessionContext, access: S3Access) -> None:
    """Give DataFusion access to a bucket: its S3 client does not know AWS profiles."""
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


def _region_filter(region: Region, schema: Schema) -> Any:
    from datafusion import lit

    def literal(key: Field, value: KeyValue) -> Any:
        return lit(arrow_value(value, key.type.arrow))

    met = region.comparisons(schema, lambda key: _column(key.name), literal, with_equality=True)
    return reduce(and_, met) if met else None


def _any(tests: Sequence[Any]) -> Any:
    """Return the condition that one of the tests is met, as a tree of little depth: engines walk it by recursion."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return _any(tests[:half]) | _any(tests[half:])


def _column(name: str) -> Any:
    from datafusion import col

    return col(quoted_name(name))  # quoted, or DataFusion would fold its case


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows of batches, and read no batch after them; None for all rows."""
    if limit is None:
        yield from batches
        return
    rows_left = limit
    if rows_left == 0:
        return
    for batch in batches:
        yield batch.slice(0, rows_left)
        rows_left -= min(batch.num_rows, rows_left)
        if rows_left == 0:
            return


def coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream in larger batches, for work that has a high cost per batch.

    Each batch except the last has at least 65,536 rows or 32 MiB; none is empty.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
