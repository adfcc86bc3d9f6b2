"""Leases: keep garbage collection from the files of a version while the readers of a session need them.

A session holds one lease for each version that it reads, however many readers share it, and renews the lease until the
last reader has released it. A lease that is not renewed, because its process was killed, ends by itself.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock
from sleeper_nb.errors import AccessDenied, NotFound, StorageError
from sleeper_nb.model.jobs import Lease
from sleeper_nb.read.background import Renewing

logger = logging.getLogger(__name__)

DURATION = timedelta(minutes=15)
"""How long a lease lasts after its last renewal: how long a reader that was killed delays garbage collection."""

RELEASING = "sleeper-lease-release"
"""The name of the threads that release a lease whose holder was finalized."""

LONG_READ = 128 << 20
"""A read of this many bytes or more holds a lease; a shorter read ends before its files can be deleted."""


@dataclass
class _HeldLease:
    lease: Lease
    readers: int


class Leases:
    """Takes, renews and releases the leases of one session.

    While any lease is held, a thread renews each of them before it ends. A session that cannot reach the catalog for
    longer than a lease lasts may lose its files; the read that misses a file then fails.
    """

    def __init__(self, catalog: Catalog, clock: Clock, author: str | None, duration: timedelta = DURATION) -> None:
        self._catalog, self._clock, self._author, self._duration = catalog, clock, author, duration
        self._held: dict[tuple[str, int], _HeldLease] = {}
        self._lock = threading.RLock()
        self._renewing = Renewing("sleeper-leases", duration / 3, self.renew, lambda: bool(self._held))

    def hold(self, table_id: str, snapshot_id: int, purpose: str) -> Callable[[], None]:
        """Keep garbage collection from the files of a version until the returned function is called.

        Calling that function again does nothing. Keys that may only read go on without a lease: a read that misses a
        file fails, and never gives other rows.

        `NotFound` when the version is no longer retained.
        """
        key = table_id, snapshot_id
        with self._lock:
            held = self._held.get(key)
            if held is None:
                lease = self.take(table_id, snapshot_id, purpose)
                if lease is None:
                    return _nothing_to_release
                self._held[key] = held = _HeldLease(lease, 0)
                self._renewing.begin()
            held.readers += 1
        reader = contextlib.ExitStack()
        reader.callback(self._release_reader, key, held)
        return reader.close

    @contextlib.contextmanager
    def held(self, table_id: str, snapshot_id: int, purpose: str) -> Iterator[None]:
        release = self.hold(table_id, snapshot_id, purpose)
        try:
            yield
        finally:
            release()

    def take(self, table_id: str, snapshot_id: int, purpose: str) -> Lease | None:
        """Take a lease that is not renewed and ends by itself; errors as of `hold`. Keys that only read get None."""
        now = self._clock.now()
        lease = Lease(self._clock.new_id(), snapshot_id, now, now + self._duration, purpose, self._author)
        try:
            self._catalog.add_lease(table_id, lease)
        except AccessDenied as error:
            logger.warning("table %s: reads snapshot %d without a lease: %s", table_id, snapshot_id, error.message)
            return None
        logger.debug(
            "table %s: took a lease on snapshot %d for %s until %s", table_id, snapshot_id, purpose, lease.until
        )
        return lease

    def is_deleted(self, table_id: str) -> bool:
        """Return whether a table was deleted; False when the catalog cannot be reached."""
        try:
            return not self._catalog.has_table(table_id)
        except StorageError:
            return False

    def _release_reader(self, key: tuple[str, int], held: _HeldLease) -> None:
        with self._lock:
            held.readers -= 1
            if held.readers == 0 and self._held.get(key) is held:
                self._release(key)

    def _release(self, key: tuple[str, int]) -> None:
        table_id, snapshot_id = key
        held = self._held.pop(key)
        try:
            self._catalog.release_lease(table_id, held.lease)
        except StorageError as error:
            logger.warning(
                "table %s: the lease on snapshot %d could not be released and ends at %s: %s",
                table_id,
                snapshot_id,
                held.lease.until,
                error.message,
            )
        else:
            logger.debug("table %s: released the lease on snapshot %d", table_id, snapshot_id)

    def renew(self) -> None:
        """Renew every lease that is held. A lease that no longer exists is dropped."""
        with self._lock:
            for key, held in list(self._held.items()):
                table_id, snapshot_id = key
                until = self._clock.now() + self._duration
                try:
                    renewed = self._catalog.renew_lease(table_id, held.lease, until)
                except StorageError as error:  # tried again before the lease ends
                    logger.warning(
                        "table %s: the lease on snapshot %d could not be renewed: %s",
                        table_id,
                        snapshot_id,
                        error.message,
                    )
                    continue
                if renewed:
                    held.lease = replace(held.lease, until=until)
                    logger.debug("table %s: renewed the lease on snapshot %d until %s", table_id, snapshot_id, until)
                else:
                    del self._held[key]
                    logger.warning("table %s: the lease on snapshot %d was lost", table_id, snapshot_id)

    def close(self) -> None:
        with self._lock:
            for key in list(self._held):
                self._release(key)
        self._renewing.end()


@dataclass(frozen=True, slots=True)
class ReadGuard:
    """Protects the files of one version while one reader reads it."""

    leases: Leases
    table_id: str
    snapshot_id: int
    # whether the version was named. The current version needs less protection: files that a commit replaces stay for
    # the garbage collection's delay anyway.
    is_old: bool
    bytes: int
    table: str = ""

    @property
    def is_long(self) -> bool:
        return self.bytes >= LONG_READ

    @contextlib.contextmanager
    def during(self, purpose: str) -> Iterator[None]:
        """Hold the version while a block reads it, if the read is long; errors as of `explained`."""
        with self.explained(), contextlib.ExitStack() as held:
            if self.is_long:
                held.enter_context(self.leases.held(self.table_id, self.snapshot_id, purpose))
            yield

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn an error of a block into `NotFound` when the table was deleted in the meantime."""
        try:
            yield
        except Exception as error:
            if not self.leases.is_deleted(self.table_id):
                raise
            raise NotFound(
                f"table {self.table!r} was deleted while it was being read", hint="its rows cannot be restored"
            ) from error

    def until_closed(self, purpose: str) -> None:
        """Hold the version until the session is closed, for a reader whose end the session cannot know."""
        if self.is_old or self.is_long:
            self.leases.hold(self.table_id, self.snapshot_id, purpose)

    def while_alive(self, holder: object, purpose: str) -> None:
        """Hold the version for as long as an object lives, or until the session is closed.

        If the lease cannot be written, a short read of the current version goes on without it.
        """
        try:
            release = self.leases.hold(self.table_id, self.snapshot_id, purpose)
        except StorageError as error:
            if self.is_old or self.is_long:
                raise
            logger.warning(
                "table %s: reading snapshot %d without a lease: %s", self.table_id, self.snapshot_id, error.message
            )
            return
        weakref.finalize(holder, _release_in_thread, release).atexit = False


def _nothing_to_release() -> None:
    """Release no lease, of a reader that has none."""


def _release_in_thread(release: Callable[[], None]) -> None:
    """Release a lease in a thread: Python may finalize an object at any point, even within a transaction."""
    threading.Thread(target=release, name=RELEASING, daemon=True).start()


@contextlib.contextmanager
def hold_versions(guards: Iterable[ReadGuard], purpose: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for guard in guards:
            stack.enter_context(guard.during(purpose))
        yield
