"""Change the columns and the rules of a schema without rewriting data files.

Why old files can still be read:

1. A data file keeps the column names of the schema that it was written with, and each field records the name of its
   column in files. A rename therefore changes only the field.
2. A column name in files is never reused for another column: the names of dropped fields stay in the schema as
   retired, and a new field whose name already exists in files gets another name there. Files of all ages can therefore
   be mixed.
3. An added column is nullable, and null in every file that does not have it, also when it has a default: defaults apply
   to loads.
4. A column becomes NOT NULL, and the table gets a CHECK or unique keys, only after its rows were checked.
5. Row keys and sort keys do not change, so the order of rows in files and the partitions do not change either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sleeper_nb.errors import Action, AlreadyExists, InvalidInput, NotFound
from sleeper_nb.model.processing import AGGREGATIONS, FILTERS, DataProcessing
from sleeper_nb.model.properties import STATISTICS
from sleeper_nb.model.schema import Check, Field, FieldType, Schema
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


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set the default of a value field, for rows that are loaded from now on; None drops it."""

    name: str
    default: Any


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """Set whether a value field refuses NULL; the existing rows are checked before."""

    name: str
    not_null: bool


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set the comment of a field, or of the table when there is no name; None drops it."""

    name: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class AddCheck:
    """Add a CHECK; the existing rows are checked before."""

    check: Check


@dataclass(frozen=True, slots=True)
class DropCheck:
    """Drop a CHECK."""

    name: str


@dataclass(frozen=True, slots=True)
class SetUniqueKeys:
    """Set whether row keys are unique; the existing rows are checked before."""

    unique: bool


ColumnChange = AddColumn | RenameColumn | DropColumn
RuleChange = SetDefault | SetNotNull | SetComment | AddCheck | DropCheck | SetUniqueKeys
SchemaChange = ColumnChange | RuleChange


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
                new = replace(old, name=to, stored=old.column)
                schema = _with_values(schema, [new if field is old else field for field in schema.values])
            case DropColumn(name):
                gone = _value(schema, name, "dropped")
                left = [field for field in schema.values if field is not gone]
                schema = _with_values(schema, left, retired=(*schema.retired, gone.column))
            case _:
                schema = _with_rule(schema, change)
    return schema


def _with_rule(schema: Schema, change: RuleChange) -> Schema:
    """Return a schema with one rule or comment changed."""
    match change:
        case SetDefault(name, default):
            return _with_changed(schema, replace(_value(schema, name, "given a default"), default=default))
        case SetNotNull(name, not_null):
            return _with_changed(schema, replace(_value(schema, name, "made nullable"), nullable=not not_null))
        case SetComment(None, comment):
            return _with_rules(schema, comment=comment)
        case SetComment(name, comment):
            known = {field.name: field for field in schema.fields}
            if name not in known:
                raise NotFound.of("column", name, schema.names)
            return _with_changed(schema, replace(known[name], comment=comment))
        case AddCheck(check):
            if any(each.name.casefold() == check.name.casefold() for each in schema.checks):
                raise AlreadyExists(f"check {check.name!r} already exists", hint="choose another name")
            return _with_rules(schema, checks=(*schema.checks, check))
        case DropCheck(name):
            if not any(each.name == name for each in schema.checks):
                raise NotFound.of("check", name, [each.name for each in schema.checks])
            return _with_rules(schema, checks=tuple(each for each in schema.checks if each.name != name))
        case SetUniqueKeys(unique):
            return _with_rules(schema, unique_keys=unique)


def _with_rules(schema: Schema, **rules: Any) -> Schema:
    given = {name: getattr(schema, name) for name in ("retired", "checks", "comment", "unique_keys")} | rules
    return Schema(schema.row_keys, schema.sort_keys, schema.values, **given)


def _with_changed(schema: Schema, field: Field) -> Schema:
    """Return a schema in which a field replaces the one of its name."""
    parts = (schema.row_keys, schema.sort_keys, schema.values)
    keys, sorts, values = ([field if each.name == field.name else each for each in part] for part in parts)
    return Schema(keys, sorts, values, schema.retired, schema.checks, schema.comment, schema.unique_keys)


def _with_added(schema: Schema, field: Field, schema_id: int) -> Schema:
    _check_free(schema, field.name)
    if not field.nullable:
        raise InvalidInput(
            f"column {field.name!r} must be nullable, because existing rows have no value for it",
            hint=f'write "{field.name} {field.type}?"',
        )
    stored = _unused(field.name, schema, f"__{schema_id}")
    return _with_values(schema, [*schema.values, replace(field, nullable=True, stored=stored, late=True)])


def _with_values(schema: Schema, values: Sequence[Field], retired: Iterable[str] | None = None) -> Schema:
    return schema.with_values(values, retired)


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


def without_new_promises(before: Schema, after: Schema) -> Schema:
    """Return a later schema in which a column may be NULL where it could be before: as the rows of files are read.

    Whoever commits `after` has checked the rows.
    """
    nullable = {field.column for field in before.values if field.nullable}
    return after.with_values([replace(f, nullable=True) if f.column in nullable else f for f in after.values])


def broken_promises(then: Schema, now: Schema) -> tuple[str, ...]:
    """Return the CHECKs and unique keys of a schema that rows of another schema were not checked by, as texts.

    NOT NULL is no part of this: `reads_files_of` tells.
    """
    columns = {field.name: field.column for field in now.fields}
    same = all(columns.get(field.name, field.column) == field.column for field in then.fields)
    checks = [f"check {each.name!r}" for each in now.checks if not (same and each in then.checks)]
    return (*checks, *(["unique keys"] if now.unique_keys and not then.unique_keys else []))


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
        if isinstance(change, RenameColumn | DropColumn) and columns.uses(change.name):
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
            elif isinstance(change, RenameColumn | DropColumn) and any(each.field == change.name for each in parts):
                raise InvalidInput(f"column {change.name!r} is used by the table's {name}", hint=hint)


def check_checks(columns: Mapping[str, Iterable[str]], changes: Iterable[SchemaChange]) -> None:
    """Refuse to rename or drop a column that a CHECK of the table names, unless the CHECK is dropped too.

    Parameters
    ----------
    columns
        The columns that each CHECK names, by its name.
    changes
        The changes.

    Raises
    ------
    InvalidInput
        When a change affects such a column; the error names the CHECK.
    """
    changes = tuple(changes)
    dropped = {change.name for change in changes if isinstance(change, DropCheck)}
    for change in changes:
        for name, used in columns.items():
            if isinstance(change, RenameColumn | DropColumn) and change.name in used and name not in dropped:
                drop = Action(f"--drop-check {name}", f"checks={{{name!r}: None}}")
                raise InvalidInput(f"column {change.name!r} is used by check {name!r}", hint=("drop it first: ", drop))
