"""SQL over one version: its name reads that version, and no other table is there."""

from __future__ import annotations

import pytest

import sleeper_nb as sl


@pytest.fixture
def trips(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("trips", sl.Schema({"city": "string"}, {}, {"fare": "double"}), ["m"])
        table.ingest([{"city": "rome", "fare": 1.0}])
        table.ingest([{"city": "bern", "fare": 2.0}])
        session.create_table("other", sl.Schema({"k": "string"}))
        yield table


def rows(version, statement, **options):
    return version.sql(statement, **options).to_arrow().to_pylist()


def test_the_name_reads_the_version_and_a_clause_another(trips):
    assert rows(trips.at(2), "SELECT * FROM Trips") == [{"city": "rome", "fare": 1.0}]
    assert rows(trips.at(2), "SELECT count(*) AS n FROM trips VERSION AS OF 3") == [{"n": 2}]
    assert rows(trips.at(), "SELECT city FROM trips WHERE fare > :least", params={"least": 1}) == [{"city": "bern"}]


def test_no_other_table_is_there_and_nothing_is_written(trips):
    with pytest.raises(sl.NotFound, match="no table 'other'"):
        trips.at().sql("SELECT * FROM other")
    with pytest.raises(sl.InvalidInput):
        trips.at().sql("DROP TABLE trips")


def test_rows_have_places_unless_they_are_processed(trips):
    found = trips.at().sql('SELECT city, "sleeper:file" AS file, "sleeper:position" AS at FROM trips', row_places=True)
    names = found.sources[0].plan.filenames
    placed = {row["city"]: (names[row["file"]], row["at"]) for row in found.to_arrow().to_pylist()}
    assert {name for name, _ in placed.values()} == set(names)
    assert {at for _, at in placed.values()} == {0}
    trips.set_properties({"sleeper.table.aggregations": "sum(fare)"})
    with pytest.raises(sl.InvalidInput, match="are processed, so they have no places"):
        trips.at().sql("SELECT * FROM trips", row_places=True)
