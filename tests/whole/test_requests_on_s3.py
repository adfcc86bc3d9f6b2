"""What reads and commits ask of S3 and DynamoDB: no read lists, a warm read of one key takes three requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.model.properties import METADATA_CACHE, STATE_STORES
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import open_storage
from tests.servers.proxy import Fate, Proxy, proxied
from tests.servers.server import Server

SCHEMA = sl.Schema({"key": "string"}, values={"n": "long"})


@dataclass
class Counted:
    """A session in a bucket, and the requests that it sends to S3."""

    session: sl.Session
    proxy: Proxy

    def of(self, work: Callable[[], object]) -> list[str]:
        self.proxy.tell(None)
        work()
        return [request for request in self.proxy.requests if not request.startswith("POST / ") and request != "POST /"]


@pytest.fixture
def counted(s3_server: Server, moto: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Open a warehouse of one table of four leaves, whose rows came in two loads and of which some were deleted."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto.endpoint_url)
    bucket = s3_server.new_bucket()
    with proxied(s3_server) as (proxy, through):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", through.endpoint_url)
        with sl.connect(f"s3://{bucket}/house", bucket[-20:].strip("-")) as session:
            table = session.create_table("t", SCHEMA, ["k2", "k4", "k6"])
            for load in range(2):
                table.ingest([{"key": f"k{number % 8}-{number:05}", "n": load} for number in range(400)])
            table.create_savepoint("kept")
            table.delete("key = 'k1-00001'")
            yield Counted(session, proxy)


READS: dict[str, Callable[[sl.Session], Any]] = {
    "one key": lambda session: session.table("t").scan(keys="k3-00003").to_arrow(),
    "a region": lambda session: session.table("t").scan(region={"key": ("k2", "k3")}).to_arrow(),
    "all": lambda session: session.table("t").scan().to_arrow(),
    "a condition": lambda session: session.table("t").scan(where="n = 1").to_arrow(),
    "a data set": lambda session: session.table("t").at("savepoint.kept").scan().to_dataset().to_table(),
    "lazy Polars": lambda session: session.table("t").scan().to_polars(lazy=True).collect(),
    "a relation": lambda session: session.table("t").scan().to_duckdb().fetchall(),
    "SQL": lambda session: session.sql("SELECT count(DISTINCT key) FROM t WHERE key > 'k2'").to_arrow(),
    "SQL of an old version": lambda session: session.sql("SELECT sum(n) FROM t VERSION AS OF 2").to_arrow(),
    "SQL of a savepoint": lambda session: session.sql("SELECT sum(n) FROM t VERSION AS OF 'savepoint.kept'").to_arrow(),
    "system tables": lambda session: session.sql("SELECT count(*) FROM t$files").to_arrow(),
    "a difference": lambda session: session.table("t").diff(2, 3),
    "history": lambda session: session.table("t").history(),
    "a plan": lambda session: session.table("t").scan(keys="k3-00003").plan(),
    "a count": lambda session: session.table("t").scan().count(),
}  # fmt: skip


def test_no_read_lists_the_bucket(counted: Counted):
    for name, read in READS.items():
        requests = counted.of(lambda read=read: read(counted.session))
        assert all(request.startswith(("GET ", "HEAD ")) for request in requests), (name, requests)
        assert not [each for each in requests if "list-type" in each or "prefix=" in each], (name, requests)


def test_a_warm_read_of_one_key_takes_three_requests_and_its_plan_one(counted: Counted):
    def read() -> object:
        return counted.session.table("t").scan(keys="k3-00003").to_arrow()

    read()
    table = counted.session.table("t")
    table.scan(keys="k3-00003").plan()
    assert counted.of(lambda: table.scan(keys="k3-00003").plan()) == []
    assert len(counted.of(lambda: counted.session.table("t").scan(keys="k3-00003").plan())) <= 1  # the properties
    one_file = counted.session.create_table("single", SCHEMA)
    one_file.ingest([{"key": f"k{number:05}", "n": number} for number in range(1000)])
    one_file.scan(keys="k00003").to_arrow()
    assert len(counted.of(lambda: one_file.scan(keys="k00004").to_arrow())) <= 3


def test_a_warm_plan_of_one_key_by_the_tables_name_takes_three_requests(counted: Counted):
    asked: list[str] = []
    client = counted.session._components.catalog.db.client()
    client.meta.events.register("before-call.dynamodb", lambda model, **_: asked.append(model.name))

    def plan() -> object:
        return counted.session.table("t").scan(keys="k3-00003").plan()

    plan()
    asked.clear()
    assert len(counted.of(plan)) + len(asked) <= 3, asked


@pytest.mark.parametrize("s3_server", [pytest.param("versitygw", marks=pytest.mark.servers)], indirect=True)
@pytest.mark.parametrize("kind", ["busy", "reset", "refused"])
def test_requests_are_sent_again_when_s3_is_busy_or_connections_break(s3_server: Server, kind: str):
    bucket = s3_server.new_bucket()
    with proxied(s3_server) as (proxy, through):
        storage = open_storage(f"s3://{bucket}/x", AwsTarget(endpoint_url=through.endpoint_url))

        def survives(work: Callable[[], Any]) -> Any:
            """Do some work, of which each request fails twice before it is answered."""
            seen: Counter[tuple[str, str]] = Counter()

            def fate(_number: int, method: str, target: str) -> Fate | None:
                seen[method, target] += 1
                return Fate(kind) if seen[method, target] <= 2 else None

            proxy.tell(fate)
            answer = work()
            assert max(seen.values()) >= 3
            return answer

        survives(lambda: storage.write("a", b"small"))
        with storage.output("large") as stream:
            survives(lambda: stream.write(b"y" * (11 << 20)) or stream.close())
        assert survives(lambda: storage.read("a")) == b"small"
        assert survives(lambda: storage.input("large").read_at(10, 1 << 20)) == b"y" * 10
        assert survives(lambda: [file.path for file in storage.list()]) == ["a", "large"]
        survives(lambda: storage.delete("a"))
        assert [file.path for file in storage.list()] == ["large"]


@contextmanager
def capacity(session: sl.Session) -> Iterator[Counter[str]]:
    """Count the units that DynamoDB says it took: ``read`` and ``write``."""
    units: Counter[str] = Counter()
    client = session._components.catalog.db.client()

    def asks(params: dict[str, Any], **_: Any) -> None:
        params["ReturnConsumedCapacity"] = "TOTAL"

    def answered(model: Any, parsed: dict[str, Any], **_: Any) -> None:
        found = parsed.get("ConsumedCapacity") or []
        reads = model.name in {"GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"}
        for each in found if isinstance(found, list) else [found]:
            units["read" if reads else "write"] += each["CapacityUnits"]

    for operation in (
        "GetItem",
        "Query",
        "TransactWriteItems",
        "PutItem",
        "UpdateItem",
        "DeleteItem",
        "BatchWriteItem",
        "BatchGetItem",
    ):
        client.meta.events.register(f"provide-client-params.dynamodb.{operation}", asks)
    client.meta.events.register("after-call.dynamodb", answered)
    yield units


@pytest.mark.servers
@pytest.mark.parametrize("state_store", STATE_STORES)
def test_a_commit_takes_as_much_of_dynamodb_however_many_files_there_are(
    dynamodb_local: Server, versitygw: Server, monkeypatch: pytest.MonkeyPatch, state_store: str
):
    for name, value in versitygw.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_local.endpoint_url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", versitygw.endpoint_url)
    bucket = versitygw.new_bucket()
    with sl.connect(f"s3://{bucket}/house", bucket[-20:].strip("-")) as session, capacity(session) as units:
        table = session.create_table("t", SCHEMA, state_store=state_store)
        taken = []
        for number in range(12):
            units.clear()
            table.ingest([{"key": f"k{number}", "n": number}])
            taken.append(dict(units))
        assert max(each["write"] for each in taken) <= WRITE_UNITS[state_store]
        assert max(each["read"] for each in taken) <= READ_UNITS
        assert taken[-1] == taken[2]


WRITE_UNITS = {"S3StateStore": 4, "DynamoDBStateStore": 8, "TransactionLogStateStore": 4}
READ_UNITS = 3
"""The most capacity units that an ingest of one file takes; an item in a transaction takes two to be written."""


def test_metadata_that_was_read_once_is_not_read_again_even_without_the_bucket(
    counted: Counted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("SLEEPER_CACHE", str(tmp_path))
    place, instance = counted.session.location.removesuffix(f"/{counted.session.instance}"), counted.session.instance

    def versions(session: sl.Session) -> list[list[str]]:
        table = session.table("t")
        return [
            sorted(each["filename"] for each in table.at(version).inspect.files())
            for version in (2, 3, "savepoint.kept")
        ]

    with sl.connect(place, instance) as session:
        expected = versions(session)
        session.table("t").at(3).scan(keys="k3-00003").plan()
    with sl.connect(place, instance) as session:
        read = counted.of(lambda: versions(session))
        assert not [request for request in read if "statestore" in request], read
        table = session.table("t")
        history = table.history()
        counted.proxy.tell(lambda *_: Fate("refused"))
        # the catalog says which version is current, and what it consists of is on this machine
        assert table.history() == history
        assert sorted(each["filename"] for each in table.at(2).inspect.files()) == expected[0]
        assert table.at(3).scan(keys="k3-00003").plan().files
        with pytest.raises(sl.NetworkError, match="network failed"):
            table.scan().to_arrow()
    with pytest.raises(sl.NetworkError) as failed:
        sl.connect(place, instance)
    assert "\n" not in failed.value.message
    counted.proxy.tell(None)
    with sl.connect(place, instance) as session:
        session.table("t").scan(keys="k3-00003").plan()
    with sl.connect(place, instance) as session:
        table = session.table("t")
        assert counted.of(lambda: table.scan(keys="k3-00003").plan()) == []
    for copy in (tmp_path / "metadata").iterdir():  # a machine that lost power
        copy.write_bytes(copy.read_bytes()[:-1])
    with sl.connect(place, instance) as session:
        assert versions(session) == expected
    with sl.connect(place, instance, properties={METADATA_CACHE: "0"}) as session:
        read = counted.of(lambda: versions(session))
        assert [request for request in read if "statestore" in request]
