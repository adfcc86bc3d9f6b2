"""SQL as it is typed: what may come next in a statement, whether it writes, and versions that are put into it.

It is for editors and shells. Nothing is run, and names come from a `SqlNames`, so this knows neither sessions nor
notebooks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from sleeper_nb.sql.grammar import QUERY_WORDS
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import in_one_line, last_comment
from sleeper_nb.sql.writes import is_writing

__all__ = [
    "FUNCTIONS",
    "KEYWORDS",
    "NextWords",
    "SqlNames",
    "VersionedStatement",
    "in_one_line",
    "is_query",
    "is_writing",
    "last_comment",
    "next_words",
    "with_version",
]

KEYWORDS: Final = tuple(
    """ALL ALTER AND ANTI ANY AS ASC ASOF BETWEEN BY CASE CAST CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP DATE DELETE
    DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXCLUDE EXISTS EXPLAIN EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL
    GROUP HAVING ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LAST LATERAL LEFT LIKE LIMIT MERGE NATURAL NOT
    NULL NULLS OF OFFSET ON OR ORDER OUTER OVER PARTITION PIVOT POSITIONAL PRECEDING QUALIFY RANGE RECURSIVE
    REPLACE RIGHT ROWS SAMPLE SELECT SEMI SET SHOW SUMMARIZE TABLE THEN TIMESTAMP TRUE TRY_CAST UNBOUNDED UNION
    UNPIVOT UPDATE USING VALUES VERSION WHEN WHERE WINDOW WITH""".split()  # noqa: SIM905 - a line for each would be a page
)
"""The words of a statement, as DuckDB reads it."""
FUNCTIONS: Final = tuple(
    """abs any_value approx_count_distinct approx_quantile arg_max arg_min array_agg avg cast ceil coalesce concat
    concat_ws contains corr count count_if covar_samp date_diff date_part date_trunc day dayname dense_rank epoch_ms
    exp extract first first_value floor format geomean greatest hour histogram if ifnull last last_value lag lead least
    left len length list ln log10 lower lpad ltrim max median min minute mode month monthname ntile nullif now
    percent_rank power quantile_cont quantile_disc quarter rank regexp_extract regexp_matches regexp_replace replace
    reverse right round row_number rpad rtrim second sign split_part sqrt stddev starts_with string_agg strftime
    strptime substring sum time_bucket to_timestamp trim trunc typeof unnest upper var_samp week year""".split()  # noqa: SIM905
)
"""Functions of DuckDB's that many queries use."""
_LAST = re.compile(r"(?:(?P<table>\w[\w-]*)(?:\$\w+(?=@))?(?P<join>[@.$]))?(?P<word>[\w.:-]*)$")
_NAME = re.compile(r"[\w-]+")
_LONGEST: Final = 500
"""Characters of a name with its table: a search for the last one in a long text would take long."""


class SqlNames(Protocol):
    """The names that a statement can use; those of a table that is not found are none, or an error."""

    def tables(self) -> Sequence[str]:
        """Return the tables."""

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a table, as it is now."""

    def versions(self, table: str) -> Sequence[str]:
        """Return what can follow the @ of a table: savepoints and snapshots."""

    def variables(self) -> Sequence[str]:
        """Return the names of values that a statement can bind."""


class NextWords(NamedTuple):
    """What may come next: all words that may stand in place of the fragment that was typed, the nearest first.

    Of the kind ``"name"`` they are tables or columns; a word of SQL may stand there too.
    """

    fragment: str = ""
    words: Sequence[str] = ()
    kind: Literal["variable", "system table", "version", "column", "name"] = "name"


def is_query(text: str) -> bool:
    """Return whether a text of DuckDB's SQL begins like a query, or its EXPLAIN, and writes nothing."""
    first, *rest = (*Statement.of(text, dialect="duckdb").words()[:3], "")
    if first == "EXPLAIN":
        first = rest[1] if rest[0] == "ANALYZE" else rest[0]
    return first in QUERY_WORDS and not is_writing(text)


def next_words(typed: str, text: str, names: SqlNames, *, only_system_tables: bool = False) -> NextWords:
    """Return what may come next after what was typed; columns are of the tables that the whole text names.

    With `only_system_tables`, the statement reads the system tables of one table, by their names.
    """
    match = _LAST.search(typed[-_LONGEST:])
    word, before, join = (match["word"], match["table"] or "", match["join"]) if match else ("", "", None)
    if word.startswith(":"):
        return NextWords(word[1:], names.variables(), "variable")
    if only_system_tables or join == "$":
        from sleeper_nb.maintain.system_tables import SYSTEM_TABLES  # heavy: it brings pyarrow

        return NextWords(word, tuple(SYSTEM_TABLES), "system table")
    if join == "@":
        return NextWords(word, names.versions(before), "version")
    tables = names.tables()
    if join == ".":
        return NextWords(word, names.columns(before) if before in tables else (), "column")
    if not word:
        return NextWords()
    written = set(_NAME.findall(text))
    columns = [column for name in tables if name in written for column in names.columns(name)]
    return NextWords(word, tuple(dict.fromkeys([*tables, *columns])))


@dataclass(frozen=True, slots=True)
class VersionedStatement:
    """A statement of DuckDB's SQL that reads a version wherever it named the table without one.

    `clause` was put in at `places` of the statement as it was written.
    """

    text: str
    clause: str
    places: tuple[int, ...]

    def written_offset(self, offset: int) -> int:
        """Return the place in the statement as it was written for one of the text."""
        for place in self.places:
            if offset <= place:
                break
            offset = max(place, offset - len(self.clause))
        return offset


def with_version(statement: str, table: str, version: int) -> VersionedStatement:
    """Return a statement of DuckDB's SQL that reads a version of a table wherever it names the table without one."""
    clause, places, parts, last = f" VERSION AS OF {version}", list[int](), list[str](), 0
    for reference in table_references(Statement.of(statement, dialect="duckdb")):
        name = reference.name.partition("$")[0]  # of a system table
        if name.casefold() == table.casefold() and reference.clause is None and reference.role == "read":
            places.append(reference.end)
            parts += [statement[last : reference.end], clause]
            last = reference.end
    return VersionedStatement("".join((*parts, statement[last:])), clause, tuple(places))
