"""Write what describes one version: position deletes, manifests and their list. What an older one has is used again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

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
from sleeper_nb.publish.manifests import (
    DATA,
    DELETES,
    FILE_PATH_ID,
    MOST_ENTRIES,
    POSITION_ID,
    ManifestEntry,
    ManifestFile,
    Publication,
    in_parts,
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
FEW_ENTRIES: Final = 1000
MOST_SMALL: Final = 16
"""So many manifests with fewer than `FEW_ENTRIES` are written again as one."""


# Which manifests of an older version a new one uses again, and which entries it must write. A manifest stays while all
# of its files are live. One that lost a file is written again without it. Many small manifests are written again as
# one, so that their number does not grow with each publication. Manifests are read only as far as needed: a million
# entries take a minute.


@dataclass(frozen=True, slots=True)
class OldManifest:
    """A manifest of an older version, with its entries; None where none of them has changed."""

    file: ManifestFile
    entries: Sequence[ManifestEntry] | None
    is_merged: bool = False


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """What a new version uses of the manifests of an older one."""

    kept: tuple[ManifestFile, ...] = ()  # manifests that are used as they are
    carried: tuple[ManifestEntry, ...] = ()  # entries of others that are still live
    known: frozenset[str] = frozenset()  # the addresses of the live entries of manifests that were read
    lost: int = 0  # how many entries are no longer live

    @classmethod
    def of(cls, old: Iterable[OldManifest], is_live: Callable[[ManifestEntry], bool]) -> ManifestPlan:
        kept: list[ManifestFile] = []
        carried: list[ManifestEntry] = []
        known: set[str] = set()
        lost = 0
        for manifest in old:
            entries = manifest.entries or ()
            left = [each for each in entries if is_live(each)]
            known |= {each.address for each in left}
            lost += len(entries) - len(left)
            if manifest.is_merged or len(left) < len(entries):
                carried += left
            else:
                kept.append(manifest.file)
        return cls(tuple(kept), tuple(carried), frozenset(known), lost)


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """The published version whose manifests are used again."""

    named: Named  # the metadata that name it
    snapshot: PublishedSnapshot
    changed: ChangedFiles | None  # the files that changed since; None when all must be compared

    def manifests(self, content: int, addresses: Collection[str] | None) -> list[OldManifest]:
        """Return the manifests of data files or of deletes, and the entries of those that may have one of some files.

        All have their entries for None. The newest are read first, as files that change were mostly added lately.
        """
        of_kind = (each for each in self.named.manifests(self.snapshot.manifest_list) if each.content == content)
        newest_first = sorted(of_kind, key=lambda each: each.sequence, reverse=True)
        small = [each for each in newest_first if each.files < FEW_ENTRIES]
        merged = {each.address for each in small} if len(small) >= MOST_SMALL else set()
        wanted = set(addresses or ())
        found = []
        for manifest in newest_first:
            is_merged = manifest.address in merged
            entries = self.named.entries(manifest) if is_merged or wanted or addresses is None else None
            wanted -= {each.deletes_of or each.address for each in entries or ()}
            found.append(OldManifest(manifest, entries, is_merged))
        return found


@dataclass(frozen=True, slots=True)
class Types:
    """The field ids of a version, and the order of rows in its files."""

    ids: FieldIds
    # the fields that older files may have with a type that Iceberg cannot read as the current one
    widened: Sequence[Field]
    in_all_files: bool  # whether files may have them that were published before
    order: int  # the id of the order of rows


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """Writes what describes one version."""

    state: TableState
    storage: Storage
    publication: Publication  # the number of the version, and Iceberg's JSON of its schema
    types: Types
    name: str  # Unique; part of the names of new files
    older: OlderVersion | None  # a published version, of which as much as possible is used again
    written: list[str] = field(default_factory=list)  # the paths of the files that were written

    def write(self, parent: int | None) -> tuple[str, tuple[int, int, int, int], bool]:
        """Write what the older version lacks, and the list; `InvalidInput` for what readers would get wrong.

        Returns the address of the list, the totals of `PublishedSnapshot`, and whether the version has all that the
        older one has.
        """
        changed = None if self.older is None else self.older.changed
        live = LiveFiles.of(self.state, None if changed is None else changed.names)
        old = {kind: self._old(kind, changed) for kind in (DATA, DELETES)}
        published = {self._key(entry) for each in old[DELETES] for entry in each.entries or ()}
        deleted = self._deleted(live, published)
        gone = {name for name, (rows, positions) in deleted.items() if len(positions) == rows}
        kept = {self._address.of(name): file for name, file in live.files.items() if name not in gone}
        keys = {file.deletes_key for file in kept.values() if not file.is_whole}
        judged = None if changed is None else {self._address.of(name) for name in changed.names}
        data_plan = ManifestPlan.of(old[DATA], lambda entry: entry.address in kept or _is_other(entry, judged))
        deletes_plan = ManifestPlan.of(old[DELETES], lambda entry: self._key(entry) in keys or _is_other(entry, judged))
        new = [file for address, file in kept.items() if address not in data_plan.known]
        entries = self._checked(live, new, kept.values()).entries([file.filename for file in new])
        left = {name: positions for name, (_, positions) in deleted.items() if name not in gone and len(positions)}
        made = [self._write_deletes(live.files[name], positions) for name, positions in left.items()]
        manifests = [*data_plan.kept, *deletes_plan.kept]
        manifests += self._manifests(DATA, chain(data_plan.carried, entries), 0)
        manifests += self._manifests(DELETES, chain(deletes_plan.carried, made), len(manifests))
        path = paths.manifest_list(self.publication.snapshot_id, self.name)
        self._put(path, self.publication.manifest_list(manifests, parent))
        only_adds = not data_plan.lost and not deletes_plan.lost and not made
        return self._address.of(path), _totals(manifests), only_adds

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

    def _deleted(self, live: LiveFiles, published: Collection[str]) -> dict[str, tuple[int, Positions]]:
        """Return the rows of each file whose deletes are not published yet, and the deleted positions."""
        wanted = [file for file in live.files.values() if not file.is_whole and file.deletes_key not in published]
        if not wanted:
            return {}
        with ThreadPoolExecutor(self.storage.at_once) as pool:
            found = pool.map(lambda file: file.deleted(self.state, self.storage), wanted)
            return {file.filename: each for file, each in zip(wanted, found, strict=True)}

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
