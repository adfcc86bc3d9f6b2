"""Ingest rows in process: cut them by leaf partition, sort and write them, and add the files in one commit.

By default each leaf gets a file of its own, so that a scan of a key opens only the files of one leaf. The property
``sleeper.table.ingest.file.writing.strategy`` can ask instead for one file for all leaves, with a reference from each
leaf that gets rows: fewer files for small, frequent ingests.

The module has three parts: the ingest itself; the plan of an ingest (a dry run: rows, leaves, files, and every
difference between data and schema); and the line that sums up a long ingest.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput, OutcomeUnknown, SleeperError, StateRuleBroken
from sleeper_nb.load.casts import JUDGED
from sleeper_nb.load.conform import (
    Conformed,
    Difference,
    RawColumns,
    column_of_parts,
    compare_names,
    extra_notes,
    grouped,
    no_place,
    notes_of_sources,
    null_notes,
    row_after,
)
from sleeper_nb.load.file_formats import BATCH_ROWS, conformed_batches, open_parquet, with_folder_values
from sleeper_nb.load.lake_tables import LakeTable
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.load_report import IngestPlan, LeafRows, LoadReport
from sleeper_nb.load.row_checks import (
    NOT_JUDGED,
    JudgedRows,
    OpenedChecks,
    RowCheck,
    UniqueKeysOfLoad,
    counted_taken_keys,
    no_rows_judged,
    opened_checks,
)
from sleeper_nb.load.sorted_runs import first_from, in_order, key_order, plain_value, sort_rows
from sleeper_nb.load.source_files import SourceFile, read_errors
from sleeper_nb.load.sources import IngestSource, InMemory, held_against, label_of, read_source
from sleeper_nb.model.evolution import broken_promises, reads_files_of
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.jobs import check_job_id
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.properties import (
    IMPORT_MERGE,
    IMPORT_TASK_BYTES,
    INGEST_STRATEGY,
    ONE_FILE_PER_LEAF,
    TableProperties,
)
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.report import counted, rate_text
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import (
    AS_DEFAULT,
    DataFile,
    DataFileSettings,
    DataFileWriter,
)
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

Made = TypeVar("Made")


def remember_files(store: StateStore, sources: Iterable[object], snapshot_id: int, job_id: str | None = None) -> None:
    """Remember the files among the sources of a load that is done.

    An error is logged only: the rows are loaded, and an error would make the caller load them again.
    """
    ids = [each for each in _ids(sources) if each != job_id]
    if not ids:
        return
    try:
        store.catalog.remember_jobs(store.table_id, ids, snapshot_id)
    except SleeperError as error:
        files = len(ids)
        logger.warning("table %s: a watch would load %d files again: %s", store.table_id, files, error.message)


def _ids(sources: Iterable[object]) -> Iterator[str]:
    """Return the addresses of files, without links above them, as a watch of their folder has them."""
    for each in sources:
        if not isinstance(each, SourceFile) or each.web:
            continue
        path = Path(each.address)
        try:
            yield check_job_id(str(path.parent.resolve() / path.name) if each.storage.local else each.address)
        except InvalidInput:  # a name that no job id can have: a watch refuses the file
            continue


def message_with(message: str | None, note: str) -> str | None:
    """Return the message of a commit with a note in brackets; the note alone when there is no message."""
    return f"{message} ({note})" if message and note else message or note or None


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How an ingest writes rows to files.

    Parameters
    ----------
    strategy
        ``one_file_per_leaf`` or ``one_reference_per_leaf`` (``sleeper.table.ingest.file.writing.strategy``).
    task_bytes
        About how much memory each task of a bulk load takes for rows
        (``sleeper.table.bulk.import.task.memory.bytes``); a leaf with more is written by several, each to a file.
    merge
        Whether a bulk load merges its sorted runs (``sleeper.table.bulk.import.merge``); None for auto.
    """

    strategy: str = ONE_FILE_PER_LEAF
    writing: DataFileSettings = AS_DEFAULT
    task_bytes: int = 256 << 20
    merge: bool | None = None

    @classmethod
    def of(cls, properties: TableProperties) -> IngestSettings:
        strategy, task_bytes, merge = properties.values(INGEST_STRATEGY, IMPORT_TASK_BYTES, IMPORT_MERGE)
        return cls(strategy, DataFileSettings.of(properties), task_bytes, None if merge == "auto" else merge == "true")

    @property
    def file_per_leaf(self) -> bool:
        return self.strategy == ONE_FILE_PER_LEAF


DEFAULT_INGEST = IngestSettings()


def ingest_arrow(
    store: StateStore,
    rows: pa.Table,
    *,
    message: str | None = None,
    author: str | None = None,
    job_id: str | None = None,
    settings: IngestSettings = DEFAULT_INGEST,
    rows_schema: Schema | None = None,
    judged: JudgedRows = NOT_JUDGED,
) -> LoadReport:
    """Add rows to a table; without rows, no snapshot is made.

    Raises `StateRuleBroken` when the table's columns changed meanwhile so that the written files no longer fit.

    Parameters
    ----------
    rows
        Rows with the columns, order and types of `rows_schema`, in any order of keys.
    job_id
        Recorded in the snapshot; a second commit with the same id raises `JobDone`.
    rows_schema
        The schema that the rows were read with, in case the table was altered since; its current schema when None.
    """

    def write(schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        yield from write_rows(store.storage, rows, schema, tree, settings, store.clock.new_id)

    return write_and_commit(
        store,
        write,
        message=message,
        author=author,
        job_id=job_id,
        rows_schema=rows_schema,
        judged=lambda: judged,
    )


def write_rows(
    storage: Storage,
    rows: pa.Table,
    schema: Schema,
    tree: PartitionTree,
    settings: IngestSettings,
    new_id: Callable[[], str],
    begun: Callable[[str], object] = lambda _: None,
) -> Iterator[FileReference]:
    """Cut rows by leaf, sort them, write them to files, and yield the references that the table gets.

    Parameters
    ----------
    rows
        Rows with the columns, order and types of `schema`, in any order of keys.
    new_id
        Returns the name of each file, without its ending; no other writer may use it.
    begun
        Called with each file name before it is written, so that the caller can delete it after an interrupt.
    """
    parts: Iterable[tuple[str, pa.Table, dict[str, int]]]
    if settings.file_per_leaf:
        parts = ((leaf.id, part, {leaf.id: part.num_rows}) for leaf, part in sorted_by_leaf(rows, tree, schema))
    else:
        parts = [(tree.root.id, sort_rows(rows, schema.sort_order), rows_by_leaf(rows, tree, schema))]
    for folder, part, by_leaf in parts:
        name = paths.data_file(folder, new_id())
        begun(name)
        finished = write_sorted(storage, name, schema, [part], settings.writing)
        if finished is not None:
            yield from references_to(finished, by_leaf)


def write_and_commit(
    store: StateStore,
    write: Callable[[Schema, PartitionTree], Iterable[FileReference]],
    *,
    message: str | None,
    author: str | None,
    job_id: str | None = None,
    rows_schema: Schema | None = None,
    tree: PartitionTree | None = None,
    prepare: Callable[[], object] | None = None,
    judged: Callable[[], JudgedRows] = JudgedRows,
) -> LoadReport:
    """Call `write`, which writes data files and yields references to them, and add all of them in one commit.

    After an error or interrupt the files that were written are deleted. Only a crash leaves files, which no
    snapshot references. With `tree`, files are written for other partitions, which `prepare` gives the table once they
    are written. `judged` is called when they are: it returns how many of the rows break each expectation.

    Raises `StateRuleBroken` when the table's columns changed meanwhile so that the written files no longer fit.
    """
    head, state = store.current()
    schema = rows_schema or state.schema

    def add_files(references: tuple[FileReference, ...]) -> LoadReport:
        if not references:
            return LoadReport.of_no_rows(head)
        files = AddFiles(references)
        unique = UniqueKeysOfLoad(store.storage, store.clock, files) if schema.unique_keys else None
        if unique is not None:  # before the table gets other partitions: bad input changes nothing
            unique.check(state if tree is None else replace(state, tree=tree))

        def change(newest: TableState) -> AddFiles:
            check_still_fits(schema, newest.schema)
            if unique is not None:
                unique.check(newest)
            return files

        if prepare is not None:
            prepare()
        broken = judged()
        made = store.commit(change, message=message, author=author, job_id=job_id, expectations=broken.text)
        return LoadReport.of(made).noted(*broken.notes)

    return committed(store, write(schema, tree or state.tree), add_files)


def check_still_fits(schema: Schema, newest: Schema) -> None:
    """Raise `StateRuleBroken` when rows that were written for a schema do not fit, or were not checked for, another."""
    if newest != schema and not reads_files_of(schema, newest):
        raise StateRuleBroken(
            "the table's columns were changed while the rows were written", hint="run the ingest again"
        )
    if new := broken_promises(schema, newest):
        raise StateRuleBroken(f"the table was given {new[0]} while the rows were written", hint="run the ingest again")


def committed(
    store: StateStore,
    files: Iterable[FileReference],
    commit: Callable[[tuple[FileReference, ...]], Made],
) -> Made:
    """Write files, by iterating over the references to them, and make them part of a table with `commit`.

    After an error or interrupt the files that were written are deleted. Only a crash leaves files, which no
    snapshot references.
    """
    references: list[FileReference] = []
    try:
        for reference in files:
            references.append(reference)  # noqa: PERF402 - after an error, the files listed so far are deleted
        return commit(tuple(references))
    except OutcomeUnknown:
        logger.warning(
            "load into table %s: the outcome of the commit is unknown; its %d file references stay",
            store.table_id, len(references),
        )  # fmt: skip
        raise  # the commit may have won: the files must stay
    except BaseException as error:
        logger.info("load into table %s ended by %s; deleting its files", store.table_id, type(error).__name__)
        discard_files(store, dict.fromkeys(reference.filename for reference in references))
        raise


def discard_files(store: StateStore, filenames: Iterable[str]) -> None:
    """Delete data files of work that failed, except those that the table references: the commit may have won.

    A file stays, referenced by no snapshot, when it cannot be deleted or when the table's state cannot be read: that is
    never raised, as what failed before is to be told, or that a commit is done.
    """
    filenames = list(filenames)
    if not filenames:
        return
    try:
        tracked = store.load().files if store.catalog.has_table(store.table_id) else None  # None: table was deleted
    except SleeperError as error:
        logger.warning(
            "table %s: cannot delete the %d files of failed work: %s", store.table_id, len(filenames), error.message
        )
        return
    for filename in filenames:
        if tracked is None or not tracked.knows(filename):
            try:
                store.storage.delete(filename)
            except SleeperError as error:
                logger.warning("table %s: cannot delete %s of failed work: %s", store.table_id, filename, error.message)


def discard_run(store: StateStore, run_id: str, folders: Iterable[str], *, keep: Iterable[str]) -> None:
    """Delete the files that tasks of a run wrote to some folders, except those to keep and those that the table has.

    The names of a run's files begin with its id. Errors are as of `discard_files`.
    """
    try:
        written = [f.path for folder in folders for f in store.storage.list(folder) if f"/{run_id}-" in f.path]
    except SleeperError as error:
        logger.warning(
            "table %s: cannot list files of failed tasks (%s); some may remain", store.table_id, error.message
        )
        return
    if unused := set(written) - set(keep):
        logger.info("deletes %d files of failed or repeated tasks of table %s", len(unused), store.table_id)
        discard_files(store, unused)


def write_sorted(
    storage: Storage,
    filename: str,
    schema: Schema,
    batches: Iterable[pa.Table | pa.RecordBatch],
    writing: DataFileSettings = AS_DEFAULT,
) -> DataFile | None:
    """Write sorted rows to one data file and return its description; without rows, write none and return None."""
    with DataFileWriter(storage, filename, schema, writing) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def reference_to(file: DataFile, partition_id: str, *, job_id: str | None = None) -> FileReference:
    ends = file.min_key, file.max_key
    return FileReference(
        *(file.filename, partition_id, file.rows, file.bytes, *ends),
        job_id=job_id,
        checksum=file.checksum,
        statistics=file.statistics,
    )


def references_to(file: DataFile, rows: Mapping[str, int]) -> Iterator[FileReference]:
    """Yield a reference to a file for each partition that has rows in it; `rows` maps partition ids to row counts.

    Each reference records the minimum and maximum keys of the whole file: from these, a reader knows that it must
    filter the file by the partition's region.
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
            statistics=file.statistics,
        )


def rows_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> dict[str, int]:
    """Return the number of rows for each leaf that gets any; `rows` needs only the row key columns."""
    keys = rows.select([key.name for key in schema.row_keys])
    return {leaf.id: part.num_rows for leaf, part in cut_by_leaf(keys, tree, schema)}


def sorted_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> Iterator[tuple[Partition, pa.Table]]:
    """Yield each leaf that gets rows with those rows, in key order.

    Where leaves are ranges of the first row key, all rows are sorted at once, and the leaves are slices of them.
    """
    is_by_first_key = all(node.is_leaf or node.dimension == 0 for node in tree.partitions)
    rows = rows.combine_chunks()
    order = key_order(rows, schema.sort_order) if is_by_first_key else None
    if order is None:
        for leaf, part in cut_by_leaf(rows, tree, schema):
            yield leaf, sort_rows(part, schema.sort_order)
        return
    rows, begin, first = in_order(rows, order), 0, schema.row_keys[0]
    for leaf in tree.leaves:
        end, limit = rows.num_rows, leaf.region.ranges[0].max
        if limit is not None:
            end = first_from(rows, [first.name], (plain_value(pa.scalar(limit, first.type.arrow)),), begin)
        if end > begin:
            yield leaf, rows.slice(begin, end - begin)
        begin = end


def cut_by_leaf(rows: pa.Table, tree: PartitionTree, schema: Schema) -> Iterator[tuple[Partition, pa.Table]]:
    """Yield each leaf that gets rows with those rows, in their original order.

    Walks down the partition tree and compares one whole column at each split.
    """
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


def leaf_rows(state: TableState, by_leaf: Mapping[str, int]) -> tuple[LeafRows, ...]:
    return tuple(
        LeafRows(leaf.id, leaf.region.text(state.schema), by_leaf[leaf.id])
        for leaf in state.tree.leaves
        if by_leaf.get(leaf.id)
    )


def plan_ingest(
    state: TableState,
    storage: Storage,
    sources: Sequence[IngestSource],
    *,
    strategy: str,
    through_spark: bool,
    matching: Matching = EXACT,
    checks: Sequence[RowCheck] = (),
) -> IngestPlan:
    """Return what an ingest of files and rows in memory would do, without changing anything.

    Of a Parquet file only the row keys are read, and columns whose values may not fit; all of it where the table has
    CHECKs. Where row keys are unique, they are compared with
    each other, and with those of the table's files in which they may be.

    Raises `InvalidInput` when the data can be read only once.
    """
    with opened_checks(checks) as opened:
        inspected = [_inspect(source, state, matching, opened) for source in sources]
    by_leaf: Counter[str] = Counter()
    for each in inspected:
        by_leaf.update(each.by_leaf)
    differences = grouped(difference for each in inspected for difference in each.differences)
    differences = differences or tuple(_taken_keys(inspected, state, storage))
    rows = sum(each.rows for each in inspected)
    plan = plan_of_counts(state, rows, by_leaf, differences, strategy=strategy, through_spark=through_spark)
    shared, of_some = notes_of_sources((each.label, each.notes) for each in inspected)
    judged = reduce(JudgedRows.plus, (each.judged for each in inspected), no_rows_judged(checks))
    return replace(plan, notes=(*shared, *of_some), broken=tuple(judged.broken.values()))


def plan_of_counts(
    state: TableState,
    rows: int,
    by_leaf: Mapping[str, int],
    differences: Iterable[Difference],
    *,
    strategy: str,
    through_spark: bool,
) -> IngestPlan:
    differences = tuple(differences)
    leaves = () if differences else leaf_rows(state, by_leaf)
    files = len(leaves) if strategy == ONE_FILE_PER_LEAF else min(1, len(leaves))
    return IngestPlan(state.snapshot_id, rows, leaves, files, through_spark, strategy, differences)


@dataclass(frozen=True, slots=True)
class _Inspected:
    """What a plan needs of a source: its row keys when they fit, and how its rows are named."""

    rows: int
    keys: pa.Table | None
    by_leaf: Mapping[str, int]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    place: Callable[[int], str]
    label: str
    judged: JudgedRows


def _taken_keys(inspected: Sequence[_Inspected], state: TableState, storage: Storage) -> Iterator[Difference]:
    """Yield a difference for the row keys that occur twice in some sources, and for those that the table has."""
    parts = [each for each in inspected if each.keys is not None]
    if not parts or not state.schema.unique_keys:
        return
    starts = np.cumsum([0, *(each.rows for each in parts)])
    for found in counted_taken_keys(pa.concat_tables([each.keys for each in parts]), state, storage):
        number = int(np.searchsorted(starts, found.row, "right")) - 1
        place = parts[number].place(found.row - int(starts[number]))
        yield replace(found.difference, place=place, source=parts[number].label)


def _inspect(source: IngestSource, state: TableState, matching: Matching, checks: OpenedChecks) -> _Inspected:
    judged = JudgedRows()
    if isinstance(source, SourceFile) and source.format == "parquet" and not checks.filters:
        conformed = _inspect_parquet(source, state.schema, matching)
    elif isinstance(source, LakeTable) and not checks.filters:
        conformed = _inspect_lake(source, state.schema, matching)
    else:
        if isinstance(source, InMemory) and isinstance(source.data, pa.RecordBatchReader):
            raise InvalidInput(
                "a RecordBatchReader can be read only once, so it cannot be planned",
                hint="use reader.read_all(), and ingest the table that it returns",
            )
        read = read_source(source, state.schema, matching)
        conformed, judged = held_against(source, read, state.schema, checks)
    keys, by_leaf = None, dict[str, int]()
    if not conformed.differences and conformed.rows:
        keys = pa.table({key.name: conformed.columns[key.name] for key in state.schema.row_keys})
        by_leaf = rows_by_leaf(keys, state.tree, state.schema)
    label = label_of(source)
    found = conformed.differences
    return _Inspected(conformed.rows, keys, by_leaf, found, conformed.notes, conformed.place, label, judged)


def _inspect_lake(table: LakeTable, schema: Schema, matching: Matching) -> Conformed:
    """Return the row keys and every difference of a table of another format, a batch of which is held at a time."""
    chunks: dict[str, list[pa.Array]] = {key.name: [] for key in schema.row_keys}
    found: list[Difference] = []
    rows, notes = 0, tuple[str, ...]()
    for part in conformed_batches(table, schema, table.all_batches(), matching):
        known = {each.column for each in found if not each.values}
        found += [each for each in part.differences if each.column not in known]
        rows, notes = rows + part.rows, part.notes
        for name, values in chunks.items():
            values.extend(part.columns[name].chunks if name in part.columns else ())
    row_keys = {key.name: pa.chunked_array(chunks[key.name], key.type.arrow) for key in schema.row_keys}
    return Conformed(row_keys, rows, grouped(found), notes, no_place)


def _inspect_parquet(file: SourceFile, schema: Schema, matching: Matching) -> Conformed:
    """Return the row keys and every difference of a Parquet file, of which only columns that may differ are read."""
    keys, order = {key.name for key in schema.row_keys}, {name: place for place, name in enumerate(schema.names)}
    chunks: dict[str, list[pa.Array]] = {name: [] for name in order if name in keys}
    with open_parquet(file) as opened, read_errors(file):
        given, rows = opened.schema_arrow, opened.metadata.num_rows
        names = matching.names(given.names, schema)
        types = dict(zip(names, given.types, strict=True))
        own = dict(zip(names, given.names, strict=True))
        read = {
            f.name: own[f.name] for f in schema.fields if f.name in own and _may_differ(f, types[f.name], file, schema)
        }
        whole = with_folder_values(RawColumns(names, {}, 0), file, schema, matching)
        extra = matching.left_out(whole.names, schema)
        kept = [name for name in whole.names if name not in extra]
        found, start = compare_names(kept, schema, types, matching), 0
        batches = opened.iter_batches(BATCH_ROWS, columns=list(read.values()))
        for batch in batches if len(types) == len(names) else ():  # a name that occurs twice is wrong anyway
            of_batch = {name: pa.chunked_array([batch[column]]) for name, column in read.items()}
            part = RawColumns(names, of_batch, batch.num_rows, place=partial(row_after, start))
            part = with_folder_values(part, file, schema, matching)
            wrong = {each.column for each in part.differences}
            for each in schema.fields:
                if each.name in part.columns or each.name in wrong:
                    column = column_of_parts([part], each, matching, is_row_key=each.name in keys)
                    if isinstance(column, Difference):
                        found.append(column)
                    elif each.name in keys:
                        chunks[each.name] += column[0].chunks
            start += batch.num_rows
    found.sort(key=lambda each: order.get(each.column, -1) if each.values else -1)
    notes = (*whole.notes.values(), *extra_notes(extra), *null_notes(kept, rows, schema))
    row_keys = {key.name: pa.chunked_array(chunks[key.name], key.type.arrow) for key in schema.row_keys}
    return Conformed(row_keys, rows, grouped(found), notes).of(file.label)


def _may_differ(field: Field, kind: pa.DataType, file: SourceFile, schema: Schema) -> bool:
    """Return whether values of a column may not fit: its type alone does not tell, or a folder has another value."""
    is_sure = field.nullable and kind == field.type.arrow and not field.type.holds(*JUDGED)
    return not is_sure or field in schema.row_keys or any(each.name == field.name for each in file.folder_values)


SUMMARY_ROWS = 100_000
"""Smaller loads print no summary: their snapshot is enough."""
SKEW = 4
"""A leaf is skewed when it gets this many times its even share, or three quarters of all rows."""


def load_summary(references: Sequence[FileReference], tree: PartitionTree, schema: Schema, seconds: float) -> str:
    """Return the line that sums up a load: rows, rows per second, and a skewed leaf; "" for few rows."""
    rows = sum(reference.rows for reference in references)
    if rows < SUMMARY_ROWS:
        return ""
    files = len({reference.filename for reference in references})
    line = f"{counted(rows, 'row')} in {counted(files, 'file')}{rate_text(rows, seconds)}"
    skew = skew_note(references, tree, schema)
    return f"{line}; {skew}" if skew else line


def skew_note(references: Sequence[FileReference], tree: PartitionTree, schema: Schema) -> str:
    """Return which leaf got far more rows than its share, and what to do; "" if none did."""
    leaves, rows = len(tree.leaves), sum(reference.rows for reference in references)
    largest = max(references, key=lambda reference: reference.rows)
    share = largest.rows / rows
    if leaves < 2 or share < min(0.75, SKEW / leaves) or largest.partition_id not in tree:
        return ""
    return f"leaf {tree[largest.partition_id].region.text(schema)} got {share:.0%} of the rows: split it"
