"""Change the columns, their types, and the rules of a schema without rewriting data files.

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
6. A type only becomes a wider one, which holds every value of the old one exactly; readers cast older files to it.
   A struct becomes wider by new fields, which are nullable, as added columns are. CHECKs that name the column are
   checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sleeper_nb.errors import Action, AlreadyExists, InvalidInput, NotFound
from sleeper_nb.model.processing import AGGREGATIONS, ALL_OTHERS, DELETE_COLUMN, FILTERS, DataProcessing
from sleeper_nb.model.properties import STATISTICS
from sleeper_nb.model.schema import Check, Field, Fields, FieldType, Member, Schema, fields_of
from sleeper_nb.model.statistics import StatisticsColumns, can_have_statistics

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
class AddMember:
    """Add a field to a struct: ``address.zip``; it is null in the existing rows."""

    path: str
    member: Member

    @property
    def name(self) -> str:
        return self.path.partition(".")[0]


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Give a value field, or a field of its structs (``address.zip``), a type that holds all of its values."""

    path: str
    type: FieldType

    @property
    def name(self) -> str:
        return self.path.partition(".")[0]


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


FieldAlteration = AddColumn | RenameColumn | DropColumn | AddMember | WidenColumn
RuleAlteration = SetDefault | SetNotNull | SetComment | AddCheck | DropCheck | SetUniqueKeys
SchemaAlteration = FieldAlteration | RuleAlteration


def additions(columns: Fields) -> list[SchemaAlteration]:
    """Return the changes that add columns, and fields to structs: ``{"note": "string?", "address.zip": "string?"}``."""
    if not isinstance(columns, Mapping):
        return [AddColumn(field) for field in fields_of(columns)]
    changes: list[SchemaAlteration] = []
    for path, text in columns.items():
        parent, dot, name = path.rpartition(".") if isinstance(path, str) else ("", "", path)
        (field,) = fields_of({name: text})
        changes.append(AddMember(parent, _member(path, field)) if dot else AddColumn(field))
    return changes


def _member(path: str, field: Field) -> Member:
    if field.default is not None or field.comment is not None:
        what = "a comment" if field.default is None else "a default"
        raise InvalidInput(f"{path!r} cannot have {what}: it is a field of a struct", hint="leave it out")
    return Member(field.name, field.type, field.nullable)


def in_order(changes: Iterable[SchemaAlteration]) -> list[SchemaAlteration]:
    """Return changes in the order in which one commit makes them: drops first, so that a name can be used again."""
    order = (
        (DropCheck,), (DropColumn,), (RenameColumn,), (AddColumn, AddMember), (WidenColumn,), (SetDefault,),
        (SetNotNull,), (AddCheck,), (SetComment,), (SetUniqueKeys,),
    )  # fmt: skip
    return sorted(changes, key=lambda each: next(at for at, kinds in enumerate(order) if isinstance(each, kinds)))


def evolved(schema: Schema, changes: Iterable[SchemaAlteration], schema_id: int) -> Schema:
    """Return a schema after changes, applied one after the other; its id makes the names of columns in files unique.

    `NotFound` when there is no such column; the nearest is named. `AlreadyExists` when a column of that name, in any
    case, already exists. `InvalidInput` when a change affects a key, adds a column that is not nullable, or gives one a
    type that is not wider.
    """
    for change in changes:
        match change:
            case AddColumn(field):
                schema = _with_added(schema, field, schema_id)
            case RenameColumn(name, to):
                old = _value(schema, name, "renamed")
                _check_free(schema, to, but=old)
                new = replace(old, name=to, stored=old.column)
                schema = replace(schema, values=tuple(new if field is old else field for field in schema.values))
            case DropColumn(name):
                gone = _value(schema, name, "dropped")
                left = tuple(field for field in schema.values if field is not gone)
                schema = replace(schema, values=left, retired=(*schema.retired, gone.column))
            case AddMember(path, member):
                schema = _with_type(schema, path, partial(_with_member, path, member))
            case WidenColumn(path, wider):
                schema = _with_type(schema, path, partial(_widened, path, wider))
            case _:
                schema = _with_rule(schema, change)
    return schema


def _with_type(schema: Schema, path: str, change: Callable[[FieldType], FieldType]) -> Schema:
    name, *inner = path.split(".")
    old = _value(schema, name, "given another type")
    new = replace(old, type=_changed_inside(old.type, name, inner, change), late=True)
    return replace(schema, values=tuple(new if field is old else field for field in schema.values))


def _changed_inside(
    kind: FieldType, path: str, inner: Sequence[str], change: Callable[[FieldType], FieldType]
) -> FieldType:
    if not inner:
        return change(kind)
    if kind.name == "list":
        return replace(kind, arguments=(_changed_inside(kind.arguments[0], path, inner, change),))
    if kind.name == "map":
        raise InvalidInput(
            f"{path!r} is a {kind}: the types inside a map cannot change",
            hint="load the rows into a new table, or add a column",
        )
    if kind.name != "struct":
        raise InvalidInput(f"{path!r} is {kind}, which has no fields", hint="name a field of a struct")
    known = {member.name: member for member in kind.arguments}
    if inner[0] not in known:
        raise NotFound.of("field", f"{path}.{inner[0]}", [f"{path}.{name}" for name in known])
    old = known[inner[0]]
    new = replace(old, type=_changed_inside(old.type, f"{path}.{old.name}", inner[1:], change))
    return replace(kind, arguments=tuple(new if member is old else member for member in kind.arguments))


def _with_member(path: str, member: Member, kind: FieldType) -> FieldType:
    if kind.name == "list":
        return replace(kind, arguments=(_with_member(path, member, kind.arguments[0]),))
    if kind.name != "struct":
        hint = "name a struct, or a list of structs"
        raise InvalidInput(f"{path!r} is {kind}, which cannot get the field {member.name!r}", hint=hint)
    if any(each.name.casefold() == member.name.casefold() for each in kind.arguments):
        raise AlreadyExists(f"field '{path}.{member.name}' already exists", hint="choose another name")
    if not member.nullable:
        raise InvalidInput(
            f"field '{path}.{member.name}' must be nullable, because existing rows have no value for it",
            hint=f'write "{path}.{member.name} {member.type}?"',
        )
    return replace(kind, arguments=(*kind.arguments, member))


def _widened(path: str, new: FieldType, old: FieldType) -> FieldType:
    if old == new:
        raise InvalidInput(f"column {path!r} is {old} already", hint="leave it out")
    if not widens(old, new):
        raise InvalidInput(
            f"column {path!r} is {old}, and {new} cannot hold all of its values", hint=_hint_to_widen(old, new)
        )
    return new


def _hint_to_widen(old: FieldType, new: FieldType) -> str:
    if (old.name, new.name) == ("date", "timestamp"):
        return "dates reach further than timestamps; add a timestamp column, and load it"
    if old.name == "decimal":
        whole = old.arguments[0] - old.arguments[1]
        return f"{old} can become decimal(p,s) with s ≥ {old.arguments[1]} and p - s ≥ {whole}"
    if old.name == "struct":
        return "name one of its fields, such as address.zip; fields cannot be dropped or change their order"
    others = list(_WIDER.get(old.name, ()))
    if old.name in DIGITS:
        others.append(f"decimal(p,s) with p - s ≥ {DIGITS[old.name]}")
    if not others:
        return f"no type is wider than {old}; add another column, and load it"
    return f"{old} can become {' or '.join(others)}"


def _with_rule(schema: Schema, change: RuleAlteration) -> Schema:
    match change:
        case SetDefault(name, default):
            return _with_changed(schema, replace(_value(schema, name, "given a default"), default=default))
        case SetNotNull(name, not_null):
            return _with_changed(schema, replace(_value(schema, name, "made nullable"), nullable=not not_null))
        case SetComment(None, comment):
            return replace(schema, comment=comment)
        case SetComment(name, comment):
            known = {field.name: field for field in schema.fields}
            if name not in known:
                raise NotFound.of("column", name, schema.names)
            return _with_changed(schema, replace(known[name], comment=comment))
        case AddCheck(check):
            if any(each.name.casefold() == check.name.casefold() for each in schema.checks):
                raise AlreadyExists(f"check {check.name!r} already exists", hint="choose another name")
            return replace(schema, checks=(*schema.checks, check))
        case DropCheck(name):
            if not any(each.name == name for each in schema.checks):
                raise NotFound.of("check", name, [each.name for each in schema.checks])
            return replace(schema, checks=tuple(each for each in schema.checks if each.name != name))
        case SetUniqueKeys(unique):
            return replace(schema, unique_keys=unique)


def _with_changed(schema: Schema, field: Field) -> Schema:
    def changed(part: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(field if each.name == field.name else each for each in part)

    keys, sorts, values = map(changed, (schema.row_keys, schema.sort_keys, schema.values))
    return replace(schema, row_keys=keys, sort_keys=sorts, values=values)


def _with_added(schema: Schema, field: Field, schema_id: int) -> Schema:
    _check_free(schema, field.name)
    if not field.nullable:
        raise InvalidInput(
            f"column {field.name!r} must be nullable, because existing rows have no value for it",
            hint=f'write "{field.name} {field.type}?"',
        )
    stored = _unused(field.name, schema, f"__{schema_id}")
    return replace(schema, values=(*schema.values, replace(field, nullable=True, stored=stored, late=True)))


def _value(schema: Schema, name: str, done: str) -> Field:
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
    known = {field.column: field.type for field in before.fields}  # each type stays, or becomes wider
    revived = {field.column.casefold() for field in after.fields} & {name.casefold() for name in before.retired}
    return (
        _columns(before) <= _columns(after)
        and not revived
        and all(widens(known.get(field.column, field.type), field.type) for field in after.fields)
    )


def without_new_promises(before: Schema, after: Schema) -> Schema:
    """Return a later schema in which a column may be NULL where it could be before: as the rows of files are read.

    The caller, which commits `after`, has checked the rows.
    """
    nullable = {field.column for field in before.values if field.nullable}
    return replace(after, values=tuple(replace(f, nullable=True) if f.column in nullable else f for f in after.values))


def broken_promises(then: Schema, now: Schema) -> tuple[str, ...]:
    """Return the CHECKs and unique keys of a schema that rows of another schema were not checked by, as texts.

    NOT NULL is no part of this: `reads_files_of` tells.
    """
    known = {(field.name, field.column, field.type) for field in now.fields}
    changed = {field.name for field in then.fields if (field.name, field.column, field.type) not in known}

    def was_checked(check: Check) -> bool:
        """Return whether the check gave the same results; a name in its text may be that of a column."""
        text = check.condition.casefold()
        return check in then.checks and not any(name.casefold() in text for name in changed)

    checks = [f"check {each.name!r}" for each in now.checks if not was_checked(each)]
    return (*checks, *(["unique keys"] if now.unique_keys and not then.unique_keys else []))


def reads_files_of(then: Schema, now: Schema) -> bool:
    try:
        return mapped(then, now) == now
    except InvalidInput:
        return False


def mapped(then: Schema, now: Schema) -> Schema:
    """Return the schema that reads files of version `then` as `now`; columns that the files lack are null.

    Columns are matched by their names in data files. A column whose type has changed is read with its current type if
    no value can be lost (`widens`): int as long or double, float as double, a decimal as a longer one.

    `InvalidInput` when the keys differ, or an old column cannot be read with its current type; the error names both
    types.
    """
    if [(f.name, f.type) for f in (*then.row_keys, *then.sort_keys)] != [
        (f.name, f.type) for f in (*now.row_keys, *now.sort_keys)
    ] or len(then.row_keys) != len(now.row_keys):
        raise InvalidInput("the row keys or sort keys of the version differ from those of the current table", hint=_OWN)
    older = {field.column: field for field in then.fields}
    return replace(now, values=tuple(_mapped(field, older.get(field.column), then) for field in now.values))


def for_later_files(schema: Schema) -> Schema:
    """Return a schema that reads later files too: columns dropped since are null in those."""
    return replace(schema, values=tuple(replace(field, nullable=True, late=True) for field in schema.values))


def _mapped(field: Field, older: Field | None, then: Schema) -> Field:
    if older is None:
        if not field.nullable:
            raise InvalidInput(f"the version has no column {field.name!r}, which is not nullable now", hint=_OWN)
        # files may have a dropped column of that name; it is a different column
        return replace(field, stored=_unused(field.column, then, "__"), late=True)
    if not widens(older.type, field.type):
        raise InvalidInput(f"column {field.name!r} was {older.type}, which {field.type} cannot hold", hint=_OWN)
    if older.nullable and not field.nullable:
        raise InvalidInput(f"column {field.name!r} was {older.text} and is now {field.text}", hint=_OWN)
    return field if older.type == field.type and (field.late or not older.late) else replace(field, late=True)


_WIDER: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "long", "float", "double"),
    "smallint": ("int", "long", "float", "double"),
    "int": ("long", "double"),
    "float": ("double",),
}
"""For each type, those that hold every value of it exactly."""
DIGITS: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "long": 19}
"""How many digits a decimal needs before the point to hold all values of a type."""


def widens(old: FieldType, new: FieldType) -> bool:
    """Return whether a type holds every value of another exactly, and every engine reads files of the old as the new.

    No type inside a map can change: DataFusion cannot cast maps.
    """
    if old == new or new.name in _WIDER.get(old.name, ()):
        return True
    if old.name == new.name == "list":
        return widens(old.arguments[0], new.arguments[0])
    if old.name == new.name == "struct":
        return _adds_members(old.arguments, new.arguments)
    if new.name != "decimal" or old.name not in {*DIGITS, "decimal"}:
        return False
    precision, scale = old.arguments if old.name == "decimal" else (DIGITS[old.name], 0)
    new_precision, new_scale = new.arguments
    return bool(new_scale >= scale and new_precision - new_scale >= precision - scale)


def _adds_members(old: Sequence[Member], new: Sequence[Member]) -> bool:
    """Return whether a struct has the fields of another first, as wide or wider, and after them only nullable ones."""
    kept = zip(old, new, strict=False)
    return (
        len(new) >= len(old)
        and all(a.name == b.name and widens(a.type, b.type) and (b.nullable or not a.nullable) for a, b in kept)
        and all(member.nullable for member in new[len(old) :])
    )


def check_statistics(columns: StatisticsColumns, changes: Iterable[SchemaAlteration]) -> None:
    """Refuse a change to a column that a table's property names, if the property would no longer fit it.

    `InvalidInput` when a change affects such a column; the error names the property.
    """
    for change in changes:
        if isinstance(change, AddColumn | RuleAlteration) or not columns.uses(change.name):
            continue
        if isinstance(change, WidenColumn) and can_have_statistics(change.type):
            continue
        raise InvalidInput(
            f"column {change.name!r} is named by the table's {STATISTICS}",
            hint=f"change the property {STATISTICS} first; it is {','.join(columns.names or ())}",
        )


def check_processing(processing: DataProcessing, changes: Iterable[SchemaAlteration]) -> None:
    """Refuse a change to a column that the table's filters or aggregations use: its rows could no longer be read.

    `InvalidInput` when a change affects such a column; the error names the property.
    """
    aggregations = processing.written or processing.aggregations
    named = {each.field for each in aggregations} | {each.sequence for each in aggregations}
    by_property = (
        (FILTERS, processing.filters, {each.field for each in processing.filters}),
        (AGGREGATIONS, aggregations, named),
        (DELETE_COLUMN, (processing.delete_column,), {processing.delete_column}),
    )
    for change in changes:
        for name, parts, fields in by_property:
            hint = f"change the property {name} first; it is {','.join(map(str, parts))}"
            if isinstance(change, AddColumn):
                if name == AGGREGATIONS and parts and ALL_OTHERS not in fields:
                    message = f"no aggregation can combine the nulls of a new column {change.field.name!r}"
                    raise InvalidInput(message, hint=hint)
            elif not isinstance(change, RuleAlteration) and change.name in fields:
                if name == AGGREGATIONS and isinstance(change, WidenColumn | AddMember):
                    continue  # wider values are combined in the same way
                raise InvalidInput(f"column {change.name!r} is used by the table's {name}", hint=hint)


def check_checks(columns: Mapping[str, Iterable[str]], changes: Iterable[SchemaAlteration]) -> None:
    """Refuse to rename or drop a column that a CHECK of the table names, unless the CHECK is dropped too.

    `InvalidInput` when a change affects such a column; the error names the CHECK.
    """
    changes = tuple(changes)
    dropped = {change.name for change in changes if isinstance(change, DropCheck)}
    for change in changes:
        for name, used in columns.items():
            if isinstance(change, RenameColumn | DropColumn) and change.name in used and name not in dropped:
                drop = Action(f"--drop-check {name}", f"checks={{{name!r}: None}}")
                raise InvalidInput(f"column {change.name!r} is used by check {name!r}", hint=("drop it first: ", drop))
