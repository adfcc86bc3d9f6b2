"""What is asked of the catalog and of storage does not grow with the number of tables or versions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import TableEntry
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.sqlite_file import SqliteFile
from sleeper_nb.maintain import check as checking
from sleeper_nb.maintain.check import check_table
from sleeper_nb.progress import SILENT
from sleeper_nb.report import Bytes
from sleeper_nb.storage.filesystem import Storage
from tests.servers.memory import MemoryDynamoDB, memory_catalog
from tests.support.builders import a_store, ingest, rows_of, snapshot

SCHEMA = sl.Schema(row_keys={"a": "string"}, values={"b": "int?"})


def _queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    rows = SqliteFile.rows

    def counted(self: SqliteFile, statement: str, parameters: Any = ()) -> Any:
        asked.append(statement)
        return rows(self, statement, parameters)

    monkeypatch.setattr(SqliteFile, "rows", counted)
    return asked


def _files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    for name in ("read", "input"):
        real = getattr(Storage, name)

        def counted(self: Storage, path: str, real: Any = real) -> Any:
            opened.append(path)
            return real(self, path)

        monkeypatch.setattr(Storage, name, counted)
    return opened


@pytest.mark.parametrize("count", [3, 60])
def test_a_list_of_tables_costs_the_same_for_any_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int):
    with sl.connect(tmp_path) as session:
        for i in range(count):
            session.create_table(f"t{i:02}", SCHEMA)
    asked, opened = _queries(monkeypatch), _files(monkeypatch)
    with sl.connect(tmp_path) as session:
        begun = len(asked), len(opened)
        tables = session.tables()
        assert len(tables.cells) == len(tables) == count
        repr(tables)
        assert (len(asked) - begun[0], len(opened) - begun[1]) == (2, 0)
        assert [tables[-1].name, tables[0].schema] == [f"t{count - 1:02}", SCHEMA]
        assert [table.name for table in tables[1:3]] == ["t01", "t02"]
        assert tables[0] is tables[0]


def test_a_list_of_tables_counts_each_file_once_after_every_kind_of_commit(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        for kind in ("S3StateStore", "TransactionLogStateStore"):
            table = session.create_table(f"t{kind}", SCHEMA, state_store=kind)
            table.ingest([{"a": key, "b": 1} for key in "abcdefgh"])
            _is_counted(session, table)
            table.maintenance.split(at="d")
            _is_counted(session, table)
            assert table.at().state.totals().files == 2  # one file, which both leaves use
            table.ingest([{"a": "z"}, {"a": "b"}])
            _is_counted(session, table)
            table.maintenance.compact(engine="local", strategy="all")
            _is_counted(session, table)
            table.rollback(2)
            _is_counted(session, table)
            table.maintenance.collect_garbage(dry_run=False)
            session.admin.reinitialise(table.name, force=True)
            _is_counted(session, table)


def _is_counted(session: sl.Session, table: sl.Table) -> None:
    shown = next(cells for cells in session.tables().cells if cells[0] == table.name)
    active = table.at().state.files.active
    files = dict(zip(active["filename"].to_pylist(), active["bytes"].to_pylist(), strict=True))
    assert shown[3:6] == (len(files), Bytes(sum(files.values())), len(table.at().partition_tree.leaves))


def test_tables_of_an_earlier_build_are_counted_from_their_metadata(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        session.create_table("t", SCHEMA).ingest([{"a": "x"}])
        expected = session.tables().cells
        with session._components.catalog._file.transaction() as run:  # type: ignore[attr-defined]
            run.execute('UPDATE snapshots SET leaves = NULL, "references" = NULL, files = 99, checksum = NULL')
        assert session.tables().cells == expected


def test_a_table_that_is_deleted_meanwhile_says_so_when_it_is_opened(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        for name in ("kept", "gone"):
            session.create_table(name, SCHEMA)
        tables = session.tables()
        session.drop_table("gone", force=True)
        with pytest.raises(sl.NotFound, match="no table 'gone'"):
            tables[0]
        assert tables[1].name == "kept"
        assert [table.name for table in session.tables()] == ["kept"]


def test_a_table_is_found_by_its_id_without_a_list_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA)
        listed: list[Any] = []
        monkeypatch.setattr(type(session._components.catalog), "tables", listed.append)
        assert session._components.property_files.recorded(table.entry.id).text == table.entry.properties_checksum
        assert session._components.catalog.has_table(table.entry.id)
        assert session._components.catalog.entry("another") is None
        assert listed == []


class Counted:
    """A DynamoDB that counts its requests, and gives only some of a batch at once."""

    def __init__(self, real: MemoryDynamoDB) -> None:
        self._real, self.requests = real, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)

        def called(**request: Any) -> Any:
            self.requests[name] += 1
            return method(**request)

        return called


def test_dynamodb_gives_the_snapshots_of_a_hundred_tables_in_one_request(tmp_path: Path):
    client = Counted(MemoryDynamoDB())
    catalog: DynamoDBCatalog = memory_catalog(tmp_path, client)
    for i in range(250):
        catalog.create_table(TableEntry(f"id{i}", f"t{i}"), replace(snapshot(1, f"first-{i}"), leaves=i))
    assert catalog.commit("id7", catalog.current("id7"), snapshot(2, "second"))
    client.requests.clear()
    catalog.tables()
    pages = client.requests["query"]
    found = catalog.current_of_all()
    assert client.requests == {"query": 2 * pages, "batch_get_item": 6}  # three hundreds, and their snapshots
    assert len(found) == 250
    assert found["id7"].id == 2
    assert (found["id9"].leaves, found["id9"].commit_id) == (9, "first-9")


def test_what_dynamodb_leaves_out_of_a_batch_is_asked_again(tmp_path: Path):
    real = MemoryDynamoDB()

    class Busy(Counted):
        def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803 - boto3's names
            self.requests["batch_get_item"] += 1
            ((name, wanted),) = RequestItems.items()
            now, later = wanted["Keys"][:10], wanted["Keys"][10:]
            found = real.batch_get_item({name: {**wanted, "Keys": now}})
            return {**found, "UnprocessedKeys": {name: {**wanted, "Keys": later}} if later else {}}

    client = Busy(real)
    catalog = memory_catalog(tmp_path, client)
    for i in range(25):
        catalog.create_table(TableEntry(f"id{i}", f"t{i}"), snapshot(1, f"first-{i}"))
    assert len(catalog.current_of_all()) == 25
    assert client.requests["batch_get_item"] == 6


@pytest.mark.parametrize("kind", ["S3StateStore", "TransactionLogStateStore"])
def test_a_check_keeps_of_each_version_only_what_it_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    store = a_store(tmp_path, kind=kind)
    for i in range(30):
        ingest(store, rows_of(f"{i:02}"))
    kept: list[int] = []
    add = checking._Seen.add

    def counted(self: Any, state: Any) -> None:
        add(self, state)
        kept.append(self.named.num_rows)

    monkeypatch.setattr(checking._Seen, "add", counted)
    report = check_table(store, "t", deep=False, progress=SILENT)
    assert (report.ok, report.versions, report.files) == (True, 31, 30)
    assert kept == list(range(31))
