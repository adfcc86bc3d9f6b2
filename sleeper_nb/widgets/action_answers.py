"""The two actions of the explorer, roll back and savepoint: what each would do, and doing it. Answers to the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.display.timeline_picture import change_text
from sleeper_nb.errors import ConflictError, InvalidInput, joined
from sleeper_nb.last_used import LastUsed
from sleeper_nb.model.savepoints import check_savepoint_name
from sleeper_nb.report import Bytes, counted

if TYPE_CHECKING:
    from sleeper_nb.progress import Watch
    from sleeper_nb.public_types import RollbackReport
    from sleeper_nb.widgets.open_tables import OpenTables

_MOST_UNDONE: Final = 5
_STAY: Final = frozenset({"alter", "migrate", "properties"})
"""The commits that a rollback does not undo."""


class ActionAnswers:
    """Answers `plan` and `act`; nothing is changed but by `act`."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables
        self._planned = LastUsed[_Action, int](1)

    def plan(self, asked: Mapping[str, Any], _: Watch) -> dict[str, Any]:
        """Return what an action would do, and the command that does it."""
        action = _Action.of(asked)
        if action.do == "save":
            return self._plan_of_save(action)
        table = self._tables.table(action.table)
        self._planned.put(action, table.at().resolved.snapshot_id)
        return _plan_of_rollback(action, table.rollback(action.version, dry_run=True))

    def act(self, asked: Mapping[str, Any], _: Watch) -> dict[str, Any]:
        """Do what was planned, and return what was done and the command that undoes it.

        Raises
        ------
        ConflictError
            When another commit was made after the plan of a rollback; nothing is changed then.
        """
        action = _Action.of(asked)
        done = self._save(action) if action.do == "save" else self._roll_back(action)
        self._tables.forget(action.table)
        return done

    def _roll_back(self, action: _Action) -> dict[str, Any]:
        table = self._tables.table(action.table)
        current = table.at().resolved.snapshot_id
        if (planned := self._planned.get(action)) not in (None, current):
            raise ConflictError(
                f"snapshot {current} was committed after this plan was made on snapshot {planned}, so nothing was "
                "rolled back",
                hint="plan the rollback again, and look at what it would undo",
            )
        report = table.rollback(action.version)
        if report.snapshot is None:
            return {"sentence": f"{table.name} already has the rows of {report.to}. Nothing was changed.", "undo": ""}
        sentence = f"{table.name} has the rows of {report.to} again, as snapshot {report.snapshot.id}."
        return {"sentence": sentence, "undo": f"%sleeper rollback {table.name} {current}"}

    def _plan_of_save(self, action: _Action) -> dict[str, Any]:
        problem = _name_problem(action.name)
        at = self._tables.at(action.table, action.version)
        files, _, size = at.state.files.data_totals
        rows = counted(at.state.totals().rows, "row")
        option = f" --name {action.name}" if action.name else ""
        keeps = f"Snapshot {action.version} is kept: {rows} in {counted(files, 'file')}, {Bytes(size)}."
        named = f"savepoint {action.name}" if action.name else "a savepoint"
        return {
            "title": f"Create {named} of {at.name} at snapshot {action.version}",
            "sentences": [problem] if problem else [keeps, "It does not expire until the savepoint is deleted."],
            "line": "" if problem else f"%sleeper create-savepoint {at.name}@{action.version}{option}",
            "button": "Create savepoint",
            "danger": False,
            "possible": not problem,
        }

    def _save(self, action: _Action) -> dict[str, Any]:
        table = self._tables.table(action.table)
        made = table.create_savepoint(action.name or None, snapshot=action.version)
        which, by_name = (f"--id {made.id}", f"Savepoint {made.id}") if made.name is None else (
            made.name, f"Savepoint {made.name}"
        )  # fmt: skip
        undo = f"%sleeper delete-savepoint {table.name} {which} --force"
        return {"sentence": f"{by_name} keeps snapshot {action.version} of {table.name}.", "undo": undo}


@dataclass(frozen=True, slots=True)
class _Action:
    """An action of the page: ``"roll back"`` or ``"save"``, and the name of a savepoint."""

    do: str
    table: str
    version: int
    name: str

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> _Action:
        if asked["action"] not in {"roll back", "save"}:
            raise InvalidInput(f"no action {asked['action']!r}", hint="there are 'roll back' and 'save'")
        return cls(asked["action"], asked["table"], int(asked["version"]), str(asked.get("name", "")).strip())


def _plan_of_rollback(action: _Action, plan: RollbackReport) -> dict[str, Any]:
    return {
        "title": f"Roll back {action.table} to snapshot {action.version}",
        "sentences": list(rollback_sentences(plan)),
        "line": f"%sleeper rollback {action.table} {action.version}",
        "button": "Roll back",
        "danger": True,
        "possible": not plan.is_nothing,
    }


def rollback_sentences(plan: RollbackReport) -> Iterator[str]:
    """Yield what a rollback would do."""
    if plan.is_nothing:
        yield f"The table already has the rows of {plan.to}, so there is nothing to do."
        return
    undone = [each for each in plan.undone if each.operation not in _STAY]
    if undone:
        yield f"Undoes {_which(sorted(each.id for each in undone))}: the table {_gain(plan)}."
    yield f"Rows: {plan.rows_before:,} now, {plan.rows_after:,} after."
    yield f"Files: {plan.files_before:,} now, {plan.files_after:,} after. No data file is read or written."
    if plan.partitions_before != plan.partitions_after:
        yield f"Partitions: {plan.partitions_before:,} now, {plan.partitions_after:,} after."
    if undone:
        named = [f"{each.id} ({change_text(each)})" for each in undone[:_MOST_UNDONE]]
        more = f" and {len(undone) - _MOST_UNDONE:,} more" if len(undone) > _MOST_UNDONE else ""
        yield f"{'They' if len(undone) > 1 else 'It'} can still be read: {', '.join(named)}{more}."
    if stay := [f"{each.operation} (snapshot {each.id})" for each in plan.undone if each.operation in _STAY]:
        yield f"Stays in effect: {joined(stay)}."
    if plan.keeps_schema:
        lost = f" Dropped columns stay dropped: {joined(list(plan.lost_columns))}." if plan.lost_columns else ""
        yield f"Columns are not rolled back.{lost}"
    yield "The rollback is one more snapshot, and can be rolled back itself."


def _which(ids: list[int]) -> str:
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"{counted(len(ids), 'snapshot')}, {ids[0]} to {ids[-1]}"


def _gain(plan: RollbackReport) -> str:
    gained = plan.rows_after - plan.rows_before
    if gained == 0:
        return "keeps its number of rows"
    return f"{'gets back' if gained > 0 else 'loses'} {counted(abs(gained), 'row')}"


def _name_problem(name: str) -> str:
    """Return what is wrong with the name of a savepoint; nothing when it can be used, or there is none."""
    try:
        if name:
            check_savepoint_name(name)
    except InvalidInput as error:
        return f"{error.message}: {error.hint}" if error.hint else error.message
    return ""
