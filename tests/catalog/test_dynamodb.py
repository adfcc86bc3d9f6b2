"""What only the DynamoDB catalog does: its tables, large commits and claims, and who races with whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from sleeper_nb.catalog.catalog_base import FileClaim, TableEntry
from sleeper_nb.catalog.dynamodb import items
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.model.snapshots import Snapshot
from tests.support.backends import DYNAMODB, MEMORY_AND_SERVERS
from tests.support.builders import START, savepoint, snapshot

LATER = START + timedelta(hours=1)
Opener = Callable[..., DynamoDBCatalog]


@pytest.fixture(params=MEMORY_AND_SERVERS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return partial(DYNAMODB[request.param], tmp_path)


@pytest.fixture
def catalog(opened: Opener) -> DynamoDBCatalog:
    """A catalog with table `t` at snapshot 1."""
    catalog = opened()
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    return catalog


def logged(number: int) -> Snapshot:
    return snapshot(number, files_path=None, partitions_path=None)


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Return what calls return, or raise, when all begin at one moment."""
    start, answers = threading.Barrier(len(calls)), [None] * len(calls)

    def run(number: int, call: Callable[[], object]) -> None:
        start.wait()
        try:
            answers[number] = call()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            answers[number] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_nothing_is_there_before_the_first_table_and_reading_makes_nothing(opened: Opener):
    said: list[str] = []
    catalog = opened(on_create=said.append)
    assert catalog.tables() == ()
    assert catalog.snapshots("t") == ()
    assert not catalog.has_commit("t", "any")
    with pytest.raises(NotFound):
        catalog.current("t")
    with pytest.raises(StorageError, match="a table does not exist"):
        catalog.commit("t", snapshot(1), snapshot(2))
    assert said == []


def test_it_says_once_which_dynamodb_tables_it_makes(opened: Opener):
    said: list[str] = []
    for number in (1, 2):
        opened(on_create=said.append).create_table(TableEntry(f"t{number}", f"{number}"), snapshot(1, f"c{number}"))
    name = opened().instance
    assert said == [f"creating DynamoDB tables sleeper-{name}-index, sleeper-{name}-tables; pay per request"]


def test_many_may_make_the_dynamodb_tables_at_once(opened: Opener):
    makers = [opened() for _ in range(6)]
    answers = at_once(*[
        lambda at=at, one=one: one.create_table(TableEntry(f"t{at}", f"name {at}"), snapshot(1, f"c{at}"))
        for at, one in enumerate(makers)
    ])  # fmt: skip
    assert answers == [None] * 6
    assert len(opened().tables()) == 6


def test_a_newer_format_is_refused(opened: Opener, catalog: DynamoDBCatalog):
    catalog.db.transact([catalog._index("format").put("catalog", {"version": 99})])
    with pytest.raises(StorageError, match="format 99"):
        opened().tables()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 201])
def test_an_instance_is_named_as_dynamodb_allows(name: str, tmp_path: Path):
    with pytest.raises(InvalidInput, match="is not a valid instance name"):
        DynamoDBCatalog(name, clock=None)


def test_a_commit_holds_as_much_as_its_limits_say(catalog: DynamoDBCatalog):
    most = catalog.limits.snapshots
    new = [logged(2 + number) for number in range(most)]
    entries = [b"x" * 70_000 for _ in new]
    assert catalog.commit("t", snapshot(1), *new, log=entries)
    assert catalog.log("t", 1, 1 + most) == tuple(entries)
    assert catalog.commit("t", new[-1], logged(2 + most), log=[b"y" * catalog.limits.entry_bytes])
    too_many = [logged(3 + most + number) for number in range(most + 1)]
    with pytest.raises(InvalidInput, match="101 items"):
        catalog.commit("t", logged(2 + most), *too_many, log=[b""] * len(too_many))
    with pytest.raises(InvalidInput, match="bytes"):
        catalog.commit("t", logged(2 + most), *too_many[:20], log=[b"z" * 300_000] * 20)
    assert catalog.current("t").id == 2 + most


def test_fewer_items_can_be_allowed(opened: Opener):
    assert opened(max_items=25).limits.snapshots == 12


def test_a_commit_carries_other_parts_of_its_transaction(catalog: DynamoDBCatalog):
    rows = catalog.rows("t")
    first = rows.put("other", {"n": 1}, new=True)
    assert catalog.commit("t", snapshot(1), snapshot(2), also=[first])
    assert not catalog.commit("t", snapshot(2), snapshot(3), also=[first])
    assert not catalog.commit("t", snapshot(1), snapshot(3), also=[rows.delete("other")])
    assert catalog.current("t") == snapshot(2)
    assert rows.get("other") == {"table_id": "t", "item": "other", "n": 1}


def test_history_is_read_page_by_page(catalog: DynamoDBCatalog):
    head, long = snapshot(1), "m" * 60_000
    for start in range(2, 42, 4):
        new = [
            snapshot(number, files_path=None, partitions_path=None, message=long) for number in range(start, start + 4)
        ]
        assert catalog.commit("t", head, *new)
        head = new[-1]
    assert [s.id for s in catalog.snapshots("t")] == list(range(41, 0, -1))
    assert catalog.checkpoint("t", 41).id == 1
    assert catalog.has_commit("t", "commit-1")
    catalog.expire_snapshots("t", range(42), LATER)
    assert [s.id for s in catalog.snapshots("t")] == [41]
    assert catalog.checkpoint("t", 41).id == 1  # hidden


def test_a_commit_that_was_said_not_to_be_there_never_is(catalog: DynamoDBCatalog):
    assert not catalog.has_commit("t", "commit-2")
    assert not catalog.commit("t", snapshot(1), snapshot(2))  # its request came late
    assert not catalog.commit("t", snapshot(1), snapshot(2, "other"), snapshot(3, "commit-2"))
    assert catalog.commit("t", snapshot(1), snapshot(2, "again"))
    assert catalog.has_commit("t", "again")


def test_a_table_that_was_said_not_to_be_there_is_not_made_late(catalog: DynamoDBCatalog):
    assert not catalog.has_commit("u", "first")
    with pytest.raises(StorageError, match="gave up table"):
        catalog.create_table(TableEntry("u", "other"), snapshot(1, "first"))
    assert [entry.id for entry in catalog.tables()] == ["t"]
    catalog.create_table(TableEntry("u", "other"), snapshot(1, "second"))


def test_thousands_of_files_are_claimed_all_or_none(catalog: DynamoDBCatalog, opened: Opener):
    names = tuple(f"data/partition_{'p' * 32}/{number:032d}.parquet" for number in range(9000))
    assert catalog.claim_files("t", FileClaim("big", "p", names, LATER), START)
    assert not opened().claim_files("t", FileClaim("small", "p", ("x", names[-1]), LATER), START)
    assert opened().claims("t", START) == (FileClaim("big", "p", names, LATER),)
    assert catalog.claim_files("t", FileClaim("big", "p", names[:2], LATER), START)  # the rest is free again
    assert catalog.claim_files("t", FileClaim("small", "p", ("x", names[-1]), LATER), START)
    with pytest.raises(InvalidInput, match="too many"):
        catalog.claim_files("t", FileClaim("huge", "q", tuple(f"{n:0300d}" for n in range(20_000)), LATER), START)


def test_claims_that_ended_are_removed_by_the_next(catalog: DynamoDBCatalog):
    for number in range(3):
        assert catalog.claim_files("t", FileClaim(f"job {number}", "p", (f"{number}",), LATER), START)
    assert catalog.claim_files("t", FileClaim("next", "p", ("0", "1"), LATER + timedelta(hours=1)), LATER)
    assert [row["job_id"] for row in catalog.rows("t").query(items.JOB)] == ["next"]


def test_of_many_jobs_that_want_one_file_one_gets_it(opened: Opener, catalog: DynamoDBCatalog):
    others = [opened() for _ in range(6)]
    answers = at_once(*[
        lambda at=at, one=one: one.claim_files("t", FileClaim(f"job {at}", "p", (f"own {at}", "shared"), LATER), START)
        for at, one in enumerate(others)
    ])  # fmt: skip
    assert sorted(answers) == [False] * 5 + [True]
    assert len(catalog.claims("t", START)) == 1


def test_ids_of_savepoints_that_are_asked_for_at_once_differ(opened: Opener, catalog: DynamoDBCatalog):
    others = [opened() for _ in range(6)]
    answers = at_once(*[lambda one=one: one.reserve_savepoint_id("t") for one in others])
    assert sorted(answers) == [1, 2, 3, 4, 5, 6]


def test_a_savepoint_against_expiry_is_refused_or_keeps_its_metadata(opened: Opener, catalog: DynamoDBCatalog):
    other = opened()
    for number in range(2, 12):
        assert catalog.commit("t", catalog.current("t"), snapshot(number))
        one = savepoint(catalog.reserve_savepoint_id("t"), snapshot(number - 1))
        saved, expired = at_once(
            lambda one=one: catalog.add_savepoint("t", one),
            lambda number=number: other.expire_snapshots("t", [number - 1], LATER),
        )
        assert expired is None
        assert saved is None or isinstance(saved, NotFound)
        assert (one in catalog.savepoints("t")) == (saved is None)
        assert (f"files-{number - 1}" in dict(catalog.garbage("t"))) == (saved is not None)


def test_two_savepoints_of_one_snapshot_deleted_at_once_leave_its_metadata_as_garbage(
    opened: Opener, catalog: DynamoDBCatalog
):
    other = opened()
    assert catalog.commit("t", snapshot(1), snapshot(2))
    for _ in range(2):
        catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(1)))
    catalog.expire_snapshots("t", [1], START)
    at_once(
        lambda: catalog.delete_savepoint("t", 1, LATER),
        lambda: other.delete_savepoint("t", 2, LATER),
    )
    assert catalog.garbage("t") == (("files-1", LATER),)
    assert list(catalog.rows("t").query(items.SAVEPOINT)) == []


def test_long_names_and_any_letters_are_kept(catalog: DynamoDBCatalog):
    catalog.create_table(TableEntry("u", "Ünï-🦆"), snapshot(1, "other"))
    catalog.rename_table("u", "Ünï-🦆", "名")
    assert catalog.tables() == (TableEntry("t", "table"), TableEntry("u", "名"))
    catalog.rename_table("u", "名", "名")
    with pytest.raises(NotFound):
        catalog.rename_table("u", "x", "x")
