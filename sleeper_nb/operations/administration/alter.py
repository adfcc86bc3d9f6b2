"""Alter: columns are added, renamed and dropped by one commit of a new schema; no data file is read or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.evolution import SchemaChange, check_processing, evolved
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import SetSchema
from sleeper_nb.operations.administration.schema_commit import SchemaCommit
from sleeper_nb.report import Grid, Report
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True, repr=False)
class AlterReport(Report):
    """What became of the columns of a table; of a dry run, what would.

    Parameters
    ----------
    table
        The table's name.
    before, after
        Its schemas.
    snapshot
        The new snapshot, whose `schema_id` is that of the new schema; None for a dry run.
    """

    table: str
    before: Schema
    after: Schema
    snapshot: Snapshot | None

    @property
    def dry_run(self) -> bool:
        """Whether nothing was done."""
        return self.snapshot is None

    @property
    def changed(self) -> tuple[tuple[Field | None, Field | None], ...]:
        """The fields before and after, where they differ; None before one that was added, and after one that went."""
        old, new = ({field.column: field for field in schema.fields} for schema in (self.before, self.after))
        pairs = ((old.get(column), new.get(column)) for column in dict.fromkeys((*old, *new)))
        return tuple((was, now) for was, now in pairs if was != now)

    def grid(self) -> Grid:
        """Return one row a column that changes."""
        done = self.snapshot
        title = f"snapshot {done.id}: altered {self.table}" if done else f"would alter {self.table}"
        footer = f"schema {done.schema_id}; older versions keep theirs" if done else "nothing was changed"
        rows = tuple(tuple("" if f is None else f"{f.name} {f.text}" for f in pair) for pair in self.changed)
        return Grid(("before", "after"), rows, title, footer)


def alter(
    store: StateStore,
    name: str,
    changes: Sequence[SchemaChange],
    processing: DataProcessing,
    *,
    dry_run: bool,
    author: str | None = None,
    message: str | None = None,
) -> AlterReport:
    """Give a table another schema by one commit, planned anew when another one alters it meanwhile.

    Parameters
    ----------
    store, name
        The table.
    changes
        In order; see `sleeper_nb.model.evolution.evolved`.
    processing
        What the table's properties do with rows, which must stay possible.
    dry_run, author, message
        As of every change; the message tells the changes when None.

    Raises
    ------
    InvalidInput, NotFound, AlreadyExists
        When there is no change, or one that cannot be; nothing is changed.
    """
    if not changes:
        hint = ("add one: ", Action('--add-column "note string?"', "add_columns={'note': 'string?'}"))
        raise InvalidInput("no change of the columns was given", hint=hint)
    check_processing(processing, changes)
    before = store.load()
    after = evolved(before.schema, changes, before.schema_id + 1)
    if dry_run:
        return AlterReport(name, before.schema, after, None)
    planned = SchemaCommit(
        store,
        lambda state, schema_id: evolved(state.schema, changes, schema_id),
        lambda _, schema_id, schema: SetSchema(schema_id, schema),
    )
    old, made, snapshot = planned.commit(author=author, message=message)
    return AlterReport(name, old.schema, made.schema, snapshot)
