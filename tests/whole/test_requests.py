"""How many requests it takes to open a table and to plan a scan: each thing is asked for, read and parsed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT
from sleeper_nb.session import Session
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.servers.memory import MemoryDynamoDB, memory_catalog
from tests.support.builders import START
from tests.support.faults import Faulty, FaultyStorage, no_disk


@dataclass
class Requests:
    """Counts what is asked of a catalog and its storage, by name, and how often the JSON of a schema is parsed."""

    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def around(self, name: str, *_: Any) -> Iterator[None]:
        self.counts[name] += 1
        yield

    def of(self, work: Callable[[], object]) -> dict[str, int]:
        self.counts.clear()
        work()
        return dict(self.counts)


def opened(folder: Path, memory: MemoryDynamoDB | None, requests: Requests) -> Session:
    clock, storage = ManualClock(START), Storage(LocalPlace(folder, sync=False))
    catalog: Any = (
        Faulty(SqliteCatalog(folder / "catalog.sqlite", sync=False), requests, no_disk)  # type: ignore[arg-type]
        if memory is None
        else memory_catalog(folder, Faulty(memory, requests, no_disk), clock)  # type: ignore[arg-type]
    )
    return Session(
        "house", FaultyStorage(storage, requests), catalog,  # type: ignore[arg-type]
        clock=clock, progress=SILENT, author="reader", spark=None, spark_config={},
    )  # fmt: skip


@pytest.fixture(params=["sqlite", "dynamodb"])
def reader(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Open a warehouse with one table of three snapshots, in a session that has read nothing yet."""
    memory, requests = MemoryDynamoDB() if request.param == "dynamodb" else None, Requests()
    with closing(opened(tmp_path, memory, requests)) as writer:
        table = writer.create_table("t", sl.Schema({"k": "int"}, values={"v": "string?"}))
        table.ingest([{"k": 1, "v": "a"}])
        table.ingest([{"k": 2, "v": "b"}])
    real = Schema.from_json

    def parsed(text: str) -> Schema:
        requests.counts["schema"] += 1
        return real(text)

    monkeypatch.setattr(Schema, "from_json", parsed)
    with closing(opened(tmp_path, memory, requests)) as session:
        yield Reader(session, requests, request.param)


@dataclass(frozen=True)
class Reader:
    """A session whose requests are counted, and where it has its catalog."""

    session: Session
    requests: Requests
    catalog: str

    def takes(self, work: Callable[[], object], sqlite: dict[str, int], dynamodb: dict[str, int]) -> None:
        """Assert the requests of some work: `input` is a file that is opened, `schema` the JSON of one parsed."""
        assert self.requests.of(work) == (sqlite if self.catalog == "sqlite" else dynamodb)


FILE = {"input": 1}
"""The property file of a table. The schema in it is not parsed again: the same process has written it."""
ENTRY = {"sqlite": {"find_table": 1}, "dynamodb": {"batch_get_item": 1}}
"""DynamoDB has one item that leads from a name to an id, and one with the table itself: both take one request."""


def test_opening_a_table_reads_its_entry_and_its_file_once(reader: Reader):
    session = reader.session
    # the first time also the current snapshot, which names the class of the state store, and one item after the other
    first = {"find_table": 1, "current": 1}, {"get_item": 3, "query": 1}
    reader.takes(lambda: session.table("t"), *({**FILE, **each} for each in first))
    reader.takes(lambda: session.table("T"), *({**FILE, **each} for each in ENTRY.values()))


def test_a_scan_adds_one_look_at_the_current_version(reader: Reader):
    session = reader.session
    table = session.table("t")
    # once: the schema, the partitions and the list of files
    metadata = {"input": 3, "schema": 1}
    reader.takes(table.scan, {"current": 1, **metadata}, {"query": 1, **metadata})
    reader.takes(table.scan, {"current": 1}, {"query": 1})
    reader.takes(
        lambda: session.table("t").scan(),
        {"find_table": 1, "current": 1, **FILE},
        {"batch_get_item": 1, "query": 1, **FILE},
    )
    reader.takes(table.describe, {"current": 1}, {"query": 1})


def test_a_scan_of_an_older_version_looks_it_up_once(reader: Reader):
    table = reader.session.table("t")
    table.scan()
    # once: its list of files, as its partitions and its schema are those of the current version
    reader.takes(lambda: table.at(2).scan(), {"snapshot": 1, "input": 1}, {"get_item": 1, "input": 1})
    reader.takes(lambda: table.at(2).scan(), {"snapshot": 1}, {"get_item": 1})
    version = table.at(2)
    reader.takes(version.scan, {}, {})
    reader.takes(version.inspect.partitions, {}, {})


def test_an_ingest_looks_at_the_current_version_three_times(reader: Reader):
    """For the columns of the rows, for the partitions that they go to, and for the commit."""
    table = reader.session.table("t")
    table.scan()
    reader.takes(
        lambda: table.ingest([{"k": 3, "v": "c"}]),
        {"current": 3, "commit_lock": 1, "commit": 1, "output": 2},
        {"query": 3, "transact_write_items": 1, "output": 2},
    )


def test_a_load_that_is_committed_is_reported_whatever_fails_after_it(reader: Reader, monkeypatch: pytest.MonkeyPatch):
    """An error after the commit would make the caller load the same rows again."""
    table = reader.session.table("t")
    commit = table._store.commit

    def then_fail(*arguments: Any, **options: Any) -> sl.Snapshot:
        made = commit(*arguments, **options)

        def broken(*_: Any) -> NoReturn:
            raise sl.NetworkError("the server gave no answer")

        monkeypatch.setattr(table._store, "head", broken)
        return made

    monkeypatch.setattr(table._store, "commit", then_fail)
    assert table.ingest([{"k": 3, "v": "c"}]).snapshot_id == 4
