"""What a load forgives on request: extra columns, other kinds, similar names; and how it says what is wrong."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl

SCHEMA = sl.Schema(
    {"vendor": "int"},
    {"pickup_time": "timestamp"},
    {"fare": "double?", "tag": "string?", "paid": "boolean?", "seats": "int?", "day": "date?", "tags": "list<string>?"},
)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROW = {"vendor": 1, "pickup_time": AT, "fare": 1.5}


@pytest.fixture
def table(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse") as session:
        yield session.create_table("trips", SCHEMA, [2])


def as_arrow(rows: pa.Table, _: Path) -> Any:
    return rows


def as_pandas(rows: pa.Table, _: Path) -> Any:
    return rows.to_pandas()


def as_objects(rows: pa.Table, _: Path) -> Any:
    return rows.to_pandas().astype(object)


def as_polars(rows: pa.Table, _: Path) -> Any:
    return pl.from_arrow(rows)


def as_rows(rows: pa.Table, _: Path) -> Any:
    return rows.to_pylist()


def as_parquet(rows: pa.Table, folder: Path) -> Any:
    parquet.write_table(rows, folder / "rows.parquet", row_group_size=1)
    return folder / "rows.parquet"


def as_csv(rows: pa.Table, folder: Path) -> Any:
    rows.to_pandas().to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def as_json(rows: pa.Table, folder: Path) -> Any:
    rows.to_pandas().to_json(folder / "rows.json", orient="records", lines=True, date_format="iso")
    return folder / "rows.json"


INPUTS = [as_arrow, as_pandas, as_objects, as_polars, as_rows, as_parquet, as_csv, as_json]


def loaded(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["vendor"])


def two_rows(**columns: Any) -> pa.Table:
    times = pa.array([AT, AT], pa.timestamp("us", "UTC"))
    return pa.table({"vendor": pa.array([1, 2]), "pickup_time": times, **columns})


@pytest.mark.parametrize("made", INPUTS)
def test_extra_columns_are_left_out_on_request_and_named(table, tmp_path: Path, made: Any):
    data = made(two_rows(fare=[1.5, 2.5], colour=["red", "blue"], size=[1, 2]), tmp_path)
    with pytest.raises(sl.InvalidInput, match="unknown column 'colour'") as error:
        table.ingest(data)
    assert "ignore_extra=True" in (error.value.hint or "")
    assert error.value.place == f"unknown column 'size'{f', in {data}' if isinstance(data, Path) else ''}"
    plan = table.ingest(data, ignore_extra=True, dry_run=True).plan
    assert "skipped, not in the table: colour, size" in repr(plan)
    table.ingest(data, ignore_extra=True)
    assert [row["fare"] for row in loaded(table)] == [1.5, 2.5]


@pytest.mark.parametrize("made", INPUTS)
def test_similar_names_match_on_request(table, tmp_path: Path, made: Any):
    rows = two_rows(fare=[1.5, 2.5]).rename_columns(["VENDOR", "Pickup Time", " Fare "])
    data = made(rows, tmp_path)
    with pytest.raises(sl.InvalidInput, match="missing column 'vendor'") as error:
        table.ingest(data)
    assert "by_name=True" in (error.value.hint or "")
    assert table.ingest(data, by_name=True, dry_run=True).plan.differences == ()
    table.ingest(data, by_name=True)
    assert loaded(table)[1] == {**dict.fromkeys(SCHEMA.names), "vendor": 2, "pickup_time": AT, "fare": 2.5}


def test_a_similar_name_is_not_taken_where_two_would_match(table):
    rows = two_rows(fare=[1.0, 2.0], FARE=[3.0, 4.0])
    plan = table.ingest(rows, by_name=True, dry_run=True).plan
    assert [(each.column, each.kind) for each in plan.differences] == [("FARE", "unknown column")]
    twice = two_rows(Fare=[1.0, 2.0], FARE=[3.0, 4.0])
    plan = table.ingest(twice, by_name=True, dry_run=True).plan
    assert [(each.column, each.kind) for each in plan.differences] == [("fare", "occurs twice")]


@pytest.mark.parametrize("made", INPUTS)
def test_columns_are_named_in_order_or_by_pairs(table, tmp_path: Path, made: Any):
    data = made(two_rows(x=[1.5, 2.5]).rename_columns(["a", "b", "vendor"]), tmp_path)
    pairs = {"a": "vendor", "b": "pickup_time", "vendor": "fare"}
    table.ingest(data, columns=pairs)
    if made in {as_rows, as_json}:
        with pytest.raises(sl.InvalidInput, match="columns cannot be named in order") as error:
            table.ingest(data, columns=["vendor", "pickup_time", "fare"])
        assert error.value.hint == "give pairs of the data's and the table's name: columns={NAME: 'vendor'}"
        return
    table.ingest(data, columns=["vendor", "pickup_time", "fare"])
    assert [(row["vendor"], row["fare"]) for row in loaded(table)] == [(1, 1.5), (1, 1.5), (2, 2.5), (2, 2.5)]
    with pytest.raises(sl.InvalidInput, match="3 columns, and 2 are named"):
        table.ingest(data, columns=["vendor", "pickup_time"])


def test_hints_do_not_ask_for_options_that_are_given(table, tmp_path: Path):
    (tmp_path / "a.json").write_text('{"vendor": 1, "pickup_time": "2026-01-01", "tag": 1e400}\n')
    data = {"vendor": [1], "pickup_time": [AT]}
    for wrong in (
        tmp_path / "a.json",
        pa.table({**data, "tag": [{"a": 1}]}),
        pa.table({**data, "Fare": [1], "FARE": [2]}),
    ):
        for difference in table.ingest(wrong, cast=True, by_name=True, dry_run=True).plan.differences:
            assert "cast=True" not in difference.change
            assert "by_name=True" not in difference.change


def test_a_text_that_is_no_time_is_not_to_be_rounded(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("times", sl.Schema({"k": "int"}, {}, {"at": "time?", "d": "date?"}))
        plan = table.ingest([{"k": 1, "at": "9:05", "d": "1.2.2026"}], dry_run=True).plan
    assert [each.change.partition(",")[0] for each in plan.differences] == [
        "write a time of day as 10:30:00.123456", "write a day as 2026-11-21",
    ]  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_with_columns_in_other_orders_are_not_named_in_order(table, tmp_path: Path, ending: str):
    rows = two_rows(x=[1.5, 2.5])
    for name, order in {"a": [0, 1, 2], "b": [2, 1, 0]}.items():
        part = rows.select(order)
        if ending == "csv":
            part.to_pandas().to_csv(tmp_path / f"{name}.csv", index=False)
        else:
            parquet.write_table(part, tmp_path / f"{name}.parquet")
    for dry_run in (True, False):
        with pytest.raises(sl.InvalidInput, match=rf"'x' is number 3 in .*a.{ending}, but number 1 in .*b.{ending}"):
            table.ingest(f"{tmp_path}/*.{ending}", columns=["vendor", "pickup_time", "fare"], dry_run=dry_run)
    table.ingest(f"{tmp_path}/*.{ending}", columns={"x": "fare"})
    assert [row["fare"] for row in loaded(table)] == [1.5, 1.5, 2.5, 2.5]


@pytest.mark.parametrize("made", INPUTS)
def test_pairs_name_columns_of_the_data_and_of_the_table(table, tmp_path: Path, made: Any):
    data = made(two_rows(x=[1.5, 2.5]), tmp_path)
    for wrong, message, hint in [
        ({"x": "far"}, "no column 'far' in the table", "did you mean 'fare'?"),
        ({"x": "fare", "vendr": "seats"}, "no column 'vendr' in the data", "did you mean 'vendor'?"),
    ]:
        with pytest.raises(sl.NotFound) as error:
            table.ingest(data, columns=wrong, ignore_extra=True)
        assert (error.value.message, error.value.hint) == (message, hint)
    assert table.at().resolved.snapshot_id == 1


def test_pairs_name_columns_that_only_some_data_has(table, tmp_path: Path):
    (tmp_path / "a.json").write_text(
        '{"vendor": 1, "pickup_time": "2026-01-01"}\n{"vendor": 2, "pickup_time": "2026-01-01", "x": 1}\n'
    )
    table.ingest(tmp_path / "a.json", columns={"x": "fare"})
    table.ingest([pa.table({"vendor": [3], "pickup_time": [AT], "y": [4]}), tmp_path / "a.json"],
                 columns={"y": "seats", "x": "fare"})  # fmt: skip
    assert [(row["fare"], row["seats"]) for row in loaded(table)] == [
        (None, None), (None, None), (1.0, None), (1.0, None), (None, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "columns",
    [{"x y": "b"}, {"a": "b", "x y": "a"}, {"x y": "a"}, {"a": "b"}, {'"é\\': "b"}, {"x y": "a", '"é\\': "b"}],
)
def test_pairs_name_the_members_of_lines_as_those_of_an_array(tmp_path: Path, columns: dict[str, str]):
    rows = [{"k": 1, "a": "1.5", "x y": "2"}, {"k": 2, "a": "b", "x y": "3"}, {"k": 3, "x y": "4", '"é\\': None}]
    schema = sl.Schema.from_ddl("k LONG KEY, a STRING NULL, b STRING NULL DEFAULT 'none'")
    found: list[Any] = []
    with sl.connect(tmp_path / "warehouse") as session:
        for name, text in (("lines", "\n".join(map(json.dumps, rows))), ("array", json.dumps(rows))):
            (tmp_path / f"{name}.json").write_text(text)
            table = session.create_table(name, schema)
            try:
                table.ingest(tmp_path / f"{name}.json", columns=columns, ignore_extra=True)
                found.append(table.scan().to_arrow().to_pylist())
            except sl.InvalidInput as error:
                found.append((error.message.replace(name, "array"), error.hint))
    assert found[0] == found[1]


TEXTS = {
    "int": (pa.array([12, None]), ["12", None]),
    "double": (pa.array([1.5, 1e300]), ["1.5", "1e+300"]),
    "boolean": (pa.array([True, False]), ["true", "false"]),
    "date": (pa.array([date(2026, 1, 2), None]), ["2026-01-02", None]),
    "decimal": (pa.array([Decimal("1.50"), None]), ["1.50", None]),
    "timestamp": (pa.array([AT, None], pa.timestamp("us", "UTC")), ["2026-01-02 03:04:05Z", None]),
    "ns": (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01 00:00:00.000000001", None]),
    "time": (pa.array([time(1, 2, 3), None], pa.time32("s")), ["01:02:03", None]),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("made", [as_arrow, as_rows, as_objects, as_parquet])
def test_other_kinds_become_text_on_request_only(table, tmp_path: Path, kind: str, made: Any):
    values, texts = TEXTS[kind]
    data = made(two_rows(tag=values), tmp_path)
    with pytest.raises(sl.InvalidInput, match="column 'tag'") as error:
        table.ingest(data)
    assert "cast=True" in (error.value.hint or "")
    table.ingest(data, cast=True)
    assert [row["tag"] for row in loaded(table)] == texts


@pytest.mark.parametrize("made", INPUTS)
def test_words_become_booleans_on_request_only(table, tmp_path: Path, made: Any):
    data = made(two_rows(paid=["Yes", "n"]), tmp_path)
    with pytest.raises(sl.InvalidInput, match=r"'Yes' .string. cannot become boolean") as error:
        table.ingest(data)
    assert "cast=True" in (error.value.hint or "")
    table.ingest(data, cast=True)
    assert [row["paid"] for row in loaded(table)] == [True, False]


@pytest.mark.parametrize("made", INPUTS)
@pytest.mark.parametrize(
    ("column", "text", "number"), [("vendor", "01234", 1234), ("seats", " -007", -7), ("fare", "00.50", 0.5)]
)
def test_leading_zeros_are_dropped_on_request_only(table, tmp_path: Path, made: Any, column, text, number):
    data = made(two_rows(**{column: ["5", text]}), tmp_path)
    with pytest.raises(sl.InvalidInput, match=rf"column '{column}', (row 2|line [23]): '{text}' .string. can") as error:
        table.ingest(data)
    hint = "use a column of type string to keep the zeros; to drop them, add cast=True; nothing was changed"
    assert error.value.hint == hint
    assert [each.column for each in table.ingest(data, dry_run=True).plan.differences] == [column]
    table.ingest(data, cast=True)
    assert sorted(row[column] for row in loaded(table)) == sorted([5, number])


def test_texts_that_write_a_number_otherwise_are_that_number(table):
    texts = ["+5", " 5", "5 ", "5.0", "5e0", "-0", "0", "1e3"]
    table.ingest(two_rows(seats=texts[:2]))
    for first in range(2, len(texts), 2):
        table.ingest(two_rows(seats=texts[first : first + 2]))
    assert sorted(row["seats"] for row in loaded(table)) == [0, 0, 5, 5, 5, 5, 5, 1000]
    for text in ("1_000", "1,000", "0x10", "5.5", "٥"):
        with pytest.raises(sl.InvalidInput, match="column 'seats', row 2"):
            table.ingest(two_rows(seats=["1", text]))
    with pytest.raises(sl.InvalidInput, match="row 2: '08'") as error:
        table.upsert(two_rows(seats=["7", "08"]))
    assert "cast=True" in (error.value.hint or "")
    with pytest.raises(sl.InvalidInput, match="'08'") as error:
        table.update(new_values={"seats": "08"}, where="vendor = 1")
    assert "give a number in new_values" in (error.value.hint or "")


def test_a_cast_on_request_reaches_into_lists(table):
    table.ingest(two_rows(tags=[[1, None], [2]]), cast=True)
    table.ingest([{**ROW, "vendor": 3, "tags": [1, "x"]}], cast=True)
    assert [row["tags"] for row in loaded(table)] == [["1", None], ["2"], ["1", "x"]]


@pytest.mark.parametrize("made", INPUTS)
def test_a_cast_on_request_rounds_nothing(table, tmp_path: Path, made: Any):
    data = made(two_rows(seats=[1.5, 2.0], day=["2026-01-02T10:00:00", "soon"]), tmp_path)
    plan = table.ingest(data, cast=True, dry_run=True).plan
    assert [(each.column, each.count) for each in plan.differences] == [("seats", "1"), ("day", "2")]
    with pytest.raises(sl.InvalidInput):
        table.ingest(data, cast=True)
    assert table.at().resolved.snapshot_id == 1


def test_a_frame_of_a_spreadsheet_loads(table):
    frame = pd.DataFrame({
        "Vendor": [1.0, 2.0], "Pickup time": [pd.Timestamp(AT), pd.Timestamp(AT)], "Fare": [1, np.nan],
        "Tag": [12, "A3"], "Seats": [2.0, np.nan], "Paid": [True, "no"], "Unnamed: 6": [np.nan, np.nan],
    })  # fmt: skip
    table.ingest(frame, by_name=True, cast=True, ignore_extra=True)
    first, second = loaded(table)
    assert (first["tag"], first["seats"], first["paid"], second["tag"], second["seats"], second["paid"]) == (
        "12", 2, True, "A3", None, False,
    )  # fmt: skip


def test_differences_are_grouped_by_column_over_files(table, tmp_path: Path):
    (tmp_path / "a.csv").write_text(
        "vendor,pickup_time,fare,tip\n1,2026-01-01,1.5,1\n2,2026-01-01,N/A,1\n3,soon,N/A,1\n"
    )
    (tmp_path / "b.csv").write_text("tip,fare,pickup_time,vendor\n1,x,2026-01-01,1\n")
    plan = table.ingest(str(tmp_path / "*.csv"), dry_run=True).plan
    shown = [(d.column, d.kind, d.count, d.example, Path(d.source).name, d.place, d.files) for d in plan.differences]
    assert shown == [
        ("tip", "unknown column", "", "", "a.csv", "", 2),
        ("pickup_time", "is not a timestamp", "1", "'soon'", "a.csv", "line 4", 1),
        ("fare", "is not a number", "3", "'N/A'", "a.csv", "line 3", 2),
    ]  # fmt: skip
    with pytest.raises(sl.InvalidInput) as error:
        table.ingest(str(tmp_path / "*.csv"))
    lines = str(error.value).replace(f"{tmp_path}/", "").splitlines()
    assert lines[:-1] == [
        "unknown column 'tip', in a.csv (2 files)",
        "column 'pickup_time', line 4: 'soon' is not a timestamp, in a.csv",
        "column 'fare', line 3: 'N/A' is not a number, in a.csv (3 values in 2 files)",
    ]
    assert lines[-1].startswith("hint: leave it out with ignore_extra=True, or add it: table.alter(")


def test_many_wrong_columns_stay_a_short_error(table):
    with pytest.raises(sl.InvalidInput) as error:
        table.ingest(two_rows(**{f"x{i}": [1, 2] for i in range(30)}))
    lines = str(error.value).splitlines()
    assert (len(lines), lines[-2]) == (12, "and 20 more differences")


@pytest.mark.parametrize("rows", [10, 100_000])
def test_wrong_values_are_counted_as_far_as_that_is_quick(table, rows: int):
    values = ["x" if i % 2 else "1" for i in range(rows)]
    data = pa.table({"vendor": [1] * rows, "pickup_time": [AT] * rows, "fare": values})
    (difference,) = table.ingest(data, dry_run=True).plan.differences
    if rows == 10:
        assert difference.count == "5"
    else:
        assert re.fullmatch(r"[\d,]+ or more", difference.count)
    refused = data.set_column(2, "fare", [[b"x"] * rows])
    assert table.ingest(refused, dry_run=True).plan.differences[0].count == f"{rows:,}"


def test_a_null_is_shown_with_its_line(table, tmp_path: Path):
    (tmp_path / "a.csv").write_text("vendor,pickup_time\n1,2026-01-01\n,2026-01-01\n")
    (difference,) = table.ingest(tmp_path / "a.csv", dry_run=True).plan.differences
    assert (difference.kind, difference.count, difference.place) == ("nulls", "1", "line 3")


@pytest.mark.parametrize(
    "wrong",
    [{"ignore_extra": 1}, {"cast": "yes"}, {"by_name": None}, {"columns": []}, {"columns": [1]}, {"columns": "a,b"},
     {"columns": ["a", "a"]}, {"columns": {"a": "x", "b": "x"}}],
    ids=str,
)  # fmt: skip
def test_options_of_wrong_types_are_refused(table, wrong: dict[str, Any]):
    with pytest.raises(sl.InvalidInput, match=next(iter(wrong))):
        table.ingest([ROW], **wrong)
    with pytest.raises(TypeError, match="argument 'ignore_extras'; did you mean 'ignore_extra'"):
        table.ingest([ROW], ignore_extras=True)


def test_a_short_name_that_differs_in_case_and_spaces_is_named(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse") as session:
        table = session.create_table("t", sl.Schema({"n": "long"}))
        missing, unknown = table.ingest([{" N ": 1}], dry_run=True).plan.differences
        assert missing.change == "rename ' N ' to 'n', or add by_name=True"
        assert unknown.change == "rename it to 'n', or add by_name=True"
        assert table.ingest([{" N ": 1}], by_name=True).rows == 1
