"""DynamoDB in memory, as boto3's client shows it: as much of it as the catalog uses.

A test of thousands of steps cannot ask a server each time. The contract suite of catalogs holds that this one behaves
as the real ones do.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import DynamoDB
from sleeper_nb.clock import Clock
from sleeper_nb.storage.aws import AwsTarget

Item = dict[str, Any]
MOST_ITEMS = 100
PAGE = 50
"""Items of a page of a query; the real ones have pages of 1 MB."""


@dataclass(slots=True)
class _Table:
    hash: str
    range: str
    owners: dict[str, dict[str, Item]] = field(default_factory=dict)
    """The items of each hash key, by their range key."""

    def get(self, key: tuple[str, str]) -> Item | None:
        return self.owners.get(key[0], {}).get(key[1])

    def put(self, key: tuple[str, str], item: Item) -> None:
        self.owners.setdefault(key[0], {})[key[1]] = dict(item)

    def delete(self, key: tuple[str, str]) -> None:
        self.owners.get(key[0], {}).pop(key[1], None)

    def key(self, item: Mapping[str, Any]) -> tuple[str, str]:
        return item[self.hash]["S"], item[self.range]["S"]


class MemoryDynamoDB:
    """The tables of one region. Requests are done one after the other; a page of a query has `page` items."""

    def __init__(self, page: int = PAGE) -> None:
        self._page = page
        self._tables: dict[str, _Table] = {}
        self._tokens: set[str] = set()
        self._turn = threading.Lock()

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryDynamoDB) and self._tables == other._tables

    __hash__ = None  # type: ignore[assignment]

    def copied(self) -> MemoryDynamoDB:
        """Return another region with the same tables and items."""
        other = MemoryDynamoDB(self._page)
        with self._turn:
            other._tables = deepcopy(self._tables)
        return other

    def create_table(self, TableName: str, KeySchema: Sequence[Item], **_: Any) -> Item:  # noqa: N803 - boto3's names
        with self._turn:
            if TableName in self._tables:
                raise _error("ResourceInUseException", "CreateTable")
            names = {part["KeyType"]: part["AttributeName"] for part in KeySchema}
            self._tables[TableName] = _Table(names["HASH"], names["RANGE"])
            return {}

    def delete_table(self, TableName: str) -> Item:  # noqa: N803
        with self._turn:
            self._table(TableName, "DeleteTable")
            del self._tables[TableName]
            return {}

    def describe_table(self, TableName: str) -> Item:  # noqa: N803
        with self._turn:
            self._table(TableName, "DescribeTable")
            return {"Table": {"TableStatus": "ACTIVE"}}

    def get_item(self, TableName: str, Key: Item, ConsistentRead: bool) -> Item:  # noqa: N803
        assert ConsistentRead
        with self._turn:
            table = self._table(TableName, "GetItem")
            found = table.get(table.key(Key))
            return {} if found is None else {"Item": dict(found)}

    def transact_get_items(self, TransactItems: Sequence[Item]) -> Item:  # noqa: N803
        assert len(TransactItems) <= MOST_ITEMS
        with self._turn:
            found = []
            for part in TransactItems:
                table = self._table(part["Get"]["TableName"], "TransactGetItems")
                found.append(table.get(table.key(part["Get"]["Key"])))
            return {"Responses": [{} if item is None else {"Item": dict(item)} for item in found]}

    def batch_get_item(self, RequestItems: Mapping[str, Item]) -> Item:  # noqa: N803
        with self._turn:
            found = {}
            for name, wanted in RequestItems.items():
                table = self._table(name, "BatchGetItem")
                assert wanted["ConsistentRead"]
                assert 0 < len(wanted["Keys"]) <= 100
                items = (table.get(table.key(key)) for key in wanted["Keys"])
                found[name] = [dict(item) for item in items if item is not None]
            return {"Responses": found, "UnprocessedKeys": {}}

    def batch_write_item(self, RequestItems: Mapping[str, Sequence[Item]]) -> Item:  # noqa: N803
        with self._turn:
            for name, requests in RequestItems.items():
                table = self._table(name, "BatchWriteItem")
                assert 0 < len(requests) <= 25
                for request in requests:
                    if "PutRequest" in request:
                        item = request["PutRequest"]["Item"]
                        table.put(table.key(item), item)
                    else:
                        table.delete(table.key(request["DeleteRequest"]["Key"]))
            return {"UnprocessedItems": {}}

    def query(
        self,
        TableName: str,  # noqa: N803
        KeyConditionExpression: str,  # noqa: N803
        ConsistentRead: bool,  # noqa: N803
        ScanIndexForward: bool = True,  # noqa: N803
        FilterExpression: str | None = None,  # noqa: N803
        ProjectionExpression: str | None = None,  # noqa: N803
        Limit: int | None = None,  # noqa: N803
        ExclusiveStartKey: Item | None = None,  # noqa: N803
        **words: Any,
    ) -> Item:
        assert ConsistentRead
        with self._turn:
            table = self._table(TableName, "Query")
            wanted, kept = _test(KeyConditionExpression, words), _test(FilterExpression, words)
            items = table.owners.get(words["ExpressionAttributeValues"][":owner"]["S"], {})
            found = sorted((key for key, item in items.items() if wanted(item)), reverse=not ScanIndexForward)
            if ExclusiveStartKey is not None:
                after = table.key(ExclusiveStartKey)[1]
                found = [key for key in found if (key > after if ScanIndexForward else key < after)]
            most = Limit or self._page
            page = [items[key] for key in found[:most]]
            shown = [
                words["ExpressionAttributeNames"][name] for name in re.findall(r"#\w+", ProjectionExpression or "")
            ]
            answer: Item = {"Items": [{n: i[n] for n in shown or i if n in i} for i in page if kept(i)]}
            answer["Count"] = len(answer["Items"])
            if len(found) > most:
                answer["LastEvaluatedKey"] = {name: page[-1][name] for name in (table.hash, table.range)}
            return answer

    def transact_write_items(self, TransactItems: Sequence[Item], ClientRequestToken: str) -> Item:  # noqa: N803
        with self._turn:
            if ClientRequestToken in self._tokens:
                return {}
            parts = [self._part(part) for part in TransactItems]
            keys = {(id(table), key) for table, key, _, _ in parts}
            if not 0 < len(parts) <= MOST_ITEMS or len(keys) < len(parts):
                raise _error("ValidationException", "TransactWriteItems")
            reasons = []
            for table, key, body, _ in parts:
                old = table.get(key)
                holds = _test(body.get("ConditionExpression"), body)(old or {})
                reasons.append({"Code": "None"} if holds else _failed(old, body))
            if any(reason["Code"] != "None" for reason in reasons):
                raise _error("TransactionCanceledException", "TransactWriteItems", CancellationReasons=reasons)
            for table, key, body, change in parts:
                change(table, key, body)
            self._tokens.add(ClientRequestToken)
            return {}

    def _part(self, part: Item) -> tuple[_Table, tuple[str, str], Item, Callable[..., None]]:
        ((kind, body),) = part.items()
        table = self._table(body["TableName"], "TransactWriteItems")
        return table, table.key(body["Item"] if kind == "Put" else body["Key"]), body, _CHANGES[kind]

    def _table(self, name: str, operation: str) -> _Table:
        if name not in self._tables:
            raise _error("ResourceNotFoundException", operation)
        return self._tables[name]


class OnMemory(DynamoDB):
    """Requests to a `MemoryDynamoDB`, or to what stands before one; retried and explained as those to a server."""

    def __init__(self, client: Any, clock: Clock) -> None:
        super().__init__(AwsTarget("memory"), clock)
        self._client = client

    def client(self) -> Any:
        return self._client


def _put(table: _Table, key: tuple[str, str], body: Item) -> None:
    table.put(key, body["Item"])


_CLAUSE = re.compile(r"(SET|REMOVE|ADD|DELETE) (.+?)(?= (?:SET|REMOVE|ADD|DELETE) |$)")


def _update(table: _Table, key: tuple[str, str], body: Item) -> None:
    item = dict(table.get(key) or body["Key"])
    for clause, changes in _CLAUSE.findall(body["UpdateExpression"]):
        for change in changes.split(","):
            word, *rest = change.replace("=", " ").split()
            name = body["ExpressionAttributeNames"][word]
            value = body["ExpressionAttributeValues"][rest[0]] if rest else None
            match clause:
                case "SET":
                    item[name] = value
                case "REMOVE":
                    item.pop(name, None)
                case "ADD" | "DELETE":
                    _change_set(item, name, value, clause)
    table.put(key, item)


def _change_set(item: Item, name: str, value: Any, clause: str) -> None:
    ((kind, some),) = value.items()
    before = set(item.get(name, {}).get(kind, ()))
    after = before | set(some) if clause == "ADD" else before - set(some)
    if after:
        item[name] = {kind: sorted(after)}
    else:
        item.pop(name, None)


def _delete(table: _Table, key: tuple[str, str], body: Item) -> None:
    table.delete(key)


def _nothing(table: _Table, key: tuple[str, str], body: Item) -> None:
    pass


_CHANGES = {"Put": _put, "Update": _update, "Delete": _delete, "ConditionCheck": _nothing}


def _failed(old: Item | None, body: Item) -> Item:
    shown = body.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and old is not None
    return {"Code": "ConditionalCheckFailed", **({"Item": dict(old or {})} if shown else {})}


def _error(code: str, operation: str, **more: Any) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": 400}, **more}
    return ClientError(answer, operation)


_TOKEN = re.compile(r"\s*([#:]\w+|\w+|<=|[(),=])")
_Value = Callable[[Mapping[str, str], Mapping[str, Item], Item], Item | None]
_Holds = Callable[[Mapping[str, str], Mapping[str, Item], Item], bool]


def _test(expression: str | None, words: Mapping[str, Any]) -> Callable[[Item], bool]:
    """Return what tells whether an item meets a condition."""
    if expression is None:
        return lambda _: True
    names, values = words.get("ExpressionAttributeNames", {}), words.get("ExpressionAttributeValues", {})
    return partial(_compiled(expression), names, values)


@cache
def _compiled(expression: str) -> _Holds:
    tokens = _TOKEN.findall(expression)
    assert "".join(tokens) == re.sub(r"\s", "", expression), expression
    return _Conditions(tokens).any_of()


class _Conditions:
    """Reads an expression from left to right and makes a function of it."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def any_of(self) -> _Holds:
        parts = [self.all_of()]
        while self.tokens[:1] == ["OR"]:
            self.take("OR")
            parts.append(self.all_of())
        return lambda *of: any(part(*of) for part in parts)

    def all_of(self) -> _Holds:
        parts = [self.one()]
        while self.tokens[:1] == ["AND"]:
            self.take("AND")
            parts.append(self.one())
        return lambda *of: all(part(*of) for part in parts)

    def one(self) -> _Holds:
        match self.tokens[0]:
            case "NOT":
                self.take("NOT")
                inner = self.one()
                return lambda *of: not inner(*of)
            case "(":
                self.take("(")
                inner = self.any_of()
                self.take(")")
                return inner
            case "attribute_exists" | "attribute_not_exists" | "contains" | "begins_with":
                return self.function(self.take())
        left = self.operand()
        match self.take():
            case "=":
                right = self.operand()
                return lambda *of: left(*of) is not None and left(*of) == right(*of)
            case "<=":
                most = self.operand()
                return lambda *of: left(*of) is not None and _ordered(left(*of)) <= _ordered(most(*of))
        low = self.operand()
        self.take("AND")
        high = self.operand()
        return lambda *of: left(*of) is not None and _ordered(low(*of)) <= _ordered(left(*of)) <= _ordered(high(*of))

    def function(self, name: str) -> _Holds:
        self.take("(")
        left, right = self.operand(), None
        if name in {"contains", "begins_with"}:
            self.take(",")
            right = self.operand()
        self.take(")")
        if right is None:
            return lambda *of: (left(*of) is not None) == (name == "attribute_exists")
        if name == "contains":
            return lambda *of: left(*of) is not None and _plain(right(*of)) in _plain(left(*of))
        return lambda *of: left(*of) is not None and _plain(left(*of)).startswith(_plain(right(*of)))

    def operand(self) -> _Value:
        token = self.take()
        if token.startswith(":"):
            return lambda _, values, __: values[token]
        return lambda names, _, item: item.get(names[token])

    def take(self, expected: str | None = None) -> str:
        token = self.tokens.pop(0)
        assert expected in {None, token}, (expected, token)
        return token


def _plain(value: Item | None) -> Any:
    ((_, plain),) = (value or {}).items()
    return plain


def _ordered(value: Item | None) -> Any:
    return int(_plain(value)) if value and "N" in value else _plain(value)


def memory_catalog(folder: Path, client: Any = None, clock: Clock | None = None, **options: Any) -> DynamoDBCatalog:
    """Return a catalog in the memory of this process, the same for everyone who names the folder.

    A `client` stands before that memory.
    """
    instance = hashlib.sha256(str(folder).encode()).hexdigest()[:20]
    made = DynamoDBCatalog(instance, clock=clock or Clock(), **options)
    made.db = OnMemory(client or MEMORY, made.db.clock)
    return made


MEMORY = MemoryDynamoDB()
