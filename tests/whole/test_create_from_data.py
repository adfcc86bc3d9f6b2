"""Tables created from data: the schema, the partitions and the rows come from it, in one commit or not at all."""

from __future__ import annotations

import datetime as dt
import shlex
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.admin.create_plan import CreatePlan
from sleeper_nb.clock import ManualClock
from sleeper_nb.demo import flights
from sleeper_nb.load.column_types import objects_of_many_names
from sleeper_nb.load.ingest import rows_by_leaf
from sleeper_nb.load.source_files import BLOCK_BYTES
from sleeper_nb.model.partitions import even_tree
from tests.support.examples import examples

FRAME = pd.DataFrame({
    "city": ["rome", "oslo", "bern"] * 40,
    "n": range(120),
    "at": pd.date_range("2026-01-01", periods=120, freq="h"),
    "fare": [1.5, None, 2.5] * 40,
})  # fmt: skip


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sl.connect(tmp_path / "w", clock=ManualClock()) as opened:
        yield opened


def files_below(session):
    """All files of the instance but the catalog's."""
    return {str(path) for path in Path(session.location).rglob("*") if path.is_file() and "catalog" not in path.name}


def rows_in(table):
    return sorted(map(tuple, (row.values() for row in table.scan().to_arrow().to_pylist())), key=repr)


def test_one_line_makes_a_table_of_a_frame(session):
    table = session.create_table("trips", FRAME, row_keys=["city"], sort_keys=["at"], leaves=3, message="first")
    assert table.schema.to_dict() == {
        "row_keys": {"city": "string"},
        "sort_keys": {"at": "timestamp"},
        "values": {"n": "long?", "fare": "double?"},
    }
    (first,) = table.history()
    assert (first.id, first.operation, first.rows, first.files, first.message) == (1, "create", 120, 3, "first")
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [40, 40, 40]
    assert table.scan(keys="oslo").count() == 40
    assert not table.maintenance.check(deep=True).findings


@pytest.mark.parametrize("kind", ["S3StateStore", "TransactionLogStateStore"])
def test_tables_with_rows_go_on_as_any_other(session, kind):
    table = session.create_table("t", FRAME, row_keys=["city", "n"], leaves=8, state_store=kind)
    table.ingest(FRAME.assign(n=FRAME.n + 1000))
    table.maintenance.compact()
    assert table.scan().count() == 240
    assert table.at(1).scan().count() == 120
    table.rollback(1)
    assert rows_in(table) == rows_in(table.at(1))


INPUTS = {
    "pandas": lambda _: FRAME,
    "polars": lambda _: pl.from_pandas(FRAME),
    "a lazy frame": lambda _: pl.from_pandas(FRAME).lazy(),
    "arrow": lambda _: pa.Table.from_pandas(FRAME, preserve_index=False),
    "a reader": lambda _: pa.Table.from_pandas(FRAME, preserve_index=False).to_reader(),
    "duckdb": lambda _: _relation(),
    "rows": lambda _: FRAME.astype(object).where(FRAME.notna(), None).to_dict("records"),
    "parquet": lambda folder: _file(folder, "x.parquet", FRAME.to_parquet),
    "csv": lambda folder: _file(folder, "x.csv", lambda p: FRAME.to_csv(p, index=False)),
    "json": lambda folder: _file(
        folder, "x.jsonl", lambda p: FRAME.to_json(p, orient="records", lines=True, date_format="iso")
    ),
    "two files": lambda folder: [
        _file(folder, "a.parquet", FRAME[:50].to_parquet), _file(folder, "b.parquet", FRAME[50:].to_parquet)
    ],
}  # fmt: skip


def _relation():
    connection = duckdb.connect()
    connection.register("frame", FRAME)
    return connection.sql("SELECT * FROM frame")


def _file(folder, name, write):
    write(folder / name)
    return str(folder / name)


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_makes_the_same_table(session, tmp_path, kind):
    of_frame = session.create_table("frame", FRAME, row_keys=["n"])
    table = session.create_table("t", INPUTS[kind](tmp_path), row_keys=["n"], leaves=4)
    assert {name: kind_.rstrip("?") for name, kind_ in table.schema.to_dict()["values"].items()} == {
        "city": "string", "at": "timestamp", "fare": "double",
    }  # fmt: skip
    assert rows_in(table) == rows_in(of_frame)
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [30, 30, 30, 30]


def test_the_plan_shows_columns_leaves_and_rows_and_changes_nothing(session):
    before = files_below(session)
    plan = session.admin.plan_table("t", FRAME, row_keys=["city"], sort_keys=["n"], leaves=3)
    assert isinstance(plan, CreatePlan)
    assert (plan.rows, [leaf.rows for leaf in plan.leaves], plan.differences) == (120, [40, 40, 40], ())
    assert "3 leaves of 40 to 40 rows" in repr(plan)
    assert files_below(session) == before
    assert not session.tables()


ALMOST_NUMBERS = "k,fare,code,at\n" + "".join(f"{n},{n}.5,0{n},2026-01-0{n}\n" for n in range(1, 9))


def test_a_plan_says_which_few_values_make_a_column_text(session, tmp_path):
    path = tmp_path / "fares.csv"
    path.write_text(f"{ALMOST_NUMBERS}9,n/a,09,soon 1\n")
    told = (
        "column fare is read as text because of 'n/a'; every other value is a double. "
        "To load it as NULL: null_text=['', 'n/a']\n"
        "column at is read as text because of 'soon 1'; every other value is a date. "
        "Correct the data, or keep the column as text"
    )
    plan = session.admin.plan_table("t", path, row_keys=["k"])
    assert repr(plan).endswith(f"nothing was changed; 1 leaf\n{told}")
    assert repr(session.admin.plan_table("t", path)).endswith(told)
    types = {"fare": "string", "at": "string"}
    chosen = session.admin.plan_table("t", path, row_keys=["k"], types=types)
    assert repr(chosen).endswith("nothing was changed; 1 leaf")
    assert "is read as text" not in repr(session.admin.plan_table("t", path, types=types))
    loaded = session.create_table("t", path, row_keys=["k"], null_text=["", "n/a"])
    assert loaded.scan(where="k = 9").to_arrow()["fare"].to_pylist() == [None]


@pytest.mark.parametrize("odd", [["x"], ["x", "y", "z", "-"], ["01"]])
def test_a_column_with_more_than_a_few_texts_is_just_text(session, tmp_path, odd):
    path = tmp_path / "codes.csv"
    path.write_text("k,code\n" + "".join(f"{n},{text}\n" for n, text in enumerate(["1", "2", *odd])))
    plan = session.admin.plan_table("t", path, row_keys=["k"])
    assert ([each.type.name for each in plan.columns], plan.odd_texts) == (["long", "string"], ())


def test_nothing_is_odd_in_a_column_that_has_another_type(session, tmp_path):
    path = tmp_path / "fares.csv"
    rows = [(n, f"{n}.5" if n > 12 else n, f"2026-01-{n:02d}" + " 10:00" * (n > 12)) for n in range(1, 16)]
    path.write_text("k,fare,at\n" + "".join(f"{k},{fare},{at}\n" for k, fare, at in rows))
    plan = session.admin.plan_table("t", path, row_keys=["k"])
    assert ([each.type.name for each in plan.columns], plan.odd_texts) == (["long", "double", "timestamp"], ())


def test_the_type_with_the_fewest_odd_values_is_meant_and_other_texts_for_null_stay(session, tmp_path):
    path = tmp_path / "fares.csv"
    path.write_text("k,fare\n" + "".join(f"{n},{fare}\n" for n, fare in enumerate([*range(9), 1.5, "NA", "n/a"])))
    (odd,) = session.admin.plan_table("t", path, row_keys=["k"], null_text="NA").odd_texts
    assert (odd.type.name, odd.texts) == ("double", ("n/a",))
    assert odd.hint[1].python == "null_text=['NA', 'n/a']"


def test_without_keys_columns_are_proposed_with_their_numbers(session):
    with pytest.raises(sl.InvalidInput, match="needs row keys") as caught:
        session.create_table("t", FRAME)
    assert "n (120 different values)" in str(caught.value)
    plan = session.admin.plan_table("t", FRAME)
    by_name = {each.column.name: (each.distinct, each.nulls, each.fits) for each in plan.candidates}
    assert by_name["n"] == (120, 0, True)
    assert by_name["fare"] == (2, 40, False)
    assert plan.candidates[0].fits


WRONG = {
    "nulls in a key": (pd.DataFrame({"k": ["a", None]}), "null"),
    "two types": (pd.DataFrame({"k": ["a", "b"], "x": [1, "y"]}), "several types"),
    "a name": (pd.DataFrame({"k": ["a"], "a b": [1]}), "not a valid field name"),
    "two names": (pd.DataFrame([["a", 1, 2]], columns=["k", "x", "x"]), "occurs twice"),
    "no such key": (pd.DataFrame({"q": ["a"]}), "no column 'k'"),
    "unsigned": (pa.table({"k": ["a"], "x": pa.array([1], pa.uint64())}), "uint64"),
    "no table": (5, "cannot ingest"),
    "no file": ("nowhere-*.parquet", "no data file"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_data_leaves_no_table_no_file_and_no_name(session, what):
    data, message = WRONG[what]
    before = files_below(session)
    with pytest.raises(sl.SleeperError, match=message) as caught:
        session.create_table("t", data, row_keys=["k"])
    assert len(str(caught.value).splitlines()) <= 3
    assert files_below(session) == before
    assert not session.tables()
    session.create_table("t", FRAME, row_keys=["n"])


def test_a_key_of_several_types_cannot_be_left_out(session):
    with pytest.raises(sl.InvalidInput, match="several types") as caught:
        session.create_table("t", pd.DataFrame({"k": [1, "y"]}), row_keys=["k"])
    as_text = "types={'k': 'string'}, cast=True"
    assert caught.value.hint == f"convert the column to one type first, or store it as text: {as_text}"


def test_a_value_that_breaks_the_type_of_the_first_ones_is_named(session, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("k,x\n" + "".join(f"{n},{n}\n" for n in range(700_000)) + "7,oops\n")
    assert path.stat().st_size > BLOCK_BYTES  # so that it is not read with the first values
    before = files_below(session)
    with pytest.raises(sl.InvalidInput, match=r"'oops'.*is not a number"):
        session.create_table("t", str(path), row_keys=["k"])
    assert files_below(session) == before
    assert session.create_table("t", str(path), row_keys=["k"], types={"x": "string"}).scan().count() == 700_001


def test_a_last_value_that_is_not_utf_8_is_named(session, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\nx,1\n\xff,2\n")
    with pytest.raises(sl.InvalidInput, match=r"column 'a', line 3: the text b'\\xff' is not UTF-8"):
        session.create_table("t", str(path), row_keys=["a"])
    assert not session.tables()


def test_csv_types_come_from_the_texts(session, tmp_path):
    (tmp_path / "x.csv").write_text(
        "id,zip,fare,at,day,ok,none\n1,01234,2.5,2026-01-01T05:00:00Z,2026-01-01,true,\n2,99999,,2026-01-01 06:00,"
        "2026-01-02,false,\n"
    )
    table = session.create_table("t", "x.csv", row_keys=["id"], types={"fare": "decimal(10,2)"})
    assert table.schema.to_dict()["values"] == {
        "zip": "string?", "fare": "decimal(10,2)?", "at": "timestamp?", "day": "date?", "ok": "boolean?",
        "none": "string?",
    }  # fmt: skip
    assert table.scan(keys=1).to_arrow().to_pylist() == [{
        "id": 1, "zip": "01234", "fare": Decimal("2.50"), "at": dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC),
        "day": dt.date(2026, 1, 1), "ok": True, "none": None,
    }]  # fmt: skip


def test_files_with_different_columns_and_types_are_joined(session, tmp_path):
    pq.write_table(pa.table({"k": pa.array([1], pa.int32()), "a": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1.5], "k": pa.array([2], pa.int64())}), tmp_path / "2.parquet")
    table = session.create_table("t", "*.parquet", row_keys=["k"])
    assert table.schema.to_dict()["values"] == {"a": "string?", "b": "double?"}
    assert rows_in(table) == [(1, "x", None), (2, None, 1.5)]


def test_names_that_no_column_can_have_are_made_similar_on_request(session, tmp_path):
    FRAME.rename(columns={"city": "Pickup City", "n": "2nd"}).to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(sl.InvalidInput, match="not a valid field name") as caught:
        session.create_table("t", str(tmp_path / "x.csv"), row_keys=["Pickup City"])
    assert "by_name=True makes it Pickup_City" in str(caught.value)
    table = session.create_table("t", str(tmp_path / "x.csv"), row_keys=["Pickup_City"], by_name=True, leaves=3)
    assert table.schema.names == ("Pickup_City", "_2nd", "at", "fare")
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [40, 40, 40]


def test_columns_are_renamed_and_those_that_no_field_holds_are_left_out_on_request(session):
    rows = pa.Table.from_pandas(FRAME, preserve_index=False).append_column("big", pa.array(range(120), pa.uint64()))
    plan = session.admin.plan_table("t", rows, columns={"n": "number"}, ignore_extra=True)
    assert "number" in {each.column.name for each in plan.candidates}
    table = session.create_table("t", rows, row_keys=["number"], columns={"n": "number"}, ignore_extra=True)
    assert set(table.schema.names) == {"city", "number", "at", "fare"}
    assert table.scan().count() == 120


def test_folders_named_as_in_hive_give_keys(session, tmp_path):
    for year in (2012, 2013):
        (tmp_path / "data" / f"year={year}").mkdir(parents=True)
        FRAME.to_parquet(tmp_path / "data" / f"year={year}" / "x.parquet")
    table = session.create_table("t", str(tmp_path / "data"), row_keys=["year"], leaves=2)
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [120, 120]
    assert table.scan(keys=2013).count() == 120


def test_a_time_series_is_cut_by_time(session):
    table = session.create_table("t", FRAME, row_keys=["at"], leaves=4)
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [30, 30, 30, 30]
    day = session.sql("SELECT count(*) AS c FROM t WHERE t.at >= TIMESTAMPTZ '2026-01-05 00:00:00+00'", engine="duckdb")
    assert day.to_dict() == {"c": [24]}


def test_nullability_is_that_of_the_data(session):
    fields = [("k", pa.int64(), True), ("a", pa.string(), False), ("b", pa.string(), True)]
    schema = pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields])
    rows = pa.table([[1], ["x"], ["y"]], schema)
    table = session.create_table("t", rows, row_keys=["k"])
    assert table.schema.to_dict()["values"] == {"a": "string", "b": "string?"}


def test_a_table_is_replaced_by_a_new_version(session):
    session.create_table("t", FRAME, row_keys=["city"], leaves=3)
    table = session.create_table("t", FRAME[["n", "fare"]].head(5), row_keys=["n"], or_replace=True, message="again")
    assert [s.operation for s in table.history()] == ["replace", "create"]
    assert (table.scan().count(), table.at(1).scan().count()) == (5, 120)
    assert table.schema.names == ("n", "fare")
    assert session.sql("SELECT count(*) AS c FROM t VERSION AS OF 1 WHERE city = 'oslo'").to_dict() == {"c": [40]}
    table.ingest([{"n": 99, "fare": 1.0}])
    assert not table.maintenance.check(deep=True).findings
    assert "sleeper.table.schema" in {each.name for each in table.properties()}
    with pytest.raises(sl.SleeperError):
        session.create_table("t", pd.DataFrame({"k": ["a", None]}), row_keys=["k"], or_replace=True)
    assert session.table("t").scan().count() == 6


def test_an_existing_table_is_left_alone_when_asked(session):
    table = session.create_table("t", FRAME, row_keys=["n"])
    assert session.create_table("T", FRAME, row_keys=["city"], if_not_exists=True).schema == table.schema
    assert [s.id for s in session.table("t").history()] == [1]
    with pytest.raises(sl.AlreadyExists):
        session.create_table("t", FRAME, row_keys=["n"])


@pytest.mark.parametrize("data", [None, FRAME])
def test_a_table_that_another_process_creates_meanwhile_is_left_alone_when_asked(session, data):
    schema = sl.Schema({"n": "long"}, {}, {"city": "string", "at": "timestamp", "fare": "double?"})
    of_the_other = set()

    def points():  # they are read after it was seen that the name is free
        with sl.connect(Path(session.location).parent) as other:
            other.create_table("t", [{"k": 1}], row_keys=["k"])
        of_the_other.update(files_below(session))
        yield 50

    table = session.create_table("t", schema, points(), data=data, if_not_exists=True)
    assert (table.schema.names, table.scan().count()) == (("k",), 1)
    assert files_below(session) == of_the_other
    assert [each.name for each in session.tables()] == ["t"]
    with pytest.raises(sl.AlreadyExists):
        session.create_table("t", schema)


@pytest.mark.parametrize("words", ["(n BIGINT) ROW KEYS (n)", "ROW KEYS (n) AS SELECT 1 AS n"])
def test_a_table_that_another_process_creates_during_the_statement_is_left_alone(session, words, monkeypatch):
    catalog = type(session._components.catalog)
    create = catalog.create_table

    def later(self, *args, **options):
        monkeypatch.setattr(catalog, "create_table", create)
        with sl.connect(Path(session.location).parent) as other:
            other.create_table("t", [{"k": 1}], row_keys=["k"])
        create(self, *args, **options)

    monkeypatch.setattr(catalog, "create_table", later)
    assert "table t exists already" in repr(session.sql(f"CREATE TABLE IF NOT EXISTS t {words}"))
    assert session.table("t").schema.names == ("k",)


def test_a_table_is_made_like_another(session):
    session.create_table(
        "t", FRAME, row_keys=["city"], leaves=3, properties={"sleeper.table.statistics.columns": "n"}
    ).alter(rename_columns={"fare": "price"})
    made = session.create_table("u", like="t")
    assert made.schema == session.table("t").schema.as_new
    assert made.at().partition_tree.split_points() == session.table("t").at().partition_tree.split_points()
    assert (
        made.at().properties["sleeper.table.statistics.columns"]
        == session.table("t").at().properties["sleeper.table.statistics.columns"]
    )
    assert made.scan().count() == 0
    filled = session.create_table("v", FRAME.rename(columns={"fare": "price"}), like="t")
    assert [leaf["rows"] for leaf in filled.inspect.partitions()] == [40, 40, 40]


CONTRADICTIONS = {
    "leaves and split points": {"data": FRAME, "row_keys": ["city"], "leaves": 2, "split_points": ["m"]},
    "a schema and keys": {"schema": sl.Schema({"city": "string"}), "data": FRAME, "row_keys": ["city"]},
    "nothing": {},
    "leaves without data": {"schema": sl.Schema({"city": "string"}), "leaves": 4},
    "too many leaves": {"data": FRAME, "row_keys": ["n"], "leaves": 10_001},
    "no leaf": {"data": FRAME, "row_keys": ["n"], "leaves": 0},
    "like and a schema": {"schema": sl.Schema({"city": "string"}), "like": "t"},
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradictions_are_named(session, what):
    with pytest.raises(sl.InvalidInput):
        session.create_table("t", **CONTRADICTIONS[what])
    assert not session.tables()


def _skewed(rows, rng):
    return pa.table({
        "k": np.where(rng.random(rows) < 0.5, "hot", np.char.add("k", rng.integers(0, 999, rows).astype(str))),
        "n": rng.integers(0, 10**6, rows),
    })  # fmt: skip


KEYS = {
    "numbers": (sl.Schema({"n": "long"}), lambda n, rng: pa.table({"n": rng.integers(-(2**62), 2**62, n)})),
    "clustered numbers": (
        sl.Schema({"n": "long"}), lambda n, rng: pa.table({"n": (rng.normal(0, 1000, n) ** 3).astype(int)})
    ),
    "a common prefix": (
        sl.Schema({"s": "string"}),
        lambda n, rng: pa.table({"s": np.char.add("https://example.org/", rng.integers(0, 10**7, n).astype(str))}),
    ),
    "a skewed key": (sl.Schema({"k": "string", "n": "long"}), _skewed),
}  # fmt: skip


@pytest.mark.parametrize("leaves", [2, 7, 16, 100])
@pytest.mark.parametrize("kind", KEYS)
def test_leaves_are_even(kind, leaves):
    schema, make = KEYS[kind]
    keys, new_id = make(50_000, np.random.default_rng(7)), ManualClock().new_id
    tree = even_tree(schema, keys, leaves, new_id)
    tree.check()
    counts = rows_by_leaf(keys, tree, schema)
    assert len(tree.leaves) == leaves
    assert max(counts.values()) <= 1.5 * keys.num_rows / leaves


@pytest.fixture(scope="module")
def flight_rows():
    rows = pa.Table.from_pandas(flights(("carrier", "flight", "dest", "time_hour", "distance", "minute")))
    return rows.append_column("date", rows["time_hour"].cast(pa.date32()))


@pytest.mark.parametrize("keys", [["carrier", "flight"], ["time_hour"], ["date"], ["dest", "time_hour"], ["distance"]])
def test_leaves_of_flights_are_even(session, flight_rows, keys):
    rows = flight_rows.select([*keys, "minute"])
    table = session.create_table("t", rows, row_keys=keys, leaves=16)
    counts = [leaf["rows"] for leaf in table.inspect.partitions()]
    assert (len(counts), sum(counts)) == (16, rows.num_rows)
    assert max(counts) <= 1.5 * rows.num_rows / 16


def test_one_value_cannot_be_divided(session):
    table = session.create_table("t", pa.table({"k": [1] * 90 + [2] * 10}), row_keys=["k"], leaves=8)
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [90, 10]


VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.time64("us"): st.times(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(max_size=5),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.binary(): st.binary(max_size=5),
    pa.decimal128(10, 2): st.decimals(-(10**7), 10**7, places=2),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(0, 9), max_size=3),
    pa.map_(pa.string(), pa.int32()): st.dictionaries(
        st.text(max_size=2), st.none() | st.integers(0, 9), max_size=2
    ).map(lambda values: list(values.items())),
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))]): st.fixed_dictionaries({
        "a": st.none() | st.integers(0, 9),
        "b": st.none() | st.lists(st.fixed_dictionaries({"c": st.none() | st.text(max_size=2)}), max_size=2),
    }),
}  # fmt: skip
NAMES = st.from_regex(r"\A[a-z][a-z0-9_]{0,8}\Z") | st.sampled_from(["Select", "FROM", "é", "_x", "CamelCase", "Ünï"])


SHAPES = {
    "arrow": lambda rows, _: rows,
    "a reader": lambda rows, _: rows.to_reader(),
    "polars": lambda rows, _: pl.from_arrow(rows),
    "duckdb": lambda rows, _: duckdb.connect().from_arrow(rows),
    "parquet": lambda rows, folder: _file(folder, "rows.parquet", lambda path: pq.write_table(rows, path)),
    "parts": lambda rows, folder: [
        rows.slice(3), _file(folder, "part.parquet", lambda path: pq.write_table(rows.slice(0, 3), path))
    ],
}  # fmt: skip


@st.composite
def data_sets(draw):
    """Tables with a column ``key``, whose values are all different, and columns of any types with nulls."""
    size = draw(st.integers(0, 12))
    names = st.lists(NAMES.filter(lambda name: name != "key"), max_size=4, unique_by=str.casefold)
    columns = {"key": pa.array(draw(st.permutations(range(size))), pa.int64())}
    for name in draw(names):
        kind = draw(st.sampled_from(list(VALUES)))
        values = st.lists(st.none() | VALUES[kind], min_size=size, max_size=size)
        columns[name] = pa.array(draw(values), kind)
    return pa.table(columns)


@examples(40)
@given(rows=data_sets(), leaves=st.integers(1, 4), shape=st.sampled_from(sorted(SHAPES)))
def test_any_data_makes_a_table_with_the_rows_of_duckdbs(tmp_path_factory, rows, leaves, shape):
    if shape == "polars" and any(map(pa.types.is_map, rows.schema.types)):
        shape = "arrow"  # Polars makes lists of maps
    connection = duckdb.connect()
    connection.register("given", rows)
    connection.execute("SET TimeZone='UTC'; CREATE TABLE t AS SELECT * FROM given")
    names = ", ".join(f'"{name}"' for name in rows.column_names)
    theirs = connection.sql(f"SELECT {names} FROM t ORDER BY key").to_arrow_table().to_pylist()
    with sl.connect(tmp_path_factory.mktemp("w")) as session:
        data = SHAPES[shape](rows, tmp_path_factory.mktemp("data"))
        table = session.create_table("made", data, row_keys=["key"], leaves=leaves)
        sql = f"CREATE TABLE selected ROW KEYS (key) SPLITS {leaves} AS SELECT * FROM given"
        assert session.sql(sql, engine="duckdb", data={"given": rows}).rows == rows.num_rows
        for name in ("made", "selected"):
            ours = session.sql(f"SELECT {names} FROM {name} ORDER BY key", engine="duckdb").to_arrow().to_pylist()
            assert ours == theirs
            assert len(session.table(name).inspect.partitions()) == len(session.table(name).at().partition_tree.leaves)
        assert session.table("selected").schema == table.schema


WRONG_QUERIES = {
    "a null in the last key": "ROW KEYS (k) AS SELECT CASE WHEN i < 299999 THEN i END AS k FROM range(300000) r(i)",
    "an error in the last row": "ROW KEYS (k) AS "
    "SELECT i AS k, CASE WHEN i = 299999 THEN error('bad row') ELSE 1 END AS v FROM range(300000) r(i)",
    "a number that its type does not hold": "(k, v TINYINT) ROW KEYS (k) AS SELECT i, i FROM range(300) r(i)",
    "a null in a column that has none": "(k, v NOT NULL) ROW KEYS (k) AS SELECT 1, NULL::INT",
    "a row that breaks a check": "(k, v, CHECK (v < 299)) ROW KEYS (k) AS SELECT i, i FROM range(300) r(i)",
    "a key twice": "ROW KEYS (k) UNIQUE KEYS SPLITS 2 AS SELECT i // 2 AS k FROM range(300) r(i)",
    "a default of another type": "(k, v DEFAULT 'x') ROW KEYS (k) AS SELECT 1, 2",
    "a split point of another type": "ROW KEYS (k) SPLITS ('b') AS SELECT 1 AS k",
    "no such property": "ROW KEYS (k) WITH (no.such = 1) AS SELECT 1 AS k",
    "no type of keys": "ROW KEYS (k) AS SELECT 1.5::DOUBLE AS k",
    "no such key": "ROW KEYS (nope) AS SELECT 1 AS k",
    "two names": "ROW KEYS (k) AS SELECT 1 AS k, 2 AS K",
    "no type": "ROW KEYS (k) AS SELECT 1 AS k, INTERVAL 1 DAY AS v",
    "no name": "ROW KEYS (k) AS SELECT 1 AS k, 1 + 1",
    "no such table": "ROW KEYS (k) AS SELECT * FROM nowhere",
}


@pytest.mark.parametrize("what", WRONG_QUERIES)
def test_a_wrong_query_leaves_no_table_no_file_and_no_name(session, what):
    session.create_table("there", FRAME, row_keys=["n"])
    before, rows = files_below(session), rows_in(session.table("there"))
    for words in ("CREATE TABLE t", "CREATE TABLE IF NOT EXISTS t", "CREATE OR REPLACE TABLE there"):
        with pytest.raises(sl.SleeperError) as caught:
            session.sql(f"{words} {WRONG_QUERIES[what]}", engine="duckdb")
        assert caught.value.message
        assert files_below(session) == before
        assert [each.name for each in session.tables()] == ["there"]
        assert rows_in(session.table("there")) == rows
    session.create_table("t", FRAME, row_keys=["n"])


class TestThroughSpark:
    pytestmark = pytest.mark.spark

    @pytest.fixture
    def session(self, tmp_path, spark_engine):
        with sl.connect(tmp_path / "w", spark=spark_engine.session()) as opened:
            yield opened

    def test_a_spark_dataframe_makes_a_table(self, session):
        frame = session.spark_session.createDataFrame(FRAME)
        plan = session.admin.plan_table("t", frame, row_keys=["n"], leaves=4)
        assert plan.rows == 120
        table = session.create_table("t", frame, row_keys=["n"], leaves=4)
        assert rows_in(table) == rows_in(session.create_table("u", FRAME, row_keys=["n"]))
        assert [s.operation for s in table.history()] == ["create"]
        counts = [leaf["rows"] for leaf in table.inspect.partitions()]
        assert len(counts) == 4
        assert max(counts) <= 45

    def test_candidates_of_a_spark_dataframe(self, session):
        plan = session.admin.plan_table("t", session.spark_session.range(100))
        assert [(each.column.name, each.distinct) for each in plan.candidates] == [("id", 100)]

    def test_a_failing_task_leaves_nothing(self, session):
        frame = session.spark_session.sql("SELECT id, CAST(NULL AS STRING) AS s FROM range(10)")
        before = files_below(session)
        with pytest.raises(sl.SleeperError):
            session.create_table("t", frame, row_keys=["s"])
        assert files_below(session) == before
        assert not session.tables()

    def test_a_dry_run_of_a_spark_dataframe_lists_all_differences(self, session):
        frame = session.spark_session.sql("SELECT CAST(NULL AS STRING) AS s, id * 10000000000 AS n FROM range(1, 10)")
        given = {"row_keys": ["s"], "types": {"n": "int"}}
        plan = session.admin.plan_table("t", frame, **given, leaves=4)
        assert [(each.column, each.values) for each in plan.differences] == [("s", 9), ("n", 9)]
        with pytest.raises(sl.InvalidInput) as caught:
            session.create_table("t", frame, **given)
        assert caught.value.hint.endswith(TO_DRY_RUN)
        with pytest.raises(sl.InvalidInput) as caught:
            session.sql("CREATE TABLE t (s, n INT) ROW KEYS (s) AS SELECT NULL::STRING, 10000000000", engine="spark")
        assert "dry run" not in caught.value.hint
        assert not session.tables()

    def test_large_files_are_loaded_in_bulk(self, session, tmp_path, monkeypatch):
        monkeypatch.setattr("sleeper_nb.table.load_work.BULK_BYTES", 1)
        path = tmp_path / "x.csv"
        FRAME.to_csv(path, index=False)
        table = session.create_table("t", str(path), row_keys=["n"], leaves=3)
        assert table.scan().count() == 120
        assert len(table.inspect.partitions()) == 3


TO_DRY_RUN = "; there may be more differences: a dry run lists all, with what to change"


class TestLoadsInBulk:
    """Large files, loaded by threads of this process and by tasks of Spark."""

    GIVEN: ClassVar = {"row_keys": ["k"], "types": {"k": "long", "x": "long"}}

    WAYS = (
        ("threads", "csv"),
        ("threads", "json"),
        pytest.param(("spark", "csv"), marks=[pytest.mark.spark, pytest.mark.long]),
        pytest.param(("spark", "parquet"), marks=pytest.mark.spark),
    )

    @pytest.fixture(autouse=True)
    def _large(self, monkeypatch):
        monkeypatch.setattr("sleeper_nb.table.load_work.BULK_BYTES", 1)

    @pytest.fixture(params=WAYS, ids="-".join)
    def way(self, request):
        """What loads, and the format of the files."""
        return request.param

    @pytest.fixture
    def either(self, way, request, tmp_path, monkeypatch):
        """A session whose large files are loaded by threads, or by tasks of Spark as on a cluster."""
        by_spark = way[0] == "spark"
        monkeypatch.setattr("sleeper_nb.engines.spark.spark_engine.SparkEngine.on_cluster", by_spark)
        spark = request.getfixturevalue("spark_engine").session() if by_spark else None
        with sl.connect(tmp_path / "w", spark=spark) as opened:
            yield opened

    @pytest.fixture
    def files(self, way, tmp_path):
        """Three files, of which two do not fit."""
        rows = {"good": [(1, 1)], "poor": [(2, "some"), (3, 3)], "worse": [(4, "more"), (5, "most"), ("five", 6)]}
        for name, values in rows.items():
            path, frame = tmp_path / f"{name}.{way[1]}", pd.DataFrame(values, columns=["k", "x"])
            if way[1] == "csv":
                frame.to_csv(path, index=False)
            elif way[1] == "json":
                frame.to_json(path, orient="records", lines=True)
            else:
                frame.astype(str).to_parquet(path)
        return tmp_path / f"*.{way[1]}"

    def test_a_dry_run_lists_all_differences_of_all_files(self, either, files):
        before = files_below(either)
        found = either.admin.plan_table("t", str(files), **self.GIVEN).differences
        assert {each.column: (each.values, each.files) for each in found} == {"k": (1, 1), "x": (3, 2)}
        assert {each.column: Path(each.source).stem for each in found} == {"k": "worse", "x": "poor"}
        assert all(each.change for each in found)
        assert files_below(either) == before
        assert not either.tables()

    def test_an_error_says_that_a_dry_run_lists_all_and_leaves_nothing(self, either, files):
        before = files_below(either)
        with pytest.raises(sl.InvalidInput) as caught:
            either.create_table("t", str(files), **self.GIVEN)
        assert caught.value.hint.count("dry run") == 1
        assert caught.value.hint.endswith(TO_DRY_RUN)
        assert files_below(either) == before
        assert not either.tables()
        good = files.with_name(f"good{files.suffix}")
        assert either.create_table("t", str(good), row_keys=["k"]).scan().count() == 1

    def test_so_does_an_ingest(self, either, files):
        table = either.create_table("t", sl.Schema({"k": "long"}, values={"x": "long"}))
        before = files_below(either)
        with pytest.raises(sl.InvalidInput) as caught:
            table.ingest(str(files))
        assert caught.value.hint.endswith(TO_DRY_RUN)
        assert {each.column for each in table.ingest(str(files), dry_run=True).plan.differences} == {"k", "x"}
        assert files_below(either) == before
        assert table.at().resolved.snapshot_id == 1

    def test_the_sample_for_a_split_says_it_too(self, either, files):
        few = {"sleeper.table.bulk.import.min.leaf.partitions": "4", "sleeper.table.partition.splitting.min.rows": "1"}
        table = either.create_table("t", sl.Schema({"k": "long"}, values={"x": "long"}), properties=few)
        with pytest.raises(sl.InvalidInput) as caught:
            table.ingest(str(files))
        assert caught.value.hint.endswith(TO_DRY_RUN)
        assert len(table.at().partition_tree.leaves) == 1

    def test_an_error_of_the_only_file_is_of_all_of_it(self, session, tmp_path):
        (tmp_path / "a.csv").write_text("k,x\n1,some\n2,more\n")
        with pytest.raises(sl.InvalidInput, match="2 values") as caught:
            session.create_table("t", str(tmp_path / "a.csv"), **self.GIVEN)
        assert "dry run" not in caught.value.hint

    def test_a_file_that_cannot_be_read_is_named_by_both(self, session, tmp_path):
        (tmp_path / "a.csv").write_text("k,x\n1,some\n")
        (tmp_path / "b.csv").write_text('k,x\n1,"2"3\n')
        for create_table in (session.create_table, session.admin.plan_table):
            with pytest.raises(sl.InvalidInput):
                create_table("t", str(tmp_path / "*.csv"), **self.GIVEN)
        assert not session.tables()

    def test_what_is_no_difference_is_raised_by_a_dry_run(self, session, tmp_path):
        for name in ("a", "b"):
            (tmp_path / f"{name}.csv").write_text("k,x\n1,some\n")
        with pytest.raises(sl.InvalidInput, match="split") as caught:
            session.admin.plan_table("t", str(tmp_path / "*.csv"), **self.GIVEN, split_points=["a"])
        assert "dry run" not in caught.value.hint

    def test_a_dry_run_of_files_that_fit_is_as_before(self, session, tmp_path):
        for number in range(3):
            (tmp_path / f"{number}.csv").write_text(f"k,x\n{number},1\n")
        plan = session.admin.plan_table("t", str(tmp_path / "*.csv"), **self.GIVEN, leaves=3)
        assert (plan.rows, len(plan.leaves), plan.differences) == (3, 3, ())


def test_commands_create_from_variables_and_files(shell):
    shell.run_cell("%sleeper use ./w").raise_error()
    shell.user_ns["df"] = FRAME
    plan = shell.run_line_magic("sleeper", "create trips --from $df --dry-run")
    assert "can be a key" in repr(plan)
    shell.run_line_magic("sleeper", "create trips --from $df --keys city --sort at --leaves 3 -m first")
    FRAME.to_parquet("x.parquet")
    shell.run_line_magic("sleeper", "create more --from x.parquet --keys n --types n=int,fare=decimal(10,2)")
    rows = shell.run_cell("%sleeper sql SELECT count(*) AS n FROM trips JOIN more USING (n)").result
    assert rows.to_dict() == {"n": [120]}
    again = shell.run_line_magic("sleeper", "create trips --from $df --keys n --if-not-exists")
    assert "exists already" in repr(again)
    shell.run_line_magic("sleeper", "create trips --from $df --keys n --or-replace")
    assert "replace" in repr(shell.run_line_magic("sleeper", "history trips"))
    shell.run_line_magic("sleeper", "create empty --like trips")


def test_types_with_commas_inside_are_typed_in_one_option(shell):
    shell.run_cell("%sleeper use ./w").raise_error()
    Path("u.json").write_text('{"k": 1, "user": {"id": "a", "country": null}, "m": {"x": {"a": 1, "b": 2}}}\n')
    types = "user=struct<id:string?,country:string?>,m=map<string,struct<a:int,b:int>>,k=int"
    made = shell.run_line_magic("sleeper", f'create t --from u.json --keys k --types "{types}"')
    assert [str(each.type) for each in made.schema.fields] == [
        "int",
        *types.removesuffix(",k=int").replace("user=", "").split(",m="),
    ]
    assert made.scan().to_arrow()["user"].to_pylist() == [{"id": "a", "country": None}]


def test_three_cells_from_nothing_to_a_chart(shell):
    shell.user_ns["df"] = FRAME
    shell.run_cell("%load_ext sleeper_nb\n%sleeper use ./w").raise_error()
    shell.run_cell("%sleeper create trips --from $df --keys city").raise_error()
    chart = shell.run_cell("%sleeper sql --plot bar SELECT city, sum(fare) AS fare FROM trips GROUP BY city")
    chart.raise_error()
    assert "rome" in chart.result.to_dict()["city"]


class TestReplacing:
    KINDS = ("S3StateStore", "TransactionLogStateStore")

    @pytest.mark.parametrize("kind", KINDS)
    def test_properties_go_with_the_replacement_in_one_commit(self, session, kind):
        aging = {"sleeper.table.filters": "ageOff(ts,1000)"}
        session.create_table("f", [{"x": "a", "ts": 1}], row_keys=["x"], properties=aging, state_store=kind)
        with pytest.raises(sl.InvalidInput, match="do not fit its new columns"):
            session.create_table("f", [{"x": "b"}], row_keys=["x"], or_replace=True)
        table = session.create_table(
            "f", [{"x": "b"}], row_keys=["x"], or_replace=True, properties={"sleeper.table.filters": ""}
        )
        assert [s.id for s in table.history()] == [2, 1]
        assert session.sql("FROM f@2").to_dict() == {"x": ["b"]}
        assert table.at().properties["sleeper.table.filters"] in {"", None, ()}
        assert not table.maintenance.check(deep=True).findings

    @pytest.mark.parametrize(
        "fixed", [{"sleeper.table.statestore.classname": "TransactionLogStateStore"}, {"sleeper.table.data.path": "/x"}]
    )
    def test_a_property_that_cannot_change_refuses_the_replacement_before_it_is_made(self, session, fixed):
        session.create_table("t", [{"a": 1}], row_keys=["a"])
        before = files_below(session)
        with pytest.raises(sl.SleeperError):
            session.create_table("t", [{"b": "x"}], row_keys=["b"], or_replace=True, properties=fixed)
        assert session.sql("FROM t").to_dict() == {"a": [1]}
        assert files_below(session) == before

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_row_that_another_session_adds_meanwhile_is_not_lost(self, session, kind, monkeypatch):
        table = session.create_table("t", [{"a": 1}], row_keys=["a"], state_store=kind)
        from sleeper_nb.session import creating

        def meanwhile(store, files, commit):
            made = list(files)
            table.ingest([{"a": 2}])
            return committed(store, made, commit)

        committed = creating.committed
        monkeypatch.setattr(creating, "committed", meanwhile)
        with pytest.raises(sl.StateRuleBroken, match="was changed while its new version was made"):
            session.create_table("t", [{"a": 10}], row_keys=["a"], or_replace=True)
        monkeypatch.undo()
        assert sorted(session.sql("FROM t").to_dict()["a"]) == [1, 2]
        assert not table.maintenance.check(deep=True).findings

    def test_split_points_of_a_file_are_those_of_the_first_columns_only(self, session, tmp_path):
        (tmp_path / "w" / "points.txt").write_text("g\nn\n")
        properties = {"sleeper.table.splits.file": str(tmp_path / "w" / "points.txt")}
        with pytest.raises(sl.InvalidInput, match="both leaves and"):
            session.create_table("t", [{"a": "x"}], row_keys=["a"], leaves=3, properties=properties)
        session.create_table("t", [{"a": "x"}], row_keys=["a"], properties=properties)
        table = session.create_table("t", [{"n": 1}, {"n": 2}], row_keys=["n"], leaves=2, or_replace=True)
        assert [leaf["rows"] for leaf in table.inspect.partitions()] == [1, 1]

    def test_a_replacement_like_another_table_keeps_its_own_state_store(self, session):
        session.create_table("a", [{"x": 1}], row_keys=["x"])
        session.create_table("b", [{"y": 1}], row_keys=["y"], state_store="TransactionLogStateStore")
        table = session.create_table("a", like="b", or_replace=True)
        assert (table.schema.names, table._store.head().state_store) == (("y",), "S3StateStore")

    def test_both_answers_to_an_existing_table_are_refused(self, session):
        with pytest.raises(sl.InvalidInput, match="left as it is, and replaced"):
            session.create_table("t", [{"x": 1}], row_keys=["x"], if_not_exists=True, or_replace=True)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"k": "1"}, {"k": "x"}, {"k": "2"}], "column 'k', row 2: 'x' is not a number"),
        ([{"k": "1"}, {"k": None}], "column 'k' has 1 null"),
    ],
)
@pytest.mark.parametrize("kind", ["rows", "csv", "parquet"])
def test_split_points_of_keys_that_do_not_fit_are_refused_as_a_table_is(session, rows, problem, kind):
    data = rows
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), "data.parquet", row_group_size=1)
        data = "data.parquet"
    elif kind == "csv":
        pd.DataFrame(rows).to_csv("data.csv", index=False, na_rep="NULL" if None in rows[1].values() else "")
        data = "data.csv"
    refused = []
    for make in (
        lambda: session.create_table("t", data, row_keys=["k"], types={"k": "long"}),
        lambda: session.admin.split_points(data, ["k"], 2, types={"k": "long"}),
    ):
        with pytest.raises(sl.InvalidInput) as caught:
            make()
        refused.append(caught.value.message)
    assert refused[0] == refused[1]
    assert kind != "rows" or refused[0] == problem


def test_split_points_count_rows_whose_values_do_not_fit(session):
    data = [{"k": key, "v": "x"} for key in range(10)]
    points = session.admin.split_points(data, ["k"], 2, types={"v": "long"})
    assert points.points == (5,)


@pytest.mark.parametrize("make", ["create", "ingest"])
def test_data_that_a_library_cannot_compute_is_bad_input(session, make):
    table = session.create_table("t", sl.Schema({"k": "long"}))
    bad = pl.LazyFrame({"k": ["1", "x"]}).select(pl.col("k").cast(pl.Int64))
    with pytest.raises(sl.InvalidInput, match=r"^the data cannot be computed: conversion from .* failed") as caught:
        session.create_table("u", bad, row_keys=["k"]) if make == "create" else table.ingest(bad)
    assert "\n" not in caught.value.message
    assert [each.name for each in session.tables()] == ["t"]


def test_a_column_has_one_type_in_a_command(shell):
    shell.run_cell("%sleeper use ./w").raise_error()
    shell.user_ns["df"] = FRAME
    with pytest.raises(sl.InvalidInput, match="'n' is given twice"):
        shell.run_line_magic("sleeper", "create trips --from $df --keys city --types n=int,n=long")


@pytest.mark.parametrize(
    ("data", "keys", "words", "hint"),
    [
        (pd.DataFrame({"City Name": ["a"], "fare ($)": [1]}), [], "needs row keys",
         "City_Name (1 different value), fare (1 different value)"),
        (pd.DataFrame({"City Name": ["a"], "n": [1]}), [], "needs row keys", "row_keys=['City_Name'], by_name=True"),
        (pd.DataFrame({"City Name": ["a"]}), ["City_Name"], "no column 'City_Name'",
         "'City Name' becomes City_Name with by_name=True"),
        (pd.DataFrame(), ["a"], "the data has no columns", "named columns"),
        (pa.table({"__index_level_0__": ["a"], "n": [1]}), ["__index_level_0__"], "no column '__index_level_0__'",
         "call it id with columns={'__index_level_0__': 'id'}"),
        (pd.DataFrame({"k": [1, 2]}, pd.Index([3, 4], name="k")), ["k"], "'k' is a column of the data frame and",
         "x.rename_axis('k_2')"),
        (pd.DataFrame({"k": ["a", None]}), ["k"], "column 'k' has 1 null", "row keys cannot be null"),
        (pa.table({"k": ["a", None]}), ["k"], "column 'k' has 1 null", "row keys cannot be null"),
        (pd.DataFrame({"k": [1], "d": pd.to_timedelta([1])}), ["k"], "column 'd'", "or add ignore_extra=True"),
        ([pa.table({"k": [1], "v": ["x"]}), pa.table({"k": [2], "v": [1.0]})], ["k"], "in one source",
         "types={'v': 'string'}, cast=True"),
        (pd.Series([1, 2], name="k"), ["k"], "cannot ingest", "x.to_frame()"),
        ({"k": [1, 2]}, ["k"], "cannot ingest", "pandas.DataFrame(x)"),
    ],
)  # fmt: skip
def test_an_answer_to_a_first_attempt_says_what_to_type(session, data, keys, words, hint):
    with pytest.raises(sl.SleeperError) as caught:
        session.create_table("t", data=data, row_keys=keys)
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert not session.tables()


NULLS, NUMBERS = pa.nulls(1), pa.array([5], pa.int64())
POINT, PRICE = pa.array([{"a": 1, "b": [2]}]), pa.array([Decimal("1.50")], pa.decimal128(10, 2))


@pytest.mark.parametrize(
    ("one", "other", "kind", "values"),
    [
        (NUMBERS, pa.array([0.5]), "double?", [5.0, 0.5]),
        (NUMBERS, PRICE, "decimal(21,2)?", [Decimal("5.00"), Decimal("1.50")]),
        (pa.array([5], pa.int32()), PRICE, "decimal(12,2)?", [Decimal("5.00"), Decimal("1.50")]),
        (pa.array([Decimal("0.125")]), PRICE, "decimal(11,3)?", [Decimal("0.125"), Decimal("1.500")]),
        (PRICE, pa.array([0.25]), "double?", [1.5, 0.25]),
        (NULLS, NUMBERS, "long?", [None, 5]),
        (NULLS, pa.array(["x"]), "string?", [None, "x"]),
        (pa.array([[None]]), pa.array([[0.5]]), "list<double>?", [[None], [0.5]]),
        (POINT, pa.array([{"a": 0.5, "b": [0.5], "c": "x"}]), "struct<a:double?,b:list<double>?,c:string?>?",
         [{"a": 1.0, "b": [2.0], "c": None}, {"a": 0.5, "b": [0.5], "c": "x"}]),
        (POINT, pa.array([{"b": None}]), "struct<a:long?,b:list<long>?>?",
         [{"a": 1, "b": [2]}, {"a": None, "b": None}]),
    ],
)  # fmt: skip
def test_columns_of_several_sources_get_the_type_that_holds_the_values_of_all(
    session, tmp_path, one, other, kind, values
):
    for number, column in enumerate((one, other)):
        pq.write_table(pa.table({"k": [number], "v": column}), tmp_path / f"{number}.parquet")
    for data in (tmp_path / "*.parquet", [pa.table({"k": [n], "v": each}) for n, each in enumerate((one, other))]):
        made = session.create_table("t", data, row_keys=["k"], or_replace=True)
        assert made.schema.values[0].text == kind
        assert made.scan().to_arrow()["v"].to_pylist() == values


def test_a_column_that_is_empty_in_one_text_file_has_the_type_of_the_others(session, tmp_path):
    (tmp_path / "a.csv").write_text("k,v,w\n1,,2026-01-01\n")
    (tmp_path / "b.csv").write_text("k,v,w\n2,7,\n")
    (tmp_path / "c.json").write_text('{"k": 3, "v": null, "w": null}\n')
    (tmp_path / "d.csv").write_text("k,v,w\n")
    made = session.create_table("t", [str(tmp_path / "*.csv"), str(tmp_path / "c.json")], row_keys=["k"])
    assert [str(each.type) for each in made.schema.values] == ["long", "date"]
    assert made.scan().to_arrow()["v"].to_pylist() == [None, 7, None]


@pytest.mark.parametrize("texts", [("01", "11"), ("11", "01"), ("1.5", "2", "007"), ("5", "12345678901234567890")])
def test_codes_in_one_text_file_and_numbers_in_another_are_texts_as_in_one_file(session, tmp_path, texts):
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.csv").write_text(f"k,v\n{number},{text}\n")
    (tmp_path / "one.txt").write_text("k,v\n" + "".join(f"{number},{text}\n" for number, text in enumerate(texts)))
    for data in (tmp_path / "*.csv", tmp_path / "one.txt"):
        made = session.create_table("t", data, row_keys=["k"], or_replace=True)
        assert str(made.schema.values[0].type) == "string"
        assert made.scan().to_arrow()["v"].to_pylist() == list(texts)
    found = session.sql(f"SELECT v FROM '{tmp_path}/*.csv' ORDER BY k", engine="duckdb").to_arrow()
    assert found["v"].to_pylist() == list(texts)


def test_codes_are_no_numbers_of_a_source_with_types(session, tmp_path):
    (tmp_path / "a.csv").write_text("k,v\n1,01\n")
    with pytest.raises(sl.InvalidInput, match="'v' is string in one source and long in another"):
        session.create_table("t", [tmp_path / "a.csv", pa.table({"k": [2], "v": NUMBERS})], row_keys=["k"])


@pytest.mark.parametrize(
    ("folders", "kind", "values"),
    [
        (["01", "02", "11", "12"], "string", ["01", "02", "11", "12"]),
        (["1", "11"], "long", [1, 11]),
        (["1", "2.5"], "double", [1.0, 2.5]),
        (["1", "__HIVE_DEFAULT_PARTITION__", "x"], "string", ["1", None, "x"]),
        (["2026-01-01", "2026-01-02T03:00:00Z", "late"], "string", ["2026-01-01", "2026-01-02T03:00:00Z", "late"]),
    ],
)
def test_values_of_folders_are_of_one_type_that_all_decide_together(session, tmp_path, folders, kind, values):
    """Months with leading zeros are texts, as they are in a file: `types` makes them numbers."""
    for number, folder in enumerate(folders):
        (tmp_path / f"in/month={folder}").mkdir(parents=True)
        pq.write_table(pa.table({"k": [number]}), tmp_path / f"in/month={folder}/a.parquet")
    made = session.create_table("t", tmp_path / "in", row_keys=["k"])
    assert str(made.schema.values[0].type) == kind
    assert made.scan().to_arrow()["month"].to_pylist() == values
    if folders[0] == "01":
        numbers = session.create_table("n", tmp_path / "in", row_keys=["k"], types={"month": "int"})
        assert numbers.scan().to_arrow()["month"].to_pylist() == [1, 2, 11, 12]


@pytest.mark.parametrize(
    ("other", "where", "options"),
    [
        (pa.array(["x"]), "'v' is long in one source and string in another", {"types": {"v": "string"}, "cast": True}),
        (pa.array([True]), "'v' is long in one", {"types": {"v": "string"}, "cast": True}),
        (pa.array([[5]]), "'v' is long in one source and list<long> in another", {"ignore_extra": True}),
    ],
)
def test_columns_of_types_that_no_type_holds_are_refused_with_what_to_type(session, other, where, options):
    data = [pa.table({"k": [1], "v": NUMBERS}), pa.table({"k": [2], "v": other})]
    with pytest.raises(sl.InvalidInput, match=where) as caught:
        session.create_table("t", data, row_keys=["k"])
    hint = caught.value.hint
    assert all(f"{name}={value!r}" in hint for name, value in options.items())
    session.create_table("t", data, row_keys=["k"], **options)


def test_a_field_of_structs_of_several_sources_is_text_on_request(session):
    data = [pa.table({"k": [n], "v": [{"a": value}]}) for n, value in enumerate((5, "x"))]
    with pytest.raises(sl.InvalidInput, match="is long in one source and string in another") as caught:
        session.create_table("t", data, row_keys=["k"])
    assert "'v.a'" in caught.value.message
    assert "give it one type" in caught.value.hint
    made = session.create_table("t", data, row_keys=["k"], types={"v": "struct<a:string?>"}, cast=True)
    assert made.scan().to_arrow()["v"].to_pylist() == [{"a": "5"}, {"a": "x"}]


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_similar_names_of_several_sources_are_one_column_by_name(session, tmp_path, kind):
    parts = [
        pd.DataFrame({"k": [1], "Airport_fee": [1], "_id": [5], "Long_": ["a"], "Pickup Time": ["x"]}),
        pd.DataFrame({"K": [2], "airport_fee": [0.5], "_id": [6], "Long_": ["b"], "pickup_time": ["y"]}),
    ]
    for number, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{number}.parquet")
        part.to_csv(tmp_path / f"{number}.csv", index=False)
    data = [pa.Table.from_pandas(each) for each in parts] if kind == "arrow" else str(tmp_path / f"*.{kind}")
    assert session.admin.plan_table("t", data, row_keys=["k"], by_name=True).rows == 2
    made = session.create_table("t", data, row_keys=["k"], by_name=True)
    assert made.scan().to_arrow().to_pydict() == {
        "k": [1, 2], "Airport_fee": [1.0, 0.5], "_id": [5, 6], "Long_": ["a", "b"], "Pickup_Time": ["x", "y"],
    }  # fmt: skip
    made.ingest(data, by_name=True)
    renamed = session.create_table("r", data, row_keys=["k"], by_name=True, columns={"airport_fee": "fee"})
    assert renamed.schema.names == ("k", "Airport_fee", "_id", "Long_", "Pickup_Time", "fee")


def test_similar_names_of_one_source_stay_apart_by_name(session):
    data = [pa.table({"k": [1], "a b": [1], "a_b": [2]}), pa.table({"k": [2], "A B": [3]})]
    with pytest.raises(sl.InvalidInput, match="column 'a_b' occurs twice"):
        session.create_table("t", data, row_keys=["k"], by_name=True)


def lines_of(path, *values):
    path.write_text("".join(f'{{"k": {k}, "p": {value}}}\n\n' for k, value in enumerate(values)))
    return path


@pytest.mark.parametrize(
    ("one", "other", "where", "options", "texts"),
    [
        ('"x"', '{"a": 1.50, "b": [null, true, "é"]}', "column 'p', line 3: no column can hold {'a': 1.5, 'b': [None",
         {"types": {"p": "string"}, "cast": True}, ["x", '{"a":1.50,"b":[null,true,"é"]}']),
        ("5", "[1]", "'p' has values of several types: long, and [1] in line 3",
         {"types": {"p": "string"}, "cast": True}, ["5", "[1]"]),
        ('{"q": [{"r": 1}]}', '{"q": [{"r": {}}]}', "'p' has values of several types: struct<q:list<struct<r:long?>>?>",
         {"types": {"p": "string"}, "cast": True}, ['{"q":[{"r":1}]}', '{"q":[{"r":{}}]}']),
    ],
)  # fmt: skip
def test_values_of_json_of_several_kinds_are_kept_as_json_text(session, tmp_path, one, other, where, options, texts):
    data = lines_of(tmp_path / "a.json", one, other)
    with pytest.raises(sl.InvalidInput) as caught:
        session.create_table("t", data, row_keys=["k"])
    assert where in caught.value.message
    hint = ", ".join(f"{name}={value!r}" for name, value in options.items())
    assert f"to keep its JSON as text: {hint}, or" in caught.value.hint
    made = session.create_table("t", data, row_keys=["k"], **options)
    assert made.scan().to_arrow()["p"].to_pylist() == texts


def test_a_field_of_a_struct_keeps_json_as_text_too(session, tmp_path):
    data = lines_of(tmp_path / "a.json", '{"q": ["x"]}', '{"q": [{"a": 1}]}')
    made = session.create_table("t", data, row_keys=["k"], types={"p": "struct<q:list<string>>"})
    assert made.scan().to_arrow()["p"].to_pylist() == [{"q": ["x"]}, {"q": ['{"a":1}']}]


def test_objects_of_thousands_of_names_are_proposed_as_a_map(session, tmp_path):
    objects = [f'{{"u{3 * k}": 1, "u{3 * k + 1}": 2, "u{3 * k + 2}": 3}}' for k in range(500)]
    data = lines_of(tmp_path / "a.json", *objects)
    with pytest.raises(sl.InvalidInput, match="column 'p' has objects with 1,500 different names") as caught:
        session.create_table("t", data, row_keys=["k"])
    assert (
        "make it a map, such as types={'p': 'map<string,long>'}; or keep its JSON as text: types" in caught.value.hint
    )
    made = session.create_table("t", data, row_keys=["k"], types={"p": "map<string,long>"})
    assert made.scan(keys=1).to_arrow()["p"].to_pylist() == [[("u3", 1), ("u4", 2), ("u5", 3)]]
    nested = lines_of(tmp_path / "b.json", *(f'{{"in": [{each}]}}' for each in objects))
    with pytest.raises(sl.InvalidInput, match="column 'p' has objects with 1,500 different names"):
        session.create_table("n", nested, row_keys=["k"])


def test_objects_that_all_have_the_same_thousands_of_names_are_structs(session, tmp_path):
    members = ", ".join(f'"u{n}": {n}' for n in range(1_500))
    data = lines_of(tmp_path / "a.json", *(f"{{{members}}}" for _ in range(3)))
    made = session.create_table("t", data, row_keys=["k"])
    assert made.scan(keys=1).to_arrow()["p"][0].as_py() == {f"u{n}": n for n in range(1_500)}


def test_names_are_counted_without_a_struct_of_all_names():
    objects = [{f"u{k}_{n}": 1 for n in range(100)} for k in range(1_000)]
    before = pa.default_memory_pool().max_memory()
    found = objects_of_many_names("p", objects)
    assert found is not None
    assert pa.default_memory_pool().max_memory() < before + (100 << 20)


@pytest.mark.parametrize(
    ("values", "problem", "hint"),
    [
        ([1, 2**70], "column 'v', row 2: 1180591620717411303424 does not fit 64 bits", "types={'v': 'decimal(38,0)'}"),
        (["a", "b\udc00"], "column 'v', row 2: no column can hold 'b\\udc00'", "correct it"),
        (["a", Path("b")], "column 'v', row 2: no column can hold PosixPath('b')", "such as str(x)"),
        (["a", {"b": 1}], "several types: string, and {'b': 1} in row 2", "convert the column"),
        ([[("a", 1)]], "column 'v', row 1: no column can hold [('a', 1)]", "convert it"),
        ([1.25, 2**53 + 1], "several types: double, and 9007199254740993 in row 2", "convert the column"),
        ([Decimal("1.5"), Decimal("1e400")], "column 'v', row 2: no column can hold Decimal('1E+400')", "convert it"),
        ([2**300], "column 'v', row 1: a number of 301 bits does not fit 64 bits", "types={'v': 'string'}, cast=True"),
        ([[1], ["b"]], "column 'v' has values of several types: list<long>, and ['b'] in row 2", "convert the column"),
    ],
)  # fmt: skip
def test_values_without_a_type_are_named_with_their_row(session, values, problem, hint):
    rows = [{"k": k, "v": value} for k, value in enumerate(values)]
    for data in (rows, pd.DataFrame({"k": range(len(values)), "v": pd.Series(values, dtype=object)})):
        with pytest.raises(sl.InvalidInput) as caught:
            session.create_table("t", data, row_keys=["k"])
        assert problem in caught.value.message
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("values", "problem", "hint", "types", "loaded"),
    [
        (["1", "12345678901234567890"], "column 'p', line 3: 12345678901234567890 does not fit 64 bits",
         "load it as a decimal: types={'p': 'decimal(38,0)'}; or", "decimal(38,0)",
         [Decimal(1), Decimal(12345678901234567890)]),
        (["1.5", "9007199254740993"], "several types: double, and 9007199254740993 in line 3", "correct the data",
         "decimal(38,1)", [Decimal("1.5"), Decimal(9007199254740993)]),
        (['"a"', '"\\ud800"'], "column 'p', line 3: no column can hold '\\ud800'", "correct it", "", []),
        (["null", '{"q": [1, 12345678901234567890]}'],
         "column 'p', line 3: no column can hold {'q': [1, 12345678901234567890]}",
         "to keep its JSON as text", "struct<q:list<decimal(38,0)>>",
         [None, {"q": [Decimal(1), Decimal(12345678901234567890)]}]),
    ],
)  # fmt: skip
def test_values_of_json_without_a_type_are_named_with_their_line(
    session, tmp_path, values, problem, hint, types, loaded
):
    data = lines_of(tmp_path / "a.json", *values)
    with pytest.raises(sl.InvalidInput) as caught:
        session.create_table("t", data, row_keys=["k"])
    assert problem in caught.value.message
    assert hint in caught.value.hint
    if types:
        made = session.create_table("t", data, row_keys=["k"], types={"p": types})
        assert made.scan().to_arrow()["p"].to_pylist() == loaded


def test_the_option_for_a_column_whose_name_has_a_space_is_one_word_of_a_command(session):
    with pytest.raises(sl.InvalidInput) as caught:
        session.create_table("t", [{"k": 1, "x y": 1}, {"k": 2, "x y": "b"}], row_keys=["k"], by_name=True)
    option, _ = (part for part in caught.value.hint_parts if not isinstance(part, str))
    assert shlex.split(option.line) == ["--types", "x y=string", "--cast"]


def test_a_key_of_json_beyond_64_bits_is_stored_as_text(session, tmp_path):
    (tmp_path / "a.json").write_text('{"k": 12345678901234567890}\n{"k": 5}\n')
    with pytest.raises(sl.InvalidInput, match="column 'k', line 1: 12345678901234567890 does not fit 64") as caught:
        session.create_table("t", tmp_path / "a.json", row_keys=["k"])
    assert caught.value.hint.endswith("or as text: types={'k': 'string'}, cast=True")
    made = session.create_table("t", tmp_path / "a.json", row_keys=["k"], types={"k": "string"}, cast=True)
    assert made.scan().to_arrow()["k"].to_pylist() == ["12345678901234567890", "5"]


def test_sparse_columns_are_loaded_with_all_values(session):
    sparse = pd.arrays.SparseArray([1.5, np.nan]), pd.arrays.SparseArray([0, 5])
    frame = pd.DataFrame({"k": [1, 2], "v": sparse[0], "n": sparse[1]})
    made = session.create_table("t", frame, row_keys=["k"])
    made.upsert(frame)
    expected = {"k": [1, 2], "v": [1.5, None], "n": [0, 5]}
    assert made.scan().to_arrow().to_pydict() == expected
    assert (
        session.sql("select * from f order by k", engine="duckdb", data={"f": frame}).to_arrow().to_pydict() == expected
    )


_PERIODS, _INTERVALS = pd.period_range("2020-01", periods=2, freq="M"), pd.interval_range(0, 2)


@pytest.mark.parametrize(
    "values",
    [
        _PERIODS, pd.Categorical(_PERIODS), _INTERVALS, pd.cut([1, 2], 2), np.array([1j, 2]),
        np.array([1, 2], np.longdouble),
    ],
    ids=repr,
)  # fmt: skip
def test_columns_of_pandas_that_no_table_has_are_named_in_every_door(session, values):
    frame = pd.DataFrame({"k": [1, 2], "v": values})
    with pytest.raises(sl.InvalidInput, match=r"column 'v'(?s:.)*\nhint: (cast|correct)"):
        session.create_table("t", frame, row_keys=["k"])
    made = session.create_table("t", frame, row_keys=["k"], ignore_extra=True)
    assert made.schema.names == ("k",)
    made.alter(add_columns={"v": "string?"})
    for change in (made.ingest, made.upsert):
        with pytest.raises(sl.InvalidInput, match=r"column 'v'(?s:.)*\nhint: convert"):
            change(frame)
    if not isinstance(values, np.ndarray):
        as_index = pd.DataFrame({"k": [1, 2]}, index=pd.Index(values, name="v"))
        with pytest.raises(sl.InvalidInput, match="column 'v'"):
            session.create_table("i", as_index, row_keys=["k"])


def test_two_levels_of_an_index_have_two_names(session):
    levels = pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["x", "x"])
    frame = pd.DataFrame({"k": [1, 2]}, index=levels)
    said = r"two levels of the index of the data frame are called 'x'\nhint: .*x\.rename_axis\(\['x_2', 'x'\]\)"
    with pytest.raises(sl.InvalidInput, match=said):
        session.create_table("t", frame, row_keys=["k"])
    made = session.create_table("t", frame.rename_axis(["x_2", "x"]), row_keys=["k"])
    assert made.scan().to_arrow().to_pydict() == {"k": [1, 2], "x_2": [1, 3], "x": [2, 4]}
    with pytest.raises(sl.InvalidInput, match=r"(?s)'k' is a column .* x\.rename_axis\('k_2'\)"):
        session.create_table("u", pd.DataFrame({"k": [1, 2]}, index=pd.Index([5, 6], name="k")), row_keys=["k"])


@pytest.mark.parametrize("value", [2**64, "b\udc00", Path("b")])
def test_a_frame_in_sql_names_the_row_of_a_value_without_a_type(session, value):
    frame = pd.DataFrame({"k": [1, 2], "v": pd.Series([None, value], dtype=object)})
    with pytest.raises(sl.InvalidInput, match="variable 'f': column 'v', row 2"):
        session.sql("select v from f", engine="duckdb", data={"f": frame})


MOMENT = pd.Timestamp(2020, 1, 1).to_pydatetime()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([True, 2.5], "several types: boolean, and 2.5 in cell B5"),
        ([None, 1, MOMENT, "a"], "several types: long, and datetime.datetime(2020, 1, 1, 0, 0) in cell B6"),
        ([MOMENT, dt.time(5)], "several types: timestamp, and datetime.time(5, 0) in cell B5"),
        ([1, "n/a", 2], "several types: long, and 'n/a' in cell B5"),
    ],
)
def test_cells_of_excel_of_several_kinds_are_named(session, tmp_path, values, problem):
    """Also where lines above the header are skipped, and empty rows are left out."""
    book = openpyxl.Workbook()
    for row in (["a title"], ["k", "v"], [None, None], *enumerate(values)):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(sl.InvalidInput) as caught:
        session.create_table("t", tmp_path / "a.xlsx", row_keys=["k"], skip_lines=1)
    assert problem in caught.value.message
    made = session.create_table(
        "t", tmp_path / "a.xlsx", row_keys=["k"], skip_lines=1, types={"v": "string"}, cast=True
    )
    assert made.scan().to_arrow().num_rows == len(values)


BY_NAME = pd.DataFrame({"n": [1, 2]}, pd.Index(["a", "b"], name="k"))
LEVELS = pd.MultiIndex.from_tuples([("a", 5), ("b", 6)], names=["k", None])


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (BY_NAME, {"k": ["a", "b"], "n": [1, 2]}),
        (BY_NAME.assign(k=["a", "b"]), {"k": ["a", "b"], "n": [1, 2]}),  # as `set_index("k", drop=False)` returns it
        (pd.DataFrame({"n": [1, 2]}, LEVELS), {"k": ["a", "b"], "level_1": [5, 6], "n": [1, 2]}),
        (pd.DataFrame({"k": [2, 1], "n": [8, 9]}).sort_values("k"), {"k": [1, 2], "n": [9, 8]}),
        (pd.DataFrame({"n": [1, 2]}, pd.RangeIndex(2, name="k")), {"k": [0, 1], "n": [1, 2]}),
    ],
)
def test_a_named_index_is_a_column_in_every_load(session, frame, expected):
    made = session.create_table("t", frame, row_keys=["k"])
    assert made.scan().to_arrow().to_pydict() == expected
    other = session.create_table("other", made.schema)
    other.ingest(frame)
    other.upsert(frame)
    assert other.scan().to_arrow().to_pydict() == expected
    columns = ", ".join(expected)
    answer = session.sql(f"select {columns} from f order by k", engine="duckdb", data={"f": frame})
    assert answer.to_arrow().to_pydict() == expected
    assert list(frame.columns) != list(expected) or frame.index.names == [None]  # the frame of the user is as it was


def test_an_index_without_a_name_is_left_out_and_the_load_says_so(session, tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(session._components.progress, "finish", lambda line="": told.append(line))
    frame = pd.DataFrame({"k": [1, 2], "s": ["x", "y"]}, ["a", "b"])
    frame.to_parquet(tmp_path / "f.parquet")
    for number, data in enumerate((frame, tmp_path / "f.parquet", pa.Table.from_pandas(frame))):
        said = "the index has no name" if data is frame else "not in the table: __index_level_0__"
        table = session.create_table(f"t{number}", data, row_keys=["k"])
        assert any(said in note for note in table.ingest(data, dry_run=True).notes)
        table.bulk_import(data, engine="local")
        assert sum(said in line for line in told) == 2
        table.upsert(data)
        assert table.scan().to_arrow().to_pydict() == {"k": [1, 1, 2, 2], "s": ["x", "x", "y", "y"]}
        told.clear()
    kept = session.create_table("kept", tmp_path / "f.parquet", row_keys=["id"], columns={"__index_level_0__": "id"})
    assert kept.scan().to_arrow().to_pydict() == {"id": ["a", "b"], "k": [1, 2], "s": ["x", "y"]}


def test_a_name_that_is_taken_can_get_a_new_version(session):
    session.create_table("t", FRAME, row_keys=["n"])
    with pytest.raises(sl.AlreadyExists) as caught:
        session.create_table("t", FRAME, row_keys=["city"])
    assert "give the table a new version: or_replace=True" in caught.value.hint
