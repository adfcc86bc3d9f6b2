"""Rename, drop, reinitialise, migrate and declare the tables of an instance."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sleeper_nb.admin import delete as deletion
from sleeper_nb.admin import migrate as migration
from sleeper_nb.admin import reinitialise as reinitialising
from sleeper_nb.admin.apply import (
    ApplyReport,
    Existing,
    TableDeclaration,
    check_all_can,
    declarations_of,
    plan_table,
)
from sleeper_nb.admin.delete import DeletionReport
from sleeper_nb.admin.instances import check_table_name
from sleeper_nb.admin.reinitialise import ReinitialiseReport
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput
from sleeper_nb.load.data_columns import SchemaChoice
from sleeper_nb.load.split import initial_split_points, with_splits
from sleeper_nb.model.properties import STATE_STORE, TABLE_SCHEMA
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import CONFIRM
from sleeper_nb.session import creating
from sleeper_nb.session.creating import NewTable, TableRequest
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.table.configuring import check_fit, set_properties

logger = logging.getLogger(__name__)


def rename(tables: TableOpener, old: str, new: str) -> None:
    """Rename a table; errors are those of `Session.rename_table`."""
    entry, catalog = tables.entry(old), tables.components.catalog
    check_table_name(new, [other for other in catalog.tables() if other.id != entry.id])
    catalog.rename_table(entry.id, entry.name, new)
    logger.info("renamed table %s (%s) to %s", entry.name, entry.id, new)


def drop(tables: TableOpener, name: str, *, force: bool, dry_run: bool) -> DeletionReport:
    """Drop a table with `force`; return the plan with `dry_run`; otherwise raise `ConfirmationNeeded` with it."""
    catalog, files, clock = tables.components.catalog, tables.components.property_files, tables.components.clock
    if force and not dry_run:
        deletion.finish_deletions(catalog, files, clock)
    entry = tables.entry(name)
    plan = deletion.plan_table_deletion(catalog, files, entry, clock)
    if dry_run:
        return plan
    if not force:
        message = f"this deletes table {plan.table!r} for good: {plan.summary}"
        raise ConfirmationNeeded(message, hint=CONFIRM, plan=plan)
    deletion.delete_table(catalog, files, entry, clock)
    tables.forget(entry.id)
    logger.info("deleted table %s (%s)", entry.name, entry.id)
    return replace(plan, dry_run=False)


def reinitialise(
    tables: TableOpener,
    name: str,
    *,
    delete_partitions: bool,
    split_points: Iterable[Any] | None,
    splits_file: str | None,
    strings_base64: bool,
    force: bool,
    dry_run: bool,
) -> ReinitialiseReport:
    """Delete the contents of a table; parameters and errors are those of `Session.reinitialise_table`."""
    table, files = tables.named(name), tables.components.property_files
    state = table.store.load()
    written = table.properties[TABLE_SCHEMA]
    schema = None if written in (None, state.schema) else written  # None: the schema stays
    points = None
    if delete_partitions:
        if split_points is None and splits_file is None:
            files.check_splits_file(table.properties)
        settings = with_splits(table.properties, split_points is not None, splits_file, strings_base64)
        points = initial_split_points(schema or state.schema, split_points, settings, tables.storage)
    elif split_points is not None or splits_file is not None:
        raise InvalidInput(
            "split points were given, but the partitions are kept",
            hint="set delete_partitions, or leave the split points out",
        )
    if schema:
        engines = tables.components.engines
        check_fit(table.properties.processed_as(state.processing), schema, tables.components.clock, engines)
        engines.row_checks(schema)
    fresh, author = reinitialising.Fresh(schema, points), tables.components.author
    return reinitialising.reinitialise(table.store, table.name, fresh, force=force, dry_run=dry_run, author=author)


def migrate(tables: TableOpener, name: str, to: str, *, message: str | None) -> Snapshot:
    """Move the metadata of a table to another state store; errors are those of `Session.migrate`."""
    table, files = tables.named(name), tables.components.property_files
    with files.with_commit(table.entry.id, {STATE_STORE: to}) as announce:
        snapshot = migration.migrate_state_store(
            table.store, to, announce=announce, author=tables.components.author, message=message
        )
    tables.replace_store(table.store.named(snapshot.state_store))
    logger.info("table %s: moved to %s in snapshot %d", table.name, snapshot.state_store, snapshot.id)
    return snapshot


def apply(
    tables: TableOpener, declared: str | Path | Mapping[str, Any], *, dry_run: bool, skip_conflicts: bool
) -> ApplyReport:
    """Create and change tables as they are declared; errors are those of `Session.apply`."""
    existing = {}
    for entry in tables.components.catalog.tables():
        table = tables.open_present(entry)
        existing[table.name.casefold()] = Existing(table.name, table.store.load().schema, table.properties)
    plans = tuple(
        plan_table(
            each,
            existing.get(each.name.casefold()),
            lambda new: creating.planned(tables, _declared_table(new), new.schema),
            lambda old, settings: check_fit(settings, old.schema, tables.components.clock, tables.components.engines),
        )
        for each in declarations_of(declared)
    )
    if not dry_run and not skip_conflicts:
        check_all_can(plans)
    for each in () if dry_run else plans:
        new = each.declared
        if each.action == "create":
            creating.create_table(
                tables, TableRequest(_declared_table(new), new.schema, None, SchemaChoice()), dry_run=False
            )
        elif each.action == "change":
            set_properties(tables.named(new.name), each.changes)
    names = {each.declared.name.casefold() for each in plans}
    return ApplyReport(plans, tuple(old.name for key, old in existing.items() if key not in names), dry_run)


def _declared_table(declared: TableDeclaration) -> NewTable:
    return NewTable(declared.name, declared.split_points, properties=declared.properties)
