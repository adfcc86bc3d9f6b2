"""The file that declares tables: found and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sleeper_nb.errors import Action, HintParts, InvalidInput, NotFound, SleeperError, StorageError, hint_text
from sleeper_nb.model import config_text as toml_text
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.administration.property_files import check_changes
from sleeper_nb.operations.administration.property_listing import read_schema
from sleeper_nb.report import Grid, Report, counted

# Declared tables: read from TOML, compared with the tables that there are, and what is to be done. Pure.

_PARTS = ("row-keys", "sort-keys", "values")
_KEYS = ("schema", *_PARTS, "split-points", "properties")
_HINT = 'write [tables.NAME] above: schema = "city STRING KEY, fare DOUBLE NULL"'

PlannedAction = Literal["create", "change", "nothing", "cannot"]


@dataclass(frozen=True, slots=True)
class TableDeclaration:
    """A table as it shall be.

    Parameters
    ----------
    split_points
        Count when the table is made; what a tree has become since is left alone.
    properties
        Those that shall be set. Others of the table stay as they are.
    """

    name: str
    schema: Schema
    split_points: tuple[Any, ...]
    properties: Mapping[str, str]


def read_declarations(given: str | Mapping[str, Any], source: str) -> tuple[TableDeclaration, ...]:
    """Return the tables that a TOML text, or what it would say, declares.

    Parameters
    ----------
    given
        ``[tables.NAME]`` with ``schema`` (lines as `Schema.from_ddl` takes them, or Sleeper's JSON) or ``row-keys``,
        ``sort-keys`` and ``values`` (types by names), ``split-points`` and ``[tables.NAME.properties]``.
    source
        What errors call it.

    Raises
    ------
    InvalidInput
        Naming the line, when anything in it cannot be.
    """
    text = given if isinstance(given, str) else ""
    said = toml_text.load(given, source, _HINT) if isinstance(given, str) else dict(given)
    toml_text.check_keys(said, ("tables",), (text, source, ""))
    tables = said.get("tables")
    if not isinstance(tables, Mapping) or not tables:
        raise InvalidInput(f"{source} declares no table", hint=_HINT)
    found = tuple(_declaration(name, body, text, source) for name, body in tables.items())
    folded: dict[str, str] = {}
    for name in tables:
        if folded.setdefault(name.casefold(), name) != name:
            same = folded[name.casefold()]
            raise InvalidInput(f"{source} declares {same!r} and {name!r}, one name", hint="give each a name of its own")
    return found


def _declaration(name: str, body: Any, text: str, source: str) -> TableDeclaration:
    header = f"tables.{name}"
    if not isinstance(body, Mapping):
        raise InvalidInput(f"{toml_text.where(text, source, name)}: {header} is no table", hint=_HINT)
    toml_text.check_keys(body, _KEYS, (text, source, header))
    key, within = name, ""
    try:
        points = body.get("split-points", [])
        if not isinstance(points, list | tuple):
            raise InvalidInput("split-points is no list", hint='write split-points = ["g", "n"]')
        schema, properties = _schema(body), dict(_flat(body.get("properties", {})))
        within = header
        for key, value in properties.items():
            TableProperties({key: value})
    except SleeperError as error:
        place = toml_text.where(text, source, key.rpartition(".")[2], within)
        raise InvalidInput(f"{place}, table {name!r}: {error.message}", hint=error.hint_parts) from error
    return TableDeclaration(name, schema, tuple(points), properties)


def _schema(body: Mapping[str, Any]) -> Schema:
    parts = [body.get(part, {}) for part in _PARTS]
    if ("schema" in body) == any(parts):
        raise InvalidInput("the columns are needed, once", hint="write schema, or row-keys, sort-keys and values")
    if "schema" in body:
        if not isinstance(body["schema"], str):
            raise InvalidInput("schema is no text", hint='write schema = "city STRING KEY, fare DOUBLE NULL"')
        return read_schema(body["schema"], "schema")
    if not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInput("columns are types by names", hint='write row-keys = {city = "string"}')
    return Schema(*parts)


def _flat(given: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield properties as texts; a name with dots that was not quoted came as tables in tables."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from _flat(value, f"{before}.{key}" if before else key)
    elif isinstance(given, bool):
        yield before, "true" if given else "false"
    elif isinstance(given, str | int):
        yield before, str(given)
    else:
        raise InvalidInput(f"property {before} is {given!r}, no text or number", hint=f'write "{before}" = "…"')


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What is to be done for one declared table.

    Parameters
    ----------
    action
        ``"cannot"`` when it would lose rows, or cannot be at all; `says` and `hint` tell.
    changes
        The properties that are to be set.
    """

    declared: TableDeclaration
    action: PlannedAction
    says: str = ""
    hint: HintParts = ()
    changes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Existing:
    """A table that there is: its name, its schema and what it is told."""

    name: str
    schema: Schema
    properties: TableProperties


def plan(
    declared: TableDeclaration,
    there: Existing | None,
    check_new: Callable[[TableDeclaration], object],
    check_fit: Callable[[Existing, TableProperties], object],
) -> TablePlan:
    """Return what makes a table as it is declared.

    Parameters
    ----------
    declared
        The table as it shall be.
    there
        The table of the name, in any case; None when it is yet to be made.
    check_new, check_fit
        Raise when a new table could not be made, or when properties do not fit a table that there is.
    """
    try:
        if there is None:
            check_new(declared)
            points = counted(len(declared.split_points), "split point")
            return TablePlan(declared, "create", f"{counted(len(declared.schema.fields), 'column')}, {points}")
        return _planned_change(declared, there, check_fit)
    except SleeperError as error:
        return TablePlan(declared, "cannot", error.message, error.hint_parts)


def _planned_change(
    declared: TableDeclaration, there: Existing, check_fit: Callable[[Existing, TableProperties], object]
) -> TablePlan:
    if there.name != declared.name:
        renaming = Action(f"rename {there.name} …", f"session.rename_table({there.name!r}, …)")
        raise InvalidInput(f"it is called {there.name!r}", hint=("write that name, or: ", renaming))
    if _columns(there.schema) != _columns(declared.schema):
        altering = Action(f"alter {there.name} …", "table.alter(…)")
        hint = (altering, " changes value columns; delete or reinitialise the table to change others")
        raise InvalidInput(f"its schema differs: {difference(there.schema, declared.schema)}", hint=hint)
    texts = there.properties.texts
    changes = {name: text for name, text in declared.properties.items() if texts.get(name) != text}
    check_changes(there.name, there.properties, changes)
    settings = replace(there.properties, texts={**texts, **changes})
    settings.check_together()
    check_fit(there, settings)
    if not changes:
        return TablePlan(declared, "nothing")
    says = ", ".join(
        f"{name}={text} (was {there.properties.text(name) or 'nothing'})" for name, text in changes.items()
    )
    return TablePlan(declared, "change", says, changes=changes)


def _columns(schema: Schema) -> list[tuple[str, str, str]]:
    """Return what can be declared of a schema, without what altered tables know of columns in older files."""
    return [(field.name, schema.role(field.name), field.text) for field in schema.fields]


def difference(old: Schema, new: Schema) -> str:
    """Return how one schema differs from another, column by column."""
    before, after = (
        {each.name: f"{schema.role(each.name)} {each.text}" for each in schema.fields} for schema in (old, new)
    )
    said = [f"−{name}" for name in before if name not in after]
    said += [f"+{name} {after[name]}" for name in after if name not in before]
    said += [f"{n} {before[n]} → {after[n]}" for n in before if n in after and before[n] != after[n]]
    return ", ".join(said) or "the order of columns"


_ALL_OR_OTHERS = (
    Action("--dry-run", "dry_run=True"),
    " shows all of them; ",
    Action("--skip-conflicts", "skip_conflicts=True"),
    " applies the others",
)
_DONE = {"create": "created", "change": "changed", "nothing": "as it is", "cannot": "left alone"}
_TO_DO = {"create": "create", "change": "change properties", "nothing": "nothing", "cannot": "cannot"}


@dataclass(frozen=True, slots=True, repr=False)
class ApplyReport(Report):
    """What was, or would be, done for each declared table; `left` are tables that are not declared."""

    plans: tuple[TablePlan, ...]
    left: tuple[str, ...]
    dry_run: bool
    prefix: str = ""

    @property
    def cannot(self) -> tuple[TablePlan, ...]:
        """The tables that cannot be as they are declared."""
        return tuple(each for each in self.plans if each.action == "cannot")

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of tables that were left alone though they are declared."""
        return () if self.dry_run else tuple(each.declared.name for each in self.cannot)

    def grid(self) -> Grid:
        """Return one row a table."""
        words = _TO_DO if self.dry_run else _DONE
        rows = tuple(
            (p.declared.name, words[p.action], " · ".join(filter(None, (p.says, hint_text(p.hint, self.prefix)))))
            for p in self.plans
        )
        left = f"not declared, so left alone: {', '.join(self.left)}" if self.left else ""
        footer = " · ".join(filter(None, ("nothing was changed" if self.dry_run else "", left)))
        return Grid(("table", "plan" if self.dry_run else "done", "what"), rows, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the action of each table, the tables that are not declared, and whether it was a dry run."""
        actions = {each.declared.name: each.action for each in self.plans}
        return {"tables": actions, "left": list(self.left), "dry_run": self.dry_run}


def check_all_can(plans: Iterable[TablePlan]) -> None:
    """Raise `InvalidInput` when a table cannot be as it is declared, so that nothing is changed."""
    stuck = [each for each in plans if each.action == "cannot"]
    if stuck:
        first, more = stuck[0], len(stuck) - 1
        others = f"; nor {counted(more, 'other')}" if more else ""
        message = f"table {first.declared.name!r} cannot be as declared: {first.says}{others}. Nothing was changed"
        raise InvalidInput(message, hint=first.hint or _ALL_OR_OTHERS)


def declarations_of(declared: str | Path | Mapping[str, Any]) -> tuple[TableDeclaration, ...]:
    """Return the tables that a TOML file declares, or what it would say.

    Raises
    ------
    NotFound, StorageError, InvalidInput
        When there is no such file, it cannot be read, or something in it cannot be.
    """
    if isinstance(declared, Mapping):
        return read_declarations(declared, "what is declared")
    if "\0" in str(declared):
        raise InvalidInput(f"{str(declared)!r} is not a valid path", hint="give the path of a TOML file")
    path = Path(declared).expanduser()
    try:
        return read_declarations(path.read_text(encoding="utf-8"), str(declared))
    except FileNotFoundError as error:
        raise NotFound(f"no file {declared}", hint="give the path of a TOML file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{declared} is no UTF-8", hint="save it as UTF-8") from error
    except OSError as error:
        raise StorageError(f"cannot read {declared}: {error.strerror}", hint="give a file that can be read") from error
