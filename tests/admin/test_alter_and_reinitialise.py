"""Columns that were altered, and the schema that the table's properties file says: they never contradict each other."""

from __future__ import annotations

import json

import sleeper_nb as sl
from sleeper_nb.model.properties import TABLE_SCHEMA

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "double?"})


def test_a_reinitialised_table_keeps_the_columns_that_it_was_altered_to(session):
    table = session.create_table("trips", SCHEMA)
    table.ingest([{"city": "rome", "fare": 1.0}])
    table.alter({"note": "string?"}, {"fare": "price"})
    altered = table.schema
    assert session.table("trips").at().properties[TABLE_SCHEMA] == altered
    session.admin.reinitialise("trips", force=True)
    assert session.table("trips").schema == altered
    assert session.table("trips").scan().count() == 0


def test_a_savepoint_of_before_is_read_with_its_own_and_with_the_current_columns(session, tmp_path):
    table = session.create_table("trips", SCHEMA)
    table.ingest([{"city": "rome", "fare": 1.5}])
    table.create_savepoint("before")
    table.alter({"note": "string?"}, {"fare": "price"})
    (path,) = (tmp_path / "warehouse" / "default" / "config" / "tables").iterdir()
    now = json.loads(table.schema.to_json())
    now["valueFields"] = [{"name": "tip", "type": "DoubleType", "nullable": True}, *now["valueFields"]]
    lines = [line for line in path.read_text().splitlines() if not line.startswith(TABLE_SCHEMA)]
    path.write_text("\n".join([*lines, f"{TABLE_SCHEMA}={json.dumps(now)}", ""]))
    session.admin.reinitialise("trips", force=True)
    table = session.table("trips")
    assert table.schema.names == ("city", "tip", "price", "note")
    table.ingest([{"city": "oslo", "tip": 1.0, "price": 2.0, "note": None}])
    assert table.scan(version="savepoint.before").to_arrow().to_pylist() == [{"city": "rome", "fare": 1.5}]
    mapped = table.scan(version="savepoint.before", schema="current").to_arrow().to_pylist()
    assert mapped == [{"city": "rome", "tip": None, "price": 1.5, "note": None}]
