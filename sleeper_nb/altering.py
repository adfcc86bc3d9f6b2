"""`Altering`: what changes the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sleeper_nb.arguments import checked
from sleeper_nb.model.evolution import AddColumn, DropColumn, RenameColumn, SchemaChange
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TABLE_SCHEMA, schema_line
from sleeper_nb.model.schema import Field, fields_of
from sleeper_nb.operations.versioning import altering
from sleeper_nb.operations.versioning.altering import AlterReport
from sleeper_nb.oversight import Oversight


class Altering(Oversight):
    """The part of `Table` that changes its columns."""

    @checked
    def alter(
        self,
        add_columns: Mapping[str, str] | Iterable[Field] | None = None,
        rename_columns: Mapping[str, str] | None = None,
        drop_columns: Iterable[str] = (),
        *,
        dry_run: bool = False,
        message: str | None = None,
    ) -> AlterReport:
        """Add, rename and drop value columns, by one commit that reads and writes no data file.

        Older versions keep their columns, and so do queries of them; `at` with ``schema="current"`` reads them with
        those of now. Loads and compactions that run meanwhile are not disturbed.

        Parameters
        ----------
        add_columns
            Names with their types, which must be nullable: ``{"note": "string?"}``. Null in the rows that there are.
        rename_columns
            Names of now, each with the new one.
        drop_columns
            Names. They go first, then others are renamed, then new ones are added: so a name can be given anew.
        dry_run
            Only return what would change.
        message
            What history shows of it.

        Raises
        ------
        NotFound
            When there is no such column; the nearest is named.
        AlreadyExists
            When the new name is taken, in any case of its letters.
        InvalidInput
            When no change is given; when a key is named, or a column that the table's filters or aggregations use; or
            when a new column is not nullable. Nothing is changed by this or any other error.
        """
        changes: list[SchemaChange] = [DropColumn(name) for name in drop_columns]
        changes += [RenameColumn(name, to) for name, to in (rename_columns or {}).items()]
        changes += [AddColumn(field) for field in fields_of({} if add_columns is None else add_columns)]
        components, schema = self._components, self._store.load().schema
        report = altering.alter(
            self._store,
            self.name,
            changes,
            DataProcessing.of(self._properties_now, schema, components.clock.now()),
            dry_run=dry_run,
            author=components.author,
            message=message,
        )
        if report.snapshot is not None:  # what `reinitialise` compares with; a crash here is mended by the next change
            now = {TABLE_SCHEMA: schema_line(self._store.load().schema)}
            components.property_files.change(self.entry.id, now, lambda _: None)
        return report
