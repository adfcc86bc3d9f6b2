"""What the engines write differently in SQL, as values: nothing else in this folder asks whose SQL it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sleeper_nb.model.sql_values import Dialect

_QUOTED = r"`(?:[^`]|``)*`"
_BACKSLASHED = r"'(?:[^'\\]|\\.|'')*'"
_SHARED = r"""
  | (?P<number>\d\w*(?:\.\d\w*)?(?:(?<=[eE])[+-]\d+)?)
  | (?P<word>(?:[^\W\d]|[^\x00-\x7f\s])(?:[\w$]|[^\x00-\x7f\s])*)
  | (?P<nested>/\*)
  | (?P<symbol>=>|::|\|>|[^\s])
"""
# Order matters: a string's prefix letter must not be read as a word.
_SPARK = rf"""
    (?P<skip>\s+|--(?:\\\r?\n|[^\r\n])*)
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|[xX]?{_BACKSLASHED}|[xX]?{_BACKSLASHED.replace("'", '"')})
  | (?P<quoted>{_QUOTED})
  {_SHARED}
"""
_DUCKDB = rf"""
    (?P<skip>\s+|--[^\r\n]*)
  | (?P<string>[eE]{_BACKSLASHED}|[xXbB]?'(?:[^']|'')*'|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
  | (?P<quoted>"(?:[^"]|"")*"|{_QUOTED})
  {_SHARED}
"""
_FLAGS = re.DOTALL | re.VERBOSE
_WRITES: Final = "CREATE TABLE, INSERT INTO, UPDATE, DELETE FROM, MERGE INTO, ALTER TABLE, DROP TABLE, TRUNCATE or CALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectRules:
    """The SQL of one engine; the names of most rules say what they mean.

    `tokens` splits a text: block comments nest in each dialect, and strings differ. ``:`` before the name of a
    parameter is replaced by `parameter_mark`. The words in `explain_options` may follow EXPLAIN; with none, options
    stand in brackets. With a word of `lists_columns` before its name, a table's columns are asked for. If
    `shows_only_lists`, SHOW is never about one table. If `takes_returning`, RETURNING belongs to a statement, not to a
    name. An engine that keeps views has its own, which a statement makes and drops. Days and microseconds since 1970
    become a date and a timestamp by `moments`.
    """

    tokens: re.Pattern[str]
    name_quote: str
    escapes_texts: bool
    parameter_mark: str
    how_queries_begin: str
    explain_options: frozenset[str]
    lists_columns: frozenset[str]
    describes_in_queries: bool
    shows_only_lists: bool
    alias_before_table: bool
    sample_before_alias: bool
    subtracts_by_minus: bool
    names_begin_with_digits: bool
    dollar_in_names: bool
    takes_returning: bool
    keeps_views: bool
    error_has_caret: bool
    moment_type: str
    struct_begin: str
    struct_field: str
    types: Mapping[str, str]
    moments: Mapping[str, str]


RULES: Final[Mapping[Dialect, DialectRules]] = {
    "duckdb": DialectRules(
        tokens=re.compile(_DUCKDB, _FLAGS),
        name_quote='"',
        escapes_texts=False,
        parameter_mark="$",
        how_queries_begin=f"begin with SELECT, WITH, FROM, DESCRIBE or SUMMARIZE; or with {_WRITES}",
        explain_options=frozenset(),
        lists_columns=frozenset({"DESCRIBE", "DESC", "SHOW"}),
        describes_in_queries=True,
        shows_only_lists=False,
        alias_before_table=True,
        sample_before_alias=False,
        subtracts_by_minus=False,
        names_begin_with_digits=False,
        dollar_in_names=True,
        takes_returning=True,
        keeps_views=False,
        error_has_caret=True,
        moment_type="TIMESTAMPTZ",
        struct_begin="struct_pack(",
        struct_field="`{}` :=",
        types={
            "int": "INTEGER", "long": "BIGINT", "string": "VARCHAR", "bytearray": "BLOB", "tinyint": "TINYINT",
            "smallint": "SMALLINT",
        },
        moments={
            "date": "DATE '1970-01-01' + CAST({value} AS INTEGER)",
            "timestamp": "make_timestamptz(CAST({value} AS BIGINT))",
        },
    ),
    "spark": DialectRules(
        tokens=re.compile(_SPARK, _FLAGS),
        name_quote="`",
        escapes_texts=True,
        parameter_mark=":",
        how_queries_begin=f"begin with SELECT, WITH, FROM, SHOW or DESCRIBE; or with {_WRITES}",
        explain_options=frozenset({"EXTENDED", "FORMATTED", "CODEGEN", "COST", "LOGICAL"}),
        lists_columns=frozenset({"DESCRIBE", "DESC"}),
        describes_in_queries=False,
        shows_only_lists=True,
        alias_before_table=False,
        sample_before_alias=True,
        subtracts_by_minus=True,
        names_begin_with_digits=True,
        dollar_in_names=False,
        takes_returning=False,
        keeps_views=True,
        error_has_caret=False,
        moment_type="TIMESTAMP",
        struct_begin="named_struct(",
        struct_field="'{}',",
        types={
            "int": "INT", "long": "BIGINT", "string": "STRING", "bytearray": "BINARY", "tinyint": "TINYINT",
            "smallint": "SMALLINT",
        },
        moments={
            "date": "date_from_unix_date(CAST({value} AS INT))",
            "timestamp": "timestamp_micros(CAST({value} AS BIGINT))",
        },
    ),
}  # fmt: skip
