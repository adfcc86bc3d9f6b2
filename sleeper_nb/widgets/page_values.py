"""Values as the page gets them: cells of a grid, a value as a tree, the kind and the header of a column. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.display.figure import clip
from sleeper_nb.errors import visible
from sleeper_nb.report import Data, cell_text, data_rows, is_missing

if TYPE_CHECKING:
    from sleeper_nb.widgets.column_bars import ColumnSummary

Cell = str | dict[str, Any] | None
"""A value as text, None for NULL, or the beginning of a long text."""
LONGEST_CELL: Final = 200
"""Characters; the whole value is sent when it is opened."""
_LONGEST_TEXT: Final = 100_000
_MOST_ITEMS: Final = 500
"""Items of one list or map that are shown when it is opened."""
_KINDS: Final = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "float"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_time, "time"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_nested, "nested"),
)


def cells_of(rows: pa.Table) -> list[list[Cell]]:
    """Return rows as cells: texts exact, also those of integers and decimals, NULL as None."""
    return [list(map(_cell, row)) for row in data_rows(rows)]


def tree_of(value: Any) -> dict[str, Any]:
    """Return a value as the page shows it when it is opened: its text, or a tree of lists, maps and structs."""
    if isinstance(value, dict):
        return _tree("struct", [(str(name), each) for name, each in value.items()])
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(each, tuple) for each in value)  # as Arrow gives one
        pairs = [(cell_text(Data(key)), each) for key, each in value] if is_map else list(enumerate(value))
        return _tree("map" if is_map else "list", [(str(key), each) for key, each in pairs])
    text = value if isinstance(value, str) else cell_text(Data(value))
    if len(text) <= _LONGEST_TEXT:
        return {"text": text}
    return {"text": f"{text[:_LONGEST_TEXT]}… (first {_LONGEST_TEXT:,} of {len(text):,} characters)"}


def kind_of(kind: pa.DataType) -> str:
    """Return the kind of an Arrow type: ``string``, ``integer``, ``nested`` …."""
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    return next((name for test, name in _KINDS if test(kind)), "string")


def header_of(summary: ColumnSummary) -> dict[str, Any]:
    """Return what is counted of a column, with the labels of its bars."""
    bars = summary.bars
    labels = [] if bars is None else [clip(bars.label(number), LONGEST_CELL) for number in range(len(bars.marks))]
    header: dict[str, Any] = {
        "ranges": bars is not None and bars.are_ranges,
        "bars": labels,
        "counts": list(summary.counts),
        "of": list(summary.of),
        "nulls": summary.nulls,
        "rows": summary.rows,
        "distinct": summary.distinct,
        "exact": summary.exact,
    }
    return header if summary.ends is None else {**header, "ends": [cell_text(Data(each)) for each in summary.ends]}


def _cell(shown: object) -> Cell:
    if is_missing(shown):
        return None
    value = shown.value if isinstance(shown, Data) else shown
    text = value if isinstance(value, str) else cell_text(shown)
    if len(text) > LONGEST_CELL:
        return {"cut": visible(text[:LONGEST_CELL]), "length": len(text)}
    return visible(text)


def _tree(kind: str, items: list[tuple[str, Any]]) -> dict[str, Any]:
    shown = [[name, tree_of(each)] for name, each in items[:_MOST_ITEMS]]
    more = f"… and {len(items) - _MOST_ITEMS:,} more" if len(items) > _MOST_ITEMS else ""
    return {"text": f"{kind} of {len(items):,}", "items": shown, "more": more}
