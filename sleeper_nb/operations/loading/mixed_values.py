"""Say what the values of a column are that have several types, or one that no column can have. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np

from sleeper_nb.errors import Action, HintParts
from sleeper_nb.operations.loading.conform import row_number
from sleeper_nb.operations.loading.source_files import CsvFormat

_NUMBERS = (int, float, Decimal, np.integer, np.floating)
_MOST_NULLS: Final = 3


@dataclass(frozen=True, slots=True)
class MixedValues:
    """What is wrong with the values of a column, "" where it is not known; and what to do, also if it is a key."""

    problem: str
    hint: HintParts
    hint_of_key: HintParts = ()


def mixed_in_memory(name: str, values: Any) -> MixedValues:
    """Describe values that pandas or Python holds."""
    if _are_complex(values):
        problem = f"column {name!r} has complex numbers, and no column of a table can"
        return MixedValues(problem, ("make two columns, of their real and imaginary parts",))
    problem, texts = _numbers_and_texts(name, values, rows=True)
    if not texts:
        return MixedValues("", ("convert the column to one type first",))
    replaced, as_text = f"replace {_listed(texts)} by a number", (", or store it as text: ", _as_text(name))
    return MixedValues(problem, (f"{replaced} or None first", *as_text), (f"{replaced} first", *as_text))


def mixed_in_file(name: str, values: Any, csv_format: CsvFormat, *, empty: bool, rows: bool) -> MixedValues:
    """Describe values of a JSON or Excel file.

    Parameters
    ----------
    empty
        Whether empty texts mean NULL.
    rows
        Whether the index of a value says its row in the file.
    """
    problem, texts = _numbers_and_texts(name, values, rows=rows)
    if not texts:
        return MixedValues("", ("convert the column to one type first",))
    as_text = ("store it as text: ", _as_text(name))
    is_null = all(csv_format.can_be_null_text(each) and not any(map(str.isdigit, each)) for each in texts)
    if len(texts) > _MOST_NULLS or not is_null:
        return MixedValues(problem, ("correct the data, or ", *as_text))
    them = "them" if len(texts) > 1 else "it"
    nulls = csv_format.null_option(*texts, empty=empty)
    of_key = ("correct the data, or ", *as_text)
    return MixedValues(problem, (f"to load {them} as NULL: ", nulls, "; or ", *as_text), of_key)


def _as_text(name: str) -> Action:
    return Action(f"--types {name}=string --cast", f"types={{{name!r}: 'string'}}, cast=True")


def _listed(texts: tuple[str, ...]) -> str:
    return repr(texts[0]) if len(texts) == 1 else "the texts"


def _are_complex(values: Any) -> bool:
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    return kind == "c" or any(isinstance(each, complex | np.complexfloating) for each in values)


def _numbers_and_texts(name: str, values: Any, *, rows: bool) -> tuple[str, tuple[str, ...]]:
    """Return what is wrong with a column of numbers and texts, and the different texts; nothing for other columns."""
    texts: dict[str, int] = {}
    numbers = 0
    for row, each in _set_values(values):
        if isinstance(each, str):
            texts.setdefault(each, row)
        elif isinstance(each, _NUMBERS) and not isinstance(each, bool):
            numbers += 1
        else:
            return "", ()
    if not texts or not numbers:
        return "", ()
    first, row = next(iter(texts.items()))
    where = f", first in {row_number(row)}" if rows and len(texts) > 1 else f" in {row_number(row)}" if rows else ""
    what = f"the text {first!r}" if len(texts) == 1 else f"{len(texts):,} different texts such as {first!r}"
    return f"column {name!r} has values of several types: numbers, and {what}{where}", tuple(texts)


def _set_values(values: Any) -> Iterator[tuple[int, Any]]:
    for row, each in enumerate(values):
        is_nan = isinstance(each, float) and math.isnan(each)
        if each is not None and not is_nan and type(each).__name__ not in {"NAType", "NaTType"}:  # of pandas
            yield row, each
