"""Tell comments above the header of a CSV file from a header whose first name begins with #. Pure.

The lines below decide. A header has as many values as most of them. Comments may happen to have as many, too: they are
comments if the next line consists of names, and numbers or dates follow in one of its columns, or the comment has a
space after its #. In a file of one column, both must be so, as any line has one value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAME = re.compile(r"\s*[^\W\d][\w .()/-]*")
_NUMBER_OR_DATE = re.compile(r"\s*[+-]?\.?\d")
_WITH_SPACE = re.compile(r"#+\s")


def are_comments(line: str, above: Sequence[Sequence[str]], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the first records of a file are comments, and its header is below them.

    Parameters
    ----------
    line
        The first line.
    above
        The values of the first records, as far as they begin with #.
    below
        Those of some records below them.
    """
    width = len(above[0])
    others = [*above[1:], *below]
    if 2 * sum(len(each) == width for each in others) < len(others):
        return True
    if not below or not _are_names(below[0]):
        return False
    has_space, has_numbers = _WITH_SPACE.match(line) is not None, _numbers_follow(below)
    return (has_space and has_numbers) if width == 1 else (has_space or has_numbers)


def _are_names(values: Sequence[str]) -> bool:
    return len(set(values)) == len(values) and all(map(_NAME.fullmatch, values))


def _numbers_follow(records: Sequence[Sequence[str]]) -> bool:
    columns = zip(*(each for each in records[1:] if len(each) == len(records[0])), strict=True)
    return any(any(map(str.strip, values)) and all(map(_is_number_or_empty, values)) for values in columns)


def _is_number_or_empty(value: str) -> bool:
    return not value.strip() or _NUMBER_OR_DATE.match(value) is not None
