"""Find the type of a column of texts: the narrowest that holds each text as it is written, or a text. Pure.

A text that writes a time of day or a zone is a time, also at midnight, and one that writes a fraction or an exponent is
a double, also a whole one: the next rows may have another time or another fraction, which the narrower type refuses.
Numbers with leading zeros are texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.load.casts import LEADING_ZERO, InexactValueError, exactly
from sleeper_nb.load.csv_text import are_moments_of_digits, as_written_in, has_pattern, without_thousands
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.schema import FieldType

TEXT_TYPES = ("long", "double", "boolean", "date", "timestamp")
"""The types that a column of texts may have, the narrowest first; any other text is a string."""
TIMES = ("date", "timestamp")
_SPACE: Final = r"[\s\pZ\x0b\x1c-\x1f\x{85}]*"
_SHAPES = {
    "long": r"[+-]?\d+",
    "double": r"[+-]?(\d+MARK?\d*|MARK\d+)(e[+-]?\d+)?|[+-]?(nan|inf(inity)?)",
    "boolean": "true|false",
    "date": r"-?\d{4,}-\d\d-\d\d",
    "timestamp": r"-?\d{4,}-\d\d-\d\d([t ].*)?",
}
"""How the texts of a type are written, with MARK for the decimal mark; a cast then checks each value."""

_CAST_TOGETHER: Final = 20_000
"""Texts of which the first that does not fit is searched together, by several casts of parts of them."""


def distinct(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the different texts of a column, without NULL."""
    return texts.unique().drop_null()


def type_of_texts(values: pa.Array, types: Sequence[str], csv_format: CsvFormat = DEFAULT_CSV) -> FieldType:
    """Return the narrowest type that holds each of some distinct texts exactly, as a file writes it.

    Digits are a date or a time first, where the file writes these so.
    """
    if not len(values):
        return FieldType("string")
    first = [name for name in TIMES if are_moments_of_digits(csv_format, values, name)]
    for name in dict.fromkeys((*first, *types)):
        if misfits(values, name, csv_format, 0) == ():
            return FieldType(name)
    return FieldType("string")


def has_codes(values: pa.Array, csv_format: CsvFormat = DEFAULT_CSV) -> bool:
    """Return whether texts of which the type is a string are codes: one has leading zeros, or all are only digits."""
    try:
        digits = values.filter(pc.match_substring_regex(without_thousands(csv_format, values), r"^\s*[+-]?\d+\s*$"))
        zeros = pc.any(pc.match_substring_regex(without_thousands(csv_format, digits), LEADING_ZERO)).as_py()
    except (pa.ArrowInvalid, UnicodeDecodeError):  # the load says which text is not UTF-8
        return False
    return bool(zeros) or 0 < len(digits) == len(values)


def misfits(values: pa.Array, name: str, csv_format: CsvFormat, most: int) -> tuple[int, ...] | None:
    """Return the places of the texts that a type does not hold as they are written; None when they are not known.

    Parameters
    ----------
    most
        So many are wanted: of more, `most` + 1 are returned, not the first ones.
    """
    fits = _is_written_so(values, name, csv_format)
    wrong = np.flatnonzero(~fits).tolist()
    if len(wrong) > most:
        return tuple(wrong[: most + 1])
    places = np.flatnonzero(fits)
    others = values.filter(pa.array(fits)) if wrong else values
    try:
        for start in range(0, len(others), _CAST_TOGETHER):
            begin, end = start, min(start + _CAST_TOGETHER, len(others))
            while (at := _first_misfit(others.slice(begin, end - begin), name, csv_format)) is not None:
                wrong.append(int(places[begin + at]))
                begin += at + 1
                if len(wrong) > most:
                    return tuple(sorted(wrong))
    except (InexactValueError, UnicodeDecodeError):  # the load says which text is not UTF-8
        return None
    return tuple(sorted(wrong))


def _is_written_so(values: pa.Array, name: str, csv_format: CsvFormat) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each text whether it may be of a type by its characters, without a cast."""
    if has_pattern(csv_format, name):
        return np.ones(len(values), np.bool_)
    shape = _SHAPES[name].replace("MARK", re.escape(csv_format.decimal))
    if name in {"long", "double"}:
        values = without_thousands(csv_format, values)
    fits = pc.match_substring_regex(values, rf"^(?is:{_SPACE}({shape}){_SPACE})$")
    if name in {"long", "double"}:
        fits = pc.and_not(fits, pc.match_substring_regex(values, LEADING_ZERO))
    return np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)


def _first_misfit(values: pa.Array, name: str, csv_format: CsvFormat) -> int | None:
    """Return the index of the first text that a cast refuses; None when it refuses none.

    `InexactValueError` when there is one, but not known which; `UnicodeDecodeError` for a text that is not UTF-8.
    """
    kind = FieldType(name)
    try:
        exactly(as_written_in(csv_format, values, kind), kind)
    except InexactValueError as error:
        if error.index is None:
            raise
        return error.index
    return None
