"""A warehouse that may only be read, in whole or in part, or that vanishes: writes fail by name and do nothing half."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import NotFound, StorageError
from tests.support.builders import keys_in, rows_of
from tests.support.modes import read_only

SCHEMA = sl.Schema({"key": "string", "n": "int"}, values={"value": "string?"})
ALL_AT_ONCE = {"time_retained": timedelta(0), "num_retained_min": 1, "num_retained_max": 1}
Shown = dict[str, tuple[object, ...]]


def table(session: sl.Session) -> sl.Table:
    return session.table("t")


WORK: dict[str, Callable[[sl.Session], object]] = {
    "create": lambda s: s.create_table("u", SCHEMA),
    "ingest": lambda s: table(s).ingest(rows_of("q")),
    "compact": lambda s: table(s).maintenance.compact("all", engine="local"),
    "split": lambda s: table(s).maintenance.split(at="c"),
    "savepoint": lambda s: table(s).create_savepoint("more"),
    "delete savepoint": lambda s: table(s).delete_savepoint("spare", force=True),
    "rollback": lambda s: table(s).rollback("savepoint.kept"),
    "expire": lambda s: table(s).maintenance.expire(**ALL_AT_ONCE, dry_run=False),
    "garbage": lambda s: table(s).maintenance.collect_garbage(delay=timedelta(0), dry_run=False),
    "sweep": lambda s: table(s).maintenance.sweep_orphans(dry_run=False),
    "migrate": lambda s: s.admin.migrate("t", "TransactionLogStateStore"),
    "rename": lambda s: s.rename_table("t", "v"),
    "delete": lambda s: s.drop_table("t", force=True),
    "reinitialise": lambda s: s.admin.reinitialise("t", force=True),
    "alter": lambda s: table(s).alter(add_columns={"more": "string?"}),
    "properties": lambda s: table(s).set_properties({"sleeper.table.gc.delay.minutes": "3"}),
    "change rows": lambda s: (
        table(s).merge(rows_of("a", "q")).when_matched_delete().when_not_matched_insert_all().execute()
    ),
    "delete rows": lambda s: table(s).delete("key IN ('a', 'c')"),
}
ONLY_CATALOG = {"expire", "rename", "migrate"}
"""Work that writes to the catalog alone: a session that has it open can do it, wherever no file may be written."""
DONE_ALL_THE_SAME = {"delete": "is deleted, but", "delete savepoint": "is deleted, but"}
"""What the error says of work that counts once the catalog has it, although a file could not be changed then."""
NO_COMMIT = {"sweep"}
"""Work that writes files alone."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a table that has work of every kind to do."""
    folder = tmp_path_factory.mktemp("prepared") / "house"
    with sl.connect(folder, clock=ManualClock(Clock().now())) as session:
        made = session.create_table("t", SCHEMA, ["m"])
        for key in "abyz":
            made.ingest(rows_of(key))
            session._components.clock.advance(timedelta(minutes=1))
        made.create_savepoint("kept")
        made.create_savepoint("spare")
        made.maintenance.compact("all", engine="local")
        made.maintenance.expire(**ALL_AT_ONCE, dry_run=False)
        for key in "cx":
            made.ingest(rows_of(key))
    return folder


def opened(folder: Path) -> sl.Session:
    return sl.connect(folder, clock=ManualClock(Clock().now() + timedelta(days=4), seed=3))


def shown(folder: Path) -> Shown:
    """Read all that shows of a warehouse by a new session, and check it deeply."""
    found: Shown = {"": tuple(sorted(path.read_bytes() for path in folder.rglob("*.properties")))}
    with opened(folder) as session:
        for each in session.tables():
            one = session.table(each.name)
            report = one.maintenance.check(deep=True)
            assert report.ok, report
            versions = [(s.id, keys_in(one.at(s.id).scan().to_arrow())) for s in one.history()]
            points = [(p.name, keys_in(one.at(f"savepoint.{p.id}").scan().to_arrow())) for p in one.savepoints()]
            found[each.name] = (
                versions,
                points,
                one._store.head().state_store,
                len(one.inspect.partitions()),
                one.schema,
            )
    return found


@pytest.fixture(scope="module")
def before(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """What shows of each `house`, before any work."""
    return shown(Path(shutil.copytree(prepared, tmp_path_factory.mktemp("shown") / "house")))


@pytest.fixture
def house(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path / "house")
    if not any((tmp_path / "house").rglob("lost.parquet")):
        (data,) = {path.parent.parent for path in (tmp_path / "house").rglob("data/*/*.parquet")}
        lost = data / "partition_lost" / "lost.parquet"
        lost.parent.mkdir()
        lost.write_bytes(b"an orphan")
    return tmp_path / "house"


@pytest.mark.parametrize("work", WORK)
def test_work_in_folders_that_may_only_be_read_is_refused_by_path_and_nothing_is_half_done(
    house: Path, before: Shown, work: str
):
    with opened(house) as session:
        table(session).scan().to_arrow()
        with read_only([house]):
            if work in ONLY_CATALOG:
                WORK[work](session)
            else:
                with pytest.raises(StorageError) as error:
                    WORK[work](session)
                assert str(house) in error.value.message
                assert "permission" in f"{error.value.message} {error.value.hint}".lower()
                assert DONE_ALL_THE_SAME.get(work, "") in error.value.message
            if work != "delete":
                name = "v" if work == "rename" else "t"
                assert keys_in(session.table(name).scan().to_arrow()) == list("abcxyz")
    if work in DONE_ALL_THE_SAME:
        assert shown(house) != before
    elif work not in ONLY_CATALOG:
        assert shown(house) == before
        with opened(house) as session:
            WORK[work](session)
    shown(house)


@pytest.mark.parametrize("work", WORK)
def test_with_a_catalog_that_may_only_be_read_reads_work_and_nothing_else_is_half_done(
    house: Path, before: Shown, work: str
):
    with read_only((house / "default").glob("catalog.sqlite*")), opened(house) as session:
        assert keys_in(table(session).scan().to_arrow()) == list("abcxyz")
        assert keys_in(table(session).at("savepoint.kept").scan().to_arrow()) == list("abyz")
        if work not in NO_COMMIT:
            with pytest.raises(StorageError) as error:
                WORK[work](session)
            assert str(house / "default" / "catalog.sqlite") in error.value.message
            assert "permission" in (error.value.hint or "")
    assert shown(house) == before
    with opened(house) as session:
        WORK[work](session)
    shown(house)


def test_a_warehouse_that_may_only_be_read_says_so_when_it_is_opened(house: Path, before: Shown):
    with read_only([house]), pytest.raises(StorageError) as error:
        opened(house)
    assert str(house / "default" / "catalog.sqlite") in error.value.message
    assert "permissions" in (error.value.hint or "")
    assert shown(house) == before


@pytest.mark.parametrize("work", WORK)
def test_of_a_warehouse_that_vanished_work_fails_by_name_and_nothing_comes_in_its_place(
    house: Path, before: Shown, work: str
):
    away = house.with_name("away")
    with opened(house) as session:
        table(session).scan().to_arrow()
        house.rename(away)
        with pytest.raises((StorageError, NotFound)) as error:
            WORK[work](session)
        assert str(house) in error.value.message
        with pytest.raises((StorageError, NotFound), match=str(house)):
            table(session).scan().to_arrow()
        assert not [path for path in house.rglob("*") if path.is_file()]
    if house.exists():
        shutil.rmtree(house)
    away.rename(house)
    assert shown(house) == before
    with opened(house) as session:
        WORK[work](session)
    shown(house)
