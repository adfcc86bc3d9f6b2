"""What changes answers is recorded with each version: no edit of a properties file changes an answer unseen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.admin.property_files import PropertyFiles
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, SleeperError, StorageError
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS
from sleeper_nb.model.properties import STATE_STORE, TABLE_SCHEMA, schema_line
from sleeper_nb.progress import Silent
from tests.support.modes import read_only
from tests.whole.test_flipped_bits import flips

SCHEMA = sl.Schema({"key": "string"}, {}, {"visits": "long"})
ROWS = [{"key": "a", "visits": 1}]
EMBEDDED = ("S3StateStore", "TransactionLogStateStore")


class Lines(Silent):
    """A progress callback that keeps the lines that stay."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def finish(self, text: str = "") -> None:
        self.lines += [text] if text else []


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def session(tmp_path: Path, lines: Lines) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "w", progress=lines) as opened:
        yield opened


def summed(session: sl.Session, kind: str = "S3StateStore") -> sl.Table:
    """Make a table that adds up its visits: 3 of ``a``."""
    table = session.create_table("t", SCHEMA, properties={AGGREGATIONS: "sum(visits)"}, state_store=kind)
    for _ in range(3):
        table.ingest(ROWS)
    return table


def file_of(session: sl.Session) -> Path:
    (found,) = Path(session.location).rglob("config/tables/*.properties")
    return found


def without(path: Path, name: str) -> None:
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith(name)))


def visits(table: sl.Table, version: int | str | None = None) -> list[int]:
    return sorted(table.scan(version=version).to_arrow()["visits"].to_pylist())


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_line_that_was_taken_out_by_hand_changes_no_answer_and_is_told(session: sl.Session, lines: Lines, kind: str):
    summed(session, kind)
    without(file_of(session), AGGREGATIONS)
    table = session.table("t")
    assert visits(table) == [3]
    assert session.sql("SELECT visits FROM t", engine="duckdb").to_arrow()["visits"].to_pylist() == [3]
    table.maintenance.compact("all")
    assert visits(table) == [3]
    for said in (repr(table), repr(table.inspect.status()), repr(table.maintenance.check())):
        assert f"does not set {AGGREGATIONS}" in said
        assert str(file_of(session)) in said
    assert not table.maintenance.check().ok
    table.ingest(ROWS)
    assert any("the value in effect is sum(visits)" in line for line in lines.lines)
    assert visits(table) == [4]


@pytest.mark.parametrize("content", ["", "\n", "# all gone\n", "snapshot.time-retained=1 d\n"])
def test_an_emptied_file_is_an_error_that_names_it(session: sl.Session, content: str):
    summed(session)
    file_of(session).write_text(content)
    with pytest.raises(InvalidInput, match=r"table-\w+\.properties was emptied or cut"):
        session.table("t")


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_change_by_command_is_a_version_and_older_ones_keep_their_answers(session: sl.Session, kind: str):
    table = summed(session, kind)
    table.create_savepoint("summed")
    changed = table.set_properties({AGGREGATIONS: "max(visits)"})
    assert [each.value for each in changed] == ["max(visits)"]
    head = table.history()[0]
    assert (head.operation, head.id) == ("properties", 5)
    assert (visits(table), visits(table, 4), visits(table, "savepoint.summed"), visits(table, 3)) == (
        [1],
        [3],
        [3],
        [2],
    )
    again = sl.connect(Path(session.location).parent)
    assert (visits(again.table("t")), visits(again.table("t"), 4)) == ([1], [3])
    again.close()
    table.set_properties({AGGREGATIONS: None})
    assert (visits(table), visits(table, 5), visits(table, 4)) == ([1, 1, 1], [1], [3])
    assert table.changes(4, 5).rows().to_arrow().num_rows == 2  # 3 gave way to 1
    assert (table.diff(5, 6).rows.added, table.diff(5, 6).rows.removed) == (2, 0)
    assert table.maintenance.check(deep=True).ok
    table.rollback(4)
    assert visits(table) == [1, 1, 1]  # rows are those of then; properties stay
    table.maintenance.expire(dry_run=False, num_retained_min=1, num_retained_max=1)
    assert visits(table, "savepoint.summed") == [3]
    table.set_properties({"snapshot.time-retained": "3 d"})
    assert table.history()[0].id == 6  # it changes no answer, so it makes no version
    assert table.maintenance.check().ok


def test_accepting_an_edited_file_makes_it_count_from_then_on(session: sl.Session):
    table = summed(session)
    path = file_of(session)
    path.write_text(path.read_text().replace("sum(visits)", "max(visits)") + "snapshot.time-retained=3 d\n")
    assert visits(session.table("t")) == [3]
    taken = session.table("t").accept_properties()
    assert {AGGREGATIONS, "snapshot.time-retained"} <= {each.name for each in taken}
    table = session.table("t")
    assert (visits(table), visits(table, 4), table.maintenance.check().findings) == ([1], [3], ())


def test_a_setting_that_was_edited_by_hand_counts_and_is_told_until_it_is_accepted(session: sl.Session):
    table = summed(session)
    with file_of(session).open("a") as stream:
        stream.write("snapshot.time-retained=3 d\n")
    table = session.table("t")
    assert table.at().properties.text("snapshot.time-retained") == "3 d"
    (finding,) = table.maintenance.check().findings
    assert "was changed by hand" in finding.what
    table.set_properties({"snapshot.num-retained.min": "3"})
    assert not table.maintenance.check().ok
    table.accept_properties()
    assert table.maintenance.check().ok


def test_a_schema_that_waits_is_told_with_the_files_path(session: sl.Session, lines: Lines):
    table = summed(session)
    new = schema_line(sl.Schema({"key": "string"}, {}, {"visits": "long", "more": "long"}))
    path = file_of(session)
    without(path, TABLE_SCHEMA)
    with path.open("a") as stream:
        stream.write(f"{TABLE_SCHEMA}={new}\n")
    table = session.table("t")
    table.ingest(ROWS)
    for said in (repr(table), repr(table.inspect.status()), repr(table.maintenance.check()), *lines.lines):
        assert f"{path} has another {TABLE_SCHEMA} than the table" in said
        assert f"properties t --unset {TABLE_SCHEMA}" in said
        assert "Only reinitialising takes the schema of the file; it deletes all rows" in said
    assert lines.lines
    table.set_properties({TABLE_SCHEMA: None})
    assert f"{TABLE_SCHEMA}={schema_line(SCHEMA)}" in path.read_text().splitlines()
    table.accept_properties()
    assert table.maintenance.check().ok
    assert visits(table) == [4]


def test_settings_of_a_commit_count_before_their_file_can_be_written(session: sl.Session):
    table = session.create_table("t", SCHEMA)
    table.ingest(ROWS * 2)
    before = file_of(session).read_text()
    with read_only([file_of(session).parent]):
        table.set_properties({AGGREGATIONS: "sum(visits)", "snapshot.time-retained": "3 d"})
        table.alter(comments={"visits": "each day"})
        opened = session.table("t")
        assert (visits(opened), opened.at().properties.text("snapshot.time-retained")) == ([2], "3 d")
        assert [each.operation for each in opened.history()[:2]] == ["alter", "properties"]
        assert file_of(session).read_text() == before
    assert session.table("t").inspect.status().notes == ()
    assert "snapshot.time-retained=3 d" in file_of(session).read_text()
    assert "each day" in file_of(session).read_text()


def test_every_listing_has_the_id_and_the_path(session: sl.Session):
    table = summed(session)
    assert table.entry.id in repr(session.tables())
    assert "config/tables/table-<id>.properties" in repr(session.tables())
    assert table.entry.id in repr(table)
    assert str(file_of(session)) in repr(table)


def test_every_flip_of_a_properties_file_is_found_and_no_answer_changes(session: sl.Session):
    summed(session)
    found: list[bool] = []
    for at in flips(file_of(session)):
        try:
            table = session.table("t")
            notes = table.inspect.status().notes
        except SleeperError as error:
            found.append("table-" in error.message)
        else:
            found.append(bool(notes))
            if at % 40 == 0:
                assert not table.maintenance.check().ok
                assert visits(table) == [3]
    assert all(found)
    assert len(found) == file_of(session).stat().st_size


def test_migration_and_alteration_write_the_file_themselves(session: sl.Session):
    table = summed(session)
    session.admin.migrate("t", "TransactionLogStateStore")
    assert session.table("t").at().properties.text(STATE_STORE) == "TransactionLogStateStore"
    session.table("t").set_properties({AGGREGATIONS: None})
    table = session.table("t")
    table.alter(add_columns={"note": "string?"})
    assert session.table("t").maintenance.check(deep=True).ok
    assert visits(session.table("t"), 4) == [3]


def test_a_filter_that_came_later_leaves_old_versions_alone(session: sl.Session):
    schema = sl.Schema({"key": "string"}, {}, {"at": "long"})
    table = session.create_table("t", schema)
    table.ingest([{"key": "a", "at": 0}])
    table.set_properties({FILTERS: "ageOff(at,1000)"})
    assert (table.scan().count(), table.scan(version=2).count()) == (0, 1)


@pytest.mark.parametrize("work", ["maintenance.expire", "maintenance.collect_garbage", "maintain"])
def test_nothing_is_deleted_by_a_properties_file_that_was_cut(session: sl.Session, work: str):
    """Of a cut file the last lines are lost: those that say how long versions stay."""
    table = session.create_table("t", SCHEMA, properties={"snapshot.num-retained.min": "100"})
    table.ingest(ROWS)
    path = file_of(session)
    without(path, "snapshot.num-retained.min")
    assert TABLE_SCHEMA in path.read_text()
    table = session.table("t")
    attrgetter(work)(table)(dry_run=True)
    with pytest.raises(ConfirmationNeeded, match="was changed by hand, or damaged"):
        attrgetter(work)(table)(dry_run=False)
    assert [each.id for each in table.history()] == [2, 1]
    table.accept_properties()
    attrgetter(work)(table)(dry_run=False)


class Looking:
    """Looks whether a file counts as edited before and after each request to another object."""

    def __init__(self, inner: object, look: Callable[[], None]) -> None:
        self._inner, self._look = inner, look

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._inner, name)

        def answer(*arguments: Any, **named: Any) -> Any:
            self._look()
            try:
                return asked(*arguments, **named)
            finally:
                self._look()

        return answer


def test_a_file_that_a_command_replaces_never_counts_as_changed_by_hand(session: sl.Session):
    table = summed(session)
    files, table_id, looks = table._opened.components.property_files, table.entry.id, []
    look = lambda: looks.append(files.is_edited(table_id))  # noqa: E731
    places = (Looking(files._storage, look), files.instance, files.permissions, Looking(files._catalog, look))
    PropertyFiles(*places).change(table_id, {"snapshot.time-retained": "3 d"})  # type: ignore[arg-type]
    assert len(looks) >= 6
    assert not any(looks)
    assert len(files.recorded(table_id).checksums) == 1


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_file_whose_checksum_cannot_be_recorded_stays_as_it_was_or_counts(session: sl.Session, fails_at: int):
    table = summed(session)
    files, table_id = table._opened.components.property_files, table.entry.id

    class Failing(Looking):
        noted = 0

        def note_properties(self, *arguments: str) -> bool:
            self.noted += 1
            if self.noted == fails_at:
                raise StorageError("the disk is full", hint="free some")
            return self._inner.note_properties(*arguments)  # type: ignore[attr-defined]

    failing = PropertyFiles(
        files._storage,
        files.instance,
        files.permissions,
        Failing(files._catalog, lambda: None),  # type: ignore[arg-type]
    )
    with contextlib.suppress(StorageError):
        failing.change(table_id, {"snapshot.time-retained": "3 d"})
    assert session.table("t").at().properties.text("snapshot.time-retained") == ("7 d" if fails_at == 1 else "3 d")
    assert session.table("t").maintenance.check().ok
    session.table("t").set_properties({"snapshot.time-retained": "4 d"})
    assert session.table("t").maintenance.check().ok
    file_of(session).write_text(file_of(session).read_text() + "# by hand\n")
    assert not session.table("t").maintenance.check().ok
