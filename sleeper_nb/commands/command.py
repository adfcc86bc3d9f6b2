"""What a command is: a name, its arguments, help and examples, above the function that runs it.

The parser, the help, the reference page and the completion all read these values::

    @command(
        "rename",
        "rename a table; its data and history stay where they are",
        positional("old", "the table", "table", metavar="OLD"),
        positional("new", "its new name", metavar="NEW"),
        examples=("rename trips journeys",),
    )
    def rename(context: Context, arguments: Namespace) -> Table:
        return context.opened().rename_table(arguments.old, arguments.new)
"""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sleeper_nb.commands.context import Context
from sleeper_nb.errors import Hint

ArgumentKind = Literal[
    "text",
    "path",
    "source",
    "table",
    "version",
    "snapshot",
    "savepoint",
    "columns",
    "data_columns",
    "condition",
    "assignment",
    "reading",
    "region",
    "property",
    "configured",
    "command",
    "instance",
    "number",
    "sql",
    "reference",
]
"""What an argument's value is: completion offers the existing ones. ``sql`` is the rest of the line, untouched.

``columns`` are names of the table's columns, and ``data_columns`` of those of the data that is loaded. A ``condition``
is SQL about one row, an ``assignment`` a column before ``=``, a ``reading`` an option of reading files before ``=``, a
``region`` row keys before ``=``.
"""
Warehouse = Literal["open", "new", "place", "none"]

_MOST_CHOICES = 40
_BRIEF_ENDS = re.compile("[;:] ")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command; made by `positional`, `option` and `flag`.

    Parameters
    ----------
    names
        Its name, or the names of an option: the short one first.
    help
        One line for the help.
    kind
        What its value is.
    metavar
        What stands for the value in the help.
    choices
        The allowed values, when they are few.
    default
        The value when it is not given.
    is_flag, many, optional
        Whether it is an option without a value; can be given more than once; can be left out.
    unless
        An option with which it can be left out.
    answer
        What an option makes the command answer. Two options with different answers contradict each other.
    only_with
        Another option, without which this one is an error.
    bare
        The value of an option that is given without one; it needs `choices`, by which a value is known.
    """

    names: tuple[str, ...]
    help: str
    kind: ArgumentKind = "text"
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str | int | None = None
    is_flag: bool = False
    many: bool = False
    optional: bool = False
    unless: str = ""
    answer: str = ""
    only_with: str = ""
    bare: str | None = None

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def takes_value(self) -> bool:
        return self.is_option and not self.is_flag

    @property
    def dest(self) -> str:
        """The name of its value in the namespace that the command receives."""
        return self.names[-1].lstrip("-").replace("-", "_")

    @property
    def value(self) -> str:
        """What stands for its value in the help: its choices, if they are short enough to read, or a word."""
        choices = "|".join(self.choices)
        return choices if 0 < len(choices) <= _MOST_CHOICES else self.metavar or self.dest.upper()

    @property
    def usage(self) -> str:
        """How it is written: ``T``, ``[-m MSG]``, ``SRC…``."""
        shown = self.value
        if self.is_option:
            again = "…" if self.many else ""
            value = f"[{shown}]" if self.bare is not None else shown
            return f"[{self.names[0]}{'' if self.is_flag else ' ' + value}]{again}"
        shown += "…" if self.many else ""
        return f"[{shown}]" if self.optional else shown


def positional(name: str, text: str, kind: ArgumentKind = "text", **settings: Any) -> Argument:
    """Return a positional argument; `settings` are other fields of `Argument`."""
    return Argument((name,), text, kind, **settings)


def option(*names: str, text: str, **settings: Any) -> Argument:
    """Return an option with a value; the last name is the long one. `settings` are other fields of `Argument`."""
    return Argument(names, text, **settings, optional=True)


def flag(name: str, text: str, **settings: Any) -> Argument:
    return Argument((name,), text, **settings, is_flag=True, optional=True)


TABLE = positional("table", "the table", "table", metavar="T")
VERSION = positional("table", "the table, with @ and a version if you like: 12 or v12, a savepoint's name, a time",
                     "version", metavar="T[@REF]")  # fmt: skip
SCHEMA = option("--schema", text="the columns that the version had, or the current ones", choices=("own", "current"))
OUTPUT = option("-o", "--output", text="the variable that keeps the value", metavar="VAR")
"""Of every command of a notebook; the console has no variables."""
CONFIRMED = flag("--force", "delete it; without it, a notebook shows the plan and a console asks")
FORCE = flag("--force", "delete them; without it, the plan is shown")
DRY_RUN = flag("--dry-run", "show the plan and change nothing")
COLUMNS = option("--columns", text="only these columns", metavar="a,b", kind="columns")
AWS = (
    option("--region", text="the region of the bucket and of DynamoDB", metavar="R"),
    option("--profile", text="the AWS profile that has the keys, never displayed or stored", metavar="P"),
    option("--endpoint-url", text="the server of S3 and DynamoDB, if it is not Amazon's", metavar="U"),
)
"""Where a bucket and DynamoDB are, and as whom; what is not given comes from the environment or the AWS profile."""
WHERE = option("--where", text="a condition on one row, in DuckDB's SQL", metavar='"…"', kind="condition")
REGION = option("--region", text="ranges of row keys; [ ] include a bound, ( ) exclude it", metavar='"key=[a,b) …"',
                kind="region")  # fmt: skip
LIMIT = option("--limit", text="at most this many rows", metavar="N", kind="number")
MESSAGE = option("-m", "--message", text="a message for the history", metavar="MSG")
JOB_ID = option("--job-id", text="a name for what this does: repeating it changes nothing", metavar="ID")


READ_KEYS = (
    *("delimiter", "null-text", "header", "quote", "escape", "comment", "skip-lines", "encoding", "decimal"),
    *("thousands", "date-format", "timestamp-format", "sheet", "format"),
)
"""What ``--read KEY=VALUE`` says of files."""


def given_aws(arguments: Namespace) -> dict[str, Any]:
    """Return the region, endpoint_url and profile that are given."""
    given = {name: getattr(arguments, name) for name in ("region", "endpoint_url", "profile")}
    return {name: value for name, value in given.items() if value is not None}


def in_quotes(text: str) -> str:
    return shlex.quote(text) if set(text) & set('"$`\\') else f'"{text}"'


@dataclass(frozen=True, slots=True)
class Command:
    """One command; made by the decorator `command`.

    Parameters
    ----------
    name
        What is typed.
    summary
        One line for the help; up to its first ``;`` or ``:`` it is the command's line in the list of commands.
    arguments
        In the order of the help; the last may be of kind ``sql``.
    run
        Called with the context and the parsed arguments; returns the value that is shown, and prints nothing.
    examples
        As they are typed after ``%sleeper``; what follows a line break is the body of the cell.
    words
        Words of other tools, for which "did you mean" names this command.
    body
        Whether the lines of a ``%%sleeper`` cell are an argument.
    reads_only
        Whether it never changes a table; of one that takes SQL, whether it does not unless the statement says so.
    warehouse
        Whether it works in an open warehouse, may start a new one on the console, only asks where it is, or needs none.
    free
        The flag with which it needs no warehouse, if it has one.
    on_console
        Examples that only a console can run, as they are typed after ``sleeper``.
    check
        Raises `InvalidInput` for arguments that make no sense, before a warehouse is opened.
    instead
        What to write in place of options that it does not have, by name; and by "" in place of other words.
    alias
        The command that it is another name of.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    run: Callable[[Context, Namespace], Any]
    examples: tuple[str, ...]
    words: tuple[str, ...] = ()
    body: bool = False
    reads_only: bool = False
    warehouse: Warehouse = "open"
    free: str = ""
    on_console: tuple[str, ...] = ()
    check: Callable[[Namespace], None] | None = None
    instead: Mapping[str, Hint] = field(default_factory=dict)
    alias: str = ""

    @property
    def usage(self) -> str:
        """The command with all its arguments, in one line."""
        return self._usage(*(argument.usage for argument in self.arguments if argument.is_option))

    @property
    def brief_usage(self) -> str:
        """The command with ``[options]`` for all of them."""
        return self._usage("[options]")

    def _usage(self, *options: str) -> str:
        positionals = [argument.usage for argument in self.arguments if not argument.is_option]
        if self.sql is None:
            return " ".join([self.name, *positionals, *options])
        return " ".join([self.name, *positionals[:-1], *options, positionals[-1]])

    @property
    def brief(self) -> str:
        """The beginning of the summary, for one line in the list of commands."""
        return _BRIEF_ENDS.split(self.summary)[0]

    @property
    def positionals(self) -> tuple[Argument, ...]:
        """The positional arguments, without the rest of the line."""
        return tuple(a for a in self.arguments if not a.is_option and a.kind != "sql")

    @property
    def options(self) -> dict[str, Argument]:
        """The options by each of their names."""
        return {name: argument for argument in self.arguments if argument.is_option for name in argument.names}

    @property
    def sql(self) -> Argument | None:
        """The argument that takes the rest of the line untouched, if there is one."""
        return next((argument for argument in self.arguments if argument.kind == "sql"), None)


def command(
    name: str, summary: str, *arguments: Argument, **settings: Any
) -> Callable[[Callable[[Context, Namespace], Any]], Command]:
    """Return a decorator that makes a `Command` of the function that runs it; `settings` are its other fields."""
    return lambda run: Command(name, summary, arguments, run, **settings)


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands that a user looks for together, most needed first, under a title in the help."""

    title: str
    commands: tuple[Command, ...]
