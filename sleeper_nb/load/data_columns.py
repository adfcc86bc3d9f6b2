"""Find the columns of data before there is a table: their names, the field types that hold them, and why one has none.

Arrow, Parquet and DuckDB data say their types. pandas columns of objects, JSON files and lists of dictionaries are
judged by their first rows, and CSV files by their first texts: the load itself checks every value, and its error names
the first one that the type does not hold. Names that the load gives to columns are checked against the data here, and
columns of texts are found that are texts only because of a few values, which may mean NULL or be mistyped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from sleeper_nb.errors import Action, HintParts, InvalidInput, NotFound, first_line
from sleeper_nb.load.casts import BAD_VALUE, LEADING_ZERO
from sleeper_nb.load.column_types import (
    AS_NULL,
    TEXT_TYPES,
    TIMES,
    TypeMismatchError,
    WithoutType,
    distinct,
    has_codes,
    joined_type,
    misfits,
    objects_of_many_names,
    type_of_texts,
    without_type,
)
from sleeper_nb.load.conform import (
    Difference,
    giving_type,
    naming,
    raise_first,
    without_name,
)
from sleeper_nb.load.csv_files import check_has_header, csv_sample
from sleeper_nb.load.csv_text import thousands_in, thousands_of, thousands_option
from sleeper_nb.load.file_formats import cell_in_sample, open_parquet, sheet_sample
from sleeper_nb.load.json_files import json_sample, line_in_sample
from sleeper_nb.load.lake_tables import LakeTable
from sleeper_nb.load.load_options import EXACT, Matching, folded, index_of_pandas, is_nameless, valid_name
from sleeper_nb.load.source_files import FolderValue, SourceFile
from sleeper_nb.load.sources import IngestSource, InMemory, arrow_of, is_pandas, is_rows, names_of_source
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.load_hints import BY_NAME, IGNORE_EXTRA, OR_IGNORE_EXTRA
from sleeper_nb.model.schema import Field, FieldType, Schema, parse_type

_IN_ORDER: Final = ("rename one, or name all columns in order: ", Action("--columns a,b,c", "columns=[…]"))
FIRST_ROWS = 100_000
"""Rows of Python objects that are looked at for a column's type."""


@dataclass(frozen=True, slots=True)
class DataColumn:
    """A column of some data.

    Parameters
    ----------
    nullable
        Whether the data may have nulls in it.
    problem, hint
        Why no field can hold it, and what to do; "" for a column that a field can hold.
    given
        Its name in the data, where the table has another; "" otherwise.
    is_optional
        Whether the column may be left out where no field can hold it, unless it is a key.
    arrow
        The Arrow type of its values, where that says more than the field type, such as that there are none.
    is_written
        Whether its values are texts of which the type is guessed, as in CSV files and the names of folders.
    has_codes
        Whether they are texts although they look like whole numbers, such as ``01``.
    """

    name: str
    type: FieldType | None
    nullable: bool = True
    problem: str = ""
    hint: HintParts = ()
    given: str = ""
    is_optional: bool = False
    arrow: pa.DataType | None = None
    is_written: bool = False
    has_codes: bool = False

    @property
    def name_in_data(self) -> str:
        return self.given or self.name

    @property
    def difference(self) -> Difference:
        return Difference(self.name, self.problem, self.hint_as())

    def hint_as(self, *, is_key: bool = False) -> HintParts:
        """What to do about the problem of the column, as a key or as another one; no key can be NULL."""
        if is_key and self.hint[:1] == (AS_NULL,):
            return ("correct the data, or ", *self.hint[3:])
        return (*self.hint, OR_IGNORE_EXTRA) if self.is_optional and not is_key else self.hint

    @property
    def kind(self) -> pa.DataType | None:
        return self.arrow or (None if self.type is None else self.type.arrow)

    @property
    def are_digits(self) -> bool:
        """Whether its values are numbers only as they are written, and may be codes as well."""
        return self.is_written and self.type in {FieldType("long"), FieldType("double")}

    def joined(self, other: DataColumn) -> DataColumn:
        """Return the column of two sources: with the wider type, and nullable if it is in one of them."""
        nullable = self.nullable or other.nullable
        if self.kind is None or other.kind is None:
            return replace(self if self.kind is None else other, name=self.name, nullable=nullable)
        are_written = all(each.is_written or each.arrow == pa.null() for each in (self, other))
        has_codes = self.has_codes or other.has_codes
        if has_codes and (self.are_digits or other.are_digits):
            return replace(other if self.are_digits else self, name=self.name, nullable=nullable)
        try:
            kind = joined_type(self.kind, other.kind)
        except TypeMismatchError as mismatch:
            one, another = mismatch.names
            problem = f"column {f'{self.name}{mismatch.path}'!r} is {one} in one source and {another} in another"
            if mismatch.path or "<" in f"{one}{another}":
                return DataColumn(self.name, None, nullable, problem, ("give it one type",), is_optional=True)
            as_text = giving_type(self.name, "string", cast=True)
            return DataColumn(self.name, None, nullable, problem, ("store it as text: ", as_text))
        same = [each for each in (self, other) if each.type is not None and each.kind == kind]
        column = same[0] if same else _of_type(self.name, kind)
        return replace(column, name=self.name, nullable=nullable, is_written=are_written, has_codes=has_codes)


def materialised(sources: Iterable[IngestSource]) -> tuple[IngestSource, ...]:
    """Return the sources with data that can be read only once, or costs a query each time, as Arrow tables."""
    return tuple(map(_materialised, sources))


def _materialised(source: IngestSource) -> IngestSource:
    if not isinstance(source, InMemory) or source.is_spark or is_pandas(source.data) or is_rows(source.data):
        return source
    return InMemory(arrow_of(source.data))


def columns_of(sources: Sequence[IngestSource], matching: Matching = EXACT) -> tuple[DataColumn, ...]:
    """Return the columns of all sources together, in the order in which they first occur.

    Parameters
    ----------
    sources
        As `materialised` returns them; no Spark DataFrame.
    matching
        Whether columns of similar names are one, unless a source has both; and which columns of files without a header
        are wanted.
    """
    of_sources = _with_folders(sources, matching)
    name_of = _joined_names(of_sources, matching) if matching.by_name else str
    columns: dict[tuple[str, int], DataColumn] = {}  # by name, and how often it occurred before in the source
    for number, of_source in enumerate(of_sources):
        times: Counter[str] = Counter()
        here: dict[tuple[str, int], DataColumn] = {}
        for each in of_source:
            own = name_of(each.name)
            here[own, times[own]] = each
            times[own] += 1
        for name, each in here.items():
            if name in columns:
                columns[name] = columns[name].joined(each)
            else:
                columns[name] = each if not number else replace(each, nullable=True)
        for name in columns.keys() - here.keys():
            columns[name] = replace(columns[name], nullable=True)
    return tuple(columns.values())


def _joined_names(of_sources: Sequence[Sequence[DataColumn]], matching: Matching) -> Callable[[str], str]:
    """Return what gives similar names of different sources one name; those of one source stay apart."""
    renames = dict(matching.renames)

    def similar(name: str) -> str:
        return folded(renames.get(name, name))

    counts = (Counter(map(similar, {each.name for each in columns})) for columns in of_sources)
    twice = {name for each in counts for name, count in each.items() if count > 1}
    return lambda name: name if not similar(name) or similar(name) in twice else similar(name)


def named(columns: Sequence[DataColumn], matching: Matching) -> tuple[DataColumn, ...]:
    """Return the columns with the names that the table gets, as a user wants them.

    By similar names, a name that no column can have becomes one: ``Pickup Time`` is ``Pickup_Time``. Columns that no
    field can hold, and those without a name, are left out where extra columns are ignored; the index of pandas always.
    """
    names = replace(matching, by_name=False).names([each.name for each in columns], _NO_SCHEMA)
    renamed, index = [], index_of_pandas(names)
    for each, name in zip(columns, names, strict=True):
        if name in index or (matching.ignore_extra and (each.problem or is_nameless(name))):
            continue
        clean = valid_name(name) if matching.by_name else name
        renamed.append(each if clean == each.name else replace(each, name=clean, given=each.name))
    return tuple(renamed)


_NO_SCHEMA = Schema({"key": "string"})
"""Stands for the schema that is still to be made; names are compared with it only by similar names."""


def has_valid_name(column: DataColumn) -> bool:
    try:
        Field(column.name, FieldType("string"))
    except InvalidInput:
        return False
    return True


def _no_column(name: str, names: Sequence[str]) -> NotFound:
    meant = next((each for each in names if valid_name(each) == name), None)
    if meant is None and index_of_pandas([name]):
        hint = ("it is an index without a name, which is not loaded; call it id with ", naming(name, "id"))
        return NotFound(f"no column {name!r}", hint=hint)
    if meant is None:
        return NotFound.of("column", name, names)
    return NotFound(f"no column {name!r}", hint=(f"{meant!r} becomes {name} with ", BY_NAME))


def _with_folders(sources: Sequence[IngestSource], matching: Matching) -> list[list[DataColumn]]:
    """Return the columns of each source, with those of its folders, of which all texts together decide the type."""
    own = [list(_own_columns(source, matching)) for source in sources]
    given: list[list[FolderValue]] = []
    texts: dict[str, set[str | None]] = {}
    for source, columns in zip(sources, own, strict=True):
        names = {each.name for each in columns}
        values = source.folder_values if isinstance(source, SourceFile) else ()
        given.append([value for value in values if value.is_below and value.name not in names])
        for value in given[-1]:
            texts.setdefault(value.name, set()).add(value.text)
    of_folders = {name: _of_texts(name, pa.array(list(values), pa.string())) for name, values in texts.items()}
    return [
        [*columns, *(replace(of_folders[value.name], nullable=value.text is None) for value in values)]
        for columns, values in zip(own, given, strict=True)
    ]


def _own_columns(source: IngestSource, matching: Matching) -> Iterable[DataColumn]:
    of_values: Callable[[str, Any], DataColumn] = _of_values
    if isinstance(source, LakeTable):
        return columns_of_arrow(source.schema)
    if isinstance(source, InMemory):
        if not is_pandas(source.data) and not is_rows(source.data):
            return columns_of_arrow(source.data.schema)
    elif source.format == "parquet":
        with open_parquet(source) as opened:
            return columns_of_arrow(opened.schema_arrow)
    elif source.format == "csv":
        of_values = partial(_of_texts, csv_format=source.csv.for_file(source.path))
    elif source.format == "excel":
        of_values = partial(_of_sheet, file=source)
    else:
        of_values = partial(_of_json, file=source)
    return [of_values(name, values) for name, values in first_values(source, FIRST_ROWS, matching)]


def first_values(source: IngestSource, rows: int, matching: Matching = EXACT) -> list[tuple[str, Any]]:
    """Return the names of a source's own columns with their first values, which pandas, Python or Arrow holds.

    Parameters
    ----------
    source
        As `materialised` returns it; no Spark DataFrame.
    rows
        The most values of a column; those of CSV, JSON and Excel files are as many as their samples have.
    matching
        Which columns of a CSV file without a header are wanted.
    """
    if isinstance(source, InMemory):
        if is_pandas(source.data):
            head = source.data.head(rows)
            return [(str(name), head.iloc[:, i]) for i, name in enumerate(head.columns)]
        return _of_rows(source.data[:rows]) if is_rows(source.data) else _of_arrow(source.data.slice(0, rows))
    if isinstance(source, LakeTable):
        return _of_arrow(source.first(rows))
    if source.format == "parquet":
        with open_parquet(source) as opened:
            return _of_arrow(next(iter(opened.iter_batches(rows)), None))
    if source.format == "csv":
        return csv_sample(source, matching)
    return _of_rows(sheet_sample(source) if source.format == "excel" else json_sample(source))


def _of_arrow(rows: pa.Table | pa.RecordBatch | None) -> list[tuple[str, Any]]:
    return [] if rows is None else list(zip(rows.schema.names, rows.columns, strict=True))


def _of_rows(rows: Sequence[Mapping[Any, Any]]) -> list[tuple[str, Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [(str(name), [row.get(name) for row in rows]) for name in names]


def columns_of_arrow(schema: pa.Schema) -> tuple[DataColumn, ...]:
    return tuple(_of_type(each.name, each.type, nullable=each.nullable) for each in schema)


def _of_type(name: str, kind: pa.DataType, *, nullable: bool = True) -> DataColumn:
    try:
        return DataColumn(name, FieldType.from_arrow(kind), nullable, arrow=kind)
    except InvalidInput as error:
        problem = f"column {name!r}: {error.message}"
        return DataColumn(name, None, nullable, problem, error.hint_parts, is_optional=True)


def _of_values(name: str, values: Any, why: Callable[[str, Any], WithoutType | None] = without_type) -> DataColumn:
    """Return the column of Python or pandas values; `why` describes those that are not of one type."""
    try:
        found = pa.array(values, from_pandas=True)
    except BAD_VALUE as error:
        problem = f"column {name!r} has values of several types: {first_line(error)}"
        several = WithoutType(problem, ("convert the column to one type first",))
        described = why(name, values) or several
        return DataColumn(name, None, problem=described.problem, hint=described.hint, is_optional=True)
    return _of_type(name, found.type)


def _of_sheet(name: str, values: list[Any], file: SourceFile) -> DataColumn:
    cell_of = partial(cell_in_sample, file, name)
    return _of_values(name, values, partial(without_type, csv_format=file.csv, place=cell_of))


def _of_json(name: str, values: list[Any], file: SourceFile) -> DataColumn:
    """Return the column of values of a JSON file, where dates and times are texts."""
    if wide := objects_of_many_names(name, values):
        return DataColumn(name, None, problem=wide.problem, hint=wide.hint, is_optional=True)
    line_of = partial(line_in_sample, file)
    column = _of_values(name, values, partial(without_type, csv_format=file.csv, place=line_of, is_json=True))
    if column.arrow == pa.string():
        return replace(column, type=type_of_texts(distinct(pa.array(values, pa.string())), TIMES), arrow=None)
    return column


def _of_texts(name: str, texts: pa.Array, csv_format: CsvFormat = DEFAULT_CSV) -> DataColumn:
    values = distinct(texts)
    kind, arrow = type_of_texts(values, TEXT_TYPES, csv_format), None if len(values) else pa.null()
    codes = kind.name == "string" and has_codes(values, csv_format)
    return DataColumn(name, kind, arrow=arrow, is_written=True, has_codes=codes)


def _no_columns(columns: Sequence[DataColumn]) -> Iterable[Difference]:
    if not columns:
        yield Difference("", "the data has no columns", "give rows with named columns")


def _same_names(columns: Sequence[DataColumn]) -> Iterable[Difference]:
    """Yield the columns whose name another has too: SQL does not distinguish upper and lower case."""
    seen: dict[str, DataColumn] = {}
    for each in columns:
        first = seen.setdefault(each.name.casefold(), each)
        if first is each or is_nameless(each.name):
            continue
        name = each.name_in_data
        if first.name == each.name:
            yield Difference(name, f"column {each.name!r} occurs twice", _IN_ORDER)
        else:
            problem = f"the columns {first.name!r} and {each.name!r} differ only in case"
            yield Difference(name, problem, ("rename one: ", naming(name, f"{valid_name(each.name)}_2")))


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """How a user wants a table's schema to be made of the columns of data.

    Parameters
    ----------
    row_keys, sort_keys
        Names of columns.
    types
        Field types as texts, by column, instead of those that the data suggests; a trailing ``?`` makes one nullable.
    """

    row_keys: tuple[str, ...] = ()
    sort_keys: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def schema(self, columns: Sequence[DataColumn]) -> Schema:
        """Return the schema of a table for some columns.

        Raises `NotFound` when a key or a type is given for a column that the data lacks; `InvalidInput` for the first
        column that no field can hold, unless its type was given, and as `Schema` does.
        """
        self._check_names(columns)
        fields = {each.name: self._field(each) for each in columns}
        keys = {*self.row_keys, *self.sort_keys}
        values = [each for each in fields.values() if each.name not in keys]
        return Schema([fields[name] for name in self.row_keys], [fields[name] for name in self.sort_keys], values)

    def for_columns(self, columns: Sequence[DataColumn]) -> SchemaChoice:
        """Return the choice by the table's names for the columns; it may name them as the data does."""
        names = {each.given: each.name for each in columns if each.given}
        names = {given: name for given, name in names.items() if all(each.name != given for each in columns)}
        keys, sort = (tuple(names.get(each, each) for each in given) for given in (self.row_keys, self.sort_keys))
        return SchemaChoice(keys, sort, {names.get(name, name): kind for name, kind in self.types.items()})

    def problems(self, columns: Sequence[DataColumn]) -> tuple[Difference, ...]:
        """Return every column that no field can hold, and what to do about each."""
        problems = [*_no_columns(columns), *_same_names(columns)]
        for each in columns:
            try:
                self._field(each)
            except InvalidInput as error:
                problems.append(Difference(each.name_in_data, error.message, error.hint_parts))
        return tuple(problems)

    def _check_names(self, columns: Sequence[DataColumn]) -> None:
        names = [each.name for each in columns]
        raise_first(tuple(_no_columns(columns)))
        raise_first(tuple(_same_names(columns))[:1])
        for name in (*self.row_keys, *self.sort_keys, *self.types):
            if name not in names:
                raise _no_column(name, names)

    def _field(self, column: DataColumn) -> Field:
        of_type, nullable = column.type, column.nullable
        if given := self.types.get(column.name):
            text = given.strip()
            of_type, nullable = parse_type(text.removesuffix("?")), nullable or text.endswith("?")
        is_key = column.name in self.row_keys or column.name in self.sort_keys
        if of_type is None:
            raise InvalidInput(column.problem, hint=column.hint_as(is_key=is_key))
        if is_key and not given and of_type.name in {"tinyint", "smallint"}:
            of_type = FieldType("int")
        try:
            return Field(column.name, of_type, nullable and not is_key)
        except InvalidInput as error:
            if is_nameless(column.name):
                called = (", call it ", valid_name(column.name), " with ", BY_NAME, ", or add ", naming(column.name))
                hint: HintParts = ("leave it out with ", IGNORE_EXTRA, *called)
                raise InvalidInput(without_name(column.name), hint=hint) from error
            hint = (*error.hint_parts, "; ", BY_NAME, f" makes it {valid_name(column.name)}")
            raise InvalidInput(error.message, hint=hint) from error


def check_named_columns(sources: Sequence[IngestSource], matching: Matching, schema: Schema | None = None) -> None:
    """Check the names before any row is loaded; reads headers, and of JSON files as many rows as it needs.

    Raises `InvalidInput` when columns are named in order, but the data has none, or one in each file; `NotFound` when a
    pair names a column that the table or the data lacks.

    Parameters
    ----------
    schema
        The table's schema; None while there is none.
    """
    if matching.columns:
        _check_order(sources, matching)
    targets = [target for _, target in matching.renames] if schema is not None else []
    for target in targets:
        if schema is not None and target not in schema.names:
            raise NotFound.of("column", target, schema.names, where=" in the table")
    if matching.renames:
        _check_sources(sources, [source for source, _ in matching.renames])


def _check_order(sources: Sequence[IngestSource], matching: Matching) -> None:
    known: dict[str, tuple[int, str]] = {}
    for source in sources:
        label = "the data" if isinstance(source, InMemory) else source.label
        is_json = isinstance(source, SourceFile) and source.format == "json"
        if is_json or (isinstance(source, InMemory) and isinstance(source.data, list)):
            what = f"the objects of {label}" if isinstance(source, SourceFile) else "a list of dictionaries"
            raise InvalidInput(f"columns cannot be named in order for {what}", hint=_hint_to_pairs(matching.columns))
        if len(sources) == 1:
            return
        names = tuple(names_of_source(source) or ())
        for name in dict.fromkeys(names):
            place = names.index(name)
            first, where = known.setdefault(name, (place, label))
            if first != place:
                problem = f"column {name!r} is number {first + 1} in {where}, but number {place + 1} in {label}"
                raise InvalidInput(problem, hint=_hint_to_pairs(matching.columns))


def _hint_to_pairs(columns: Sequence[str]) -> HintParts:
    option = Action(f"--columns NAME={columns[0]}", f"columns={{NAME: {columns[0]!r}}}")
    return "give pairs of the data's and the table's name: ", option


def _check_sources(sources: Sequence[IngestSource], wanted: Sequence[str]) -> None:
    missing, found = dict.fromkeys(wanted), dict[str, None]()
    for source in sources:
        names = names_of_source(source)
        if names is None:  # it can be read only once, and does not say its columns before
            return
        values = source.folder_values if isinstance(source, SourceFile) else ()
        for name in chain((value.name for value in values), names):
            found[name] = None
            missing.pop(name, None)
            if not missing:
                return
    for name in missing:
        raise NotFound.of("column", name, found, where=" in the data")


def check_has_names(sources: Sequence[IngestSource], columns: Sequence[DataColumn], matching: Matching) -> None:
    """Check that the columns of new tables have names: given ones, or those of a header that has no values.

    Raises `InvalidInput` when the first line of a file is said to have no names, and none are given; or may have
    values.
    """
    files = [each for each in sources if isinstance(each, SourceFile) and each.format in {"csv", "excel"}]
    bare = next((each for each in files if not each.csv.header), None)
    if bare is not None and not matching.columns:
        letters = [f"c{number}" for number in range(1, len(columns) + 1)]
        names = Action(f"--columns {','.join(letters)}", f"columns={letters!r}")
        raise InvalidInput(f"{bare.label} has no column names", hint=("name them in order: ", names))
    if bare is None and files:
        given = [each.name_in_data if matching.columns else each.name for each in columns]
        check_has_header(files[0], given, matching, can_be_named=not matching.columns)


_MOST_ODD: Final = 3
_LEAST_OTHERS: Final = 4
"""How many different values of the type there must be for each odd one."""
_MOST_FILES: Final = 32


@dataclass(frozen=True, slots=True)
class OddTexts:
    """The few values of a column that are not of the type of all others.

    Parameters
    ----------
    type
        The type of the others.
    texts
        The odd values, each once.
    """

    column: str
    type: FieldType
    texts: tuple[str, ...]
    csv_format: CsvFormat
    is_key: bool = False

    def __str__(self) -> str:
        """``column fare is read as text because of 'n/a'; every other value is a double``."""
        listed = ", ".join(map(repr, self.texts))
        return f"column {self.column} is read as text because of {listed}; every other value is a {self.type}"

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
    def line(self) -> HintParts:
        return (f"{self}. ", *self.hint)


@dataclass(frozen=True, slots=True)
class GroupedNumbers:
    """A column of texts that are numbers with separators of thousands."""

    column: str
    example: str
    separator: str

    @property
    def line(self) -> HintParts:
        of_text = f"{self.column} is read as text, although its values look like numbers, such as {self.example!r}. "
        return (f"{of_text}To load them as numbers: ", thousands_option(self.separator))


def odd_texts(
    sources: Sequence[IngestSource], texts: Collection[str], keys: Collection[str] = ()
) -> tuple[OddTexts | GroupedNumbers, ...]:
    """Return which of the columns of texts of CSV files are that only because of how their first values are written.

    They are numbers with separators of thousands, or a few of them are not of the type of all others.
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
    found: list[OddTexts | GroupedNumbers | None] = []
    for name, parts in values.items():
        different = distinct(pa.chunked_array(parts))
        grouped = _grouped_numbers(name, different) if csv_format.thousands is None else None
        found.append(grouped or _odd_texts(name, different, csv_format, is_key=name in keys))
    return tuple(each for each in found if each is not None)


def _grouped_numbers(column: str, values: pa.Array) -> GroupedNumbers | None:
    try:
        separator = thousands_of(values)
    except (pa.ArrowInvalid, UnicodeDecodeError):  # the load says which text is not UTF-8
        return None
    if separator is None:
        return None
    example = next(each for each in values.to_pylist() if thousands_in(each.strip()) == separator)
    return GroupedNumbers(column, example, separator)


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
