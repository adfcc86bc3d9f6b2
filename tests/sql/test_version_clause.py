"""The version clause from the statement to the answer, on both engines: forms, places, moments, what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from tests.support.combinations import few_on_spark
from tests.support.engines import DUCKDB_FIRST, ENGINES, answer

START = datetime(2026, 10, 24, 23, tzinfo=UTC)


@pytest.fixture
def session(tmp_path, request):
    """Table `Trips`: snapshots 1 to 5 an hour apart, from 23:00 UTC on the night when London puts clocks back at 01:00.

    Snapshot n has n - 1 rows; savepoint 1 `fix` is of snapshot 2.
    """
    spark = request.getfixturevalue("spark_engine").session() if "spark" in request.node.keywords else None
    with sl.connect(tmp_path, clock=ManualClock(START), spark=spark) as opened:
        table = opened.create_table("Trips", sl.Schema({"city": "string"}, {}, {"fare": "int?"}))
        for number in range(2, 6):
            opened._components.clock.advance(timedelta(hours=1))
            table.ingest([{"city": f"c{number}", "fare": number}])
            if number == 2:
                table.create_savepoint("fix")
        yield opened


@pytest.fixture
def expired(session):
    """The same with snapshots 4 and 5 retained, and savepoint 1 of snapshot 2."""
    catalog = session._components.catalog
    catalog.expire_snapshots(session.table("Trips").entry.id, [1, 2, 3], START)
    return session


@few_on_spark(
    ("clause", "number"),
    [
        ("", 5),
        ("@v2", 2),
        ("@fix", 2),
        ("@savepoint.1", 2),
        ("@snapshot.3", 3),
        ("@'savepoint.fix'", 2),
        ("@2026-10-25", 2),
        (" version as of savepoint.fix", 2),
        (" VERSION AS OF (1 + 2)", 3),
        (" VERSION AS OF :version", 3),
        (" FOR VERSION AS OF 'savepoint.fix'", 2),
        (" FOR SYSTEM_VERSION AS OF 'snapshot.4'", 4),
        (" AT (VERSION => 3)", 3),
        (" AT (TIMESTAMP => '2026-10-25 01:30')", 3),
        (" FOR TIMESTAMP AS OF '2026-10-25 01:00:00'", 3),
        (" FOR SYSTEM_TIME AS OF TIMESTAMP '2026-10-25 01:59:59.999999'", 3),
        (" TIMESTAMP AS OF DATE '2026-10-25'", 2),
        (" TIMESTAMP AS OF CAST('2026-10-25 02:00:00' AS TIMESTAMP)", 4),
        (" TIMESTAMP AS OF TIMESTAMP '2026-10-25 03:00:00' - INTERVAL 1 HOUR", 4),
        (" TIMESTAMP AS OF (CASE WHEN 1 = 1 THEN TIMESTAMP '2026-10-25 01:00:00' END)", 3),
        (" TIMESTAMP AS OF 1792890000", 3),  # seconds since 1970
        (" TIMESTAMP AS OF '2026-10-25 01:00:00+00:00'", 3),
        (" TIMESTAMP AS OF '2026-10-25 01:00:00+01:00'", 2),
        (" TIMESTAMP AS OF '2026-10-25 02:00:00 Europe/London'", 4),
        (" TIMESTAMP AS OF '2026-10-24 21:00:00 America/New_York'", 3),
        (" TIMESTAMP AS OF '2999-01-01'", 5),  # after the last
        (" TIMESTAMP AS OF '2026-10-24 23:00:00'", 1),  # exactly the first
    ],
    every=9,
)
def test_every_form_reads_its_version(session, engine, clause, number):
    result = session.sql(f"SELECT count(*) FROM Trips{clause}", engine=engine, params={"version": "snapshot.3"})
    assert result.to_arrow().column(0).to_pylist() == [number - 1]
    (source,) = result.sources
    assert source.resolved.snapshot_id == number


@few_on_spark(
    ("sql", "rows"),
    [
        (("SELECT a.n, b.m, c.o FROM (SELECT count(*) n FROM Trips@2) a, "
          "(SELECT count(*) m FROM Trips FOR VERSION AS OF 3) b, "
          "(SELECT count(*) o FROM Trips TIMESTAMP AS OF '2026-10-25 02:00') c"), [(1, 2, 3)]),
        (("SELECT new.city FROM Trips VERSION AS OF 5 AS new LEFT JOIN Trips FOR VERSION AS OF 4 AS old "
         "ON new.city = old.city WHERE old.city IS NULL"), [("c5",)]),
        (("WITH a AS (SELECT * FROM Trips@2), b AS (SELECT * FROM a UNION ALL SELECT * FROM Trips@3) "
         "SELECT count(*) FROM b"), [(3,)]),
        ("WITH trips AS (SELECT * FROM Trips@2) SELECT count(*) FROM trips, Trips x", [(1,)]),
        ("SELECT (SELECT count(*) FROM trips VERSION AS OF 2), (SELECT max(fare) FROM TRIPS@3)", [(1, 3)]),
        ("SELECT count(*) FROM Trips t WHERE t.city NOT IN (SELECT city FROM Trips VERSION AS OF 'savepoint.fix')",
         [(3,)]),
        ("SELECT 'x FROM Trips VERSION AS OF 1', count(*) /* Trips@1 */ FROM Trips -- VERSION AS OF 1\n",
         [("x FROM Trips VERSION AS OF 1", 4)]),
        ("SELECT count(*) FROM `Trips` VERSION AS OF `savepoint.fix` AS ab", [(1,)]),
        ("SELECT sum(n) FROM (SELECT count(*) AS n FROM Trips@2 UNION ALL SELECT count(*) FROM Trips@4)", [(4,)]),
    ],
    every=5,
)  # fmt: skip
def test_a_clause_stands_wherever_a_table_does(session, engine, sql, rows):
    assert answer(session, sql, engine) == rows


@few_on_spark(
    ("text", "number"),
    [
        ("2026-10-25 00:00:00", 2),
        ("2026-10-24 23:59:59.999999", 1),
        ("2026-10-25 02:59:59.999999", 4),
        ("2026-10-25 03:00:00", 5),
        ("2026-10-25 03:00:00.000001", 5),
    ],
)
def test_a_commit_counts_from_its_own_microsecond_on(session, engine, text, number):
    for moment in (f"TIMESTAMP '{text}'", f"'{text}'", f"'{text} UTC'")[: 1 if engine == "spark" else 3]:
        assert answer(session, f"SELECT count(*) FROM Trips TIMESTAMP AS OF {moment}", engine) == [(number - 1,)]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_answer_says_what_its_clause_resolved_to(session, engine):
    sql = "SELECT 1 AS x FROM Trips@2, Trips TIMESTAMP AS OF '2026-10-25 02:30 Europe/London', Trips@fix, Trips LIMIT 1"
    assert (
        repr(session.sql(sql, engine=engine))
        .splitlines()[-1]
        .startswith(
            "1 row · Trips at snapshot 2, Trips at snapshot 4 (newest at 2026-10-25 02:30:00 UTC), "
            f"Trips at savepoint 1 'fix', snapshot 2, Trips at snapshot 5 · {engine} · 4/4 partitions, "
        )
    )


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_where_no_snapshot_is_retained_the_closest_savepoint_answers_and_says_so(expired, engine):
    sql = "SELECT * FROM Trips TIMESTAMP AS OF '2026-10-25 00:12:00'"
    result = expired.sql(sql, engine=engine)
    assert result.to_arrow().num_rows == 1
    assert (
        repr(result)
        .splitlines()[-1]
        .startswith(
            "1 row · Trips at savepoint 1 'fix', snapshot 2 "
            f"(12 min before 2026-10-25 00:12:00 UTC, for which no snapshot is retained) · {engine} · 1/1 partitions, "
        )
    )
    assert answer(expired, "SELECT count(*) FROM Trips VERSION AS OF 2", engine) == [(1,)]


@few_on_spark(
    ("clause", "kind", "words", "hint"),
    [
        ("TIMESTAMP AS OF '2026-10-24 23:59:59.999999'", sl.NotFound, "as old as 2026-10-24 23:59:59.999999 UTC",
         "the earliest that can be reached is 2026-10-25 00:00:00 UTC"),
        ("TIMESTAMP AS OF TIMESTAMP '2026-01-01 00:00:00'", sl.NotFound, "as old as 2026-01-01 00:00:00 UTC",
         "2026-10-25 00:00:00 UTC"),
        ("VERSION AS OF 3", sl.NotFound, "no snapshot 3", "available: 2, 4–5"),
        ("VERSION AS OF 99999999999999999999", sl.NotFound, "no snapshot 99999999999999999999", "available: 2, 4–5"),
        ("VERSION AS OF 'savepoint.2'", sl.NotFound, "no savepoint '2'", "fix"),
        ("TIMESTAMP AS OF '2026-10-25 01:30 Europe/London'", sl.InvalidInput, "occurs twice in Europe/London",
         "write '2026-10-25 00:30:00 UTC' or '2026-10-25 01:30:00 UTC'"),
        ("TIMESTAMP AS OF '2026-03-29 01:30 Europe/London'", sl.InvalidInput, "does not occur",
         "2026-03-29 00:30:00 UTC"),
        ("TIMESTAMP AS OF '2026-10-25 Mars/Phobos'", sl.InvalidInput, "unknown time zone 'Mars/Phobos'",
         "Europe/London"),
        ("TIMESTAMP AS OF 99999999999999", sl.InvalidInput, "no time 99999999999999", "seconds since 1970"),
        ("TIMESTAMP AS OF NULL", sl.InvalidInput, "'NULL' after AS OF is null", "has a value"),
        ("TIMESTAMP AS OF :none", sl.NotFound, "no parameter 'none'", ""),
        ("VERSION AS OF", sl.InvalidInput, "no version in 'VERSION AS OF'", "VERSION AS OF 12"),
    ],
    every=6,
)  # fmt: skip
def test_what_cannot_be_reached_is_explained(expired, engine, clause, kind, words, hint):
    with pytest.raises(kind) as caught:
        expired.sql(f"SELECT count(*) FROM Trips {clause}", engine=engine)
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_view_of_the_session_keeps_its_versions_and_follows_where_it_names_none(session, engine):
    made = session.sql(
        "CREATE TEMP VIEW grown AS SELECT new.city FROM Trips new LEFT JOIN Trips VERSION AS OF 'savepoint.fix' old "
        "ON new.city = old.city WHERE old.city IS NULL;",
        engine=engine,
    )
    assert made.to_dict() == {"view": ["grown"]}
    assert answer(session, "SELECT count(*) FROM grown", engine) == [(3,)]
    session.table("Trips").ingest([{"city": "c6", "fare": 6}])
    result = session.sql("SELECT count(*), max(g.city) FROM Grown g JOIN Trips@2 ON TRUE", engine=engine)
    assert list(result.to_dict().values()) == [[4], ["c6"]]
    footer = repr(result).splitlines()[-1]
    assert "Trips at snapshot 6, Trips at savepoint 1 'fix', snapshot 2, Trips at snapshot 2" in footer


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_views_are_made_of_views_replaced_and_dropped(session, engine):
    def run(sql):
        return session.sql(sql, engine=engine).to_dict()

    run("create temporary view a (x) as select city from Trips@3 where fare > 0 -- all\n")
    run("CREATE TEMP VIEW b AS WITH w AS (SELECT * FROM a) SELECT count(*) AS n FROM w, Trips@2")
    assert run("SELECT n FROM b") == {"n": [2]}
    run("CREATE TEMP VIEW IF NOT EXISTS a AS SELECT * FROM Trips")
    with pytest.raises(sl.AlreadyExists, match="view 'A' already exists"):
        run("CREATE TEMP VIEW A AS SELECT * FROM Trips")
    run("CREATE OR REPLACE TEMP VIEW a AS SELECT * FROM Trips@4")
    assert run("SELECT n FROM b") == {"n": [3]}
    for sql, words in (
        ("SELECT * FROM a VERSION AS OF 2", "view 'a' has no versions"),
        ("CREATE TEMP VIEW c AS SELECT * FROM Trips WHERE fare = :fare", "'c' cannot have parameters"),
        ("CREATE VIEW c AS SELECT * FROM Trips", "permanent views are not supported"),
        ("CREATE OR REPLACE TEMP VIEW Trips AS SELECT * FROM Trips@2", "cannot change table 'Trips'"),
    ):
        with pytest.raises(sl.InvalidInput) as caught:
            run(sql)
        assert words in caught.value.message
    for query in ("SELECT nothing FROM Trips", "SELECT * FROM a"):  # a view never means itself
        with pytest.raises(sl.SleeperError):
            run(f"CREATE OR REPLACE TEMP VIEW a AS {query}")
    assert run("SELECT n FROM b") == {"n": [3]}
    assert run("DROP VIEW IF EXISTS b") == {"view": ["b"]}
    with pytest.raises(sl.SleeperError):
        run("SELECT * FROM b")


def test_a_view_is_known_to_the_engine_that_made_it(session):
    session.sql("CREATE TEMP VIEW a AS SELECT * FROM Trips", engine="duckdb")
    with pytest.raises(sl.NotFound, match="no view 'b'"):
        session.sql("DROP VIEW b", engine="duckdb")
    assert session.sql("DROP VIEW a", engine="duckdb").to_dict() == {"view": ["a"]}


@pytest.mark.spark
def test_views_that_read_no_table_of_ours_are_kept_too(session):
    session.sql("CREATE OR REPLACE TEMP VIEW own AS SELECT 7 AS seven", engine="spark")
    assert answer(session, "SELECT seven, count(*) FROM own, Trips@3 GROUP BY 1", "spark") == [(7, 2)]
    assert session.sql("DROP VIEW own", engine="spark").to_dict() == {"view": ["own"]}
