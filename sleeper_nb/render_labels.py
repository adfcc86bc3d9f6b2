"""Labels of pictures, in as many letters as there is room for: true as far as they go, or left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sleeper_nb.cells import cell_text
from sleeper_nb.model.keys import KeyValue, key_text
from sleeper_nb.model.partitions import Range

_MOST_LETTERS = 60  # of a bound, which may be a text of any length


def clip(text: str, room: int) -> str:
    """Return what fits in one line; nothing when that would be less than a few letters."""
    text = cell_text(text)
    return text if len(text) <= room else f"{text[: room - 1]}…" if room > 3 else ""


def range_text(ranges: Sequence[Range]) -> str:
    """Return the ranges of some row keys; no number is cut, as none is that long."""
    return " × ".join(str(Range(_short(each.min), _short(each.max))) for each in ranges)


def range_labels(boxes: Sequence[Sequence[Range]], room: int) -> list[str]:
    """Return for each box of neighbours its ranges, or one bound that is true of it, or nothing."""
    whole = list(map(range_text, boxes))
    shown = [text if len(text) <= room else _bound(box, room) for text, box in zip(whole, boxes, strict=True)]
    return told_apart(shown, whole)


def point_label(value: KeyValue, room: int, before: str = "") -> str:
    """Return a key behind a word; without room a text is cut, and any other key left out: a part of it is another."""
    text = f"{before}{key_text(value)}"
    return clip(text, room) if isinstance(value, str) else text if len(text) <= room else ""


def told_apart(shown: Sequence[str], whole: Sequence[str]) -> list[str]:
    """Return labels without those that are shorter than the whole, and the same as another one."""
    seen = Counter(shown)
    return [text if text == full or seen[text] == 1 else "" for text, full in zip(shown, whole, strict=True)]


def _short(bound: KeyValue | None) -> KeyValue | None:
    return None if bound is None else clip(key_text(bound), _MOST_LETTERS)


def _bound(ranges: Sequence[Range], room: int) -> str:
    """Return the least key of a box, which is true of it alone where no other row key bounds it."""
    first, *others = ranges
    if any(each != Range() for each in others):
        return ""
    if first.min is not None:
        return point_label(first.min, room, "≥ ")
    whole = "" if first.max is None else f"< {cell_text(key_text(first.max))}"
    return whole if len(whole) <= room else ""
