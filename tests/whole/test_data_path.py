"""A table with a data location of its own (``sleeper.table.data.path``), as the oldest specification has each table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import DATA_PATH
from tests.support.builders import EMBEDDED, START

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "long?"})
ROWS = [{"city": "rome", "fare": 1}, {"city": "bern", "fare": None}]


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("state_store", EMBEDDED)
def test_all_files_of_the_table_are_there_and_none_with_the_instance(tmp_path, state_store):
    other, clock = tmp_path / "other place", ManualClock(START)
    with sl.connect(tmp_path / "house", clock=clock, data_paths=[other]) as session:
        table = session.create_table("t", SCHEMA, ["m"], state_store=state_store, properties={DATA_PATH: str(other)})
        session.create_table("beside", SCHEMA)
        for _ in range(3):
            table.ingest(ROWS)
        table.create_savepoint("kept")
        table.maintenance.compact("all", engine="local")
        session.admin.migrate("t", next(kind for kind in EMBEDDED if kind != state_store))
        assert "all is well" in repr(table.maintenance.check(deep=True))
    with sl.connect(tmp_path / "house", clock=clock, data_paths=[other]) as session:
        table = session.table("t")
        assert table.scan(version="savepoint.kept").count() == table.scan().count() == 6
        assert session.sql("select count(*) as n from t", engine="duckdb").to_arrow()["n"].to_pylist() == [6]
        assert table.inspect.query("select count(*) as n from savepoints").to_dict() == {"n": [1]}
        clock.advance(timedelta(days=30))
        table.delete_savepoint("kept", force=True)
        table.maintenance.expire(dry_run=False)
        clock.advance(timedelta(days=30))
        before = len(files_below(other / table.entry.id / "data"))
        table.maintenance.collect_garbage(dry_run=False)
        assert len(files_below(other / table.entry.id / "data")) <= before
        house = tmp_path / "house" / "default"
        assert not files_below(house / table.entry.id)
        assert [path.name for path in other.iterdir()] == [table.entry.id]
        assert (house / "config" / "tables" / f"table-{table.entry.id}.properties").is_file()
        assert session.drop_table("t", dry_run=True).files == len(files_below(other))
        session.drop_table("t", force=True)
        assert not files_below(other)
        assert [each.name for each in session.tables()] == ["beside"]


def test_the_place_is_an_address_that_stays(tmp_path):
    with sl.connect(tmp_path / "house", data_paths=[tmp_path]) as session:
        for wrong in ("data", "./data", "ftp://x", "s3://"):
            with pytest.raises(InvalidInput, match="cannot be") as error:
                session.create_table("t", SCHEMA, properties={DATA_PATH: wrong})
            assert "absolute folder" in error.value.hint
        table = session.create_table("t", SCHEMA, properties={DATA_PATH: str(tmp_path / "a")})
        with pytest.raises(InvalidInput, match="cannot be changed"):
            table.set_properties({DATA_PATH: str(tmp_path / "b")})


@pytest.mark.spark
def test_spark_writes_and_reads_there(tmp_path, spark_engine):
    with sl.connect(tmp_path / "house", spark=spark_engine.session(), data_paths=[tmp_path]) as session:
        table = session.create_table("t", SCHEMA, ["m"], properties={DATA_PATH: str(tmp_path / "other")})
        table.bulk_import(table.scan().to_arrow().from_pylist(ROWS, schema=SCHEMA.arrow))
        table.ingest(ROWS)
        table.maintenance.compact("all", engine="spark")
        assert session.sql("select count(*) as n from t").to_arrow()["n"].to_pylist() == [4]
        assert session.sql("select count(*) as n from t version as of 2").to_arrow()["n"].to_pylist() == [2]
        read = spark_engine.session().read.format("sleeper").option("table", "t").load()
        assert read.count() == 4
        assert not files_below(tmp_path / "house" / "default" / table.entry.id)
