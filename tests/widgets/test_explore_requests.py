"""What a widget asks of the catalog and of storage: it keeps what it opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.progress import SILENT
from sleeper_nb.session import Session
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.storage.paths import DATA, STATE_STORE
from sleeper_nb.widgets import explore
from sleeper_nb.widgets.timeline_widget import Timeline
from tests.servers import once
from tests.servers.fixtures import use
from tests.servers.memory import MemoryDynamoDB, memory_catalog

SCHEMA = sl.Schema(row_keys={"k": "int"}, values={"v": "string"})


class Requests:
    """Records each request to DynamoDB and to storage; it stands before a client of DynamoDB."""

    def __init__(self, real: MemoryDynamoDB) -> None:
        self._real = real
        self.items: list[str] = []
        self.files: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)

        def recorded(**request: Any) -> Any:
            self.items.append(request.get("TableName", name))
            return method(**request)

        return recorded

    def of(self, action: Any) -> Requests:
        """Do something and return the requests that it made."""
        self.items.clear()
        self.files.clear()
        action()
        return self

    def read_below(self, folder: str) -> list[str]:
        """Return the files of a folder whose content was read, once for each time."""
        return [path for name, path in self.files if name == "read" and path.startswith(folder)]

    @property
    def metadata(self) -> list[str]:
        """The files of metadata that were touched."""
        return [path for _, path in self.files if not path.startswith(DATA)]


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.moto)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    if request.param == "folder":
        return Storage(tmp_path)
    server = once.moto()
    use(server, monkeypatch)
    return open_storage(f"s3://{server.new_bucket()}/house", AwsTarget(server.region, server.endpoint_url))


@pytest.fixture(params=STATE_STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def house(
    place: Storage, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Session, Requests]]:
    """A session that has read nothing yet, of a table with seven versions; and its requests."""
    requests = Requests(MemoryDynamoDB())
    for name in ("read", "input", "size", "list", "folders", "write"):
        real = getattr(Storage, name)

        def recorded(self: Storage, path: str = "", *content: bytes, real: Any = real, name: str = name) -> Any:
            requests.files.append((name, path))
            return real(self, path, *content)

        monkeypatch.setattr(Storage, name, recorded)

    def session() -> Session:
        return Session(
            "house", place, memory_catalog(tmp_path, client=requests), clock=ManualClock(), progress=SILENT,
            author=None, spark=None, spark_config={},
        )  # fmt: skip

    with session() as writer:
        table = writer.create_table("t", SCHEMA, [10], state_store=kind)
        for n in range(6):
            table.ingest([{"k": k, "v": str(n)} for k in (1, 3, 11)])
    with session() as reader:
        yield reader, requests


def test_a_move_of_the_slider_reads_one_version_and_nothing_twice(house: tuple[Session, Requests], kind: str):
    session, requests = house
    explorer = explore(session, "t")
    for version in (3, 5):
        made = requests.of(lambda number=version: setattr(explorer._slider, "value", number))
        assert explorer.preview.line == f"%sleeper scan t@{version}"
        assert "t at snapshot" in explorer.preview.text
        # Two of the catalog: the version, and whether the table is still there. Beyond that, the metadata of the
        # version: one file on S3, three queries where they are items, or the log since the last state that is known.
        extra = {"S3StateStore": 0, "TransactionLogStateStore": 2, "DynamoDBStateStore": 3}[kind]
        assert 2 <= len(made.items) <= 2 + extra
        assert len(made.read_below(STATE_STORE)) <= 1
        assert len(made.metadata) <= 3  # its size, its checksum, its content
        assert not any("properties" in path for path in made.metadata)
    made = requests.of(lambda: setattr(explorer._slider, "value", 3))
    assert (len(made.items), made.metadata) == (2, [])


TABS = {"schema": 1, "partitions": 1, "sql": 1, "savepoints": 2, "files": 3, "history": 4}
"""Requests to the catalog: one asks whether the table is still there, the others are for what is not of one version."""


def test_a_click_on_a_tab_opens_nothing(house: tuple[Session, Requests]):
    session, requests = house
    explorer = explore(session, "t")
    explorer.version = 5
    for tab, items in TABS.items():
        made = requests.of(lambda name=tab: setattr(explorer, "tab", name))
        assert explorer._error.value == ""
        assert (tab, len(made.items), made.files) == (tab, items, [])
    made = requests.of(lambda: setattr(explorer, "tab", "rows"))
    assert (len(made.items), made.metadata) == (1, [])


def test_a_handle_of_the_timeline_reads_one_version(house: tuple[Session, Requests]):
    session, requests = house
    widget = Timeline(session, "t", background=lambda work: work())
    widget.before = 4
    made = requests.of(lambda: setattr(widget, "before", 6))
    assert widget.difference.line == "%sleeper diff t 6 7 --images"
    assert (len(made.items), made.metadata) == (4, [])  # each version, for the difference too; and the table


@pytest.mark.parametrize("kind", STATE_STORES[:1], indirect=True)
def test_refresh_opens_the_table_again(house: tuple[Session, Requests]):
    session, requests = house
    explorer = explore(session, "t")
    explorer.tab = "partitions"
    made = requests.of(explorer.refresh)
    assert any("properties" in path for path in made.metadata)


@pytest.mark.parametrize("kind", STATE_STORES[:1], indirect=True)
def test_properties_that_were_changed_count_at_the_next_click(house: tuple[Session, Requests]):
    session, _ = house
    explorer = explore(session, "t")
    session.table("t").set_properties({"sleeper.table.compaction.strategy.class": "basic"})
    explorer.tab = "files"
    assert "a compaction (basic)" in explorer.preview.html


@pytest.mark.parametrize("kind", STATE_STORES[:1], indirect=True)
def test_a_table_that_was_deleted_and_made_again_is_opened_again(house: tuple[Session, Requests], kind: str):
    session, _ = house
    explorer = explore(session, "t")
    explorer.version = 1
    session.drop_table("t", force=True)
    explorer.tab = "schema"
    assert "no table &#x27;t&#x27; any more" in explorer._error.value
    session.create_table("t", sl.Schema(row_keys={"other": "string"}), state_store=kind)
    explorer.tab = "files"
    explorer.tab = "schema"
    assert explorer._error.value == ""
    assert "other" in explorer.preview.text
