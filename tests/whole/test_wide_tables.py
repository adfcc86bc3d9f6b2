"""Work on a table grows no faster than its columns: calls of functions are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl

NARROW, WIDE = 60, 240
WORK: dict[str, Callable[[sl.Session, Any], object]] = {
    "scan": lambda _session, table: table.scan().to_arrow(),
    "some columns": lambda _session, table: table.scan([f"c{i}" for i in range(NARROW)], "c0 > 1").to_arrow(),
    "condition": lambda _session, table: table.scan(where="c0 > 1").count(),
    "duckdb": lambda _session, table: table.scan().to_duckdb().to_arrow_table(),
    "sql": lambda session, _table: session.sql("SELECT * FROM t", engine="duckdb").to_arrow(),
    "html": lambda _session, table: table.scan()._repr_html_(),
    "fields": lambda _session, table: table.inspect.fields()._repr_html_(),
    "describe": lambda _session, table: repr(table),
    "ingest": lambda _session, table: table.ingest(table.scan().to_arrow()),
    "compaction": lambda _session, table: table.maintenance.compact("all", engine="local"),
}


def calls(work: Callable[[], object]) -> int:
    count = 0

    def noted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    found = []
    for columns in (NARROW, WIDE):
        session = sl.connect(tmp_path_factory.mktemp("wide"))
        names = [f"c{i}" for i in range(columns)]
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, dict.fromkeys(names, "double")))
        table.ingest(pa.table({"k": pa.array([1, 2], pa.int32()), **{name: [1.0, 2.0] for name in names}}))
        found.append((session, table))
    yield found
    for session, _ in found:
        session.close()


@pytest.mark.parametrize("name", WORK)
def test_work_grows_with_the_columns_and_no_faster(tables, name: str):
    work = WORK[name]
    for session, table in tables:
        work(session, table)  # what is done once is done by now
    narrow, wide = (calls(lambda session=session, table=table: work(session, table)) for session, table in tables)
    assert wide <= narrow * WIDE / NARROW * 1.2
