"""Every change to a table as a value that checks its rules against a state and returns the next state.

All rules are here, so all state stores follow the same ones. `validate` raises and changes nothing; `apply` assumes
that `validate` passed on the same state. A store that loses a conditional update loads the newer state and calls both
again.

The end of the module writes transactions as entries of the transaction log, and reads them.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import (
    CHOOSE_RETAINED,
    DEEP_CHECK,
    Action,
    AlreadyExists,
    InvalidInput,
    StateRuleBroken,
    StorageError,
)
from sleeper_nb.model.checksums import DIGITS, checksum_of
from sleeper_nb.model.deletions import DELETION_FILE, DeletionVector
from sleeper_nb.model.file_reference import PAIR, FileReference, key_ranges
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.keys import KeyValue, key_from_json, key_to_json
from sleeper_nb.model.partitions import Partition, PartitionSplit, PartitionTree, Range, Region
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.snapshots import from_micros, to_micros
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.statistics import ColumnStatistics


@dataclass(frozen=True, slots=True)
class Transaction(ABC):
    """A change to one table.

    `in_log` is the kind of its entry in the transaction log: entries that were written have it, so it never changes,
    and neither do the names of fields.
    """

    in_log: ClassVar[str]

    @property
    @abstractmethod
    def operation(self) -> str:
        """The operation that history shows."""

    def validate(self, state: TableState) -> None:  # noqa: B027 - some changes are always allowed
        """Raise `StateRuleBroken` when the change is not allowed in `state`."""

    @abstractmethod
    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        """Return the state after the change."""


def initial_state(
    schema: Schema,
    tree: PartitionTree,
    point: CommitPoint,
    processing: str | None = None,
    references: tuple[FileReference, ...] = (),
) -> TableState:
    """Return the first state of a table: its partitions, and the files that it is created with."""
    tree.check()
    empty = TableState(point.snapshot_id, 1, schema, tree, FileReferences.none(schema), schema.checksum, processing)
    if not references:
        return empty
    add = AddFiles(references)
    add.validate(empty)
    return add.apply(empty, point)


@dataclass(frozen=True, slots=True)
class AddFiles(Transaction):
    """Adds data files, each referenced by the partitions that contain its rows."""

    references: tuple[FileReference, ...]
    operation: ClassVar[str] = "ingest"
    in_log: ClassVar[str] = "AddFiles"

    def validate(self, state: TableState) -> None:
        """Each file is new, its partition is a leaf, and its keys are inside that leaf's region."""
        if len({(r.filename, r.partition_id) for r in self.references}) < len(self.references):
            raise StateRuleBroken("a file is added to one partition twice", hint="add it once")
        _check_new(self.references, state)
        for reference in self.references:
            name = reference.partition_id
            if name not in state.tree or not state.tree[name].is_leaf:
                changed = "was split" if name in state.tree else "was removed by a rollback or reinitialisation"
                raise StateRuleBroken(
                    f"partition {name!r} {changed} while {reference.filename} was written",
                    hint="run the ingest again",
                )
        _check_regions(self.references, state.tree)

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        return state.at(point, files=state.files.with_added(self.references, point.snapshot_id, point.time))


@dataclass(frozen=True, slots=True)
class ReplaceFileReferences(Transaction):
    """A finished compaction: replaces one partition's references to its inputs by one reference to its output."""

    job_id: str  # the compaction job
    partition_id: str  # the partition that was compacted
    inputs: tuple[str, ...]  # the names of the files that were read
    output: FileReference | None  # the file that was written; None when no rows remained
    deletions: tuple[str, ...] = ()  # the names of the inputs' deletion vectors, whose rows the output lacks
    operation: ClassVar[str] = "compact"
    in_log: ClassVar[str] = "ReplaceFileReferences"

    def validate(self, state: TableState) -> None:
        """Each input is still active in the partition with the same rows; the output is new and of that partition."""
        held = state.files.active_in({self.partition_id}, self.inputs)
        active = {reference.filename: reference for reference in held}
        if missing := [name for name in self.inputs if name not in active]:
            raise StateRuleBroken(
                f"compaction job {self.job_id} lost its input {missing[0]}: it is no longer in its partition",
                hint="another compaction was first; no data is lost; compact again if there are files to merge",
            )
        deleted = {name for each in self.inputs for name in active[each].filenames[1:]}
        if deleted != {*self.deletions}:
            raise StateRuleBroken(
                f"compaction job {self.job_id} came too late: rows of its inputs were changed meanwhile",
                hint="no data is lost; compact again",
            )
        if self.output is not None:
            _check_new([self.output], state)
            _check_regions([self.output], state.tree)
            if self.output.partition_id != self.partition_id:
                raise StateRuleBroken(f"compaction job {self.job_id} wrote its output for another partition")

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        files = state.files.with_removed(self.inputs, self.partition_id, point.snapshot_id, point.time)
        added = [] if self.output is None else [self.output]
        return state.at(point, files=files.with_added(added, point.snapshot_id, point.time))


@dataclass(frozen=True, slots=True)
class ReplacedReference:
    """A reference that a change of rows replaces: the rows that it gave, when the change was computed.

    `deletions` is the name of its deletion vector; None for none.
    """

    partition_id: str
    filename: str
    deletions: str | None


@dataclass(frozen=True, slots=True)
class EditCounts:
    """How many rows a change inserted, updated and deleted; an updated row counts once."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def net(self) -> int:
        """How many more rows the table has after the change; negative for fewer."""
        return self.inserted - self.deleted


@dataclass(frozen=True, slots=True)
class EditRows(Transaction):
    """Deletes, updates and inserts rows in one snapshot, as computed on an older one."""

    kind: str  # ``delete``, ``update``, ``upsert``, ``merge``, ``overwrite``
    since: int  # the snapshot on which the change was computed
    replaced: tuple[ReplacedReference, ...]  # the references whose rows changed
    # the same files with other deletion vectors, files written in the place of others, and files with new rows
    references: tuple[FileReference, ...]
    # where the change depends on which rows there are: rows that others added there since break its rules
    watched: tuple[Region, ...]
    counts: EditCounts
    in_log: ClassVar[str] = "ChangeRows"

    @property
    def operation(self) -> str:
        return self.kind

    def validate(self, state: TableState) -> None:
        """Each replaced reference still gives the same rows; no row was added that the change should have seen."""
        before = self._found_in(state)
        same = {(each.partition_id, each.filename): each for each in self.replaced}
        for each in self.references:
            self._check_partition(each, state, same)
        _check_new([each for each in self.references if (each.partition_id, each.filename) not in same], state)
        vectors = [each.deletions.filename for each in self.references if each.deletions is not None]
        if vectors and state.files.knows(*vectors):
            raise AlreadyExists(f"a deletion vector of {len(vectors)} is already in the table")
        _check_regions(self.references, state.tree)
        self._check_watched(state)
        after = sum(each.rows for each in self.references)
        if after != sum(each.rows for each in before) + self.counts.net:
            raise StateRuleBroken(
                f"the change would leave {after:,} rows where {sum(each.rows for each in before):,} were, "
                f"with {self.counts.inserted:,} inserted and {self.counts.deleted:,} deleted",
                hint="this is a bug: nothing was changed; report it",
            )

    def _found_in(self, state: TableState) -> list[FileReference]:
        owners, names = ({each.partition_id for each in self.replaced}, {each.filename for each in self.replaced})
        active = {(each.partition_id, each.filename): each for each in state.files.active_in(owners, names)}
        found = []
        for each in self.replaced:
            held = active.get((each.partition_id, each.filename))
            if held is None or held.filenames[1:] != (() if each.deletions is None else (each.deletions,)):
                raise StateRuleBroken(
                    f"rows of {each.filename} were changed or compacted in the meantime", hint="run it again"
                )
            found.append(held)
        return found

    def _check_partition(self, reference: FileReference, state: TableState, same: Collection[tuple[str, str]]) -> None:
        name = reference.partition_id
        is_there = name in state.tree and (state.tree[name].is_leaf or (name, reference.filename) in same)
        if not is_there:
            raise StateRuleBroken(f"partition {name!r} was split or replaced in the meantime", hint="run it again")

    def _check_watched(self, state: TableState) -> None:
        if not self.watched or state.snapshot_id == self.since:
            return
        active = state.files.active
        newer = active.filter(pc.greater(active["added_snapshot"], self.since))
        for name, least, greatest in key_ranges(newer):
            if any(region.overlaps(least, greatest) for region in self.watched):
                raise StateRuleBroken(f"rows were added in {name} in the meantime", hint="run it again")

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        files = _without(((each.partition_id, each.filename) for each in self.replaced), state, point)
        return state.at(point, files=files.with_added(self.references, point.snapshot_id, point.time))


@dataclass(frozen=True, slots=True)
class SplitPartitions(Transaction):
    """Splits leaves, and moves their references to the new leaves; no data file is written or deleted."""

    splits: tuple[PartitionSplit, ...]  # in order; a split may be of a child that an earlier one created
    # for each file of the leaves, one for every new leaf that contains some of its rows. A file whose rows are all in
    # one new leaf keeps its `only_this_partition`; readers of the others filter.
    references: tuple[FileReference, ...]
    operation: ClassVar[str] = "split"
    in_log: ClassVar[str] = "SplitPartitions"

    @property
    def leaves(self) -> tuple[str, ...]:
        made = {child for split in self.splits for child in split.child_ids}
        return tuple(split.partition_id for split in self.splits if split.partition_id not in made)

    def validate(self, state: TableState) -> None:
        """The partitions are still leaves, and the new references cover exactly the rows of their files."""
        for name in self.leaves:
            if name not in state.tree or not state.tree[name].is_leaf:
                raise StateRuleBroken(f"partition {name!r} was split in the meantime", hint="split again")
        try:
            after = state.tree.with_splits(self.splits)
        except InvalidInput as error:
            raise StateRuleBroken(error.message, hint=error.hint_parts) from error
        rows: Counter[tuple[str, str]] = Counter()
        vectors: dict[tuple[str, str], tuple[str, ...]] = {}
        leaves = frozenset(self.leaves)
        for reference in self.references:
            moved_from = _leaf_above(after, reference.partition_id, leaves), reference.filename
            rows[moved_from] += reference.rows
            vectors[moved_from] = reference.filenames[1:]
        _check_regions(self.references, after)
        for held in state.files.active_in(self.leaves):
            leaf, filename, count = held.partition_id, held.filename, held.rows
            moved = rows.pop((leaf, filename), None)
            was_changed = vectors.get((leaf, filename), held.filenames[1:]) != held.filenames[1:]
            if was_changed or (moved is None and count) or (held.rows_exact and (moved or 0) != count):
                raise StateRuleBroken(
                    f"a split gives {moved or 0:,} of the {count:,} rows of {filename} to the new leaves",
                    hint="its partition was changed in the meantime; split again",
                )
        if rows:
            _, filename = next(iter(rows))
            raise StateRuleBroken(
                f"file {filename} was removed from its partition during the split", hint="split again"
            )

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        files = state.files
        for name in self.leaves:
            filenames = files.active_rows_in({name})["filename"].to_pylist()
            files = files.with_removed(filenames, name, point.snapshot_id, point.time)
        files = files.with_added(self.references, point.snapshot_id, point.time)
        return state.at(point, files=files, tree=state.tree.with_splits(self.splits))


@dataclass(frozen=True, slots=True)
class Rollback(Transaction):
    """Restores the contents of an older version in a new snapshot; history is preserved."""

    number: int  # the snapshot id of the older version
    removed: tuple[tuple[str, str], ...]  # the references that are active now and were not then: partition and file
    references: tuple[FileReference, ...]  # the references that were active then and are not now
    tree: PartitionTree | None = None  # the partitions then; None when they are the same now
    operation: ClassVar[str] = "rollback"
    in_log: ClassVar[str] = "Rollback"

    @classmethod
    def between(cls, state: TableState, then: TableState) -> Rollback:
        removed, again = (
            tuple(zip(*(references[name].to_pylist() for name in PAIR), strict=True))
            for references in state.files.unshared(then.files)
        )
        wanted, partitions, names = set(again), {each for each, _ in again}, {each for _, each in again}
        references = then.files.active_in(partitions, names)  # with their statistics
        references = tuple(each for each in references if (each.partition_id, each.filename) in wanted)
        return cls(then.snapshot_id, removed, references, None if then.tree == state.tree else then.tree)

    @property
    def is_nothing(self) -> bool:
        return not (self.removed or self.references or self.tree)

    def validate(self, state: TableState) -> None:
        """No file that is to be used again has been collected as garbage."""
        gone = state.files.untracked({name for reference in self.references for name in reference.filenames})
        if gone:
            raise StateRuleBroken(
                f"cannot roll back to snapshot {self.number}: {len(gone):,} of its files were garbage, "
                f"such as {min(gone)}",
                hint=("it has expired; ", *CHOOSE_RETAINED),
            )

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        files = _without(self.removed, state, point)
        files = files.with_added(self.references, point.snapshot_id, point.time)
        return state.at(point, files=files, tree=self.tree or state.tree)


@dataclass(frozen=True, slots=True)
class DeleteFiles(Transaction):
    """Removes files from the state that were deleted from storage."""

    filenames: tuple[str, ...]
    operation: ClassVar[str] = "collect-garbage"
    in_log: ClassVar[str] = "DeleteFiles"

    def validate(self, state: TableState) -> None:
        """No partition still reads the files."""
        gone = pa.array(self.filenames, pa.string())
        active = state.files.active
        if any(pc.any(pc.is_in(active[name], gone)).as_py() for name in ("filename", DELETION_FILE)):
            raise StateRuleBroken("a file that was to be deleted is in use", hint="collect garbage again")

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        return state.at(point, files=state.files.without(self.filenames))


@dataclass(frozen=True, slots=True)
class SetProcessing(Transaction):
    """Changes how rows are processed from this snapshot on; older snapshots keep their processing.

    The properties were checked against the schema before.
    """

    processing: str  # as in `TableState.processing`
    operation: ClassVar[str] = "properties"
    in_log: ClassVar[str] = "SetProcessing"

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        return state.at(point, processing=self.processing)


@dataclass(frozen=True, slots=True)
class MigrateStateStore(Transaction):
    """Moves the table's metadata to another state store; files and partitions do not change."""

    state_store: str
    operation: ClassVar[str] = "migrate"
    in_log: ClassVar[str] = "MigrateStateStore"

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        return state.at(point)


def _types(fields: Iterable[Field]) -> list[tuple[str, FieldType]]:
    return [(field.name, field.type) for field in fields]


def _check_new(references: Sequence[FileReference], state: TableState) -> None:
    names = {name for reference in references for name in reference.filenames}
    if state.files.knows(*names):
        known = next(name for name in names if state.files.knows(name))
        hint = "leave it out: the table has its rows"
        raise AlreadyExists(f"file {known} is already in the table", hint=hint)


def _check_regions(references: Sequence[FileReference], tree: PartitionTree) -> None:
    for reference in references:
        region = tree[reference.partition_id].region
        # the keys of a file that several partitions share may lie outside: its readers filter
        if (
            reference.rows
            and reference.only_this_partition
            and not (reference.min_key in region and reference.max_key in region)
        ):
            raise StateRuleBroken(
                f"file {reference.filename} has keys outside its partition {reference.partition_id!r}",
                hint="this is a bug in the writer: keep the file and report it",
            )


def _without(pairs: Iterable[tuple[str, str]], state: TableState, point: CommitPoint) -> FileReferences:
    """Return the references of a state with some, each a partition and a file, ready for garbage collection."""
    files = state.files
    for partition_id, group in groupby(sorted(pairs), key=itemgetter(0)):
        files = files.with_removed([name for _, name in group], partition_id, point.snapshot_id, point.time)
    return files


def _leaf_above(tree: PartitionTree, partition_id: str, leaves: Collection[str]) -> str:
    if tree[partition_id].is_leaf:
        for above in tree.ancestors(partition_id):
            if above.id in leaves:
                return above.id
    raise StateRuleBroken(f"partition {partition_id!r} is not a new leaf of this split")


@dataclass(frozen=True, slots=True)
class SetSchema(Transaction):
    """Changes the schema; files and partitions stay. `sleeper_nb.model.evolution` says why old files still fit."""

    schema_id: int  # greater than the id of any earlier schema of the table
    schema: Schema  # as returned by `evolved`
    operation: ClassVar[str] = "alter"
    in_log: ClassVar[str] = "SetSchema"

    def validate(self, state: TableState) -> None:
        """The new schema can read every file of the state, and no stored column gets another meaning.

        The caller has checked the rows of the same state by the rules that are new.
        """
        from sleeper_nb.model.evolution import (  # few change a schema
            keeps_columns,
            reads_files_of,
            without_new_promises,
        )

        before = state.schema
        if self.schema_id <= state.schema_id or not keeps_columns(before, self.schema):
            raise StateRuleBroken("the schema was changed in the meantime", hint="alter the table again")
        if not reads_files_of(before, without_new_promises(before, self.schema)):
            raise StateRuleBroken("the table's files do not fit the new schema", hint="alter the table again")

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        checksum = self.schema.checksum
        return state.at(point, schema=self.schema, schema_id=self.schema_id, schema_checksum=checksum)


@dataclass(frozen=True, slots=True)
class ClearTable(Transaction):
    """Empties the table in one snapshot, perhaps with new partitions and a new schema: Sleeper's reinitialising."""

    tree: PartitionTree | None = None  # the new partitions; None to keep them, which requires the same row keys
    # schema_id, schema: the new schema and its new id; None to keep the schema
    schema_id: int | None = None
    schema: Schema | None = None
    operation: ClassVar[str] = "reinitialise"
    in_log: ClassVar[str] = "ClearTable"

    def validate(self, state: TableState) -> None:
        """Partitions are made of row keys, so they can only stay when the row keys do."""
        if self.tree is not None:
            self.tree.check()
        if self.schema is None:
            return
        if self.tree is None and _types(self.schema.row_keys) != _types(state.schema.row_keys):
            now, new = (", ".join(f"{f.name} {f.text}" for f in s.row_keys) for s in (state.schema, self.schema))
            raise StateRuleBroken(
                f"the row keys would change from {now} to {new}, which the partitions do not fit",
                hint=("replace the partitions too: ", Action("--delete-partitions", "delete_partitions=True")),
            )
        if self.schema_id is None or self.schema_id <= state.schema_id:
            raise StateRuleBroken(
                f"schema {self.schema_id} is older than the table's {state.schema_id}", hint="run it again"
            )

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        active = state.files.active
        files = _without(zip(*(active[name].to_pylist() for name in PAIR), strict=True), state, point)
        if self.schema is not None:
            files = files.of_schema(self.schema)
        return state.at(
            point,
            files=files,
            tree=self.tree or state.tree,
            schema=self.schema or state.schema,
            schema_id=self.schema_id or state.schema_id,
            schema_checksum=self.schema.checksum if self.schema else state.schema_checksum,
        )


@dataclass(frozen=True, slots=True)
class ReplaceTable(Transaction):
    """Gives a table a new schema, new partitions and new rows in one snapshot; older snapshots keep theirs."""

    # schema_id, schema: the new schema, and its id: greater than the id of any earlier schema of the table
    schema_id: int
    schema: Schema
    tree: PartitionTree  # the new partitions
    references: tuple[FileReference, ...] = ()  # the new files; no file of the table stays
    processing: str | None = None  # how rows are processed from then on, as in `TableState`
    operation: ClassVar[str] = "replace"
    in_log: ClassVar[str] = "ReplaceTable"

    @property
    def _clear(self) -> ClearTable:
        return ClearTable(self.tree, self.schema_id, self.schema)

    def validate(self, state: TableState) -> None:
        """The schema is newer than the table's, and the files are new and fit the new partitions."""
        self._clear.validate(state)
        _check_new(self.references, state)
        _check_regions(self.references, self.tree)

    def apply(self, state: TableState, point: CommitPoint) -> TableState:
        cleared = self._clear.apply(state, point).at(point, processing=self.processing)
        return AddFiles(self.references).apply(cleared, point)


# Entries of the transaction log: a transaction and its time as bytes.

_KINDS: Mapping[str, type[Transaction]] = {
    kind.in_log: kind
    for kind in (
        AddFiles,
        EditRows,
        ReplaceFileReferences,
        SplitPartitions,
        Rollback,
        ClearTable,
        ReplaceTable,
        DeleteFiles,
        MigrateStateStore,
        SetSchema,
        SetProcessing,
    )
}
_PARTS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "reference": (FileReference, ("min_key", "max_key")),
    "statistics": (ColumnStatistics, ("least", "greatest")),
    "deletions": (DeletionVector, ()),
    "replaced": (ReplacedReference, ()),
    "counts": (EditCounts, ()),
    "split": (PartitionSplit, ("point",)),
    "tree": (PartitionTree, ()),
    "partition": (Partition, ()),
    "region": (Region, ()),
    "range": (Range, ("min", "max")),
}
"""The parts of transactions: the JSON name of each, its class, and its fields that hold keys."""

_SCHEMA = "schema"
_CHECKSUM = b'{"checksum":"%b",'
_CHECKED_FROM = len(_CHECKSUM) - len(b"%b") + DIGITS


def to_entry(transaction: Transaction, number: int, time: datetime) -> bytes:
    """Return the entry of a snapshot: JSON with the transaction's kind, its time in microseconds, and its fields.

    It starts with a checksum of the snapshot's number and of everything that follows, so an entry that was changed or
    moved to another snapshot is an error.
    """
    fields = {name: _plain(value) for name, value in _fields(transaction).items()}
    body = {"type": transaction.in_log, "time": to_micros(time), **fields}
    plain = json.dumps(body, separators=(",", ":")).encode()
    return _CHECKSUM % _checksum(plain, number) + plain[1:]


def _checksum(plain: bytes, number: int) -> bytes:
    return checksum_of(b"%d " % number, plain).encode()


def has_checksum(entry: bytes) -> bool:
    return entry.startswith(_CHECKSUM[: _CHECKSUM.index(b"%")])


def without_checksum(entry: bytes) -> bytes:
    """Return an entry without its checksum, as earlier releases wrote it."""
    return b"{" + entry[_CHECKED_FROM:] if has_checksum(entry) else entry


def check_entry(entry: bytes, number: int) -> None:
    """Raise `StorageError` for an entry that was changed, or written for another snapshot."""
    if has_checksum(entry):
        plain = without_checksum(entry)
        if entry[:_CHECKED_FROM] != _CHECKSUM % _checksum(plain, number):
            raise StorageError(
                f"the entry of snapshot {number} in the transaction log is damaged: it was changed after it was "
                "written (its checksum differs)",
                hint=("restore the catalog from a copy; ", DEEP_CHECK, " lists the damage"),
            )


def from_entry(entry: bytes, number: int) -> tuple[Transaction, datetime]:
    """Read the entry of a snapshot, as written by `to_entry`.

    `StorageError` when it is not an entry, is damaged, or was written by a later release.
    """
    check_entry(entry, number)
    try:
        body = json.loads(without_checksum(entry))
        kind = _KINDS[body.pop("type")]
        time = from_micros(body.pop("time"))
        return kind(**{name: _value(value) for name, value in body.items()}), time
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        hint = "upgrade sleeper-nb"
        raise StorageError(f"cannot read an entry of the transaction log: {error!r}", hint=hint) from error


def replayed(state: TableState, entries: Iterable[bytes]) -> TableState:
    for number, entry in enumerate(entries, state.snapshot_id + 1):
        transaction, time = from_entry(entry, number)
        state = transaction.apply(state, CommitPoint(number, time))
    return state


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Schema):
        return {_SCHEMA: value.to_json()}
    for word, (kind, keys) in _PARTS.items():
        if isinstance(value, kind):
            return {word: {n: (_plain_key if n in keys else _plain)(each) for n, each in _fields(value).items()}}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        ((word, fields),) = plain.items()
        if word == _SCHEMA:
            return Schema.from_json(fields)
        kind, keys = _PARTS[word]
        return kind(**{name: (_key if name in keys else _value)(each) for name, each in fields.items()})
    return tuple(_value(each) for each in plain) if isinstance(plain, list) else plain


def _plain_key(key: KeyValue | tuple[KeyValue, ...]) -> Any:
    if isinstance(key, tuple):
        return [_plain_key(each) for each in key]
    return key_to_json(key)


def _key(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_key(each) for each in plain)
    return key_from_json(plain)
