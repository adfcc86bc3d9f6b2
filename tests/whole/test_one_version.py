"""Every public read answers from one version: another session commits between any two requests of the reader.

Each read is done once for each of its requests to the catalog and to the files. Just before that request another
session commits. The answer must equal the one from before that commit or the one from after it; it is never a mix.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConflictError
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import SILENT
from sleeper_nb.session import Session
from sleeper_nb.session.administration import Administration
from sleeper_nb.session.session_inspect import SessionInspect
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.table.table import TableInspect
from sleeper_nb.table.table_maintenance import Maintenance
from sleeper_nb.table_at import Inspect
from sleeper_nb.widgets.explorer import TABS, Explorer
from tests.support.builders import START
from tests.support.combinations import each_value_once
from tests.support.faults import Faulty, FaultyStorage, no_disk

LATER = START + timedelta(hours=1)
SCHEMA = sl.Schema({"city": "string"}, {}, {"n": "int"})


class Interruption:
    """Counts the requests of a reader, and lets another session commit just before one of them."""

    def __init__(self) -> None:
        self.requests, self.at = 0, 0
        self.commit: Callable[[], object] = lambda: None

    @contextmanager
    def around(self, name: str, *_: Any) -> Iterator[None]:
        self.requests += name != "close"
        if self.requests == self.at and name != "close":
            self.commit()
        yield


class Reader:
    """Opens the warehouse anew for each read, so that nothing is remembered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.interruption = Interruption()

    def __call__(self, read: Callable[[Session], Any], at: int, commit: Callable[[], object]) -> tuple[Any, int]:
        """Return what a read shows, and how many requests it took."""
        self.interruption.requests, self.interruption.at, self.interruption.commit = 0, at, commit
        place = Storage(LocalPlace(self._folder, sync=False))
        catalog = SqliteCatalog(self._folder / "catalog.sqlite", sync=False)
        session = Session(
            "house", FaultyStorage(place, self.interruption),  # type: ignore[arg-type]
            _as_catalog(catalog, self.interruption),
            clock=ManualClock(LATER), progress=SILENT, author="reader", spark=None, spark_config={},
        )  # fmt: skip
        with closing(session):
            return shown(read(session)), self.interruption.requests


def _as_catalog(catalog: SqliteCatalog, interruption: Interruption) -> Catalog:
    return Faulty(catalog, interruption, no_disk)  # type: ignore[arg-type,return-value]


def shown(answer: Any) -> Any:
    """Return all that a user sees of an answer, in a form that can be compared."""
    if isinstance(answer, sl.Table):  # each of its methods is a look of its own
        return repr(answer)
    if isinstance(answer, tuple):
        return [shown(each) for each in answer]
    if hasattr(answer, "to_arrow"):
        rows = answer.to_arrow().to_pylist()
        return [rows, _words(repr(answer))]
    parts = [repr(answer)]
    parts += [answer._repr_html_()] if hasattr(answer, "_repr_html_") else []
    parts += [repr(answer.to_dict())] if hasattr(answer, "to_dict") else []
    return [_words(part) for part in parts]


def _words(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+|(?<=')[0-9a-f]{32}|\b[0-9a-f]{8}$", "", text, flags=re.MULTILINE)


def _of_state(state: TableState) -> str:
    return f"{state.snapshot_id} {state.totals()} {len(state.tree.leaves)} {state.files.active.num_rows}"


WRITES = {
    "accept_properties", "add_files", "alter", "append", "bulk_import", "create_savepoint", "delete",
    "delete_savepoint", "ingest", "maintain", "merge", "overwrite", "publish", "rollback",
    "set_properties", "unpublish", "update", "upsert", "watch",
    *(f"maintenance.{name}" for name in (
        "collect_garbage", "compact", "expire", "offline", "online", "purge", "release_lease", "split",
        "start_compaction", "sweep_orphans",
    )),
}  # fmt: skip
TABLE: dict[str, Callable[[Any], Any]] = {
    "at": lambda t: t.at(),
    "at, of today": lambda t: t.at(schema="current").describe(),
    "at, saved": lambda t: t.at("savepoint.1").describe(),
    "describe": lambda t: t.describe(),
    "changes": lambda t: t.changes(2),
    "maintenance.check": lambda t: t.maintenance.check(deep=True),
    "diff": lambda t: t.diff(2),
    "inspect": lambda t: t.inspect.fields(),
    "inspect.fields": lambda t: t.inspect.fields(),
    "profile": lambda t: t.profile().to_dict(),
    "inspect.files": lambda t: t.inspect.files(),
    "grid": lambda t: t.grid().text(),
    "inspect.query": lambda t: t.inspect.query(
        "SELECT (SELECT max(snapshot_id) FROM snapshots), (SELECT max(added_snapshot) FROM files),"
        " (SELECT count(*) FROM files), (SELECT sum(rows) FROM files), (SELECT count(*) FROM partitions),"
        " (SELECT count(*) FROM savepoints), (SELECT count(*) FROM schemas), (SELECT max(rows) FROM snapshots)"
    ),
    "inspect.has_changed": lambda t: t.inspect.has_changed(),
    "inspect.jobs": lambda t: t.inspect.jobs(),
    "inspect.versions": lambda t: t.inspect.versions(),
    "inspect.leases": lambda t: t.inspect.leases(),
    "inspect.partitions": lambda t: t.inspect.partitions(),
    "maintenance": lambda t: t.maintenance.is_online,
    "maintenance.is_online": lambda t: t.maintenance.is_online,
    "properties": lambda t: t.properties(),
    "savepoint_manager": lambda t: t.savepoint_manager.latest_savepoint_id(),
    "savepoints": lambda t: t.savepoints(with_bytes=True),
    "scan": lambda t: t.scan(),
    "schema": lambda t: t.schema,
    "history": lambda t: t.history(),
    "inspect.status": lambda t: t.inspect.status(),
    "to_dict": lambda t: t.to_dict(),
    # plans of what would be done are reads, too
    "alter, dry": lambda t: t.alter({"m": "int?"}, dry_run=True),
    "maintenance.collect_garbage, dry": lambda t: t.maintenance.collect_garbage(),
    "maintenance.compact, dry": lambda t: t.maintenance.compact("all", dry_run=True),
    "delete, dry": lambda t: t.delete("n >= 0", dry_run=True),
    "maintenance.purge, dry": lambda t: t.maintenance.purge("n >= 0", dry_run=True),
    "update, dry": lambda t: t.update({"n": "n + (SELECT count(*) FROM t)"}, "city < 'm'", dry_run=True),
    "upsert, dry": lambda t: t.upsert([{"city": "lima", "n": 1}, {"city": "oslo", "n": 2}], dry_run=True),
    "merge, dry": lambda t: (
        t.merge([{"city": "rome", "n": 1}]).when_not_matched_by_source_delete().execute(dry_run=True)
    ),
    "overwrite, dry": lambda t: t.overwrite([{"city": "lima", "n": 1}], keys="lima", dry_run=True),
    "delete_savepoint, dry": lambda t: t.delete_savepoint(1, dry_run=True),
    "maintenance.expire, dry": lambda t: t.maintenance.expire(num_retained_min=1, time_retained=timedelta(minutes=1)),
    "ingest, dry": lambda t: t.ingest([{"city": "oslo", "n": 1}], dry_run=True),
    "rollback, dry": lambda t: t.rollback(2, dry_run=True),
    "maintenance.split, dry": lambda t: t.maintenance.split(dry_run=True, at="oslo"),
    "maintenance.sweep_orphans, dry": lambda t: t.maintenance.sweep_orphans(),
}
"""How each public read of `Table` is called, by its name; ``, dry`` marks a plan of what would be written."""
EXPORTED = {"export"}  # writes files of its own: held below
DRAWN = {"explore", "timeline"}  # widgets: their pictures are held below

TABLE_AT = {
    name: TABLE[name]
    for name in (
        "describe", "grid", "inspect", "inspect.fields", "inspect.files", "inspect.partitions", "inspect.query",
        "profile", "scan", "schema", "to_dict",
    )
} | {
    "answering": lambda t: dict(t.answering.texts),
    "at": lambda t: t.at(None).describe(),
    "partition_tree": lambda t: str(t.partition_tree.leaves),
    "processing": lambda t: t.processing.filters,
    "location": lambda t: Path(t.location).name,
    "source": lambda t: str(t.source()),
    "sql": lambda t: t.sql("SELECT count(*), (SELECT sum(n) FROM T) FROM t").to_arrow().to_pylist(),
    "state": lambda t: _of_state(t.state),
    "system_table": lambda t: str(t.system_table("files")),
    "plan": lambda t: t.plan().grid().text(),  # as values it has the moment of the call
    "guard": lambda t: t.guard(0).snapshot_id,
    "in_schema": lambda t: t.in_schema("own"),
    "is_processed": lambda t: t.is_processed,
    "resolved": lambda t: str(t.resolved),
    "online": lambda t: t.online,
}  # fmt: skip


def _of_a_view(session: Session) -> Any:
    session.sql("CREATE TEMP VIEW v AS SELECT count(*) AS n FROM t", engine="duckdb")
    return session.sql("SELECT n, (SELECT max(snapshot_id) FROM t$snapshots), (FROM v) FROM v", engine="duckdb")


SESSION: dict[str, Callable[[Session], Any]] = {
    "__repr__": repr,
    "closed": lambda s: s.closed,
    "inspect": lambda s: s.inspect.jobs(),
    "inspect.jobs": lambda s: s.inspect.jobs(),
    "inspect.job_progress": lambda s: s.inspect.job_progress().look().to_dict(),
    "inspect.schemas": lambda s: repr(list(s.inspect.schemas())),
    "properties": lambda s: s.properties(),
    "location": lambda s: Path(s.location).name,
    "table": lambda s: s.table("t"),
    "status": lambda s: s.status(),
    "table_names": lambda s: s.table_names(),
    "tables": lambda s: s.tables(),
    "warehouse": lambda s: s.warehouse.location,
    "sql": lambda s: s.sql(
        "SELECT (SELECT count(*) FROM t), (SELECT sum(n) FROM T), (SELECT max(snapshot_id) FROM t$snapshots),"
        " (SELECT max(rows) FROM t$snapshots), (SELECT sum(rows) FROM t$files), (SELECT count(*) FROM t$partitions),"
        " (SELECT count(*) FROM t$savepoints), (SELECT count(*) FROM t$snapshots s JOIN t$savepoints p"
        " ON s.snapshot_id = p.saved_snapshot_id)",
        engine="duckdb",
    ),
    "sql, of a view": _of_a_view,
    "drop_table, dry": lambda s: s.drop_table("t", dry_run=True),
    "admin.reinitialise, dry": lambda s: s.admin.reinitialise("t", dry_run=True),
    "maintain, dry": lambda s: s.maintain(dry_run=True).grid().text(),
}
SESSION_WRITES = {
    "close", "create_table", "drop_table", "maintain", "rename_table", "set_properties",
    "admin.apply", "admin.migrate", "admin.reinitialise",
}  # fmt: skip
SESSION_OTHERS = {
    "admin",
    "admin.maintenance_service",
    "admin.plan_table",
    "admin.split_points",
    "allow",
    "doctor",
    "duckdb_connection",
    "inspect.identity",
    "instance",
    "spark_session",
}

EXPLORED: dict[str, Callable[[Session], Any]] = {
    "first frame": lambda s: Explorer(s, "t").start,
    **{f"picture of {tab}": lambda s, tab=tab: _explored(s, tab) for tab in TABS},
}


def _explored(session: Session, tab: Any) -> Any:
    explorer = Explorer(session, "t", 3)
    explorer.before, explorer.tab = 2, tab
    return explorer.picture()


class Warehouse:
    """A table with a split file, two savepoints and some history, and another session that goes on committing."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self._numbers = folder, itertools.count()
        self.clock = ManualClock(START)
        place = Storage(LocalPlace(folder, sync=False))
        catalog = SqliteCatalog(folder / "catalog.sqlite", sync=False)
        self.session = Session(
            "house", place, catalog,
            clock=self.clock, progress=SILENT, author="writer", spark=None, spark_config={},
        )  # fmt: skip
        self.table = self.session.create_table("t", SCHEMA, state_store=kind)
        self.table.ingest([{"city": "athens", "n": 1}, {"city": "rome", "n": 2}])
        self.table.create_savepoint("first")
        self.table.maintenance.split(at="lima")
        self.session.create_table("u", SCHEMA).ingest([{"city": "bonn", "n": 1}])

    def ingest(self) -> None:
        self.clock.advance(timedelta(seconds=1))
        self.table.ingest([{"city": "lima", "n": next(self._numbers)}])

    def save(self) -> None:
        self.ingest()
        self.table.create_savepoint()

    def reinitialise(self) -> None:
        """Forget all snapshots but the new one, and make other partitions, in one commit."""
        self.clock.advance(timedelta(seconds=1))
        point = f"m{next(self._numbers):04}"
        self.session.admin.reinitialise("t", delete_partitions=True, split_points=[point], force=True)


def held_by_every_order(
    warehouse: Warehouse, commit: Callable[[], object], read: Callable[[Session], Any], every: int = 1
) -> int:
    """Do a read once for `every` so many of its requests, with a commit before that; return how many it takes."""
    reader = Reader(warehouse.folder)
    before, requests = reader(read, 0, lambda: None)
    for at in range(1, requests + 1, every):
        try:
            found, _ = reader(read, at, commit)
        except ConflictError:  # refused, as its version was forgotten meanwhile
            found = before
        after, _ = reader(read, 0, lambda: None)
        assert found in [before, after], f"a commit before request {at} gave a state that never was"
        before = after
    return requests


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    made = Warehouse(tmp_path / "house", "S3StateStore")
    yield made
    made.session.close()


@pytest.mark.parametrize("name", ["inspect.files", "inspect.query", "inspect.status", "to_dict"])
def test_reads_that_replay_a_log_are_of_one_version(tmp_path: Path, name: str):
    warehouse = Warehouse(tmp_path / "house", "TransactionLogStateStore")
    with closing(warehouse.session):
        held_by_every_order(warehouse, warehouse.ingest, lambda session: TABLE[name](session.table("t")))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(TABLE))
def test_each_read_of_a_table_is_of_one_version(warehouse: Warehouse, name: str):
    held_by_every_order(warehouse, warehouse.ingest, lambda session: TABLE[name](session.table("t")))


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", sorted({**SESSION, **EXPLORED}))
def test_each_listing_and_statement_of_a_session_is_of_one_version(warehouse: Warehouse, name: str, every: int):
    """By default, the commit is before every third request."""
    assert held_by_every_order(warehouse, warehouse.ingest, {**SESSION, **EXPLORED}[name], every) >= 0


@pytest.mark.parametrize(
    ("name", "commit"),
    each_value_once(
        ["inspect.status", "history", "savepoints", "maintenance.check", "inspect.query", "delete_savepoint, dry"],
        ["save", "reinitialise"],
    ),
)
def test_versions_and_savepoints_are_of_one_moment(warehouse: Warehouse, name: str, commit: str):
    held_by_every_order(warehouse, getattr(warehouse, commit), lambda session: TABLE[name](session.table("t")))


@pytest.mark.parametrize("name", sorted(TABLE_AT))
def test_a_version_that_was_taken_stays_the_same(tmp_path: Path, name: str):
    warehouse = Warehouse(tmp_path / "house", "S3StateStore")
    with closing(warehouse.session):
        taken = warehouse.table.at()
        before = shown(TABLE_AT[name](taken))
        warehouse.ingest()
        assert shown(TABLE_AT[name](taken)) == before


def test_an_export_is_of_one_version(warehouse: Warehouse, tmp_path: Path):
    targets = itertools.count()

    def read(session: Session) -> Any:
        report = session.table("t").export(tmp_path / f"out-{next(targets)}.csv")
        return report.rows, report.source, Path(report.files[0].address).read_text()

    held_by_every_order(warehouse, warehouse.ingest, read)


def test_every_public_name_is_held():
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    def below(name: str, kind: type) -> set[str]:
        return {f"{name}.{each}" for each in public(kind)}

    of_table = {name.partition(",")[0] for name in TABLE}
    names = public(sl.Table) | below("inspect", TableInspect) | below("maintenance", Maintenance)
    assert names - WRITES - EXPORTED - DRAWN == of_table - WRITES
    assert (public(sl.TableAt) | below("inspect", Inspect)) - EXPORTED <= TABLE_AT.keys()
    of_session = {name.partition(",")[0] for name in SESSION} - {"__repr__"}
    names = public(Session) | below("inspect", SessionInspect) | below("admin", Administration)
    assert names - SESSION_WRITES - SESSION_OTHERS - DRAWN == of_session - SESSION_WRITES
