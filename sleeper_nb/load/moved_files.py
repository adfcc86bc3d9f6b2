"""Move local Parquet files into a table's folder: each gets a second name there, and loses its first one afterwards.

A file system can give one file two names (a hard link), so nothing is copied, and a file is never without a name:

1. Each file gets a name in the table's folder, and its checksum is computed. It keeps its own name.
2. One commit adds the new names to the table. An error before it takes the new names away again.
3. The old names are deleted, each only if it still is the same file as the new one.

A sweep of orphans deletes files without a version that are older than a day. It spares files with two names; and before
a file loses its old name, its time of change becomes now.

A process that is killed before the commit leaves new names that no version has, as any load does; one that is killed
after it leaves old names, which the next run deletes: it recognises files that the table has (`moved_before`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sleeper_nb.errors import Action, Hint, InvalidInput, NotFound, OutcomeUnknown, StorageError
from sleeper_nb.load.ingest import discard_files
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.state import TableState
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import file_checksum

logger = logging.getLogger(__name__)

_COPY: Hint = ("copy its rows instead: ", Action("--copy", "copy=True"))
_LEAVE: Hint = ("leave it where it is: add it without ", Action("--move", "move=True"))


@dataclass(frozen=True, slots=True)
class MovingRules:
    """Which files can be moved into a table's folder.

    Parameters
    ----------
    root
        The table's folder.
    users
        The names of tables that refer to files where they are, by address.
    """

    root: str
    users: Mapping[str, str]

    @classmethod
    def of(cls, stores: Mapping[str, StateStore], root: str, addresses: Iterable[str]) -> MovingRules:
        """Look up which tables, given by name, use some of the files in any version that they keep."""
        wanted, users = set(addresses), dict[str, str]()
        for name, store in stores.items():
            try:
                state = store.load()
            except NotFound:  # it was deleted meanwhile
                continue
            users |= dict.fromkeys(wanted - state.files.untracked(wanted), name)
        return cls(root, users)

    def problem(self, address: str, named: str) -> tuple[str, Hint] | None:
        """Return why a file cannot be moved, and what to do; None if it can. `named` is the address as it was given."""
        if "://" in address:
            return "is in a bucket, where files cannot be moved without a copy", _COPY
        if address in self.users:
            return f"is used by table {self.users[address]!r} where it is", "leave it there, as that table reads it"
        if Path(named).is_symlink():
            return f"was named by a link, {named}", "give the file itself"
        status, root = _status(address), _status(self.root)
        if status is not None and root is not None and status.st_dev != root.st_dev:
            return "is on another disk than the table", _COPY
        if not os.access(Path(address).parent, os.W_OK | os.X_OK):
            return "is in a folder from which you may not remove it", _LEAVE
        return None


def moved_before(state: TableState, storage: Storage, addresses: Iterable[str]) -> dict[str, str]:
    """Return the files that the table also has in its own folder, by their address, with their path there."""
    if not storage.local:
        return {}
    several = {_identity(status): each for each in addresses if (status := _status(each)) and status.st_nlink > 1}
    if not several:
        return {}
    known = state.files.table_without_statistics["filename"].to_pylist()
    names = {name for name in known if not paths.is_foreign(name)}
    own = {_identity(status): name for name in names if (status := _status(storage.locate(name)))}
    return {address: own[identity] for identity, address in several.items() if identity in own}


def _status(located: str) -> os.stat_result | None:
    try:
        return Path(located).stat()
    except OSError:  # reading the file says why
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class Moving:
    """Files that are being moved into a table's folder.

    Parameters
    ----------
    folder
        The id of the partition in whose folder they get their names.
    before
        The files that an earlier run moved, which still have their old names: their paths in the table's folder.
    names
        The path of each other file in the table's folder, by address, once it has one.
    checksums
        The checksums of these, by address.
    """

    store: StateStore
    folder: str
    before: Mapping[str, str]
    names: dict[str, str] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Take the new names away after an error, unless the commit has won or may have."""
        try:
            yield
        except OutcomeUnknown:
            raise
        except BaseException:
            discard_files(self.store, self.names.values())
            raise

    def linked(self, references: Iterable[FileReference]) -> tuple[FileReference, ...]:
        """Return references to files by their names in the table's folder, which they get when they have none yet."""
        return tuple(map(self._linked, references))

    def _linked(self, reference: FileReference) -> FileReference:
        address, storage = reference.filename, self.store.storage
        if address not in self.names:
            self.names[address] = paths.data_file(self.folder, self.store.clock.new_id())
            storage.take(address, self.names[address])
            self.checksums[address] = file_checksum(storage, self.names[address])
            if storage.stamped(self.names[address]) != (reference.bytes, reference.checksum):
                raise InvalidInput(f"{address} was changed while it was added", hint="run it again")
        return replace(reference, filename=self.names[address], checksum=self.checksums[address])

    def release(self) -> list[str]:
        """Delete the old names of all files; return those that could not be deleted."""
        left = []
        for address, path in (*self.before.items(), *self.names.items()):
            try:
                self.store.storage.release(address, path)
            except StorageError as error:
                logger.warning("table %s: an added file keeps its old name: %s", self.store.table_id, error.message)
                left.append(address)
        return left
