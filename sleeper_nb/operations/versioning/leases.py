"""The leases that the readers of one session hold: one for each version, renewed for as long as somebody reads."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock
from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.model.jobs import Lease
from sleeper_nb.operations.renewing import Renewing

DURATION = timedelta(minutes=15)
"""How long a lease holds behind its last renewal: how long a reader that was killed keeps files from going."""


RELEASING = "sleeper-lease-release"
"""The name of threads that release a lease whose holder is gone."""

LONG_READ = 128 << 20
"""Bytes from which on a read holds a lease; a shorter one has ended before anybody can take its files."""


@dataclass
class _Held:
    lease: Lease
    readers: int


class Leases:
    """Takes, renews and releases leases.

    While any is held a thread renews each before it ends; that one is not counted on for more than that a long reader
    keeps its files, and whoever loses the catalog for longer than a lease holds is told by the read that misses one.

    Parameters
    ----------
    catalog
        Where leases are kept.
    clock
        Gives times and ids.
    author
        Whom a lease names.
    duration
        How long one holds without being renewed.
    """

    def __init__(self, catalog: Catalog, clock: Clock, author: str | None, duration: timedelta = DURATION) -> None:
        self._catalog, self._clock, self._author, self._duration = catalog, clock, author, duration
        self._held: dict[tuple[str, int], _Held] = {}
        self._lock = threading.RLock()
        self._renewing = Renewing("sleeper-leases", duration / 3, self.renew, lambda: bool(self._held))

    def hold(self, table_id: str, snapshot_id: int, purpose: str) -> Callable[[], None]:
        """Keep garbage collection from the files of a version; return what lets go, which may be called again.

        Raises
        ------
        NotFound
            When the version is not kept any more.
        """
        key = table_id, snapshot_id
        with self._lock:
            held = self._held.get(key)
            if held is None:
                self._held[key] = held = _Held(self.take(table_id, snapshot_id, purpose), 0)
                self._renewing.begin()
            held.readers += 1
        reader = contextlib.ExitStack()
        reader.callback(self._let_go, key, held)
        return reader.close

    @contextlib.contextmanager
    def held(self, table_id: str, snapshot_id: int, purpose: str) -> Iterator[None]:
        """Hold a version while a block runs."""
        let_go = self.hold(table_id, snapshot_id, purpose)
        try:
            yield
        finally:
            let_go()

    def take(self, table_id: str, snapshot_id: int, purpose: str) -> Lease:
        """Keep garbage collection from the files of a version until the lease ends by itself; errors as `hold`."""
        now = self._clock.now()
        lease = Lease(self._clock.new_id(), snapshot_id, now, now + self._duration, purpose, self._author)
        self._catalog.add_lease(table_id, lease)
        return lease

    def is_deleted(self, table_id: str) -> bool:
        """Return whether a table is no more, as far as the catalog can tell now."""
        try:
            return not self._catalog.has_table(table_id)
        except StorageError:
            return False

    def _let_go(self, key: tuple[str, int], held: _Held) -> None:
        with self._lock:
            held.readers -= 1
            if held.readers == 0 and self._held.get(key) is held:
                self._release(key)

    def _release(self, key: tuple[str, int]) -> None:
        held = self._held.pop(key)
        with contextlib.suppress(StorageError):  # it ends by itself
            self._catalog.release_lease(key[0], held.lease)

    def renew(self) -> None:
        """Renew every lease that is held; one that is gone is not held any longer."""
        with self._lock:
            for key, held in list(self._held.items()):
                until = self._clock.now() + self._duration
                with contextlib.suppress(StorageError):  # the next round is before it ends
                    if self._catalog.renew_lease(key[0], held.lease, until):
                        held.lease = replace(held.lease, until=until)
                    else:
                        del self._held[key]

    def close(self) -> None:
        """Release every lease."""
        with self._lock:
            for key in list(self._held):
                self._release(key)
        self._renewing.end()


@dataclass(frozen=True, slots=True)
class ReadGuard:
    """What one reader of a version asks to keep the version's files while it reads.

    Parameters
    ----------
    leases
        The session's.
    table_id, snapshot_id
        The version.
    is_old
        Whether it was named, not taken as the current one: what the current version has just replaced stays for the
        garbage collector's delay anyway.
    bytes
        What is read.
    table
        The table's name, for errors.
    """

    leases: Leases
    table_id: str
    snapshot_id: int
    is_old: bool
    bytes: int
    table: str = ""

    @property
    def is_long(self) -> bool:
        """Whether the read needs a lease: a shorter one has ended before anybody can take its files."""
        return self.bytes >= LONG_READ

    @contextlib.contextmanager
    def during(self, purpose: str) -> Iterator[None]:
        """Hold the version while a block reads it, when that takes long; errors as `explained`."""
        with self.explained(), contextlib.ExitStack() as held:
            if self.is_long:
                held.enter_context(self.leases.held(self.table_id, self.snapshot_id, purpose))
            yield

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Read in a block; when that fails as the table was deleted meanwhile, say so."""
        try:
            yield
        except Exception as error:
            if not self.leases.is_deleted(self.table_id):
                raise
            raise NotFound(
                f"table {self.table!r} was deleted while it was read", hint="its rows are gone for good"
            ) from error

    def until_closed(self, purpose: str) -> None:
        """Hold the version until the session is closed: what reads it is handed out, and nobody says when it has."""
        if self.is_old or self.is_long:
            self.leases.hold(self.table_id, self.snapshot_id, purpose)

    def while_alive(self, holder: object, purpose: str) -> None:
        """Hold the version for as long as an object lives, or until the session is closed.

        A version that was not asked for by name, and is read quickly, is read all the same from a catalog that cannot
        be written.
        """
        try:
            release = self.leases.hold(self.table_id, self.snapshot_id, purpose)
        except StorageError:
            if self.is_old or self.is_long:
                raise
            return
        weakref.finalize(holder, _release_aside, release).atexit = False


def _release_aside(release: Callable[[], None]) -> None:
    """Release in a thread: Python finalizes an object in the middle of anything, also of a transaction."""
    threading.Thread(target=release, name=RELEASING, daemon=True).start()


@contextlib.contextmanager
def guarded(guards: Iterable[ReadGuard], purpose: str) -> Iterator[None]:
    """Keep the files of several versions for as long as a block runs."""
    with contextlib.ExitStack() as held:
        for guard in guards:
            held.enter_context(guard.during(purpose))
        yield
