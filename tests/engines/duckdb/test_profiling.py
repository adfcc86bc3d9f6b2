"""The profile of a table's columns, compared with what pandas says of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.read.column_profile import ColumnProfile

SCHEMA = sl.Schema(
    {"k": "int"},
    {"t": "timestamp"},
    {
        "n": "long?", "x": "double?", "d": "date", "p": "decimal(10,2)?", "s": "string?", "b": "boolean?",
        "raw": "bytearray", "many": "list<int>?", "none": "string?",
    },
)  # fmt: skip
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(numbers: range) -> list[dict[str, object]]:
    return [
        {
            "k": i, "t": START + timedelta(hours=i), "n": None if i % 10 == 0 else i * i, "x": i / 4,
            "d": date(2026, 1, 1) + timedelta(days=i % 31), "p": Decimal(i) / 4, "s": f"name {i % 7}", "b": i % 4 == 0,
            "raw": bytes([i % 256]), "many": [i % 3], "none": None,
        }
        for i in numbers
    ]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Table]:
    with sl.connect(tmp_path_factory.mktemp("profile") / "warehouse") as session:
        made = session.create_table("t", SCHEMA, split_points=[300])
        made.ingest(rows(range(400)))
        made.ingest(rows(range(400, 1000)))
        yield made


@pytest.fixture(scope="module")
def profiles(table: sl.Table) -> dict[str, ColumnProfile]:
    return {each.name: each for each in table.profile()}


def test_counts_bounds_and_quartiles_are_those_of_the_rows(table: sl.Table, profiles: dict[str, ColumnProfile]):
    frame = table.scan().to_pandas()
    assert list(profiles) == list(SCHEMA.names)
    for name in ("k", "t", "n", "x", "d", "p", "s", "b", "raw"):
        values, profile = frame[name].dropna(), profiles[name]
        assert (profile.rows, profile.nulls) == (1000, 1000 - len(values)), name
        assert (profile.distinct, profile.is_exact) == (values.nunique(), True), name
        assert (profile.least, profile.greatest) == (values.min(), values.max()), name
    for name in ("k", "n", "x", "p", "t", "d"):
        ordered = sorted(frame[name].dropna())
        expected = tuple(ordered[-(-len(ordered) * q // 4) - 1] for q in (1, 2, 3))
        assert profiles[name].quartiles == expected, name


def test_histograms_count_every_value(profiles: dict[str, ColumnProfile]):
    assert sum(profiles["k"].counts) == 1000
    assert max(profiles["k"].counts) - min(profiles["k"].counts) <= 1
    assert profiles["k"].bars == "████████████"
    assert profiles["n"].counts[0] == max(profiles["n"].counts)
    assert sum(profiles["t"].counts) == sum(profiles["d"].counts) == 1000
    assert sorted(profiles["s"].counts, reverse=True) == list(profiles["s"].counts)
    assert profiles["b"].counts == (750, 250)


def test_columns_without_values_or_order_say_what_they_can(profiles: dict[str, ColumnProfile]):
    none, many = profiles["none"], profiles["many"]
    assert (none.nulls, none.distinct, none.least, none.greatest, none.quartiles, none.bars) == (
        1000,
        0,
        None,
        None,
        (),
        "",
    )
    assert (many.nulls, many.distinct, many.least, many.quartiles) == (0, 3, None, ())
    assert profiles["s"].quartiles == ()


def test_any_version_columns_and_condition(table: sl.Table):
    (older,) = table.at(2).profile(["k"])
    assert (older.rows, older.greatest) == (400, 399)
    k, s = table.profile(["k", "s"], where="k < 10")
    assert (k.rows, k.greatest, s.distinct) == (10, 9, 7)
    listing = table.profile(["k"])
    assert "profile of t at snapshot 3" in repr(listing)
    assert "1,000 rows" in repr(listing)
    assert listing.to_pandas()["median"].tolist() == [499]
    empty = table.profile(where="k > 5000")
    assert {each.rows for each in empty} == {0}
    with pytest.raises(sl.NotFound, match="no column 'z'"):
        table.profile(["z"])
    with pytest.raises(sl.InvalidInput, match="cannot have a limit"):
        table.scan(limit=3).profile()


def test_infinities_and_nan_break_nothing(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"x": "double"}))
        values = [1.0, 2.0, float("inf"), float("-inf"), float("nan"), 1e308, -1e308]
        table.ingest([{"k": k, "x": x} for k, x in enumerate(values)])
        (profile,) = table.profile(["x"])
        assert (profile.rows, profile.nulls, profile.least) == (7, 0, float("-inf"))
        assert sum(profile.counts) == 4
        assert "Profile of t" in table.profile()._repr_html_()


def test_of_more_than_a_million_values_the_distinct_are_estimated_and_it_is_said(
    table: sl.Table, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sleeper_nb.engines.duckdb.scanned_rows._MOST_COUNTED", 100)
    listing = table.profile(["k"])
    assert not listing[0].is_exact
    assert abs(listing[0].distinct - 1000) < 150
    assert f"≈ {listing[0].distinct:,}" in repr(listing)
