"""What is typed to publish versions for other engines, and what those engines then read by the lines of the card."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from pyiceberg.table import StaticTable

from sleeper_nb.errors import ConfirmationNeeded, NotFound

FARES = [1.0, 3.0, 20.0]


@pytest.fixture(autouse=True)
def _planned_by_pyiceberg(monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # or Polars warns that another package is missing


def lines(report):
    """The line of each engine, as the card shows it."""
    return {row[0]: str(row[1]) for row in report.grid().rows if row[0] in {"DuckDB", "PyIceberg", "Polars", "Spark"}}


def fares(line):
    """What a line of Python returns, which has a line of PyIceberg or Polars."""
    rows = eval(line, {"StaticTable": StaticTable, "pl": pl})  # noqa: S307 - it is what a user pastes
    rows = rows.collect().to_arrow() if isinstance(rows, pl.LazyFrame) else rows
    return sorted(rows["fare"].to_pylist())


def tagged(report, name):
    rows = StaticTable.from_metadata(report.address).scan().use_ref(name).to_arrow()
    return sorted(rows["fare"].to_pylist())


def test_the_lines_of_the_card_read_the_published_version(typed):
    report = typed("publish trips")
    assert (report.snapshot_id, report.main, report.rows) == (1, 1, 3)
    assert fares(lines(report)["PyIceberg"]) == fares(lines(report)["Polars"]) == FARES
    assert report.address in lines(report)["DuckDB"]
    assert report.address in lines(report)["Spark"]
    for shown in (repr(report), report._repr_html_()):
        assert all(engine in shown for engine in lines(report))
        assert report.address in shown


def test_a_line_stays_right_when_a_newer_version_is_published(typed):
    line = lines(typed("publish trips"))["PyIceberg"]
    typed("ingest trips $rows")
    assert fares(line) == FARES
    typed("publish trips")
    assert fares(line) == sorted(FARES * 2)


def test_an_older_version_has_lines_of_its_own_and_the_newest_stays_what_others_read(typed):
    typed("create-savepoint trips --name half")
    typed("ingest trips $rows")
    typed("publish trips")
    report = typed("publish trips@half")
    assert (report.snapshot_id, report.main, report.tags) == (1, 2, {"half": 1})
    assert fares(lines(report)["PyIceberg"]) == fares(lines(report)["Polars"]) == tagged(report, "half") == FARES
    assert "snapshot_from_id = 1" in lines(report)["DuckDB"]
    assert ".option('versionAsOf', 'half')" in lines(report)["Spark"]
    assert fares(f"StaticTable.from_metadata({report.address!r}).scan().to_arrow()") == sorted(FARES * 2)


def test_publishing_again_writes_nothing_and_says_so(typed):
    typed("publish trips")
    again = typed("publish trips")
    assert again.is_nothing
    assert "published before" in repr(again)


def test_a_version_that_is_not_there_is_refused(typed):
    with pytest.raises(NotFound, match="9"):
        typed("publish trips@9")


def test_unpublish_takes_the_metadata_away_and_leaves_the_rows(typed, cell):
    address = typed("publish trips").address
    assert "unpublished 1 version" in repr(typed("unpublish trips"))
    with pytest.raises(FileNotFoundError):
        StaticTable.from_metadata(address)
    assert typed("scan trips").count() == 3
    assert "nothing was published" in repr(typed("unpublish trips"))
    assert typed("check trips --deep").ok


def test_procedures_publish_and_unpublish(typed):
    report = typed("sql CALL sys.publish('trips', 1)")
    assert fares(lines(report)["PyIceberg"]) == FARES
    assert "unpublished" in repr(typed("sql CALL sys.unpublish('trips')"))


def test_status_says_what_is_published_and_what_is_missing(typed):
    assert "published" not in repr(typed("status trips"))
    typed("create-savepoint trips --name half")
    typed("publish trips@half")
    assert "snapshot 1 as Iceberg" in repr(typed("status trips"))
    assert "tags half" in repr(typed("status trips"))
    typed("ingest trips $rows")
    typed("properties trips sleeper.table.iceberg=commits")
    assert "%sleeper maintain trips: 1 version should be published" in repr(typed("status trips"))
    typed("maintain trips")
    assert "should be published" not in repr(typed("status trips"))


def test_each_commit_is_published_where_the_property_asks_for_it(typed):
    typed("properties trips sleeper.table.iceberg=commits")

    def published():
        line = next(row[1] for row in typed("status trips").grid().rows if row[0] == "published")
        return line.partition(" as ")[0]

    typed("ingest trips $rows")
    assert published() == "snapshot 2"
    typed('delete trips --where "fare > 10"')
    assert published() == "snapshot 3"
    typed("upsert trips $rows --on city,day")
    typed("alter trips --rename-column fare=price")
    assert published() == "snapshot 5"
    report = typed("rollback trips 3")
    assert published() == f"snapshot {report.snapshot.id}"
    assert typed("publish trips").is_nothing
    typed("create-savepoint trips@2 --name second")
    assert "tags second" in repr(typed("status trips"))


def test_only_savepoints_are_published_where_the_property_says_so(typed):
    typed("properties trips sleeper.table.iceberg=savepoints")
    typed("ingest trips $rows")
    assert ("published", "nothing yet") in typed("status trips").grid().rows
    typed("create-savepoint trips --name second")
    typed("ingest trips $rows")
    status = repr(typed("status trips"))
    assert "snapshot 2 as Iceberg" in status
    assert "should be published" not in status


def test_what_another_engine_has_written_is_deleted_only_with_force(typed):
    typed("publish trips")
    (metadata,) = Path("warehouse").rglob("v1.metadata.json")
    body = json.loads(metadata.read_bytes())
    body["snapshots"].append({**body["snapshots"][0], "snapshot-id": 77, "summary": {"operation": "append"}})
    written = metadata.with_name("v2.metadata.json")
    written.write_text(json.dumps(body))
    for line in ("unpublish trips", "sql CALL sys.unpublish('trips')"):
        with pytest.raises(ConfirmationNeeded, match="snapshot 77, which would be deleted"):
            typed(line)
    assert written.exists()
    typed("unpublish trips --force")
    assert not written.exists()
