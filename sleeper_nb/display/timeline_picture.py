"""The picture of the history of a table, as HTML and as text: rows over versions, commits, savepoints, gaps."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sleeper_nb.display.figure import BRAND, clip, clipped_words, figure
from sleeper_nb.model.savepoints import Savepoint, savepoint_label, savepoints_by_snapshot
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import cell_text, counted

_MOST_PLACES, _MOST_FLAGS, _MOST_NAMES = 80, 20, 5
_AREA, _LINE, _LETTER, _WIDTH = 56, 15, 7, 960  # in px: of the rows, of a line of text, of a letter, of a wide screen
_BLOCKS = "▁▂▃▄▅▆▇█"


class _Mark(NamedTuple):
    """How a commit is drawn: a shape, and a colour that is visible on light and on dark pages."""

    shape: str
    colour: str


# The families, shapes and hues of the time bar of the explorer, in tones for both kinds of page.
_ADDED, _CHANGED, _REMOVED = _Mark("●", "#168a68"), _Mark("◆", "#b0588f"), _Mark("▼", "#c2571a")
_STRUCTURE, _OTHER, _BACK = _Mark("■", "#a07013"), _Mark("○", "#7a7a7a"), _Mark("◀", "currentColor")
_MARKS: Mapping[str, _Mark] = {
    "ingest": _ADDED,
    "delete": _REMOVED,
    "update": _CHANGED,
    "upsert": _CHANGED,
    "merge": _CHANGED,
    "overwrite": _CHANGED,
    "compact": _OTHER,
    "split": _OTHER,
    "rollback": _BACK,
    "create": _STRUCTURE,
    "migrate": _STRUCTURE,
    "collect-garbage": _OTHER,
}


@dataclass(frozen=True, slots=True)
class _DrawnVersion:
    """A version that can be read; its snapshot is None when it has expired and only savepoints hold the version."""

    number: int
    rows: int
    snapshot: Snapshot | None
    savepoints: tuple[Savepoint, ...]

    @property
    def tip(self) -> str:
        if self.snapshot is None:
            return f"snapshot {self.number} · {self.rows:,} rows"
        snapshot = self.snapshot
        message = clip(snapshot.message, 40) if snapshot.message else ""
        parts = (cell_text(snapshot.time), change_text(snapshot), counted(snapshot.rows, "row"), message)
        return " · ".join(filter(None, (f"snapshot {self.number}", *parts)))


@dataclass(frozen=True, slots=True)
class _Position:
    """One place in the picture: a version or a few neighbours, and the numbers that expired just before them."""

    versions: tuple[_DrawnVersion, ...]
    expired: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        return self.versions[-1].rows

    @property
    def mark(self) -> str:
        """The most frequent operation of its commits; of equally frequent ones the first in the legend."""
        counts = _operations(self.versions)
        return max(counts, key=counts.__getitem__, default="")

    @property
    def tip(self) -> str:
        if len(self.versions) == 1:
            return self.versions[0].tip
        counts = ", ".join(f"{count} {operation}" for operation, count in _operations(self.versions).items())
        numbers = f"{self.versions[0].number}–{self.versions[-1].number}"
        return f"snapshots {numbers} · {counts} · {self.rows:,} rows at the last"


class _Flag(NamedTuple):
    """The savepoints of one place: position (0 to 1), line, name, and the side of the pole with the name.

    `room` is the width up to the next pole with a name on the same line, or to the edge.
    """

    x: float
    line: int
    word: str
    points: tuple[Savepoint, ...]
    left: bool
    room: float = 0.0


def timeline(
    snapshots: Sequence[Snapshot],
    savepoints: Sequence[Savepoint],
    current: int | None = None,
    before: int | None = None,
    *,
    name: str,
) -> str:
    """Return rows over versions as a line of steps, a shape for what each commit did, and flags for savepoints.

    Versions are drawn in the order of their numbers, at equal distances. The line has a gap where versions have
    expired. More than 80 versions are drawn as groups of neighbours, and the notes below the picture say so. The
    `current` version is marked with a bar, and the one `before` with an outline.
    """
    places = _places(snapshots, savepoints, _MOST_PLACES)
    flags = _flags(places)
    top = 4 + _LINE * max((flag.line + 1 for flag in flags), default=0)
    parts = (
        _rows_drawn(places, current, before, top),
        _gaps_drawn(places, top),
        _marks_drawn(places, top),
        _flags_drawn(flags, top),
    )
    return figure(
        f"history of {name}", top + _AREA + _LINE + 4, "\n".join(filter(None, parts)), _notes(places, current, before)
    )


def timeline_lines(snapshots: Sequence[Snapshot], savepoints: Sequence[Savepoint], *, name: str) -> str:
    """Return the same as text, for the console: rows as blocks, below them the commits and the savepoints."""
    places = _places(snapshots, savepoints, _MOST_PLACES)
    most = max((place.rows for place in places), default=0) or 1
    columns = []
    for place in places:
        columns += [("┊", "┊", "┊")] if place.expired else []
        flag = "⚑" if any(version.savepoints for version in place.versions) else " "
        shape = _MARKS.get(place.mark, _OTHER).shape if place.mark else " "
        columns.append((_BLOCKS[(len(_BLOCKS) - 1) * place.rows // most], shape, flag))
    drawn = ["".join(line).rstrip() for line in zip(*columns, strict=True)]
    drawn = [line for line in drawn if line.strip("┊ ")]
    return "\n".join([f"history of {name}", *drawn, " · ".join(_notes(places))])


def change_text(snapshot: Snapshot) -> str:
    """Return what a commit did, in a few words: ``update 31 rows``, ``merge 2 inserted, 1 updated row``."""
    changed = {verb: count for verb, count in snapshot.changed_rows.items() if count}
    if changed:
        *_, last = changed.values()
        is_own = [*changed] == [f"{snapshot.operation}d"]  # an update of updated rows
        what = f"{last:,}" if is_own else ", ".join(f"{count:,} {verb}" for verb, count in changed.items())
        return f"{snapshot.operation} {what} {_rows_of(last)}"
    if snapshot.added_rows:
        return f"{snapshot.operation} {snapshot.added_rows:+,} {_rows_of(snapshot.added_rows)}"
    if snapshot.added_files or snapshot.removed_files:
        return f"{snapshot.operation} +{snapshot.added_files:,} −{snapshot.removed_files:,} files"
    return snapshot.operation


def _rows_of(number: int) -> str:
    return "row" if abs(number) == 1 else "rows"


def _places(snapshots: Sequence[Snapshot], savepoints: Sequence[Savepoint], most: int) -> list[_Position]:
    saved = savepoints_by_snapshot(savepoints)
    found = {number: _DrawnVersion(number, points[0].record_count, None, points) for number, points in saved.items()}
    found |= {s.id: _DrawnVersion(s.id, s.rows, s, saved.get(s.id, ())) for s in snapshots}
    versions = [found[number] for number in sorted(found)]
    step = max(1, -(-len(versions) // most))
    expired = [(a + 1, b.number - 1) for a, b in zip([0, *sorted(found)], versions, strict=False)]
    places = []
    for i in range(0, len(versions), step):
        gaps = tuple(gap for gap in expired[i : i + step] if gap[0] <= gap[1])
        places.append(_Position(tuple(versions[i : i + step]), gaps))
    return places


def _operations(versions: Sequence[_DrawnVersion]) -> Counter[str]:
    """Return the number of commits by operation, in the order of the legend."""
    counts = Counter(version.snapshot.operation for version in versions if version.snapshot is not None)
    return Counter({name: counts[name] for name in dict.fromkeys((*_MARKS, *counts)) if name in counts})


def _rows_drawn(places: Sequence[_Position], current: int | None, before: int | None, top: int) -> str:
    most = max((place.rows for place in places), default=0) or 1
    line, area = "", ""
    for i, place in enumerate(places):
        y = f"{98 - 96 * place.rows / most:.1f}"
        starts = i == 0 or place.expired
        area += f"{'V100z' if starts and i else ''}M{i} 100V{y}H{i + 1}" if starts else f"V{y}H{i + 1}"
        line += f"M{i} {y}H{i + 1}" if starts else f"V{y}H{i + 1}"
    chosen = _bar(places, current, 'fill-opacity="0.25" stroke="none"')
    chosen += _bar(places, before, 'style="fill:none" stroke-dasharray="4 3" vector-effect="non-scaling-stroke"')
    frame = f'width="100%" viewBox="0 0 {max(len(places), 1)} 100" preserveAspectRatio="none"'
    edge = f"{BRAND};stroke:{BRAND.partition(':')[2]}"
    paths = f'<path d="{area}V100z" fill-opacity="0.2" stroke="none"/>' if area else ""
    paths += f'<path d="{line}" style="fill:none" stroke-width="2" vector-effect="non-scaling-stroke"/>'
    return f'<svg y="{top}" height="{_AREA}" {frame} style="{edge}">{chosen}{paths}</svg>'


def _bar(places: Sequence[_Position], number: int | None, look: str) -> str:
    here = next((i for i, place in enumerate(places) if any(v.number == number for v in place.versions)), None)
    return "" if here is None else f'<path d="M{here} 0h1v100h-1z" {look}/>'


def _gaps_drawn(places: Sequence[_Position], top: int) -> str:
    parts = []
    for i, place in enumerate(places):
        if place.expired:
            x, what = f"{100 * i / len(places):.2f}%", f"expired: snapshots {_runs(place.expired)}"
            line = f'<line x1="{x}" x2="{x}" y1="{top}" y2="{top + _AREA}" stroke-dasharray="2 3"/>'
            parts.append(f"<g><title>{what}</title>{line}</g>")
    return f'<g stroke="currentColor" stroke-opacity="0.6">{"".join(parts)}</g>' if parts else ""


def _marks_drawn(places: Sequence[_Position], top: int) -> str:
    parts = []
    for i, place in enumerate(places):
        if place.mark:
            mark, x = _MARKS.get(place.mark, _OTHER), (i + 0.5) * 100 / len(places)
            tip = html.escape(place.tip)
            parts.append(f'<text x="{x:.2f}%" fill="{mark.colour}"><title>{tip}</title>{mark.shape}</text>')
    return f'<g text-anchor="middle" font-size="14" transform="translate(0 {top + _AREA + 13})">{"".join(parts)}</g>'


def _flags(places: Sequence[_Position]) -> list[_Flag]:
    """Return the newest savepoints as flags; an older one has no name where newer ones leave no room for it."""
    saved = [(i, points) for i, place in enumerate(places) if (points := _points(place))]
    free = [1.0, 1.0]  # the width that is still free on each line, from the left
    found: list[_Flag] = []
    for i, points in reversed(saved[-_MOST_FLAGS:]):
        x, word = (i + 0.5) / len(places), _names(points)
        width = (_LETTER * len(word) + 14) / _WIDTH
        left = x + width > 1
        start, end = (x - width, x) if left else (x, x + width)
        line = next((line for line, until in enumerate(free) if end <= until), None)
        if line is None and len(found) < _MOST_NAMES:
            line = len(free)
            free.append(start)
        elif line is not None:
            free[line] = start
        found.append(_Flag(x, line or 0, "" if line is None else word, points, left=left))
    return [flag._replace(room=_room(flag, found)) for flag in found]


def _room(flag: _Flag, flags: Sequence[_Flag]) -> float:
    """Return the width that the name of a flag may take; two names that face each other share the gap."""
    others = [other for other in flags if other.word and other.line == flag.line and other.x != flag.x]
    if flag.left:
        gaps = [(flag.x - other.x) / (1 if other.left else 2) for other in others if other.x < flag.x]
        return min([flag.x, *gaps])
    gaps = [(other.x - flag.x) / (2 if other.left else 1) for other in others if other.x > flag.x]
    return min([1 - flag.x, *gaps])


def _flags_drawn(flags: Sequence[_Flag], top: int) -> str:
    parts = []
    for flag in flags:
        y = flag.line * _LINE
        names = [": ".join(filter(None, (_name(p), clip(p.message or "", 40)))) for p in flag.points]
        tip = f"<title>{html.escape(clip('; '.join(names), 120))}</title>"
        pole = f'<path d="M0 {y + 2}V{top + _AREA}M0 {y + 2}l9 4-9 4z" stroke="currentColor" stroke-opacity="0.7"/>'
        begin = flag.x - flag.room if flag.left else flag.x
        place = f'x="{100 * begin:.2f}%" width="{100 * flag.room:.2f}%" y="{y - 2}" height="17"'
        word = clipped_words(place, flag.word, "right" if flag.left else "left", pad=0 if flag.left else 12)
        parts.append(f'<svg x="{100 * flag.x:.2f}%" overflow="visible">{tip}{pole}</svg>{word if flag.word else ""}')
    return "".join(parts)


def _notes(places: Sequence[_Position], current: int | None = None, before: int | None = None) -> list[str]:
    """Return the legend: the shapes with their counts, and what is not in the picture."""
    versions = [version for place in places for version in place.versions]
    rows = [version.rows for version in versions]
    step = max((len(place.versions) for place in places), default=1)
    expired = tuple(gap for place in places for gap in place.expired)
    points = [point for version in versions for point in version.savepoints]
    pointed = {
        word: next((version for version in versions if version.number == number), None)
        for word, number in (("outline", before), ("bar", current))
    }
    older = f" and {len(points) - _MOST_NAMES} older" if len(points) > _MOST_NAMES else ""
    notes = (
        _rows_at(rows),
        f"drawn as {len(places)} groups of up to {step:,} neighbours" if step > 1 else "",
        *(f"{word}: snapshot {v.number}, {v.rows:,} rows" for word, v in pointed.items() if v),
        *(f"{_MARKS.get(name, _OTHER).shape} {name} {count:,}" for name, count in _operations(versions).items()),
        f"⚑ {', '.join(map(_name, points[-_MOST_NAMES:]))}{older}" if points else "",
        f"┊ expired: {_runs(expired)}" if expired else "",
    )
    return [note for note in notes if note]


def _rows_at(rows: Sequence[int]) -> str:
    least, most, versions = min(rows, default=0), max(rows, default=0), counted(len(rows), "version")
    return f"{counted(most, 'row')} at {versions}" if least == most else f"rows at {versions}, {least:,} to {most:,}"


def _points(place: _Position) -> tuple[Savepoint, ...]:
    return tuple(point for version in place.versions for point in version.savepoints)


def _names(points: Sequence[Savepoint]) -> str:
    more = f" +{len(points) - 1}" if len(points) > 1 else ""
    return f"{clip(savepoint_label(points[-1]), 24)}{more}"


def _name(savepoint: Savepoint) -> str:
    return f"savepoint {clip(savepoint_label(savepoint), 50)} (snapshot {savepoint.saved_snapshot_id})"


def _runs(gaps: Sequence[tuple[int, int]]) -> str:
    """Return runs of numbers as text: ``2–9, 14``; of many, the first few and the number of others."""
    words = [str(low) if low == high else f"{low}–{high}" for low, high in gaps]
    more = f" and {len(words) - _MOST_NAMES} more" if len(words) > _MOST_NAMES else ""
    return ", ".join(words[:_MOST_NAMES]) + more
