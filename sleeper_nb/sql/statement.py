"""A SQL statement bound: each table that it names is found at its version, and a name of ours stands in its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.snapshots import (
    EPOCH,
    VersionReference,
    parse_moment,
    parse_reference,
    parse_version,
)
from sleeper_nb.operations.scanning.scan_plan import ScanPlan
from sleeper_nb.operations.system_tables import MARK, SYSTEM_TABLES, SystemRows
from sleeper_nb.operations.versioning.leases import ReadGuard
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.sql.references import TableReference, table_references
from sleeper_nb.sql.tokens import (
    DUCKDB_RESERVED,
    Dialect,
    bind_names,
    quote_name,
    to_duckdb_parameters,
    tokenize,
)
from sleeper_nb.sql.version_clause import VersionClause
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from sleeper_nb.table import Table
    from sleeper_nb.version import TableAt


# Put view names in place of the versioned tables of a SQL statement: text in, text out, for Spark and for DuckDB.

__all__ = [
    "Dialect",
    "TableReference",
    "VersionClause",
    "bind_names",
    "splice",
    "start_of",
    "statement_alone",
    "table_references",
    "to_duckdb_parameters",
]


def statement_alone(sql: str, *, dialect: Dialect) -> str:
    """Return a statement without the ``;`` at its end, and without comments behind that: DuckDB takes none there."""
    tokens = tokenize(sql, dialect=dialect)
    last = next((index for index in reversed(range(len(tokens))) if not tokens[index].is_symbol(";")), -1)
    return sql[: tokens[last + 1].start] if last + 1 < len(tokens) else sql


def start_of(sql: str, *, dialect: Dialect) -> int:
    """Return where a statement begins, after the comments before it."""
    return next((token.start for token in tokenize(sql, dialect=dialect)), 0)


def splice(sql: str, replacements: Mapping[TableReference, str], *, dialect: Dialect) -> str:
    """Replace references by views; every other character of the statement stays as it is.

    Parameters
    ----------
    sql
        The statement from which `table_references` read the keys of `replacements`.
    replacements
        The name of a view, not quoted, for each reference to replace; references left out stay as written.
    dialect
        How the names are quoted.

    Returns
    -------
    The statement. A relation without an alias gets its own name as one, so that ``flights.carrier`` still resolves.

    Raises
    ------
    InvalidInput
        A replaced table carries ``WITH (…)`` options, which a view would silently ignore, or a reference is not of this
        statement.
    """
    edits: list[tuple[int, int, str]] = []
    for reference, view in replacements.items():
        if reference.has_options:
            raise InvalidInput(
                f"{reference.name!r} takes no WITH (…) options",
                hint=f"write {reference.name} VERSION AS OF 'savepoint.3'",
            )
        edits.append((reference.start, reference.end, quote_name(view, dialect=dialect)))
        clause = reference.clause
        if clause is not None and clause.start >= reference.end:
            edits.append((clause.start, clause.end, ""))
        if reference.alias_at is not None:
            alias = quote_name(reference.parts[-1], dialect=dialect)
            edits.append((reference.alias_at, reference.alias_at, f" AS {alias}"))
    edits += _quoted_uses(sql, replacements, dialect)
    pieces, at = [], 0
    for start, end, text in sorted(edits):
        if start < at or end > len(sql):
            raise InvalidInput("these table references are not of this statement", hint="read them from the same text")
        pieces += [sql[at:start], text]
        at = end
    return "".join([*pieces, sql[at:]])


def _quoted_uses(sql: str, replaced: Mapping[TableReference, str], dialect: Dialect) -> list[tuple[int, int, str]]:
    """Quote ``flights$files`` where it stands before a column: Spark's parser takes no ``$``, DuckDB's does."""
    names = {r.parts[-1].casefold() for r in replaced if r.alias_at is not None and "$" in r.parts[-1]}
    if dialect != "spark" or not names:
        return []
    return [
        (token.start, token.end, quote_name(token.text, dialect=dialect))
        for token in tokenize(sql, dialect=dialect)
        if token.kind == "word"
        and token.text.casefold() in names
        and not any(r.start <= token.start < r.end for r in replaced)
    ]


_SYNTAX = re.compile(r'DuckDB: Parser Error: syntax error at or near "(\w+)"')
_NO_COLUMN = re.compile(r'"([^"]+)" does not have a column named "([^"]+)"')
_QUOTES = ('"', "`")


@dataclass(frozen=True, slots=True)
class BoundSource:
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


Lookup = Callable[[str, VersionReference | None], BoundSource | None]
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
    named: Mapping[str, BoundSource | Bound]
    unknown: tuple[TableReference, ...]

    @property
    def sources(self) -> tuple[BoundSource, ...]:
        """Each table and version that is read, in the statement's order."""
        found: list[BoundSource] = []
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
            references = table_references(sql, dialect=self.dialect)
        named: dict[TableReference, tuple[str, BoundSource | Bound]] = {}
        for reference in references:
            name = f"{prefix}_{len(named)}"
            found = self._source(reference) or self._view(reference, name)
            if found is not None:
                named[reference] = (name, found)
            elif reference.clause is not None or self._is_system_table(sql, reference):
                raise NotFound.of("table", reference.name.partition(MARK)[0], self.tables())
        text = splice(sql, {each: name for each, (name, _) in named.items()}, dialect=self.dialect)
        unknown = tuple(each for each in references if each not in named and each.role == "read")
        return Bound(text, dict(named.values()), unknown)

    def without(self, view: str) -> Binder:
        """Return what binds the query of a view, which never means itself."""
        return replace(self, views={name: query for name, query in self.views.items() if name != view})

    def _source(self, reference: TableReference) -> BoundSource | None:
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
        if name.upper() in DUCKDB_RESERVED and is_meant:
            hint = f'{name} is a word of SQL; write the column in quotes: "{name}"'
            return InvalidInput(error.message, hint=hint)
    return error


def _blames(error: SleeperError, name: str) -> bool:
    text = f"{error.message} {error.hint or ''}".casefold()
    absent = ("no table", "does not exist", "not found", "cannot be found", "table_or_view_not_found")
    return any(words in text for words in absent) and name.casefold() in text


# What finds the tables of one SQL statement: by name, at a version, with their system tables behind ``$``.


def lookup_in(find: Callable[[str], Table | None]) -> Lookup:
    """Return what finds tables and their system tables for one statement.

    Wherever the statement names one version of a table in the same way, it reads the same; so the current version is
    looked up once, whatever is committed meanwhile.

    Parameters
    ----------
    find
        Returns a table by its name; None when there is none.
    """
    found: dict[tuple[str, VersionReference | None], TableAt] = {}

    def source(name: str, asked: VersionReference | None) -> BoundSource | None:
        base, mark, suffix = name.partition(MARK)
        place = (base.casefold(), asked)
        if place not in found:
            here = find(base)
            if here is None:
                return None
            found[place] = here.at_reference(asked)
        return found[place].system_table(suffix) if mark else found[place].source()

    return source


def metadata_lookup(table: TableAt) -> Lookup:
    """Return what finds the system tables of one table, by short names too; without a version, those at its own.

    As in `lookup_in`, a version that one statement names several times is looked up once.
    """
    found: dict[VersionReference | None, TableAt] = {}

    def source(name: str, asked: VersionReference | None) -> BoundSource | None:
        base, mark, suffix = name.rpartition(MARK)
        is_one = base.casefold() == table.name.casefold() if mark else suffix.casefold() in SYSTEM_TABLES
        if not is_one:
            return None
        if asked not in found:
            found[asked] = table.at_reference(asked)
        return found[asked].system_table(suffix)

    return source
