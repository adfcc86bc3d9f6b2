"""Views of a session: ``CREATE TEMP VIEW`` and ``DROP VIEW`` of queries over tables at versions.

An engine would keep a view's text, in which our tables are unknown to it. So the session keeps the query as it was
written, and binds it each time the view is read: a table without a clause is the current one of that moment, a table
with a clause stays at its version. This is so on both engines, and a view outlives Spark's JVM.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound
from sleeper_nb.sql.binding import Binder
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.parameters import parameter_names
from sleeper_nb.sql.references import TableReference
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import skip_brackets, spells


@dataclass(frozen=True, slots=True)
class ViewStatement:
    """What a statement does to the session's views; without a query, the session has no such view afterwards.

    If `by_engine`, the engine runs the statement: it makes or drops a view of its own.
    """

    name: str
    query: Statement | None
    by_engine: bool = False
    if_exists: bool = False

    @property
    def key(self) -> str:
        return self.name.casefold()

    def apply(self, views: MutableMapping[str, Statement]) -> None:
        """Make the change; nothing happens when the view to drop does not exist."""
        views.pop(self.key, None)
        if self.query is not None:
            views[self.key] = self.query


def changed_view(statement: Statement, references: tuple[TableReference, ...], binder: Binder) -> ViewStatement | None:
    """Return what a statement does to the session's views; None when it does nothing, or the engine decides.

    Raises when the statement makes something that would be lost after it, the view would need parameters, the view to
    create exists, or the view to drop does not.
    """
    target = next((reference for reference in references if reference.role == "write"), None)
    if target is None:
        return None
    binder.bind(statement, references)  # or it raises: the tables of the warehouse are never written to
    name, start = target.name, statement.index_from(target.start)
    words = tuple(token.word for token in statement.tokens[:start])
    if words in {_DROP, (*_DROP, "IF", "EXISTS")}:
        return _dropped(name, binder, if_exists=words != _DROP)
    replaces = words[1:3] == ("OR", "REPLACE")
    if words[:1] == ("CREATE",) and (created := _CREATES.get(words[3:] if replaces else words[1:])) is not None:
        rest = statement.after(statement.index_from(target.end))
        return _created(name, rest, binder, or_replace=replaces, if_not_exists=created)
    if words[:1] == ("CREATE",) and "VIEW" in words:
        hint = f"write CREATE TEMP VIEW {name} AS …, which the session keeps"
        raise InvalidInput("permanent views are not supported", hint=hint)
    if words[:1] in {("CREATE",), ("REPLACE",)} and "TABLE" in words:
        raise InvalidInput(
            f"{name!r} would be in no warehouse",
            hint=f"write CREATE TABLE {name} ROW KEYS (…) AS …, or CREATE TEMP VIEW {name} AS …",
        )
    return None


_DROP = ("DROP", "VIEW")
_CREATES = {
    (temporary, "VIEW", *more): bool(more)
    for temporary in ("TEMP", "TEMPORARY")
    for more in ((), ("IF", "NOT", "EXISTS"))
}
"""What may stand before the name of a view to create, and whether it says IF NOT EXISTS."""


def _dropped(name: str, binder: Binder, *, if_exists: bool) -> ViewStatement:
    """Return the change; the view may be one that the engine keeps."""
    if name.casefold() in binder.views:
        return ViewStatement(name, None)
    if RULES[binder.dialect].keeps_views:
        return ViewStatement(name, None, by_engine=True, if_exists=if_exists)
    if if_exists:
        return ViewStatement(name, None)
    raise NotFound.of("view", name, binder.views)


def _created(name: str, rest: Statement, binder: Binder, *, or_replace: bool, if_not_exists: bool) -> ViewStatement:
    """Return the change that creates a view; an engine that keeps views makes one of files (``USING``) itself.

    `rest` is what follows the name: perhaps the names of the columns, and ``AS`` and the query.
    """
    tokens = rest.tokens
    end_of_columns = skip_brackets(tokens, 0) if spells(tokens, 0, "(") else 0
    is_of_files = RULES[binder.dialect].keeps_views and spells(tokens, end_of_columns, "USING")
    if not is_of_files and not spells(tokens, end_of_columns, "AS"):
        raise InvalidInput(f"cannot read the view {name!r}", hint=f"write CREATE TEMP VIEW {name} AS SELECT …")
    existing = binder.views.get(name.casefold())
    if existing is not None and if_not_exists:
        return ViewStatement(name, existing)
    if existing is not None and not or_replace:
        hint = f"write CREATE OR REPLACE TEMP VIEW {name} AS …"
        raise AlreadyExists(f"view {name!r} already exists", hint=hint)
    if is_of_files:
        return ViewStatement(name, None, by_engine=True)
    query = rest.after(end_of_columns + 1)
    if parameter_names(query):
        raise InvalidInput(f"view {name!r} cannot have parameters", hint="write their values in its query")
    if end_of_columns:
        columns = rest.text[: tokens[end_of_columns - 1].end]
        text = f"SELECT * FROM (\n{query.text}\n) AS named{columns}"  # noqa: S608 - the user's own query
        query = Statement.of(text, dialect=rest.dialect)
    return ViewStatement(name, query)
