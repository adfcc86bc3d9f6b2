"""Cut and broken answers of real servers, DynamoDB's and S3's, in every operation on every state store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.properties import STATE_STORES
from tests.servers.fixtures import use
from tests.servers.proxy import EVERY_CUT, Fate, Proxy, proxied
from tests.servers.server import Server
from tests.support.backends import marks_of
from tests.support.builders import START, Recorder
from tests.support.row_changes import ROW_CHANGES
from tests.whole.test_cut_answers import OPERATIONS, changed, prepare, rows

LOST = (*EVERY_CUT, Fate("reset"), Fate("refused"))
IN_A_ROW = 3
SCHEMA = sl.Schema({"key": "string"}, values={"n": "long"})


class Cycle:
    """Every answer is lost so many times before it arrives, in a way that differs each time."""

    def __init__(self) -> None:
        self._fates, self._left = itertools.cycle(LOST), IN_A_ROW

    def __call__(self, _number: int, _method: str, target: str) -> Fate | None:
        # Uploads by Arrow, and reads by DataFusion, retry by themselves, after seconds: `mixed_load` has those.
        if "/data/" in target or "/metadata/" in target:
            return None
        self._left = (self._left - 1) % (IN_A_ROW + 1)
        return next(self._fates) if self._left else None


@pytest.fixture
def moto_proxy(moto: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, Server]]:
    use(moto, monkeypatch)
    with proxied(moto) as found:
        yield found


def test_long_work_shows_that_it_asks_again_and_why(moto_proxy: tuple[Proxy, Server]):
    proxy, server = moto_proxy
    bucket, shown = server.new_bucket(), Recorder()
    address, instance = f"s3://{bucket}/house", bucket[-20:].strip("-")
    with sl.connect(address, instance, endpoint_url=server.endpoint_url, progress=shown) as session:
        table = session.create_table("t", SCHEMA, state_store="TransactionLogStateStore")
        table.ingest(rows(*"abcdef"))
        for operation in (
            lambda: table.maintenance.split(at="c"),
            lambda: session.admin.migrate("t", "DynamoDBStateStore"),
            lambda: table.create_savepoint("kept"),
        ):
            shown.lines.clear()
            proxy.tell(lambda number, _method, target: None if "/data/" in target or number % 4 else Fate("reset"))
            operation()
            assert any(": attempt 2 of 5 (no answer" in line for line in shown.lines)
            assert not shown.shown
        proxy.tell(lambda *_: Fate("reset"))
        with pytest.raises(sl.NetworkError, match="the network failed in each of 5 attempts"):
            session.admin.migrate("t", "TransactionLogStateStore")
        assert len(proxy.requests) < 40
        proxy.tell(None)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks_of(kind, "servers")) for kind in STATE_STORES])
def test_operations_through_lost_answers_are_done_as_if_none_was_lost(
    versitygw: Server, dynamodb_local: Server, monkeypatch: pytest.MonkeyPatch, kind: str
):
    use(versitygw, monkeypatch)
    bucket = versitygw.new_bucket()
    instance = bucket[-20:].strip("-")
    with proxied(versitygw) as (s3, at_s3), proxied(dynamodb_local) as (dynamodb, at_dynamodb):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", at_s3.endpoint_url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", at_dynamodb.endpoint_url)
        clock = ManualClock(START)
        with sl.connect(f"s3://{bucket}/house", instance, clock=clock) as session:
            network = session._components.catalog.db.network  # type: ignore[attr-defined]
            network._quota = network._left = 10**9
            kept, current = prepare(session, clock, kind)
            for name, operation in OPERATIONS.items():
                for proxy in (s3, dynamodb):
                    proxy.tell(Cycle())
                operation(session)
                for proxy in (s3, dynamodb):
                    proxy.tell(None)
                table = session.table("t")
                assert table.at("savepoint.kept").scan().to_arrow().to_pylist() == kept, name
                if name == "ingest":
                    current = sorted([*current, *rows("new")], key=lambda row: str(row["key"]))
                if name == "rollback":
                    current = kept
                if name in ROW_CHANGES:
                    current = changed(name, current)
                assert table.scan().to_arrow().to_pylist() == current, name
                assert table.maintenance.check().ok, name
