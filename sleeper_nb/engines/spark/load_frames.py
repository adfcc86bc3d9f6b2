"""The rows of a load as a frame of Spark: Python tasks read its files, and conform them, as an ingest in process does.

So there are the same values, and the same errors. What an import would do is planned by such tasks, and they sample its
keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from sleeper_nb.engines.spark.frames import (
    MOST_TASKS,
    REPORT_DDL,
    arrow_lacks,
    hand_over_keys,
    in_tasks,
    of_arrow,
    report,
    reports,
)
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load.conform import Conformed, Difference, RawColumns, compare, conform, grouped, no_place
from sleeper_nb.load.file_formats import Piece, StoredSource, pieces_of, pieces_to_read
from sleeper_nb.load.ingest import plan_of_counts, rows_by_leaf
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.load_report import IngestPlan
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, OpenedChecks, RowCheck, opened_checks
from sleeper_nb.load.sorted_runs import packed
from sleeper_nb.load.sources import IngestSource, InMemory, is_spark, read_source
from sleeper_nb.load.split import KeySample, some_of
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.model.state import TableState
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_TASK_BYTES = 128 << 20
"""About how much of a Parquet file one task reads."""
_FOOTERS_AT_ONCE = 16


def spark_frame(sources: Sequence[IngestSource]) -> DataFrame:
    """Return the DataFrame that sources are; callers ask `is_spark` first.

    `InvalidInput` when it has a column for which Arrow, in which all rows are loaded, has no type.
    """
    (source,) = sources
    assert isinstance(source, InMemory)  # noqa: S101 - no file is a DataFrame
    frame: DataFrame = source.data
    lacking = next((field for field in frame.schema.fields if arrow_lacks(field.dataType)), None)
    if lacking is not None:
        kind = lacking.dataType.simpleString()
        raise InvalidInput(
            f"column {lacking.name!r} cannot be loaded: Arrow has no type for Spark's {kind}",
            hint=f"cast it to text first: CAST({quoted_name(lacking.name, '`')} AS string)",
        )
    return frame


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a Spark DataFrame, of which no row is computed."""
    return spark_frame(sources).limit(0).toArrow().schema


def first_rows(sources: Sequence[IngestSource], rows: int) -> tuple[InMemory, ...]:
    return (InMemory(spark_frame(sources).limit(rows).toArrow()),)


Step: TypeAlias = Callable[[Iterator[pa.Table]], Iterator[pa.RecordBatch]]
"""What a task makes of conformed rows."""


@dataclass(frozen=True, slots=True)
class RowsOfLoad:
    """The rows of a load, which tasks read and conform; columns are compared with the schema before any row is read."""

    sources: Sequence[IngestSource]
    schema: Schema
    matching: Matching

    @property
    def groups(self) -> int:
        """How many groups of tasks there are: one for all files, and one for each source in memory or of Spark."""
        return len({id(source) if isinstance(source, InMemory) else 0 for source in self.sources})

    @property
    def storages(self) -> list[Storage]:
        return [source.storage for source in self.sources if not isinstance(source, InMemory)]

    def frame(
        self, spark: SparkSession, step: Step, ddl: str, piece_bytes: int = _TASK_BYTES, most: int = MOST_TASKS
    ) -> DataFrame:
        """Return what a step makes of all rows, in one task or more.

        Parameters
        ----------
        spark
            For all rows but those of a DataFrame, which is computed in its own session.
        piece_bytes
            About how much of a file a task reads at once.
        most
            The most tasks of each group.
        """
        schema, matching = self.schema, self.matching
        if is_spark(self.sources):
            rows = spark_frame(self.sources)
            conform(rows.limit(0).toArrow(), schema, matching)
            return _conformed(_in_few(rows, most), step, ddl, schema, matching)

        def of_pieces(pieces: Iterator[FilePiece]) -> Iterator[pa.RecordBatch]:
            return step(rows for file, piece in pieces for rows in pieces_of(file, schema, piece, matching))

        pieces = pieces_of_files([each for each in self.sources if not isinstance(each, InMemory)], piece_bytes)
        frames = [in_tasks(spark, pieces, of_pieces, ddl, most)] if pieces else []
        # Spark reads nanoseconds as whole numbers, and refuses string views: conform first, as in process.
        in_memory = (read_source(each, schema, matching) for each in self.sources if isinstance(each, InMemory))
        parts = (_in_few(of_arrow(spark, each.table(schema)), most) for each in in_memory)
        frames += [_conformed(part, step, ddl, schema, EXACT) for part in parts]
        return reduce(lambda left, right: left.unionAll(right), frames)


def _conformed(rows: DataFrame, step: Step, ddl: str, schema: Schema, matching: Matching) -> DataFrame:
    """Return what a step makes of a frame's rows, which its tasks conform."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step(conform(pa.Table.from_batches([batch]), schema, matching) for batch in batches)

    return rows.mapInArrow(task, ddl)


def _in_few(rows: DataFrame, most: int) -> DataFrame:
    """Return a frame that at most so many tasks compute; Spark's own number where any will do."""
    return rows if most == MOST_TASKS else rows.coalesce(most)


FilePiece: TypeAlias = tuple[StoredSource, Piece]
"""A file or lake table, and what a task reads of it."""


def pieces_of_files(files: Sequence[StoredSource], most_bytes: int) -> list[FilePiece]:
    def pieces(file: StoredSource) -> list[FilePiece]:
        return [(file, piece) for piece in pieces_to_read(file, most_bytes)]

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return [piece for found in pool.map(pieces, files) for piece in found]


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a task says about some rows: each difference; without any, what breaks expectations, and rows by leaf."""

    rows: int
    differences: tuple[Difference, ...]
    judged: JudgedRows = NOT_JUDGED
    by_leaf: Mapping[str, int] = field(default_factory=dict)


def plan_frame(
    engine: SparkRuntime,
    state: TableState,
    sources: Sequence[IngestSource],
    matching: Matching = EXACT,
    *,
    strategy: str,
    checks: Sequence[RowCheck] = (),
) -> IngestPlan:
    """Return what an import of a Spark DataFrame would do; each task looks at its own rows."""
    schema, tree = state.schema, state.tree
    in_tasks = [check.picklable() for check in checks]

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with opened_checks(in_tasks) as opened:
            for batch in batches:
                rows = _compared(pa.Table.from_batches([batch]), schema, matching)
                yield report(_looked_at(rows, opened, schema, tree))

    def action(_: SparkSession) -> tuple[list[_Looked], Conformed]:
        frame = spark_frame(sources)
        of_names = _compared(frame.limit(0).toArrow(), schema, matching)
        return reports(frame.mapInArrow(task, REPORT_DDL)), of_names

    answers, of_names = engine.run(action, "planning the import")
    return _summed(answers, of_names, state, strategy)


def _looked_at(rows: Conformed, checks: OpenedChecks, schema: Schema, tree: PartitionTree) -> _Looked:
    if differences := rows.differences or tuple(checks.differences(rows.table(schema))):
        return _Looked(rows.rows, differences)
    keys = pa.table({key.name: rows.columns[key.name] for key in schema.row_keys})
    return _Looked(rows.rows, (), checks.judged(rows.table(schema)), rows_by_leaf(keys, tree, schema))


def _summed(answers: Sequence[_Looked], of_names: Conformed, state: TableState, strategy: str) -> IngestPlan:
    """Return the plan of an import, of what its tasks say and of how the names of the columns compare."""
    by_leaf = Counter[str]()
    for each in answers:
        by_leaf.update(each.by_leaf)
    named = {each.column for each in of_names.differences}
    of_values = [each for one in answers for each in one.differences if each.column not in named]
    order = {name: place for place, name in enumerate(state.schema.names)}
    more = grouped(sorted(of_values, key=lambda each: order.get(each.column, -1)))
    rows, differences = sum(each.rows for each in answers), [*of_names.differences, *more]
    plan = plan_of_counts(state, rows, by_leaf, differences, strategy=strategy, through_spark=True)
    judged = reduce(JudgedRows.plus, (each.judged for each in answers), NOT_JUDGED)
    return replace(plan, notes=of_names.notes, broken=tuple(judged.broken.values()))


def _compared(rows: pa.Table, schema: Schema, matching: Matching) -> Conformed:
    return compare(RawColumns.of(rows, no_place, partial(matching.names, schema=schema)), schema, matching)


_LEAST_SHARE = 2_000
"""Keys that each task keeps at least."""


def sample_keys(
    engine: SparkRuntime, sources: Sequence[IngestSource], schema: Schema, size: int, *, matching: Matching = EXACT
) -> KeySample:
    """Return a sample of the row keys of data that Spark reads, and count its rows, in one pass over the keys.

    Each task keeps a share of the sample that is the same for all, and the driver weighs the shares by their rows.
    """
    keys_only, most = Schema(schema.row_keys), max(_LEAST_SHARE, size // 8)

    def sampled(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        rows, kept = 0, keys_only.arrow.empty_table()
        for table in tables:
            rows += table.num_rows
            # a batch keeps as large a share as all batches before it, so that early rows have no more weight
            share = -(-most * table.num_rows // max(rows, 1))
            part = some_of(table.select(keys_only.names).cast(keys_only.arrow), share)
            kept = some_of(pa.concat_tables([kept, part]), most)
        yield report((rows, bytes(packed(kept))))

    def action(spark: SparkSession) -> list[tuple[int, pa.Table]]:
        rows = RowsOfLoad(sources, schema, matching)
        if is_spark(sources) and matching == EXACT:  # Spark then computes no other column
            frame = spark_frame(sources)
            conform(frame.limit(0).toArrow(), schema)
            keys = frame.select(*(f"`{name}`" for name in keys_only.names))
            rows = RowsOfLoad([InMemory(keys)], keys_only, matching)
        hand_over_keys(spark, rows.storages)
        answers = reports(rows.frame(spark, sampled, REPORT_DDL))
        return [(count, pa.ipc.open_stream(keys).read_all()) for count, keys in answers]

    parts = engine.run(action, "sampling keys")
    total = sum(rows for rows, _ in parts)
    shares = [some_of(keys, max(1, size * rows // total)) for rows, keys in parts if rows]
    return KeySample(pa.concat_tables([keys_only.arrow.empty_table(), *shares]), total)
