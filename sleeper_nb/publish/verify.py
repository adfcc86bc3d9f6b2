"""Verify what is published: that its files are there, and that it says of each version what the version is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.maintain.findings import Finding
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.publish import metadata_folder as folder
from sleeper_nb.publish.data_entries import Address
from sleeper_nb.publish.live_files import LiveFiles
from sleeper_nb.publish.manifests import DATA, ManifestEntry, ManifestFile
from sleeper_nb.publish.published import lease_ends
from sleeper_nb.publish.table_metadata import PublishedSnapshot, TableMetadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths

_KIND = "published"
_AGAIN = "other engines cannot read it: unpublish the table, then publish it again"
_WRONG = "other engines read other rows: unpublish the table, then publish it again"


def verify(store: StateStore) -> tuple[Finding, ...]:
    """Return what of the published metadata is missing, or differs from the versions that it describes.

    Data files are looked for, not read.
    """
    try:
        found = folder.find(store.storage)
        hint = folder.hinted(store.storage)
    except StorageError as error:
        return (Finding(_KIND, error.message, paths.PUBLISHED, _AGAIN),)
    if found.metadata is None:
        return ()
    return tuple(_Verifying(store, found, found.metadata).findings(hint))


@dataclass
class _Verifying:
    store: StateStore
    found: folder.Found
    metadata: TableMetadata
    _read: dict[str, list[ManifestEntry]] = field(default_factory=dict)

    @property
    def _where(self) -> str:
        return paths.table_metadata(self.found.own)

    def findings(self, hint: int | None) -> Iterator[Finding]:
        if self.metadata.address != Address(self.store.storage.root).text:
            means = "other engines look for its files there: publish it again"
            yield Finding(_KIND, f"it describes files at {self.metadata.address}", self._where, means)
            return
        if self.found.is_foreign:
            what = f"another program wrote {paths.table_metadata(self.found.number)}"
            yield Finding(
                _KIND, what, self._where, "other engines read its versions: publish with --force to hide them"
            )
        elif hint != self.found.own:
            means = "other engines read an older version, or none: publish again"
            yield Finding(
                _KIND, f"it points to {hint or 'no version'}, not {self.found.own}", paths.VERSION_HINT, means
            )
        versions = self._versions()
        files = (*self.found.files, *self.store.storage.list(paths.DATA))
        sizes = {each.path: each.bytes for each in files}
        for snapshot in self._readable():
            yield from self._of_snapshot(snapshot, versions.get(snapshot.id), sizes)

    def _readable(self) -> Iterator[PublishedSnapshot]:
        """Yield the published versions whose files must be there: of a superseded one they may have been deleted."""
        now, ends = self.store.clock.now(), lease_ends(self.store)
        for snapshot in self.metadata.snapshots:
            stays = snapshot.id == self.metadata.main or snapshot.id in self.metadata.tags.values()
            if stays or (snapshot.id in ends and ends[snapshot.id] > now):
                yield snapshot

    def _versions(self) -> Mapping[int, Snapshot | Savepoint]:
        catalog, table_id = self.store.catalog, self.store.table_id
        versions: list[Snapshot | Savepoint] = [*catalog.savepoints(table_id), *catalog.snapshots(table_id)]
        return {each.number: each for each in versions}

    def _of_snapshot(
        self, snapshot: PublishedSnapshot, version: Snapshot | Savepoint | None, sizes: Mapping[str, int]
    ) -> Iterator[Finding]:
        where = f"snapshot {snapshot.id}"
        named = folder.Named(self.store.storage, self.metadata)
        data: dict[str, ManifestEntry] = {}
        deletes: dict[str, ManifestEntry] = {}
        twice: dict[str, None] = {}
        address = Address(self.store.storage.root)
        try:
            for manifest in named.manifests(snapshot.manifest_list):
                known = data if manifest.content == DATA else deletes
                for entry in self._entries(named, manifest):
                    path = address.path(entry.address)
                    twice |= {path: None} if path in known else {}
                    known[path] = entry
        except (NotFound, StorageError) as error:
            yield Finding(_KIND, error.message, where, _AGAIN)
            return
        for path in twice:
            yield Finding(_KIND, f"{path} is listed twice", where, _WRONG)
        for path, entry in (*data.items(), *deletes.items()):
            if not paths.is_foreign(path) and sizes.get(path) != entry.size:
                what = f"{path} is {'lost' if path not in sizes else 'another file'}"
                yield Finding(_KIND, what, where, _AGAIN)
        gone = {
            (address.path(each.deletes_of or ""), paths.position_deletes_key(path) or "")
            for path, each in deletes.items()
        }
        if version is not None and not self._describes(version, set(data), gone):
            yield Finding(_KIND, f"it does not describe the files of snapshot {snapshot.id}", self._where, _WRONG)

    def _entries(self, named: folder.Named, manifest: ManifestFile) -> list[ManifestEntry]:
        if manifest.address not in self._read:
            self._read[manifest.address] = named.entries(manifest)
        return self._read[manifest.address]

    def _describes(self, version: Snapshot | Savepoint, data: set[str], deletes: set[tuple[str, str]]) -> bool:
        """Return whether the files of a version are published, with the deletes that metadata tell of."""
        live = LiveFiles.of(self.store.load(version)).files
        sure = {name for name, file in live.items() if file.is_covered and len(file.vectors) == 1}
        expected = {(name, live[name].deletes_key) for name in sure if not live[name].is_whole}
        told = {each for each in deletes if each[0] in sure}
        return sure <= data <= live.keys() and told == expected and {name for name, _ in deletes} <= live.keys()
