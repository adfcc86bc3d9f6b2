"""A change between two versions as HTML, for the saved notebook: totals, first rows, columns, files, partitions.

Colour is never alone: a word or a mark says the same, as notebooks that are not trusted lose some styles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sleeper_nb.display.figure import clip
from sleeper_nb.display.preview import largest
from sleeper_nb.report import NO_MATHS, Bytes, Grid, counted, escaped
from sleeper_nb.widgets.page_values import Cell

_MARKS: Final = {"added": "+ added", "removed": "− removed", "changed": "~ changed"}
_TINTS: Final = {"added": "rgba(46, 160, 67, 0.18)", "removed": "rgba(218, 54, 51, 0.16)", "changed": ""}
"""Backgrounds on which the text of a light and of a dark page can be read."""
_TABLE: Final = "border-collapse:collapse;font-variant-numeric:tabular-nums;"
_ROW: Final = "border-bottom:1px solid color-mix(in srgb, currentColor 20%, transparent);"
_CELL: Final = "padding:2px 10px;text-align:left;white-space:nowrap;"
_SCROLL: Final = '<div style="overflow-x:auto;margin-top:4px;">'
_LONGEST: Final = 80
_MOST_ROWS, _MOST_LISTED, _MOST_COLUMNS = 20, 10, 12
_BAR, _TALLEST = 5, 16  # px of a bar of a histogram
_STRENGTH: Final = {"before": 0.35, "after": 0.8}


def change_html(answer: Mapping[str, Any], room: int) -> str:
    """Return an answer to `changes` in about so many bytes."""
    columns = "" if answer["statistics"] is None else _columns(answer)
    files = "".join(map(_listing, _files(answer)))
    head = _headline(answer)
    used = len(f"{head}{columns}{files}".encode())
    return "".join((head, _bounded_rows(answer, max(room - used, room // 4)), columns, files))


def _headline(answer: Mapping[str, Any]) -> str:
    counts = answer["counts"]
    if counts is None:
        return f"<div>The rows were not compared: {escaped(answer['unread']['rows'] or 'they were being read')}.</div>"
    if not any(counts.values()):
        return "<b>No row differs</b>"
    parts = (
        f'<span style="background-color:{_TINTS[kind]};padding:0 4px;">{mark[0]}{counts[kind]:,} {kind}</span>'
        for kind, mark in _MARKS.items()
    )
    return f"<b>{' '.join(parts)}</b>"


def _bounded_rows(answer: Mapping[str, Any], room: int) -> str:
    if not answer["rows"]:
        return ""
    across = largest(len(answer["columns"]), lambda columns: len(_rows(answer, 1, columns).encode()) <= room)
    rows = largest(_MOST_ROWS, lambda rows: len(_rows(answer, rows, across).encode()) <= room)
    return _rows(answer, rows, across)


def _rows(answer: Mapping[str, Any], most: int, across: int) -> str:
    """Return the first rows that differ, of which a changed one has its old and new values side by side."""
    names, rows = answer["columns"][:across], answer["rows"][:most]
    of = sum(answer["counts"].values())
    said = [f"first {len(rows):,} of {counted(of, 'row')} that differ" if len(rows) < of else ""]
    said.append(f"{across:,} of {answer['columnsOf']:,} columns" if across < answer["columnsOf"] else "")
    heads = "".join(f'<th scope="col" style="{_CELL}">{escaped(name)}</th>' for name in ("", *names))
    body = "".join(_row(row, across) for row in rows)
    table = f'<table style="{_TABLE}"><thead><tr style="{_ROW}">{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="{NO_MATHS}"><div>{" · ".join(filter(None, said))}</div>{_SCROLL}{table}</div></div>'


def _row(row: Mapping[str, Any], across: int) -> str:
    cells = list(map(_text, row["cells"][:across]))
    if "after" in row:
        pairs = zip(cells, map(_text, row["after"]), row["differs"], strict=False)
        cells = [_both(old, new) if differs else old for old, new, differs in pairs]
    tint = f"background-color:{_TINTS[row['kind']]};" if _TINTS[row["kind"]] else ""
    head = f'<th scope="row" style="{_CELL}font-weight:normal;">{_MARKS[row["kind"]]}</th>'
    return f'<tr style="{_ROW}{tint}">{head}{"".join(f"""<td style="{_CELL}">{cell}</td>""" for cell in cells)}</tr>'


def _both(old: str, new: str) -> str:
    before = f'<del style="background-color:{_TINTS["removed"]};">{old}</del>'
    return f'{before} → <ins style="background-color:{_TINTS["added"]};">{new}</ins>'


def _text(cell: Cell) -> str:
    if cell is None:
        return "<i>NULL</i>"
    return escaped(clip(cell if isinstance(cell, str) else cell["cut"], _LONGEST))


def _columns(answer: Mapping[str, Any]) -> str:
    """Return the counted columns as a table, with their histograms."""
    heads = ("Column", "Rows by value", "NULL", "Distinct values", "Values changed")
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in heads)
    body = "".join(_column(each, answer["cells"]) for each in answer["statistics"][:_MOST_COLUMNS])
    table = f'<table style="{_TABLE}"><thead><tr style="{_ROW}">{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="{NO_MATHS}">{_SCROLL}{table}</div></div>'


def _column(column: Mapping[str, Any], changed: Mapping[str, int]) -> str:
    sides = column["before"], column["after"]
    missing = next((word for side, word in zip(sides, ("added", "dropped"), strict=True) if side is None), "")
    note = f"<i>{missing}</i>" if missing else f"{changed.get(column['name'], 0):,}"
    cells = (
        f"<b>{escaped(column['name'])}</b>",
        _bars(sides),
        *(_two(sides, what) for what in ("nulls", "distinct")),
        note,
    )
    return f'<tr style="{_ROW}">{"".join(f"""<td style="{_CELL}">{cell}</td>""" for cell in cells)}</tr>'


def _two(sides: Sequence[Mapping[str, Any] | None], what: str) -> str:
    before, after = ("no column" if side is None else f"{side[what]:,}" for side in sides)
    return before if before == after else f"{before} → <b>{after}</b>"


def _bars(sides: Sequence[Mapping[str, Any] | None]) -> str:
    known = [side for side in sides if side is not None and side["bars"]]
    if not known:
        return ""
    most = max(1, *(count for side in known for count in side["counts"]))
    lines = "".join(
        f"<div>{_histogram(side['counts'], most, word)} {word}</div>"
        for side, word in zip(sides, _STRENGTH, strict=True)
        if side is not None
    )
    labels = known[0]["bars"]
    ends = f"{clip(labels[0], 24)} … {clip(labels[-1], 24)}" if len(labels) > 1 else clip(labels[0], 24)
    return f"{lines}<span>{escaped(ends)}</span>"


def _histogram(counts: Sequence[int], most: int, word: str) -> str:
    tall = [max(1, _TALLEST * count // most) if count else 0 for count in counts]
    path = "".join(f"M{_BAR * at} {_TALLEST}v-{high}h{_BAR - 1}v{high}z" for at, high in enumerate(tall) if high)
    size = f'width="{_BAR * len(counts)}" height="{_TALLEST}" role="img" aria-label="rows by value {word}"'
    return f'<svg {size}><path d="{path}" fill="currentColor" fill-opacity="{_STRENGTH[word]}"/></svg>'


def _files(answer: Mapping[str, Any]) -> Iterator[Grid]:
    """Yield partitions and files that differ; of many the first ones, and how many there are."""
    partitions, of = answer["partitions"], answer["partitionsChanged"]
    cells = [
        tuple(each[name] for name in ("keys", "rowsBefore", "rowsAfter", "added", "removed")) for each in partitions
    ]
    columns = ("Key range", "Rows before", "Rows after", "Files added", "Files removed")
    yield _first(columns, cells, of, f"{counted(of, 'partition')} with other files, of {answer['partitionsOf']:,}")
    files, count = answer["files"], answer["filesOf"]
    named = [
        (_MARKS[kind], each["name"], each["rows"], Bytes(each["bytes"]))
        for kind in ("added", "removed")
        for each in files[kind]
    ]
    title = f"files: {count['added']:,} added, {count['removed']:,} removed"
    yield _first(("", "File", "Rows", "Size"), named, count["added"] + count["removed"], title)


def _first(columns: tuple[str, ...], cells: Sequence[tuple[object, ...]], of: int, title: str) -> Grid:
    if not cells:
        return Grid((), (), title)
    footer = f"first {_MOST_LISTED:,} of {of:,}" if of > _MOST_LISTED else ""
    return Grid(columns, tuple(cells[:_MOST_LISTED]), title, footer)


def _listing(grid: Grid) -> str:
    return f"{_SCROLL}{grid.html()}</div>"
