"""What every engine promises (`sleeper_nb.engines.engine.Engine`); one may have tasks, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.engine import ENGINES, Engine, EngineQuery, PlannedQuery, ScanRows, TaskEngine, TaskLoad
from sleeper_nb.errors import SessionClosed
from sleeper_nb.load.bulk_load import BulkLoad
from sleeper_nb.load.ingest import DEFAULT_INGEST
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.compaction_plan import StrategySettings
from sleeper_nb.model.deletions import FILE_NUMBER, POSITION
from sleeper_nb.progress import Silent
from sleeper_nb.read import read_rows
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.sql.binding import Binder, lookup_in
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.statement import SqlText, Statement
from sleeper_nb.sql.variables import Variables
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import AS_DEFAULT
from tests.support.deleted_rows import rows_in_file

SCHEMA = sl.Schema({"k": "int"}, {}, {"v": "string?", "n": "long"})
ROWS = [{"k": k, "v": None if k % 5 == 0 else f"v{k}", "n": k * k} for k in range(30)]
HARD = "SELECT count(*) AS hard FROM t WHERE n % 7 = 1 AND v IS NOT NULL"

on_each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.spark] if name == "spark" else []) for name in ENGINES]
)
"""Each engine of the package; one that needs a server or a JVM has the mark that says so."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Session]:
    """A table of three leaves and two files in each; rows were deleted by a vector."""
    with sl.connect(tmp_path_factory.mktemp("engines") / "warehouse") as made:
        table = made.create_table("t", SCHEMA, split_points=[10, 20])
        table.ingest(ROWS[::2])
        table.ingest(ROWS[1::2])
        table.delete("k IN (3, 21)")
        yield made


@pytest.fixture
def engine(session: sl.Session, name: Any, request: pytest.FixtureRequest) -> Engine:
    if name == "spark":
        request.getfixturevalue("spark_engine").session()  # so that all tests of the process share one
    return session._components.engines[name]


def left(*but: int) -> list[int]:
    return [row["k"] for row in ROWS if row["k"] not in {3, 21, *but}]


def planned(session: sl.Session, engine: Engine, sql: str, *, with_places: bool = False, **values: Any) -> PlannedQuery:
    """Return the plan of a statement, whose tables are read with the places of their rows if that is asked."""
    found = lookup_in(lambda name, version: session.table(name).at(version))

    def lookup(name: str, version: Any) -> Any:
        source = found(name, version)
        return replace(source, with_places=True) if with_places and source is not None else source

    binder = Binder(engine.name, lookup, lambda: ("t",), lambda _: None, {}, Variables({}))
    bound = binder.bind(Statement.of(sql, dialect=engine.name))
    return engine.plan(EngineQuery(bound, values))


@on_each
def test_an_engine_says_who_it_is(engine: Engine, name: str):
    assert engine.name == name
    assert engine.title
    assert name in RULES  # its SQL is a value, too


@on_each
def test_rows_are_read_in_every_form(session: sl.Session, engine: Engine):
    rows = planned(session, engine, "SELECT k, v FROM t ORDER BY k").run()
    assert rows.engine == engine.name
    assert rows.names == ("k", "v")
    assert len(rows.kinds) == 2
    assert rows.count() == len(left())
    assert rows.all()["k"].to_pylist() == left()
    assert rows.first(3)["k"].to_pylist() == left()[:3]
    batches = list(rows.batches(10))
    assert pa.concat_tables(batches)["k"].to_pylist() == left()
    assert len(batches) > 1
    assert pa.concat_tables(rows.batches_to_iterate(10))["k"].to_pylist() == left()
    assert rows.plan().strip()
    assert rows.native is not None
    assert rows.plan_in(rows.first(1)) is None


@on_each
def test_a_condition_on_row_keys_prunes_files(session: sl.Session, engine: Engine):
    plan = planned(session, engine, "SELECT k FROM t WHERE k BETWEEN 12 AND 14")
    (read,) = plan.read.plans
    assert len(read.leaves) == 1
    assert sorted(plan.run().all()["k"].to_pylist()) == [12, 13, 14]


@on_each
def test_parameters_are_bound(session: sl.Session, engine: Engine):
    rows = planned(session, engine, "SELECT k FROM t WHERE k = :key AND v = :text", key=4, text="v4").run()
    assert rows.all().to_pylist() == [{"k": 4}]


@on_each
def test_a_change_finds_rows_with_their_places(session: sl.Session, engine: Engine):
    """A change of rows is a query whose answer has the file and position of each row that it is about."""
    quote = RULES[engine.name].name_quote
    places = ", ".join(f"{quote}{column}{quote}" for column in (FILE_NUMBER, POSITION))
    plan = planned(session, engine, f"SELECT k, {places} FROM t WHERE n > 100", with_places=True)
    (read,), storage = plan.read.plans, plan.read.sources[0].storage
    found = plan.run().all().to_pylist()
    assert sorted(row["k"] for row in found) == [k for k in left() if k * k > 100]
    for row in found:
        assert rows_in_file(storage, read.filenames[row[FILE_NUMBER]], SCHEMA)[row[POSITION]]["k"] == row["k"]


@on_each
@pytest.mark.parametrize("sql", ["SELECT k FROM t WHER k = 1", "SELECT absent FROM t", "SELECT nothing(k) FROM t"])
def test_what_an_engine_cannot_read_is_an_error_of_ours_without_a_traceback(session, engine, sql):
    with pytest.raises(sl.InvalidInput) as caught:
        planned(session, engine, sql).run().all()
    assert "\n" not in caught.value.message


@on_each
def test_an_error_of_a_row_has_its_place_in_the_statement(session: sl.Session, engine: Engine):
    sql = "SELECT k,\n  CAST(v AS INT) AS i FROM t WHERE k = 4"
    rows = planned(session, engine, sql).run()
    with pytest.raises(sl.SleeperError) as caught, rows.placing():
        rows.all()
    if caught.value.place:  # an engine may name none
        assert "LINE 2" in caught.value.place


@on_each
def test_a_statement_does_no_more_than_read(session: sl.Session, engine: Engine):
    for sql in ("INSERT INTO u SELECT 1", "CREATE TABLE u AS SELECT 1 AS k", "DROP TABLE u"):
        with pytest.raises(sl.SleeperError):
            planned(session, engine, sql).run().all()


@on_each
def test_explain_answers_a_plan(session: sl.Session, engine: Engine):
    rows = planned(session, engine, f"EXPLAIN {HARD}").run()
    assert (rows.plan_in(rows.all()) or "").strip()


@on_each
def test_a_scan_is_the_engine_s_own_object(session: sl.Session, engine: Engine):
    table, storage = session.table("t"), session.table("t")._store.storage
    state = table._store.load()
    guard = table.at().guard(0)
    condition = session._components.engines.condition("n > 100", SCHEMA)
    rows = engine.scan(ScanRows(plan_scan(state), storage, guard, ("k",), "n > 100", None, condition))
    found = rows.toArrow() if hasattr(rows, "toArrow") else rows.to_arrow_table()
    assert sorted(found["k"].to_pylist()) == [k for k in left() if k * k > 100]


@on_each
def test_a_value_is_no_condition_or_the_engine_refuses_it_itself(session: sl.Session, engine: Engine):
    sql = "SELECT (k = 1) AS a, (n) AS b FROM t"
    condition, number = planned(session, engine, sql).run().kinds
    assert engine.why_no_condition(condition) == ""
    if engine.takes_any_condition:
        assert engine.why_no_condition(number) == "long"
    else:
        with pytest.raises(sl.InvalidInput):
            planned(session, engine, "SELECT k FROM t WHERE (n)").run().all()


@on_each
def test_a_statement_is_checked_and_claimed_without_starting_anything(tmp_path: Path, name: Any):
    with sl.connect(tmp_path / "warehouse") as fresh:
        engines = fresh._components.engines
        engines[name].check(Statement.of("SELECT 1", dialect=name), dry_run=True)
        for engine in engines.others:
            assert engine.name != engines.default.name
            assert engine.own_names() == frozenset()
            assert engine.claim(SqlText("SELECT 1"), {}) == ""
        assert engines.spark.started is None


@pytest.fixture
def tasks(session: sl.Session, engine: Engine) -> TaskEngine:
    """The engine, if it has tasks."""
    with_tasks = session._components.engines.with_tasks
    if engine is not with_tasks:
        pytest.skip(f"{engine.title} has no tasks")
    return with_tasks


@pytest.fixture
def store(session: sl.Session, tmp_path: Path) -> Iterator[StateStore]:
    """A table of two leaves and two files in each, and a file to load."""
    name = f"t{tmp_path.name}".replace("-", "_")
    table = session.create_table(name, SCHEMA, split_points=[10])
    for part in (ROWS[::2], ROWS[1::2]):
        table.ingest(part)
    pq.write_table(pa.Table.from_pylist([{**row, "k": row["k"] + 100} for row in ROWS], SCHEMA.arrow), tmp_path / "in")
    (tmp_path / "in").rename(tmp_path / "new.parquet")
    yield table._store
    session.drop_table(name, force=True)


@on_each
def test_tasks_load_what_threads_of_this_process_would(tasks: TaskEngine, store: StateStore, tmp_path: Path):
    rows, (schema, tree) = find_sources(str(tmp_path / "new.parquet")), (SCHEMA, store.load().tree)
    sample = tasks.sample(rows, schema, 10, EXACT)
    assert (sample.rows, set(sample.keys["k"].to_pylist()) <= set(range(100, 130))) == (30, True)
    writer = tasks.writer(TaskLoad(store.storage, rows, EXACT, DEFAULT_INGEST, lambda _: ()))
    assert not writer.planned(schema, tree).most
    BulkLoad(store, rows, EXACT, writer).imported(message="by tasks")
    found = read_rows.read(plan_scan(store.load()), store.storage)
    assert sorted(found["k"].to_pylist()) == [*range(30), *range(100, 130)]


@on_each
def test_tasks_compact_as_this_process_does(tasks: TaskEngine, store: StateStore):
    started: list[str] = []
    runner = tasks.compaction(store.storage, AS_DEFAULT, started.append, lambda: None)
    report = compaction.compact(
        store, runner, strategy="all", settings=StrategySettings(), dry_run=False, progress=Silent()
    )
    assert len(started) == len(report.jobs) == 2
    state = store.load()
    assert len(plan_scan(state).files) == 2
    assert read_rows.read(plan_scan(state), store.storage)["k"].to_pylist() == list(range(30))


@on_each
def test_a_closed_engine_refuses_work(tmp_path: Any, name: Any):
    with sl.connect(tmp_path / "warehouse") as fresh:
        fresh.create_table("t", SCHEMA)
        engine = fresh._components.engines[name]
        engine.close()
        with pytest.raises(SessionClosed):
            planned(fresh, engine, "SELECT k FROM t")
