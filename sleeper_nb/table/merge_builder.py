"""`MergeBuilder`: says clause by clause what a merge does, with the names that delta-rs gives the clauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sleeper_nb.arguments import checked
from sleeper_nb.change.change import ChangeReport
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import counted
from sleeper_nb.table.row_statements import SOURCE_NAME, StatementWriter


class RunMerge(Protocol):
    """Runs a statement."""

    def __call__(
        self, text: str, *, dry_run: bool, force: bool, message: str | None, job_id: str | None
    ) -> ChangeReport:
        """Return what it did, or would do."""


@dataclass(frozen=True, slots=True, repr=False)
class MergeBuilder:
    """A merge of rows into a table; nothing runs before `execute`.

    Made by `Table.merge`. Each call returns a new builder with one more clause. In expressions, ``source.a`` is a
    column of the new rows and ``target.a`` one of the table. The first clause of its kind that a row meets counts.

    Parameters
    ----------
    match
        Which rows of the table and of the source match, as SQL.
    source_columns
        The columns of the new rows.
    clauses
        The clauses so far, as SQL.
    """

    _writer: StatementWriter
    _run: RunMerge
    match: str
    source_columns: Sequence[str]
    clauses: tuple[str, ...] = ()

    def __repr__(self) -> str:
        head = f"merge into {self._writer.table}, not run yet: {counted(len(self.clauses), 'clause')}"
        lines = [f"  {clause}" for clause in self.clauses]
        return "\n".join([head, *lines, ".execute() runs it; .execute(dry_run=True) counts rows"])

    @checked
    def when_matched_update(self, updates: Mapping[str, str], predicate: str | None = None) -> MergeBuilder:
        """Update rows that match: `updates` has an expression of SQL for each column, such as ``"source.fare"``."""
        return self._with("MATCHED", predicate, f"UPDATE SET {self._assigned(updates)}")

    @checked
    def when_matched_update_all(self, predicate: str | None = None, except_cols: Sequence[str] = ()) -> MergeBuilder:
        """Update all columns of rows that match from the source's columns of the same names, but for some."""
        return self._with("MATCHED", predicate, f"UPDATE SET {self._assigned(self._all(except_cols))}")

    @checked
    def when_matched_delete(self, predicate: str | None = None) -> MergeBuilder:
        """Delete rows that match."""
        return self._with("MATCHED", predicate, "DELETE")

    @checked
    def when_not_matched_insert(self, updates: Mapping[str, str], predicate: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match none: `updates` has an expression for each column."""
        return self._with("NOT MATCHED", predicate, self._inserted(updates))

    @checked
    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: Sequence[str] = ()
    ) -> MergeBuilder:
        """Insert rows of the source that match none, with all their columns but for some."""
        return self._with("NOT MATCHED", predicate, self._inserted(self._all(except_cols)))

    @checked
    def when_not_matched_by_source_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> MergeBuilder:
        """Update rows of the table that match no row of the source; this reads the whole table."""
        return self._with("NOT MATCHED BY SOURCE", predicate, f"UPDATE SET {self._assigned(updates)}")

    @checked
    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> MergeBuilder:
        """Delete rows of the table that match no row of the source; this reads the whole table."""
        return self._with("NOT MATCHED BY SOURCE", predicate, "DELETE")

    @checked
    def execute(
        self, *, dry_run: bool = False, force: bool = False, message: str | None = None, job_id: str | None = None
    ) -> ChangeReport:
        """Run the merge in one commit, or return what it would do; parameters and errors as of `Table.upsert`.

        Where no condition names a column of the table and all its rows would be deleted, `force` confirms it.
        """
        if not self.clauses:
            hint = "add .when_matched_update_all(), .when_not_matched_insert_all() or another clause"
            raise InvalidInput("the merge has no clause", hint=hint)
        return self._run(self.statement, dry_run=dry_run, force=force, message=message, job_id=job_id)

    @property
    def statement(self) -> str:
        """The statement that `execute` runs."""
        return " ".join([self._writer.merge(self.match), *self.clauses])

    def _with(self, kind: str, predicate: str | None, action: str) -> MergeBuilder:
        condition = "" if predicate is None else f" AND ({self._writer.expression(predicate, 'a predicate')})"
        return replace(self, clauses=(*self.clauses, f"WHEN {kind}{condition} THEN {action}"))

    def _all(self, except_cols: Sequence[str]) -> dict[str, str]:
        left = {name.casefold() for name in except_cols}
        quoted = self._writer.quoted
        chosen = [name for name in self.source_columns if name.casefold() not in left]
        return {name: f"{quoted(SOURCE_NAME)}.{quoted(name)}" for name in chosen}

    def _assigned(self, updates: Mapping[str, str]) -> str:
        return ", ".join(f"{self._writer.quoted(name)} = {value}" for name, value in self._values(updates).items())

    def _inserted(self, updates: Mapping[str, str]) -> str:
        names, values = zip(*self._values(updates).items(), strict=True)
        columns = ", ".join(map(self._writer.quoted, names))
        return f"INSERT ({columns}) VALUES ({', '.join(values)})"  # noqa: S608 - the user's own expressions

    def _values(self, updates: Mapping[str, str]) -> Mapping[str, str]:
        if not updates:
            raise InvalidInput("the clause sets no column", hint='give an expression for each: {"fare": "source.fare"}')
        return {name: self._writer.expression(text, f"the new value of {name!r}") for name, text in updates.items()}
