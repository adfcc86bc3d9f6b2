"""Publish versions of a table for other engines: when asked, after a commit, and by maintenance; what its status says.

A version is published after the commit that made it, never within: a publication that fails leaves the commit as it
is, and the next maintenance publishes what is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import InvalidInput, NotInstalled, SleeperError
from sleeper_nb.maintain.findings import Finding
from sleeper_nb.maintain.maintain import NOTHING_DUE
from sleeper_nb.maintain.status import Advice, TableStatus
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import ICEBERG, ICEBERG_TIME, SAVEPOINT_INTERVAL
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.publish.publish import PublishReport, PublishSettings, publish
from sleeper_nb.publish.published import Published, published, tag_of
from sleeper_nb.publish.verify import verify
from sleeper_nb.report import Grid, Report, counted, duration_text, notes_line
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


def publish_version(table: OpenTable, version: Resolved, *, force: bool = False) -> PublishReport:
    """Publish a version; errors as of `publish`."""
    store, properties = table.store, table.properties
    processing = DataProcessing.at(properties, store.load(version.version), store.clock.now())
    author, time = table.components.author, properties[ICEBERG_TIME]
    settings = PublishSettings(processing=processing, retained=time, author=author, force=force)
    return publish(store, table.name, version, settings)


def catch_up(table: OpenTable, head: Snapshot, *, dry_run: bool) -> CaughtUp:
    """Publish what was due when a version was current, or only report it; also what maintenance saves of it.

    One that other engines cannot read does not keep the others back. The error of the newest is raised, unless
    a version that is as new is published.
    """
    store, versions = table.store, retained(table.store.catalog, table.store.table_id)
    until = tuple(each for each in versions.snapshots if each.id <= head.id)
    there = published(store)
    missing = due(table.properties[ICEBERG], replace(versions, snapshots=until), there)
    numbers = {each.number for each in missing}
    if dry_run:
        interval = table.properties[SAVEPOINT_INTERVAL]
        coming = save_if_due(store, head, interval, store.clock.now(), dry_run=True, author=None).snapshot_id
        return CaughtUp(tuple(sorted(numbers if coming is None else {*numbers, coming})), dry_run)
    refused: dict[int, InvalidInput] = {}
    for each in missing:
        try:
            publish_version(table, Resolved(each))
        except InvalidInput as error:
            refused[each.number] = error
    newest = max(numbers - refused.keys(), default=0)
    for each in sorted(missing, key=lambda each: -each.number):
        if each.number in refused and each.number > newest and is_newer(each, there):
            raise refused[each.number]
    return CaughtUp(tuple(sorted(numbers - refused.keys())), dry_run, tuple(sorted(refused)))


def note_after(table: OpenTable, made: Snapshot | None, saved: Savepoint | None = None) -> str:
    """Publish what a commit made, if the properties ask for it; return what failed, in one sentence.

    The commit is done before this begins. So a failure is returned and not raised: a caller that saw an error would do
    the work again.

    Parameters
    ----------
    made, saved
        The new snapshot and the new savepoint, if there is one.
    """
    mode = table.properties[ICEBERG]
    newest = made if mode == "commits" else None
    version: Snapshot | Savepoint | None = newest if saved is None else saved
    if mode == "off" or version is None:
        return ""
    return _note_of(table, f"snapshot {version.number}", lambda: publish_version(table, Resolved(version)))


def note_after_all(table: OpenTable) -> str:
    """Publish all that is due; otherwise as `note_after`."""
    if table.properties[ICEBERG] == "off":
        return ""
    return _note_of(table, "the newest version", lambda: catch_up(table, table.store.head(), dry_run=False))


def _note_of(table: OpenTable, what: str, work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever it is, the commit is done
        why = error.message if isinstance(error, SleeperError) else repr(error)
        logger.warning("table %s: %s is not published: %s", table.entry.id, what, why)
        return f"{what} could not be published as Iceberg: {why}. Maintenance tries again"
    return ""


def publish_after(table: OpenTable, made: Snapshot | None = None, saved: Savepoint | None = None) -> None:
    """Publish what a commit made, as `note_after`; show what failed."""
    if note := note_after(table, made, saved):
        table.components.progress.finish(f"note: {note}")


def with_published(table: OpenTable, status: TableStatus) -> TableStatus:
    """Return a status with what other engines can read, and what they lack."""
    store, mode = table.store, table.properties[ICEBERG]
    if mode == "off" and not any(each.is_published for each in store.catalog.leases(store.table_id)):
        return status
    try:
        there = published(store)
        missing = [each for each in due(mode, retained(store.catalog, store.table_id), there) if is_newer(each, there)]
    except SleeperError as error:
        again = Advice("publish", "what is published cannot be read")
        steps, overdue = (*status.next_steps, again), (*status.overdue, again)
        return replace(status, published=error.message, next_steps=steps, overdue=overdue)
    steps = tuple(_next_steps(there, missing))
    # the files that a compaction made are published by the next run of maintenance
    late = steps if any(isinstance(each, Savepoint) or each.operation != "compact" for each in missing) else ()
    text = "" if there is None else _text(there, store.clock.now())
    return replace(
        status,
        published=text or "nothing yet",
        next_steps=(*status.next_steps, *steps),
        overdue=(*status.overdue, *(late if status.online else ())),
    )


def _next_steps(there: Published | None, missing: Sequence[Snapshot | Savepoint]) -> Iterator[Advice]:
    if there is not None and there.is_moved:
        yield Advice("publish", f"the folder was moved: other engines look for files at {there.address}")
    elif missing:
        yield Advice("maintain", f"{counted(len(missing), 'version')} should be published as Iceberg, and are not")


def _text(there: Published, now: datetime) -> str:
    tags = f"tags {', '.join(there.tags)}" if there.tags else ""
    age = duration_text((now - there.updated).total_seconds())
    return notes_line(f"snapshot {there.main} as Iceberg, {age} ago", tags)


def published_findings(table: OpenTable) -> tuple[Finding, ...]:
    """Return what is wrong with what is published, for a check; without the extra, say that it was not looked at."""
    try:
        return verify(table.store)
    except NotInstalled as error:
        table.components.progress.finish(f"note: what is published was not checked: {error.message}")
        return ()
