"""A dry run with the id of a job that was done says, as the run does, that nothing would be done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl

ROWS = [{"id": 1, "x": 1}, {"id": 2, "x": 2}]
NEW = [{"id": 1, "x": 5}, {"id": 3, "x": 3}]


@pytest.fixture
def table(tmp_path: Path):
    with sl.connect(tmp_path / "wh", data_paths=[tmp_path]) as session:
        made = session.create_table("t", sl.Schema({"id": "int"}, values={"x": "int?"}))
        made.ingest(ROWS)
        yield made


def file_of(folder: Path) -> Path:
    rows = pa.table({"id": pa.array([7], pa.int32()), "x": pa.array([7], pa.int32())})
    parquet.write_table(rows, folder / "a.parquet")
    return folder / "a.parquet"


def sql(table: sl.Table, text: str, **how: Any) -> Any:
    with sl.connect(Path(table._store.storage.root).parents[1]) as session:
        return session.sql(text, **how)


WAYS = {
    "ingest": lambda t, _f, **how: t.ingest(NEW, **how),
    "bulk import": lambda t, _f, **how: t.bulk_import(NEW, engine="local", **how),
    "quarantine": lambda t, f, **how: t.ingest(NEW, quarantine=f / "kept.parquet", **how),
    "add files": lambda t, f, **how: t.add_files(str(file_of(f)), **how),
    "update": lambda t, _f, **how: t.update({"x": "9"}, "id = 1", **how),
    "delete": lambda t, _f, **how: t.delete("id = 1", **how),
    "upsert": lambda t, _f, **how: t.upsert(NEW, **how),
    "overwrite": lambda t, _f, **how: t.overwrite(NEW, where="id < 9", **how),
    "UPDATE": lambda t, _f, **how: sql(t, "UPDATE t SET x = 9 WHERE id = 1", **how),
    "INSERT": lambda t, _f, **how: sql(t, "INSERT INTO t VALUES (8, 8)", **how),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_dry_run_says_that_its_job_was_done(table, tmp_path, way):
    before = repr(WAYS[way](table, tmp_path, job_id="night", dry_run=True))
    assert "was done before" not in before
    WAYS[way](table, tmp_path, job_id="night")
    done = table.at().resolved.snapshot_id
    plan = repr(WAYS[way](table, tmp_path, job_id="night", dry_run=True))
    assert f"job 'night' was done before, in snapshot {done}" in plan
    assert "would add 2" not in plan
    assert "does it" not in plan
    WAYS[way](table, tmp_path, job_id="night")
    assert table.at().resolved.snapshot_id == done
    assert "was done before" not in repr(WAYS[way](table, tmp_path, job_id="day", dry_run=True))


def test_a_dry_run_refuses_a_wrong_id_as_the_run_does(table):
    for run in (table.ingest, table.upsert):
        with pytest.raises(sl.InvalidInput) as refused:
            run(NEW, job_id="\n")
        with pytest.raises(sl.InvalidInput) as planned:
            run(NEW, job_id="\n", dry_run=True)
        assert str(planned.value) == str(refused.value)
