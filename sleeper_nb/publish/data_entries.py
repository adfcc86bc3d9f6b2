"""Entries of data files: their rows, and the least and greatest values by which readers prune; and what is refused.

Readers believe bounds. They are of the whole file, deleted rows included: the ends of row keys, and the statistics of
value columns where a reference has them. What is not known is left out (section "Manifests", and appendix D for how
single values are encoded).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.errors import Action, InvalidInput, StorageError, first_line
from sleeper_nb.model import statistics
from sleeper_nb.model.checksums import is_stamp
from sleeper_nb.model.schema import Field, FieldType
from sleeper_nb.publish.iceberg_schema import FieldIds, promotes, type_json
from sleeper_nb.publish.live_files import LiveFile, LiveFiles
from sleeper_nb.publish.manifests import MOST_ENTRIES, ManifestEntry, in_parts
from sleeper_nb.storage.data_files import stored_paths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.paths import is_foreign, is_moved

_LONGEST: Final = 256
"""Bytes of a bound; a file with a longer one has none."""
_WIDTHS: Final = {"tinyint": "<i", "smallint": "<i", "int": "<i", "date": "<i", "long": "<q", "timestamp": "<q"}
_FIELD_ID: Final = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Address:
    """Writes where files are, with their scheme."""

    root: str  # of the table's folder, as `Storage.root`

    @property
    def text(self) -> str:
        return _with_scheme(self.root)

    def of(self, path: str) -> str:
        """Return the address of a file, which may be outside the table's folder."""
        return _with_scheme(path) if is_foreign(path) else f"{self.text}/{path}"

    def path(self, address: str) -> str:
        """Return the path below the table's folder, or the address of a file outside it, as in references."""
        inside = address.removeprefix(f"{self.text}/")
        return inside if inside != address else address.removeprefix("file://")


def _with_scheme(place: str) -> str:
    return place if "://" in place else f"file://{place}"


def check_address(address: str) -> None:
    """Refuse an address that readers would cut, as they take it for a URL."""
    if not address.isprintable() or "?" in address or "#" in address:
        strange = next(c for c in address if c in "?#" or not c.isprintable())
        raise InvalidInput(
            f"{address} has {strange!r} in it, where other engines end an address",
            hint="move the warehouse to a folder without it; rows of files that stay in place can be copied",
        )


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of a data file says."""

    rows: int
    types: Mapping[str, pa.DataType]
    problem: str  # why readers would not find its columns by their names; "" where they do


def read_footers(filenames: Iterable[str], storage: Storage) -> dict[str, Footer]:
    names = list(filenames)
    if not names:
        return {}
    with ThreadPoolExecutor(storage.at_once) as pool:
        return dict(zip(names, pool.map(lambda name: _footer(name, storage), names), strict=True))


def _footer(filename: str, storage: Storage) -> Footer:
    with storage.input(filename) as stream:
        try:
            opened = pq.ParquetFile(stream)
        except pa.ArrowInvalid as error:
            hint = "the file may be truncated or not a Parquet file: restore it from a copy"
            raise StorageError(f"cannot read {storage.locate(filename)}: {first_line(error)}", hint=hint) from error
        columns = opened.schema_arrow
        return Footer(opened.metadata.num_rows, {each.name: each.type for each in columns}, _problem(opened))


def _problem(opened: pq.ParquetFile) -> str:
    if any(map(_has_id, opened.schema_arrow)):
        return "has field ids of the program that wrote it, which other engines believe before names"
    stored = [opened.schema.column(place).path for place in range(len(opened.schema))]
    if stored != [path for each in opened.schema_arrow for path in stored_paths(each.name, each.type)]:
        return "has lists or maps with other names inside than other engines look for"
    return ""


def _has_id(field: pa.Field) -> bool:
    if _FIELD_ID in (field.metadata or {}):
        return True
    kind = field.type
    if not pa.types.is_nested(kind):
        return False
    return any(_has_id(kind.field(place)) for place in range(kind.num_fields))


def needs_footer(file: LiveFile) -> bool:
    """Return whether metadata does not tell what readers find in a file that another program may have written."""
    checksum = file.parts[0][1].checksum
    is_of_others = is_foreign(file.filename) or is_moved(file.filename) or checksum is None or is_stamp(checksum)
    return is_of_others or file.rows is None


def check_names(footers: Mapping[str, Footer], storage: Storage) -> None:
    """Refuse files in which readers would take columns for others, or not find them."""
    for name, footer in footers.items():
        if footer.problem:
            hint = "delete its rows, and load the file with a copy of its rows"
            raise InvalidInput(f"{storage.locate(name)} {footer.problem}", hint=hint)


def check_types(footers: Mapping[str, Footer], fields: Sequence[Field], ids: FieldIds) -> None:
    """Refuse files with a column of an older type that other engines cannot read as the current one."""
    for field in fields:
        now = type_json((field.column,), field.type, ids)
        for name, footer in footers.items():
            found = footer.types.get(field.column)
            if found is not None and not _reads(found, field, now, ids):
                raise InvalidInput(
                    f"column {field.name!r} is {field.type}, and still {FieldType.from_arrow(found)} in some files, "
                    f"such as {name}, which other engines cannot read as that",
                    hint=("write its rows again: ", _rewriting(field.name)),
                )


def _rewriting(column: str) -> Action:
    return Action(f"update T --set {column}={column} --force", f"table.update({{{column!r}: {column!r}}}, force=True)")


def _reads(found: pa.DataType, field: Field, now: Any, ids: FieldIds) -> bool:
    try:
        return promotes(type_json((field.column,), FieldType.from_arrow(found), ids), now)
    except KeyError:  # it has something inside that no version of the column has had
        return False


@dataclass(frozen=True, slots=True)
class EntryMaker:
    """Makes entries of the data files of one version."""

    live: LiveFiles
    ids: FieldIds
    order: int  # the id of the order of rows in its files
    address: Address
    footers: Mapping[str, Footer]  # of the files that have to be looked into

    def entries(self, filenames: Iterable[str]) -> Iterator[ManifestEntry]:
        """Yield an entry for each of some files, in order."""
        for names in in_parts(filenames, MOST_ENTRIES):
            yield from self._entries(names)

    def _entries(self, names: Sequence[str]) -> Iterator[ManifestEntry]:
        rows = self.live.state.files.active.take([self.live.place[name] for name in names])
        bounds = [column for column in self._columns(rows) if column is not None]
        for at, (name, size) in enumerate(zip(names, rows["bytes"].to_pylist(), strict=True)):
            known = [(column.id, column.values[at]) for column in bounds]
            nulls = {number: each[2] for number, each in known if each[2] is not None}
            lower = {number: each[0] for number, each in known if each[0]}
            upper = {number: each[1] for number, each in known if each[1]}
            yield ManifestEntry(self.address.of(name), self._rows(name), size, nulls, lower, upper, self.order)

    def _rows(self, name: str) -> int:
        rows = self.live.files[name].rows
        return self.footers[name].rows if rows is None else rows

    def _columns(self, rows: pa.Table) -> Iterator[_Bounds | None]:
        """Yield the bounds of each column that has some."""
        schema, kinds = self.live.state.schema, dict(statistics.kinds_in(rows.schema))
        for field in schema.fields:
            is_key = field in schema.row_keys
            if not is_key and not statistics.holds(field.type.name, kinds.get(field.column, "")):
                continue
            encode = _encoder(field.type)
            low, high = (_plain(rows[f"{end}_{field.column}"]) for end in ("min", "max"))
            nulls = [0] * rows.num_rows if is_key else rows[f"nulls_{field.column}"].to_pylist()
            ends = zip(map(encode, low), map(encode, high), nulls, strict=True)
            yield _Bounds(self.ids.ids[(field.column,)], list(ends))


@dataclass(frozen=True, slots=True)
class _Bounds:
    id: int
    values: list[tuple[bytes | None, bytes | None, int | None]]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = statistics.plain_column(column).to_pylist()
    return values


def _encoder(kind: FieldType) -> Callable[[Any], bytes | None]:
    if kind.name in _WIDTHS:
        pack = struct.Struct(_WIDTHS[kind.name]).pack
        return lambda value: None if value is None else pack(value)

    def text(value: Any) -> bytes | None:
        encoded: bytes | None = value.encode() if isinstance(value, str) else value
        return None if encoded is None or len(encoded) > _LONGEST else encoded

    return text
