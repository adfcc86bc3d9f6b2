"""Completion after ``%sleeper``: commands, options, tables, versions and columns, from the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from IPython.core.completer import SimpleCompletion, context_matcher

from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.command import OUTPUT, Argument, ArgumentKind, Command
from sleeper_nb.commands.context import Context
from sleeper_nb.model.properties import PROPERTIES, InstanceProperties

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

    from sleeper_nb.model.savepoints import Savepoint
    from sleeper_nb.table import Table

_LINE = re.compile(r"(?:^|=)\s*%sleeper\s+(.*)$")
_CELL = re.compile(r"\s*%%sleeper\s+")
_SQL_WORD = re.compile(r"(?:(?P<table>\w[\w-]*)(?:\$\w+(?=@))?(?P<join>[@.$]))?(?P<word>[\w.:-]*)$")
_NAME = re.compile(r"[\w-]+")
_MOST_VERSIONS = 200

Found = tuple[str, list[str]]
"""The part of the text that is completed, and the words that can replace it."""


def sleeper_matcher(context: Context) -> Callable[[CompletionContext], dict[str, Any]]:
    """Return the function that IPython asks."""
    completer = SleeperCompleter(context)

    @context_matcher(identifier="sleeper_matcher")  # type: ignore[untyped-decorator]
    def matcher(request: CompletionContext) -> dict[str, Any]:
        return completer.answer(request)

    return cast("Callable[[CompletionContext], dict[str, Any]]", matcher)


class SleeperCompleter:
    """Completes commands; it never starts Spark, reads at most one version's metadata, and never raises."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._columns: dict[tuple[str, int], tuple[str, ...]] = {}

    def answer(self, request: CompletionContext) -> dict[str, Any]:
        """Return the completions in IPython's form; none, without suppressing others, for text that is not ours."""
        try:
            typed = typed_after_magic(request.full_text, request.cursor_line, request.cursor_position)
            fragment, words = ("", []) if typed is None else self.complete(typed, request.full_text)
        except Exception:  # noqa: BLE001 - a key that offers nothing is better than one that fails
            fragment, words = "", []
        if not words:
            return {"completions": [], "suppress": False}
        found = [SimpleCompletion(text=word, type="sleeper") for word in words[: request.limit]]
        return {"completions": found, "matched_fragment": fragment, "suppress": True, "ordered": True}

    def complete(self, typed: str, cell: str = "") -> Found:
        """Return the completions of a text that was typed after the magic in a cell."""
        words = typed.split()
        last = "" if not words or typed[-1].isspace() else words.pop()
        if not words:
            return _starting(last, COMMANDS.by_name)
        command = COMMANDS.by_name.get(words[0])
        return ("", []) if command is None else self._argument(command, words[1:], last, (typed, cell))

    def _argument(self, command: Command, words: list[str], last: str, text: tuple[str, str]) -> Found:
        options, places = {**command.options, **dict.fromkeys(OUTPUT.names, OUTPUT)}, list(command.positionals)
        table, due = "", None
        for word in words:
            if due is None and places == [] and command.sql and not word.startswith("-"):
                return self._sql(command, *text)
            if due is None and word in options:
                due = options[word] if options[word].takes_value else None
            elif due is None:
                place = places[0] if places else None
                table = word if place and place.kind in {"table", "version", "configured"} else table
                places = places if place and place.many else places[1:]
            else:
                due = None
        if due is not None:
            return self._value(due, table, last)
        if last.startswith("-"):
            return _starting(last, (*(n for n in options if n not in words and n.startswith("--")), "--help"))
        if not places:
            return self._sql(command, *text) if command.sql else ("", [])
        return self._value(places[0], table, last)

    def _value(self, argument: Argument, table: str, last: str) -> Found:
        if argument.choices:
            return _starting(last, argument.choices)
        if last.startswith("$"):
            return _starting(last[1:], self._context.own_variables())
        if argument.kind == "version" and "@" in last:
            name, _, reference = last.partition("@")
            return _starting(reference, self._versions(name))
        if argument.kind == "columns":
            return _starting(last.rpartition(",")[2], self._columns_of(table.partition("@")[0]))
        return _starting(last, self._names(argument.kind, table))

    def _names(self, kind: ArgumentKind, table: str) -> Iterable[str]:
        if kind in {"table", "version"}:
            return self._tables()
        if kind == "savepoint":
            return [point.name for point in self._savepoints(table) if point.name]
        if kind == "snapshot":
            return [name for name in self._versions(table) if name.isdigit()]
        if kind == "configured":
            return [*self._tables(), *InstanceProperties.defined]
        if kind == "property":  # of no table: no table's name has a dot
            return PROPERTIES if table and "." not in table else InstanceProperties.defined
        if kind == "reference":
            return self._versions(table.partition("@")[0])
        return [command.name for command in COMMANDS.commands] if kind == "command" else ()

    def _sql(self, command: Command, typed: str, cell: str) -> Found:
        match = _SQL_WORD.search(typed)
        word, before = (match["word"], match["table"]) if match else ("", None)
        if word.startswith(":"):
            return _starting(word[1:], self._context.own_variables())
        if command.name == "inspect" or (match and match["join"] == "$"):
            from sleeper_nb.operations.system_tables import (
                SYSTEM_TABLES,  # heavy: it brings pyarrow
            )

            return _starting(word, SYSTEM_TABLES)
        if match and match["join"] == "@":
            return _starting(word, self._versions(before or ""))
        tables = self._tables()
        if match and match["join"] == ".":
            return _starting(word, self._columns_of(before or "") if before in tables else ())
        written = set(_NAME.findall(f"{typed}\n{cell}"))
        used = [name for name in tables if name in written]
        columns = [column for name in used for column in self._columns_of(name)]
        return _starting(word, dict.fromkeys([*tables, *columns])) if word else ("", [])

    def _tables(self) -> list[str]:
        session = self._context.session
        return [] if session is None else [entry.name for entry in session.components.catalog.tables()]

    def _table(self, name: str) -> Table:
        return self._context.opened().table(name)

    def _versions(self, name: str) -> list[str]:
        catalog, table_id = self._context.opened().components.catalog, self._table(name).entry.id
        points = self._savepoints(name)
        return [
            *(point.reference for point in points if point.name),
            *(f"savepoint.{point.id}" for point in points),
            *(str(snapshot.id) for snapshot in catalog.snapshots(table_id)[:_MOST_VERSIONS]),
        ]

    def _savepoints(self, name: str) -> tuple[Savepoint, ...]:
        return self._context.opened().components.catalog.savepoints(self._table(name).entry.id)

    def _columns_of(self, name: str) -> tuple[str, ...]:
        table = self._table(name)
        at = table.at()
        key = (table.entry.id, at.resolved.version.schema_id)
        if key not in self._columns:
            self._columns[key] = at.schema.names
        return self._columns[key]


def typed_after_magic(cell: str, line: int, column: int) -> str | None:
    """Return the text between ``%sleeper`` or ``%%sleeper`` and the cursor; None when there is no magic."""
    lines = cell.split("\n")
    until = "\n".join([*lines[:line], lines[line][:column]])
    if whole := _CELL.match(until):
        return until[whole.end() :]
    one = _LINE.search(lines[line][:column])
    return one[1] if one else None


def _starting(fragment: str, words: Iterable[str]) -> Found:
    return fragment, [word for word in words if word.casefold().startswith(fragment.casefold())]
