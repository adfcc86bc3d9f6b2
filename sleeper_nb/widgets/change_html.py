"""A change between two versions as HTML: rows in colour and side by side, columns as histograms, files, partitions.

Colour is never alone: a word or a mark says the same, as notebooks that are not trusted lose some styles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from sleeper_nb.display.figure import clip
from sleeper_nb.display.preview import largest
from sleeper_nb.report import NO_MATHS, Bytes, Data, Grid, cell_text, counted, data_rows, escaped
from sleeper_nb.widgets.column_changes import ColumnCounts, ColumnCountsDiff
from sleeper_nb.widgets.version_change import COLUMNS, MOST_ROWS, FilesDiff, VersionDiff

if TYPE_CHECKING:
    from sleeper_nb.public_types import FirstImages, ImageSummary

Kind = Literal["all", "added", "removed", "changed"]
KINDS: tuple[Kind, ...] = ("all", "added", "removed", "changed")
_MARKS: Final = {"added": "+", "removed": "−", "changed": "~"}
_TINTS: Final = {"added": "rgba(46, 160, 67, 0.18)", "removed": "rgba(218, 54, 51, 0.16)", "changed": ""}
"""Backgrounds on which the text of a light and of a dark page can be read."""
_TABLE: Final = "border-collapse:collapse;font-variant-numeric:tabular-nums;"
_ROW: Final = "border-bottom:1px solid color-mix(in srgb, currentColor 20%, transparent);"
_CELL: Final = "padding:2px 10px;text-align:left;white-space:nowrap;"
_LONGEST: Final = 80
"""Characters of a value; its tooltip has more."""
_LONGEST_TIP: Final = 1_000
_MOST_LISTED: Final = 100
_STATIC_ROWS, _STATIC_LISTED, _STATIC_COLUMNS = 20, 10, 12
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 12, 34  # px of a bar's place, and of all bars
_SCROLL: Final = '<div style="overflow-x:auto;margin-top:4px;">'


class ShownRow(NamedTuple):
    """A row that differs.

    Parameters
    ----------
    kind
        ``"added"``, ``"removed"`` or ``"changed"``.
    cells
        Its values; of a changed row those before.
    after
        The values after; of other rows None.
    changed
        Which of them differ.
    """

    kind: Kind
    cells: Sequence[object]
    after: Sequence[object] | None = None
    changed: Sequence[bool] = ()


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows that differ, of all kinds or of one, in key order within each leaf partition.

    Parameters
    ----------
    columns
        The columns that are shown.
    columns_of
        How many the table has.
    rows
        The rows.
    total
        How many there are.
    kind
        Of which kind they are.
    """

    columns: tuple[str, ...]
    columns_of: int
    rows: tuple[ShownRow, ...]
    total: int
    kind: Kind

    @classmethod
    def of(cls, change: VersionDiff, kind: Kind, most: int = MOST_ROWS) -> ShownRows:
        """Return the first rows of a change; it must have been compared."""
        assert change.rows is not None  # noqa: S101 - the caller waits for it
        columns, found = change.column_names[:COLUMNS], change.rows
        numbered = sorted(_numbered(found, kind, columns), key=lambda each: each[0])
        rows = tuple(row for _, row in numbered[:most])
        return cls(columns, len(change.schema.names), rows, totals(found)[kind], kind)

    @property
    def counts(self) -> str:
        """``first 200 of 12,345 changed rows``."""
        word = "" if self.kind == "all" else f"{self.kind} "
        what = "rows that differ" if self.kind == "all" else f"{word}rows"
        if not self.total:
            return "no row differs" if self.kind == "all" else f"no {word}row"
        of = f"first {len(self.rows):,} of {self.total:,}" if len(self.rows) < self.total else f"all {self.total:,}"
        if self.total == 1:
            of, what = "1", "row differs" if self.kind == "all" else f"{word}row"
        cut = self.columns_of - len(self.columns)
        columns = f" · {len(self.columns):,} of {self.columns_of:,} columns, changed ones first" if cut else ""
        return f"{of} {what}{columns}"

    def html(self) -> str:
        """Return the rows as a table."""
        head = f'<div role="status">{escaped(self.counts)}</div>'
        if not self.rows:
            return f'<div class="{NO_MATHS}">{head}</div>'
        names = ("", *self.columns)
        heads = "".join(f'<th scope="col" style="{_CELL}">{escaped(name)}</th>' for name in names)
        body = "".join(map(_row_html, self.rows))
        table = f'<table style="{_TABLE}"><thead><tr style="{_ROW}">{heads}</tr></thead><tbody>{body}</tbody></table>'
        return f'<div class="{NO_MATHS}">{head}{_SCROLL}{table}</div></div>'

    def text(self) -> str:
        """Return the rows as plain text."""
        rows = tuple((f"{_MARKS[row.kind]} {row.kind}", *_texts(row)) for row in self.rows)
        return Grid(("", *self.columns), rows, footer=self.counts).text() if rows else self.counts


def totals(found: ImageSummary) -> dict[Kind, int]:
    """Return how many rows of each kind differ; a changed row counts once."""
    inserted, updated, deleted = found.counts
    return {"all": inserted + updated + deleted, "added": inserted, "removed": deleted, "changed": updated}


def _numbered(found: ImageSummary, kind: Kind, columns: Sequence[str]) -> Iterator[tuple[int, ShownRow]]:
    def cells(first: FirstImages) -> Iterator[Sequence[object]]:
        return iter(data_rows(first.rows.select(columns)))

    if kind in {"all", "added"}:
        yield from zip(found.inserted.places, (ShownRow("added", row) for row in cells(found.inserted)), strict=True)
    if kind in {"all", "removed"}:
        yield from zip(found.deleted.places, (ShownRow("removed", row) for row in cells(found.deleted)), strict=True)
    if kind in {"all", "changed"}:
        pairs = zip(cells(found.before), cells(found.after), found.differing(columns), strict=True)
        yield from zip(found.before.places, (ShownRow("changed", *pair) for pair in pairs), strict=True)


def _texts(row: ShownRow) -> Iterator[object]:
    for place, value in enumerate(row.cells):
        if row.after is not None and row.changed[place]:
            yield f"{clip(cell_text(value), _LONGEST)} → {clip(cell_text(row.after[place]), _LONGEST)}"
        else:
            yield value


def _row_html(row: ShownRow) -> str:
    tint = _TINTS[row.kind]
    look = f"{_ROW}background-color:{tint};" if tint else _ROW
    head = f'<th scope="row" style="{_CELL}font-weight:normal;">{_MARKS[row.kind]} {row.kind}</th>'
    cells = []
    for place, value in enumerate(row.cells):
        if row.after is not None and row.changed[place]:
            old = f'<del style="background-color:{_TINTS["removed"]};">{_value_html(value)}</del>'
            new = f'<ins style="background-color:{_TINTS["added"]};">{_value_html(row.after[place])}</ins>'
            cells.append(f'<td style="{_CELL}">{old} → {new}</td>')
        else:
            cells.append(f'<td style="{_CELL}">{_value_html(value)}</td>')
    return f'<tr style="{look}">{head}{"".join(cells)}</tr>'


def _value_html(value: object) -> str:
    text = cell_text(value)
    if isinstance(value, Data) and value.value is None:
        return f"<i>{escaped(text)}</i>"
    if len(text) <= _LONGEST:
        return escaped(text)
    return f'<span title="{escaped(clip(text, _LONGEST_TIP))}">{escaped(clip(text, _LONGEST))}</span>'


def headline(change: VersionDiff) -> str:
    """Return how many rows differ, as HTML."""
    if change.rows is None:
        return ""
    counts = totals(change.rows)
    if not counts["all"]:
        return "<b>no row differs</b>"
    parts = (
        f'<span style="background-color:{_TINTS[kind]};padding:0 4px;">{_MARKS[kind]}{counts[kind]:,} {kind}</span>'
        for kind in KINDS[1:]
    )
    return f"<b>{' '.join(parts)}</b>"


def columns_html(change: VersionDiff, *, drawn: bool = True) -> str:
    """Return the counted columns as a table; histograms as pictures, or else as block characters."""
    assert change.columns is not None  # noqa: S101 - the caller waits for it
    heads = (
        "column",
        "type",
        "rows by value: grey before, blue after" if drawn else "rows by value",
        "NULL",
        "distinct values",
        "values changed",
    )
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in heads)
    cells = {} if change.rows is None else change.rows.cells
    body = "".join(_column_html(each, cells.get(each.column.name, 0), drawn=drawn) for each in change.columns)
    table = f'<table style="{_TABLE}"><thead><tr style="{_ROW}">{head}</tr></thead><tbody>{body}</tbody></table>'
    first, of = change.first_column, len(change.schema.names)
    which = f"columns {first + 1:,}–{first + len(change.columns):,} of {of:,}" if of > len(change.columns) else ""
    order = " · keys and changed columns first" if which and change.rows is not None else ""
    status = f'<div role="status">{which}{order}</div>' if which else ""
    return f'<div class="{NO_MATHS}">{status}{_SCROLL}{table}</div></div>'


def _column_html(column: ColumnCountsDiff, changed: int, *, drawn: bool) -> str:
    sides = column.before, column.after
    if column.before is None or column.after is None:
        note = "<i>added</i>" if column.before is None else "<i>dropped</i>"
    else:
        note = f"{changed:,}" if changed else ""
    bars = "" if column.bars is None else _bars_drawn(column) if drawn else _bars_text(column)
    cells = (
        f"<b>{escaped(column.column.name)}</b>", escaped(column.column.text), bars,
        _both(sides, "nulls"), _both(sides, "distinct"), note,
    )  # fmt: skip
    return f'<tr style="{_ROW}">{"".join(f"""<td style="{_CELL}">{cell}</td>""" for cell in cells)}</tr>'


def _both(sides: Sequence[ColumnCounts | None], what: Literal["nulls", "distinct"]) -> str:
    texts = ["no column" if side is None else f"{getattr(side, what):,}" for side in sides]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} → <b>{texts[1]}</b>"


def _counts(column: ColumnCountsDiff) -> tuple[Sequence[int], Sequence[int]]:
    empty = (0,) * (0 if column.bars is None else len(column.bars.marks))
    before, after = (empty if side is None else side.bars for side in (column.before, column.after))
    return before, after


def _ends(column: ColumnCountsDiff) -> str:
    """Return what the first and the last bar stand for."""
    assert column.bars is not None  # noqa: S101
    marks = column.bars.marks
    labels = [clip(cell_text(Data(mark)), 16) for mark in (marks[0], marks[-1])]
    if column.bars.are_ranges:
        return f"≤ {labels[0]} … ≤ {labels[1]}" if len(marks) > 1 else labels[0]
    return f"{labels[0]} … {labels[1]}" if len(marks) > 1 else labels[0]


def _bars_drawn(column: ColumnCountsDiff) -> str:
    """Return two bars for each place: outlined before, filled after; each with its numbers as a tooltip."""
    assert column.bars is not None  # noqa: S101
    before, after = _counts(column)
    most = max(*before, *after, 1)
    parts, words = [], []
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        label = f"{clip(column.bars.label(place), _LONGEST)}: {old:,} → {new:,} rows"
        words.append(label)
        old_height, new_height = (_HEIGHT * count / most for count in (old, new))
        x = place * _WIDTH
        outline = f'<rect x="{x + 0.5}" y="{_HEIGHT - old_height + 0.5:.1f}" width="5" height="{old_height:.1f}"'
        fill = f'<rect x="{x + 6}" y="{_HEIGHT - new_height:.1f}" width="5" height="{new_height:.1f}"'
        parts.append(
            f"<g><title>{escaped(label)}</title>"
            f'<rect x="{x}" width="{_WIDTH}" height="{_HEIGHT + 1}" fill-opacity="0"/>'
            f'{outline} fill-opacity="0.25" stroke="currentColor" stroke-opacity="0.6"/>'
            f'{fill} style="fill:var(--jp-brand-color1,#1976d2)"/></g>'
        )
    size = f'width="{len(before) * _WIDTH}" height="{_HEIGHT + 1}"'
    name = escaped(f"{column.column.name}: {'; '.join(words)}")
    svg = f'<svg role="img" aria-label="{name}" {size} fill="currentColor" style="display:block">{"".join(parts)}</svg>'
    return f'{svg}<span style="font-size:0.9em;">{escaped(_ends(column))}</span>'


def _bars_text(column: ColumnCountsDiff) -> str:
    before, after = _counts(column)
    most = max(*before, *after, 1)
    lines = ("".join(_BLOCKS[7 * count // most] if count else " " for count in side) for side in (before, after))
    drawn = "<br>".join(f"{line} {word}" for line, word in zip(lines, ("before", "after"), strict=True))
    return f'<pre style="margin:0;">{drawn}</pre><span>{escaped(_ends(column))}</span>'


def files_html(files: FilesDiff, most: int = _MOST_LISTED) -> str:
    """Return partitions and files that differ, as two tables; of many the first ones, and how many there are."""
    kinds = (("added", files.added), ("removed", files.removed))
    listed = [
        (f"{_MARKS[kind]} {kind}", each.filename.rpartition("/")[2], each.rows, Bytes(each.bytes))
        for kind, some in kinds
        for each in some
    ]
    cells = [
        (each.keys, each.rows_before, each.rows_after, each.files_added, each.files_removed)
        for each in files.partitions
    ]
    title = f"{counted(len(cells), 'partition')} with other files, of {files.partitions_of:,}"
    columns = ("key range", "rows before", "rows after", "files added", "files removed")
    first = _listing(columns, cells, title, most)
    title = f"files: {len(files.added):,} added, {len(files.removed):,} removed"
    second = _listing(("", "file", "rows", "bytes"), listed, title, most)
    return f"{_SCROLL}{first.html()}</div>{_SCROLL}{second.html()}</div>"


def _listing(columns: tuple[str, ...], cells: Sequence[tuple[object, ...]], title: str, most: int) -> Grid:
    if not cells:
        return Grid((), (), title)
    footer = f"first {most:,} of {len(cells):,}" if len(cells) > most else ""
    return Grid(columns, tuple(cells[:most]), title, footer)


def static_html(change: VersionDiff, room: int) -> str:
    """Return what stays in a saved notebook, in about so many bytes: totals, first rows, columns, files."""
    heads = [headline(change), "" if change.diff is None else change.diff.grid().html()]
    if change.rows is None:
        heads.append(f"<div>the rows were not compared: {Bytes(change.compared_bytes)} to read</div>")
    files = files_html(change.files, _STATIC_LISTED)
    few = replace(change, columns=change.columns and change.columns[:_STATIC_COLUMNS])
    columns = "" if change.columns is None else columns_html(few, drawn=False)
    used = len("".join((*heads, files, columns)).encode())
    rows = "" if change.rows is None else _bounded_rows(change, max(room - used, room // 4))
    return "".join((*heads, rows, columns, files))


def _bounded_rows(change: VersionDiff, room: int) -> str:
    shown = ShownRows.of(change, "all", _STATIC_ROWS)
    if not shown.rows:
        return ""

    def first(rows: int, columns: int) -> ShownRows:
        cut = tuple(
            ShownRow(each.kind, each.cells[:columns], each.after and each.after[:columns], each.changed[:columns])
            for each in shown.rows[:rows]
        )
        return replace(shown, rows=cut, columns=shown.columns[:columns])

    across = largest(len(shown.columns), lambda columns: len(first(1, columns).html().encode()) <= room)
    rows = largest(len(shown.rows), lambda rows: len(first(rows, across).html().encode()) <= room)
    return first(rows, across).html()
