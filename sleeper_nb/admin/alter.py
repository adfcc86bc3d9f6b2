"""Alter a table: change its columns, its rules or its comments, by committing a new schema.

No data file is written. Rows are read only where the table gets a rule that they must keep: before the commit, and
within it those that others have added meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sleeper_nb.admin.new_rules import RowsChecked, RulesOf, no_rules
from sleeper_nb.admin.schema_commit import SchemaCommit
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.evolution import SchemaChange, check_processing, evolved
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SetSchema
from sleeper_nb.report import Grid, TableReport
from sleeper_nb.state_store.commit_queue import Announce
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)


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
    changes: Sequence[SchemaChange],
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

    Parameters
    ----------
    changes
        Applied in order; see `sleeper_nb.model.evolution.evolved`.
    processing
        How the table's properties process rows; the changes must not break it.
    announce
        As in `StateStore.commit`.
    author, message
        Of the commit; with None, the message lists the changes.
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
