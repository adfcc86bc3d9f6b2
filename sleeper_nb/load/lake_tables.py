"""Tables of Delta and Iceberg as sources of a load, where they are: ``delta:PATH@12`` and ``iceberg:PATH@tag``.

A table is read at one version, which is fixed when it is opened, a batch at a time, with its deletes applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from sleeper_nb.load.delta_tables import DeltaReader
from sleeper_nb.load.iceberg_tables import IcebergFile, IcebergReader
from sleeper_nb.read.predicate import ALWAYS_TRUE, And, IsIn, IsNull, Or, Predicate
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.storage.local_files import absolute, named_in_metadata

_ADDRESS: Final = re.compile(r"(delta|iceberg):(.+)", re.DOTALL)
LakePart: TypeAlias = IcebergFile | None
"""What is read apart of a table: a data file; all of it when None."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of another format at one version. It can be pickled, so that a task on a Spark executor can read it.

    Parameters
    ----------
    label
        What the user knows it by.
    """

    label: str
    reader: DeltaReader | IcebergReader

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    @property
    def bytes(self) -> int:
        return self.reader.bytes

    @property
    def storage(self) -> Storage:
        """By whose connection its files are opened."""
        return self.reader.storage

    def parts(self, predicate: Predicate = ALWAYS_TRUE) -> Sequence[LakePart]:
        """Return what can be read apart; without parts in which no row meets a predicate."""
        return self.reader.parts(_understood(predicate, self.schema))

    def batches(
        self, part: LakePart, columns: Sequence[str] | None = None, predicate: Predicate = ALWAYS_TRUE
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, perhaps also such as do not meet a predicate."""
        return self.reader.batches(part, columns, _understood(predicate, self.schema))  # type: ignore[arg-type]

    def all_batches(
        self, columns: Sequence[str] | None = None, predicate: Predicate = ALWAYS_TRUE
    ) -> Iterator[pa.RecordBatch]:
        for part in self.parts(predicate):
            yield from self.batches(part, columns, predicate)

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.all_batches(), self.schema)

    def first(self, rows: int) -> pa.Table:
        """Return some rows, at most so many; no more is read than is needed for them."""
        kept, left = [], rows
        for batch in self.all_batches():
            kept.append(batch.slice(0, left))
            left -= len(kept[-1])
            if not left:
                break
        return pa.Table.from_batches(kept, self.schema)


def is_lake_address(source: object) -> bool:
    return isinstance(source, str) and _ADDRESS.fullmatch(source) is not None


def open_lake_table(address: str, home: Storage | None = None) -> LakeTable:
    """Open the table that ``delta:PATH[@version]`` or ``iceberg:PATH[@tag]`` names.

    Parameters
    ----------
    home
        The storage by whose connection a bucket is opened, if it is in one.

    Raises
    ------
    NotFound, InvalidInput, NotInstalled
        As of `DeltaReader.of` and `IcebergReader.of`.
    """
    match = _ADDRESS.fullmatch(address)
    assert match is not None  # noqa: S101 - the caller asked `is_lake_address`
    kind, path = match.groups()
    name, _, version = path.rpartition("@")
    if not name or "/" in version or Path(absolute(path)).exists():  # a folder's name may have an @
        name, version = path, ""
    return open_version(kind, name, version or None, home)


def open_version(kind: str, path: str, version: str | None, home: Storage | None = None) -> LakeTable:
    """Open the table of a kind, ``delta`` or ``iceberg``, in a folder; at its newest version when that is None."""
    location = absolute(path)
    label = f"{kind}:{path}" + (f"@{version}" if version else "")
    if kind == "delta":
        return LakeTable(label, DeltaReader.of(open_near(location, home), version))
    return LakeTable(label, IcebergReader.of(location, home, version))


def is_lake_object(data: object) -> bool:
    """Return whether an object is a table of deltalake or PyIceberg."""
    home = type(data).__module__.partition(".")[0]
    return hasattr(data, {"deltalake": "table_uri", "pyiceberg": "metadata_location"}.get(home, "") or "\0")


def table_of_object(data: Any, home: Storage | None) -> LakeTable:
    """Return the table of an object of deltalake or PyIceberg, at the version that it has loaded."""
    if hasattr(data, "table_uri"):
        return open_version("delta", str(data.table_uri), str(data.version()), home)
    return open_version("iceberg", named_in_metadata(str(data.metadata_location)), None, home)


def _understood(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """Return what a predicate says about columns that each library compares as SQL does; never more than it says.

    Not numbers with fractions: statistics of files ignore NaN, which SQL takes for the largest number.
    """
    if isinstance(predicate, And):
        return And(tuple(part for each in predicate.parts if (part := _understood(each, schema)) != ALWAYS_TRUE))
    if isinstance(predicate, Or):
        parts = tuple(_understood(each, schema) for each in predicate.parts)
        return ALWAYS_TRUE if ALWAYS_TRUE in parts else Or(parts)
    if predicate.column not in schema.names:
        return ALWAYS_TRUE
    if isinstance(predicate, IsNull):
        return predicate
    values = predicate.values if isinstance(predicate, IsIn) else (predicate.value,)
    kind = schema.field(predicate.column).type
    return predicate if values and all(_is_of(value, kind) for value in values) else ALWAYS_TRUE


def _is_of(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return type(value) is int
    if pa.types.is_date(kind):
        return type(value) is date
    if pa.types.is_timestamp(kind):
        return isinstance(value, datetime) and (value.tzinfo is None) == (kind.tz is None)
    return pa.types.is_string(kind) and isinstance(value, str)
