"""Find the columns of a CSV file that are texts only because of a few values, which may mean NULL or be mistyped."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from sleeper_nb.errors import HintParts
from sleeper_nb.model.schema import FieldType
from sleeper_nb.operations.loading.casts import InexactValueError
from sleeper_nb.operations.loading.csv_files import csv_sample
from sleeper_nb.operations.loading.data_columns import LEADING_ZERO, TEXT_TYPES, distinct, first_misfit
from sleeper_nb.operations.loading.source_files import CsvFormat, SourceFile
from sleeper_nb.operations.loading.sources import IngestSource

_MOST_ODD: Final = 3
_LEAST_OTHERS: Final = 4
"""How many different values of the type there must be for each odd one."""


@dataclass(frozen=True, slots=True)
class OddTexts:
    """The few values of a column that are not of the type of all others.

    Parameters
    ----------
    column
        The name of the column in the data.
    type
        The type of the others.
    texts
        The odd values, each once.
    csv_format
        How the file is written.
    """

    column: str
    type: FieldType
    texts: tuple[str, ...]
    csv_format: CsvFormat

    def __str__(self) -> str:
        """``fare is text: 'n/a' is not a double; all other values are``."""
        listed, is_not = ", ".join(map(repr, self.texts)), "are not" if len(self.texts) > 1 else "is not"
        return f"{self.column} is text: {listed} {is_not} a {self.type}; all other values are"

    @property
    def hint(self) -> HintParts:
        """What loads them as NULL; nothing where one may be a mistyped value."""
        if any(map(str.isdigit, "".join(self.texts))):
            return ("correct the data, or keep the column as text",)
        return (self.csv_format.null_option(*self.texts), f" loads {'them' if len(self.texts) > 1 else 'it'} as NULL")


def odd_texts(sources: Sequence[IngestSource], texts: Collection[str]) -> tuple[OddTexts, ...]:
    """Return which of the columns of texts of one CSV file are that only because of a few values of its first rows."""
    file = sources[0] if len(sources) == 1 else None
    if not isinstance(file, SourceFile) or file.format != "csv":
        return ()
    csv_format = file.csv.for_file(file.path)
    found = (_odd_texts(name, distinct(values), csv_format) for name, values in csv_sample(file) if name in texts)
    return tuple(each for each in found if each is not None)


def _odd_texts(column: str, values: pa.Array, csv_format: CsvFormat) -> OddTexts | None:
    """Return the odd ones of a column's different texts for the type with the fewest; None when there is none."""
    by_type = [OddTexts(column, FieldType(name), _few_misfits(values, name, csv_format), csv_format)
               for name in TEXT_TYPES]  # fmt: skip
    least = min((each for each in by_type if each.texts), key=lambda each: len(each.texts), default=None)
    if least is None or len(values) - len(least.texts) < _LEAST_OTHERS * len(least.texts):
        return None
    return least


def _few_misfits(values: pa.Array, name: str, csv_format: CsvFormat) -> tuple[str, ...]:
    """Return the texts that a type does not hold, if they are few; none where the others may be codes, not numbers."""
    few: list[str] = []
    try:
        while (at := first_misfit(values, name, csv_format)) is not None:
            text = values[at].as_py()
            if len(few) == _MOST_ODD or re.match(LEADING_ZERO, text):
                return ()
            few.append(text)
            values = pa.concat_arrays([values.slice(0, at), values.slice(at + 1)])
    except (InexactValueError, UnicodeDecodeError):  # the load says which text is not UTF-8
        return ()
    return tuple(few)
