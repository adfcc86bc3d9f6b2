"""Add, rename and drop columns of a schema without rewriting data files.

Why old files can still be read:

1. A data file keeps the column names of the schema that it was written with, and each field records the name of its
   column in files. A rename therefore changes only the field.
2. A column name in files is never reused for another column: the names of dropped fields stay in the schema as
   retired, and a new field whose name already exists in files gets another name there. Files of all ages can therefore
   be mixed.
3. An added column is nullable, and null in every file that does not have it.
4. Row keys and sort keys do not change, so the order of rows in files and the partitions do not change either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS, DataProcessing
from sleeper_nb.model.properties import STATISTICS
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.statistics import StatisticsColumns

_WIDER: Collection[tuple[str, str]] = frozenset({("int", "long"), ("int", "double"), ("float", "double")})
"""Pairs of types: the second can hold every value of the first."""
_OWN = "leave it out to read the version with its own schema"


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a value field; it is null in the existing rows."""

    field: Field


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a value field."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a value field; older versions still have it."""

    name: str


SchemaChange = AddColumn | RenameColumn | DropColumn


def evolved(schema: Schema, changes: Iterable[SchemaChange], schema_id: int) -> Schema:
    """Return a schema after changes, applied one after the other.

    Parameters
    ----------
    schema
        The table's schema.
    changes
        The changes, in order.
    schema_id
        The id of the new schema; it makes the names of new columns in data files unique.

    Raises
    ------
    NotFound
        When there is no such column; the nearest is named.
    AlreadyExists
        When a column of that name, in any case, already exists.
    InvalidInput
        When a change renames or drops a key, or adds a column that is not nullable.
    """
    for change in changes:
        match change:
            case AddColumn(field):
                schema = _with_added(schema, field, schema_id)
            case RenameColumn(name, to):
                old = _value(schema, name, "renamed")
                _check_free(schema, to, but=old)
                new = Field(to, old.type, old.nullable, old.column, old.late)
                schema = _with_values(schema, [new if field is old else field for field in schema.values])
            case DropColumn(name):
                gone = _value(schema, name, "dropped")
                left = [field for field in schema.values if field is not gone]
                schema = _with_values(schema, left, retired=(*schema.retired, gone.column))
    return schema


def _with_added(schema: Schema, field: Field, schema_id: int) -> Schema:
    _check_free(schema, field.name)
    if not field.nullable:
        raise InvalidInput(
            f"column {field.name!r} must be nullable, because existing rows have no value for it",
            hint=f'write "{field.name} {field.type}?"',
        )
    stored = _unused(field.name, schema, f"__{schema_id}")
    return _with_values(schema, [*schema.values, Field(field.name, field.type, True, stored, late=True)])  # noqa: FBT003


def _with_values(schema: Schema, values: Sequence[Field], retired: Iterable[str] | None = None) -> Schema:
    return Schema(schema.row_keys, schema.sort_keys, values, schema.retired if retired is None else retired)


def _value(schema: Schema, name: str, done: str) -> Field:
    """Return the value field to change."""
    for field in schema.values:
        if field.name == name:
            return field
    if name in schema.names:
        raise InvalidInput(
            f"{schema.role(name)} {name!r} cannot be {done}: it orders the rows of every file",
            hint="only value columns can change; for other keys, load the rows into a new table",
        )
    raise NotFound.of("column", name, [field.name for field in schema.values])


def _check_free(schema: Schema, name: str, but: Field | None = None) -> None:
    for field in schema.fields:
        if field is not but and field.name.casefold() == name.casefold():
            raise AlreadyExists(f"column {field.name!r} already exists", hint="choose another name")


def _columns(schema: Schema) -> set[str]:
    """Return all column names that data files may have, case-folded, as engines ignore case."""
    return {name.casefold() for name in (*(field.column for field in schema.fields), *schema.retired)}


def _unused(name: str, schema: Schema, suffix: str) -> str:
    used, unused = _columns(schema), name
    while unused.casefold() in used:
        unused += suffix
    return unused


def keeps_columns(before: Schema, after: Schema) -> bool:
    """Return whether a schema has all columns of an older one, as fields or retired, and revives no retired one."""
    known = {field.column: field.type for field in before.fields}
    revived = {field.column.casefold() for field in after.fields} & {name.casefold() for name in before.retired}
    return (
        _columns(before) <= _columns(after)
        and not revived
        and all(known.get(field.column, field.type) == field.type for field in after.fields)
    )


def reads_files_of(then: Schema, now: Schema) -> bool:
    """Return whether another schema reads the files of an older one correctly without changes."""
    try:
        return mapped(then, now) == now
    except InvalidInput:
        return False


def mapped(then: Schema, now: Schema) -> Schema:
    """Return the schema that reads files of version `then` as `now`; columns that the files lack are null.

    Columns are matched by their names in data files. A column whose type has changed is read with its current type if
    no value can be lost: int as long or double, float as double, a decimal as a longer one.

    Raises
    ------
    InvalidInput
        When the keys differ, or an old column cannot be read with its current type; the error names both types.
    """
    if [(f.name, f.type) for f in (*then.row_keys, *then.sort_keys)] != [
        (f.name, f.type) for f in (*now.row_keys, *now.sort_keys)
    ] or len(then.row_keys) != len(now.row_keys):
        raise InvalidInput("the row keys or sort keys of the version differ from those of the current table", hint=_OWN)
    older = {field.column: field for field in then.fields}
    values = [_mapped(field, older.get(field.column), then) for field in now.values]
    return _with_values(now, values)


def for_later_files(schema: Schema) -> Schema:
    """Return a schema that reads later files too: columns dropped since are null in those."""
    values = [replace(field, nullable=True, late=True) for field in schema.values]
    return _with_values(schema, values)


def _mapped(field: Field, older: Field | None, then: Schema) -> Field:
    if older is None:
        if not field.nullable:
            raise InvalidInput(f"the version has no column {field.name!r}, which is not nullable now", hint=_OWN)
        # files may have a dropped column of that name; it is a different column
        return replace(field, stored=_unused(field.column, then, "__"), late=True)
    if not _widens(older.type, field.type):
        raise InvalidInput(f"column {field.name!r} was {older.type}, which {field.type} cannot hold", hint=_OWN)
    if older.nullable and not field.nullable:
        raise InvalidInput(f"column {field.name!r} was {older.text} and is now {field.text}", hint=_OWN)
    return field if older.type == field.type and (field.late or not older.late) else replace(field, late=True)


def _widens(old: FieldType, new: FieldType) -> bool:
    if old == new or (old.name, new.name) in _WIDER:
        return True
    if old.name != "decimal" or new.name != "decimal":
        return False
    (precision, scale), (new_precision, new_scale) = old.arguments, new.arguments
    return bool(new_scale >= scale and new_precision - new_scale >= precision - scale)


def check_statistics(columns: StatisticsColumns, changes: Iterable[SchemaChange]) -> None:
    """Refuse to rename or drop a column that a table's property names: the property would name no column.

    Raises
    ------
    InvalidInput
        When a change affects such a column; the error names the property.
    """
    for change in changes:
        if not isinstance(change, AddColumn) and columns.uses(change.name):
            raise InvalidInput(
                f"column {change.name!r} is named by the table's {STATISTICS}",
                hint=f"change the property {STATISTICS} first; it is {','.join(columns.names or ())}",
            )


def check_processing(processing: DataProcessing, changes: Iterable[SchemaChange]) -> None:
    """Refuse a change to a column that the table's filters or aggregations use: its rows could no longer be read.

    Raises
    ------
    InvalidInput
        When a change affects such a column; the error names the property.
    """
    by_property = ((FILTERS, processing.filters), (AGGREGATIONS, processing.aggregations))
    for change in changes:
        for name, parts in by_property:
            texts = ",".join(map(str, parts))
            hint = f"change the property {name} first; it is {texts}"
            if isinstance(change, AddColumn):
                if name == AGGREGATIONS and parts:
                    message = f"no aggregation can combine the nulls of a new column {change.field.name!r}"
                    raise InvalidInput(message, hint=hint)
            elif any(each.field == change.name for each in parts):
                raise InvalidInput(f"column {change.name!r} is used by the table's {name}", hint=hint)
