"""An answer of DynamoDB of which only a part arrives counts as lost: nothing needed is deleted, and the error says why.

Each operation runs on each state store with every answer cut, in every way, at every position. The answers are those of
the DynamoDB in memory, through boto3; `tests/servers/test_cut_answers.py` has the same on real servers, and S3's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import SleeperError, StorageError
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.storage.aws import Network
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from tests.servers.memory import MemoryDynamoDB
from tests.servers.proxy import Fate
from tests.servers.wire import FATES, Wire
from tests.support.builders import START
from tests.support.row_changes import PROPERTIES, ROW_CHANGES

PATIENT = 10**9
"""A quota that does not end while all answers are cut several times."""
KINDS_AT_ONCE = 4
"""A request is made five times at most: so many answers to it can be cut before one arrives whole."""
NOW = {
    "sleeper.table.gc.delay.minutes": "0", "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 d",
    "sleeper.table.compaction.strategy.class": "all", **PROPERTIES,
}  # fmt: skip
OLD = 1_700_000_000
"""When all files were written, so that a file that nothing names counts as an orphan."""

Rows = list[dict[str, object]]


def rows(*keys: str) -> Rows:
    return [{"key": key, "n": len(key)} for key in keys]


def other(kind: str) -> str:
    return "S3StateStore" if kind == "TransactionLogStateStore" else "TransactionLogStateStore"


def _delete_savepoint(session: sl.Session) -> None:
    table = session.table("t")
    store = session.table("t")._store
    delete_savepoint(store, next(one for one in table.savepoints() if one.name == "spare"))


def _maintain(session: sl.Session) -> None:
    failed = session.table("t").maintain().failed
    if failed:
        raise StorageError(str(failed[0].error))


OPERATIONS: dict[str, Callable[[sl.Session], object]] = {
    "gc": lambda session: session.table("t").maintenance.collect_garbage(dry_run=False),
    "expire": lambda session: session.table("t").maintenance.expire(dry_run=False),
    "maintain": _maintain,
    "delete savepoint": _delete_savepoint,
    "sweep": lambda session: session.table("t").maintenance.sweep_orphans(dry_run=False, older_than=timedelta(days=2)),
    "migrate": lambda session: session.admin.migrate("t", other(session.table("t")._store.head().state_store)),
    "ingest": lambda session: session.table("t").ingest(rows("new")),
    "compact": lambda session: session.table("t").maintenance.compact(engine="local"),
    "split": lambda session: session.table("t").maintenance.split(at="c"),
    "rollback": lambda session: session.table("t").rollback("savepoint.kept"),
    "save": lambda session: session.table("t").create_savepoint("more"),
    "delete table": lambda session: session.drop_table("u", force=True),
}
OPERATIONS |= {
    name: (lambda session, change=change: change.run(session.table("t"))) for name, change in ROW_CHANGES.items()
}
TRIED_ALWAYS = ("ingest", "TransactionLogStateStore")
EACH = [
    pytest.param(name, kind, marks=[] if (name, kind) == TRIED_ALWAYS else [pytest.mark.long])
    for name in OPERATIONS
    for kind in STATE_STORES
]


@dataclass(frozen=True)
class Place:
    """A warehouse as it was before the operation: its folder, its DynamoDB, and what may never go."""

    folder: Path
    memory: MemoryDynamoDB
    current: Rows
    kept: Rows


@pytest.fixture(scope="module")
def wire():
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "testkey")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "testsecret")
        yield Wire()


@pytest.fixture(scope="module")
def places(wire: Wire, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """By state store: a table whose savepoint alone keeps data files, with garbage, old snapshots and an orphan."""
    return {kind: _made(wire, tmp_path_factory.mktemp("place"), kind) for kind in STATE_STORES}


def prepare(session: sl.Session, clock: ManualClock, kind: str) -> tuple[Rows, Rows]:
    """Make a table and give it a history; return the rows of its savepoint `kept`, and its current ones."""
    session.create_table("u", sl.Schema({"key": "string"}), state_store=kind).ingest([{"key": "u"}])
    schema = sl.Schema({"key": "string"}, values={"n": "long"})
    table = session.create_table("t", schema, ["m"], state_store=kind, properties=NOW)
    for keys in (("a", "n"), ("b", "o")):
        table.ingest(rows(*keys))
    table.create_savepoint("kept")
    kept = table.scan().to_arrow().to_pylist()
    table.ingest(rows("e", "z"))
    table.create_savepoint("spare")
    table.maintenance.compact(engine="local")
    table.ingest(rows("f"))
    clock.advance(timedelta(days=2))
    table.maintenance.expire(dry_run=False)
    table.ingest(rows("g"))
    table.maintenance.compact(engine="local")
    table.ingest(rows("h"))
    clock.advance(timedelta(days=2))
    return kept, table.scan().to_arrow().to_pylist()


def _made(wire: Wire, folder: Path, kind: str) -> Place:
    memory = MemoryDynamoDB()
    wire.tell(memory)
    clock = ManualClock(START)
    with wire.session(folder, clock, Network(clock)) as session:
        kept, current = prepare(session, clock, kind)
        table = session.table("t")
        orphan = folder / table.entry.id / "data" / "partition_root" / "left-behind.parquet"
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_bytes(b"nothing")
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))
    return Place(folder, memory, current, kept)


def run(
    wire: Wire, place: Place, work: Path, name: str, fate: Callable[[int], Fate | None], quota: int
) -> tuple[SleeperError | None, MemoryDynamoDB]:
    """Run an operation on a copy of a place; return its error, and the DynamoDB after it."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(place.folder, work)
    memory = place.memory.copied()
    clock = ManualClock(START + timedelta(days=4), seed=1)  # other ids than those that are there
    wire.tell(memory, fate)
    session = wire.session(work, clock, Network(clock, quota=quota))
    failed: SleeperError | None = None
    try:
        OPERATIONS[name](session)
    except SleeperError as error:
        failed = error
    wire.fate = lambda _: None
    session.close()
    return failed, memory


def changed(name: str, before: Rows) -> Rows:
    """Return the rows that a change of rows leaves."""
    after = ROW_CHANGES[name].after({str(row["key"]): int(str(row["n"])) for row in before})
    return [{"key": key, "n": after[key]} for key in sorted(after)]


def is_changed(place: Place, work: Path, memory: MemoryDynamoDB) -> bool:
    """Return whether a run has changed anything: an item, or which files there are."""
    return memory != place.memory or paths_below(work) != paths_below(place.folder)


def paths_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def check(wire: Wire, place: Place, work: Path, memory: MemoryDynamoDB, name: str, error: object) -> None:
    """Hold that the savepoint and the current rows are as they were, and that nothing is damaged."""
    clock = ManualClock(START + timedelta(days=5))
    wire.tell(memory)
    with wire.session(work, clock, Network(clock)) as session:
        table = session.table("t")
        assert table.at("savepoint.kept").scan().to_arrow().to_pylist() == place.kept
        now = table.scan().to_arrow().to_pylist()
        if name == "ingest":
            assert now in (place.current, sorted([*place.current, *rows("new")], key=lambda row: str(row["key"])))
        elif name == "rollback":
            assert now in (place.current, place.kept)
        elif name in ROW_CHANGES:
            after = changed(name, place.current)
            assert now in (place.current, after)
            for _ in range(2):  # the job does what it has not done
                OPERATIONS[name](session)
                assert table.scan().to_arrow().to_pylist() == after
        else:
            assert now == place.current
        report = table.maintenance.check()
        assert report.ok, (error, report)
        assert "t" in {entry.name for entry in session.tables()}


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_an_operation_whose_answers_are_all_cut_is_done_as_if_none_was(
    wire: Wire, places: dict[str, Place], tmp_path: Path, name: str, kind: str
):
    """Every position meets every kind: so many in a row before each answer that arrives, in as many runs as needed."""
    place = places[kind]
    error, _ = run(wire, place, tmp_path / "work", name, lambda _: None, PATIENT)
    assert error is None
    expected = wire.count
    for first in range(0, len(FATES), KINDS_AT_ONCE):
        kinds = FATES[first : first + KINDS_AT_ONCE]

        def fate(number: int, kinds: tuple[Fate, ...] = kinds) -> Fate | None:
            at = (number - 1) % (len(kinds) + 1)
            return kinds[at] if at < len(kinds) else None

        error, memory = run(wire, place, tmp_path / "work", name, fate, PATIENT)
        assert error is None
        assert wire.count >= expected
        check(wire, place, tmp_path / "work", memory, name, error)


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_a_network_that_fails_at_any_answer_loses_nothing_and_is_named(
    wire: Wire, places: dict[str, Place], tmp_path: Path, name: str, kind: str
):
    """From each position on no answer arrives whole; what the requests asked for is done all the same."""
    place, at, failures = places[kind], 0, 0
    error: SleeperError | None = None
    while True:
        at += 1
        first = at

        def fate(number: int, first: int = first) -> Fate | None:
            return FATES[first % len(FATES)] if number >= first else None

        error, memory = run(wire, place, tmp_path / "work", name, fate, 0)
        if wire.count < at:
            break
        if error is not None:
            failures += 1
            assert isinstance(error, StorageError), error
            assert "network" in str(error), error
        if is_changed(place, tmp_path / "work", memory):
            check(wire, place, tmp_path / "work", memory, name, error)
    assert failures > 3
