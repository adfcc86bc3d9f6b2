"""How values are shown: as a `Grid`, which becomes aligned text or escaped HTML, deterministic and without scripts.

A value that a user sees is a `Report`: its `grid` is what is shown, its `to_dict` is what a program reads.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from zoneinfo import ZoneInfo

from sleeper_nb.errors import Action, visible, visible_line
from sleeper_nb.tabular import Items, Tabular, as_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values as Python objects.

    Dates and times outside the years 1 to 9999 become text, and text that is not UTF-8 becomes bytes.
    """
    try:
        instants = _instants(column)
        return list(column.to_pylist()) if instants is None else instants
    except (OverflowError, ValueError):  # of date and datetime, or of decoding
        return [_value_or_text(scalar) for scalar in column]


def _instants(column: pa.Array | pa.ChunkedArray) -> list[Any] | None:
    """Return instants in microseconds; None for another type. Arrow would import pandas first, for 0.2 s."""
    kind = column.type
    if str(kind) == "time64[ns]":  # of which Python has no type, and Arrow drops the end
        return [
            None if number is None else _moment_text(number, "ns").partition(" ")[2]
            for number in column.cast("int64").to_pylist()
        ]
    if getattr(kind, "tz", None) != "UTC" or kind.unit != "us":
        return None
    numbers = column.cast("int64").to_pylist()
    zone = ZoneInfo("UTC")  # as Arrow gives it
    begin = datetime(1970, 1, 1, tzinfo=zone)
    return [None if number is None else begin + timedelta(microseconds=number) for number in numbers]


def _value_or_text(scalar: Any) -> Any:
    from pyarrow import types

    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        kind = scalar.type
        if types.is_map(kind):
            return [(_value_or_text(pair["key"]), _value_or_text(pair["value"])) for pair in scalar.values]
        if types.is_struct(kind):
            return {name: _value_or_text(each) for name, each in scalar.items()}
        if types.is_nested(kind):
            return [_value_or_text(each) for each in scalar.values]
        if types.is_date(kind):
            return _moment_text(scalar.value, "D" if types.is_date32(kind) else "ms", kind.bit_width).partition(" ")[0]
        if types.is_timestamp(kind):
            text = _moment_text(scalar.value, kind.unit)
            return text if text.endswith("infinity") or not kind.tz else f"{text} UTC"
        if types.is_string(kind) or types.is_large_string(kind):
            return scalar.as_buffer().to_pybytes()
        raise


def _moment_text(value: int, unit: Any, bits: int = 64) -> str:
    """Return a date or time of any year in the format of reports; the ends of the type are DuckDB's infinite ones."""
    import numpy as np

    if abs(value) == 2 ** (bits - 1) - 1:
        return "infinity" if value > 0 else "-infinity"
    text = str(np.datetime64(value, unit)).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    if not text.startswith("-"):
        return text
    year, rest = text[1:].split("-", 1)
    return f"-{year:0>4}-{rest}"


NULL = "NULL"
"""How a missing value of a user's data is shown. A text that reads the same is shown in quotes."""
_MOST_WHOLE = 1e16


@dataclass(frozen=True, slots=True)
class Bytes:
    """A number of bytes, shown in binary units (``1.2 MiB``)."""

    count: int

    def __str__(self) -> str:
        size = float(self.count)
        for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
            if size < 1024 or unit == "TiB":
                return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
            size /= 1024
        raise AssertionError


@dataclass(frozen=True, slots=True)
class Data:
    """A value of a user's data: shown as it is, and as ``NULL`` when it is missing.

    Numbers are not rounded and have no thousands separators, unlike those of cells that are no `Data`.
    """

    value: object
    single: bool = False  # whether its numbers have 32 bits, and are written with as many digits as these need

    def __str__(self) -> str:
        value = self.value
        if value is None:
            return NULL
        if isinstance(value, str) and value.strip("'") == NULL:
            return f"'{cell_text(value)}'"  # a text that says NULL is not a missing value
        if isinstance(value, float):
            return _every_digit(value, single=self.single)
        if isinstance(value, Decimal):
            return f"{value:f}"
        if isinstance(value, datetime):
            fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
            return _time_text(value, fraction)
        if isinstance(value, dict):
            return f"{{{', '.join(f'{name}: {self._inner(each)}' for name, each in value.items())}}}"
        if isinstance(value, list):
            return self._of_list(value)
        if type(value).__name__ == "MonthDayNano":
            return _interval_text(*cast("tuple[int, int, int]", value))
        plain = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if plain else cell_text(value)

    def _of_list(self, values: list[object]) -> str:
        if values and all(type(each) is tuple for each in values):  # as Arrow gives a map; an interval is a subclass
            pairs = (f"{self._inner(key)}: {self._inner(each)}" for key, each in cast("list[tuple[Any, Any]]", values))
            return f"{{{', '.join(pairs)}}}"
        return f"[{', '.join(map(self._inner, values))}]"

    def _inner(self, value: object) -> str:
        """Return a value inside another one; a text has quotes, which show where it ends."""
        return repr(value) if isinstance(value, str) else str(Data(value, self.single))


def _time_text(value: datetime, fraction: str = "") -> str:
    return value.replace(microsecond=0, tzinfo=None).isoformat(" ") + fraction + (" UTC" if value.tzinfo else "")


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    parts = [f"{number} {noun}{'s' * (number != 1)}" for number, noun in ((months, "month"), (days, "day")) if number]
    if nanoseconds or not parts:
        parts.append(f"{Decimal(nanoseconds).scaleb(-9).normalize():f} s")
    return " ".join(parts)


def _every_digit(value: float, *, single: bool) -> str:
    """Return a number with as few digits as distinguish it from every other number of its type."""
    if value.is_integer() and abs(value) < _MOST_WHOLE:
        return f"{value + 0.0:.0f}"  # a zero has no sign
    if single:
        import numpy as np

        return str(np.float32(value))
    return repr(value)


@dataclass(frozen=True, slots=True)
class Code:
    """A line of a user's text or of an error, in which a caret may point at a character of the line above."""

    text: str

    def __str__(self) -> str:
        return self.text


class StateWord(str):
    """A state as programs read it, ``FINISHED``; a person reads ``finished``."""

    __slots__ = ()


def is_missing(value: object) -> bool:
    """Return whether a cell has no value."""
    return value is None or (isinstance(value, Data) and value.value is None)


def is_number(value: object) -> bool:
    """Return whether a cell is aligned to the right."""
    if isinstance(value, Data):
        value = value.value
    return isinstance(value, int | float | Decimal | Bytes) and not isinstance(value, bool)


def data_rows(rows: pa.Table) -> tuple[tuple[object, ...], ...]:
    """Return the rows of a user's data as cells."""
    kinds = (set(re.findall(r"float|double", str(column.type))) for column in rows.columns)
    cells = (
        [Data(value, kind == {"float"}) for value in values_of(column)]
        for column, kind in zip(rows.columns, kinds, strict=True)
    )
    return tuple(zip(*cells, strict=True))


def cell_text(value: object) -> str:
    """Return `value` as one line of text: thousands separated, times in UTC, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Decimal):
        return f"{value:,f}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, StateWord):
        return value.replace("_", " ").lower()
    return visible_line(str(value))


SHOWN_ROWS = 50
"""A longer listing shows only so many rows, and how many it has."""

MOST_SHOWN = 1_000
"""The most rows of a user's data that are shown."""

_CARD = "margin:4px 0 10px;line-height:1.5;"
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:6px 0;"
_PLAIN_ROW = "background:none;"  # JupyterLab colours every other row of a table
_RULE = "border-bottom:1px solid rgba(128,128,128,0.3);"  # of a grey that untrusted notebooks keep, unlike color-mix
_ROW = f"{_PLAIN_ROW}{_RULE}"
_HEAD = "font-weight:600;opacity:0.75;"
_QUIET = "opacity:0.75;"
_CHIP = (
    "display:inline-block;margin:2px 6px 2px 0;padding:0 8px;border-radius:10px;background:rgba(128,128,128,0.15);"
    "font-size:12px;line-height:20px;font-variant-numeric:tabular-nums;"
)
_LONGEST_CHIP = 56
"""The longest part of a footer, in characters, that is no sentence."""
_LONG_ID = re.compile(r"(?:[0-9a-f]{32}-)?([0-9a-f]{8})[0-9a-f]{24}(?:\.parquet)?")
"""An id of a job, or the name of a file; of a file of a load, the digits that tell it from the others of the load."""
_WITH_REASON = re.compile(r"(\S+) \((.+)\)")
_FIRST_WORD = re.compile(r"[a-z]+(?=[ ,;]|$)")
"""Of a sentence that begins with a small letter; a name before a colon keeps its own."""
_CELL = "padding:2px 10px;"  # on each cell, as the styles of a page for cells would override an inherited one
_TOP = "vertical-align:top;"  # of a name beside lines of text; JupyterLab puts it in the middle
_NUMBER = "text-align:right;white-space:nowrap;"
_TEXT = "text-align:left;"
LEAST_CELL_BYTES = len(f'<td style="{_CELL}{_TEXT}"></td>')
"""Of a cell of a table as HTML; the cells with the names of the columns are larger."""
_SHORT = f"{_TEXT}white-space:nowrap;"
NO_MATHS = "tex2jax_ignore mathjax_ignore"
"""Classes of HTML in which MathJax looks for no formula."""
_MATHS = re.compile(r"\$|\\(?=[(\[]|begin)")
_WIDEST = 80
"""The most characters of one value in a line; longer values continue in the next line, and nothing is cut."""
_LONG = "max-width:80ch;overflow-wrap:anywhere;"
_LONGEST_LINE = 40
"""The longest text that is never broken into lines: names, times and ranges of keys."""


@dataclass(frozen=True, slots=True)
class Display:
    """How rows of data are shown: at most `rows`, and with the time that reading them took if `timed`."""

    rows: int = 20
    timed: bool = True


def class_name(value: Any) -> str:
    """Return the name of the class of a value, with its module unless it is built in."""
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def counted(number: int, noun: str) -> str:
    """Return a count of things: ``1 file``, ``1,200 files``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


CONFIRM = "force=True does it; dry_run=True only returns the plan"
"""The hint of an unconfirmed deletion in Python."""
CLEAN_UP = Action("--force", "dry_run=False")


def nothing_done(action: Action, prefix: str) -> str:
    """Return the footer of a plan that was only shown: which action carries it out, where that can be typed."""
    can_be_typed = action.line if prefix else action.python or action.line
    return f"nothing was changed; {action.text(prefix)} does it" if can_be_typed else "nothing was changed"


def notes_line(*notes: str) -> str:
    """Return notes as one line, separated by ``·``; empty ones are left out."""
    return " · ".join(filter(None, notes))


def duration_text(seconds: float) -> str:
    """Return a duration as text: ``0.25 s``, ``12.3 s``, ``4 min 5 s``, ``2 h 3 min``."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def rate_text(rows: int, seconds: float) -> str:
    """Return the speed of some work, to follow its name: ``, 1,200 rows/s``; the empty text when no time passed."""
    return f", {rows / seconds:,.0f} rows/s" if seconds > 0 else ""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under column names, with a title above and a footer below.

    Parameters
    ----------
    columns, rows
        The names, empty in a list of names and values; and the cells of each row.
    title, footer
        Lines above and below; the parts of a line are separated by ``·``.
    result
        What the rows come to, in one sentence, for a card; the text does without.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    title: str = ""
    footer: str = ""
    result: str = ""

    def text(self) -> str:
        """Return the grid as aligned plain text."""
        cells = [list(line) for row in self.rows for line in zip_longest(*map(_lines_of, row), fillvalue="")]
        table = [list(map(visible_line, self.columns)), *cells] if any(self.columns) else cells
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))] if table else []
        right = [self._holds_numbers(i) for i in range(len(widths))]
        lines = [
            "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
            for line in table
        ]
        if any(self.columns):
            lines.insert(1, "  ".join("-" * w for w in widths))
        around = ([visible(text)] if text else [] for text in (self.title, self.footer))
        return "\n".join([*next(around), *lines, *next(around)])

    def html(self) -> str:
        """Return the grid as a card in escaped HTML, which takes its colours from the page.

        A card has a title, the result in one sentence, the rows, and the footer as chips. A result folds the names and
        values that it sums up.
        """
        head = (self.title or self.result).splitlines()
        titles = (f'<div style="font-weight:600;">{escaped(sentence(line))}</div>' for line in head)
        result = f"<div>{escaped(sentence(self.result))}</div>" if self.title and self.result else ""
        table = self._table_html()
        if table and self.result and (self._is_of_names or len(self.rows) == 1):
            table = folded("Details", table)
        style = _QUIET if table or self.title else ""
        footer = (_footer_html(line, style) for line in self.footer.splitlines())
        return "".join((f'<div class="{NO_MATHS}" style="{_CARD}">', *titles, result, table, *footer, "</div>"))

    @property
    def _is_of_names(self) -> bool:
        """Whether each row has a name and its values, below no heads."""
        return not any(self.columns)

    def _table_html(self) -> str:
        """Return the rows below their heads: rules are between rows of a table, and none in a list of names."""
        if not self.rows and (self.title or self._is_of_names):
            return ""
        right = [self._is_mostly_numbers(i) for i in range(len(self.columns))]
        heads, row_style = "", _PLAIN_ROW
        if not self._is_of_names:
            row_style = _ROW
            heads = "".join(
                f'<th scope="col" style="{_CELL}{_NUMBER if r else _TEXT}{_HEAD}">{escaped(name)}</th>'
                for name, r in zip(self.columns, right, strict=True)
            )
            heads = f'<thead><tr style="{_ROW}">{heads}</tr></thead>'
        ids, style = ({}, _TOP) if self._is_of_names else (_short_ids(self.rows), "")
        rows = (f'<tr style="{row_style}">{_cells_html(row, right, ids, style)}</tr>' for row in self.rows)
        return f'<table style="{_TABLE}">{heads}<tbody>{"".join(rows)}</tbody></table>'

    def _holds_numbers(self, column: int) -> bool:
        values = [value for row in self.rows if not is_missing(value := row[column])]
        return bool(values) and all(map(is_number, values))

    def _is_mostly_numbers(self, column: int) -> bool:
        """Whether a column is aligned to the right on a page, where values of several kinds may share one."""
        values = [value for row in self.rows if not is_missing(value := row[column])]
        return 2 * sum(map(is_number, values)) > len(values)


def escaped(text: str) -> str:
    """Return a text as HTML in which notebooks find no formula, whatever characters it has."""
    return _MATHS.sub(r"<span>\g<0></span>", html.escape(visible(text)))


def sentence(text: str) -> str:
    """Return a text that begins as a sentence does; one that begins with a name, a number or a command stays."""
    return text[0].upper() + text[1:] if _FIRST_WORD.match(text) else text


def folded(summary: str, inner: str) -> str:
    """Return HTML that a click on its summary shows."""
    head = f'<summary style="cursor:pointer;{_QUIET}">{escaped(summary)}</summary>'
    return f'<details style="margin:2px 0;">{head}{inner}</details>'


def _footer_html(line: str, style: str) -> str:
    """Return a line below the rows: short parts are chips, and what is longer, or alone, a sentence."""
    parts = line.split(" · ")
    if len(parts) == 1:
        return f'<div style="{style}">{escaped(sentence(line))}</div>'
    chips = "".join(_chip(part) for part in parts if len(part) <= _LONGEST_CHIP)
    long = (f'<div style="{style}">{escaped(sentence(part))}</div>' for part in parts if len(part) > _LONGEST_CHIP)
    return f"<div>{chips}</div>{''.join(long)}"


def without_reason(part: str) -> str:
    """Return a part of a footer without the reason in brackets: ``duckdb (auto: …)`` becomes ``duckdb``."""
    found = _WITH_REASON.fullmatch(part)
    return part if found is None else found[1]


def _chip(part: str) -> str:
    """Return a short part of a footer; the reason in brackets is in its tooltip."""
    shown = without_reason(part)
    tip = f' title="{html.escape(visible(part))}"' if shown != part else ""
    return f'<span style="{_CHIP}"{tip}>{escaped(shown)}</span>'


def _short_ids(rows: Iterable[Sequence[object]]) -> Mapping[str, str]:
    """Return the first digits of the long ids in some rows, by the id; none when two have the same ones."""
    found = {cell: _LONG_ID.fullmatch(cell) for row in rows for cell in row if isinstance(cell, str)}
    short = {cell: f"{match[1]}…" for cell, match in found.items() if match is not None}
    return short if len(set(short.values())) == len(short) else {}


def _cells_html(row: Sequence[object], right: Sequence[bool], ids: Mapping[str, str], style: str) -> str:
    cells, cell = [], f"{_CELL}{style}"
    for value, is_right in zip(row, right, strict=True):
        text = cell_text(value)
        if isinstance(value, str) and value in ids:
            cells.append(f'<td style="{cell}{_TEXT}"><span title="{escaped(text)}">{escaped(ids[value])}</span></td>')
        else:
            aligned = _NUMBER if is_right else _text_style(text)
            cells.append(f'<td style="{cell}{aligned}">{_cell_html(value, text)}</td>')
    return "".join(cells)


def _cell_html(value: object, text: str) -> str:
    if isinstance(value, Data) and value.value is None:
        return f'<i style="opacity:0.7;">{escaped(text)}</i>'
    shown = escaped(text)
    if isinstance(value, Code):
        return f'<code style="white-space:pre-wrap;">{shown}</code>'
    return f'<div style="{_LONG}">{shown}</div>' if len(text) > _WIDEST else shown


def _lines_of(value: object) -> list[str]:
    """Return the lines of a cell as text: a long value of a user's data continues below, whole."""
    text = cell_text(value)
    if not isinstance(value, Data) or len(text) <= _WIDEST:
        return [text]
    return [text[at : at + _WIDEST] for at in range(0, len(text), _WIDEST)]


def _text_style(text: str) -> str:
    """Return the style of a text cell; a short text of several words is kept on one line."""
    return _SHORT if len(text) <= _LONGEST_LINE and any(mark in text for mark in " -") else _TEXT


_PREFIX = "prefix"


def cells_as_arrow(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return the cells of a grid as Arrow: the values of a user's data, bytes as numbers, everything else as it is."""
    return as_arrow({name: [_plain(row[i]) for row in rows] for i, name in enumerate(columns)})


def _plain(cell: object) -> object:
    if isinstance(cell, Data):
        return cell.value
    return cell.count if isinstance(cell, Bytes) else cell


class Report:
    """Base class of the values that operations return; `grid` is what each shows.

    A report that names actions has a field `prefix`, empty in Python, which `report_for` sets.
    """

    __slots__ = ()

    def grid(self) -> Grid:
        """Return what the report shows."""
        raise NotImplementedError  # pragma: no cover - each report has its own

    def to_dict(self) -> dict[str, Any]:
        """Return the report's fields as a new dictionary."""
        names = (field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name != _PREFIX}

    def __repr__(self) -> str:
        return self.grid().text()

    def _repr_html_(self) -> str:
        return self.grid().html()


def report_for(report: Report, prefix: str) -> Report:
    """Return a report with its actions written as they are typed after a prefix; see `Action.text`."""
    if isinstance(report, Stacked):
        return Stacked(tuple((name, report_for(part, prefix)) for name, part in report.parts))
    if _PREFIX not in getattr(report, "__dataclass_fields__", {}):
        return report
    return dataclasses.replace(report, prefix=prefix)  # type: ignore[type-var]


class TableReport(Report, Tabular):
    """Base class of reports that are a table: one row for each job, file, snapshot … that the report is about."""

    __slots__ = ()

    def cells(self) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        """Return the names of the columns, and all rows; those of the grid, unless it shows fewer or others."""
        shown = self.grid()
        return shown.columns, shown.rows

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with bytes as numbers; a column without a name is called ``what``."""
        columns, rows = self.cells()
        return cells_as_arrow([name or "what" for name in columns], rows)

    def __len__(self) -> int:
        return len(self.cells()[1])


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Report, Tabular):
    """A report that is a grid and nothing else; `rows` has the values with their types, where they came from Arrow."""

    shown: Grid
    rows: pa.Table | None = dataclasses.field(default=None, compare=False)

    def grid(self) -> Grid:
        """Return the grid."""
        return self.shown

    def to_dict(self) -> dict[str, Any]:
        """Return the columns, each with its values."""
        values = [[cell.value if isinstance(cell, Data) else cell for cell in row] for row in self.shown.rows]
        return {name: [row[i] for row in values] for i, name in enumerate(self.shown.columns)}

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return cells_as_arrow(self.shown.columns, self.shown.rows) if self.rows is None else self.rows

    def __len__(self) -> int:
        return len(self.shown.rows)

    def __bool__(self) -> bool:
        return len(self) > 0


@dataclass(frozen=True, slots=True, repr=False)
class Stacked(Report):
    """Several reports, one below the other; `to_dict` has each under its name."""

    parts: tuple[tuple[str, Report], ...]

    def grid(self) -> Grid:
        """Return the first report's grid."""
        return self.parts[0][1].grid()

    def to_dict(self) -> dict[str, Any]:
        """Return what each report returns, under its name."""
        return {name: part.to_dict() for name, part in self.parts}

    def __repr__(self) -> str:
        return "\n\n".join(repr(part) for _, part in self.parts)

    def _repr_html_(self) -> str:
        return "".join(part._repr_html_() for _, part in self.parts)


T = TypeVar("T")


class OnDemand(Sequence[T]):
    """A sequence whose values are made at their first use, each by `make` of its argument in `of`.

    Iteration leaves out those that are gone by then: `make` raises `gone`.
    """

    def __init__(self, of: Sequence[Any], make: Callable[[Any], T], gone: type[Exception]) -> None:
        self._of, self._make, self._gone, self._made = of, make, gone, dict[int, T]()

    def __len__(self) -> int:
        return len(self._of)

    def __getitem__(self, index: Any) -> Any:
        places = range(len(self._of))[index]
        if isinstance(places, range):
            return tuple(self[i] for i in places)
        if places not in self._made:
            self._made[places] = self._make(self._of[places])
        return self._made[places]

    def __iter__(self) -> Iterator[T]:
        for place in range(len(self._of)):
            try:
                made = self[place]
            except self._gone:
                continue
            yield made


@dataclass(frozen=True, slots=True, repr=False)
class Listing(Report, Items[T], Generic[T]):
    """A sequence of values that is shown as a table with one row for each.

    Parameters
    ----------
    items
        The values.
    columns, cells
        The names of the columns, and the row of each value.
    title, footer
        Lines above and below.
    """

    items: Sequence[T]
    columns: tuple[str, ...]
    cells: tuple[tuple[object, ...], ...]
    title: str = ""
    footer: str = ""

    def grid(self) -> Grid:
        """Return the first rows, and below them how many there are if some are left out."""
        footer = self.footer
        if len(self.cells) > SHOWN_ROWS:
            cut = f"first {SHOWN_ROWS} of {len(self.cells):,} rows"
            footer = f"{cut} · {footer}" if footer else cut
        return Grid(self.columns, self.cells[:SHOWN_ROWS], self.title, footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns, each with its values."""
        return {name: [row[i] for row in self.cells] for i, name in enumerate(self.columns)}

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with bytes as numbers."""
        return cells_as_arrow(self.columns, self.cells)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)
