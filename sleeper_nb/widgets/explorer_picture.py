"""What stays of the explorer in a saved notebook: the history of a table and what its tab shows, as HTML and text."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.display.partition_picture import partition_map
from sleeper_nb.display.preview import MAX_BYTES, bounded_with_html
from sleeper_nb.display.timeline_picture import timeline
from sleeper_nb.report import SHOWN_ROWS, Grid, counted, data_rows, notes_line
from sleeper_nb.widgets.change_html import change_html
from sleeper_nb.widgets.static_picture import StaticPicture

if TYPE_CHECKING:
    import pyarrow as pa

    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt

_ROWS: Final = 5
_COLUMNS: Final = 24


def picture_of(table: Table, at: TableAt, before: int | None, content: StaticPicture) -> StaticPicture:
    """Return a picture of a version, and maybe one before it: the table's history above what a tab shows of them."""
    found = table.inspect.versions()
    history = timeline(found.snapshots, found.savepoints, at.resolved.snapshot_id, before, name=table.name)
    return StaticPicture(_head(at, before) + history + content.html, content.text)


def rows_picture(at: TableAt, found: QueryResult | None) -> StaticPicture:
    """Return the partitions of a version above a few rows: of those that a filter leaves, or the first ones."""
    names, rows = at.schema.names, at.state.totals().rows
    first = names[:_COLUMNS]
    if found is None:
        shown, footer = at.scan(first, limit=_ROWS).grid(), f"first {min(_ROWS, rows)} of {counted(rows, 'row')}"
    else:
        shown = answer_grid(found.head(_ROWS).select(first))
        footer = shown.footer
    columns = f"{len(first)} of {len(names):,} columns" if len(first) < len(names) else ""
    kept = replace(shown, rows=shown.rows[:_ROWS], footer=notes_line(footer, columns))
    return _shown(kept, _summary(at), partition_map(at))


def schema_picture(at: TableAt) -> StaticPicture:
    """Return the columns of a version."""
    return _shown(at.inspect.fields().grid(), _summary(at))


def partitions_picture(at: TableAt) -> StaticPicture:
    """Return the partitions and files of a version."""
    leaves, files = at.inspect.partitions(), at.inspect.files()
    return _shown(leaves.grid(), _summary(at), leaves.picture + files.picture)


def history_picture(table: Table, at: TableAt) -> StaticPicture:
    """Return the versions of a table, as they were at one moment: listed below their picture."""
    history = table.history()
    return _shown(replace(history.grid(), title=""), _summary(at), _head(at) + history.picture)


def changes_picture(at: TableAt, answer: Mapping[str, Any]) -> StaticPicture:
    """Return what changed between two versions: an answer to `changes`."""
    text = f"{at.name} from snapshot {answer['before']} to {answer['after']}"
    counts = answer["counts"]
    found = "" if counts is None else ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return StaticPicture(change_html(answer, MAX_BYTES // 2), notes_line(text, found))


def sql_picture(at: TableAt, statement: str, rows: pa.Table | None) -> StaticPicture:
    """Return a statement above the first rows of its answer."""
    head = f"<pre>{html.escape(statement)}</pre>"
    return StaticPicture(head, _summary(at)) if rows is None else _shown(answer_grid(rows), _summary(at), head)


def answer_grid(rows: pa.Table, footer: str = "") -> Grid:
    """Return the first rows of an answer."""
    shown = rows.slice(0, SHOWN_ROWS)
    cut = f"first {shown.num_rows:,} rows" if shown.num_rows < rows.num_rows else counted(rows.num_rows, "row")
    return Grid(tuple(shown.column_names), data_rows(shown), footer=notes_line(cut, footer))


def _head(at: TableAt, before: int | None = None) -> str:
    number = at.resolved.snapshot_id
    versions = f"snapshot {number}" if before is None else f"snapshot {before} → {number}"
    return f'<div style="margin-bottom:4px;"><b>{html.escape(at.name)}</b> · {versions}</div>'


def _shown(grid: Grid, text: str, above: str = "") -> StaticPicture:
    """Return a grid below a picture, small enough to be saved."""
    _, listing = bounded_with_html(grid, MAX_BYTES - len(above.encode()))
    return StaticPicture(f'{above}<div style="overflow-x:auto;margin-top:4px;">{listing}</div>', text)


def _summary(at: TableAt) -> str:
    """``flights at snapshot 4: 180 rows, 9 files, 3 partitions``; the moment stays out: two runs are compared by it."""
    state = at.state
    files, leaves = state.files.data_totals.files, len(state.tree.leaves)
    counts = (counted(state.totals().rows, "row"), counted(files, "file"), counted(leaves, "partition"))
    return f"{at.name} at {at.resolved}: {', '.join(counts)}"


def empty_picture(line: str) -> StaticPicture:
    """Return what an instance without tables shows."""
    text = "There is no table yet."
    return StaticPicture(f"<div>{text} This makes one: <code>{html.escape(line)}</code></div>", text)
