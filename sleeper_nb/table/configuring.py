"""Change how a table is set up: its properties and their file, and its columns."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from sleeper_nb.admin import alter as altering
from sleeper_nb.admin import property_files
from sleeper_nb.admin.alter import AlterReport, NewRule
from sleeper_nb.engines.components import Components, Engines, OpenTable
from sleeper_nb.errors import Action, ConfirmationNeeded, InvalidInput, SleeperError, StorageError
from sleeper_nb.maintain.findings import Finding
from sleeper_nb.model.evolution import (
    DropColumn,
    RenameColumn,
    SchemaAlteration,
    check_checks,
    check_statistics,
    without_new_promises,
)
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import EXPECT, STATISTICS, TABLE_SCHEMA, TableProperties, schema_line
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SetProcessing
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.state_store.commit_queue import Announce

logger = logging.getLogger(__name__)


def set_properties(table: OpenTable, changes: Mapping[str, str | None]) -> OpenTable:
    """Set properties as `Table.set_properties` does, and return the table with them."""
    property_files.check_changes(table.name, table.properties, changes)
    files, state = table.components.property_files, table.store.load()
    if changes.get(TABLE_SCHEMA, "") is None:
        changes = {**changes, TABLE_SCHEMA: schema_line(state.schema)}
    properties = files.checked(
        table.entry.id, changes, lambda written: check_fit(written, state.schema, table.components)
    )
    processing = {name: text for name, text in changes.items() if name in PROCESSING_PROPERTIES}
    if processing and _processing(properties, state, processing) != state.processing:
        with files.with_commit(table.entry.id, changes) as announce:
            _record_processing(table, properties, processing, announce)
    else:
        files.change(table.entry.id, changes)
    logger.info("table %s: set %s", table.name, ", ".join(changes))
    return replace(table, properties=properties)


def accept_properties(table: OpenTable) -> OpenTable:
    """Accept the property file as it is, as `Table.accept_properties` does, and return the table with it."""
    files = table.components.property_files
    written, state = files.of_entry(table.entry), table.store.load()
    check_fit(written, state.schema, table.components)
    processing = {name: written.texts.get(name) for name in PROCESSING_PROPERTIES}
    is_new = _processing(written, state, processing) != state.processing
    if is_new:
        _record_processing(table, written, processing)
    try:
        files.accept(table.entry.id)
    except StorageError as error:
        if is_new:
            error.hint = ("its settings are in effect, but it still counts as changed by hand: run it again",)
        raise
    logger.info("table %s: accepted %s", table.name, table.properties_path)
    return replace(table, properties=written)


def _processing(written: TableProperties, state: TableState, changes: Mapping[str, str | None]) -> str:
    texts = {**written.processed_as(state.processing).texts, **changes}
    return replace(written, texts={name: text for name, text in texts.items() if text is not None}).processing


def _record_processing(
    table: OpenTable,
    written: TableProperties,
    changes: Mapping[str, str | None],
    announce: Announce | None = None,
) -> None:
    def change(state: TableState) -> SetProcessing:
        return SetProcessing(_processing(written, state, changes))

    logger.info("table %s: recording changed filters, iterator or aggregations", table.name)
    table.store.commit(change, author=table.components.author, announce=announce)


def check_fit(properties: TableProperties, schema: Schema, of: Components) -> None:
    """Raise when a table's filters, iterator, aggregations, statistics or expectations do not fit its schema."""
    Processor.of(DataProcessing.of(properties, schema, of.clock.now()), schema)
    if properties.origin(STATISTICS) == "table":  # names in the instance's default may be of other tables
        properties[STATISTICS].check(schema)
    of.engines.bound_expectations(schema, properties)


def property_notes(table: OpenTable, state: TableState) -> tuple[str, ...]:
    """Return what the property file says that a version does not do, and whether the file was edited by hand."""
    files = table.components.property_files
    waiting = property_files.pending_settings(files.of_entry(table.entry), state, table.name, table.properties_path)
    if not files.is_edited(table.entry.id):
        return waiting
    return property_files.manual_edit_note(table.name, table.properties_path), *waiting


def property_findings(table: OpenTable) -> Iterator[Finding]:
    """Yield what is wrong with the property file, for a check; the check itself reports an unreadable version."""
    effect = "what the file says and what the table does differ"
    try:
        table.components.property_files.of_entry(table.entry)
        state = table.store.load()
    except SleeperError as error:
        if table.properties_path in error.message:
            yield Finding("properties", error.message, "", effect)
        return
    for note in property_notes(table, state):
        yield Finding("properties", note, "", effect)


def check_not_edited(table: OpenTable) -> None:
    """Raise before versions or files are deleted by properties that may be damaged, such as those of a cut file."""
    if table.components.property_files.is_edited(table.entry.id):
        raise ConfirmationNeeded(
            f"{table.properties_path} was changed by hand, or damaged, so nothing was deleted",
            hint=("check the file, then accept it: ", property_files.accepting(table.name)),
        )


def alter(table: OpenTable, changes: Sequence[SchemaAlteration], *, dry_run: bool, message: str | None) -> AlterReport:
    """Change the columns of a table, and note the new schema in its property file."""
    check_statistics(table.properties[STATISTICS], changes)
    _check_expectations(table, changes)
    # `reinitialise` compares with the schema in the file
    with table.components.property_files.with_commit(table.entry.id, {}, takes_schema=True) as announce:
        return altering.alter(
            table.store,
            table.name,
            changes,
            table.processing_of(table.store.load()),
            dry_run=dry_run,
            rules=partial(new_rules, table.components.engines, changes),
            announce=announce,
            author=table.components.author,
            message=message,
        )


def _check_expectations(table: OpenTable, changes: Sequence[SchemaAlteration]) -> None:
    """Refuse to rename or drop a column that an expectation of the table names."""
    gone = [change for change in changes if isinstance(change, RenameColumn | DropColumn)]
    if not gone or not table.properties.expectations:
        return
    for each in table.components.engines.bound_expectations(table.store.load().schema, table.properties):
        for change in gone:
            if change.name in each.broken.columns:
                python = f"table.set_properties({{{EXPECT!r}: None}})"
                unset = Action(f"properties {shlex.quote(table.name)} --unset {EXPECT}", python)
                raise InvalidInput(
                    f"column {change.name!r} is used by the expectation {each.check.name!r}",
                    hint=(f"set {EXPECT} to others first, or to none: ", unset),
                )


def new_rules(
    engines: Engines, changes: Sequence[SchemaAlteration], before: Schema, after: Schema
) -> Sequence[NewRule]:
    """Return what the rows must keep so that one schema may follow another; raise when its CHECKs do not fit it."""
    if any(isinstance(change, RenameColumn | DropColumn) for change in changes):
        check_checks({each.check.name: each.broken.columns for each in engines.row_checks(before)}, changes)
    nullable = {field.column for field in before.values if field.nullable}
    rules = [
        NewRule(
            f"column {field.name!r} is NULL",
            engines.condition(f"{quoted_name(field.name)} IS NULL", without_new_promises(before, after)),
            whole_files=True,
        )
        for field in after.values
        if not field.nullable and field.column in nullable
    ]
    types = {field.column: field.type for field in before.values}
    widened = {field.name for field in after.values if types.get(field.column, field.type) != field.type}
    for check in after.checks:
        if check in before.checks and not widened:
            continue
        bound = engines.row_check(check, after, planned=True)
        if check not in before.checks or widened & bound.broken.columns:  # a wider type may compare otherwise
            rules.append(NewRule(f"check {check.name!r} ({check.condition}) is false", bound.broken))
    return rules
