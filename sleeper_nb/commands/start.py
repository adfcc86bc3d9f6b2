"""`use`, `help`, `why`, `demo` and `tour`: open a warehouse, and find out what can be typed."""

from __future__ import annotations

import difflib
import json
import os
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import AWS, command, flag, given_aws, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.help import HelpPage, describe, overview
from sleeper_nb.commands.home import Home, find_home
from sleeper_nb.errors import Action, InvalidInput, NotFound, SleeperError
from sleeper_nb.instance_folder import InstanceFolder
from sleeper_nb.report import Code, Grid, Report, notes_line

if TYPE_CHECKING:
    from sleeper_nb.demo import DemoReport, TourReport
    from sleeper_nb.session import Session

MOST_LINES = 30
"""An error's text is shown up to this many lines."""


@dataclass(frozen=True, slots=True, repr=False)
class Opened(Report):
    """The answer of `use`: an opened instance and its session.

    `others` are the warehouse's other instances, listed when this one has no tables. `created` says what was created
    by opening it: "new warehouse" or "new instance". `next_command` says how the next command opens it, where that
    needs saying.
    """

    warehouse: str
    instance: str
    tables: tuple[str, ...]
    session: Session
    others: tuple[str, ...] = ()
    created: str | None = None
    next_command: str = ""
    prefix: str = ""

    def grid(self) -> Grid:
        rows = (
            ("warehouse", self.warehouse),
            ("instance", self.instance),
            ("tables", ", ".join(self.tables) or "none"),
            *([("other instances", ", ".join(self.others))] if self.others else []),
        )
        created = f"{self.created} at {Path(self.session.location)}" if self.created else ""
        near = difflib.get_close_matches(self.instance, self.others, n=1, cutoff=0.75) if self.created else []
        if near:
            created += f"; did you mean {near[0]}? {Action.opening(self.warehouse, near[0]).text(self.prefix)} opens it"
        return Grid(("", ""), rows, footer=notes_line(created, self.next_command))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but for the session."""
        return {"warehouse": self.warehouse, "instance": self.instance, "tables": list(self.tables)}


@command(
    "use",
    "open a warehouse; a new folder becomes a new warehouse",
    positional(
        "uri",
        "its folder, s3://bucket/prefix, or $name for a session of Python; if not given: "
        "SLEEPER_WAREHOUSE, then the nearest sleeper.toml, then the one that is open, then ./warehouse",
        "path",
        metavar="URI",
        optional=True,
    ),
    option("--instance", text="which of its instances; default if not given", metavar="I"),
    *AWS,
    option("--data-path", text="a folder or s3:// address outside the warehouse where its tables may have files, as "
           "add-files needs; without URI: of the open warehouse", metavar="DIR", kind="path", many=True),
    flag("--new", "make a new warehouse, even if its name is close to that of another; or a new instance default"),
    examples=("use ./warehouse", "use ./warehouse --instance test", "use", "use ./warehouse --data-path ./data",
              "use s3://bucket/prefix --instance prod --profile analytics"),
    words=("open", "connect"),
    warehouse="none",
)  # fmt: skip
def use(context: Context, arguments: Namespace) -> Opened:
    from sleeper_nb.session import Session

    if arguments.data_path and context.face == "console":
        hint = f"write data-paths = {json.dumps(arguments.data_path, ensure_ascii=False)} and warehouse = "
        of_warehouse = json.dumps(arguments.uri or "FOLDER", ensure_ascii=False)
        raise InvalidInput("--data-path ends with this command", hint=f"{hint}{of_warehouse} into sleeper.toml")
    if arguments.data_path and arguments.uri is None and context.session is not None:
        context.opened().allow(data_paths=arguments.data_path)
        return _opened(context, context.opened().warehouse.location, context.opened())
    instance, aws = arguments.instance or "default", given_aws(arguments)
    home = find_home(instance, None, os.environ, Path.cwd())
    uri = arguments.uri or home.warehouse
    if arguments.uri is None and context.is_open and not home.is_named and not aws:
        uri, aws = context.opened().warehouse.location, context.opened().warehouse.aws
        if arguments.instance is None:
            return _opened(context, uri, context.opened())
    given = context.value(uri)
    if not isinstance(given, Session | str | Path):
        kind = type(given).__name__
        raise InvalidInput(f"{uri} is a {kind}, not a warehouse", hint="give a session, or the address of a warehouse")
    if isinstance(given, Session) and arguments.instance not in {None, given.instance}:
        other = Action(f"use {shlex.quote(given.warehouse.location)} --instance {instance}")
        problem = f"{uri} is a session of instance {given.instance!r}, not of {instance!r}"
        raise InvalidInput(problem, hint=("leave out --instance, or: ", other))
    created = None if isinstance(given, Session) else _created_by_opening(str(given), instance)
    if created == "new instance" and arguments.instance is None and not arguments.new:
        raise _no_default(str(given))
    paths = arguments.data_path
    if aws and not str(given).startswith("s3://"):
        hint = f"leave out --{next(iter(aws)).replace('_', '-')}, or give s3://bucket/prefix"
        raise InvalidInput(f"{uri} is not in a bucket, so nothing of AWS opens it", hint=hint)
    if created == "new warehouse" and not arguments.new:
        arguments.new = _is_confirmed(context, str(given))
    connecting = {**aws, "new": arguments.new}
    session = given if isinstance(given, Session) else context.connect(str(given), instance, *paths, **connecting)
    if isinstance(given, Session) and paths:
        given.allow(data_paths=paths)
    context.session = session
    return _opened(context, uri, session, created)


def _no_default(uri: str) -> NotFound:
    """Return the error for a warehouse without the instance `default`, but with others, one of which may be meant."""
    from sleeper_nb.session import open_warehouse

    first, *others = open_warehouse(str(Home(uri).folder)).instance_names()
    use = f"use {shlex.quote(uri)}"
    more = f" (or {', '.join(others)})" if others else ""
    hint = ("open one: ", Action(f"{use} --instance {first}"), f"{more}; or make it: ", Action(f"{use} --new"))
    return NotFound(f"{uri} has no instance 'default'", hint=hint)


def _is_confirmed(context: Context, uri: str) -> bool:
    """Return whether the user wants a new warehouse although another has a similar name; only a terminal can ask."""
    from sleeper_nb.session import open_warehouse

    try:
        open_warehouse(uri).check_spelling()
    except InvalidInput as slip:
        if context.ask is None or context.ask(f"{slip.message}. Type new to make a new one: ") != "new":
            raise
        return True
    return False


def _opened(context: Context, uri: str, session: Session, created: str | None = None) -> Opened:
    names = session.table_names()
    # An instance without tables may have been created just now, by a misspelt name.
    others = () if names else tuple(each for each in session.warehouse.instance_names() if each != session.instance)
    return Opened(
        uri, session.instance, names, session, others, created, _next_command(context, uri, session.warehouse.aws)
    )


def _next_command(context: Context, uri: str, aws: Mapping[str, str]) -> str:
    """Return what the next command on the console needs: each is a process of its own, which keeps nothing open."""
    if context.face == "notebook":
        return ""
    home = find_home("default", None, os.environ, Path.cwd())
    if home.warehouse == uri and aws.items() <= home.aws.items():
        return ""
    if aws:
        lines = {"warehouse": uri, **{name.replace("_", "-"): value for name, value in aws.items()}}
        written = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in lines.items())
        return f"this opened it for one command only: for the next, write into sleeper.toml {written}"
    return (
        f"this opened it for one command only: add --warehouse {shlex.quote(uri)} to the next, or set SLEEPER_WAREHOUSE"
    )


def _created_by_opening(uri: str, instance: str) -> str | None:
    """Return what opening creates: ``new warehouse``, ``new instance`` or None.

    `InvalidInput` when it would be created among other files, as happens after a slip in an address.
    """
    from sleeper_nb.session import open_warehouse

    folder = Home(uri).folder  # for a catalog in DynamoDB, the progress says that its tables are created
    if folder is None or InstanceFolder(folder / instance).is_instance or folder.is_file():
        return None
    if not folder.is_dir():
        return "new warehouse"
    names = open_warehouse(str(folder)).instance_names()
    if names:
        return None if instance in names else "new instance"
    if InstanceFolder(folder).is_instance:
        of = f" --instance {shlex.quote(folder.name)}" if folder.name != "default" else ""
        raise InvalidInput(
            f"{uri} is the instance {folder.name!r} of a warehouse",
            hint=("give the warehouse: ", Action(f"use {shlex.quote(str(folder.parent))}{of}")),
        )
    others = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if others:
        hint = f"choose a new or empty folder, such as {folder / 'warehouse'}"
        raise InvalidInput(f"{uri} is not a warehouse: it contains other files, such as {others[0]}", hint=hint)
    return "new warehouse"


@command(
    "help",
    "list the commands, or show one: its arguments and examples",
    positional("command", "the command", "command", metavar="COMMAND", optional=True),
    examples=("help", "help ingest"),
    words=("man", "?"),
    reads_only=True,
    warehouse="none",
)
def show_help(context: Context, arguments: Namespace) -> HelpPage:
    from sleeper_nb.commands import COMMANDS  # here: the table contains this command

    if arguments.command is not None:
        return describe(COMMANDS.find(arguments.command), context.prefix)
    return overview(COMMANDS.groups, context.prefix)


@dataclass(frozen=True, slots=True, repr=False)
class Causes(Report):
    """An error and its causes, the root cause last; `error` is the exception itself, with its traceback."""

    error: BaseException

    def chain(self) -> Iterator[BaseException]:
        """Yield the error, its cause, the cause of that, and so on."""
        seen: set[int] = set()
        error: BaseException | None = self.error
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            yield error
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def grid(self) -> Grid:
        rows: list[tuple[object, ...]] = []
        for number, error in enumerate(self.chain()):
            lines = _lines(error)
            left = len(lines) - MOST_LINES
            lines = [*lines[:MOST_LINES], f"… and {left} more lines, in str(_.error)"] if left > 0 else lines
            rows.append(("caused by" if number else "error", _kind(error), Code(lines[0])))
            rows += [("", "", Code(line)) for line in lines[1:]]
        footer = "for the traceback: %config SleeperMagics.traceback='full'"
        return Grid(("what", "kind", "message"), tuple(rows), footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the kinds and the whole texts, in order."""
        errors = list(self.chain())
        return {"error": [_kind(error) for error in errors], "says": ["\n".join(_lines(error)) for error in errors]}


def _kind(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if isinstance(error, SleeperError) else f"{kind.__module__}.{kind.__qualname__}"


def _lines(error: BaseException) -> list[str]:
    return [line for line in str(error).splitlines() if line.strip()] or ["(no message)"]


@command(
    "why",
    "show the causes of the last error: each in its own words",
    examples=("why",),
    words=("error", "traceback", "cause"),
    reads_only=True,
    warehouse="none",
)
def why(context: Context, _arguments: Namespace) -> Causes:
    if context.failure is None:
        raise NotFound("no command has failed yet", hint="run why after a command that failed, in the same notebook")
    return Causes(context.failure)


@command(
    "demo",
    "try it with a year of flights: load, save, compact and query them in a new warehouse",
    option("--folder", text="where to create it", metavar="FOLDER", kind="path", default="demo-warehouse"),
    examples=("demo", "demo --folder demo-warehouse"),
    words=("example",),
    warehouse="none",
)
def run_demo(context: Context, arguments: Namespace) -> DemoReport:
    from sleeper_nb import demo

    return demo.run(arguments.folder, context.progress)


@command(
    "tour",
    "write the tour as a notebook, with its data: a year of flights, as Parquet",
    option(
        "--folder",
        text="the folder of the flights; the notebook is beside it",
        metavar="FOLDER",
        kind="path",
        default="data",
    ),
    examples=("tour", "tour --folder data"),
    words=("data",),
    warehouse="none",
)
def tour(_context: Context, arguments: Namespace) -> TourReport:
    from sleeper_nb import demo

    return demo.write_tour(arguments.folder)
