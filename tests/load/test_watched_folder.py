"""A watched folder: each file is loaded once, none while it is written, none silently left out; also after restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConflictError, InvalidInput, NotFound, StorageError, Unchanged
from sleeper_nb.load.source_files import ENDINGS_TEXT
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore

SCHEMA = sl.Schema({"id": "string"}, values={"n": "int?"})


class Steps(ManualClock):
    """A clock that, each time it is waited for, does the next step of a test; after the last comes an interrupt."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], Any]] = []

    def sleep(self, seconds: float) -> None:
        """Wait, and do a step."""
        super().sleep(seconds)
        if not self.steps:
            raise KeyboardInterrupt
        self.steps.pop(0)()


class Incoming:
    """A folder, whose files are written at the moments of a clock."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder, self.clock = folder, clock
        folder.mkdir()

    def write(self, name: str, *rows: str, header: str = "id,n") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in ([header] if header else []) + [*rows]))
        moment = int(self.clock.now().timestamp() * 1e9)
        os.utime(path, ns=(moment, moment))


@pytest.fixture
def clock() -> Steps:
    return Steps()


@pytest.fixture
def incoming(tmp_path: Path, clock: Steps) -> Incoming:
    return Incoming(tmp_path / "incoming", clock)


@pytest.fixture
def table(tmp_path: Path, clock: Steps) -> Iterator[sl.Table]:
    with sl.connect(tmp_path / "warehouse", clock=clock) as session:
        yield session.create_table("t", SCHEMA)


def ids(table: sl.Table) -> list[str]:
    return table.scan(["id"]).to_arrow()["id"].to_pylist()


def states(report: sl.Report) -> dict[str, str]:
    return {each.file: each.state for each in report.files}


def once(table: sl.Table, incoming: Incoming, **options: Any) -> Any:
    table._store.clock.steps += [] if table._store.clock.steps else [lambda: None]
    report = table.watch(incoming.folder, once=True, **options)
    table._store.clock.steps.clear()
    return report


def test_files_that_are_at_rest_need_no_second_look(table, incoming):
    incoming.write("a.csv", "a,1")
    table._store.clock.advance(timedelta(seconds=61))
    assert states(once(table, incoming)) == {"a.csv": "loaded"}
    assert table._store.clock.slept == []
    incoming.write("b.csv", "b,1")
    table._store.clock.advance(timedelta(seconds=59))
    assert states(once(table, incoming)) == {"b.csv": "loaded"}
    assert table._store.clock.slept == [10.0]


def test_each_file_is_one_commit_and_is_loaded_once(table, incoming):
    incoming.write("b.csv", "b,1", "c,2")
    incoming.write("a.csv", "a,1")
    incoming.write("deep/d.csv", "d,1")
    report = once(table, incoming)
    assert [(each.file, each.state, each.rows, each.snapshot_id) for each in report.files] == [
        ("a.csv", "loaded", 1, 2), ("b.csv", "loaded", 2, 3), ("deep/d.csv", "loaded", 1, 4),
    ]  # fmt: skip
    assert [each.message for each in table.history()][:3] == ["deep/d.csv", "b.csv", "a.csv"]
    assert table._store.clock.slept == [10.0]
    again = once(table, incoming, message="daily")
    assert (again.files, again.loaded_before, ids(table)) == ((), 3, ["a", "b", "c", "d"])
    assert "no new file · 3 files loaded before · 0 rows added" in repr(again)
    incoming.write("e.csv", "e,1")
    assert states(once(table, incoming, message="daily")) == {"e.csv": "loaded"}
    assert table.history()[0].message == "daily: e.csv"


def test_another_session_goes_on_where_the_first_ended(table, incoming, tmp_path, clock):
    incoming.write("a.csv", "a,1")
    once(table, incoming)
    incoming.write("b.csv", "b,1")
    with sl.connect(tmp_path / "warehouse", clock=clock) as session:
        report = once(session.table("t"), incoming)
    assert (states(report), report.loaded_before) == ({"b.csv": "loaded"}, 1)
    assert ids(table) == ["a", "b"]


def test_a_file_that_is_being_written_waits_until_it_is_whole(table, incoming, clock):
    incoming.write("a.csv", "a,1")
    clock.steps = [
        lambda: incoming.write("a.csv", "a,1", "b,2"),
        lambda: incoming.write("a.csv", "a,1", "b,2", "c,3"),
        lambda: None,
    ]
    with pytest.raises(KeyboardInterrupt) as caught:
        table.watch(incoming.folder)
    assert caught.value.__notes__ == ["1 file loaded · 3 rows added"]
    assert ids(table) == ["a", "b", "c"]


def test_one_pass_leaves_files_that_are_still_written_and_says_so(table, incoming, clock):
    incoming.write("a.csv", "a,1")
    incoming.write("empty.csv", header="")
    clock.steps = [lambda: incoming.write("a.csv", "a,1", "b,2")]
    report = table.watch(incoming.folder, once=True)
    assert states(report) == {"a.csv": "being written", "empty.csv": "being written"}
    assert (report.failed, ids(table)) == ((), [])


def test_one_pass_says_what_it_waits_for(tmp_path, incoming, clock):
    said: list[str] = []

    class Hears(Silent):
        def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the form of all
            said.append(text)

    incoming.write("a.csv", "a,1")
    with sl.connect(tmp_path / "warehouse", clock=clock, progress=Hears()) as session:
        once(session.create_table("t", SCHEMA), incoming)
    assert said[0] == "looking again in 10 s whether 1 new file is complete"


def test_names_that_writers_use_until_a_file_is_whole_are_left_alone(table, incoming):
    for name in (".a.csv", "_b.csv", "c.csv.part", "d.tmp", "_temporary/e.csv", ".hidden/f.csv", "notes.txt"):
        incoming.write(name, "x,1")
    report = once(table, incoming)
    assert (report.files, report.passed_over) == ((), 3)
    assert "\n4 files left out, as their names or folders begin with . or _\n" in str(report)
    (incoming.folder / "_b.csv").rename(incoming.folder / "b.csv")
    assert states(once(table, incoming)) == {"b.csv": "loaded"}


def test_with_a_format_files_of_all_names_are_loaded(table, incoming):
    for name in ("a.csv", "notes.txt", "part-00000", "_SUCCESS"):
        incoming.write(name, f"{name[0]},1")
    report = once(table, incoming, format="csv")
    assert (states(report), report.passed_over) == (dict.fromkeys(("a.csv", "notes.txt", "part-00000"), "loaded"), 0)


def test_a_watch_of_a_table_in_a_lake_format_ends(table, incoming):
    incoming.write("_delta_log/00000000000000000000.json", header="{}")
    incoming.write("a.csv", "a,1")
    with pytest.raises(InvalidInput, match="is a Delta table"):
        once(table, incoming)


class Lines(Silent):
    """Keeps the lines that stay."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def finish(self, line: str = "") -> None:
        """Keep a line."""
        self.lines += [line] if line else []


def test_files_that_are_passed_over_are_counted_once(tmp_path, incoming, clock):
    for name in ("a.csv", "b.TXT", "c.txt", "deep/plain", "d.xlsx"):
        incoming.write(name, "x,1")
    lines = Lines()
    with sl.connect(tmp_path / "warehouse", clock=clock, progress=lines) as session:
        table = session.create_table("t", SCHEMA)
        clock.steps = [lambda: None, lambda: None]
        with pytest.raises(KeyboardInterrupt):
            table.watch(incoming.folder)
        text = "4 files passed over: a watch loads files whose names end in"
        assert [line for line in lines.lines if "passed over" in line] == [f"{text} {ENDINGS_TEXT}"]
        report = table.watch(incoming.folder, once=True)
        assert repr(report).count(text) == 1
        assert "passed over" not in repr(table.watch(f"{incoming.folder}/*.csv", once=True))
    assert sum("passed over" in line for line in lines.lines) == 1


def test_files_that_come_while_it_waits_are_loaded(table, incoming, clock):
    clock.steps = [lambda: incoming.write("a.csv", "a,1"), lambda: incoming.write("b.csv", "b,1"), lambda: None]
    with pytest.raises(KeyboardInterrupt):
        table.watch(incoming.folder, every=timedelta(seconds=3))
    assert (ids(table), clock.slept) == (["a", "b"], [3.0] * 4)


def test_a_bad_file_ends_the_watch_and_nothing_of_it_is_loaded(table, incoming):
    for name, row in (("a.csv", "a,1"), ("b.csv", "b,x"), ("c.csv", "c,3")):
        incoming.write(name, row)
    with pytest.raises(InvalidInput) as caught:
        once(table, incoming)
    assert "a.csv was loaded (snapshot 2); b.csv was not: column 'n'" in str(caught.value)
    assert "go on with the others: skip_bad=True" in str(caught.value)
    assert caught.value.__notes__[0].startswith("1 file loaded")
    assert ids(table) == ["a"]


def test_a_bad_file_is_skipped_reported_and_loaded_once_it_is_corrected(table, incoming, clock):
    incoming.write("a.csv", "a,1")
    incoming.write("b.csv", "b,x")
    incoming.write("c.csv", "c", header="id")
    incoming.write("d.csv", "d,1", header="id,other")
    incoming.write("e.csv", "e,1,2,3")
    incoming.write("f.parquet", "no Parquet file")
    broken = dict.fromkeys(("d.csv", "e.csv", "f.parquet"), "bad")
    report = once(table, incoming, skip_bad=True)
    assert states(report) == {"a.csv": "loaded", "b.csv": "bad", "c.csv": "loaded", **broken}
    assert [each.file for each in report.failed] == ["b.csv", *broken]
    assert "'x' is not a number" in repr(report)
    assert "nothing was changed" not in repr(report)
    assert ids(table) == ["a", "c"]
    clock.advance(timedelta(minutes=1))
    incoming.write("b.csv", "b,2")
    report = once(table, incoming, skip_bad=True)
    assert (states(report), ids(table)) == ({"b.csv": "loaded", **broken}, ["a", "b", "c"])


def test_a_bad_file_is_tried_again_only_when_it_changed(table, incoming, clock):
    incoming.write("b.csv", "b,x")
    clock.steps = [lambda: None, lambda: None, lambda: incoming.write("b.csv", "b,22"), lambda: None]
    with pytest.raises(KeyboardInterrupt) as caught:
        table.watch(incoming.folder, skip_bad=True)
    assert (caught.value.__notes__, ids(table)) == (["1 file loaded · 1 row added"], ["b"])
    assert [(run.kind, run.state) for run in table.inspect.jobs()] == [("ingest", "FINISHED"), ("ingest", "FAILED")]


def test_bad_rows_go_to_a_folder_of_quarantine(table, incoming, tmp_path):
    incoming.write("a.csv", "a,1", "b,x")
    incoming.write("deep/c.csv", "c,y", "d,2")
    incoming.write("fine.csv", "e,1")
    report = once(table, incoming, quarantine=tmp_path / "bad")
    assert [(each.file, each.rows, each.kept_back) for each in report.files] == [
        ("a.csv", 1, 1), ("deep/c.csv", 1, 1), ("fine.csv", 1, 0),
    ]  # fmt: skip
    assert parquet.read_table(tmp_path / "bad" / "deep" / "c.csv.parquet")["n"].to_pylist() == ["y"]
    assert sorted(each.name for each in (tmp_path / "bad").rglob("*.parquet")) == ["a.csv.parquet", "c.csv.parquet"]
    assert ids(table) == ["a", "d", "e"]
    assert "2 rows kept back" in repr(report)
    assert [each.reason for each in report.files] == ["", "", ""]
    with pytest.raises(InvalidInput, match="in the folder that is watched"):
        once(table, incoming, quarantine=incoming.folder / "bad")


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_file_whose_rows_are_all_kept_back_is_handled_once(table, incoming, tmp_path, is_deleted):
    bad = tmp_path / "bad" / "b.csv.parquet"
    incoming.write("a.csv", "a,1")
    incoming.write("b.csv", "b,x")
    report = once(table, incoming, quarantine=tmp_path / "bad")
    assert [(each.state, each.kept_back) for each in report.files] == [("loaded", 0), ("no rows", 1)]
    if is_deleted:
        bad.unlink()
    incoming.write("c.csv", "c,3")
    report = once(table, incoming, quarantine=tmp_path / "bad")
    assert (states(report), report.loaded_before, report.without_rows_before) == ({"c.csv": "loaded"}, 1, 1)
    assert "1 file loaded · 1 file loaded before · 1 file without rows before · 1 row added" in repr(report)
    assert (ids(table), bad.exists()) == (["a", "c"], not is_deleted)
    table._store.catalog.prune_jobs(table._store.table_id, table._store.clock.now() + timedelta(days=9), 0)
    again = once(table, incoming, quarantine=tmp_path / "bad", skip_bad=True)
    assert (again.files, again.loaded_before, again.without_rows_before) == ((), 2, 1)


@pytest.mark.parametrize("rows", [["b,2"], ["b,y"], ["b,2", "c,z"]])
def test_a_file_without_rows_that_changed_is_handled_again(table, incoming, tmp_path, clock, rows):
    bad = tmp_path / "bad"
    incoming.write("b.csv", "b,x")
    once(table, incoming, quarantine=bad)
    clock.advance(timedelta(minutes=1))
    incoming.write("b.csv", *rows)
    report = once(table, incoming, quarantine=bad)
    is_good = rows[0] == "b,2"
    assert (states(report), report.without_rows_before) == ({"b.csv": "loaded" if is_good else "no rows"}, 0)
    assert ids(table) == (["b"] if is_good else [])
    values = [["x"]] if rows == ["b,2"] else [["x"], [rows[-1][2:]]]
    names = ["b.csv.parquet", "b.csv.2.parquet"]
    assert [parquet.read_table(bad / name)["n"].to_pylist() for name in names[: len(values)]] == values
    assert once(table, incoming, quarantine=bad).files == ()


def test_a_file_that_has_only_a_header_is_handled_once_and_again_when_it_has_rows(table, incoming, clock):
    incoming.write("a.csv")
    assert states(once(table, incoming)) == {"a.csv": "no rows"}
    again = once(table, incoming)
    assert (again.files, again.without_rows_before) == ((), 1)
    clock.advance(timedelta(minutes=1))
    incoming.write("a.csv", "a,1")
    assert (states(once(table, incoming)), ids(table)) == ({"a.csv": "loaded"}, ["a"])


def test_a_file_whose_row_keys_are_all_taken_is_handled_once(tmp_path, clock, incoming):
    with sl.connect(tmp_path / "unique", clock=clock) as session:
        table = session.create_table("u", sl.Schema.from_ddl("id STRING KEY, n INT, UNIQUE KEYS"))
        for name in ("a.csv", "b.csv"):
            incoming.write(name, "a,1")
        options = {"quarantine": tmp_path / "bad", "skip_bad": True}
        assert states(once(table, incoming, **options)) == {"a.csv": "loaded", "b.csv": "no rows"}
        incoming.write("c.csv", "c,1")
        assert states(once(table, incoming, **options)) == {"c.csv": "loaded"}


def test_a_file_of_rows_that_an_ended_process_left_stops_no_watch(table, incoming, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.csv.parquet").write_bytes(b"")
    incoming.write("a.csv", "a,1", "b,x")
    assert [each.kept_back for each in once(table, incoming, quarantine=tmp_path / "bad").files] == [1]
    assert parquet.read_table(tmp_path / "bad" / "a.csv.2.parquet")["n"].to_pylist() == ["x"]


def test_rows_of_a_watch_are_kept_back_in_a_folder(table, incoming, tmp_path):
    for name in ("bad.parquet", "deep/bad.Parquet/"):
        with pytest.raises(InvalidInput, match="is the name of a file") as caught:
            once(table, incoming, quarantine=f"{tmp_path}/{name}")
        assert caught.value.hint == "give a folder, in which each file gets one: quarantine='bad'"


def test_lines_with_too_many_values_are_kept_back_in_a_folder(table, incoming, tmp_path):
    incoming.write("a.csv", "a,1", "b,2,3")
    with pytest.raises(InvalidInput) as caught:
        once(table, incoming)
    assert "a.csv: line 3 has 3 values, but there are 2 columns: 'b,2,3', in " in caught.value.message
    assert "an ingest with quarantine='DIR' keeps such lines in a file" in caught.value.hint
    report = once(table, incoming, quarantine=tmp_path / "bad")
    assert [(each.rows, each.kept_back) for each in report.files] == [(1, 1)]
    assert parquet.read_table(tmp_path / "bad" / "a.csv.parquet")["_text"].to_pylist() == ["b,2,3"]


@pytest.mark.parametrize(("before", "loaded"), [
    (["a.csv"], "a.csv was loaded (snapshot 2); d.csv was not: column"),
    (["a.csv", "b.csv", "c.csv"], "3 files were loaded (snapshots 2 to 4); d.csv was not: column"),
])  # fmt: skip
def test_an_error_says_what_was_loaded_before(table, incoming, before, loaded):
    for name in before:
        incoming.write(name, f"{name},1")
    incoming.write("d.csv", "d,x")
    with pytest.raises(InvalidInput) as caught:
        once(table, incoming)
    assert caught.value.message.startswith(loaded)
    assert "nothing else was changed; correct the file" in caught.value.hint
    assert "nothing was changed" not in str(caught.value)
    with pytest.raises(InvalidInput) as caught:
        once(table, incoming)
    assert caught.value.message.startswith("d.csv: column")
    assert "nothing was changed" in caught.value.hint


def test_an_error_that_is_not_of_the_file_says_what_was_loaded_before(table, incoming, monkeypatch):
    def commit(*_: Any, **__: Any) -> None:
        raise ConflictError("other writers committed first", hint=(Unchanged(after="; "), "run it again"))

    class Breaks(Silent):
        def finish(self, text: str = "") -> None:
            if text.startswith("a.csv:"):
                monkeypatch.setattr(StateStore, "commit", commit)

    with sl.connect(incoming.folder.parent / "other", clock=table._store.clock, progress=Breaks()) as session:
        other = session.create_table("t", SCHEMA)
        for name in ("a", "b"):
            incoming.write(f"{name}.csv", f"{name},1")
        with pytest.raises(ConflictError) as caught:
            once(other, incoming, skip_bad=True)
    assert caught.value.message == "a.csv was loaded (snapshot 2); b.csv: other writers committed first"
    assert caught.value.hint == "nothing else was changed; run it again"


def test_a_file_that_changed_after_it_was_loaded_is_named_and_not_loaded_again(table, incoming, clock):
    incoming.write("a.csv", "a,1")
    once(table, incoming)
    clock.advance(timedelta(hours=1))
    incoming.write("a.csv", "a,1", "b,2")
    report = once(table, incoming)
    assert [(each.file, each.state, each.snapshot_id) for each in report.files] == [("a.csv", "changed since", 2)]
    assert "give the new file another name" in repr(report)
    assert ids(table) == ["a"]


def test_job_ids_with_a_name_of_their_own_let_the_folder_move(table, incoming, tmp_path):
    incoming.write("a.csv", "a,1")
    once(table, incoming, job_id="landing")
    assert table.history()[0].job_id == "landing/a.csv"
    incoming.folder = incoming.folder.rename(tmp_path / "moved")
    assert once(table, incoming, job_id="landing").loaded_before == 1


def test_expectations_that_files_break_are_reported(table, incoming):
    table.set_properties({"sleeper.table.expect": "n > 1"})
    incoming.write("a.csv", "a,1", "b,2")
    report = once(table, incoming)
    assert "expectation 'n > 1' is broken by line 2: n = 1, in " in report.files[0].reason


def test_a_glob_names_the_files(table, incoming):
    incoming.write("a.csv", "a,1")
    incoming.write("b.tsv", "b\t1", header="id\tn")
    table._store.clock.steps = [lambda: None]
    report = table.watch(str(incoming.folder / "*.csv"), once=True)
    assert states(report) == {"a.csv": "loaded"}


def test_wrong_folders_and_times_are_named(table, incoming, tmp_path):
    (tmp_path / "x.csv").write_text("id\na\n")
    for folder, message, hint in (
        (tmp_path / "nope", "does not exist", "create it"),
        (tmp_path / "x.csv", "is a file", f"to watch its folder: {tmp_path}"),
    ):
        with pytest.raises(NotFound, match=message) as caught:
            table.watch(folder, once=True)
        assert caught.value.hint.startswith(hint)
    with pytest.raises(InvalidInput, match="cannot look every"):
        table.watch(incoming.folder, every=timedelta(0))


def test_a_name_that_no_job_id_can_have_is_a_bad_file(table, incoming):
    incoming.write("a\nb.csv", "a,1")
    report = once(table, incoming, skip_bad=True)
    assert [each.state for each in report.files] == ["bad"]
    assert "is not a valid job id" in report.files[0].reason


@pytest.mark.parametrize(
    "address", ["../incoming", "other/../../incoming", "../link", "../link/*.csv", "../.hid/in*/*.csv"]
)
def test_a_folder_is_the_same_by_any_address(table, incoming, tmp_path, monkeypatch, address):
    (tmp_path / "work" / "other").mkdir(parents=True)
    (tmp_path / "link").symlink_to(incoming.folder)
    (tmp_path / ".hid").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "work")
    incoming.write("a.csv", "a,1")
    table._store.clock.steps = [lambda: None]
    report = table.watch(address, once=True)
    name = "incoming/a.csv" if "in*" in address else "a.csv"
    assert (states(report), ids(table)) == ({name: "loaded"}, ["a"])
    assert once(table, incoming).loaded_before == 1


@pytest.mark.parametrize("address", ["", "*", "**/*.csv"])
def test_files_in_a_folder_that_is_named_as_a_file_are_loaded_once(table, incoming, address):
    incoming.write("out.csv/part-0.csv", "a,1")
    table._store.clock.steps = [lambda: None]
    report = table.watch(incoming.folder / address, once=True)
    assert (states(report), ids(table)) == ({"out.csv/part-0.csv": "loaded"}, ["a"])


def test_a_link_to_no_file_is_an_error_instead_of_an_empty_folder(table, incoming):
    incoming.write("a.csv", "a,1")
    (incoming.folder / "b.csv").symlink_to("nowhere.csv")
    with pytest.raises(StorageError, match=r"b\.csv.*is a link to a file that does not exist"):
        once(table, incoming)


def test_a_file_that_is_replaced_by_an_older_one_is_named(table, incoming, clock):
    def replace_by_older() -> None:
        incoming.write("a.csv", "a,1", "b,2")
        os.utime(incoming.folder / "a.csv", (1, 1))

    incoming.write("a.csv", "a,1")
    clock.steps = [lambda: None, replace_by_older, lambda: None]
    with pytest.raises(KeyboardInterrupt) as caught:
        table.watch(incoming.folder)
    assert caught.value.__notes__ == ["1 file loaded · 1 file changed since · 1 row added"]
    clock.steps = [lambda: incoming.write("a.csv", "c,3"), lambda: None]
    with pytest.raises(KeyboardInterrupt) as caught:  # also one that an earlier watch has loaded
        table.watch(incoming.folder)
    assert caught.value.__notes__ == ["1 file changed since · 1 file loaded before · 0 rows added"]


def test_a_file_that_is_written_while_it_is_loaded_is_named(tmp_path, clock, incoming):
    class Appends(Silent):
        def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the form of all
            if text == "loading a.csv":
                kept = (incoming.folder / "a.csv").stat()
                incoming.write("a.csv", "a,1", "b,2")
                os.utime(incoming.folder / "a.csv", ns=(kept.st_atime_ns, kept.st_mtime_ns))

    with sl.connect(tmp_path / "warehouse", clock=clock, progress=Appends()) as session:
        table = session.create_table("t", SCHEMA)
        incoming.write("a.csv", "a,1")
        report = once(table, incoming)
    assert [each.state for each in report.files] == ["loaded", "changed since"]


def test_a_file_that_another_watch_loads_meanwhile_is_counted_by_that_one(tmp_path, clock, incoming):
    class LoadsToo(Silent):
        def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the form of all
            if text == "loading a.csv":
                other.ingest(str(incoming.folder / "a.csv"), job_id=f"{incoming.folder}/a.csv")

    incoming.write("a.csv", "a,1")
    with (
        sl.connect(tmp_path / "warehouse", clock=clock, progress=LoadsToo()) as session,
        sl.connect(tmp_path / "warehouse", clock=clock) as another,
    ):
        table = session.create_table("t", SCHEMA)
        other = another.table("t")
        report = once(table, incoming)
    assert (report.files, report.loaded_before, report.rows) == ((), 1, 0)


@pytest.mark.parametrize("first", ["create", "ingest", "bulk_import", "add_files", "one file", "quarantine"])
def test_files_that_another_load_has_added_are_known(incoming, tmp_path, clock, monkeypatch, first):
    (tmp_path / "link").symlink_to(incoming.folder)
    monkeypatch.chdir(tmp_path)
    (incoming.folder / "deep").mkdir()
    parquet.write_table(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}), "link/deep/a.parquet")
    clock.advance(timedelta(days=36500))  # later than the machine's time of change
    with sl.connect("warehouse", clock=clock, data_paths=[incoming.folder]) as session:
        if first == "create":
            table = session.create_table("t", data="link", row_keys=["id"])
        else:
            table = session.create_table("t", SCHEMA)
        if first == "one file":
            table.ingest("link/deep/a.parquet")
        elif first == "quarantine":
            table.ingest("link", quarantine="bad.parquet")
        elif first != "create":
            getattr(table, first)("link")
        report = once(table, incoming)
        assert (report.files, report.loaded_before, ids(table)) == ((), 1, ["a"])
        incoming.write("b.csv", "b,1")
        assert states(once(table, incoming)) == {"b.csv": "loaded"}


def test_a_file_without_rows_that_another_load_has_read_is_not_known(table, incoming):
    incoming.write("a.csv")
    table.ingest(incoming.folder)
    incoming.write("a.csv", "a,1")
    assert states(once(table, incoming)) == {"a.csv": "loaded"}


def test_a_load_is_done_when_its_files_cannot_be_remembered(table, incoming, monkeypatch, caplog):
    def fail(*_: Any) -> None:
        raise StorageError("the network is down", hint="try again")

    incoming.write("a.csv", "a,1")
    monkeypatch.setattr(table._store.catalog, "remember_jobs", fail)
    assert table.ingest(incoming.folder).rows == 1
    assert "a watch would load 1 files again: the network is down" in caplog.text
