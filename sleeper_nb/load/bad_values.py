"""Cast the values that fit a type, and name each of the others, for loads that keep bad rows back. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.load.casts import InexactValueError

Misfits = list[tuple[int, InexactValueError]]
"""The index of each value that does not fit, and why."""


def cast_apart(values: Any, cast: Callable[[Any], pa.Array], kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return values cast to a type, NULL where a value does not fit, and the values that do not.

    Parameters
    ----------
    values
        An Arrow array or a list. Texts are cast once for each different text.
    cast
        Returns a slice of the values with the type `kind`, or raises `InexactValueError`.
    """
    if not isinstance(values, pa.Array) or not pa.types.is_string(values.type):
        return _halved(values, cast, kind)
    try:
        return cast(values), []
    except InexactValueError:
        pass
    encoded = values.dictionary_encode()
    different, misfits = _halved(encoded.dictionary, cast, kind)
    errors = dict(misfits)
    wrong = pc.is_in(encoded.indices, pa.array(list(errors), encoded.indices.type))
    rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False)).tolist()
    return different.take(encoded.indices), [(row, errors[encoded.indices[row].as_py()]) for row in rows]


def _halved(values: Any, cast: Callable[[Any], pa.Array], kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Cast values in parts: up to the first that does not fit, and then the two halves of the others."""
    parts: list[pa.Array] = []
    misfits: Misfits = []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(cast(values[start:end]))
            continue
        except InexactValueError as error:
            bad, index = error, error.index
        middle = (start + end) // 2
        if end - start == 1:
            parts.append(pa.nulls(1, kind))
            misfits.append((start, bad))
        elif index is None:
            waiting += [(middle, end), (start, middle)]
        else:
            first = start + index
            middle = (first + 1 + end) // 2
            waiting += [(middle, end), (first + 1, middle), (first, first + 1), (start, first)]
    return pa.concat_arrays(parts) if parts else pa.array([], kind), misfits
