"""A large bulk import into a table with one leaf splits it first, so that each new leaf gets an even share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.properties import STATE_STORES

pytestmark = pytest.mark.spark

SCHEMA = sl.Schema({"city": "string", "n": "int"}, values={"fare": "double?"})
PROPERTIES = {
    "sleeper.table.bulk.import.min.leaf.partitions": "8",
    "sleeper.table.partition.splitting.min.rows": "1000",
}
ROWS = 24_000


@pytest.fixture
def spark(spark_engine: Any) -> Any:
    return spark_engine.session()


def rows(kind: str, count: int = ROWS) -> pa.Table:
    random = np.random.default_rng(4)
    numbers = random.integers(0, 1_000_000, count)
    cities = {
        "uniform": [f"{number:07d}" for number in numbers],
        "skewed": ["rome" if number % 2 else f"{number:07d}" for number in numbers],
        "common prefix": [f"https://example.org/places/europe/{number:07d}" for number in numbers],
    }[kind]
    return pa.table({"city": cities, "n": pa.array(range(count), pa.int32()), "fare": random.normal(9, 2, count)})


def table_of(session: sl.Session, **properties: str) -> sl.Table:
    return session.create_table("t", SCHEMA, properties={**PROPERTIES, **properties})


def shares(table: sl.Table) -> list[int]:
    """The rows of each leaf."""
    state = table._store.load()
    counts = state.files.by_partition()
    return [counts[leaf.id].rows if leaf.id in counts else 0 for leaf in state.tree.leaves]


@pytest.mark.parametrize("kind", ["uniform", "skewed", "common prefix"])
def test_leaves_get_even_shares(session, tmp_path, kind):
    pq.write_table(rows(kind), tmp_path / "rows.parquet", row_group_size=5_000)
    table = table_of(session)
    plan = table.bulk_import(tmp_path / "rows.parquet", dry_run=True).plan
    assert "the only leaf would be split into up to 8 first" in repr(plan)
    assert len(table.at().partition_tree.leaves) == 1
    table.bulk_import(tmp_path / "rows.parquet", message="all")
    assert sum(shares(table)) == ROWS
    assert len(shares(table)) == 8
    assert max(shares(table)) <= 1.5 * ROWS / 8
    assert [snapshot.operation for snapshot in table.history()] == ["ingest", "split", "create"]
    assert table.scan().to_arrow().sort_by("n").to_pylist() == rows(kind).to_pylist()
    assert table.maintenance.check(deep=True).ok


def test_csv_is_sampled_too(session, tmp_path):
    pa_csv.write_csv(rows("uniform"), tmp_path / "rows.csv")
    table = table_of(session)
    table.bulk_import(tmp_path / "rows.csv")
    assert len(shares(table)) == 8
    assert max(shares(table)) <= 1.5 * ROWS / 8


@pytest.mark.parametrize("state_store", STATE_STORES[:2])
def test_few_rows_that_are_there_move_to_the_new_leaves(session, tmp_path, state_store):
    pq.write_table(rows("uniform"), tmp_path / "rows.parquet")
    table = session.create_table("t", SCHEMA, properties=PROPERTIES, state_store=state_store)
    before = rows("uniform", 500)
    table.ingest(before)
    table.bulk_import(tmp_path / "rows.parquet")
    assert len(shares(table)) == 8
    assert table.scan().count() == ROWS + 500
    assert table.at(2).scan().count() == 500
    assert table.maintenance.check(deep=True).ok


def unsplit(session: sl.Session, tmp_path: Path, case: str) -> Any:
    """Import rows that split nothing."""
    pq.write_table(rows("uniform"), tmp_path / "rows.parquet")
    if case == "default":
        table = session.create_table("t", SCHEMA)
    elif case == "few rows":
        table = table_of(session, **{"sleeper.table.partition.splitting.min.rows": "20000"})
    elif case == "many rows before":
        table = table_of(session)
        table.ingest(rows("uniform", 3_000))
    else:
        table = table_of(session, **{"sleeper.table.bulk.import.min.leaf.partitions": "1"})
    table.bulk_import(tmp_path / "rows.parquet")
    return table


@pytest.mark.parametrize("case", ["default", "few rows", "many rows before", "not wanted"])
def test_other_imports_are_as_before(session, tmp_path, case):
    table = unsplit(session, tmp_path, case)
    assert len(table.at().partition_tree.leaves) == 1
    assert "split" not in [snapshot.operation for snapshot in table.history()]


def test_an_import_that_fails_leaves_the_partitions(session, tmp_path):
    bad = rows("uniform").set_column(2, "fare", pa.array(["9.5"] * (ROWS - 1) + ["x"]))
    pq.write_table(bad, tmp_path / "rows.parquet")
    table = table_of(session)
    with pytest.raises(SleeperError):
        table.bulk_import(tmp_path / "rows.parquet")
    assert len(table.at().partition_tree.leaves) == 1
    assert [snapshot.operation for snapshot in table.history()] == ["create"]
    assert not list((tmp_path / "w").rglob("data/**/*.parquet"))


def test_a_job_that_is_repeated_splits_once(session, tmp_path):
    pq.write_table(rows("uniform"), tmp_path / "rows.parquet")
    table = table_of(session)
    first = table.bulk_import(tmp_path / "rows.parquet", job_id="once")
    assert table.bulk_import(tmp_path / "rows.parquet", job_id="once").snapshot_id == first.snapshot_id
    assert len(table.history()) == 3
