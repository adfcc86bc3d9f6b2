"""Everything a user can do to a table, in any order, against a model of plain dictionaries.

The invariants of design section 11 that need no engine are held after each step. ``--hypothesis-profile=nightly`` runs
it longer.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock, Retry
from sleeper_nb.edit.apply_edits import EditSettings
from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.load import sources
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.load.split import SplitReport
from sleeper_nb.maintain import collect_garbage as garbage
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import (
    Moment,
    SavepointReference,
    Snapshot,
    SnapshotReference,
)
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import Silent
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.roll_back import roll_back
from tests.servers.memory import memory_catalog
from tests.support.builders import (
    EMBEDDED,
    START,
    collect,
    compact,
    on_disk,
    reachable,
    reopened,
    save,
    scan,
    split,
)
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change

SCHEMA = Schema({"word": "string", "n": "int"}, {"s": "long"}, {"v": "double?"})
WORDS = ["", "a", "b\0", "é", "z", "\uffff", "\U0001f600"]
words = st.sampled_from(WORDS)
rows = st.fixed_dictionaries(
    {
        "word": words,
        "n": st.sampled_from([-(2**31), 0, 1, 2**31 - 1]),
        "s": st.integers(0, 3),
        "v": st.none() | st.just(0.5),
    }
)
Rows = Counter[tuple[Any, ...]]


def counted(table: pa.Table) -> Rows:
    return Counter(zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True))


def bounds(leaf: Partition) -> dict[str, Any]:
    return {key.name: (r.min, r.max) for key, r in zip(SCHEMA.row_keys, leaf.region.ranges, strict=True)}


class TableMachine(RuleBasedStateMachine):
    """The table, and beside it the rows that each version must have."""

    saved = Bundle("saved")
    kinds: ClassVar = ("S3StateStore", "TransactionLogStateStore")
    schema: ClassVar = SCHEMA
    keys: ClassVar[Mapping[str, Any]] = {word: word for word in WORDS}
    """The value of the first row key for each word."""

    def open_catalog(self) -> Catalog:
        return SqliteCatalog(self.folder / "catalog.sqlite")

    @initialize(
        points=st.lists(words.filter(bool), unique=True, max_size=3),
        number=st.integers(0, 2**31),
        pick=st.integers(0, 99),
    )
    def create(self, points: list[str], number: int, pick: int) -> None:
        kind = self.kinds[pick % len(self.kinds)]
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START, number)
        self.catalog = self.open_catalog()
        storage = Storage(self.folder / "id")
        self.store = open_state_store(kind, "id", self.catalog, storage, self.clock, Retry())
        cuts = sorted(self.keys[point] for point in points)
        tree = PartitionTree.from_split_points(self.schema, cuts, self.clock.new_id)
        self.store.create("table", self.schema, tree)
        self.history: dict[int, Rows] = {1: Counter()}
        self.times = {1: self.store.head().time}
        self.retained = {1}
        self.savepoints: dict[int, int] = {}
        self.leases: dict[str, TableState] = {}
        self.names: set[str] = set()

    @property
    def head(self) -> int:
        return max(self.history)

    def committed(self, number: int, rows: Rows) -> None:
        """Note the next version; ids have no gaps."""
        assert number == self.head + 1
        self.history[number] = rows
        self.times[number] = next(s.time for s in self.catalog.snapshots("id") if s.id == number)
        self.retained.add(number)

    @rule(data=st.lists(rows, max_size=12))
    def ingest(self, data: list[dict[str, Any]]) -> None:
        self.clock.advance(timedelta(seconds=1))
        data = [{**row, "word": self.keys[row["word"]]} for row in data]
        table = sources.read_sources(sources.find_sources(data), self.schema).rows
        if not data:
            assert ingest_arrow(self.store, table).snapshot_id == self.head
            return
        before = self.history[self.head]
        self.committed(ingest_arrow(self.store, table).snapshot_id, before + counted(table))

    @rule(strategy=st.sampled_from(["all", "basic", "size-ratio"]), batch=st.integers(2, 4), ratio=st.integers(1, 3))
    def compact(self, strategy: str, batch: int, ratio: int) -> None:
        self.clock.advance(timedelta(seconds=1))
        options = {"batch_size": batch, "ratio": ratio}
        planned = compact(self.store, strategy, dry_run=True, **options)
        done = compact(self.store, strategy, **options)
        assert [(j.partition_id, j.inputs) for j in planned.jobs] == [(j.partition_id, j.inputs) for j in done.jobs]
        assert not done.refused
        assert not self.catalog.claims("id", self.clock.now())
        for snapshot in done.snapshots:
            self.committed(snapshot.id, self.history[self.head])

    @rule(threshold=st.integers(2, 6))
    def split(self, threshold: int) -> None:
        self.clock.advance(timedelta(seconds=1))
        self.check_split(split(self.store, threshold, dry_run=True), split(self.store, threshold))

    @rule(word=words.filter(bool), number=st.integers(1, 4), by_number=st.booleans())
    def split_at(self, word: str, number: int, by_number: bool) -> None:
        self.clock.advance(timedelta(seconds=1))
        at, key = (number, "n") if by_number else (self.keys[word], "word")
        try:
            planned = split(self.store, at=at, key=key, dry_run=True)
        except InvalidInput:
            return
        self.check_split(planned, split(self.store, at=at, key=key))

    def check_split(self, planned: SplitReport, done: SplitReport) -> None:
        """Hold a dry run to be what was done, and the rows of all new leaves to be those of the old ones."""
        assert [(leaf.region, leaf.rows) for leaf in planned.splits] == [
            (leaf.region, leaf.rows) for leaf in done.splits
        ]
        for leaf in done.splits:
            assert sum(rows for _, _, rows in leaf.parts) == leaf.rows
        if done.splits:
            assert done.snapshot is not None
            self.committed(done.snapshot.id, self.history[self.head])

    @rule(target=saved, name=st.none() | st.sampled_from(["x", "é", "z"]), pick=st.integers(0, 99))
    def save(self, name: str | None, pick: int) -> int:
        number = sorted(self.retained)[pick % len(self.retained)]
        try:
            made = save(self.store, name, SnapshotReference(number))
        except AlreadyExists:
            assert name in self.names
            return 0
        assert name not in self.names
        assert (made.saved_snapshot_id, made.record_count) == (number, self.history[number].total())
        assert made.id > max(self.savepoints, default=0)
        self.savepoints[made.id] = number
        self.names |= {name} - {None}
        return made.id

    @rule(savepoint_id=consumes(saved))
    def delete_savepoint(self, savepoint_id: int) -> None:
        for savepoint in self.catalog.savepoints("id"):
            if savepoint.id == savepoint_id:
                delete_savepoint(self.store, savepoint)
        self.savepoints.pop(savepoint_id, None)

    @rule(minutes=st.integers(-5, 90))
    def time_passes(self, minutes: int) -> None:
        self.clock.advance(timedelta(minutes=minutes))

    @rule(least=st.integers(1, 3), more=st.integers(0, 3), minutes=st.sampled_from([0, 60]))
    def expire(self, least: int, more: int, minutes: int) -> None:
        retention = expiry.Retention(timedelta(minutes=minutes), least, least + more)
        planned = expiry.expire_snapshots(self.store, retention, dry_run=True)
        done = expiry.expire_snapshots(self.store, retention, dry_run=False)
        assert planned.expired == done.expired
        newest = sorted(self.retained)[-least:]
        self.retained -= {snapshot.id for snapshot in done.expired}
        assert set(newest) <= self.retained

    @rule(minutes=st.sampled_from([0, 30]))
    def collect(self, minutes: int) -> None:
        delay = timedelta(minutes=minutes)
        planned, before = collect(self.store, delay, dry_run=True), on_disk(self.store)
        done = collect(self.store, delay)
        assert (planned.data_files, planned.metadata_files) == (done.data_files, done.metadata_files)
        # What a collection commits adds metadata; what it deletes is exactly what it said.
        assert before - on_disk(self.store) == {*done.data_files, *done.metadata_files} & before
        if done.data_files:
            self.committed(self.store.head().id, self.history[self.head])

    @rule(
        gone=words, moved=words, data=st.lists(rows, max_size=3), how=st.sampled_from([ALWAYS_VECTORS, NEVER_VECTORS])
    )
    def change_rows(self, gone: str, moved: str, data: list[dict[str, Any]], how: EditSettings) -> None:
        """Delete rows of one word, give those of another the next number and value, and insert rows."""
        self.clock.advance(timedelta(seconds=1))
        deleted, updated = self.keys[gone], self.keys[moved]
        data = [{**row, "word": self.keys[row["word"]]} for row in data]

        def update(row: dict[str, Any]) -> dict[str, Any] | None:
            return {**row, "n": (row["n"] + 1) % 3, "v": 0.25} if row["word"] == updated else None

        done = change(self.store, delete=lambda row: row["word"] == deleted, update=update, insert=data, settings=how)
        before = [dict(zip(SCHEMA.names, row, strict=True)) for row in self.history[self.head].elements()]
        kept = [update(row) or row for row in before if row["word"] != deleted]
        after = Counter(tuple(row[name] for name in SCHEMA.names) for row in (*kept, *data))
        assert (done.inserted, done.deleted) == (len(data), len(before) - len(kept))
        assert done.updated == sum(update(row) is not None for row in before if row["word"] != deleted)
        if done.snapshot is None:
            assert after == self.history[self.head]
            assert not done.updated
        else:
            self.committed(done.snapshot.id, after)

    @rule(least=st.integers(1, 2))
    def ingest_twice_merge_expire_and_collect(self, least: int) -> None:
        """The way of most files through their life, which single steps seldom take to its end."""
        for word in WORDS[1:3]:
            self.ingest([{"word": word, "n": 1, "s": 1, "v": None}])
        self.compact("all", 2, 1)
        self.clock.advance(timedelta(hours=2))
        self.expire(least, 6, 0)
        self.collect(0)

    @rule(to=st.sampled_from(EMBEDDED))
    def migrate(self, to: str) -> None:
        if to == self.store.head().state_store:
            with pytest.raises(InvalidInput):
                migrate_state_store(self.store, to)
            return
        self.committed(migrate_state_store(self.store, to).id, self.history[self.head])
        assert self.store.head().state_store == to

    @rule(pick=st.integers(0, 99))
    def rollback(self, pick: int) -> None:
        self.clock.advance(timedelta(seconds=1))
        kept = sorted({*self.retained, *self.savepoints.values()})
        number = kept[pick % len(kept)]
        to = versions.resolve(self.catalog, "id", "table", SnapshotReference(number))
        then = reopened(self.store).load(to.version)
        planned, done = (roll_back(self.store, to, dry_run=dry_run) for dry_run in (True, False))
        assert replace(planned, dry_run=False) == replace(done, snapshot=None)
        assert (done.rows_before, done.rows_after) == (self.history[self.head].total(), self.history[number].total())
        assert done.is_nothing == (done.snapshot is None)
        if done.snapshot is not None:
            self.committed(done.snapshot.id, self.history[number])
        now = reopened(self.store).load()
        assert now.tree == then.tree
        assert set(now.files.active_in([p.id for p in now.tree.partitions])) == set(
            then.files.active_in([p.id for p in then.tree.partitions])
        )

    @rule(pick=st.integers(0, 99), minutes=st.sampled_from([15, 120]))
    def begin_to_read(self, pick: int, minutes: int) -> None:
        kept = sorted({*self.retained, *self.savepoints.values()})
        number = kept[pick % len(kept)]
        found = versions.resolve(self.catalog, "id", "table", SnapshotReference(number))
        now = self.clock.now()
        lease = Lease(self.clock.new_id(), number, now, now + timedelta(minutes=minutes), "scan")
        self.catalog.add_lease("id", lease)
        self.leases[lease.id] = self.store.load(found.version)

    @precondition(lambda self: self.leases)
    @rule(pick=st.integers(0, 99), renew=st.booleans())
    def go_on_reading(self, pick: int, renew: bool) -> None:
        name = sorted(self.leases)[pick % len(self.leases)]
        state = self.leases[name]
        lease = next((each for each in self.catalog.leases("id") if each.id == name), None)
        if lease is not None and lease.until > self.clock.now():
            plan = plan_scan(state, None, NOTHING)
            assert counted(reading.read(plan, self.store.storage)) == self.history[state.snapshot_id]
        if lease is None or not renew:
            del self.leases[name]
            assert lease is None or self.catalog.release_lease("id", lease)
        else:
            assert self.catalog.renew_lease("id", lease, self.clock.now() + timedelta(minutes=15))

    @rule(deep=st.booleans())
    def check(self, deep: bool) -> None:
        assert check_table(self.store, "table", deep=deep, progress=Silent()).findings == ()

    @rule()
    def reopen(self) -> None:
        self.catalog.close()
        self.catalog = self.open_catalog()
        self.store = reopened(self.store, self.catalog)

    @rule(pick=st.integers(0, 99))
    def read_a_snapshot(self, pick: int) -> None:
        number = 1 + pick % self.head
        self.check_version(SnapshotReference(number), number in {*self.retained, *self.savepoints.values()}, number)

    @precondition(lambda self: self.savepoints)
    @rule(pick=st.integers(0, 99))
    def read_a_savepoint(self, pick: int) -> None:
        number = sorted(self.savepoints)[pick % len(self.savepoints)]
        self.check_version(SavepointReference(number), number=self.savepoints[number])

    @rule(pick=st.integers(0, 99), microseconds=st.integers(-1, 1))
    def read_a_moment(self, pick: int, microseconds: int) -> None:
        moment = self.times[1 + pick % self.head] + timedelta(microseconds=microseconds)
        kept = {*self.retained, *self.savepoints.values()}
        number = max((n for n in kept if self.times[n] <= moment), default=0)
        self.check_version(Moment(moment), bool(number), number)

    def check_version(self, asked: Any, there: bool = True, number: int = 0) -> None:
        try:
            found = versions.resolve(self.catalog, "id", "table", asked)
        except NotFound:
            assert not there
            return
        assert there
        assert found.snapshot_id == number
        for rows in self.readings(found.version):
            assert counted(rows) == self.history[number]

    def readings(self, version: Snapshot | Savepoint) -> Iterator[pa.Table]:
        """Yield all rows of a version, as each engine that is tried reads them."""
        yield scan(reopened(self.store), version)

    @rule(word=words, low=words, high=words)
    def read_a_part(self, word: str, low: str, high: str) -> None:
        now, key, least, most = self.history[self.head], self.keys[word], self.keys[low], self.keys[high]
        assert counted(scan(self.store, keys=[key])) == Counter({r: c for r, c in now.items() if r[0] == key})
        between = Counter({r: c for r, c in now.items() if least <= r[0] < most})
        assert counted(scan(self.store, region={"word": (least, most)})) == between

    @rule()
    def clean_up_quietly(self) -> None:
        """After the garbage is collected until nothing is left, only what is reachable is on disk."""
        for lease in self.catalog.leases("id"):
            self.catalog.release_lease("id", lease)
        self.clock.advance(max(timedelta(0), self.store.head().time - self.clock.now()))
        self.clock.advance(timedelta(minutes=1))
        while True:
            expiry.expire_snapshots(self.store, expiry.Retention(timedelta(0), 1, 1), dry_run=False)
            self.retained = {self.head}
            done = collect(self.store)
            if done.data_files:
                self.committed(self.store.head().id, self.history[self.head])
            elif not done.metadata_files:
                break
        tracked = set(self.store.load().files.table["filename"].to_pylist())
        held = garbage.collectable_files(self.store.load(), [], self.clock.now(), timedelta(0))
        assert on_disk(self.store) == reachable(self.store)
        assert set(held) <= tracked <= on_disk(self.store)

    @invariant()
    def the_table_is_what_the_model_says(self) -> None:
        if not hasattr(self, "store"):
            return
        fresh = reopened(self.store)
        state = fresh.load()
        assert state.snapshot_id == self.head
        assert counted(scan(fresh)) == self.history[self.head]
        assert {s.id for s in self.catalog.snapshots("id")} == self.retained
        assert [s.rows for s in self.catalog.snapshots("id")] == [
            self.history[n].total() for n in sorted(self.retained, reverse=True)
        ]
        assert reachable(self.store) <= on_disk(self.store)

    @invariant()
    def leaves_tile_and_files_lie_inside_them(self) -> None:
        if not hasattr(self, "store"):
            return
        state = self.store.load()
        state.tree.check()
        assert all(
            sum((key, 0) in leaf.region for leaf in state.tree.leaves) == 1 for key in self.keys.values()
        )  # each key is in one leaf
        for leaf in state.tree.leaves:
            held = counted(scan(self.store, region=bounds(leaf))).total()
            assert sum(file.rows for file in state.files.active_in({leaf.id})) == held
            for file in state.files.active_in({leaf.id}):
                assert not file.only_this_partition or file.min_key in leaf.region
                assert not file.only_this_partition or file.max_key in leaf.region

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.catalog.close()
            shutil.rmtree(self.folder)


class DynamoDBTableMachine(TableMachine):
    """A table in DynamoDB, whose transactions are so small that some changes are staged."""

    kinds: ClassVar = ("DynamoDBStateStore",)

    def open_catalog(self) -> Catalog:
        return memory_catalog(self.folder, max_items=7)


INSTANTS = [
    datetime.min.replace(tzinfo=UTC), datetime(1582, 10, 4, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2013, 3, 31, 1, tzinfo=UTC), datetime(2013, 10, 27, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
]  # fmt: skip


class InstantsMachine(TableMachine):
    """A table that is partitioned by instants."""

    schema: ClassVar = Schema({"word": "timestamp", "n": "int"}, {"s": "long"}, {"v": "double?"})
    keys: ClassVar = dict(zip(WORDS, INSTANTS, strict=True))


class DynamoDBDaysMachine(DynamoDBTableMachine):
    """A table in DynamoDB that is partitioned by days."""

    schema: ClassVar = Schema({"word": "date", "n": "int"}, {"s": "long"}, {"v": "double?"})
    keys: ClassVar = {word: instant.date() for word, instant in zip(WORDS, INSTANTS, strict=True)}


class EveryEngineMachine(TableMachine):
    """A table each of whose versions is read by Arrow, DuckDB and Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        super().__init__()

    def readings(self, version: Snapshot | Savepoint) -> Iterator[pa.Table]:
        """Yield all rows of a version, as each engine reads them."""
        yield from super().readings(version)
        plan, storage = plan_scan(self.store.load(version), None, NOTHING), self.store.storage
        yield relations.relation(Database().connect(), plan, storage).to_arrow_table()
        yield frames.data_frame(self.spark, plan, storage).toArrow()

    def teardown(self) -> None:
        """Read every version that is kept once more, at the end of all."""
        if hasattr(self, "store"):
            for number in {*self.retained, *self.savepoints.values()}:
                self.check_version(SnapshotReference(number), number=number)
        super().teardown()


@pytest.mark.spark
def test_every_engine_reads_each_version_as_it_was(spark_engine: SparkRuntime):
    few = settings(settings.default, max_examples=max(3, settings.default.max_examples // 10))
    run_state_machine_as_test(partial(EveryEngineMachine, spark_engine.session()), settings=few)


TestTable = TableMachine.TestCase
TestDynamoDBTable = DynamoDBTableMachine.TestCase
TestDynamoDBTable.settings = settings(settings.default, max_examples=settings.default.max_examples // 4)
TestInstants = InstantsMachine.TestCase
TestInstants.settings = TestDynamoDBTable.settings
TestDynamoDBDays = DynamoDBDaysMachine.TestCase
TestDynamoDBDays.settings = TestDynamoDBTable.settings
