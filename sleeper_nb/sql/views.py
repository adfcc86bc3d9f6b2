"""Views of a session: ``CREATE TEMP VIEW`` and ``DROP VIEW`` of queries over tables at versions.

An engine would keep a view's text, in which our tables are unknown to it. So the session keeps the query as it was
written, and it is bound each time that the view is read: a table without a clause is the current one of that moment, a
table with a clause stays at its version. So it is on both engines, whatever the view reads: it outlives Spark's JVM.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass

from sleeper_nb.errors import Action, AlreadyExists, InvalidInput, NotFound
from sleeper_nb.sql import statement as time_travel
from sleeper_nb.sql.references import TableReference
from sleeper_nb.sql.statement import Binder

_CREATE = re.compile(
    r"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?(?P<temporary>TEMP(?:ORARY)?\s+)?VIEW\s+(?P<unless>IF\s+NOT\s+EXISTS\s)?",
    re.IGNORECASE,
)
_MAKES_VIEW = re.compile(r"\s*CREATE\b[\w\s]*\bVIEW\b", re.IGNORECASE)
_MAKES_TABLE = re.compile(r"\s*(CREATE|REPLACE)\b[\w\s]*\bTABLE\b", re.IGNORECASE)
_USING = re.compile(r"\s*(\([^()]*\))?\s*USING\b", re.IGNORECASE)
_DROP = re.compile(r"\s*DROP\s+VIEW\s+(?P<if_there>IF\s+EXISTS\s)?", re.IGNORECASE)
_QUERY = re.compile(r"\s*(?P<columns>\([^()]*\))?\s*AS\b(?P<query>.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A view that a statement makes; drops, when its query is None."""

    name: str
    query: str | None

    @property
    def key(self) -> str:
        """The name in small letters: views are found in any case."""
        return self.name.casefold()

    def apply(self, views: MutableMapping[str, str]) -> None:
        """Make the change; nothing happens when the view to drop is not there."""
        views.pop(self.key, None)
        if self.query is not None:
            views[self.key] = self.query


def changed_view(sql: str, references: tuple[TableReference, ...], binder: Binder) -> ViewChange | None:
    """Return what a statement does to the session's views; None when that is nothing, or up to the engine.

    Raises
    ------
    InvalidInput
        When the statement makes what the next one would look for in vain, or the view would need parameters.
    AlreadyExists, NotFound
        When the view is there already, or is not there.
    """
    name = next((reference.name for reference in references if reference.role == "write"), None)
    if name is None:
        return None
    binder.bind(sql, references)  # or it raises: a table of ours is never written to
    start = time_travel.start_of(sql, dialect=binder.dialect)
    if dropped := _DROP.match(sql, start):
        if binder.dialect == "spark" and name.casefold() not in binder.views and not dropped["if_there"]:
            return None  # it may be one of Spark's own
        return _dropped(name, binder, if_there=bool(dropped["if_there"]))
    created = _CREATE.match(sql, start)
    if created is not None and created["temporary"]:
        end = next(reference.end for reference in references if reference.role == "write")
        if binder.dialect == "spark" and _USING.match(sql, end):
            return None  # of files and their options, which Spark alone keeps
        return _created(name, created, _QUERY.match(sql, end), binder)
    if _MAKES_VIEW.match(sql, start):
        hint = f"write CREATE TEMP VIEW {name} AS …, which the session keeps"
        raise InvalidInput(f"{name!r} would be gone after the statement", hint=hint)
    if _MAKES_TABLE.match(sql, start):
        creating = Action(f"create {name}", f"session.create_table({name!r}, …)")
        raise InvalidInput(
            f"SQL makes no tables: {name!r} would be in no warehouse",
            hint=("create a table with ", creating, f" and ingest rows; or write CREATE TEMP VIEW {name} AS …"),
        )
    return None


def _dropped(name: str, binder: Binder, *, if_there: bool) -> ViewChange | None:
    if name.casefold() in binder.views or if_there:
        return ViewChange(name, None)
    raise NotFound.of("view", name, binder.views)


def _created(name: str, created: re.Match[str], found: re.Match[str] | None, binder: Binder) -> ViewChange:
    if found is None:
        raise InvalidInput(f"cannot read the view {name!r}", hint=f"write CREATE TEMP VIEW {name} AS SELECT …")
    there = binder.views.get(name.casefold())
    if there is not None and created["unless"]:
        return ViewChange(name, there)
    if there is not None and not created["replace"]:
        hint = f"write CREATE OR REPLACE TEMP VIEW {name} AS …"
        raise AlreadyExists(f"view {name!r} is there already", hint=hint)
    query = found["query"].strip().removesuffix(";")
    if time_travel.bind_names(query, dialect=binder.dialect):
        raise InvalidInput(f"view {name!r} cannot have parameters", hint="write their values in its query")
    if found["columns"]:
        query = f"SELECT * FROM (\n{query}\n) AS named{found['columns']}"  # noqa: S608 - the user's own query
    return ViewChange(name, query)
