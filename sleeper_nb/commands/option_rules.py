"""Which options do not go together, and which stand where the SQL makes a comment of them."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Collection, Sequence
from typing import get_args

from sleeper_nb.commands.base import Command
from sleeper_nb.engines.sql.tokens import Dialect, tokenize
from sleeper_nb.errors import InvalidInput


def check_together(command: Command, arguments: Namespace) -> None:
    """Raise `InvalidInput` for two options that ask for different answers, and for one that is of another not given."""
    given = [a for a in command.arguments if a.is_option and getattr(arguments, a.dest) not in (None, False)]
    asked = [argument for argument in given if argument.answer]
    for other in asked[1:]:
        if other.answer != asked[0].answer:
            first, second = (f"{argument.names[-1]} {argument.answer}" for argument in (asked[0], other))
            raise InvalidInput(f"{first}, and {second}", hint="give one of them")
    names = {name for argument in given for name in argument.names}
    for argument in given:
        if argument.only_with and argument.only_with not in names:
            with_it = f"{command.name} {command.options[argument.only_with].usage[1:-1]}"
            hint = f"leave it out, or write {with_it} {argument.usage[1:-1]}"
            raise InvalidInput(f"{argument.names[0]} is for {argument.only_with}", hint=hint)


def check_comment(sql: str, options: Collection[str], before: Sequence[str]) -> None:
    """Raise `InvalidInput` when what is a comment of a statement of one line was meant as an option of its command.

    Parameters
    ----------
    sql
        The statement.
    options
        The names of the options.
    before
        What stands before it: how commands begin, this one's name, and its words.
    """
    comment = "" if "\n" in sql.strip() else _last_comment(sql)
    name = comment.partition(" ")[0].partition("=")[0]
    if name in options:
        prefix, command, *words = before
        instead = " ".join(filter(None, (prefix, command, comment, shlex.join(words), sql.split(maxsplit=1)[0])))
        raise InvalidInput(f"{name} stands behind the SQL, where it begins a comment", hint=f"write {instead} …")


def _last_comment(sql: str) -> str:
    """Return the ``--`` comment at the end of a statement, if whatever engine reads it takes it for one."""
    found = set()
    for dialect in get_args(Dialect):
        try:
            tokens = tokenize(sql, dialect=dialect)
        except InvalidInput:  # of a quote that is not closed the engine tells
            return ""
        found.add(sql[tokens[-1].end :].strip() if tokens else "")
    comment = found.pop()
    return comment if not found and comment.startswith("--") else ""
