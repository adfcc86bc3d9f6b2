"""The rules that the catalog's rows, the state of a version and data files must obey. Part of a check."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.errors import NetworkError, SleeperError, first_line
from sleeper_nb.maintain.findings import CheckedVersion, Suspicion, key_of
from sleeper_nb.model.file_reference import FileReference, data_files
from sleeper_nb.model.keys import key_text
from sleeper_nb.model.partitions import PartitionTree, Region
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema, is_utf8
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import Progress
from sleeper_nb.read.live_rows import positions_of
from sleeper_nb.storage.data_files import SortedKeys
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import CHANGED, DAMAGED, damaged, is_as_recorded
from sleeper_nb.storage.paths import is_foreign


def catalog_faults(rows: CatalogRows) -> Iterator[Suspicion]:
    """Yield which rows of the catalog were changed, are missing or contradict each other."""
    means = "the version cannot be read, or is read wrongly: restore the catalog from a copy"
    versions: list[CheckedVersion] = [*rows.snapshots, *rows.savepoints]
    decoded = {key_of(version) for version in versions}
    for row in rows.damaged:
        key = row.kind, row.id
        yield Suspicion("catalog row", row.error, means, key if key in decoded else None)
    oldest_first = rows.snapshots[::-1]
    yield from _sequence_faults(oldest_first)
    yield from _current_faults(oldest_first, rows.current, rows.current_commit)


def _sequence_faults(oldest_first: Sequence[Snapshot]) -> Iterator[Suspicion]:
    for before, after in pairwise(oldest_first):
        if after.id != before.id + 1:
            missing = f"{before.id + 1}–{after.id - 1}" if after.id > before.id + 2 else f"{before.id + 1}"
            yield Suspicion("history", f"no snapshot {missing}", "those versions can no longer be read")
        if after.time <= before.time:
            means = "a timestamp may resolve to a version that was not current then"
            yield Suspicion("time", f"snapshot {after.id} is not later than {before.id}", means, key_of(after))


def _current_faults(
    oldest_first: Sequence[Snapshot], current: int | None, current_commit: str | None
) -> Iterator[Suspicion]:
    if current is None:
        yield Suspicion("current", "the current snapshot is not in the catalog", "the table can no longer be used")
        return
    if current not in {snapshot.id for snapshot in oldest_first}:
        means = "the table and its history disagree"
        yield Suspicion("current", f"snapshot {current} is current but not retained", means)
    means = "the table cannot be used until its row in the catalog is restored: a newer version would be hidden"
    if oldest_first and oldest_first[-1].id > current:
        what = f"snapshot {oldest_first[-1].id} is newer than the current one, {current}"
        yield Suspicion("current", what, means)
    for snapshot in oldest_first:
        if snapshot.id == current and snapshot.commit_id != current_commit:
            what = f"the current snapshot {current} has commit {snapshot.commit_id}, the table's row {current_commit}"
            yield Suspicion("current", what, means)


def state_faults(state: TableState, version: CheckedVersion) -> Iterator[Suspicion]:
    """Yield which rules the state of a version breaks.

    Parameters
    ----------
    state, version
        The version as its metadata was read, and as the catalog records it.
    """
    active = state.files.active
    files, size = data_files(active)
    tree_fault = _tree_fault(state)
    if tree_fault is not None:
        means = "keys may belong to no leaf, or to two: do not write to the table"
        yield Suspicion("partitions", tree_fault, means, key_of(version))
    elif active.num_rows:  # with a broken tree, every reference would look wrong
        faults = [*_partition_faults(state)]
        if files < active.num_rows:
            faults += _shared_file_faults(state)
        faults += _region_faults(state)
        yield from (Suspicion("reference", what, means, key_of(version)) for what, means in faults)
    yield from _total_faults(state, version, files, size)


def _total_faults(state: TableState, version: CheckedVersion, files: int, size: int) -> Iterator[Suspicion]:
    references, rows, size_of_references = state.files.totals
    if isinstance(version, Savepoint):
        totals = [("rows", version.record_count, rows)]
    elif version.references is None:  # an earlier build counted each reference as a file
        totals = [("rows", version.rows, rows), ("files", version.files, references)]
        totals += [("bytes", version.bytes, size_of_references)]
    else:
        totals = [("rows", version.rows, rows), ("files", version.files, files), ("bytes", version.bytes, size)]
        totals += [("references", version.references, references)]
    for name, recorded, actual in totals:
        if recorded != actual:
            what = f"the catalog says {recorded:,} {name}, its references have {actual:,}"
            means = "history and status do not show what a scan reads"
            yield Suspicion("totals", what, means, key_of(version))


def _tree_fault(state: TableState) -> str | None:
    tree = state.tree
    try:
        if not tree.partitions or tree.root.region != Region.whole(state.schema):
            return "the root does not hold every key"
        tree.check()
        reached = _below_root(tree)
    except (SleeperError, ValueError, TypeError) as error:
        return error.message if isinstance(error, SleeperError) else str(error)
    counts = Counter(reached)
    strays = [p.id for p in tree.partitions if counts[p.id] != 1]
    return f"partition {strays[0]} is in the tree {counts[strays[0]]} times" if strays else None


def _below_root(tree: PartitionTree) -> list[str]:
    """Return the ids that the root reaches, as often as it does; cut off soon after a circle."""
    reached: list[str] = []
    waiting = [tree.root]
    while waiting and len(reached) <= len(tree.partitions):
        node = waiting.pop()
        reached.append(node.id)
        waiting += [tree[child] for child in node.child_ids]
    return reached


def _partition_faults(state: TableState) -> Iterator[tuple[str, str]]:
    known = pa.array([p.id for p in state.tree.partitions], pa.string())
    owners = state.files.active["partition_id"]
    for name in pc.unique(owners.filter(pc.invert(pc.is_in(owners, known)))).to_pylist():
        yield f"files feed partition {name}, which is not in the tree", "their rows are not found"


def _shared_file_faults(state: TableState) -> Iterator[tuple[str, str]]:
    active = state.files.active
    counts = active.group_by("filename").aggregate([("partition_id", "count")])
    shared = counts["filename"].filter(pc.greater(counts["partition_id_count"], 1))
    rows = active.filter(pc.is_in(active["filename"], shared)).select(["filename", "partition_id"])
    uses: dict[str, list[str]] = defaultdict(list)
    for row in rows.to_pylist():
        uses[row["filename"]].append(row["partition_id"])
    for filename, partitions in uses.items():
        inside = [name for name in partitions if name in state.tree]
        above = {p.id for name in inside for p in state.tree.ancestors(name)}
        if len(set(partitions)) < len(partitions) or above.intersection(inside):
            yield f"{filename} feeds a partition twice, or also one above it", "its rows are read twice"


def _region_faults(state: TableState) -> Iterator[tuple[str, str]]:
    active = state.files.active
    ids = pa.array([p.id for p in state.tree.partitions], pa.string())
    places = pc.index_in(active["partition_id"], ids).combine_chunks()
    whole = pc.and_(active["only_this_partition"], pc.greater(active["rows"], 0))
    wrong: Any = None
    for i, field in enumerate(state.schema.row_keys):
        ends = [p.region.ranges[i] for p in state.tree.partitions]
        low = pa.array([r.min for r in ends], field.type.arrow).take(places)
        high = pa.array([r.max for r in ends], field.type.arrow).take(places)
        for outside in (
            pc.less(active[f"min_{field.name}"], low),
            pc.greater_equal(active[f"max_{field.name}"], high),
            pc.greater(active[f"min_{field.name}"], active[f"max_{field.name}"]),
        ):
            wrong = outside if wrong is None else pc.or_kleene(wrong, outside)  # null: the range has no such end
    outside_files = active.filter(pc.and_(pc.fill_null(wrong, fill_value=False), whole))
    for row in outside_files.select(["filename", "partition_id"]).to_pylist():
        what = f"the keys of {row['filename']} are not all in partition {row['partition_id']}"
        yield what, "a query for those keys misses its rows"


# Data files: their rows, order and keys, which are read, against what the metadata records.

VECTOR: Final = "deletion vector"
"""The kind of findings about the file of a deletion vector."""
LOST_VECTOR: Final = (
    "it is not known which rows are deleted: restore it from a copy, or roll back to a version without it"
)


@dataclass(frozen=True, slots=True)
class DataUse:
    """A reference of a partition to a data file, with the region and the schema to compare the file with."""

    reference: FileReference
    region: Region
    schema: Schema

    @property
    def filename(self) -> str:
        return self.reference.filename


def find_data_faults(
    storage: Storage, uses: Sequence[DataUse], progress: Progress, damaged_files: Collection[str] = ()
) -> Iterator[Suspicion]:
    """Read each data file and its deletion vectors once, and yield what is wrong with them.

    Nothing is yielded for `damaged_files`, which were reported before.
    """
    by_file: dict[str, list[DataUse]] = defaultdict(list)
    for use in uses:
        if use.filename not in damaged_files:
            by_file[use.filename].append(use)
    for i, (filename, of_file) in enumerate(by_file.items()):
        progress.update("reading data files", i, len(by_file))
        try:
            if not _is_as_written(storage, filename, of_file):
                what = f"{filename} {CHANGED if is_foreign(filename) else DAMAGED}"
                yield Suspicion("data file", what, "its rows may be wrong, or lost", filename=filename)
                continue
            keys, bad_texts = _read_through(storage, filename, of_file[0].schema)
        except NetworkError:
            raise  # this says nothing about the file
        except Exception as error:  # noqa: BLE001 - a damaged file can raise anything when it is read
            why = getattr(error, "message", None) or first_line(error)
            what = f"{filename} cannot be read: {why}"
            yield Suspicion("data file", what, "its rows are lost", filename=filename)
            continue
        yield from _vector_faults(storage, of_file, keys.rows, damaged_files)
        for name in bad_texts:
            what = f"{filename} has text that is not UTF-8 in column {name!r}"
            means = "queries of that column fail: roll back to a version without this file, and ingest its rows again"
            yield Suspicion("data file", what, means, filename=filename)
        for what, means in dict.fromkeys(_key_faults(keys, of_file)):
            yield Suspicion("data file", f"{filename} {what}", means, filename=filename)


def _is_as_written(storage: Storage, filename: str, uses: Sequence[DataUse]) -> bool:
    """Return whether a file has the checksum that its references record; True for files of releases without one."""
    recorded = {use.reference.checksum for use in uses}
    return all(is_as_recorded(storage, filename, each) for each in recorded if each is not None)


def _read_through(storage: Storage, filename: str, schema: Schema) -> tuple[SortedKeys, list[str]]:
    keys, columns = SortedKeys(schema), pa.schema([schema.arrow.field(name) for name in schema.sort_order])
    bad_texts: list[str] = []
    with storage.input(filename) as stream, pq.ParquetFile(stream, page_checksum_verification=True) as file:
        for batch in file.iter_batches():
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if name not in bad_texts and not is_utf8(column):
                    bad_texts.append(name)
            keys.see(pa.Table.from_batches([batch]).select(schema.sort_order).cast(columns))
        if keys.rows != file.metadata.num_rows:
            raise pa.ArrowInvalid(f"its footer says {file.metadata.num_rows:,} rows, it has {keys.rows:,}")
    return keys, bad_texts


def _vector_faults(
    storage: Storage, uses: Sequence[DataUse], rows: int, damaged_files: Collection[str]
) -> Iterator[Suspicion]:
    for vector in {use.reference.deletions for use in uses}:
        if vector is None or vector.filename in damaged_files:
            continue
        try:
            positions = positions_of(vector, storage)
            if len(positions) and not 0 <= positions[0] <= positions[-1] < rows:
                raise damaged(storage, vector.filename)
        except NetworkError:
            raise  # this says nothing about the file
        except SleeperError as error:
            what = f"{vector.filename} cannot be read: {error.message}"
            yield Suspicion(VECTOR, what, LOST_VECTOR, filename=vector.filename)


def _key_faults(keys: SortedKeys, uses: Sequence[DataUse]) -> Iterator[tuple[str, str]]:
    if not keys.in_order:
        order = ", ".join(uses[0].schema.sort_order)
        yield f"is not sorted by {order}", "scans and compactions may return rows in the wrong order, or miss some"
    for use in uses:
        reference = use.reference
        is_whole = reference.only_this_partition
        deleted = 0 if reference.deletions is None else reference.deletions.rows
        if is_whole and reference.rows_exact and reference.rows + deleted != keys.rows:
            yield f"has {keys.rows:,} rows, not {reference.rows + deleted:,}", "counts differ from what a scan reads"
        if not is_whole and reference.rows > keys.rows:
            yield f"has {keys.rows:,} rows, fewer than {reference.rows:,}", "counts differ from what a scan reads"
        for i, column in enumerate(use.schema.row_keys):
            low, high = keys.least[i], keys.greatest[i]
            if low is None or high is None:
                continue
            actual = f"has {column.name} {key_text(low)} to {key_text(high)}"
            allowed = use.region.ranges[i]
            if is_whole and not (low in allowed and high in allowed):
                yield f"{actual}, outside its partition's {allowed}", "a query for those keys misses its rows"
            elif low < reference.min_key[i] or high > reference.max_key[i]:
                recorded = f"{key_text(reference.min_key[i])} to {key_text(reference.max_key[i])}"
                yield f"{actual}, recorded as {recorded}", "a query for those keys may miss its rows"
