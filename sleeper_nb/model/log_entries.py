"""A transaction and its moment as the bytes of an entry of the transaction log, and back."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sleeper_nb.errors import StorageError
from sleeper_nb.model.checksums import DIGITS, checksum_of
from sleeper_nb.model.clear_table import ClearTable
from sleeper_nb.model.evolution import SetSchema
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Partition, PartitionSplit, PartitionTree, Range, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import from_micros, to_micros
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.transactions import (
    AddFiles,
    DeleteFiles,
    MigrateStateStore,
    ReplaceFileReferences,
    Rollback,
    SetProcessing,
    SplitPartitions,
    Transaction,
)

_KINDS: Mapping[str, type[Transaction]] = {
    kind.__name__: kind
    for kind in (
        AddFiles,
        ReplaceFileReferences,
        SplitPartitions,
        Rollback,
        ClearTable,
        DeleteFiles,
        MigrateStateStore,
        SetSchema,
        SetProcessing,
    )
}
_PARTS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "reference": (FileReference, ("min_key", "max_key")),
    "split": (PartitionSplit, ("point",)),
    "tree": (PartitionTree, ()),
    "partition": (Partition, ()),
    "region": (Region, ()),
    "range": (Range, ("min", "max")),
}
"""What a transaction is made of: the word for it, its class, and its fields that hold keys."""

_SCHEMA = "schema"
_CHECKSUM = b'{"checksum":"%b",'
_CHECKED_FROM = len(_CHECKSUM) - len(b"%b") + DIGITS


def to_entry(transaction: Transaction, number: int, time: datetime) -> bytes:
    """Return the entry of a snapshot: JSON with the transaction's class, its moment in microseconds, and its fields.

    Before them stands a checksum, of the snapshot's number and all that follows: an entry that was changed, or that is
    in another one's place, is an error.
    """
    fields = {name: _plain(value) for name, value in _fields(transaction).items()}
    body = {"type": type(transaction).__name__, "time": to_micros(time), **fields}
    plain = json.dumps(body, separators=(",", ":")).encode()
    return _CHECKSUM % _checksum(plain, number) + plain[1:]


def _checksum(plain: bytes, number: int) -> bytes:
    return checksum_of(b"%d " % number, plain).encode()


def has_checksum(entry: bytes) -> bool:
    """Return whether an entry has a checksum; those of earlier builds have none."""
    return entry.startswith(_CHECKSUM[: _CHECKSUM.index(b"%")])


def without_checksum(entry: bytes) -> bytes:
    """Return an entry as an earlier build wrote it."""
    return b"{" + entry[_CHECKED_FROM:] if has_checksum(entry) else entry


def check_entry(entry: bytes, number: int) -> None:
    """Raise `StorageError` for an entry that is not what was written for the snapshot of a number."""
    if has_checksum(entry):
        plain = without_checksum(entry)
        if entry[:_CHECKED_FROM] != _CHECKSUM % _checksum(plain, number):
            raise StorageError(
                f"the entry of snapshot {number} in the transaction log is damaged: it was changed after it was "
                "written (its checksum differs)",
                hint="restore the catalog from a copy; check --deep lists what is damaged",
            )


def from_entry(entry: bytes, number: int) -> tuple[Transaction, datetime]:
    """Read what `to_entry` wrote for the snapshot of a number.

    Raises
    ------
    StorageError
        When it is no entry, a damaged one, or one that a later release wrote.
    """
    check_entry(entry, number)
    try:
        body = json.loads(without_checksum(entry))
        kind = _KINDS[body.pop("type")]
        time = from_micros(body.pop("time"))
        return kind(**{name: _value(value) for name, value in body.items()}), time
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        hint = "upgrade sleeper-nb"
        raise StorageError(f"cannot read an entry of the transaction log: {error!r}", hint=hint) from error


def replayed(state: TableState, entries: Iterable[bytes]) -> TableState:
    """Return a state after the entries that follow its snapshot in the log."""
    for number, entry in enumerate(entries, state.snapshot_id + 1):
        transaction, time = from_entry(entry, number)
        state = transaction.apply(state, CommitPoint(number, time))
    return state


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Schema):
        return {_SCHEMA: value.to_json()}
    for word, (kind, keys) in _PARTS.items():
        if isinstance(value, kind):
            return {word: {n: (_plain_key if n in keys else _plain)(each) for n, each in _fields(value).items()}}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        ((word, fields),) = plain.items()
        if word == _SCHEMA:
            return Schema.from_json(fields)
        kind, keys = _PARTS[word]
        return kind(**{name: (_key if name in keys else _value)(each) for name, each in fields.items()})
    return tuple(_value(each) for each in plain) if isinstance(plain, list) else plain


def _plain_key(key: KeyValue | tuple[KeyValue, ...]) -> Any:
    if isinstance(key, tuple):
        return [_plain_key(each) for each in key]
    return {"base64": base64.b64encode(key).decode()} if isinstance(key, bytes) else key


def _key(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_key(each) for each in plain)
    return base64.b64decode(plain["base64"]) if isinstance(plain, Mapping) else plain
