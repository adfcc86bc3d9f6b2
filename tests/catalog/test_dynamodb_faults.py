"""What the DynamoDB catalog makes of throttling, lost answers, refusals, crashes and items that show late.

The requests go to moto, through a client that lets some fail. That one knows the tokens of transactions, as DynamoDB
does and moto does not, unless it is told to forget them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from sleeper_nb.catalog.catalog_base import FileClaim, TableEntry
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import RETRY, TRIES, UNANSWERED_TRIES
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NetworkError, StorageError
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.storage.aws import AwsTarget
from tests.servers import once
from tests.servers.dynamodb import dynamodb_catalog
from tests.support.builders import (
    START,
    a_store,
    ingest,
    keys_in,
    reopened,
    rows_of,
    save,
    savepoint,
    scan,
    snapshot,
)
from tests.support.combinations import each_value_once

LATER = START + timedelta(hours=1)


class Crash(BaseException):
    """The process ends here."""


def refusal(code: str, reasons: Iterable[str] = (), status: int = 400) -> ClientError:
    answer: dict[str, Any] = {
        "Error": {"Code": code, "Message": f"{code} it is"}, "ResponseMetadata": {"HTTPStatusCode": status},
    }  # fmt: skip
    if reasons:
        answer["CancellationReasons"] = [{"Code": reason} for reason in reasons]
    return ClientError(answer, "Any")


NO_ANSWER = ReadTimeoutError(endpoint_url="http://there")
CONFLICT = refusal("TransactionCanceledException", ["None", "TransactionConflict"])


class Faulty:
    """A client of boto3 that fails as it is told.

    Parameters
    ----------
    real
        The client that does what is asked.
    """

    def __init__(self, real: Any) -> None:
        self.real = real
        self.before: list[BaseException] = []  # raised instead of the next writes
        self.after: list[Exception] = []  # raised behind the next writes, which are done
        self.between: Callable[[], object] | None = None  # run once behind a write whose answer is lost
        self.calls_left: int | None = None  # then the process crashes
        self.late: set[str] = set()  # sort keys that queries do not show
        self.unprocessed = 0  # so many batches leave all but their first item
        self.remembers = True
        self.answers: dict[str, Any] = {}
        self.writes: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            if self.calls_left is not None:
                if not self.calls_left:
                    raise Crash
                self.calls_left -= 1
            if operation == "query":
                return self.shown(self.real.query(**request))
            if operation in {"transact_write_items", "batch_write_item"}:
                return self.write(operation, request)
            return getattr(self.real, operation)(**request)

        return call

    def shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        items = [item for item in answer["Items"] if item.get("item", {}).get("S") not in self.late]
        return {**answer, "Items": items}

    def write(self, operation: str, request: dict[str, Any]) -> Any:
        self.writes.append(request)
        if self.before:
            raise self.before.pop(0)
        left = {}
        if operation == "batch_write_item" and self.unprocessed:
            self.unprocessed -= 1
            ((table, items),) = request["RequestItems"].items()
            request, left = {"RequestItems": {table: items[:1]}}, {table: items[1:]} if items[1:] else {}
        token = request.get("ClientRequestToken", "")
        if not self.remembers or token not in self.answers:
            answer = getattr(self.real, operation)(**request)
            if token:
                self.answers[token] = answer
        else:
            answer = self.answers[token]
        if self.after:
            if self.between is not None:
                between, self.between = self.between, None
                between()
            raise self.after.pop(0)
        return {**answer, "UnprocessedItems": left} if left else answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def catalog(tmp_path: Path, clock: ManualClock) -> DynamoDBCatalog:
    """A catalog with table `t` at snapshot 1."""
    catalog = dynamodb_catalog(once.moto(), tmp_path, clock)
    catalog.create_table(TableEntry("t", "table"), snapshot(1))
    return catalog


@pytest.fixture
def other(catalog: DynamoDBCatalog, tmp_path: Path) -> DynamoDBCatalog:
    """The same catalog, of another process without faults."""
    return dynamodb_catalog(once.moto(), tmp_path, ManualClock(START, seed=1))


@pytest.fixture
def faulty(catalog: DynamoDBCatalog, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    made = Faulty(catalog.db.client())
    monkeypatch.setattr(catalog.db, "client", lambda: made)
    return made


PASSING = [
    refusal("ThrottlingException"), refusal("ProvisionedThroughputExceededException"), refusal("RequestLimitExceeded"),
    refusal("InternalServerError", status=500), refusal("Odd", status=503), refusal("TransactionInProgressException"),
    CONFLICT, refusal("TransactionCanceledException", ["ThrottlingError", "None"]), NO_ANSWER,
    EndpointConnectionError(endpoint_url="http://there"),
]  # fmt: skip


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_is_tried_again_a_little_later(
    error: Exception, catalog: DynamoDBCatalog, faulty: Faulty, clock: ManualClock
):
    faulty.before = [error] * 3
    assert catalog.commit("t", snapshot(1), snapshot(2))
    assert len(clock.slept) == 3
    assert all(slept <= 0.02 * 2**at for at, slept in enumerate(clock.slept))
    assert len({request["ClientRequestToken"] for request in faulty.writes}) == 1


@pytest.mark.parametrize(("error", "tries"), [(CONFLICT, TRIES), (NO_ANSWER, UNANSWERED_TRIES)], ids=["busy", "away"])
def test_tries_are_bounded(error: Exception, tries: int, catalog: DynamoDBCatalog, faulty: Faulty, clock: ManualClock):
    faulty.before = [error] * 100
    with pytest.raises(
        StorageError, match=f"failed in each of {tries} attempts of TransactWriteItems on sleeper-.*-tables"
    ):
        catalog.commit("t", snapshot(1), snapshot(2))
    assert len(faulty.writes) == tries
    assert max(clock.slept) <= RETRY.max_wait
    faulty.before.clear()
    assert not catalog.has_commit("t", "commit-2")


def test_slow_failures_end_by_time(catalog: DynamoDBCatalog, faulty: Faulty, clock: ManualClock):
    class Slow(list[Exception]):
        def pop(self, _at: int = 0) -> Exception:
            clock.advance(timedelta(seconds=25))
            return CONFLICT

    faulty.before = Slow([CONFLICT])
    with pytest.raises(StorageError, match="each of 3 attempts"):
        catalog.commit("t", snapshot(1), snapshot(2))


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("on_top", [False, True])
def test_a_commit_whose_answer_was_lost_has_won(
    catalog: DynamoDBCatalog, other: DynamoDBCatalog, faulty: Faulty, remembers: bool, on_top: bool
):
    faulty.after, faulty.remembers = [NO_ANSWER], remembers
    if on_top:
        faulty.between = lambda: other.commit("t", snapshot(2), snapshot(3))
    assert catalog.commit("t", snapshot(1), snapshot(2))
    assert [s.id for s in other.snapshots("t")] == ([3, 2, 1] if on_top else [2, 1])


@pytest.mark.parametrize("remembers", [True, False])
def test_a_commit_that_another_overtook_while_it_was_asked_again_has_lost(
    catalog: DynamoDBCatalog, other: DynamoDBCatalog, faulty: Faulty, remembers: bool
):
    faulty.remembers = remembers
    assert other.commit("t", snapshot(1), snapshot(2, "faster"))
    faulty.before = [NO_ANSWER, refusal("ThrottlingException")]
    assert not catalog.commit("t", snapshot(1), snapshot(2))


def test_a_lost_condition_counts_more_than_a_conflict(catalog: DynamoDBCatalog, faulty: Faulty):
    faulty.before = [refusal("TransactionCanceledException", ["ConditionalCheckFailed", "TransactionConflict"])]
    assert not catalog.commit("t", snapshot(1), snapshot(2))


def test_a_commit_without_any_answer_is_found_by_its_id(catalog: DynamoDBCatalog, faulty: Faulty):
    faulty.after = [NO_ANSWER] * UNANSWERED_TRIES
    with pytest.raises(StorageError, match="each of 5 attempts"):
        catalog.commit("t", snapshot(1), snapshot(2), snapshot(3))
    assert catalog.has_commit("t", "commit-3")
    assert catalog.has_commit("t", "commit-2")


def test_a_request_that_arrives_behind_the_question_for_its_commit_does_nothing(
    catalog: DynamoDBCatalog, faulty: Faulty
):
    faulty.before = [NO_ANSWER] * UNANSWERED_TRIES
    with pytest.raises(StorageError):
        catalog.commit("t", snapshot(1), snapshot(2), snapshot(3))
    assert not catalog.has_commit("t", "commit-2")
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        faulty.real.transact_write_items(**faulty.writes[0])
    assert catalog.current("t") == snapshot(1)


@pytest.mark.parametrize("request_of", ["a savepoint", "full metadata"])
def test_what_a_request_names_that_arrives_late_is_there(
    tmp_path: Path, catalog: DynamoDBCatalog, faulty: Faulty, request_of: str
):
    """Its client has given up meanwhile, and has read that nothing was done."""
    store = a_store(tmp_path, kind="TransactionLogStateStore", catalog=catalog, name="other")
    ingest(store, rows_of("a", "b"))
    head = store.head()
    asked = "savepoint#" if request_of == "a savepoint" else "files_path"

    class Lost(list[BaseException]):
        """The requests that are asked for are lost on their way."""

        def __bool__(self) -> bool:
            return asked in repr(faulty.writes[-1])

        def pop(self, _at: int = 0) -> BaseException:  # type: ignore[override]
            return NO_ANSWER

    faulty.before = Lost()
    with pytest.raises(NetworkError):
        save(store, "late") if request_of == "a savepoint" else store.materialised(head)
    faulty.before = []
    faulty.real.transact_write_items(**faulty.writes[-1])
    again = reopened(store)
    version = again.catalog.savepoints(store.table_id)[0] if request_of == "a savepoint" else again.head()
    assert Metadata.of(version) is not None
    assert sorted(keys_in(scan(again, version))) == ["a", "b"]


def test_a_table_whose_making_had_no_answer_is_made_once(catalog: DynamoDBCatalog, faulty: Faulty):
    faulty.after, faulty.remembers = [NO_ANSWER], False
    catalog.create_table(TableEntry("u", "other"), snapshot(1, "first"))
    assert len(catalog.tables()) == 2


def _assign(catalog: DynamoDBCatalog) -> object:
    return catalog.claim_files("t", FileClaim("job", "p", ("a", "b"), LATER), START)


def _rename(catalog: DynamoDBCatalog) -> object:
    return catalog.rename_table("t", "table", "new")


READ_BACK: dict[str, Callable[[DynamoDBCatalog], object]] = {
    "materialise": lambda catalog: catalog.materialise("t", snapshot(2)),
    "add_savepoint": lambda catalog: catalog.add_savepoint("t", savepoint(7, snapshot(1), "name")),
    "assign": _assign,
    "release": lambda catalog: catalog.release_claim("t", "none"),
    "expire": lambda catalog: catalog.expire_snapshots("t", [1], LATER),
    "delete_savepoint": lambda catalog: catalog.delete_savepoint("t", 1, LATER),
}
BY_TOKEN: dict[str, Callable[[DynamoDBCatalog], object]] = {
    "rename": _rename, "reserve": lambda catalog: catalog.reserve_savepoint_id("t"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "remembers"), [*itertools.product(READ_BACK, [True, False]), *((name, True) for name in BY_TOKEN)]
)
def test_a_lost_answer_changes_no_result(catalog: DynamoDBCatalog, faulty: Faulty, name: str, remembers: bool):
    assert catalog.commit("t", snapshot(1), snapshot(2, files_path=None, partitions_path=None))
    catalog.add_savepoint("t", savepoint(catalog.reserve_savepoint_id("t"), snapshot(1)))
    faulty.after, faulty.remembers = [NO_ANSWER], remembers
    result = {**READ_BACK, **BY_TOKEN}[name](catalog)
    assert result == {"materialise": True, "assign": True, "reserve": 2}.get(name)


REFUSALS = {
    "ExpiredTokenException": "credentials expired.*\nhint: renew",
    "UnrecognizedClientException": "not valid.*\nhint: check",
    "AccessDeniedException": "refused TransactWriteItems on sleeper-.*-tables.*\nhint: .*dynamodb:TransactWriteItems",
    "ResourceNotFoundException": "a table does not exist\nhint: .*region",
    "ValidationException": "ValidationException it is",
    "IdempotentParameterMismatchException": "IdempotentParameterMismatchException it is",
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_not_repeated_and_says_what_to_do(catalog: DynamoDBCatalog, faulty: Faulty, code: str):
    faulty.before = [refusal(code)]
    with pytest.raises(StorageError, match=REFUSALS[code]):
        catalog.commit("t", snapshot(1), snapshot(2))
    assert len(faulty.writes) == 1


def test_a_transaction_that_is_refused_for_other_reasons_has_not_lost(catalog: DynamoDBCatalog, faulty: Faulty):
    faulty.before = [refusal("TransactionCanceledException", ["None", "ValidationError"])]
    with pytest.raises(StorageError, match="ValidationError"):
        catalog.commit("t", snapshot(1), snapshot(2))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine on which nobody has told boto3 anything."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    return monkeypatch


def test_without_credentials_it_says_how_to_log_in(bare: pytest.MonkeyPatch):
    catalog = DynamoDBCatalog("x", AwsTarget("us-east-1", once.moto().endpoint_url), clock=ManualClock())
    with pytest.raises(StorageError, match=r"no credentials.*\nhint: log in"):
        catalog.tables()
    bare.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorageError, match=r"nobody.*\nhint: log in"):
        DynamoDBCatalog("x", AwsTarget("us-east-1"), clock=ManualClock()).tables()


def test_without_a_region_it_asks_for_one(bare: pytest.MonkeyPatch):
    with pytest.raises(StorageError, match=r"no region.*\nhint: give region=\"R\", set AWS_REGION"):
        DynamoDBCatalog("x", clock=ManualClock()).tables()


def test_where_nobody_listens_it_gives_up(catalog: DynamoDBCatalog, clock: ManualClock):
    away = DynamoDBCatalog("x", AwsTarget("us-east-1", "http://127.0.0.1:9"), clock=clock)
    with pytest.raises(StorageError, match=r"each of 5 attempts of GetItem on sleeper-x-index .http://127.0.0.1:9"):
        away.tables()


def _history(catalog: DynamoDBCatalog, table_id: str = "t") -> None:
    """Make snapshots 1 to 6 behind the first: full metadata of 1, 3 and 5, and a savepoint of 3."""
    head = catalog.current(table_id)
    for number in range(2, 7):
        full = {} if number % 2 else {"files_path": None, "partitions_path": None}
        new = snapshot(number, f"{table_id}-{number}", **full)
        assert catalog.commit(table_id, head, new, log=[b"entry"])
        head = new
    catalog.add_savepoint(table_id, savepoint(catalog.reserve_savepoint_id(table_id), snapshot(3)))


def _left(catalog: DynamoDBCatalog, table_id: str) -> list[str]:
    return [row["item"] for row in catalog.rows(table_id).query() if not row["item"].startswith("garbage#")]


def _expire(catalog: DynamoDBCatalog, table_id: str = "t") -> None:
    catalog.expire_snapshots(table_id, range(1, 6), LATER)


def _delete(catalog: DynamoDBCatalog, table_id: str = "t") -> None:
    catalog.delete_savepoint(table_id, 1, LATER)


@pytest.mark.parametrize(("crash_in", "finish"), each_value_once([_expire, _delete], [_expire, _delete]))
def test_a_crash_at_any_request_leaves_what_the_next_run_completes(
    catalog: DynamoDBCatalog, faulty: Faulty, crash_in: Callable[..., None], finish: Callable[..., None]
):
    for calls in itertools.count():
        table_id = f"crash {calls}"
        catalog.create_table(TableEntry(table_id, table_id), snapshot(1, table_id))
        _history(catalog, table_id)
        faulty.calls_left = calls
        try:
            crash_in(catalog, table_id)
        except Crash:
            ended = False
        else:
            ended = True
        faulty.calls_left = None
        assert catalog.current(table_id).id == 6
        assert catalog.checkpoint(table_id, 6).id == 5
        assert catalog.log(table_id, 5, 6) == (b"entry",)
        named = {"files-3"} if catalog.savepoints(table_id) else set()
        assert named.isdisjoint(dict(catalog.garbage(table_id)))
        for run in {finish: 0, _expire: 0, _delete: 0}:
            run(catalog, table_id)
        assert dict(catalog.garbage(table_id)) == {"files-1": LATER, "files-3": LATER}
        assert _left(catalog, table_id) == [
            "current", "log#000000000006", "savepoint-counter", "snapshot#000000000005", "snapshot#000000000006",
        ]  # fmt: skip
        if ended:
            assert calls > 3
            return


def test_what_a_batch_left_over_is_written_again(catalog: DynamoDBCatalog, faulty: Faulty, clock: ManualClock):
    _history(catalog)
    faulty.unprocessed = 3
    _expire(catalog)
    _delete(catalog)
    assert dict(catalog.garbage("t")) == {"files-1": LATER, "files-3": LATER}
    assert clock.slept
    faulty.unprocessed = 1000
    catalog.forget_garbage("t", ["files-1", "files-3"])
    assert catalog.garbage("t") == ()


# Of a transaction that is just being made, plain reads can see some items before the others.


def test_the_log_and_history_of_a_commit_are_whole(catalog: DynamoDBCatalog, faulty: Faulty):
    new = [snapshot(number, files_path=None, partitions_path=None) for number in (2, 3, 4)]
    assert catalog.commit("t", snapshot(1), *new, log=[b"2", b"3", b"4"])
    faulty.late = {"snapshot#000000000003", "log#000000000002", "log#000000000004"}
    assert catalog.log("t", 1, 4) == (b"2", b"3", b"4")
    assert [s.id for s in catalog.snapshots("t")] == [4, 3, 2, 1]


def test_expiry_knows_a_savepoint_that_does_not_show_yet(catalog: DynamoDBCatalog, faulty: Faulty):
    _history(catalog)
    faulty.late = {"savepoint#000000000001"}
    _expire(catalog)
    assert dict(catalog.garbage("t")) == {"files-1": LATER}


def test_a_claim_knows_the_one_before_it_that_does_not_show_yet(
    catalog: DynamoDBCatalog, other: DynamoDBCatalog, faulty: Faulty
):
    assert other.claim_files("t", FileClaim("job", "p", ("a",), LATER), START)
    faulty.late = {"job#job#0000"}
    assert not catalog.claim_files("t", FileClaim("late", "p", ("a",), LATER), START)
    assert len(catalog.claims("t", START)) == 1
