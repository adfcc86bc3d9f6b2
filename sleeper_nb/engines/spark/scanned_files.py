"""DataFrames that are just all rows of Parquet files on this machine: a bulk load reads the files, as Spark is slower.

`spark.read.parquet("folder")` gives such a frame; any condition, computed column, cache or partition column makes it
another. A file counts only when both read the same values from it: its columns are those of the frame, by name and
type, of types that have one meaning; no setting of Spark's session and no metadata of the file shifts its dates; and it
is still as Spark listed it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pyarrow as pa

from sleeper_nb.engines.spark.gateway import java_class
from sleeper_nb.errors import SleeperError
from sleeper_nb.load.file_formats import open_parquet
from sleeper_nb.load.source_files import SourceFile, find_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_PLAN: Final = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_RELATION: Final = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_FORMAT: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_INDEX: Final = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
_KNOWN_OPTIONS: Final = frozenset({"path", "paths"})
_TYPES: Final[Mapping[str, frozenset[pa.DataType]]] = {
    "string": frozenset({pa.string(), pa.large_string()}),
    "binary": frozenset({pa.binary(), pa.large_binary()}),
    "tinyint": frozenset({pa.int8()}),
    "smallint": frozenset({pa.int16()}),
    "int": frozenset({pa.int32()}),
    "bigint": frozenset({pa.int64()}),
    "float": frozenset({pa.float32()}),
    "double": frozenset({pa.float64()}),
    "boolean": frozenset({pa.bool_()}),
    "date": frozenset({pa.date32()}),
    "timestamp": frozenset({pa.timestamp("us", "UTC")}),
}
"""Spark's types, and those that Arrow may read for them."""
_TIMES: Final = frozenset({"date", "timestamp"})
"""Spark's types whose old values Spark may shift from the calendar of before 1582 to ours."""
_OLD_CALENDAR: Final = b"org.apache.spark.legacy"
"""What the metadata of a file begins with in which Spark wrote dates before 1582 by another calendar."""
_WRITER: Final = b"org.apache.spark.version"
_FIRST_OF_OUR_CALENDAR: Final = b"3.0.0"
"""The first version of Spark that writes our calendar; Spark compares them as texts too."""
_CALENDAR: Final = "spark.sql.parquet.datetimeRebaseModeInRead"
"""The setting by which Spark reads dates of files whose writer it does not know: CORRECTED is as they are."""
_PLAIN: Final = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
)
"""Settings that are false where Spark reads all rows of a file, and finds its columns by name."""
_FIELD_ID: Final = "parquet.field.id"
_FOOTERS_AT_ONCE: Final = 16


def files_of(frame: DataFrame) -> tuple[SourceFile, ...] | None:
    """Return the files whose rows are those of a DataFrame; None when Spark must compute it.

    No row is read. The files are in the order of their paths.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    unknown = Py4JError, PySparkException, AttributeError, TypeError, SleeperError, OSError, pa.ArrowException
    try:
        listed = _listed(frame)
        if not listed:
            return None
        if any(_FIELD_ID in field.metadata for field in frame.schema.fields):
            return None
        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        as_listed = partial(_as_listed, kinds=kinds, is_our_calendar=_is_our_calendar(frame))
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            files = list(pool.map(as_listed, sorted(listed)))
    except unknown as error:
        logger.debug("Spark computes a DataFrame: %s", type(error).__name__)  # as it may know how to
        return None
    return None if None in files else tuple(file for file in files if file is not None)


def _listed(frame: DataFrame) -> Sequence[tuple[str, int, int]]:
    """Return path, size and time of change of each file that a frame scans; nothing for another frame."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way
    if _class_of(plan) != _PLAN or plan.isStreaming() or _class_of(plan.relation()) != _RELATION:
        return ()
    relation = plan.relation()
    index = relation.location()
    as_java = java_class(frame.sparkSession, "scala.jdk.javaapi.CollectionConverters").asJava
    is_plain = (_class_of(relation.fileFormat()), _class_of(index)) == (_FORMAT, _INDEX)
    if not is_plain or not relation.partitionSchema().isEmpty() or set(as_java(relation.options())) - _KNOWN_OPTIONS:
        return ()
    if any(value.strip().lower() != "false" for name in _PLAIN for value in _values(frame, name)):
        return ()
    return [
        (file.getPath().toUri().toString(), file.getLen(), file.getModificationTime())
        for file in as_java(index.allFiles())
    ]


def _values(frame: DataFrame, name: str) -> Sequence[str]:
    """Return a setting in the sessions of a scan of files: that which computes it, and that which made it."""
    scan = frame._jdf.queryExecution().optimizedPlan().relation()  # noqa: SLF001 - PySpark has no other way
    return [str(session.conf().get(name)) for session in (frame._jdf.sparkSession(), scan.sparkSession())]  # noqa: SLF001 - as above


def _is_our_calendar(frame: DataFrame) -> bool:
    """Return whether Spark reads dates as they are from a file whose writer it does not know."""
    return all(value.strip().upper() == "CORRECTED" for value in _values(frame, _CALENDAR))


def _class_of(value: Any) -> str:
    return str(value.getClass().getName())


def _as_listed(listed: tuple[str, int, int], kinds: Mapping[str, str], *, is_our_calendar: bool) -> SourceFile | None:
    """Return a file that Spark listed, if both read the same rows from it."""
    address, size, changed = listed
    path = Path(_local_path(address))
    if not path.is_absolute() or not address.startswith("file:") or path.suffix.lower() != ".parquet":
        return None
    status = path.stat()
    if (status.st_size, status.st_mtime_ns // 1_000_000) != (size, changed):
        return None
    (file,) = find_files(path)
    file = replace(file, folder_values=())  # Spark takes values of folders that were named for nothing
    with open_parquet(file) as opened:
        schema = opened.schema_arrow
    is_same = sorted(schema.names) == sorted(kinds)
    is_same = is_same and all(field.type in _TYPES.get(kinds[field.name], ()) for field in schema)
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    is_old = any(name.startswith(_OLD_CALENDAR) for name in metadata)
    if _TIMES & set(kinds.values()):
        writer = metadata.get(_WRITER)
        is_old = is_old or (not is_our_calendar if writer is None else writer < _FIRST_OF_OUR_CALENDAR)
    return file if is_same and not is_old else None


def _local_path(address: str) -> str:
    from urllib.request import url2pathname

    return url2pathname(urlsplit(address).path)
