"""SQL of the explorer: what is run, what is only planned, pages, charts, errors in place, and what may come next."""

from __future__ import annotations

import json
import threading

import pytest

import sleeper_nb as sl
from sleeper_nb.progress import Watch
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.request_lanes import failure_of
from sleeper_nb.widgets.sql_answers import SqlAnswers
from tests.widgets.conftest import HOSTILE

COUNTS = "SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier"
ENDLESS = "SELECT a.range FROM range(100000000) a, range(100000) b WHERE a.range * b.range % 7 = 3"


@pytest.fixture
def answers(session):
    made = SqlAnswers(OpenTables(session))
    yield made
    made.close()


def asked(answers, text, version=3, watch=None):
    """Return the answer to a statement, as it goes to the page."""
    request = {"table": "flights", "version": version, "text": text}
    return json.loads(json.dumps(answers.sql(request, watch or Watch())))


def plan(answers, text):
    answer = asked(answers, text)
    assert answer["kind"] == "plan"
    return answer["plan"]


def drawn(answers, mark="", x="", y="", color="", watch=None):
    request = {"mark": mark, "x": x, "y": y, "color": color}
    return json.loads(json.dumps(answers.chart(request, watch or Watch())))


def page(answers, first, count):
    return json.loads(json.dumps(answers.page({"first": first, "count": count}, Watch())))


def offered(answers, typed, after="", table=""):
    """Return what may come after what is typed, by its kind."""
    at = len(typed.encode("utf-16-le")) // 2
    found = json.loads(json.dumps(answers.complete({"text": typed + after, "at": at, "table": table}, Watch())))
    return found["from"], [(each["label"], each["kind"]) for each in found["options"]]


# What is run.


def test_a_query_reads_the_chosen_version_and_its_line_gives_the_same(session, answers, shell):
    answer = asked(answers, COUNTS)
    assert answer["kind"] == "rows"
    assert answer["rows"] == [["AA", "30"], ["DL", "30"], ["WN", "30"]]
    assert answer["columns"] == [
        {"name": "carrier", "type": "string", "kind": "string"},
        {"name": "n", "type": "long", "kind": "integer"},
    ]
    assert (answer["last"], answer["seconds"] >= 0) == (True, True)
    assert answer["source"].startswith("flights at snapshot 3 · duckdb")
    assert asked(answers, COUNTS, version=2)["rows"][0] == ["AA", "10"]
    shell.push({"session": session})
    shell.run_line_magic("sleeper", "use $session")
    _, _, cell = answer["line"].partition("\n")
    result = shell.run_cell_magic("sleeper", "sql --engine duckdb", cell)
    assert result.to_arrow()["n"].to_pylist() == [30, 30, 30]


def test_a_version_that_the_statement_names_is_read(answers):
    assert asked(answers, "SELECT count(*) FROM flights@2")["rows"] == [["30"]]
    both = "SELECT (SELECT count(*) FROM flights), (SELECT count(*) FROM flights VERSION AS OF 4)"
    assert asked(answers, both)["rows"] == [["90", "180"]]


def test_cells_are_exact_texts_and_null_is_none(answers):
    statement = (
        "SELECT 9007199254740993 AS i, 1.50::DECIMAL(5, 2) AS d, NULL AS n, '' AS e, 'NULL' AS t, repeat('x', 999)"
    )
    (row,) = asked(answers, statement)["rows"]
    assert row[:5] == ["9007199254740993", "1.50", None, "", "NULL"]
    assert row[5] == {"cut": "x" * 200, "length": 999}
    assert answers.cell({"row": 0, "column": "repeat('x', 999)"}, Watch())["tree"] == {"text": "x" * 999}


def test_values_are_trees(answers):
    asked(answers, "SELECT {'a': [1, NULL], 'b': '<b>'} AS s")
    assert answers.cell({"row": 0, "column": "s"}, Watch())["tree"] == {
        "text": "struct of 2",
        "items": [
            ["a", {"text": "list of 2", "items": [["0", {"text": "1"}], ["1", {"text": "NULL"}]], "more": ""}],
            ["b", {"text": "<b>"}],
        ],
        "more": "",
    }
    with pytest.raises(sl.InvalidInput, match="no row 1 with a column 's'"):
        answers.cell({"row": 1, "column": "s"}, Watch())


def test_columns_of_one_name_and_of_types_that_no_table_has_are_told_apart(answers):
    answer = asked(answers, "SELECT 1 AS n, 2 AS n, INTERVAL 1 DAY AS i, [1] AS l, now() AS t")
    assert [each["name"] for each in answer["columns"]] == ["n", "n (2)", "i", "l", "t"]
    assert [each["kind"] for each in answer["columns"]] == ["integer", "integer", "string", "nested", "timestamp"]
    assert answer["rows"][0][:4] == ["1", "2", "1 day", "[1]"]


def test_more_rows_are_read_page_by_page_until_their_number_is_known(answers):
    answer = asked(answers, "SELECT range AS n FROM range(5000)")
    assert (len(answer["rows"]), answer["last"]) == (200, False)
    found = page(answers, 3000, 100)
    assert (found["first"], found["rows"][0], found["last"], found["total"]) == (3000, ["3000"], False, None)
    assert page(answers, 4950, 100) == {
        "first": 4950,
        "rows": [[str(n)] for n in range(4950, 5000)],
        "last": True,
        "total": 5000,
    }
    assert page(answers, 0, 1)["columns"] == answer["columns"]
    assert page(answers, 9000, 10) == {"first": 9000, "rows": [], "last": True, "total": 5000}
    with pytest.raises(sl.InvalidInput, match="take 1 to 1,000 rows"):
        page(answers, 0, 5000)


def test_an_answer_without_rows_has_its_columns(answers):
    answer = asked(answers, "SELECT carrier FROM flights WHERE false")
    assert (answer["rows"], answer["last"], len(answer["columns"])) == ([], True, 1)


def test_a_statement_that_lists_metadata_answers_with_rows(answers):
    answer = asked(answers, "DESCRIBE HISTORY flights")
    assert [row[0] for row in answer["rows"]] == ["4", "3", "2", "1"]
    assert asked(answers, "DESCRIBE flights")["rows"][0][0] == "carrier"
    asked(answers, "DESCRIBE HISTORY flights")
    with pytest.raises(sl.InvalidInput, match="no chart of a listing"):
        drawn(answers)


def test_the_last_answer_goes_with_the_next_statement(answers):
    asked(answers, COUNTS)
    with pytest.raises(sl.NotFound):
        asked(answers, "SELECT * FROM flihgts")
    with pytest.raises(sl.NotFound, match="there is no answer any more"):
        page(answers, 0, 10)


# What is only planned.


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM flights WHERE carrier = 'AA'", "Delete 60 rows from flights"),
        ("UPDATE flights SET note = 'x' WHERE carrier = 'AA'", "Update 60 rows of flights"),
        ("INSERT INTO flights SELECT * FROM flights@3", "Adds 90 rows in 3 files of 3 partitions."),
        ("INSERT OVERWRITE flights SELECT * FROM flights@2", "Deletes 180 rows."),
        (
            "MERGE INTO flights t USING flights@2 s ON t.carrier = s.carrier AND t.flight = s.flight\n"  # noqa: ISC004
            "WHEN MATCHED THEN UPDATE SET note = 'merged'",
            "Update 90 rows of flights",
        ),
        ("CREATE TABLE made (k INT) ROW KEYS (k)", "Creates table made with 0 rows in 1 partition."),
        (
            "CREATE TABLE copied ROW KEYS (carrier) AS SELECT * FROM flights@4",
            "Creates table copied with 180 rows in 1 partition.",
        ),
        ("CREATE TABLE copied AS SELECT * FROM flights@4", "Table copied needs ROW KEYS (…)"),
        ("DROP TABLE airports", "Deletes for good: 0 rows"),
        ("TRUNCATE TABLE flights", "Would delete all contents of table flights."),
        ("ALTER TABLE flights ADD COLUMN delay INT", "Adds delay int?."),
        ("ALTER TABLE flights RENAME TO trips", "RENAME TO has no dry run."),
        ("COMMENT ON TABLE flights IS 'all of them'", "Adds comment: all of them."),
        ("CALL sys.rollback('flights', 2)", "Rows: 180 now, 30 after."),
        ("CALL sys.rollback('flights', 2, dry_run => FALSE)", "Rows: 180 now, 30 after."),
        ("CALL sys.drop('flights', force => TRUE, dry_run => FALSE)", "Drop table flights?"),
        ("CALL sys.create_savepoint('flights', 'now')", "Procedure 'create_savepoint' has no dry run."),
        ("CREATE TEMP VIEW v AS SELECT 1", "The statement changes view 'v' and reads no rows."),
    ],
)
def test_a_statement_that_changes_something_shows_its_plan_and_changes_nothing(session, answers, statement, says):
    before = state_of(session)
    found = plan(answers, statement)
    assert any(each.startswith(says) for each in [found["title"], *found["sentences"]]), found
    assert found["line"].startswith("%%sleeper sql --engine duckdb")
    assert found["line"].endswith(statement)
    assert all(not each[0].islower() and each.endswith(".") for each in found["sentences"])
    assert "nothing was changed" not in " ".join(found["sentences"])
    assert state_of(session) == before
    assert asked(answers, COUNTS)["rows"][0] == ["AA", "30"]
    with pytest.raises(sl.NotFound):
        session.sql("FROM v", engine="duckdb").to_arrow()


def state_of(session):
    flights = session.table("flights")
    return session.tables().to_arrow(), flights.at().resolved, len(flights.savepoints())


@pytest.mark.parametrize(
    ("statement", "danger", "force"),
    [
        ("DELETE FROM flights WHERE carrier = 'AA'", True, False),
        ("DELETE FROM flights", True, True),
        ("DROP TABLE flights", True, True),
        ("INSERT INTO flights SELECT * FROM flights@3", False, False),
        ("ALTER TABLE flights ADD COLUMN delay INT", False, False),
    ],
)
def test_what_takes_rows_away_looks_dangerous_and_what_is_confirmed_says_so(answers, statement, danger, force):
    found = plan(answers, statement)
    assert (found["danger"], "--force" in found["line"], found["possible"]) == (danger, force, True)
    assert found["button"] == (f"Insert {statement.split()[0]} cell" if danger else "Insert cell")


def test_a_plan_that_does_nothing_is_not_possible(answers):
    assert not plan(answers, "DELETE FROM flights WHERE carrier = 'nobody'")["possible"]
    assert not plan(answers, "CREATE TABLE copied AS SELECT * FROM flights")["possible"]
    refused = plan(answers, "INSERT INTO flights SELECT NULL, 1, 'x'")
    assert (refused["possible"], refused["sentences"][0]) == (
        False,
        "Would add nothing, as the rows do not fit the table.",
    )


def test_a_plan_does_not_repeat_its_title(answers):
    found = plan(answers, "DELETE FROM flights WHERE carrier = 'AA'")
    assert found["title"] == "Delete 60 rows from flights"
    assert not any("60 rows" in each for each in found["sentences"])


# Errors.


@pytest.mark.parametrize(
    ("statement", "word", "says"),
    [
        ("SELECT nope FROM flights", "nope", 'column "nope" not found'),
        ("SELECT * FROM flights JOIN flihgts USING (carrier)", "flihgts", "no table 'flihgts'"),
        ("SELECT '\U0001f600', flight\nFROM flights JOIN flights AS b ON b.nope = 1", "b", "nope"),
        ("SELEC 1", "SELEC", "syntax error"),
        ("DELETE FROM flights WHERE nope = 1", "nope", "nope"),
        ("DROP TABLE flihgts", "flihgts", "no table"),
        ("COPY flights TO 'x.csv'", "COPY", "there is no COPY"),
    ],
)
def test_an_error_has_its_place_in_the_statement_as_it_was_typed(answers, statement, word, says):
    with pytest.raises(sl.SleeperError) as caught:
        asked(answers, statement)
    failure = failure_of(caught.value, statement)
    assert says in failure["message"]
    units = statement.encode("utf-16-le")
    begin, end = failure["place"]["from"], failure["place"]["to"]
    assert units[2 * begin : 2 * end].decode("utf-16-le") == word
    assert failure["hint"] or says == "syntax error"  # at which DuckDB has nothing to propose


def test_an_empty_statement_and_one_that_cannot_be_read_say_so(answers):
    with pytest.raises(sl.InvalidInput, match="there is no statement"):
        asked(answers, " \n")
    with pytest.raises(sl.InvalidInput, match="never closed"):
        asked(answers, "SELECT 'abc")


# Cancel.


def test_a_cancelled_query_stops(answers):
    watch = Watch()
    threading.Timer(0.3, watch.cancel).start()
    with pytest.raises(sl.Cancelled):
        asked(answers, ENDLESS.replace("a.range FROM", "count(*) FROM"), watch=watch)


def test_a_cancelled_chart_stops_and_the_rows_go_on(answers):
    asked(answers, ENDLESS)
    watch = Watch()
    threading.Timer(0.3, watch.cancel).start()
    with pytest.raises(sl.Cancelled):
        drawn(answers, "hist", "range", watch=watch)
    assert len(page(answers, 300, 10)["rows"]) == 10


def test_a_page_that_is_being_read_ends_with_the_next_statement(answers):
    asked(
        answers,
        "SELECT range FROM range(3000) UNION ALL (SELECT 1 FROM range(100000000) a, range(100000) b WHERE a.range < 0)",
    )
    failed, began = [], threading.Event()

    def read():
        began.set()
        try:
            page(answers, 2990, 100)
        except sl.Cancelled as error:
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    began.wait(30)
    assert asked(answers, "SELECT 1")["rows"] == [["1"]]
    thread.join(60)
    assert len(failed) == 1


# Charts.


def test_a_chart_has_points_axes_and_the_line_that_draws_it(session, answers, shell):
    asked(answers, COUNTS)
    chart = drawn(answers)
    assert (chart["mark"], chart["title"]) == ("bar", "n by carrier")
    assert chart["x"] == {"label": "carrier", "kind": "name", "order": ["AA", "DL", "WN"]}
    assert (chart["y"], chart["color"]) == ({"label": "n"}, None)
    assert chart["points"] == [{"x": "AA", "y": 30}, {"x": "DL", "y": 30}, {"x": "WN", "y": 30}]
    assert chart["notes"] == []
    chart = drawn(answers, "bar", "carrier", "n", "carrier")
    head, _, cell = chart["line"].partition("\n")
    assert head == "%%sleeper sql --engine duckdb --plot bar -x carrier -y n --color carrier"
    shell.push({"session": session})
    shell.run_line_magic("sleeper", "use $session")
    made = shell.run_cell_magic("sleeper", head.removeprefix("%%sleeper "), cell)
    assert made.to_dict()["n"] == [each["y"] for each in chart["points"]]


def test_times_numbers_and_ranges_have_their_places(answers):
    asked(answers, "SELECT TIMESTAMP '2026-01-01' + INTERVAL (range) DAY AS day, range AS n FROM range(3)")
    chart = drawn(answers)
    assert (chart["mark"], chart["x"]["kind"]) == ("line", "time")
    assert chart["points"][1] == {"x": 1767312000000.0, "y": 1}
    asked(answers, "SELECT range::DOUBLE AS n FROM range(300)")
    chart = drawn(answers)
    assert (chart["mark"], chart["x"]["kind"], chart["y"]["label"], len(chart["points"])) == (
        "hist",
        "number",
        "rows",
        30,
    )
    assert chart["points"][0]["x2"] == chart["points"][1]["x"]
    assert sum(each["y"] for each in chart["points"]) == 300


def test_areas_stand_on_each_other_and_many_colours_become_others(answers):
    asked(answers, "SELECT range // 14 AS x, 'c' || (range % 14) AS c, 1 + range % 3 AS y FROM range(139)")
    chart = drawn(answers, "area", "x", "y", "c")
    names = ["c0", "c1", "c10", "c11", "c12", "c2", "c3", "c4", "c5", "c6", "4 others"]
    assert (chart["color"]["label"], len(chart["color"]["order"]), chart["color"]["order"][-1]) == ("c", 11, names[-1])
    assert len(chart["points"]) == 11 * 10  # each colour has a height at each place
    assert sum(each["y"] for each in chart["points"]) == sum(1 + n % 3 for n in range(139))
    assert chart["notes"] == []


def test_colours_have_the_same_order_whatever_the_order_of_the_rows(answers):
    orders = []
    for direction in ("ASC", "DESC"):
        asked(answers, f"SELECT flight, carrier, flight AS y FROM flights ORDER BY carrier {direction}, flight")
        orders.append(drawn(answers, "line", "flight", "y", "carrier")["color"]["order"])
    assert orders == [["AA", "DL", "WN"]] * 2
    asked(answers, "SELECT range AS x, range AS y, range % 20 AS shade FROM range(100)")
    shades = drawn(answers, "dot", "x", "y", "shade")["color"]["order"]
    assert shades == ["0 to 3", "3 to 7", "7 to 11", "11 to 15", "15 to 19"]


def test_many_rows_are_summed_up_by_the_engine_and_notes_say_so(answers):
    asked(answers, "SELECT range AS x, range % 7 AS y FROM range(3000)")
    chart = drawn(answers, "dot", "x", "y")
    assert sum(each["rows"] for each in chart["points"]) == 3000
    assert any("counted in rectangles" in note for note in chart["notes"])
    asked(answers, "SELECT range AS x, range % 7 AS y FROM range(30000)")
    chart = drawn(answers, "line", "x", "y")
    assert all(each["low"] <= each["y"] <= each["high"] for each in chart["points"])
    asked(answers, "SELECT 'v' || range AS name, 1 AS y FROM range(100)")
    assert len(drawn(answers, "bar", "name", "y")["points"]) == 60


def test_a_choice_of_columns_that_are_gone_and_of_no_mark(answers):
    asked(answers, COUNTS)
    assert drawn(answers, "bar", "gone", "gone", "gone")["title"] == "n by carrier"
    assert drawn(answers, "hist", "n", "n")["mark"] == "hist"
    with pytest.raises(sl.NotFound, match="no mark 'pie'"):
        drawn(answers, "pie")
    asked(answers, "SELECT note, carrier FROM flights LIMIT 3")
    with pytest.raises(sl.InvalidInput):
        drawn(answers, "line")
    assert len(page(answers, 0, 10)["rows"]) == 3


# Completion.


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("SELECT * FROM fl", ("flights", "table")),
        ("SELECT * FROM flights WHERE car", ("carrier", "column")),
        ("SELECT flights.", ("carrier", "column")),
        ("SELECT flights.no", ("note", "column")),
        ("SELECT * FROM flights@h", ("half-year", "version")),
        ("SELECT * FROM flights@", ("half-year", "version")),
        ("SELECT * FROM flights VERSION AS OF '", ("savepoint.half-year", "version")),
        ("SELECT * FROM flights VERSION AS OF ", ("4", "version")),
        ("SELECT * FROM flights$sn", ("snapshots", "table")),
        ("sel", ("SELECT", "keyword")),
        ("SELECT avg(fli", ("flight", "column")),
        ("SELECT date_t", ("date_trunc", "function")),
        ("SELECT '\U0001f600', car", ("carrier", "column")),
    ],
)
def test_what_comes_first_for_the_end_of_what_is_typed(answers, typed, first):
    begins, options = offered(answers, typed, table="flights")
    assert options[0] == first
    units = typed.encode("utf-16-le")
    begun = units[2 * begins :].decode("utf-16-le")
    assert typed.endswith(begun)
    assert first[0].casefold().startswith(begun.casefold())


@pytest.mark.parametrize(
    "typed",
    ["SELECT * FROM nothing@", "SELECT * FROM nothing.", "SELECT :", "SELECT ", "", HOSTILE, f"SELECT {'a' * 200_000}"],
)
def test_nothing_is_offered_where_nothing_fits(answers, typed):
    assert offered(answers, typed)[1] == []


def test_names_are_quoted_where_sql_needs_it_and_what_is_offered_fits_into_the_text(session, answers):
    session.create_table("us-flights", sl.Schema(row_keys={"k": "int"}, values={}))
    found = answers.complete({"text": "SELECT * FROM us", "at": 16}, Watch())
    assert found["from"] == 14
    assert {"label": "us-flights", "apply": '"us-flights"', "kind": "table"} in found["options"]
    found = answers.complete({"text": "SELECT av", "at": 9}, Watch())
    assert found["options"][0]["apply"] == "avg("
    text = "SELECT * FROM flights VERSION AS OF 'savepoint.h"
    found = answers.complete({"text": text, "at": len(text)}, Watch())
    assert found["options"] == [{"label": "savepoint.half-year", "apply": "savepoint.half-year'", "kind": "version"}]


def test_columns_are_those_of_tables_that_are_named_anywhere_and_of_the_one_that_is_shown(answers):
    assert ("carrier", "column") in offered(answers, "SELECT car", " FROM flights")[1]
    assert ("faa", "column") in offered(answers, "SELECT fa", " FROM airports")[1]
    assert ("faa", "column") not in offered(answers, "SELECT fa", " FROM flights", table="flights")[1]
    assert ("carrier", "column") in offered(answers, "SELECT car", table="flights")[1]
    assert offered(answers, "SELECT car", table="gone")[1] == []
