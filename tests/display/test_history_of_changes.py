"""History says what changes of rows did: its listing, its picture, the card of a commit, and the system table."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from tests.support.builders import EMBEDDED


@pytest.fixture(params=EMBEDDED)
def table(request, tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, values={"v": "long?"}), state_store=request.param)
        table.ingest([{"k": k, "v": k} for k in range(10)])
        yield table


def test_history_counts_the_rows_of_changes(table):
    assert "inserted" not in table.history().to_dict()
    table.delete("k < 2")
    table.update({"v": "0"}, "k = 3")
    table.upsert([{"k": 3, "v": 1}, {"k": 20, "v": 1}])
    history = table.history()
    cells = history.to_dict()
    columns = ("operation", "+rows", "inserted", "updated", "deleted")
    assert list(zip(*(cells[name] for name in columns), strict=True)) == [
        ("upsert", 1, 1, 1, 0),
        ("update", 0, 0, 1, 0),
        ("delete", -2, 0, 0, 2),
        ("ingest", 10, None, None, None),
        ("create", 0, None, None, None),
    ]
    picture = repr(history)
    assert "▼ delete 1" in picture
    assert "◆ update 1" in picture
    assert "◆ upsert 1" in picture
    html = history._repr_html_()
    for words in ("upsert 1 inserted, 1 updated row ·", "update 1 row ·", "delete 2 rows ·", "ingest +10 rows ·"):
        assert words in html
    assert "1 inserted, 1 updated, 0 deleted" in repr(table.history(1)[0])


def test_the_system_table_has_the_counts(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, values={"v": "long?"}))
        table.ingest([{"k": 1, "v": 1}])
        table.merge([{"k": 1, "v": 2}, {"k": 2, "v": 2}]).when_matched_delete().when_not_matched_insert_all().execute()
        rows = session.sql(
            "SELECT operation, inserted_rows, updated_rows, deleted_rows FROM t$snapshots ORDER BY snapshot_id"
        )
        assert [tuple(row.values()) for row in rows.to_arrow().to_pylist()] == [
            ("create", None, None, None),
            ("ingest", None, None, None),
            ("merge", 1, 0, 1),
        ]
