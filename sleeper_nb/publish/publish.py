"""Publish a version of a table as an Iceberg snapshot: new metadata beside the same data files.

Why other engines always find a whole version, in steps:

1. Position deletes, manifests and the manifest list are written under new names, which no reader knows yet.
2. A lease keeps garbage collection from the files of the version, for ever. It can only be taken while something keeps
   the version, so none of its files was deleted before.
3. ``metadata/vN.metadata.json`` names them. It is created only if no other publisher has made this number: the second
   of two starts again from the metadata of the first.
4. ``metadata/version-hint.text`` gets the number in one atomic write.

A crash at any step leaves the older metadata as they were; the next publication deletes what was left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from sleeper_nb.clock import Retry
from sleeper_nb.errors import Action, ConflictError, InvalidInput, NotFound, StorageError
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.sql_values import quoted_text
from sleeper_nb.model.state import TableState
from sleeper_nb.publish import metadata_folder as folder
from sleeper_nb.publish.data_entries import Address, check_address
from sleeper_nb.publish.iceberg_schema import FieldIds, promotes, schema_json, sort_fields, type_json, unreadable
from sleeper_nb.publish.live_files import ChangedFiles
from sleeper_nb.publish.manifests import Publication, check_installed
from sleeper_nb.publish.published import KeptVersions, add_lease, lease_ends, settle_leases
from sleeper_nb.publish.table_metadata import PublishedSnapshot, TableMetadata
from sleeper_nb.publish.version_files import OlderVersion, Types, VersionFiles
from sleeper_nb.read.read_rows import stream
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.report import Code, Grid, Report, notes_line, values_of
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.resolve import Resolved

logger = logging.getLogger(__name__)

SUPERSEDED_TIME = timedelta(days=7)
"""How long the files of a published version stay after a newer one was published."""
_TRIES: Final = Retry(max_attempts=10)
_FEW: Final = 4
_EVERY: Final = 32
"""With more published versions than a few, so many publications are between two that delete what is left over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """How a version is published."""

    processing: DataProcessing  # the filters, iterator and aggregations of its rows
    # how long published versions are kept that a newer one has superseded; those with a savepoint stay
    retained: timedelta = SUPERSEDED_TIME
    author: str | None = None
    force: bool = False  # whether versions that another engine has written into the same metadata may be hidden


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PublishReport(Report):
    """A version that other engines can read.

    Parameters
    ----------
    table
        The name of the table.
    snapshot_id
        The version; also the id of the Iceberg snapshot.
    address
        The table's folder, with its scheme: ``file:///…`` or ``s3://…``.
    metadata
        The file that describes the table, below its folder: ``metadata/v3.metadata.json``.
    main
        The newest published version, which engines read unless they are given another.
    tags
        The published savepoints: the name of each tag, and the snapshot that it names.
    data_files, delete_files, rows
        What the published version has.
    warnings
        What some engines cannot read, a sentence each.
    is_nothing
        Whether the same had been published before, so nothing was written.
    """

    table: str
    snapshot_id: int
    address: str
    metadata: str
    main: int
    tags: Mapping[str, int] = field(default_factory=dict)
    data_files: int = 0
    delete_files: int = 0
    rows: int = 0
    warnings: tuple[str, ...] = ()
    is_nothing: bool = False

    @property
    def metadata_address(self) -> str:
        """The address of the file that describes the table."""
        return f"{self.address}/{self.metadata}"

    def grid(self) -> Grid:
        """Return what was published."""
        rows: list[tuple[object, ...]] = [
            ("snapshot", self.snapshot_id),
            ("address", self.address),
            ("metadata", self.metadata),
            ("rows", self.rows),
            ("data files", self.data_files),
            ("delete files", self.delete_files),
            *(("tag", f"{name} (snapshot {number})") for name, number in self.tags.items()),
            *self._lines(),
        ]
        title = f"{self.table}: snapshot {self.snapshot_id} is published"
        before = "it was published before; nothing was written" if self.is_nothing else ""
        return Grid(("", ""), tuple(rows), title, notes_line(before, *self.warnings))

    def _lines(self) -> Iterator[tuple[str, Code]]:
        """Yield each engine with the line that reads the version, to paste; the newest needs no number."""
        address, number, is_main = self.address, self.snapshot_id, self.snapshot_id == self.main
        version = next((name for name, tagged in self.tags.items() if tagged == number), str(number))
        in_duckdb = "" if is_main else f", snapshot_from_id = {number}"
        in_pyiceberg = "" if is_main else f"snapshot_id={number}"
        in_polars = "" if is_main else f", snapshot_id={number}"
        in_spark = "" if is_main else f".option('versionAsOf', {version!r})"
        table = f"StaticTable.from_metadata({address!r})"
        yield "DuckDB", Code(f"FROM iceberg_scan({quoted_text(address)}{in_duckdb})")
        yield "PyIceberg", Code(f"{table}.scan({in_pyiceberg}).to_arrow()")
        yield "Polars", Code(f"pl.scan_iceberg({table}{in_polars})")
        yield "Spark", Code(f"spark.read.format('iceberg'){in_spark}.load({address!r})")


def publish(store: StateStore, table: str, version: Resolved, settings: PublishSettings) -> PublishReport:
    """Publish a version; or find that readers have it already.

    `InvalidInput` when a reader would get wrong rows of it; the hint says what cures that. `ConfirmationNeeded` when
    another engine has written into the metadata since, and no `force`. `NotFound` when the version is no longer kept.
    """
    check_installed()
    check_address(Address(store.storage.root).text)
    return _Publishing(store, table, version, settings).run()


class _Publishing:
    """One publication of one version."""

    def __init__(self, store: StateStore, table: str, version: Resolved, settings: PublishSettings) -> None:
        self._store, self._table, self._settings = store, table, settings
        self._number, self._committed = version.snapshot_id, version.version.committed
        self._state = store.load(version.version)
        self._storage, self._address = store.storage, Address(store.storage.root).text
        self._now = store.clock.now()
        self._written: list[str] = []
        self._settled: set[int] = set()  # whose leases may be there, also by an earlier try

    def run(self) -> PublishReport:
        for attempt in range(_TRIES.max_attempts):
            found = folder.find(self._storage)
            found.check_unchanged(self._table, force=self._settings.force)
            report = self._try(found)
            if report is not None:
                return report
            logger.info("table %s: another process was first; trying again", self._store.table_id)
            _TRIES.wait(self._store.clock, attempt)
        raise ConflictError(f"other publishers of table {self._table!r} won every try", hint="publish it again")

    def _try(self, found: folder.Found) -> PublishReport | None:
        """Publish after what was found; return None when another publisher was first."""
        store = self._store
        before = found.metadata if found.metadata is not None and found.metadata.address == self._address else None
        ends = {} if before is None else lease_ends(store)
        there = {each.id: ends[each.id] for each in (before.snapshots if before else ()) if each.id in ends}
        ids = self._ids(before)
        schema = schema_json(self._state.schema, self._state.schema_id, ids)
        there, left_out = self._readable(before, there, schema)
        savepoints = store.catalog.savepoints(store.table_id)
        kept = KeptVersions.of(there, self._number, savepoints, self._now, self._settings.retained)
        with self._undone():
            made = self._metadata(before, kept, ids, schema)
        is_nothing = not found.is_foreign and before is not None and made == replace(before, updated=made.updated)
        number = found.number + (not is_nothing)
        if not is_nothing and not self._create(made, found, kept):
            return None
        if folder.hinted(self._storage) != number:
            folder.point_to(self._storage, number)
        self._settled |= {*(before.numbers if before else ()), *kept.ends}
        settle_leases(store, kept, self._settled, self._settings.author, spares_others=is_nothing)
        if not self._storage.has(paths.table_metadata(number)):  # unpublished: what was just written would stay
            return None
        if not is_nothing:  # or a slow publisher could still create the next number, of files that are deleted
            self._clean(made, found, number)
        warnings = (*left_out, *_warnings(self._state, self._settings.processing))
        return self._report(made, number, warnings, is_nothing=is_nothing)

    def _create(self, made: TableMetadata, found: folder.Found, kept: KeptVersions) -> bool:
        """Create the next metadata; return False when another publisher has, or what they name was unpublished.

        After an error nothing is deleted: the answer may be lost, and the metadata be there.
        """
        store, number, lease = self._store, found.number + 1, None
        if self._written:
            with self._undone():
                lease = add_lease(store, self._number, kept.ends[self._number], self._settings.author)
        publication = store.clock.new_id()
        is_first = folder.create(self._storage, number, made.to_json(folder.name_of(number), publication), publication)
        if is_first and self._is_complete(made, found):
            self._written.clear()
            return True
        if is_first:
            self._storage.delete(paths.table_metadata(number))
        self._discard()
        if lease is not None:
            store.catalog.release_lease(store.table_id, lease)
        return False

    def _is_complete(self, made: TableMetadata, found: folder.Found) -> bool:
        """Return whether nobody unpublished the table since its metadata were found, or since the first own file."""
        if not all(map(self._storage.has, self._written[:1])):
            return False
        if not found.number:
            return True
        try:
            uuid = folder.read_body(self._storage, found.number).get("table-uuid")
        except NotFound:
            return False
        # without a file of its own, only this tells that others published again, by the same numbers
        return bool(self._written) or uuid == made.uuid

    @contextlib.contextmanager
    def _undone(self) -> Iterator[None]:
        """Delete what was written when a block fails, in which nothing names it."""
        try:
            yield
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        """Delete what was written; a file that cannot be deleted now is deleted by a later publication."""
        for path in self._written:
            with contextlib.suppress(StorageError):
                self._storage.delete(path)
        self._written.clear()

    def _ids(self, before: TableMetadata | None) -> FieldIds:
        """Return the field ids of all columns that live files may have."""
        ids = FieldIds() if before is None else before.ids
        for schema in (*self._older_schemas, self._state.schema):
            ids = ids.with_schema(schema)
        return ids

    @cached_property
    def _older_schemas(self) -> tuple[Schema, ...]:
        """The schemas with which files of the version may have been written, besides its own."""
        if not self._state.schema.is_altered:
            return ()
        numbers = sorted(
            number for file in self._storage.list(paths.SCHEMAS)
            if (number := paths.schema_id(file.path)) is not None and number < self._state.schema_id
        )  # fmt: skip
        return tuple(map(self._store.schema, numbers))

    def _readable(
        self, before: TableMetadata | None, there: Mapping[int, datetime], schema: Mapping[str, Any]
    ) -> tuple[dict[int, datetime], list[str]]:
        """Return the published versions that readers can tell from this one, and what is said of the others.

        Readers take bounds of all versions for values of the current type of a column.
        """
        stay, said = dict(there), list[str]()
        for snapshot in () if before is None else before.snapshots:
            number = snapshot.id
            if before is None or number not in there:
                continue
            other = before.schema(snapshot.schema_id)
            strange = unreadable(other, schema) if number < self._number else unreadable(schema, other)
            if strange is None:
                continue
            name, old, new = strange
            if number > self._number:
                raise InvalidInput(
                    f"column {name!r} of snapshot {self._number} is {_text(old)}, and {_text(new)} in snapshot "
                    f"{number}, which is published: other engines cannot read both",
                    hint=("publish a version with the new type, or take the others away: ", folder.UNPUBLISH),
                )
            del stay[number]
            said.append(f"snapshot {number} is no longer published: its column {name!r} is {_text(old)}")
        return stay, said

    def _metadata(
        self, before: TableMetadata | None, kept: KeptVersions, ids: FieldIds, schema: Mapping[str, Any]
    ) -> TableMetadata:
        """Return the metadata with this version, whose files are written if it is new."""
        old = before or TableMetadata(
            uuid=str(UUID(self._store.clock.new_id())), address=self._address, updated=self._now
        )
        base = old.with_only({*kept.ends})
        order, orders = _order(base.orders, sort_fields(self._state.schema, ids))
        schemas = base.schemas
        if schema not in schemas:
            schemas = (*(each for each in schemas if each["schema-id"] != schema["schema-id"]), schema)
        snapshots, sequence = base.snapshots, base.sequence
        if base.snapshot(self._number) is None:
            _check_final(self._state, self._settings.processing, self._storage, self._table)
            sequence += 1
            made = self._snapshot(old, base, Publication(self._number, sequence, schema), ids, order)
            snapshots = (*snapshots, made)
        result = replace(
            base, ids=ids, schemas=schemas, orders=orders, snapshots=snapshots, sequence=sequence, updated=self._now,
            tags=kept.tags, main=kept.main,
        )  # fmt: skip
        return result.with_log()

    def _snapshot(
        self, old: TableMetadata, base: TableMetadata, publication: Publication, ids: FieldIds, order: int
    ) -> PublishedSnapshot:
        """Write what describes the version; `base` has those of the published versions that stay."""
        parent = max((each.id for each in base.snapshots if each.id < self._number), default=None)
        widened, older, is_same = self._widened(ids, publication.schema), None, False
        if (source := old.nearest(self._number)) is not None:
            is_same = _same_types(old.schema(source.schema_id), publication.schema, widened, ids)
            # its lease kept its files, so references tell what changed
            is_known = is_same and source.id < self._number and base.snapshot(source.id) is not None
            changed = ChangedFiles.since(self._state, source.id) if is_known else None
            older = OlderVersion(folder.Named(self._storage, old), source, changed)
        types = Types(ids, widened, not is_same, order)
        name = self._store.clock.new_id()
        files = VersionFiles(self._state, self._storage, publication, types, name, older, self._written)
        manifest_list, totals, only_adds = files.write(parent)
        is_append = only_adds and (source.id if source else None) == parent
        return PublishedSnapshot(
            self._number, parent, publication.sequence, self._committed, self._now, publication.schema["schema-id"],
            manifest_list, "append" if is_append else "overwrite", totals,
        )  # fmt: skip

    def _widened(self, ids: FieldIds, schema: Mapping[str, Any]) -> list[Field]:
        """Return the fields that had, or may have had, a type which Iceberg cannot read as the current one."""
        found = dict[str, Field]()
        current = {each.column: each for each in self._state.schema.fields}
        if len(self._older_schemas) < self._state.schema_id - 1:  # older ones were lost: only files tell
            found = {name: each for name, each in current.items() if each.late and _may_be_wider(each.type)}
        kinds = {each["id"]: each["type"] for each in schema["fields"]}
        for each in (each for older in self._older_schemas for each in older.fields if each.column in current):
            path = (each.column,)
            if not promotes(type_json(path, each.type, ids), kinds[ids.ids[path]]):
                found[each.column] = current[each.column]
        return list(found.values())

    def _clean(self, metadata: TableMetadata, found: folder.Found, number: int) -> None:
        """Delete what no metadata name, now and then: to find that out takes a read for each published version."""
        if len(metadata.snapshots) > _FEW and number % _EVERY:
            return
        folder.delete_left_over(self._storage, metadata, number, found.files, self._store.clock.now())

    def _report(
        self, metadata: TableMetadata, number: int, warnings: tuple[str, ...], *, is_nothing: bool
    ) -> PublishReport:
        snapshot = metadata.snapshot(self._number)
        assert snapshot is not None  # noqa: S101 - it was just published
        data_files, delete_files, _, _ = snapshot.totals
        return PublishReport(
            table=self._table, snapshot_id=self._number, address=self._address,
            metadata=paths.table_metadata(number), main=metadata.main or self._number, tags=metadata.tags,
            data_files=data_files, delete_files=delete_files, rows=snapshot.rows, warnings=warnings,
            is_nothing=is_nothing,
        )  # fmt: skip


def _order(
    known: tuple[Mapping[str, Any], ...], fields: Sequence[Mapping[str, Any]]
) -> tuple[int, tuple[Mapping[str, Any], ...]]:
    """Return the id of an order of rows, and all orders, the newest last."""
    same = next((each for each in known if each["fields"] == fields), None)
    if same is not None:
        return same["order-id"], known
    return len(known) + 1, (*known, {"order-id": len(known) + 1, "fields": fields})


def _may_be_wider(kind: FieldType) -> bool:
    """Return whether some widening to a type is one that Iceberg lacks."""
    return kind.holds("double") or kind.holds("decimal")


def _same_types(old: Mapping[str, Any], new: Mapping[str, Any], fields: Sequence[Field], ids: FieldIds) -> bool:
    """Return whether some fields have the same types in two schemas."""
    kinds = [{each["id"]: each["type"] for each in schema["fields"]} for schema in (old, new)]
    return all(len({str(known.get(ids.ids[(field.column,)])) for known in kinds}) == 1 for field in fields)


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])


def _warnings(state: TableState, processing: DataProcessing) -> Iterator[str]:
    times = [field.name for field in state.schema.fields if field.type.holds("time")]
    if times:
        yield f"Spark cannot open the table: {', '.join(times)} is a time, which Spark does not have"
    if processing.filters:
        filters = ", ".join(map(str, processing.filters))
        yield f"other engines still read the rows that {filters} drops from now on, until you publish again"


# Whether the rows in files are those that queries return: other engines know no filters, iterators and aggregations.
# A version is published when its processing changes nothing any more, as after a compaction. That is found out by
# reading it: properties may have changed since its files were written.


def _check_final(state: TableState, processing: DataProcessing, storage: Storage, table: str) -> None:
    """Refuse a version whose rows other engines would not see as queries return them."""
    if processing.is_nothing:
        return
    is_same = _keeps_count if processing.iterator is None else _keeps_rows
    if not is_same(state, processing, storage):
        raise InvalidInput(
            f"queries of table {table!r} return other rows than its files have, because of {processing}",
            hint=("merge its files, then publish it: ", Action(f"compact {table}", "table.maintenance.compact('all')")),
        )


def _keeps_count(state: TableState, processing: DataProcessing, storage: Storage) -> bool:
    """Return whether no row is dropped and none combined with another; a row alone stays as it is."""
    column = state.schema.row_keys[0].name

    def count(each: DataProcessing) -> int:
        return sum(int(batch.num_rows) for batch in stream(plan_scan(state, None, each), storage, columns=[column]))

    return count(NOTHING) == count(processing)


def _keeps_rows(state: TableState, processing: DataProcessing, storage: Storage) -> bool:
    before, after = (_rows(stream(plan_scan(state, None, each), storage)) for each in (NOTHING, processing))
    return all(one == other for one, other in zip_longest(before, after))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield rows as texts: NaN is equal to itself there."""
    for batch in batches:
        yield from map(repr, zip(*map(values_of, batch.columns), strict=True))
