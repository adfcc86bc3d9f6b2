"""What a widget asks of the catalog and of storage: it keeps what it opened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.progress import SILENT, Watch
from sleeper_nb.session import Session
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.storage.paths import DATA, STATE_STORE
from sleeper_nb.widgets import explore, open_tables
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.row_grid_query import GridQuery
from tests.servers import once
from tests.servers.fixtures import use
from tests.servers.memory import MemoryDynamoDB, memory_catalog
from tests.widgets.conftest import ALL, Page

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


@pytest.fixture
def page(house: tuple[Session, Requests], now: list[float]) -> Page:
    """A page of the explorer at the newest version, a while after its first frame."""
    explorer = explore(house[0], "t")
    now[0] += 60
    return Page(explorer)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds by which a click is told from the next."""
    seconds = [0.0]
    monkeypatch.setattr(open_tables.OpenTables.__init__, "__defaults__", (lambda: seconds[0],))
    return seconds


def travelled(page: Page, version: int) -> None:
    """Ask what the page asks after a move of the handle with the tab for rows open."""
    shown = {"table": "t", "version": version}
    page.ask("schema", **shown)
    page.ask("rows", **shown, query=ALL, first=0, count=100, columns=["k", "v"])
    page.ask("headers", **shown, query=ALL, columns=["k", "v"], all=False)


def test_a_move_of_the_handle_reads_one_version_and_nothing_twice(
    house: tuple[Session, Requests], kind: str, page: Page, now: list[float]
):
    requests = house[1]
    for version in (3, 5):
        now[0] += 60
        made = requests.of(lambda number=version: travelled(page, number))
        # Two of the catalog: whether the table is still there, and the version. Beyond that, the metadata of the
        # version: one file on S3, three queries where they are items, or the log since the last state that is known.
        extra = {"S3StateStore": 0, "TransactionLogStateStore": 2, "DynamoDBStateStore": 3}[kind]
        assert 2 <= len(made.items) <= 2 + extra
        assert len(made.read_below(STATE_STORE)) <= 1
        assert len(made.metadata) <= 3  # its size, its checksum, its content
        assert not any("properties" in path for path in made.metadata)
    now[0] += 60
    made = requests.of(lambda: travelled(page, 3))
    assert (len(made.items), made.metadata) == (1, [])


CLICKS = {
    "schema": (1, {}), "keyspace": (2, {}), "leaf": (1, {"leaf": "root"}), "commit": (4, {}),
    "sql": (1, {"text": "SELECT 1"}), "cube": (1, {"query": ALL, "column": "k", "columns": ["v"]}),
    "rows": (1, {"query": ALL, "first": 0, "count": 10, "columns": ["k"]}),
}  # fmt: skip
"""Requests to the catalog: one asks whether the table is still there, the others are for what is not of one version."""


def test_a_click_on_a_tab_opens_nothing(house: tuple[Session, Requests], page: Page, now: list[float]):
    session, requests = house
    travelled(page, 5)
    leaf = session.table("t").at(5).partition_tree.leaves[0].id
    for do, (items, asked) in CLICKS.items():
        now[0] += 60
        given = {"table": "t", "version": 5, **asked, **({"leaf": leaf} if do == "leaf" else {})}
        made = requests.of(lambda name=do, given=given: page.ask(name, **given))
        assert (do, len(made.items) <= items, made.metadata) == (do, True, [])


def test_two_handles_read_one_version_each(house: tuple[Session, Requests], kind: str, page: Page, now: list[float]):
    asked = {"table": "t", "before": 4, "after": 7, "asked": []}
    page.ask("changes", **asked)
    now[0] += 60
    made = house[1].of(lambda: page.ask("changes", **{**asked, "before": 6}))
    assert page.parts[-1]["line"].startswith("%sleeper diff t 6 7")
    extra = {"S3StateStore": 0, "TransactionLogStateStore": 2, "DynamoDBStateStore": 3}[kind]
    assert len(made.items) <= 4 + extra  # the table, the version, and each of the two for the difference
    assert len(made.read_below(STATE_STORE)) <= 1


@pytest.mark.parametrize("kind", STATE_STORES[:1], indirect=True)
def test_another_look_at_a_table_opens_it_again(house: tuple[Session, Requests], page: Page, kind: str):
    session, _ = house
    session.table("t").set_properties({"sleeper.table.compaction.strategy.class": "basic"})
    page.ask("open", table="t")
    assert ["sleeper.table.compaction.strategy.class", "basic"] in page.ask("schema", table="t", version=7)[
        "properties"
    ]


@pytest.mark.parametrize("kind", STATE_STORES[:1], indirect=True)
def test_a_table_that_was_deleted_and_made_again_is_opened_again(
    house: tuple[Session, Requests], kind: str, page: Page, now: list[float]
):
    session, _ = house
    session.drop_table("t", force=True)
    assert "no table 't'" in page.failure("schema", table="t", version=1)["message"]
    session.create_table("t", sl.Schema(row_keys={"other": "string"}), state_store=kind)
    assert [each["name"] for each in page.ask("schema", table="t", version=1)["columns"]] == ["other"]


@pytest.mark.parametrize("kind", STATE_STORES[:1], indirect=True)
def test_requests_at_once_read_a_version_once(house: tuple[Session, Requests]):
    session, requests = house
    tables, errors = OpenTables(session), []

    def read() -> None:
        try:
            tables.rows("t", 4).page(GridQuery(), Watch())
        except SleeperError as error:
            errors.append(error)

    def all_at_once() -> None:
        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    made = requests.of(all_at_once)
    assert errors == []
    assert len(made.read_below(STATE_STORE)) == len(set(made.read_below(STATE_STORE)))
