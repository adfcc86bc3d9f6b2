"""Changes of rows with some keys, or that meet a condition: the same as of all changes, from fewer files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from tests.support import statements
from tests.support.examples import examples

SCHEMA = sl.Schema({"k": "int", "s": "string"}, {"d": "date"}, {"v": "int?", "w": "long"})
WORDS = ["", "a", "ab", "b'c", "é", "\U0010ffff"]


def rows(numbers: range, add: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "k": n * 7 % 31, "s": WORDS[n % len(WORDS)], "d": f"2026-01-{n % 28 + 1:02}",
            "v": None if n % 3 == 0 else n % 17, "w": n + add,
        }
        for n in numbers
    ]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Table]:
    """Versions that add rows, merge files, split a leaf, go back, and add a column."""
    with sl.connect(tmp_path_factory.mktemp("changes") / "warehouse") as session:
        t = session.create_table("t", SCHEMA, split_points=[6, 12, 18, 24])
        for part in range(3):
            t.ingest(rows(range(part * 30, part * 30 + 30)))
        t.maintenance.compact("all", partition=t.at().partition_tree.leaves[0].id)
        t.ingest(rows(range(20), 1))
        t.maintenance.split(at=9)
        t.rollback(3)
        t.ingest(rows(range(200, 230)))
        t.maintenance.compact("all")
        yield t


def in_any_order(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def filtered(rows: pa.Table, condition: str) -> pa.Table:
    with duckdb.connect() as connection:
        return connection.from_arrow(rows).filter(condition).to_arrow_table()


VERSIONS = st.integers(1, 9)
BOUNDS = st.none() | st.integers(-2, 33)


@examples(60)
@given(VERSIONS, VERSIONS, statements.tests_on(""), BOUNDS, BOUNDS)
def test_the_changes_that_meet_a_condition_are_those_of_all_changes(
    table: sl.Table, a: int, b: int, where: str, low: int | None, high: int | None
):
    where = where.replace("AS STRING", "AS VARCHAR")
    changes = table.changes(a, b, where=where, region={"k": (low, high)})
    inside = [f"k >= {low}"] * (low is not None) + [f"k < {high}"] * (high is not None)
    expected = filtered(table.changes(a, b).rows().to_arrow(), " AND ".join([f"({where})", *inside]))
    assert in_any_order(changes.rows().to_arrow()) == in_any_order(expected)
    assert changes.added.count() + changes.removed.count() == expected.num_rows
    report = table.diff(a, b, where=where, region={"k": (low, high)})
    assert (report.rows_added, report.rows_removed) == tuple(changes.count())


@examples(40)
@given(VERSIONS, VERSIONS, st.lists(st.integers(0, 31), max_size=4))
def test_the_changes_of_some_keys_are_those_of_all_changes(table: sl.Table, a: int, b: int, keys: list[int]):
    changes = table.changes(a, b, keys=keys)
    listed = ", ".join(map(str, [*keys, -1]))
    expected = filtered(table.changes(a, b).rows().to_arrow(), f"k IN ({listed})")
    assert in_any_order(changes.rows().to_arrow()) == in_any_order(expected)
    assert sum(changes.count()) == expected.num_rows


def test_files_without_such_rows_are_not_read(table: sl.Table):
    for chosen in ({"keys": 7}, {"region": "k=[6,9]"}, {"where": "k = 7"}, {"where": "k = 7 OR k = 8"}):
        assert table.changes(1, 4, **chosen).opened == "reads 3/15 files", chosen
    assert table.changes(1, 4, where="v = 3").opened == "reads 15/15 files"
    assert table.changes(1, 4, where="k = 7 AND v = 3").count() == table.diff(1, 4, where="k = 7 AND v = 3").rows


def test_combined_rows_are_compared_whole(tmp_path: Path):
    with sl.connect(tmp_path / "sums") as session:
        schema = sl.Schema({"k": "int"}, {}, {"n": "long"})
        table = session.create_table("t", schema, properties={"sleeper.table.aggregations": "sum(n)"})
        for part in range(3):
            table.ingest([{"k": k, "n": 1} for k in range(part * 5, part * 5 + 10)])
        found = table.changes(2, 4, keys=[7, 12])
        assert found.added.to_arrow().to_pylist() == [{"k": 7, "n": 2}, {"k": 12, "n": 2}]
        assert found.removed.to_arrow().to_pylist() == [{"k": 7, "n": 1}]
        assert table.changes(2, 4, where="n = 2 AND k < 7").rows().to_arrow()["k"].to_pylist() == [5, 6]


def test_the_report_says_that_only_some_rows_count(table: sl.Table):
    assert "are of the chosen rows" in repr(table.diff(1, 4, where="k = 7"))
    assert "none of the chosen rows" in repr(table.diff(1, 4, where="k > 1000"))
    with pytest.raises(sl.errors.InvalidInput, match="keys or a region"):
        table.changes(1, 4, keys=7, region="k=[6,9]")
    with pytest.raises(sl.errors.SleeperError, match="nothing_like_it"):
        table.diff(1, 4, where="nothing_like_it = 7")
