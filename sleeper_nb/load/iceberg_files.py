"""Rows of the data files of an Iceberg table, without deleted ones; what needs PyIceberg to be there.

The columns of a file are renamed to their field ids, so that Arrow's cast of structs finds, widens, reorders, drops and
adds members as it would by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyiceberg import expressions, types
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.puffin import MAGIC_BYTES, PuffinFile

from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.read.live_rows import kept
from sleeper_nb.read.predicate import ALWAYS_TRUE, And, Comparison, IsIn, IsNull, Or, Predicate
from sleeper_nb.storage.filesystem import Storage, open_parent
from sleeper_nb.storage.local_files import is_of_system, named_in_metadata

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from sleeper_nb.load.iceberg_tables import IcebergFile

_BATCH_ROWS: Final = 65_536
_KEPT: Final = 8
"""Files of deletes that stay in memory, as one may be for many data files."""
_OPERATORS: Final = {
    "=": expressions.EqualTo, "<": expressions.LessThan, "<=": expressions.LessThanOrEqual,
    ">": expressions.GreaterThan, ">=": expressions.GreaterThanOrEqual,
}  # fmt: skip


def opened(metadata: str, home: Storage) -> Table:
    files = StorageIO(home)
    found = FromInputFile.table_metadata(files.new_input(metadata))
    return Table((metadata,), found, metadata, files, None)  # no catalog is asked


class StorageIO(FileIO):  # type: ignore[misc]  # pyiceberg is not looked into
    """Opens the files that metadata name as this package opens files; writes none."""

    def __init__(self, home: Storage) -> None:
        super().__init__()
        self._home = home

    def new_input(self, location: str) -> InputFile:
        return _StorageFile(location, *place_of(location, self._home))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(location)


class _StorageFile(InputFile):  # type: ignore[misc]
    def __init__(self, location: str, folder: Storage, name: str) -> None:
        super().__init__(location)
        self._folder, self._name = folder, name

    def __len__(self) -> int:
        return self._folder.size(self._name)

    def exists(self) -> bool:
        return self._folder.has(self._name)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 - as PyIceberg calls it
        return self._folder.input(self._name)


def place_of(location: str, home: Storage) -> tuple[Storage, str]:
    """Return the folder and the name of a file that metadata name: a local file, or an object of S3.

    Metadata in a bucket, which others may write, name no local files; none name files of the operating system.
    """
    scheme, colon, rest = location.partition(":")
    if colon and scheme in {"s3", "s3a", "s3n"}:
        return open_parent(f"s3:{rest}", home)
    path = named_in_metadata(location)
    if not path.startswith("/") or not home.local:
        hint = "read it with the engine that wrote it, and load the result"
        raise InvalidInput(f"the Iceberg table names a file by {location!r}, which is not read", hint=hint)
    if is_of_system(path):
        problem = f"the Iceberg table names {path!r}, a file of the operating system"
        raise InvalidInput(problem, hint="do not read tables of an unknown origin")
    return open_parent(path, home)


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The columns of a snapshot, and how they are found in files.

    Parameters
    ----------
    mapping
        The field ids of columns by the names that files without ids have.
    """

    schema: IcebergSchema
    mapping: NameMapping | None
    format_version: int

    @classmethod
    def of(cls, schema: IcebergSchema, metadata: TableMetadata) -> StoredColumns:
        return cls(schema, metadata.name_mapping(), metadata.format_version)

    @property
    def arrow(self) -> pa.Schema:
        found = schema_to_pyarrow(self.schema, include_field_ids=False)
        return pa.schema([each.with_type(_small(each.type)) for each in found])

    def in_file(self, schema: pa.Schema) -> IcebergSchema:
        """Return the columns of a data file with their field ids."""
        is_old = self.format_version <= 2
        return pyarrow_to_schema(schema, self.mapping, is_old, self.format_version)


def rows_of(file: IcebergFile, columns: StoredColumns, names: Sequence[str], home: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file with some of a table's columns, without deleted rows."""
    folder, name = place_of(file.address, home)
    gone, start = _deleted(file, home), 0
    with parquet.ParquetFile(folder.input(name), coerce_int96_timestamp_unit="us") as opened_file:
        found = _FoundColumns.of(columns, names, opened_file.schema_arrow)
        for batch in opened_file.iter_batches(_BATCH_ROWS, columns=found.names):
            rows = kept(batch, start, gone)
            start += batch.num_rows
            if rows.num_rows:
                yield found.of_table(rows, file.constants)


def _deleted(file: IcebergFile, home: Storage) -> np.ndarray[Any, Any]:
    none = np.empty(0, np.int64)
    found = [_positions(each, home).get(file.address, none) for each in file.deletes]
    return np.unique(np.concatenate([none, *found]))


@lru_cache(maxsize=_KEPT)
def _positions(address: str, home: Storage) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return the positions of deleted rows by the data file, from a file of deletes; such files never change."""
    folder, name = place_of(address, home)
    with folder.input(name) as stream:
        is_puffin = stream.read(len(MAGIC_BYTES)) == MAGIC_BYTES
        stream.seek(0)
        if is_puffin:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
            return {each.referenced_data_file: each.to_vector().to_numpy() for each in vectors}
        rows = parquet.read_table(stream, columns=["file_path", "pos"], read_dictionary=["file_path"])
    paths, places = rows["file_path"].unify_dictionaries(), rows["pos"].to_numpy()
    if not rows.num_rows:
        return {}
    codes = np.concatenate([each.indices.to_numpy() for each in paths.chunks])
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(paths.chunk(0).dictionary)) + 1)
    parts = np.split(places[order], ends)
    return dict(zip(paths.chunk(0).dictionary.to_pylist(), parts, strict=False))


@dataclass(frozen=True, slots=True)
class _FoundColumns:
    """The columns of a table as a file has them.

    Parameters
    ----------
    wanted
        The columns of the table, and for each its Arrow type.
    stored
        For each the field of the file, by the field id; files written before a column was added lack it.
    """

    wanted: Sequence[tuple[types.NestedField, pa.Field]]
    stored: Mapping[int, tuple[str, types.IcebergType]]

    @classmethod
    def of(cls, columns: StoredColumns, names: Sequence[str], file: pa.Schema) -> _FoundColumns:
        fields, arrow = {each.name: each for each in columns.schema.fields}, columns.arrow
        wanted = [(fields[name], arrow.field(name)) for name in names]
        ids = {each.field_id for each, _ in wanted}
        in_file = zip(file.names, columns.in_file(file).fields, strict=True)
        stored = {each.field_id: (name, each.field_type) for name, each in in_file if each.field_id in ids}
        return cls(wanted, stored)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.stored.values()]

    def of_table(self, rows: pa.RecordBatch, constants: Mapping[int, Any]) -> pa.RecordBatch:
        """Return rows of the file as rows of the table.

        Parameters
        ----------
        constants
            The values of columns that the file lacks, by field id.
        """
        columns = []
        for wanted, target in self.wanted:
            if wanted.field_id in self.stored:
                name, kind = self.stored[wanted.field_id]
                columns.append(_as(rows.column(name), kind, wanted.field_type, target.type))
            else:
                columns.append(_absent(wanted, target.type, constants, rows.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([target for _, target in self.wanted]))


def _absent(field: types.NestedField, kind: pa.DataType, constants: Mapping[int, Any], rows: int) -> pa.Array:
    value = constants.get(field.field_id)
    value = field.initial_default if value is None else value
    if value is None and field.required:
        problem = f"a data file lacks the column {field.name!r}, which cannot be NULL"
        raise StorageError(problem, hint="read an earlier snapshot, or rewrite the table's files")
    return pa.repeat(pa.scalar(value, kind), rows)


def _as(values: pa.Array, stored: types.IcebergType, wanted: types.IcebergType, target: pa.DataType) -> pa.Array:
    """Return values of a file in the type that the table has now."""
    if stored.is_primitive:
        return values if values.type == target else values.cast(target)
    _check_defaults(stored, wanted)
    by_ids = values.view(_named_by_ids(values.type, stored))
    return by_ids.cast(_named_by_ids(target, wanted)).view(target)


def _check_defaults(stored: types.IcebergType, wanted: types.IcebergType) -> None:
    """Raise for a member of a struct that the file lacks and that has a default: Arrow's cast gives NULL."""
    known = {each.field_id for each in _members(stored)}
    late = next((e for e in _members(wanted) if e.field_id not in known and e.initial_default is not None), None)
    if late is not None:
        problem = f"member {late.name!r} of a struct has a default, which is not read for older files"
        raise InvalidInput(problem, hint="rewrite the table's files with the engine that wrote it")


def _members(kind: types.IcebergType) -> Iterator[types.NestedField]:
    if isinstance(kind, types.StructType):
        for each in kind.fields:
            yield each
            yield from _members(each.field_type)
    elif isinstance(kind, types.ListType):
        yield from _members(kind.element_type)
    elif isinstance(kind, types.MapType):
        yield from _members(kind.key_type)
        yield from _members(kind.value_type)


def _named_by_ids(kind: pa.DataType, of: types.IcebergType) -> pa.DataType:
    """Return an Arrow type whose members, at any depth, have their field ids as names; of the same layout."""
    if isinstance(of, types.StructType):
        members = zip(kind, of.fields, strict=True)
        return pa.struct([_renamed(each, str(field.field_id), field.field_type) for each, field in members])
    if isinstance(of, types.ListType):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(_renamed(kind.value_field, "element", of.element_type))
    if isinstance(of, types.MapType):
        return pa.map_(_renamed(kind.key_field, "key", of.key_type), _renamed(kind.item_field, "value", of.value_type))
    return kind


def _renamed(field: pa.Field, name: str, of: types.IcebergType) -> pa.Field:
    return pa.field(name, _named_by_ids(field.type, of), field.nullable)


def _small(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts, bytes and lists of less than 2 GB in a batch, as tables have them."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_small_field(each) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_small_field(kind.key_field), _small_field(kind.item_field))
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return pa.list_(_small_field(kind.value_field)) if is_list else kind


def _small_field(field: pa.Field) -> pa.Field:
    return field.with_type(_small(field.type)).remove_metadata()


def condition(predicate: Predicate, columns: StoredColumns, now: IcebergSchema) -> expressions.BooleanExpression:
    """Return what PyIceberg chooses files by.

    Parameters
    ----------
    now
        The table's newest schema, to which PyIceberg binds it: a column that has another name or type there, or is
        gone, says nothing.
    """
    current = {each.field_id: each for each in now.fields}
    same = {
        each.name: each.field_type
        for each in columns.schema.fields
        if (other := current.get(each.field_id)) is not None
        and (other.name, other.field_type) == (each.name, each.field_type)
    }
    return _expression(predicate, same)


def _expression(predicate: Predicate, known: Mapping[str, types.IcebergType]) -> expressions.BooleanExpression:
    if isinstance(predicate, And | Or):
        parts = [_expression(each, known) for each in predicate.parts]
        if predicate == ALWAYS_TRUE or not parts:
            return expressions.AlwaysTrue() if isinstance(predicate, And) else expressions.AlwaysFalse()
        made = parts[0]
        for each in parts[1:]:
            made = expressions.And(made, each) if isinstance(predicate, And) else expressions.Or(made, each)
        return made
    if predicate.column not in known:
        return expressions.AlwaysTrue()
    if isinstance(predicate, IsNull):
        return expressions.IsNull(predicate.column)
    if isinstance(predicate, IsIn):
        return expressions.In(predicate.column, [_literal(each) for each in predicate.values])
    assert isinstance(predicate, Comparison)  # noqa: S101 - there is no other
    return _OPERATORS[predicate.operator](predicate.column, _literal(predicate.value))


def _literal(value: Any) -> Any:
    """Return a value as PyIceberg reads it; dates and times as texts, which have the zone."""
    return value.isoformat() if hasattr(value, "isoformat") else value
