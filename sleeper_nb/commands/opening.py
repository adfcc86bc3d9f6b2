"""`use` and `tables`: which warehouse is open, and what is in it."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.base import Command, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.locating import Home, find_home
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import Grid, Listing, Report
from sleeper_nb.storage.paths import CATALOG

if TYPE_CHECKING:
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table


@dataclass(frozen=True, slots=True, repr=False)
class Opened(Report):
    """An instance that was opened; `session` is what a program works with. `others` are named beside an empty one.

    `made` says what opening it made: a new warehouse or a new instance.
    """

    warehouse: str
    instance: str
    tables: tuple[str, ...]
    session: Session
    others: tuple[str, ...] = ()
    made: str | None = None

    def grid(self) -> Grid:
        """Return where it is, and its tables."""
        rows = (
            ("warehouse", self.warehouse),
            ("instance", self.instance),
            ("tables", ", ".join(self.tables) or "none"),
            *([("other instances", ", ".join(self.others))] if self.others else []),
        )
        footer = f"{self.made} at {Path(self.session.location)}" if self.made else ""
        return Grid(("", ""), rows, footer=footer)

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
    made = None if isinstance(given, Session) else _to_be_made(str(given), arguments.instance)
    session = given if isinstance(given, Session) else context.connect(str(given), arguments.instance)
    names = tuple(entry.name for entry in session.components.catalog.tables())
    context.session = session
    # An instance without tables may be a misspelt one, which was made just now.
    others = () if names else tuple(each for each in instance_names(session.warehouse()) if each != session.instance)
    return Opened(uri, session.instance, names, session, others, made)


def _to_be_made(uri: str, instance: str) -> str | None:
    """Return what opening makes: ``new warehouse``, ``new instance`` or None.

    Raises
    ------
    InvalidInput
        When it would be made among other files, as a slip in an address would do.
    """
    from sleeper_nb.operations.administration.instances import instance_names
    from sleeper_nb.storage.filesystem import open_storage

    folder = Home(uri).folder  # of a catalog in DynamoDB, the progress says that its tables are made
    if folder is None or (folder / instance / CATALOG).exists() or folder.is_file():
        return None
    if not folder.is_dir():
        return "new warehouse"
    if instance_names(open_storage(str(folder))):
        return "new instance"
    others = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if others:
        hint = f"choose a new or empty folder, such as {folder / 'warehouse'}"
        raise InvalidInput(f"{uri} is no warehouse: it has other files, such as {others[0]}", hint=hint)
    return "new warehouse"


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
