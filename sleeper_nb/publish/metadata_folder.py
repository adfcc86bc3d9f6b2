"""The folder ``metadata`` of a published table: find the newest metadata, write the next, and delete what is left over.

Section "File System Tables" of the Iceberg specification: ``v<N>.metadata.json`` describes the table, and
``version-hint.text`` has the number of the current one. Some readers look for greater numbers, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sleeper_nb.errors import Action, ConfirmationNeeded, NotFound, StorageError
from sleeper_nb.publish.manifests import DELETES, ManifestEntry, ManifestFile, entries_in, manifests_in
from sleeper_nb.publish.table_metadata import OUR_SNAPSHOT, OWN_NAME, PUBLICATION, TableMetadata
from sleeper_nb.report import counted
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage, StoredFile

logger = logging.getLogger(__name__)

GRACE = timedelta(hours=1)
"""How long files stay that no metadata name: another publisher may name them soon, or a reader has just begun."""
UNPUBLISH = Action("unpublish T", "table.unpublish()")


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the folder."""

    number: int  # the greatest number of any metadata; 0 for none
    own: int  # the number of the newest metadata that a publication of ours wrote; 0 for none
    metadata: TableMetadata | None
    hidden: tuple[int, ...]  # the numbers of snapshots that only another engine's newer metadata have
    files: tuple[StoredFile, ...]

    @property
    def is_foreign(self) -> bool:
        """Whether another engine has written the newest metadata."""
        return self.number > self.own

    def check_unchanged(self, table: str, *, force: bool, deletes: bool = False) -> None:
        """Raise `ConfirmationNeeded` when what another engine has written would be hidden, or deleted."""
        if not self.is_foreign or force:
            return
        fate, does = ("deleted", " deletes it") if deletes else ("hidden", " hides it")
        what = counted(len(self.hidden), "snapshot") + "".join(f" {each}" for each in self.hidden[:3])
        lost = f", with {what}, which would be {fate}" if self.hidden else f", which would be {fate}"
        raise ConfirmationNeeded(
            f"another program has written {paths.table_metadata(self.number)} of table {table!r}{lost}",
            hint=(Action("--force", "force=True"), does),
        )


def find(storage: Storage) -> Found:
    """Return what is in the folder.

    `StorageError` when the newest metadata cannot be read.
    """
    files = storage.list(paths.PUBLISHED)
    numbers = sorted(filter(None, map(paths.table_metadata_number, (each.path for each in files))), reverse=True)
    hidden: dict[int, None] = {}
    for number in numbers:
        body = read_body(storage, number)
        if is_ours(body, number):
            metadata = parsed(storage, body, number)
            return Found(numbers[0], number, metadata, tuple(hidden), files)
        hidden |= dict.fromkeys(_snapshots_of_others(body))
    return Found(numbers[0] if numbers else 0, 0, None, tuple(hidden), files)


def read_body(storage: Storage, number: int) -> Mapping[str, Any]:
    content = storage.read(paths.table_metadata(number))
    try:
        body = json.loads(content)
    except ValueError as error:
        raise _unreadable(storage, number) from error
    if not isinstance(body, dict):
        raise _unreadable(storage, number)
    return body


def _unreadable(storage: Storage, number: int) -> StorageError:
    what = f"{storage.locate(paths.table_metadata(number))} is not metadata of a published table"
    return StorageError(what, hint=("take it away, and publish again: ", UNPUBLISH))


def is_ours(body: Mapping[str, Any], number: int) -> bool:
    """Return whether a publication of ours wrote metadata: other engines copy our properties into files of theirs."""
    properties = body.get("properties")
    return isinstance(properties, dict) and properties.get(OWN_NAME) == name_of(number)


def name_of(number: int) -> str:
    return paths.table_metadata(number).rpartition("/")[2]


def parsed(storage: Storage, body: Mapping[str, Any], number: int) -> TableMetadata:
    try:
        return TableMetadata.of(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(storage, number) from error


def _snapshots_of_others(body: Mapping[str, Any]) -> Iterator[int]:
    snapshots = body.get("snapshots")
    for each in snapshots if isinstance(snapshots, list) else ():
        if isinstance(each, dict) and OUR_SNAPSHOT not in each.get("summary", {}):
            yield each.get("snapshot-id", 0)


def hinted(storage: Storage) -> int | None:
    """Return the number that readers are told; None when there is none, or not of ours."""
    try:
        text = storage.read(paths.VERSION_HINT)
    except NotFound:
        return None
    return int(text) if text.strip().isdigit() else None


def create(storage: Storage, number: int, content: bytes, publication: str) -> bool:
    """Create the metadata of a number; return whether this publication did, also where the answer to it was lost."""
    if storage.write_new(paths.table_metadata(number), content):
        return True
    properties = read_body(storage, number).get("properties", {})
    return bool(properties.get(PUBLICATION) == publication)


def point_to(storage: Storage, number: int) -> None:
    """Tell readers the number of the newest metadata: this one, or what another publisher has made meanwhile."""
    while True:
        storage.write(paths.VERSION_HINT, str(number).encode())
        if not storage.has(paths.table_metadata(number + 1)):
            return
        number += 1


@dataclass(frozen=True, slots=True)
class Named:
    """The files that some metadata name, below the table's folder."""

    storage: Storage
    metadata: TableMetadata

    def path(self, address: str) -> str:
        return address.removeprefix(f"{self.metadata.address}/")

    def manifests(self, address: str) -> list[ManifestFile]:
        """Return the manifests in a list."""
        return manifests_in(self.storage.read(self.path(address)), address)

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return entries_in(manifest, self.storage.read(self.path(manifest.address)))

    def files(self) -> set[str]:
        """Return the paths of manifest lists, manifests and deletes of all snapshots."""
        found, seen = set[str](), set[str]()
        for snapshot in self.metadata.snapshots:
            found.add(self.path(snapshot.manifest_list))
            for manifest in self.manifests(snapshot.manifest_list):
                if manifest.address in seen:
                    continue
                seen.add(manifest.address)
                found.add(self.path(manifest.address))
                if manifest.content == DELETES:
                    found |= {self.path(each.address) for each in self.entries(manifest)}
        return found


def delete_left_over(
    storage: Storage, metadata: TableMetadata, number: int, files: Iterable[StoredFile], now: datetime
) -> None:
    """Delete the files older than `GRACE` that the newest metadata, of this number, do not name; others' files stay."""
    old = [each.path for each in files if now - each.modified > GRACE]
    described = [path for path in old if paths.is_of_publication(path)]
    named = Named(storage, metadata).files() if described else set()
    gone = [path for path in described if path not in named]
    gone += [path for path in old if _is_superseded(storage, metadata, number, path)]
    for path in gone:
        storage.delete(path)
    if gone:
        logger.info("%s: deleted %d metadata files of publications that are superseded", storage.root, len(gone))


def _is_superseded(storage: Storage, metadata: TableMetadata, newest: int, path: str) -> bool:
    """Return whether a file is older metadata of ours, whose newest version is no longer kept."""
    number = paths.table_metadata_number(path)
    if number is None or number >= newest:
        return False
    try:
        body = read_body(storage, number)
        return is_ours(body, number) and parsed(storage, body, number).main not in metadata.numbers
    except StorageError:
        return False
