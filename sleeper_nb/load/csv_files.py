"""Read a CSV file as columns of the table's types.

Every value is read as text and converted by the rules for texts (`casts`). NULL is the null text without quotes, by
default an empty value. A quoted null text is a text; if the column holds neither texts nor bytes, it can only mean NULL
as well. Bytes are base64, and lists, maps and structs JSON, as an export writes them.

Arrow reads ``"a" b`` as ``a b``, and a file that was cut inside quotes to its end. So the quotes of a file are checked
while Arrow reads it, block by block (`Quotes`). If all of them open or close a value or are doubled inside one, the
file is well-formed unless their number is odd. If one is not, as in ``5" disk``, Python's CSV parser decides.
"""

from __future__ import annotations

import codecs
import contextlib
import csv as python_csv
import io
import itertools
import logging
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from json import JSONDecodeError
from threading import Lock
from typing import Any, Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from sleeper_nb.errors import UNCHANGED, Action, Hint, HintParts, InvalidInput, StorageError
from sleeper_nb.load.casts import BAD_VALUE, InexactValueError, first_bad, from_base64
from sleeper_nb.load.conform import (
    WHOLE_LINE,
    BadValue,
    Difference,
    RawColumns,
    converted,
    raise_first,
    row_number,
)
from sleeper_nb.load.csv_text import KeptLines, Quotes, WatchedText, as_written_in, hint_for, text_stream
from sleeper_nb.load.json_files import parse_json
from sleeper_nb.load.load_options import EXACT, Matching, nameless
from sleeper_nb.load.python_values import ValueRules, cast_exactly, from_python
from sleeper_nb.load.source_files import (
    BLOCK_BYTES,
    ENCODING_HINT,
    OriginalRows,
    SourceFile,
    check_is_text,
    read_errors,
    taken,
)
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.model.load_hints import BY_NAME, UnevenLines
from sleeper_nb.model.schema import FieldType, Schema
from sleeper_nb.report import counted, values_of

logger = logging.getLogger(__name__)


TEXT: Final = "_text"
"""The column of kept-back rows that has a whole line, if its values are too many or too few for the columns."""
_MOST_TEXT = 200
_LOOKED_AT: Final = 20
"""Rows that show whether all lines end with a delimiter too many."""
_MOST_LISTED: Final = 9
"""Lines of one kind of which a difference says the numbers."""
_MOST_WRONG: Final = 1_000
"""Lines with too many or too few values after which a load that keeps none back ends."""
_VALUE = re.compile(
    r"\s*([+-]?[\d.,]*\d[\d.,]*(e[+-]?\d+)?%?|\d{1,4}[-./]\d\d?[-./]\d{1,4}([t ].*)?)\s*", re.IGNORECASE
)
_MOST_EMPTY: Final = 4096
_MOST_NAMES: Final = 5
NO_HEADER: Final = Action("--read header=no", "header=False")
"""The option that says that the first line of a file has values."""
_DELIMITERS = (";", "\t", "|", ",")
_TEXT_TYPES = frozenset({"string", "bytearray"})
"""Types in which a quoted null text is a value."""


def csv_parts(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Iterator[RawColumns]:
    """Yield the rows of a CSV file in parts, with the types of the schema.

    Lines with more or fewer values than there are columns come last: as rows that are kept back, or as differences.

    Raises `InvalidInput` when the file ends inside quotes.
    """
    csv_format = file.csv.for_file(file.path)
    names = csv_names(file, csv_format, matching.columns or schema.names)
    first_record = names if csv_format.header else next(iter(_first_records(file, csv_format, 1)), [])
    _check_is_text(file, first_record)
    _check_delimiter(file, first_record, csv_format, schema)
    table_names = matched_names(names, csv_format, schema, matching)
    if csv_format.header and (matching.columns or not set(table_names).intersection(schema.names)):
        can_be_named = not matching.columns and len(names) != len(schema.names)
        check_has_header(file, names, matching, can_be_named=can_be_named)
    texts = _CsvTexts.of(file, csv_format, names, matching)
    typed = _TypedCsv(texts, schema, matching, table_names)
    last: pa.RecordBatch | None = None  # kept back until the quotes of the whole file are known
    start = 0
    try:
        with closing(texts.batches()) as batches:
            for batch in batches:
                if last is not None:
                    yield typed.columns(last, start)
                    start += last.num_rows
                last = batch
    except pa.ArrowInvalid:
        _check_quotes(file, csv_format, texts.quotes)
        if not texts.wrong.are_too_many:
            raise
    _check_quotes(file, csv_format, texts.quotes)
    yield typed.columns(_no_rows(names) if last is None else last, start)
    if texts.wrong.found:
        yield typed.wrong_lines_as_rows() if matching.keep_back else typed.wrong_lines_as_differences()


class WrongLines:
    """The lines of a CSV file that have too many or too few values, which Arrow then leaves out.

    As rows of the file they come after all others.

    Parameters
    ----------
    most
        With more of them the file is not read to its end; None keeps all.
    """

    def __init__(self, csv_format: CsvFormat, most: int | None = None) -> None:
        self._before, self._most = 1 + csv_format.header, most
        self.found: list[csv.InvalidRow] = []

    def __call__(self, line: csv.InvalidRow) -> Literal["skip", "error"]:
        """Keep a line, as Arrow's handler of invalid rows."""
        self.found.append(line)
        return "error" if self.are_too_many else "skip"

    @property
    def are_too_many(self) -> bool:
        return self._most is not None and len(self.found) > self._most

    @property
    def records(self) -> list[int]:
        """Their places among all records of the file, from 0 and without the header."""
        return [line.number - self._before for line in self.found]

    def record_of(self, row: int) -> int:
        """Return the place among all records of a row that Arrow has read."""
        for record in self.records:
            if record > row:
                break
            row += 1
        return row


def _wrong_number(values: int, columns: int) -> str:
    return f"has {counted(values, 'value')}, but there {'is' if columns == 1 else 'are'} {counted(columns, 'column')}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def csv_sample(file: SourceFile, matching: Matching = EXACT) -> list[tuple[str, pa.Array]]:
    """Return the names of the columns of a CSV file, each with the texts of its first rows, NULL where they mean it.

    Without a header, the names have the numbers of the columns; if they are named in order, and the first line has
    an empty value more, this is no column.
    """
    csv_format = file.csv.for_file(file.path)
    with read_errors(file):
        first = csv_names(file, replace(csv_format, header=True), ())
        width = len(first) - (len(first) - 1 == len(matching.columns) and not first[-1])
        names = first if csv_format.header else tuple(map(nameless, range(1, width + 1)))
        _check_delimiter(file, first, csv_format)
        # the load refuses an empty value more in each line, unless it may be ignored
        found = _CsvTexts.of(file, csv_format, names, replace(matching, keep_back=True, ignore_extra=True))
        with closing(found.batches()) as batches:
            texts = next(batches, _no_rows(names))
    if len(found.wrong.found) > texts.num_rows:  # the first line is no header; of a few, the load names the first
        raise_first([replace(each, source=file.label) for each in found.differences(matching)])
    # between quotes it is a text, unless the column turns out to hold numbers
    nulls = pa.array(csv_format.nulls, pa.string())
    return [
        (name, pc.if_else(pc.is_in(column, nulls), pa.scalar(None, pa.string()), column))
        for name, column in zip(names, texts.columns, strict=True)
    ]


def csv_rows_at(file: SourceFile, schema: Schema, matching: Matching, rows: Sequence[int]) -> OriginalRows:
    """Return the rows of a CSV file that have some indexes, as texts."""
    csv_format = file.csv.for_file(file.path)
    names = csv_names(file, csv_format, matching.columns or schema.names)
    texts = _CsvTexts.of(file, csv_format, names, replace(matching, keep_back=True))
    with closing(texts.batches()) as batches:
        found, count = taken(batches, rows, _no_rows(names).schema)
    wrong = texts.wrong
    lines = [row - count for row in rows if row >= count]  # if any, all batches were read
    records = [wrong.record_of(row) for row in rows[: len(rows) - len(lines)]] + [wrong.records[at] for at in lines]
    in_order = sorted(records)
    numbers = dict(zip(in_order, _lines_of(file, csv_format, in_order), strict=False))
    columns = dict(zip(names, found.columns, strict=True))
    if lines:
        no_values = pa.nulls(len(lines), pa.string())
        columns = {name: pa.chunked_array([*column.chunks, no_values]) for name, column in columns.items()}
        of_lines = [None] * found.num_rows + [wrong.found[at].text.rstrip("\r\n") for at in lines]
        columns[TEXT] = pa.chunked_array([pa.array(of_lines, pa.string())])
    return OriginalRows(columns, [numbers.get(record, record + 1) for record in records])


def _no_rows(names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], pa.string())] * len(names), names=list(names))


@dataclass(frozen=True, slots=True)
class _CsvTexts:
    """The values of a CSV file as Arrow reads them: every column is text.

    Parameters
    ----------
    surplus
        Whether each line has an empty value after those of the columns.
    """

    file: SourceFile
    format: CsvFormat
    names: tuple[str, ...]
    surplus: bool
    wrong: WrongLines
    quotes: Quotes

    @classmethod
    def of(cls, file: SourceFile, csv_format: CsvFormat, names: tuple[str, ...], matching: Matching) -> _CsvTexts:
        surplus = matching.ignore_extra and _has_empty_surplus(file, csv_format, names)
        wrong = WrongLines(csv_format, None if matching.keep_back else _MOST_WRONG)
        return cls(file, csv_format, names, surplus, wrong, Quotes(csv_format))

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows, without the lines that have too many or too few values.

        Raises `InvalidInput` for a value where a line may only have an empty one.
        """
        names = (*self.names, nameless(len(self.names) + 1)) if self.surplus else self.names
        read = csv.ReadOptions(
            use_threads=False,  # so that an error names its row
            block_size=BLOCK_BYTES,
            column_names=list(names),
            skip_rows_after_names=int(self.format.header),
        )
        parse = csv.ParseOptions(
            delimiter=self.format.separator,
            quote_char=self.format.quote_char or False,
            escape_char=self.format.escape or False,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=self.wrong,
        )
        convert = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=list(self.format.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,  # the cast does, and names the line and the value
        )
        with self.file.open() as stream:
            # an empty line may be a row, but not above the names
            text = WatchedText(text_stream(stream, self.format), self.quotes, from_header=self.format.header)
            try:
                reader = csv.open_csv(text, read, parse, convert)
            except pa.ArrowInvalid:
                if not text.is_empty:
                    raise
                return
            with closing(reader):
                row = 0
                for batch in filter(len, reader):
                    if self.surplus:
                        self._check_surplus(batch, row)
                    yield batch.select(list(range(len(self.names))))
                    row += len(batch)

    def _check_surplus(self, batch: pa.RecordBatch, start: int) -> None:
        row = pc.index(pc.greater(pc.fill_null(pc.binary_length(batch.columns[-1]), 0), 0), value=True).as_py()
        if row >= 0:
            line = _line_of(self.file, self.format, self.wrong.record_of(start + row))
            problem = _wrong_number(batch.num_columns, batch.num_columns - 1)
            raise InvalidInput(
                f"{self.file.label}, {line} {problem}, and the last is not empty",
                hint="correct the line, or name one column more in the header",
            )

    def differences(self, matching: Matching) -> tuple[Difference, ...]:
        """Return a difference for the lines with too many values, and one for those with too few."""
        kinds: dict[str, list[tuple[int, csv.InvalidRow]]] = {}
        for record, line in zip(self.wrong.records, self.wrong.found, strict=True):
            kinds.setdefault(_kind_of(line), []).append((record, line))
        return tuple(self._of_lines(lines, matching) for lines in kinds.values())

    def _of_lines(self, lines: Sequence[tuple[int, csv.InvalidRow]], matching: Matching) -> Difference:
        """Return the difference of the first of some lines, with the places of those that follow."""
        line, numbers = lines[0][1], _lines_of(self.file, self.format, [row for row, _ in lines[:_MOST_LISTED]])
        listed = ", ".join(f"{number:,}" for number in numbers)
        more = f" and {len(lines) - len(numbers):,} more" if len(lines) > len(numbers) else ""
        place = f"{'lines' if len(lines) > 1 else 'line'} {listed}{more}" if numbers else ""
        first, text = f"line {numbers[0]:,}" if numbers else "a line", _shortened(line.text.rstrip("\r\n"))
        return replace(
            _of_line(line),
            problem=f"{first} {_wrong_number(line.actual_columns, line.expected_columns)}: {text!r}",
            hint=self._hint(line, matching),
            values=len(lines),
            counted_all=not self.wrong.are_too_many,
            example=text,
            place=place,
        )

    def _hint(self, line: csv.InvalidRow, matching: Matching) -> UnevenLines:
        """Return what to do about a wrong line: one value too many can be ignored if it is empty."""
        ends_so = line.text.rstrip("\r\n").endswith(self.format.separator)
        surplus = line.actual_columns - line.expected_columns
        return UnevenLines(may_all_end_so=surplus == 1 and ends_so and not matching.ignore_extra)


def _has_empty_surplus(file: SourceFile, csv_format: CsvFormat, names: Sequence[str]) -> bool:
    """Return whether the first rows have a value more than there are columns, which is empty in the first one."""
    rows = _first_records(file, csv_format, _LOOKED_AT + csv_format.header)[csv_format.header :]
    return bool(rows) and not rows[0][-1] and all(len(row) == len(names) + 1 for row in rows)


def _ends_inside_quotes(file: SourceFile) -> InvalidInput:
    hint = 'copy the file again if it was truncated, or close the open "'
    return InvalidInput(f"{file.label} ends inside quotes", hint=hint)


def _check_quotes(file: SourceFile, csv_format: CsvFormat, quotes: Quotes) -> None:
    """Raise `InvalidInput` if a file ends inside quotes, or a value continues after its closing quote."""
    if quotes.are_open:
        raise _ends_inside_quotes(file)
    if quotes.regular:
        return
    logger.debug("%s has irregular quotes: checking them with Python's parser", file.label)
    with _Records(file, csv_format, strict=True) as records:
        try:
            for _ in records.rows:
                pass
        except python_csv.Error as error:
            if "unexpected end" in str(error):
                raise _ends_inside_quotes(file) from error
            if "expected after" not in str(error):  # a value is longer than Python's parser accepts
                return
            raise InvalidInput(
                f"{file.label}, line {records.lines_read:,}: a value continues after its closing quote",
                hint=('double a quote inside quotes, as in "a ""b"" c"', UNCHANGED),
            ) from error


def csv_names(file: SourceFile, csv_format: CsvFormat, of_table: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns: those in the header, or `of_table` if the file has no header."""
    if not csv_format.header:
        return tuple(of_table)
    with _Records(file, csv_format) as records:
        record = tuple(next(filter(None, records.rows), ()))
    if record:
        _check_is_text(file, record)
        return record
    raise StorageError(f"cannot read {file.label}: the file is empty", hint="leave it out")


def is_of_values(names: Sequence[str]) -> bool:
    """Return whether the first line of a file is hardly a header, as one of its names is a number or a date."""
    return any(_VALUE.fullmatch(name) for name in names)


def empty_lines_above(file: SourceFile) -> int:
    with file.open() as stream:
        block = bytes(stream.read(_MOST_EMPTY)).removeprefix(codecs.BOM_UTF8)
    above = block[: len(block) - len(block.lstrip(b"\r\n"))]
    return len(above.splitlines())


def matched_names(names: tuple[str, ...], csv_format: CsvFormat, schema: Schema, matching: Matching) -> tuple[str, ...]:
    """Return the table's names for the columns of a CSV file; without a header they already have them."""
    return matching.names(names, schema) if csv_format.header else names


def _first_records(file: SourceFile, csv_format: CsvFormat, most: int) -> list[list[str]]:
    """Return the first records with values; fewer if the parser cannot read one, as a value may be too long for it."""
    records: list[list[str]] = []
    with contextlib.suppress(python_csv.Error), _Records(file, csv_format) as read:
        for record in itertools.islice(filter(None, read.rows), most):
            records.append(record)  # noqa: PERF402 - those before an error count
    return records


def _check_is_text(file: SourceFile, record: Sequence[str]) -> None:
    check_is_text(file, ",".join(record).encode(errors="surrogateescape"))


def check_has_header(file: SourceFile, names: Sequence[str], matching: Matching, *, can_be_named: bool) -> None:
    """Raise `InvalidInput` if the first line has values, and a load would take them for names.

    Where columns can be named, the option that says so names them, too.
    """
    if not is_of_values(names):
        return
    listed = ", ".join(map(repr, names[:_MOST_NAMES]))
    bare = Action("--read header=no --columns a,b", "header=False, columns=['a', 'b']") if can_be_named else NO_HEADER
    hint: HintParts = ("if it has values, add ", bare)
    if matching.columns:
        one, other = names[0], matching.columns[0]
        pair = Action(f"--columns {one}={other}", f"columns={{{one!r}: {other!r}}}")
        hint = (*hint, "; if it has names, give pairs of names: ", pair)
    elif can_be_named:
        hint = (*hint, "; if it has names, add ", BY_NAME)
    raise InvalidInput(f"the first line of {file.label} may have no column names: {listed}", hint=hint)


def _check_delimiter(
    file: SourceFile, first: Sequence[str], csv_format: CsvFormat, schema: Schema | None = None
) -> None:
    """Raise `InvalidInput` if the first line is one value, but another delimiter makes several of it: the columns."""
    if len(first) != 1 or (schema is not None and (len(schema.names) == 1 or first[0] in schema.names)):
        return
    for delimiter in _DELIMITERS:
        parts = first[0].split(delimiter)
        fits = len(parts) > 1 and delimiter != csv_format.separator
        if schema is not None and csv_format.header:
            fits = fits and bool(set(parts) & set(schema.names))
        elif schema is not None:
            fits = fits and len(parts) == len(schema.names)
        if fits:
            word = "tab" if delimiter == "\t" else f"'{delimiter}'"
            option = Action(f"--read delimiter={word}", f"delimiter={delimiter!r}")
            hint: HintParts = (f"if {word} separates its values, add ", option)
            if first[0].startswith("#"):
                hint = ("if it is a comment, add ", Action("--read comment=#", "comment='#'"))
            raise InvalidInput(f"the first line of {file.label} is one value, {first[0]!r}", hint=hint)


class _LongValues:
    """Lets Python's parser, whose limit all threads share, read as long values as Arrow while any of them needs it."""

    def __init__(self) -> None:
        self._lock, self._users, self._usual = Lock(), 0, 0

    def begin(self) -> None:
        with self._lock:
            if not self._users:
                self._usual = python_csv.field_size_limit(2 * BLOCK_BYTES)  # Arrow reads no longer value
            self._users += 1

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                python_csv.field_size_limit(self._usual)


_LONG_VALUES: Final = _LongValues()


class _Records:
    """The records of a file, read by Python's own parser, which counts lines."""

    def __init__(self, file: SourceFile, csv_format: CsvFormat, *, strict: bool = False) -> None:
        stream = text_stream(file.open(), csv_format)
        self._kept = stream if isinstance(stream, KeptLines) else None
        self.text = io.TextIOWrapper(
            io.BufferedReader(stream), encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        self.rows = python_csv.reader(
            self.text,
            delimiter=csv_format.separator,
            quotechar=csv_format.quote_char,
            escapechar=csv_format.escape,
            quoting=python_csv.QUOTE_MINIMAL if csv_format.quote_char else python_csv.QUOTE_NONE,
            strict=strict,
        )

    @property
    def lines_read(self) -> int:
        return self.line_in_file(self.rows.line_num)

    def line_in_file(self, line: int) -> int:
        """Return the number in the file of a line, counting those that the format leaves out."""
        return self._kept.original(line) if self._kept else line

    def __enter__(self) -> Self:
        _LONG_VALUES.begin()
        return self

    def __exit__(self, *_: object) -> None:
        _LONG_VALUES.end()
        self.text.close()


def _line_of(file: SourceFile, csv_format: CsvFormat, row: int) -> str:
    """Return the line on which a row begins, as text; the row's number if the parser cannot read the file so far."""
    lines = _lines_of(file, csv_format, [row])
    return f"line {lines[0]:,}" if lines else row_number(row)


def _lines_of(file: SourceFile, csv_format: CsvFormat, rows: Sequence[int]) -> list[int]:
    """Return the lines on which some rows begin, in order; of those before the first that the parser cannot read."""
    wanted, lines, row, line = set(rows), [], -int(csv_format.header), 1
    is_one_column = any(len(each) == 1 for each in _first_records(file, csv_format, 1))
    with contextlib.suppress(python_csv.Error, UnicodeDecodeError), _Records(file, csv_format) as records:
        for record in records.rows:
            if record or (is_one_column and row >= 0):  # an empty line is a row of one column, but no name
                if row in wanted:
                    lines.append(records.line_in_file(line))
                row += 1
            line = records.rows.line_num + 1
            if len(lines) == len(wanted):
                break
    return lines


def _kind_of(line: csv.InvalidRow) -> str:
    return "has too many values" if line.actual_columns > line.expected_columns else "has too few values"


def _of_line(line: csv.InvalidRow) -> Difference:
    problem = f"the line {_wrong_number(line.actual_columns, line.expected_columns)}"
    return Difference(
        WHOLE_LINE, problem, "correct the line", kind=_kind_of(line), values=1, example=line.text, unit="line"
    )


@dataclass(frozen=True, slots=True)
class _TypedCsv:
    """Gives the texts of a CSV file the types of the schema; `names` are the table's names for its columns."""

    texts: _CsvTexts
    schema: Schema
    matching: Matching
    names: tuple[str, ...]

    @property
    def format(self) -> CsvFormat:
        return self.texts.format

    def _place(self, record: int) -> str:
        return _line_of(self.texts.file, self.format, record)

    def wrong_lines_as_rows(self) -> RawColumns:
        found, records = self.texts.wrong.found, self.texts.wrong.records
        bad = [BadValue.of(row, _of_line(line)) for row, line in enumerate(found)]
        return RawColumns(self.names, {}, len(found), place=lambda row: self._place(records[row]), bad=tuple(bad))

    def wrong_lines_as_differences(self) -> RawColumns:
        return RawColumns(self.names, {}, 0, self.texts.differences(self.matching))

    def columns(self, batch: pa.RecordBatch, start: int) -> RawColumns:
        """Return a batch of texts, whose first row is row `start` of the file, with the types of the schema."""
        columns: dict[str, pa.ChunkedArray] = {}
        fields = {field.name: field for field in self.schema.fields}

        def place(row: int) -> str:
            return self._place(self.texts.wrong.record_of(start + row))

        bad: list[BadValue] = []
        for name, texts in zip(self.names, batch.columns, strict=True):
            if name not in fields:
                continue
            convert = partial(self._values, kind=fields[name].type)
            columns[name], wrong = converted(texts, convert, fields[name], self.matching, self._hint)
            bad += wrong
        return RawColumns(self.names, columns, batch.num_rows, place=place, bad=tuple(bad))

    def _hint(self, error: InexactValueError) -> Hint:
        return ENCODING_HINT if error.is_bad_text and self.format.encoding is None else hint_for(error, self.format)

    def _values(self, texts: pa.Array, kind: FieldType) -> pa.Array:
        if kind.name not in _TEXT_TYPES:
            nulls = pa.array(self.format.nulls, pa.string())
            texts = pc.if_else(pc.is_in(texts, nulls), pa.scalar(None, pa.string()), texts)
        if kind.name == "bytearray":
            return _decoded(texts, kind, from_base64)
        if kind.arguments and kind.name != "decimal":
            return _decoded(texts, kind, parse_json)
        values = as_written_in(self.format, texts, kind)
        return cast_exactly(values, kind, is_requested=self.matching.cast)


def _decoded(texts: pa.Array, kind: FieldType, decode: Callable[[str], Any]) -> pa.Array:
    """Return texts as values of a type, each decoded in Python: bytes, or JSON."""

    def decode_all(part: Sequence[str | None]) -> list[Any]:
        return [None if text is None else decode(text) for text in part]

    values = values_of(texts)
    try:
        decoded = decode_all(values)
    except (*BAD_VALUE, JSONDecodeError) as error:
        index = first_bad(values, decode_all) or 0
        raise InexactValueError("string", kind, index, values[index]) from error
    return from_python(decoded, kind, ValueRules(from_base64))
