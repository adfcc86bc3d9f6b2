"""Check: hold every rule of a live table's versions and files, and say what is wrong. Nothing is changed.

Other writers may go on meanwhile. What looks wrong is therefore told only when it still must hold: a version that is
retained now was retained all the time, as numbers are never given again, so its metadata and its data files must have
been there at every moment of the check. What concerns a version that was let go meanwhile is dropped.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.catalog.catalog_base import steady
from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.errors import CatalogDamaged, NetworkError, NotFound, StorageError
from sleeper_nb.model.files import FileReference
from sleeper_nb.model.keys import key_text
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.savepoints import Savepoint, is_file_of
from sleeper_nb.model.schema import Schema, is_utf8
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import from_entry, has_checksum
from sleeper_nb.operations.findings import (
    CheckedVersion,
    CheckReport,
    Suspicion,
    VersionKey,
    catalog_faults,
    changed_rows,
    key_of,
    state_faults,
    to_findings,
)
from sleeper_nb.progress import Progress
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.registry import open_state_store
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import SortedKeys
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import DAMAGED, file_checksum

# Check data files by reading them: their rows, their order, and their keys against what the metadata says.


@dataclass(frozen=True, slots=True)
class DataUse:
    """A partition's use of a data file, with what is needed to judge it."""

    reference: FileReference
    region: Region
    schema: Schema

    @property
    def filename(self) -> str:
        """The file."""
        return self.reference.filename


def data_faults(storage: Storage, uses: Sequence[DataUse], progress: Progress) -> Iterator[Suspicion]:
    """Read each data file once and yield what is wrong with it."""
    by_file: dict[str, list[DataUse]] = defaultdict(list)
    for use in uses:
        by_file[use.filename].append(use)
    for i, (filename, of_file) in enumerate(by_file.items()):
        progress.update("reading data files", i, len(by_file))
        try:
            if not _is_as_written(storage, filename, of_file):
                what = f"{filename} {DAMAGED}"
                yield Suspicion("data file", what, "its rows may be wrong, or lost", filename=filename)
                continue
            found, bad_texts = read_through(storage, filename, of_file[0].schema)
        except NetworkError:
            raise  # says nothing about the file
        except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of a read is a finding
            why = getattr(error, "message", None) or str(error).partition("\n")[0]
            what = f"{filename} cannot be read: {why}"
            yield Suspicion("data file", what, "its rows are lost", filename=filename)
            continue
        for name in bad_texts:
            what = f"{filename} has text that is not UTF-8 in column {name!r}"
            means = "queries of that column fail; ingest its rows again, and roll back to a version without this file"
            yield Suspicion("data file", what, means, filename=filename)
        for what, means in dict.fromkeys(_faults(found, of_file)):
            yield Suspicion("data file", f"{filename} {what}", means, filename=filename)


def _is_as_written(storage: Storage, filename: str, uses: Sequence[DataUse]) -> bool:
    """Return whether a file has the checksum that its references record; files of older releases have none."""
    recorded = {use.reference.checksum for use in uses} - {None}
    return not recorded or recorded == {file_checksum(storage, filename)}


def read_through(storage: Storage, filename: str, schema: Schema) -> tuple[SortedKeys, tuple[str, ...]]:
    """Read all columns of a data file, some batches at a time; return its keys, and which columns have bad text."""
    found, columns = SortedKeys(schema), pa.schema([schema.arrow.field(name) for name in schema.sort_order])
    bad_texts: dict[str, None] = {}
    with storage.input(filename) as stream, pq.ParquetFile(stream, page_checksum_verification=True) as file:
        for batch in file.iter_batches():
            bad_texts |= {
                name: None
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if not is_utf8(column)
            }
            found.see(pa.Table.from_batches([batch]).select(schema.sort_order).cast(columns))
        if found.rows != file.metadata.num_rows:
            raise pa.ArrowInvalid(f"its footer says {file.metadata.num_rows:,} rows, it has {found.rows:,}")
    return found, tuple(bad_texts)


def _faults(found: SortedKeys, uses: Sequence[DataUse]) -> Iterator[tuple[str, str]]:
    if not found.in_order:
        order = ", ".join(uses[0].schema.sort_order)
        yield f"is not sorted by {order}", "scans and compactions may give rows in a wrong order, or miss some"
    for use in uses:
        said = use.reference
        if said.only_this_partition and said.rows_exact and said.rows != found.rows:
            yield f"has {found.rows:,} rows, not {said.rows:,}", "counts are not what a scan reads"
        if not said.only_this_partition and said.rows > found.rows:
            yield f"has {found.rows:,} rows, fewer than {said.rows:,}", "counts are not what a scan reads"
        for i, column in enumerate(use.schema.row_keys):
            low, high = found.least[i], found.greatest[i]
            if low is None or high is None:
                continue
            keys = f"has {column.name} {key_text(low)} to {key_text(high)}"
            here = use.region.ranges[i]
            if said.only_this_partition and not (low in here and high in here):
                yield f"{keys}, outside its partition's {here}", "a query for those keys misses its rows"
            elif low < said.min_key[i] or high > said.max_key[i]:
                recorded = f"{key_text(said.min_key[i])} to {key_text(said.max_key[i])}"
                yield f"{keys}, recorded as {recorded}", "a query for those keys may miss its rows"


ORPHAN_AGE = timedelta(days=3)

_METADATA = ("statestore", paths.SAVEPOINTS, paths.SCHEMAS)

_NAMED = ["filename", "bytes", "checksum"]
_FEW = 100
"""So many files are grouped at the end sooner than compared with those of the version before."""

HIDING = frozenset({"metadata", "unreadable", "history", "current", "catalog row", "savepoint"})
"""Kinds of findings after which it is not known what files belong to the table."""


@dataclass(frozen=True, slots=True)
class Catalogued:
    """What the catalog says of a table at one moment."""

    rows: CatalogRows
    garbage: frozenset[str]

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The retained snapshots, newest first."""
        return self.rows.snapshots

    @property
    def savepoints(self) -> tuple[Savepoint, ...]:
        """The savepoints, oldest first."""
        return self.rows.savepoints

    def faults(self, old_files: Collection[str]) -> Iterator[Suspicion]:
        """Yield what is wrong with the catalog, given the metadata files that are too old to be of work under way."""
        yield from catalog_faults(self.rows)
        damaged = {row.id for row in self.rows.damaged if row.kind == "savepoint"}
        known = {savepoint.id for savepoint in self.savepoints} | self.rows.unused_savepoint_ids | damaged
        for path in sorted(old_files):
            number = paths.savepoint_id(path)
            if number is not None and number not in known:
                what = f"{path} is there, but the catalog has no savepoint {number}"
                means = "the savepoint was lost from the catalog: restore the catalog from a copy"
                yield Suspicion("savepoint", what, means)

    @property
    def versions(self) -> tuple[CheckedVersion, ...]:
        """Every version that is kept, in order of their numbers, so that each is read through the one before."""
        return tuple(sorted((*self.snapshots, *self.savepoints), key=lambda v: (v.number, key_of(v))))


@dataclass(slots=True)
class _Named:
    """The data files that versions name, each once, however many versions name it.

    A version mostly names what the one before it named. So only what differs from that is kept, and the files are
    grouped once, at the end.
    """

    kept: list[pa.Table] = field(default_factory=list)
    last: pa.Table | None = None

    def add(self, active: pa.Table) -> pa.Table:
        """Note the files of one more version; return its references without those that the version before has, too."""
        new = changed = active if self.last is None else changed_rows(self.last, active)
        if new.num_rows > _FEW and self.last is not None:
            new = new.filter(_differs(new, self.last))
        if new.num_rows:
            self.kept.append(new.select(_NAMED).combine_chunks())
        self.last = active
        return changed

    def distinct(self) -> pa.Table | None:
        """Return the files with the sizes and checksums that were recorded; None when no version could be read."""
        if self.last is None:
            return None
        named = pa.concat_tables([*self.kept, self.last.slice(0, 0).select(_NAMED)])
        once = named.group_by(["filename", "bytes"]).aggregate([("checksum", "max")])
        return once.rename_columns(_NAMED)


def _differs(named: pa.Table, last: pa.Table) -> Any:
    """Return for each file of a version whether the one before it does not name it with that size and checksum."""
    at = pc.index_in(named["filename"], last["filename"].combine_chunks())
    sizes = pc.not_equal(named["bytes"], last["bytes"].take(at))
    checksums = pc.not_equal(*(pc.fill_null(of, "") for of in (named["checksum"], last["checksum"].take(at))))
    return pc.or_(pc.fill_null(sizes, fill_value=True), checksums)


@dataclass(slots=True)
class _Seen:
    """What a check has gathered so far."""

    suspicions: list[Suspicion] = field(default_factory=list)
    files: _Named = field(default_factory=_Named)
    uses: dict[FileReference, DataUse] = field(default_factory=dict)
    newest: TableState | None = None
    sound: TableState | None = None  # of the version before, if it broke no rule: what both have is not judged again


def check_table(
    store: StateStore, name: str, *, deep: bool, progress: Progress, orphan_age: timedelta = ORPHAN_AGE
) -> CheckReport:
    """Check every retained version of a table, and the files that they need.

    Parameters
    ----------
    store
        The table's store.
    name
        The table's name, for the report.
    deep
        Also read every data file: its rows, its order and its keys.
    progress
        Watches.
    orphan_age
        A younger file that nothing names may be of a commit that is under way.
    """
    catalogued = _look_up(store)
    metadata = {file.path: file for folder in _METADATA for file in store.storage.list(folder)}
    began = store.clock.now()
    old_metadata = {path for path, file in metadata.items() if began - file.modified > orphan_age}
    seen = _Seen(list(catalogued.faults(old_metadata)))
    fresh, versions = {Snapshot: _forgetful(store), Savepoint: _forgetful(store)}, catalogued.versions
    damaged_metadata = _DamagedMetadata(store, catalogued) if deep else None
    for i, version in enumerate(versions):
        progress.update(f"checking version {version.number}", i, len(versions))
        faults = list(_metadata_faults(version, metadata.keys(), catalogued.garbage))
        if damaged_metadata is not None and not faults:
            faults += damaged_metadata.faults(version)
        seen.suspicions += faults
        if not faults:
            # what was read of a savepoint must not stand in for the log that leads to its snapshot
            _check_version(fresh[type(version)], version, seen, deep=deep)
        if isinstance(version, Savepoint) and paths.savepoint(version.id) in metadata:
            seen.suspicions += savepoint_file_faults(store.storage, version)
    data = {file.path: file for file in store.storage.list("data")}
    named = seen.files.distinct()
    seen.suspicions += _missing_files(named, {path: file.bytes for path, file in data.items()})
    log = store.catalog.whole_log(store.table_id) if deep else {}
    if deep:
        seen.suspicions += _log_faults(log, catalogued.snapshots)
        damaged = {s.filename for s in seen.suspicions}
        seen.suspicions += data_faults(
            store.storage, [use for use in seen.uses.values() if use.filename not in damaged], progress
        )
    unnamed = {f.path: f for f in (*metadata.values(), *data.values()) if began - f.modified > orphan_age}
    orphans = unnamed.keys() - _known(store, seen, named, catalogued) - _future_schemas(unnamed, catalogued)
    orphans = orphans if _knows_all(seen) else set()
    return CheckReport(
        table=name,
        snapshot_id=catalogued.rows.current or 0,
        versions=len(versions),
        files=0 if named is None else len(pc.unique(named["filename"])),
        deep=deep,
        findings=(
            *(to_findings(_file_faults(store)) if deep else ()),
            *(to_findings(_standing(store, seen.suspicions, old_metadata)) if seen.suspicions else ()),
        ),
        orphans=tuple(unnamed[path] for path in sorted(orphans)),
        without_checksum=0 if named is None else named["checksum"].null_count,
        rows_without_checksum=catalogued.rows.without_checksum + sum(not has_checksum(e) for e in log.values()),
    )


def _look_up(store: StateStore) -> Catalogued:
    catalog, table_id = store.catalog, store.table_id
    garbage, rows = steady(
        lambda: frozenset(path for path, _ in catalog.garbage(table_id)), lambda: catalog.audit(table_id)
    )
    return Catalogued(rows, garbage)


def _file_faults(store: StateStore) -> Iterator[Suspicion]:
    """Yield what is wrong with the catalog's own file: a damaged index hides rows that are there."""
    for what in store.catalog.file_faults():
        yield Suspicion("catalog file", what, "rows may be hidden: restore the catalog from a copy")


def _log_faults(log: Mapping[int, bytes], snapshots: Sequence[Snapshot]) -> Iterator[Suspicion]:
    """Yield the entries of the transaction log that are not what was written, also where no version needs them now."""
    for number, entry in log.items():
        try:
            from_entry(entry, number)
        except StorageError as error:
            means = "this version, and later ones, may have to be read through it"
            first = min((snapshot.id for snapshot in snapshots if snapshot.id >= number), default=number)
            yield Suspicion("log", error.message, means, ("snapshot", first))


class _DamagedMetadata:
    """Holds the metadata files of versions against their checksums, each file once."""

    def __init__(self, store: StateStore, catalogued: Catalogued) -> None:
        self._storage = store.storage
        self._as_written: dict[tuple[str, str], bool] = {}
        self._oldest = catalogued.snapshots[-1] if catalogued.snapshots else None
        self._start: Snapshot | None = None
        if self._oldest is not None:
            # perhaps an expired snapshot, through whose metadata the oldest retained one is read
            with contextlib.suppress(NotFound, CatalogDamaged):
                self._start = store.catalog.checkpoint(store.table_id, self._oldest.id)

    def faults(self, version: CheckedVersion) -> Iterator[Suspicion]:
        """Yield the metadata files of a version that are not what was written."""
        recorded = dict(recorded_checksums(version))
        if version == self._oldest and self._start is not None:
            recorded |= dict(recorded_checksums(self._start))
        for path, checksum in recorded.items():
            key = path, checksum
            try:
                if key not in self._as_written:
                    self._as_written[key] = file_checksum(self._storage, path) == checksum
            except NotFound:  # a finding of its own, or deleted meanwhile with its version
                continue
            if not self._as_written[key]:
                means = "the version is read wrongly, or not at all"
                yield Suspicion("metadata", f"{path} {DAMAGED}", means, key_of(version))


def _forgetful(store: StateStore) -> StateStore:
    """Return another store of the table, which reads what this one may remember."""
    return open_state_store(store.name, store.table_id, store.catalog, store.storage, store.clock, store.retry)


def _metadata_faults(version: CheckedVersion, there: Collection[str], garbage: frozenset[str]) -> Iterator[Suspicion]:
    for path in _metadata_of(version):
        if path not in there:
            yield Suspicion("metadata", f"{path} is not there", "the version cannot be read", key_of(version))
        elif path in garbage:
            means = "the next garbage collection would delete it: do not collect garbage"
            yield Suspicion("garbage", f"{path} counts as garbage", means, key_of(version))
    if isinstance(version, Savepoint) and paths.savepoint(version.id) not in there:
        means = "the savepoint can be read, but a copy of the folder alone does not tell of it"
        yield Suspicion("savepoint file", f"{paths.savepoint(version.id)} is not there", means, key_of(version))


def _check_version(fresh: StateStore, version: CheckedVersion, seen: _Seen, *, deep: bool) -> None:
    """Load a version and check its state; note the files that it needs."""
    sound, seen.sound = seen.sound, None
    try:
        state = fresh.load(version)
        changed = seen.files.add(state.files.active)
        is_alike = sound is not None and (sound.tree, sound.schema) == (state.tree, state.schema)
        faults = tuple(state_faults(state, version, changed if is_alike else None))
    except NetworkError:
        raise  # says nothing about the version
    except Exception as error:  # noqa: BLE001 - whatever damaged metadata makes of a read is a finding
        what = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        seen.suspicions.append(Suspicion("unreadable", what, "the version cannot be read", key_of(version)))
        return
    seen.suspicions += faults
    seen.newest, seen.sound = state, None if faults else state
    if deep:
        _note_uses(state, seen.uses)


def _note_uses(state: TableState, uses: dict[FileReference, DataUse]) -> None:
    for file in state.files.active_in([p.id for p in state.tree.partitions]):
        uses.setdefault(file, DataUse(file, state.tree[file.partition_id].region, state.schema))


def _missing_files(named: Any, there: dict[str, int]) -> Iterator[Suspicion]:
    """Yield data files that versions name but that are not there, or not of the recorded size."""
    if named is None:
        return
    stored = pa.table({"filename": pa.array(list(there), pa.string()), "stored": pa.array(there.values(), pa.int64())})
    joined = named.join(stored, "filename")
    wrong = joined.filter(pc.fill_null(pc.not_equal(joined["bytes"], joined["stored"]), fill_value=True))
    for row in sorted(wrong.to_pylist(), key=lambda row: row["filename"]):
        filename, size, found = row["filename"], row["bytes"], row["stored"]
        if found is None:
            yield Suspicion("data file", f"{filename} is not there", "its rows are lost", filename=filename)
        else:
            what = f"{filename} has {found:,} bytes, not {size:,}"
            yield Suspicion("data file", what, "it was changed or cut after it was written", filename=filename)


def _knows_all(seen: _Seen) -> bool:
    """Return whether every version could be read: else one of them may name what looks like an orphan."""
    return all(s.filename is not None or s.kind not in HIDING for s in seen.suspicions)


def _known(store: StateStore, seen: _Seen, named: Any, catalogued: Catalogued) -> set[str]:
    """Return every path that a version, the garbage collector or the log may still come to."""
    known = set(catalogued.garbage)
    for version in catalogued.versions:
        known |= _metadata_of(version)
    known |= {paths.savepoint(savepoint.id) for savepoint in catalogued.savepoints}
    known |= {paths.schema(version.schema_id) for version in catalogued.versions}
    if named is not None:
        known |= set(named["filename"].to_pylist())
    if seen.newest is not None:
        known |= set(seen.newest.files.ready_for_gc["filename"].to_pylist())
    with contextlib.suppress(NotFound, CatalogDamaged):  # the log may be read through a version that has expired
        if catalogued.snapshots:
            start = store.catalog.checkpoint(store.table_id, catalogued.snapshots[-1].id)
            known |= _metadata_of(start) | {paths.schema(start.schema_id)}
    return known


def recorded_checksums(version: CheckedVersion) -> Iterator[tuple[str, str]]:
    """Yield the metadata files of a version, and its schema's, with the checksums that are recorded of them."""
    metadata = Metadata.of(version)
    found: list[tuple[str, str | None]] = [(paths.schema(version.schema_id), version.schema_checksum)]
    if metadata is not None:
        found += (
            (metadata.files_path, metadata.files_checksum),
            (metadata.partitions_path, metadata.partitions_checksum),
        )
        if (log := metadata.log) is not None:
            found += (log.path, log.checksum), (paths.schema(log.schema_id), log.schema_checksum)
    yield from ((path, checksum) for path, checksum in found if checksum is not None)


def savepoint_file_faults(storage: Storage, savepoint: Savepoint) -> Iterator[Suspicion]:
    """Yield what the file of a savepoint says otherwise than the catalog, by which the savepoint is read."""
    path = paths.savepoint(savepoint.id)
    means = "the savepoint can be read; a copy of the folder alone would give another version, or none"
    try:
        content = storage.read(path)
    except NotFound:  # deleted meanwhile with its savepoint
        return
    if not is_file_of(savepoint, content):
        what = f"{path} does not say what the catalog does"
        yield Suspicion("savepoint file", what, means, key_of(savepoint))


def _metadata_of(version: CheckedVersion) -> frozenset[str]:
    """Return the metadata files that a version is read from."""
    metadata = Metadata.of(version)
    if metadata is None:
        return frozenset()
    return metadata.paths | ({paths.schema(metadata.log.schema_id)} if metadata.log else set())


def _future_schemas(there: Collection[str], catalogued: Catalogued) -> set[str]:
    """Return the schemas with greater ids than any version has: while they are there, nobody is given their ids."""
    newest = max((version.schema_id for version in catalogued.versions), default=0)
    return {path for path in there if (paths.schema_id(path) or 0) > newest}


def _standing(store: StateStore, suspicions: list[Suspicion], old_metadata: Collection[str]) -> Iterator[Suspicion]:
    """Yield the suspicions that concern what is retained now, each file with the versions that name it."""
    now = _look_up(store)
    retained: dict[VersionKey, CheckedVersion] = {key_of(version): version for version in now.versions}
    again = set(now.faults(old_metadata))
    yield from (s for s in suspicions if s.filename is None and (s.version in retained or s in again))
    files = [s for s in suspicions if s.filename is not None]
    if not files:
        return
    asked = pa.array(sorted({s.filename for s in files if s.filename}), pa.string())
    fresh = _forgetful(store)
    for key, version in retained.items():
        try:
            names = fresh.load(version).files.active["filename"]
        except NetworkError:
            raise
        except Exception:  # noqa: BLE001, S112 - a finding of its own already, or of a newer version
            continue
        named = set(names.filter(pc.is_in(names, asked)).to_pylist())
        yield from (Suspicion(s.kind, s.what, s.means, key) for s in files if s.filename in named)
