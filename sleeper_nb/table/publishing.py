"""Publish versions of a table for other engines: what its methods, its maintenance and its status do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter

from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import NotInstalled, SleeperError
from sleeper_nb.maintain.findings import Finding
from sleeper_nb.maintain.maintain import MaintenanceStep
from sleeper_nb.maintain.status import Advice, TableStatus
from sleeper_nb.model.properties import ICEBERG
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.publish.keep_published import Publisher, due, is_newer
from sleeper_nb.publish.published import Published, published
from sleeper_nb.publish.verify import verify
from sleeper_nb.report import counted, duration_text, notes_line


def publisher(table: OpenTable) -> Publisher:
    return Publisher(table.store, table.name, table.properties, table.components.author)


def publish_after(table: OpenTable, made: Snapshot | None = None, saved: Savepoint | None = None) -> str:
    """Publish what a commit made, if the properties ask for it; show and return what failed, in one sentence."""
    note = publisher(table).after(made, saved)
    if note:
        table.components.progress.finish(f"note: {note}")
    return note


def publish_newest(table: OpenTable) -> None:
    """Publish what is due after a commit; show what failed."""
    if note := publisher(table).catch_up_after():
        table.components.progress.finish(f"note: {note}")


def with_publishing(table: OpenTable, steps: Sequence[MaintenanceStep], head: Snapshot) -> Iterator[MaintenanceStep]:
    """Yield the steps of maintenance with one that publishes, after the one that makes a savepoint.

    Parameters
    ----------
    head
        The version when maintenance begins: what it makes itself is published by the next run, except for a savepoint.
    """
    for step in steps:
        yield step
        if step.name == "create-savepoint" and table.properties[ICEBERG] != "off":
            yield MaintenanceStep("publish", partial(publisher(table).catch_up, head), attrgetter("summary"))


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
