"""A report is of the state that its commit changed, and a plan of one moment: another session writes in between.

Each operation is done once for each of its requests, and just before that request another session writes. Whatever the
order, what the report says and what is in the table afterwards must fit.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConflictError, StateRuleBroken
from sleeper_nb.progress import SILENT
from sleeper_nb.session import Session
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.admin.test_reinitialise import edit_schema
from tests.support.faults import Faulty, FaultyStorage, no_disk
from tests.whole.test_one_version import LATER, Interruption

SCHEMA = sl.Schema({"city": "string"}, {}, {"n": "int"})
COMPACTING = {
    "sleeper.table.compaction.strategy.class": "basic",
    "sleeper.table.compaction.files.batch.size": "2",
}


@pytest.fixture(autouse=True)
def no_turns(monkeypatch: pytest.MonkeyPatch):
    """Let another session commit in the turn of the first, as one on another machine would."""
    monkeypatch.setattr(SqliteCatalog, "commit_lock", lambda *_: contextlib.nullcontext())


def opened(folder: Path, interruption: Interruption | None = None) -> Session:
    storage: Any = Storage(LocalPlace(folder, sync=False))
    catalog: Any = SqliteCatalog(folder / "catalog.sqlite", sync=False)
    if interruption is not None:
        storage, catalog = FaultyStorage(storage, interruption), Faulty(catalog, interruption, no_disk)  # type: ignore[arg-type]
    return Session(
        "house", storage, catalog,
        clock=ManualClock(LATER, seed=int(interruption is not None)), progress=SILENT, author=None, spark=None,
        spark_config={},
    )  # fmt: skip


def prepare(session: Session) -> sl.Table:
    """Make a table of three snapshots: none, two and four rows, each ingest with one file."""
    table = session.create_table("t", SCHEMA, properties=COMPACTING)
    for _ in range(2):
        table.ingest([{"city": "athens", "n": 1}, {"city": "rome", "n": 2}])
    return table


def ingest(table: sl.Table) -> None:
    table.ingest([{"city": "lima", "n": 3}])


def every_order(
    folder: Path, work: Callable[[Session], Any], write: Callable[[sl.Table], object] = ingest
) -> Iterator[tuple[Any, sl.Table]]:
    """Yield the answer of some work, and the table, for each request before which another session writes."""
    for at in itertools.count(1):
        interruption = Interruption()
        with closing(opened(folder / f"{at}")) as other, closing(opened(folder / f"{at}", interruption)) as session:
            table = prepare(other)
            interruption.at, interruption.commit = at, lambda table=table: write(table)
            answer = work(session)
            if interruption.requests < at:
                assert at > 5
                return
            interruption.at = 0
            yield answer, table


@pytest.mark.parametrize("to", [1, 2])
def test_the_report_of_a_rollback_is_of_what_it_undid(tmp_path: Path, to: int):
    late = 0
    for report, table in every_order(tmp_path, lambda session: session.table("t").rollback(to)):
        made = report.snapshot
        before = table.at(made.id - 1).state
        assert [s.id for s in report.undone] == list(range(made.id - 1, to, -1))
        assert (report.rows_before, report.files_before) == (before.totals().rows, before.totals().files)
        assert report.rows_after == table.at(made.id).state.totals().rows == 2 * (to - 1)
        assert report.removed_files == made.id - 1 - to
        late += made.id == 5
    assert late > 1


def test_a_rollback_that_another_session_did_first_makes_no_snapshot(tmp_path: Path):
    def same(table: sl.Table) -> None:
        table.rollback(2)

    for report, table in every_order(tmp_path, lambda session: session.table("t").rollback(2), same):
        assert report.is_nothing == (report.snapshot is None)
        assert [s.id for s in table.history()] == [4, 3, 2, 1]
        assert "nothing to do" not in repr(report) or report.rows_before == report.rows_after == 2


def test_the_report_of_a_reinitialising_is_of_what_it_deleted(tmp_path: Path):
    deleted = set()

    def work(session: Session) -> Any:
        return session.admin.reinitialise("t", force=True)

    for report, table in every_order(tmp_path, work):
        assert report.rows + table.scan().count() == 5
        assert report.files + table.inspect.status().files == 3
        deleted.add(report.rows)
    assert deleted == {4, 5}


def test_the_report_of_a_reinitialising_names_each_savepoint_that_stays(tmp_path: Path):
    def save(table: sl.Table) -> None:
        table.create_savepoint("kept")

    for report, table in every_order(tmp_path, lambda s: s.admin.reinitialise("t", force=True), save):
        old = [point.name for point in table.savepoints() if point.saved_snapshot_id < report.snapshot.id]
        assert list(report.savepoints) == old


def test_a_table_that_is_empty_already_keeps_what_others_commit_meanwhile(tmp_path: Path):
    def write(table: sl.Table) -> None:
        ingest(table)
        ingest(table)

    def work(session: Session) -> Any:
        session.admin.reinitialise("t", force=True)
        return session.admin.reinitialise("t", force=True)

    late = 0
    for report, table in every_order(tmp_path, work, write):
        if report.snapshot is None and table.scan().count():
            assert [s.id for s in table.history()] == [6, 5, 4]
            late += 1
    assert late


def test_a_splitting_reports_the_rows_that_it_split(tmp_path: Path):
    for report, table in every_order(tmp_path, lambda session: session.table("t").maintenance.split(at="lima")):
        (split,) = report.splits
        assert split.rows == table.at(report.snapshot.id - 1).scan().count()
        assert sum(rows for _, _, rows in split.parts) == split.rows


def test_an_alteration_reports_the_columns_that_it_changed(tmp_path: Path):
    def alter(table: sl.Table) -> None:
        table.alter({"late": "int?"})

    for report, table in every_order(tmp_path, lambda session: session.table("t").alter({"m": "int?"}), alter):
        assert report.before == table.at(report.snapshot.id - 1).schema
        assert report.after == table.at(report.snapshot.id).schema


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_compaction_is_planned_from_claims_and_files_of_one_moment(tmp_path: Path, dry_run: bool):
    """Otherwise it plans to merge files that another session has merged."""

    def work(session: Session) -> Any:
        return session.table("t").maintenance.compact(dry_run=dry_run)

    for report, table in every_order(tmp_path, work, lambda table: table.maintenance.compact()):
        merged = [job.filenames for job in report.jobs]
        assert merged == [] or dry_run or len(merged) == 1
        assert not report.refused or not dry_run
        assert table.inspect.status().files == 1


def test_a_plan_of_a_compaction_is_of_files_that_were_there_after_the_claims_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with closing(opened(tmp_path)) as session, closing(opened(tmp_path)) as other:
        prepare(session)
        real = SqliteCatalog.claims
        catalog, waiting = session._components.catalog, [other.table("t")]

        def claims(self: SqliteCatalog, *given: Any) -> Any:
            if self is catalog and waiting:
                waiting.pop().maintenance.compact()
            return real(self, *given)

        monkeypatch.setattr(SqliteCatalog, "claims", claims)
        assert session.table("t").maintenance.compact(dry_run=True).jobs == ()


@pytest.mark.parametrize("error", [ConflictError, StateRuleBroken])
@pytest.mark.parametrize("work", ["alter", "reinitialise"])
def test_a_schema_whose_commit_failed_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], work: str
):
    with closing(opened(tmp_path)) as session:
        table = prepare(session)
        if work == "reinitialise":
            edit_schema(session, table, sl.Schema({"city": "string"}, {}, {"m": "int"}))

        def schemas() -> list[str]:
            return sorted(path.name for path in tmp_path.rglob("schema/*"))

        def lost(self: StateStore, change: Any, **_: Any) -> None:
            change(self.load())
            assert len(schemas()) == 2
            raise error("lost", hint="again")

        monkeypatch.setattr(StateStore, "commit", lost)
        before = schemas()
        with pytest.raises(error):
            table.alter({"m": "int?"}) if work == "alter" else session.admin.reinitialise("t", force=True)
        assert schemas() == before


def test_a_reinitialising_with_another_schema_is_planned_anew_on_a_table_that_was_altered(tmp_path: Path):
    fresh = sl.Schema({"city": "string"}, {}, {"m": "int"})

    def work(session: Session) -> Any:
        edit_schema(session, session.table("t"), fresh)
        return session.admin.reinitialise("t", force=True)

    def alter(table: sl.Table) -> None:
        table.alter({"late": "int?"})

    ids = set()
    for report, table in every_order(tmp_path, work, alter):
        made = table.at(report.snapshot.id)
        if [field.name for field in made.schema.values] == ["m"]:  # else `alter` has written the properties file after
            ids |= {report.snapshot.schema_id}
    assert ids == {2, 3, 4}
