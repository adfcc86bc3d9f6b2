"""Status of a table: where its metadata is kept, how much it holds, what waits for maintenance, and what to do next.

The status of an instance is that of its tables, and alerts about what is wrong with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from sleeper_nb.catalog.catalog_base import FileClaim, is_online, read_consistently
from sleeper_nb.errors import Action, NotFound, StorageError
from sleeper_nb.maintain.collect_garbage import collectable_files, delay_of, leftover_files, versions_kept
from sleeper_nb.maintain.compaction_plan import (
    CompactionJob,
    StrategySettings,
    choose_batches,
    claims_text,
    plan_compaction,
)
from sleeper_nb.model.file_reference import FileReference, data_files
from sleeper_nb.model.jobs import Job, ServiceLease
from sleeper_nb.model.properties import SAVEPOINT_INTERVAL, SPLITTING_THRESHOLD, TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, files_text
from sleeper_nb.model.state import TableState
from sleeper_nb.read.job_tracking import has_failed
from sleeper_nb.read.leaf_keys import has_several_keys
from sleeper_nb.read.scan_plan import files_by_partition, files_of
from sleeper_nb.report import Bytes, Grid, Report, TableReport, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.paths import is_data_file
from sleeper_nb.storage.places import StoredFile
from sleeper_nb.versions.expire import Retention, plan_expiry
from sleeper_nb.versions.periodic_savepoints import is_due


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """The limits from a table's properties at which maintenance is due."""

    batch_size: int
    splitting_threshold: int
    gc_delay: timedelta  # how long a file is kept after nothing refers to it
    retention: Retention
    # the age of the last periodic savepoint at which another is due; None for never
    save_every: timedelta | None = None
    strategy: str = "size-ratio"
    settings: StrategySettings = field(default_factory=StrategySettings)

    @classmethod
    def of(cls, properties: TableProperties) -> Housekeeping:
        """Return the limits that a table's properties set."""
        return cls(
            properties["sleeper.table.compaction.files.batch.size"],
            properties[SPLITTING_THRESHOLD],
            delay_of(properties),
            Retention.of(properties),
            properties[SAVEPOINT_INTERVAL],
            properties["sleeper.table.compaction.strategy.class"],
            StrategySettings.of(properties),
        )

    @property
    def overdue(self) -> Housekeeping:
        """Twice these limits: what maintenance should have done by now."""
        kept = self.retention
        longest = timedelta(days=36_500)
        most = min(2 * kept.num_retained_max, 2**31 - 1)
        return replace(
            self,
            batch_size=2 * self.batch_size,
            splitting_threshold=2 * self.splitting_threshold,
            gc_delay=2 * min(self.gc_delay, longest),
            retention=replace(kept, time_retained=2 * min(kept.time_retained, longest), num_retained_max=most),
            save_every=None if self.save_every is None else 2 * min(self.save_every, longest),
        )


_partition_of = attrgetter("partition_id")
_METHODS = {
    "online": "maintenance.online()",
    "split": "maintenance.split()",
    "compact": "maintenance.compact()",
    "maintain": "maintain()",
    "expire": "maintenance.expire(dry_run=False)",
    "collect-garbage": "maintenance.collect_garbage(dry_run=False)",
    "publish": "publish()",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """A next step: a command without its table, and the reason."""

    command: str
    why: str

    def action(self, table: str) -> Action:
        return Action(f"{self.command} {table}", f"table.{_METHODS[self.command]}")


@dataclass(frozen=True, slots=True, repr=False)
class TableStatus(Report):
    """The status of a table.

    Parameters
    ----------
    state_store, catalog
        The classes of the state store, which keeps the metadata, and of the catalog.
    snapshot
        The current snapshot.
    files, references
        Data files of the current snapshot, and the references of partitions to them.
    leaves, rows, bytes
        Leaf partitions, rows, and bytes of the data files.
    metadata_files, metadata_bytes
        Metadata files of all versions, and their size.
    snapshots, savepoints
        How many are retained.
    log_length
        Transactions of the log between the newest full metadata and the current snapshot.
    claims
        Compaction jobs that are running, or whose process died less than 20 minutes ago.
    claimed
        The claim of each of these jobs: its files, and when it ends.
    waiting_files, waiting_bytes, waiting_metadata
        Unused data files that still exist, their size, and unused metadata files.
    next_steps
        What to do next, the most useful first.
    overdue
        Those of them that maintenance should have done: they are due at twice the limits.
    prefix
        The text before a command; empty in Python.
    online
        Whether maintenance may change the table.
    notes
        Settings in the properties file that are not in effect, and whether the file was changed by hand.
    published
        What other engines can read, and how old it is; empty when nothing is published, nor should be.
    """

    table: str
    state_store: str
    catalog: str
    snapshot: Snapshot
    files: int
    references: int
    leaves: int
    rows: int
    bytes: int
    metadata_files: int
    metadata_bytes: int
    snapshots: int
    savepoints: int
    log_length: int
    claims: int
    waiting_files: int
    waiting_bytes: int
    waiting_metadata: int
    next_steps: tuple[Advice, ...]
    prefix: str = ""
    online: bool = True
    notes: tuple[str, ...] = ()
    claimed: tuple[FileClaim, ...] = ()
    overdue: tuple[Advice, ...] = ()
    published: str = ""

    def grid(self) -> Grid:
        """Return a row for each fact, then what to do next."""
        now = self.snapshot
        waiting = f"{counted(self.waiting_files, 'data file')}, {Bytes(self.waiting_bytes)}"
        waiting += f"; {counted(self.waiting_metadata, 'metadata file')}"
        rows: list[tuple[object, ...]] = [
            ("state store", f"{self.state_store} on {self.catalog}"),
            ("snapshot", f"{now.id:,} ({now.operation}, {now.time:%Y-%m-%d %H:%M:%S} UTC)"),
            ("data", f"{counted(self.rows, 'row')}, {files_text(self.files, self.references)}, {Bytes(self.bytes)}"),
            ("leaf partitions", f"{self.leaves:,}"),
            ("versions", f"{counted(self.snapshots, 'snapshot')}, {counted(self.savepoints, 'savepoint')}"),
            ("metadata", f"{counted(self.metadata_files, 'file')}, {Bytes(self.metadata_bytes)}"),
            ("log to replay", counted(self.log_length, "transaction")),
            ("compaction jobs", claims_text(self.claimed) or "0 running"),
            ("out of use", waiting),
        ]
        if self.published:
            rows.append(("published", self.published))
        if not self.online:
            rows.insert(0, ("online", "no: maintenance is refused"))
        rows += [("properties", note) for note in self.notes]
        steps = [(step.action(self.table).text(self.prefix), step.why) for step in self.next_steps]
        nothing = "nothing to do until the claims of compaction jobs end" if self.claims else "nothing to do"
        rows += [("next", f"{typed}: {why}") for typed, why in steps] or [("next", nothing)]
        return Grid(("", ""), tuple(rows), f"status of {self.table}")


def table_status(store: StateStore, name: str, limits: Housekeeping) -> TableStatus:
    """Return the status of a table at its current snapshot. Nothing is changed.

    A data file is opened only to find out whether a leaf that has too many rows, in files that it shares, can be split.
    """
    return store.on_head(lambda _: _status(store, name, limits))


def _status(store: StateStore, name: str, limits: Housekeeping) -> TableStatus:
    """Return the status, from catalog rows of one moment; raise when the head changes while they are read."""
    catalog, table_id, now = store.catalog, store.table_id, store.clock.now()
    (metadata, snapshots), catalogued = read_consistently(
        lambda: (_metadata_files(store), catalog.snapshots(table_id)),
        lambda: (
            store.head(),
            is_online(catalog, table_id),
            catalog.savepoints(table_id),
            catalog.leases(table_id),
            catalog.claims(table_id, now),
            catalog.garbage(table_id),
        ),
    )
    head, online, savepoints, leases, claims, garbage = catalogued
    state = store.load(head)
    files, size = files_of(state)
    big = _big_leaves(store, state, limits.splitting_threshold)
    kept = versions_kept(snapshots, savepoints, leases, now)
    facts = _Facts(store, state, big, now, snapshots, savepoints, claims, garbage, kept)
    offline = () if online else (Advice("online", "it is offline: maintenance is refused until then"),)
    waiting, waiting_bytes = data_files(state.files.out_of_use)
    return TableStatus(
        table=name,
        state_store=head.state_store,
        catalog=type(catalog).__name__,
        snapshot=head,
        files=files,
        references=state.totals().files,
        leaves=len(state.tree.leaves),
        rows=state.totals().rows,
        bytes=size,
        metadata_files=len(metadata),
        metadata_bytes=sum(file.bytes for file in metadata),
        snapshots=len(snapshots),
        savepoints=len(savepoints),
        log_length=_log_length(store, head),
        claims=len(claims),
        claimed=claims,
        waiting_files=waiting,
        waiting_bytes=waiting_bytes,
        waiting_metadata=sum(not is_data_file(path) for path, _ in garbage),
        next_steps=(*offline, *facts.due(limits, plans_jobs=True)),
        overdue=tuple(facts.due(limits.overdue, plans_jobs=False)) if online else (),
        online=online,
    )


def _metadata_files(store: StateStore) -> tuple[StoredFile, ...]:
    return tuple(file for folder in ("statestore", "schema", "savepoint") for file in store.storage.list(folder))


def _big_leaves(store: StateStore, state: TableState, threshold: int) -> tuple[int, ...]:
    """Return the rows of each leaf with this many or more, but for those whose rows all have the same key."""
    rows = {leaf: held.rows for leaf, held in state.files.by_partition().items() if held.rows >= threshold}
    references = groupby(sorted(state.files.active_in(set(rows)), key=_partition_of), _partition_of)

    def can_be_split(leaf: str, its: Iterable[FileReference]) -> bool:
        try:
            return has_several_keys(store.storage, state.schema, state.tree[leaf], tuple(its))
        except (NotFound, StorageError):  # the split says what is wrong with the file
            return True

    return tuple(rows[leaf] for leaf, its in references if can_be_split(leaf, its))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What of a table, at one moment, says what is due."""

    store: StateStore
    state: TableState
    leaves: Sequence[int]
    now: datetime
    snapshots: Sequence[Snapshot]
    savepoints: Sequence[Savepoint]
    claims: Sequence[FileClaim]
    garbage: Sequence[tuple[str, datetime]]
    kept: Collection[int]

    def due(self, limits: Housekeeping, *, plans_jobs: bool) -> Iterator[Advice]:
        """Yield what to do next, the most useful first; to plan compaction jobs looks at each file."""
        big = sum(rows >= limits.splitting_threshold for rows in self.leaves)
        if big:
            yield Advice("split", f"{_leaves(big)} {counted(limits.splitting_threshold, 'row')} or more")
        full = full_leaves(self.state, self.claims, limits)
        jobs = self._jobs(limits) if plans_jobs and not full else ()
        if full:
            yield Advice("compact", f"{_leaves(full)} {limits.batch_size} files or more")
        elif jobs:
            files = sum(len(job.inputs) for job in jobs)
            yield Advice("compact", f"{counted(files, 'file')} would be compacted into {len(jobs):,}")
        if is_due(self.savepoints, self.snapshots[0], limits.save_every, self.now):
            yield Advice("maintain", "a periodic savepoint is due")
        expired = len(plan_expiry(self.snapshots, limits.retention, self.now))
        if expired:
            yield Advice("expire", f"{counted(expired, 'snapshot')} can be expired")
        files = len(collectable_files(self.state, self.kept, self.now, limits.gc_delay))
        files += len(leftover_files(self.state, self.garbage))
        metadata = sum(self.now - since >= limits.gc_delay and not is_data_file(path) for path, since in self.garbage)
        if files or metadata:
            counts = f"{counted(files, 'data file')} and {counted(metadata, 'metadata file')}"
            yield Advice("collect-garbage", f"{counts} can go")

    def _jobs(self, limits: Housekeeping) -> Sequence[CompactionJob]:
        store = self.store
        return plan_compaction(
            self.state, limits.strategy, limits.settings, self.claims, store.clock, store.most_compaction_inputs
        ).jobs


def full_leaves(state: TableState, claims: Iterable[FileClaim], limits: Housekeeping) -> int:
    """Return how many leaves have enough files for a compaction job that no other job has claimed. Pure.

    A leaf of which the strategy makes no job does not count: the largest file may have nearly all rows, for example.
    """
    counts = state.files.active["partition_id"].value_counts().to_pylist()
    files = {count["values"]: count["counts"] for count in counts}
    claimed = {(claim.partition_id, name) for claim in claims for name in claim.filenames}
    claimed_files = Counter(partition_id for partition_id, _ in claimed)
    full = [
        leaf.id for leaf in state.tree.leaves if files.get(leaf.id, 0) - claimed_files[leaf.id] >= limits.batch_size
    ]
    if not full:
        return 0
    planned = files_by_partition(state)
    free = ([file for file in planned[leaf] if (leaf, file.filename) not in claimed] for leaf in full)
    return sum(bool(choose_batches(limits.strategy, each, limits.settings)) for each in free)


def _leaves(count: int) -> str:
    return "1 leaf partition has" if count == 1 else f"{count:,} leaf partitions have"


def _log_length(store: StateStore, head: Snapshot) -> int:
    if head.files_path is not None or store.named(head.state_store).keeps_history_itself:
        return 0
    return head.id - store.catalog.checkpoint(store.table_id, head.id).id


# Alerts: what is wrong with the tables of an instance, by level, for programs that watch it.

AlertLevel = Literal["warn", "error"]
"""``warn``: a step of maintenance is overdue, or a decision is needed. ``error``: something failed."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that is wrong with a table."""

    level: AlertLevel
    table: str
    what: str


def alerts_of(status: TableStatus, jobs: Sequence[Job]) -> tuple[Alert, ...]:
    """Return what is wrong with a table, errors first. Pure.

    Parameters
    ----------
    jobs
        All its jobs that are kept, newest first; unfinished ones of dead processes have a reason (`jobs_of`).
    """
    compactions = (job for job in jobs if job.kind == "compaction" and (job.ended or has_failed(job)))
    newest, name = next(compactions, None), status.table
    alerts = list[Alert]()
    if newest is not None and has_failed(newest):
        alerts.append(Alert("error", name, f"the newest compaction failed: {newest.reason}"))
    if not status.online:
        alerts.append(Alert("warn", name, "offline: maintenance leaves it alone"))
    alerts += (Alert("warn", name, f"properties: {note}") for note in status.notes)
    alerts += (Alert("warn", name, f"{step.command} is overdue: {step.why}") for step in status.overdue)
    return tuple(alerts)


@dataclass(frozen=True, slots=True, repr=False)
class InstanceStatus(TableReport):
    """The status of the tables of an instance, and what is wrong with them.

    Parameters
    ----------
    instance
        Its name.
    tables
        The status of each table that could be read.
    alerts
        What is wrong.
    maintained_by
        The lease of the maintenance service; None when no process holds it.
    """

    instance: str
    tables: tuple[TableStatus, ...]
    alerts: tuple[Alert, ...]
    maintained_by: ServiceLease | None = None

    def of_level(self, level: AlertLevel) -> tuple[Alert, ...]:
        """Return the alerts of a level and of those above it."""
        return tuple(alert for alert in self.alerts if level == "warn" or alert.level == "error")

    def grid(self) -> Grid:
        """Return a row for each table, and one for each alert."""
        sizes = {each.table: (each.rows, each.files, Bytes(each.bytes)) for each in self.tables}
        wrong: dict[str, list[tuple[object, ...]]] = {name: [] for name in sizes}
        for alert in self.alerts:
            wrong.setdefault(alert.table, []).append((alert.level, alert.what))
        rows = [
            (name, *sizes.get(name, (None, None, None)), *alert)
            for name, alerts in wrong.items()
            for alert in alerts or [("ok", "")]
        ]
        columns = ("table", "rows", "files", "size", "level", "what")
        return Grid(columns, tuple(rows), f"status of {counted(len(wrong), 'table')}", self._footer)

    @property
    def _footer(self) -> str:
        lease = self.maintained_by
        if lease is None:
            return "no maintenance service is running"
        return f"maintained by {lease.holder} since {lease.since:%Y-%m-%d %H:%M:%S} UTC"

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, texts and times only, as JSON can have them; times are in UTC."""
        lease = self.maintained_by
        return {
            "instance": self.instance,
            "level": "error" if self.of_level("error") else "warn" if self.alerts else "ok",
            "alerts": [{"level": each.level, "table": each.table, "what": each.what} for each in self.alerts],
            "tables": [_facts(each) for each in self.tables],
            "maintained_by": None
            if lease is None
            else {"holder": lease.holder, "since": lease.since.isoformat(), "until": lease.until.isoformat()},
        }


def _facts(status: TableStatus) -> dict[str, Any]:
    numbers = (
        "files", "references", "leaves", "rows", "bytes", "metadata_files", "metadata_bytes", "snapshots",
        "savepoints", "log_length", "claims", "waiting_files", "waiting_bytes", "waiting_metadata",
    )  # fmt: skip
    return {
        "table": status.table,
        "online": status.online,
        "snapshot": status.snapshot.id,
        "time": status.snapshot.time.isoformat(),
        **{name: getattr(status, name) for name in numbers},
        "due": [{"step": step.command, "why": step.why} for step in status.next_steps],
        "overdue": [{"step": step.command, "why": step.why} for step in status.overdue],
    }
