"""Answer a statement from metadata: counts, least and greatest values of a table, and its columns. No row is read.

Such a statement is rewritten to one that selects the values, which are parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, Final, Literal

from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.statistics import StatisticsValue, plain_value
from sleeper_nb.read.file_statistics import ExactBounds, exact_bounds
from sleeper_nb.read.predicate import PRUNE_ALL
from sleeper_nb.read.scan_plan import TableRows
from sleeper_nb.sql.binding import Bound, BoundSource
from sleeper_nb.sql.dialects import DialectRules
from sleeper_nb.sql.references import lists_columns
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, unquote

_LIST_COLUMNS: Final = """
SELECT * EXCLUDE (required, row_keys, sort_keys, named, defaults) REPLACE (
  list_extract(defaults, list_position(named, column_name)) AS "default",
  CASE WHEN list_contains(required, column_name) THEN 'NO' ELSE 'YES' END AS "null",
  CASE WHEN list_contains(row_keys, column_name) THEN 'row key'
       WHEN list_contains(sort_keys, column_name) THEN 'sort key' END AS "key")
FROM (DESCRIBE {table}), (SELECT CAST(:required AS VARCHAR[]) AS required,
                                 CAST(:row_keys AS VARCHAR[]) AS row_keys,
                                 CAST(:named AS VARCHAR[]) AS named,
                                 CAST(:defaults AS VARCHAR[]) AS defaults,
                                 CAST(:sort_keys AS VARCHAR[]) AS sort_keys)
"""

_YEARS: Final = {
    "date": (date.min, date.max),
    "timestamp": (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
}


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """A statement that selects what metadata tells.

    Parameters
    ----------
    bound
        The statement; of its table it reads no file.
    values
        Of its parameters.
    note
        What the user is told about the answer.
    """

    bound: Bound
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def answer_from_metadata(bound: Bound) -> MetadataAnswer | None:
    """Return the answer of a statement about one table that metadata can answer; None for any other statement."""
    if len(bound.named) != 1:
        return None
    ((name, source),) = bound.named.items()
    if not isinstance(source, BoundSource) or not isinstance(source.rows, TableRows):
        return None
    asked = aggregates_of(bound.statement, name)
    if asked is not None:
        return _aggregated(bound, name, source, source.rows, asked)
    if bound.statement.rules.describes_in_queries and lists_columns(bound.statement, name):
        return _columns(bound, name, source.rows.state.schema)
    return None


def _columns(bound: Bound, name: str, schema: Schema) -> MetadataAnswer:
    """Return the answer of ``DESCRIBE``: DuckDB describes a relation, which has neither keys nor required fields."""
    roles = {
        "required": [field.name for field in schema.fields if not field.nullable],
        "row_keys": [field.name for field in schema.row_keys],
        "sort_keys": [field.name for field in schema.sort_keys],
        "named": [field.name for field in schema.fields],
        "defaults": [field.default_literal for field in schema.fields],
    }
    return MetadataAnswer(_rewritten(bound, _LIST_COLUMNS.format(table=name)), roles)


def _aggregated(
    bound: Bound, name: str, source: BoundSource, rows: TableRows, asked: Sequence[Aggregate]
) -> MetadataAnswer | None:
    """Return the answer of ``count``, ``min`` and ``max``; None when metadata does not tell one of them."""
    count = rows.rows
    if count is None:
        return None
    fields = {field.name.casefold(): field for field in rows.state.schema.fields}
    ends: dict[str, ExactBounds | None] = {}
    values: dict[str, Any] = {}
    columns = []
    for at, each in enumerate(asked):
        of = None if each.column is None else fields.get(each.column.casefold())
        if of is None and each.column is not None:
            return None  # the engine says that there is no such column
        if of is not None and of.name not in ends:
            ends[of.name] = exact_bounds(rows.state, of)
        known = _value(each, of, count, None if of is None else ends[of.name])
        if known is None:
            return None
        values[f"value_{at}"] = known.value
        columns.append(_expression(known.type, f":value_{at}", bound.statement.rules))
    unread = replace(source, rows=rows.pruned(PRUNE_ALL), reader=None)
    # no row of the statement itself, which gives the answer's columns the names and types that the engine chooses
    text = f"({_without_end(bound.statement)} LIMIT 0) UNION ALL SELECT {', '.join(columns)}"
    selecting = replace(_rewritten(bound, text), named={name: unread})
    is_count = all(each.function == "count" for each in asked)
    return MetadataAnswer(selecting, values, "counted in metadata" if is_count else "answered by metadata")


@dataclass(frozen=True, slots=True)
class _Known:
    """A value of a type; None is null."""

    value: StatisticsValue | None
    type: str


def _value(asked: Aggregate, of: Field | None, count: int, ends: ExactBounds | None) -> _Known | None:
    """Return what is asked for; None when metadata does not tell it."""
    if asked.function == "count":
        if of is None or not of.nullable:
            return _Known(count, "long")
        return None if ends is None else _Known(count - ends.nulls, "long")
    if of is None or ends is None:
        return None
    end = ends.least if asked.function == "min" else ends.greatest
    return _Known(end, of.type.name) if _is_plain(end, of) else None


def _is_plain(value: StatisticsValue | None, of: Field) -> bool:
    """Return whether a day or a time is in the years 1 to 9999.

    Columns also hold infinite ones, which cannot be computed from a number of days or microseconds: the engine reads
    them as it does in every other query.
    """
    ends = _YEARS.get(of.type.name)
    if ends is None or not isinstance(value, int):
        return True
    first, last = (plain_value(end, of.type.arrow) for end in ends)
    return isinstance(first, int) and isinstance(last, int) and first <= value <= last


def _expression(kind: str, value: str, rules: DialectRules) -> str:
    if kind in rules.moments:
        return rules.moments[kind].format(value=value)
    return f"CAST({value} AS {rules.types[kind]})"


def _without_end(statement: Statement) -> str:
    """Return the text of a statement without the semicolon and comments after it."""
    tokens = [token for token in statement.tokens if token.symbol != ";"]
    return statement.text[tokens[0].start : tokens[-1].end]


def _rewritten(bound: Bound, text: str) -> Bound:
    return replace(bound, statement=Statement.of(text, dialect=bound.statement.dialect))


# What a statement asks for.

_FUNCTIONS: Final = frozenset({"COUNT", "MIN", "MAX"})
_VALUES: Final = frozenset({"NULL", "TRUE", "FALSE"})
"""Words that are values, also where a column has such a name."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of an answer.

    Parameters
    ----------
    column
        The column that it is computed of, as written; None for ``count(*)``.
    """

    function: Literal["count", "min", "max"]
    column: str | None


def aggregates_of(statement: Statement, table: str) -> tuple[Aggregate, ...] | None:
    """Return what ``SELECT count(*), min(a), max(a) AS last FROM table AS other`` asks for.

    None for every other statement: one with a ``WHERE``, ``FILTER`` or ``LIMIT`` is another statement.

    Parameters
    ----------
    table
        The name of the table in it.
    """
    tokens, dialect = statement.tokens, statement.dialect
    words = statement.words()
    if not words or words[0] != "SELECT" or "FROM" not in words:
        return None
    at = words.index("FROM")
    named, alias = tokens[at + 1 : at + 2], tokens[at + 2 :]
    if [unquote(token, dialect=dialect) for token in named] != [table] or (alias and not _is_alias(alias)):
        return None
    found = [_aggregate(part, statement) for part in _parts(tokens[1:at])]
    known = [each for each in found if each is not None]
    return tuple(known) if known and len(known) == len(found) else None


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens between commas."""
    begin = 0
    for at, token in enumerate(tokens):
        if token.symbol == ",":
            yield tokens[begin:at]
            begin = at + 1
    yield tokens[begin:]


def _aggregate(tokens: Sequence[Token], statement: Statement) -> Aggregate | None:
    """Return what ``count(*)`` or ``min(a) AS first`` asks for; None for any other tokens."""
    if len(tokens) not in {4, 6} or tokens[0].word not in _FUNCTIONS or tokens[1].symbol + tokens[3].symbol != "()":
        return None
    alias = tokens[4:]
    if alias and not _is_alias(alias):
        return None
    function, what = tokens[0].word.lower(), tokens[2]
    if what.symbol == "*" and function == "count":
        return Aggregate("count", None)
    if what.kind not in {"word", "quoted"} or what.word in _VALUES:
        return None
    return Aggregate(function, unquote(what, dialect=statement.dialect))  # type: ignore[arg-type]


def _is_alias(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 2 and tokens[0].word == "AS" and tokens[1].kind in {"word", "quoted"}
