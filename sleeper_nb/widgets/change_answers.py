"""What changed between two versions, and the two actions of the explorer, as answers to requests of the page."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.display.figure import clip
from sleeper_nb.display.timeline_picture import change_text
from sleeper_nb.errors import ConflictError, InvalidInput, joined
from sleeper_nb.last_used import LastUsed
from sleeper_nb.model.savepoints import check_savepoint_name
from sleeper_nb.report import Bytes, counted
from sleeper_nb.table_at import TableAt
from sleeper_nb.widgets.page_values import LONGEST_CELL, Cell, cells_of
from sleeper_nb.widgets.version_change import MOST_ROWS, FilesDiff, VersionDiff, VersionPair

if TYPE_CHECKING:
    from sleeper_nb.progress import Watch
    from sleeper_nb.public_types import FileDiff, FirstImages, ImageSummary, RollbackReport
    from sleeper_nb.widgets.column_changes import ColumnCounts, ColumnCountsDiff
    from sleeper_nb.widgets.open_tables import OpenTables

_MOST_COLUMNS: Final = 100
"""Of the listed rows; keys and changed ones come first."""
_MOST_LISTED: Final = 1_000
"""Files, and partitions."""
_MOST_UNDONE: Final = 5
_STAY: Final = frozenset({"alter", "migrate", "properties"})
"""The commits that a rollback does not undo."""


class ChangeAnswers:
    """Answers `changes`, `plan` and `act`; nothing is changed but by `act`.

    Parameters
    ----------
    tables
        The tables that the explorer holds open.
    """

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables
        self._known = LastUsed[tuple[TableAt, TableAt], VersionDiff](1)
        self._planned = LastUsed[_Action, int](1)

    def changes(self, asked: Mapping[str, Any], watch: Watch) -> Generator[dict[str, Any], None, dict[str, Any]]:
        """Yield what changed, first from metadata, then with rows; return it with columns, as far as they are read."""
        name, wanted = asked["table"], frozenset(asked["asked"])
        before, after = (self._tables.at(name, asked[which]) for which in ("before", "after"))
        pair = VersionPair(self._tables.table(name), before, after)
        answer: dict[str, Any] = {}
        for change in pair.read(watch, wanted, self._known.get((before, after))):
            watch.check()
            self._known.put((before, after), change)
            answer = _changes(change, wanted)
            if not change.is_read(wanted):
                yield answer
        return answer

    def whole(self, asked: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
        """Return what `changes` does, without its parts."""
        steps = self.changes(asked, watch)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: dict[str, Any] = end.value
                return answer

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


# A change as JSON.


def _changes(change: VersionDiff, asked: frozenset[str]) -> dict[str, Any]:
    columns = change.column_names[:_MOST_COLUMNS]
    unread = change.unread(asked)
    return {
        "before": change.before,
        "after": change.after,
        "line": f"{change.line} --rows --images",
        "keys": list(change.keys),
        "columns": list(columns),
        "columnsOf": len(change.schema.names),
        "counts": None if change.rows is None else _counts(change.rows),
        "rows": [] if change.rows is None else _rows(change.rows, columns),
        "most": MOST_ROWS,
        "cells": {} if change.rows is None else dict(change.rows.cells),
        "statistics": None if change.columns is None else [_statistics(each) for each in change.columns],
        "files": _files(change.files),
        "filesOf": {"added": len(change.files.added), "removed": len(change.files.removed)},
        "partitions": [
            {
                "keys": each.keys,
                "rowsBefore": each.rows_before,
                "rowsAfter": each.rows_after,
                "added": each.files_added,
                "removed": each.files_removed,
            }
            for each in change.files.partitions[:_MOST_LISTED]
        ],
        "partitionsChanged": len(change.files.partitions),
        "partitionsOf": change.files.partitions_of,
        "schema": [each._asdict() for each in change.changed_columns],
        "unread": {what: str(Bytes(unread[what])) if what in unread else "" for what in ("rows", "columns")},
    }


def _counts(found: ImageSummary) -> dict[str, int]:
    inserted, updated, deleted = found.counts
    return {"added": inserted, "removed": deleted, "changed": updated}


def _rows(found: ImageSummary, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the first rows of each kind together, in key order within each leaf partition."""

    def cells(first: FirstImages) -> list[list[Cell]]:
        return cells_of(first.rows.select(columns))

    numbered: list[tuple[int, dict[str, Any]]] = [
        (place, {"kind": kind, "cells": row})
        for kind, first in (("added", found.inserted), ("removed", found.deleted))
        for place, row in zip(first.places, cells(first), strict=True)
    ]
    differing = map(list[bool], found.differing(columns))
    pairs = zip(found.before.places, cells(found.before), cells(found.after), differing, strict=True)
    for place, before, after, differs in pairs:
        numbered.append((place, {"kind": "changed", "cells": before, "after": after, "differs": differs}))
    return [row for _, row in sorted(numbered, key=lambda each: each[0])]


def _statistics(column: ColumnCountsDiff) -> dict[str, Any]:
    bars = column.bars
    labels = [] if bars is None else [clip(bars.label(place), LONGEST_CELL) for place in range(len(bars.marks))]

    def side(counts: ColumnCounts | None) -> dict[str, Any] | None:
        if counts is None:
            return None
        return {
            "bars": labels,
            "counts": list(counts.bars),
            "nulls": counts.nulls,
            "rows": counts.rows,
            "distinct": counts.distinct,
        }

    return {"name": column.column.name, "before": side(column.before), "after": side(column.after)}


def _files(files: FilesDiff) -> dict[str, list[dict[str, Any]]]:
    def listed(some: tuple[FileDiff, ...]) -> list[dict[str, Any]]:
        return [
            {
                "name": each.filename.rpartition("/")[2],
                "partition": files.keys.get(each.filename, ""),
                "rows": each.rows,
                "bytes": each.bytes,
            }
            for each in some[:_MOST_LISTED]
        ]

    return {"added": listed(files.added), "removed": listed(files.removed)}
