"""The console command: what is printed where, and the exit code."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sleeper_nb
from sleeper_nb import cli
from sleeper_nb.commands.line_progress import LineProgress

DDL = "city STRING KEY\nfare DOUBLE NULL\n"
ROWS = "city,fare\nZagreb,2.5\nAthens,1.5\nLima,\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the definition of a table and a file of rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLEEPER_WAREHOUSE", raising=False)
    (tmp_path / "trips.ddl").write_text(DDL)
    (tmp_path / "the rows.csv").write_text(ROWS)
    return tmp_path


@pytest.fixture
def trips(sleeper):
    assert sleeper("create", "trips", "--splits", "g,n", "--schema", "trips.ddl")[0] == 0
    assert sleeper("ingest", "trips", "the rows.csv", "-m", "first rows")[0] == 0
    return sleeper


def test_the_same_job_id_adds_nothing_and_says_so(trips):
    words = ("ingest", "trips", "the rows.csv", "--job-id", "2026-11-21/trips")
    assert "rows +3" in trips(*words)[1]
    code, out, _ = trips(*words)
    assert (code, "job '2026-11-21/trips' was done before, in snapshot 3. Nothing was changed" in out) == (0, True)
    assert "6" in trips("sql", "--engine", "duckdb", "select count(*) from trips")[1]
    assert "2026-11-21/trips" in trips("jobs", "trips")[1]


def test_jobs_are_listed_of_one_table_and_of_all(trips):
    assert "no job" in trips("jobs")[1]
    assert trips("ingest", "trips", "the rows.csv")[0] == 0
    assert trips("compact", "trips", "--strategy", "all")[0] == 0
    assert trips("jobs", "trips")[1].count("finished  compaction") == 1
    assert "trips" in trips("jobs", "--limit", "1")[1]
    assert "no job" in trips("jobs", "--failed")[1]
    assert trips("jobs", "--failed", "--running")[0] == 2
    assert trips("jobs", "--watch", "--limit", "1")[0] == 1
    assert trips("compact", "trips", "--background")[0] == 1


def test_a_load_without_rows_tells_of_the_savepoint_that_was_due(sleeper, folder):
    assert sleeper("create", "t", "--schema", "trips.ddl", "--set", "savepoint.create-interval=1 d")[0] == 0
    (folder / "none.csv").write_text("city,fare\n")
    said = sleeper("ingest", "t", "none.csv")[1]
    assert "no rows to add: the table stays at snapshot 1\nsavepoint 1 saves snapshot 1" in said
    assert "periodically" in sleeper("savepoints", "t")[1]


def test_an_offline_table_is_left_alone_until_it_is_online(trips):
    assert "table trips is offline" in trips("offline", "trips")[1]
    assert "offline" in trips("tables")[1]
    code, _, err = trips("compact", "trips")
    assert (code, "sleeper online trips" in err) == (1, True)
    assert trips("ingest", "trips", "the rows.csv")[0] == 0
    assert "offline, skipped: trips" in trips("maintain")[1]
    assert "table trips is online" in trips("online", "trips")[1]
    assert trips("compact", "trips")[0] == 0


def test_maintain_tells_each_step_and_fails_when_one_did(trips, folder):
    assert "nothing due" in trips("maintain", "trips")[1]
    assert trips("maintain", "--dry-run")[0] == 0
    for path in (folder / "warehouse").rglob("*-files.parquet"):
        path.write_bytes(b"damaged")
    code, out, _ = trips("maintain", "trips")
    assert (code, "failed:" in out) == (1, True)


def test_a_table_from_its_creation_to_its_garbage(trips):
    for words, expected in (
        (["tables"], "trips"),
        (["describe", "trips@1"], "snapshot 1"),
        (["scan", "trips", "--columns", "fare", "--where", "fare > 2"], "2.5"),
        (["scan", "trips", "Lima"], "1 row "),
        (["sql", "--engine", "duckdb", "select", "count(*) as n", "from", "trips"], "3"),
        (["sql", "--engine", "duckdb", "select count(*) as n from trips version as of 1"], "0"),
        (["inspect", "trips", "select status from files group by all"], "ACTIVE"),
        (["files", "trips"], "files of trips at snapshot 2"),
        (["partitions", "trips@2"], "partitions of trips at snapshot 2"),
        (["create-savepoint", "trips", "--name", "fix", "-m", "kept"], "savepoint 1 'fix'"),
        (["savepoints", "trips"], "kept"),
        (["delete-savepoint", "trips", "--id", "1"], "savepoint 1 'fix'"),
        (["ingest", "trips", "the rows.csv", "the rows.csv"], "rows +6"),
        (["compact", "trips", "--strategy", "all", "--engine", "local", "--dry-run"], "would merge"),
        (["compact", "trips", "--strategy", "all", "--engine", "local"], "merged"),
        (["history", "trips"], "first rows"),
        (["history", "trips"], "● ingest 2"),
        (["describe", "trips@2"], "first rows"),
        (["describe", "trips@2"], "3 rows"),
        (["diff", "trips", "2", "3"], "from snapshot 2 to snapshot 3"),
        (["diff", "trips@2"], "files added and removed"),
        (["diff", "trips", "2", "--rows", "--limit", "2"], "added"),
        (["diff", "trips", "2", "--rows", "--images"], "removed, added and updated"),
        (["diff", "trips", "2", "--images"], "by key: "),
        (["expire", "trips"], "would expire"),
        (["expire", "trips", "--force"], "expired"),
        (["collect-garbage", "trips"], "would delete"),
        (["collect-garbage", "trips", "--force"], "deleted"),
        (["status", "trips"], "next             nothing to do"),
        (["check", "trips", "--deep"], "all is well"),
        (["migrate", "trips", "--to", "TransactionLogStateStore", "-m", "faster"], "faster"),
        (["status", "trips"], "TransactionLogStateStore on SqliteCatalog"),
        (["check", "trips"], "all is well"),
        (["help"], "collect-garbage"),
        (["help", "ingest"], "sleeper ingest trips $df"),
        ([], "collect-garbage"),
        (["--help"], "collect-garbage"),
    ):
        code, out, err = trips(*words)
        assert (code, err) == (0, ""), words
        assert expected in out, words


def test_a_failed_command_says_two_lines_on_stderr(trips):
    assert trips("describe", "tripz") == (1, "", "NotFound: no table 'tripz'\nhint: did you mean 'trips'?\n")
    code, out, err = trips("ingest", "trips", "nothing.csv")
    assert (code, out, len(err.splitlines())) == (1, "", 2)


def test_a_misunderstood_command_exits_with_2(sleeper):
    assert sleeper("tabels") == (2, "", "NotFound: no command 'tabels'\nhint: did you mean 'tables'?\n")
    assert sleeper("scan", "trips", "--limt", "3")[0] == 2


def test_the_warehouse_is_named_by_an_option_or_the_environment(trips, folder, monkeypatch):
    other = folder / "other one"
    assert trips("--warehouse", str(other), "--instance", "a", "create", "t", "--schema", "trips.ddl")[0] == 0
    assert (other / "a" / "catalog.sqlite").is_file()
    assert "t " in trips("tables", f"--warehouse={other}", "--instance", "a")[1]
    assert "trips" not in trips("tables", f"--warehouse={other}", "--instance", "a")[1]
    monkeypatch.setenv("SLEEPER_WAREHOUSE", str(other))
    assert "t " in trips("tables", "--instance=a")[1]
    sql = trips("sql", "--instance", "a", "--engine", "duckdb", "select count(*) as n from t")
    assert sql[0] == 0


def test_asking_where_there_is_no_warehouse_makes_none(sleeper, folder):
    code, _, err = sleeper("tables")
    assert code == 1
    assert "no warehouse at ./warehouse" in err
    assert not (folder / "warehouse").exists()
    assert sleeper("use", "./warehouse")[0] == 0
    assert sleeper("tables")[0] == 0


def test_a_schema_comes_from_the_console_or_as_json(sleeper, monkeypatch, folder):
    monkeypatch.setattr(sys, "stdin", io.StringIO(DDL))
    code, out, _ = sleeper("create", "trips", "--schema", "-")
    assert (code, "city string" in out) == (0, True)
    json = '{"rowKeyFields": [{"name": "id", "type": "LongType"}]}'
    (folder / "schema.json").write_text(json)
    assert "id long" in sleeper("create", "other", "--schema", "schema.json")[1]
    code, _, err = sleeper("create", "third")
    assert (code, "create needs the columns" in err) == (1, True)
    assert "hint: give --from DATA --keys a,b; or --schema FILE, a file of lines: name TYPE [KEY|SORT] [NULL]" in err
    assert "%" not in err
    code, _, err = sleeper("create", "third", "--schema", "none.ddl")
    assert (code, "no file none.ddl with the schema of the table" in err) == (1, True)


def test_what_needs_a_notebook_says_so(trips):
    for words, said in (
        (["explore"], "explore is a widget of notebooks"),
        (["sql", "-o", "x", "--engine", "duckdb", "select 1"], "-o needs a notebook"),
        (["ingest", "trips", "$df"], "there are no variables on the console"),
    ):
        code, out, err = trips(*words)
        assert (code, out) == (1, "")
        assert said in err


def test_demo_runs_in_the_folder_that_is_given(sleeper, monkeypatch):
    asked = []

    def demo(folder, progress):
        asked.append(folder)
        return "done"

    monkeypatch.setattr("sleeper_nb.demo.run", demo)
    assert sleeper("demo", "--folder", "here")[:2] == (0, "'done'\n")
    assert sleeper("demo")[0] == 0
    assert asked == ["here", "demo-warehouse"]


def test_an_interrupt_ends_with_its_own_code(sleeper, monkeypatch):
    stop = KeyboardInterrupt()

    def interrupted(folder, progress):
        raise stop

    monkeypatch.setattr("sleeper_nb.demo.run", interrupted)
    assert sleeper("demo") == (130, "", "Interrupted. Earlier commits are kept.\n")
    stop.add_note("Still running: 2 tasks")
    assert sleeper("demo") == (130, "", "Interrupted. Earlier commits are kept.\nStill running: 2 tasks\n")


def test_the_installed_command_runs():
    words = [sys.executable, "-m", "sleeper_nb", "--version"]
    answer = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (answer.stdout, answer.stderr) == (f"sleeper-nb {sleeper_nb.__version__}\n", "")


def test_progress_is_one_line_that_goes_away():
    stream = io.StringIO()
    watch = LineProgress(lambda: stream, lambda: True)
    watch.update("query")
    watch.update("query")
    watch.update("query", 1, 10)
    watch.finish("done")
    watch.finish()
    assert stream.getvalue() == "\rquery\rquery 1/10\r          \rdone\n"


def test_progress_that_is_off_writes_nothing():
    stream = io.StringIO()
    watch = LineProgress(lambda: stream, lambda: False)
    watch.update("query", 1, 2)
    watch.finish("done")
    assert stream.getvalue() == ""


def test_lines_that_stay_are_written_where_nobody_watches_too(capsys):
    progress = LineProgress(lambda: sys.stderr, lambda: False, lasting=lambda: True)
    progress.update("loading", 1, 2)
    progress.finish("loaded")
    progress.finish()
    assert capsys.readouterr().err == "loaded\n"


HOSTILE = "a\x1b]0;mine\x07b\x00\x9b\u202ec\ud800"
SEEN = "a\\x1b]0;mine\\x07b\\x00\\u009b\\u202ec"
QUERY = "SELECT 'a' || chr(27) || ']0;mine' || chr(7) || 'b' || chr(155) || chr(8238) || 'c' AS \"n\x1b[2J\""


def test_no_terminal_obeys_control_characters_of_cells_names_and_messages(trips, capsys):
    code, out, err = trips("sql", "--engine", "duckdb", QUERY)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].strip() == "n\\x1b[2J"
    assert "a\\x1b]0;mine\\x07b\\u009b\\u202ec" in out
    code, _, err = trips("describe", "no\x1b[2Jtable")
    assert (code, "\\x1b[2J" in err) == (1, True)
    said = [out, err]
    progress = LineProgress(lambda: sys.stdout, lambda: True)
    progress.update(f"reading {HOSTILE}")
    progress.finish(f"read {HOSTILE}")
    said += capsys.readouterr()
    assert not {"\x1b", "\x07", "\x00", "\x9b", "\u202e", "\ud800"} & set("".join(said))


def test_values_and_errors_are_shown_with_visible_control_characters_and_kept_as_they_are(tmp_path):
    with sleeper_nb.connect(tmp_path) as session:
        result = session.sql(QUERY, engine="duckdb")
        assert "a\\x1b]0;mine\\x07b" in result._repr_html_()
        assert "n\\x1b[2J" in result._repr_html_()
        assert result.to_arrow().column(0)[0].as_py() == "a\x1b]0;mine\x07b\x9b\u202ec"
    error = sleeper_nb.NotFound(f"no {HOSTILE}", hint=HOSTILE)
    assert str(error) == f"no {SEEN}\\ud800\nhint: {SEEN}\\ud800"
    assert error._render_traceback_()[1:] == [f"hint: {SEEN}\\ud800"]
    assert error.message == f"no {HOSTILE}"


def test_json_stays_json_whatever_characters_it_has(sleeper):
    out = sleeper("doctor", "--json", "--warehouse", "none\x7f\u202e")[1]
    assert "\u202e" not in out
    assert any("none\x7f\u202e" in each["found"] for each in json.loads(out)["checks"])


@pytest.mark.parametrize(("encoding", "dot"), [("cp1252", "·"), ("latin-1", "·"), ("ascii", r"\xb7")])
def test_an_output_without_a_character_has_it_escaped(trips, monkeypatch, encoding, dot):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, newline=""))
    assert cli.main(["sql", "--engine", "duckdb", "SELECT 'ž→·' AS a"]) == 0
    said = written.getvalue().decode(encoding)
    assert rf"\u2192{dot}" in said.replace("ž", r"\u017e").replace(r"\x9e", r"\u017e")


def output_to(monkeypatch, number):
    stream = os.fdopen(number, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


def test_a_reader_that_has_gone_ends_the_command_without_a_word(trips, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with output_to(monkeypatch, writer):
        assert cli.main(["sql", "--engine", "duckdb", "SELECT 7 AS n"]) == 141
        assert not capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_an_answer_that_cannot_be_written_is_one_error_and_a_full_disk_stops_no_work(trips, monkeypatch, capsys):
    with output_to(monkeypatch, os.open("/dev/full", os.O_WRONLY)):
        assert cli.main(["ingest", "trips", "the rows.csv"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "StorageError: cannot write the answer: No space left on device",
        "hint: the command itself was carried out",
    ]
    monkeypatch.setattr(sys, "stderr", os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"))
    LineProgress(lambda: sys.stderr, lambda: True).update("loading")
    assert cli.main(["describe", "nothing"]) == 1
    sys.stderr.close()  # without an error, as when Python ends


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_streams_that_are_closed_stop_no_command(trips, monkeypatch, name):
    monkeypatch.setattr(sys, name, None)
    assert cli.main(["ingest", "trips", "the rows.csv"]) == 0
    assert cli.main(["describe", "nothing"]) == 1
