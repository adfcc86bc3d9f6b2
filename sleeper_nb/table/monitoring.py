"""Report on a table: its jobs, its leases, its status, and what a check finds."""

from __future__ import annotations

from dataclasses import replace

from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import NotFound
from sleeper_nb.model.jobs import Job, Lease
from sleeper_nb.operations import job_tracking
from sleeper_nb.operations.check import check_table
from sleeper_nb.operations.findings import CheckReport
from sleeper_nb.operations.status import Housekeeping, TableStatus, table_status
from sleeper_nb.progress import finishing
from sleeper_nb.report import Listing
from sleeper_nb.table.configuring import property_findings, property_notes


def jobs(table: OpenTable, which: job_tracking.Which, limit: int) -> Listing[Job]:
    """Return the newest runs of a table's jobs, newest first."""
    now = table.components.clock.now()
    runs = job_tracking.jobs_of(table.components.catalog, table.entry.id, which, limit, now)
    pairs = [(table.entry, run) for run in runs]
    return job_tracking.list_jobs(f"jobs of {table.name}", pairs, now, with_table=False)


def leases(table: OpenTable) -> Listing[Lease]:
    """Return the leases of a table's readers, oldest first."""
    held = table.components.catalog.leases(table.entry.id)
    now = table.components.clock.now()
    cells = tuple((e.id, e.snapshot_id, e.purpose, e.author, e.since, e.until, e.has_ended(now)) for e in held)
    columns = ("lease", "snapshot", "reader", "who", "since", "until", "ended")
    return Listing(held, columns, cells, f"leases of {table.name}")


def release_lease(table: OpenTable, lease_id: str) -> Lease:
    """End a lease, and return it."""
    catalog = table.components.catalog
    held = catalog.leases(table.entry.id)
    lease = next((each for each in held if each.id == lease_id), None)
    if lease is None or not catalog.release_lease(table.entry.id, lease):
        raise NotFound.of("lease", lease_id, [each.id for each in held], where=f" of table {table.name!r}")
    return lease


def status(table: OpenTable) -> TableStatus:
    """Return the status of a table, with what its property file says that the same version does not do."""
    current = table_status(table.store, table.name, Housekeeping.of(table.properties))
    return replace(current, notes=property_notes(table, table.store.load(current.snapshot)))


def check(table: OpenTable, *, deep: bool) -> CheckReport:
    """Check every retained version of a table, its files, and its property file."""
    with finishing(table.components.progress) as progress:
        report = check_table(table.store, table.name, deep=deep, progress=progress)
    return replace(report, findings=(*report.findings, *property_findings(table)))
