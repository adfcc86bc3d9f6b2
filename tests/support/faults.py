"""Faults as wrappers: storage and catalogs that fail, stop, lose answers or kill the process at a chosen call."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import StorageError
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import reopened

STORAGE_CALLS = ("output", "write", "write_new", "delete", "delete_all")
CATALOG_CALLS = (
    "create_table", "rename_table", "delete_table", "forget_deleted", "commit", "materialise",
    "expire_snapshots", "reserve_savepoint_id", "add_savepoint", "delete_savepoint",
    "add_garbage", "forget_garbage", "add_lease", "renew_lease", "release_lease", "claim_files",
    "release_claim", "put_job", "remember_jobs", "note_properties",
)  # fmt: skip
"""The calls that change something."""


class Trap:
    """Counts calls and springs before or after the chosen one.

    Parameters
    ----------
    at
        The number of the call at which it springs, counted from 1; None never springs.
    spring
        What happens then: it may raise, or end the process.
    after
        Whether the call is done first.
    only
        The names of the calls that count; all when None.
    """

    def __init__(
        self,
        at: int | None,
        spring: Callable[[], None],
        *,
        after: bool = False,
        only: tuple[str, ...] | None = None,
    ) -> None:
        self.at, self.spring, self.after, self.only = at, spring, after, only
        self.calls: list[str] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def around(self, name: str) -> Iterator[None]:
        due = False
        if self.only is None or name in self.only:
            with self._lock:  # threads of a bulk load write at once
                self.calls.append(name)
                due = len(self.calls) == self.at
        if due and not self.after:
            self.spring()
        yield
        if due and self.after:
            self.spring()


class TrappedStorage(Storage):
    """A folder whose changing calls go through a trap."""

    def __init__(self, real: Storage, trap: Trap | Fault) -> None:
        super().__init__(real.place)
        self.trap = trap

    def below(self, folder: str) -> Storage:
        return type(self)(super().below(folder), self.trap)

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        with self.trap.around("output"), super().output(path) as stream:
            yield stream

    def write(self, path: str, content: bytes) -> None:
        with self.trap.around("write"):
            super().write(path, content)

    def write_new(self, path: str, content: bytes) -> bool:
        with self.trap.around("write_new"):
            return super().write_new(path, content)

    def delete(self, path: str) -> None:
        with self.trap.around("delete"):
            super().delete(path)

    def delete_all(self, folder: str) -> None:
        with self.trap.around("delete_all"):
            super().delete_all(folder)


class TrappedCatalog:
    """A catalog whose changing calls go through a trap; everything else is the real one's."""

    def __init__(self, real: Catalog, trap: Trap) -> None:
        self._real, self._trap = real, trap

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name not in (*CATALOG_CALLS, *(self._trap.only or ())):
            return method

        def trapped(*arguments: Any, **options: Any) -> Any:
            with self._trap.around(name):
                return method(*arguments, **options)

        return trapped


@dataclass
class Room:
    """The bytes that a disk has left."""

    bytes: int


class FullDisk(Storage):
    """A folder on a disk that is full after so many bytes, as are the folders below it."""

    def __init__(self, real: Storage, room: int | Room) -> None:
        super().__init__(real.place)
        self._room = Room(room) if isinstance(room, int) else room

    @property
    def room(self) -> int:
        """The bytes that are left."""
        return self._room.bytes

    @room.setter
    def room(self, left: int) -> None:
        self._room.bytes = left

    def below(self, folder: str) -> Storage:
        return FullDisk(super().below(folder), self._room)

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[Any]:
        with super().output(path) as stream:
            yield _Narrow(stream, self._room)


class _Narrow:
    """A stream that takes no more bytes than there is room for."""

    def __init__(self, stream: pa.NativeFile, room: Room) -> None:
        self._stream, self._room = stream, room

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        if size > self._room.bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room.bytes -= size
        return int(self._stream.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def kill() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def lose_answer() -> None:
    """Fail as a connection that broke does."""
    raise StorageError("the connection broke")


class DeadError(BaseException):
    """The process has ended: nothing that it does afterwards has an effect."""


def no_disk() -> StorageError:
    return StorageError("the disk does not answer")


@dataclass
class Fault:
    """What happens at one of the next calls.

    Parameters
    ----------
    kind
        One of `KINDS`, or ``stalls``: the call is held back for `wake`, and nothing more comes of its process.
    at
        The number of the call, from 1.
    rival
        Commits as another process.
    only
        The calls that count; all when None.
    """

    kind: str
    at: int
    rival: Callable[[], None]
    only: str | None = None
    calls: int = 0
    dead: bool = False
    held: Callable[[], object] | None = None

    @contextlib.contextmanager
    def around(
        self, name: str, broken: Callable[[], Exception] = no_disk, call: Callable[[], object] | None = None
    ) -> Iterator[None]:
        if self.dead:
            raise DeadError
        counts = self.only in {None, name}
        self.calls += counts
        due, late = counts and self.calls == self.at, self.calls > self.at
        match self.kind:
            case "overtaken" if due:
                self.rival()
            case "stalls" if due:
                self.held = call
                self.die()
            case "dies before" if due:
                self.die()
            case "fails" if due:
                raise broken()
            case "is down" if due or late:
                raise broken()
        yield
        match self.kind:
            case "dies after" if due:
                self.die()
            case "loses its answer" if due:
                raise broken()
            case "loses all answers" if due or late:
                raise broken()

    def die(self) -> None:
        self.dead = True
        raise DeadError


KINDS = (
    "none", "overtaken", "fails", "is down", "loses its answer", "loses all answers", "dies before", "dies after",
)  # fmt: skip


class Faulty:
    """A catalog, or a client of DynamoDB, whose every call may meet the fault."""

    def __init__(self, real: Any, fault: Fault, broken: Callable[[], Exception]) -> None:
        self._real, self._fault, self._broken = real, fault, broken

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if not callable(method):
            return method

        def called(*arguments: Any, **options: Any) -> Any:
            call = partial(method, *arguments, **options)
            with self._fault.around(name, self._broken, call):
                return call()

        return called


class FaultyStorage(TrappedStorage):
    """A folder whose every call, reading too, may meet the fault."""

    def input(self, path: str) -> pa.NativeFile:
        with self.trap.around("input"):
            return super().input(path)


def trapped(store: StateStore, trap: Trap) -> StateStore:
    """Return a store of the same table whose changing calls go through a trap."""
    return reopened(store, TrappedCatalog(store.catalog, trap), TrappedStorage(store.storage, trap))
