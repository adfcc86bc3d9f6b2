"""Random nested schemas and values keep every value, from each input and on each reader; wrong values say where."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.model.evolution import widens
from sleeper_nb.model.schema import Field, FieldType, Member, Schema

NUMBERS = {"tinyint": 8, "smallint": 16, "int": 32, "long": 64}
NAMES = ("a", "Zip", "_b", "é", "key", "value")
SIMPLE = (*NUMBERS, "float", "double", "boolean", "string", "bytearray", "date", "timestamp", "time", "uuid")
TIMES = st.times()
WHEN = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=5)

simple = st.sampled_from(SIMPLE).map(FieldType)
decimals = st.tuples(st.integers(1, 38), st.integers(0, 5)).filter(lambda each: each[1] <= each[0])
leaves = simple | decimals.map(lambda of: FieldType("decimal", of))
map_keys = st.sampled_from(["string", "int", "tinyint", "uuid"]).map(FieldType)


def structs(inner: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)
    members = names.flatmap(
        lambda chosen: st.tuples(*(st.builds(Member, st.just(n), inner, st.booleans()) for n in chosen))
    )
    return members.map(lambda of: FieldType("struct", of))


types = st.recursive(
    leaves,
    lambda inner: (
        inner.map(lambda of: FieldType("list", (of,)))
        | st.tuples(map_keys, inner).map(lambda of: FieldType("map", of))
        | structs(inner)
    ),
    max_leaves=6,
)


def values(kind: FieldType) -> st.SearchStrategy[Any]:
    """Return values of a type as Arrow gives them to Python."""
    match kind.name:
        case "decimal":
            most = 10 ** kind.arguments[0] - 1
            return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-kind.arguments[1], CONTEXT))
        case "list":
            return st.lists(st.none() | values(kind.arguments[0]), max_size=3)
        case "map":
            pairs = st.tuples(values(kind.arguments[0]), st.none() | values(kind.arguments[1]))
            return st.lists(pairs, max_size=2, unique_by=lambda pair: pair[0])
        case "struct":
            parts = {m.name: (st.none() | values(m.type)) if m.nullable else values(m.type) for m in kind.arguments}
            return st.fixed_dictionaries(parts)
        case "tinyint" | "smallint" | "int" | "long":
            most = 2 ** (NUMBERS[kind.name] - 1)
            return st.integers(-most, most - 1)
        case _:
            return VALUES[kind.name]


CONTEXT = Context(prec=76)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: float(np.float32(x))),
    "double": st.floats(allow_nan=False, allow_infinity=False), "boolean": st.booleans(), "string": TEXTS,
    "bytearray": st.binary(max_size=5), "date": st.dates(date(1, 1, 2)), "timestamp": WHEN, "time": TIMES,
    "uuid": st.uuids().map(str),
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    """Return a schema with a few columns of nested types, and rows of it."""
    kinds = draw(st.lists(types, min_size=1, max_size=3))
    schema = Schema({"k": "int"}, {}, [Field(f"v{i}", kind, nullable=True) for i, kind in enumerate(kinds)])
    row = st.tuples(*(st.none() | values(kind) for kind in kinds))
    rows = draw(st.lists(row, min_size=1, max_size=4))
    return schema, [{"k": i, **{f"v{j}": v for j, v in enumerate(each)}} for i, each in enumerate(rows)]


@contextmanager
def a_session() -> Iterator[tuple[sl.Session, Path]]:
    folder = Path(tempfile.mkdtemp())
    try:
        with sl.connect(folder / "w") as session:
            yield session, folder
    finally:
        shutil.rmtree(folder)


def as_json(value: Any) -> Any:
    """Return a value as JSON has it."""
    match value:
        case dict():
            return {name: as_json(each) for name, each in value.items()}
        case list() | tuple():
            return [as_json(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value


def rows_of(table: sl.Table) -> list[dict[str, Any]]:
    return table.scan().to_arrow().to_pylist()


@given(tables())
def test_every_input_and_reader_keeps_every_value(made: tuple[Schema, list[dict[str, Any]]]):
    schema, rows = made
    with a_session() as (session, folder):
        first = session.create_table("first", schema)
        first.ingest(rows)
        assert rows_of(first) == rows
        assert Schema.from_json(schema.to_json()) == schema
        (folder / "in.json").write_text("\n".join(map(json.dumps, map(as_json, rows))), encoding="utf-8")
        first.export(folder / "out.csv")
        first.export(folder / "out.parquet")
        scan = first.scan()
        frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in schema.names})
        inputs = {
            "arrow": scan.to_arrow(), "pandas": scan.to_pandas(), "objects": frame, "polars": scan.to_polars(),
            "duckdb": scan.to_duckdb(), "csv": folder / "out.csv", "json": folder / "in.json",
            "parquet": folder / "out.parquet",
        }  # fmt: skip
        for name, data in inputs.items():
            table = session.create_table(name, schema)
            table.ingest(data)
            assert rows_of(table) == rows, name
            assert table.diff(1).rows_added == len(rows)
        second = [{**row, "k": row["k"] + len(rows)} for row in rows]
        first.ingest(second)
        first.maintenance.compact("all")
        assert rows_of(first) == [*rows, *second]
        assert (first.diff(2).rows_added, first.diff(2).rows_removed) == (len(rows), 0)
        assert first.scan().to_dataset().to_table().sort_by("k").to_pylist() == [*rows, *second]


def widened(kind: FieldType) -> FieldType:
    """Return a wider type, with another field in each struct that is in no map."""
    match kind.name:
        case "struct":
            members = tuple(Member(m.name, widened(m.type), m.nullable) for m in kind.arguments)
            return FieldType("struct", (*members, Member("new", FieldType("uuid"), nullable=True)))
        case "list":
            return FieldType("list", (widened(kind.arguments[0]),))
        case "tinyint" | "smallint" | "int":
            return FieldType("long")
        case "long":
            return FieldType("decimal", (21, 2))
        case "float":
            return FieldType("double")
        case "decimal" if kind.arguments[0] < 36:
            return FieldType("decimal", (kind.arguments[0] + 2, kind.arguments[1] + 1))
        case _:
            return kind


def as_widened(value: Any, kind: FieldType) -> Any:
    """Return a value as the wider type has it."""
    if value is None:
        return None
    match kind.name:
        case "struct":
            return {**{m.name: as_widened(value[m.name], m.type) for m in kind.arguments}, "new": None}
        case "list":
            return [as_widened(each, kind.arguments[0]) for each in value]
        case _:
            return value


@given(tables())
def test_older_files_are_read_with_any_wider_type(made: tuple[Schema, list[dict[str, Any]]]):
    schema, rows = made
    with a_session() as (session, _):
        table = session.create_table("t", schema)
        table.ingest(rows)
        types = {f.name: widened(f.type) for f in schema.values}
        changed = {name: str(kind) for name, kind in types.items() if kind != dict(fields(schema))[name]}
        assert all(widens(kind, types[name]) for name, kind in fields(schema))
        if not changed:
            return
        table.alter(types=changed)
        expected = [
            {
                name: row["k"] if name == "k" else as_widened(row[name], dict(fields(schema))[name])
                for name in schema.names
            }
            for row in rows
        ]
        for _ in range(2):
            assert rows_of(table) == expected
            found = table.scan().to_duckdb().to_arrow_table().cast(table.schema.arrow).sort_by("k").to_pylist()
            assert found == expected
            assert table.scan().to_dataset().to_table().sort_by("k").to_pylist() == expected
            table.ingest([{"k": 100}])
            table.maintenance.compact("all")
            expected = [*expected, {"k": 100, **dict.fromkeys(schema.names[1:])}]
        assert table.at(2).scan().to_arrow().to_pylist() == rows


def fields(schema: Schema) -> list[tuple[str, FieldType]]:
    return [(f.name, f.type) for f in schema.values]


WRONG = sl.Schema(
    {"k": "int"},
    {},
    {"address": "struct<zip:string,n:tinyint?,at:time?>?", "stops": "list<struct<id:uuid,x:double?>>?",
     "tags": "map<string,struct<n:smallint>>?", "u": "uuid?", "at": "timestamp?", "n": "long?"},
)  # fmt: skip
AN_ID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"address": {"zip": None}}, "column 'address.zip', {}, is NULL"),
        ({"address": {"n": 1}}, "column 'address.zip', {}, is NULL or missing|column 'address.zip' is missing"),
        ({"address": {"zip": "x", "n": 300}}, "column 'address.n', {}: 300 \\(long\\) cannot become tinyint"),
        ({"address": {"zip": "x", "n": "q"}}, "column 'address.n', {}: 'q' is not a number"),
        ({"address": {"zip": "x", "at": "25:00"}}, "column 'address.at', {}: '25:00' \\(string\\) cannot become time"),
        ({"address": {"zip": "x", "zpi": "y"}}, "column 'address.zpi'.* is unknown.*\\nhint: rename it to 'zip'"),
        ({"address": [1]}, "column 'address', {}: \\[1\\] .*cannot become struct<.*\\nhint: give a dictionary"),
        ({"stops": [{"id": AN_ID}, {"id": "x"}]}, "column 'stops.id', {}: 'x' \\(string\\) cannot become uuid"),
        ({"stops": [{"id": AN_ID, "x": "0x"}]}, "column 'stops.x', {}: '0x' is not a number"),
        ({"tags": {"a": {"n": 40000}}}, "column 'tags.n', {}: 40000 \\(long\\) cannot become smallint"),
        ({"u": AN_ID[:-1]}, "column 'u', {}: .*cannot become uuid.*\\nhint: a UUID is 32 hexadecimal digits"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_line_and_example(row: dict[str, Any], words: str, tmp_path: Path):
    good = {"k": 1, "address": {"zip": "x"}}
    lines = [json.dumps(each) for each in (good, {"k": 2, **row})]
    (tmp_path / "in.json").write_text("\n".join(lines), encoding="utf-8")
    ((name, value),) = row.items()
    text = value if isinstance(value, str) else json.dumps(value)
    pd.DataFrame({"k": [1, 2], name: ["", text]}).to_csv(tmp_path / "in.csv", index=False)
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", WRONG)
        for data, place in (
            ([good, {"k": 2, **row}], "row 2"), (tmp_path / "in.json", "line 2"), (tmp_path / "in.csv", "line 3"),
        ):  # fmt: skip
            with pytest.raises(sl.InvalidInput, match=words.format(*(place,) * words.count("{}"))) as error:
                table.ingest(data)
            assert "nothing was changed" in error.value.hint
        assert table.scan().to_arrow().num_rows == 0


def test_python_s_own_values_of_the_types_are_taken(tmp_path: Path):
    schema = sl.Schema({"k": "int"}, {}, {"u": "uuid?", "t": "time?", "s": "string?", "b": "bytearray?"})
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema)
        table.ingest([{"k": 1, "u": UUID(AN_ID), "t": time(10, 30), "s": UUID(AN_ID), "b": UUID(AN_ID)}])
        table.ingest(pd.DataFrame({"k": [2], "u": [UUID(AN_ID)], "t": [time(10, 30)], "s": [AN_ID], "b": [b"x"]}))
        first, second = rows_of(table)
        assert first == {"k": 1, "u": AN_ID, "t": time(10, 30), "s": AN_ID, "b": UUID(AN_ID).bytes}
        assert (second["u"], second["t"]) == (AN_ID, time(10, 30))
        for wrong in ({"t": time(10, tzinfo=UTC)}, {"t": datetime(2026, 1, 1, tzinfo=UTC)}, {"u": b"x" * 16}):
            with pytest.raises(sl.InvalidInput, match=r"column '[tu]', row 1"):
                table.ingest([{"k": 3, **wrong}])


def test_unsigned_and_nanosecond_columns_are_taken_where_exact_and_else_say_what_to_do(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", WRONG)
        whole = pa.table({"k": [1], "n": pa.array([7], pa.uint64()), "at": pa.array([1000], pa.timestamp("ns"))})
        table.ingest(whole)
        table.ingest(whole.to_pandas())
        assert [(row["n"], row["at"].microsecond) for row in rows_of(table)] == [(7, 1)] * 2
        large = whole.set_column(1, "n", pa.array([2**63], pa.uint64()))
        with pytest.raises(sl.InvalidInput, match=r"row 1: 9223372036854775808 .*\nhint: .*decimal\(20,0\)"):
            table.ingest(large)
        fine = whole.set_column(2, "at", pa.array([1001], pa.timestamp("ns")))
        for data in (fine, fine.to_pandas()):
            with pytest.raises(sl.InvalidInput, match=r"'at', row 1: .*\nhint: .*x.dt.floor\('us'\)"):
                table.ingest(data)
        with pytest.raises(sl.InvalidInput, match=r"uint64\nhint: cast it to decimal\(20,0\), or to long if all"):
            Schema.from_arrow(whole.schema, ["k"])
        assert str(Schema.from_arrow(fine.select(["k", "at"]).schema, ["k"]).values[0].type) == "timestamp"


LONGS, BOOL8, JSON = pa.int64(), pa.array([1, None, 0], pa.int8()), ['{"a":1}', None, "[1]"]
OF_ARROW: dict[str, tuple[pa.Array, str]] = {
    "fixed-size lists": (pa.array([[1, 2], None, [3, 4]], pa.list_(LONGS, 2)), "list<long>"),
    "list views": (pa.array([[1, 2], None, [3]], pa.list_view(LONGS)), "list<long>"),
    "bool8": (pa.ExtensionArray.from_storage(pa.bool8(), BOOL8), "boolean"),
    "json": (pa.array(JSON, pa.json_(pa.string())), "string"),
    "categories": (pa.array(["a", None, "b"]).dictionary_encode(), "string"),
}


@pytest.mark.parametrize("name", OF_ARROW)
@pytest.mark.parametrize("inside", ["", "struct", "list"])
def test_types_of_arrow_alone_become_those_of_a_table_everywhere(tmp_path: Path, name: str, inside: str):
    column, kind = OF_ARROW[name]
    if inside:
        kind = f"struct<x:{kind}?>" if inside == "struct" else f"list<{kind}>"
        fixed = pa.FixedSizeListArray.from_arrays(column, 1)
        column = pa.StructArray.from_arrays([column], ["x"]) if inside == "struct" else fixed
    rows = pa.table({"k": [1, 2, 3], "v": column})
    pq.write_table(rows, tmp_path / "a.parquet")
    expected, made = rows["v"].to_pylist(), []
    with sl.connect(tmp_path / "w") as session:
        for number, data in enumerate((rows, tmp_path / "a.parquet")):
            created = session.create_table(f"c{number}", data, row_keys=["k"])
            assert created.schema.values[0].text == f"{kind}?"
            loaded = session.create_table(f"l{number}", created.schema)
            loaded.ingest(data)
            made += [created, loaded]
        for number, source in enumerate((f"'{tmp_path}/a.parquet'", "rows")):
            session.sql(f"create table s{number} cluster by (k) as select * from {source}", data={"rows": rows})
            made.append(session.table(f"s{number}"))
        assert [each.scan().to_arrow().sort_by("k")["v"].to_pylist() for each in made] == [expected] * 6
