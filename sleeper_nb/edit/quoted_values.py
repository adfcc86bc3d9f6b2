"""The texts of a table that can quote a value of its rows: a purge of such rows leaves them, and names them.

They are the user's, or versions that stay depend on them: messages, names of savepoints, ids of jobs, the schema's
comments, defaults and checks, properties, and split points.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from sleeper_nb.errors import SleeperError
from sleeper_nb.model.properties import TABLE_SCHEMA
from sleeper_nb.model.savepoints import RetainedVersions, savepoint_label
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.report import cell_text, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths

_SHORTEST_QUOTE = 3
"""A shorter value is in many texts that are not about it."""


def quoting(
    values: Collection[str], store: StateStore, kept: RetainedVersions, state: TableState, properties: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what names or describes the texts that have one of some values, and the split points that are one.

    They are looked for in the versions that stay (`kept`), the current state, and the properties that the table sets.
    """
    words = [re.escape(each) for each in values if len(each) >= _SHORTEST_QUOTE]
    if not words:
        return ()
    has_value = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)").search
    texts = (*_of_versions(kept), *_of_jobs(store), *_of_schemas(store, state.schema_id), *_of_properties(properties))
    tree = state.tree
    points = sum(cell_text(tree.split_point(each)) in values for each in tree.partitions if not each.is_leaf)
    named = dict.fromkeys(name for name, text in texts if text and has_value(text))
    return (*named, *([counted(points, "split point")] if points else []))


_Texts = Iterator[tuple[str, str | None]]


def _of_versions(kept: RetainedVersions) -> _Texts:
    for snapshot in kept.snapshots:
        yield f"message of snapshot {snapshot.id}", snapshot.message
    for savepoint in kept.savepoints:
        yield f"savepoint {savepoint_label(savepoint)}", f"{savepoint.name or ''} {savepoint.message or ''}"


def _of_jobs(store: StateStore) -> _Texts:
    for job_id in store.catalog.job_ids(store.table_id):
        yield f"job id {job_id!r}", job_id


def _of_schemas(store: StateStore, current: int) -> _Texts:
    """Yield the texts of the schema, and of earlier ones, whose files stay when no version has them any more."""
    for file in store.storage.list(paths.SCHEMAS):
        schema_id = paths.schema_id(file.path)
        if schema_id is None:
            continue
        try:
            schema = store.schema(schema_id)
        except SleeperError:  # a damaged file of an earlier schema holds up no purge
            yield file.path, store.storage.read(file.path).decode(errors="replace")
            continue
        place = "" if schema_id == current else f" in {file.path}"
        yield from ((f"{name}{place}", text) for name, text in _of_schema(schema))


def _of_schema(schema: Schema) -> _Texts:
    for field in schema.fields:
        yield f"comment of column {field.name}", field.comment
        yield f"default of column {field.name}", field.default_text
    yield "comment of the table", schema.comment
    for check in schema.checks:
        yield f"check {check.name}", check.condition


def _of_properties(properties: Mapping[str, str]) -> _Texts:
    for name, text in properties.items():
        if name != TABLE_SCHEMA:
            yield f"property {name}", text
