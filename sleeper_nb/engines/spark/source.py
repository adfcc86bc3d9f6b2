"""Spark's data source ``sleeper``: a table at any version as a DataFrame, a stream of its appends, and appends to it.

::

    spark.read.format("sleeper").option("table", "flights").option("scan.savepoint-id", "before-fix").load()
    spark.readStream.format("sleeper").option("table", "flights").option("scan.snapshot-id", 12).load()
    df.write.format("sleeper").option("table", "flights").mode("append").save()

Spark plans and reads in other processes, so each opens the instance by itself; the class that is registered with a
Spark session holds its place. Tasks use our own reader, which applies the table's filters, iterator and aggregations,
and hold a lease of the version during long reads.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from sleeper_nb.engines.spark.frames import columns_text, hand_over_keys
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.jvm import is_local
from sleeper_nb.engines.spark.source_options import AppendOptions, SourceOptions
from sleeper_nb.engines.spark.source_table import FeedColumns, Opener, ReadTask, SourceTable, rows_of
from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.engines.spark.spark_settings import PUSHDOWN
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    And,
    Comparison,
    ComparisonOperator,
    IsIn,
    Predicate,
    Pruning,
    hull_of,
    starts_with,
)
from sleeper_nb.read.predicate import IsNull as ColumnIsNull
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.appends import CHANGES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


_MOST_REGIONS: Final = 100
"""Rows are read of at most so many regions of row keys; of more, between their least and their greatest key."""


class SleeperSource(DataSource):
    """The data source; `register` makes the class for an instance.

    Options are those of `sleeper_nb.engines.spark.source_options.OPTIONS`: ``table``; at most one of
    ``scan.snapshot-id``, ``scan.savepoint-id`` (an id or a name), ``scan.timestamp``, ``scan.timestamp-millis``
    (since 1970) and ``version`` (the words of ``VERSION AS OF``); ``scan.region``, such as ``k=[6,9]``, for the
    rows of some row keys, and ``scan.where``, a condition as `Table.scan` takes it, both in a stream too;
    ``warehouse``, ``instance``, ``region`` and ``endpoint-url`` for another instance; and those of streams
    (`sleeper_nb.engines.spark.stream`). A DataFrame stays at the version of the moment it was loaded, and has that
    version's schema; a stream keeps the columns that it was started with. Filters, iterator and aggregations are
    those that the table has when a query runs.

    An append (`sleeper_nb.engines.spark.append`) has the options ``table``, those of another instance, ``message`` and
    ``job-id``: an id that added rows before adds none again. It adds all rows in one commit, or none. Times without a
    zone are UTC, as in an ingest, whatever the session's zone.
    """

    place: ClassVar[InstancePlace]
    opener: ClassVar[Opener]
    parallelism: ClassVar[int]
    prunes: ClassVar[bool]
    speculates: ClassVar[bool]
    attempts: ClassVar[int]

    loaded: int | None = None
    """The snapshot that was current when Spark asked for the schema."""

    loaded_schema: int | None = None
    """The id of the schema that Spark was given; None when the user gave one."""

    @classmethod
    def name(cls) -> str:
        return "sleeper"

    @without_stack()
    def schema(self) -> str:
        """Return the columns of the version."""
        options = self.parsed_options()
        table = self.open(options)
        try:
            version = table.resolve(options.version).version
            self.loaded, self.loaded_schema = version.number, version.schema_id
            columns = table.store.schema(version.schema_id, version.schema_checksum)
            table.wanted(options, columns)  # or it raises, before anything is read
            text = columns_text(columns.fields)
            return FeedColumns.added_to(text, columns) if options.rules.changes else text
        finally:
            table.owner.close()

    @without_stack()
    def reader(self, schema: StructType) -> DataSourceReader:
        if self.parsed_options().rules.changes:
            raise InvalidInput(
                f"option {CHANGES} is only for streams",
                hint="write spark.readStream; for the changes between two versions, table.changes(12, 15, images=True)",
            )
        return PruningReader(self, schema) if self.prunes else VersionReader(self, schema)

    @without_stack()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from sleeper_nb.engines.spark.stream import AppendReader

        return AppendReader(self, schema)

    @without_stack()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from sleeper_nb.engines.spark.append import AppendWriter

        return AppendWriter.of(self, schema, overwrite=overwrite)

    def append_options(self) -> AppendOptions:
        return AppendOptions.of(self.options, self.place)

    def parsed_options(self) -> SourceOptions:
        return SourceOptions.of(self.options, self.place)

    def open(self, options: SourceOptions | AppendOptions) -> SourceTable:
        return type(self).opener(options.place, options.table)


class VersionReader(DataSourceReader):
    """Reads a version."""

    def __init__(self, source: SleeperSource, schema: StructType) -> None:
        self.source, self.columns = source, schema
        self.filters: list[Filter] = []

    @without_stack()
    def partitions(self) -> list[ReadTask]:
        """Return the tasks: each reads some leaves, or some of a leaf's files when their rows need not be merged."""
        options = self.source.parsed_options()
        table = self.source.open(options)
        try:
            loaded = self.source.loaded
            resolved = table.resolve(options.version if loaded is None else SnapshotReference(loaded))
            state = table.store.load(resolved.version)
            processor = table.processor(state.schema, state.processing)
            wanted = table.wanted(options, state.schema)
            pruning = Pruning.of(And((predicate_of_filters(self.filters), wanted.predicate)), state.schema)
            regions = pruning.regions
            if regions is not None and len(regions) > _MOST_REGIONS:
                regions = (hull_of(regions),)
            plan = plan_scan(state, regions, processor.processing, pruning)
            lease = table.lease_for_tasks(state.snapshot_id, plan.bytes)
            return table.tasks(plan.leaves, processor, self.source.parallelism, wanted, lease)
        finally:
            table.owner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self.columns)


class PruningReader(VersionReader):
    """Reads what filters leave of a version: other leaves, and files whose statistics exclude them, are not opened."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Remember the filters, and return them all: Spark applies each by its own rules to the rows that it gets."""
        self.filters = list(filters)
        return self.filters


def register(spark: SparkSession, place: InstancePlace, opener: Opener, storage: Storage) -> None:
    """Make ``format("sleeper")`` known to a Spark session, for tables of an instance, instead of any other instance.

    Parameters
    ----------
    spark
        The session. Comparisons reach the data source if `PUSHDOWN` is already set in it.
    place, storage
        Where the instance is. A local Spark gets this process's current keys too.
    opener
        Opens tables in Spark's other processes.
    """
    hand_over_keys(spark, [storage])
    prunes = spark.conf.get(PUSHDOWN, "false") == "true"
    kind = source_of(
        place,
        opener,
        spark.sparkContext.defaultParallelism,
        prunes=prunes,
        speculates=spark.conf.get("spark.speculation", "false") == "true",
        attempts=_attempts(spark),
    )
    try:
        spark.dataSource.register(kind)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        warnings.warn(  # Spark copies the formats of a session to a new one, and replaces none of them there
            'format("sleeper") of this Spark session stays that of the session it was made from: read and write tables '
            f"of {place.instance!r} by session.sql, session.table or the Spark session of their first connect",
            stacklevel=4,
        )


def _attempts(spark: SparkSession) -> int:
    """Return how often Spark tries a task."""
    master = spark.sparkContext.master
    if is_local(master):
        tries = re.fullmatch(r"local\[[^,]+,\s*(\d+)\s*\]", master or "")
        return int(tries[1]) if tries else 1
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4)


def source_of(
    place: InstancePlace, opener: Opener, parallelism: int, *, prunes: bool, speculates: bool = False, attempts: int = 1
) -> type[SleeperSource]:
    attributes = {
        "place": place,
        "opener": staticmethod(opener),
        "parallelism": parallelism,
        "prunes": prunes,
        "speculates": speculates,
        "attempts": attempts,
    }
    # A class that is in no module is pickled by value, with its attributes.
    return type("SourceOfInstance", (SleeperSource,), attributes)


_OPERATORS: Final[Mapping[type[Filter], ComparisonOperator]] = {
    EqualTo: "=", EqualNullSafe: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">=",
}  # fmt: skip

_FIRST_CERTAIN: Final = datetime(1900, 1, 2, tzinfo=UTC)
"""Spark passes dates and timestamps through a calendar of Java that has other days before 1582, and other zones before
1900: an earlier value may be another one by then."""


def predicate_of_filters(filters: Sequence[Filter]) -> Predicate:
    """Return what each row that meets all filters meets at least; an uncertain filter becomes `ALWAYS_TRUE`.

    Spark applies every filter again, by its own rules.
    """
    return And(tuple(map(_predicate, filters)))


def _predicate(each: Filter) -> Predicate:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:  # a part of a nested column
        return ALWAYS_TRUE
    column, value = attribute[0], getattr(each, "value", None)
    if isinstance(each, IsNull):
        return ColumnIsNull(column)
    if isinstance(each, In):
        values = tuple(one for one in each.value if one is not None)
        return IsIn(column, values) if all(map(_is_certain, values)) else ALWAYS_TRUE
    if isinstance(each, StringStartsWith):
        return starts_with(column, each.value)
    operator = _OPERATORS.get(type(each))
    if operator is None or value is None or not _is_certain(value):
        return ALWAYS_TRUE
    return Comparison(column, operator, value)


def _is_certain(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None and value >= _FIRST_CERTAIN
    return not isinstance(value, date) or value >= _FIRST_CERTAIN.date()
