"""What ``CALL sys.…`` runs: for each command that changes or checks a table, the public method that does it.

A procedure has the arguments of its method that a literal can give, in the same order and with the same names, after
the table. Nothing else can be called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any, Final, Literal

from sleeper_nb.errors import InvalidInput, NoDryRun, NotFound
from sleeper_nb.model.times import parse_duration
from sleeper_nb.report import Answer, Grid, Listing, Report

Confirmation = Literal["", "dry_run", "force", "not dry_run"]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: a method with the arguments that a statement may give, ``table`` first when it is one of `Table`.

    `method` is its name, after ``inspect.``, ``maintenance.`` or ``admin.`` if it is one of those. `confirmation` says
    how it is told to change nothing: not at all; by ``dry_run``; by that, and a deletion by ``force``; or by a
    ``dry_run`` that is the default until a deletion is confirmed.
    """

    name: str
    method: str
    arguments: tuple[str, ...]
    summary: str
    confirmation: Confirmation = ""
    of_session: bool = False

    @property
    def signature(self) -> str:
        """How it is written."""
        return f"CALL sys.{self.name}({', '.join(self.arguments)})"

    @property
    def _options(self) -> tuple[str, ...]:
        """Options that may also be written as arguments."""
        return {"": (), "dry_run": ("dry_run",), "force": ("force", "dry_run"), "not dry_run": ("force", "dry_run")}[
            self.confirmation
        ]

    def bound(self, values: Sequence[Any], named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """Return the values of arguments by name, first those without a name; raise when they do not fit."""
        if len(values) > len(self.arguments):
            problem = f"procedure {self.name!r} takes {len(self.arguments)} arguments, not {len(values)}"
            raise InvalidInput(problem, hint=f"write {self.signature}")
        bound = dict(zip(self.arguments, values, strict=False))
        for name, value in named:
            if name not in {*self.arguments, *self._options}:
                raise NotFound.of("argument", name, self.arguments, where=f" of procedure {self.name!r}")
            if name in bound:
                raise InvalidInput(f"argument {name!r} is given twice", hint=f"write {self.signature}")
            bound[name] = value
            if name in self._options and not isinstance(value, bool):  # the text 'no' would count as true
                problem = f"argument {name!r} is TRUE or FALSE, not {value!r}"
                raise InvalidInput(problem, hint=f"write {name} => TRUE or {name} => FALSE, without quotes")
        needs_table = self.arguments[:1] == ("table",) and not self.of_session
        if needs_table and not isinstance(bound.get("table"), str):
            raise InvalidInput(f"procedure {self.name!r} needs the name of a table", hint=f"write {self.signature}")
        return bound

    def run(self, session: Any, bound: Mapping[str, Any], *, force: bool, dry_run: bool) -> Report:
        """Run it, and return its answer; `ConfirmationNeeded` when a `force` must confirm a deletion."""
        arguments = dict(bound)
        force, dry_run = arguments.pop("force", force), arguments.pop("dry_run", False) or dry_run
        owner = session if self.of_session else session.table(arguments.pop("table"))
        if dry_run and not self.confirmation:
            raise NoDryRun(f"procedure {self.name!r} has no dry run", hint="call it without one")
        if self.confirmation == "not dry_run":
            arguments["dry_run"] = dry_run or not force
        elif self.confirmation:
            arguments["dry_run"] = dry_run
        if self.confirmation == "force":
            arguments["force"] = force
        converted = {name: _converted(name, value) for name, value in arguments.items()}
        answer = attrgetter(self.method)(owner)(**converted)
        return answer if isinstance(answer, Report) else Answer(Grid((), (), footer=f"{self.name}: done"))


_DURATIONS: Final = frozenset({"older_than", "delay", "time_retained"})


def _converted(name: str, value: Any) -> Any:
    if name not in _DURATIONS or isinstance(value, timedelta) or value is None:
        return value
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise InvalidInput(f"{value!r} is not a duration", hint="write '3d', '36h' or 'PT90M'") from error


PROCEDURES: Final = (
    Procedure("create_savepoint", "create_savepoint", ("table", "name", "message", "snapshot"), "pin a version"),
    Procedure("delete_savepoint", "delete_savepoint", ("table", "savepoint"), "delete a savepoint", "force"),
    Procedure("savepoints", "savepoints", ("table", "with_bytes"), "list the savepoints"),
    Procedure("rollback", "rollback", ("table", "version", "timestamp", "message"), "restore an older version",
              "dry_run"),
    Procedure("publish", "publish", ("table", "version"), "let other engines read a version"),
    Procedure("unpublish", "unpublish", ("table",), "take the published versions away from other engines"),
    Procedure("history", "history", ("table", "limit"), "list the snapshots"),
    Procedure("compact", "maintenance.compact", ("table", "strategy", "engine", "partition"), "merge files", "dry_run"),
    Procedure("split", "maintenance.split", ("table", "at", "key", "partition", "threshold"),
              "split leaf partitions", "dry_run"),
    Procedure("expire", "maintenance.expire", ("table", "time_retained", "num_retained_min", "num_retained_max"),
              "expire old snapshots; with force", "not dry_run"),
    Procedure("collect_garbage", "maintenance.collect_garbage", ("table", "delay"), "delete unused files; with force",
              "not dry_run"),
    Procedure("sweep_orphans", "maintenance.sweep_orphans", ("table", "older_than"),
              "delete files of failed writers; with force", "not dry_run"),
    Procedure("purge", "maintenance.purge", ("table", "where", "engine", "message"),
              "delete rows for good, with all versions that have them", "force"),
    Procedure("maintain", "maintain", ("table",), "do what is due", "dry_run"),
    Procedure("maintain_all", "maintain", (), "do what is due on all tables", "dry_run", of_session=True),
    Procedure("status", "inspect.status", ("table",), "show the state, and what is due"),
    Procedure("check", "maintenance.check", ("table", "deep"), "look for damage"),
    Procedure("jobs", "inspect.jobs", ("table", "which", "limit"), "list the jobs"),
    Procedure("leases", "inspect.leases", ("table",), "list the versions that readers hold"),
    Procedure("release_lease", "maintenance.release_lease", ("table", "lease"), "end a lease"),
    Procedure("online", "maintenance.online", ("table",), "include the table in maintenance"),
    Procedure("offline", "maintenance.offline", ("table",), "exclude the table from maintenance"),
    Procedure("properties", "properties", ("table", "names"), "show properties"),
    Procedure("accept_properties", "accept_properties", ("table",), "accept a property file that was edited"),
    Procedure("rename", "rename_table", ("old", "new"), "rename a table", of_session=True),
    Procedure("drop", "drop_table", ("name",), "drop a table", "force", of_session=True),
    Procedure("reinitialise", "admin.reinitialise", ("name", "delete_partitions", "split_points"),
              "delete all contents of a table", "force", of_session=True),
    Procedure("migrate", "admin.migrate", ("name", "to", "message"), "move the metadata to another state store",
              of_session=True),
)  # fmt: skip


def named(name: str) -> Procedure:
    found = next((each for each in PROCEDURES if each.name == name.lower()), None)
    if found is None:
        raise NotFound.of("procedure", f"sys.{name}", [f"sys.{each.name}" for each in PROCEDURES])
    return found


def listing() -> Listing[Procedure]:
    cells = tuple((each.signature, each.summary) for each in PROCEDURES)
    return Listing(
        PROCEDURES, ("procedure", "what it does"), cells, "procedures", "or by name: CALL sys.compact(table => 't')"
    )
