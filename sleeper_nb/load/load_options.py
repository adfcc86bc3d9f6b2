"""The options of a load as a user gives them, and how they match the columns of data with those of a table. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.schema import Schema
from sleeper_nb.report import counted

_BETWEEN_WORDS = re.compile(r"[\W_]+")
_VALID = re.compile(r"[^\W\d][\w$]*")
_WITHOUT = " without a name"
_INDEX_LEVEL = re.compile(r"__index_level_\d+__")
_NAMELESS = re.compile(rf"column \d+{_WITHOUT}")


@dataclass(frozen=True, slots=True)
class Matching:
    """How columns of data become columns of a table, and what a load forgives. It can be pickled for Spark's tasks.

    Parameters
    ----------
    ignore_extra
        Whether columns that the table lacks are left out; otherwise they are differences.
    cast
        Whether values are also cast between kinds that are refused otherwise; see `python_values`.
    by_name
        Whether names also match that differ only in case, spaces and punctuation.
    columns
        The table's names for the data's columns, in the order of the data; () keeps the names of the data.
    renames
        Pairs of a name in the data and the table's name for it.
    keep_back
        Whether a row with a value that does not fit is kept back; otherwise the value is a difference.
    """

    ignore_extra: bool = False
    cast: bool = False
    by_name: bool = False
    columns: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    keep_back: bool = False

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        *,
        ignore_extra: bool = False,
        cast: bool = False,
        by_name: bool = False,
    ) -> Matching:
        """Return the matching with names in order or as a dictionary from the data's name to the table's.

        Raises `InvalidInput` when `columns` names nothing, or a name twice.
        """
        if columns is None:
            return cls(ignore_extra, cast, by_name)
        is_mapping = isinstance(columns, Mapping)
        wanted = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
        hint = "give the table's names in the order of the data, or pairs of the data's and the table's name"
        if not wanted:
            raise InvalidInput("columns is empty", hint=hint)
        twice = [name for name, count in Counter(wanted).items() if count > 1]
        if twice:
            raise InvalidInput(f"columns names {twice[0]!r} twice", hint=hint)
        if is_mapping:
            return cls(ignore_extra, cast, by_name, renames=tuple(zip(columns, wanted, strict=True)))
        return cls(ignore_extra, cast, by_name, tuple(wanted))

    @property
    def renames_columns(self) -> bool:
        return bool(self.by_name or self.columns or self.renames)

    def names(self, given: Sequence[str], schema: Schema) -> tuple[str, ...]:
        """Return the table's name for each column of the data; the data's own name where the table has none.

        Raises `InvalidInput` when `columns` does not name every column of the data.
        """
        if self.columns:
            if len(given) != len(self.columns):
                listed = ", ".join(given)
                raise InvalidInput(
                    f"the data has {counted(len(given), 'column')}, and {len(self.columns)} are named",
                    hint=f"name all of them in order, or some as pairs; the data has {listed}",
                )
            return self.columns
        if not self.renames_columns:
            return tuple(given)
        renames = dict(self.renames)
        names = tuple(renames.get(name, name) for name in given)
        return _similar(names, schema) if self.by_name else names

    def left_out(self, names: Iterable[str], schema: Schema) -> tuple[str, ...]:
        """Return which names of columns the table lacks and a load leaves out: all, or the index of pandas."""
        lacking = tuple(dict.fromkeys(name for name in names if name not in schema.names))
        return lacking if self.ignore_extra else index_of_pandas(lacking)

    def folder_names(self, given: Sequence[str], schema: Schema) -> tuple[str, ...]:
        """Return the table's name for each name of a folder such as ``year=2013``; they have no order to go by."""
        return replace(self, columns=()).names(given, schema)


EXACT = Matching()
"""Columns of the same names; nothing is left out, and values are cast exactly."""


def _similar(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return the table's name for each similar name, where only one column of the table is similar to it."""
    similar = Counter(map(folded, schema.names))
    by_fold = {folded(name): name for name in schema.names if similar[folded(name)] == 1}
    given = frozenset(names)

    def matched(name: str) -> str:
        # the name that a table made of the data gets comes first, so that the data fits this table
        match = clean if (clean := valid_name(name)) in schema.names else by_fold.get(folded(name), name)
        return name if name in schema.names or match in given else match

    return tuple(map(matched, names))


def valid_name(name: str) -> str:
    """Return a name that a column can have, and that is similar to another: letters, digits and _; or a valid one."""
    if _VALID.fullmatch(name):
        return name
    words = re.sub(r"\W+", "_", name.removesuffix(_WITHOUT) if is_nameless(name) else name).strip("_") or "column"
    return f"_{words}" if words[0].isdigit() else words


def is_nameless(name: str) -> bool:
    """Return whether a column of data has no name, as the index of a DataFrame in a CSV file."""
    return not name.strip() or _NAMELESS.fullmatch(name) is not None


def index_of_pandas(names: Iterable[str]) -> tuple[str, ...]:
    """Return the column of an index without a name, as pandas writes it to Arrow and Parquet; none of a MultiIndex."""
    levels = tuple(name for name in names if _INDEX_LEVEL.fullmatch(name))
    return levels if len(levels) == 1 else ()


def nameless(number: int) -> str:
    """Return the name that a column without one has in messages, by its place from 1."""
    return f"column {number}{_WITHOUT}"


def folded(name: str) -> str:
    """Return a name without case, spaces and punctuation: ``Pickup Time`` and ``pickup_time`` are the same."""
    return _BETWEEN_WORDS.sub("", name).casefold()


_CSV_OPTIONS = frozenset(field.name for field in fields(CsvFormat))


class LoadArguments(TypedDict, total=False):
    """The keyword arguments of every method that loads data; `Table.ingest` says what they mean."""

    ignore_extra: bool
    cast: bool
    by_name: bool
    columns: Sequence[str] | Mapping[str, str] | None
    delimiter: str | None
    null_text: str | Sequence[str] | None
    header: bool
    quote: str
    escape: str | None
    comment: str | None
    skip_lines: int
    encoding: str | None
    decimal: Literal[".", ","]
    thousands: Literal[",", ".", "'", "_", "space"] | None
    date_format: str | None
    timestamp_format: str | None
    sheet: str | None
    format: Literal["csv", "tsv", "json", "parquet", "excel"] | None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How files are read, and how columns of data become columns of the table.

    Parameters
    ----------
    sheet
        The sheet of Excel files; None for the only one.
    format
        The format of all files; None where their names or contents say it.
    """

    csv: CsvFormat = DEFAULT_CSV
    matching: Matching = EXACT
    sheet: str | None = None
    format: str | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> LoadOptions:
        """Return the options of `LoadArguments`.

        Raises `InvalidInput` when an option has a value that it cannot have.
        """
        if not arguments:
            return AS_IT_IS
        csv = {name: value for name, value in arguments.items() if name in _CSV_OPTIONS}
        matching = {name: value for name, value in arguments.items() if name not in {*_CSV_OPTIONS, "sheet", "format"}}
        columns = Matching.of(matching.pop("columns", None), **matching)
        return cls(CsvFormat(**csv), columns, arguments.get("sheet"), arguments.get("format"))


AS_IT_IS = LoadOptions()
"""No option is given."""
