"""A closed session does no work: each method refuses with one error, and no engine starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import StorageError
from sleeper_nb.progress import SILENT
from sleeper_nb.session import Session
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.servers.memory import MemoryDynamoDB, memory_catalog
from tests.support.builders import START
from tests.whole.test_one_version import SESSION, SESSION_OTHERS, SESSION_WRITES

SCHEMA = sl.Schema({"city": "string"}, {}, {"n": "int"})
STILL = {"__repr__", "closed", "close", "doctor", "inspect.identity", "location", "warehouse", "instance"}
"""What tells of the session itself or its machine, and works with no data."""
WORK: dict[str, Callable[[Session], Any]] = {
    **{name: work for name, work in SESSION.items() if name not in STILL},
    "admin.apply": lambda s: s.admin.apply({"tables": {}}),
    "create_table": lambda s: s.create_table("v", SCHEMA),
    "admin.plan_table": lambda s: s.admin.plan_table("v", SCHEMA),
    "drop_table": lambda s: s.drop_table("t", force=True),
    "admin": lambda s: s.admin,
    "admin.split_points": lambda s: s.admin.split_points([{"k": 1}, {"k": 2}], ["k"], 2),
    "maintain": lambda s: s.maintain(),
    "admin.maintenance_service": lambda s: s.admin.maintenance_service(
        "here", threading.Event(), lambda *_: None
    ).once(),
    "admin.migrate": lambda s: s.admin.migrate("t", "TransactionLogStateStore"),
    "admin.reinitialise": lambda s: s.admin.reinitialise("t", force=True),
    "rename_table": lambda s: s.rename_table("t", "v"),
    "set_properties": lambda s: s.set_properties({"sleeper.sql.local.files": "false"}),
    "allow": lambda s: s.allow(),
    "spark_session": lambda s: s.spark_session,
    "duckdb_connection": lambda s: s.duckdb_connection,
    "sql, without tables": lambda s: s.sql("SELECT 1", engine="duckdb").to_arrow(),
    "sql on spark, without tables": lambda s: s.sql("SELECT 1").to_arrow(),
}
KEPT: dict[str, Callable[[sl.Table], Any]] = {
    "rows": lambda t: t.scan().to_arrow(),
    "first rows": lambda t: t.scan(limit=1).to_arrow(),
    "relation": lambda t: t.scan().to_duckdb(),
    "data set": lambda t: t.scan().to_dataset(),
    "condition": lambda t: t.scan(where="n = 1").to_arrow(),
    "statistics": lambda t: t.inspect.query("SELECT * FROM files"),
    "spark": lambda t: t.scan().to_spark(),
    "ingest": lambda t: t.ingest([{"city": "rome", "n": 1}]),
    "publish": lambda t: t.publish(),
    "unpublish": lambda t: t.unpublish(),
}


@pytest.fixture(params=["sqlite", "dynamodb"])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Session, sl.Table]]:
    clock = ManualClock(START)
    if request.param == "sqlite":
        session = sl.connect(tmp_path, clock=clock)
    else:
        session = Session(
            "house", Storage(LocalPlace(tmp_path, sync=False)), memory_catalog(tmp_path, MemoryDynamoDB(), clock),
            clock=clock, progress=SILENT, author=None, spark=None, spark_config={},
        )  # fmt: skip
    table = session.create_table("t", SCHEMA)
    table.ingest([{"city": "rome", "n": 1}])
    session.close()
    yield session, table
    session.close()  # closing twice is fine
    assert session.closed
    assert session._components.engines.spark.started is None
    assert not session._components.engines.duckdb.database._kept


@pytest.mark.parametrize("name", sorted(WORK))
def test_a_closed_session_refuses_all_work(closed: tuple[Session, sl.Table], name: str):
    with pytest.raises(StorageError, match="was closed with its session\nhint: open the warehouse again"):
        WORK[name](closed[0])


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_table_of_a_closed_session_refuses_all_work(closed: tuple[Session, sl.Table], name: str):
    with pytest.raises(StorageError, match="was closed with its session\nhint: open the warehouse again"):
        KEPT[name](closed[1])


def test_a_closed_session_still_tells_what_it_was(closed: tuple[Session, sl.Table]):
    assert repr(closed[0]).endswith("closed)")
    assert closed[0].location


def test_every_public_name_of_a_session_is_held():
    named = {name.partition(",")[0].removesuffix(" on spark") for name in WORK} | STILL
    assert {name.partition(",")[0] for name in SESSION} | SESSION_WRITES | SESSION_OTHERS == named
