"""Requests to DynamoDB: bounded retries, consistent reads, pages, and transactions that report failed conditions.

botocore's own retries are off: they cannot distinguish a transaction whose condition failed from one that collided with
another, and neither the progress display nor the log would show them.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from sleeper_nb.catalog.dynamodb.items import Item, KeyedTable, action, decode_item, encode_item, expression_parts
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import AccessDenied, Action, NetworkError, SessionClosed, StorageError
from sleeper_nb.storage.aws import AwsTarget, Judgement, Network, in_short

logger = logging.getLogger(__name__)

# What an error of DynamoDB means: retry, or an error that says what to do.

TRIES = 16
UNANSWERED_TRIES = 5

CANCELLED = "TransactionCanceledException"
CONDITION_FAILED = "ConditionalCheckFailed"
MISSING = "ResourceNotFoundException"

_TRANSIENT = {
    "ThrottlingException", "Throttling", "ThrottledException", "ProvisionedThroughputExceededException",
    "RequestLimitExceeded", "InternalServerError", "InternalFailure", "ServiceUnavailable",
    "ServiceUnavailableException", "TransactionConflictException", "TransactionInProgressException",
    "LimitExceededException", "RequestTimeout",
}  # fmt: skip
_TRANSIENT_REASONS = {"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_REFUSED = {
    "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch",
    "MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature",
    "InvalidAccessKeyId",
}  # fmt: skip
_NO_CREDENTIALS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError",
    "ProfileNotFound", "SSOError", "SSOTokenLoadError", "UnauthorizedSSOTokenError", "LoginError",
}  # fmt: skip


def _response(error: Exception) -> dict[str, Any]:
    return getattr(error, "response", None) or {}  # a timeout has one too, which is None


def code_of(error: Exception) -> str:
    """Return DynamoDB's code of an error, or "" when DynamoDB did not answer."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def reasons_of(error: Exception) -> list[dict[str, Any]]:
    return list(_response(error).get("CancellationReasons", []))


def is_unanswered(error: Exception) -> bool:
    """Return whether the network failed, so that it is unknown whether DynamoDB processed the request."""
    from botocore.exceptions import ConnectionError as ConnectionFailed
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    return isinstance(error, ConnectionFailed | HTTPClientError | IncompleteReadError)


def is_transient(error: Exception) -> bool:
    if is_unanswered(error) or code_of(error) in _TRANSIENT:
        return True
    if code_of(error) == CANCELLED:
        # A failed condition is an answer, whatever else went wrong with the transaction.
        codes = {reason.get("Code", "None") for reason in reasons_of(error)}
        return codes <= _TRANSIENT_REASONS
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return bool(status >= 500)


def judge(error: Exception) -> Judgement:
    if is_unanswered(error):
        return Judgement(UNANSWERED_TRIES, lost=True, why=f"no answer: {in_short(error)}")
    return Judgement(TRIES if is_transient(error) else 1, lost=False, why=code_of(error) or in_short(error))


def incomplete(operation: str, where: str) -> StorageError:
    hint = "check the network, then run it again"
    return NetworkError(f"the network delivered only part of the answer to {operation} on {where}", hint=hint)


def no_keys(why: str = "") -> StorageError:
    hint = "log in (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return StorageError(f"no credentials for DynamoDB{why}", hint=hint)


def no_region() -> StorageError:
    given = Action("--region R", 'region="R"')
    hint = ("give ", given, ', set AWS_REGION, or write region = "…" in sleeper.toml')
    return StorageError("no region for DynamoDB", hint=hint)


def explain(error: Exception, operation: str, where: str, tries: int) -> StorageError:
    """Return the error for a user, of what boto3 raised in the last of some tries."""
    code, kind = code_of(error), {one.__name__ for one in type(error).__mro__}
    refused = f"DynamoDB refused {operation} on {where}"
    if code in _EXPIRED:
        return StorageError(f"{refused}: the credentials expired", hint="renew them (aws sso login), then run it again")
    if code in _REFUSED:
        hint = "check AWS_ACCESS_KEY_ID, AWS_PROFILE and the clock of this machine: aws sts get-caller-identity"
        return StorageError(f"{refused}: the credentials are not valid ({code})", hint=hint)
    if kind & _NO_CREDENTIALS:
        return no_keys(f": {error}")
    if "NoRegionError" in kind:
        return no_region()
    if code.startswith("AccessDenied"):
        hint = f"ask for the permission dynamodb:{operation}"
        return AccessDenied(f"{refused}: {_message_of(error)}", hint=hint)
    if code == MISSING:
        return StorageError(f"{refused}: a table does not exist", hint="check the instance, the region and the account")
    if is_unanswered(error):
        message = f"the network failed in {_counted(tries)} of {operation} on {where}: {in_short(error)}"
        return NetworkError(message, hint="check the network, the region and the endpoint_url, then run it again")
    if is_transient(error):
        hint = "DynamoDB is busy; look at the AWS health page, then run it again"
        message = f"DynamoDB failed in {_counted(tries)} of {operation} on {where}: {in_short(error)}"
        return StorageError(message, hint=hint)
    return StorageError(f"{refused}: {_message_of(error)}")


def _counted(tries: int) -> str:
    return "the only attempt" if tries == 1 else f"each of {tries} attempts"


def _message_of(error: Exception) -> str:
    reasons = {reason.get("Message") or reason.get("Code", "None") for reason in reasons_of(error)}
    message = _response(error).get("Error", {}).get("Message") or str(error)
    return "; ".join([message, *sorted(reasons - {"None", message})])


RETRY = Retry(max_attempts=TRIES, first_wait=0.02, max_wait=2.0)
TIMEOUT_SECONDS = 5
"""DynamoDB answers within milliseconds, so an answer that takes longer was lost."""
BATCH = 25
TRANSACTION_GETS = 100
GETS = 100
TABLE_POLLS = 120

_T = TypeVar("_T")


def in_chunks(values: Iterable[_T], most: int) -> Iterator[list[_T]]:
    rest = iter(values)
    while chunk := list(islice(rest, most)):
        yield chunk


@dataclass(frozen=True, slots=True)
class Lost:
    """A transaction that changed nothing, because a condition failed."""

    parts: tuple[bool, ...]  # for each part of the transaction, in order: whether its condition failed
    items: tuple[Item | None, ...]  # the existing item of each failed condition; None where there is none


class DynamoDB:
    """One region of DynamoDB."""

    def __init__(self, aws: AwsTarget, clock: Clock, network: Network | None = None) -> None:
        self.aws, self.clock, self.network = aws, clock, network or Network(clock)
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None
        self._closed = False

    def keys_and_region(self) -> tuple[bool, str | None]:
        """Return whether boto3 finds keys, and the region; DynamoDB is not asked."""
        session = self.aws.session()
        return self.aws.keys(session) is not None, session.region_name

    def client(self) -> Any:
        """Return boto3's client; a forked process gets one of its own, since sockets cannot be shared."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                from botocore.config import Config

                from sleeper_nb.storage.answers import refuse_cut_answers

                config = Config(
                    retries={"total_max_attempts": 1},
                    connect_timeout=TIMEOUT_SECONDS,
                    read_timeout=TIMEOUT_SECONDS,
                    max_pool_connections=32,
                )
                session = self.aws.session()
                made = self.aws.client(session, "dynamodb", config=config)
                refuse_cut_answers(made)
                self._made = (os.getpid(), made)
                logger.debug("connected to DynamoDB in region %s at %s", session.region_name, made.meta.endpoint_url)
            return self._made[1]

    def close(self) -> None:
        """Close the connections and refuse all further requests."""
        with self._lock:
            self._closed = True
            if self._made is not None and self._made[0] == os.getpid():
                self._made[1].close()
            self._made = None

    def call(self, operation: str, *, handled: Sequence[str] = (), **request: Any) -> Any:
        """Send one request and return its answer, which may be an error with a code in `handled`.

        `StorageError` when it failed permanently, or in every attempt. `SessionClosed` when this was closed.
        """
        if self._closed:
            raise SessionClosed.of("the catalog on DynamoDB")
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError

        def send() -> Any:
            return getattr(self.client(), xform_name(operation))(**request)

        def give_up(error: Exception, tries: int) -> Any:
            if not isinstance(error, BotoCoreError | ClientError):
                raise error
            if code_of(error) in handled and not is_transient(error):
                return error.response
            raise explain(error, operation, self._where(request), tries) from error

        return self.network.ask(f"DynamoDB {operation}", send, judge, give_up)

    def _where(self, request: dict[str, Any]) -> str:
        found = {request["TableName"]} if "TableName" in request else set(request.get("RequestItems", ()))
        for part in request.get("TransactItems", ()):
            found |= {action["TableName"] for action in part.values()}
        tables, place = ", ".join(sorted(found)), self.aws.endpoint_url or self.aws.region
        return f"{tables} ({place})" if place else tables

    def transact(self, parts: Sequence[Item]) -> Lost | None:
        """Do all parts or none; return None when they are done, otherwise which conditions failed.

        A request whose answer is lost is sent again with the same token, so it takes effect once.
        """
        # Not from the clock: DynamoDB remembers the tokens of all clients, and two test clocks return the same ids.
        token = secrets.token_hex(16)
        answer = self.call(
            "TransactWriteItems", handled=(CANCELLED,), TransactItems=list(parts), ClientRequestToken=token
        )
        reasons = answer.get("CancellationReasons")
        if reasons is None:
            return None
        failed = tuple(reason.get("Code") == CONDITION_FAILED for reason in reasons)
        if not any(failed):
            why = "; ".join(sorted({str(reason.get("Message") or reason.get("Code")) for reason in reasons}))
            raise StorageError(f"DynamoDB refused a transaction of {len(parts)} items: {why}")
        logger.debug("a transaction of %d items changed nothing: %d conditions failed", len(parts), sum(failed))
        return Lost(failed, tuple(decode_item(reason["Item"]) if reason.get("Item") else None for reason in reasons))

    def transact_each(self, parts: Iterable[Item], most: int) -> None:
        """Do the parts whose conditions hold, at most `most` in one transaction."""
        for chunk in in_chunks(parts, most):
            left = chunk
            while left and (lost := self.transact(left)) is not None:
                left = [part for part, failed in zip(left, lost.parts, strict=True) if not failed]

    def get(self, table: KeyedTable, key: Item) -> Item | None:
        """Return an item as it is now; None when it, or the DynamoDB table, does not exist."""
        answer = self.call(
            "GetItem", handled=(MISSING,), TableName=table.name, Key=encode_item(key), ConsistentRead=True
        )
        return decode_item(answer["Item"]) if "Item" in answer else None

    def settled(self, table: KeyedTable, keys: Iterable[Item]) -> list[Item]:
        """Return those of the items that exist once every transaction that is changing one has ended.

        A plain read can see some items of a transaction a moment before the others.
        """
        found = []
        for chunk in in_chunks(keys, TRANSACTION_GETS):
            gets = [{"Get": {"TableName": table.name, "Key": encode_item(key)}} for key in chunk]
            answer = self.call("TransactGetItems", TransactItems=gets)
            if len(answer["Responses"]) != len(gets):
                raise incomplete("TransactGetItems", table.name)
            found += [decode_item(one["Item"]) for one in answer["Responses"] if one.get("Item")]
        return found

    def query(self, table: KeyedTable, **request: Any) -> Iterator[Item]:
        """Yield the items of a query in order; none when the DynamoDB table does not exist."""
        start: dict[str, Any] = {}
        while True:
            answer = self.call(
                "Query", handled=(MISSING,), TableName=table.name, ConsistentRead=True, **request, **start
            )
            # only the error for a missing table has no `Items`
            yield from map(decode_item, () if "Error" in answer else answer["Items"])
            if not answer.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def get_batches(self, table: KeyedTable, keys: Iterable[Item]) -> list[Item]:
        """Return those of the items that exist, as they are now, in any order; each is read by itself.

        There are none when the DynamoDB table does not exist.
        """
        found: list[Item] = []

        def ask(left: list[Item]) -> list[Item]:
            wanted = {table.name: {"Keys": left, "ConsistentRead": True}}
            answer = self.call("BatchGetItem", handled=(MISSING,), RequestItems=wanted)
            if "Error" in answer:
                return []
            found.extend(map(decode_item, answer["Responses"].get(table.name, ())))
            unread: list[Item] = answer["UnprocessedKeys"].get(table.name, {}).get("Keys", [])
            return unread

        self._until_done(in_chunks(map(encode_item, keys), GETS), ask, f"return %d items of {table.name}")
        return found

    def write_batches(self, table: KeyedTable, requests: Iterable[Item]) -> None:
        def send(left: list[Item]) -> list[Item]:
            answer = self.call("BatchWriteItem", RequestItems={table.name: left})
            unwritten: list[Item] = answer["UnprocessedItems"].get(table.name, [])
            return unwritten

        self._until_done(in_chunks(requests, BATCH), send, f"take %d items of {table.name}")

    def _until_done(self, chunks: Iterable[list[Item]], send: Callable[[list[Item]], list[Item]], what: str) -> None:
        """Send each chunk, and again what is left of it, which DynamoDB was too busy to `what`."""
        for chunk in chunks:
            left = chunk
            for _ in RETRY.attempts(self.clock):
                left = send(left)
                if not left:
                    break
                logger.warning("DynamoDB did not %s: asking again", what % len(left))
            else:
                raise StorageError(f"DynamoDB did not {what % len(left)}", hint="DynamoDB is busy; run it again")

    def make_tables(self, tables: Sequence[KeyedTable], on_create: Callable[[str], None] | None = None) -> None:
        """Create the tables that do not exist, pay-per-request, and wait until all can be used.

        Any number of processes may do this at once.
        """
        missing = [table for table in tables if self._status(table) is None]
        if missing and on_create is not None:
            on_create(f"creating DynamoDB tables {', '.join(table.name for table in missing)}; pay per request")
        for table in missing:
            logger.info("creating the DynamoDB table %s", table.name)
            keys = ((table.hash, "HASH"), (table.range, "RANGE"))
            self.call(
                "CreateTable",
                handled=("ResourceInUseException",),  # another process was faster
                TableName=table.name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            )
        for table in tables:
            self._await(table)

    def has_table(self, table: KeyedTable) -> bool:
        return self._status(table) is not None

    def drop_tables(self, tables: Sequence[KeyedTable]) -> None:
        for table in tables:
            logger.info("deleting the DynamoDB table %s", table.name)
            self.call("DeleteTable", handled=(MISSING, "ResourceInUseException"), TableName=table.name)

    def _status(self, table: KeyedTable) -> str | None:
        answer = self.call("DescribeTable", handled=(MISSING,), TableName=table.name)
        return None if "Error" in answer else answer["Table"]["TableStatus"]

    def _await(self, table: KeyedTable) -> None:
        for _ in range(TABLE_POLLS):
            if self._status(table) in {"ACTIVE", "UPDATING"}:
                return
            self.clock.sleep(1)
        hint = "check it in the AWS console, then run it again"
        raise StorageError(f"the DynamoDB table {table.name} is still not active after {TABLE_POLLS} s", hint=hint)


@dataclass(frozen=True, slots=True)
class Rows:
    """The items under one hash key of a DynamoDB table: those of one Sleeper table, or one list of the index."""

    db: DynamoDB
    table: KeyedTable
    owner: str

    def key(self, item: str) -> Item:
        return {self.table.hash: self.owner, self.table.range: item}

    def get(self, item: str) -> Item | None:
        return self.db.get(self.table, self.key(item))

    def settled(self, names: Iterable[str]) -> list[Item]:
        return self.db.settled(self.table, map(self.key, names))

    def query(
        self,
        prefix: str = "",
        *,
        between: tuple[str, str] | None = None,
        newest_first: bool = False,
        where: str | None = None,
        columns: str | None = None,
        page: int | None = None,
        **values: Any,
    ) -> Iterator[Item]:
        """Yield items in order of their sort key.

        Parameters
        ----------
        prefix, between
            Which sort keys: those that begin with a prefix, or those from one to another, both included.
        where, values
            A filter expression of DynamoDB on other attributes, and the values that it names.
        page
            The most items in one request, for callers that need only the first ones.
        """
        bounds = {"low": between[0], "high": between[1]} if between else {"low": prefix}
        test = f"#{self.table.range} BETWEEN :low AND :high" if between else f"begins_with(#{self.table.range}, :low)"
        condition = f"#{self.table.hash} = :owner AND {test}" if between or prefix else f"#{self.table.hash} = :owner"
        known = {"owner": self.owner, **(bounds if between or prefix else {}), **values}
        request: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ScanIndexForward": not newest_first,
            "FilterExpression": where,
            "ProjectionExpression": columns,
            "Limit": page,
            **expression_parts(condition, where, columns, values=known),
        }
        return self.db.query(self.table, **{name: part for name, part in request.items() if part is not None})

    def put(
        self, item: str, row: Mapping[str, Any], condition: str | None = None, *, new: bool = False, **values: Any
    ) -> Item:
        body = {"TableName": self.table.name, "Item": encode_item({**row, **self.key(item)})}
        return action("Put", body, f"attribute_not_exists(#{self.table.range})" if new else condition, values)

    def update(self, item: str, change: str, condition: str | None = None, **values: Any) -> Item:
        return action("Update", {**self._keyed(item), "UpdateExpression": change}, condition, values)

    def delete(self, item: str, condition: str | None = None, **values: Any) -> Item:
        return action("Delete", self._keyed(item), condition, values)

    def check(self, item: str, condition: str) -> Item:
        return action("ConditionCheck", self._keyed(item), condition, {})

    def absent(self, item: str) -> Item:
        return self.check(item, f"attribute_not_exists(#{self.table.range})")

    def _keyed(self, item: str) -> Item:
        return {"TableName": self.table.name, "Key": encode_item(self.key(item))}

    def write_each(self, puts: Mapping[str, Mapping[str, Any]], deletes: Iterable[str] = ()) -> None:
        written = [{"PutRequest": {"Item": encode_item({**row, **self.key(item)})}} for item, row in puts.items()]
        self.db.write_batches(self.table, written)
        self.db.write_batches(self.table, ({"DeleteRequest": {"Key": encode_item(self.key(one))}} for one in deletes))
