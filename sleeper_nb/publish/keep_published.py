"""Keep what is published up to date: the versions that a table's properties ask for, after a commit and by maintenance.

A version is published after the commit that made it, never within: a publication that fails leaves the commit as it
is, and the next maintenance publishes what is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.maintain.maintain import NOTHING_DUE
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import ICEBERG, ICEBERG_TIME, SAVEPOINT_INTERVAL, TableProperties
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.publish.publish import PublishReport, PublishSettings, publish
from sleeper_nb.publish.published import Published, published, tag_of
from sleeper_nb.report import Grid, Report
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.periodic_savepoints import save_if_due
from sleeper_nb.versions.resolve import Resolved

logger = logging.getLogger(__name__)

_SAME_FILES = frozenset({"collect-garbage", "split", "migrate"})
"""The commits after which other engines would read the same files."""


def due(mode: str, versions: RetainedVersions, there: Published | None) -> tuple[Snapshot | Savepoint, ...]:
    """Return the versions that a table's property asks for and that are not published, oldest first. Pure.

    The tag of a savepoint that was deleted makes its newest version due, as each publication writes all tags again.
    Without a snapshot, as where others have expired it, savepoints alone are due.
    """
    if mode == "off":
        return ()
    have = None if there is not None and there.is_moved else there
    tags = frozenset[str]() if have is None else have.tags.keys()
    saved = {tag_of(each): each for each in sorted(versions.savepoints, key=lambda each: each.number)}
    missing: list[Snapshot | Savepoint] = [each for name, each in saved.items() if name not in tags]
    is_stale = bool(tags - saved.keys())
    if mode == "commits" and versions.snapshots and (is_stale or _is_behind(versions.snapshots, have)):
        missing += [] if any(each.number == versions.current.id for each in missing) else [versions.current]
    elif is_stale and saved and not missing:
        missing.append([*saved.values()][-1])
    return tuple(missing)


def is_newer(version: Snapshot | Savepoint, there: Published | None) -> bool:
    """Return whether engines lack a version, and not only a tag of an older one, which they may be unable to read."""
    return there is None or version.number > there.main


def _is_behind(snapshots: Sequence[Snapshot], there: Published | None) -> bool:
    """Return whether engines read other files than those of the current version."""
    if there is None:
        return True
    newer = [each for each in snapshots if each.id > there.main]
    if len(newer) < snapshots[0].id - there.main:  # one between has expired, and may have changed files
        return True
    return any(each.operation not in _SAME_FILES for each in newer)


@dataclass(frozen=True, slots=True, repr=False)
class CaughtUp(Report):
    """The versions that maintenance published; of a dry run, that it would publish.

    Parameters
    ----------
    refused
        Versions older than the newest published one that other engines cannot read beside it.
    """

    snapshots: tuple[int, ...]
    dry_run: bool
    refused: tuple[int, ...] = ()

    @property
    def summary(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        parts = [f"other engines cannot read {_numbered(self.refused)}"] if self.refused else []
        if self.snapshots:
            verb = "would publish" if self.dry_run else "published"
            parts.insert(0, f"{verb} {_numbered(self.snapshots)}")
        elif parts:
            parts.insert(0, NOTHING_DUE)
        return ": ".join(parts)

    def grid(self) -> Grid:
        return Grid((), (), footer=self.summary or "nothing is to be published")


def _numbered(snapshots: Sequence[int]) -> str:
    return f"snapshot{'s' * (len(snapshots) > 1)} {', '.join(map(str, snapshots))}"


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes versions of one table, as its properties say."""

    store: StateStore
    table: str
    properties: TableProperties
    author: str | None

    def publish(self, version: Resolved, *, force: bool = False) -> PublishReport:
        """Publish a version; errors as of `publish`."""
        processing = DataProcessing.at(self.properties, self.store.load(version.version), self.store.clock.now())
        settings = PublishSettings(
            processing=processing, retained=self.properties[ICEBERG_TIME], author=self.author, force=force
        )
        return publish(self.store, self.table, version, settings)

    def catch_up(self, head: Snapshot, *, dry_run: bool) -> CaughtUp:
        """Publish what was due when a version was current, or only report it; also what maintenance saves of it.

        One that other engines cannot read does not keep the others back. The error of the newest is raised, unless
        a version that is as new is published.
        """
        store, versions = self.store, retained(self.store.catalog, self.store.table_id)
        until = tuple(each for each in versions.snapshots if each.id <= head.id)
        there = published(store)
        missing = due(self.properties[ICEBERG], replace(versions, snapshots=until), there)
        numbers = {each.number for each in missing}
        if dry_run:
            interval = self.properties[SAVEPOINT_INTERVAL]
            coming = save_if_due(store, head, interval, store.clock.now(), dry_run=True, author=None).snapshot_id
            return CaughtUp(tuple(sorted(numbers if coming is None else {*numbers, coming})), dry_run)
        refused: dict[int, InvalidInput] = {}
        for each in missing:
            try:
                self.publish(Resolved(each))
            except InvalidInput as error:
                refused[each.number] = error
        newest = max(numbers - refused.keys(), default=0)
        for each in sorted(missing, key=lambda each: -each.number):
            if each.number in refused and each.number > newest and is_newer(each, there):
                raise refused[each.number]
        return CaughtUp(tuple(sorted(numbers - refused.keys())), dry_run, tuple(sorted(refused)))

    def catch_up_after(self) -> str:
        """Publish what is due, as `after`."""
        if self.properties[ICEBERG] == "off":
            return ""
        return self._tried("the newest version", lambda: self.catch_up(self.store.head(), dry_run=False))

    def after(self, made: Snapshot | None, saved: Savepoint | None = None) -> str:
        """Publish what a commit made, if the properties ask for it; return what failed, in one sentence.

        The commit is done before this begins. So a failure is returned and not raised: a caller that saw an error would
        do the work again.

        Parameters
        ----------
        made, saved
            The new snapshot and the new savepoint, if there is one.
        """
        mode = self.properties[ICEBERG]
        if mode == "off":
            return ""
        newest = made if mode == "commits" else None
        version: Snapshot | Savepoint | None = saved if saved is not None else newest
        if version is None:
            return ""
        return self._tried(f"snapshot {version.number}", lambda: self.publish(Resolved(version)))

    def _tried(self, what: str, work: Callable[[], object]) -> str:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the commit is done
            why = error.message if isinstance(error, SleeperError) else repr(error)
            logger.warning("table %s: %s is not published: %s", self.store.table_id, what, why)
            return f"{what} could not be published as Iceberg: {why}. Maintenance tries again"
        return ""
