"""Values stay what they are through numpy, JSON and pandas, or are refused; nothing is changed without a word."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.load import json_files
from tests.support.casts import same


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory):
    with sl.connect(tmp_path_factory.mktemp("w")) as opened:
        yield opened


@pytest.fixture
def loaded(session: sl.Session):
    """Return what a column of a type becomes when data is loaded into a table of its own."""
    made: list[sl.Table] = []

    def load(kind: str, data: Any) -> list[Any]:
        name = f"t{len(session.tables())}"
        made.append(session.create_table(name, sl.Schema({"k": "int"}, {}, {"v": f"{kind}?"})))
        made[-1].ingest(data)
        return list(made[-1].scan().to_arrow()["v"].to_pylist())

    return load


def rows(*values: Any) -> list[dict[str, Any]]:
    return [{"k": k, "v": value} for k, value in enumerate(values)]


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


ODD = dt.timezone(dt.timedelta(hours=1, microseconds=5))
PYTHON: dict[str, tuple[str, list[Any], list[Any]]] = {
    "bytes of numpy": ("bytearray", [np.bytes_(b"a\0"), np.bytes_(b"b")], [b"a\0", b"b"]),
    "texts of numpy": ("string", [np.str_("a\0"), np.str_("b")], ["a\0", "b"]),
    "lists of numpy's bytes": ("list<bytearray>", [[np.bytes_(b"a\0"), b"a\0"]], [[b"a\0", b"a\0"]]),
    "raw memory of numpy": ("bytearray", [np.void(b"ab\0"), np.void(b"a")], [b"ab\0", b"a"]),
    "days and nanoseconds of numpy": (
        "timestamp",
        [np.datetime64("9999-01-01", "D"), np.datetime64("2020-01-01", "ns"), np.datetime64("NaT", "ns")],
        [moment(9999, 1, 1), moment(2020, 1, 1), None],
    ),
    "a long double": ("double", [np.longdouble("1.5")], [1.5]),
    "an array without dimensions": ("double", [np.array(1.5)], [1.5]),
    "a zone with microseconds": (
        "timestamp",
        [dt.datetime(2020, 1, 1, 1, tzinfo=ODD), moment(2020, 1, 1)],
        [moment(2019, 12, 31, 23, 59, 59, 999995), moment(2020, 1, 1)],
    ),
}


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("shape", ["rows", "a data frame"])
def test_python_s_values_are_exact(loaded: Any, name: str, shape: str):
    kind, values, expected = PYTHON[name]
    series = pd.Series(values, dtype=object)
    data = rows(*values) if shape == "rows" else pd.DataFrame({"k": range(len(values)), "v": series})
    assert loaded(kind, data) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", np.longdouble(1) / 3),
        ("long", "٣"),
        ("long", "１２"),
        ("double", "٣.5"),
        ("decimal(5,2)", "１２"),
        ("date", "２026-01-01"),
        ("timestamp", "１2026-01-01T00:00:00"),
        ("map<long,long>", {"x": 1, "y": 2}),
    ],
)
def test_what_is_no_exact_value_is_refused(loaded: Any, kind: str, value: Any):
    with pytest.raises(sl.InvalidInput, match="column 'v', row 1"):
        loaded(kind, rows(value))


@pytest.mark.parametrize("number", ["1e-400", "2e-324", "1.23456e-322", "-1e-400", "1E-0400", "1e400"])
@pytest.mark.parametrize("name", ["in.json", "in.csv"])
def test_small_numbers_mean_the_same_in_json_and_csv(loaded: Any, tmp_path: Path, name: str, number: str):
    text = f'{{"k":0,"v":{number}}}\n' if name == "in.json" else f"k,v\n0,{number}\n"
    (tmp_path / name).write_text(text)
    line = 1 if name == "in.json" else 2
    with pytest.raises(sl.InvalidInput, match=f"column 'v', line {line}: .*cannot become double without loss"):
        loaded("double", tmp_path / name)


@pytest.mark.parametrize("number", ["5e-324", "4.9e-324", "1e-300", "0e-400", "1e300"])
@pytest.mark.parametrize("name", ["in.json", "in.csv"])
def test_small_numbers_that_a_double_has_are_kept(loaded: Any, tmp_path: Path, name: str, number: str):
    text = f'{{"k":0,"v":{number}}}\n' if name == "in.json" else f"k,v\n0,{number}\n"
    (tmp_path / name).write_text(text)
    assert loaded("double", tmp_path / name) == [float(number)]


NAN, FAR = float("nan"), 2**63 - 1
POOLS: dict[str, list[Any]] = {
    "int": [2**31 - 1, -(2**31), 0],
    "long": [9007199254740993, FAR, -(2**63)],
    "float": [0.5, float("inf"), -0.0, NAN],
    "double": [0.1, -0.0, 5e-324, NAN],
    "boolean": [True, False],
    "decimal(38,3)": [Decimal("9007199254740993.001"), Decimal("-0.001")],
    "string": ["", "a\0", "é"],
    "bytearray": [b"", b"a\0"],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [moment(1, 1, 1), moment(2026, 1, 1, 1, 2, 3, 4), moment(9999, 12, 31, 23, 59, 59, 999999)],
}
POOLS |= {
    **{f"list<{kind}>": [[*pool, None], pool, [None], []] for kind, pool in POOLS.items()},
    **{f"map<string,{kind}>": [[("a", pool[0]), ("b", None)], [("a", pool[-1])], []] for kind, pool in POOLS.items()},
    **{f"list<list<{kind}>>": [[pool, None, [None, pool[0]]], [pool]] for kind, pool in POOLS.items()},
    **{f"map<{kind},int>": [[(pool[0], 1)], [(pool[0], None)]] for kind, pool in POOLS.items()},
}
ALL = sl.Schema({"k": "int"}, {}, {f"v{i}": f"{kind}?" for i, kind in enumerate(POOLS)})


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("door", ["scan", "sql"])
def test_every_type_comes_back_from_pandas_as_it_went(session: sl.Session, door: str, nulls: bool):
    pools = [[*pool, None] if nulls else pool for pool in POOLS.values()]
    longest = max(map(len, pools))
    given = [{"k": k, **{f"v{i}": pool[k % len(pool)] for i, pool in enumerate(pools)}} for k in range(longest)]
    one = session.create_table(f"one{len(session.tables())}", ALL)
    one.ingest(given)
    frame = one.scan().to_pandas() if door == "scan" else session.sql(f"select * from {one.name}").to_pandas()
    other = session.create_table(f"other{len(session.tables())}", ALL)
    other.ingest(frame)
    got = other.scan().to_arrow().to_pylist()
    wrong = [
        (kind, before[f"v{i}"], after[f"v{i}"])
        for before, after in zip(given, got, strict=True)
        for i, kind in enumerate(POOLS)
        if not same(after[f"v{i}"], before[f"v{i}"])
    ]
    assert wrong == []


def test_pandas_has_whole_numbers_beside_null_and_plain_ones_without(session: sl.Session):
    sql = "select 1::{0} as v union all select {1} order by 1"
    for kind, masked, plain in (("integer", "Int32", "int32"), ("bigint", "Int64", "int64")):
        assert str(session.sql(sql.format(kind, "NULL")).to_pandas()["v"].dtype) == masked
        assert str(session.sql(sql.format(kind, "2")).to_pandas()["v"].dtype) == plain


def test_the_first_moment_of_all_is_not_missing_in_pandas(session: sl.Session):
    moments = pa.array([-(2**63), None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = session.create_table("first", sl.Schema({"k": "int"}, {}, {"v": "timestamp?"}))
    table.ingest(pa.table({"k": pa.array([0, 1], pa.int32()), "v": moments}))
    again = session.create_table("again", table.schema)
    again.ingest(table.scan().to_pandas())
    assert again.scan().to_arrow()["v"].cast(pa.int64()).to_pylist() == [-(2**63), None]


def test_an_arrow_decimal_of_any_width_becomes_a_whole_number(loaded: Any):
    for kind in (pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal256(50, 2)):
        data = pa.table({"k": pa.array([0], pa.int32()), "v": pa.array([Decimal("5.00")], kind)})
        assert loaded("long", data) == [5]
        assert loaded("list<long>", data.set_column(1, "v", pa.array([[Decimal("5.00")]], pa.list_(kind)))) == [[5]]


def test_a_number_too_large_for_a_decimal_does_not_wrap_around(loaded: Any, tmp_path: Path):
    (tmp_path / "in.csv").write_text("k,v\n0,7\n")
    texts = pa.table({"k": pa.array([0], pa.int32()), "v": ["460399393.84"]})
    long = pa.array([Decimal("395.777067949067528")], pa.decimal128(21, 15))
    for kind, data in (
        ("decimal(38,38)", rows(7)),
        ("decimal(38,38)", rows(Decimal("1" * 38))),
        ("decimal(38,38)", tmp_path / "in.csv"),
        ("decimal(38,36)", texts.set_column(1, "v", long)),
        ("decimal(38,36)", texts),
    ):
        with pytest.raises(sl.InvalidInput, match=r"column 'v', (row 1|line 2): .*cannot become decimal\(38,3"):
            loaded(kind, data)
    assert loaded("decimal(38,37)", rows(7, Decimal("0." + "1" * 37))) == [7, Decimal("0." + "1" * 37)]
    assert loaded("decimal(38,35)", texts.set_column(1, "v", long)) == [Decimal("395.777067949067528")]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("seconds", [86_400, 90_000, -1])
def test_a_time_that_no_day_has_is_refused_with_its_row(loaded: Any, unit: str, seconds: int):
    width, kind = (pa.int32(), pa.time32(unit)) if unit == "ms" else (pa.int64(), pa.time64(unit))
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = pa.array([None, 86_399 * per_second, seconds * per_second], width).cast(kind)
    data = pa.table({"k": pa.array([0, 1, 2], pa.int32()), "v": times})
    with pytest.raises(sl.InvalidInput, match=f"column 'v', row 3, is {seconds:,},000,000 microseconds after midnight"):
        loaded("time", data)
    lists = pa.array([[], [], [seconds * per_second]], pa.list_(width)).cast(pa.list_(kind))
    with pytest.raises(sl.InvalidInput, match=r"column 'v', row 3, is .* no time of day"):
        loaded("list<time>", data.set_column(1, "v", lists))


def test_only_a_struct_of_key_and_value_is_a_pair_of_a_map(loaded: Any):
    frame = pl.DataFrame({"k": [0], "v": [[{"x": 1, "y": 2}]]})
    with pytest.raises(sl.InvalidInput, match="column 'v'"):
        loaded("map<long,long>", frame)
    assert loaded("map<long,long>", pl.DataFrame({"k": [0], "v": [[{"key": 1, "value": 2}]]})) == [[(1, 2)]]


@pytest.mark.parametrize("kind", ["long", "list<long>"])
@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, '{"k":0,"v":' + "[" * 5000 + "]" * 5000 + "}"])
def test_json_that_is_nested_too_deep_is_refused(loaded: Any, tmp_path: Path, kind: str, text: str):
    (tmp_path / "in.json").write_text(text)
    with pytest.raises(sl.InvalidInput, match="nested too deeply"):
        loaded(kind, tmp_path / "in.json")


DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [f'"x":{DEEP}', '"x":{\n' * 100_000, f'"y":"\\"[]{{}}}} {{","x":{DEEP}'])
def test_an_unknown_column_that_is_nested_too_deep_is_refused(loaded: Any, tmp_path: Path, text: str):
    (tmp_path / "in.json").write_text(f'{{"k":0,"v":1}}\n{{"k":1,{text}')
    with pytest.raises(sl.InvalidInput, match=r"cannot read .*in.json, line 2"):
        loaded("long", tmp_path / "in.json")


def test_brackets_in_texts_are_no_nesting(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_files, "_objects", None)  # Arrow reads the block
    lines = "".join(f'{{"k":{k},"v":"[{{\\"}} {{[["}}\n' for k in range(1000))
    (tmp_path / "in.json").write_text(lines)
    assert loaded("string", tmp_path / "in.json") == ['[{"} {[['] * 1000


def test_a_list_in_csv_that_is_nested_too_deep_is_refused(loaded: Any, tmp_path: Path):
    (tmp_path / "in.csv").write_text(f'k,v\n0,"{"[" * 5000}{"]" * 5000}"\n')
    with pytest.raises(sl.InvalidInput, match="column 'v', line 2"):
        loaded("list<long>", tmp_path / "in.csv")


def test_what_arrow_cannot_take_of_a_frame_is_refused(loaded: Any):
    frame = pl.DataFrame({"k": [0], "v": pl.Series([5], dtype=pl.Int128)})
    with pytest.raises(sl.InvalidInput, match="cannot be converted to Arrow"):
        loaded("long", frame)


SHOWN = ["2020-01-01 10:00:00 UTC", "2020-01-01 10:00:00.25 UTC", None]


@pytest.mark.parametrize("kind", ["csv", "json", "rows", "pandas", "arrow"])
def test_a_time_as_it_is_shown_is_a_timestamp(loaded, session, tmp_path, kind):
    frame = pd.DataFrame({"k": [0, 1, 2], "v": SHOWN})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.json", orient="records", lines=True)
    files = {"csv": tmp_path / "a.csv", "json": tmp_path / "a.json"}
    data = {**files, "rows": rows(*SHOWN), "pandas": frame, "arrow": pa.Table.from_pandas(frame)}[kind]
    expected = [moment(2020, 1, 1, 10), moment(2020, 1, 1, 10, 0, 0, 250_000), None]
    assert loaded("timestamp", data) == expected
    if kind in files:
        made = session.create_table(f"made_{kind}", data, row_keys=["k"])
        assert made.scan().to_arrow()["v"].to_pylist() == expected
    with pytest.raises(sl.InvalidInput, match="row 1"):
        loaded("timestamp", rows("2020-01-01 10:00:00 CET"))


def test_a_default_of_a_time_is_written_as_it_is_shown():
    schema = sl.Schema({"k": "int"}, values={"v": {"type": "timestamp", "default": SHOWN[0]}})
    assert schema.values[0].default == moment(2020, 1, 1, 10)


def test_int96_of_any_year_is_read_in_microseconds(session, tmp_path):
    moments = [moment(1, 1, 1), moment(2020, 1, 1, 0, 0, 0, 5), moment(9999, 12, 31, 23, 59, 59), None]
    written = pa.table({"k": range(4), "v": moments, "l": [[each] for each in moments]})
    pq.write_table(written, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    made = session.create_table("int96", tmp_path / "a.parquet", row_keys=["k"])
    made.bulk_import(tmp_path / "a.parquet", engine="local")
    made.maintenance.compact("all", engine="local")
    found = made.scan().to_arrow().sort_by("k")
    assert found["v"].to_pylist() == [each for each in moments for _ in range(2)]
    assert found["l"].to_pylist() == [[each] for each in moments for _ in range(2)]


def test_nan_that_pandas_put_into_lists_of_whole_numbers_is_null(loaded):
    made = pa.table({"k": [0, 1], "v": [[1, None], None]}).to_pandas()
    assert made["v"][0].dtype == np.float64
    assert loaded("list<long>", made) == [[1, None], None]
    assert loaded("list<long>", pd.DataFrame({"k": [0], "v": [[2.0, float("nan")]]})) == [[2, None]]
    assert loaded("struct<a:int?>", pd.DataFrame({"k": [0], "v": [{"a": float("nan")}]})) == [{"a": None}]
    for value in ({"x": float("nan"), "y": 2.0}, [("x", float("nan")), ("y", 2.0)]):
        assert loaded("map<string,long>", pd.DataFrame({"k": [0], "v": [value]})) == [[("x", None), ("y", 2)]]
    assert str(loaded("list<double>", made)[0]) == "[1.0, nan]"
    for wrong in (pd.DataFrame({"k": [0], "v": [np.array([1.5, np.nan])]}), rows([1.0, float("nan")])):
        with pytest.raises(sl.InvalidInput, match="row 1"):
            loaded("list<long>", wrong)


def test_a_map_is_set_to_a_dictionary_or_pairs(session):
    table = session.create_table("maps", sl.Schema({"k": "int"}, values={"m": "map<string,long>?"}))
    table.ingest([{"k": 1, "m": {"a": 1}}])
    for value, expected in (
        ({"x": 7, "y": None}, [("x", 7), ("y", None)]),
        ([("z", 8)], [("z", 8)]),
        ({}, []),
        (None, None),
    ):
        table.update(new_values={"m": value}, where="k = 1")
        assert table.scan().to_arrow()["m"].to_pylist() == [expected]
