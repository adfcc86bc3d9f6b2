"""Apply a file that declares tables: read it, compare it with the existing tables, and create or change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sleeper_nb.admin.property_files import check_changes
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, HintParts, InvalidInput, NotFound, SleeperError, StorageError, hint_text
from sleeper_nb.model import config_text
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema, read_schema
from sleeper_nb.report import Grid, TableReport, counted
from sleeper_nb.session import creating
from sleeper_nb.session.creating import TableRequest
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.table.configuring import check_fit, set_properties

_PARTS = ("row-keys", "sort-keys", "values")
_RULES = ("checks", "comment", "unique-keys")
_KEYS = ("schema", *_PARTS, *_RULES, "split-points", "properties")
_HINT = 'write [tables.NAME], and below it: schema = "city STRING KEY, fare DOUBLE NULL"'

PlannedAction = Literal["create", "change", "nothing", "cannot"]


@dataclass(frozen=True, slots=True)
class TableDeclaration:
    """A table as it is declared."""

    name: str
    schema: Schema
    split_points: tuple[Any, ...]  # of a table that is created: existing partitions are not changed
    properties: Mapping[str, str]  # the others are not changed


def read_declarations(declared: str | Mapping[str, Any], source: str) -> tuple[TableDeclaration, ...]:
    """Return the tables that a TOML text, or a mapping of the same structure, declares.

    `InvalidInput` when anything in it is invalid; names the line.

    Parameters
    ----------
    declared
        ``[tables.NAME]`` with ``schema`` (lines as `Schema.from_ddl` takes them, or Sleeper's JSON) or ``row-keys``,
        ``sort-keys`` and ``values`` (types by names, or tables of ``type``, ``default`` and ``comment``), perhaps with
        ``checks``, ``comment`` and ``unique-keys``; then ``split-points`` and ``[tables.NAME.properties]``.
    """
    text = declared if isinstance(declared, str) else ""
    body = config_text.load(declared, source, _HINT) if isinstance(declared, str) else dict(declared)
    config_text.check_keys(body, ("tables",), (text, source, ""))
    tables = body.get("tables")
    if not isinstance(tables, Mapping) or not tables:
        raise InvalidInput(f"{source} declares no table", hint=_HINT)
    declarations = tuple(_declaration(name, table, text, source) for name, table in tables.items())
    folded: dict[str, str] = {}
    for name in tables:
        same = folded.setdefault(name.casefold(), name)
        if same != name:
            message = f"{source} declares {same!r} and {name!r}, which differ only in case"
            raise InvalidInput(message, hint="give each table a name of its own")
    return declarations


def _declaration(name: str, body: Any, text: str, source: str) -> TableDeclaration:
    header = f"tables.{name}"
    if not isinstance(body, Mapping):
        raise InvalidInput(f"{config_text.where(text, source, name)}: {header} is not a table", hint=_HINT)
    config_text.check_keys(body, _KEYS, (text, source, header))
    key, within = name, ""
    try:
        points = body.get("split-points", [])
        if not isinstance(points, list | tuple):
            raise InvalidInput("split-points is not a list", hint='write split-points = ["g", "n"]')
        schema, properties = _schema(body), dict(_flat(body.get("properties", {})))
        within = header
        for key, value in properties.items():
            TableProperties({key: value})
    except SleeperError as error:
        place = config_text.where(text, source, key.rpartition(".")[2], within)
        raise InvalidInput(f"{place}, table {name!r}: {error.message}", hint=error.hint_parts) from error
    return TableDeclaration(name, schema, tuple(points), properties)


def _schema(body: Mapping[str, Any]) -> Schema:
    parts = [body.get(part, {}) for part in _PARTS]
    if ("schema" in body) == any(parts):
        raise InvalidInput(
            "give the columns exactly once", hint="write either schema, or row-keys, sort-keys and values"
        )
    if "schema" in body:
        if given := [name for name in _RULES if name in body]:
            hint = "write it in schema: CHECK (fare >= 0), COMMENT 'text' or UNIQUE KEYS"
            raise InvalidInput(f"{given[0]} is given together with schema", hint=hint)
        if not isinstance(body["schema"], str):
            raise InvalidInput("schema is not a string", hint='write schema = "city STRING KEY, fare DOUBLE NULL"')
        return read_schema(body["schema"], "schema")
    if not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInput(
            "row-keys, sort-keys and values take types by name", hint='write row-keys = {city = "string"}'
        )
    checks = body.get("checks", {})
    if not isinstance(checks, Mapping):
        raise InvalidInput("checks are conditions by name", hint='write checks = {fare_positive = "fare >= 0"}')
    unique = body.get("unique-keys", False)
    if not isinstance(unique, bool):
        raise InvalidInput(f"unique-keys is {unique!r}, not true or false", hint="write unique-keys = true")
    keys, sorts, values = parts
    return Schema(keys, sorts, values, checks=checks, comment=body.get("comment"), unique_keys=unique)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield properties as texts; TOML reads a name with dots that is not in quotes as nested tables."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    elif isinstance(value, str | int):
        yield name, str(value)
    else:
        raise InvalidInput(f"property {name} is {value!r}, not a string or integer", hint=f'write "{name}" = "…"')


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What must be done for one declared table."""

    declared: TableDeclaration
    action: PlannedAction  # ``"cannot"`` when it would lose rows, or is impossible; `says` and `hint` explain why
    says: str = ""
    hint: HintParts = ()
    changes: Mapping[str, str] = field(default_factory=dict)


def plan_declaration(tables: TableOpener, declared: TableDeclaration, existing: OpenTable | None) -> TablePlan:
    """Return what must be done so that a table is as declared; `existing` has that name, in any case."""
    schema = None if existing is None else existing.store.load().schema
    try:
        if existing is not None and schema is not None:
            return _planned_change(declared, existing, schema)
        creating.planned(tables, _request_of(declared), declared.schema)
        points = counted(len(declared.split_points), "split point")
        return TablePlan(declared, "create", f"{counted(len(declared.schema.fields), 'column')}, {points}")
    except SleeperError as error:
        return TablePlan(declared, "cannot", error.message, error.hint_parts)


def _planned_change(declared: TableDeclaration, existing: OpenTable, schema: Schema) -> TablePlan:
    """Return the change of an existing table's properties; raise when the table cannot be as declared."""
    properties = existing.properties
    if existing.name != declared.name:
        renaming = Action(f"rename {existing.name} …", f"session.rename_table({existing.name!r}, …)")
        raise InvalidInput(f"its name is {existing.name!r}", hint=("write that name, or: ", renaming))
    if _columns(schema) != _columns(declared.schema) or schema.rules != declared.schema.rules:
        altering = Action(f"alter {existing.name} …", "table.alter(…)")
        other = (
            "for other key columns, create a table from this one; deleting or reinitialising this one deletes all rows"
        )
        hint = (altering, f" changes value columns; {other}")
        raise InvalidInput(f"its schema differs: {schema_difference(schema, declared.schema)}", hint=hint)
    changes = {name: text for name, text in declared.properties.items() if properties.texts.get(name) != text}
    check_changes(existing.name, properties, changes)
    settings = replace(properties, texts={**properties.texts, **changes})
    settings.check_together()
    check_fit(settings, schema, existing.components)
    if not changes:
        return TablePlan(declared, "nothing")
    says = ", ".join(f"{name}={text} (was {properties.text(name) or 'nothing'})" for name, text in changes.items())
    return TablePlan(declared, "change", says, changes=changes)


def _request_of(declared: TableDeclaration) -> TableRequest:
    return TableRequest(declared.name, declared.schema, declared.split_points, properties=declared.properties)


def _columns(schema: Schema) -> list[tuple[str, str, str]]:
    """Return what a declaration says of a schema: not the names that columns have in older files."""
    return [(field.name, schema.role(field.name), field.definition) for field in schema.fields]


def schema_difference(old: Schema, new: Schema) -> str:
    """Return how one schema differs from another, column by column: ``−fare, +note value string``."""
    before = {field.name: f"{old.role(field.name)} {field.definition}" for field in old.fields} | dict(old.rules)
    after = {field.name: f"{new.role(field.name)} {field.definition}" for field in new.fields} | dict(new.rules)
    parts = [f"−{name}" for name in before if name not in after]
    parts += [f"+{name} {after[name]}" for name in after if name not in before]
    parts += [
        f"{name} {before[name]} → {after[name]}" for name in before if name in after and before[name] != after[name]
    ]
    return ", ".join(parts) or "the order of columns"


_ALL_OR_OTHERS = (
    Action("--dry-run", "dry_run=True"),
    " shows all of them; ",
    Action("--skip-conflicts", "skip_conflicts=True"),
    " applies the others",
)
_DONE = {"create": "created", "change": "changed", "nothing": "unchanged", "cannot": "skipped"}
_TO_DO = {"create": "create", "change": "change properties", "nothing": "nothing", "cannot": "cannot"}


@dataclass(frozen=True, slots=True, repr=False)
class ApplyReport(TableReport):
    """What was done, or would be done, for each declared table; `left` are tables that are not declared."""

    plans: tuple[TablePlan, ...]
    left: tuple[str, ...]
    dry_run: bool
    prefix: str = ""

    @property
    def cannot(self) -> tuple[TablePlan, ...]:
        """The tables that cannot be made as declared."""
        return tuple(each for each in self.plans if each.action == "cannot")

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of declared tables that were skipped."""
        return () if self.dry_run else tuple(each.declared.name for each in self.cannot)

    def grid(self) -> Grid:
        """Return a row for each table."""
        words = _TO_DO if self.dry_run else _DONE
        rows = tuple(
            (p.declared.name, words[p.action], " · ".join(filter(None, (p.says, hint_text(p.hint, self.prefix)))))
            for p in self.plans
        )
        left = f"not declared, so not changed: {', '.join(self.left)}" if self.left else ""
        footer = " · ".join(filter(None, ("nothing was changed" if self.dry_run else "", left)))
        return Grid(("table", "plan" if self.dry_run else "done", "what"), rows, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the action of each table, the tables that are not declared, and whether it was a dry run."""
        actions = {each.declared.name: each.action for each in self.plans}
        return {"tables": actions, "left": list(self.left), "dry_run": self.dry_run}


def _check_all_can(plans: Iterable[TablePlan]) -> None:
    """Raise `InvalidInput` when a table cannot be made as declared, so that nothing is changed."""
    impossible = [each for each in plans if each.action == "cannot"]
    if impossible:
        first, more = impossible[0], len(impossible) - 1
        others = f"; the same for {counted(more, 'other')}" if more else ""
        message = f"table {first.declared.name!r} cannot be made as declared: {first.says}{others}. Nothing was changed"
        raise InvalidInput(message, hint=first.hint or _ALL_OR_OTHERS)


def declarations_of(declared: str | Path | Mapping[str, Any]) -> tuple[TableDeclaration, ...]:
    """Return the tables that a TOML file, or a mapping of the same structure, declares.

    `NotFound`, `StorageError`, `InvalidInput` when there is no such file, it cannot be read, or something in it is
    invalid.
    """
    if isinstance(declared, Mapping):
        return read_declarations(declared, "the declaration")
    if "\0" in str(declared):
        raise InvalidInput(f"{str(declared)!r} is not a valid path", hint="give the path of a TOML file")
    path = Path(declared).expanduser()
    try:
        return read_declarations(path.read_text(encoding="utf-8"), str(declared))
    except FileNotFoundError as error:
        raise NotFound(f"no file {declared}", hint="give the path of a TOML file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{declared} is not UTF-8", hint="save it as UTF-8") from error
    except OSError as error:
        raise StorageError(f"cannot read {declared}: {error.strerror}", hint="give a file that you can read") from error


def apply(
    tables: TableOpener, declared: str | Path | Mapping[str, Any], *, dry_run: bool, skip_conflicts: bool
) -> ApplyReport:
    """Do what `Administration.apply` says."""
    declarations = declarations_of(declared)
    existing = {entry.name.casefold(): entry for entry in tables.components.catalog.tables()}
    plans = []
    for each in declarations:
        entry = existing.get(each.name.casefold())
        plans.append(plan_declaration(tables, each, None if entry is None else tables.open_present(entry)))
    if not dry_run and not skip_conflicts:
        _check_all_can(plans)
    for plan in () if dry_run else plans:
        new = plan.declared
        if plan.action == "create":
            creating.create_table(tables, _request_of(new))
        elif plan.action == "change":
            set_properties(tables.named(new.name), plan.changes)
    names = {each.name.casefold() for each in declarations}
    left = tuple(entry.name for key, entry in existing.items() if key not in names)
    return ApplyReport(tuple(plans), left, dry_run)
