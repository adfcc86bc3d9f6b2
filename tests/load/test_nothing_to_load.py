"""A load without rows says so, and shows nothing of the load before it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sleeper_nb as sl

EMPTY = pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.string())})


@pytest.mark.parametrize("way", ["ingest", "bulk_import"])
def test_a_load_without_rows_says_so(tmp_path: Path, way: str):
    (tmp_path / "none.csv").write_text("k,v\n")
    (tmp_path / "wrong.csv").write_text("k,v\nx,y\n")
    with sl.connect(tmp_path / "warehouse") as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "string"}))
        table.ingest([{"k": 1, "v": "a"}])
        for data in (EMPTY, str(tmp_path / "none.csv")):
            made = getattr(table, way)(data)
            assert (made.snapshot, made.rows, made.has_added) == (None, 0, False)
            assert repr(made) == "no rows to add: the table stays at snapshot 2"
        kept = table.ingest(str(tmp_path / "wrong.csv"), quarantine=tmp_path / "kept.parquet")
        assert repr(kept).startswith("no rows to add: the table stays at snapshot 2\n1 row kept back in ")
        assert (kept.snapshot_id, kept.kept_back, len(table.history())) == (2, 1, 2)
