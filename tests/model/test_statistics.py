"""Statistics of value columns: which columns have them, how they are collected, and how references keep them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.file_reference import files_schema, to_values
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.properties import STATISTICS, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.statistics import (
    AUTO_COLUMNS,
    ColumnStatistics,
    StatisticsColumns,
    StatisticsOfRows,
    from_text,
    plain_value,
    to_text,
)
from sleeper_nb.model.transactions import AddFiles, from_entry, to_entry
from tests.support.builders import KEYED, START, a_file

SCHEMA = Schema(
    {"k": "long"},
    {"so": "string"},
    {"at": "timestamp?", "day": "date?", "n": "int?", "x": "double?", "tags": "list<string>", "b": "bytearray?"},
)
AT = ColumnStatistics("at", "timestamp", 5, 9, 2)
DAY = ColumnStatistics("day", "date", None, None, 3)
TEXT = ColumnStatistics("so", "string", "a", "é", 0)
BYTES = ColumnStatistics("b", "bytearray", b"\x00", b"\xff", 0)


def names(columns: StatisticsColumns, schema: Schema = SCHEMA) -> list[str]:
    return [field.name for field in columns.fields(schema)]


def test_dates_timestamps_and_sort_keys_have_statistics_unless_others_are_named():
    assert names(AUTO_COLUMNS) == ["so", "at", "day"]
    assert names(StatisticsColumns.parse("auto")) == ["so", "at", "day"]
    assert names(StatisticsColumns.parse("none")) == []
    assert names(StatisticsColumns.parse(" n , b")) == ["n", "b"]
    assert names(StatisticsColumns.parse("n,of_another_table")) == ["n"]


@pytest.mark.parametrize("text", ["", "a,,b", ",", "n,n"])
def test_a_list_that_is_no_list_of_columns_is_refused_with_what_is_one(text: str):
    with pytest.raises(InvalidInput, match=f"property {STATISTICS} cannot be") as caught:
        TableProperties({STATISTICS: text})
    assert "auto, none, or column names separated by commas" in caught.value.hint


def test_a_name_that_can_have_no_statistics_is_an_error_that_says_why():
    for name, message in (
        ("k", "'k' is a row key, whose least and greatest values are always kept"),
        ("x", "'x' is double, which has no statistics"),
        ("tags", "which has no statistics"),
    ):
        with pytest.raises(InvalidInput, match=message):
            StatisticsColumns((name,)).check(SCHEMA)
    with pytest.raises(NotFound, match="'dayy'"):
        StatisticsColumns(("dayy",)).check(SCHEMA)
    StatisticsColumns(("n", "b", "at")).check(SCHEMA)


def of_rows(*batches: pa.Table, columns: tuple[str, ...]) -> tuple[ColumnStatistics, ...]:
    seen = StatisticsOfRows(StatisticsColumns(columns).fields(SCHEMA))
    for batch in batches:
        seen.see(batch)
    return seen.found()


@given(st.lists(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=5), max_size=4))
def test_statistics_of_batches_are_those_of_all_rows(batches: list[list[int | None]]):
    found = of_rows(*(pa.table({"n": pa.array(batch, pa.int32())}) for batch in batches), columns=("n",))
    values = [value for batch in batches for value in batch if value is not None]
    nulls = sum(value is None for batch in batches for value in batch)
    assert found == (ColumnStatistics("n", "int", min(values, default=None), max(values, default=None), nulls),)


def test_dates_and_times_that_python_does_not_reach_are_kept():
    far = pa.table({"day": pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())})
    assert of_rows(far, columns=("day",)) == (ColumnStatistics("day", "date", -(2**31), 2**31 - 1, 0),)
    times = pa.array([2**63 - 1, -(2**62)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    found = of_rows(pa.table({"at": times}), columns=("at",))
    assert found == (ColumnStatistics("at", "timestamp", -(2**62), 2**63 - 1, 0),)
    references = FileReferences.none(KEYED).with_added([a_file("f", statistics=found)], 1, START)
    assert next(to_values(references.active)).statistics == found


def test_very_long_texts_leave_a_file_without_statistics():
    assert of_rows(pa.table({"so": ["a", "b" * 256]}), columns=("so",))[0].greatest == "b" * 256
    assert of_rows(pa.table({"so": ["a", "b" * 257]}), columns=("so",)) == ()
    assert of_rows(pa.table({"so": ["a", "é" * 129]}), columns=("so",)) == ()


def test_statistics_come_back_from_text_and_from_the_log():
    every = (AT, DAY, TEXT, BYTES)
    assert from_text(to_text(every)) == every
    added = AddFiles((a_file("f", statistics=every), a_file("g")))
    assert from_entry(to_entry(added, 7, START), 7)[0] == added


def test_references_come_back_with_their_statistics_whenever_each_was_added():
    files = [a_file("f1"), a_file("f2", statistics=(AT,)), a_file("f3", statistics=(DAY, AT)), a_file("f4")]
    references = FileReferences.none(KEYED)
    for number, file in enumerate(files, 1):
        references = references.with_added([file], number, START)
    assert [set(r.statistics) for r in references.active_in({"root"})] == [set(), {AT}, {AT, DAY}, set()]
    assert references.table.schema.names[-6:] == ["min_at", "max_at", "nulls_at", "min_day", "max_day", "nulls_day"]
    reread = FileReferences.of(references.table).with_added([a_file("f5", statistics=(TEXT,))], 9, START)
    assert [len(r.statistics) for r in reread.active_in({"root"})] == [0, 1, 2, 0, 1]
    assert reread.totals.files == 5
    assert reread.knows("f5")


def test_removed_references_keep_no_statistics_and_other_keys_start_without():
    references = FileReferences.none(KEYED).with_added([a_file("f", statistics=(AT,)), a_file("g")], 1, START)
    removed = references.with_removed(["f"], "root", 2, START).with_removed(["g"], "root", 2, START)
    assert removed.ready_for_gc["nulls_at"].to_pylist() == [None, None]
    other = Schema({"i": "int"})
    assert removed.of_schema(other).table.schema == files_schema(other)


def test_statistics_of_a_column_of_another_type_are_left_out():
    references = FileReferences.none(KEYED).with_added([a_file("f", statistics=(AT,))], 1, START)
    as_text = ColumnStatistics("at", "string", "a", "b", 0)
    references = references.with_added([a_file("g", statistics=(as_text,))], 2, START)
    assert [r.statistics for r in references.active_in({"root"})] == [(AT,), ()]


def test_values_of_conditions_become_what_statistics_hold_or_nothing():
    day, time = pa.date32(), pa.timestamp("us", "UTC")
    zoned = datetime(1970, 1, 1, 1, 0, 0, 7, UTC)
    assert plain_value(date(1970, 1, 11), day) == 10
    assert plain_value(zoned, time) == 3_600_000_007
    assert plain_value(datetime(1, 1, 1, tzinfo=UTC), time) == -62_135_596_800_000_000
    assert plain_value(5, pa.int32()) == 5
    assert plain_value("a", pa.string()) == "a"
    assert plain_value(b"a", pa.binary()) == b"a"
    for value, kind in (
        (zoned, day), (zoned.replace(tzinfo=None), time), (date(1970, 1, 1), time), (2**31, pa.int32()),
        (True, pa.int32()), (1.5, pa.int64()), ("1", pa.int64()), (b"a", pa.string()), ("a", pa.binary()),
        (timedelta(1), time),
    ):  # fmt: skip
        assert plain_value(value, kind) is None
