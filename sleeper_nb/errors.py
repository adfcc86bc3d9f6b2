"""The errors: one class for each thing that a caller would do differently.

::

    SleeperError                     a message, and a hint that says what to do instead
    ├── InvalidInput  (ValueError)   change the arguments
    │   ├── NoDryRun                 the statement can be run, but not tried; nothing was changed
    │   └── OfOtherWarehouse         the instance's name is in use in the account and region; choose another
    ├── NotFound      (LookupError)  name something that exists; the hint lists the nearest candidates
    ├── AlreadyExists (ValueError)   choose another name, or use what exists
    │   └── JobDone                  the job id has made a snapshot before; nothing was changed
    ├── StateRuleBroken              the table's state does not allow this change; nothing was changed
    ├── ConflictError                other writers won every try; run it again
    ├── Cancelled                    background work was stopped; its earlier commits are kept
    ├── StillRunning  (TimeoutError) background work has not finished in the given time
    ├── ConfirmationNeeded           a deletion returns its plan; ``force=True``, typed ``--force``, runs it
    ├── NotAllowed                   a warehouse names code or a place outside it; allow it, if you trust it
    ├── StorageError                 a file, disk or server failed; fix that, then run it again
    │   ├── SessionClosed            the session was closed; open the warehouse again
    │   ├── CatalogDamaged           a row of the catalog was changed after it was written; run a check
    │   ├── AccessDenied             the keys may not do that; ask for the permission that the message names
    │   ├── NetworkError             S3 or DynamoDB did not answer completely; a requested change may be done or not
    │   ├── DiskFull                 no space is left on the disk
    │   ├── NotAFile      (NotFound) a folder is in the place of a file; move it away, and restore the file
    │   └── OutcomeUnknown           a commit may have won or not; look at history before you run it again
    └── EngineError                  Java, Spark or DuckDB failed or is missing
"""

from __future__ import annotations

import copy
import difflib
import itertools
import re
import shlex
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Action:
    """What to run, named by a hint. Each face writes it in its own way."""

    # as it is typed after ``%sleeper`` or ``sleeper``: ``drop trips --force``. One that starts with a dash is an
    # option of the command that failed
    line: str
    # the same in Python: ``session.drop_table('trips', force=True)``; empty for what only faces report
    python: str = ""

    @classmethod
    def opening(cls, warehouse: str, instance: str) -> Action:
        """Return what opens an instance, and creates it if it does not exist."""
        is_default = instance == "default"
        line = f"use {shlex.quote(warehouse)}" + ("" if is_default else f" --instance {instance}")
        named = "" if is_default else f", {instance!r}"
        return cls(line, f"sleeper_nb.connect({warehouse!r}{named})")

    def text(self, prefix: str) -> str:
        """Return it as it is typed after a prefix; in Python when that is empty."""
        if not prefix:
            return self.python or self.line
        return self.line if self.line.startswith("-") else f"{prefix} {self.line}"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Says that what failed has changed nothing."""

    before: str = ""  # what is between it and the other parts of a hint
    after: str = ""
    others_did: bool = False  # whether something that was done before it has

    def text(self, prefix: str) -> str:  # noqa: ARG002 - the same at each face
        """Return it in words."""
        return f"{self.before}nothing {'else ' if self.others_did else ''}was changed{self.after}"


UNCHANGED: Final = Unchanged(before="; ")
"""The last part of a hint."""
UNCHANGED_FIRST: Final = Unchanged(after="; ")
"""The first part of a hint, before what to do."""


class HintValue(Protocol):
    """What to do, as a frozen value: an `Action`, `Unchanged`, or what `sleeper_nb.model.load_hints` has."""

    def text(self, prefix: str) -> str:
        """Return it as it is typed after a prefix; in Python when that is empty."""


HintParts: TypeAlias = "tuple[str | HintValue, ...]"
Hint: TypeAlias = "str | HintValue | HintParts"
"""A hint: text that is the same at every face, a value, or several of both in order. Nobody edits its texts."""


def hint_text(hint: Hint, prefix: str) -> str:
    """Return a hint as a face shows it; see `Action.text`."""
    return "".join(part if isinstance(part, str) else part.text(prefix) for part in parts_of(hint))


def parts_of(hint: Hint | None) -> HintParts:
    """Return the parts of a hint, in order; none for none."""
    if not hint:
        return ()
    return hint if isinstance(hint, tuple) else (hint,)


_LONGEST_LIST = 200
"""The most characters of names in a hint."""


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys, and others that it cannot write; without line breaks and tabs."""
_DEL = 0x7F


def visible(text: str) -> str:
    """Return a text with its control characters escaped: a terminal would obey those of a user's data."""
    return text if text.isprintable() else _CONTROLS.sub(_escape, text)


def visible_line(text: str) -> str:
    """Return a text as `visible` does, also its line breaks and tabs: for one cell, or one line."""
    if text.isprintable():
        return text
    return visible(text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    # JSON has the second form, and leaves the characters from 0x7f on to us
    return f"\\x{number:02x}" if number < _DEL else f"\\u{number:04x}"


class SleeperError(Exception):
    """The base class of every error that this package raises on purpose.

    Parameters
    ----------
    message
        One line: the thing, and what is wrong with it.
    hint
        One line: what to do instead.

    Attributes
    ----------
    prefix : str
        What is typed before a command where the error is shown: ``%sleeper``, ``sleeper``, or nothing in Python.
    hint_parts : tuple of str and HintValue
        The hint as it was given, to be passed on to another error.
    place : str
        Where in a statement it is: the line, and a caret below the place; "" for an error without one.
    offset : int or None
        The same as the number of characters of the statement before the place.
    """

    def __init__(self, message: str, *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint_parts = parts_of(hint)
        self.prefix = self.place = ""
        self.offset: int | None = None

    @property
    def hint(self) -> str | None:
        """The hint as the face shows it; None when there is none."""
        return hint_text(self.hint_parts, self.prefix) if self.hint_parts else None

    @hint.setter
    def hint(self, hint: Hint | None) -> None:
        self.hint_parts = parts_of(hint)

    def __str__(self) -> str:
        return visible("\n".join((self.message, *self._lines_below())))

    def _lines_below(self) -> list[str]:
        return [*self.place.splitlines(), *([f"hint: {self.hint}"] if self.hint else [])]

    def __reduce__(self) -> tuple[object, ...]:
        # Spark's Python workers pickle errors, and the default would lose the hint.
        return _rebuild, (type(self), self.message, self.hint_parts, self.place, self.offset)

    def _render_traceback_(self) -> list[str]:
        """Show a few lines in IPython instead of a stack trace (the official hook of ``InteractiveShell``)."""
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {visible(self.message)}", *map(visible, self._lines_below())]


def _rebuild(kind: type[SleeperError], message: str, hint: HintParts, place: str, offset: int | None) -> SleeperError:
    error = kind(message, hint=hint)
    error.place, error.offset = place, offset
    return error


def show_for(error: BaseException | None, prefix: str) -> None:
    """Let an error and its causes write their hints as they are typed after a prefix."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, SleeperError):
            error.prefix = prefix
        error = error.__cause__ or error.__context__


class InvalidInput(SleeperError, ValueError):  # noqa: N818 - named for what it is, as its siblings are
    """An argument that is not valid in any state of the table."""


class NoDryRun(InvalidInput):
    """The statement changes something, and what it would do cannot be told without doing it."""


class OfOtherWarehouse(InvalidInput):
    """The instance of this name, in the account and region, belongs to another warehouse; nothing of it was read."""


@dataclass(frozen=True, slots=True)
class NoneYet:
    """The hint of a name that is not there where no other is."""

    kind: str  # ``"table"`` or ``"savepoint"``, for example
    where: str = ""  # words that follow, such as `` in instance default``

    def text(self, prefix: str) -> str:  # noqa: ARG002 - the same at each face
        """Return it in words."""
        return f"there is no {self.kind} yet{self.where}"


@dataclass(frozen=True, slots=True)
class DidYouMean:
    """Names of which one was perhaps meant, as they are written: with the quotes of Python or of SQL."""

    names: tuple[str, ...]

    def text(self, prefix: str) -> str:  # noqa: ARG002 - the same at each face
        """Return the question."""
        return f"did you mean {' or '.join(self.names)}?"


class NotFound(SleeperError, LookupError):  # noqa: N818
    """A table, version, savepoint or file that does not exist."""

    @classmethod
    def of(cls, kind: str, name: object, candidates: Iterable[object], *, where: str = "") -> NotFound:
        """Return the error for an unknown name; its hint lists the nearest candidates.

        Parameters
        ----------
        kind
            ``"table"`` or ``"savepoint"``, for example.
        name
            The unknown name.
        candidates
            Every name that exists, in the order in which a user would expect them.
        where
            Text that follows the name: ``" of table 'flights'"``.
        """
        known = list(dict.fromkeys(map(str, candidates)))
        near = nearest(str(name), known)
        hint: Hint
        if near:
            hint = DidYouMean(tuple(map(repr, near)))
        elif known:
            hint = f"available: {joined(known)}"
        else:
            hint = NoneYet(kind)
        return cls(f"no {kind} {str(name)!r}{where}", hint=hint)


def joined(names: list[str]) -> str:
    """Return the first names, as many as fit into one line, and how many more there are."""
    ends = itertools.accumulate(len(name) + 2 for name in names)
    fit = max(1, sum(end <= _LONGEST_LIST for end in itertools.islice(ends, 8)))
    return ", ".join(names[:fit]) + (f" and {len(names) - fit} more" if len(names) > fit else "")


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return up to three names that an unknown one may be meant as, the nearest first."""
    return difflib.get_close_matches(name, known, n=3, cutoff=0.6) or _containing(name, known)


def _containing(part: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if len(part) > 3 and part.casefold() in name.casefold()][:3]


class AlreadyExists(SleeperError, ValueError):  # noqa: N818
    """A table, savepoint or file of this name exists already."""


class JobDone(AlreadyExists):
    """A job with this id has made a snapshot of the table before, so it makes no second one."""


class StateRuleBroken(SleeperError):  # noqa: N818
    """A transaction's rule does not hold in the state that it would change (``sleeper_nb.model.transactions``)."""


class ConflictError(SleeperError):
    """Other writers won every try of a conditional update."""


class Cancelled(SleeperError):  # noqa: N818
    """Background work was cancelled before its end."""


class StillRunning(SleeperError, TimeoutError):  # noqa: N818
    """Background work has not ended in the given time."""


class ConfirmationNeeded(SleeperError):  # noqa: N818
    """A deletion, or a change of all rows, was not confirmed; nothing was changed.

    - Deleting a table, all contents of a table, or a savepoint when nothing else keeps its version needs `force=True`.
      With `dry_run=True` the plan is returned. Without either, `ConfirmationNeeded` is raised; its `plan` shows what
      would be deleted.
    - On the command line, these are `--force` and `--dry-run`. Without either, a notebook shows the plan. A console
      asks at a terminal; elsewhere it prints the plan and exits with 1. `reinitialise-table`, which in Sleeper is a
      script without a question, asks on a console only when the table has savepoints.
    - `expire`, `collect-garbage` and `sweep-orphans` delete what the table's properties say is no longer needed. They
      show their plan unless they get `dry_run=False`, typed `--force`. `maintain` does what is due.
    - `delete`, `update` and `overwrite` of all rows, and their statements in SQL, are confirmed in the same way: a
      condition may have been forgotten. So is what reaches all rows by a condition that names no column of the
      table, such as `1 = 1`, also a `MERGE` that deletes. Other changes need no confirmation, such as `upsert`.
      `rollback` undoes each. `purge` cannot be undone: it is confirmed when it deletes versions, also published ones,
      or savepoints, or is about all rows. `publish` is confirmed when it hides what another engine has written,
      and `unpublish` when it deletes that.
    - Changes that can be undone need no confirmation: `rollback`, `alter --drop-column`, `migrate`, `compact`, `split`,
      `apply`, `unpublish` and changes of properties delete no row, and older versions stay as they are.

    Parameters
    ----------
    message, hint
        As of `SleeperError`.
    plan
        The report that `dry_run=True` would have returned, if there is one.
    """

    def __init__(self, message: str, *, hint: Hint | None = None, plan: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.plan = plan


class NotAllowed(SleeperError):  # noqa: N818
    """A warehouse names code, or a place outside it, that the user has not allowed."""


class StorageError(SleeperError):
    """A file, disk or server failed."""


class SessionClosed(StorageError):  # noqa: N818
    """The session was closed; open the warehouse again."""

    @classmethod
    def of(cls, what: str) -> SessionClosed:
        """Return the error for the use of something that belonged to a closed session."""
        return cls(f"{what} was closed with its session", hint="open the warehouse again")


class CatalogDamaged(StorageError):  # noqa: N818
    """A row of the catalog was changed after it was written, or rows of it disagree."""


class AccessDenied(StorageError):  # noqa: N818
    """S3 or DynamoDB knows the keys, and does not allow them what was asked."""


class NetworkError(StorageError):
    """S3 or DynamoDB did not answer completely in any try. A requested change may still be done later."""


FREE_SPACE = "free some space, then run it again"
CHECK = Action("check T", "table.maintenance.check()")
DEEP_CHECK = Action("check T --deep", "table.maintenance.check(deep=True)")
HISTORY = Action("history T", "table.history()")
SAVEPOINTS = Action("savepoints T", "table.savepoints()")
"""Actions on a table whose name is not known where the error is raised."""
SAVE_RETAINED = ("save a snapshot that ", HISTORY, " lists")
CHOOSE_RETAINED = ("choose one that ", HISTORY, " or ", SAVEPOINTS, " lists")


class DiskFull(StorageError):  # noqa: N818
    """There is no space left on the disk."""


class NotAFile(StorageError, NotFound):  # noqa: N818
    """A folder is in the place of a file, which is lost or was moved."""

    @classmethod
    def at(cls, path: str) -> NotAFile:
        """Return the error for the folder at a path."""
        return cls(f"{path} is a folder, not a file", hint="move the folder away, and restore the file from a copy")


class OutcomeUnknown(StorageError):  # noqa: N818
    """A commit's answer was lost, and whether it won could not be found out either. Nothing was deleted."""


class EngineError(SleeperError):
    """Java, Spark or DuckDB failed."""


class NotInstalled(EngineError):  # noqa: N818 - as the others
    """A package is missing that an extra of sleeper-nb installs, such as ``spark`` or ``aws``."""

    @classmethod
    def of(cls, what: str, extra: str, otherwise: str = "") -> NotInstalled:
        """Return the error of something that needs an extra; `otherwise` says what else to do."""
        return cls(
            f"{what} needs packages that are not installed", hint=f'pip install "sleeper-nb[{extra}]"{otherwise}'
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; the name of its class if the message is empty."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


_MOST_KEPT: Final = 16


class RaisedErrors:
    """The last errors of this package that code of others met: DuckDB and Arrow read in threads, and keep texts."""

    def __init__(self) -> None:
        self._errors: deque[SleeperError] = deque(maxlen=_MOST_KEPT)

    def keep(self, error: SleeperError) -> None:
        """Keep an error without its stack, whose frames have rows."""
        self._errors.append(copy.copy(error))

    def quoted_in(self, text: str) -> SleeperError | None:
        """Return the error that the text of an error of DuckDB ends with; None when none of them is it."""
        for error in reversed(self._errors):
            if f"{type(error).__module__}.{type(error).__qualname__}: {error}" in text:
                return copy.copy(error)
        return None


RAISED: Final = RaisedErrors()
