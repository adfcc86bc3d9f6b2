"""Rows of a catalog: the fields of values, and checksums, which are verified when a row is read.

A changed row is an error. A checksum covers the snapshot or savepoint and the table's id, not the row's bytes, so it is
the same in every catalog. Rows that an earlier release wrote have none; only their types are checked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeVar

from sleeper_nb.errors import CatalogDamaged, InvalidInput
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

_RESTORE = "restore the catalog from a copy; check lists the damaged rows; versions whose rows are intact can be read"
_CHANGED = "it was changed after it was written (its checksum differs)"
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_FIELDS = {field.name: str(field.type) for field in fields(Snapshot)}
_ROW = itemgetter(*_FIELDS)

T = TypeVar("T")


def row_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a catalog keeps them: times in microseconds since 1970."""
    cells = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: to_micros(cell) if isinstance(cell, datetime) else cell for name, cell in cells}


def value_of(kind: type[T], row: Mapping[str, Any]) -> T:
    """Return the value of which `row_of` made a row; a field that the row lacks is None."""
    cells: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        cell, is_time = row.get(field.name), str(field.type).startswith("datetime")
        cells[field.name] = from_micros(cell) if is_time and cell is not None else cell
    return kind(**cells)


def snapshot_checksum(table_id: str, snapshot: Snapshot) -> str:
    """Return the checksum of a snapshot's row.

    Trailing fields that are None are left out, so a field that a later release adds does not change it.
    """
    return _checksum(table_id, [*row_of(snapshot).values()])


def _checksum(table_id: str, values: list[Any]) -> str:
    while values[-1] is None:
        values.pop()
    return checksum_of(_ENCODE([table_id, *values]).encode())


def savepoint_checksum(table_id: str, body: str) -> str:
    return checksum_of(_ENCODE([table_id, body]).encode())


def savepoint_columns(savepoint: Savepoint) -> dict[str, Any]:
    """Return the columns of a savepoint's row that repeat parts of its JSON."""
    return {
        "id": savepoint.id,
        "name": savepoint.name,
        "files_path": savepoint.full_manifest_list,
        "partitions_path": savepoint.partitions_path,
        "saves": savepoint.saved_snapshot_id,
        "log_path": savepoint.log and savepoint.log.path,
    }


_NO_VALUE = (ValueError, TypeError, AttributeError, LookupError, OverflowError, InvalidInput)
"""What decoding a damaged row raises."""


def damaged(what: str, catalog: str, error: Exception) -> CatalogDamaged:
    return CatalogDamaged(
        f"the row of {what} in {catalog} is damaged: {getattr(error, 'message', error)}", hint=_RESTORE
    )


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """The row of a snapshot as a catalog has it, without a checksum if an earlier release wrote it.

    `values` are as `row_of` returns them, and `catalog` is named in messages: ``the catalog /data/catalog.sqlite``.
    """

    table_id: str
    catalog: str
    values: Mapping[str, Any]
    checksum: str | None

    @property
    def key(self) -> tuple[str, Any]:
        return "snapshot", self.values.get("id")

    def checked(self) -> Snapshot:
        """Return the snapshot; `CatalogDamaged` when the row was changed."""
        try:
            return self._decode()
        except _NO_VALUE as error:
            raise damaged(f"snapshot {self.key[1]}", self.catalog, error) from error

    def trusted(self) -> Snapshot:
        """Return the snapshot without verifying its checksum; `CatalogDamaged` when it cannot be decoded."""
        return replace(self, checksum=None).checked()

    def _decode(self) -> Snapshot:
        if self.checksum is None:
            _check_types(self.values)
        elif _checksum(self.table_id, list(_ROW(self.values))) != self.checksum:
            raise ValueError(_CHANGED)
        return Snapshot(**{**self.values, "time": from_micros(self.values["time"])})


def _check_types(values: Mapping[str, Any]) -> None:
    for name, kind in _FIELDS.items():
        value, expected = values[name], str if kind.startswith("str") else int
        if not (type(value) is expected or (value is None and kind.endswith("None"))):
            raise TypeError(f"{name} cannot be {value!r}")


@dataclass(frozen=True, slots=True)
class SavepointRow:
    """The row of a savepoint as a catalog has it, as `SnapshotRow`.

    `columns` are the others of the row, by the names of `savepoint_columns`; they must agree with the body.
    """

    table_id: str
    catalog: str
    id: Any
    body: Any
    checksum: str | None
    columns: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, Any]:
        return "savepoint", self.id

    def checked(self) -> Savepoint:
        """Return the savepoint; `CatalogDamaged` when the row was changed."""
        try:
            return self._decode()
        except _NO_VALUE as error:
            raise damaged(f"savepoint {self.id}", self.catalog, error) from error

    def trusted(self) -> Savepoint:
        """Return the savepoint without verifying its checksum; `CatalogDamaged` when it cannot be decoded."""
        return replace(self, checksum=None, columns={}).checked()

    def _decode(self) -> Savepoint:
        if self.checksum is not None and savepoint_checksum(self.table_id, self.body) != self.checksum:
            raise ValueError(_CHANGED)
        savepoint = Savepoint.from_json(self.body)
        expected = savepoint_columns(savepoint)
        wrong = next((name for name, value in self.columns.items() if expected[name] != value), None)
        if wrong is not None:
            raise ValueError(f"its {wrong} is {self.columns[wrong]!r}, which differs from the savepoint")
        return savepoint


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """The row of a snapshot or savepoint that was changed."""

    kind: str
    id: Any
    error: str


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows that a table's versions depend on, as a check reads them: a damaged one is listed, not raised."""

    # current, current_commit: the id and the commit id of the snapshot that the table's own row names as current; None
    # where unknown
    current: int | None
    current_commit: str | None
    snapshots: tuple[Snapshot, ...]  # the retained snapshots whose rows can be decoded, newest first
    savepoints: tuple[Savepoint, ...]  # the savepoints whose rows can be decoded, oldest first
    unused_savepoint_ids: frozenset[int]  # reserved ids without a savepoint: it was deleted, or never added
    damaged: tuple[DamagedRow, ...]  # the rows that were changed
    without_checksum: int  # how many rows have no checksum, because an earlier release wrote them

    @classmethod
    def of(
        cls,
        current: tuple[int | None, str | None],
        snapshots: Iterable[SnapshotRow],
        savepoints: Iterable[SavepointRow],
        unused_savepoint_ids: Iterable[int],
    ) -> CatalogRows:
        rows: tuple[SnapshotRow | SavepointRow, ...] = (*snapshots, *savepoints)
        damaged: list[DamagedRow] = []
        decoded: dict[type, list[Any]] = {Snapshot: [], Savepoint: []}
        for row in rows:
            with contextlib.suppress(CatalogDamaged):
                try:
                    value: Snapshot | Savepoint = row.checked()
                except CatalogDamaged as error:
                    damaged.append(DamagedRow(*row.key, error.message))
                    value = row.trusted()
                decoded[type(value)].append(value)
        old = sum(row.checksum is None for row in rows)
        unused = frozenset(unused_savepoint_ids)
        return cls(*current, tuple(decoded[Snapshot]), tuple(decoded[Savepoint]), unused, tuple(damaged), old)
