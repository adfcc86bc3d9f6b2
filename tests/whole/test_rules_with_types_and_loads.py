"""Rules of a table together with what else a table can do: forgiving loads, new types, tables of data, added files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, SleeperError
from tests.support.builders import START

RULED = sl.Schema.from_ddl(
    "city STRING KEY, fare DOUBLE NULL DEFAULT 0, n INT NULL DEFAULT 7, CONSTRAINT positive CHECK (fare >= 0)"
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "house", data_paths=[tmp_path], clock=ManualClock(START)) as opened:
        yield opened


def rows_of(table: sl.Table) -> list[dict[str, object]]:
    return table.scan().to_arrow().sort_by("city").to_pylist()


def test_a_forgiving_load_gets_defaults_and_keeps_checks(session, tmp_path):
    table = session.create_table("t", RULED)
    forgiven = {"by_name": True, "ignore_extra": True, "cast": True}
    given = [{"City": "a", "Fare": "1.5", "other": 1}, {"City": "b", "other": 2}]
    table.ingest(given, **forgiven)
    assert rows_of(table) == [{"city": "a", "fare": 1.5, "n": 7}, {"city": "b", "fare": 0.0, "n": 7}]
    (tmp_path / "x.csv").write_text("CITY,FARE,other\nc,-1,1\nd,2,2\ne,-3,3\n")
    (tmp_path / "y.csv").write_text("CITY,FARE\nf,-4\n")
    files = [str(tmp_path / "x.csv"), str(tmp_path / "y.csv")]
    with pytest.raises(InvalidInput, match=r"check 'positive' \(fare >= 0\) fails for line 2: fare = -1.0.*3 rows"):
        table.ingest(files, **forgiven)
    (difference,) = table.ingest(files, dry_run=True, **forgiven).plan.differences
    assert (difference.column, difference.values, difference.files) == ("check positive", 3, 2)
    assert len(rows_of(table)) == 2


def test_a_json_file_with_other_names_has_the_default_only_where_a_line_lacks_the_name(session, tmp_path):
    table = session.create_table("t", RULED)
    (tmp_path / "x.json").write_text('{"CITY": "a", "N": null}\n{"CITY": "b"}\n')
    table.ingest(str(tmp_path / "x.json"), by_name=True)
    assert [row["n"] for row in rows_of(table)] == [None, 7]


def test_one_alteration_changes_columns_types_and_rules(session):
    schema = sl.Schema({"city": "string"}, values={"n": "int?", "address": "struct<code:int?>?"})
    table = session.create_table("t", schema)
    table.ingest([{"city": "a", "n": 1, "address": {"code": 5}}])
    table.alter(
        {"note": {"type": "string?", "default": "none", "comment": "free text"}, "address.zip": "string?"},
        types={"n": "long", "address.code": "long"},
        not_null={"n": True},
        defaults={"n": 2**40},
        checks={"zip_given": "address.zip <> ''"},
        comment="places",
        unique_keys=True,
    )
    table.ingest([{"city": "b", "address": {"code": 2**40, "zip": "8001"}}])
    assert rows_of(table)[1] == {
        "city": "b", "n": 2**40, "address": {"code": 2**40, "zip": "8001"}, "note": "none",
    }  # fmt: skip
    for wrong in ({"city": "c", "address": {"zip": ""}}, {"city": "a"}, {"city": "c", "n": None}):
        with pytest.raises(InvalidInput):
            table.ingest([wrong])
    with pytest.raises(InvalidInput, match=r"'address\.street' cannot have a default"):
        table.alter({"address.street": {"type": "string?", "default": "none"}})
    with pytest.raises(InvalidInput, match="cannot have a default"):
        table.alter(defaults={"address": "none"})
    assert len(rows_of(table)) == 2


def test_a_check_on_a_column_that_becomes_wider_is_checked_again(session):
    table = session.create_table("t", sl.Schema({"city": "string"}, values={"f": "float", "n": "int"}))
    table.ingest([{"city": "a", "f": 0.5, "n": 1}])
    table.alter(checks={"small": "n < 9"})
    table.alter(types={"n": "long"})
    table.alter(checks={"by_type": "typeof(f) = 'FLOAT'"})
    with pytest.raises(InvalidInput, match="check 'by_type'"):
        table.alter(types={"f": "double"})
    assert [str(each.type) for each in table.schema.values] == ["float", "long"]


@pytest.mark.parametrize("value", ["nope", "0123", 5])
def test_a_default_is_a_value_of_its_type(value):
    with pytest.raises(InvalidInput, match="default of column 'u'"):
        sl.Schema({"id": "string"}, values={"u": {"type": "uuid", "default": value}})


def test_the_default_of_a_uuid_and_a_time_is_loaded(session):
    uuid = "0f0e0d0c-0b0a-0908-0706-050403020100"
    schema = sl.Schema.from_ddl(f"id STRING KEY, u UUID DEFAULT '{uuid.upper()}', at TIME DEFAULT TIME '12:30:00'")
    table = session.create_table("t", schema)
    table.ingest([{"id": "a"}])
    row = table.scan().to_arrow().to_pylist()[0]
    assert (row["u"], row["at"].isoformat()) == (uuid, "12:30:00")


@pytest.mark.parametrize("like", [False, True])
def test_a_table_of_data_keeps_the_rules_of_its_schema(session, like):
    schema = sl.Schema(RULED.row_keys, (), RULED.values, checks=RULED.checks, unique_keys=True)
    if like:
        session.create_table("pattern", schema)
    wanted = {"like": "pattern"} if like else {"schema": schema}
    broken = [{"city": "a", "fare": -1.0}, {"city": "b"}]
    (difference,) = session.admin.plan_table("t", data=broken, **wanted).differences
    assert difference.column == "check positive"
    with pytest.raises(InvalidInput, match="check 'positive'"):
        session.create_table("t", data=broken, **wanted)
    with pytest.raises(InvalidInput, match="unique keys"):
        session.create_table("t", data=[{"city": "a"}, {"city": "a"}], **wanted)
    assert "t" not in {each.name for each in session.tables()}
    made = session.create_table("t", data=[{"CITY": "a"}, {"CITY": "b", "n": 1}], by_name=True, **wanted)
    assert [row["n"] for row in rows_of(made)] == [7, 1]
    with pytest.raises(SleeperError):
        session.create_table("t", data=broken, or_replace=True, **wanted)
    assert [row["n"] for row in rows_of(session.table("t"))] == [7, 1]


def test_files_that_are_added_keep_the_rules(session, tmp_path):
    schema = sl.Schema(RULED.row_keys, (), RULED.values, checks=RULED.checks, unique_keys=True)
    table = session.create_table("t", schema)

    def file(name: str, cities: list[str], fares: list[float]) -> str:
        columns = {"city": cities, "fare": fares, "n": pa.array([1] * len(cities), pa.int32())}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        return str(tmp_path / f"{name}.parquet")

    table.add_files(file("first", ["a", "c"], [1.0, 2.0]))
    for wrong, says in (
        (file("broken", ["d"], [-1.0]), "breaks check positive: fare >= 0 is false"),
        (file("known", ["b", "c"], [1.0, 1.0]), "is in the table already"),
        (file("twice", ["e", "e"], [1.0, 1.0]), "occurs 2 times"),
    ):
        with pytest.raises(InvalidInput, match=says):
            table.add_files(wrong)
    assert table.add_files(file("broken", ["d"], [-1.0]), dry_run=True).plan.refused
    assert [row["city"] for row in rows_of(table)] == ["a", "c"]
    table.alter({"later": {"type": "int?", "default": 3}})
    with pytest.raises(InvalidInput, match="has no column 'later'"):
        table.add_files(file("older", ["f"], [1.0]))


def test_sql_sets_all_rules(session):
    columns = "city STRING, fare DOUBLE DEFAULT 0 COMMENT 'dollars', CHECK (fare >= 0)"
    session.sql(f"CREATE TABLE t ({columns}) ROW KEYS (city)")
    session.sql("ALTER TABLE t ADD CHECK (fare < 100)")
    session.sql("ALTER TABLE t ALTER COLUMN fare SET NOT NULL")
    session.sql("INSERT INTO t (city) VALUES ('a')")
    assert rows_of(session.table("t")) == [{"city": "a", "fare": 0.0}]
    for wrong in ("-1", "100", "NULL"):
        with pytest.raises(SleeperError):
            session.sql(f"INSERT INTO t VALUES ('b', {wrong})")
    assert [each.condition for each in session.table("t").schema.checks] == ["fare >= 0", "fare < 100"]
