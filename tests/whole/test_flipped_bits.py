"""Every flipped bit of every kind of file is found by a check, and no reader gives rows of a damaged file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import SleeperError, StorageError
from sleeper_nb.maintain.check import check_table, savepoint_file_faults
from sleeper_nb.maintain.check_rules import DataUse, find_data_faults
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.savepoints import Savepoint, is_file_of
from sleeper_nb.model.transactions import from_entry, has_checksum, without_checksum
from sleeper_nb.progress import Silent
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read import scan_plan as planning
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import metadata as metadata_files
from sleeper_nb.storage import paths
from tests.support.builders import (
    EMBEDDED,
    KEYED,
    TABLE,
    a_store,
    compact,
    ingest,
    reopened,
    rows_of,
    save,
    scan,
)

LOG = "TransactionLogStateStore"


def flips(path: Path, *, bits: int = 1, every: int = 1) -> Iterator[int]:
    """Flip each byte of a file in turn, in one bit or in all eight one after the other, and mend it again.

    With `every`, only the first of so many bytes.
    """
    whole = path.read_bytes()
    try:
        for at in range(0, len(whole), every):
            for bit in range(bits):
                path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << (at + bit) % 8]) + whole[at + 1 :])
                yield at
    finally:
        path.write_bytes(whole)


def located(store: StateStore, path: str | None) -> Path:
    return Path(store.storage.locate(path or ""))


def deep_check(store: StateStore) -> list[tuple[str, str]]:
    report = check_table(reopened(store), "table", deep=True, progress=Silent())
    return [(finding.kind, finding.where) for finding in report.findings]


@pytest.fixture
def table(tmp_path: Path) -> StateStore:
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of("a", "z", value="some text"))
    return store


def test_every_flip_of_a_data_file_is_found_and_no_reader_gives_its_rows(table: StateStore):
    state = table.load()
    file = state.files.active_in([p.id for p in state.tree.partitions])[0]
    use = DataUse(file, state.tree[file.partition_id].region, state.schema)
    plan, projected = planning.plan_scan(state), {"columns": ["key"]}
    for at in flips(located(table, file.filename)):
        assert list(find_data_faults(table.storage, [use], Silent())), at
        for options in ({}, projected) if at % 16 == 0 else ({},):
            with pytest.raises(StorageError, match=f"{Path(file.filename).name} is damaged"):
                reading.read(plan, table.storage, **options)
    assert scan(table).num_rows == 2


def test_a_read_of_a_large_damaged_file_names_it(table: StateStore, monkeypatch: pytest.MonkeyPatch):
    """What is too large to be looked at whole before a part of it is read still has a reader that fails."""
    monkeypatch.setattr(reading, "CHECKED_FILES", 0)
    state = table.load()
    file = state.files.active_in([p.id for p in state.tree.partitions])[0]
    path = located(table, file.filename)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) - 12) + whole[-8:])
    with pytest.raises(StorageError, match=f"{path.name} is damaged") as caught:
        scan(table, where="n >= 0")
    assert (caught.value.hint or "").startswith("table.maintenance.check(deep=True) lists every damaged file")


@pytest.mark.parametrize("reader", ["to_duckdb", "sql"])
def test_duckdb_gives_no_rows_of_a_damaged_file(tmp_path: Path, reader: str):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a", value="some text"))
        (path,) = (tmp_path / "w").rglob("data/**/*.parquet")
        whole = path.read_bytes()
        at = whole.index(b"some text")
        path.write_bytes(whole[:at] + b"S" + whole[at + 1 :])
        readers = {
            "sql": lambda: session.sql("SELECT * FROM t", engine="duckdb").to_arrow(),
            "to_duckdb": lambda: table.scan().to_duckdb().fetchall(),
        }
        with pytest.raises(StorageError, match="is damaged"):
            readers[reader]()


def test_pages_have_checksums_too(table: StateStore):
    state = table.load()
    path = located(table, state.files.active["filename"][0].as_py())
    whole = path.read_bytes()
    at = whole.index(b"some text") if b"some text" in whole else 40
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", EMBEDDED)
def test_every_flip_of_a_versions_metadata_is_an_error_that_names_the_file(tmp_path: Path, kind: str, every: int):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of("a"))
    save(store, "kept")
    point = store.catalog.savepoints(store.table_id)[0]
    paths_of = [
        point.full_manifest_list,
        point.partitions_path,
        paths.schema(1),
        *([point.log.path] if point.log else []),
    ]
    assert (point.log is not None) == (kind == LOG)
    for path in paths_of:
        for at in flips(located(store, path), every=every):
            with pytest.raises(StorageError, match=r"schema-1|\.parquet|\.jsonl") as caught:
                reopened(store).load(point)
            assert located(store, path).name in caught.value.message
            if at % 400 == 0:
                assert deep_check(store)
    assert deep_check(store) == []


def test_the_metadata_that_an_expired_checkpoint_left_is_looked_at(tmp_path: Path):
    store = a_store(tmp_path, kind=LOG)
    for key in "abc":
        ingest(store, rows_of(key))
    store.catalog.expire_snapshots(store.table_id, [1], store.clock.now())
    start = store.catalog.checkpoint(store.table_id, 2)
    path = located(store, start.files_path)
    path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:])
    assert ("metadata", "snapshot 2") in deep_check(store)


@pytest.mark.parametrize("kind", EMBEDDED)
def test_every_flip_of_a_savepoints_file_is_found(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of("a"))
    saved = save(store)
    path = located(store, paths.savepoint(saved.id))
    for at in flips(path, bits=2):
        assert list(savepoint_file_faults(store.storage, saved)), at
    assert deep_check(store) == []
    path.write_bytes(path.read_bytes().replace(b'"recordCount": 1', b'"recordCount": 2'))
    assert deep_check(store) == [("savepoint file", "savepoint 1")]


def test_swapped_schemas_and_text_that_is_no_utf_8_are_errors(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a"))
        table.alter(add_columns={"note": "string?"})
    first, second = (next((tmp_path / "w").rglob(f"schema-{number}")) for number in (1, 2))
    old, new = first.read_bytes(), second.read_bytes()
    for one, other in ((new, old), (b"\xff" + old, new)):
        first.write_bytes(one)
        second.write_bytes(other)
        with sl.connect(tmp_path / "w") as session:
            table = session.table("t")
            with pytest.raises(StorageError, match="schema-1 is damaged"):
                table.at(2).scan().to_arrow()
            assert not table.maintenance.check().ok


def test_a_schema_without_a_recorded_checksum_that_is_no_schema_names_its_file(table: StateStore):
    located(table, paths.schema(1)).write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="schema-1 does not contain a schema: it is not UTF-8"):
        metadata_files.read_schema(table.storage, 1)


# Old tables.


def without_checksums(store: StateStore) -> None:
    """Make a table look as a release without checksums left it."""
    catalog, head = store.catalog, store.head()
    old = pq.read_table(located(store, head.files_path), partitioning=None).drop_columns(["checksum"])
    pq.write_table(old, located(store, head.files_path))
    nothing = dict.fromkeys(("files_checksum", "partitions_checksum", "schema_checksum", "processing", "checksum"))
    with catalog._file.transaction() as run:
        run.execute(f"UPDATE snapshots SET {', '.join(f'{name} = :{name}' for name in nothing)}", nothing)


def test_a_table_of_a_release_without_checksums_is_read_and_told_of(table: StateStore):
    without_checksums(table)
    old = reopened(table)
    assert scan(old).num_rows == 2
    report = check_table(old, "table", deep=True, progress=Silent())
    assert (report.ok, report.without_checksum) == (True, 2)
    assert "2 data files of an older release" in repr(report)
    ingest(old, rows_of("b"))
    compact(old)
    old.catalog.expire_snapshots(old.table_id, range(1, old.head().id), old.clock.now())
    assert check_table(old, "table", deep=True, progress=Silent()).without_checksum == 1  # z alone: nothing to merge


def test_a_savepoint_of_an_older_release_is_that_of_its_file():
    from tests.support.builders import savepoint, snapshot

    point = savepoint(1, snapshot(2))
    new = point.to_json()
    lines = [line for line in new.splitlines() if "hecksum" not in line and "processing" not in line]
    old = "\n".join(lines).replace(",\n}", "\n}")
    assert is_file_of(point, old.encode())
    assert is_file_of(point, new.encode())
    assert not is_file_of(point, old.replace("name", "nbme").encode())
    assert not is_file_of(point, old.replace('"id": 1', '"id":  1').encode())
    assert Savepoint.from_json(old) == point


def test_the_checksum_of_a_file_is_in_every_reference_of_every_store(table: StateStore):
    state = table.load()
    for row in state.files.table.to_pylist():
        assert row["checksum"] == checksum_of(located(table, row["filename"]).read_bytes())


def test_rows_of_the_catalog_that_disagree_are_found(table: StateStore):
    head = table.head()
    for name in ("files_checksum", "partitions_checksum", "schema_checksum"):
        wrong = replace(head, **{name: "0" * 32})
        with pytest.raises(StorageError, match="is damaged"):
            reopened(table).load(wrong)


# The catalog.


def in_catalog(store: StateStore, statement: str) -> None:
    """Change the file of an embedded catalog behind its back."""
    with store.catalog._file.transaction() as run:
        assert run.execute(statement).rowcount, statement


def a_history(folder: Path, kind: str) -> StateStore:
    """Return the store of a table with five snapshots, and a savepoint of the third."""
    store = a_store(folder, kind=kind)
    for key in "abcd":
        ingest(store, rows_of(key), message=f"adds {key}")
        if key == "b":
            save(store, "kept")
    return store


@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize(
    "change",
    [
        "current_snapshot = 4",
        "current_snapshot = 4, current_commit = (SELECT commit_id FROM snapshots WHERE id = 4)",
        "current_commit = 'x'",
    ],
)
def test_a_catalog_that_disagrees_on_the_newest_snapshot_is_refused(tmp_path: Path, kind: str, change: str):
    store = a_history(tmp_path, kind)
    in_catalog(store, f"UPDATE tables SET {change}")
    found = reopened(store)
    for act in (found.head, lambda: ingest(found, rows_of("e")), lambda: scan(found)):
        with pytest.raises(StorageError, match="contradicts itself") as caught:
            act()
        assert "check" in (caught.value.hint or "")
    assert "current" in {finding for finding, _ in deep_check(store)}
    assert found.catalog.current_of_all() == {}


def test_a_table_whose_catalog_disagrees_opens_for_a_check(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a"))
        in_catalog(session.table("t")._store, "UPDATE tables SET current_snapshot = 1")
    with sl.connect(tmp_path / "w") as session:
        table = session.table("t")
        assert "snapshot 2 is newer than the current one, 1" in str(table.maintenance.check())
        with pytest.raises(StorageError, match="contradicts itself"):
            table.ingest(rows_of("b"))
        with pytest.raises(StorageError, match="contradicts itself"):
            session.tables()


def test_every_flip_of_an_entry_of_the_log_is_an_error(tmp_path: Path):
    store = a_history(tmp_path, LOG)
    (entry,) = store.catalog.log(store.table_id, 2, 3)
    assert has_checksum(entry)
    from_entry(entry, 3)
    for at in range(len(entry)):
        for bit in range(8):
            with pytest.raises(StorageError, match="transaction log"):
                from_entry(entry[:at] + bytes([entry[at] ^ 1 << bit]) + entry[at + 1 :], 3)
    with pytest.raises(StorageError, match="transaction log"):
        from_entry(entry, 4)


@pytest.mark.parametrize("materialised", [False, True])
def test_a_damaged_entry_of_the_log_is_found_whatever_else_keeps_its_version(tmp_path: Path, materialised: bool):
    store = a_history(tmp_path, LOG)
    if materialised:
        store.materialised(store.catalog.snapshot(store.table_id, 3))
    (entry,) = store.catalog.log(store.table_id, 2, 3)
    in_catalog(store, f"UPDATE log SET entry = x'{entry.replace(b'AddFiles', b'DelFiles').hex()}' WHERE id = 3")
    assert [kind for kind, _ in deep_check(store)]
    in_catalog(store, f"UPDATE log SET entry = x'{entry.hex()}' WHERE id = 3")
    assert deep_check(store) == []
    in_catalog(store, "UPDATE log SET entry = (SELECT entry FROM log WHERE id = 2) WHERE id = 3")
    assert [kind for kind, _ in deep_check(store)]


_OTHER = {"INTEGER": "coalesce({}, 0) + 1", "TEXT": "coalesce({}, '') || 'x'"}


@pytest.mark.parametrize("kind", EMBEDDED)
def test_every_changed_column_of_a_snapshots_or_savepoints_row_is_found(tmp_path: Path, kind: str):
    store = a_history(tmp_path, kind)
    file = store.catalog._file
    tried = 0
    for table in ("snapshots", "savepoints"):
        row_id = 3 if table == "snapshots" else 1
        for _, name, declared, *_ in file.rows(f"PRAGMA table_info({table})"):
            if name in {"table_id", "expired"} or (table, name) == ("savepoints", "id"):
                continue
            ((value,),) = file.rows(f'SELECT "{name}" FROM {table} WHERE id = ?', (row_id,))
            change = _OTHER[declared].format(f'"{name}"') if name != "id" else "id + 100"
            in_catalog(store, f'UPDATE {table} SET "{name}" = {change} WHERE id = {row_id}')
            assert deep_check(store), (table, name)
            fresh = reopened(store)
            if name != "id":
                with pytest.raises(StorageError, match=rf"row of {table[:-1]} {row_id} in .*catalog.sqlite is damaged"):
                    fresh.catalog.savepoints(TABLE) if table == "savepoints" else fresh.catalog.snapshot(TABLE, 3)
            with file.transaction() as run:
                back = row_id + 100 if name == "id" else row_id
                run.execute(f'UPDATE {table} SET "{name}" = ? WHERE id = ?', (value, back))
            tried += 1
    assert tried > 30
    assert deep_check(store) == []


def test_a_row_taken_for_another_versions_is_refused(tmp_path: Path):
    store = a_history(tmp_path, "S3StateStore")
    of_two = "SELECT files_path FROM snapshots WHERE id = 2", "SELECT files_checksum FROM snapshots WHERE id = 2"
    in_catalog(store, f"UPDATE snapshots SET files_path = ({of_two[0]}), files_checksum = ({of_two[1]}) WHERE id = 3")
    with pytest.raises(StorageError, match="row of snapshot 3"):
        reopened(store).catalog.snapshot(TABLE, 3)
    assert ("catalog row", "snapshot 3") in deep_check(store)
    assert len(scan(reopened(store))) == 4


def test_a_savepoint_without_its_row_is_found_and_its_files_are_no_orphans(tmp_path: Path):
    store = a_history(tmp_path, "S3StateStore")
    store.catalog.expire_snapshots(TABLE, [1, 2, 3], store.clock.now())
    in_catalog(store, "DELETE FROM savepoints")
    report = check_table(reopened(store), "table", deep=False, progress=Silent(), orphan_age=-timedelta(days=9999))
    assert [finding.kind for finding in report.findings] == ["savepoint"]
    assert report.orphans == ()


def test_an_index_that_leaves_out_a_row_is_found(tmp_path: Path):
    store = a_history(tmp_path, "S3StateStore")
    store.catalog._file._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ((page,),) = store.catalog._file.rows(
        "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_savepoints_1'"
    )
    store.catalog.close()
    path = tmp_path / "catalog.sqlite"
    whole = path.read_bytes()
    at = whole.index(TABLE.encode(), (page - 1) * 4096)
    path.write_bytes(whole[:at] + b"T" + whole[at + 1 :])
    found = a_store(tmp_path, create=False)
    assert ("catalog file", "the catalog") in deep_check(found)


def test_the_file_of_a_deleted_savepoint_is_an_orphan(tmp_path: Path):
    store = a_history(tmp_path, "S3StateStore")
    store.catalog.delete_savepoint(TABLE, 1, store.clock.now())  # and here the process dies
    report = check_table(reopened(store), "table", deep=False, progress=Silent(), orphan_age=-timedelta(days=9999))
    assert (report.ok, [file.path for file in report.orphans]) == (True, [paths.savepoint(1)])


@pytest.mark.parametrize("kind", EMBEDDED)
def test_rows_of_an_earlier_build_are_read_and_reported(tmp_path: Path, kind: str):
    store = a_history(tmp_path, kind)
    in_catalog(store, "UPDATE snapshots SET checksum = NULL")
    in_catalog(store, "UPDATE savepoints SET checksum = NULL")
    if kind == LOG:
        for number, entry in store.catalog._file.rows("SELECT id, entry FROM log"):
            in_catalog(store, f"UPDATE log SET entry = x'{without_checksum(entry).hex()}' WHERE id = {number}")
    old = reopened(store)
    assert [len(scan(old, version)) for version in (2, 3, 4, 5) for version in [old.catalog.snapshot(TABLE, version)]]
    report = check_table(old, "table", deep=True, progress=Silent())
    assert (report.ok, report.rows_without_checksum) == (True, 10 if kind == LOG else 6)
    assert "of an earlier build without a checksum" in repr(report)


def test_a_damaged_catalog_gives_no_raw_errors(tmp_path: Path):
    """Each byte of the rows of tables and snapshots: a call succeeds, or its error says what is damaged."""
    folder = tmp_path / "w"
    with sl.connect(folder) as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a"), message="some text")
        table.create_savepoint("kept")
        session._components.catalog._file._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (path,) = folder.rglob("catalog.sqlite")
    page = 4096
    whole = path.read_bytes()
    used = [at for at, byte in enumerate(whole) if byte and at >= page]
    rows = [at for at in used if whole[at // page * page] == 13][::11]  # of tables, not of indexes
    for at, _ in zip(rows, flips_at(path, rows), strict=True):
        try:
            with sl.connect(folder) as session:
                session.tables()
                table = session.table("t")
                table.maintenance.check()
                for act in (table.history, table.savepoints, table.scan().to_arrow, table.inspect.status):
                    with contextlib.suppress(SleeperError):
                        act()
        except SleeperError:
            pass
        except Exception as error:
            raise AssertionError(f"byte {at}") from error


def flips_at(path: Path, positions: list[int]) -> Iterator[None]:
    whole = path.read_bytes()
    for number, at in enumerate(positions):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << number % 8]) + whole[at + 1 :])
        yield
    path.write_bytes(whole)


@pytest.mark.parametrize("time", [2**63 - 1, -(2**62)])
def test_a_moment_that_cannot_be_is_a_damaged_row(tmp_path: Path, time: int):
    store = a_history(tmp_path, "S3StateStore")
    in_catalog(store, f"UPDATE snapshots SET time = {time}, checksum = NULL WHERE id = 3")
    with pytest.raises(StorageError, match="row of snapshot 3") as caught:
        store.catalog.snapshots(TABLE)
    assert "restore" in (caught.value.hint or "")
    assert ("catalog row", "the catalog") in deep_check(store)


# Large files, on DuckDB.

_WHOLE = (
    "SELECT * FROM t",
    "FROM t",
    "SUMMARIZE t",
    "SELECT a FROM t a",
    "SELECT sum(n), max(value) FROM t",
    "SELECT key, count(*) FROM (SELECT * FROM t) GROUP BY key",
    "SELECT T.Value, T.KEY FROM t ORDER BY 1 LIMIT 1",
    "WITH a AS (SELECT key, value FROM t) SELECT a.*, b.n FROM a JOIN t b USING (key)",
)
_PART = (
    "SELECT sum(n) FROM t",
    "SELECT count(*) + 1 FROM t",
    "SELECT * FROM t LIMIT 1",
    "SELECT * FROM t WHERE key = 'b'",
    "DESCRIBE SELECT * FROM t",
    "EXPLAIN SELECT * FROM t",
)


def test_duckdb_checks_a_large_file_that_it_reads_most_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What reads a small part of it is not made to read all of it: there a deep check finds the damage."""
    monkeypatch.setattr(reading, "CHECKED_FILES", 0)
    read: list[str] = []
    monkeypatch.setattr(reading, "check_once", lambda _, filename, __: read.append(filename))
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a", value="some text"))
        for sql in (*_WHOLE, *_PART):
            session.sql(sql, engine="duckdb").to_arrow()
            assert bool(read) == (sql in _WHOLE), sql
            read.clear()
        for scanned, is_read in (
            (table.scan(), True),
            (table.scan(columns=["key", "value"]), True),
            (table.scan(columns=["n"]), False),
            (table.scan(where="n >= 0"), False),
            (table.scan(limit=1), False),
        ):
            scanned.to_duckdb().fetchall()
            assert bool(read) == is_read
            read.clear()


def test_duckdb_gives_no_answer_from_a_large_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "CHECKED_FILES", 0)
    with sl.connect(tmp_path / "w") as session:
        session.create_table("t", KEYED).ingest(rows_of("a", value="some text"))
        (path,) = (tmp_path / "w").rglob("data/**/*.parquet")
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"some text", b"Some text"))
        with pytest.raises(StorageError, match=f"{path.name} is damaged"):
            session.sql("SELECT max(key), max(value) FROM t", engine="duckdb").to_arrow()
