"""What to do about data that does not fit a table, as values: what is called writes them in its own words.

Data is compared with a schema, which knows neither the table's name nor what is called. So the parts of a hint that
depend on these are values: an option of a load, a conversion, a change of the table, and what a dry run would say. A
load names its table in them, a statement has no options to offer, and of a table that is created the definition can
still be changed. `text` says what a load of a table takes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Literal

from sleeper_nb.errors import Action, Hint, HintParts, InvalidInput, hint_text, parts_of

IGNORE_EXTRA: Final = Action("--ignore-extra", "ignore_extra=True")
BY_NAME: Final = Action("--by-name", "by_name=True")
CAST: Final = Action("--cast", "cast=True")
QUARANTINE: Final = Action("--quarantine bad.parquet", "quarantine='bad.parquet'")


@dataclass(frozen=True, slots=True)
class LoadOption:
    """An option of a load that forgives a difference; the words before it go with it where there are no options."""

    before: str
    option: Action

    def text(self, prefix: str) -> str:
        return hint_text((self.before, self.option), prefix)


OR_IGNORE_EXTRA: Final = LoadOption(", or add ", IGNORE_EXTRA)
LEFT_OUT: Final = LoadOption(" with ", IGNORE_EXTRA)
OR_BY_NAME: Final = LoadOption(", or add ", BY_NAME)


@dataclass(frozen=True, slots=True)
class Cast:
    """The values are to be converted to a type of SQL: a load has an option for that."""

    of_type: Literal["STRING", "BOOLEAN", "DOUBLE"]

    def text(self, prefix: str) -> str:
        return hint_text(("add ", CAST), prefix)


@dataclass(frozen=True, slots=True)
class OnTable:
    """A command on the table that the data is for."""

    # command, rest: as they are typed before and after the table's name
    command: str
    rest: str
    python: str  # the same in Python
    defined: str  # what to do instead while the table is only being defined
    table: str = ""  # the table's name; "" where only a schema is known

    def text(self, prefix: str) -> str:
        table = shlex.quote(self.table) if self.table else "<table>"
        return Action(f"{self.command} {table} {self.rest}", self.python).text(prefix)


@dataclass(frozen=True, slots=True)
class UnevenLines:
    """A line of a file has too many or too few values: a load can keep such lines in a file."""

    may_all_end_so: bool = False  # whether all lines of the file may end with a delimiter too many
    into: Action = QUARANTINE  # the option that names the file

    def text(self, prefix: str) -> str:
        return hint_text((*self._first, "correct the line; an ingest with ", self.into, *_KEEPS_LINES), prefix)

    @property
    def defined(self) -> HintParts:
        """What to do while the table is only being defined: rows are kept back by a load of a table."""
        creating = Action("create T --schema FILE", "session.create_table('T', sl.Schema(…))")
        ingesting = Action(f"ingest T SRC {QUARANTINE.line}", f"table.ingest(…, {QUARANTINE.python})")
        defining: HintParts = ("correct the line; or define the table first with ", creating, ": ", ingesting)
        return (*self._first, *defining, *_KEEPS_LINES)

    @property
    def _first(self) -> HintParts:
        if not self.may_all_end_so:
            return ()
        return ("if every line ends with a delimiter too many, add ", IGNORE_EXTRA, "; or ")


_KEEPS_LINES: Final = (
    " keeps such lines in a file, and loads the others; to skip lines above the header, add ",
    Action("--read skip-lines=N", "skip_lines=N"),
)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run says besides the difference that a load has raised."""

    words: str
    is_alone: bool = False

    def text(self, prefix: str) -> str:  # noqa: ARG002 - the same at each face
        """Return the words, after a semicolon if others are before them."""
        return self.words if self.is_alone else f"; {self.words}"


SAYS_CHANGES: Final = "a dry run says for each what to change"
LISTS_MORE: Final = "there may be more differences: a dry run lists all, with what to change"

Conversion = Literal["statement", "new value", "new rows"]
"""What takes values without options of a load: a statement of SQL, a value of an update, or rows of Python."""
_IN_PYTHON: Final = {
    "STRING": ("a text", "str(x)"),
    "BOOLEAN": ("a bool", "to True"),
    "DOUBLE": ("a number", "int(x)"),
}
"""What a value of a type of SQL is in Python, and how another one becomes it."""


def from_text(text: str | None) -> Hint | None:
    """Return the hint of an error that another process has written: what a dry run says is a part of its own."""
    for words in (SAYS_CHANGES, LISTS_MORE):
        if text is not None and text.endswith(words):
            before = text.removesuffix(words).removesuffix("; ")
            return (before, DryRun(words)) if before else DryRun(words, is_alone=True)
    return text


def for_table(hint: Hint, name: str) -> HintParts:
    return tuple(replace(part, table=name) if isinstance(part, OnTable) else part for part in parts_of(hint))


def for_new_table(hint: Hint) -> HintParts:
    """Return a hint that changes a table's definition where it would alter the table, which does not exist yet."""
    parts = [part.defined if isinstance(part, OnTable) else part for part in parts_of(hint)]
    return tuple(chain.from_iterable(part.defined if isinstance(part, UnevenLines) else (part,) for part in parts))


def for_change(hint: Hint, conversion: Conversion | None) -> HintParts:
    """Return a hint of a load for a change of rows; a dry run of that lists no differences.

    With None for the conversion it takes the options of a load, as an upsert does.
    """
    parts = _without_dry_run(hint)
    if conversion is None:
        return parts
    given = (part for part in parts if not isinstance(part, LoadOption))
    written = (_converted(part.of_type, conversion) if isinstance(part, Cast) else (part,) for part in given)
    return tuple(chain.from_iterable(written))


def keeping_in(hint: Hint, option: Action) -> HintParts:
    parts = (replace(part, into=option) if isinstance(part, UnevenLines) else part for part in parts_of(hint))
    return tuple(option if part == QUARANTINE else part for part in parts)


@contextmanager
def note_more_differences() -> Iterator[None]:
    """Say with an error about data that a dry run lists all differences, as the load ended at the first."""
    try:
        yield
    except InvalidInput as error:
        parts = _without_dry_run(error.hint_parts)
        error.hint = (*parts, DryRun(LISTS_MORE, is_alone=not parts))
        raise


@contextmanager
def name_table_in_hints(name: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        error.hint = for_table(error.hint_parts, name)
        raise


def _without_dry_run(hint: Hint) -> HintParts:
    return tuple(part for part in parts_of(hint) if not isinstance(part, DryRun))


def _converted(of_type: str, conversion: Conversion) -> HintParts:
    """Return how a value becomes one of a type, where no option of a load does it."""
    if conversion == "statement":
        return (f"write CAST(… AS {of_type})",)
    if conversion == "new rows":
        return (f"convert it first, such as {_IN_PYTHON[of_type][1]}",)
    python = f"CAST(… AS {of_type}) in updates, or give {_IN_PYTHON[of_type][0]} in new_values"
    return ("write ", Action(f'--set "… = CAST(… AS {of_type})"', python))
