"""Lazy Polars frames: they read the columns and partitions that the query needs, and give the rows of the scan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb import scan as scan_module

SCHEMA = sl.Schema({"k": "int", "s": "string"}, {"d": "date"}, {"v": "long?", "x": "double?", "b": "bytearray?"})
WORDS = ["", "a", "ab", "b", "é", "\U0010ffff"]


def rows(numbers: range) -> list[dict[str, Any]]:
    return [
        {
            "k": n % 50, "s": WORDS[n % 6], "d": date(2026, 1, 1) + timedelta(days=n % 31),
            "v": None if n % 7 == 0 else n, "x": n / 4, "b": bytes([n % 256]),
        }
        for n in numbers
    ]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Table]:
    with sl.connect(tmp_path_factory.mktemp("polars") / "warehouse") as session:
        made = session.create_table("t", SCHEMA, split_points=[10, 20, 30, 40])
        made.ingest(rows(range(300)))
        made.ingest(rows(range(300, 400)))
        yield made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...] | None]]:
    """How many partitions, and which columns, each read of a scan takes."""
    seen: list[tuple[int, tuple[str, ...] | None]] = []
    real = scan_module.stream

    def watched(plan: Any, *arguments: Any, **named: Any) -> Any:
        seen.append((len(plan.leaves), named.get("columns")))
        return real(plan, *arguments, **named)

    monkeypatch.setattr(scan_module, "stream", watched)
    return seen


K, S = pl.col("k"), pl.col("s")
CONDITIONS = [
    (K == 5, 1),
    (pl.lit(5) == K, 1),
    (K.is_in([5, 45]), 2),
    (K.is_between(12, 25), 2),
    ((K < 5) | (K >= 45), 2),
    ((K == 5) & (S == "a"), 1),
    (K.is_null(), 0),
    (S.str.starts_with("a") & (K == 5), 1),
    (K != 5, 5),
    (~(K == 5), 5),
    (K == 5.0, 5),
    (K + 1 == 6, 5),
    (K.eq_missing(5), 5),
    (pl.col("v").is_null(), 5),
    (pl.col("d") > date(2026, 1, 20), 5),
    ((K == 5) | (pl.col("v") == 7), 5),
]


@pytest.mark.parametrize(("condition", "partitions"), CONDITIONS, ids=lambda each: str(each)[:40])
def test_conditions_leave_out_partitions_and_no_row(
    table: sl.Table, read: list[tuple[int, Any]], condition: pl.Expr, partitions: int
):
    expected = table.scan().to_polars().filter(condition)
    read.clear()
    found = table.scan().to_polars(lazy=True).filter(condition).collect()
    assert [leaves for leaves, _ in read] == [partitions]
    assert found.sort(pl.all()).equals(expected.sort(pl.all()))


def test_only_needed_columns_are_read(table: sl.Table, read: list[tuple[int, Any]]):
    lazy = table.scan().to_polars(lazy=True)
    assert lazy.filter(K == 5).select("v").collect().columns == ["v"]
    assert set(read[-1][1]) == {"k", "v"}
    assert lazy.select(pl.len()).collect().item() == 400
    assert lazy.group_by("s").agg(pl.col("x").sum()).collect().height == len(WORDS)
    assert set(read[-1][1]) == {"s", "x"}


def test_the_first_rows_are_those_of_the_scan(table: sl.Table):
    whole = table.scan().to_polars()
    lazy = table.scan().to_polars(lazy=True)
    assert lazy.head(7).collect().equals(whole.head(7))
    assert lazy.head(7).filter(K == 1).collect().equals(whole.head(7).filter(K == 1))
    assert lazy.filter(K == 45).head(2).collect().equals(whole.filter(K == 45).head(2))
    limited = table.scan(limit=9)
    assert limited.to_polars(lazy=True).filter(K >= 0).collect().equals(limited.to_polars())


def test_columns_condition_and_version_of_the_scan_hold(table: sl.Table):
    scan = table.at(2).scan(["k", "v"], "v > 20", keys=[(5,), (45,)])
    lazy = scan.to_polars(lazy=True)
    assert lazy.collect_schema() == scan.to_polars().schema
    assert lazy.collect().equals(scan.to_polars())
    assert lazy.filter(K == 45).collect().equals(scan.to_polars().filter(K == 45))


def test_rows_that_are_combined_are_combined_whole(table: sl.Table):
    session_of = sl.connect(table._store.storage.root.rpartition("/")[0])
    with session_of as session:
        schema = sl.Schema({"k": "int"}, {}, {"n": "long"})
        made = session.create_table("sums", schema, properties={"sleeper.table.aggregations": "sum(n)"})
        for part in range(3):
            made.ingest([{"k": k, "n": 1} for k in range(part * 5, part * 5 + 10)])
        lazy = made.scan().to_polars(lazy=True)
        assert lazy.filter(K == 7).collect().to_dicts() == [{"k": 7, "n": 2}]
        assert lazy.filter(pl.col("n") == 2).select(pl.len()).collect().item() == 10


def single_tests() -> st.SearchStrategy[pl.Expr]:
    numbers, texts = st.integers(-3, 60), st.sampled_from(WORDS)
    signs = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "eq_missing"])
    ends = st.sampled_from(["both", "left", "right", "none"])
    lists = st.lists(numbers, max_size=5)
    return st.one_of(
        st.builds(lambda name, sign, n: getattr(pl.col(name), sign)(n), st.sampled_from(["k", "v"]), signs, numbers),
        st.builds(lambda many, nulls: K.is_in([*many, None], nulls_equal=nulls), lists, st.booleans()),
        st.builds(K.is_between, numbers, numbers, ends),
        st.builds(S.str.starts_with, texts),
        st.builds(S.ge, texts),
    )


CONDITION = st.recursive(
    single_tests(),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=5,
)


@given(CONDITION)
def test_any_condition_gives_the_rows_that_polars_itself_gives(table: sl.Table, condition: pl.Expr):
    expected = table.scan().to_polars().filter(condition)
    assert table.scan().to_polars(lazy=True).filter(condition).collect().equals(expected)
