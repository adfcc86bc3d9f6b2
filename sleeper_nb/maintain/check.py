"""Check a live table: verify its versions and files against every rule, and report what is wrong. Nothing is changed.

Other writers may commit during a check. So a suspicion is reported only if it concerns a version that is still retained
at the end: numbers are never reused, so such a version was retained all the time, and its metadata and data files must
have been there at every moment of the check. Suspicions about a version that has expired or was deleted are dropped.

The rules of the catalog, of a version's state and of data files are in `check_rules`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.catalog_base import read_consistently
from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.errors import CatalogDamaged, NetworkError, NotAllowed, NotFound, StorageError
from sleeper_nb.maintain.check_rules import (
    LOST_VECTOR,
    VECTOR,
    DataUse,
    catalog_faults,
    find_data_faults,
    state_faults,
)
from sleeper_nb.maintain.findings import CheckedVersion, CheckReport, Suspicion, VersionKey, key_of, to_findings
from sleeper_nb.model.deletions import DELETION_FILE
from sleeper_nb.model.file_reference import FileReference, stored_files
from sleeper_nb.model.savepoints import Savepoint, is_file_of
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import from_entry, has_checksum
from sleeper_nb.progress import Progress
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import without_cache
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import CHANGED, DAMAGED, file_checksum
from sleeper_nb.storage.paths import is_foreign
from sleeper_nb.storage.places import StoredFile

logger = logging.getLogger(__name__)

ORPHAN_AGE = timedelta(days=3)
"""The default age from which a file that no version names counts as an orphan."""

_METADATA = ("statestore", paths.SAVEPOINTS, paths.SCHEMAS)

_FILE_COLUMNS = ["filename", "bytes", "checksum"]

HIDING = frozenset({"metadata", "unreadable", "history", "current", "catalog row", "savepoint"})
"""Kinds of findings after which it is unknown which files belong to the table."""


@dataclass(frozen=True, slots=True)
class Catalogued:
    """What the catalog records of a table at one moment."""

    rows: CatalogRows
    garbage: frozenset[str]

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.rows.snapshots

    @property
    def savepoints(self) -> tuple[Savepoint, ...]:
        return self.rows.savepoints

    def faults(self, old_files: Collection[str]) -> Iterator[Suspicion]:
        """Yield what is wrong with the catalog, given the metadata files that are too old for work in progress."""
        yield from catalog_faults(self.rows)
        damaged = {row.id for row in self.rows.damaged if row.kind == "savepoint"}
        known = {savepoint.id for savepoint in self.savepoints} | self.rows.unused_savepoint_ids | damaged
        for path in sorted(old_files):
            number = paths.savepoint_id(path)
            if number is not None and number not in known:
                what = f"{path} exists, but the catalog has no savepoint {number}"
                means = "the catalog has lost the savepoint: restore the catalog from a copy"
                yield Suspicion("savepoint", what, means)

    @property
    def versions(self) -> tuple[CheckedVersion, ...]:
        """Every retained version, in order of their numbers, so that each is read through the one before."""
        return tuple(sorted((*self.snapshots, *self.savepoints), key=lambda v: (v.number, key_of(v))))


@dataclass(slots=True)
class _Seen:
    """What a check has collected so far.

    `named` has each data file that a version names, with its recorded size and checksum, once; None before the first
    version that could be read, of which `newest` is the state of the last.
    """

    suspicions: list[Suspicion] = field(default_factory=list)
    named: pa.Table | None = None
    vectors: set[str] = field(default_factory=set)
    uses: dict[FileReference, DataUse] = field(default_factory=dict)
    newest: TableState | None = None

    def add(self, state: TableState) -> None:
        """Add the files of a version that could be read."""
        active, self.newest = state.files.active, state
        files = stored_files(active)
        known = files if self.named is None else pa.concat_tables([self.named, files], promote_options="default")
        distinct = known.group_by(["filename", "bytes"]).aggregate([("checksum", "max")])
        self.named = distinct.rename_columns(_FILE_COLUMNS)
        self.vectors.update(active[DELETION_FILE].drop_null().to_pylist())


def check_table(
    store: StateStore, name: str, *, deep: bool, progress: Progress, orphan_age: timedelta = ORPHAN_AGE
) -> CheckReport:
    """Check every retained version of a table, and the files that they need.

    Parameters
    ----------
    deep
        Also read every data file and check its rows, its order and its keys.
    orphan_age
        A younger file that no version names may belong to a commit in progress, and is not reported.
    """
    catalogued = _look_up(store)
    metadata = {file.path: file for folder in _METADATA for file in store.storage.list(folder)}
    began = store.clock.now()
    old_metadata = {path for path, file in metadata.items() if began - file.modified > orphan_age}
    seen = _Seen(list(catalogued.faults(old_metadata)))
    _check_versions(store, catalogued, metadata, seen, deep=deep, progress=progress)
    data = {file.path: file for file in store.storage.list("data")}
    named = seen.named
    foreign, changed = _foreign_files(store.storage, named)
    seen.suspicions += changed
    sizes = {path: file.bytes for path, file in data.items()} | foreign
    seen.suspicions += _missing_files(named, seen.vectors, sizes)
    log = store.catalog.whole_log(store.table_id) if deep else {}
    if deep:
        seen.suspicions += _log_faults(log, catalogued.snapshots)
        damaged = {suspicion.filename for suspicion in seen.suspicions if suspicion.filename}
        seen.suspicions += find_data_faults(store.storage, [*seen.uses.values()], progress, damaged)
    old_files = {f.path: f for f in (*metadata.values(), *data.values()) if began - f.modified > orphan_age}
    orphans = _orphans(store, seen, catalogued, old_files)
    findings = to_findings(_catalog_file_faults(store)) if deep else ()
    if seen.suspicions:
        findings += to_findings(_confirmed(store, seen.suspicions, old_metadata))
    report = CheckReport(
        table=name,
        snapshot_id=catalogued.rows.current or 0,
        versions=len(catalogued.versions),
        files=0 if named is None else len(pc.unique(named["filename"])),
        deep=deep,
        findings=findings,
        orphans=orphans,
        without_checksum=0 if named is None else named["checksum"].null_count,
        rows_without_checksum=catalogued.rows.without_checksum + sum(not has_checksum(e) for e in log.values()),
    )
    logger.log(
        logging.WARNING if findings else logging.DEBUG,
        "table %r: checked %d versions and %d data files: %d findings, %d orphans",
        name,
        report.versions,
        report.files,
        len(findings),
        len(orphans),
    )
    return report


def _check_versions(
    store: StateStore,
    catalogued: Catalogued,
    metadata: Mapping[str, StoredFile],
    seen: _Seen,
    *,
    deep: bool,
    progress: Progress,
) -> None:
    # one store for each kind: a savepoint that was read must not replace the log that leads to its snapshot
    fresh: dict[type, StateStore] = {Snapshot: without_cache(store), Savepoint: without_cache(store)}
    damaged_metadata = _DamagedMetadata(store, catalogued) if deep else None
    versions = catalogued.versions
    for i, version in enumerate(versions):
        progress.update(f"checking version {version.number}", i, len(versions))
        faults = list(_metadata_faults(version, metadata.keys(), catalogued.garbage))
        if damaged_metadata is not None and not faults:
            faults += damaged_metadata.faults(version)
        seen.suspicions += faults
        if not faults and _check_version(fresh[type(version)], version, seen, deep=deep):
            seen.suspicions += _schema_faults(version, metadata.keys())
        if isinstance(version, Savepoint) and paths.savepoint(version.id) in metadata:
            seen.suspicions += savepoint_file_faults(store.storage, version)


def _look_up(store: StateStore) -> Catalogued:
    """Return what the catalog records of the table, all of one moment."""
    catalog, table_id = store.catalog, store.table_id
    garbage, rows = read_consistently(
        lambda: frozenset(path for path, _ in catalog.garbage(table_id)), lambda: catalog.audit(table_id)
    )
    return Catalogued(rows, garbage)


def _catalog_file_faults(store: StateStore) -> Iterator[Suspicion]:
    for what in store.catalog.file_faults():
        yield Suspicion("catalog file", what, "rows may be hidden: restore the catalog from a copy")


def _log_faults(log: Mapping[int, bytes], snapshots: Sequence[Snapshot]) -> Iterator[Suspicion]:
    for number, entry in log.items():
        try:
            from_entry(entry, number)
        except StorageError as error:
            means = "this version, and later ones, may have to be read through it"
            first = min((snapshot.id for snapshot in snapshots if snapshot.id >= number), default=number)
            yield Suspicion("log", error.message, means, ("snapshot", first))


class _DamagedMetadata:
    """Compares the metadata files of versions with their checksums, each file once."""

    def __init__(self, store: StateStore, catalogued: Catalogued) -> None:
        self._storage = store.storage
        self._as_written: dict[tuple[str, str], bool] = {}
        self._oldest = catalogued.snapshots[-1] if catalogued.snapshots else None
        self._start: Snapshot | None = None
        if self._oldest is not None:
            # possibly an expired snapshot, through whose metadata the oldest retained snapshot is read
            with contextlib.suppress(NotFound, CatalogDamaged):
                self._start = store.catalog.checkpoint(store.table_id, self._oldest.id)

    def faults(self, version: CheckedVersion) -> Iterator[Suspicion]:
        recorded = dict(recorded_checksums(version))
        if version == self._oldest and self._start is not None:
            recorded |= dict(recorded_checksums(self._start))
        for path, checksum in recorded.items():
            key = path, checksum
            try:
                if key not in self._as_written:
                    self._as_written[key] = file_checksum(self._storage, path) == checksum
            except NotFound:  # another rule reports it, or it was deleted with its version in the meantime
                continue
            if not self._as_written[key]:
                means = "the version is read wrongly, or not at all"
                yield Suspicion("metadata", f"{path} {DAMAGED}", means, key_of(version))


def _metadata_faults(version: CheckedVersion, stored: Collection[str], garbage: frozenset[str]) -> Iterator[Suspicion]:
    for path in _metadata_of(version):
        if path not in stored:
            yield Suspicion("metadata", f"{path} is not there", "the version cannot be read", key_of(version))
        elif path in garbage:
            means = "the next garbage collection would delete it: do not collect garbage"
            yield Suspicion("garbage", f"{path} counts as garbage", means, key_of(version))
    if isinstance(version, Savepoint) and paths.savepoint(version.id) not in stored:
        means = "the savepoint can be read, but a copy of the folder alone would lack it"
        yield Suspicion("savepoint file", f"{paths.savepoint(version.id)} is not there", means, key_of(version))


def _schema_faults(version: CheckedVersion, stored: Collection[str]) -> Iterator[Suspicion]:
    """Yield the file of the schema of a version that was read without it, if the file is missing."""
    path = paths.schema(version.schema_id)
    if path not in stored:
        means = "the version is read by the schema in the log: a checkpoint or a migration writes the file again"
        yield Suspicion("schema file", f"{path} is not there", means, key_of(version))


def _check_version(fresh: StateStore, version: CheckedVersion, seen: _Seen, *, deep: bool) -> bool:
    """Load a version and check its state; add the files that it needs. Return whether it could be read."""
    try:
        state = fresh.load(version)
        faults = tuple(state_faults(state, version))
        seen.add(state)
    except NetworkError:
        raise  # this says nothing about the version
    except Exception as error:  # noqa: BLE001 - damaged metadata can raise anything when it is read
        what = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        seen.suspicions.append(Suspicion("unreadable", what, "the version cannot be read", key_of(version)))
        return False
    seen.suspicions += faults
    if deep:
        for reference in state.files.active_in([partition.id for partition in state.tree.partitions]):
            use = DataUse(reference, state.tree[reference.partition_id].region, state.schema)
            seen.uses.setdefault(reference, use)
    return True


def _missing_files(named: pa.Table | None, vectors: Collection[str], sizes: Mapping[str, int]) -> Iterator[Suspicion]:
    """Yield files that versions name but that do not exist, or do not have the recorded size; some are `vectors`."""
    if named is None:
        return
    stored = pa.table({"filename": pa.array(list(sizes), pa.string()), "stored": pa.array(sizes.values(), pa.int64())})
    joined = named.join(stored, "filename")
    wrong = joined.filter(pc.fill_null(pc.not_equal(joined["bytes"], joined["stored"]), fill_value=True))
    for row in sorted(wrong.to_pylist(), key=lambda row: row["filename"]):
        filename, recorded, actual = row["filename"], row["bytes"], row["stored"]
        is_gone, is_vector = actual is None, filename in vectors
        what = f"{filename} is not there" if is_gone else f"{filename} has {actual:,} bytes, not {recorded:,}"
        means = "its rows are lost" if is_gone else "it was changed or cut after it was written"
        kind, means = (VECTOR, LOST_VECTOR) if is_vector else ("data file", means)
        yield Suspicion(kind, what, means, filename=filename)


def _foreign_files(storage: Storage, named: pa.Table | None) -> tuple[dict[str, int], list[Suspicion]]:
    """Return the sizes of the named files outside the table's folder, and those that were changed or cannot be read."""
    sizes: dict[str, int] = {}
    changed: list[Suspicion] = []
    for row in [] if named is None else named.filter(_is_foreign(named["filename"])).to_pylist():
        filename = row["filename"]
        try:
            sizes[filename], stamp = storage.stamped(filename)
        except NotFound:  # reported as missing
            continue
        except NotAllowed as error:
            sizes[filename] = row["bytes"]
            what = f"{filename} was not checked: {error.message}"
            changed.append(Suspicion("data file", what, "its rows cannot be read here", filename=filename))
            continue
        if stamp != row["checksum"] and sizes[filename] == row["bytes"]:
            what = f"{filename} {CHANGED}"
            changed.append(Suspicion("data file", what, "its rows may be wrong, or lost", filename=filename))
    return sizes, changed


def _is_foreign(names: pa.ChunkedArray) -> Any:
    return pa.array([is_foreign(name) for name in names.to_pylist()], pa.bool_())


def _orphans(
    store: StateStore,
    seen: _Seen,
    catalogued: Catalogued,
    old_files: Mapping[str, StoredFile],
) -> tuple[StoredFile, ...]:
    """Return the old files that no version needs; none when a version that could not be read may name them."""
    if any(each.filename is None and each.kind in HIDING for each in seen.suspicions):
        return ()
    orphans = old_files.keys() - _needed_paths(store, seen, catalogued) - _future_schemas(old_files, catalogued)
    return tuple(old_files[path] for path in sorted(orphans))


def _needed_paths(store: StateStore, seen: _Seen, catalogued: Catalogued) -> set[str]:
    known = set(catalogued.garbage)
    for version in catalogued.versions:
        known |= _metadata_of(version)
    known |= {paths.savepoint(savepoint.id) for savepoint in catalogued.savepoints}
    known |= {paths.schema(version.schema_id) for version in catalogued.versions}
    if seen.named is not None:
        known |= set(seen.named["filename"].to_pylist())
    if seen.newest is not None:
        known |= set(stored_files(seen.newest.files.ready_for_gc)["filename"].to_pylist())
    with contextlib.suppress(NotFound, CatalogDamaged):  # the log may be read through an expired version
        if catalogued.snapshots:
            start = store.catalog.checkpoint(store.table_id, catalogued.snapshots[-1].id)
            known |= _metadata_of(start) | {paths.schema(start.schema_id)}
    return known


def recorded_checksums(version: CheckedVersion) -> Iterator[tuple[str, str]]:
    """Yield the paths of a version's metadata files, and of its schema, with the checksums recorded for them."""
    metadata = Metadata.of(version)
    recorded: list[tuple[str, str | None]] = [(paths.schema(version.schema_id), version.schema_checksum)]
    if metadata is not None:
        recorded.append((metadata.files_path, metadata.files_checksum))
        recorded.append((metadata.partitions_path, metadata.partitions_checksum))
        if metadata.log is not None:
            recorded.append((metadata.log.path, metadata.log.checksum))
            recorded.append((paths.schema(metadata.log.schema_id), metadata.log.schema_checksum))
    yield from ((path, checksum) for path, checksum in recorded if checksum is not None)


def savepoint_file_faults(storage: Storage, savepoint: Savepoint) -> Iterator[Suspicion]:
    """Yield a suspicion when the file of a savepoint differs from the catalog, from which the savepoint is read."""
    path = paths.savepoint(savepoint.id)
    means = "the savepoint can be read, but a copy of the folder alone would have another version, or none"
    try:
        content = storage.read(path)
    except NotFound:  # deleted with its savepoint in the meantime
        return
    if not is_file_of(savepoint, content):
        what = f"{path} differs from the catalog"
        yield Suspicion("savepoint file", what, means, key_of(savepoint))


def _metadata_of(version: CheckedVersion) -> frozenset[str]:
    metadata = Metadata.of(version)
    if metadata is None:
        return frozenset()
    return metadata.paths | ({paths.schema(metadata.log.schema_id)} if metadata.log else set())


def _future_schemas(stored: Collection[str], catalogued: Catalogued) -> set[str]:
    """Return the schema files with greater ids than any version has: while they exist, their ids are not reused."""
    newest = max((version.schema_id for version in catalogued.versions), default=0)
    return {path for path in stored if (paths.schema_id(path) or 0) > newest}


def _confirmed(store: StateStore, suspicions: list[Suspicion], old_metadata: Collection[str]) -> Iterator[Suspicion]:
    """Yield the suspicions that concern what is retained now; those about a file for each version that names it."""
    now = _look_up(store)
    retained: dict[VersionKey, CheckedVersion] = {key_of(version): version for version in now.versions}
    still_in_catalog = set(now.faults(old_metadata))
    about_files = []
    for suspicion in suspicions:
        if suspicion.filename is not None:
            about_files.append(suspicion)
        elif suspicion.version in retained or suspicion in still_in_catalog:
            yield suspicion
    if not about_files:
        return
    filenames = pa.array(sorted({each.filename for each in about_files if each.filename}), pa.string())
    fresh = without_cache(store)
    for key, version in retained.items():
        try:
            names = stored_files(fresh.load(version).files.active)["filename"]
        except NetworkError:
            raise
        except Exception:  # noqa: BLE001, S112 - reported already, or the version is newer than the check
            continue
        named = set(names.filter(pc.is_in(names, filenames)).to_pylist())
        for each in about_files:
            if each.filename in named:
                yield Suspicion(each.kind, each.what, each.means, key)
