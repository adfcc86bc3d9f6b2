"""Ingest in process: rows are cut by leaf, sorted and written, and added in one commit.

One file per leaf by default, so that a scan of a key opens the files of one leaf; or, by the table's property, one file
for all leaves, to which each leaf that gets rows has a reference of its own: fewer files for small, frequent ingests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sleeper_nb.errors import InvalidInput, OutcomeUnknown, SleeperError, StateRuleBroken, hint_text
from sleeper_nb.model.evolution import reads_files_of
from sleeper_nb.model.files import FileReference
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.properties import (
    INGEST_STRATEGY,
    ONE_FILE_PER_LEAF,
    TableProperties,
)
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.operations.loading.conform import (
    Conformed,
    Difference,
    compare_column,
    compare_names,
    null_notes,
    nulls_refused,
)
from sleeper_nb.operations.loading.file_formats import open_parquet, read_parquet
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.sources import IngestSource, InMemory, conformed
from sleeper_nb.report import Grid, Report, counted, rate_text
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import (
    AS_DEFAULT,
    DataFile,
    DataFileSettings,
    DataFileWriter,
)
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How rows become files.

    Parameters
    ----------
    strategy
        ``one_file_per_leaf`` or ``one_reference_per_leaf`` (``sleeper.table.ingest.file.writing.strategy``).
    writing
        How each file is written.
    """

    strategy: str = ONE_FILE_PER_LEAF
    writing: DataFileSettings = AS_DEFAULT

    @classmethod
    def of(cls, properties: TableProperties) -> IngestSettings:
        """Return what a table's properties say."""
        return cls(properties[INGEST_STRATEGY], DataFileSettings.of(properties))

    @property
    def file_per_leaf(self) -> bool:
        """Whether each leaf that gets rows gets a file of its own."""
        return self.strategy == ONE_FILE_PER_LEAF


AS_USUAL = IngestSettings()


def ingest_arrow(
    store: StateStore,
    rows: pa.Table,
    *,
    message: str | None = None,
    author: str | None = None,
    job_id: str | None = None,
    settings: IngestSettings = AS_USUAL,
    rows_schema: Schema | None = None,
) -> Snapshot:
    """Add rows that have the table's columns, and return the snapshot that holds them; no row, no new snapshot.

    The table may be altered meanwhile: the columns that the rows have are those of `rows_schema`, of now when None.
    """

    def write(schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        parts: Iterable[tuple[str, pa.Table, dict[str, int]]]
        if settings.file_per_leaf:
            parts = ((leaf.id, part, {leaf.id: part.num_rows}) for leaf, part in cut_by_leaf(rows, tree, schema))
        else:
            parts = [(tree.root.id, rows, rows_by_leaf(rows, tree, schema))]
        order = [(name, "ascending") for name in schema.sort_order]
        for folder, part, by_leaf in parts:
            name = paths.data_file(folder, store.clock.new_id())
            finished = write_sorted(store.storage, name, schema, [part.sort_by(order)], settings.writing)
            if finished is not None:
                yield from references_to(finished, by_leaf)

    return add_written(store, write, message=message, author=author, job_id=job_id, rows_schema=rows_schema)


def add_written(
    store: StateStore,
    write: Callable[[Schema, PartitionTree], Iterable[FileReference]],
    *,
    message: str | None,
    author: str | None,
    job_id: str | None = None,
    rows_schema: Schema | None = None,
) -> Snapshot:
    """Write files by `write`, which yields their references, and add all of them in one commit.

    When anything fails, by error or by interrupt, the files that were written are deleted again: nothing is half-done.
    A crash leaves files that no snapshot names.
    """
    head, state = store.current()
    schema = rows_schema or state.schema
    references: list[FileReference] = []

    def added(now: TableState) -> AddFiles:
        if now.schema != schema and not reads_files_of(schema, now.schema):
            raise StateRuleBroken(
                "the table was given other columns while the rows were written", hint="run the ingest again"
            )
        return AddFiles(tuple(references))

    try:
        for reference in write(schema, state.tree):
            references.append(reference)  # noqa: PERF402 - what an error finds here is deleted
        if not references:
            return head
        return store.commit(added, message=message, author=author, job_id=job_id)
    except OutcomeUnknown:
        raise  # the files may be in the table: they must stay
    except BaseException:
        discard_files(store, dict.fromkeys(reference.filename for reference in references))
        raise


def discard_files(store: StateStore, filenames: Iterable[str]) -> None:
    """Delete data files of work that failed, but none that the table has: an interrupt may have hit a commit that won.

    Where that cannot be told, the files stay; no snapshot names them.
    """
    try:
        tracked = store.load().files if store.catalog.has_table(store.table_id) else None  # else it was deleted
    except SleeperError:
        return
    for filename in filenames:
        if tracked is None or not tracked.knows(filename):
            store.storage.delete(filename)


def write_sorted(
    storage: Storage,
    filename: str,
    schema: Schema,
    batches: Iterable[pa.Table | pa.RecordBatch],
    writing: DataFileSettings = AS_DEFAULT,
) -> DataFile | None:
    """Write sorted rows as one data file; None, and no file, when there are none."""
    with DataFileWriter(storage, filename, schema, writing) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def reference_to(file: DataFile, partition_id: str, *, job_id: str | None = None) -> FileReference:
    """Return the reference of the one partition that all rows of a file belong to."""
    ends = file.min_key, file.max_key
    return FileReference(
        file.filename, partition_id, file.rows, file.bytes, *ends, job_id=job_id, checksum=file.checksum
    )


def references_to(file: DataFile, rows: Mapping[str, int]) -> Iterator[FileReference]:
    """Yield a reference to a file for each partition that has rows of it, with their number.

    All of them have the least and greatest keys of the whole file, by which a reader sees that it must cut the file to
    its partition.
    """
    for partition_id, count in rows.items():
        yield FileReference(
            file.filename,
            partition_id,
            count,
            file.bytes,
            file.min_key,
            file.max_key,
            only_this_partition=len(rows) == 1,
            checksum=file.checksum,
        )


def rows_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> dict[str, int]:
    """Return how many rows each leaf gets; `rows` needs no other columns than the row keys."""
    keys = rows.select([key.name for key in schema.row_keys])
    return {leaf.id: part.num_rows for leaf, part in cut_by_leaf(keys, tree, schema)}


def cut_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> Iterator[tuple[Partition, pa.Table]]:
    """Yield each leaf that gets rows, with those rows in their old order: the tree's splits, a column at a time."""
    waiting: list[tuple[Partition, pa.Table]] = [(tree.root, rows)]
    while waiting:
        node, part = waiting.pop()
        if not part.num_rows:
            continue
        if node.is_leaf:
            yield node, part
            continue
        field = schema.row_keys[node.dimension]
        goes_right = pc.greater_equal(part[field.name], pa.scalar(tree.split_point(node), field.type.arrow))
        left, right = (tree[child] for child in node.child_ids)
        waiting += [(right, part.filter(goes_right)), (left, part.filter(pc.invert(goes_right)))]


# What an ingest would do, found without changing anything: rows, leaves, files, and every difference to the schema.
#
# A Parquet file tells its rows and nulls in its footer, so only its row keys are read, and columns of another type.


@dataclass(frozen=True, slots=True)
class LeafRows:
    """Rows that one leaf gets; `region` is its part of the keys, for people."""

    partition_id: str
    region: str
    rows: int


@dataclass(frozen=True, slots=True, repr=False)
class IngestPlan(Report):
    """What an ingest of some data would do; nothing was changed to know it.

    Parameters
    ----------
    snapshot_id
        The version that it was planned against.
    rows
        Rows of the data.
    leaves
        The leaves that would get rows, in the order of the tree; none when there are differences.
    files
        Data files that would be written.
    through_spark
        Whether Spark would do it; in process otherwise.
    strategy
        ``one_file_per_leaf`` or ``one_reference_per_leaf``.
    differences
        Every way in which the data does not fit the table. A run would raise the first, and add nothing.
    notes
        What would be changed although every value fits: NaN of pandas, which are NULL; and columns that are NULL as the
        data has no values for them.
    """

    snapshot_id: int
    rows: int
    leaves: tuple[LeafRows, ...]
    files: int
    through_spark: bool
    strategy: str
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    prefix: str = ""

    def grid(self) -> Grid:
        """Return the leaves and their rows; where there are differences, those and what to change."""
        if self.differences:
            number = counted(len(self.differences), "difference")
            title = f"ingest: would add nothing, as there {'is' if len(self.differences) == 1 else 'are'} {number}"
            told = tuple((d.column, d.problem, hint_text(d.hint, self.prefix), d.source) for d in self.differences)
            return Grid(("column", "what is wrong", "what to change", "file"), told, title)
        how = "through Spark" if self.through_spark else "in process"
        title = f"ingest: would add {counted(self.rows, 'row')} in {counted(self.files, 'file')}, {how}"
        rows = tuple((leaf.region, leaf.partition_id, leaf.rows) for leaf in self.leaves)
        footer = "; ".join((f"on snapshot {self.snapshot_id}; nothing was changed", *self.notes))
        return Grid(("keys", "partition", "rows"), rows, title, footer)


def plan_ingest(
    state: TableState, sources: Sequence[IngestSource], *, strategy: str, through_spark: bool
) -> IngestPlan:
    """Return what an ingest of files and rows in memory would do.

    Raises
    ------
    InvalidInput
        When the data can be read only once.
    """
    found = [_look(source, state) for source in sources]
    by_leaf = sum((Counter(each.by_leaf) for each in found), Counter[str]())
    differences = tuple(difference for each in found for difference in each.differences)
    rows = sum(each.rows for each in found)
    plan = make_plan(state, rows, by_leaf, differences, strategy=strategy, through_spark=through_spark)
    return replace(plan, notes=tuple(dict.fromkeys(note for each in found for note in each.notes)))


def make_plan(
    state: TableState,
    rows: int,
    by_leaf: Mapping[str, int],
    differences: Iterable[Difference],
    *,
    strategy: str,
    through_spark: bool,
) -> IngestPlan:
    """Return the plan of data whose rows, their leaves and differences are known."""
    told = tuple(differences)
    leaves = () if told else tuple(
        LeafRows(leaf.id, leaf.region.text(state.schema), by_leaf[leaf.id])
        for leaf in state.tree.leaves
        if by_leaf.get(leaf.id)
    )  # fmt: skip
    files = len(leaves) if strategy == ONE_FILE_PER_LEAF else min(1, len(leaves))
    return IngestPlan(state.snapshot_id, rows, leaves, files, through_spark, strategy, told)


@dataclass(frozen=True, slots=True)
class _Look:
    rows: int
    by_leaf: Mapping[str, int]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def _look(source: IngestSource, state: TableState) -> _Look:
    if isinstance(source, SourceFile) and source.format == "parquet":
        found = _look_at_parquet(source, state.schema)
    else:
        if isinstance(source, InMemory) and isinstance(source.data, pa.RecordBatchReader):
            raise InvalidInput("a reader gives its rows only once", hint="try with reader.read_all(), and ingest that")
        found = conformed(source, state.schema)
    by_leaf: Mapping[str, int] = {}
    if not found.differences and found.rows:
        keys = pa.table({key.name: found.columns[key.name] for key in state.schema.row_keys})
        by_leaf = rows_by_leaf(keys, state.tree, state.schema)
    return _Look(found.rows, by_leaf, found.differences, found.notes)


def _look_at_parquet(file: SourceFile, schema: Schema) -> Conformed:
    """Return the row keys and every difference of a Parquet file, whose footer tells most of it."""
    keys = {key.name for key in schema.row_keys}
    columns, found = {}, []
    with open_parquet(file) as opened:
        types = {f.name: f.type for f in opened.schema_arrow}
        found += compare_names(opened.schema_arrow.names, schema, types)
        twice = len(types) < len(opened.schema_arrow.names)
        for field in schema.fields if not twice else ():
            if field.name not in types:
                continue
            nulls = 0 if field.nullable else _nulls(opened.metadata, field)
            if nulls:
                found.append(nulls_refused(field.name, nulls))
            elif field.name in keys or nulls is None or types[field.name] != field.type.arrow:
                cast = compare_column(read_parquet(file, opened, field.name), field)
                if isinstance(cast, Difference):
                    found.append(cast)
                else:
                    columns[field.name] = cast
        rows = opened.metadata.num_rows
        return Conformed(columns, rows, tuple(found), null_notes(types, rows, schema)).of(file.address)


def _nulls(metadata: parquet.FileMetaData, field: Field) -> int | None:
    """Return how many nulls a flat column has, as the footer says; None where it does not say."""
    if pa.types.is_nested(field.type.arrow) or not metadata.num_row_groups:
        return None
    places = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == field.name]
    if not places:
        return None
    nulls = 0
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(places[0]).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
    return nulls


# The one line that stays of a long load: rows, rows a second, and a leaf that got far more than its share. Pure.

TOLD_ROWS = 100_000
"""A smaller load leaves no line: its snapshot says all."""
SKEW = 4
"""A leaf is skewed from so many times its even share on, or from three quarters of all rows."""


def summary(references: Sequence[FileReference], tree: PartitionTree, schema: Schema, seconds: float) -> str:
    """Return the line for the references that a load added; "" when it added few rows."""
    rows = sum(reference.rows for reference in references)
    if rows < TOLD_ROWS:
        return ""
    files = len({reference.filename for reference in references})
    line = f"{counted(rows, 'row')} in {counted(files, 'file')}{rate_text(rows, seconds)}"
    skew = skewed(references, tree, schema)
    return f"{line}; {skew}" if skew else line


def skewed(references: Sequence[FileReference], tree: PartitionTree, schema: Schema) -> str:
    """Return which leaf got far more rows than its share, and what to do; "" when none did."""
    leaves, rows = len(tree.leaves), sum(reference.rows for reference in references)
    most = max(references, key=lambda reference: reference.rows)
    share = most.rows / rows
    if leaves < 2 or share < min(0.75, SKEW / leaves) or most.partition_id not in tree:
        return ""
    return f"leaf {tree[most.partition_id].region.text(schema)} got {share:.0%} of the rows: split it"
