"""What the Tab key offers after a command: options, their values, and names of tables, versions, columns and variables.

A notebook and the shells ask the same `CommandCompleter`. Names come from a `KnownNames`, so it knows neither sessions
nor files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.command import READ_KEYS, Argument, Command
from sleeper_nb.commands.parse import HELP, move_shared_last
from sleeper_nb.model.properties import PROPERTIES, InstanceProperties
from sleeper_nb.sql_text import next_words

FileKind = Literal["", "data", "any"]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The words that can replace the end of a text.

    Parameters
    ----------
    fragment
        The end of the text that a word replaces.
    words
        They begin as the fragment does, in any case.
    goes_on
        Whether a word may be followed by more, so that no space follows it.
    files
        Whether files are offered too: none, those with rows, or any.
    """

    fragment: str = ""
    words: tuple[str, ...] = ()
    goes_on: bool = False
    files: FileKind = ""


NOTHING = Candidates()


class KnownNames(Protocol):
    """The names that exist; those of a thing that is not found are none, or an error."""

    def tables(self) -> Sequence[str]: ...

    def columns(self, table: str) -> Sequence[str]: ...

    def row_keys(self, table: str) -> Sequence[str]: ...

    def savepoints(self, table: str) -> Sequence[str]: ...

    def versions(self, table: str) -> Sequence[str]:
        """Return what can follow the @ of a table: savepoints and snapshots."""

    def variables(self, *, with_rows: bool = False) -> Sequence[str]:
        """Return the user's variables, or those that a load reads."""

    def data_columns(self, source: str) -> Sequence[str]:
        """Return the columns of ``$name`` or a file."""

    def instances(self) -> Sequence[str]: ...

    def of_instance(self, instance: str) -> KnownNames: ...


@dataclass(frozen=True, slots=True)
class TypedWords:
    """A line as a shell reads it, up to the cursor.

    Parameters
    ----------
    words
        The words before the last, without their quotes.
    last
        The word that the cursor is in, without quotes; empty after a space.
    raw
        The same as it was typed; if a quote is open, from there on.
    quote
        The quote that is open.
    """

    words: tuple[str, ...]
    last: str
    raw: str
    quote: str


def split_typed(text: str) -> TypedWords:
    """Cut a line into words, of which the last may not be finished."""
    words: list[str] = []
    word, quote, is_escaped, is_word, begins = "", "", False, False, 0
    for at, character in enumerate(text):
        if not (is_word or character.isspace()):
            is_word, begins = True, at
        if is_escaped:
            word, is_escaped = word + character, False
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            word, quote = (word, "") if character == quote else (word + character, quote)
        elif character in "'\"":
            quote, begins = character, at + 1
        elif not character.isspace():
            word += character
        elif is_word:
            words.append(word)
            word, is_word = "", False
    return TypedWords(tuple(words), word, text[begins:] if is_word else "", quote)


_SPECIAL = re.compile(r"([^\w@%+=:,./~-])")
"""A character that a line reads as itself only after a backslash, or in quotes."""


def as_one_word(text: str) -> str:
    """Return a text as a word without quotes, which a line and a shell read as that text."""
    return _SPECIAL.sub(r"\\\1", text)


@dataclass(slots=True)
class _Before:
    """What the words before the cursor said: the table, the data, and where names come from."""

    names: KnownNames
    table: str = ""
    source: str = ""

    def note(self, argument: Argument, word: str) -> None:
        if argument.kind in {"table", "version", "configured"} and not argument.is_option:
            self.table = word
        elif argument.kind == "source":
            self.source = word
        elif argument.kind == "instance":
            self.names = self.names.of_instance(word)


_COLUMN_FOLLOWS = re.compile(
    r"(?:^|[-+*/%<>=!(,|.:]|\b(?:and|or|not|when|then|else|case|in|like|ilike|between|by|on|where|having|select)\s)\s*$",
    re.IGNORECASE,
)
"""What is before a column in a condition; after a column or a value comes an operator."""
_TABLE_FOLLOWS = re.compile(r"\b(?:from|join)\s+$", re.IGNORECASE)


class CommandCompleter:
    """Completes commands.

    Parameters
    ----------
    names
        The names that exist.
    shared
        Options that every command takes.
    """

    def __init__(self, names: KnownNames, shared: tuple[Argument, ...] = ()) -> None:
        self._names = names
        self._shared = {name: argument for argument in shared for name in argument.names}

    def complete(self, typed: str, cell: str = "") -> Candidates:
        """Return the candidates for the end of what was typed after ``%sleeper`` or ``sleeper``.

        Parameters
        ----------
        typed
            The text up to the cursor.
        cell
            The whole cell, where there is one: its other lines may name tables.
        """
        line = split_typed(typed)
        words = move_shared_last(list(line.words), tuple(self._shared))
        if words and words[0] in self._shared and len(words) == 1:
            return self._value(self._shared[words[0]], _Before(self._names), line.last)
        if not words or words[0].partition("=")[0] in self._shared:
            is_option = line.last.startswith("-")
            return _starting(line.last, (*self._shared, *HELP[1:]) if is_option else COMMANDS.by_name)
        command = COMMANDS.by_name.get(words[0])
        return NOTHING if command is None else self._argument(command, words[1:], line.last, (typed, cell))

    def _argument(self, command: Command, words: list[str], last: str, text: tuple[str, str]) -> Candidates:
        options, places, due = {**command.options, **self._shared}, list(command.positionals), None
        before = _Before(self._names)
        for word in words:
            if due is not None:
                before.note(due, word)
                due = None
            elif not places and command.sql and not word.startswith("-"):
                return self._sql(command, *text)
            elif word in options:
                due = options[word] if options[word].takes_value else None
            elif places and not (word.startswith("--") and "=" in word):
                before.note(places[0], word)
                places = places if places[0].many else places[1:]
        if due is not None:
            return self._value(due, before, last)
        name, equals, value = last.partition("=")
        if equals and name in options and options[name].takes_value:
            return self._value(options[name], before, value)
        if last.startswith("-"):
            offered = (name for name in options if name.startswith("--") and (options[name].many or name not in words))
            return _starting(last, (*offered, *HELP[1:]))
        if not places:
            return self._sql(command, *text) if command.sql else NOTHING
        return self._value(places[0], before, last)

    def _value(self, argument: Argument, before: _Before, last: str) -> Candidates:
        if argument.choices:
            return _starting(last, argument.choices)
        match argument.kind:
            case "source" | "path":
                return self._data(last, files="data" if argument.kind == "source" else "any")
            case "columns":
                return _listed(last, before.names.columns(_table_of(before)))
            case "data_columns":
                return _listed(last, before.names.data_columns(before.source)) if before.source else NOTHING
            case "condition":
                return _in_condition(last, before.names, _table_of(before))
            case "assignment":
                columns = () if "=" in last else before.names.columns(_table_of(before))
                return _going_on(last, [f"{name}=" for name in columns])
            case "reading":
                return _going_on(last, [] if "=" in last else [f"{key}=" for key in READ_KEYS])
            case "region":
                fragment = last.rpartition(" ")[2]
                keys = () if "=" in fragment else before.names.row_keys(_table_of(before))
                return _going_on(fragment, [f"{name}=" for name in keys])
            case "version" | "reference" if "@" in last:
                name, _, reference = last.partition("@")
                return _starting(reference, before.names.versions(name))
        return _starting(last, self._names_of_kind(argument, before))

    def _names_of_kind(self, argument: Argument, before: _Before) -> Iterable[str]:
        names = before.names
        match argument.kind:
            case "table" | "version":
                return names.tables()
            case "savepoint":
                return names.savepoints(_table_of(before))
            case "snapshot":
                return [name for name in names.versions(_table_of(before)) if name.isdigit()]
            case "reference":
                return names.versions(_table_of(before))
            case "configured":
                return [*names.tables(), *InstanceProperties.defined]
            case "property":  # of no table: no table's name has a dot
                return PROPERTIES if before.table and "." not in before.table else InstanceProperties.defined
            case "command":
                return [command.name for command in COMMANDS.commands]
            case "instance":
                return names.instances()
        return ()

    def _data(self, last: str, files: FileKind) -> Candidates:
        """Return variables for ``$``; with rows, where rows are read, and there also before anything is typed."""
        if last.startswith("$"):
            with_rows = _starting(last[1:], self._names.variables(with_rows=True)) if files == "data" else NOTHING
            return with_rows if with_rows.words else _starting(last[1:], self._names.variables())
        variables = self._names.variables(with_rows=True) if files == "data" and not last else ()
        return Candidates(last, tuple(f"${name}" for name in variables), files=files)

    def _sql(self, command: Command, typed: str, cell: str) -> Candidates:
        found = next_words(typed, f"{typed}\n{cell}", self._names, only_system_tables=command.name == "inspect")
        return _going_on(found.fragment, found.words)


def _in_condition(text: str, names: KnownNames, table: str) -> Candidates:
    if text.count("'") % 2:  # within a text
        return NOTHING
    match = re.search(r"\w*$", text)
    fragment = match[0] if match else ""
    start = text.removesuffix(fragment)
    if _TABLE_FOLLOWS.search(start):
        return _going_on(fragment, names.tables())
    return _going_on(fragment, names.columns(table)) if _COLUMN_FOLLOWS.search(start) else NOTHING


def _listed(last: str, columns: Iterable[str]) -> Candidates:
    """Return the columns that may come next in ``a,b`` or ``Data=a,Other=b``."""
    fragment = re.split("[,=]", last)[-1]
    given = set(re.split("[,=]", last)[:-1])
    return _going_on(fragment.strip(), [name for name in columns if name not in given])


def _table_of(before: _Before) -> str:
    return before.table.partition("@")[0]


def _starting(fragment: str, words: Iterable[str]) -> Candidates:
    return Candidates(fragment, tuple(word for word in words if word.casefold().startswith(fragment.casefold())))


def _going_on(fragment: str, words: Iterable[str]) -> Candidates:
    return replace(_starting(fragment, words), goes_on=True)
