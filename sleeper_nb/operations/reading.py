"""Rows of planned files, leaf by leaf, merged as a stream in key order: the kernel of scans and of compaction.

Each file is sorted, so DataFusion is told so and merges the files of a leaf without sorting (one ordered stream per
file, no repartitioning): it holds a few batches per file, not the rows.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError, StorageError
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.planning import PlannedFile, ScanPlan
from sleeper_nb.operations.stretches import stretches
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext

_ASKING = 16
"""How many questions a server is asked at once."""

_FOOTER_BYTES = 65_536
"""More than the footer of a data file takes that has a few dozen row groups and columns."""

# What a condition is made of, as far as columns go: literals, quoted names and types are passed over, and so is a word
# that calls a function or begins a literal.
_WORDS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \bAS\s+\w+ | (?P<word>[^\W\d][\w$]*)(?!\s*[('])""", re.IGNORECASE | re.VERBOSE
)


def read(
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Return the rows of a plan: leaf by leaf, in key order within each.

    Parameters
    ----------
    plan
        The files to open.
    storage
        The table's folder.
    columns
        The columns to return, in this order; all when None.
    where
        A condition in SQL on any columns, their names in any case.
    limit
        At most so many rows.

    Raises
    ------
    NotFound
        When a column is unknown, or a planned file is gone.
    InvalidInput
        When a column is named twice, the limit is negative, or the condition cannot be read or computed.
    StorageError
        When a file cannot be read.
    """
    wanted = list(columns) if columns is not None else list(plan.schema.names)
    for name in wanted:
        if name not in plan.schema.names:
            raise NotFound.of("column", name, plan.schema.names)
        if wanted.count(name) > 1:
            raise InvalidInput(f"column {name!r} is asked for twice", hint="name each column once")
    if limit is not None and limit < 0:
        raise InvalidInput(f"no limit can be {limit}", hint="give 0 or more")
    schema = pa.schema([plan.schema.arrow.field(name) for name in wanted])
    batches: list[pa.RecordBatch] = []
    left = limit
    for leaf in plan.leaves:
        for batch in merged(leaf.files, plan.schema, storage, where=where, columns=wanted, limit=left):
            batches.append(batch.cast(schema))
            left = None if left is None else left - batch.num_rows
        if left == 0:
            break
    return pa.Table.from_batches(batches, schema)


def merged(
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    *,
    where: str | None = None,
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
    where, columns, limit
        As `read` takes them.

    Raises
    ------
    InvalidInput, NotFound, StorageError
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
    check_files(files, storage)
    with _explained(storage, None):
        parts = list(stretches(files, schema, storage))
    left = limit
    with _explained(storage, where):
        for stretch in parts:
            rows = _rows(context, stretch, schema, storage, where, columns)
            rows = rows if left is None else rows.limit(left)
            for each in rows.execute_stream():
                batch = each.to_pyarrow()
                left = None if left is None else left - batch.num_rows
                yield batch
            if left == 0:
                return


def _rows(
    context: SessionContext,
    files: Sequence[PlannedFile],
    schema: Schema,
    storage: Storage,
    where: str | None,
    columns: Sequence[str] | None,
) -> DataFrame:
    rows = _union([_frame(context, file, schema, storage) for file in files])
    if where is not None:
        rows = rows.filter(_condition(rows, where, schema))
    rows = rows.sort(*[_column(name).sort(ascending=True) for name in schema.sort_order])
    return rows if columns is None else rows.select(*[_column(name) for name in columns])


def check_files(files: Sequence[PlannedFile], storage: Storage) -> None:
    """Raise for a file that is gone or has another size than planned: engines take some of them for ones without rows.

    Raises
    ------
    NotFound, StorageError
        Naming the first such file.
    """
    names = list(dict.fromkeys(file.filename for file in files))
    if storage.local:
        sizes = {name: storage.size(name) for name in names}
    else:
        with ThreadPoolExecutor(_ASKING) as pool:  # one after the other, a server's answers would be slow
            sizes = dict(zip(names, pool.map(storage.size, names), strict=True))
    for file in files:
        if sizes[file.filename] != file.bytes:
            raise StorageError(
                f"data file {storage.locate(file.filename)} has {sizes[file.filename]:,} bytes, not {file.bytes:,}",
                hint="was it changed by hand? restore it from a copy",
            )


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames; by halves, as DataFusion's planning is quadratic in the depth of a plan."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _union(frames[:half]).union(_union(frames[half:]))


@contextlib.contextmanager
def _explained(storage: Storage, where: str | None) -> Iterator[None]:
    try:
        yield
    except SleeperError:
        raise
    except Exception as error:  # DataFusion raises a plain Exception for everything
        text = str(error).splitlines()[0]
        if where is not None and "Invalid Parquet file" not in text:
            raise InvalidInput(
                f"cannot compute the condition {where!r}: {text}", hint="it must be true or false for every row"
            ) from error
        raise StorageError(f"cannot read data files in {storage.root}: {text}", hint="are they whole?") from error


def _frame(context: SessionContext, file: PlannedFile, schema: Schema, storage: Storage) -> DataFrame:
    order = [_column(name).sort(ascending=True) for name in schema.sort_order]
    frame = context.read_parquet(_address(storage, file.filename), file_sort_order=[order], schema=schema.arrow)
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

    tests = []
    for key, r in zip(schema.row_keys, region.ranges, strict=True):
        if r.min is not None:
            tests.append(_column(key.name) >= lit(pa.scalar(r.min, key.type.arrow)))
        if r.max is not None:
            tests.append(_column(key.name) < lit(pa.scalar(r.max, key.type.arrow)))
    return tests


def _column(name: str) -> Any:
    from datafusion import col

    return col('"' + name.replace('"', '""') + '"')  # quoted, or DataFusion would fold its case


def _condition(rows: DataFrame, where: str, schema: Schema) -> Any:
    # DataFusion makes plain words lower case; Spark and DuckDB know a column in any case, and so must a condition.
    names = {name.casefold(): f'"{name}"' for name in schema.names if name != name.lower()}

    def exact(found: re.Match[str]) -> str:
        return names.get((found["word"] or "").casefold(), found[0])

    try:
        return rows.parse_sql_expr(_WORDS.sub(exact, where))
    except Exception as error:  # DataFusion raises a plain Exception for every fault of the text
        raise InvalidInput(
            f"cannot read the condition {where!r}: {str(error).splitlines()[0]}",
            hint="write it in SQL: dep_delay > 60 and origin = 'JFK'",
        ) from error
