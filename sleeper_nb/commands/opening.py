"""`use` and `tables`: which warehouse is open, and what is in it."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.locating import find_home
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import Grid, Listing, Report

if TYPE_CHECKING:
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table


@dataclass(frozen=True, slots=True, repr=False)
class Opened(Report):
    """An instance that was opened; `session` is what a program works with. `others` are named beside an empty one."""

    warehouse: str
    instance: str
    tables: tuple[str, ...]
    session: Session
    others: tuple[str, ...] = ()

    def grid(self) -> Grid:
        """Return where it is, and its tables."""
        rows = (
            ("warehouse", self.warehouse),
            ("instance", self.instance),
            ("tables", ", ".join(self.tables) or "none"),
            *([("other instances", ", ".join(self.others))] if self.others else []),
        )
        return Grid(("", ""), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but for the session."""
        return {"warehouse": self.warehouse, "instance": self.instance, "tables": list(self.tables)}


def _use(context: Context, arguments: Namespace) -> Opened:
    from sleeper_nb.operations.administration.instances import instance_names
    from sleeper_nb.session import Session

    uri = arguments.uri or find_home(arguments.instance, None, os.environ, Path.cwd()).warehouse
    given = context.value(uri)
    if not isinstance(given, Session | str | Path):
        raise InvalidInput(f"{uri} is a {type(given).__name__}, no warehouse", hint="give a session, or its address")
    session = given if isinstance(given, Session) else context.connect(str(given), arguments.instance)
    names = tuple(entry.name for entry in session.components.catalog.tables())
    context.session = session
    # An instance without tables may be a misspelt one, which was made just now.
    others = () if names else tuple(each for each in instance_names(session.warehouse()) if each != session.instance)
    return Opened(uri, session.instance, names, session, others)


def _tables(context: Context, arguments: Namespace) -> Listing[Table]:  # noqa: ARG001 - it has none
    return context.opened().tables()


COMMANDS = (
    Command(
        "use",
        "open a warehouse; a new folder is a new one",
        (
            positional(
                "uri",
                "its folder, s3://bucket/prefix, or $name for a session of Python; where "
                "SLEEPER_WAREHOUSE, the nearest sleeper.toml, or else ./warehouse is, if not",
                "path",
                metavar="URI",
                optional=True,
            ),
            option("--instance", text="which of its instances", metavar="I", default="default"),
        ),
        _use,
        ("use ./warehouse", "use ./warehouse --instance test", "use"),
        words=("open", "connect"),
        warehouse="none",
    ),
    Command(
        "tables",
        "list the tables",
        (),
        _tables,
        ("tables",),
        words=("ls", "list"),
    ),
)
