"""Random tables, changes and queries, on Arrow, DuckDB and Spark, against lists of rows in plain Python.

A table has keys of any type and values of any type; it is ingested, compacted and split in any order, and each of its
versions is asked for keys, regions and conditions. Every engine must give the rows of the model, whatever lies where.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput
from tests.support.builders import EMBEDDED
from tests.support.examples import examples
from tests.support.value_pools import KEYS, VALUES

Row = dict[str, Any]
SINCE: dict[str, tuple[Any, str]] = {
    "date": (date(1969, 12, 31), "DATE '1969-12-31'"),
    "timestamp": (
        datetime(1582, 10, 4, 23, 59, 59, 999999, tzinfo=UTC), "TIMESTAMPTZ '1582-10-05 00:59:59.999999+01'",
    ),
}  # fmt: skip
"""A time of each type, and how both engines read it."""


@dataclass(frozen=True)
class Query:
    """What is asked: the arguments of a scan, and the same as a test of a row."""

    options: dict[str, Any]
    holds: Callable[[Row], bool]


@st.composite
def schemas(draw: st.DrawFn) -> sl.Schema:
    """One to three row keys, up to two sort keys and three values, of any types."""

    def fields(prefix: str, types: dict[str, list[Any]], least: int, most: int, end: str = "") -> dict[str, str]:
        chosen = draw(st.lists(st.sampled_from(sorted(types)), min_size=least, max_size=most))
        return {f"{prefix}{i}": f"{name}{end}" for i, name in enumerate(chosen)}

    return sl.Schema(fields("k", KEYS, 1, 3), fields("s", KEYS, 0, 2), fields("v", VALUES, 0, 3, "?"))


def values_of(schema: sl.Schema) -> dict[str, st.SearchStrategy[Any]]:
    return {
        field.name: st.sampled_from(VALUES[str(field.type)]) | (st.none() if field.nullable else st.nothing())
        for field in schema.fields
    }


@st.composite
def queries(draw: st.DrawFn, schema: sl.Schema) -> Query:
    """Keys, or ranges of keys, or none; a condition or none; and some columns or all."""
    values, keys = values_of(schema), [key.name for key in schema.row_keys]
    options: dict[str, Any] = {}
    tests: list[Callable[[Row], bool]] = []
    kind = draw(st.sampled_from(["all", "keys", "region"]))
    if kind == "keys":
        named = keys[: draw(st.integers(1, len(keys)))]
        wanted = draw(st.lists(st.tuples(*(values[name] for name in named)), min_size=1, max_size=3))
        options["keys"] = wanted
        tests.append(lambda row: tuple(row[name] for name in named) in wanted)
    if kind == "region":
        ranges = {name: draw(st.tuples(st.none() | values[name], st.none() | values[name])) for name in keys}
        options["region"] = ranges
        tests.append(
            lambda row: all(
                (low is None or row[name] >= low) and (high is None or row[name] < high)
                for name, (low, high) in ranges.items()
            )
        )
    if draw(st.booleans()):
        condition, test = draw(st.sampled_from(conditions(schema)))
        options["where"] = condition
        tests.append(test)
    if draw(st.booleans()):
        options["columns"] = draw(st.permutations(schema.names))[: draw(st.integers(1, len(schema.names)))]
    return Query(options, lambda row: all(test(row) for test in tests))


def conditions(schema: sl.Schema) -> list[tuple[str, Callable[[Row], bool]]]:
    """Return conditions that all three engines read, each with what it means."""
    found: list[tuple[str, Callable[[Row], bool]]] = []
    for field in schema.fields:
        name, kind = field.name, field.type.name
        if field.nullable:
            found.append((f"{name} IS NULL", lambda row, name=name: row[name] is None))
        if kind in {"int", "long"}:
            found.append((f"{name} > 0", lambda row, name=name: row[name] is not None and row[name] > 0))
        if kind == "string":
            found.append((f"{name} >= 'a'", lambda row, name=name: row[name] is not None and row[name] >= "a"))
        if kind in SINCE:
            since, literal = SINCE[kind]
            found.append(
                (
                    f"{name} >= {literal}",
                    lambda row, name=name, since=since: row[name] is not None and row[name] >= since,
                )
            )
        if kind == "boolean":
            found.append((f"NOT {name}", lambda row, name=name: row[name] is False))
    return found or [("1 = 1", lambda _row: True)]


def plain(value: Any) -> Any:
    """Return a value so that what is equal for a user is equal, NaN too, and can be counted."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return ("map", *((key, plain(each)) for key, each in value.items()))
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    return value


def counted(rows: list[Row], columns: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(plain(row[name]) for name in columns) for row in rows)


def found(table: pa.Table, schema: sl.Schema, columns: Any) -> Counter[tuple[Any, ...]]:
    """Return an engine's rows; it may have types of its own for the same values (DuckDB's maps, Spark's zones)."""
    assert table.column_names == list(columns)
    target = pa.schema([schema.arrow.field(name) for name in columns])
    nullable = pa.schema([pa.field(field.name, field.type) for field in target])
    return counted(table.cast(nullable).to_pylist(), columns)


class Model:
    """A table and, beside it, the rows that each of its versions must have."""

    def __init__(
        self, session: sl.Session, schema: sl.Schema, kind: str, points: list[Any], properties: dict[str, str]
    ) -> None:
        self.schema = schema
        self.table = session.create_table("t", schema, points, state_store=kind, properties=properties)
        self.versions: dict[int, list[Row]] = {1: []}

    @property
    def rows(self) -> list[Row]:
        return self.versions[max(self.versions)]

    def committed(self, rows: list[Row]) -> None:
        """Note every version that came since the last one: none of them differs from `rows`."""
        for number in range(max(self.versions) + 1, self.table.at().resolved.snapshot_id + 1):
            self.versions[number] = rows

    def change(self, data: st.DataObject) -> None:
        """Ingest, compact or split."""
        step = data.draw(st.sampled_from(["ingest", "ingest", "compact", "split", "cut"]))
        rows = self.rows
        if step == "ingest":
            new = data.draw(st.lists(st.fixed_dictionaries(values_of(self.schema)), max_size=8))
            self.table.ingest(new)
            rows = [*rows, *new]
        elif step == "compact":
            self.table.maintenance.compact("all", engine="local")
        elif step == "split":
            self.table.maintenance.split(threshold=data.draw(st.integers(2, 6)))
        else:
            key = data.draw(st.sampled_from(self.schema.row_keys))
            try:
                self.table.maintenance.split(at=data.draw(values_of(self.schema)[key.name]), key=key.name)
            except InvalidInput:  # a leaf begins there already
                return
        self.committed(rows)


def points_of(schema: sl.Schema, data: st.DataObject) -> list[Any]:
    """Return split points for the first row key."""
    values = VALUES[str(schema.row_keys[0].type)][1:]
    return sorted(data.draw(st.sets(st.sampled_from(values), max_size=2)))


def filled(session: sl.Session, data: st.DataObject, changes: int) -> Model:
    schema = data.draw(schemas())
    properties = {
        "sleeper.table.ingest.file.writing.strategy": data.draw(
            st.sampled_from(["one_file_per_leaf", "one_reference_per_leaf"])
        ),
        "sleeper.table.parquet.rowgroup.rows.max": data.draw(st.sampled_from(["1", "3", "100000"])),
    }
    model = Model(session, schema, data.draw(st.sampled_from(EMBEDDED)), points_of(schema, data), properties)
    for _ in range(data.draw(st.integers(1, changes))):
        model.change(data)
    return model


def asked(model: Model, data: st.DataObject) -> tuple[int, Query, list[Row], Any]:
    version = data.draw(st.sampled_from(sorted(model.versions)))
    query = data.draw(queries(model.schema))
    rows = [row for row in model.versions[version] if query.holds(row)]
    return version, query, rows, query.options.get("columns", model.schema.names)


@examples(40)
@given(data=st.data())
def test_arrow_and_duckdb_give_the_rows_of_the_model(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    with sl.connect(tmp_path_factory.mktemp("w")) as session:
        model = filled(session, data, 6)
        for _ in range(3):
            version, query, rows, columns = asked(model, data)
            scan = model.table.scan(**query.options, version=version)
            assert found(scan.to_arrow(), model.schema, columns) == counted(rows, columns)
            assert found(scan.to_duckdb().to_arrow_table(), model.schema, columns) == counted(rows, columns)
            assert scan.count() == len(rows)
            limit = data.draw(st.integers(0, 9))
            some = model.table.scan(**query.options, version=version, limit=limit).to_arrow()
            assert some.num_rows == min(limit, len(rows))
            assert found(some, model.schema, columns) <= counted(rows, columns)
            where = query.options.get("where", "TRUE")
            sql = session.sql(f"SELECT * FROM t VERSION AS OF {version} WHERE {where}", engine="duckdb").to_arrow()
            of_condition = [row for row in model.versions[version] if holds(model, where, row)]
            assert found(sql, model.schema, model.schema.names) == counted(of_condition, model.schema.names)


def holds(model: Model, where: str, row: Row) -> bool:
    return dict(conditions(model.schema)).get(where, lambda _row: True)(row)


@pytest.mark.spark
@examples(9)
@given(data=st.data())
def test_spark_gives_the_rows_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, spark_engine: Any, data: st.DataObject
):
    with sl.connect(tmp_path_factory.mktemp("w"), spark=spark_engine.session()) as session:
        model = filled(session, data, 4)
        version, query, rows, columns = asked(model, data)
        scan = model.table.scan(**query.options, version=version)
        assert found(scan.to_spark().toArrow(), model.schema, columns) == counted(rows, columns)
        where = query.options.get("where", "TRUE")
        sql = session.sql(f"SELECT * FROM t VERSION AS OF {version} WHERE {where}").to_arrow()
        of_condition = [row for row in model.versions[version] if holds(model, where, row)]
        assert found(sql, model.schema, model.schema.names) == counted(of_condition, model.schema.names)


@pytest.mark.spark
@examples(6)
@given(data=st.data())
def test_what_spark_writes_is_what_was_written_in_process(
    tmp_path_factory: pytest.TempPathFactory, spark_engine: Any, data: st.DataObject
):
    folder: Path = tmp_path_factory.mktemp("w")
    with sl.connect(folder, spark=spark_engine.session()) as session:
        schema = data.draw(schemas())
        rows = data.draw(st.lists(st.fixed_dictionaries(values_of(schema)), min_size=1, max_size=12))
        points = points_of(schema, data)
        here, there = (session.create_table(name, schema, points) for name in ("here", "there"))
        here.ingest(rows)
        there.bulk_import(here.scan().to_arrow())
        assert [leaf["rows"] for leaf in here.inspect.partitions()] == [
            leaf["rows"] for leaf in there.inspect.partitions()
        ]
        there.bulk_import(here.scan().to_arrow())
        there.maintenance.compact("all", engine="spark")
        read = there.scan().to_arrow()
        assert found(read, schema, schema.names) == counted([*rows, *rows], schema.names)
        assert there.maintenance.check(deep=True).ok
