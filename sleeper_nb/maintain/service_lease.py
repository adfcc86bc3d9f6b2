"""The lease of a service: one process at a time does an instance's regular work, and another takes over when it died.

The lease saves work, not data: each step is a conditional commit, so two owners, as clocks that differ by minutes can
make them, only do some work twice.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from datetime import datetime, timedelta

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.jobs import ServiceLease
from sleeper_nb.read.background import Renewing

logger = logging.getLogger(__name__)

DURATION = timedelta(minutes=3)
"""How long a lease lasts after its last renewal: how long another process waits for one that was killed."""
RENEWED_AFTER = DURATION / 3
MAINTENANCE = "maintain"
"""The service that maintains all tables of an instance."""


def held_lease(catalog: Catalog, service: str, now: datetime) -> ServiceLease | None:
    lease = catalog.service(service)
    return lease if lease is not None and now < lease.until else None


class HeldService:
    """The lease of a service as one process takes, renews and releases it."""

    def __init__(self, catalog: Catalog, clock: Clock, service: str, holder: str) -> None:
        self._catalog, self._clock, self._lock = catalog, clock, threading.Lock()
        now = clock.now()
        self._wanted = ServiceLease(service, clock.new_id(), holder, now, now)
        self._held: ServiceLease | None = None
        self._renewing = Renewing("sleeper-service-lease", RENEWED_AFTER, self.renew, lambda: self._held is not None)

    @property
    def held(self) -> bool:
        held = self._held
        return held is not None and self._clock.now() < held.until

    def take(self) -> ServiceLease | None:
        """Take the lease, and renew it from then on; return the other owner's lease when that has it."""
        other = self._take()
        if other is None:
            self._renewing.begin()
        return other

    def renew(self) -> None:
        """Renew the lease; when another process has taken it, it is lost. Never raises."""
        try:
            self._take(only_held=True)
        except SleeperError as error:  # the next renewal may succeed, before the lease has ended
            logger.warning("the lease of %s could not be renewed: %s", self._wanted.service, error.message)

    def release(self) -> None:
        """Give the lease back, so that another process can take it at once."""
        self._renewing.end()
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                self._catalog.release_service(held)

    def _take(self, *, only_held: bool = False) -> ServiceLease | None:
        with self._lock:
            if only_held and self._held is None:  # released while this waited
                return None
            now = self._clock.now()
            since = now if self._held is None else self._held.since
            mine = replace(self._wanted, since=since, until=now + DURATION)
            answer = self._catalog.take_service(mine, now)
            if answer.owner == mine.owner:
                self._held = mine
                return None
            if self._held is not None:
                logger.warning("the lease of %s was lost to %s", mine.service, answer.holder)
            self._held = None
            return answer
