"""Bind a statement: find each table that it names at its version, and put a generated name in its place.

`Binder.bind` returns a `Bound`: the statement with generated names, and what each name stands for. The engines give
these names to relations, and run the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import count
from typing import Any, Final, Protocol

import pyarrow as pa

from sleeper_nb.errors import Action, InvalidInput, NotFound
from sleeper_nb.maintain.system_tables import MARK, SYSTEM_TABLES, SystemRows
from sleeper_nb.model.snapshots import (
    EPOCH,
    VersionReference,
    parse_moment,
    parse_reference,
    parse_version,
)
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.model.times import TIME_HINT
from sleeper_nb.read.file_statistics import value_columns_used
from sleeper_nb.read.predicate import ALWAYS_TRUE, Pruning, PushedPredicates, regions_text
from sleeper_nb.read.read_rows import check_files
from sleeper_nb.read.scan_plan import ScanPlan, TableRows
from sleeper_nb.sql.bound_lakes import ANY_LAKE, BoundLake, LakeAccess, lake_of
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.error_place import Texts, put_place
from sleeper_nb.sql.parameters import with_own_parameters
from sleeper_nb.sql.references import TableReference, lake_references, table_references
from sleeper_nb.sql.statement import Replacement, Statement
from sleeper_nb.sql.tokens import quote_name
from sleeper_nb.sql.variables import BoundVariable, Variables
from sleeper_nb.sql.version_clause import VersionClause
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.leases import ReadGuard
from sleeper_nb.versions.resolve import Resolved

GENERATED_PREFIX: Final = "__sleeper"
"""How the names begin that stand for tables in a bound statement."""
_NOT_IN_PLAN = "the plan of the engine does not read it"
_QUOTES = ('"', "`")
_INFORMATION: Final = "information_schema"


@dataclass(frozen=True, slots=True)
class BoundSource:
    """A table, or a system table, at a version, ready to be read.

    `reader` protects the files of a table while it is read, however much that is. `keys` says for users which row keys
    are read, or why all are. With places, the columns `deletions.PLACES` follow those of the table.
    """

    table: str
    resolved: Resolved
    rows: TableRows | SystemRows
    storage: Storage
    reader: ReadGuard | None = None
    keys: str = ""
    with_places: bool = False

    def __str__(self) -> str:
        return f"{self.table} at {self.resolved}"

    @property
    def bytes(self) -> int:
        """How much is read at most; 0 for metadata."""
        return 0 if self.plan is None else self.plan.bytes

    @property
    def plan(self) -> ScanPlan | None:
        """What is read of a table, and what is skipped; None for metadata."""
        return self.rows.plan if isinstance(self.rows, TableRows) else None

    def check_files(self) -> None:
        """Raise for the first local file that is gone, or is not as it was written (`read_rows.check_files`).

        A bucket is not asked: our own reader reads its files, and names the one that fails.
        """
        if self.plan is not None and self.storage.local:
            check_files(self.plan.files, self.storage)

    @property
    def guard(self) -> ReadGuard | None:
        """What protects the data files during the read; None for metadata."""
        return None if self.reader is None else replace(self.reader, bytes=self.bytes)


class ReadableVersion(Protocol):
    """A version of a table, as SQL reads it."""

    def source(self) -> BoundSource: ...
    def system_table(self, suffix: str, /) -> BoundSource: ...


class ReadableTable(Protocol):
    """A table, or a table at a version, as SQL reads it."""

    @property
    def name(self) -> str: ...

    def at(self, reference: VersionReference | None, /) -> ReadableVersion:
        """Return the version that a statement asks for; the table's own when it asks for none."""


BoundRows = BoundSource | BoundVariable | BoundLake
"""What a generated name stands for, other than the statement of a view."""
Lookup = Callable[[str, VersionReference | None], BoundSource | None]
"""Returns the source of a table's name at a version; None when there is no table of that name."""


@dataclass(frozen=True)
class Bound:
    """A statement that an engine can run once it knows what the generated names in it stand for.

    `named` says what each stands for; `unknown` are tables that are read or described and are not ours, but may be the
    engine's; `written` is the statement as it was before, None for one that this package wrote.
    """

    statement: Statement
    named: Mapping[str, BoundRows | Bound]
    unknown: tuple[TableReference, ...]
    written: Statement | None = None

    @property
    def texts(self) -> Texts:
        """The text that the user wrote, and the one that is run; places in views are not known."""
        run = with_own_parameters(self.statement)
        has_views = any(isinstance(what, Bound) for what in self.named.values())
        written = self.written or self.statement
        return Texts(self.statement.after(len(run.tokens)) if has_views else written, run)

    @cached_property
    def sources(self) -> tuple[BoundSource, ...]:
        """Each table and version that is read, in the statement's order."""
        return tuple(what for what in self.read if isinstance(what, BoundSource))

    @property
    def plans(self) -> tuple[ScanPlan, ...]:
        return tuple(source.plan for source in self.sources if source.plan is not None)

    @property
    def variables(self) -> tuple[BoundVariable, ...]:
        """The variables that are read, each once."""
        return tuple({what.name: what for what in self.read if isinstance(what, BoundVariable)}.values())

    @property
    def read(self) -> tuple[BoundRows, ...]:
        """What is read, also by the views, in the statement's order."""
        return tuple(self.by_name.values())

    @cached_property
    def tables(self) -> dict[str, TableRows]:
        """The tables that are read, by generated name, those of views included."""
        sources = ((name, what.rows) for name, what in self.by_name.items() if isinstance(what, BoundSource))
        return {name: rows for name, rows in sources if isinstance(rows, TableRows)}

    @cached_property
    def lakes(self) -> dict[str, BoundLake]:
        """The tables of other formats that are read, by generated name, those of views included."""
        return {name: what for name, what in self.by_name.items() if isinstance(what, BoundLake)}

    @cached_property
    def with_places(self) -> frozenset[str]:
        """The generated names of the tables whose rows are read with their places."""
        read = self.by_name.items()
        return frozenset(name for name, what in read if isinstance(what, BoundSource) and what.with_places)

    @cached_property
    def by_name(self) -> dict[str, BoundRows]:
        """What is read, also by the views, by generated name."""
        found: dict[str, BoundRows] = {}
        for name, what in self.named.items():
            found |= what.by_name if isinstance(what, Bound) else {name: what}
        return found

    @property
    def unused_mark(self) -> str:
        """The beginning of names that occur nowhere in the statement or its views."""
        written = "\n".join(each.text for each in self.statements).lower()
        return next(mark for number in count() if (mark := f"__standin{number}_") not in written)

    def pruned(self, pushed: PushedPredicates) -> Bound:
        """Return the statement with its tables read only where rows can meet the pushed-down predicates.

        The engine runs the same statement, so it filters each row again.
        """
        return replace(self, named={name: _pruned(what, name, pushed) for name, what in self.named.items()})

    @property
    def absent(self) -> tuple[TableReference, ...]:
        """Tables that are read, also by the views, and are not ours."""
        of_views = (each for what in self.named.values() if isinstance(what, Bound) for each in what.absent)
        return (*self.unknown, *of_views)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        views = (what for what in self.named.values() if isinstance(what, Bound))
        return (self.statement, *(each for view in views for each in view.statements))


def _pruned(what: BoundRows | Bound, name: str, pushed: PushedPredicates) -> BoundRows | Bound:
    if isinstance(what, Bound):
        return what.pruned(pushed)
    if isinstance(what, BoundLake):
        return replace(what, predicate=pushed.predicates.get(name, ALWAYS_TRUE))
    if isinstance(what, BoundVariable) or not isinstance(what.rows, TableRows):
        return what
    if name not in pushed.predicates:
        return replace(what, keys=f"every key: {pushed.why_unknown or _NOT_IN_PLAN}")
    state, predicate = what.rows.state, pushed.predicates[name]
    pruning, by_keys = Pruning.of(predicate, state.schema), pushed.by_keys.get(name, "")
    keys = regions_text(pruning.regions, state.schema)
    if by_keys:
        keys = by_keys if pruning.regions is None else f"{keys} ({by_keys})"
    of_columns = (f"files by their {each}" for each in value_columns_used(predicate, state))
    keys = "; ".join([keys, *of_columns])
    return replace(what, rows=what.rows.pruned(pruning), keys=keys)


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds statements.

    `tables` returns the names of all tables, for the hint about a misspelt one; `evaluate` the value of a query of one
    row and column, as the engine computes it. `views` are the queries of the session's views, by name in lower case;
    each is read by the engine of its dialect. A table or view is read before a variable of the same name.
    """

    dialect: Dialect
    lookup: Lookup
    tables: Callable[[], tuple[str, ...]]
    evaluate: Callable[[Statement], Any]
    views: Mapping[str, Statement]
    variables: Variables
    access: LakeAccess = ANY_LAKE

    def bind(
        self, statement: Statement, references: tuple[TableReference, ...] | None = None, prefix: str = GENERATED_PREFIX
    ) -> Bound:
        """Bind the tables that a statement names at their versions; search them if no `references` are given.

        The generated names begin with `prefix`, which gets longer where the statement has it. `NotFound` when a table
        or version is unknown, naming the nearest; `InvalidInput` when a table would be written to, or a clause names no
        version.
        """
        if references is None:
            references = table_references(statement)
        while prefix in statement.text.lower():  # a WITH in it may have such a name
            prefix += "_"
        named: dict[TableReference, tuple[str, BoundRows | Bound]] = {}
        for reference in references:
            name = f"{prefix}_{len(named)}"
            at = reference.start if reference.clause is None else reference.clause.start
            with _placed_at(statement, at):
                _check_system_table(statement, reference)
                source: BoundRows | Bound | None = (
                    self._source(reference) or self._view(reference, name) or self._variable(reference)
                )
                source = source or self._information(reference)
            if source is not None:
                named[reference] = (name, source)
            elif reference.clause is not None or _is_system_table(statement, reference):
                with _placed_at(statement, reference.start):
                    raise NotFound.of("table", reference.name.partition(MARK)[0], self.tables())
        for reference in lake_references(statement):
            with _placed_at(statement, reference.start):
                named[reference] = (f"{prefix}_{len(named)}", lake_of(statement, reference, self.evaluate, self.access))
        renamed = with_names(statement, {reference: name for reference, (name, _) in named.items()})
        unknown = tuple(each for each in references if each not in named and each.role in {"read", "describe"})
        return Bound(renamed, dict(named.values()), unknown, statement)

    def without(self, view: str) -> Binder:
        """Return a binder for the query of a view, in which the view's own name means a table."""
        return replace(self, views={name: query for name, query in self.views.items() if name != view})

    def _source(self, reference: TableReference) -> BoundSource | None:
        source = self.lookup(reference.name, self._version(reference.clause))
        if source is not None and reference.role == "write":
            hint = "begin the statement with INSERT INTO, DELETE FROM, UPDATE or MERGE INTO"
            raise InvalidInput(f"this statement cannot change table {source.table!r}", hint=hint)
        return source

    def _view(self, reference: TableReference, name: str) -> Bound | None:
        key = reference.name.casefold()
        if key not in self.views or reference.role == "write":
            return None
        if self.views[key].dialect != self.dialect:
            other = self.views[key].dialect
            there = Action(f"--engine {other}", f'engine="{other}"')
            raise NotFound(f"view {reference.name!r} is kept by {other}", hint=("run the statement there: ", there))
        if reference.clause is not None:
            hint = "put the version clause after a table's name, in the view"
            raise InvalidInput(f"view {reference.name!r} has no versions", hint=hint)
        return self.without(key).bind(self.views[key], prefix=name)

    def _variable(self, reference: TableReference) -> BoundVariable | None:
        if reference.clause is not None or reference.role == "write" or len(reference.parts) > 1:
            return None
        if reference.role == "describe" and reference.name.casefold() in _SHOWN_BY_DUCKDB:
            return None
        return self.variables.find(reference.name)

    def _information(self, reference: TableReference) -> BoundVariable | None:
        """Return what ``information_schema`` says of our tables and views, of which an engine knows nothing."""
        schema, _, name = reference.name.casefold().rpartition(".")
        if schema != _INFORMATION or reference.clause is not None:
            return None
        if name == "columns":
            hint = "write DESCRIBE t for the columns of one table"
            raise InvalidInput(f"{_INFORMATION}.columns does not know the columns of tables here", hint=hint)
        if name != "tables":
            return None
        kinds = dict.fromkeys(self.tables(), "BASE TABLE") | dict.fromkeys(self.views, "VIEW")
        columns = {"table_schema": ["main"] * len(kinds), "table_name": [*kinds], "table_type": [*kinds.values()]}
        return BoundVariable(reference.name, pa.table(columns), kind="view")

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
        """Return the value of an expression after AS OF: a statement of its own."""
        expression = f"({clause.text})"
        if clause.kind == "timestamp":
            expression = f"CAST({expression} AS {RULES[self.dialect].moment_type})"
        try:
            value = self.evaluate(Statement.of(f"SELECT {expression}", dialect=self.dialect))
        except InvalidInput as error:
            if clause.kind == "timestamp" and clause.text.isidentifier():  # a word such as yesterday, and no function
                raise InvalidInput(f"{clause.text!r} is not a time", hint=TIME_HINT) from error
            raise
        if value is None:
            raise InvalidInput(f"{clause.text!r} after AS OF is null", hint="write an expression that has a value")
        return value


@contextmanager
def _placed_at(statement: Statement, offset: int) -> Iterator[None]:
    """Show the user's line for an error about what is at an offset, also when it is one of a view or an expression."""
    try:
        yield
    except (InvalidInput, NotFound) as error:
        put_place(error, statement, offset)
        raise


def _check_system_table(statement: Statement, reference: TableReference) -> None:
    """Raise for a system table whose version does not come last: the rest would be read as a parameter."""
    clause = reference.clause
    if clause is None or clause.kind != "reference":
        return
    if suffix := _SUFFIX.match(statement.text, clause.end):
        version = statement.text[clause.start : clause.end]
        hint = f"write the version last: {reference.name}{suffix[0]}{version}"
        raise InvalidInput(f"{suffix[0]} comes after a version", hint=hint)


_SUFFIX: Final = re.compile(rf"{re.escape(MARK)}\w+")
"""How the name of a system table ends."""


def _is_system_table(statement: Statement, reference: TableReference) -> bool:
    """Return whether a name can only be a system table's: an engine has none that is so written."""
    quoted = any(quote in statement.text[reference.start : reference.end] for quote in _QUOTES)
    return not quoted and reference.name.rpartition(MARK)[2].casefold() in SYSTEM_TABLES and MARK in reference.name


_SHOWN_BY_DUCKDB: Final = frozenset({"schemas", "variables"})
"""What ``SHOW`` lists, and no variable of that name."""


def with_names(statement: Statement, names: Mapping[TableReference, str]) -> Statement:
    """Return a statement with generated names in place of some of its tables; every other character stays as it is.

    A relation without an alias gets its own name as alias, so that ``flights.carrier`` still resolves. Raises for
    ``WITH (…)`` options, which a view would silently ignore.
    """
    edits: list[Replacement] = []
    for reference, name in names.items():
        edits += _edits(reference, quote_name(name, dialect=statement.dialect), statement.dialect)
    return statement.replaced([*edits, *_quoted_uses(statement, names)])


def _edits(reference: TableReference, name: str, dialect: Dialect) -> list[Replacement]:
    """Return what replaces a reference: its name, its clause, and the alias that it needs then."""
    if reference.has_options:
        raise InvalidInput(
            f"{reference.name!r} takes no WITH (…) options",
            hint=f"write {reference.name} VERSION AS OF 'savepoint.3'",
        )
    edits = [Replacement(reference.start, reference.end, name)]
    clause = reference.clause
    if clause is not None and clause.start >= reference.end:
        edits.append(Replacement(clause.start, clause.end))
    if reference.alias_at is not None and reference.role != "describe":
        alias = quote_name(reference.parts[-1], dialect=dialect)
        edits.append(Replacement(reference.alias_at, reference.alias_at, f"AS {alias}"))
    return edits


def _quoted_uses(statement: Statement, replaced: Mapping[TableReference, str]) -> list[Replacement]:
    """Quote ``flights$files`` where it qualifies a column and the engine's parser refuses ``$``."""
    names = {r.parts[-1].casefold() for r in replaced if r.alias_at is not None and "$" in r.parts[-1]}
    if statement.rules.dollar_in_names or not names:
        return []
    return [
        Replacement(token.start, token.end, quote_name(token.text, dialect=statement.dialect))
        for token in statement.tokens
        if token.kind == "word"
        and token.text.casefold() in names
        and not any(r.start <= token.start < r.end for r in replaced)
    ]


def lookup_in(find: Callable[[str, VersionReference | None], ReadableVersion | None]) -> Lookup:
    """Return the lookup of tables and their system tables for one statement; `find` returns None for no such table.

    Each version of a table is looked up once: wherever a statement names it in the same way, it reads the same, even if
    another writer commits during the lookups.
    """
    versions: dict[tuple[str, VersionReference | None], ReadableVersion] = {}

    def source(name: str, reference: VersionReference | None) -> BoundSource | None:
        base, mark, suffix = name.partition(MARK)
        key = (base.casefold(), reference)
        if key not in versions:
            version = find(base, reference)
            if version is None:
                return None
            versions[key] = version
        return versions[key].system_table(suffix) if mark else versions[key].source()

    return source


def metadata_lookup(table: ReadableTable) -> Lookup:
    """Return the lookup of the system tables of one table, by short names too; by default at its own version."""
    found = lookup_in(lambda _, reference: table.at(reference))

    def source(name: str, reference: VersionReference | None) -> BoundSource | None:
        base, mark, suffix = name.rpartition(MARK)
        is_of_table = base.casefold() == table.name.casefold() if mark else suffix.casefold() in SYSTEM_TABLES
        return found(f"{table.name}{MARK}{suffix}", reference) if is_of_table else None

    return source
