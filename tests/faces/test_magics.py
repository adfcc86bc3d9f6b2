"""``%sleeper`` as a user types it, in a real IPython shell."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.completer import context_matcher, provisionalcompleter
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from magics.sleeper import NAME
from sleeper_nb.clock import ManualClock
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.start import Causes
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from tests.support.builders import InterruptedAfter, three_leaves

OF_INSTANCES = ("storage.sync", "statestore.dynamodb.transaction.max.items", "statestore.dynamodb.tables")
CREATE = "%%sleeper create trips --splits g,n\ncity STRING KEY\npickup TIMESTAMP SORT, fare DOUBLE NULL"


@pytest.fixture
def run(shell):
    """Run a cell and return its value; nothing else may be shown."""

    def run_cell(source):
        with capture_output() as said:
            answer = shell.run_cell(source)
        answer.raise_error()
        shown = "" if answer.result is None else repr(answer.result)
        assert said.stdout.removeprefix("Out[0]: ").strip() == shown
        assert said.stderr == ""
        return answer.result

    return run_cell


@pytest.fixture
def fail(shell):
    """Run a cell that must fail, and return its error; one to three lines are shown, and its place in a statement."""

    def run_cell(source):
        with capture_output() as said:
            answer = shell.run_cell(source)
        assert isinstance(answer.error_in_exec, SleeperError), answer
        place = answer.error_in_exec.place.splitlines()
        assert 1 <= len((said.stdout + said.stderr).strip().splitlines()) <= 3 + len(place)
        return answer.error_in_exec

    return run_cell


@pytest.fixture
def trips(run, shell):
    """A warehouse with a table of three leaves, two snapshots with rows, and a savepoint of the first of them."""
    moment = pd.Timestamp("2026-01-01", tz="UTC")
    shell.user_ns["df"] = pd.DataFrame({"city": ["Zagreb", "athens", "lima"], "pickup": moment, "fare": [2.5, 1.5, 9]})
    run("%sleeper use './a warehouse'")
    run(CREATE)
    run('%sleeper ingest trips $df -m "first rows"')
    run("%sleeper create-savepoint trips --name before-fix -m 'it is kept'")
    run("%sleeper ingest trips $df $df")
    return run


def test_every_command_gives_its_value(trips):
    assert trips("%sleeper use './a warehouse'").tables == ("trips",)
    assert [table.name for table in trips("%sleeper tables")] == ["trips"]
    assert trips("%sleeper describe trips").to_dict()["table"]["version"] == 3
    assert trips("%sleeper describe trips@2 --fields").to_dict()["role"] == ["row key", "sort key", "value"]
    assert [s.message for s in trips("%sleeper history trips")] == [None, "first rows", None]
    assert [s.name for s in trips("%sleeper savepoints trips")] == ["before-fix"]
    assert len(trips("%sleeper files trips@2")) < len(trips("%sleeper files trips"))
    assert len(trips("%sleeper partitions trips")) == 3
    assert trips("%sleeper scan trips --columns city,fare --where \"city = 'lima'\" --limit 2").to_dict() == {
        "city": ["lima"] * 2,
        "fare": [9.0] * 2,
    }
    assert trips("%sleeper scan trips@before-fix lima --columns fare").to_dict() == {"fare": [9.0]}
    assert trips("%sleeper inspect trips select count(*) as n from snapshots").to_dict() == {"n": [3]}
    assert trips("%%sleeper inspect trips@1\nselect count(*) as n\nfrom files").to_dict() == {"n": [0]}
    assert trips("least = 2") is None
    assert trips(
        "%sleeper inspect trips select max(snapshot_id) as n from snapshots where snapshot_id < :least"
    ).to_dict() == {"n": [1]}
    assert trips("%sleeper compact trips --strategy all --dry-run").snapshots == ()
    assert trips("%sleeper compact trips --strategy all --engine local").rows == 9
    assert trips("%sleeper expire trips").dry_run
    assert not trips("%sleeper expire trips --force").dry_run
    assert trips("%sleeper expire trips --force --dry-run").dry_run
    assert trips("%sleeper collect-garbage trips").dry_run
    assert not trips("%sleeper collect-garbage trips --force").dry_run
    assert trips("%sleeper delete-savepoint trips --name before-fix").id == 1
    assert len(trips("%sleeper savepoints trips")) == 0


def test_the_last_hold_on_a_version_is_let_go_only_with_force(trips):
    assert trips("%sleeper delete-savepoint trips --id 1 --dry-run").dry_run
    trips("%sleeper create-savepoint trips")
    assert not trips("%sleeper delete-savepoint trips --id 2").dry_run
    trips("%sleeper compact trips --strategy all --engine local")
    table = trips("%sleeper tables")[0]
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    listed = trips("%sleeper savepoints trips --bytes").to_dict()
    assert (listed["keeps alone: files"], listed["made"], listed["message"]) == ([2], ["by hand"], ["it is kept"])
    plan = trips("%sleeper delete-savepoint trips --name before-fix")
    assert (plan.dry_run, plan.files, plan.bytes, plan.others) == (True, 2, listed["bytes"][0].count, ())
    assert "would be gone: nothing else keeps it" in repr(plan)
    assert "nothing was changed; %sleeper delete-savepoint trips --name before-fix --force does it" in repr(plan)
    assert len(trips("%sleeper savepoints trips")) == 1
    done = trips("%sleeper delete-savepoint trips --name before-fix --force")
    assert (done.dry_run, done.files) == (False, 2)
    assert "is gone: nothing else keeps it" in repr(done)
    assert len(trips("%sleeper savepoints trips")) == 0


def test_a_bare_line_shows_text_and_html_and_an_assignment_shows_nothing(trips, shell):
    shown, _ = shell.display_formatter.format(trips("%sleeper history trips"))
    assert set(shown) == {"text/plain", "text/html"}
    assert shown["text/plain"].startswith("history of trips")
    assert "<table" in shown["text/html"]
    assert trips("x = %sleeper history trips") is None
    assert len(shell.user_ns["x"]) == 3


def test_several_lines_of_a_cell_all_show_their_answers(trips, shell):
    with capture_output() as said:
        answer = shell.run_cell("%sleeper tables\nx = %sleeper status trips\n%sleeper history trips\n2 + 1")
    shown = [output.data["text/plain"] for output in said.outputs]
    assert answer.result == 3
    assert len(shown) == 2
    assert shown[0].startswith("table")
    assert "snapshot" in shown[1]
    assert shell.run_cell("for _ in range(2):\n    %sleeper tables\n1").success


def test_an_answer_of_none_is_not_shown(trips, shell, monkeypatch):
    monkeypatch.setattr("sleeper_nb.commands.parse.Invocation.run", lambda *_: None)
    with capture_output() as said:
        shell.run_cell("%sleeper tables\n%sleeper tables").raise_error()
    assert said.outputs == []
    assert said.stdout == ""


def test_the_newest_snapshots_are_listed_below_the_picture_of_all(trips, fail):
    history = trips("%sleeper history trips --limit 2")
    assert [snapshot.id for snapshot in history] == [3, 2]
    assert history.grid().footer == "the newest 2 of 3 snapshots"
    assert "rows at 3 versions" in history.picture
    assert trips("%sleeper history trips --limit 3").grid().footer == ""
    assert fail("%sleeper history trips --limit 0").hint == "give a limit of 1 or more"


def test_versions_are_compared_as_typed(trips):
    for typed in ("trips before-fix", "trips@2", "trips 2 3", "trips@before-fix 3", "trips v2 snapshot.3"):
        assert trips(f"%sleeper diff {typed}").rows == (6, 0)
    assert trips("%sleeper diff trips 3 2").rows == (0, 6)
    rows = trips("%sleeper diff trips 2 --rows --limit 4")
    assert rows.to_dict()["change"] == ["added"] * 4
    assert "first 4 of 6 rows · added and removed from snapshot 2 to snapshot 3 of trips · " in repr(rows)
    assert rows.to_dict()["city"] == ["Zagreb", "Zagreb", "athens", "athens"]


def test_a_version_is_shown_with_its_commit_and_its_first_rows(trips):
    shown = trips("%sleeper describe trips@2")
    assert shown.to_dict()["version"]["message"] == "first rows"
    assert shown.to_dict()["table"]["rows"] == 3
    assert shown.to_dict()["rows"]["city"] == ["Zagreb", "athens", "lima"]
    assert repr(shown).splitlines()[0] == "snapshot 2"
    assert "table trips" in repr(shown)
    assert shown._repr_html_().count("<table") == 3
    assert repr(trips("%sleeper describe trips@before-fix")).startswith("savepoint 1 'before-fix'")
    assert trips("%sleeper describe trips").to_dict()["version"]["id"] == 3


@pytest.mark.parametrize(
    ("reference", "rows"),
    [("", 9), ("@2", 3), ("@v2", 3), ("@savepoint.1", 3), ("@before-fix", 3), ("@2100-01-01T10:00", 9)],
)
def test_every_way_to_name_a_version(trips, reference, rows):
    assert trips(f"%sleeper scan trips{reference}").count() == rows


def test_sql_of_lines_and_cells_on_duckdb(trips, shell):
    assert trips("%sleeper sql --engine duckdb select count(*) as n from trips").to_dict() == {"n": [9]}
    shell.run_cell("%config SleeperMagics.engine = 'duckdb'")
    assert trips("%sleeper sql select count(*) as n from trips@before-fix").to_dict() == {"n": [3]}
    result = trips("%%sleeper sql -o kept\nselect count(*) as n\nfrom trips version as of 'savepoint.1' -- it's old\n")
    assert shell.user_ns["kept"] is result
    assert result.to_dict() == {"n": [3]}


def test_sql_reaches_the_engine_as_it_was_typed(trips, shell):
    shell.user_ns["y"] = "expanded"
    answer = trips("%sleeper sql --engine duckdb select 'it''s {y} $y' as \"a b\", [1, 2] as l, "
                   "$$it's -> {y}$$ as m -- ' comment")  # fmt: skip
    assert answer.to_dict() == {"a b": ["it's {y} $y"], "l": [[1, 2]], "m": ["it's -> {y}"]}


def test_parameters_are_bound_by_value(trips, shell, fail):
    shell.user_ns["name"] = "lima' or 1=1 --"
    query = "%sleeper sql --engine duckdb select count(*) as n from trips where city = :name"
    assert trips(query).to_dict() == {"n": [0]}
    shell.user_ns["name"] = "lima"
    assert trips(query).to_dict() == {"n": [3]}
    error = fail(query.replace(":name", ":nam"))
    assert (error.message, error.hint.startswith("did you mean")) == ("no parameter 'nam'", True)


def test_variables_are_whole_words_and_never_text(trips, shell, fail):
    assert "df" in fail("%sleeper ingest trips $dff").hint
    shell.user_ns["file"] = shell.user_ns["df"]
    shell.user_ns["df"].to_csv("my rows.csv", index=False)
    assert trips('%sleeper ingest trips "my rows.csv"').rows == 3
    assert isinstance(fail("%sleeper ingest trips {file}.csv"), NotFound)


def test_several_sources_are_one_commit_or_none(trips, shell, fail):
    before = len(trips("%sleeper history trips"))
    fail("%sleeper ingest trips $df nothing.csv")
    assert len(trips("%sleeper history trips")) == before


@pytest.mark.parametrize(
    ("cell", "message", "hint"),
    [
        ("%sleeper descirbe trips", "no command 'descirbe'", "did you mean 'describe'?"),
        ("%sleeper describe trps", "no table 'trps'", "did you mean 'trips'?"),
        ("%sleeper describe trips@9", "no snapshot 9 of table 'trips'", "available: 1–3"),
        ("%sleeper files trips@befor-fix", "no savepoint 'befor-fix' of table 'trips'", "did you mean 'before-fix'?"),
        ("%sleeper scan trips --columns fair", "no column 'fair'", "did you mean 'fare'?"),
        ("%sleeper compact trips --dry", "compact has no option '--dry'", "did you mean '--dry-run'?"),
        ("%sleeper sql --engine duckdb select * from trps", "no table 'trps'", "did you mean 'trips'?"),
        ("%sleeper sql --engine duckdb -o a-b select 1", "'a-b' is not a valid variable name", "use letters, digits"),
        ("%sleeper scan trips a b", "2 values are too many for a key of 'trips'", "its row keys are city string"),
        ("%sleeper scan trips a --region city=b", "scan takes a key or --region, not both", "leave one of them out"),
        ("%sleeper scan trips --region town=[a,b)", "'town' is not a row key", "the row keys are city"),
        ("%sleeper scan trips --region 'city=[a b)'", "cannot read the region at 'city=[a b)'", "write key=[min,max)"),
        ("%sleeper delete-savepoint trips", "name one savepoint", "%sleeper delete-savepoint trips NAME"),
        (
            "%sleeper delete-savepoint trips --id 7",
            "no savepoint '7' of table 'trips'",
            "available: before-fix, savepoint.1",
        ),
        ("%sleeper diff trips", "diff compares two versions, not 0", "%sleeper diff trips 12 15; without the second"),
        ("%sleeper diff trips@1 2 3", "diff compares two versions, not 3", "%sleeper diff trips 12 15"),
        ("%sleeper diff trips 1 --limit 3", "--limit needs --rows", "leave it out, or write diff --rows --limit N"),
        ("%sleeper diff trips befor-fix", "no savepoint 'befor-fix' of table 'trips'", "did you mean 'before-fix'?"),
        ("%sleeper compare trips 1", "no command 'compare'", "did you mean 'diff'?"),
        ("%sleeper history trips@2", "this works on the current version, not on '2'", "leave out @2"),
        ("%%sleeper tables\nx", "tables takes no lines below it", "write %sleeper tables"),
        (CREATE, "table 'trips' already exists", "choose another name"),
    ],
)
def test_errors_fail_the_cell_in_a_few_lines(trips, fail, cell, message, hint):
    error = fail(cell)
    assert error.message == message
    assert error.hint.startswith(hint)


@pytest.mark.parametrize("command", ["scan"])
def test_rows_of_a_region_are_shown_or_explained(trips, command):
    line = f"%sleeper {command} trips --region city=[a,m) --columns city,fare"
    assert sorted(trips(line).to_dict()["city"]) == ["athens"] * 3 + ["lima"] * 3
    assert trips(f'{line} --where "fare > 2" --limit 1').to_dict() == {"city": ["lima"], "fare": [9.0]}
    plan = trips(f"{line} --explain")
    assert (len(plan.leaves), plan.leaves_of, plan.opened.row_groups) == (2, 3, 4)
    assert "row groups" in repr(plan)


def test_a_key_is_explained_without_reading_a_row(trips):
    plan = trips("%sleeper scan trips@2 lima --explain")
    assert (plan.snapshot_id, len(plan.files), plan.opened.row_groups) == (2, 1, 1)


def test_errors_while_rows_are_read_fail_the_cell_too(trips, fail):
    assert fail("%sleeper sql --engine duckdb select cast(city as int) from trips")
    assert fail('%sleeper scan trips --where "no_such > 1"')


def test_without_an_open_warehouse_the_error_says_how_to_open_one(fail):
    error = fail("%sleeper tables")
    assert isinstance(error, InvalidInput)
    assert str(error) == "no warehouse is open\nhint: %sleeper use ./warehouse"


def test_a_full_traceback_is_a_setting(shell):
    shell.run_cell("%config SleeperMagics.traceback = 'full'")
    with capture_output() as said:
        shell.run_cell("%sleeper tables")
    assert len(said.stdout.splitlines()) > 5
    assert "no warehouse is open" in said.stdout


@pytest.mark.parametrize(("setting", "lines"), [("short", range(1, 2)), ("full", range(6, 500))])
def test_an_interrupt_shows_one_line_unless_stacks_are_wanted(shell, tmp_path, setting, lines):
    with sl.connect(tmp_path / "mine", progress=InterruptedAfter(0)) as session:
        three_leaves(session)
        shell.push({"session": session})
        shell.run_cell(f"%config SleeperMagics.traceback = '{setting}'\n%sleeper use $session")
        with capture_output() as said:
            answer = shell.run_cell("%sleeper compact trips --strategy all --engine local")
    assert isinstance(answer.error_in_exec, KeyboardInterrupt)
    assert len(said.stdout.splitlines()) in lines
    assert ("Interrupted. Earlier commits are kept." in said.stdout) is (setting == "short")


@pytest.mark.parametrize("line", ["scan t", "export t out.parquet", "sql --engine duckdb SELECT * FROM t", "check t"])
def test_an_interrupt_of_what_only_reads_says_that_nothing_was_changed(shell, line, monkeypatch):
    shell.run_line_magic("sleeper", "use ./w")
    shell.run_cell_magic("sleeper", "create t", "id LONG KEY")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sleeper_nb.session.Session.table", stop)
    monkeypatch.setattr("sleeper_nb.session.Session.sql", stop)
    with capture_output() as said:
        shell.run_cell(f"%sleeper {line}")
    assert said.stdout.splitlines()[-1].endswith(": Interrupted. Nothing was changed.")


def test_an_interrupt_says_what_runs_on(shell, tmp_path):
    class Noted(InterruptedAfter):
        def update(self, *step, **more):
            try:
                super().update(*step, **more)
            except KeyboardInterrupt as stop:
                stop.add_note("Still running: 2 tasks")
                raise

    with sl.connect(tmp_path / "mine", progress=Noted(0)) as session:
        three_leaves(session)
        shell.push({"session": session})
        shell.run_cell("%sleeper use $session")
        with capture_output() as said:
            shell.run_cell("%sleeper compact trips --strategy all --engine local")
    assert said.stdout.splitlines()[-2:] == [
        "\x1b[31mKeyboardInterrupt\x1b[0m: Interrupted. Earlier commits are kept.",
        "Still running: 2 tasks",
    ]


def test_a_session_of_python_can_be_used(run, tmp_path, shell):
    with sl.connect(tmp_path / "mine", clock=ManualClock()) as session:
        shell.user_ns["session"] = session
        opened = run("%sleeper use $session")
        assert opened.session is session
        assert run(CREATE).name == "trips"
        assert [table.name for table in session.tables()] == ["trips"]


def test_values_of_use_are_the_same_on_every_machine(run):
    opened = repr(run("%sleeper use ./here")).split("\nnew warehouse at ")[0]
    assert opened == "warehouse  ./here\ninstance   default\ntables     none"
    assert repr(run("%sleeper use ./here")) == opened


def test_help_and_the_docstring_name_every_command(run, shell):
    for text in (repr(run("%sleeper help")), repr(run("%sleeper")), shell.find_magic("sleeper").__doc__):
        words = " ".join(text.split())
        assert all(command.name in words and command.brief in words for command in COMMANDS.commands)
    assert "example" in repr(run("%sleeper compact -h"))
    assert "%%sleeper create" in repr(run("%sleeper help create"))


def test_a_widget_is_the_value_of_explore(trips, shell, fail):
    trips("x = %sleeper explore trips")
    assert shell.user_ns["x"].table == "trips"
    assert fail("%sleeper explore trps").hint == "did you mean 'trips'?"


def test_reloading_changes_nothing_and_unloading_leaves_what_others_made(shell):
    @context_matcher(identifier="another")
    def another(context):
        return {"completions": []}

    completer, manager = shell.Completer, shell.magics_manager
    completer.custom_matchers.append(another)

    def counts():
        return len(completer.custom_matchers), len(shell.configurables), len(shell.ast_transformers)

    before = counts()
    for _ in range(2):
        shell.run_line_magic("reload_ext", "sleeper_nb")
        assert counts() == before
    __import__("magics").load_ipython_extension(shell)
    assert counts() == before
    shell.run_line_magic("unload_ext", "sleeper_nb")
    assert completer.custom_matchers == [another]
    assert shell.ast_transformers == []
    assert NAME not in manager.registry
    assert "sleeper" not in manager.magics["line"]
    assert "sleeper" not in manager.magics["cell"]
    shell.run_line_magic("load_ext", "sleeper_nb")
    assert "sleeper" in manager.magics["cell"]


def test_progress_is_shown_when_it_is_asked_for(trips, shell, monkeypatch):
    monkeypatch.setenv("SLEEPER_PROGRESS", "text")
    with capture_output() as said:
        shell.run_cell("x = %sleeper compact trips --strategy all --engine local").raise_error()
    assert "\rcompacting 0/" in said.stdout
    assert said.stdout.endswith("\r")


def completed(shell, cell, until=None):
    """The cell as each completion would make it."""
    at = len(cell) if until is None else cell.index(until) + len(until)
    with provisionalcompleter():
        found = list(shell.Completer.completions(cell, at))
    return [cell[: c.start] + c.text + cell[c.end :] for c in found]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%sleeper ta", ["%sleeper tables"]),
        ("x = %sleeper ta", ["x = %sleeper tables"]),
        ("%sleeper create-", ["%sleeper create-savepoint"]),
        ("%sleeper help expl", ["%sleeper help explore"]),
        ("%sleeper describe ", ["%sleeper describe trips"]),
        ("%sleeper describe TR", ["%sleeper describe trips"]),
        ("%sleeper files trips@", [f"%sleeper files trips@{v}" for v in ("before-fix", "savepoint.1", 3, 2, 1)]),
        ("%sleeper files trips@be", ["%sleeper files trips@before-fix"]),
        ("%sleeper compact trips --str", ["%sleeper compact trips --strategy"]),
        ("%sleeper compact trips --engine s", ["%sleeper compact trips --engine spark"]),
        ("%sleeper scan trips@2 --columns city,f", ["%sleeper scan trips@2 --columns city,fare"]),
        ("%sleeper delete-savepoint trips --name b", ["%sleeper delete-savepoint trips --name before-fix"]),
        ("%sleeper diff trips ", [f"%sleeper diff trips {v}" for v in ("before-fix", "savepoint.1", 3, 2, 1)]),
        ("%sleeper properties trips sleeper.table.gc", ["%sleeper properties trips sleeper.table.gc.delay.minutes"]),
        ("%sleeper properties sleeper.st", [f"%sleeper properties sleeper.{name}" for name in OF_INSTANCES]),
        ("%sleeper properties t", ["%sleeper properties trips"]),
        ("%sleeper properties --unset sleeper.storage.s", ["%sleeper properties --unset sleeper.storage.sync"]),
        (
            "%sleeper properties --describe sleeper.storage.s",
            ["%sleeper properties --describe sleeper.storage.sync"],
        ),
        (
            "%sleeper properties sleeper.storage.sync sleeper.default.table.gc",
            ["%sleeper properties sleeper.storage.sync sleeper.default.table.gc.delay.minutes"],
        ),
        ("%sleeper diff trips 2 b", ["%sleeper diff trips 2 before-fix"]),
        ("%sleeper diff trips@be", ["%sleeper diff trips@before-fix"]),
        ("%sleeper diff trips@2 b", ["%sleeper diff trips@2 before-fix"]),
        ("%sleeper ingest trips $d", ["%sleeper ingest trips $df"]),
        ("%sleeper sql select * from tri", ["%sleeper sql select * from trips"]),
        ("%%sleeper sql -o x\nselect *\nfrom tri", ["%%sleeper sql -o x\nselect *\nfrom trips"]),
        ("%%sleeper sql\nselect * from trips@bef", ["%%sleeper sql\nselect * from trips@before-fix"]),
        ("%%sleeper sql\nselect trips.fa", ["%%sleeper sql\nselect trips.fare"]),
        ("%%sleeper inspect trips\nselect * from sav", ["%%sleeper inspect trips\nselect * from savepoints"]),
        ("%sleeper sql select * from trips$sna", ["%sleeper sql select * from trips$snapshots"]),
        ("%%sleeper sql\nselect * from trips$files@bef", ["%%sleeper sql\nselect * from trips$files@before-fix"]),
    ],
)
def test_completion(trips, shell, cell, expected):
    assert completed(shell, cell) == expected


def test_completion_of_columns_sees_the_whole_cell(trips, shell):
    cell = "%%sleeper sql\nselect fa from trips"
    assert completed(shell, cell, until="fa") == ["%%sleeper sql\nselect fare from trips"]


def test_completion_offers_no_more_than_anybody_looks_through(trips, shell):
    shell.push({f"day_{number:03}": number for number in range(600)})
    assert len(completed(shell, "%sleeper ingest trips $day_")) == 500
    assert completed(shell, "%sleeper ingest trips $day_59") == [f"%sleeper ingest trips $day_59{i}" for i in range(10)]


def test_completion_offers_a_savepoint_by_words_that_mean_it(trips, shell):
    made = trips("%sleeper savepoints trips")[0]
    with sl.connect("./a warehouse") as session:
        catalog, table_id = session._components.catalog, session.table("trips").entry.id
        old = replace(made, id=catalog.reserve_savepoint_id(table_id), name="v1")  # as of an older release
        catalog.add_savepoint(table_id, old)
    assert "%sleeper files trips@savepoint.v1" in completed(shell, "%sleeper files trips@")
    assert "%sleeper files trips@v1" not in completed(shell, "%sleeper files trips@v")
    assert completed(shell, "%sleeper delete-savepoint trips --name v") == ["%sleeper delete-savepoint trips --name v1"]


def test_completion_leaves_python_alone(trips, shell):
    assert "print" in completed(shell, "prin")
    assert not [text for text in completed(shell, "x = 3 % sleeper ta") if "tables" in text]


@pytest.mark.parametrize(
    "cell", ["%sleeper describe trps@", "%sleeper nonsense x", "%sleeper scan x --columns ", "%sleeper"]
)
def test_completion_never_raises(shell, cell):
    completed(shell, cell)


@pytest.mark.spark
def test_the_setting_says_which_engine_answers_when_none_is_named(spark_engine, run, fail, tmp_path, shell):
    with sl.connect(tmp_path / "w", spark=spark_engine.session()) as session:
        shell.user_ns.update(session=session, rows=[{"city": "lima", "pickup": pd.Timestamp(0, tz="UTC"), "fare": 1.0}])
        run("%sleeper use $session")
        run(CREATE)
        run("%sleeper ingest trips $rows --spark")
        count = "%%sleeper sql\nSELECT count(*) AS n FROM trips VERSION AS OF 2"
        assert (run(count).to_dict(), run(count).engine) == ({"n": [1]}, "duckdb")
        assert run("%%sleeper sql --as spark\nSELECT count(*) AS n FROM trips").count() == 1
        shell.run_line_magic("config", "SleeperMagics.engine = 'spark'")
        assert (run(count).to_dict(), run(count).engine) == ({"n": [1]}, "spark")
        assert "Physical Plan" in repr(run("%%sleeper sql --explain\nSELECT count(*) AS n FROM trips"))
        assert run("%%sleeper sql --as spark\nSELECT fare FROM trips").columns == ["fare"]
        assert fail("%sleeper sql SELECT fair FROM trips").__cause__ is not None


def test_a_data_frame_is_a_table_of_sql_unless_a_setting_says_no(run, fail, shell):
    run("%sleeper use warehouse")
    run("%%sleeper create t\nid LONG KEY")
    shell.user_ns["df"] = pd.DataFrame({"id": [1, 2]})
    answer = run("%sleeper sql SELECT max(id) AS id FROM df")
    assert answer.to_dict() == {"id": [2]}
    assert "variable df · duckdb" in repr(answer)
    shell.user_ns["t"] = shell.user_ns["df"]
    assert run("%sleeper sql SELECT count(*) AS n FROM t").to_dict() == {"n": [0]}
    shell.run_line_magic("config", "SleeperMagics.dataframes = False")
    assert "no table 'df'" in str(fail("%sleeper sql SELECT * FROM df"))


def test_an_ingest_without_rows_does_not_show_what_another_added(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./w")
    shell.run_cell_magic("sleeper", "create t", "id LONG KEY")
    (tmp_path / "some.csv").write_text("id\n1\n")
    (tmp_path / "none.csv").write_text("id\n")
    shell.run_line_magic("sleeper", "ingest t some.csv")
    assert str(shell.run_line_magic("sleeper", "ingest t none.csv")) == "no rows to add: the table stays at snapshot 2"


def test_properties_of_a_new_table_are_set_one_by_one(run, fail, shell):
    run("%sleeper use warehouse")
    threshold = "sleeper.table.partition.splitting.threshold"
    made = run(f"%%sleeper create t --set {threshold}=2 --set sleeper.table.gc.delay.minutes=0\nk STRING KEY")
    assert (made.at().properties[threshold], made.at().properties["sleeper.table.gc.delay.minutes"]) == (2, 0)
    assert "NAME=VALUE" in fail(f"%%sleeper create u --set {threshold}\nk STRING KEY").hint
    assert "whole number" in fail(f"%%sleeper create u --set {threshold}=x\nk STRING KEY").hint
    assert threshold in fail(f"%%sleeper create u --set {threshold}s=2\nk STRING KEY").hint
    assert len(run("%sleeper tables")) == 1


def test_a_table_is_rolled_back_as_typed(trips, fail):
    planned = trips("%sleeper rollback trips before-fix --dry-run")
    assert (planned.rows_before, planned.rows_after, planned.snapshot) == (9, 3, None)
    assert "nothing was changed" in planned.grid().text()
    done = trips("%sleeper rollback trips 2 -m 'twice loaded'")
    assert (done.snapshot.id, done.snapshot.message, [s.id for s in done.undone]) == (4, "twice loaded", [3])
    assert [line.split() for line in repr(done).splitlines()] == [
        ["snapshot", "4:", "rolled", "back", "to", "snapshot", "2"],
        ["before", "after"],
        ["-----", "------", "-----"],
        ["rows", "9", "3"],
        ["files", str(done.files_before), str(done.files_after)],
        [],
        ["1", "snapshot", "undone,", "which", "can", "still", "be", "read"],
        ["snapshot", "operation", "+rows", "message"],
        ["--------", "---------", "-----", "-------"],
        ["3", "ingest", "6"],
    ]
    assert (done.files_before, done.files_after) == tuple(len(trips(f"%sleeper files trips@{n}")) for n in (3, 2))
    assert done._repr_html_().count("<table") == 2
    assert trips("%sleeper scan trips").count() == 3
    assert "already has the rows of snapshot 2" in trips("%sleeper rollback trips 2").grid().text()
    trips("%sleeper rollback trips 2100-01-01")  # the newest: itself
    assert trips("%sleeper rollback trips snapshot.3").rows_after == 9
    error = fail("%sleeper rollback trips before-fit")
    assert "before-fix" in error.hint
    assert "leave out" in fail("%sleeper rollback trips@2 3").hint
    assert "needs a version" in str(fail("%sleeper rollback trips"))


def test_leases_are_listed_and_let_go_as_typed(trips, fail):
    assert len(trips("%sleeper leases trips")) == 0
    relation = trips("%sleeper scan trips@2").to_duckdb()
    (lease,) = trips("%sleeper leases trips")
    assert (lease.snapshot_id, lease.purpose) == (2, "relation")
    assert relation.count("*").fetchall() == [(3,)]
    assert lease.id in fail("%sleeper leases trips --release nothing").hint
    trips(f"%sleeper leases trips --release {lease.id}")
    assert len(trips("%sleeper leases trips")) == 0


def test_leaves_are_split_as_typed(trips, fail):
    assert trips("%sleeper split trips --dry-run --threshold 6").splits[0].rows == 6
    done = trips("%sleeper split trips --at Zurich --key city")
    assert [region for leaf in done.splits for _, region, _ in leaf.parts] == ["city (-∞, Zurich)", "city [Zurich, g)"]
    assert "does not split any leaf" in fail("%sleeper split trips --at g").message
    assert "--at splits at a value" in fail("%sleeper split trips --auto --at g").message
    drawn = repr(trips("%sleeper partitions trips"))
    assert "├─ " in drawn
    assert "split at city = Zurich" in drawn
    assert "<svg" in trips("%sleeper partitions trips")._repr_html_()


def test_a_table_is_cut_by_a_file_and_an_ingest_is_planned(run, tmp_path):
    (tmp_path / "splits.txt").write_text("Zw==\nbg==\n")
    run("%sleeper use ./cut-warehouse")
    body = CREATE.partition("\n")[2]
    table = run(f"%%sleeper create cut --splits-file splits.txt --set sleeper.table.splits.base64.encoded=true\n{body}")
    assert [leaf.region.ranges[0].max for leaf in table.at().partition_tree.leaves] == ["g", "n", None]
    (tmp_path / "trips.csv").write_text("city,pickup,fare\nbern,2026-01-01,1\nznojmo,2026-01-01,\n")
    plan = run("%sleeper ingest cut trips.csv --dry-run")
    assert "would add 2 rows in 2 files, loaded by this process" in repr(plan)
    assert table.at().resolved.snapshot_id == 1
    (tmp_path / "more.csv").write_text("city,pickup,fair\nbern,soon,1\n")
    plan = run("%sleeper ingest cut trips.csv more.csv --dry-run")
    assert [(d.column, d.change.partition(";")[0]) for d in plan.plan.differences] == [
        ("fair", "rename it to 'fare'"),
        ("pickup", ("write a time as 2026-11-21T10:30:00.123456Z, with at most 6 digits after the point, "
                    "or add null_text=['', 'soon'] if it means NULL")),
    ]  # fmt: skip
    assert run("%sleeper ingest cut trips.csv trips.csv").rows == 4


def test_a_version_is_exported_as_typed(trips, fail):
    assert trips("%sleeper export trips@2 old.csv --columns city,fare --where 'fare > 2'").rows == 2
    assert len(trips("%sleeper export trips out --format csv").files) == 2
    assert "already" in fail("%sleeper export trips out").message


def test_csv_is_exported_and_ingested_by_its_options(trips, fail):
    trips("%sleeper export trips all.csv --delimiter ; --null-text NA --no-header")
    rows = trips("%sleeper scan trips").to_arrow().num_rows
    made = trips("%sleeper ingest trips all.csv --read delimiter=; --read null-text=NA --read header=no")
    assert made.rows == rows
    assert trips("%sleeper export trips@2 all.tsv").rows > 0
    assert trips("%sleeper ingest trips all.tsv --dry-run").plan.differences == ()
    assert "not a valid delimiter" in fail("%sleeper ingest trips all.tsv --read delimiter=ab").message


def test_why_shows_what_was_behind_the_last_error(trips, fail, shell):
    assert fail("%sleeper why").hint.startswith("run why after a command that failed")
    error = fail("%sleeper sql --engine duckdb SELECT fair FROM trips")
    causes = trips("%sleeper why")
    assert causes.error is error
    first, cause = causes.to_dict()["error"][0], causes.to_dict()["error"][-1]
    assert (first, cause) == ("InvalidInput", "_duckdb.BinderException")
    assert 'Candidate bindings: "fare"' in causes.grid().text()
    fail("%sleeper describe trps")
    told = trips("%sleeper why").to_dict()
    assert told == {"error": ["NotFound"], "says": ["no table 'trps'\nhint: did you mean 'trips'?"]}


def test_why_shows_an_error_that_is_none_of_ours_too(trips, fail, shell):
    class Broken:
        def __arrow_c_stream__(self, requested=None):
            raise ZeroDivisionError("by a source of the user's")

    fail("%sleeper describe trps")
    shell.user_ns["broken"] = Broken()
    assert isinstance(shell.run_cell("%sleeper ingest trips $broken").error_in_exec, ZeroDivisionError)
    assert trips("%sleeper why").to_dict()["says"] == ["by a source of the user's"]


def test_why_shows_an_error_of_python_that_came_later(trips, fail, shell):
    earlier = fail("%sleeper describe trps")
    shell.run_cell("import sleeper_nb as sl; own = sl.connect('own')").raise_error()
    error = shell.run_cell("own.table('trps')").error_in_exec
    assert trips("%sleeper why").error is error
    assert trips("%sleeper why").error is error
    shell.run_cell("try:\n    %sleeper describe trps\nexcept Exception as caught:\n    last = caught").raise_error()
    assert trips("%sleeper why").error is shell.user_ns["last"] is not earlier
    shell.run_cell("1 / 0")
    assert trips("%sleeper why").error is shell.user_ns["last"]
    shell.run_cell("own.close()").raise_error()


def test_why_shows_a_caret_below_its_character_in_html(trips, fail):
    fail("%sleeper sql --engine duckdb SELECT fair FROM trips")
    shown = trips("%sleeper why")._repr_html_()
    assert '<code style="white-space:pre-wrap;">LINE 1: SELECT fair FROM trips</code>' in shown
    assert '<code style="white-space:pre-wrap;">               ^</code>' in shown


def test_why_says_how_much_it_leaves_out():
    shown = Causes(ValueError("\n".join(map(str, range(40))))).grid().text()
    assert "… and 10 more lines, in str(_.error)" in shown
    assert len(shown.splitlines()) < 40


def test_what_a_statement_costs_is_told_before_it_is_run(trips, fail, shell):
    cost = trips("%sleeper sql --engine duckdb --dry-run SELECT count(*) FROM trips JOIN trips$files@2 ON true")
    assert cost.to_dict()["reads"][0] == {
        "source": "trips at snapshot 3",
        "partitions": 3,
        "files": 4,
        "bytes": cost.bytes,
        "keys": "every key: no condition limits the row keys",
    }
    assert "3 of 3" in cost.grid().text()
    assert "metadata" in cost.grid().text()
    plan = trips("%%sleeper sql --engine duckdb --explain -o kept\nSELECT * FROM trips WHERE fare > 2 ORDER BY fare")
    assert shell.user_ns["kept"] is plan
    assert "Filters:fare>2.0" in repr(plan).replace(" ", "")
    assert "no row was read" in plan._repr_html_()
    assert (
        "run it without a dry run" in fail("%sleeper sql --engine duckdb --dry-run CREATE TEMP VIEW v AS SELECT 1").hint
    )
    fail("%sleeper sql --engine duckdb SELECT * FROM v")


@pytest.mark.parametrize(("form", "kind"), [("pandas", "DataFrame"), ("arrow", "Table"), ("polars", "DataFrame")])
def test_all_rows_are_given_in_another_form(trips, shell, form, kind):
    shell.run_cell(f"x = %sleeper sql --engine duckdb --as {form} SELECT city FROM trips").raise_error()
    found = shell.user_ns["x"]
    assert (type(found).__module__.partition(".")[0].removeprefix("py"), type(found).__name__) == (form, kind)
    assert len(found) == 9


def test_a_result_is_charted(trips, fail):
    sums = "SELECT city, sum(fare) AS fares FROM trips GROUP BY city ORDER BY 1"
    made = trips(f"%sleeper sql --engine duckdb --plot bar {sums}")
    assert made.to_dict() == {"city": ["Zagreb", "athens", "lima"], "fares": [7.5, 4.5, 27]}
    assert "trips at snapshot 3 · duckdb" in repr(made)
    assert trips("%sleeper sql --engine duckdb --plot hist -x fare SELECT * FROM trips").y == "rows"
    error = fail("%sleeper sql --engine duckdb --plot line SELECT * FROM trips")
    assert error.hint == "choose the columns: -x COLUMN -y COLUMN"


DAYS = [2932897, -800000, 20484]  # of the years 10000, -221 and 2026
FAR = pa.table({
    "k": pa.array([1, 2, 3], pa.int32()),
    "d": pa.array(DAYS, pa.int32()).cast(pa.date32()),
    "t": pa.array([day * 86_400_000_000 for day in DAYS]).cast(pa.timestamp("us", "UTC")),
})  # fmt: skip
FAR_AWAY = (
    "%sleeper use ./warehouse",
    "%%sleeper create far\nk INT KEY, d DATE?, t TIMESTAMP?",
    "%sleeper ingest far $ft",
)
DUCKDB = "%sleeper sql --engine duckdb"


@pytest.fixture
def far(cell, shell):
    shell.push({"ft": FAR})
    for line in FAR_AWAY:
        cell(line)
    return cell


@pytest.mark.parametrize(
    "line",
    ["%sleeper scan far", "%sleeper describe far", "%sleeper diff far 1 2 --rows", f"{DUCKDB} SELECT * FROM far"],
)
def test_rows_of_years_that_python_has_not_are_shown(far, line):
    shown = far(line)
    assert "10000-01-01" in shown._repr_html_()
    assert "-0221-09-04" in shown._repr_html_()
    assert "10000-01-01" in repr(shown)


@pytest.mark.parametrize("column", ["d", "t"])
def test_bars_of_years_that_python_has_not_are_named(far, column):
    made = far(f"{DUCKDB} --plot bar SELECT {column}, k FROM far")
    assert {point.label[:11].rstrip() for point in made.points} >= {"10000-01-01", "-0221-09-04"}
    assert "10000-01-01" in repr(made)


def test_a_line_goes_over_years_that_python_has_not_and_leaves_out_the_infinite(far):
    for name, kind in (("d", "date"), ("t", "timestamptz")):
        made = far(f"{DUCKDB} --plot line SELECT {name}, k FROM far UNION ALL SELECT 'infinity'::{kind}, 4")
        assert [point.y for point in made.points] == [2, 3, 1]
        assert [point.x for point in made.points] == [day * 86_400_000 for day in sorted(DAYS)]
        assert [point.label[:11] for point in made.points][::2] == ["-0221-09-04", "10000-01-01"]
        assert made.notes[0] == "1 row left out: null or not finite"


@pytest.mark.parametrize("line", ["%sleeper scan far", "%sleeper diff far 1 2 --rows", f"{DUCKDB} SELECT * FROM far"])
def test_what_cannot_hold_such_a_year_says_what_can(far, line):
    result = far(line)
    for form in (result.to_pandas, result.to_dict):
        with pytest.raises(InvalidInput, match=r"column 'd' .* years 1 to 9999") as caught:
            form()
        assert caught.value.hint == "read the rows as Arrow: to_arrow(); or cast the column to text in SQL"
    assert result.to_polars()["d"].is_not_null().all()


def test_such_years_are_exported(far, tmp_path):
    far(f"%sleeper export far {tmp_path / 'far.csv'}")
    assert "10000-01-01" in (tmp_path / "far.csv").read_text()


def test_use_says_what_it_makes_and_makes_no_warehouse_among_other_files(shell, tmp_path):
    assert "new warehouse at" in repr(shell.run_line_magic("sleeper", "use ./w"))
    assert "new " not in repr(shell.run_line_magic("sleeper", "use ./w"))
    assert "new instance at" in repr(shell.run_line_magic("sleeper", "use ./w --instance test"))
    (tmp_path / "empty").mkdir()
    assert "new warehouse at" in repr(shell.run_line_magic("sleeper", "use empty"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "2013-01.parquet").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"data is not a warehouse: it contains other files, such as 2013"):
        shell.run_line_magic("sleeper", "use data")
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["2013-01.parquet"]


def test_use_without_an_instance_makes_none_where_there_are_others(shell):
    shell.run_line_magic("sleeper", "use ./w --instance demo")
    with pytest.raises(NotFound, match=r"\./w has no instance 'default'") as caught:
        shell.run_line_magic("sleeper", "use ./w")
    assert caught.value.hint == "open one: %sleeper use ./w --instance demo; or make it: %sleeper use ./w --new"
    assert "demo" in repr(shell.run_line_magic("sleeper", "use"))
    assert "new instance at" in repr(shell.run_line_magic("sleeper", "use ./w --new"))
    assert "new " not in repr(shell.run_line_magic("sleeper", "use ./w"))


def test_a_table_that_is_not_there_names_the_empty_instance(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./w --instance demo")
    for line in ("scan flights", "history flights", "sql SELECT * FROM flights"):
        with pytest.raises(NotFound, match="no table 'flights'") as caught:
            shell.run_line_magic("sleeper", line)
        assert caught.value.hint == f"there is no table yet in instance demo of {tmp_path / 'w'}"


def test_use_without_an_address_says_what_is_open_and_opens_nothing_else(shell, tmp_path):
    shell.run_line_magic("sleeper", "use ./mine --instance test")
    again = shell.run_line_magic("sleeper", "use")
    assert (again.instance, again.created) == ("test", None)
    assert str(tmp_path / "mine") in repr(again)
    other = shell.run_line_magic("sleeper", "use --instance other")
    assert (other.instance, other.created, other.session.warehouse.location) == (
        "other",
        "new instance",
        again.warehouse,
    )
    default = shell.run_line_magic("sleeper", "use --instance default")
    assert (default.instance, default.created) == ("default", "new instance")
    assert not (tmp_path / "warehouse").exists()
    default.session.close()
    again.session.close()
    other.session.close()
    assert "new warehouse at" in repr(shell.run_line_magic("sleeper", "use"))


def test_use_without_an_address_opens_the_one_that_is_named(shell, tmp_path, monkeypatch):
    shell.run_line_magic("sleeper", "use ./mine")
    (tmp_path / "sleeper.toml").write_text('region = "eu-west-1"\n')  # names none
    assert str(tmp_path / "mine") in repr(shell.run_line_magic("sleeper", "use"))
    monkeypatch.setenv("SLEEPER_WAREHOUSE", "./warehouse")
    assert "new warehouse at" in repr(shell.run_line_magic("sleeper", "use"))


def test_use_of_a_folder_in_a_warehouse_names_the_warehouse(shell, tmp_path):
    for instance, line in (("default", "use {}"), ("test", "use {} --instance test")):
        shell.run_line_magic("sleeper", f"use ./w --instance {instance}")
        with pytest.raises(InvalidInput, match=f"w/{instance} is the instance '{instance}' of a warehouse") as caught:
            shell.run_line_magic("sleeper", f"use ./w/{instance}")
        typed = caught.value.hint.partition("%sleeper ")[2]
        assert typed == line.format("w")
        assert shell.run_line_magic("sleeper", typed).created is None
