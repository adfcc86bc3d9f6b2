"""What changed between two versions, as an answer that is read step by step. No widget here.

Metadata is there at once: files and partitions. Rows are compared next, then columns are counted, unless that would
read a large version unasked.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.last_used import LastUsed
from sleeper_nb.model.schema import Schema
from sleeper_nb.report import Bytes, counted
from sleeper_nb.table_at import TableAt
from sleeper_nb.widgets.column_changes import ColumnComparison, ComparedColumn
from sleeper_nb.widgets.page_values import Cell, cells_of, header_of
from sleeper_nb.widgets.request_lanes import Answer

if TYPE_CHECKING:
    from sleeper_nb.progress import Watch
    from sleeper_nb.public_types import FileDiff, FirstImages, ImageSummary
    from sleeper_nb.table import Table
    from sleeper_nb.widgets.open_tables import OpenTables

READ_UNASKED: Final = 64 << 20
"""Bytes; what needs more is read when the user asks for it."""
_MOST_ROWS: Final = 200
"""The most changed rows of each kind that are kept."""
_COUNTED: Final = 24
"""How many columns are counted."""
_MOST_COLUMNS: Final = 100
"""Of the listed rows; keys and changed ones come first."""
_MOST_LISTED: Final = 1_000
"""Files, and partitions."""

Steps = Generator[Answer, None, Answer]


class ChangeAnswers:
    """Answers `changes`; what was read of the last two versions is kept."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables
        self._known = LastUsed[tuple[TableAt, TableAt], _VersionPair](1)

    def changes(self, asked: Mapping[str, Any], watch: Watch) -> Steps:
        """Yield what changed, first from metadata, then with rows; return it with columns, as far as they are read."""
        table = self._tables.table(asked["table"])
        before, after = (self._tables.at(table.name, asked[which]) for which in ("before", "after"))
        pair = self._known.get((before, after))
        if pair is None:
            pair = self._known.put((before, after), _VersionPair(table, before, after))
        return pair.read(frozenset(asked["asked"]), watch)


class _VersionPair:
    """Two versions of a table, compared without Spark, and what was read of the rows that differ."""

    def __init__(self, table: Table, before: TableAt, after: TableAt) -> None:
        self._table, self._before, self._after = table.name, before, after
        self._numbers = tuple(each.resolved.snapshot_id for each in (before, after))
        self._schema = max(before, after, key=lambda each: each.resolved.snapshot_id).schema
        self._changes = table.changes(*self._numbers, images=True)
        self._columns = ColumnComparison(before, after)
        states = dict(zip(self._numbers, (before.state, after.state), strict=True)).values()
        self._counted_bytes = sum(state.files.data_totals.bytes for state in states)
        self._rows: ImageSummary | None = None
        self._statistics: list[Answer] | None = None

    def read(self, asked: frozenset[str], watch: Watch) -> Steps:
        """Yield what is known before more is read; `asked`, rows and columns, are read however large they are."""
        if self._rows is None and "rows" not in self._unread(asked):
            yield self._answer(asked)
            watch.check()
            self._rows = self._changes.summary(_MOST_ROWS, progress=watch)
        if self._statistics is None and "columns" not in self._unread(asked):
            yield self._answer(asked)
            watch.check()
            self._statistics = [_statistics(each) for each in self._columns.of(self._names[:_COUNTED], watch)]
        return self._answer(asked)

    @property
    def _names(self) -> Sequence[str]:
        """All columns; of more than are counted, keys and changed ones first."""
        names = self._schema.names
        if self._rows is None or len(names) <= _COUNTED:
            return names
        first = {*self._schema.sort_order, *self._rows.cells}
        return sorted(names, key=lambda name: name not in first)

    def _unread(self, asked: frozenset[str]) -> dict[str, int]:
        """Return how many bytes of what is not known must be read, where that is so much that a user asks for it."""
        sizes = {"rows": (self._rows, self._changes.bytes), "columns": (self._statistics, self._counted_bytes)}
        return {
            what: size
            for what, (known, size) in sizes.items()
            if known is None and size > READ_UNASKED and what not in asked
        }

    def _answer(self, asked: frozenset[str]) -> Answer:
        (before, after), rows, unread = self._numbers, self._rows, self._unread(asked)
        columns = self._names[:_MOST_COLUMNS]
        return {
            "before": before,
            "after": after,
            "line": f"%sleeper diff {self._table} {before} {after} --rows --images",
            "keys": list(self._schema.sort_order),
            "columns": list(columns),
            "columnsOf": len(self._schema.names),
            "counts": None if rows is None else _counts(rows),
            "rows": [] if rows is None else _rows(rows, columns),
            "most": _MOST_ROWS,
            "cells": {} if rows is None else dict(rows.cells),
            "statistics": self._statistics,
            **self._recorded,
            "unread": {what: str(Bytes(unread[what])) if what in unread else "" for what in ("rows", "columns")},
        }

    @cached_property
    def _recorded(self) -> Answer:
        """What metadata has: files, partitions, and columns of the schema that differ."""
        old, new = self._before.state, self._after.state
        removed, added = old.files.unshared(new.files)
        counts = [dict(zip(*_counted(each), strict=True)) for each in (removed, added)]
        rows = [{name: each.rows for name, each in state.files.by_partition().items()} for state in (old, new)]
        order = {leaf.id: place for place, leaf in enumerate(new.tree.leaves)}
        partitions, keys = [], {}
        for name in sorted(counts[0].keys() | counts[1].keys(), key=lambda each: (order.get(each, -1), each)):
            tree, schema = (new.tree, new.schema) if name in new.tree else (old.tree, old.schema)
            (gone, came), (before, after) = ([each.get(name, 0) for each in both] for both in (counts, rows))
            keys[name] = tree[name].region.text(schema)
            partitions.append(
                {"keys": keys[name], "rowsBefore": before, "rowsAfter": after, "added": came, "removed": gone}
            )
        of_files = {**_keys_of_files(removed, keys), **_keys_of_files(added, keys)}
        files = dict(zip(("added", "removed"), self._changes.files(), strict=True))
        return {
            "files": {kind: [_file(each, of_files) for each in some[:_MOST_LISTED]] for kind, some in files.items()},
            "filesOf": {kind: len(some) for kind, some in files.items()},
            "partitions": partitions[:_MOST_LISTED],
            "partitionsChanged": len(partitions),
            "partitionsOf": len(new.tree.leaves),
            "schema": _changed_columns(self._before.schema, self._after.schema),
        }


def _counts(found: ImageSummary) -> dict[str, int]:
    inserted, updated, deleted = found.counts
    return {"added": inserted, "removed": deleted, "changed": updated}


def _rows(found: ImageSummary, columns: Sequence[str]) -> list[Answer]:
    """Return the first rows of each kind together, in key order within each leaf partition."""

    def cells(first: FirstImages) -> list[list[Cell]]:
        return cells_of(first.rows.select(columns))

    numbered: list[tuple[int, Answer]] = [
        (place, {"kind": kind, "cells": row})
        for kind, first in (("added", found.inserted), ("removed", found.deleted))
        for place, row in zip(first.places, cells(first), strict=True)
    ]
    differing = map(list[bool], found.differing(columns))
    pairs = zip(found.before.places, cells(found.before), cells(found.after), differing, strict=True)
    for place, before, after, differs in pairs:
        numbered.append((place, {"kind": "changed", "cells": before, "after": after, "differs": differs}))
    return [row for _, row in sorted(numbered, key=lambda each: each[0])]


def _statistics(column: ComparedColumn) -> Answer:
    sides = {"before": column.before, "after": column.after}
    return {"name": column.name, **{which: None if side is None else header_of(side) for which, side in sides.items()}}


def _file(file: FileDiff, keys: Mapping[str, str]) -> Answer:
    name = file.filename.rpartition("/")[2]
    return {"name": name, "partition": keys.get(file.filename, ""), "rows": file.rows, "bytes": file.bytes}


def _counted(references: pa.Table) -> Sequence[Sequence[object]]:
    found = references.group_by("partition_id").aggregate([("filename", "count")])
    return found["partition_id"].to_pylist(), found["filename_count"].to_pylist()


def _keys_of_files(references: pa.Table, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the key range of the partition of each file, or how many partitions it is in."""
    found = references.group_by("filename").aggregate([("partition_id", "count"), ("partition_id", "min")])
    columns = (found[name].to_pylist() for name in ("filename", "partition_id_count", "partition_id_min"))
    return {
        name: keys[partition] if count == 1 else counted(count, "partition")
        for name, count, partition in zip(*columns, strict=True)
    }


def _changed_columns(before: Schema, after: Schema) -> list[Answer]:
    """Return the columns that differ in type, name or existence, with their type at each version, "" for none.

    A column is the same one when its files know it by the same name; a name that differs is written before its type.
    """
    old, new = ({each.column: each for each in schema.fields} for schema in (before, after))
    found = []
    for column in dict.fromkeys((*new, *old)):
        was, now = old.get(column), new.get(column)
        name = now.name if now is not None else was.name if was is not None else ""
        texts = ["" if each is None else each.text if each.name == name else f"{each.name} {each.text}"
                 for each in (was, now)]  # fmt: skip
        if texts[0] != texts[1]:
            found.append({"name": name, "before": texts[0], "after": texts[1]})
    return found
