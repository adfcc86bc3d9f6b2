"""A SQL statement bound: each table that it names is found at its version, and a name of ours stands in its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sleeper_nb.engines.duckdb.condition_faults import RESERVED
from sleeper_nb.engines.sql import time_travel
from sleeper_nb.engines.sql.time_travel import Dialect, TableReference, VersionClause
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.snapshots import EPOCH, VersionReference, parse_moment, parse_reference, parse_version
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.operations.system_tables.definitions import MARK, SYSTEM_TABLES
from sleeper_nb.operations.system_tables.reading import SystemRows
from sleeper_nb.operations.versioning.leases import ReadGuard
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.storage.filesystem import Storage

_SYNTAX = re.compile(r'DuckDB: Parser Error: syntax error at or near "(\w+)"')
_NO_COLUMN = re.compile(r'"([^"]+)" does not have a column named "([^"]+)"')
_QUOTES = ('"', "`")


@dataclass(frozen=True, slots=True)
class Source:
    """A table, or a system table, at a version, ready to be read; `guard` keeps its data files meanwhile."""

    table: str
    resolved: Resolved
    rows: ScanPlan | SystemRows
    storage: Storage
    guard: ReadGuard | None = None

    def __str__(self) -> str:
        return f"{self.table} at {self.resolved}"

    @property
    def bytes(self) -> int:
        """How much is read at most; 0 where it is metadata."""
        return self.rows.bytes if isinstance(self.rows, ScanPlan) else 0


Lookup = Callable[[str, VersionReference | None], Source | None]
"""Returns the source of a table's name at a version; None when there is no table of that name."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement that an engine can run once it knows what the names of ours stand for.

    Parameters
    ----------
    text
        The statement with those names.
    named
        What each stands for: a table at a version, or the statement of a view.
    unknown
        Tables that are read and are none of ours; the engine may know them.
    """

    text: str
    named: Mapping[str, Source | Bound]
    unknown: tuple[TableReference, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Each table and version that is read, in the statement's order."""
        found: list[Source] = []
        for what in self.named.values():
            found += what.sources if isinstance(what, Bound) else [what]
        return tuple(found)

    @property
    def statements(self) -> tuple[Bound, ...]:
        """The statement itself, and those of the views that it reads."""
        views = (what for what in self.named.values() if isinstance(what, Bound))
        return (self, *(each for view in views for each in view.statements))


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds statements.

    Parameters
    ----------
    dialect
        Of the engine that will run them.
    lookup
        Finds tables.
    tables
        Returns the names of all tables, for who misspells one.
    evaluate
        Returns the value of a query of one row and column, as the engine computes it.
    views
        The queries of the session's views, by name in small letters.
    """

    dialect: Dialect
    lookup: Lookup
    tables: Callable[[], tuple[str, ...]]
    evaluate: Callable[[str], Any]
    views: Mapping[str, str]

    def bind(self, sql: str, references: tuple[TableReference, ...] | None = None, prefix: str = "__sleeper") -> Bound:
        """Bind the tables that a statement names at their versions.

        Raises
        ------
        NotFound
            When a table or version is unknown, naming the nearest.
        InvalidInput
            When a table would be written to, or a clause names no version.
        """
        if references is None:
            references = time_travel.table_references(sql, dialect=self.dialect)
        named: dict[TableReference, tuple[str, Source | Bound]] = {}
        for reference in references:
            name = f"{prefix}_{len(named)}"
            found = self._source(reference) or self._view(reference, name)
            if found is not None:
                named[reference] = (name, found)
            elif reference.clause is not None or self._is_system_table(sql, reference):
                raise NotFound.of("table", reference.name.partition(MARK)[0], self.tables())
        text = time_travel.splice(sql, {each: name for each, (name, _) in named.items()}, dialect=self.dialect)
        unknown = tuple(each for each in references if each not in named and each.role == "read")
        return Bound(text, dict(named.values()), unknown)

    def without(self, view: str) -> Binder:
        """Return what binds the query of a view, which never means itself."""
        return replace(self, views={name: query for name, query in self.views.items() if name != view})

    def _source(self, reference: TableReference) -> Source | None:
        source = self.lookup(reference.name, self._version(reference.clause))
        if source is not None and reference.role == "write":
            hint = (
                "SQL only reads; ingest adds rows, rollback undoes a load, and single rows cannot be changed or deleted"
            )
            raise InvalidInput(f"SQL cannot change table {source.table!r}", hint=hint)
        return source

    def _view(self, reference: TableReference, name: str) -> Bound | None:
        key = reference.name.casefold()
        if key not in self.views or reference.role == "write":
            return None
        if reference.clause is not None:
            hint = "put the version clause behind a table's name, in the view"
            raise InvalidInput(f"{reference.name!r}, a view, has no versions", hint=hint)
        return self.without(key).bind(self.views[key], prefix=name)

    def _is_system_table(self, sql: str, reference: TableReference) -> bool:
        """Return whether a name can be nothing but a system table's: an engine has none that is so written."""
        quoted = any(quote in sql[reference.start : reference.end] for quote in _QUOTES)
        return not quoted and reference.name.rpartition(MARK)[2].casefold() in SYSTEM_TABLES and MARK in reference.name

    def _version(self, clause: VersionClause | None) -> VersionReference | None:
        if clause is None:
            return None
        value: Any = clause.literal
        if clause.kind == "timestamp" and isinstance(value, int):
            try:  # seconds since 1970, as Spark and the table formats on it read a number
                return parse_moment(EPOCH + timedelta(seconds=value))
            except OverflowError as error:
                hint = "write '2026-11-01 10:00:00', or seconds since 1970"
                raise InvalidInput(f"no time {value}", hint=hint) from error
        if value is None:
            value = self._evaluated(clause)
        if clause.kind == "timestamp":
            return parse_moment(value)
        return parse_version(value) if clause.kind == "version" else parse_reference(value)

    def _evaluated(self, clause: VersionClause) -> Any:
        """Return the value of an expression behind AS OF."""
        kind = "TIMESTAMPTZ" if self.dialect == "duckdb" else "TIMESTAMP"
        expression = f"({clause.text})"
        value = self.evaluate(f"SELECT {f'CAST({expression} AS {kind})' if clause.kind == 'timestamp' else expression}")
        if value is None:
            hint = "write an expression that gives a value"
            raise InvalidInput(f"{clause.text!r} behind AS OF is null", hint=hint)
        return value


def explained(error: SleeperError, bound: Bound, names: Callable[[], tuple[str, ...]]) -> SleeperError:
    """Return the error of an engine as ours, when it is about a table that could be meant to be ours, or a column."""
    if found := _NO_COLUMN.search(error.message):
        return _without_column(found[2], found[1], bound)
    if found := _SYNTAX.search(error.message):
        return _with_quotes(error, found[1], bound)
    unknown = bound.unknown
    tables = names() if unknown else ()
    for reference in unknown:
        table, _, part = reference.name.rpartition(".")
        if table in tables and part.casefold() in SYSTEM_TABLES:
            return NotFound(f"no table {reference.name!r}", hint=f"write {table}{MARK}{part}")
    ours = [reference for reference in unknown if len(reference.parts) == 1 or reference.parts[-1] in tables]
    missing = next((reference.name for reference in ours if _blames(error, reference.parts[-1])), None)
    return error if missing is None else NotFound.of("table", missing, tables)


def _without_column(name: str, table: str, bound: Bound) -> InvalidInput:
    """Return DuckDB's error of a column behind a table's name, which has no candidates of its own."""
    plans = (source.rows for source in bound.sources if isinstance(source.rows, ScanPlan))
    near = difflib.get_close_matches(name, {column for plan in plans for column in plan.schema.names})
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else None
    return InvalidInput(f"no column {name!r} of {table!r}", hint=hint)


def _with_quotes(error: SleeperError, near: str, bound: Bound) -> SleeperError:
    """Return DuckDB's error of its syntax with a hint, when a column's name there is a word of SQL."""
    plans = (source.rows for source in bound.sources if isinstance(source.rows, ScanPlan))
    for name in {column for plan in plans for column in plan.schema.names}:
        as_value = rf"(?:\bselect|[,(=<>.])\s*{name}\s*(?:[,)=<>]|\bfrom\b|$)"
        is_meant = name.casefold() == near.casefold() or re.search(as_value, bound.text, re.IGNORECASE)
        if name.upper() in RESERVED and is_meant:
            hint = f'{name} is a word of SQL; write the column in quotes: "{name}"'
            return InvalidInput(error.message, hint=hint)
    return error


def _blames(error: SleeperError, name: str) -> bool:
    text = f"{error.message} {error.hint or ''}".casefold()
    absent = ("no table", "does not exist", "not found", "cannot be found", "table_or_view_not_found")
    return any(words in text for words in absent) and name.casefold() in text
