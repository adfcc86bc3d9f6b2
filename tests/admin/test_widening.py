"""Columns become wider and structs get fields by metadata alone: every reader and every version is right."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS
from sleeper_nb.model.properties import STATISTICS
from tests.support.builders import EMBEDDED
from tests.support.widened import EXPECTED, NEW, OLD, SCHEMA, WIDER, WITH_FIELDS


@pytest.fixture(params=EMBEDDED)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Table]:
    """Snapshot 2 has the old rows, 3 the wider types, and 4 the new rows too."""
    with sl.connect(tmp_path) as session:
        made = session.create_table("t", SCHEMA, state_store=request.param, properties={STATISTICS: "n,t"})
        made.ingest(OLD)
        made.alter(WITH_FIELDS, types=WIDER)
        made.ingest(NEW)
        yield made


def in_keys(rows: pa.Table, schema: sl.Schema) -> list[dict[str, Any]]:
    return rows.cast(schema.arrow).sort_by("k").to_pylist()


def read(table: sl.Table, expected: list[dict[str, Any]]) -> None:
    """Hold that every reader gives the rows, and that conditions find them."""
    scan = table.scan()
    ways = {
        "arrow": scan.to_arrow(),
        "duckdb": scan.to_duckdb().to_arrow_table(),
        "polars": scan.to_polars().to_arrow(),
        "data set": scan.to_dataset().to_table(),
        "lazy": pl.scan_pyarrow_dataset(scan.to_dataset()).collect().to_arrow(),
    }
    for name, rows in ways.items():
        assert in_keys(rows, table.schema) == expected, name
    for condition, test in {
        "n < 3 or n > 3000000000": lambda row: row["n"] < 3 or row["n"] > 3e9,
        "f > 0.2": lambda row: row["f"] is not None and row["f"] > 0.2,
        "d >= 1.25": lambda row: row["d"] is not None,
        "a.code is null": lambda row: row["a"] is None or row["a"]["code"] is None,
        "t > 300": lambda row: (row["t"] or 0) > 300,
    }.items():
        wanted = [row for row in expected if test(row)]
        assert in_keys(table.scan(where=condition).to_arrow(), table.schema) == wanted, condition
        found = table.scan().to_duckdb().filter(condition).to_arrow_table()
        assert in_keys(found, table.schema) == wanted, condition


def test_every_reader_reads_older_files_with_the_wider_types(table: sl.Table):
    read(table, EXPECTED)
    table.maintenance.compact("all")
    assert len(table.inspect.files()) == 1
    read(table, EXPECTED)
    assert table.maintenance.check(deep=True).findings == ()


def test_older_versions_keep_their_types_and_are_compared_with_the_wider_ones(table: sl.Table):
    then = table.at(2)
    assert (then.schema, then.scan().to_arrow().schema) == (SCHEMA, SCHEMA.arrow)
    assert in_keys(table.at(2, schema="current").scan().to_arrow(), table.schema) == EXPECTED[:2]
    assert "column 'n' was changed from int to long" in repr(table.diff(2))
    assert in_keys(table.changes(2).added.to_arrow(), table.schema) == EXPECTED[2:]
    assert table.changes(2).removed.to_arrow().num_rows == 0
    table.maintenance.compact("all")
    assert (table.diff(2, 3).rows_added, table.diff(2, 3).rows_removed) == (0, 0)
    assert (table.diff(2, 5).rows_added, table.diff(2, 5).rows_removed) == (2, 0)
    table.rollback(2)
    read(table, EXPECTED[:2])


def test_statistics_of_files_stay_right_and_leave_files_out(table: sl.Table):
    assert len(table.scan(where="n > 1000").plan().files) == 1
    assert len(table.scan(where="t < 100").plan().files) == 1
    assert table.scan(where="n > 1099511627776").plan().files == ()
    table.maintenance.compact("all")
    assert table.scan(where="n > 1099511627776").plan().files == ()


def test_names_can_be_changed_and_widened_at_once(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA)
        table.ingest(OLD)
        table.alter({"s": "string?"}, {"n": "m"}, ["s"], types={"m": "decimal(12,1)"})
        rows = table.scan(["k", "m", "s"]).to_arrow().to_pylist()
        assert rows == [{"k": 1, "m": Decimal("1.0"), "s": None}, {"k": 2, "m": Decimal("5.0"), "s": None}]
        assert table.scan().to_duckdb().project("k, m").order("k").fetchall() == [
            (1, Decimal("1.0")),
            (2, Decimal("5.0")),
        ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"types": {"k": "long"}}, "row key 'k' cannot be given another type: it orders the rows"),
        ({"types": {"n": "int"}}, "column 'n' is int already"),
        (
            {"types": {"n": "float"}},
            "column 'n' is int, and float cannot hold all of its values\nhint: .*long or double or",
        ),
        ({"types": {"g": "double"}}, "hint: long can become decimal\\(p,s\\) with p - s ≥ 19"),
        ({"types": {"f": "decimal(30,2)"}}, "hint: float can become double"),
        (
            {"types": {"d": "decimal(9,1)"}},
            "hint: decimal\\(5,2\\) can become decimal\\(p,s\\) with s ≥ 2 and p - s ≥ 3",
        ),
        ({"types": {"day": "timestamp"}}, "dates reach further than timestamps"),
        ({"types": {"a.zip": "uuid"}}, "column 'a.zip' is string, and uuid cannot hold all of its values"),
        ({"types": {"a": "struct<zip:string>"}}, "fields cannot be dropped or change their order"),
        ({"types": {"a.zp": "int"}}, "no field 'a.zp'\nhint: did you mean 'a.zip'"),
        ({"types": {"n.b": "int"}}, "'n' is int, which has no fields"),
        ({"types": {"m.q": "long"}}, "'m' is a map<.*>: the types inside a map cannot change"),
        ({"types": {"no": "long"}}, "no column 'no'"),
        ({"add_columns": {"a.ZIP": "int?"}}, "field 'a.ZIP' already exists"),
        ({"add_columns": {"a.x": "int"}}, "field 'a.x' must be nullable, .*\nhint: write \"a.x int\\?\""),
        ({"add_columns": {"a.zip.x": "int?"}}, "'a.zip' is string, which cannot get the field 'x'"),
        ({"add_columns": {"m.x": "int?"}}, "'m' is map<.*>, which cannot get the field 'x'"),
        ({"add_columns": {"a.b c": "int?"}}, "'b c' is not a valid field name"),
        ({"add_columns": {"k.x": "int?"}}, "row key 'k' cannot be given another type"),
    ],
)
def test_what_cannot_be_wider_says_why_and_changes_nothing(tmp_path: Path, arguments: dict[str, Any], words: str):
    values = {**SCHEMA.to_dict()["values"], "day": "date?", "m": "map<string,struct<q:int>>?"}
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, values))
        for dry_run in (True, False):
            with pytest.raises(sl.SleeperError, match=words):
                table.alter(**arguments, dry_run=dry_run)
        assert len(table.history()) == 1


def test_what_a_table_filters_cannot_be_widened_but_what_it_sums_can(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        schema = sl.Schema({"k": "string"}, {}, {"at": "long", "n": "int"})
        aged = session.create_table("aged", schema, properties={FILTERS: "ageOff(at,1000)"})
        with pytest.raises(sl.InvalidInput, match=f"'at' is used by the table's {FILTERS}"):
            aged.alter(types={"at": "decimal(19,0)"})
        summed = session.create_table("summed", schema, properties={AGGREGATIONS: "max(at),sum(n)"})
        for _ in range(2):
            summed.ingest([{"k": "a", "at": 1, "n": 2**31 - 1}])
        with pytest.raises(
            sl.InvalidInput, match="is too large for int32\nhint: alter the table: give column 'n' a wider type"
        ):
            summed.scan().to_arrow()
        summed.alter(types={"n": "long"})
        assert summed.scan().to_arrow().to_pylist() == [{"k": "a", "at": 1, "n": 2**32 - 2}]
        assert summed.scan().to_duckdb().fetchall() == [("a", 1, 2**32 - 2)]
        with_statistics = session.create_table("s", SCHEMA, properties={STATISTICS: "n"})
        with pytest.raises(sl.InvalidInput, match=f"'n' is named by the table's {STATISTICS}"):
            with_statistics.alter(types={"n": "decimal(12,0)"})


def test_the_command_widens_and_adds_fields(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        session.create_table("t", SCHEMA).ingest(OLD)
        context = Context("console", connect=sl.connect, session=session)

        def run(line: str) -> Any:
            return COMMANDS.parse_line(line).run(context)

        line = 'alter t --column-type n=long --column-type "a.n = decimal(12, 0)" --add-column "a.code string?"'
        assert run(line + " --dry-run").dry_run
        after = run(line).after.to_dict()["values"]
        assert (after["n"], after["a"]) == (
            "long", "struct<zip:string,n:decimal(12,0)?,g:list<struct<x:float>>?,code:string?>?",
        )  # fmt: skip
        for wrong, words in (
            ("alter t --column-type n", "cannot read 'n'\nhint: write --column-type name=long"),
            ("alter t --column-type n=long --column-type n=double", "'n' is given twice"),
            ("alter t --column-type n=lng", "unknown field type 'lng'\nhint: did you mean long"),
        ):
            with pytest.raises(sl.SleeperError, match=words):
                run(wrong)
