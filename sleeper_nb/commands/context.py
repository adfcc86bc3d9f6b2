"""Where a command runs: the open warehouse, the user's variables, and how progress and answers are shown."""

from __future__ import annotations

import keyword
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sleeper_nb.commands.home import find_home
from sleeper_nb.errors import Action, InvalidInput, NoneYet, NotFound, SleeperError
from sleeper_nb.model.snapshots import VersionReference, parse_reference
from sleeper_nb.progress import Progress, Silent
from sleeper_nb.report import Display, Report

if TYPE_CHECKING:
    from sleeper_nb.public_types import EngineChoice
    from sleeper_nb.session import Session
    from sleeper_nb.session.warehouse import Warehouse
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt

R = TypeVar("R", bound=Report)


@dataclass(slots=True)
class Context:
    """What a face passes to the commands; ``use`` changes its session.

    Parameters
    ----------
    face
        Where commands are typed: a notebook shows widgets and has variables.
    connect
        Opens an instance of a warehouse; takes both, folders outside where its tables may have files, and by name the
        region, endpoint_url and profile of AWS, and `new` as `sleeper_nb.connect`.
    session
        The open one.
    variables
        The user's variables; None on the console.
    hidden
        Names among them that are not the user's own.
    progress
        Shows the progress of work that belongs to no session.
    engine
        The engine of SQL when the command names none.
    reads_variables
        Whether SQL may read a variable with rows as a table.
    failure
        The error of the last command that failed.
    ask
        Shows a text on a terminal and returns the line typed after it; None without a terminal.
    others
        Sessions of other instances of the open warehouse, by address.
    display
        How answers show rows.
    place
        The warehouse, for commands that work in no instance of it; None: the one of the open session.
    """

    face: Literal["notebook", "console"]
    connect: Callable[..., Session]
    session: Session | None = None
    variables: MutableMapping[str, Any] | None = None
    hidden: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Silent)
    engine: EngineChoice = "auto"
    reads_variables: bool = True
    failure: BaseException | None = None
    ask: Callable[[str], str] | None = None
    others: dict[str, Session] = field(default_factory=dict)
    display: Display = field(default_factory=Display)
    place: Warehouse | None = None

    @property
    def prefix(self) -> str:
        return "%sleeper" if self.face == "notebook" else "sleeper"

    @property
    def is_open(self) -> bool:
        return self.session is not None and not self.session.closed

    def opened(self) -> Session:
        """Return the open session; `InvalidInput` when there is none, or it was closed."""
        if self.session is None:
            address = find_home("default", None, os.environ, Path.cwd()).warehouse
            raise InvalidInput("no warehouse is open", hint=Action.opening(address, "default"))
        if self.session.closed:
            again = Action.opening(self.session.warehouse.location, self.session.instance)
            raise InvalidInput("the warehouse was closed", hint=("open it again: ", again))
        return self.session

    def say_where(self, error: SleeperError) -> None:
        """Name what is open in the hint of an error that says there is no table yet: another may be meant."""
        if self.is_open and error.hint_parts == (NoneYet("table"),):
            session = self.opened()
            error.hint = NoneYet("table", f" in instance {session.instance} of {session.warehouse.location}")

    def warehouse(self) -> Warehouse:
        return self.opened().warehouse if self.place is None else self.place

    def instance(self, instance_id: str) -> Session:
        """Return the session of an instance of the open warehouse, which stays open; `NotFound` when there is none."""
        session = self.opened()
        if session.instance == instance_id:
            return session
        warehouse = session.warehouse
        place = f"{warehouse.location}/{instance_id}"
        if place not in self.others or self.others[place].closed:
            warehouse.check_instance(instance_id)
            self.others[place] = self.connect(warehouse.location, instance_id, **warehouse.aws)
        return self.others[place]

    def table(self, text: str) -> Table:
        """Return a table of the open warehouse; a version after ``@`` is an error."""
        name, at, reference = text.partition("@")
        if at:
            raise InvalidInput(
                f"this works on the current version, not on {reference!r}", hint=f"leave out @{reference}"
            )
        return self.opened().table(name)

    def table_and_version(self, text: str, given: str | None) -> tuple[Table, VersionReference | None]:
        """Return a table, and the version after ``@`` or in a separate argument; `InvalidInput` when there are both."""
        name, reference = split_reference(text)
        if reference is not None and given is not None:
            raise InvalidInput(f"{text} names a version, and {given!r} is another", hint="leave out one of them")
        return self.opened().table(name), reference if given is None else parse_reference(given)

    def table_at(self, text: str, schema: Literal["own", "current"] | None = None) -> TableAt:
        """Return the version that ``T`` or ``T@REF`` names, read with its own schema or the current one."""
        name, reference = split_reference(text)
        return self.opened().table(name).at(reference, schema=schema or "own")

    def own_variables(self) -> dict[str, Any]:
        """Return the variables that the user made."""
        named = self.variables or {}
        return {name: value for name, value in named.items() if name not in self.hidden and not name.startswith("_")}

    def value(self, word: str) -> Any:
        """Return the value of the variable for ``$name``, and any other word as it is."""
        if not word.startswith("$"):
            return word
        if self.variables is None:
            raise InvalidInput(f"there are no variables on the console, so {word!r} has no value", hint="give a path")
        if word[1:] not in self.variables:
            raise NotFound.of("variable", word[1:], self.own_variables())
        return self.variables[word[1:]]

    def shown(self, answer: R) -> R:
        """Return an answer after reading the rows that it shows.

        An error in these rows must fail the cell, which an error while they are displayed would not.
        """
        answer.grid()
        return answer

    @property
    def follows_widgets(self) -> bool:
        """Whether a widget is updated where it was shown: not on the console, and not by IPython in a terminal."""
        if self.face == "console":
            return False
        from IPython import get_ipython

        return all(each.__name__ != "TerminalInteractiveShell" for each in type(get_ipython()).__mro__)

    def check_shows_widgets(self, what: str, instead: str | Action) -> None:
        """Raise `InvalidInput` on the console, with what to type there instead."""
        if self.face == "console":
            raise InvalidInput(f"{what} is a widget of notebooks", hint=instead)

    def check_assignable(self, name: str) -> None:
        """Raise `InvalidInput` unless a result can be stored under a name."""
        if self.variables is None:
            raise InvalidInput("-o needs a notebook: the console has no variables", hint="leave out -o")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidInput(f"{name!r} is not a valid variable name", hint="use letters, digits and _")


def split_names(columns: str | None) -> list[str] | None:
    """Return the names of ``a,b``; None, for all columns, when nothing is given."""
    return None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]


def pairs(texts: Iterable[str], example: str, *, as_typed: bool = False) -> dict[str, str]:
    """Return the values of texts such as ``NAME=VALUE`` by name; a name may be in quotes.

    Spaces around a value are removed, unless it is the text of a column, `as_typed`. `InvalidInput` for one without a
    value, with how to write it, and for a name that is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().strip('"`')
        if not (name and equals):
            raise InvalidInput(f"cannot read {text!r}", hint=f"write {example}")
        if name in found:
            raise InvalidInput(f"{name!r} is given twice", hint="give it once")
        found[name] = value if as_typed else value.strip()
    return found


def typed_line(words: Iterable[str]) -> str:
    """Return words as a line that is read as these words again, in a notebook and in a shell."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Return a word in the quotes that it needs: double ones around single ones, where a shell changes nothing."""
    if word.startswith("$") and word[1:].isidentifier():  # a variable of a notebook
        return word
    return f'"{word}"' if "'" in word and not set(word) & set('"\\$`!') else shlex.quote(word)


def split_reference(text: str) -> tuple[str, VersionReference | None]:
    """Read ``T`` or ``T@REF``; `InvalidInput` when no version follows ``@``."""
    name, at, reference = text.partition("@")
    if at and not reference:
        raise InvalidInput(f"no version follows @ in {text!r}", hint=f"write {name}@12 or {name}@<savepoint>")
    return name, parse_reference(reference) if at else None
