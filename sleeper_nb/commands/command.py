"""What is typed to delete something follows the rule of `ConfirmationNeeded`, for each face in its own way."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sleeper_nb.commands.context import Context
from sleeper_nb.errors import ConfirmationNeeded

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.delete import DeletionReport
    from sleeper_nb.operations.administration.reinitialise import ReinitialiseReport
    from sleeper_nb.operations.versioning.delete_savepoint import SavepointDeletion
    from sleeper_nb.session import Session


# What a command is: its name, its arguments and what it runs. Parsing, help and completion all read these values.

ArgumentKind = Literal[
    "text",
    "path",
    "source",
    "table",
    "version",
    "snapshot",
    "savepoint",
    "columns",
    "property",
    "configured",
    "command",
    "number",
    "sql",
    "reference",
]
"""What an argument's value is. Completion offers what there is of it; ``sql`` is the rest of the line, untouched."""


_MOST_CHOICES = 40


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command; made by `positional`, `option` and `flag`.

    It can be left out beside flag `unless`. An option that makes the answer another one says in `answer` what it does
    then, and contradicts one that does something else; it is an error without the option that it is `only_with`.
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

    @property
    def is_option(self) -> bool:
        """Whether it starts with a dash."""
        return self.names[0].startswith("-")

    @property
    def takes_value(self) -> bool:
        """Whether it is an option that the next word belongs to."""
        return self.is_option and not self.is_flag

    @property
    def dest(self) -> str:
        """The name of its value in what a command is handed."""
        return self.names[-1].lstrip("-").replace("-", "_")

    @property
    def value(self) -> str:
        """What stands for its value: its choices, when they are not too long to read, or a word."""
        choices = "|".join(self.choices)
        return choices if 0 < len(choices) <= _MOST_CHOICES else self.metavar or self.dest.upper()

    @property
    def usage(self) -> str:
        """How it is written: ``T``, ``[-m MSG]``, ``SRC…``."""
        shown = self.value
        if self.is_option:
            again = "…" if self.many else ""
            return f"[{self.names[0]}{'' if self.is_flag else ' ' + shown}]{again}"
        shown += "…" if self.many else ""
        return f"[{shown}]" if self.optional else shown


def positional(
    name: str,
    text: str,
    kind: ArgumentKind = "text",
    *,
    metavar: str = "",
    many: bool = False,
    optional: bool = False,
    default: str | None = None,
    unless: str = "",
) -> Argument:
    """Return an argument that stands at its place; `default` is for one that can be left out."""
    return Argument((name,), text, kind, metavar, default=default, many=many, optional=optional, unless=unless)


def option(
    *names: str,
    text: str,
    metavar: str = "",
    kind: ArgumentKind = "text",
    choices: tuple[str, ...] = (),
    default: str | int | None = None,
    many: bool = False,
    answer: str = "",
    only_with: str = "",
) -> Argument:
    """Return an argument with a name and a value; the last name is the long one. One of `many` can be given again."""
    return Argument(
        names, text, kind, metavar, choices, default, many=many, optional=True, answer=answer, only_with=only_with
    )


def flag(name: str, text: str, *, answer: str = "") -> Argument:
    """Return an argument that is there or not."""
    return Argument((name,), text, is_flag=True, optional=True, answer=answer)


TABLE = positional("table", "the table", "table", metavar="T")
VERSION = positional("table", "the table, and behind @ a version: 12 or v12, a savepoint's name, a time", "version",
                     metavar="T[@REF]")  # fmt: skip
SCHEMA = option("--schema", text="the columns that the version had, or those of now", choices=("own", "current"))
INSTANCE = positional("instance_id", "an instance of the open warehouse", metavar="INSTANCE-ID")
OUTPUT = option("-o", "--output", text="the variable that keeps the value", metavar="VAR")
"""Of every command of a notebook; the console has no variables."""
CONFIRMED = flag("--force", "do it; without it a notebook shows the plan, and a console asks")
FORCE = flag("--force", "do it; without it, only what would be done is shown")
DRY_RUN = flag("--dry-run", "only show what would be done")


_READING = frozenset(
    [
        "sql",
        "inspect",
        "scan",
        "get",
        "export",
        "diff",
        "status",
        "check",
        "describe",
        "show",
        "history",
        "files",
        "partitions",
        "tables",
        "savepoints",
        "snapshots",
        "jobs",
        "timeline",
        "explore",
        "instances",
        "help",
        "why",
    ]
)
"""Commands that change no table, however they end."""


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the command table.

    Parameters
    ----------
    name
        What is typed.
    summary
        One line for the help.
    arguments
        In the order of the help; the last may be of kind ``sql``.
    run
        Called with the context and the parsed arguments; returns the value that is shown, and prints nothing.
    examples
        As they are typed behind ``%sleeper``; what follows a line break is the body of the cell.
    aliases
        Other names for it.
    words
        Words of other tools, for which "did you mean" names this command.
    body
        Whether the lines of a ``%%sleeper`` cell are an argument.
    warehouse
        Whether it works in an open warehouse, may start a new one on the console, only asks where it is, or needs none.
    free
        The flag with which it needs none, when it has such a flag.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    run: Callable[[Context, Namespace], Any]
    examples: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    body: bool = False
    warehouse: Literal["open", "new", "place", "none"] = "open"
    free: str = ""

    @property
    def interrupted(self) -> str:
        """What is said when it is interrupted."""
        return f"Interrupted. {'Nothing was changed.' if self.name in _READING else 'Earlier commits are kept.'}"

    @property
    def usage(self) -> str:
        """The command with all its arguments, in one line."""
        positionals = [argument.usage for argument in self.arguments if not argument.is_option]
        options = [argument.usage for argument in self.arguments if argument.is_option]
        if self.sql is None:
            return " ".join([self.name, *positionals, *options])
        return " ".join([self.name, *positionals[:-1], *options, positionals[-1]])

    @property
    def positionals(self) -> tuple[Argument, ...]:
        """The arguments that stand at their places, without the rest of the line."""
        return tuple(a for a in self.arguments if not a.is_option and a.kind != "sql")

    @property
    def options(self) -> dict[str, Argument]:
        """The options by each of their names."""
        return {name: argument for argument in self.arguments if argument.is_option for name in argument.names}

    @property
    def sql(self) -> Argument | None:
        """The argument that takes the rest of the line untouched, if there is one."""
        return next((argument for argument in self.arguments if argument.kind == "sql"), None)


Plan = TypeVar("Plan", "DeletionReport", "ReinitialiseReport", "SavepointDeletion")


def confirmed(
    context: Context,
    session: Session,
    arguments: Namespace,
    delete: Callable[..., Plan],
    name: Callable[[Plan], str],
) -> Plan:
    """Delete something, or show what would go and how to confirm it.

    Parameters
    ----------
    context, arguments
        Of the command.
    session
        The instance that is worked in.
    delete
        What deletes it: a method with all its arguments but `force` and `dry_run`.
    name
        Returns what is typed at a terminal to confirm a plan.

    Raises
    ------
    ConfirmationNeeded
        On a console without a terminal, or when something else was typed. Nothing is changed then.
    """
    instance = "" if session is context.session else session.instance
    again = shlex.join([*(word for word in arguments.words if word not in DRY_RUN.names), "--force"])
    try:
        done = delete(force=arguments.force, dry_run=arguments.dry_run)
        return replace(done, again=again, instance=instance)
    except ConfirmationNeeded as needed:
        found: Plan = needed.plan
        plan = replace(found, again=again, instance=instance)
        if context.face == "notebook":
            return plan
        hint = f"{context.prefix} {again}"
        if context.ask is None:
            raise ConfirmationNeeded(needed.message, hint=hint, plan=plan) from None
        said = context.ask(replace(plan.grid(), footer=f"Type {name(plan)} to delete it for good: ").text())
        if said != name(plan):
            raise ConfirmationNeeded(f"{said!r} is not {name(plan)!r}; nothing was deleted", hint=hint) from None
    return replace(delete(force=True, dry_run=False), instance=instance)
