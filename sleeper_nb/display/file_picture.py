"""The picture of the files of a version, as HTML and as text: the keys of each, and what a compaction would merge."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from sleeper_nb.display.figure import (
    BRAND,
    clip,
    figure,
    range_labels,
    range_text,
    words,
)
from sleeper_nb.display.listings import Versioned
from sleeper_nb.display.partition_picture import ranges_of, split_keys
from sleeper_nb.maintain.compaction_plan import CompactionPlan
from sleeper_nb.maintain.overlap import MOST_BARS, Bar, OverlapColumn, overlap
from sleeper_nb.model.keys import key_text
from sleeper_nb.model.snapshots import files_text
from sleeper_nb.model.state import TableState
from sleeper_nb.report import Bytes, counted

_HEAD, _LANE = 22, 22  # heights in px
_LINE_CHARS = 130
_MOST_LINES, _ACROSS = 120, 24  # in the text


@dataclass(frozen=True, slots=True)
class FilesDrawn:
    """The files of a version over the keys of their partitions, and which of them a compaction plan would merge.

    A column is one leaf, or a group of them: its keys in full, its keys as far as they fit, and the bars of its files.
    """

    title: str
    columns: tuple[tuple[tuple[str, str], tuple[Bar, ...]], ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, at: Versioned, plan: CompactionPlan, strategy: str) -> FilesDrawn:
        """Return the picture of a version; `strategy` is the name of the one that made the plan."""
        state = at.state
        columns, keys = overlap(state, plan.jobs), split_keys(state.tree)
        ranges = [ranges_of(column.leaves, keys) for column in columns]
        labels = range_labels(ranges, _room(len(columns)))
        named = ((range_text(over), label) for over, label in zip(ranges, labels, strict=True))
        notes = _notes(columns, plan, strategy, state)
        bars = (column.bars for column in columns)
        return cls(f"files of {at.name} at {at.resolved}", tuple(zip(named, bars, strict=True)), notes)

    def html(self) -> str:
        """Return the picture as HTML: stronger bars for more bytes, a letter and a dashed edge for files to merge."""
        most = max((bar.bytes for _, bars in self.columns for bar in bars), default=0) or 1
        across = len(self.columns)
        drawn = [_drawn(keys, bars, (i, across), most) for i, (keys, bars) in enumerate(self.columns)]
        lanes = max(1, *(len(bars) for _, bars in self.columns))
        notes = (*self.notes, "across: keys in order, not to scale · the stronger the colour, the more bytes")
        return figure(self.title, _HEAD + lanes * _LANE, "\n".join(drawn), notes)

    def text(self) -> str:
        """Return the same as text, for the console: below each partition a line for each bar, drawn over its keys."""
        notes = " · ".join(filter(None, self.notes))
        if sum(1 + len(bars) for _, bars in self.columns) > _MOST_LINES:
            return f"{self.title}: too many to draw as lines\n{notes}"
        wide = max((len(bar.letters) for _, bars in self.columns for bar in bars), default=0)
        lines = [self.title]
        for keys, bars in self.columns:
            lines.append(keys[0])
            for bar in bars:
                begin = round(bar.begin * _ACROSS)
                drawn = " " * begin + "█" * max(1, round(bar.end * _ACROSS) - begin)
                lines.append(f"  {bar.letters:{wide}} {drawn:{_ACROSS}}  {', '.join(_words(bar))}")
        return "\n".join([*lines, notes])


def _notes(columns: Sequence[OverlapColumn], plan: CompactionPlan, strategy: str, state: TableState) -> tuple[str, ...]:
    key = state.schema.row_keys[0].name
    bars = [bar for column in columns for bar in column.bars]
    uses, leaves = sum(bar.files for bar in bars), sum(len(column.leaves) for column in columns)
    names = {name for job in plan.jobs for name in job.filenames}
    merged = files_text(len(names), sum(len(job.inputs) for job in plan.jobs))
    would = f"a compaction ({strategy}) would merge"
    those = f"{merged} into {len(plan.jobs):,}: those of one letter, with a dashed edge"
    group = max(len(column.leaves) for column in columns)
    return (
        f"{files_text(state.files.data_totals.files, uses)} in {counted(leaves, 'partition')} by {key}",
        f"{would} {those if names else 'none'}",
        f"drawn as {len(columns)} groups of up to {group:,} partitions" if group > 1 else "",
        f"more than {MOST_BARS} files are drawn as one bar for each merge" if uses > len(bars) else "",
    )


def _room(across: int) -> int:
    return _LINE_CHARS // across - 2


def _words(bar: Bar) -> tuple[str, ...]:
    files = counted(bar.files, "file") if bar.files > 1 else ""
    return tuple(filter(None, (files, counted(bar.rows, "row"), str(Bytes(bar.bytes)))))


def _drawn(keys: tuple[str, str], bars: Sequence[Bar], place: tuple[int, int], most: int) -> str:
    """Return the keys of a column, and below them its bars, each with as many words as fit."""
    number, across = place
    left, width = 100 * number / across, 99 / across
    edge = f'<line x1="{left:.3f}%" x2="{left:.3f}%" y1="0" y2="100%" stroke="currentColor" stroke-opacity="0.35"/>'
    shapes = [edge] if number else []
    texts = [_text((left, width), 0, (keys[1],))]
    for lane, bar in enumerate(bars):
        top, strength = _HEAD + lane * _LANE, 0.08 + 0.47 * bar.bytes / most
        x, wide = left + bar.begin * width, (bar.end - bar.begin) * width
        box = f'x="{x:.3f}%" width="{wide:.3f}%" y="{top + 1}" height="{_LANE - 3}" fill-opacity="{strength:.2f}"'
        shapes.append(f"<rect {box}{_EDGES[bool(bar.letters)]}><title>{html.escape(_tip(bar, keys[0]))}</title></rect>")
        texts.append(_bar_text(bar, (left, width), top, _room(across)))
    return f'<g style="{BRAND}">{"".join(shapes)}</g><g pointer-events="none">{"".join(texts)}</g>'


_EDGES = {
    True: ' stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 2"',
    False: ' stroke="currentColor" stroke-opacity="0.35"',
}


def _text(across: tuple[float, float], top: int, parts: Sequence[str], *, ends: bool = False) -> str:
    """Return a line of text that begins at the left of a place, or `ends` at its right."""
    place = f'x="{across[0]:.3f}%" width="{across[1]:.3f}%" y="{top + 2}" height="{_LANE - 2}"'
    return words(place, [parts], ends=ends) if any(parts) else ""


def _bar_text(bar: Bar, column: tuple[float, float], top: int, room: int) -> str:
    """Return the letter of a bar and as many details as fit, beginning where it begins or ending where it ends."""
    letters, details = (bar.letters,) if bar.letters else (), _words(bar)
    left, width = column
    after, before = (int((room + 2) * share) - 2 for share in (1 - bar.begin, bar.end))
    for count in range(len(details), -1, -1):
        parts = (*letters, *details[:count])
        parts = tuple(part if i == 0 else f"· {part}" for i, part in enumerate(parts))
        length = len(" ".join(parts))
        if length <= after:
            return _text((left + bar.begin * width, (1 - bar.begin) * width), top, parts)
        if length <= before:
            return _text((left, bar.end * width), top, parts, ends=True)
    return ""


def _tip(bar: Bar, keys: str) -> str:
    merged = f"{bar.letters}: would be merged" if bar.letters else ""
    low, high = (clip(key_text(value), 60) if value is not None else "?" for value in (bar.low, bar.high))
    name = bar.name.rpartition("/")[2][:8]
    return " · ".join(filter(None, (merged, *_words(bar), f"keys {low} to {high}", name, f"in {keys}")))
