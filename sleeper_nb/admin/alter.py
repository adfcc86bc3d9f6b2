"""Alter a table: change its columns, its rules or its comments, by committing a new schema.

No data file is written. Rows are read only where the table gets a rule that they must keep: before the commit, and
within it those that others have added meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from sleeper_nb.errors import Action, InvalidInput, OutcomeUnknown, SleeperError
from sleeper_nb.load.row_checks import check_unique, values_text
from sleeper_nb.model.evolution import SchemaAlteration, check_processing, evolved, without_new_promises
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SetSchema, Transaction
from sleeper_nb.read.predicate import Condition, Pruning
from sleeper_nb.read.read_rows import stream
from sleeper_nb.read.scan_plan import PlannedFile, ScanPlan, plan_scan
from sleeper_nb.report import Grid, TableReport
from sleeper_nb.state_store.commit_queue import Announce
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)


# Commit a changed schema: its file is written before the commit, and deleted again when the commit fails.

C = TypeVar("C", bound=Transaction)


class SchemaCommit(Generic[C]):
    """A change with a new schema, which is planned again when another commit has changed the schema.

    Parameters
    ----------
    make
        Returns the new schema, from a state and the id of the new schema.
    change
        Returns the change, from a state, the id of the new schema, and the new schema.
    announce
        As in `StateStore.commit`.
    """

    def __init__(
        self,
        store: StateStore,
        make: Callable[[TableState, int], Schema],
        change: Callable[[TableState, int, Schema], C],
        announce: Announce | None = None,
    ) -> None:
        self._store, self._make, self._change, self._announce = store, make, change, announce
        self._planned: tuple[TableState, C] | None = None
        self._written: tuple[int, Schema] | None = None

    def commit(
        self, *, author: str | None, message: str | None = None, expectations: str | None = None
    ) -> tuple[TableState, C, Snapshot]:
        """Commit the change; return the state that it changed, the change, and the new snapshot."""
        try:
            described = {"author": author, "message": message, "expectations": expectations}
            snapshot = self._store.commit(self._plan, **described, announce=self._announce)
        except OutcomeUnknown:
            raise  # the table may use the schema: its file must stay
        except SleeperError:  # only these: after an interrupt, another thread may still commit the schema
            self._discard()
            raise
        assert self._planned is not None  # noqa: S101 - a commit has planned
        return *self._planned, snapshot

    def _plan(self, state: TableState) -> C:
        """Return the change of a state; write the schema's file when the state has another schema than before."""
        if self._written is None or self._planned is None or state.schema_id != self._planned[0].schema_id:
            written = self._store.history.write_new_schema(
                lambda schema_id: self._make(state, schema_id), state.schema_id
            )
            if self._written is not None:
                logger.info("table %s: another commit changed the schema; planning again", self._store.table_id)
                self._discard()
            self._written = written
        change = self._change(state, *self._written)
        self._planned = state, change
        return change

    def _discard(self) -> None:
        if self._written is not None:
            self._store.storage.delete(paths.schema(self._written[0]))


# Check the rows of a table by rules that it is about to get: NOT NULL, CHECKs and unique keys.


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule that the rows of a table must keep before the table gets it."""

    problem: str  # what a row that breaks it is, for the error: ``"column 'fare' is NULL"``
    broken: Condition
    # whether also rows of files count that no partition reads: engines that read the file see them
    whole_files: bool = False


RulesOf = Callable[[Schema, Schema], Sequence[NewRule]]
"""Returns what the rows must keep so that a schema may follow another one; raises when it may not at all."""


def no_rules(_before: Schema, _after: Schema) -> Sequence[NewRule]:
    return ()


class RowsChecked:
    """Checks the rows of a table's states by the rules of a new schema; each file once."""

    def __init__(self, storage: Storage, rules: RulesOf) -> None:
        self._storage, self._rules = storage, rules
        self._schemas: tuple[Schema, Schema] | None = None
        self._seen: set[str] = set()

    def check(self, state: TableState, after: Schema) -> None:
        """Raise `InvalidInput` for a row of a state that breaks a rule; its message has the row's key."""
        if self._schemas != (state.schema, after):
            self._schemas, self._seen = (state.schema, after), set()
        read = replace(state, schema=without_new_promises(state.schema, after))
        files = set(state.files.active["filename"].to_pylist())
        unseen = files - self._seen
        for rule in self._rules(state.schema, after):
            plan = plan_scan(read, pruning=Pruning(predicate=rule.broken.predicate))
            self._check_rule(rule, _only(plan, unseen, whole=rule.whole_files))
        if unseen and after.unique_keys and not state.schema.unique_keys:
            check_unique(read, self._storage)
        self._seen |= files

    def _check_rule(self, rule: NewRule, plan: ScanPlan) -> None:
        names = plan.schema.sort_order
        columns = [name for name in plan.schema.names if name in {*names, *rule.broken.columns}]
        for batch in stream(plan, self._storage, columns=columns, where=rule.broken, limit=1):
            if batch.num_rows:
                row = batch.slice(0, 1).to_pylist()[0]
                raise InvalidInput(
                    f"{rule.problem} in a row of the table: {values_text(row)}; nothing was changed",
                    hint="correct or remove such rows before",
                )


def _only(plan: ScanPlan, names: set[str], *, whole: bool) -> ScanPlan:
    """Return a plan of some of its files; with `whole`, of all rows of each, once."""
    done: set[str] = set()

    def kept(file: PlannedFile) -> PlannedFile | None:
        if file.filename not in names or file.filename in done:
            return None
        if whole:
            done.add(file.filename)
        return file._replace(region=None) if whole else file

    leaves = [
        replace(leaf, files=tuple(each for file in leaf.files if (each := kept(file)) is not None))
        for leaf in plan.leaves
    ]
    return replace(plan, leaves=tuple(leaf for leaf in leaves if leaf.files))


# Alter a table.


@dataclass(frozen=True, slots=True, repr=False)
class AlterReport(TableReport):
    """How the columns and rules of a table changed; of a dry run, how they would change.

    Parameters
    ----------
    table
        The table's name.
    before, after
        Its schemas.
    snapshot
        The new snapshot, whose `schema_id` is that of the new schema; None for a dry run.
    rows
        The rows that the table had before.
    """

    table: str
    before: Schema
    after: Schema
    snapshot: Snapshot | None
    rows: int = 0

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.snapshot is None

    @property
    def changed(self) -> tuple[tuple[Field | None, Field | None], ...]:
        """The fields that differ, as pairs (before, after); None before an added column, and after a dropped one."""
        old = {field.column: field for field in self.before.fields}
        new = {field.column: field for field in self.after.fields}
        pairs = [(old.get(column), new.get(column)) for column in old | new]
        return tuple((before, after) for before, after in pairs if before != after)

    def grid(self) -> Grid:
        """Return a row for each column, and each rule of the table, that changes."""
        made = self.snapshot
        title = f"snapshot {made.id}: altered {self.table}" if made else f"would alter {self.table}"
        footer = f"schema {made.schema_id}; older versions keep their schemas" if made else "nothing was changed"
        names = [new.name for old, new in self.changed if old is None and new is not None and new.default is not None]
        if names and self.rows:
            nulls = f"existing rows are NULL in {', '.join(names)}; rows that are loaded get the default"
            footer = f"{footer}\n{nulls}"
        rows = [(_column_text(before), _column_text(after)) for before, after in self.changed]
        old, new = (dict(schema.rules) for schema in (self.before, self.after))
        rows += [
            *((_rule_text(name, old.get(name)), _rule_text(name, new.get(name))) for name in old | new
              if old.get(name) != new.get(name)),
        ]  # fmt: skip
        return Grid(("before", "after"), tuple(rows), title, footer)


def _column_text(field: Field | None) -> str:
    return "" if field is None else f"{field.name} {field.definition}"


def _rule_text(name: str, text: str | None) -> str:
    return "" if text is None else f"{name}: {text}"


def alter(
    store: StateStore,
    name: str,
    changes: Sequence[SchemaAlteration],
    processing: DataProcessing,
    *,
    dry_run: bool,
    rules: RulesOf = no_rules,
    announce: Announce | None = None,
    author: str | None = None,
    message: str | None = None,
) -> AlterReport:
    """Commit a changed schema; when another session alters the table in the meantime, plan again on its schema.

    `InvalidInput`, `NotFound`, `AlreadyExists` when there is no change, or an impossible one; nothing is changed.

    The changes are applied in order (`sleeper_nb.model.evolution.evolved`); they must not break the processing, which
    is how the table's properties process rows. Without a message, that of the commit lists them.
    """
    if not changes:
        hint = ("add one: ", Action('--add-column "note string?"', "add_columns={'note': 'string?'}"))
        raise InvalidInput("no change was given", hint=hint)
    check_processing(processing, changes)
    before = store.load()
    after = evolved(before.schema, changes, before.schema_id + 1)
    rows = RowsChecked(store.storage, rules)
    rows.check(before, after)
    if dry_run:
        return AlterReport(name, before.schema, after, None, store.head().rows)

    def checked_change(state: TableState, schema_id: int, schema: Schema) -> SetSchema:
        rows.check(state, schema)  # those that were added since
        return SetSchema(schema_id, schema)

    schema_commit = SchemaCommit(
        store, lambda state, schema_id: evolved(state.schema, changes, schema_id), checked_change, announce
    )
    old, change, snapshot = schema_commit.commit(author=author, message=message)
    logger.info("table %r: snapshot %d has schema %d", name, snapshot.id, snapshot.schema_id)
    return AlterReport(name, old.schema, change.schema, snapshot, snapshot.rows)
