"""The picture of the partitions of a version, as HTML and as text: where keys are split, and the rows of each leaf."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from sleeper_nb.display.figure import (
    BRAND,
    clip,
    clipped_words,
    figure,
    point_label,
    range_labels,
    range_text,
    told_apart,
    upright_words,
    words,
)
from sleeper_nb.display.listings import Versioned
from sleeper_nb.model.file_reference import Totals
from sleeper_nb.model.keys import key_text
from sleeper_nb.model.partitions import Partition, PartitionTree, Range
from sleeper_nb.model.state import TableState
from sleeper_nb.report import counted

_MAX_CELLS, _MAX_LEVELS = 64, 6
_LINE_CHARS = 130  # letters that fit across 960 px; a narrower page leaves out what does not fit
_LEVEL, LEAF = 22, 58  # heights in px


@dataclass(frozen=True, slots=True)
class _Cell:
    """A box: its place (across in leaves, down in px), rows, tooltip, and lines, each in ever shorter forms."""

    x: int
    width: int
    y: int
    height: int
    rows: int | None
    tip: str
    lines: tuple[tuple[str, ...], ...]


def partition_map(at: Versioned) -> str:
    """Return the partitions as an icicle: splits above, leaves below in key order, in a stronger colour for more rows.

    More than 64 leaves are drawn as groups of neighbours, and splits below the 6th level are left out; the line below
    the picture says so.
    """
    state = at.state
    leaves = state.tree.leaves
    step, levels, depth = _shape(state.tree)
    boxes = _leaf_cells(state, [min(level, levels) for level in depth], step)
    rows = [box.rows or 0 for box in boxes]
    keys = [key.name for key in state.schema.row_keys]
    by = " × ".join(keys[i] for i in split_keys(state.tree))
    notes = (
        f"{counted(len(leaves), 'partition')} by {by} · {counted(sum(rows), 'row')}",
        f"the stronger the colour, the more rows ({min(rows):,} to {max(rows):,})" if len(boxes) > 1 else "",
        f"drawn as {len(boxes)} groups of up to {step:,} neighbours" if step > 1 else "",
        f"splits below level {levels} are not drawn" if step == 1 and max(depth) > levels else "",
    )
    splits = _split_cells(state.tree, keys, levels) if levels else []
    drawn = _drawn([*splits, *boxes], len(boxes))
    return figure(f"partitions of {at.name} at {at.resolved}", levels * _LEVEL + LEAF, drawn, notes)


def _shape(tree: PartitionTree) -> tuple[int, int, list[int]]:
    """Return how many leaves share a box, how many levels of splits are drawn above them, and the level of each leaf.

    Above groups of leaves no splits are drawn, so that all are at level 0.
    """
    step = -(-len(tree.leaves) // _MAX_CELLS)
    if step > 1:
        return step, 0, [0] * len(tree.leaves)
    depth = [len(tree.ancestors(leaf.id)) for leaf in tree.leaves]
    return step, min(max(depth), _MAX_LEVELS), depth


def partition_lines(at: Versioned) -> str:
    """Return the partitions as a tree of text, for the console: where each is split, and the leaves with their rows."""
    state, lines = at.state, [f"partitions of {at.name} at {at.resolved}"]
    tree, totals, keys = state.tree, state.files.by_partition(), [key.name for key in state.schema.row_keys]

    def draw(node: Partition, before: str, branch: str, below: str) -> None:
        held = totals.get(node.id, Totals())
        if node.is_leaf:
            words = f"{node.region.text(state.schema)}: {counted(held.rows, 'row')}, {counted(held.files, 'file')}"
        else:
            words = f"split at {keys[node.dimension]} = {clip(key_text(tree.split_point(node)), 60)}"
        lines.append(f"{before}{branch}{words}")
        for child in node.child_ids[:-1]:
            draw(tree[child], before + below, "├─ ", "│  ")
        for child in node.child_ids[-1:]:
            draw(tree[child], before + below, "└─ ", "   ")

    if len(tree.leaves) > _MAX_CELLS:
        return f"{lines[0]}: a tree of {len(tree.leaves):,} leaves, too many to draw as lines"
    draw(tree.root, "", "", "")
    return "\n".join(lines)


def _leaf_cells(state: TableState, depth: Sequence[int], step: int) -> list[_Cell]:
    leaves, totals = state.tree.leaves, state.files.by_partition()
    nothing = Totals()
    bottom, dimensions = max(depth) * _LEVEL + LEAF, split_keys(state.tree)
    groups = [leaves[i : i + step] for i in range(0, len(leaves), step)]
    ranges = [ranges_of(group, dimensions) for group in groups]
    labels = range_labels(ranges, _room(1, len(groups)))
    cells = []
    for x, (group, label) in enumerate(zip(groups, labels, strict=True)):
        of_group = [totals.get(leaf.id, nothing) for leaf in group]
        held, used = sum(each.rows for each in of_group), sum(each.files for each in of_group)
        words = (counted(held, "row"), counted(used, "file"))
        tip = " · ".join((range_text(ranges[x]), *words, *([f"{len(group):,} partitions"] if step > 1 else [])))
        lines = ((label,), (words[0], f"{held:,}", _millions(held)), (words[1],))
        y = depth[x * step] * _LEVEL
        cells.append(_Cell(x, 1, y, bottom - y, held, tip, lines))
    return cells


def _room(width: int, across: int) -> int:
    return _LINE_CHARS * width // across - 2


def _millions(rows: int) -> str:
    return f"{rows:,}" if rows < 10_000_000 else f"{rows / 1e6:,.0f}M"


def ranges_of(group: Sequence[Partition], dimensions: Sequence[int]) -> list[Range]:
    """Return the ranges of some row keys that neighbouring partitions span together."""
    return [Range.hull([leaf.region.ranges[dimension] for leaf in group]) for dimension in dimensions]


def split_keys(tree: PartitionTree) -> list[int]:
    """Return the row keys that the partitions are split by; the others are unbounded in every partition."""
    return sorted({node.dimension for node in tree.partitions if not node.is_leaf}) or [0]


def _split_cells(tree: PartitionTree, keys: Sequence[str], levels: int) -> list[_Cell]:
    found: list[tuple[int, int, int, Partition]] = []

    def put(node: Partition, x: int, level: int) -> int:
        width = 1 if node.is_leaf else 0
        for child in node.child_ids:
            width += put(tree[child], x + width, level + 1)
        if not node.is_leaf and level < levels:
            found.append((level, x, width, node))
        return width

    across = put(tree.root, 0, 0)
    found.sort(key=lambda split: split[:2])
    points = [tree.split_point(node) for *_, node in found]
    short = [point_label(point, _room(width, across)) for point, (_, _, width, _) in zip(points, found, strict=True)]
    cells = []
    labels = told_apart(short, list(map(key_text, points)))
    for (level, x, width, node), point, label in zip(found, points, labels, strict=True):
        tip = f"split at {keys[node.dimension]} = {clip(key_text(point), 60)}"
        cells.append(_Cell(x, width, level * _LEVEL, _LEVEL, None, tip, ((tip, label),)))
    return cells


def _drawn(cells: Sequence[_Cell], across: int) -> str:
    boxes: list[str] = []
    drawn: list[str] = []
    most = max(cell.rows or 0 for cell in cells) or 1
    for cell in cells:
        ends = f'x="{cell.x * 100 / across:.3f}%" width="{cell.width * 100 / across:.3f}%"'
        place = f'{ends} y="{cell.y}" height="{cell.height}"'
        strength = 0 if cell.rows is None else 0.08 + 0.47 * cell.rows / most
        boxes.append(f'<rect {place} fill-opacity="{strength:.2f}"><title>{html.escape(cell.tip)}</title></rect>')
        room = _room(cell.width, across)
        texts = [next((t for t in line if len(t) <= room), "") for line in cell.lines]
        if cell.rows is None:
            drawn.append(clipped_words(place, texts[0]) if texts[0] else "")
        elif room >= 9:
            drawn.append(words(place, [_parts(text) for text in texts]))
        else:  # too narrow for words: only the number of rows, from top to bottom if need be
            held = _millions(cell.rows)
            drawn.append(words(place, [(held,)]) if len(held) <= room else upright_words(place, held))
    edge = f"{BRAND};stroke:currentColor;stroke-opacity:0.35"
    return f'<g style="{edge}">{"".join(boxes)}</g><g pointer-events="none">{"".join(drawn)}</g>'


def _parts(text: str) -> tuple[str, ...]:
    """Return the parts of a line of which the last may be left out: the word after a number of rows."""
    number, rows, _ = text.partition(" row")
    return (number, text[len(number) + 1 :]) if rows else (text,)
