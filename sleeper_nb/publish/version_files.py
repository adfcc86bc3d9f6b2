"""Write what describes one version: position deletes, manifests and their list. What an older one has is used again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.model.schema import Field
from sleeper_nb.model.state import TableState
from sleeper_nb.publish.data_entries import (
    Address,
    EntryMaker,
    check_address,
    check_names,
    check_types,
    needs_footer,
    read_footers,
)
from sleeper_nb.publish.iceberg_schema import FieldIds
from sleeper_nb.publish.live_files import ChangedFiles, LiveFile, LiveFiles
from sleeper_nb.publish.manifest_plan import MOST_ENTRIES, ManifestPlan, OldManifest, in_parts, read_needed
from sleeper_nb.publish.manifests import (
    DATA,
    DELETES,
    FILE_PATH_ID,
    POSITION_ID,
    ManifestEntry,
    ManifestFile,
    Publication,
    entries_in,
)
from sleeper_nb.publish.metadata_folder import Named
from sleeper_nb.publish.table_metadata import PublishedSnapshot
from sleeper_nb.read.live_rows import Positions
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

_DELETED = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)
"""The columns of a file of position deletes (section "Position Delete Files")."""


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """The published version whose manifests are used again.

    Parameters
    ----------
    named
        The metadata that name it.
    changed
        The files that changed since; None when all must be compared.
    """

    named: Named
    snapshot: PublishedSnapshot
    changed: ChangedFiles | None

    def manifests(self, content: int, addresses: Collection[str] | None) -> list[OldManifest]:
        """Return the manifests of data files or of deletes, with the entries of data files that have changed."""
        all_of_them = self.named.manifests(self.snapshot.manifest_list)
        return read_needed((each for each in all_of_them if each.content == content), addresses, self._read)

    def _read(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return entries_in(manifest, self.named.storage.read(self.named.path(manifest.address)))


@dataclass(frozen=True, slots=True)
class Described:
    """What was written for a version.

    Parameters
    ----------
    manifest_list
        Its address.
    totals
        As in `PublishedSnapshot`.
    only_adds
        Whether it has all that the older version has.
    """

    manifest_list: str
    totals: tuple[int, int, int, int]
    only_adds: bool


@dataclass(frozen=True, slots=True)
class Types:
    """The field ids of a version, and the order of rows in its files.

    Parameters
    ----------
    widened
        The fields that older files may have with a type that Iceberg cannot read as the current one.
    in_all_files
        Whether files may have them that were published before.
    order
        The id of the order of rows.
    """

    ids: FieldIds
    widened: Sequence[Field]
    in_all_files: bool
    order: int


@dataclass(frozen=True, slots=True)
class _Deletes:
    """The rows of files that are deleted.

    Parameters
    ----------
    found
        For files whose deletes are not published yet: the rows of the whole file, and the deleted positions.
    """

    found: Mapping[str, tuple[int, Positions]]

    @property
    def gone(self) -> set[str]:
        """The files without a live row."""
        return {name for name, (rows, positions) in self.found.items() if len(positions) == rows}

    @property
    def to_write(self) -> dict[str, Positions]:
        gone = self.gone
        return {name: each for name, (_, each) in self.found.items() if name not in gone and len(each)}


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """Writes what describes one version.

    Parameters
    ----------
    publication
        The number of the version, and Iceberg's JSON of its schema.
    name
        Unique; part of the names of new files.
    older
        A published version, of which as much as possible is used again.
    written
        The paths of the files that were written.
    """

    state: TableState
    storage: Storage
    publication: Publication
    types: Types
    name: str
    older: OlderVersion | None
    written: list[str] = field(default_factory=list)

    def write(self, parent: int | None) -> Described:
        """Write what the older version lacks, and the list; `InvalidInput` for what readers would get wrong."""
        changed = None if self.older is None else self.older.changed
        live = LiveFiles.of(self.state, None if changed is None else changed.names)
        old = {kind: self._old(kind, changed) for kind in (DATA, DELETES)}
        published = {self._key(entry) for each in old[DELETES] for entry in each.entries or ()}
        deletes = self._find(live, published)
        kept = {self._address.of(name): file for name, file in live.files.items() if name not in deletes.gone}
        keys = {file.deletes_key for file in kept.values() if not file.is_whole}
        judged = None if changed is None else {self._address.of(name) for name in changed.names}
        data_plan = ManifestPlan.of(old[DATA], lambda entry: entry.address in kept or _is_other(entry, judged))
        deletes_plan = ManifestPlan.of(old[DELETES], lambda entry: self._key(entry) in keys or _is_other(entry, judged))
        new = [file for address, file in kept.items() if address not in data_plan.known]
        entries = self._checked(live, new, kept.values()).entries([file.filename for file in new])
        made = [self._write_deletes(live.files[name], each) for name, each in deletes.to_write.items()]
        manifests = [*data_plan.kept, *deletes_plan.kept]
        manifests += self._manifests(DATA, chain(data_plan.carried, entries), 0)
        manifests += self._manifests(DELETES, chain(deletes_plan.carried, made), len(manifests))
        path = paths.manifest_list(self.publication.snapshot_id, self.name)
        self._put(path, self.publication.manifest_list(manifests, parent))
        only_adds = not data_plan.lost and not deletes_plan.lost and not made
        return Described(self._address.of(path), _totals(manifests), only_adds)

    def _old(self, content: int, changed: ChangedFiles | None) -> list[OldManifest]:
        if self.older is None:
            return []
        addresses = None if changed is None else [self._address.of(name) for name in changed.before]
        return self.older.manifests(content, addresses)

    @property
    def _address(self) -> Address:
        return Address(self.storage.root)

    def _key(self, entry: ManifestEntry) -> str:
        return paths.position_deletes_key(self._address.path(entry.address)) or ""

    def _find(self, live: LiveFiles, published: Collection[str]) -> _Deletes:
        wanted = [file for file in live.files.values() if not file.is_whole and file.deletes_key not in published]
        if not wanted:
            return _Deletes({})
        with ThreadPoolExecutor(self.storage.at_once) as pool:
            found = pool.map(lambda file: file.deleted(self.state, self.storage), wanted)
            return _Deletes({file.filename: each for file, each in zip(wanted, found, strict=True)})

    def _checked(self, live: LiveFiles, new: Sequence[LiveFile], kept: Iterable[LiveFile]) -> EntryMaker:
        """Return what makes the entries of new data files, after a look into the footers of those that need it."""
        for file in new:
            check_address(self._address.of(file.filename))
        types = self.types
        judged = [each.filename for each in (kept if types.in_all_files else new)] if types.widened else []
        of_others = [file.filename for file in new if needs_footer(file)]
        footers = read_footers(dict.fromkeys((*judged, *of_others)), self.storage)
        check_types({name: footers[name] for name in judged}, types.widened, types.ids)
        check_names(footers, self.storage)
        return EntryMaker(live, types.ids, types.order, self._address, footers)

    def _write_deletes(self, file: LiveFile, positions: Positions) -> ManifestEntry:
        address = self._address.of(file.filename)
        columns = [pa.repeat(pa.scalar(address), len(positions)), pa.array(positions)]
        stream = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(columns, schema=_DELETED), stream, compression="zstd")
        path, content = paths.position_deletes(file.deletes_key, self.name), stream.getvalue().to_pybytes()
        self._put(path, content)
        ends = {FILE_PATH_ID: address.encode()}
        return ManifestEntry(self._address.of(path), len(positions), len(content), {}, ends, ends, deletes_of=address)

    def _manifests(self, content: int, entries: Iterable[ManifestEntry], first: int) -> list[ManifestFile]:
        made = []
        for number, part in enumerate(in_parts(entries, MOST_ENTRIES), first):
            path = paths.manifest(self.name, number)
            manifest, packed = self.publication.manifest(self._address.of(path), content, part)
            self._put(path, packed)
            made.append(manifest)
        return made

    def _put(self, path: str, content: bytes) -> None:
        self.written.append(path)
        self.storage.write(path, content)


def _is_other(entry: ManifestEntry, judged: Collection[str] | None) -> bool:
    """Return whether the data file of an entry is none of those that were judged; never for None: all were."""
    return judged is not None and (entry.deletes_of or entry.address) not in judged


def _totals(manifests: Sequence[ManifestFile]) -> tuple[int, int, int, int]:
    data, deletes = ([each for each in manifests if each.content == kind] for kind in (DATA, DELETES))
    files, rows = sum(each.files for each in data), sum(each.rows for each in data)
    return files, sum(each.files for each in deletes), sum(each.rows for each in deletes), rows
