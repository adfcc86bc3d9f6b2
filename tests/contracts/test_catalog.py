"""What every catalog holds. A new catalog joins by one line in `CATALOGS` and `KINDS`."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from sleeper_nb.catalog.catalog_base import Catalog, FileClaim, PropertiesNote, TableEntry
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.errors import AlreadyExists, NotFound, StorageError
from sleeper_nb.model.jobs import Job, Lease, ServiceLease
from sleeper_nb.model.snapshots import Snapshot, to_micros
from tests.support.backends import DYNAMODB
from tests.support.builders import START, savepoint, snapshot

CATALOGS: dict[str, Callable[[Path], Catalog]] = {
    "sqlite": lambda folder: SqliteCatalog(folder / "catalog.sqlite"),
    **{f"dynamodb-{name}": opener for name, opener in DYNAMODB.items()},
}
KINDS = [
    "sqlite",
    "dynamodb-memory",
    # does one request at a time, so here a race is only one of who comes first
    pytest.param("dynamodb-moto", marks=pytest.mark.moto),
    pytest.param("dynamodb-local", marks=pytest.mark.servers),
]
LATER = START + timedelta(hours=1)


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
    """What opens one and the same catalog, as another process would."""
    made: list[Catalog] = []

    def open_again() -> Catalog:
        made.append(CATALOGS[request.param](tmp_path))
        return made[-1]

    yield open_again
    for catalog in made:
        catalog.close()


@pytest.fixture
def catalog(opened: Callable[[], Catalog]) -> Catalog:
    """A catalog with table `t` at snapshot 1."""
    catalog = opened()
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    return catalog


def commit(catalog: Catalog, *numbers: int) -> None:
    for number in numbers:
        assert catalog.commit("t", catalog.current("t"), snapshot(number))


def test_a_table_is_found_by_name_with_its_first_snapshot(catalog: Catalog, opened: Callable[[], Catalog]):
    catalog.create_table(TableEntry("u", "a table"), snapshot(1, "other"))
    assert opened().tables() == (TableEntry("u", "a table"), TableEntry("t", "table"))
    assert opened().current("t") == snapshot(1)


def test_a_table_is_found_by_its_name_in_any_case(catalog: Catalog):
    assert catalog.find_table("trips") is None
    catalog.create_table(TableEntry("1", "Straße"), snapshot(1, "one"))
    catalog.create_table(TableEntry("2", "trips"), snapshot(1, "two"))
    assert catalog.find_table("trips") == catalog.find_table("TRIPS") == TableEntry("2", "trips")
    assert catalog.find_table("STRASSE") == catalog.find_table("Straße") == TableEntry("1", "Straße")
    catalog.rename_table("2", "trips", "Rides")
    catalog.set_online("2", online=False)
    assert catalog.find_table("trips") is None
    assert catalog.find_table("rides") == TableEntry("2", "Rides", online=False)
    catalog.delete_table("2", "Rides")
    assert catalog.find_table("Rides") is None


def test_a_name_that_was_found_before_is_found_as_it_is_now(catalog: Catalog, opened: Callable[[], Catalog]):
    other = opened()
    for _ in range(2):
        assert catalog.find_table("Table") == TableEntry("t", "table")
    other.set_online("t", online=False)
    assert catalog.find_table("table") == TableEntry("t", "table", online=False)
    other.rename_table("t", "table", "new")
    assert catalog.find_table("table") is None
    assert catalog.find_table("new") == TableEntry("t", "new", online=False)
    other.create_table(TableEntry("new", "table"), snapshot(1, "other"))  # its id is the name of the first
    for _ in range(2):
        assert catalog.find_table("table") == TableEntry("new", "table")
        assert catalog.find_table("new") == TableEntry("t", "new", online=False)
    other.delete_table("new", "table")
    assert catalog.find_table("table") is None
    other.rename_table("t", "new", "table")
    assert catalog.find_table("new") is None
    assert catalog.find_table("TABLE") == TableEntry("t", "table", online=False)


@pytest.mark.parametrize("entry", [TableEntry("u", "table"), TableEntry("t", "other")])
def test_a_name_and_an_id_are_given_once(catalog: Catalog, entry: TableEntry):
    with pytest.raises(AlreadyExists):
        catalog.create_table(entry, snapshot(1, "other"))
    assert catalog.tables() == (TableEntry("t", "table"),)
    assert catalog.snapshots("t") == (snapshot(1),)


def test_a_table_that_is_not_there_has_no_current_snapshot_and_takes_no_commit(catalog: Catalog):
    with pytest.raises(NotFound):
        catalog.current("u")
    assert not catalog.commit("u", snapshot(1), snapshot(2))
    assert catalog.snapshots("u") == ()


def test_a_commit_that_knew_the_current_snapshot_wins_and_is_in_history(
    catalog: Catalog, opened: Callable[[], Catalog]
):
    second = snapshot(2, message="what\nfor", author="é", rows=2**40, time=START + timedelta(microseconds=1))
    assert catalog.commit("t", snapshot(1), second)
    assert opened().current("t") == second
    assert opened().snapshots("t") == (second, snapshot(1))
    assert opened().has_commit("t", second.commit_id)


def test_a_commit_that_knew_an_older_snapshot_changes_nothing(catalog: Catalog):
    commit(catalog, 2)
    assert not catalog.commit("t", snapshot(1), snapshot(2, "late"))
    assert not catalog.commit("t", snapshot(2, "never there"), snapshot(3, "late"))
    assert catalog.snapshots("t") == (snapshot(2), snapshot(1))
    assert not catalog.has_commit("t", "late")


def test_of_many_commits_on_one_snapshot_one_wins(catalog: Catalog, opened: Callable[[], Catalog]):
    start, won = threading.Barrier(8), []

    def race(number: int) -> None:
        mine = opened() if number % 2 else catalog
        start.wait()
        won.append(mine.commit("t", snapshot(1), snapshot(2, f"racer {number}")))

    racers = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(won) == [False] * 7 + [True]
    assert len(catalog.snapshots("t")) == 2


def test_a_deleted_table_is_gone_at_once_and_its_name_is_free(catalog: Catalog, opened: Callable[[], Catalog]):
    commit(catalog, 2)
    other = opened()
    catalog.delete_table("t", "table")
    assert (other.tables(), other.deleted(), other.snapshots("t")) == ((), ("t",), ())
    with pytest.raises(NotFound, match="'t'"):
        other.current("t")
    assert not other.commit("t", snapshot(2), snapshot(3))
    assert not other.has_commit("t", "commit-3")
    saved = savepoint(other.reserve_savepoint_id("t"), snapshot(2))
    with pytest.raises(NotFound):
        other.add_savepoint("t", saved)
    with pytest.raises(NotFound):
        other.add_lease("t", Lease("a", 2, START, LATER, "scan"))
    for again in (lambda: other.delete_table("t", "table"), lambda: other.rename_table("t", "table", "new")):
        with pytest.raises(NotFound, match="'table'"):
            again()
    with pytest.raises(NotFound):
        other.set_online("t", online=False)
    with pytest.raises(AlreadyExists):  # its files may be there still
        other.create_table(TableEntry("t", "new"), snapshot(1, "new"))
    catalog.create_table(TableEntry("u", "table"), snapshot(1, "another"))
    assert catalog.tables() == (TableEntry("u", "table"),)


def test_nothing_is_left_of_a_deleted_table_that_was_forgotten_and_all_of_others(catalog: Catalog):
    catalog.create_table(TableEntry("u", "other"), snapshot(1, "another"))
    assert catalog.commit("t", snapshot(1), snapshot(2, job_id="once"), log=[b"2"])
    for table_id in ("t", "u"):
        first = catalog.snapshots(table_id)[-1]
        catalog.add_savepoint(table_id, savepoint(catalog.reserve_savepoint_id(table_id), first, "name"))
        catalog.add_garbage(table_id, ["x"], START)
        catalog.put_job(table_id, job("1"))
        catalog.add_lease(table_id, Lease("a", 1, START, LATER, "scan"))
    catalog.delete_table("t", "table")
    catalog.put_job("t", job("2"))  # by who has not heard of it
    catalog.forget_deleted("u")  # which is none
    for _ in range(2):
        catalog.forget_deleted("t")
        assert catalog.deleted() == ()
    kept = [(catalog.savepoints(of), catalog.garbage(of), catalog.jobs(of, 9), catalog.leases(of)) for of in ("t", "u")]
    assert (kept[0], [len(each) for each in kept[1]]) == (((), (), (), ()), [1, 1, 1, 1])
    catalog.create_table(TableEntry("t", "table"), snapshot(1, "new"))
    assert catalog.snapshot_of_job("t", "once") is None
    assert catalog.reserve_savepoint_id("t") == 1


def test_a_table_is_deleted_by_the_name_that_it_has(catalog: Catalog):
    catalog.rename_table("t", "table", "new")
    with pytest.raises(NotFound, match="'table'"):
        catalog.delete_table("t", "table")
    assert (catalog.current("t"), catalog.deleted()) == (snapshot(1), ())


def test_commit_ids_are_looked_for_in_their_own_table(catalog: Catalog):
    catalog.create_table(TableEntry("u", "other"), snapshot(1, "another"))
    assert not catalog.has_commit("t", "another")


def test_expired_snapshots_are_gone_but_never_the_current_one(catalog: Catalog):
    commit(catalog, 2, 3)
    for _ in range(2):  # a second call does nothing
        catalog.expire_snapshots("t", [1, 2, 3, 99], LATER)
        assert [s.id for s in catalog.snapshots("t")] == [3]
    assert catalog.current("t").id == 3


def test_a_snapshot_is_found_by_its_id_while_it_is_retained(catalog: Catalog, opened: Callable[[], Catalog]):
    commit(catalog, 2, 3)
    catalog.expire_snapshots("t", [1], LATER)
    found = {number: opened().snapshot("t", number) for number in (-1, 0, 1, 2, 3, 4, 2**70)}
    assert found == {**dict.fromkeys(found), 2: snapshot(2), 3: snapshot(3)}
    assert catalog.snapshot("u", 2) is None


def test_a_snapshot_is_found_by_a_moment_from_its_own_microsecond_on(catalog: Catalog, opened: Callable[[], Catalog]):
    log = [b"3", b"4"]
    commit(catalog, 2)
    assert catalog.commit("t", snapshot(2), snapshot(3), snapshot(4), log=log)  # seconds 3 and 4, by one commit
    just = timedelta(microseconds=1)
    asked = [START + timedelta(seconds=n) + by for n in (1, 2, 3, 4) for by in (-just, timedelta(0), just)]
    found = [opened().snapshot_as_of("t", moment) for moment in (*asked, LATER)]
    assert [one and one.id for one in found] == [None, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    catalog.expire_snapshots("t", [1, 2], LATER)
    assert catalog.snapshot_as_of("t", START + timedelta(seconds=2)) is None
    assert catalog.snapshot_as_of("t", START + timedelta(seconds=3)) == snapshot(3)
    assert catalog.snapshot_as_of("u", LATER) is None


def test_metadata_is_garbage_once_nothing_names_it(catalog: Catalog):
    commit(catalog, 2, 3)
    catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(2)))
    catalog.expire_snapshots("t", [1, 2], START)
    assert catalog.garbage("t") == (("files-1", START),)  # the savepoint names files-2, the current one partitions-1
    catalog.delete_savepoint("t", 1, LATER)
    assert catalog.garbage("t") == (("files-1", START), ("files-2", LATER))
    catalog.forget_garbage("t", ["files-1", "never there"])
    assert catalog.garbage("t") == (("files-2", LATER),)
    catalog.forget_garbage("t", [])


def test_one_of_two_savepoints_of_a_snapshot_goes_and_nothing_becomes_garbage(catalog: Catalog):
    commit(catalog, 2)
    for _ in range(2):
        catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(1)))
    catalog.expire_snapshots("t", [1], START)
    catalog.delete_savepoint("t", 2, START)
    assert catalog.garbage("t") == ()
    assert [s.id for s in catalog.savepoints("t")] == [1]


def test_savepoints_come_back_oldest_first(catalog: Catalog, opened: Callable[[], Catalog]):
    made = [
        savepoint(catalog.reserve_savepoint_id("t"), snapshot(1), name, message="é") for name in ("z", "a", None, None)
    ]
    for one in reversed(made):
        catalog.add_savepoint("t", one)
    assert opened().savepoints("t") == tuple(made)


def test_ids_and_names_of_savepoints_are_never_given_again(catalog: Catalog):
    first = catalog.reserve_savepoint_id("t")
    catalog.add_savepoint("t", savepoint(first, snapshot(1), "fix"))
    for _ in range(2):
        catalog.delete_savepoint("t", first, START)
    assert catalog.savepoints("t") == ()
    assert catalog.reserve_savepoint_id("t") == first + 1
    assert catalog.reserve_savepoint_id("t") == first + 2  # though the one before was not used
    with pytest.raises(AlreadyExists, match="fix"):
        catalog.add_savepoint("t", savepoint(first + 1, snapshot(1), "fix"))
    assert catalog.reserve_savepoint_id("u") == 1


def test_a_snapshot_that_expired_cannot_be_saved(catalog: Catalog):
    commit(catalog, 2)
    catalog.expire_snapshots("t", [1], START)
    with pytest.raises(NotFound, match="snapshot 1"):
        catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(1)))
    assert catalog.savepoints("t") == ()


def test_a_table_goes_offline_and_online_again(catalog: Catalog, opened: Callable[[], Catalog]):
    catalog.create_table(TableEntry("u", "other", online=False), snapshot(1, "another"))
    for online in (False, False, True):
        catalog.set_online("t", online)
        assert opened().tables() == (TableEntry("u", "other", online=False), TableEntry("t", "table", online))
        commit(catalog, catalog.current("t").id + 1)
    with pytest.raises(NotFound):
        catalog.set_online("v", online=False)
    assert len(opened().tables()) == 2


def claim(job: str, *names: str, until: timedelta = timedelta(hours=1), partition: str = "p") -> FileClaim:
    return FileClaim(job, partition, names, START + until)


def test_files_are_claimed_all_or_none(catalog: Catalog, opened: Callable[[], Catalog]):
    assert catalog.claim_files("t", claim("one", "a", "b"), START)
    assert not opened().claim_files("t", claim("two", "c", "b"), START)
    assert catalog.claims("t", START) == (claim("one", "a", "b"),)
    assert catalog.claim_files("t", claim("two", "c"), START)


def test_a_file_of_two_partitions_can_be_claimed_in_each(catalog: Catalog):
    assert catalog.claim_files("t", claim("one", "a"), START)
    assert catalog.claim_files("t", claim("two", "a", partition="q"), START)


def test_claims_end_by_release_or_by_time(catalog: Catalog):
    assert catalog.claim_files("t", claim("one", "a"), START)
    assert not catalog.claim_files("t", claim("two", "a"), LATER - timedelta(microseconds=1))
    assert catalog.claims("t", LATER) == ()
    assert catalog.claim_files("t", claim("two", "a", until=timedelta(hours=3)), LATER)
    for _ in range(2):
        catalog.release_claim("t", "two")
    assert catalog.claim_files("t", claim("three", "a", until=timedelta(hours=3)), LATER)


def test_a_job_that_claims_again_keeps_its_claim(catalog: Catalog):
    for _ in range(2):
        assert catalog.claim_files("t", claim("one", "a", "b"), START)
    assert catalog.claims("t", START) == (claim("one", "a", "b"),)


def test_tables_do_not_see_each_other(catalog: Catalog):
    catalog.create_table(TableEntry("u", "other"), snapshot(1, "another"))
    assert catalog.claim_files("t", claim("one", "a"), START)
    assert catalog.claim_files("u", claim("one", "a"), START)
    catalog.release_claim("u", "one")
    assert catalog.claims("t", START)
    commit(catalog, 2)
    catalog.expire_snapshots("t", [1], START)
    assert len(catalog.snapshots("u")) == 1
    assert catalog.garbage("u") == ()


def job(name: str, **changes: object) -> Job:
    """Return the record of a run, as many minutes after `START` as its name says."""
    created = START + timedelta(minutes=int(name))
    return Job(**{"id": name, "kind": "compaction", "state": "CREATED", "created": created, **changes})


def test_a_record_of_a_job_comes_back_as_it_was_last_written(catalog: Catalog, opened: Callable[[], Catalog]):
    made = job("1", partition_ids=("p", "é"), files=3, author="é")
    catalog.put_job("t", made)
    assert opened().jobs("t", 10) == (made,)
    ended = made.running(LATER).done(LATER + timedelta(seconds=2), rows_read=2**40, rows_written=0, snapshot_id=7)
    catalog.put_job("t", ended)
    assert opened().jobs("t", 10) == (ended,)
    assert catalog.jobs("u", 10) == ()


def test_the_ids_of_all_jobs_that_made_a_snapshot_or_had_nothing_to_add_are_listed(catalog: Catalog):
    assert catalog.job_ids("t") == ()
    assert catalog.commit("t", snapshot(1), snapshot(2, job_id="once"), log=[b"2"])
    catalog.remember_jobs("t", ["é", "empty"], 2)
    catalog.remember_jobs("u", ["other"], 1)
    assert catalog.job_ids("t") == ("empty", "once", "é")


def test_the_newest_jobs_come_first_and_as_many_as_are_asked_for(catalog: Catalog):
    for name in ("2", "30", "1"):
        catalog.put_job("t", job(name))
    again = job("31", id="2", state="FAILED", reason="why")  # another run of a job is another record
    catalog.put_job("t", again)
    assert catalog.jobs("t", 99) == (again, job("30"), job("2"), job("1"))
    assert catalog.jobs("t", 2) == (again, job("30"))
    assert catalog.jobs("t", 0) == ()


def test_old_jobs_and_those_beyond_a_number_are_forgotten(catalog: Catalog):
    for number in range(1, 31):
        catalog.put_job("t", job(str(number)))
    catalog.put_job("u", job("1"))
    catalog.prune_jobs("t", START + timedelta(minutes=11), 99)
    assert [one.id for one in catalog.jobs("t", 99)] == [str(number) for number in range(30, 10, -1)]
    for _ in range(2):
        catalog.prune_jobs("t", START, 3)
        assert [one.id for one in catalog.jobs("t", 99)] == ["30", "29", "28"]
    assert len(catalog.jobs("u", 9)) == 1


def test_a_job_is_noted_with_its_claim_or_not_at_all(catalog: Catalog):
    assert catalog.claim_files("t", claim("1", "a"), START, job("1"))
    assert not catalog.claim_files("t", claim("2", "b", "a"), START, job("2"))
    assert catalog.jobs("t", 9) == (job("1"),)
    catalog.release_claim("t", "1")
    assert catalog.jobs("t", 9) == (job("1"),)


def test_the_id_of_a_job_makes_one_snapshot_and_is_never_forgotten(catalog: Catalog, opened: Callable[[], Catalog]):
    assert catalog.snapshot_of_job("t", "2026-11-21/é #1") is None
    made = snapshot(2, job_id="2026-11-21/é #1")
    assert catalog.commit("t", snapshot(1), made)
    assert opened().current("t") == made
    assert opened().snapshot_of_job("t", made.job_id) == 2
    assert not catalog.commit("t", made, snapshot(3, job_id=made.job_id))
    assert not catalog.commit("t", made, snapshot(3, job_id="new"), snapshot(4, job_id=made.job_id))
    assert catalog.snapshot_of_job("t", "new") is None
    assert catalog.current("t") == made
    commit(catalog, 3)
    catalog.expire_snapshots("t", [2], LATER)
    catalog.prune_jobs("t", LATER, 0)
    assert not catalog.commit("t", snapshot(3), snapshot(4, job_id=made.job_id))
    assert catalog.snapshot_of_job("u", made.job_id) is None


def test_a_job_that_had_nothing_to_add_is_remembered_too(catalog: Catalog, opened: Callable[[], Catalog]):
    catalog.remember_jobs("t", ["empty"], 1)
    assert catalog.commit("t", snapshot(1), snapshot(2, job_id="once"))
    catalog.remember_jobs("t", ["empty", "new", "once"], 9)  # what is known stays
    assert [opened().snapshot_of_job("t", job_id) for job_id in ("empty", "new", "once")] == [1, 9, 2]
    catalog.prune_jobs("t", LATER, 0)
    assert catalog.snapshot_of_job("t", "empty") == 1
    assert not catalog.commit("t", snapshot(2), snapshot(3, job_id="empty"))
    assert catalog.snapshot_of_job("u", "empty") is None


def test_a_commit_that_lost_leaves_the_id_of_its_job_free(catalog: Catalog):
    assert not catalog.commit("t", snapshot(9), snapshot(10, job_id="once"))
    assert catalog.snapshot_of_job("t", "once") is None
    assert catalog.commit("t", snapshot(1), snapshot(2, job_id="once"), snapshot(3), log=[b"2", b"3"])
    assert catalog.snapshot_of_job("t", "once") == 2


def _open(kind: str, folder: Path, start: multiprocessing.synchronize.Barrier) -> None:
    start.wait()
    CATALOGS[kind](folder).close()


@pytest.mark.parametrize("kind", KINDS)
def test_processes_may_open_a_new_catalog_at_once(kind: str, tmp_path: Path):
    fork = multiprocessing.get_context("fork")
    for attempt in range(6):
        start = fork.Barrier(6)
        openers = [fork.Process(target=_open, args=(kind, tmp_path / str(attempt), start)) for _ in range(6)]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()
        assert [opener.exitcode for opener in openers] == [0] * 6


# Behind the SQLite catalog.


def test_the_rows_are_where_any_tool_finds_them(tmp_path: Path):
    catalog = SqliteCatalog(tmp_path / "deep" / "catalog.sqlite")
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    commit(catalog, 2)
    with sqlite3.connect(tmp_path / "deep" / "catalog.sqlite") as behind:
        assert behind.execute("SELECT id, name, current_snapshot FROM tables").fetchall() == [("t", "table", 2)]
        assert behind.execute("SELECT id, commit_id, files_path FROM snapshots ORDER BY id").fetchall() == [
            (1, "commit-1", "files-1"),
            (2, "commit-2", "files-2"),
        ]
        assert behind.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        behind.execute("UPDATE snapshots SET message = 'changed behind' WHERE id = 2")
    with pytest.raises(StorageError, match=r"row of snapshot 2 in .* is damaged"):
        catalog.current("t")
    assert catalog.snapshot("t", 1) == snapshot(1)
    catalog.close()
    behind.close()


def test_a_newer_format_and_a_file_that_is_no_catalog_are_refused(tmp_path: Path):
    with sqlite3.connect(tmp_path / "new.sqlite") as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StorageError, match="format 99"):
        SqliteCatalog(tmp_path / "new.sqlite")
    (tmp_path / "text.sqlite").write_text("no catalog at all, but some text" * 50)
    with pytest.raises(StorageError, match="not a database"):
        SqliteCatalog(tmp_path / "text.sqlite")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot open"):
        SqliteCatalog(tmp_path / "file" / "catalog.sqlite")


_WITHOUT_COUNTS_OF_CHANGES = "".join(
    f"ALTER TABLE snapshots DROP COLUMN {name}; "
    for name in ("inserted_rows", "updated_rows", "deleted_rows", "expectations")
)
_WITHOUT_CHECKSUMS_OF_ROWS = _WITHOUT_COUNTS_OF_CHANGES + "".join(
    f"ALTER TABLE {table} DROP COLUMN checksum; " for table in ("snapshots", "savepoints")
)
_WITHOUT_LATER_COLUMNS = _WITHOUT_CHECKSUMS_OF_ROWS + "".join(
    f'ALTER TABLE {table} DROP COLUMN "{name}"; '
    for table, names in (
        ("tables", ("properties_checksum",)),
        (
            "snapshots",
            (
                *("references", "added_references", "removed_references", "leaves"),
                *("files_checksum", "partitions_checksum", "schema_checksum", "processing"),
            ),
        ),
    )
    for name in names
)


def _first_format(path: Path) -> None:
    """Make a catalog as the first format had it: no records of jobs, no ids of theirs, no leases."""
    SqliteCatalog(path).close()
    with sqlite3.connect(path) as behind:
        behind.executescript(
            f"{_WITHOUT_LATER_COLUMNS}"
            "DROP TABLE jobs; DROP TABLE job_ids; ALTER TABLE snapshots DROP COLUMN job_id; DROP TABLE leases; "
            "ALTER TABLE savepoints DROP COLUMN saves; ALTER TABLE savepoints DROP COLUMN log_path; "
            "PRAGMA user_version = 1"
        )
        behind.execute("INSERT INTO tables VALUES ('t', 'table', 1, 1, 'commit-1')")
        behind.execute(
            "INSERT INTO snapshots VALUES ('t', 1, 'commit-1', ?, 'ingest', 1, 0, 0, 0, 0, 0, 0, 'files-1', "
            "'partitions-1', 'S3StateStore', NULL, NULL, 0)",
            (to_micros(snapshot(1).time),),
        )
    behind.close()


def test_a_catalog_of_the_first_format_opens_and_goes_on(tmp_path: Path):
    _first_format(tmp_path / "catalog.sqlite")
    for _ in range(2):
        catalog = SqliteCatalog(tmp_path / "catalog.sqlite")
        assert catalog.snapshots("t") == (snapshot(1),)
    assert catalog.commit("t", snapshot(1), snapshot(2, job_id="once"))
    assert not catalog.commit("t", catalog.current("t"), snapshot(3, job_id="once"))
    catalog.put_job("t", job("1"))
    assert catalog.jobs("t", 9) == (job("1"),)


def test_a_catalog_without_checksums_of_rows_opens_and_what_is_new_has_them(tmp_path: Path):
    path = tmp_path / "catalog.sqlite"
    catalog = SqliteCatalog(path)
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(1)))
    catalog.close()
    with sqlite3.connect(path) as behind:
        behind.executescript(f"{_WITHOUT_CHECKSUMS_OF_ROWS}PRAGMA user_version = 6")
    behind.close()
    catalog = SqliteCatalog(path)
    assert catalog.audit("t").without_checksum == 2
    assert catalog.commit("t", snapshot(1), snapshot(2))
    catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(2)))
    found = catalog.audit("t")
    assert (found.without_checksum, found.snapshots) == (2, (snapshot(2), snapshot(1)))
    assert (found.current, found.current_commit, found.damaged) == (2, "commit-2", ())


def test_an_audit_tells_what_was_deleted(catalog: Catalog):
    for number in (1, 2):
        assert catalog.reserve_savepoint_id("t") == number
        catalog.add_savepoint("t", savepoint(number, catalog.current("t")))
    catalog.delete_savepoint("t", 1, LATER)
    found = catalog.audit("t")
    assert ([kept.id for kept in found.savepoints], found.unused_savepoint_ids - {2}) == ([2], {1})
    with pytest.raises(NotFound):
        catalog.audit("u")


def test_a_savepoint_of_an_older_format_keeps_its_version_for_readers(tmp_path: Path):
    path = tmp_path / "catalog.sqlite"
    catalog = SqliteCatalog(path)
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(1)))
    assert catalog.commit("t", snapshot(1), snapshot(2))
    catalog.close()
    with sqlite3.connect(path) as behind:
        behind.executescript(
            f"{_WITHOUT_LATER_COLUMNS}"
            "DROP TABLE leases; ALTER TABLE savepoints DROP COLUMN saves; ALTER TABLE savepoints DROP COLUMN log_path; "
            "PRAGMA user_version = 2"
        )
    behind.close()
    catalog = SqliteCatalog(path)
    catalog.expire_snapshots("t", [1], LATER)
    catalog.add_lease("t", Lease("a", 1, START, LATER, "scan"))
    assert [lease.id for lease in catalog.leases("t")] == ["a"]


def test_a_catalog_from_before_deletions_opens_and_deletes(tmp_path: Path):
    path = tmp_path / "catalog.sqlite"
    catalog = SqliteCatalog(path)
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    catalog.close()
    with sqlite3.connect(path) as behind:
        behind.executescript(
            f"{_WITHOUT_LATER_COLUMNS}"
            "DROP TABLE deleted; ALTER TABLE savepoints DROP COLUMN log_path; PRAGMA user_version = 3"
        )
    behind.close()
    catalog = SqliteCatalog(path)
    catalog.delete_table("t", "table")
    assert catalog.deleted() == ("t",)
    catalog.close()


def test_processes_may_upgrade_a_catalog_at_once(tmp_path: Path):
    fork = multiprocessing.get_context("fork")
    for attempt in range(3):
        (tmp_path / str(attempt)).mkdir()
        _first_format(tmp_path / str(attempt) / "catalog.sqlite")
        start = fork.Barrier(4)
        openers = [fork.Process(target=_open, args=("sqlite", tmp_path / str(attempt), start)) for _ in range(4)]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()
        assert [opener.exitcode for opener in openers] == [0] * 4


class _Interrupted:
    """A connection that Ctrl-C hits right behind the start of a transaction."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real

    def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
        cursor = self._real.execute(statement, *parameters)
        if statement.startswith("BEGIN"):
            raise KeyboardInterrupt
        return cursor

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_an_interrupt_leaves_no_transaction_open(tmp_path: Path):
    catalog = SqliteCatalog(tmp_path / "catalog.sqlite")
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    file = catalog._file
    real, file._connection = file._connection, _Interrupted(file._connection)
    with pytest.raises(KeyboardInterrupt):
        catalog.commit("t", snapshot(1), snapshot(2))
    file._connection = real
    commit(catalog, 2)
    catalog.close()


def logged(number: int, **changes: object) -> Snapshot:
    return snapshot(number, files_path=None, partitions_path=None, state_store="TransactionLogStateStore", **changes)


def kept(number: int, files_path: str, partitions_path: str) -> Snapshot:
    """Return a snapshot of the log with its full metadata."""
    return replace(logged(number), files_path=files_path, partitions_path=partitions_path)


def append(catalog: Catalog, *numbers: int) -> None:
    for number in numbers:
        assert catalog.commit("t", catalog.current("t"), logged(number), log=(f"entry {number}".encode(),))


def test_a_table_is_renamed_once(catalog: Catalog, opened: Callable[[], Catalog]):
    catalog.create_table(TableEntry("u", "other"), snapshot(1, "other"))
    with pytest.raises(AlreadyExists):
        catalog.rename_table("t", "table", "other")
    catalog.rename_table("t", "table", "new")
    with pytest.raises(NotFound):
        opened().rename_table("t", "table", "newer")
    assert catalog.tables() == (TableEntry("t", "new"), TableEntry("u", "other"))
    catalog.create_table(TableEntry("v", "table"), snapshot(1, "third"))


def test_names_that_differ_in_case_only_are_one_name(catalog: Catalog):
    catalog.create_table(TableEntry("u", "Straße"), snapshot(1, "other"))
    with pytest.raises(AlreadyExists):
        catalog.create_table(TableEntry("v", "STRASSE"), snapshot(1, "third"))
    with pytest.raises(AlreadyExists):
        catalog.rename_table("t", "table", "STRAẞE")
    with pytest.raises(NotFound):
        catalog.rename_table("t", "TABLE", "new")
    catalog.rename_table("t", "table", "Table")
    catalog.rename_table("u", "Straße", "strasse")
    assert catalog.tables() == (TableEntry("t", "Table"), TableEntry("u", "strasse"))
    catalog.rename_table("t", "Table", "new")
    catalog.create_table(TableEntry("v", "TABLE"), snapshot(1, "third"))
    catalog.delete_table("v", "TABLE")
    catalog.create_table(TableEntry("w", "table"), snapshot(1, "fourth"))


def test_several_snapshots_appear_in_one_step_with_their_entries(catalog: Catalog):
    first = catalog.current("t")
    assert catalog.commit("t", first, logged(2), logged(3), log=(b"two", b"three"))
    assert not catalog.commit("t", first, logged(2, commit_id="late"), log=(b"late",))
    assert [s.id for s in catalog.snapshots("t")] == [3, 2, 1]
    assert catalog.current("t") == logged(3)
    assert (catalog.log("t", 1, 3), catalog.log("t", 2, 3), catalog.log("t", 3, 3)) == (
        (b"two", b"three"),
        (b"three",),
        (),
    )
    with pytest.raises(NotFound):
        catalog.log("t", 0, 3)


def test_a_snapshot_is_materialised_once(catalog: Catalog, opened: Callable[[], Catalog]):
    append(catalog, 2, 3, 4)
    assert catalog.checkpoint("t", 4).id == 1
    assert catalog.materialise("t", kept(3, "files-3", "partitions-3"))
    assert not opened().materialise("t", kept(3, "files-x", "partitions-x"))
    assert not catalog.materialise("t", kept(9, "files-9", "partitions-9"))
    assert [catalog.checkpoint("t", at).id for at in (1, 2, 3, 4)] == [1, 1, 3, 3]
    assert (catalog.snapshots("t")[1].files_path, catalog.snapshots("t")[1].partitions_path) == (
        "files-3",
        "partitions-3",
    )


def test_what_a_retained_snapshot_is_read_through_outlives_its_own_snapshot(catalog: Catalog):
    append(catalog, 2, 3)
    catalog.materialise("t", kept(3, "files-3", "partitions-3"))
    append(catalog, 4, 5, 6)
    catalog.expire_snapshots("t", [1, 2, 3, 4], LATER)
    assert [s.id for s in catalog.snapshots("t")] == [6, 5]
    assert catalog.checkpoint("t", 5).files_path == "files-3"
    assert catalog.log("t", 3, 5) == (b"entry 4", b"entry 5")
    assert dict(catalog.garbage("t")) == {"files-1": LATER, "partitions-1": LATER}
    with pytest.raises(NotFound):
        catalog.log("t", 2, 5)
    with pytest.raises(NotFound):
        catalog.checkpoint("t", 2)
    assert not catalog.materialise("t", kept(4, "f", "p"))
    assert catalog.materialise("t", kept(6, "files-6", "partitions-6"))
    catalog.expire_snapshots("t", [5], LATER + timedelta(hours=1))
    assert {path for path, _ in catalog.garbage("t")} == {"files-1", "partitions-1", "files-3", "partitions-3"}
    with pytest.raises(NotFound):
        catalog.log("t", 3, 6)


def test_a_hidden_snapshot_cannot_be_saved(catalog: Catalog):
    append(catalog, 2, 3)
    first = catalog.checkpoint("t", 1)
    catalog.expire_snapshots("t", [1, 2], LATER)
    assert catalog.checkpoint("t", 3).id == 1
    number = catalog.reserve_savepoint_id("t")
    with pytest.raises(NotFound):
        catalog.add_savepoint("t", savepoint(number, first))
    assert catalog.garbage("t") == ()


def test_checksums_and_processing_are_kept_and_read_back(catalog: Catalog, opened: Callable[[], Catalog]):
    two = snapshot(2, files_checksum="a", partitions_checksum="b", schema_checksum="c", processing="")
    bare = snapshot(3, files_path=None, partitions_path=None, schema_checksum="c", processing="x=y\n")
    assert catalog.commit("t", catalog.current("t"), two)
    assert catalog.commit("t", two, bare)
    assert catalog.materialise(
        "t",
        replace(
            bare, files_path="files-3", partitions_path="partitions-3", files_checksum="d", partitions_checksum="e"
        ),
    )
    found = opened().snapshots("t")
    assert found[1] == two
    assert (found[0].files_checksum, found[0].partitions_checksum, found[0].processing) == ("d", "e", "x=y\n")
    assert found[2].processing is None


def test_the_checksum_of_a_properties_file_is_kept_with_its_table(catalog: Catalog, opened: Callable[[], Catalog]):
    catalog.create_table(TableEntry("u", "other", properties_checksum="first"), snapshot(1, "another"))

    def noted() -> list[str | None]:
        entries = [opened().find_table("other"), *opened().tables()]
        return [entry.properties_checksum for entry in entries if entry is not None]

    assert noted() == ["first", "first", None]
    assert catalog.note_properties("u", PropertiesNote("first", "second"))
    catalog.rename_table("u", "other", "OTHER")
    assert noted() == ["second", "second", None]
    with pytest.raises(NotFound):
        catalog.note_properties("v", PropertiesNote(None, "third"))
    assert len(opened().tables()) == 2


def noted(catalog: Catalog) -> str | None:
    entry = catalog.entry("t")
    assert entry is not None
    return entry.properties_checksum


def test_a_record_of_a_properties_file_takes_the_place_of_the_expected_one_only(catalog: Catalog):
    assert not catalog.note_properties("t", PropertiesNote("another", "first"))
    assert noted(catalog) is None
    assert catalog.note_properties("t", PropertiesNote(None, "first"))
    assert not catalog.note_properties("t", PropertiesNote(None, "second"))
    assert noted(catalog) == "first"
    assert catalog.note_properties("t", PropertiesNote("first", "second"))
    assert noted(catalog) == "second"


def test_a_commit_and_its_record_of_a_properties_file_are_both_there_or_neither(catalog: Catalog):
    assert not catalog.commit("t", snapshot(1), snapshot(2), properties=PropertiesNote("another", "first"))
    assert (catalog.current("t").id, catalog.snapshots("t"), noted(catalog)) == (1, (snapshot(1),), None)
    assert catalog.commit("t", snapshot(1), snapshot(2), properties=PropertiesNote(None, "first"))
    assert (catalog.current("t").id, noted(catalog)) == (2, "first")
    assert not catalog.commit("t", snapshot(1), snapshot(3), properties=PropertiesNote("first", "second"))
    assert catalog.commit("t", snapshot(2), snapshot(3))
    assert (catalog.current("t").id, noted(catalog)) == (3, "first")


def service(owner: str, begin: timedelta = timedelta(0), length: timedelta = timedelta(minutes=3)) -> ServiceLease:
    since = START + begin
    return ServiceLease("maintain", owner, f"machine of {owner}", since, since + length)


def test_one_owner_has_the_lease_of_a_service_until_it_ends_or_is_released(catalog, opened):
    other = opened()
    first, second = service("first"), service("second", timedelta(minutes=1))
    assert catalog.service("maintain") is None
    assert catalog.take_service(first, first.since) == first
    assert other.take_service(second, second.since) == first
    longer = replace(first, until=first.until + timedelta(minutes=2))
    assert catalog.take_service(longer, first.until) == longer  # its owner renews it, even late
    assert other.service("maintain") == longer
    late = service("second", timedelta(minutes=5))
    assert other.take_service(late, longer.until - timedelta(microseconds=1)) == longer
    assert other.take_service(late, longer.until) == late  # its owner died
    assert catalog.take_service(longer, late.since) == late  # and wakes up too late
    catalog.release_service(longer)  # not its own any more
    assert catalog.service("maintain") == late
    other.release_service(late)
    other.release_service(late)
    assert catalog.service("maintain") is None
    assert catalog.take_service(replace(first, service="other"), first.since).owner == "first"


def test_of_many_that_take_a_lease_of_a_service_one_has_it(catalog, opened):
    catalogs = [opened() for _ in range(8)]
    held: list[str] = []

    def take(number: int) -> None:
        held.append(catalogs[number].take_service(service(f"owner {number}"), START).owner)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == len(catalogs)
    assert set(held) == {catalog.service("maintain").owner}
