"""Find the columns of CSV files that are texts only because of a few values, which may mean NULL or be mistyped."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from sleeper_nb.errors import HintParts
from sleeper_nb.load.casts import LEADING_ZERO
from sleeper_nb.load.csv_files import csv_sample
from sleeper_nb.load.csv_text import thousands_in, thousands_option
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.load.text_types import TEXT_TYPES, distinct, misfits
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.model.schema import FieldType

_MOST_ODD: Final = 3
_LEAST_OTHERS: Final = 4
"""How many different values of the type there must be for each odd one."""
_MOST_FILES: Final = 32


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
    is_key
        Whether the column is a key of the table.
    """

    column: str
    type: FieldType
    texts: tuple[str, ...]
    csv_format: CsvFormat
    is_key: bool = False

    def __str__(self) -> str:
        """``fare is read as text because of 'n/a'; every other value is a double``."""
        listed = ", ".join(map(repr, self.texts))
        return f"{self.column} is read as text because of {listed}; every other value is a {self.type}"

    @property
    def may_mean_null(self) -> bool:
        """Whether an option loads them as NULL: none has a digit but zeros, and so is no mistyped value."""
        has_digits = any(each.isdigit() and each != "0" for each in "".join(self.texts))
        return not has_digits and not self.is_key and all(map(self.csv_format.can_be_null_text, self.texts))

    @property
    def hint(self) -> HintParts:
        """What loads them as NULL; nothing where one may be a mistyped value."""
        if self.is_key:
            return ("Keys cannot be null: correct the data, or keep the column as text",)
        if not self.may_mean_null:
            return ("Correct the data, or keep the column as text",)
        them = "them" if len(self.texts) > 1 else "it"
        return (f"To load {them} as NULL: ", self.csv_format.null_option(*self.texts))

    @property
    def hint_of_files(self) -> HintParts:
        """What loads them as NULL where other files have none, before another way."""
        because = f"it is text because of {', '.join(map(repr, self.texts))}"
        if not self.may_mean_null:
            return (f"{because}: correct the data, or ",)
        them = "them" if len(self.texts) > 1 else "it"
        return (f"{because}; to load {them} as NULL: ", self.csv_format.null_option(*self.texts), "; or ")

    @property
    def line(self) -> HintParts:
        """What is odd, and what to do."""
        return (f"{self}. ", *self.hint)


@dataclass(frozen=True, slots=True)
class GroupedNumbers:
    """A column of texts that are numbers with separators of thousands."""

    column: str
    example: str
    separator: str

    @property
    def line(self) -> HintParts:
        """What is odd, and what to do."""
        of_text = f"{self.column} is read as text, although its values look like numbers, such as {self.example!r}. "
        return (f"{of_text}To load them as numbers: ", thousands_option(self.separator))


def grouped_numbers(sources: Sequence[IngestSource], texts: Collection[str]) -> tuple[GroupedNumbers, ...]:
    """Return which of the columns of texts of CSV files are numbers with separators of thousands."""
    files = [source for source in sources if isinstance(source, SourceFile) and source.format == "csv"]
    if not texts or len(files) < len(sources):
        return ()
    samples: dict[str, list[pa.Array]] = {}
    for file in files[:_MOST_FILES]:
        for name, column in csv_sample(file) if file.csv.thousands is None else ():
            if name in texts:
                samples.setdefault(name, []).append(distinct(column))
    found = []
    for name, parts in samples.items():
        values = distinct(pa.chunked_array(parts))
        try:
            separator = thousands_in(values)
        except (pa.ArrowInvalid, UnicodeDecodeError):  # the load says which text is not UTF-8
            continue
        if separator is not None:
            example = next(each for each in values.to_pylist() if not each.strip("+- ").isdigit())
            found.append(GroupedNumbers(name, example, separator))
    return tuple(found)


def odd_texts(
    sources: Sequence[IngestSource], texts: Collection[str], keys: Collection[str] = ()
) -> tuple[OddTexts, ...]:
    """Return which of the columns of texts of CSV files are that only because of a few values of their first rows.

    Parameters
    ----------
    texts
        The names of the columns of texts in the data.
    keys
        Those that are keys.
    """
    files = [source for source in sources if isinstance(source, SourceFile) and source.format == "csv"]
    formats = {file.csv.for_file(file.path) for file in files}
    if not texts or len(files) < len(sources) or len(formats) != 1:
        return ()
    (csv_format,) = formats
    values: dict[str, list[pa.Array]] = {}
    for file in files[:_MOST_FILES]:
        for name, column in csv_sample(file):
            if name in texts:
                values.setdefault(name, []).append(distinct(column))
    found = (
        _odd_texts(name, distinct(pa.chunked_array(parts)), csv_format, is_key=name in keys)
        for name, parts in values.items()
    )
    return tuple(each for each in found if each is not None)


def _odd_texts(column: str, values: pa.Array, csv_format: CsvFormat, *, is_key: bool) -> OddTexts | None:
    """Return the odd ones of a column's different texts for the type with the fewest; None when there is none."""
    found, most = None, _MOST_ODD
    for name, few in _few_misfits(values, csv_format):
        if few and len(few) <= most:
            found, most = OddTexts(column, FieldType(name), few, csv_format, is_key), len(few) - 1
        if not most:
            break
    if found is None or len(values) - len(found.texts) < _LEAST_OTHERS * len(found.texts):
        return None
    return found


def _few_misfits(values: pa.Array, csv_format: CsvFormat) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts that each type does not hold, if they are few and show no codes instead of numbers."""
    for name in TEXT_TYPES:
        places = misfits(values, name, csv_format, _MOST_ODD)
        if places is None or not 0 < len(places) <= _MOST_ODD:
            continue
        try:
            few = tuple(values[at].as_py() for at in places)
        except UnicodeDecodeError:  # the load says which text is not UTF-8
            continue
        if name not in {"long", "double"} or not any(re.match(LEADING_ZERO, text) for text in few):
            yield name, few
